"""A `.splice` spec as a transform spec: its artifacts built, its text made, its files written.

It imports the compiler; import it only when there is something to export.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_name
from opsplice.common.store import Store
from opsplice.compiling import prebuilt
from opsplice.compiling.compilation import targets_for
from opsplice.compiling.resolution import Artifacts
from opsplice.compiling.spec_files import load_splice
from opsplice.compiling.spec_sources import SpecPath, SpecSource, resolve
from opsplice.pipeline.devices import target_step
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan.planner import Resolver
from opsplice.rewrites.transform_dialect.export.artifact_paths import Carrier
from opsplice.rewrites.transform_dialect.export.exporter import Export, export
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact

UNALIGNED = "IREE may pass kernels buffers that start at any offset, so they must not use aligned loads and stores"


@dataclass(frozen=True)
class Exported:
    """A transform spec.

    text: the spec. notes: what to know of it as a whole. rules: for each rule in it where it stands and what its
    matchers cover, by name. left_out: for each rule that is not whole in it, where it stands and what has no
    counterpart. files: what belongs beside it.
    """

    text: str
    rules: tuple[dict[str, Any], ...]
    left_out: tuple[dict[str, Any], ...]
    files: dict[str, bytes] = dataclasses.field(repr=False)
    notes: tuple[str, ...] = ()


def export_spec(
    spec: SpecPath | SpecSource,
    flags: Sequence[str] = (),
    targets: Sequence[str] = (),
    objects: Carrier = "path",
    folder: Path = Path(),
    *,
    partial: bool = False,
    no_code: bool = False,
) -> Exported:
    """Make a transform spec of a `.splice` file.

    flags, targets: what the programs will be compiled for. objects, folder: how kernels go along, and for copies the
    folder, relative to the spec's, that they go to. partial: leave out what has no counterpart. no_code: take prebuilt
    artifacts only.

    Raises OpspliceError for constructs without a counterpart, all at once, and whatever reading the spec and building
    its artifacts raise.
    """
    (source,) = resolve(spec)
    check_name(source.path)
    loaded = prebuilt.only(load_splice(source, hint="export takes a spec in our own language"), no_code)
    flags = tuple(flags)
    built_for = targets_for(flags, [target_step(tuple(targets), flags)] if targets else [])
    notes = (UNALIGNED,) if any(rule.kernel in loaded.kernels for rule in loaded.rules) else ()
    head = f"{source.path.name}, exported by opsplice: for --iree-preprocessing-transform-spec-filename."
    found = export(loaded, built_for, _resolver(objects), objects, folder, "\n".join([head, *notes]))
    if found.gaps and not partial:
        raise _no_counterpart(found)
    if not found.rules:
        raise OpspliceError(f"nothing of {spec} can be exported", details=_lines(found))
    return Exported(
        text=found.text,
        rules=tuple(
            {
                "rule": r.rule.title,
                "location": str(r.rule.span),
                "matchers": [{"name": m.name, "covers": m.covers} for m in r.matchers],
                "notes": list(r.notes),
            }
            for r in found.rules
        ),
        left_out=tuple(
            {
                "rule": rule.title,
                "location": str(rule.span),
                "constructs": [{"location": str(g.span), "what": g.what, "why": g.why} for g in gaps],
            }
            for rule, gaps in found.gaps
        ),
        files=dict(found.copies),
        notes=notes,
    )


def _resolver(objects: Carrier) -> Resolver:
    """Artifacts as ever; for bytes, those for CPUs become bitcode, for only that links from bytes."""
    artifacts = Artifacts(Store())
    if objects == "path" and cache.is_temporary(artifacts.store.root):
        raise OpspliceError(
            "there is no home folder for the cache, so the paths of kernels would lead nowhere",
            hint="set OPSPLICE_CACHE, or export with --objects=copy",
        )
    if objects == "path" and not emit.is_linkable(artifacts.store.root):
        raise OpspliceError(
            f"IREE's linker takes no file of the cache, {artifacts.store.root}: it quotes no spaces and the like",
            hint="set OPSPLICE_CACHE, or export with --objects=copy",
        )

    def resolve(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        source = Path(clause.path).suffix not in (".o", ".bc")
        if objects == "bytes" and source and clause.form is None and target.backend == "llvm-cpu":
            clause = dataclasses.replace(clause, form="bitcode")
        return artifacts.of_kernel(clause, symbol, target)

    return resolve


def _no_counterpart(found: Export) -> OpspliceError:
    count = len(dict.fromkeys(gap for _, gaps in found.gaps for gap in gaps))
    things = "one construct has" if count == 1 else f"{count} constructs have"
    return OpspliceError(
        f"{things} no counterpart in the transform dialect",
        details=_lines(found),
        hint="--partial exports the rest",
    )


def _lines(found: Export) -> str:
    return "\n".join(dict.fromkeys(str(gap) for _, gaps in found.gaps for gap in gaps))

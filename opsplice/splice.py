"""Specs applied to a module at one point of the pipeline: find, plan, edit, and report."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers import engine
from opsplice.matchers.graph import Graph, compile_pattern
from opsplice.matchers.match import Found, Match, NearMiss, Size
from opsplice.pipeline.compiler import Step
from opsplice.report import ArtifactUse, DimSize, Miss, Replacement, Report, UnmatchedRule
from opsplice.rewrites import fallback, static_function, transform_spec
from opsplice.rewrites.devices import ProgramTarget, parse_target, targets_of
from opsplice.rewrites.plan import Choice, Plan, Resolver, plan
from opsplice.spec_lang import tree
from opsplice.spec_lang.loader import LoadedSpec
from opsplice.specs import Spec, TransformSpec
from opsplice.targets import cpu
from opsplice.targets.artifacts import Artifact, ArtifactRequest, CpuTarget
from opsplice.targets.store import Store

_NEAREST = 3


@dataclass(frozen=True)
class Splicer:
    """Applies specs to a module that is at phase `input` or later, before dispatches are formed.

    targets: what the program is compiled for; None reads them from the module (from phase `preprocessing` on).
    """

    store: Store
    targets: tuple[ProgramTarget, ...] | None = None

    def apply(self, module: ir.Module, spec: Spec) -> tuple[Report, tuple[Step, ...]]:
        """Change the module as the spec says. Returns what was done, and edits that are to follow at later phases.

        Raises OpspliceError for an artifact that is missing or broken and for a transform spec that fails.
        """
        if isinstance(spec, TransformSpec):
            return self._transform(module, spec), ()
        found = _find(module, spec)
        chosen = self._plan(module, spec, found, self._resolve)
        if not any(chosen.kept):
            static_function.apply(module, chosen.calls)
            return _report(spec, found, chosen), ()
        before = fallback.executables(module)
        static_function.apply(module, fallback.split(module, chosen.calls, chosen.kept))
        drop = functools.partial(fallback.drop_missing, names=fallback.executables(module) - before)
        return _report(spec, found, chosen), (Step(fallback.DROP_PHASE, "targets without an artifact", drop),)

    def preview(self, module: ir.Module, spec: Spec) -> Report:
        """What `apply` would do, with nothing changed and nothing built. A transform spec can only be applied."""
        if isinstance(spec, TransformSpec):
            return self._transform(module, spec)
        found = _find(module, spec)
        return _report(spec, found, self._plan(module, spec, found, _named_only))

    def _plan(self, module: ir.Module, spec: LoadedSpec, found: Found, resolve: Resolver) -> Plan:
        targets = targets_of(module) if self.targets is None else self.targets
        return plan(found.matches, spec.rules, spec.kernels, targets, resolve, fallback.obstacle(module, targets))

    def _resolve(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        request = ArtifactRequest(
            path=_path_of(clause),
            symbols=(symbol,),
            form=_FORMS[clause.form],
            flags=tuple(shlex.split(clause.flags or "")),
        )
        try:
            return cpu.resolve(request, CpuTarget.of(target.arch, target.features), self.store)
        except OpspliceError as error:
            error.details = "\n".join(filter(None, [error.details, f"needed by the kernel at {clause.span}"]))
            raise

    # ---- transform dialect ----------------------------------------------------------------------------------------

    def _transform(self, module: ir.Module, spec: TransformSpec) -> Report:
        outcome = transform_spec.apply(module, spec.path, lambda path, text: self._object(spec, path, text))
        where = str(spec.path)
        replacements = tuple(
            Replacement(
                rule=f"transform spec {spec.path.name}",
                rule_location=where,
                pattern="",
                function=_function(change.function),
                location=change.location,
                dims={},
                kernel=change.symbol,
                action="transform dialect",
            )
            for change in outcome.changes
        )
        rules = tuple(UnmatchedRule(f"@{p.matcher} -> @{p.action}", where, p.matcher) for p in outcome.unmatched)
        warnings: tuple[str, ...] = ()
        if outcome.otherwise:
            warnings = (f"{where} also changed the module in ways that are no calls and are not counted",)
        elif not replacements and not rules:
            warnings = (f"{where} changed nothing",)
        return Report(replacements, unmatched=rules, warnings=warnings)

    def _object(self, spec: TransformSpec, path: str, text: str) -> Path | None:
        """The file for an artifact that a transform spec names; None leaves the name as it is."""
        beside = spec.path.parent / path
        if not beside.is_file():
            return None  # IREE looks for it along --iree-hal-executable-object-search-path
        target = parse_target(text)
        if beside.suffix in (".o", ".bc") or target.backend != "llvm-cpu":
            return beside.resolve()
        arch = target.arch or target.format.removeprefix("embedded-elf-")
        wanted = CpuTarget.of(arch, target.features)
        return cpu.resolve(ArtifactRequest(beside, ()), wanted, self.store).path


_FORMS: dict[str | None, cpu.Form | None] = {None: None, "object": "object", "bitcode": "bitcode"}


def _path_of(clause: tree.ArtifactClause) -> Path:
    """The file of a clause: relative paths start at the spec's folder."""
    source = clause.span.source.path
    return Path(clause.path) if source is None else source.parent / clause.path


def _named_only(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
    path = _path_of(clause)
    if not path.is_file():
        raise OpspliceError(f"no such file: {path}", details=f"needed by the kernel at {clause.span}")
    return Artifact(path=path, form="object", digest="", arch=None, toolchain=None, built=False)


def _find(module: ir.Module, spec: LoadedSpec) -> Found:
    return engine.find(module, graphs_of(spec), near_misses=_NEAREST)


def graphs_of(spec: LoadedSpec) -> Sequence[Graph]:
    """The compiled patterns that the rules of a spec use, in the order of the rules."""
    names = dict.fromkeys(rule.pattern for rule in spec.rules)
    return [g for n in names for g in compile_pattern(spec.patterns[n], spec.patterns, spec.types)]


# ---- the report --------------------------------------------------------------------------------------------------


def _report(spec: LoadedSpec, found: Found, chosen: Plan) -> Report:
    replacements = []
    for call, choices, others in zip(chosen.calls, chosen.choices, chosen.kept, strict=True):
        artifacts = (*map(_artifact_use, choices), *map(_compiler_use, others))
        replacements.append(_replacement(call.match, call.rule, "static function", artifacts=artifacts))
    kept = tuple(_replacement(left.match, left.rule, "keep", left.reason, lost=left.lost) for left in chosen.left)
    used = {id(call.rule) for call in chosen.calls} | {id(left.rule) for left in chosen.left}
    unmatched = tuple(
        UnmatchedRule(_rule_text(rule), str(rule.span), rule.pattern, _nearest(rule.pattern, found.near_misses))
        for rule in spec.rules
        if id(rule) not in used
    )
    return Report(tuple(replacements), kept, unmatched)


def _replacement(
    match: Match,
    rule: tree.Rule,
    action: str,
    reason: str = "",
    artifacts: tuple[ArtifactUse, ...] = (),
    lost: bool = False,
) -> Replacement:
    return Replacement(
        rule=_rule_text(rule),
        rule_location=str(rule.span),
        pattern=rule.pattern,
        function=_function(match.function),
        location=match.location,
        dims={name: _dim(size) for name, size in match.dims.items()},
        kernel=rule.kernel,
        action=action,
        reason=reason,
        lost=lost,
        artifacts=artifacts,
    )


def _artifact_use(choice: Choice) -> ArtifactUse:
    artifact = choice.artifact
    return ArtifactUse(
        target=str(choice.target),
        source=str(_path_of(choice.clause)),
        path=str(artifact.path),
        form=artifact.form,
        digest=artifact.digest,
        toolchain=artifact.toolchain,
        built=artifact.built,
        notes=artifact.notes,
    )


def _compiler_use(target: ProgramTarget) -> ArtifactUse:
    return ArtifactUse(target=str(target), source="the compiler", path="", form="compiler", digest="")


def _dim(size: Size | tuple[Size, ...]) -> DimSize:
    if isinstance(size, tuple):
        return [s if isinstance(s, int) else None for s in size]
    return size if isinstance(size, int) else None


def _rule_text(rule: tree.Rule) -> str:
    return f"replace {rule.pattern} with {rule.kernel}"


def _function(name: str) -> str:
    """The name that the user knows: frontends put the work into a twin `main$async` of `main`."""
    return name.removesuffix("$async")


def _nearest(pattern: str, misses: tuple[NearMiss, ...]) -> tuple[Miss, ...]:
    return tuple(
        Miss(_function(m.function), m.location, m.wanted, m.found, str(m.span) if m.span else "")
        for m in misses
        if m.pattern == pattern
    )[:_NEAREST]

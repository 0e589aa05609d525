"""Passes that reach out of the compiler: they read or write files that they are told, or start programs.

IREE runs pipelines that a spec or a model names, also where nothing is compiled yet. Those whose options name a file
or a command are refused, so that looking at a spec or a model changes nothing on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opsplice.common.errors import OpspliceError

if TYPE_CHECKING:
    from iree.compiler import ir

# An option of a pass that names a file, a folder or a program. Options are `name=value`, in attributes `name = value`.
_OPTION = re.compile(
    r"(?<![\w-])((?:\w+-)*(?:paths?|files?|filename|command|library|toolkit|link-modules?|substitutions)(?:-\w+)*)\"?\s*="
)
# Passes that start programs, run code of the program or make files without such an option, and pipelines with them.
_PASSES = re.compile(
    r"(?<![\w-])(gpu-module-to-binary|snapshot-op-locations|iree-consteval-jit-globals|iree-util-link-modules"
    r"|iree-hal-(?:preprocess-executables-with-tool|substitute-executables|serialize-[\w-]+)"
    r"|iree(?:-hal(?:-inline-dynamic)?)?-transformation-pipeline)(?![\w-])"
)
# Attributes by which IREE finds pipelines in a program, and the one that holds a transform spec as bytes.
_PIPELINES = ("preprocessing_pipeline", "translation_info", "compilation_info", "lowering_config")
_TUNING_SPEC = "iree_codegen.tuning_spec_mlirbc"
_ATTRIBUTES = (*_PIPELINES, _TUNING_SPEC)
_TRANSFORM = "transform."
_RUN_PASS = "transform.apply_registered_pass"


def check_passes(passes: str, where: str) -> None:
    """Raise OpspliceError for a pipeline with a pass that reaches out. where: what names it, for the message."""
    found = _PASSES.search(passes) or _OPTION.search(passes)
    if found is None:
        return
    what = f"the pass {found[1]}" if found.re is _PASSES else f"the option '{found[1]}' of a pass"
    raise OpspliceError(
        f"{where} asks for {what}, which reads or writes files, or starts programs",
        hint="what a spec or a model names runs inside the compiler alone; remove the pass, or give iree-compile its "
        "flag for it",
        details=passes[:400],
    )


def check_module(module: ir.Module, name: str) -> None:
    """Raise OpspliceError for a program or a transform spec that has such passes run. name: for messages."""
    for text in _pipelines(module, name):
        check_passes(text, name)


def _pipelines(module: ir.Module, name: str) -> Iterator[str]:
    from iree.compiler import ir

    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        if op.name.startswith(_TRANSFORM) or any(map(attributes.__contains__, _ATTRIBUTES)):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        if _TUNING_SPEC in op.attributes:
            raise OpspliceError(
                f"{name} holds a transform spec as bytes ({_TUNING_SPEC}), which nobody can look into",
                hint="give the spec as a file: --iree-codegen-tuning-spec-path",
            )
        kinds = op.attributes if op.name.startswith(_TRANSFORM) else set(_PIPELINES).intersection(op.attributes)
        texts = {kind: str(op.attributes[kind]) for kind in kinds}
        # A transform spec may annotate programs with such an attribute.
        yield from (text for kind, text in texts.items() if kind in _PIPELINES or "pipeline<" in text)
        if op.name == _RUN_PASS:
            options = texts.get("options", "")
            if len(op.operands) > 1 and "pipeline" in options:
                raise OpspliceError(
                    f"{name} computes a pipeline of passes while it runs, which nobody can look into",
                    hint="write the pipeline out in the options of transform.apply_registered_pass",
                )
            yield f"{texts['pass_name']} {options}"

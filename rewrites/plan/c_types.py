"""Checks that a C function has the types that its call passes, where its file declares them."""

from __future__ import annotations

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.plan.actions import Buffer, KernelCall
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.formats import llvm_types


def parameters_of(call: KernelCall) -> list[str]:
    """What a kernel with buffers is called with: elements, `ADDRESS` and `index`."""
    parameters = [llvm_types.ADDRESS if isinstance(a, Buffer) else a.element for a in call.arguments]
    parameters += [llvm_types.ADDRESS for output in call.outputs if output.alias is None]
    strides = sum(dim.pack is None for buffer in call.strided for dim in buffer.shape)
    return [*parameters, *["index"] * (len(call.dims) + strides + len(call.kernel.grid))]


def check(call: KernelCall, clause: tree.ArtifactClause, artifact: Artifact) -> None:
    """Raise OpspliceError for a function on a CPU that has other types than the call, where they are known."""
    result, parameters = "void", parameters_of(call)
    if call.kernel.is_scalar:
        result, parameters = call.outputs[0].element, [a.element for a in call.arguments]
    check_function(call.symbol, result, parameters, call.kernel, clause, artifact)


def check_function(
    symbol: str,
    result: str,
    parameters: list[str],
    kernel: tree.Kernel,
    clause: tree.ArtifactClause,
    artifact: Artifact,
) -> None:
    """As `check`, for a function that is called with these: elements, `ADDRESS` and `index`."""
    written = artifact.signatures.get(symbol)
    if written is None:
        return
    if clause.form == "dispatch":
        result, parameters = "i32", [llvm_types.ADDRESS] * 3
    try:
        llvm_types.check(clause.file.name, symbol, written, result, parameters, f"kernel {kernel.name}")
    except OpspliceError as error:
        error.details = f"needed by the kernel at {clause.span}"
        raise

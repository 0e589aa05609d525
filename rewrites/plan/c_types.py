"""Checks that a C function has the types that its call passes, where its file declares them."""

from __future__ import annotations

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.plan.actions import Buffer, KernelCall
from opsplice.rewrites.reference.c_operators import type_of
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.formats import llvm_types


def parameters_of(call: KernelCall) -> list[str]:
    """What a kernel with buffers is called with: elements, `ADDRESS` and `index`."""
    parameters = [llvm_types.ADDRESS if isinstance(a, Buffer) else a.element for a in call.arguments]
    parameters += [llvm_types.ADDRESS for output in call.outputs if output.alias is None]
    strides = sum(dim.pack is None for buffer in call.strided for dim in buffer.shape)
    return [*parameters, *["index"] * (len(call.dims) + strides + len(call.kernel.grid))]


def prototype(call: KernelCall) -> str:
    """The function that a kernel with buffers is called as, as C declares it."""
    aliases = {output.alias for output in call.outputs}
    words = [
        f"{'' if a.name in aliases else 'const '}{_c_type(a.element)} *{a.name}"
        if isinstance(a, Buffer)
        else f"{_c_type(a.element)} {a.name}"
        for a in call.arguments
    ]
    count = len(call.outputs)
    names = [r.name or (f"out{at}" if count > 1 else "out") for at, r in enumerate(call.kernel.results)]
    fresh = [(name, output) for name, output in zip(names, call.outputs, strict=True) if output.alias is None]
    words += [f"{_c_type(output.element)} *{name}" for name, output in fresh]
    called = {id(a): a.name for a in call.arguments} | {id(output): name for name, output in fresh}
    strides = [
        f"{called[id(buffer)]}_{dim.name or at}"
        for buffer in call.strided
        for at, dim in enumerate(buffer.shape)
        if dim.pack is None
    ]
    places = [f"workgroup_{axis}" for axis in "xyz"[: len(call.kernel.grid)]]
    words += [f"size_t {name}" for name in (*call.dims, *strides, *places)]
    return f"void {call.symbol}({', '.join(words)})"


def _c_type(element: str) -> str:
    return "uint8_t" if element == "i4" else type_of(element)  # two numbers in each byte


def check(call: KernelCall, clause: tree.ArtifactClause, artifact: Artifact) -> None:
    """Raise OpspliceError for a function on a CPU that has other types than the call, where they are known."""
    result, parameters = "void", parameters_of(call)
    if call.kernel.is_scalar:
        result, parameters = call.outputs[0].element, [a.element for a in call.arguments]
    try:
        check_function(call.symbol, result, parameters, call.kernel, clause, artifact)
    except OpspliceError as error:
        if not call.kernel.is_scalar and clause.form != "dispatch":
            error.hint = f"declare it as {prototype(call)}; docs/kernels.md says why"
        raise


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

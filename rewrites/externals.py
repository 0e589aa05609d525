"""Files that hold whole dispatches, checked against the calls that are to be made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsplice.errors import OpspliceError
from opsplice.rewrites import static_dispatch
from opsplice.rewrites.calls import External, KernelCall
from opsplice.targets import ptx, spirv_binary

if TYPE_CHECKING:
    from opsplice.rewrites.plan import Choice

_Threads = tuple[int, int, int]


def of(call: KernelCall, choice: Choice) -> External:
    """The dispatch of an artifact. Raises OpspliceError where its ABI is not that of the call."""
    threads = call.kernel.workgroup
    x, y, z = (*threads, *(1,) * (3 - len(threads)))
    try:
        workgroup = _check(call, choice, (x, y, z) if threads else None)
    except OpspliceError as error:
        error.details = "\n".join(filter(None, [error.details, f"needed by the kernel at {call.kernel.span}"]))
        raise
    return External(choice.target.text, choice.code.path, choice.code.entry, workgroup)


def _check(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    """How many threads a workgroup has."""
    if choice.target.backend == "vulkan-spirv":
        return _check_shader(call, choice, workgroup)
    if choice.target.backend == "cuda":
        return _check_ptx(call, choice, workgroup)
    raise OpspliceError(f"a kernel for {choice.target.backend} cannot be a whole dispatch")


def _check_shader(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    module = spirv_binary.reflect(choice.code.path.read_bytes(), name)
    written, size = static_dispatch.written(call), 4 * static_dispatch.words(call)
    spirv_binary.check(module, name, entry, buffers=written, push_constant_bytes=size, workgroup=workgroup)
    local_size = next(e.local_size for e in module.entries if e.name == entry)
    assert local_size is not None, "it was checked"
    return local_size


def _check_ptx(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    module = ptx.reflect(choice.code.path.read_text(), name)
    found = ptx.find_entry(module, name, entry)
    workgroup = workgroup or (found.max_threads if found.exact else None)
    if workgroup is None:
        raise OpspliceError(
            f"nothing says how many threads a workgroup of kernel {call.kernel.name} has",
            hint="write it into the kernel, such as `workgroup (128)`: IREE's runtime would launch it with none",
        )
    buffers, constants = len(static_dispatch.written(call)), static_dispatch.words(call)
    ptx.check(module, name, entry, buffers=buffers, constants=constants, workgroup=workgroup)
    return workgroup

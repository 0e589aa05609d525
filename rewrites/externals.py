"""Files that hold whole dispatches, checked against the calls that are to be made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsplice.errors import OpspliceError
from opsplice.rewrites import static_dispatch
from opsplice.rewrites.calls import External, KernelCall
from opsplice.targets import ptx, spirv_binary

if TYPE_CHECKING:
    from opsplice.rewrites.plan import Choice


def of(call: KernelCall, choice: Choice) -> External:
    """The dispatch of an artifact. Raises OpspliceError where its ABI is not that of the call."""
    threads = call.kernel.workgroup
    wanted = (*threads, *(1,) * (3 - len(threads))) if threads else None
    try:
        workgroup = _check(call, choice, wanted)
    except OpspliceError as error:
        error.details = "\n".join(filter(None, [error.details, f"needed by the kernel at {call.kernel.span}"]))
        raise
    return External(choice.target.text, choice.artifact.path, choice.artifact.entry, workgroup)


def _check(call: KernelCall, choice: Choice, wanted: tuple[int, ...] | None) -> tuple[int, int, int]:
    path, entry = choice.artifact.path, choice.artifact.entry
    name = choice.clause.path
    if choice.target.backend == "vulkan-spirv":
        module = spirv_binary.reflect(path.read_bytes(), name)
        spirv_binary.check(
            module,
            name,
            entry,
            buffers=static_dispatch.written(call),
            push_constant_bytes=4 * static_dispatch.words(call),
            workgroup=wanted,
        )
        size = next(e.local_size for e in module.entries if e.name == entry)
        return size or wanted or (1, 1, 1)
    if choice.target.backend == "cuda":
        code = ptx.reflect(path.read_text(), name)
        buffers, constants = len(static_dispatch.written(call)), static_dispatch.words(call)
        ptx.check(code, name, entry, buffers=buffers, constants=constants, workgroup=wanted)
        size = wanted or next(e.required_threads for e in code.entries if e.name == entry)
        if size is None:
            raise OpspliceError(
                f"how many threads a workgroup of {call.kernel.name} has is said nowhere",
                hint="write `workgroup (128)` into the kernel, or __launch_bounds__ is not enough: .reqntid in the PTX",
            )
        return size
    raise OpspliceError(f"kernels for {choice.target.backend} cannot be whole dispatches")

"""Files that hold whole dispatches, checked against the calls that are to be made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from opsplice.errors import OpspliceError
from opsplice.rewrites.ir import dispatch_words
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, Choice, KernelCall, Scalar
from opsplice.spec_lang.syntax import vocabulary
from opsplice.targets.formats import hsaco, metal_source, ptx, spirv_binary

_Threads = tuple[int, int, int]
_STORED = re.compile(r"\bstorage = ([b\d|]+)")


@dataclass(frozen=True)
class External:
    """A whole dispatch that a file holds, for one target of the program.

    target: as MLIR writes it. entry: the function's name in the file. workgroup: how many threads a workgroup has.
    on_cpu: whether it is a CPU's, in IREE's own ABI for executables. on_metal: whether it is a shader for Metal.
    """

    target: str
    path: Path
    entry: str
    workgroup: tuple[int, int, int]
    on_cpu: bool = False
    on_metal: bool = False
    is_library: bool = False


def constants(call: KernelCall) -> int:
    """How many constants a call has."""
    return len(word_names(call))


def word_names(call: KernelCall) -> list[tuple[str, str]]:
    """For each constant what it is of, a scalar or a dim, and the element type; a dim is an i32."""
    scalars = [(a.name, a.element) for a in call.arguments if isinstance(a, Scalar)]
    held = [each for each in scalars for _ in range(dispatch_words.count(each[1]))]
    return [*held, *((f"dim {name}", "i32") for name in call.dims)]


def written(call: KernelCall) -> tuple[bool, ...]:
    """For each binding whether the kernel writes to it."""
    aliases = {o.alias for o in call.outputs}
    buffers = [a for a in call.arguments if isinstance(a, Buffer)]
    return (*(a.name in aliases for a in buffers), *(True for o in call.outputs if o.alias is None))


def of(call: KernelCall, choice: Choice) -> External:
    """The dispatch of an artifact. Raises OpspliceError where its ABI is not that of the call."""
    if choice.target.is_cpu:
        path, is_library = choice.code.path, choice.code.form == "library"
        return External(choice.target.text, path, call.symbol, (1, 1, 1), on_cpu=True, is_library=is_library)
    threads = call.kernel.workgroup
    x, y, z = (*threads, *(1,) * (3 - len(threads)))
    try:
        workgroup = _check(call, choice, (x, y, z) if threads else None)
        _check_threads(call, workgroup, choice.target)
        check_copies(call, choice.target)
    except OpspliceError as error:
        error.details = "\n".join(filter(None, [error.details, f"needed by the kernel at {call.kernel.span}"]))
        raise
    workgroups.check(call, choice.target)
    on_metal = choice.target.backend == "metal-spirv"
    return External(choice.target.text, choice.code.path, choice.code.entry, workgroup, on_metal=on_metal)


def _check(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    """How many threads a workgroup has."""
    if choice.target.backend == "vulkan-spirv":
        return _check_shader(call, choice, workgroup)
    if choice.target.backend == "cuda":
        return _check_ptx(call, choice, workgroup)
    if choice.target.backend == "rocm":
        return _check_code_object(call, choice, workgroup)
    if choice.target.backend == "metal-spirv":
        return _check_metal(call, choice, workgroup)
    raise OpspliceError(f"a kernel for {choice.target.backend} cannot be a whole dispatch")


def _check_shader(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    module = spirv_binary.reflect(choice.code.path.read_bytes(), name)
    size = 4 * constants(call)
    if size > spirv_binary.MOST_PUSH_CONSTANT_BYTES:
        raise OpspliceError(
            f"kernel {call.kernel.name} has {size} bytes of scalars and dims, and Vulkan devices take "
            f"{spirv_binary.MOST_PUSH_CONSTANT_BYTES}",
            hint="put scalars into a buffer, or give dims as numbers in the signature",
        )
    spirv_binary.check(module, name, entry, buffers=written(call), push_constant_bytes=size, workgroup=workgroup)
    found = next(e for e in module.entries if e.name == entry)
    assert found.local_size is not None, "it was checked"
    _check_words(call, found.floats, f"entry '{entry}' of {name}")
    most = choice.target.limit("memory")
    if most and found.shared_bytes > most[0]:
        raise OpspliceError(
            f"entry '{entry}' of {name} shares {found.shared_bytes} bytes in a workgroup, and {choice.target.backend} "
            f"{choice.target.arch} has {most[0]}",
            hint="make it smaller, name the device, such as --target=vulkan:ada, or add a clause: when memory >= ...",
        )
    return found.local_size


def _check_ptx(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    module = ptx.reflect(choice.code.path.read_text(), name)
    found = ptx.find_entry(module, name, entry)
    if module.dynamic_shared:
        raise OpspliceError(
            f"{name} has shared memory whose size is chosen at the launch",
            hint="give it a size in the source: __shared__ float tile[256] instead of extern __shared__",
        )
    threads = _threads(call, workgroup or (found.max_threads if found.exact else None))
    buffers, words = len(written(call)), constants(call)
    ptx.check(module, name, entry, buffers=buffers, constants=words, workgroup=threads)
    floats = [number for number, each in enumerate(found.parameters[buffers:]) if each.type == "f32"]
    _check_words(call, floats, f"'{entry}' in {name}")
    return threads


def _check_code_object(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    if choice.code.form != "hsaco":
        raise OpspliceError(
            f"{name} is no code object, which a whole dispatch for ROCm is",
            hint="build it with hipcc --genco; LLVM IR is for functions on elements",
        )
    module = hsaco.reflect(choice.code.path.read_bytes(), name)
    threads = _threads(call, workgroup or hsaco.find_entry(module, name, entry).workgroup)
    buffers, words = len(written(call)), constants(call)
    hsaco.check(module, name, entry, buffers=buffers, constants=words, workgroup=threads)
    return threads


def _check_metal(call: KernelCall, choice: Choice, workgroup: _Threads | None) -> _Threads:
    entry, name = choice.code.entry, choice.clause.path
    module = metal_source.reflect(choice.code.path.read_text(encoding="utf-8"), name)
    threads = _threads(call, workgroup)
    buffers, words = written(call), constants(call)
    metal_source.check(module, name, entry, buffers=buffers, constants=words, workgroup=threads)
    return threads


def _check_words(call: KernelCall, floats: Collection[int], where: str) -> None:
    """Raises OpspliceError for a word that code takes as a float and is none. Floats may be taken as their bits.

    floats: the numbers of the words that are floats in the code.
    """
    given = word_names(call)
    for number in sorted(floats):
        if number < len(given) and given[number][1] != "f32":
            name, element = given[number]
            listed = ", ".join(f"{n} ({e})" for n, e in given)
            raise OpspliceError(
                f"{where} takes a float where {name} is passed, which is {element}",
                hint=f"the words are, in order: {listed}",
            )


def _check_threads(call: KernelCall, workgroup: _Threads, target: ProgramTarget) -> None:
    """Raises OpspliceError where a workgroup has more threads than IREE says that the device takes."""
    count, most = math.prod(workgroup), target.limit("threads")
    if most and count > most[0]:
        raise OpspliceError(
            f"kernel {call.kernel.name} has workgroups of {count} threads, and {target.backend} {target.arch} takes "
            f"{most[0]}",
            hint="make them smaller, name the device, such as --target=vulkan:ada, or put this clause before another: "
            f"when threads >= {count}",
        )


def check_copies(call: KernelCall, target: ProgramTarget) -> None:
    """Raises OpspliceError where a copy is needed for what a kernel overwrites, and IREE makes code that may miss its
    end: a target that does not store the type copies whole words.
    """
    found = _STORED.search(target.text)
    overwritten = {o.alias for o in call.outputs if o.alias is not None}
    for argument in call.arguments:
        width = max(vocabulary.bits(argument.element) or 64, 8)
        if found is None or argument.name not in overwritten or f"b{width}" in found[1].split("|"):
            continue
        assert isinstance(argument, Buffer), "only buffers are overwritten"
        sizes = [d.size if d.size is not None else call.dims[d.name or ""] for d in argument.shape]
        parts = [part for size in sizes for part in (size if isinstance(size, tuple) else (size,))]
        if width * math.prod(part for part in parts if isinstance(part, int)) % 32:
            raise OpspliceError(
                f"kernel {call.kernel.name} overwrites {argument.name}, and {target.backend} {target.arch} stores no "
                f"{argument.element}: it would be copied in words of 32 bits, and may end within one",
                hint="name the device, such as --target=vulkan:ada, or let the kernel write a result of its own",
            )


def _threads(call: KernelCall, said: _Threads | None) -> _Threads:
    if said is None:
        raise OpspliceError(
            f"nothing says how many threads a workgroup of kernel {call.kernel.name} has",
            hint="write it into the kernel, such as `workgroup (128)`: IREE's runtime would launch it with none",
        )
    return said

"""Reads code objects for AMD's GPUs: the kernels that IREE's HIP runtime can launch, and what they take.

Format: LLVM, "User Guide for AMDGPU Backend": an ELF64 shared library whose note NT_AMDGPU_METADATA describes its
kernels, as MessagePack (code object V3 and later). Any bytes are safe to read: every length is checked against what is
there before it is used. IREE embeds a file without a look at it, so what is wrong would show when it is loaded.

It must not know where a file came from or who calls its kernels.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgpack

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats import elf
from opsplice.targets.formats.entries import Entry, Parameter, damaged, find

_damaged = partial(damaged, "a damaged code object")
_EM_AMDGPU = 224
_NT_AMDGPU_METADATA = 32
# A triple, whose spelling differs between compilers, and behind it the GPU.
_TARGET = re.compile(r"[\w.]+-amd-amdhsa-\w*-(gfx[\w:+-]+)")


@dataclass(frozen=True)
class HsacoModule:
    """A code object. target: the GPU with its features, `gfx942` or `gfx90a:xnack+`."""

    target: str
    entries: tuple[Entry, ...]

    @property
    def chip(self) -> str:
        """The GPU without features."""
        return self.target.partition(":")[0]


def reflect(data: bytes, name: str) -> HsacoModule:
    """What is in the bytes of a code object.

    name: how errors call the file. Raises OpspliceError for anything else, or a damaged one.
    """
    machine, notes = elf.read_notes(data, name, "a code object is what `hipcc --genco` makes")
    if machine != _EM_AMDGPU:
        raise OpspliceError(f"{name} is a library for another processor than AMD's GPUs (ELF machine {machine})")
    metadata = _metadata(notes, name)
    target = _TARGET.fullmatch(str(metadata.get("amdhsa.target")))
    if target is None:
        raise _damaged(name, "it does not say which GPU it is for")
    kernels = metadata.get("amdhsa.kernels")
    if not isinstance(kernels, list):
        raise _damaged(name, "it does not list its kernels")
    return HsacoModule(target[1], tuple(_entry(kernel, name) for kernel in kernels))


def find_entry(module: HsacoModule, name: str, entry: str) -> Entry:
    """The kernel called `entry`. Raises OpspliceError, with what there is, when there is none."""
    return find(module.entries, name, entry, "kernel", 'it has none; C++ ones must be extern "C"')


def check_target(module: HsacoModule, name: str, chip: str) -> None:
    """Raises OpspliceError, naming both, unless the module is for the GPU `chip`: code runs on no other."""
    if module.chip != chip.partition(":")[0]:
        raise OpspliceError(
            f"{name} is for {module.chip}, but the target is {chip}", hint=f"build it with --offload-arch={chip}"
        )


def _entry(kernel: Any, name: str) -> Entry:
    """A kernel of the metadata; what it does not say takes the format's own default."""
    if not isinstance(kernel, dict) or not isinstance(kernel.get(".name"), str):
        raise _damaged(name, "a kernel has no name")
    parameters = kernel.get(".args", [])
    threads = kernel.get(".max_flat_workgroup_size", 1024)
    shared = kernel.get(".group_segment_fixed_size", 0)
    required = kernel.get(".reqd_workgroup_size")
    listed: list[Any] = parameters if isinstance(parameters, list) else [None]
    sizes = [threads, shared, *(item.get(".size") if isinstance(item, dict) else None for item in listed)]
    if not all(map(_is_size, sizes)):
        raise _damaged(name, f"the parameters of '{kernel['.name']}' cannot be read")
    if required is not None and not (
        isinstance(required, list) and len(required) == 3 and all(_is_size(size) for size in required)
    ):
        raise _damaged(name, f"the workgroup of '{kernel['.name']}' cannot be read")
    visible = [item for item in listed if not str(item.get(".value_kind", "")).startswith("hidden_")]
    return Entry(
        kernel[".name"],
        name,
        tuple(_parameter(item[".size"], item.get(".value_kind") == "global_buffer") for item in visible),
        threads=(required[0], required[1], required[2]) if required else None,
        most_threads=threads,
        shared=shared,
    )


def _parameter(size: int, is_pointer: bool) -> Parameter:
    return Parameter("a pointer" if is_pointer else f"{size} bytes", size, is_pointer)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


def _metadata(notes: tuple[bytes, ...], name: str) -> Mapping[str, Any]:
    """The metadata in the first note that holds any."""
    for content in notes:
        place = 0
        while place + 12 <= len(content):
            name_size, size, kind = struct.unpack_from("<III", content, place)
            owner = content[place + 12 : place + 12 + name_size]
            start = place + 12 + _padded(name_size)
            if start + size > len(content):
                raise _damaged(name, "a note is cut off")
            if kind == _NT_AMDGPU_METADATA and owner == b"AMDGPU\0":
                return _decode(content[start : start + size], name)
            place = start + _padded(size)
    raise _damaged(name, "it has no metadata (code objects before V3 had another kind)")


def _padded(size: int) -> int:
    return size + -size % 4


def _decode(data: bytes, name: str) -> Mapping[str, Any]:
    try:
        found = msgpack.unpackb(data, unicode_errors="replace")
    except (ValueError, TypeError) as error:  # TypeError: a key that is a list
        raise _damaged(name, "its metadata is not MessagePack") from error
    if not isinstance(found, dict):
        raise _damaged(name, "its metadata is not a map")
    return found

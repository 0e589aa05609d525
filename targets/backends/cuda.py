"""A kernel's file and a GPU of NVIDIA's in, checked PTX that IREE's CUDA backend can embed out.

Sources are built by a compiler (`.cu`: nvcc, NVRTC or clang) or by llvmlite (`.ll`), prebuilt files (`.ptx`) are taken
as they are; all are checked, and what passes lives in the store. It must not know what the kernel computes or where
it is called.

What an entry is passed (`entries.check` compares it with what the entry takes), in order:

1. 64-bit pointers, one per buffer: the kernel's tensor parameters in their order, then its results. A result that is
   written in place of a parameter has no pointer of its own: it is that parameter's.
2. 32-bit words: the scalars in the parameters' order. i32 and f32 are a word each (an f32's bits: the entry declares
   `float` or `int`); i64, f64 and index are two, the low one first; f16, bf16, i16, i8 and i1 are widened to one (a
   floating-point number's bits in the low half).
3. 32-bit words, unsigned: each dynamic dim, in the order in which dims first occur in the kernel's signature.

A struct, an 8-byte scalar or a scalar before a pointer is not passed by IREE's CUDA runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, CudaTarget
from opsplice.targets.backends.backend import LLVM_IR, Backend, artifact_of
from opsplice.targets.build import compiler_flags, cuda_compilers, llvm, programs, ptxas
from opsplice.targets.formats import ptx
from opsplice.targets.formats.entries import Entry, Limits
from opsplice.targets.formats.mangled import in_cpp

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "cuda 2"

_INSTEAD = " (IREE embeds PTX, so no cubin or fatbin)"

ACCEPTED = (".cu", ".ll", ".ptx")

# Writes PTX at a path that it is given; returns the name of what built it, if anything did, and notes.
_Make = Callable[[Path], tuple[str | None, tuple[str, ...]]]


def resolve(request: ArtifactRequest, target: CudaTarget, store: Store) -> Artifact:
    """The PTX for `request` on `target`, built or copied into the store unless it is there.

    request.symbols: the entries that it has to have, the kernel's own first; with none, it has to have one only.
    Raises OpspliceError when the file is absent or of an unknown kind, does not compile, is for a newer GPU or driver,
    lacks an entry, calls what nothing defines or does not assemble; and when no compiler can build it or the store
    cannot be written. What an entry is passed is checked by `entries.check`.
    """
    source_inputs.check_request(
        request, "CUDA", ACCEPTED, ("ptx",), how="remove the form: it becomes PTX", compiled=(".cu",), more=_INSTEAD
    )
    make, parts = _how(request, target)
    return _resolve(request, target, store, make, *parts)


def _how(request: ArtifactRequest, target: CudaTarget) -> tuple[_Make, tuple[bytes | str, ...]]:
    """What makes the PTX, and all that it depends on besides the target."""
    data, source = read_file(request.path), request.path.resolve()
    if request.path.suffix == ".ptx":

        def copy(output: Path) -> tuple[None, tuple[str, ...]]:
            # The copy is what is checked, so that a file that changes meanwhile does no harm.
            output.write_bytes(data)
            return None, ()

        return copy, (data,)
    if request.path.suffix == ".ll":
        return (lambda output: (llvm.version(), llvm.compile_ptx(request.path, output, target))), (data, llvm.version())
    compiler = cuda_compilers.choose(target)
    flags = compiler_flags.checked(request.flags, "CUDA", source.parent)
    inputs = source_inputs.read_inputs(source, flags, cuda_compilers.HEADERS)

    def compiled(output: Path) -> tuple[str, tuple[str, ...]]:
        included = compiler.compile(source, output, target, flags, [in_cpp(s) for s in request.symbols if "<" in s])
        source_inputs.check_complete(inputs, included, source)
        return compiler.version(), ()

    return compiled, (source.name, inputs.digest, compiler.identity, "\0".join(request.flags))


def _resolve(request: ArtifactRequest, target: CudaTarget, store: Store, make: _Make, *parts: bytes | str) -> Artifact:
    """Checks what `make` makes, unless the store has it already. parts: all that it depends on besides the target."""
    assembler = ptxas.find()

    def build(output: Path) -> Mapping[str, Any]:
        toolchain, notes = make(output)
        name = request.path.name
        text = ptx.decode(output.read_bytes(), name)
        module = ptx.reflect(text, name)
        ptx.check_target(module, name, target, built_by=toolchain)
        entry = _entry(module, request)
        ptx.check_externs(module, name)
        if len(module.entries) > 1:
            text = ptx.with_one_entry(text, entry)
        # Without what may stand behind the text: IREE and the driver read it up to the first zero.
        output.write_bytes(text.encode("utf-8", "surrogateescape"))
        notes += ptxas.check(assembler, output, name, f"sm_{target.sm}{module.target.removeprefix(f'sm_{module.sm}')}")
        return {"toolchain": toolchain, "entry": entry, "notes": notes}

    version = "" if target.ptx is None else f"{target.ptx[0]}.{target.ptx[1]}"
    key = key_of(
        *(_BUILDER, request.path.suffix, str(target.sm), version, "\0".join(request.symbols)),
        *(programs.identity_of([assembler]) if assembler else "", *parts),
    )
    entry = store.get_or_build(key, ".ptx", build)
    return artifact_of(entry, "ptx")


def _entry(module: ptx.PtxModule, request: ArtifactRequest) -> str:
    """The entry that the kernel is, all that are asked for being there."""
    found = [ptx.find_entry(module, request.path.name, symbol).name for symbol in request.symbols]
    if found:
        return found[0]
    if len(module.entries) == 1:
        return module.entries[0].name
    names = ", ".join(f"'{entry.name}'" for entry in module.entries[:8]) or "none"
    raise OpspliceError(
        f"{request.path.name} has {len(module.entries)} entries, and none is named as the kernel",
        hint=f"name one of them (there: {names})",
    )


class Cuda(Backend):
    """GPUs of NVIDIA's: PTX, and sources in CUDA."""

    name, iree, device, format = "cuda", "cuda", "cuda", "cuda-nvptx-fb"
    instead = _INSTEAD
    title, kinds, functions, linked = "CUDA", ACCEPTED, LLVM_IR, r"__nv_\w+"
    # CUDA programming guide, "Technical specifications per compute capability"; the same for all since 2.0.
    limits = Limits(threads=(1024, 1024, 64))
    chip_flag, chips, usual_chip = "--iree-cuda-target", r"sm_\d{2,3}[af]?", "sm_80"

    def chip_here(self) -> str:
        """That of this machine's first GPU, else the oldest that CUDA 13 still knows: IREE's choice is older."""
        return cuda_compilers.chip_here() or "sm_75"

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        return resolve(request, CudaTarget.of(arch), store)

    def entry(self, code: Artifact, name: str) -> Entry:
        text = code.path.read_text()
        found = ptx.find_entry(ptx.reflect(text, name), name, code.entry)
        alone = ptx.reflect(ptx.with_one_entry(text, found.name), name)
        return replace(found, is_given=alone.dynamic_shared)

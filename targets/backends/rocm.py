"""A kernel's file and a GPU of AMD's in, checked code that IREE's ROCm backend can embed or link out.

Device functions are bitcode (`.ll` through llvmlite, `.bc` as it is). Whole kernels are code objects (`.hsaco`), which
clang makes of OpenCL C and HIP; they are passed what CUDA's are: see `cuda.py`. Nothing here was run on a GPU; IREE
embeds code objects as they are, which was watched, and its own kernels take pointers and words in the same order. It
must not know what a kernel computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, Form, RocmTarget
from opsplice.targets.backends.backend import LLVM_IR, Backend, artifact_of
from opsplice.targets.build import amd_compilers, compiler_flags, llvm
from opsplice.targets.formats import elf, hsaco
from opsplice.targets.formats.entries import Entry

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "rocm 1"

_FORMS: dict[str, Form] = {".ll": "bitcode", ".bc": "bitcode", ".hsaco": "hsaco", ".cl": "hsaco", ".hip": "hsaco"}
_SUFFIX: dict[Form, str] = {"bitcode": ".bc", "hsaco": ".hsaco"}

_INSTEAD = " (hipcc --genco makes a code object of what needs ROCm's libraries)"

ACCEPTED = tuple(_FORMS)

# ROCm's device libraries, which IREE links with a program.
_PROVIDED = ("__ocml_", "__ockl_")


def resolve(request: ArtifactRequest, target: RocmTarget, store: Store) -> Artifact:
    """The artifact for `request` on `target`, built or copied into the store unless it is there.

    request.symbols: the functions or kernels that it has to define; the first kernel is the artifact's entry.
    Raises OpspliceError when the file is absent or of an unknown kind, is not valid, is for another GPU, lacks a
    symbol or needs what IREE does not link; and when the store cannot be written.
    """
    form = _FORMS.get(request.path.suffix, "hsaco")
    how, sources = f"it is taken as {form}", amd_compilers.SOURCES
    source_inputs.check_request(request, "ROCm", ACCEPTED, (form,), how=how, compiled=sources, more=_INSTEAD)
    if request.path.suffix in sources:
        return _resolve_source(request, target, store)
    data = read_file(request.path)

    def build(output: Path) -> Mapping[str, Any]:
        if form == "hsaco":
            return _build_code_object(data, output, request, target)
        return _build_bitcode(data, output, request, target)

    version = llvm.version() if form == "bitcode" else ""
    key = key_of(_BUILDER, request.path.suffix, target.chip, "\0".join(request.symbols), version, data)
    entry = store.get_or_build(key, _SUFFIX[form], build)
    return artifact_of(entry, form)


def _resolve_source(request: ArtifactRequest, target: RocmTarget, store: Store) -> Artifact:
    source = request.path.resolve()
    flags = compiler_flags.checked(request.flags, "C", source.parent)
    inputs = source_inputs.read_inputs(source, flags, amd_compilers.HEADERS)

    def build(output: Path) -> Mapping[str, Any]:
        included = amd_compilers.compile_source(source, output, target, flags)
        source_inputs.check_complete(inputs, included, source)
        found = _build_code_object(output.read_bytes(), output, request, target)
        return {**found, "toolchain": "clang"}

    symbols, given = "\0".join(request.symbols), "\0".join(request.flags)
    key = key_of(_BUILDER, source.name, target.chip, symbols, given, inputs.digest, amd_compilers.identity())
    return artifact_of(store.get_or_build(key, ".hsaco", build), "hsaco")


def _build_code_object(data: bytes, output: Path, request: ArtifactRequest, target: RocmTarget) -> Mapping[str, Any]:
    module = hsaco.reflect(data, request.path.name)
    hsaco.check_target(module, request.path.name, target.chip)
    entries = [hsaco.find_entry(module, request.path.name, symbol).name for symbol in request.symbols]
    output.write_bytes(data)
    return {"toolchain": None, "notes": (), "entry": entries[0] if entries else ""}


def _build_bitcode(data: bytes, output: Path, request: ArtifactRequest, target: RocmTarget) -> Mapping[str, Any]:
    toolchain = None
    if request.path.suffix == ".ll":
        toolchain = llvm.version()
        module = llvm.compile_amdgcn(request.path, output, target)
    else:
        # The copy is what is checked, so that a file that changes meanwhile does no harm.
        output.write_bytes(data)
        module = llvm.import_bitcode(output, request.path.name, target)
    if module.symbols is not None:
        missing = frozenset(each for each in module.symbols.undefined if not each.startswith(_PROVIDED))
        hint = "put all that it uses into this file; of libraries there is ROCm's own (__ocml_exp_f32, __ockl_...)"
        found = dataclasses.replace(module.symbols, undefined=missing)
        elf.check_links(found, request.path.name, request.symbols, "object", hint=hint)
    return {"toolchain": toolchain, "notes": module.notes, "entry": ""}


class Rocm(Backend):
    """GPUs of AMD's: code objects."""

    name, iree, device, format = "rocm", "rocm", "hip", "rocm-hsaco-fb"
    aliases = ("amdgpu",)
    instead = _INSTEAD
    title, kinds, functions, linked = "ROCm", ACCEPTED, LLVM_IR, r"__oc(ml|kl)_\w+"
    chip_flag, chips, usual_chip = "--iree-rocm-target", r"gfx\w+", "gfx942"

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        return resolve(request, RocmTarget(arch), store)

    def entry(self, code: Artifact, name: str) -> Entry:
        if code.form != "hsaco":
            raise OpspliceError(
                f"{name} is not a code object, which a whole dispatch for ROCm is",
                hint="build it with hipcc --genco; LLVM IR is for functions on elements",
            )
        return hsaco.find_entry(hsaco.reflect(code.path.read_bytes(), name), name, code.entry)

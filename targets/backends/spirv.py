"""A shader's file in, a checked SPIR-V module out that IREE's Vulkan backends can embed.

Sources are built by a compiler (GLSL, Slang, WGSL), prebuilt modules (`.spv`) are taken as they are; all are checked,
and what passes lives in the store. Whether a kernel's signature fits is `entries.check`'s to say. It must not know what
the kernel computes or where it is called.

A shader is called like this:

- Descriptor set 0 holds storage buffers: bindings 0, 1, ... are the kernel's buffer parameters in order, then its
  results. A result that is written in place has its parameter's binding and none of its own.
- Push constants are 4-byte words: the kernel's scalars in order, then each dim, once, in the order in which dims first
  appear in the signature. A scalar is its bits (f32, i32); f64, i64 and index are two words, low word first; f16, bf16,
  i8, i16 and i1 are widened to a word. A dim is a u32. Nothing is aligned to more than 4 bytes, so a shader declares
  the two words of a 64-bit scalar as two uints.
- The entry point has the kernel's name, or is `main` where the module has no other (GLSL has no other name).
- The local size is the module's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, SpirvTarget
from opsplice.targets.backends.backend import MLIR, Backend, artifact_of
from opsplice.targets.build import compiler_flags, programs, shaders, spirv_val
from opsplice.targets.formats.entries import Entry
from opsplice.targets.formats.spirv import spirv_binary, spirv_reader

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "spirv 1"

_LANGUAGES: dict[str, shaders.Language] = {".comp": "GLSL", ".glsl": "GLSL", ".slang": "Slang", ".wgsl": "WGSL"}
_SUFFIX = ".spv"

ACCEPTED = (*_LANGUAGES, _SUFFIX)

# What Shader implies, so that no target needs to name it.
_IMPLIED = frozenset({"Shader", "Matrix"})


def resolve(request: ArtifactRequest, target: SpirvTarget, store: Store) -> Artifact:
    """The artifact for `request` on `target`, built or copied into the store unless it is there.

    Raises OpspliceError when the file is absent or of an unknown kind, does not compile, lacks an entry point, needs a
    newer SPIR-V or another capability than the target has, or is not valid; and when no compiler can build it or the
    store cannot be written.
    """
    how = "on Vulkan a kernel is a SPIR-V module"
    source_inputs.check_request(request, "Vulkan", ACCEPTED, ("spirv",), how=how, compiled=_LANGUAGES)
    if request.path.suffix in _LANGUAGES:
        return _resolve_source(request, target, store)
    return _resolve_prebuilt(request, target, store)


def _resolve_source(request: ArtifactRequest, target: SpirvTarget, store: Store) -> Artifact:
    language = _LANGUAGES[request.path.suffix]
    source = request.path.resolve()
    compiler = shaders.choose(language, request.path.name)
    validator = spirv_val.find()
    names = shaders.slang_names if language == "Slang" else source_inputs.quoted_names
    flags = compiler_flags.checked(request.flags, language, source.parent)
    inputs = source_inputs.read_inputs(source, flags, names=names)

    def build(output: Path) -> Mapping[str, Any]:
        included = compiler.compile(source, output, target, flags)
        source_inputs.check_complete(inputs, included, source)
        return {"toolchain": compiler.version(), **_check(output, request, target, validator)}

    key = _key(request, target, validator, source.name, inputs.digest, compiler.identity, "\0".join(request.flags))
    return artifact_of(store.get_or_build(key, _SUFFIX, build), "spirv")


def _resolve_prebuilt(request: ArtifactRequest, target: SpirvTarget, store: Store) -> Artifact:
    data = spirv_reader.little_endian(read_file(request.path))
    validator = spirv_val.find()

    def build(output: Path) -> Mapping[str, Any]:
        # The copy is what is checked, so that a file that changes meanwhile does no harm.
        output.write_bytes(data)
        return {"toolchain": None, **_check(output, request, target, validator)}

    return artifact_of(store.get_or_build(_key(request, target, validator, data), _SUFFIX, build), "spirv")


def _check(output: Path, request: ArtifactRequest, target: SpirvTarget, validator: str | None) -> dict[str, Any]:
    """Checks a module, and says which entry point is the kernel and what could not be checked."""
    name = request.path.name
    module = spirv_binary.reflect(output.read_bytes(), name)
    _check_target(module, request, target)
    entries = [spirv_binary.choose_entry(module, name, symbol) for symbol in request.symbols]
    if len(set(entries)) < len(set(request.symbols)):
        raise OpspliceError(
            f"{name} has one entry point, 'main', for several kernels: {', '.join(request.symbols)}",
            hint="give each kernel a file of its own, or name the entry points as the kernels (Slang, WGSL)",
        )
    notes = spirv_val.validate(validator, output, name, target)
    return {"notes": notes, "entry": entries[0] if entries else ""}


def _check_target(module: spirv_binary.SpirvModule, request: ArtifactRequest, target: SpirvTarget) -> None:
    name, built = request.path.name, request.path.suffix in _LANGUAGES
    if module.version > target.version:
        wanted = _version(target.version)
        raise OpspliceError(
            f"{name} is SPIR-V {_version(module.version)}, but the target takes {wanted} at most",
            hint=f"the shader, or its flags, ask for what SPIR-V {wanted} lacks"
            if built
            else f"build it for {wanted} (glslangValidator --target-env spirv{wanted}), or give the source",
        )
    if target.capabilities is None:
        return
    if lacking := sorted(module.capabilities - target.capabilities - _IMPLIED):
        raise OpspliceError(
            f"{name} needs {', '.join(lacking)}, which the target lacks",
            hint=f"the target has {', '.join(sorted(target.capabilities)) or 'no further capabilities'}; "
            "use other types and instructions, or name the capability for this artifact",
        )


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _key(request: ArtifactRequest, target: SpirvTarget, validator: str | None, *parts: bytes | str) -> str:
    capabilities = "any" if target.capabilities is None else ",".join(sorted(target.capabilities))
    checked_by = programs.identity_of([validator]) if validator else ""
    wanted = (_version(target.version), capabilities, "\0".join(request.symbols))
    # Errors and notes are by the file's name.
    return key_of(_BUILDER, request.path.name, *wanted, checked_by, *parts)


class Vulkan(Backend):
    """Devices with Vulkan: SPIR-V, and sources of shaders."""

    name, iree, device, format = "vulkan", "vulkan-spirv", "vulkan", "vulkan-spirv-fb"
    title, kinds, functions = "Vulkan", ACCEPTED, (*MLIR, ".wgsl", ".spv")
    limits = spirv_binary.LIMITS
    clauses = ("spirv", "wgsl")
    chip_flag, chips = "--iree-vulkan-target", r"([\w.-]+)?"

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        # IREE says `spirv:v1.6,cap:Shader,...`. It names what its own code uses, not all that there is.
        found = re.search(r"spirv:v(\d+)\.(\d+)", features)
        return resolve(request, SpirvTarget((int(found[1]), int(found[2]))) if found else SpirvTarget(), store)

    def entry(self, code: Artifact, name: str) -> Entry:
        return spirv_binary.find_entry(spirv_binary.reflect(code.path.read_bytes(), name), name, code.entry)

"""A function's file for a GPU in, a checked artifact that IREE links into its own code there out.

For CUDA and ROCm that is LLVM IR, as text or bitcode; for Vulkan and Metal MLIR, which is read where it is put in, or
WGSL, of which MLIR is made. It must not know where the function is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsplice.errors import OpspliceError
from opsplice.files import read_file
from opsplice.targets.artifacts import source_inputs, temporary_folders
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, SpirvTarget
from opsplice.targets.backends.backend import LLVM_IR, Backend, artifact_of
from opsplice.targets.backends.backend_table import named
from opsplice.targets.build import llvm, shaders
from opsplice.targets.link import spirv_to_mlir
from opsplice.targets.registry.store import Store, key_of

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "device function 3"


def resolve(request: ArtifactRequest, backend: str, store: Store) -> Artifact:
    """The artifact for `request` on one of IREE's GPU backends, copied or assembled into the store.

    Raises OpspliceError when the file is absent or of a kind that the backend does not take, is not valid, lacks the
    function, or needs what nothing links; and for a backend that no functions are linked for.
    """
    found = named(backend)
    if found is None or not found.functions:
        raise OpspliceError(f"no functions can be linked for {backend}")
    source_inputs.check_file(request.path, found.functions)
    suffix = request.path.suffix
    if suffix not in found.functions:
        raise OpspliceError(
            f"{request.path.name} is not a kind of file that a function for {found.title} can be",
            hint=f"accepted: {' '.join(found.functions)}",
        )
    data = read_file(request.path)
    shader_compiler = None
    if suffix == ".wgsl":
        shader_compiler = shaders.choose("WGSL", request.path.name, instead=".mlir")

    def build(output: Path) -> Mapping[str, Any]:
        if shader_compiler is not None:
            output.write_text(_made_of_wgsl(request, shader_compiler), encoding="utf-8")
            return {"toolchain": shader_compiler.version(), "signatures": {}}
        if suffix == ".mlir":
            output.write_bytes(data)
            return {"toolchain": None, "signatures": {}}
        module = llvm.import_device_code(request.path, request.path.name, output)
        _check_names(module, request, found)
        return {"toolchain": llvm.version() if suffix == ".ll" else None, "signatures": dict(module.signatures)}

    version = llvm.version() if suffix in LLVM_IR else shader_compiler.identity if shader_compiler else ""
    key = key_of(_BUILDER, suffix, backend, "\0".join(request.symbols), version, data)
    entry = store.get_or_build(key, ".bc" if suffix in LLVM_IR else ".mlir", build)
    return artifact_of(entry, "bitcode" if suffix in LLVM_IR else "mlir")


def _made_of_wgsl(request: ArtifactRequest, compiler: shaders.ShaderCompiler) -> str:
    """The functions of a file in WGSL, as MLIR."""
    source = request.path.resolve()
    with temporary_folders.folder() as folder:
        output = Path(folder) / "functions.spv"
        # SPIR-V has names of functions for debugging only.
        compiler.compile(source, output, SpirvTarget(), ("--generate-debug-symbols",))
        return spirv_to_mlir.to_mlir(output.read_bytes(), source.name, request.symbols)


def _check_names(module: llvm.Module, request: ArtifactRequest, backend: Backend) -> None:
    found = module.symbols
    assert found is not None, "what cannot be read is an error"
    for symbol in request.symbols:
        if symbol not in found.functions:
            there = " ".join(sorted(found.functions)) or "none"
            raise OpspliceError(
                f"{request.path.name} does not define a function '{symbol}'",
                hint=f'it defines {there}; C++ and CUDA need extern "C"',
            )
    missing = sorted(name for name in found.undefined if not re.fullmatch(backend.linked, name))
    if missing:
        raise OpspliceError(
            f"{request.path.name} calls {', '.join(missing)}, which nothing links for {backend.title}",
            hint="define it in the same file",
        )

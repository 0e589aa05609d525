"""A function's file for a GPU in, a checked artifact that IREE links into its own code there out.

For CUDA and ROCm that is LLVM IR, as text or bitcode; for Vulkan and Metal MLIR, which is read where it is put in; for
Vulkan also SPIR-V, or WGSL, which becomes that. It must not know where the function is called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest
from opsplice.targets.backends.backend import LLVM_IR, Backend, artifact_of
from opsplice.targets.backends.backend_table import named
from opsplice.targets.build import llvm
from opsplice.targets.link import function_link, spirv_link

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "device function 4"


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
    if suffix in (".wgsl", ".spv"):
        return _of_spirv(request, store)

    def build(output: Path) -> Mapping[str, Any]:
        if suffix == ".mlir":
            output.write_bytes(data)
            return {"toolchain": None, "signatures": {}}
        module = llvm.import_device_code(request.path, request.path.name, output)
        _check_names(module, request, found)
        return {"toolchain": llvm.version() if suffix == ".ll" else None, "signatures": dict(module.signatures)}

    version = llvm.version() if suffix in LLVM_IR else ""
    key = key_of(_BUILDER, suffix, backend, "\0".join(request.symbols), version, data)
    entry = store.get_or_build(key, ".bc" if suffix in LLVM_IR else ".mlir", build)
    return artifact_of(entry, "bitcode" if suffix in LLVM_IR else "mlir")


def _of_spirv(request: ArtifactRequest, store: Store) -> Artifact:
    """The functions of a file in SPIR-V or WGSL."""
    file = function_link.read(request.path, store)
    library = spirv_link.Library(request.path.name, file.code)
    _check_defined(list(library.functions()), request)
    spirv_link.check(library, request.symbols)

    def build(output: Path) -> Mapping[str, Any]:
        output.write_bytes(file.code)
        return {"toolchain": file.toolchain, "signatures": {}}

    return artifact_of(store.get_or_build(key_of(_BUILDER, file.code), ".spv", build), "spirv")


def _check_defined(names: Collection[str], request: ArtifactRequest, hint: str = "") -> None:
    for symbol in request.symbols:
        if symbol not in names:
            there = " ".join(sorted(names)) or "none"
            raise OpspliceError(
                f"{request.path.name} does not define a function '{symbol}'", hint=f"it defines {there}{hint}"
            )


def _check_names(module: llvm.Module, request: ArtifactRequest, backend: Backend) -> None:
    found = module.symbols
    assert found is not None, "what cannot be read is an error"
    _check_defined(found.functions, request, '; C++ and CUDA need extern "C"')
    missing = sorted(name for name in found.undefined if not re.fullmatch(backend.linked, name))
    if missing:
        raise OpspliceError(
            f"{request.path.name} calls {', '.join(missing)}, which nothing links for {backend.title}",
            hint="define it in the same file",
        )

"""A library that IREE's runtime can load as an executable for a CPU in, a checked artifact out.

Format: IREE 3.13, runtime/src/iree/hal/local/executable_library.h: an ELF library that exports the function by which
the runtime asks for its dispatches, and is linked to nothing. Its tables name the dispatches; they are filled in when
it is loaded, so that of a name it is only known here that the file has it somewhere. It must not know who calls what.
"""

from __future__ import annotations

from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.arch import Arch
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, CpuTarget
from opsplice.targets.backends.backend import artifact_of
from opsplice.targets.formats import elf

SUFFIX = ".so"
_QUERY = "iree_hal_executable_library_query"
# Part of every key. Raise it when the same inputs come to be checked otherwise.
_BUILDER = "elf dispatch 2"


def resolve(request: ArtifactRequest, target: CpuTarget, store: Store) -> Artifact:
    """The artifact for a file that has the dispatches `request.symbols`, copied into the store.

    Raises OpspliceError when the file is absent or damaged, is for another architecture or is not IREE's executable,
    wants other libraries, or lacks the name.
    """
    name = request.path.name
    source_inputs.check_request(request, "CPU", (SUFFIX,), ("library",))
    data = read_file(request.path)

    def build(output: Path) -> dict[str, None]:
        _check(data, name, target, request.symbols)
        output.write_bytes(data)
        return {"toolchain": None}

    key = key_of(_BUILDER, target.arch, "\0".join(request.symbols), data)
    return artifact_of(store.get_or_build(key, SUFFIX, build), "library", target.arch)


def _check(data: bytes, name: str, target: CpuTarget, symbols: tuple[str, ...]) -> None:
    check(data, name, target.arch)
    for symbol in symbols:
        if b"\0" + symbol.encode() + b"\0" not in data:
            raise OpspliceError(f"{name} has no dispatch '{symbol}'", hint="that is the kernel's name, or its `symbol`")


def check(data: bytes, name: str, arch: Arch) -> None:
    """Raises OpspliceError unless the bytes are IREE's executable for `arch`. name: how errors call the file."""
    library = elf.read_library(data, name)
    if library.arch != arch:
        found = library.arch or f"ELF machine {library.machine}"
        raise OpspliceError(f"{name} is for {found}, but the target is {arch}", hint="build it for the target")
    if library.exports is not None and _QUERY not in library.exports:
        raise OpspliceError(
            f"{name} is not an executable of IREE's: it does not export {_QUERY}",
            hint="a file of plain functions is an object: give the .o, or its source",
        )
    if library.imports:
        listed = ", ".join(sorted(library.imports)[:8])
        raise OpspliceError(f"{name} wants {listed} of other libraries, and IREE loads it with none")
    elf.check_constructors(library, name)

"""Executables of IREE's for GPUs that import functions, and the files that have these: joined when a program is loaded.

Format: IREE 3.13, runtime/src/iree/schemas/vulkan_executable_def.fbs and cuda_executable_def.fbs: modules of SPIR-V, or
texts of PTX, in a FlatBuffer. Read so from executables that the compiler made; others are an error. It must not know
what the functions are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsplice.common.errors import OpspliceError, unforeseen
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs, temporary_folders
from opsplice.targets.artifacts.artifact import CudaTarget, SpirvTarget
from opsplice.targets.build import llvm, ptxas, shaders, spirv_val
from opsplice.targets.formats import flatbuffer, ptx
from opsplice.targets.link import ptx_link, spirv_link

# Part of every key. Raise it when the same inputs come to build something else.
_BUILDER = "function file 1"

SPIRV, CUDA = "vulkan-spirv-fb", "cuda-nvptx-fb"
_SUFFIXES = {".spv": SPIRV, ".wgsl": SPIRV, ".ptx": CUDA, ".ll": CUDA}
SUFFIXES = tuple(_SUFFIXES)

# To read what functions there are, for which the GPU does not matter.
_ANY_GPU = CudaTarget(90)

Functions = spirv_link.Library | ptx_link.Library


@dataclass(frozen=True)
class FunctionFile:
    """A file with functions for one format of executables. form: `vulkan-spirv-fb` or `cuda-nvptx-fb`.

    code: a module of SPIR-V; for CUDA PTX, or LLVM IR, which becomes PTX for the GPU that a program is for.
    toolchain: what made it.
    """

    path: Path
    form: str
    code: bytes
    toolchain: str = "no compiler"

    def functions(self) -> dict[str, str]:
        """The types of its functions by name, as `(f32) -> f32`. LLVM IR becomes PTX for that."""
        if self.form == SPIRV:
            return spirv_link.Library(self.path.name, self.code).functions()
        return ptx_link.Library(self.path.name, _ptx_of(self, _ANY_GPU, Store())).functions()

    @property
    def identity(self) -> str:
        """Equal for files that are the same."""
        return key_of(str(self.path), self.code)


def read(path: Path, store: Store) -> FunctionFile:
    """A file of functions; WGSL is compiled. Raises OpspliceError for one that is none, or not valid."""
    source_inputs.check_file(path, SUFFIXES)
    data = read_file(path)
    form = _SUFFIXES[path.suffix]
    file = _compiled(path, data, store) if path.suffix == ".wgsl" else FunctionFile(path, form, data)
    file.functions()
    if path.suffix == ".spv":
        _validate(file)
    return file


def _validate(file: FunctionFile) -> None:
    """Raise OpspliceError for a module that the validator refuses, where there is one: drivers may crash on others."""
    with temporary_folders.folder() as folder:
        path = Path(folder) / "functions.spv"
        path.write_bytes(spirv_link.as_library(file.code, file.path.name))
        spirv_val.validate(spirv_val.find(), path, file.path.name, None)


def _compiled(path: Path, data: bytes, store: Store) -> FunctionFile:
    compiler = shaders.choose("WGSL", path.name)

    def build(output: Path) -> dict[str, object]:
        # SPIR-V has names of functions for debugging only.
        compiler.compile(path.resolve(), output, SpirvTarget(), ("--generate-debug-symbols",))
        return {"toolchain": compiler.version()}

    entry = store.get_or_build(key_of(_BUILDER, compiler.identity, data), ".spv", build)
    return FunctionFile(path, SPIRV, entry.path.read_bytes(), compiler.name)


def imports(executable: bytes, form: str, name: str) -> dict[str, str]:
    """The types of the functions that an executable imports, by name; none for other formats than those above."""
    if form == SPIRV:
        return {
            s: t for code in _modules(executable, form, name) for s, t in spirv_link.imports(code.data, name).items()
        }
    if form == CUDA:
        texts = (ptx.decode(code.data, name) for code in _modules(executable, form, name))
        return {symbol: kind for text in texts for symbol, kind in ptx_link.imports(text, name).items()}
    return {}


def link(executable: bytes, form: str, name: str, files: Sequence[FunctionFile], store: Store) -> bytes:
    """An executable with the functions that it imports from files, of which the last that has one is taken.

    name: how errors call it. Raises OpspliceError for a function that no file has, or has with other types.
    """
    fitting = [file for file in files if file.form == form]
    if files and not fitting and imports(executable, form, name):
        found = ", ".join(f"{file.path.name} is for {file.form}" for file in files)
        raise OpspliceError(
            f"{name} imports functions for {form}, and no plugin is for that",
            hint=f"it is one that ends in {' or '.join(s for s, f in _SUFFIXES.items() if f == form)}",
            details=found,
        )
    buffer: flatbuffer.Buffer | None = None
    for code in _modules(executable, form, name):
        buffer = code.buffer
        if form == SPIRV:
            libraries = [spirv_link.Library(file.path.name, file.code) for file in fitting]
            code.set(spirv_link.link(code.data, name, libraries))
        else:
            text = ptx.decode(code.data, name)
            target = CudaTarget(ptx.reflect(text, name).sm)
            texts = [ptx_link.Library(file.path.name, _ptx_of(file, target, store)) for file in fitting]
            code.set(ptx_link.link(text, name, texts).encode("utf-8", "surrogateescape"))
    return executable if buffer is None else flatbuffer.wrap(buffer, executable)


def with_functions(executable: bytes, name: str, libraries: Sequence[spirv_link.Library]) -> bytes:
    """An executable for Vulkan with those of the functions that it imports that libraries have."""
    found = list(_modules(executable, SPIRV, name))
    for code in found:
        code.set(spirv_link.link(code.data, name, libraries, partly=True))
    return flatbuffer.wrap(found[0].buffer, executable) if found else executable


def unchecked(executable: bytes, form: str, name: str) -> tuple[str, ...]:
    """Assembles the code of an executable for CUDA; returns notes on what could not be checked.

    Raises OpspliceError for code that the assembler refuses.
    """
    if form != CUDA:
        return ()
    notes: dict[str, None] = {}
    for code in _modules(executable, form, name):
        module = ptx.reflect(ptx.decode(code.data, name), name)
        with temporary_folders.folder() as folder:
            path = Path(folder) / "linked.ptx"
            path.write_bytes(code.data)
            notes.update(dict.fromkeys(ptxas.check(ptxas.find(), path, name, module.target)))
    return tuple(notes)


def _ptx_of(file: FunctionFile, target: CudaTarget, store: Store) -> str:
    if file.path.suffix == ".ptx":
        return ptx.decode(file.code, file.path.name)

    def build(output: Path) -> dict[str, object]:
        with temporary_folders.folder() as folder:
            source = Path(folder) / file.path.name
            source.write_bytes(file.code)
            llvm.compile_ptx(source, output, target)
        return {"toolchain": llvm.version()}

    key = key_of(_BUILDER, f"sm_{target.sm}", llvm.version(), file.code)
    return ptx.decode(store.get_or_build(key, ".ptx", build).path.read_bytes(), file.path.name)


# ---- executables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Code:
    """A module of SPIR-V, or a text of PTX, in an executable."""

    buffer: flatbuffer.Buffer
    data: bytes
    set: Callable[[bytes], None]


# For each format the letters that it begins with, the field of its modules, that of the code in one, and the bytes of
# a number of it; 0 for a text.
_LAYOUTS = {SPIRV: (b"VKE1", 3, 0, 4), CUDA: (b"CDA1", 1, 0, 0)}


def _modules(executable: bytes, form: str, name: str) -> Iterator[_Code]:
    """Each module of an executable. All share a buffer, which `set` changes."""
    magic, modules, code, size = _LAYOUTS[form]
    try:
        buffer = flatbuffer.unwrap(executable, magic)
        places = [buffer.table(buffer.target(at))[code] for at in buffer.vector(buffer.root[modules])]
        found = []
        left = len(executable)
        for place in places:
            found.append(buffer.bytes_at(place, size or 1))
            left -= len(found[-1])
            if left < 0:
                raise ValueError("its modules overlap")
    except flatbuffer.FAILURES as error:
        raise unforeseen(f"{name} is an executable of a format that is not known: {error}") from None
    for place, data in zip(places, found, strict=True):

        def put(changed: bytes, place: int = place) -> None:
            if size:
                buffer.set_bytes(place, changed, size)
            else:
                buffer.set_text(place, changed.decode("utf-8", "surrogateescape"))

        yield _Code(buffer, data, put)

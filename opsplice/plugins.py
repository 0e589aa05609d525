"""The Python interface of `opsplice kernel plugin`, `fat` and `provider`: kernels that programs get at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_folder, write_file
from opsplice.common.store import Store
from opsplice.compiling.spec_files import check_output
from opsplice.targets.formats import fatelf
from opsplice.targets.plugins import plugin_build, plugin_file

if TYPE_CHECKING:
    from opsplice.compiling.spec_sources import SpecPath
    from opsplice.runtime.providers import Key
    from opsplice.signatures import PathText


@dataclass(frozen=True)
class BuiltPlugin:
    """A plugin that was written to `path`.

    functions: those that it has, as C declares them. archs: the CPUs that it is for; none for a GPU's.
    toolchain: what built it, "" for a plugin of no functions.
    """

    path: Path
    functions: tuple[str, ...]
    archs: tuple[str, ...]
    toolchain: str


@dataclass(frozen=True)
class Provided:
    """A module of kernels that was written to `path`.

    kernels: the file of each, by its name and format. notes: what could not be checked.
    """

    path: Path
    kernels: dict[Key, Path]
    notes: tuple[str, ...]


def build(
    spec: SpecPath | None,
    output: PathText,
    *,
    kernels: Sequence[str] = (),
    targets: Sequence[str] = (),
    features: str = "",
) -> BuiltPlugin:
    """Build the kernels of a spec that are `as plugin`, for programs that import them.

    spec: as for `compile`; with None a plugin of no functions, for hosts that have to load one (a `.sos`).
    output: the file to write, by its ending: `.so` for this system, `.sos` for CPUs of any system, `.spv` for Vulkan.
    kernels: only these. targets: the CPUs to build for, by default this machine's; several go into one `.sos`.
    features: what the CPU has, for the kernels' `when`: `avx2,fma`, or `host` for what this machine's has.
    Raises OpspliceError where there is nothing to build, and what compilers and linkers say.
    """
    from opsplice.compiling import plugin_kernels

    path = Path(output)
    check_folder(path)
    if spec is None:
        if path.suffix != ".sos":
            hint = "name one; only an empty plugin needs none: -o none.sos"
            raise OpspliceError("there is no spec to build a plugin from", hint=hint)
        write_file(path, plugin_build.nothing(Store()).read_bytes())
        return BuiltPlugin(path, (), (), "")
    check_output(path, [spec])
    built = plugin_kernels.build(spec, path.suffix, kernels, targets, features)
    write_file(path, built.data)
    parts = plugin_file.read(path).parts if path.suffix in plugin_kernels.SUFFIXES else ()
    archs = tuple(str(part.library.arch) for part in parts)
    return BuiltPlugin(path, tuple(map(str, built.functions)), archs, built.toolchain)


def join(files: Sequence[PathText], output: PathText) -> tuple[str, ...]:
    """Join plugins (`.sos`) of several architectures into one, `output`. Returns what CPUs it is for.

    Raises OpspliceError for files that are no plugins, and for two of one architecture.
    """
    path = Path(output)
    check_folder(path)
    if path.suffix != ".sos":
        raise OpspliceError(f"{path} does not end in .sos", hint="IREE recognises embedded plugins by this ending")
    parts = [(plugin, part) for plugin in map(plugin_file.read, map(Path, files)) for part in plugin.parts]
    for plugin, part in parts:
        plugin_file.check_standalone(part, plugin.path)
    write_file(path, fatelf.write([part.data for _, part in parts], [str(plugin.path) for plugin, _ in parts]))
    return tuple(part.machine for _, part in parts)


def provide(
    folders: Sequence[PathText], output: PathText, *, plugins: Sequence[PathText] = (), flags: Sequence[str] = ()
) -> Provided:
    """Make a module (`output`, a `.vmfb`) of kernels that are `as provided`, for any host of IREE.

    folders: the `.kernels` folders that `compile` wrote; the first that has a kernel wins. plugins: files with
    functions that the kernels import; the last that has a function wins. flags: IREE's own.
    Raises OpspliceError where there are no kernels, and for kernels that cannot be linked.
    """
    from opsplice.frontends import ModuleSource
    from opsplice.pipeline.compiler import compile_module
    from opsplice.runtime.providers import linked, read_folder, read_kernel, registry_source
    from opsplice.targets.link import function_link

    path = Path(output)
    check_folder(path)
    kernels: dict[Key, Path] = {}
    for folder in reversed(folders):
        kernels.update(read_folder(Path(folder)))
    if not kernels:
        where = ", ".join(map(str, folders))
        raise OpspliceError(f"there are no kernels in {where}", hint="they are files ending in .bin")
    functions = [function_link.read(Path(each), Store()) for each in plugins]
    given = {key: read_kernel(key, file) for key, file in sorted(kernels.items())}
    code = {key: linked(key, data, functions, kernels[key]) for key, data in given.items()}
    changed = {key: data for key, data in code.items() if data != given[key]}
    notes = [note for (name, form), data in changed.items() for note in function_link.unchecked(data, form, name)]
    write_file(path, compile_module(ModuleSource(content=registry_source(code)), flags=tuple(flags)).vmfb)
    return Provided(path, {key: kernels[key] for key in code}, tuple(notes))

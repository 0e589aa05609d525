"""Code that a program asks for when it is loaded: folders of executables, and what hands them over.

A folder holds a file for each kernel and format, `scale.embedded-elf-x86_64.bin`. Programs import `registry.load`; here
it is made of Python, for programs that are run from Python, or written as MLIR (`registry_source`), to be compiled to a
module that any host of IREE can load before the program. Executables that import functions are linked on the way, with
files that have them.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file, write_files

if TYPE_CHECKING:
    from opsplice.targets.link.function_link import FunctionFile

# What a program calls, and with what: two buffers in, one out.
MODULE, FUNCTION, _CONVENTION = "registry", "load", "0rr_r"

_SUFFIX = ".bin"

# A kernel's name and the format of its code.
Key = tuple[str, str]


class Provider:
    """Gives a program the kernels that it asks for, from one source after the other.

    sources: folders, kernels by name and format, or one `.vmfb` made by `opsplice kernel provider`.
    functions: files with functions that executables import. Raises OpspliceError for a folder that cannot be read.
    """

    def __init__(self, sources: Sequence[Path | Mapping[Key, bytes]], functions: Sequence[FunctionFile] = ()) -> None:
        self._functions = functions
        self._found: dict[Key, Path | bytes] = {}
        compiled = [s for s in sources if isinstance(s, Path) and s.suffix == ".vmfb"]
        if compiled and len(sources) > 1:
            raise OpspliceError(
                f"{compiled[0]} is a complete provider, so it must be the only one",
                hint="give folders, or make one .vmfb of them",
            )
        if compiled and functions:
            raise OpspliceError(
                f"{compiled[0]} is linked already, so {functions[0].path} cannot be linked into it",
                hint="give the file to `opsplice kernel provider`, with --plugin",
            )
        self._compiled = compiled[0] if compiled else None
        for source in reversed([] if compiled else sources):
            self._found.update(source if isinstance(source, Mapping) else read_folder(source))
        self._places = [str(source) for source in sources if isinstance(source, Path)]
        self.failure: OpspliceError | None = None  # of the last `load` in a module

    def load(self, name: str, form: str) -> bytes:
        """An executable. Raises OpspliceError when there is none, or no file has a function that it imports."""
        found = self._found.get((name, form))
        if found is None:
            raise self._missing(name, form)
        if isinstance(found, bytes):
            return linked((name, form), found, self._functions)
        return linked((name, form), read_kernel((name, form), found), self._functions, found)

    def take_failure(self) -> OpspliceError:
        """Why the last `load` in a module failed, once: kept here, its traceback would keep the device open."""
        assert self.failure is not None
        failure, self.failure = self.failure, None
        return failure

    def modules(self, load: Callable[[Path, str], Any]) -> list[Any]:
        """The modules to load before the program. When `load` fails in them, `failure` says why.

        load: makes a module of a file, for messages of a name.
        """
        import iree.runtime

        if self._compiled is not None:
            return [load(self._compiled, str(self._compiled))]

        interface = iree.runtime.PyModuleInterface(MODULE, lambda _interface: self)
        interface.export(FUNCTION, _CONVENTION, _load_buffer)
        return [interface.create()]

    def _missing(self, name: str, form: str) -> OpspliceError:
        places = ", ".join(self._places) or "none was given"
        others = sorted({other for known, other in self._found if known == name})
        names = sorted({known for known, _ in self._found})
        hint = "give its folder with --provider; `opsplice compile` writes it beside the program"
        if others:
            hint = f"it is there for {', '.join(others)}: compile the spec for this device too"
        elif names:
            near = difflib.get_close_matches(name, names, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
        return OpspliceError(
            f"no provider has the kernel '{name}' for {form}",
            hint=hint,
            details=f"looked for {file_name((name, form))} in: {places}",
        )


def _load_buffer(provider: Provider, name: Any, form: Any) -> Any:
    """`load` on buffers of IREE's virtual machine."""
    from iree.runtime import VmBuffer

    try:
        code = provider.load(*(bytes(each.deref(VmBuffer)).decode() for each in (name, form)))
    except OpspliceError as error:
        # Not this error itself: its traceback would keep IREE's objects alive.
        provider.failure = OpspliceError(error.message, hint=error.hint, details=error.details)
        raise LookupError(error.message) from None
    buffer = VmBuffer(len(code), 64, True)
    memoryview(buffer)[:] = code
    return buffer.ref


def linked(key: Key, code: bytes, functions: Sequence[FunctionFile], file: Path | None = None) -> bytes:
    """An executable with the functions that it imports. Raises OpspliceError when no file has one of them.

    file: where it was read from; an error if it cannot be what the compiler wrote there.
    """
    from opsplice.common.store import Store
    from opsplice.targets.link import function_link  # what only few programs need takes long to load

    name, form = key
    try:
        imports = function_link.imports(code, form, name)
    except OpspliceError as error:
        if file is None:
            raise
        raise OpspliceError(
            f"{file} is damaged, or is not code for {form}",
            details=error.message,
            hint="copy it again, or let `opsplice compile` write it again",
        ) from None
    if not imports:
        return code
    return function_link.link(code, form, name, functions, Store())


def split_plugins(paths: Any) -> tuple[list[Any], tuple[FunctionFile, ...]]:
    """Plugins at paths (or at one): libraries of CPUs, which IREE loads, and files of functions for other devices.

    Raises OpspliceError for a file of functions that cannot be read, or is not valid.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if not paths:
        return [], ()
    from opsplice.common.store import Store
    from opsplice.targets.link import function_link

    apart = [path for path in paths if Path(path).suffix in function_link.SUFFIXES]
    return [path for path in paths if path not in apart], tuple(function_link.read(Path(p), Store()) for p in apart)


# ---- folders -------------------------------------------------------------------------------------------------------


def file_name(key: Key) -> str:
    """The file of a kernel in a provider's folder."""
    return f"{key[0]}.{key[1]}{_SUFFIX}"


def read_folder(folder: Path) -> dict[Key, Path]:
    """The kernels in a folder. Raises OpspliceError when it cannot be read."""
    if not folder.is_dir():
        raise OpspliceError(f"there is no folder {folder}", hint="a provider is a folder of .bin files, or a .vmfb")
    found: dict[Key, Path] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        name, _, form = path.name.removesuffix(_SUFFIX).rpartition(".")
        if name:
            found[name, form] = path
    return found


def write_folder(folder: Path, kernels: Mapping[Key, bytes]) -> list[Path]:
    """Write kernels to a folder, which is made if it is not there. Raises OpspliceError when that fails."""
    return write_files(folder, {file_name(key): code for key, code in sorted(kernels.items())})


def read_kernel(key: Key, path: Path) -> bytes:
    """The executable in a folder's file. Raises OpspliceError when it cannot be read, or is none of the format."""
    from opsplice.targets.artifacts import arch
    from opsplice.targets.backends import cpu_dispatch  # what only few programs need

    code = read_file(path)
    again = "compile the program again, which writes it; or give another folder with --provider"
    if not code:
        raise OpspliceError(f"{path} is empty", hint=again)
    if key[1] in map(arch.iree_key, arch.ARCHS):
        try:
            cpu_dispatch.check(code, str(path), arch.from_iree_key(key[1]))
        except OpspliceError as error:
            raise OpspliceError(error.message, hint=again) from None
    return code


# ---- as a module ---------------------------------------------------------------------------------------------------


_REGISTRY = """\
module @registry {{
  util.func private @is(%text: !util.buffer, %other: !util.buffer) -> i1 {{
    %zero = arith.constant 0 : index
    %size = util.buffer.size %text : !util.buffer
    %length = util.buffer.size %other : !util.buffer
    %fits = arith.cmpi eq, %size, %length : index
    %least = arith.minui %size, %length : index
    %begins = util.buffer.compare %text[%zero], %other[%zero], %least : !util.buffer{{%size}}, !util.buffer{{%length}}
    %same = arith.andi %fits, %begins : i1
    util.return %same : i1
  }}
  util.func public @load(%name: !util.buffer, %format: !util.buffer) -> !util.buffer {{
    %zero = arith.constant 0 : index
{branches}    %none = arith.constant 5 : i32
    util.status.check_ok %none, "the registry has none of the kernels asked for; it has {listed}"
    %null = util.null : !util.buffer
    cf.br ^found(%null, %zero : !util.buffer, index)
  ^found(%code: !util.buffer, %size: index):
    %copy = util.buffer.slice %code[%zero] : !util.buffer{{%size}} -> !util.buffer{{%size}}
    util.return %copy : !util.buffer
  }}
}}
"""
# Goes to `found` with a kernel if it is the one that is asked for.
_BRANCH = """\
    %name_{n} = util.buffer.constant : !util.buffer = "{name}"
    %format_{n} = util.buffer.constant : !util.buffer = "{form}"
    %is_name_{n} = util.call @is(%name, %name_{n}) : (!util.buffer, !util.buffer) -> i1
    %is_format_{n} = util.call @is(%format, %format_{n}) : (!util.buffer, !util.buffer) -> i1
    %both_{n} = arith.andi %is_name_{n}, %is_format_{n} : i1
    cf.cond_br %both_{n}, ^found_{n}, ^next_{n}
  ^found_{n}:
    %kernel_{n} = "util.buffer.constant"() <{{
      alignment = 64 : index, value = dense<"0x{code}"> : vector<{size}xi8>}}> : () -> !util.buffer
    %kernel_{n}_size = arith.constant {size} : index
    cf.br ^found(%kernel_{n}, %kernel_{n}_size : !util.buffer, index)
  ^next_{n}:
"""


def registry_source(kernels: Mapping[Key, bytes]) -> str:
    """A module that has kernels in it and gives them to programs, as MLIR; 5 is IREE's status NOT_FOUND.

    It gives a copy, for IREE compiles no function that returns one of several constants.
    """
    branches = [
        _BRANCH.format(n=number, name=name, form=form, code=code.hex().upper(), size=len(code))
        for number, ((name, form), code) in enumerate(kernels.items())
    ]
    listed = ", ".join(f"{name} for {form}" for name, form in kernels)
    return _REGISTRY.format(branches="".join(branches), listed=listed)

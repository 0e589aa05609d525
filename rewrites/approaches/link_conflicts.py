"""What is linked into one program shares one name space, and must not define a name twice.

IREE's linker takes the first of several definitions without a word, so the wrong kernel would run. Objects are read for
the names that they define; of bitcode only the names that are called are known. Plugins have one function of a name,
too, whichever kernel wants it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.ir import emit
from opsplice.rewrites.plan import c_types
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.targets.formats import elf
from opsplice.targets.plugins import call_types

_OBJECT = re.compile(
    r'(#hal\.executable\.target<.*?>) = \[#hal\.executable\.object<\{path = "((?:[^"\\]|\\.)*)"'
    r'(?:, data = dense<"?([^">]*)"?> : [^}]*)?\}>\]',
    re.DOTALL,
)
_DIGEST = re.compile(r"[0-9a-f]{64}\.\w+")
# How a declaration says that a function is linked, or imported.
_HOW = ("hal.import.static", dynamic_function.IMPORTED)


@dataclass(frozen=True)
class _Linked:
    """A file that is linked for a target, a name that is called in it, and who calls it. name: the file, for errors.

    path: of what is in the program as bytes, their digest with the file's suffix, as the store names files.
    """

    target: str
    path: Path
    symbol: str
    caller: str
    name: str


@dataclass(frozen=True)
class _Called:
    """A function of C that a program calls by its name.

    types: what it is called with; None where that is checked elsewhere. is_imported: from a plugin. origins: the files
    that the kernel names for plugins, by target. caller: who calls it, in words.
    """

    symbol: str
    types: tuple[str, ...] | None
    is_imported: bool
    origins: Mapping[str, str]
    caller: str


def check(module: ir.Module, calls: Sequence[KernelCall] = ()) -> None:
    """Raise OpspliceError if two files of one target, among those of the calls and the module, define the same name.

    Two weak definitions of a name do no harm: the linker takes one of what are copies of one function.
    Likewise if a function is linked for one kernel and imported from a plugin for another, if two kernels name
    different files for the plugin that has it, and if they call it with different types.
    """
    _check_called([*_called_in(module), *map(_called_by, calls)])
    owners: dict[tuple[str, str], _Linked] = {}
    defined: dict[Path, Mapping[str, bool]] = {}
    for file in dict.fromkeys((*_linked_in(module), *_linked_by(calls))):
        if file.path not in defined:
            defined[file.path] = _defined(file.path)
        for name in sorted(defined[file.path].keys() | {file.symbol}):
            first = owners.setdefault((file.target, name), file)
            are_weak = all(defined[each.path].get(name) for each in (first, file))
            if not (are_weak or _is_same(first.path, file.path)):
                raise OpspliceError(
                    f"{name} is defined by two files that are linked into one program",
                    hint="make helpers static, and give each kernel a symbol and a file that no other kernel has",
                    details=f"{first.name} is linked for {first.caller}\n{file.name} is linked for {file.caller}",
                )


def _check_called(functions: Iterable[_Called]) -> None:
    of_symbol: dict[str, list[_Called]] = {}
    for function in functions:
        known = of_symbol.setdefault(function.symbol, [])
        for other in known:
            if (difference := _difference(other, function)) is not None:
                what, first, second = difference
                raise OpspliceError(
                    f"{function.symbol} is {what}",
                    hint="give each kernel a symbol that no other kernel has",
                    details=f"{first}: {other.caller}\n{second}: {function.caller}",
                )
        if function not in known:
            known.append(function)


def _difference(one: _Called, other: _Called) -> tuple[str, str, str] | None:
    """Why two functions of one name are not the same, in words, and how each of them is called; None if they are."""
    if one.is_imported != other.is_imported:
        ways = ("imported" if one.is_imported else "linked", "imported" if other.is_imported else "linked")
        return ("linked into the program, and imported from a plugin too", *ways)
    for target in one.origins.keys() & other.origins.keys():
        if one.origins[target] != other.origins[target]:
            return "imported from plugins of two files", one.origins[target], other.origins[target]
    if one.types is not None and other.types is not None and one.types != other.types:
        first, second = (f"{one.symbol}({', '.join(each.types or ())})" for each in (one, other))
        return "called with different types by two kernels", first, second
    return None


def _called_by(call: KernelCall) -> _Called:
    types = None if call.kernel.is_scalar else tuple(map(call_types.passed, c_types.parameters_of(call)))
    origins = {target: str(path) for target, path in call.origins.items()}
    return _Called(call.symbol, types, bool(call.imported), origins, f"kernel {call.kernel.name} at {call.kernel.span}")


def _called_in(module: ir.Module) -> Iterator[_Called]:
    """The functions that calls put into the module earlier are of."""
    for top in module.body.operations:
        if top.operation.name not in ("stream.executable", "hal.executable"):
            continue
        caller = f"executable {symbol_of(top.operation)}"
        for op in ops_in(top.operation):
            if op.name != "func.func" or not any(each in op.attributes for each in _HOW):
                continue
            types = tuple(map(call_types.passed, dynamic_function.parameters_of(op)))
            origins = op.attributes.get(dynamic_function.ORIGINS, ())
            files = {entry.name: ir.StringAttr(entry.attr).value for entry in origins}
            yield _Called(symbol_of(op), types, dynamic_function.IMPORTED in op.attributes, files, caller)


def _linked_by(calls: Iterable[KernelCall]) -> Iterator[_Linked]:
    for call in calls:
        files = {choice.artifact.path: choice.clause.file for choice in call.choices if choice.artifact is not None}
        for target, path in call.objects.items():
            caller, name = f"kernel {call.kernel.name} at {call.kernel.span}", str(files[path])
            yield _Linked(target, path, call.symbol, caller, name)


def _linked_in(module: ir.Module) -> Iterator[_Linked]:
    for top in module.body.operations:
        op = top.operation
        if op.name != "stream.executable" or "hal.executable.objects" not in op.attributes:
            continue
        found = _OBJECT.findall(str(op.attributes["hal.executable.objects"]))
        for symbol in _imports(op):
            for target, path, data in found:
                unescaped = Path(emit.unescaped(path))
                caller = f"executable {symbol_of(op)}"
                file = unescaped.with_name(f"{_digest(data)}{unescaped.suffix}") if data else unescaped
                yield _Linked(target, file, symbol, caller, str(unescaped))


def _digest(data: str) -> str:
    """The digest of bytes as MLIR prints them: in hexadecimal, and a few of them as a list."""
    content = bytes.fromhex(data[2:]) if data.startswith("0x") else data.encode()
    return hashlib.sha256(content).hexdigest()


def _is_same(one: Path, other: Path) -> bool:
    return one == other or (one.name == other.name and _DIGEST.fullmatch(one.name) is not None)


def _imports(executable: ir.Operation) -> list[str]:
    """The functions that an executable has linked in."""
    return [symbol_of(op) for op in ops_in(executable) if "hal.import.static" in op.attributes]


def _defined(path: Path) -> Mapping[str, bool]:
    """The names that a file defines, and whether each may give way to another file's."""
    if path.suffix != ".o" or not path.is_file():
        return {}  # a file that is not there is one that IREE is to look for on its search path
    found = elf.read_object(read_file(path), path.name)
    # C++ lets an inline function be in every object, and demands that all definitions of a name are the same.
    return {name: name in found.weak for name in found.functions | found.data if not name.startswith("_Z")}

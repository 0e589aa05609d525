"""What is linked into one program shares one name space, and must not define a name twice.

IREE's linker takes the first of several definitions without a word, so the wrong kernel would run. Objects are read for
the names that they define; of bitcode only the names that are called are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers.ir_names import ops_in, symbol_of
from opsplice.rewrites.calls import KernelCall
from opsplice.targets import objects

_OBJECT = re.compile(
    r'(#hal\.executable\.target<.*?>) = \[#hal\.executable\.object<\{path = "((?:[^"\\]|\\.)*)"\}>\]', re.DOTALL
)


@dataclass(frozen=True)
class _Linked:
    """A file that is linked for a target, a name that is called in it, and who calls it. name: the file, for errors."""

    target: str
    path: Path
    symbol: str
    caller: str
    name: str


def check(module: ir.Module, calls: Sequence[KernelCall]) -> None:
    """Raise OpspliceError if two files of one target, among those of the calls and the module, define the same name.

    Likewise if a function is linked for one kernel and imported from a plugin for another.
    """
    imported = {call.symbol: call for call in calls if call.imported}
    owners: dict[tuple[str, str], _Linked] = {}
    defined: dict[Path, frozenset[str]] = {}
    for file in dict.fromkeys((*_linked_in(module), *_linked_by(calls))):
        if file.symbol in imported:
            kernel = imported[file.symbol].kernel
            raise OpspliceError(
                f"{file.symbol} is linked into the program, and imported from a plugin too",
                hint="give each kernel a symbol that no other kernel has",
                details=f"{file.name} is linked for {file.caller}\nkernel {kernel.name} at {kernel.span} imports it",
            )
        if file.path not in defined:
            defined[file.path] = _defined(file.path)
        for name in sorted(defined[file.path] | {file.symbol}):
            first = owners.setdefault((file.target, name), file)
            if first.path != file.path:
                raise OpspliceError(
                    f"{name} is defined by two files that are linked into one program",
                    hint="make helpers static, and give each kernel a symbol and a file that no other kernel has",
                    details=f"{first.name} is linked for {first.caller}\n{file.name} is linked for {file.caller}",
                )


def _linked_by(calls: Iterable[KernelCall]) -> Iterator[_Linked]:
    for call in calls:
        for target, path in call.objects.items():
            caller, name = f"kernel {call.kernel.name} at {call.kernel.span}", str(call.sources.get(path, path))
            yield _Linked(target, path, call.symbol, caller, name)


def _linked_in(module: ir.Module) -> Iterator[_Linked]:
    for top in module.body.operations:
        op = top.operation
        if op.name != "stream.executable" or "hal.executable.objects" not in op.attributes:
            continue
        found = _OBJECT.findall(str(op.attributes["hal.executable.objects"]))
        for symbol in _imports(op):
            for target, path in found:
                unescaped = Path(path.replace('\\"', '"').replace("\\\\", "\\"))
                caller = f"executable {ir.StringAttr(op.attributes['sym_name']).value}"
                yield _Linked(target, unescaped, symbol, caller, str(unescaped))


def _imports(executable: ir.Operation) -> list[str]:
    """The functions that an executable has linked in."""
    return [symbol_of(op) for op in ops_in(executable) if "hal.import.static" in op.attributes]


def _defined(path: Path) -> frozenset[str]:
    if path.suffix != ".o" or not path.is_file():
        return frozenset()  # a file that is not there is one that IREE is to look for on its search path
    found = objects.read_object(path.read_bytes(), path.name)
    # C++ lets an inline function be in every object, and demands that all definitions of a name are the same.
    return frozenset(n for n in found.functions | found.data if not n.startswith("_Z"))

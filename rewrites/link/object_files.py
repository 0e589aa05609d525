"""The files that executables written as MLIR name: `#hal.executable.object<{path = "..."}>`, found beside the spec."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.ir import emit
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.formats import llvm_types

_TARGET = re.compile(r"#hal\.executable\.target<")
_PATH = re.compile(r'(path = )"((?:[^"\\]|\\.)*)"')

# The attributes of executables, and of their variants, that name files.
FILES = ("hal.executable.objects", "objects")

# Given the path of an artifact as the spec writes it, and the text of its target: the file, as it is or as what was
# built from it; None to leave the path.
ObjectResolver = Callable[[str, str], Path | Artifact | None]


def resolve_in(executable: ir.Operation, resolve: ObjectResolver) -> None:
    """Put absolute paths in the place of those that an executable names.

    Raises OpspliceError where a function of a source has other types than the executable declares it with.
    """
    declared = [op for op in ops_in(executable, "func.func") if "hal.import.static" in op.attributes]

    def checked(path: str, target: str) -> Path | None:
        found = resolve(path, target)
        if not isinstance(found, Artifact):
            return found
        for function in declared:
            _check_types(function, found, path)
        return found.path

    for op in ops_in(executable):
        for name in FILES:
            if name in op.attributes:
                text = str(op.attributes[name])
                found = _resolved(text, checked)
                if found != text:
                    op.attributes[name] = ir.Attribute.parse(found, context=op.context)


def _check_types(function: ir.Operation, artifact: Artifact, name: str) -> None:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [dynamic_function.element_of(each) for each in (*(kind.results or [None]), *kind.inputs)]
    symbol = symbol_of(function)
    if symbol in artifact.signatures and llvm_types.KNOWN.issuperset(types):
        result, *parameters = types
        llvm_types.check(name, symbol, artifact.signatures[symbol], result, parameters, "the spec")


def _resolved(text: str, resolve: Callable[[str, str], Path | None]) -> str:
    """The text of an attribute with its paths resolved, each for the target that stands before it."""
    targets = [m.start() for m in _TARGET.finditer(text)]

    def path(match: re.Match[str]) -> str:
        start = max((t for t in targets if t < match.start()), default=0)
        found = resolve(emit.unescaped(match[2]), text[start : match.start()])
        if found is None:
            return match[0]
        return f'{match[1]}"{emit.escaped(found)}"'

    return _PATH.sub(path, text)

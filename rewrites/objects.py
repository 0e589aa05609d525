"""The files that executables written as MLIR name: `#hal.executable.object<{path = "..."}>`, found beside the spec."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from iree.compiler import ir

from opsplice.matchers.ir_names import ops_in

_TARGET = re.compile(r"#hal\.executable\.target<")
_PATH = re.compile(r'(path = )"((?:[^"\\]|\\.)*)"')

# The attributes of executables, and of their variants, that name files.
FILES = ("hal.executable.objects", "objects")

# Given the path of an artifact as the spec writes it, and the text of its target: the file, None to leave the path.
ObjectResolver = Callable[[str, str], Path | None]


def resolve_in(executable: ir.Operation, resolve: ObjectResolver) -> None:
    """Put absolute paths in the place of those that an executable names."""
    for op in ops_in(executable):
        for name in FILES:
            if name in op.attributes:
                text = str(op.attributes[name])
                found = _resolved(text, resolve)
                if found != text:
                    op.attributes[name] = ir.Attribute.parse(found, context=op.context)


def _resolved(text: str, resolve: ObjectResolver) -> str:
    """The text of an attribute with its paths resolved, each for the target that stands before it."""
    targets = [m.start() for m in _TARGET.finditer(text)]

    def path(match: re.Match[str]) -> str:
        start = max((t for t in targets if t < match.start()), default=0)
        found = resolve(match[2].replace('\\"', '"').replace("\\\\", "\\"), text[start : match.start()])
        if found is None:
            return match[0]
        return match[1] + '"' + str(found).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return _PATH.sub(path, text)

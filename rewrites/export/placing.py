"""How an exported spec carries its kernels' files: by the path in the store, by a copy beside it, or as bytes in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.files import read_file

Carrier = Literal["path", "copy", "bytes"]

_OBJECT = re.compile(r'#hal\.executable\.object<\{path = "((?:[^"\\]|\\.)*)"\}>')
_ATTRIBUTE = "hal.executable.objects"


def place(module: ir.Module, carrier: Carrier, folder: Path) -> dict[str, bytes]:
    """Rewrite what the module's executables link. folder: for copies, where they go, relative to where IREE searches.

    Returns the copies that are to be written, by path. Needs a current context. Raises OpspliceError for an object file
    that would have to go along as bytes: IREE 3.13 takes them and then links nothing of them.
    """
    copies: dict[str, bytes] = {}
    if carrier == "path":
        return copies

    def entry(match: re.Match[str]) -> str:
        path = Path(match[1].replace('\\"', '"').replace("\\\\", "\\"))
        if carrier == "bytes":
            return _bytes_entry(path)
        name = str(folder / path.name)
        copies[name] = read_file(path)
        return f'#hal.executable.object<{{path = "{name}"}}>'

    for op in _executables(module):
        op.attributes[_ATTRIBUTE] = ir.Attribute.parse(_OBJECT.sub(entry, str(op.attributes[_ATTRIBUTE])))
    return copies


def _executables(module: ir.Module) -> Iterable[ir.Operation]:
    tops = (top.operation for top in module.body.operations)
    return [op for op in tops if op.name == "stream.executable" and _ATTRIBUTE in op.attributes]


def _bytes_entry(path: Path) -> str:
    if path.suffix != ".bc":
        raise OpspliceError(
            f"{path.name} is an object file, and IREE links only bitcode from bytes",
            hint="write `as bitcode` in the kernel's clause and give it a source, or export with --objects=copy",
        )
    data = read_file(path)
    return (
        f'#hal.executable.object<{{path = "{path.name}", data = dense<"0x{data.hex().upper()}"> '
        f": vector<{len(data)}xi8>}}>"
    )

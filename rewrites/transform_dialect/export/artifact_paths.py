"""How an exported spec carries its kernels' files: by the path in the store, by a copy beside it, or as bytes in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.symbols import EXECUTABLES
from opsplice.rewrites.link.object_files import FILES

Carrier = Literal["path", "copy", "bytes"]

_OBJECT = re.compile(r'#hal\.executable\.object<\{path = "((?:[^"\\]|\\.)*)"\}>')


def place(module: ir.Module, carrier: Carrier, folder: Path) -> dict[str, bytes]:
    """Rewrite what the module's executables link. folder: for copies, where they go, relative to where IREE searches.

    Returns the copies that are to be written, by path. Needs a current context. Raises OpspliceError for an object file
    that would have to go along as bytes: IREE 3.13 takes them and then links nothing of them.
    """
    copies: dict[str, bytes] = {}
    if carrier == "path":
        return copies

    def entry(match: re.Match[str]) -> str:
        path = Path(emit.unescaped(match[1]))
        if carrier == "bytes":
            return _bytes_entry(path)
        name = str(folder / path.name)
        copies[name] = read_file(path)
        return str(emit.object_file(name))

    for op, name in _linking(module):
        op.attributes[name] = ir.Attribute.parse(_OBJECT.sub(entry, str(op.attributes[name])))
    return copies


def _linking(module: ir.Module) -> Iterable[tuple[ir.Operation, str]]:
    """The executables, and the variants of them, that name files, each with the attribute that does."""
    tops = [top.operation for top in module.body.operations if top.operation.name in EXECUTABLES]
    ops = (op for top in tops for op in (top, *ops_in(top, "hal.executable.variant")))
    return [(op, name) for op in ops for name in FILES if name in op.attributes]


def _bytes_entry(path: Path) -> str:
    if path.suffix == ".o":
        raise OpspliceError(
            f"{path.name} is an object file, and IREE links only bitcode from bytes",
            hint="write `as bitcode` in the kernel's clause and give it a source, or export with --objects=copy",
        )
    data = read_file(path)
    return (
        f'#hal.executable.object<{{path = "{path.name}", data = dense<"0x{data.hex().upper()}"> '
        f": vector<{len(data)}xi8>}}>"
    )

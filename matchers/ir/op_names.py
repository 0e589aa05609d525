"""The ops of a program: how messages call them, their symbols, where they stand, and what they hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from iree.compiler import ir

from opsplice.common.files import is_installed

FUNCTIONS = (".func", ".initializer")
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLACE = re.compile(rf"{_NAME.pattern}:(\d+):(\d+)")


def short(name: str) -> str:
    """An op as patterns write it: `mulf` for `arith.mulf`, any other by its full name."""
    return name.partition(".")[2] if name.startswith(("arith.", "math.")) else name


def symbol_of(op: ir.Operation) -> str:
    """The symbol that an op declares, "" if it declares none."""
    name = op.attributes.get("sym_name", None)  # of another kind in portable StableHLO
    return name.value if isinstance(name, ir.StringAttr) else ""


def global_of(op: ir.Operation) -> str:
    """The symbol of the global that an op loads, or stores in."""
    return str(ir.FlatSymbolRefAttr(op.attributes["global"]).value)


def function_around(op: ir.Operation) -> str:
    """The name of the function that an op stands in, "" for none."""
    _, *holders = around(op)
    return next((symbol_of(holder) for holder in holders if holder.name.endswith(FUNCTIONS)), "")


def around(op: ir.Operation) -> Iterator[ir.Operation]:
    """An op and those that it stands in, the innermost first."""
    yield op
    while op.parent is not None:
        op = op.parent.operation
        yield op


def held_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The op of a block that is an op or holds it, None where the block does not."""
    return next((at for at in around(op.operation) if at.parent is not None and at.block == block), None)


def last_op(block: ir.Block) -> ir.Operation:
    """The op that ends a block."""
    return block.operations[len(block.operations) - 1].operation


def ops_in(root: ir.Operation, *names: str) -> list[ir.Operation]:
    """An op and all that its regions hold, each after what it holds; only those of these names, if any are given."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not names or op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found


def places_of(op: ir.Operation) -> list[tuple[str, int, int]]:
    """The file, line and column of each place in an op's location, the innermost first."""
    return [(file, int(line), int(column)) for file, line, column in _PLACE.findall(str(op.location))]


def location_of(op: ir.Operation) -> str:
    """`file:line:column`: the innermost place, where an op was inlined or fused; else its name there, or "".

    Without the column where there is none: Python's traces end with the line.
    Files of installed packages do not count where there are others: users look for the line that calls a framework.
    Ops that came without a place have the name that `frontends/numbering.py` gives them.
    """
    return _location(str(op.location))


@functools.lru_cache(maxsize=1024)
def _location(text: str) -> str:
    places = list(_PLACE.finditer(text))
    if places:
        place = next((each for each in places if not is_installed(each[1])), places[0])
        return f"{place[1]}:{place[2]}" if place[3] == "0" else f"{place[1]}:{place[2]}:{place[3]}"
    name = _NAME.search(text)
    return name[1] if name is not None else ""


def location_text(op: ir.Operation) -> str:
    """As `location_of`, with a word for an op of which nothing is known."""
    return location_of(op) or "unknown"


# Ops that hand what they use to who called the program.
_HANDING_OUT = ("hal.tensor.export", "func.return", "util.return")


def user_text(op: ir.Operation, name: str = "") -> str:
    """An op that uses a value, in words, with its place. name: what to call it where that is not its own name."""
    return "the program's results" if op.name in _HANDING_OUT else f"{name or op.name} at {location_text(op)}"

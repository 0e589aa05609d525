"""Places in a payload: an op or a value said in words.

It reads MLIR and knows nothing of patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from iree.compiler import ir

from opsplice.matchers.explain.near_miss import Place
from opsplice.matchers.ir.op_names import around, function_around, location_of, symbol_of, user_text
from opsplice.matchers.ir.tensor_values import defining_op

_WIDTH = 200
_MOST_USERS = 3
_MAPS = re.compile(r"\{indexing_maps = \[.*?\], iterator_types = (\[.*?\])\}")
# Ops whose regions are scalar code that belongs to the op itself.
_BODIES = ("linalg.", "iree_linalg_ext.")


def function_of(op: ir.Operation) -> str:
    """The name of the function that an op stands in, as the user knows it, or ""."""
    return as_known(function_around(op))


def other_uses(value: ir.Value, inside: frozenset[ir.Operation]) -> str:
    """Who else uses a value, beside the ops `inside` a match: "also used by math.tanh at model.py:88:3", or ""."""
    users = list(dict.fromkeys(use.owner.operation for use in value.uses))
    others = list(dict.fromkeys(user_text(op, place_of(op, text=False).op) for op in users if op not in inside))
    if not others:
        return ""
    shown = ", ".join(others[:_MOST_USERS])
    return f"also used by {shown}" + (f" and {len(others) - _MOST_USERS} more" if len(others) > _MOST_USERS else "")


def place_of(thing: ir.Operation | ir.Value, *, text: bool = True) -> Place:
    """An op, or what makes a value, in words. text: False leaves the IR out, which takes long in a large function."""
    if isinstance(thing, ir.Value):
        op = defining_op(thing)
        return _argument(ir.BlockArgument(thing), text) if op is None else place_of(op, text=text)
    outer = outermost(thing)
    name = thing.name
    if outer != thing:
        # What a named op computes inside is not written in the program.
        name = f"{name} in {outer.name}" if location_of(outer) != location_of(thing) else outer.name
    if name == "hal.tensor.import":
        name = _input_name(thing)
        return Place(f"the program's {name}", "", f"{name} : {thing.results[0].type}")
    return Place(name, location_of(thing), _text(thing) if text else "")


def _input_name(op: ir.Operation) -> str:
    if "name" in op.attributes:
        return str(ir.StringAttr(op.attributes["name"]).value)
    source = op.operands[0]
    return f"input{ir.BlockArgument(source).arg_number}" if defining_op(source) is None else "input"


def as_known(function: str) -> str:
    """The name of a function as the user knows it: frontends put the work into a twin `main$async` of `main`."""
    return function.removesuffix("$async")


def outermost(op: ir.Operation) -> ir.Operation:
    """The structured op whose body an op stands in, or the op itself."""
    holders = [op, *(holder for holder in around(op) if holder.name.startswith(_BODIES))]
    return holders[-1]


def _argument(value: ir.BlockArgument, text: bool) -> Place:
    holder = value.owner.owner.operation
    name = f"@{as_known(symbol_of(holder))}" if holder.name.endswith(".func") else holder.name
    return Place(f"argument {value.arg_number} of {name}", "", f"{value.get_name()} : {value.type}" if text else "")


@contextmanager
def remembering() -> Iterator[None]:
    """Within it the text of each op is made once, which takes long in a large function: no op may change."""
    token = _texts.set({})
    try:
        yield
    finally:
        _texts.reset(token)


_texts: ContextVar[dict[ir.Operation, str] | None] = ContextVar("_texts", default=None)


def _text(op: ir.Operation) -> str:
    known = _texts.get()
    if known is None:
        return _printed(op)
    if op not in known:
        known[op] = _printed(op)
    return known[op]


def _printed(op: ir.Operation) -> str:
    text = op.get_asm(large_elements_limit=8, large_resource_limit=8, skip_regions=True, assume_verified=True)
    text = " ".join(_MAPS.sub(r"{iterator_types = \1}", text[: 20 * _WIDTH]).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."

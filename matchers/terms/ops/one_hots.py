"""Products with one-hot rows, which are elements at computed indices, as JAX and flax write embeddings.

    sum over v of (i == v) * w[v]   =>   select(i < v's size, take(reduce take over v of w[v], i), 0.0)

An index outside of the table has no row, so that there is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opsplice.matchers.ir.tensor_values import element_type
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.terms import Access, Apply, Constant, Loop, LoopIndex, Reduce, Term, mentions

SELECT = "arith.select"
_EQUAL, _BELOW = "0", "6"  # MLIR's numbers for eq and ult
_CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci")
# Those of which no size wraps round.
_WIDE = ("i32", "i64", "index")
# From a truth, and between floats, which all have 0 and 1.
_AS_NUMBER = ("arith.uitofp", "arith.extf", "arith.truncf")


def of_one_hot(total: Reduce, resolve: Callable[[Term], Term], expand: Callable[[Access], Any]) -> tuple[Apply, ...]:
    """A sum of rows that are chosen by equal indices, as the row at that index; none if it is no such sum.

    expand: what makes an element, one level down.
    """
    loop = total.loops[0]
    if total.combiner != "arith.addf" or len(total.loops) > 1 or loop.size is None:
        return ()
    body = resolve(total.body)
    if not isinstance(body, Apply) or body.op != "arith.mulf":
        return ()
    for hot, row in (body.args, body.args[::-1]):
        place = _apart(_chosen(hot, loop, resolve), loop, expand)
        kind = None if place is None else element_type(place.value)
        if place is not None and kind in _WIDE:
            size = Constant(loop.size, kind)
            inside: Term = Apply("arith.cmpi", (place, size), (("predicate", _BELOW),), "i1")
            taken: Term = Apply(TAKE, (Reduce(TAKE, (loop,), row), place), (), body.type)
            return (Apply(SELECT, (inside, taken, Constant(0.0, body.type)), (), body.type),)
    return ()


def _apart(place: Term | None, loop: Loop, expand: Callable[[Access], Any]) -> Access | None:
    """An element that is the same along a loop, behind the views that repeat it; None if there is none."""
    while isinstance(place, Access) and any(mentions(index, loop) for index in place.indices):
        step = expand(place)
        place = None if step is None else step.term
    return place if isinstance(place, Access) else None


def _chosen(hot: Term, loop: Loop, resolve: Callable[[Term], Term]) -> Term | None:
    """The index where a number is 1 while it is 0 at all others; None for other numbers."""
    found = resolve(hot)
    while isinstance(found, Apply) and found.op in _AS_NUMBER:
        found = resolve(found.args[0])
    if not isinstance(found, Apply) or found.op != "arith.cmpi" or dict(found.attributes).get("predicate") != _EQUAL:
        return None
    for place, counted in (found.args, found.args[::-1]):
        number = resolve(counted)
        while isinstance(number, Apply) and number.op in _CASTS and number.type in _WIDE:
            number = resolve(number.args[0])
        if number == LoopIndex(loop):
            return place
    return None

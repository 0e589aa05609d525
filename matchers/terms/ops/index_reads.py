"""Elements read at indices that a program computes, as of an embedding's table: `take`.

    tensor.extract %w[%i, %n]   =>   take(reduce take over v of w[v, n], i)

A dim that is read at a computed index has a loop of its own, as if it was summed over where it is that index. Nothing
says what lies outside: such an index is the program's to avoid. So bounds that keep an index inside are nothing:
IREE writes them for some gathers, and every program gets them in the end (`opsplice.rewrites.memory.in_bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import element_type, shape_of
from opsplice.matchers.terms.terms import Access, Apply, Constant, Fresh, Loop, LoopIndex, Reduce, Term

# The op of a term that is an element at a computed index, and the combiner of its first operand, which reads them all.
TAKE = "take"
EXTRACT = "tensor.extract"
# To MLIR's index type, which holds what it is made of.
_TO_INDEX = "arith.index_cast"
# The ops that keep an index inside, and which of 0 and the last index each compares with.
_BOUNDS = {"arith.maxsi": 0, "arith.minsi": 1}


def taken(source: ir.Value, at: Sequence[Term], fresh: Fresh, resolve: Callable[[Term], Term]) -> Term:
    """The element of a tensor at indices: its own loops, and for each computed one, from the left, a `take`."""
    kind, shape = element_type(source), shape_of(source) or ()
    indices = [each.index if isinstance(each, LoopIndex) else fresh(size) for each, size in zip(at, shape, strict=True)]
    made: Term = Access(source, tuple(indices))
    for each, index in zip(at, indices, strict=True):
        if not isinstance(each, LoopIndex) and isinstance(index, Loop):
            inner = _without_bounds(each, index.size, resolve)
            found = inner.args[0] if isinstance(inner, Apply) and inner.op == _TO_INDEX else inner
            made = Apply(TAKE, (Reduce(TAKE, (index,), made), found), (), kind)
    return made


def _without_bounds(index: Term, size: int | None, resolve: Callable[[Term], Term]) -> Term:
    """What an index of MLIR's type is before it is kept in [0, size)."""
    while isinstance(index, Apply) and index.op in _BOUNDS and index.type == "index" and size is not None:
        bound = Constant(_BOUNDS[index.op] * (size - 1), "index")
        others = [arg for arg in index.args if resolve(arg) != bound]
        if len(others) == len(index.args):
            break
        index = others[0] if others else bound
    return index

"""Elements read at indices that a program computes, as of an embedding's table: `take`.

    tensor.extract %w[%i, %n]   =>   take(reduce take over v of w[v, n], i)

A dim that is read at a computed index has a loop of its own, as if it was summed over where it is that index. Nothing
says what lies outside: such an index is the program's to avoid.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import element_type, shape_of
from opsplice.matchers.terms.terms import Access, Apply, Fresh, Loop, LoopIndex, Reduce, Term

# The op of a term that is an element at a computed index, and the combiner of its first operand, which reads them all.
TAKE = "take"
EXTRACT = "tensor.extract"
# To MLIR's index type, which holds what it is made of.
_TO_INDEX = "arith.index_cast"


def taken(source: ir.Value, at: Sequence[Term], fresh: Fresh) -> Term:
    """The element of a tensor at indices: its own loops, and for each computed one, from the left, a `take`."""
    kind, shape = element_type(source), shape_of(source) or ()
    indices = [each.index if isinstance(each, LoopIndex) else fresh(size) for each, size in zip(at, shape, strict=True)]
    made: Term = Access(source, tuple(indices))
    for each, index in zip(at, indices, strict=True):
        if not isinstance(each, LoopIndex) and isinstance(index, Loop):
            found = each.args[0] if isinstance(each, Apply) and each.op == _TO_INDEX else each
            made = Apply(TAKE, (Reduce(TAKE, (index,), made), found), (), kind)
    return made

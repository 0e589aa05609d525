"""Values that a program computes again: two terms that are one but for their loops and, if so asked, for casts.

Half-precision programs compute a mean in f16 for what they take it from, and in f32 for the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from iree.compiler import ir

from opsplice.matchers.terms import constants
from opsplice.matchers.terms.terms import Access, Apply, Constant, Flat, Index, Loop, LoopIndex, Part, Reduce, Sum, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import vocabulary

# Terms that take more steps to compare are not held to be the same.
_MAX_STEPS = 64


class Again:
    """Compares terms.

    levels: the accesses from a term down through views; inside: what it is behind them, and the ops that were read for
    that. casts: whether both look through casts of floats.
    """

    def __init__(
        self,
        views: Views,
        levels: Callable[[Term], Iterable[Access]],
        inside: Callable[[Term], tuple[Term, tuple[ir.Operation, ...]]],
        *,
        casts: bool,
    ) -> None:
        self._views = views
        self._levels = levels
        self._inside = inside
        self._casts = casts
        self._loops: dict[Index, Index] = {}
        self._along: set[Index] = set()  # loops of the second term that run along dims of a value that both read
        self._seen: list[ir.Operation] = []
        self._steps = 0

    def seen(self, first: Term, second: Term) -> tuple[ir.Operation, ...] | None:
        """The ops that compute the second term, if that is the first one again; None if it is not."""
        self._loops, self._along, self._seen, self._steps = {}, set(), [], 0
        return tuple(self._seen) if self._same(first, second) else None

    def _same(self, first: Term, second: Term) -> bool:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            return False
        if self._same_element(first, second):
            return True
        (left, _), (right, seen) = self._inside(first), self._inside(second)
        self._seen += seen
        left, right = (self._views.constant(side) or side for side in (left, right))
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self._same_number(left, right)
        if isinstance(left, LoopIndex) and isinstance(right, LoopIndex):
            return bool(left.index == self._renamed(right.index))
        if isinstance(left, Reduce) and isinstance(right, Reduce):
            if left.combiner != right.combiner or [x.size for x in left.loops] != [x.size for x in right.loops]:
                return False
            self._loops.update(zip(right.loops, left.loops, strict=True))
            return self._same(left.body, right.body) and all(x.size or x in self._along for x in right.loops)
        if not isinstance(left, Apply) or type(left) is not type(right):
            return False
        assert isinstance(right, Apply)
        if (left.op, left.attributes, len(left.args)) != (right.op, right.attributes, len(right.args)):
            return False
        if not self._same_type(left.type, right.type):
            return False
        return all(self._same(*args) for args in zip(left.args, right.args, strict=True))

    def _same_type(self, left: str, right: str) -> bool:
        return left == right or (self._casts and vocabulary.is_float(left) and vocabulary.is_float(right))

    def _same_number(self, left: Constant, right: Constant) -> bool:
        if left.type == right.type or not self._same_type(left.type, right.type):
            return left.type == right.type and constants.identical(left.value, right.value)
        pairs = ((left, right), (right, left))
        return any(constants.identical(constants.rounded(a.value, b.type), b.value) for a, b in pairs)

    def _same_element(self, first: Term, second: Term) -> bool:
        """Whether both terms are one element of one value, behind any views."""
        elements = {(level.value, level.indices) for level in self._levels(first)}
        passed: list[ir.Operation] = []
        for level in self._levels(second):
            if (level.value, tuple(map(self._renamed, level.indices))) in elements:
                self._seen += passed
                flat = (index for index in level.indices if isinstance(index, Flat))
                sized = (pair for index in flat for pair in zip(index.parts, index.sizes, strict=True))
                self._along.update(level.indices, (part for part, size in sized if size is not None))
                return True
            passed += self._made_by(level)
        return False

    def _made_by(self, level: Access) -> Iterator[ir.Operation]:
        step = self._views.expand(level)
        yield from () if step is None else step.ops

    def _renamed(self, index: Index) -> Index:
        """An index of the second term in the loops of the first."""
        if isinstance(index, Flat):
            return replace(index, parts=tuple(map(self._renamed, index.parts)))
        if isinstance(index, Part):
            return replace(index, whole=self._renamed(index.whole))
        if isinstance(index, Sum):
            return replace(index, terms=tuple((factor, self._renamed(part)) for factor, part in index.terms))
        return self._loops.get(index, index) if isinstance(index, Loop) else index

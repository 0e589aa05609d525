"""How alike a pattern and a payload are where they differ: the most parts that could be the same op at the same place.

A search stops at the first difference on its way; this goes on behind it. An op may stand for another with as many
operands, and one op may be there on one side only. It ranks near misses and says what is alike beyond the difference;
it proves nothing: sizes, types and dims are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.ir import effects
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Input, Node, Number, Result, Whole
from opsplice.matchers.patterns.walk import children_of
from opsplice.matchers.terms.terms import Access, Apply, Constant, Reduce, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.dims import judge
from opsplice.spec_lang.syntax import vocabulary

# A pattern and a program that could be paired in more ways than this are compared only so far.
_MAX_STEPS = 5_000
_SKIP_COST = 0.5


@dataclass(frozen=True)
class _Pairing:
    """A way to pair a node with a term. same: the node is that op; pairs: what it goes on with."""

    score: float
    same: bool = False
    pairs: tuple[tuple[Node, Term, int], ...] = ()


_NONE = _Pairing(0.0)


@dataclass(frozen=True, eq=False)
class Likeness:
    """What is alike: how many parts, less what had to be skipped, and the payload op of each such node, by its id."""

    score: float
    ops: Mapping[int, ir.Operation | None]


class Alignment:
    """Alignments of patterns with the payload that `views` read."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self._known: dict[tuple[int, Term, int], _Pairing] = {}
        self._alive: list[Node] = []  # nodes are told apart by identity
        self._steps = 0

    def compare(self, result: Result, value: ir.Value) -> Likeness:
        """What is alike if a pattern's result is a value."""
        self._known.clear()
        self._alive.clear()
        self._steps = 0
        access = self.views.whole(value)
        score = self._best(result.node, access, 1).score
        found: dict[int, ir.Operation | None] = {}
        pending: list[tuple[Node, Term, int]] = [(result.node, access, 1)]
        while pending:
            node, term, skips = pending.pop()
            best = self._best(node, term, skips)
            if best.same:
                found.setdefault(id(node), self._op_of(term))
            pending.extend(best.pairs)
        return Likeness(score, found)

    def _best(self, node: Node, term: Term, skips: int) -> _Pairing:
        if isinstance(node, Input):
            return _NONE
        key = (id(node), term, skips)
        if key not in self._known:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                return _NONE
            self._alive.append(node)
            self._known[key] = _NONE  # a program has no cycles, so nothing asks for this meanwhile
            self._known[key] = max(self._ways(node, term, skips), key=lambda way: way.score)
        return self._known[key]

    def _ways(self, node: Node, term: Term, skips: int) -> list[_Pairing]:
        found = self.views.resolve(term)
        ways = [_NONE]
        if isinstance(node, Number):
            same = isinstance(found, Constant) and _is_number(node, found)
            return [_Pairing(float(same), same)]
        if isinstance(node, Apply) and isinstance(found, Apply) and len(node.args) == len(found.args):
            same = node.op == found.op
            ways.append(self._paired(same, list(zip(node.args, found.args, strict=True)), skips))
            if vocabulary.commutes(node.op) and len(node.args) == 2:
                ways.append(self._paired(same, list(zip(node.args, reversed(found.args), strict=True)), skips))
        elif isinstance(node, Reduce) and isinstance(found, Reduce):
            ways.append(self._paired(node.combiner == found.combiner, [(node.body, found.body)], skips))
        elif isinstance(node, Whole):
            ways.append(self._whole(node, term, skips))
        elif not isinstance(node, (Apply, Reduce)):
            ways += [self._paired(False, [(child, term)], skips) for child in children_of(node)]
        if skips:
            inner = found.args if isinstance(found, Apply) else (found.body,) if isinstance(found, Reduce) else ()
            skipped: list[tuple[Node, Term]] = [(node, part) for part in inner]
            skipped += [(child, term) for child in children_of(node) if not isinstance(node, Whole)]
            ways += [self._paired(False, [pair], skips - 1, _SKIP_COST) for pair in skipped]
        return ways

    def _paired(self, same: bool, pairs: Sequence[tuple[Node, Term]], skips: int, cost: float = 0.0) -> _Pairing:
        score = sum(self._best(node, term, skips).score for node, term in pairs) + same - cost
        return _Pairing(score, same, tuple((node, term, skips) for node, term in pairs)) if score > 0 else _NONE

    def _whole(self, node: Whole, term: Term, skips: int) -> _Pairing:
        while isinstance(term, Access):
            op = defining_op(term.value)
            given = () if op is None else effects.operands(op, len(node.operands))
            if op is not None and op.name == node.op and len(given) == len(node.operands):
                operands = [self.views.whole(v) for v in given]
                return self._paired(True, [(r.node, v) for r, v in zip(node.operands, operands, strict=True)], skips)
            step = self.views.expand(term)
            if step is None:
                break
            term = step.term
        return _NONE

    def _op_of(self, term: Term) -> ir.Operation | None:
        op = None
        while isinstance(term, Access):
            op = defining_op(term.value) or op
            step = self.views.expand(term)
            if step is None:
                return op
            term = step.term
        return self.views.maker(term) or op


def _is_number(node: Number, found: Constant) -> bool:
    low = judge.evaluate(node.low, {})
    high = low if node.high is None else judge.evaluate(node.high, {})
    if low is None or high is None:
        return True  # a dim, whose size is not looked at
    near = abs(found.value) * 1e-6
    return low - near <= found.value <= high + near

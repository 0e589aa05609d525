"""What can only be judged when everything is bound: sizes that are known at run time, numbers, and conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.equal_sizes import Classes
from opsplice.matchers.dims.extents import holds_sizes, is_size_cast, product
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Asked, Condition, Form, Node, Number, Tie, Whole, Within
from opsplice.matchers.patterns.walk import names_in, ties_of
from opsplice.matchers.search import uses
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import Sizes, kept
from opsplice.matchers.search.matches import Size, known_dims
from opsplice.matchers.search.state import State
from opsplice.matchers.terms import constants, contraction_kinds
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, DimSize, Index, Loop, Term
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree

_MAX_FACTORS = 6


class Verdicts:
    """Judges the state of a search at its end. has_form: whether a value is made in some way, None if nobody knows."""

    def __init__(self, state: State, has_form: Callable[[Form], bool | None]) -> None:
        self.state = state
        self.views = state.views
        self.graph = state.graph
        self._has_form = has_form

    def holds(self) -> bool:
        """What can only be judged when everything is bound: what `_fits` says, and the pattern's conditions."""
        return self.fits_with(self.graph.conditions)

    def fits_with(self, conditions: Sequence[Condition]) -> bool:
        """Whether what is bound goes together, and conditions hold."""
        return self.fits() and (not conditions or self.meets(conditions, self.static_dims()))

    def fits(self) -> bool:
        """Whether what is bound goes together: sizes, reductions and numbers."""
        self.state.place = None  # what was looked at last is not to blame
        if not (self._reduces_all() and self._independent()):
            return False
        others, by_name = ties_of(self.graph)
        if not all(map(self._tied, others)):
            return False
        for tie in by_name:
            self._trust(tie)
        classes = Classes(self.state.equal)
        if not all(map(self._tied, by_name)):
            return False
        for factor in self.graph.factors:  # of a dim of size one nobody can tell by how much it steps
            self.state.set(self.state.dims, factor, (1, (UNIT,)))
        if not all(self._same_dim_size(classes, *again) for again in self.state.dims_again.items()):
            return False
        sizes = self.static_dims() if self.state.numbers else {}
        for (node, found), place in self.state.numbers.items():
            self.state.place = place
            if not self.same_number(node, found, sizes, classes):
                return False
            self.state.hold(node)
        return True

    def meets(self, wanted: Sequence[Condition], sizes: judge.Sizes) -> bool:
        """Whether conditions hold."""
        self.state.place = None
        for where in wanted:
            if isinstance(where, Within):
                if self.state.terms_of(where.name) and not self.meets([where.condition], sizes):
                    return False
                continue
            asked = dim_conditions.without(where, self._is_left_out)
            if asked is not None and judge.holds(asked, sizes, self._judge) is not True:
                return self._condition_failed(asked, sizes)
        return True

    def _is_left_out(self, condition: Condition) -> bool:
        """Whether a condition asks about a part that the pattern's results have and the match has not."""
        if (
            not isinstance(condition, (Asked, Form))
            or condition.name in self.state.inputs
            or self.state.terms_of(condition.name)
        ):
            return False
        return condition.name in names_in(self.graph)

    def _condition_failed(self, where: Condition, sizes: judge.Sizes) -> bool:
        if not self.state.is_furthest:
            return False
        failed = judge.first_failure(where, sizes, self._judge)
        why = Why.CONDITION
        if isinstance(failed, Asked) and failed.kind != "weight":
            why = Why.USE
            makers = (defining_op(value) for value, _ in self._other_users(failed.name))
            self.state.place = next((op for op in makers if op is not None), None)
        return self.state.fail(failed, why, self._what_is(failed, sizes))

    def _what_is(self, condition: Condition, sizes: judge.Sizes) -> Any:
        """What there is where a condition does not hold: a type, another user, dims of a contraction, a term, sizes."""
        if isinstance(condition, tree.Membership):
            return self.state.element(condition.variable)
        if isinstance(condition, Asked):
            _, other = next(self._other_users(condition.name), (None, None))
            return other
        if isinstance(condition, tree.Predicate) and condition.name == "contracts":
            return contraction_kinds.sizes_of(self.state.roots[0].value.owner.operation)
        if isinstance(condition, Form):
            value = self.state.values_of(condition.name)[-1:]
            return self.views.whole(value[0]) if value else None
        return sizes

    # ---- what conditions ask ----------------------------------------------------------------------------------------

    def _judge(self, condition: Condition) -> bool | None:
        if isinstance(condition, tree.Membership):
            return self.state.element(condition.variable) in {choice.name for choice in condition.choices}
        if isinstance(condition, tree.Predicate):
            return uses.holds_at(self.state.roots[0].value.owner.operation, condition)
        if isinstance(condition, Form):
            return self._has_form(condition)
        assert isinstance(condition, Asked), "sizes are compared by `judge`"
        if condition.kind == "weight":
            return self._is_weight(condition.name)
        return bool((next(self._other_users(condition.name), None) is None) == (condition.kind == "only"))

    def _is_weight(self, name: str) -> bool:
        bound = self.state.inputs.get(name)
        if bound is not None and bound.value is None:
            return True  # a scalar constant
        values = self.state.values_of(name)
        if not values:
            return any(isinstance(term, Constant) for term in self.state.terms_of(name))
        return uses.is_constant(self.views, values[-1])

    def _other_users(self, name: str) -> Iterator[tuple[ir.Value, ir.Operation]]:
        """The values that hold what has a name, or are made from it in an op's body beside what the pattern makes of
        it there; each with an op that uses it and is not part of the match, if there is one."""
        values = self.state.values_of(name)
        roots = {access.value for access in self.state.roots.values()}
        for term in self.state.terms_of(name):
            inner = self.views.inner(self.views.resolve(term))
            made = [] if inner is None else uses.results_from(inner)
            values += [value for value in made if value not in roots and not uses.is_used_by(value, self.state.ops)]
        for value in values:
            user = uses.user_outside(self.views, value, self.state.ops, self.state.inputs, roots)
            if user is not None:
                yield value, user

    # ---- labels and sizes -----------------------------------------------------------------------------------------

    def _reduces_all(self) -> bool:
        """Whether the labels of each reduction are its loops, all of them: one that nothing reads counts too."""
        return all(map(self.state.bind_left, self.state.reductions))

    def _independent(self) -> bool:
        """Whether no input is made from a result: a replacement needs its inputs before it has results."""
        if len(self.state.roots) == 1:
            return True
        roots = {access.value.owner.operation for access in self.state.roots.values()}
        pending = [b.value for b in self.state.inputs.values() if b.value is not None]
        seen: set[ir.Operation] = set()
        while pending:
            op = defining_op(pending.pop())
            if op is None or op in seen:
                continue
            if op in roots:
                return self.state.fail(self.graph.results[0].node, Why.ORDER)
            seen.add(op)
            if any(_may_use(op, root) for root in roots):
                pending.extend(uses.read_by(op))
        return True

    def _trust(self, tie: Tie) -> None:
        """Take the pattern's word for the run-time sizes of what an op by name makes, where nothing else tells them."""
        if isinstance(tie.size, int) or tie.size not in self.state.dims:
            return
        known, _ = self.state.dims[tie.size]
        indices = tuple(i for label in tie.labels for i in self.state.labels.get(label, ()))
        sizes = known if isinstance(known, tuple) else (known,)
        if len(sizes) != len(indices):
            return
        for index, size in zip(indices, sizes, strict=True):
            if isinstance(index, Loop) and index.size is None and not self._contradicted(index, size):
                self.state.set(self.state.equal, (self.state.extent(index), size))
                self.state.set(self.state.equal, (index, size))
                self.state.set(self.state.extents, index, size)

    def _contradicted(self, index: Loop, size: Size) -> bool:
        """Whether the program computes the size of an op's dim, and not as it computes this size."""
        dim = index.dim or self._dim_of_result(index)
        if dim is None or isinstance(size, int):
            return False
        return self.views.extent(dim).atom != dim and not self._same_extent((dim,), (size,))

    def _dim_of_result(self, index: Loop) -> DimSize | None:
        """The dim of a result that an index is, None if it is of none."""
        roots = self.state.roots.values()
        return next((DimSize(at.value, at.indices.index(index)) for at in roots if index in at.indices), None)

    def _tied(self, tie: Tie) -> bool:
        """Whether labels have the size that the pattern writes for them."""
        labels = self.state.labels
        for label in tie.labels:
            if label not in labels:
                return True  # no part of the payload was looked at under it
        if isinstance(tie.node, Whole) and id(tie.node) not in self.state.held:
            return True  # another alternative made it
        indices = tuple(itertools.chain.from_iterable(map(labels.__getitem__, tie.labels)))
        sizes = tuple(map(self.state.extent, indices))
        size: Sizes = sizes if tie.pack or len(sizes) != 1 else sizes[0]
        if isinstance(tie.size, int):
            return size == tie.size or self.state.fail(tie.node, Why.SIZE, tie.size, size)
        return self.state.bind_dim(tie.node, tie.size, size, indices)

    def _same_dim_size(self, classes: Classes, again: tuple[str, Sizes, tuple[Index, ...]], node: Node) -> bool:
        name, size, indices = again
        known, known_indices = self.state.dims[name]
        if isinstance(known, int) and known == size:
            return True  # a factor in a window may be a dim's size, and has no index
        left, right = kept(known, known_indices), kept(size, indices)
        if len(left) == len(right):
            pairs = zip(left, right, strict=True)
            if all(
                classes.same(a, b) or classes.same(i, j) or self._same_extent((a,), (b,)) for (a, i), (b, j) in pairs
            ):
                return True
        elif isinstance(size, tuple) and self._same_extent([s for s, _ in left], [s for s, _ in right]):
            return True  # the same dims of a pack, flattened in one of the two
        return self.state.fail(node, Why.SAME_SIZE, name, known, size)

    def same_number(self, node: Number, found: Term, sizes: judge.Sizes, classes: Classes) -> bool:
        low = judge.evaluate(node.low, sizes)
        if not isinstance(found, Constant):
            return self._same_dim(node, found, classes)
        if low is None:
            return self.state.fail(node, Why.RUN_TIME_CONSTANT, found.value)
        if node.high is not None:
            high = judge.evaluate(node.high, sizes)
            good = high is not None and constants.within(low, high, found.value, found.type)
        else:
            good = constants.same(low, found.value, found.type)
        return good or self.state.fail(node, Why.CONSTANT, found)

    def _same_dim(self, node: Number, found: Term, classes: Classes) -> bool:
        """A dim that is only known at run time, read from the tensor and cast to the element type."""
        given = self._computed(found)
        wanted = self._factors(node.low) if node.high is None else None
        if given is not None and wanted is not None:
            if len(given) == len(wanted) == 1 and classes.same(given[0], wanted[0]):
                return True
            if self._same_extent(wanted, given):
                return True
        return self.state.fail(node, Why.CONSTANT, found)

    def _computed(self, term: Term, depth: int = 0) -> list[Size | ir.Value] | None:
        """The sizes and numbers whose product a term is, whatever it is cast to; None if it is none."""
        held, term = term, self.views.resolve(term)
        while isinstance(term, Apply) and is_size_cast(term):
            held, term = term.args[0], self.views.resolve(term.args[0])
        if isinstance(term, Apply) and term.op == "arith.muli" and holds_sizes(term.type) and depth < _MAX_FACTORS:
            left, right = (self._computed(arg, depth + 1) for arg in term.args)
            return None if left is None or right is None else left + right
        if isinstance(term, Constant):
            return [term.value] if isinstance(term.value, int) and term.value > 0 else None
        if isinstance(term, DimSize):
            return [term]
        held = term if isinstance(term, Access) else held  # of a quotient the value tells whether it is exact
        return [held.value] if isinstance(held, Access) and not held.indices else None

    def _factors(self, expr: tree.DimExpr) -> list[Size] | None:
        """The sizes whose product dim arithmetic is, None if it is not a product of sizes."""
        if isinstance(expr, tree.Literal):
            return [expr.value] if isinstance(expr.value, int) and expr.value > 0 else None
        if isinstance(expr, tree.DimRef) and expr.name in self.state.dims:
            size = self.state.dims[expr.name][0]
            return list(size) if isinstance(size, tuple) else [size]
        if not isinstance(expr, tree.Arithmetic) or expr.op != "*":
            return None
        left, right = self._factors(expr.left), self._factors(expr.right)
        return None if left is None or right is None else left + right

    def _same_extent(self, left: Sequence[Size | ir.Value], right: Sequence[Size | ir.Value]) -> bool:
        """Whether two products of sizes are equal, by what they are computed from and by what is known to be equal."""
        first, second = (product(self.views.extent(s) for s in side) for side in (left, right))
        if first == second or not (first.atoms and second.atoms):
            return first == second
        classes = self._equal_atoms()
        return first.renamed(classes.first) == second.renamed(classes.first)

    def _equal_atoms(self) -> Classes:
        """What is known to be equal, with the atoms that run-time sizes are."""
        sizes = dict.fromkeys(thing for two in self.state.equal for thing in two if isinstance(thing, DimSize))
        atoms = ((size, self.views.extent(size).atom) for size in sizes)
        return Classes([*self.state.equal, *((size, atom) for size, atom in atoms if atom is not None)])

    def static_dims(self) -> dict[str, judge.Known | tuple[judge.Known, ...]]:
        dims = {name: size for name, (size, _) in self.state.dims.items()}
        return {**self.state.integers} | known_dims(self.views, dims, self.state.types)


def _may_use(op: ir.Operation, root: ir.Operation) -> bool:
    """False if an op comes before a root in its block, so that nothing that it uses can be made from the root."""
    return op.block != root.block or not op.is_before_in_block(root)

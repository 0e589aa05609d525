"""Ops that a pattern names in full: their operands, attributes and bodies, on whole tensors or element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from iree.compiler import ir

from opsplice.matchers.ir import effects
from opsplice.matchers.ir.tensor_values import defining_op, is_tensor
from opsplice.matchers.patterns.nodes import Result, Whole, Window
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import sizes_of, window_sizes
from opsplice.matchers.search.merged_dims import ungrouped
from opsplice.matchers.search.reading import Reader
from opsplice.matchers.search.state import Branch, Goal, Operand, Pairs, State
from opsplice.matchers.terms import bodies
from opsplice.matchers.terms.attributes import integers, is_as_wanted, is_named
from opsplice.matchers.terms.terms import UNIT, Access, Constant, Term
from opsplice.matchers.terms.views import Origin
from opsplice.spec_lang.syntax import tree, vocabulary

# What `through reshape` looks through where an op works on whole tensors, besides what is a view for all ops.
_RESHAPES = frozenset(
    {
        *(f"torch.aten.{n}" for n in ("view", "reshape", "permute", "expand", "unsqueeze", "squeeze.dim")),
        "torch.aten.contiguous",
        *(f"torch.aten.{n}" for n in ("transpose.int", "t", "flatten.using_ints", "broadcast_to", "_unsafe_view")),
        *(f"stablehlo.{n}" for n in ("reshape", "transpose", "broadcast_in_dim")),
        *(f"tosa.{n}" for n in ("reshape", "transpose")),
        *(f"flow.tensor.{n}" for n in ("reshape", "bitcast")),
    }
)


# Ops whose lists of numbers have one for each dim, and how the names of these lists begin.
_WITH_LISTS = frozenset({"tensor.pad", "tensor.insert_slice"})
BY_DIM = "static_"
# Those in which a dim that a program lacks would have a one, not a zero.
_ONE_BY_DIM = ("static_strides", "static_sizes")


class WholeOps:
    """Matches ops by name for a search."""

    def __init__(self, state: State, reader: Reader) -> None:
        self.state = state
        self.reader = reader
        self.views = state.views
        self.graph = state.graph
        self._goals: dict[tuple[int, tuple[int, ...] | None], Operand] = {}

    def goal(self, key: object, result: Result, order: tuple[int, ...] | None = None) -> Operand:
        """The goal for an operand, always the same for a key."""
        return self._goals.setdefault((id(key), order), Operand(result, order))

    def branches(self, node: Whole, term: Term) -> Iterator[Branch]:
        whole = (
            Origin(a, op, a.value.result_number, ()) for a in self.reader.chain(term) if (op := defining_op(a.value))
        )
        named = [each for each in (*whole, *self._origins(term)) if is_named(each.op.name, node.op)]
        for made in named:
            kept = self._kept(node, made)
            for order in self._orders(node, made, kept):
                yield partial(self._whole, node, made, order, kept)
        if not named:
            yield lambda: self.reader.other_op(node, term)

    def _kept(self, node: Whole, made: Origin) -> tuple[int, ...] | None:
        """The axes of what an op makes without dims of one that the pattern does not ask for; None if it has none."""
        place, extra = made.term, len(getattr(made.term, "indices", ())) - len(node.labels)
        if made.op.name not in _WITH_LISTS or not isinstance(place, Access) or extra <= 0:
            return None
        ones = [axis for axis, index in enumerate(place.indices) if index == UNIT]
        names = [name for name in made.op.attributes if name.startswith(BY_DIM)]
        lists = [(name, [*ir.DenseI64ArrayAttr(made.op.attributes[name])]) for name in names]
        idle = all(numbers[axis] == (name in _ONE_BY_DIM) for name, numbers in lists for axis in ones)
        has_packs = any(label.pack for label in node.labels)
        if len(ones) != extra or not idle or has_packs:
            return None
        return tuple(axis for axis in range(len(place.indices)) if axis not in ones)

    def _orders(self, node: Whole, made: Origin, kept: tuple[int, ...] | None) -> Sequence[tuple[int, ...] | None]:
        """The orders of the dims of what an op makes that is read in windows, None for the pattern's."""
        if not isinstance(made.term, Access) or not any(isinstance(label, Window) for label in node.labels):
            return [None]
        self.reader.meet([made.term])
        if kept is not None or not self.state.attempt.by_windows or not _may_turn(made.op):
            return [None]
        indices = self.graph.with_ones(node.labels, made.term.indices)
        return self.state.turns(node.labels, indices, len(indices) - len(made.term.indices))

    def _origins(self, term: Term) -> Iterator[Origin]:
        """The ops in bodies that make an element, from the last one down through what is looked through."""
        at: Term | None = term
        while at is not None:
            found = self.views.resolve(at)
            made = self.views.origin(found)
            if made is not None:
                self.reader.resolve(at)
                yield made
            at = self.reader.passed(None, found)

    def _whole(
        self, node: Whole, made: Origin, order: tuple[int, ...] | None, kept: tuple[int, ...] | None
    ) -> list[Goal] | None:
        """order: the dims of what the op makes in the order of the pattern's, None where they are in that order.

        kept: the dims without those of one that the pattern does not ask for.
        """
        axes = kept if order is None else order
        op, number, place = made.op, made.number, made.term if isinstance(made.term, Access) else None
        self.state.place = op
        if place is not None:
            self.state.set(self.state.ops, op)
        results = 1 if node.rest and node.count == 1 else len(op.results)  # what is open may have more
        if (results, number) != (node.count, node.number):
            self.state.fail(node, Why.RESULT, number, len(op.results))
            return None
        operands = effects.operands(op, len(node.operands))
        if len(operands) != len(node.operands) and not (node.rest and len(operands) > len(node.operands)):
            self.state.fail(node, Why.OPERANDS, len(operands))
            return None
        if not all(self._attribute(node, attribute, op, axes) for attribute in node.attributes):
            return None
        is_read = node.regions or node.body is not None or len(operands) > len(op.operands)
        if not is_read and effects.has_own_region(op):
            self.state.fail(node, Why.REGION)
            return None
        if node.body is not None and not self._has_body(node, node.body, op):
            return None
        if place is not None and op != self.state.roots[0].value.owner.operation and effects.has_effects(op):
            self.state.fail(node, Why.EFFECTS)
            return None
        if node.element and not self.state.bind_type(node, node.element, self.views.element_type(op.results[number])):
            return None
        # A scalar is the same for all elements.
        if place is not None and order is not None:
            indices = self.graph.with_ones(node.labels, place.indices)
            found = self.state.turn(node, node.labels, indices, order, len(place.indices))
            if found is None or not self._has_sizes(node, found, place):
                return None
        elif place is not None and is_tensor(place.value):
            found = self.state.unify(node, node.labels, place.indices)
            if found is None or not self._has_sizes(node, found, place):
                return None
        self.state.hold(node)
        scalars = [(scalar, Constant(self.state.integers[name], "index")) for name, scalar in node.scalars]
        if vocabulary.is_elementwise(op.name):
            elements = self._elements(node, made, place)
            return None if elements is None else [*elements, *scalars]
        pairs = zip(node.operands, operands, strict=False)
        return [*((self.goal(r, r, axes), self.views.whole(operand)) for r, operand in pairs), *scalars]

    def _has_sizes(self, node: Whole, pairs: Pairs, place: Access) -> bool:
        """Whether dims that are read at sums of labels have the sizes that are written; single labels come last."""
        wanted = {tie.labels: tie.size for tie in self.graph.ties if tie.node is node}
        sizes = sizes_of(place) | window_sizes(place)
        for label, indices in pairs:
            size = wanted.get((label,)) if isinstance(label, Window) else None
            found = sizes.get(indices[0], 1) if size is not None else 1
            if isinstance(size, str) and not self.state.bind_dim(node, size, found, indices):
                return False
            if isinstance(size, int) and size != found:
                return self.state.fail(node, Why.SIZE, size, found)
        return True

    def _has_body(self, node: Whole, body: tree.Code, op: ir.Operation) -> bool:
        other = bodies.difference(op, body, self.graph.may_lack_dims and op.name in _WITH_LISTS)
        if other is None:
            self.views.reads.update(dict.fromkeys(bodies.outside(op)))
        return other is None or self.state.fail(node, Why.BODY, op, body)

    def _elements(self, node: Whole, made: Origin, place: Access | None) -> list[Goal] | None:
        """What an op makes each element of: the same elements of its operands, none of them transposed."""
        at = [self.state.labels.get(label) for label in node.labels] if place is None else [place.indices]
        indices = tuple(index for group in at if group is not None for index in group)
        args = made.args if place is None else self.views.elements(made.op, indices)
        more: list[Goal] = []
        for result, arg in zip(node.operands, args, strict=False):
            if result.labels and self.state.unify(node, result.labels, indices) is None:
                return None
            more.append((result.node, arg))
        return more

    def _attribute(self, node: Whole, wanted: tree.Attribute, op: ir.Operation, order: tuple[int, ...] | None) -> bool:
        found = op.attributes.get(wanted.name, None)
        if found is not None and order is not None and wanted.name.startswith(BY_DIM):
            numbers = [*ir.DenseI64ArrayAttr(found)]
            numbers += [int(wanted.name in _ONE_BY_DIM)] * (len(order) - len(numbers))
            found = ir.DenseI64ArrayAttr.get([numbers[axis] for axis in order], context=found.context)
        if any(isinstance(item, tree.Bound) for item in wanted.items):
            return self._integers(node, wanted, found)
        return is_as_wanted(wanted, found) or self.state.fail(node, Why.NAMED_ATTRIBUTE, wanted, found)

    def _integers(self, node: Whole, wanted: tree.Attribute, found: ir.Attribute | None) -> bool:
        """Bind names to an integer, or to those of a list."""
        numbers = () if found is None else integers(found, isinstance(wanted.value, tuple))
        if numbers is None or len(numbers) != len(wanted.items):
            return self.state.fail(node, Why.NAMED_ATTRIBUTE, wanted, found)
        for item, number in zip(wanted.items, numbers, strict=True):
            name = item.name if isinstance(item, tree.Bound) else None
            if isinstance(item, tree.Bound) and name is None:
                continue
            if number is None:
                return self.state.fail(node, Why.NAMED_ATTRIBUTE, wanted, found)
            if name is not None:
                self.state.set(self.state.integers, name, number)
            known = item if name is None else self.state.integers[name]
            if known != number:
                return self.state.fail(node, Why.INTEGER, wanted.name, known, number)
        return True

    def levels(self, term: Access) -> Iterator[Access]:
        """A whole tensor, and with `through reshape` what it is a reshape of, each as a whole."""
        yield term
        if "reshape" not in self.graph.through:
            return
        op = defining_op(term.value)
        while op is not None and len(op.operands):
            step = self.views.expand(self.views.whole(term.value))
            if op.name not in _RESHAPES and (step is None or not isinstance(step.term, Access)):
                return
            term = self.views.whole(op.operands[0])
            yield term
            op = defining_op(term.value)

    def operand(self, result: Result, whole: Access, order: tuple[int, ...] | None = None) -> list[Goal] | None:
        """order: its dims in the order of the pattern's."""
        indices = tuple(ungrouped(whole.indices))
        if order is not None and indices:
            if any(index != UNIT for axis, index in enumerate(indices) if axis not in order):
                return self.state.fail(result.node, Why.RANK, result.labels, len(indices)) or None
            indices = (*indices, *[UNIT] * (len(order) - len(indices)))
            indices = tuple(indices[axis] for axis in order)
        return [(result.node, whole)] if self.state.bind_whole(result, whole, indices) else None


def _may_turn(op: ir.Operation) -> bool:
    """Whether an op does the same for its dims in any order, but for its lists: it makes nothing of their indices."""
    arguments = [argument for region in op.regions for block in region for argument in block.arguments]
    return op.name in _WITH_LISTS and all(next(iter(argument.uses), None) is None for argument in arguments)

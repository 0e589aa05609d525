"""Matchers that may hold at the same op: the order in which rules do what the interpreter does, where there is one.

`foreach_match` goes through the ops in the program's order, and each op gets the first matcher that holds. Rules are
settled one after the other. Both come to the same where a rule comes before those whose matches it may cut into, and
where no op gets two actions. What the matchers compare tells where they may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.capture.slices import above
from opsplice.matchers.ir.op_names import location_text
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.rewrites.transform_dialect.importing.handles import NAME_ONLY
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError

_UNSEEN = "an attribute that is set on an op keeps matchers from finding it in their templates"


@dataclass(frozen=True, eq=False)
class Shape:
    """Where a matcher may hold: at a template's root, as it is or (`structured`) in any op of its maps and types; or at
    ops of some names.

    source: what keeps the root alive.
    """

    root: ir.Operation | None = None
    structured: bool = False
    names: tuple[str, ...] = ()
    source: object = None

    @property
    def is_exact(self) -> bool:
        """Whether it compares attributes, and the ops that make operands."""
        return self.root is not None and not self.structured

    @cached_property
    def inner(self) -> Mapping[str, Sequence[ir.Operation]]:
        """The ops below the root, by their names."""
        found: dict[str, list[ir.Operation]] = {}
        for op in above([self.root]) - {self.root} if self.root is not None and self.is_exact else ():
            found.setdefault(op.name, []).append(op)
        return found

    def may_hold_below(self, other: Shape) -> bool:
        """Whether it may hold at an op below the root of another."""
        if self.root is None:
            return not other.inner.keys().isdisjoint(self.names)
        groups = other.inner.values() if self.structured else [other.inner.get(self.root.name, ())]
        return any(self.may_hold_at(op) for ops in groups for op in ops)

    def may_hold_at(self, op: ir.Operation) -> bool:
        if self.root is None:
            return op.name in self.names
        if self.structured:
            return _maps(self.root) == _maps(op) and all(map(_agree, _values(self.root), _values(op)))
        return _agrees(self.root, op, {})

    def meets(self, other: Shape) -> bool:
        """Whether both may hold at one op."""
        if other.root is None and self.root is None:
            return not set(self.names).isdisjoint(other.names)
        if other.root is None or self.is_exact:
            return other.meets_template(self)
        return self.meets_template(other)

    def meets_template(self, other: Shape) -> bool:
        assert other.root is not None, "it has a template"
        if other.structured and self.root is None:
            return any(n == other.root.name or (_is_linalg(n) and _is_linalg(other.root.name)) for n in self.names)
        return self.may_hold_at(other.root)


@dataclass(frozen=True)
class Pair:
    """A matcher with the rule that it becomes.

    stage: which `foreach_match` it is of. op: the matcher, for messages. sets: the attributes that an annotation sets.
    found: for an annotation of what was found before, the last stage before that.
    """

    rule: str
    shape: Shape
    stage: int
    op: ir.Operation
    sets: frozenset[str] = frozenset()
    found: int | None = None


def ordered(pairs: Sequence[Pair], unread: dict[str, None]) -> list[str]:
    """The rules of a spec's pairs in an order in which they do what the spec does.

    A pair for which there is none is left out and named in `unread`.
    """
    kept: list[Pair] = []
    for pair in pairs:
        why = next(filter(None, (_obstacle(earlier, pair) for earlier in [*kept, pair])), None)
        if why is None:
            kept.append(pair)
        else:
            unread[str(why)] = None
    stages = sorted({pair.stage for pair in kept})
    calls = [rule for s in stages for rule in _sorted([p for p in kept if p.stage == s and not p.sets], unread)]
    # Of rules the first that sets an attribute wins; in a spec the last does, but of one `foreach_match` the first.
    marks = [p.rule for s in reversed(stages) for p in kept if p.stage == s and p.sets]
    return list(dict.fromkeys([*calls, *marks]))


# ---- two pairs ---------------------------------------------------------------------------------------------------


def _obstacle(first: Pair, second: Pair) -> UnreadableError | None:
    """Why a pair and a later one, or itself, do not do as rules what they do in the spec."""
    if second.found is not None and first.stage > second.found:
        return None
    at_once = first.stage == second.stage
    if first.sets and first is not second and first.shape.meets(second.shape):
        if at_once and not (second.sets and second.sets <= first.sets):
            return _contends(second, first, "an op gets only the first action there, while annotations exclude no rule")
        if not at_once and second.shape.is_exact:
            return _contends(second, first, _UNSEEN)
    # Ops inside of a match come before its root, so within a stage the order of the pairs says nothing.
    for inside, whole in ((first, second), (second, first))[: 1 + at_once]:
        if (inside.sets or whole.sets) and inside.shape.may_hold_below(whole.shape):
            unseen = _UNSEEN if inside.sets else "what a call has replaced is no longer found, while rules annotate it"
            return _contends(second, first, unseen)
    return None


def _contends(pair: Pair, other: Pair, why: str) -> UnreadableError:
    if pair.op == other.op:
        return UnreadableError(pair.op, f"its matches may overlap: {why}")
    return UnreadableError(pair.op, f"it may match where the one at {location_text(other.op)} does: {why}")


def _sorted(pairs: Sequence[Pair], unread: dict[str, None]) -> Iterator[str]:
    """The rules of calls of one stage, those first whose matches may lie in those of others."""
    before: dict[str, set[str]] = {pair.rule: set() for pair in pairs}
    for number, pair in enumerate(pairs):
        for later in pairs[number + 1 :]:
            if pair.rule != later.rule and pair.shape.meets(later.shape):
                before[later.rule].add(pair.rule)
        for other in pairs:
            if pair.rule != other.rule and other.shape.may_hold_below(pair.shape):
                before[pair.rule].add(other.rule)
    left = dict.fromkeys(before)
    while left:
        ready = next((rule for rule in left if before[rule].isdisjoint(left)), None)
        if ready is not None:
            yield ready
            del left[ready]
            continue
        pair = next(p for p in reversed(pairs) if p.rule in left)
        other = next(p for p in pairs if p.rule in before[pair.rule] and p.rule in left)
        why = "either may take an op that the other needs, and the program's order decides between them"
        unread[str(_contends(pair, other, why))] = None
        del left[pair.rule]


# ---- templates -----------------------------------------------------------------------------------------------------


def _agrees(op: ir.Operation, other: ir.Operation, known: dict[tuple[ir.Operation, ir.Operation], bool]) -> bool:
    """Whether two ops of templates may stand for one op of a program. known: the answers so far."""
    if (op, other) not in known:
        known[op, other] = op.name == other.name and (
            NAME_ONLY in op.attributes or NAME_ONLY in other.attributes or _agree_whole(op, other, known)
        )
    return known[op, other]


def _agree_whole(op: ir.Operation, other: ir.Operation, known: dict[tuple[ir.Operation, ir.Operation], bool]) -> bool:
    if len(op.operands) != len(other.operands) or not all(map(_agree, _values(op), _values(other))):
        return False
    if _attributes(op) != _attributes(other) or [*_body(op)] != [*_body(other)]:
        return False
    makers = zip(map(defining_op, op.operands), map(defining_op, other.operands), strict=True)
    return all(a is None or b is None or _agrees(a, b, known) for a, b in makers)


def _attributes(op: ir.Operation) -> list[tuple[str, str]]:
    return sorted((name, str(op.attributes[name])) for name in op.attributes if name != NAME_ONLY)


def _body(op: ir.Operation) -> Iterator[object]:
    """What the regions of an op say: values by their number, those from outside are equal."""
    numbers: dict[ir.Value, int] = {}

    def lines(region: ir.Region) -> Iterator[object]:
        for block in region.blocks:
            yield [str(value.type) for value in block.arguments]
            for value in block.arguments:
                numbers[value] = len(numbers)
            for each in block.operations:
                inner = each.operation
                yield inner.name, _attributes(inner), [numbers.get(v) for v in inner.operands]
                yield [str(value.type) for value in inner.results]
                for value in inner.results:
                    numbers[value] = len(numbers)
                for nested in inner.regions:
                    yield from lines(nested)

    for region in op.regions:
        yield from lines(region)


def _values(op: ir.Operation) -> list[ir.Value]:
    return [*op.operands, *op.results]


def _agree(left: ir.Value, right: ir.Value) -> bool:
    """Whether the types of two values may be those of one: sizes that are not known may be any."""
    if not (isinstance(left.type, ir.RankedTensorType) and isinstance(right.type, ir.RankedTensorType)):
        return bool(left.type == right.type)
    shapes = shape_of(left) or (), shape_of(right) or ()
    if left.type.element_type != right.type.element_type or len(shapes[0]) != len(shapes[1]):
        return False
    return all(a is None or b is None or a == b for a, b in zip(*shapes, strict=True))


def _maps(op: ir.Operation) -> str:
    """The indexing maps of a structured op, "" for another op."""
    if "indexing_maps" in op.attributes:
        return str(op.attributes["indexing_maps"])
    found = get_indexing_maps(op) if _is_linalg(op.name) else None
    return "" if found is None else str(found)


def _is_linalg(name: str) -> bool:
    return name.startswith("linalg.")

"""Matchers that may hold at the same op: the order in which rules do what the interpreter does, where there is one.

`foreach_match` goes through the ops in the program's order, and each op gets the first matcher that holds. Rules are
settled one after the other. Both come to the same where a rule comes before those whose matches it may cut into, and
where no op gets two actions. What the matchers compare tells where they may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.rewrites.transform_dialect.importing.handles import NAME_ONLY
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError, place

_UNSEEN = "an attribute that is set on an op keeps matchers from finding it in their templates"
_PARTLY = "it sets only some of the attributes anew, and of rules one sets them all"


@dataclass(frozen=True, eq=False)
class Node:
    """An op of a template: what is compared with ops of a program.

    said: attributes and body. types: of operands and results, element type and sizes (None: any) for tensors.
    operands: None for arguments, which may be anything. maps: indexing maps of a structured op. free: compared by name.
    """

    name: str
    said: str
    types: tuple[tuple[str, tuple[int | None, ...]], ...]
    operands: tuple[Node | None, ...]
    maps: str
    free: bool

    @cached_property
    def inner(self) -> tuple[Node, ...]:
        """The ops below it."""
        found: dict[Node, None] = {}
        pending = list(self.operands)
        while pending:
            node = pending.pop()
            if node is not None and node not in found:
                found[node] = None
                pending += node.operands
        return tuple(found)

    def agrees(self, other: Node, known: dict[tuple[Node, Node], bool] | None = None) -> bool:
        """Whether both may stand for one op of a program. known: the answers so far, for parts that are shared."""
        known = {} if known is None else known
        if (self, other) not in known:
            known[self, other] = self._agrees(other, known)
        return known[self, other]

    def _agrees(self, other: Node, known: dict[tuple[Node, Node], bool]) -> bool:
        if self.name != other.name or self.free or other.free:
            return self.name == other.name
        if self.said != other.said or len(self.types) != len(other.types):
            return False
        if not all(map(_agree, self.types, other.types)):
            return False
        pairs = zip(self.operands, other.operands, strict=True)
        return all(a is None or b is None or a.agrees(b, known) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Shape:
    """Where a matcher may hold: at a template's root, as it is or (`structured`) in any op of its maps and types; or at
    ops of some names.
    """

    root: Node | None = None
    structured: bool = False
    names: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether it compares attributes, and the ops that make operands."""
        return self.root is not None and not self.structured

    @property
    def inner(self) -> tuple[Node, ...]:
        return self.root.inner if self.root is not None and self.is_exact else ()

    def may_hold_at(self, node: Node) -> bool:
        if self.root is None:
            return node.name in self.names
        if self.structured:
            return self.root.maps == node.maps and all(map(_agree, self.root.types, node.types))
        return self.root.agrees(node)

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
        is_part = bool(first.sets & second.sets) and not first.sets <= second.sets
        return _contends(second, first, _PARTLY) if is_part and first.shape.meets(second.shape) else None
    at_once = first.stage == second.stage
    if first.sets and first is not second and first.shape.meets(second.shape):
        if at_once and not first.sets & second.sets:
            return _contends(second, first, "an op gets only the first action there, while annotations exclude no rule")
        if not at_once and second.shape.is_exact:
            return _contends(second, first, _UNSEEN)
        if not at_once and first.sets & second.sets and not first.sets <= second.sets:
            return _contends(second, first, _PARTLY)
    # Ops inside of a match come before its root, so within a stage the order of the pairs says nothing.
    for inside, whole in ((first, second), (second, first))[: 1 + at_once]:
        if (inside.sets or whole.sets) and any(map(inside.shape.may_hold_at, whole.shape.inner)):
            unseen = _UNSEEN if inside.sets else "what a call has replaced is no longer found, while rules annotate it"
            return _contends(second, first, unseen)
    return None


def _contends(pair: Pair, other: Pair, why: str) -> UnreadableError:
    if pair.op == other.op:
        return UnreadableError(pair.op, f"its matches may overlap: {why}")
    return UnreadableError(pair.op, f"it may match where the one at {place(other.op)} does: {why}")


def _sorted(pairs: Sequence[Pair], unread: dict[str, None]) -> Iterator[str]:
    """The rules of calls of one stage, those first whose matches may lie in those of others."""
    before: dict[str, set[str]] = {pair.rule: set() for pair in pairs}
    for number, pair in enumerate(pairs):
        for later in pairs[number + 1 :]:
            if pair.rule != later.rule and pair.shape.meets(later.shape):
                before[later.rule].add(pair.rule)
        for other in pairs:
            if pair.rule != other.rule and any(map(other.shape.may_hold_at, pair.shape.inner)):
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


def template_node(root: ir.Operation) -> Node:
    """The root of a template with the ops below it."""
    return _node(root, {})


def _node(op: ir.Operation, known: dict[ir.Operation, Node]) -> Node:
    if op not in known:
        owners = [None if isinstance(v.owner, ir.Block) else v.owner.operation for v in op.operands]
        known[op] = Node(
            name=op.name,
            said=f"{_attributes(op)} {[*_body(op)]}",
            types=tuple(_type(v.type) for v in (*op.operands, *op.results)),
            operands=tuple(None if owner is None else _node(owner, known) for owner in owners),
            maps=_maps(op),
            free=NAME_ONLY in op.attributes,
        )
    return known[op]


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


def _type(kind: ir.Type) -> tuple[str, tuple[int | None, ...]]:
    if not isinstance(kind, ir.RankedTensorType):
        return str(kind), ()
    sizes = (None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank))
    return f"tensor of {kind.element_type}", tuple(sizes)


def _agree(left: tuple[str, tuple[int | None, ...]], right: tuple[str, tuple[int | None, ...]]) -> bool:
    if left[0] != right[0] or len(left[1]) != len(right[1]):
        return False
    return all(a is None or b is None or a == b for a, b in zip(left[1], right[1], strict=True))


def _maps(op: ir.Operation) -> str:
    """The indexing maps of a structured op, "" for another op."""
    if "indexing_maps" in op.attributes:
        return str(op.attributes["indexing_maps"])
    found = get_indexing_maps(op) if _is_linalg(op.name) else None
    return "" if found is None else str(found)


def _is_linalg(name: str) -> bool:
    return name.startswith("linalg.")

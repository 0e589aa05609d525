"""Places that look alike: what was found at one is found at the next without a search.

Programs repeat their layers. What a search finds depends only on the ops that it reads, on their types and attributes,
and on which of their operands are the same values. `Recall` keeps, for each way that places were seen to look, what was
found there, as a tree of questions: "what makes value 3?", with values numbered as they come up. A place that gives the
same answers down to a leaf is the same up to which values they are.

It answers only for graphs of which this holds: those that `Traits` calls local.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.bounds import ASSUMING_OP, TYING_OPS
from opsplice.matchers.graph import (
    Accumulated,
    Anything,
    Choice,
    Graph,
    Input,
    Label,
    Number,
    Result,
    Tie,
    Whole,
    Window,
)
from opsplice.matchers.terms import Apply, Reduce
from opsplice.spec_lang import ops, tree

# Structured ops whose name does not say what their body computes.
_OPEN_BODIES = frozenset({"linalg.generic", "linalg.map", "linalg.reduce"})
_CONDITIONS = (tree.Comparison, tree.Logical, tree.Arithmetic, tree.DimRef, tree.Literal, tree.Property)
# Ops all of whose own attributes are read by nobody but a pattern that names them.
_BARE = frozenset(op.full_name for op in ops.OPS.values() if not op.predicates)
_CASTS = frozenset(op.full_name for op in ops.OPS.values() if op.is_cast)
# Ops that say something of sizes that are known at run time only.
_SIZED = TYING_OPS | {ASSUMING_OP}
_MOST_READS = 512
_KNOWN_FIELDS = {
    Apply: {"op", "args", "attributes", "type"},
    Reduce: {"combiner", "loops", "body"},
    Input: {"name", "labels"},
    Number: {"low", "high"},
    Whole: {"op", "operands", "attributes", "labels", "number", "count", "element", "rest", "regions"},
    Choice: {"options"},
    Accumulated: {"node"},
    Anything: set(),
    Window: {"terms", "pack", "windowed"},
    Label: {"id", "name", "pack", "windowed"},
    Result: {"node", "labels"},
    Tie: {"labels", "size", "pack", "node"},
    Graph: {
        "pattern",
        "results",
        "ties",
        "conditions",
        "variables",
        "rearranged",
        "spans",
        "size",
        "factors",
        "through",
    },
}
# Fields that this module does not know of: a part that has something there may read anything.
_NEW_FIELDS = {kind: {f.name for f in dataclasses.fields(kind)} - known for kind, known in _KNOWN_FIELDS.items()}


def _parts(graph: Graph) -> list[Any]:
    """A graph, its nodes and its conditions, each once."""
    found: dict[int, Any] = {}
    pending: list[Any] = [graph]
    while pending:
        part = pending.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        pending.extend(_inside(part))
    return list(found.values())


def _inside(part: Any) -> Sequence[Any]:
    if isinstance(part, Graph):
        return [*part.results, *part.ties, *part.conditions]
    if isinstance(part, (Result, Accumulated)):
        return [part.node]
    if isinstance(part, Apply):
        return part.args
    if isinstance(part, Reduce):
        return [part.body]
    if isinstance(part, Choice):
        return part.options
    if isinstance(part, Whole):
        return part.operands
    if isinstance(part, Number):
        return [part.low] if part.high is None else [part.low, part.high]
    if isinstance(part, tree.Logical):
        return part.operands
    return [part.left, part.right] if isinstance(part, (tree.Comparison, tree.Arithmetic)) else []


def _is_known(part: Any) -> bool:
    kind = type(part)
    if kind in _CONDITIONS:
        return True
    if kind not in _KNOWN_FIELDS or (kind is Whole and "*" in part.op):
        return False
    return not any(getattr(part, name) for name in _NEW_FIELDS[kind])


@dataclass(frozen=True)
class Traits:
    """What graphs read of a place.

    local: the graphs whose searches read nothing but the ops that views read, and these ops' own parts. A pattern of
    several results also looks at uses, and parts of patterns that this module does not know count as reading anything.
    wholes: ops that local graphs match by name, with all that they have. marked: ops on elements whose attributes
    matter to local graphs.
    """

    local: frozenset[Graph]
    wholes: frozenset[str]
    marked: frozenset[str]

    @staticmethod
    def of(graphs: Sequence[Graph]) -> Traits:
        local: set[Graph] = set()
        wholes: set[str] = set()
        marked: set[str] = set()
        for graph in graphs:
            parts = _parts(graph)
            if len(graph.results) == 1 and all(map(_is_known, parts)):
                local.add(graph)
                wholes.update(part.op for part in parts if type(part) is Whole)
                marked.update(part.op for part in parts if type(part) is Apply and part.attributes)
        return Traits(frozenset(local), frozenset(wholes), frozenset(marked))


class _Question:
    """A node of the tree: which value to look at next, by number, or what was found; neither while that is unknown."""

    __slots__ = ("answers", "found", "number")

    def __init__(self) -> None:
        self.number = -1
        self.answers: dict[Any, _Question] = {}
        self.found: Any = None


# How the op that makes a value looks, as a number (None: it cannot be told); the values that it uses; and the op.
_Look = tuple[int | None, tuple[ir.Value, ...], ir.Operation | None]


class Recall:
    """What was found at places, by how they look. `forget` bounds the memory that ops take, and loses no knowledge."""

    def __init__(self, traits: Traits) -> None:
        self._wholes = traits.wholes
        self._bare = _BARE - traits.marked - traits.wholes
        self._plain = self._bare | ({"linalg.fill"} - traits.wholes)
        self._root = _Question()
        self._keys: dict[Any, int] = {}
        self._seen: dict[ir.Value, _Look] = {}

    def forget(self) -> None:
        self._seen.clear()

    def __len__(self) -> int:
        return len(self._seen)

    def look(self, value: ir.Value) -> tuple[Any, list[ir.Value]]:
        """What was found at a place that looks as this one does, or None; and the values around it, by number."""
        question = self._root
        numbers = {value: 0}
        values = [value]
        seen = self._seen
        while question.found is None:
            if question.number < 0:
                return None, values
            at = values[question.number]
            key, uses, _ = seen.get(at) or self._see(at)
            if uses:
                pattern: list[int | None] = [key]
                for used in uses:
                    number = numbers.get(used)
                    if number is None:
                        number = numbers[used] = len(values)
                        values.append(used)
                    pattern.append(number)
                answer = question.answers.get(tuple(pattern))
            else:
                answer = question.answers.get(key)
            if answer is None:
                return None, values
            question = answer
        return question.found, values

    def learn(self, value: ir.Value, reads: Sequence[ir.Value], make: Callable[[dict[ir.Value, int]], Any]) -> Any:
        """Keep what was found at a place after `reads`, in their order.

        make: gives what was found, in terms of the numbers of the values around the place, or None if that cannot be.
        Returns what is kept, or None if nothing is.
        """
        if len(reads) > _MOST_READS:
            return None
        numbers = {value: 0}
        question = self._root
        for read in reads:
            if read not in numbers:
                return None
            key, uses, _ = self._seen.get(read) or self._see(read)
            if key is None or question.found is not None or question.number not in (-1, numbers[read]):
                return None
            question.number = numbers[read]
            for used in uses:
                numbers.setdefault(used, len(numbers))
            answer = (key, *(numbers[used] for used in uses)) if uses else key
            question = question.answers.setdefault(answer, _Question())
        if question.number < 0 and question.found is None:
            question.found = make(numbers)
        return question.found

    def op_of(self, value: ir.Value) -> ir.Operation | None:
        """The op that makes a value, None for an argument of a block."""
        return (self._seen.get(value) or self._see(value))[2]

    # ---- how an op looks ------------------------------------------------------------------------------------------

    def _see(self, value: ir.Value) -> _Look:
        owner = value.owner
        if isinstance(owner, ir.Block):
            op, look, uses = None, ("argument", value.type), ()
        else:
            op = owner.operation
            look, uses = self._look_of(op, value)
        key = None if look is None else self._keys.setdefault(look, len(self._keys))
        seen = self._seen[value] = (key, uses, op)
        return seen

    def _look_of(self, op: ir.Operation, value: ir.Value) -> tuple[Any, tuple[ir.Value, ...]]:
        name = op.name
        if name == "linalg.generic" and name not in self._wholes:
            return self._structured(op, name, value, get_indexing_maps(op))
        if name in self._plain:
            uses = tuple(op.operands)
            return (name, value.type, *[used.type for used in uses]), uses
        if name == "arith.constant":
            return (name, op.attributes["value"]), ()
        if name in _OPEN_BODIES:
            return self._structured(op, name, value, tuple(op.attributes.items()))
        if name in self._wholes:
            if len(op.regions) and not name.startswith("linalg."):
                return None, ()
        elif name not in _SIZED and not name.startswith(("linalg.", "tensor.", "arith.", "math.")):
            return (name, value.type, len(op.results), value.result_number), ()  # views do not look into it
        uses = tuple(op.operands)
        types = [used.type for used in uses]
        return (name, len(op.results), value.result_number, value.type, *types, *op.attributes.items()), uses

    def _structured(
        self, op: ir.Operation, name: str, value: ir.Value, attributes: Any
    ) -> tuple[Any, tuple[ir.Value, ...]]:
        """An op with a body: values of the body go by their place in it, those from outside count as operands."""
        uses = list(op.operands)
        look: list[Any] = [name, len(op.results), value.result_number, attributes, *[used.type for used in uses]]
        block = op.regions[0].blocks[0]
        inside: dict[ir.Value, int] = {}
        for argument in block.arguments:
            inside[argument] = ~len(inside)
        bare = self._bare
        for view in block.operations:
            each = view.operation
            inner = each.name
            look.append(inner)
            for used in each.operands:
                place = inside.get(used)
                if place is None:  # from outside
                    if used not in uses:
                        uses.append(used)
                        look.append(used.type)
                    place = uses.index(used)
                look.append(place)
            if inner == "linalg.yield":
                break
            if inner in bare:
                made = each.result
                inside[made] = ~len(inside)
                if inner in _CASTS:
                    look.append(made.type)
                continue
            if len(each.regions):
                return None, ()
            look.extend(each.attributes.items())
            for made in each.results:
                inside[made] = ~len(inside)
                look.append(made.type)
        return tuple(look), tuple(uses)

"""Places that look alike: what was found at one is found at the next without a search.

Programs repeat their layers. What a search finds depends only on the ops that it reads, on their types and attributes,
and on which of their operands are the same values. `Recall` keeps, for each way that places were seen to look, what was
found there, as a tree of questions: "what makes value 3?", with values numbered as they come up. A place that gives the
same answers down to a leaf is the same up to which values they are. The nodes of the tree are the states of
`matchers.native`, where questions are asked and answers compared word by word.

It answers only for graphs of which this holds: those that `Traits` calls local.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers import native
from opsplice.matchers.attributes import ROUNDING
from opsplice.matchers.bounds import ASSUMING_OP, SIZED_OPS
from opsplice.matchers.graph import (
    Accumulated,
    Anything,
    Choice,
    Graph,
    Input,
    Label,
    Number,
    Product,
    Result,
    Tie,
    Whole,
    Window,
)
from opsplice.matchers.index import OPAQUE_REGIONS
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.views import FRONTEND_CONSTANTS
from opsplice.spec_lang import ops, tree

# Structured ops whose name does not say what their body computes.
_OPEN_BODIES = frozenset({"linalg.generic", "linalg.map", "linalg.reduce", "iree_linalg_ext.attention"})
_CONDITIONS = (tree.Comparison, tree.Logical, tree.Arithmetic, tree.DimRef, tree.Literal, tree.Property)
# Ops all of whose own attributes are read by nobody but a pattern that names them.
_BARE = frozenset(op.full_name for op in ops.OPS.values() if not op.predicates) - ROUNDING
# Ops that say something of sizes that are known at run time only.
_SIZED = SIZED_OPS.keys() | {ASSUMING_OP, "affine.apply"}
_READ = _SIZED | FRONTEND_CONSTANTS.keys()
_MOST_READS = 512
_KNOWN_FIELDS = {
    Apply: {"op", "args", "attributes", "type"},
    Product: {"op", "args", "attributes", "type"},
    Reduce: {"combiner", "loops", "body"},
    Input: {"name", "labels"},
    Number: {"low", "high"},
    Whole: {"op", "operands", "attributes", "labels", "number", "count", "element", "rest", "regions", "body"},
    Choice: {"options"},
    Accumulated: {"node"},
    Anything: set(),
    Window: {"terms", "pack", "windowed"},
    Label: {"id", "name", "pack", "windowed"},
    Result: {"node", "labels", "element"},
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
                marked.update(part.op for part in parts if isinstance(part, Apply) and part.attributes)
        return Traits(frozenset(local), frozenset(wholes), frozenset(marked))


class Recall:
    """What was found at places, by how they look; and the places themselves.

    wanted: the names of the ops that patterns can start at, None for any.
    """

    def __init__(self, traits: Traits, wanted: frozenset[str] | None) -> None:
        self._name_traits = partial(_name_traits, traits, wanted)
        self._forget()

    def _forget(self) -> None:
        self._states = native.States(self._name_traits)
        self._found: list[Any] = []
        self._state_of: dict[Any, tuple[int, int]] = {}

    def places(self, module: ir.Module) -> Iterator[tuple[int, int, Any]]:
        """The results of wanted ops, in program order, as addresses; without those at which `hush` said to do nothing.

        For each its number among all, and what was found at one that looks the same, or None. As long as the next is
        not asked for, `values` gives what is around it.
        """
        places = self._states.pick(module.operation)
        at = -1
        while (at := self._states.skip(places, at + 1)) < len(places):
            if self._states.is_nearly_full:
                self._forget()
            number = self._states.found
            yield at, places[at], self._found[number - 1] if number else None

    def values(self) -> list[int]:
        """The addresses of the values around a place, by number."""
        return self._states.values()

    def learn(self, value: ir.Value, reads: Sequence[ir.Value], make: Callable[[dict[ir.Value, int]], Any]) -> Any:
        """Keep what was found at a place after `reads`, in their order.

        make: gives what was found, in terms of the numbers of the values around the place, or None if that cannot be.
        Returns what is kept, or None if nothing is.
        """
        if len(reads) > _MOST_READS:
            return None
        states = self._states
        states.start(native.address_of(value))
        state = 0
        for read in reads:
            state = states.learn(state, native.address_of(read))
            if state < 0:
                return None
        if not states.is_open(state):
            return None
        found = make({native.value_at(around): number for number, around in enumerate(states.values())})
        if found is not None:
            self._found.append(found)
            self._state_of[found] = state, len(self._found)
            states.keep(state, len(self._found))
        return found

    def hush(self, found: Any) -> None:
        """Leave out places from now on that look as those where this was found."""
        if found in self._state_of:
            state, number = self._state_of[found]
            self._states.keep(state, -number)


def _name_traits(traits: Traits, wanted: frozenset[str] | None, name: str) -> int:
    """The traits of an op's name for how it looks, and for whether a place may be there."""
    found = native.WANTED if wanted is None or name in wanted else 0
    found |= native.CLOSED if name.startswith(OPAQUE_REGIONS) else 0
    found |= native.ENDING if name.startswith("linalg.") else 0
    whole = name in traits.wholes
    if (name in _BARE and name not in traits.marked and not whole) or (name == "linalg.fill" and not whole):
        return found | native.BARE
    if name in _OPEN_BODIES:
        return found | native.BODY | (0 if whole or name != "linalg.generic" else native.MAPS)
    if whole:
        return found if name.startswith("linalg.") else found | native.FLAT
    if name not in _READ and not name.startswith(("linalg.", "tensor.", "arith.", "math.")):
        return found | native.OPAQUE  # views do not look into it
    return found

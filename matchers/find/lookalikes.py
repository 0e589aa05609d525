"""Places that look alike: what was found at one is found at the next without a search.

Programs repeat their layers. What a search finds depends only on the ops that it reads, on their types and attributes,
on which of their operands are the same values, and on what is asked of these: whether they may be numbers, are put
together from others or are weights, and how many ops use them. `Recall` keeps, for each way that places were seen to
look, what was found there, as a tree of questions: "what makes value 3?" or "what uses it?", with values numbered as
they come up. A place that gives the same answers down to a leaf is the same up to which values they are.

It answers only for graphs of which this holds: those that `Traits` calls local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.size_bounds import noted
from opsplice.matchers.dims.size_reader import ASSUMING_OP, BITCAST, SIZED_OPS
from opsplice.matchers.find.index import OPAQUE_REGIONS
from opsplice.matchers.ir.effects import has_effects
from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns import walk
from opsplice.matchers.patterns.nodes import (
    Accumulated,
    Anything,
    Asked,
    Choice,
    Form,
    Graph,
    Input,
    Label,
    Named,
    Number,
    Place,
    Product,
    Result,
    Setting,
    Tie,
    Whole,
    Window,
    Within,
)
from opsplice.matchers.search import uses
from opsplice.matchers.terms.attributes import ROUNDING
from opsplice.matchers.terms.ops.constant_ops import FRONTEND_CONSTANTS, may_be_number
from opsplice.matchers.terms.ops.index_reductions import ARG_COMPARE
from opsplice.matchers.terms.ops.parts_of_dims import is_apart
from opsplice.matchers.terms.terms import Apply, Constant, LoopIndex, Reduce
from opsplice.matchers.terms.views import Reads, Users, Views
from opsplice.spec_lang.syntax import tree, vocabulary

# Structured ops whose name does not say what their body computes.
_OPEN_BODIES = frozenset({"linalg.generic", "linalg.map", "linalg.reduce", "iree_linalg_ext.attention", ARG_COMPARE})
# Ops whose own attributes nobody reads but a pattern that names them; an import says which argument it is of.
_BARE = frozenset(op.full_name for op in vocabulary.OPS.values() if not op.predicates) - ROUNDING | {
    "hal.tensor.import",
    "flow.tensor.tie_shape",
}
# Ops that say something of sizes that are known at run time only.
_SIZED = SIZED_OPS.keys() | {ASSUMING_OP, BITCAST, "affine.apply"}
_READ = _SIZED | FRONTEND_CONSTANTS.keys()
_MOST_READS, _MOST_USES = 512, 4096
# How much is kept before memory is given back.
MOST_STATES, _MOST_LOOKS = 1 << 16, 1 << 15

# Traits of an op's name.
BARE = 1 << 0  # its attributes do not count
MAPS = 1 << 1  # of its attributes only the indexing maps count
BODY = 1 << 2  # what its body holds counts
WHOLE = 1 << 3  # a body that it has counts; with more than one block it cannot be told how it looks
OPAQUE = 1 << 4  # of what it is made from nothing counts
WANTED = 1 << 5  # patterns can start there, or at what ends with it
CLOSED = 1 << 6  # its regions hold no places
ENDING = 1 << 7  # it ends with the op whose result its body yields
_NAMED = WANTED | ENDING

# What patterns are made of whose search reads what views read and nothing else.
_LOCAL = frozenset(
    {Accumulated, Anything, Apply, Asked, Choice, Form, Input, Label, Named, Number, Product, Reduce, Result, Setting}
    | {Constant, LoopIndex, Place, Tie, Whole}
    | {Window, Within, tree.Arithmetic, tree.Attribute, tree.Bound, tree.Code, tree.Comparison, tree.DimRef}
    | {tree.Dynamic, tree.Literal, tree.Logical, tree.MlirText, tree.Property}
)


def _is_local(part: Any) -> bool:
    return type(part) in _LOCAL and not (type(part) is Whole and "*" in part.op)


@dataclass(frozen=True)
class Traits:
    """What graphs read of a place.

    local: the graphs whose searches read nothing but the ops that views read, and these ops' own parts. A pattern of
    several results also looks at uses. Other kinds of parts than `_LOCAL` count as reading anything. wholes: ops that
    local graphs match by name, with all that they have. marked: ops on elements whose attributes matter to these.
    weights, users: whether local graphs ask which values are weights, and who uses values.
    """

    local: frozenset[Graph]
    wholes: frozenset[str]
    marked: frozenset[str]
    weights: bool = False
    users: bool = False

    @staticmethod
    def of(graphs: Sequence[Graph]) -> Traits:
        local: set[Graph] = set()
        wholes: set[str] = set()
        marked: set[str] = set()
        asked: set[str] = set()
        for graph in graphs:
            parts = walk.parts_of(graph)
            if len(graph.results) == 1 and all(map(_is_local, parts)):
                local.add(graph)
                wholes.update(part.op for part in parts if type(part) is Whole)
                marked.update(part.op for part in parts if isinstance(part, Apply) and part.attributes)
                asked.update(part.kind for part in parts if isinstance(part, Asked))
        users = bool(asked - {"weight"})
        return Traits(frozenset(local), frozenset(wholes), frozenset(marked), "weight" in asked, users)


@dataclass
class _State:
    """What is known of places that gave the same answers so far.

    asks: the number of the value to look at next, None where none is; `~number` where its users are. found: what was
    found at these places, None if nothing is known; quiet: whether nothing has to be done at them.
    """

    asks: int | None = None
    next: dict[tuple[int, ...], _State] = field(default_factory=dict)
    found: Any = None
    quiet: bool = False


class Recall:
    """What was found at places, by how they look; and the places themselves.

    wanted: the names of the ops that patterns can start at, None for any.
    """

    def __init__(self, traits: Traits, wanted: frozenset[str] | None, views: Views | None = None) -> None:
        self._traits = cache(partial(_name_traits, traits, wanted))
        self._asks = traits
        self._views = Views() if views is None else views
        self._forget()

    def _forget(self) -> None:
        self._first = _State()
        self._states = 1
        self._state_of: dict[Any, _State] = {}
        self._words: dict[Any, int] = {}
        self._looks: dict[ir.Value | Users, tuple[int, tuple[ir.Value, ...]] | None] = {}
        self._sights: dict[ir.Value, int] = {}
        self._uses: dict[ir.Value, int] = {}
        self._numbers: dict[ir.Value, int] = {}

    def places(self, module: ir.Module) -> Iterator[tuple[int, ir.Value, Any]]:
        """The results of wanted ops, in program order; without those at which `hush` said to do nothing.

        For each its number among all, and what was found at one that looks the same, or None. As long as the next is
        not asked for, `values` gives what is around it.
        """
        for number, value in enumerate(self._pick(module.operation)):
            if self._states > MOST_STATES or len(self._looks) > _MOST_LOOKS:
                self._forget()
            state = self._reached(value)
            if state is None or not state.quiet:
                yield number, value, None if state is None else state.found

    def values(self) -> list[ir.Value]:
        """The values around a place, by number."""
        return list(self._numbers)

    def learn(self, value: ir.Value, reads: Reads, make: Callable[[dict[ir.Value, int]], Any]) -> Any:
        """Keep what was found at a place after `reads`, in their order.

        make: gives what was found, in terms of the numbers of the values around the place, or None if that cannot be.
        Returns what is kept, or None if nothing is.
        """
        if len(reads) > _MOST_READS:
            return None
        self._numbers = {value: 0}
        state = self._first
        for read in reads:
            asks = self._numbers.get(read.value if isinstance(read, Users) else read)
            if asks is None:
                return None
            asks = ~asks if isinstance(read, Users) else asks
            if state.found is not None or state.asks not in (None, asks):
                return None
            words = self._step(read)
            if words is None:
                return None
            state.asks = asks
            if words not in state.next:
                state.next[words] = _State()
                self._states += 1
            state = state.next[words]
        if state.asks is not None or state.found is not None:
            return None
        found = make(self._numbers)
        if found is not None:
            state.found = found
            self._state_of[found] = state
        return found

    def hush(self, found: Any) -> None:
        """Leave out places from now on that look as those where this was found."""
        if found in self._state_of:
            self._state_of[found].quiet = True

    # ---- places ---------------------------------------------------------------------------------------------------

    def _pick(self, top: ir.Operation) -> list[ir.Value]:
        """The results of wanted ops in an op. Of several results only the first is judged: such an op is wanted.

        Others that nothing uses are no places: many frontends find the place of each maximum that they compute.
        """
        found: list[ir.Value] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            traits = self._traits(op.name)
            if traits & _NAMED:
                results = op.results
                count = len(results)
                if count and (traits & WANTED or (traits & ENDING and (count > 1 or self._ends_wanted(op)))):
                    found.extend(each for each in results if not each.result_number or uses.count_of(each))
            return ir.WalkResult.SKIP if traits & CLOSED else ir.WalkResult.ADVANCE

        top.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found

    def _ends_wanted(self, op: ir.Operation) -> bool:
        """Whether the op whose result a body yields first is wanted."""
        if not len(op.regions) or not len(op.regions[0].blocks):
            return False
        yielded = last_op(op.regions[0].blocks[0]).operands
        made = defining_op(yielded[0]) if len(yielded) else None
        return made is not None and bool(self._traits(made.name) & WANTED)

    # ---- how a place looks ----------------------------------------------------------------------------------------

    def _reached(self, value: ir.Value) -> _State | None:
        """The last state that the looks at a place lead to, None if it looks new."""
        self._numbers = {value: 0}
        values = [value]
        state: _State | None = self._first
        while state is not None and state.asks is not None:
            asks = state.asks
            words = self._step(values[asks] if asks >= 0 else Users(values[~asks]))
            values.extend(islice(self._numbers, len(values), None))
            state = None if words is None else state.next.get(words)
        return None if state is None or state is self._first else state

    def _step(self, read: ir.Value | Users) -> tuple[int, ...] | None:
        """How what makes a value looks, with the values that it uses by their numbers; or how its users look, with what
        they make. None if it cannot be told."""
        numbers = self._numbers
        if isinstance(read, Users):
            look = self._look_of_users(read.value, next(iter(numbers)).owner.operation)
        else:
            if read not in self._looks:
                self._looks[read] = self._look(read)
            look = self._looks[read]
        if look is None:
            return None
        return look[0], *[numbers.setdefault(used, len(numbers)) for used in look[1]]

    def _look(self, value: ir.Value) -> tuple[int, tuple[ir.Value, ...]] | None:
        op = defining_op(value)
        if op is None:
            return self._word((self._seen(value), self._users(value), noted(value))), ()
        traits = self._traits(op.name)
        words: list[Any] = [op.name, value.result_number, *(result.type for result in op.results)]
        words.extend(map(self._users, op.results))
        if traits & OPAQUE:
            return self._word((*words, noted(value))), ()
        has_body = bool(traits & BODY or (traits & WHOLE and len(op.regions)))
        if traits & WHOLE and has_body and (len(op.regions) > 1 or len(op.regions[0].blocks) > 1):
            return None
        used: dict[ir.Value, int] = {}
        for operand in op.operands:
            words.append(self._seen(operand))
            words.append(used.setdefault(operand, len(used)))
        if traits & MAPS:
            words.append(op.attributes["indexing_maps"])
        elif not traits & BARE:
            if _holds_complex(value.type):
                return None
            words.extend(op.attributes.items())
        if has_body and not self._read_body(op, words, used):
            return None
        return None if len(used) > _MOST_USES else (self._word(tuple(words)), tuple(used))

    def _look_of_users(self, value: ir.Value, root: ir.Operation) -> tuple[int, tuple[ir.Value, ...]] | None:
        """Nobody looks further where a user comes after the place."""
        if any(uses.comes_after(user, root) for user in uses.users_of(value)):
            return self._word("used after the place"), ()
        users = list(uses.users_of(value))
        made = tuple(dict.fromkeys(result for op in users for result in op.results))
        words = tuple((op.name, len(op.results), has_effects(op)) for op in users)
        return None if len(made) > _MOST_USES else (self._word((words, *map(self._users, made))), made)

    def _seen(self, value: ir.Value) -> int:
        """A word for what an op sees of a value that it uses: its type, whether it may be a number or is put together
        from others, and whether it is a weight, if conditions ask for that."""
        if value not in self._sights:
            number, apart = may_be_number(value, self._views.numbers), is_apart(value, self._views.apart)
            weight = self._asks.weights and uses.is_weight(self._views, value)
            self._sights[value] = self._word((value.type, number, apart, weight))
        return self._sights[value]

    def _users(self, value: ir.Value) -> int:
        """How often a value is used, 0 where no condition asks: who asks for users has read what makes the value. Where
        two matches look the same, as many of these uses are their own."""
        if not self._asks.users:
            return 0
        if value not in self._uses:
            self._uses[value] = uses.count_of(value)
        return self._uses[value]

    def _read_body(self, op: ir.Operation, words: list[Any], used: dict[ir.Value, int]) -> bool:
        """Add the ops of the one block in an op. False if one of them cannot be told."""
        if not len(op.regions) or not len(op.regions[0].blocks):
            return False
        block = op.regions[0].blocks[0]
        inside: dict[ir.Value, Any] = {value: ("argument", at) for at, value in enumerate(block.arguments)}
        for at, view in enumerate(block.operations):
            inner = view.operation
            words.append(inner.name)
            for operand in inner.operands:
                if operand not in inside and operand not in used:
                    words.append(self._seen(operand))
                words.append(inside[operand] if operand in inside else used.setdefault(operand, len(used)))
            if not self._traits(inner.name) & BARE:
                if len(inner.regions):
                    return False
                words.extend(inner.attributes.items())
            for number, result in enumerate(inner.results):
                words.append(result.type)
                inside[result] = (at, number)
        return True

    def _word(self, words: Any) -> int:
        """A number for what is equal."""
        return self._words.setdefault(words, len(self._words))


def _name_traits(traits: Traits, wanted: frozenset[str] | None, name: str) -> int:
    """The traits of an op's name for how it looks, and for whether a place may be there."""
    found = WANTED if wanted is None or name in wanted else 0
    found |= CLOSED if name.startswith(OPAQUE_REGIONS) else 0
    found |= ENDING if name.startswith("linalg.") else 0
    whole = name in traits.wholes
    if (name in _BARE and name not in traits.marked and not whole) or (name == "linalg.fill" and not whole):
        return found | BARE
    if name in _OPEN_BODIES:
        return found | BODY | (0 if whole or name != "linalg.generic" else MAPS)
    if whole:
        return found if name.startswith("linalg.") else found | WHOLE
    if name not in _READ and not name.startswith(("linalg.", "tensor.", "arith.", "math.")):
        return found | OPAQUE  # views do not look into it
    return found


def _holds_complex(kind: ir.Type) -> bool:
    """Whether a type is of complex numbers, for which IREE's bindings raise TypeError if they are in an attribute."""
    return isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.ComplexType)

"""What a search finds: matches, and near misses with their reasons. Plain data; it changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.size_bounds import bounds_of
from opsplice.matchers.ir.op_names import location_text
from opsplice.matchers.patterns.nodes import Graph, Wanted
from opsplice.matchers.search.failures import Why
from opsplice.matchers.terms import constants
from opsplice.matchers.terms.address import Place
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.dims.judge import Known
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax import vocabulary as ops

# A size is a number, or where to read it at run time.
Size = int | DimSize


def flat(sizes: Iterable[Size | tuple[Size, ...]]) -> tuple[Size, ...]:
    """The sizes of a tensor, axis by axis, from those of its dims and packs."""
    return tuple(part for size in sizes for part in (size if isinstance(size, tuple) else (size,)))


def paired(
    dims: Sequence[tree.Dim], shape: Sequence[Size | tuple[Size, ...]]
) -> Iterator[tuple[tree.Dim, Size | tuple[Size, ...]]]:
    """Each of a kernel's dims with its size; a pack has those that are left. The checker has compared the ranks."""
    at = next((number for number, dim in enumerate(dims) if dim.pack is not None), None)
    if at is not None:
        end = len(shape) - (len(dims) - at - 1)
        shape = [*shape[:at], flat(shape[at:end]), *shape[end:]]
    return zip(dims, shape, strict=True)


def numbers(views: Views, size: Size | tuple[Size, ...]) -> Known | tuple[Known, ...]:
    """Sizes as numbers, None for those known only at run time, or what the program assumes of them."""
    return tuple(_number(views, each) for each in size) if isinstance(size, tuple) else _number(views, size)


def known_dims(
    views: Views, dims: Mapping[str, Size | tuple[Size, ...]], types: Mapping[str, str]
) -> dict[str, Known | tuple[Known, ...]]:
    """What is known of dims, by name, with `rank(m)` of packs and `bits(T)` of type variables under their own text."""
    ranks = {f"rank({name})": len(size) for name, size in dims.items() if isinstance(size, tuple)}
    bits = {f"bits({name})": ops.bits(element) for name, element in types.items()}
    return {name: numbers(views, size) for name, size in dims.items()} | ranks | bits


def _number(views: Views, size: Size) -> Known:
    if isinstance(size, int):
        return size
    known: Known = views.remembered(size, bounds_of, lambda: bounds_of(size, views.sizes()))
    return known


@dataclass(frozen=True)
class Binding:
    """What an input of a pattern is at a match: a payload value, or (for scalars) a constant.

    element: the element type, as MLIR writes it.
    places: for a tensor that no value is as a whole, the values in whose memory it lies and its layouts there, nearest
    first; `value` is the first of them.
    widened: the op, such as `arith.extui`, by which the program makes a scalar of the type `element` of `value`.
    """

    value: ir.Value | None = None
    constant: int | float | None = None
    element: str = ""
    places: tuple[Place, ...] = ()
    widened: str = ""

    def is_same(self, other: Binding) -> bool:
        """Whether another binding is this one. IREE's values compare with no other kind of thing."""
        if (self.value is None) != (other.value is None):
            return False
        return self == other and constants.identical(self.constant, other.constant)


@dataclass(frozen=True, eq=False)
class Match:
    """One place where a pattern holds.

    roots:  the payload values that a replacement takes the place of, one for each result of the pattern.
    root_sizes: the sizes of each root, axis by axis.
    inputs: what each parameter is; shapes: the sizes of each tensor parameter, by position of its type in the pattern.
    dims:   the size of each dim of the pattern, and its integers that are known.
    types:  the element type of each type variable.
    ops:    the payload ops that the match accounts for, the roots' own among them.
    held:   how many ops of the pattern it is made of; alternatives and optional ops make a difference here.
    ones_first: whether the pattern has dims of size one of the first root before its others, which the program has not.
    order: the dims of the only root in the order of the pattern's result, None where it has that order. split: then the
    sizes of the dims that each of its axes stands for.

    The size of a pack is a tuple.
    """

    pattern: tree.Pattern
    roots: tuple[ir.Value, ...]
    root_sizes: tuple[tuple[Size, ...], ...]
    inputs: Mapping[str, Binding]
    shapes: Mapping[str, tuple[Size | tuple[Size, ...], ...]]
    dims: Mapping[str, Size | tuple[Size, ...]]
    types: Mapping[str, str]
    ops: tuple[ir.Operation, ...]
    held: int
    function: str
    location: str
    ones_first: bool = False
    order: tuple[int, ...] | None = None
    split: tuple[tuple[Size, ...], ...] = ()

    def static_dims(self, views: Views) -> dict[str, Known | tuple[Known, ...]]:
        """The dims as numbers, None for those known only at run time, or what the program assumes of them.

        With the defaults of scalars that the match has not. `rank(m)` and `bits(T)` are there under their own text.
        """
        defaults = {p.name: p.default for p in self.pattern.parameters if p.default and p.name not in self.inputs}
        found: dict[str, Known | tuple[Known, ...]] = {
            name: default.value for name, default in defaults.items() if isinstance(default.value, int)
        }
        return found | known_dims(views, self.dims, self.types)


@dataclass(frozen=True)
class NearMiss:
    """A place where a pattern began to match and failed.

    why, node, operands: what the pattern asks for and what is there, as in `Failure`; span: that part of the pattern;
    progress: which part of the pattern's ops held before it failed, up to 1.
    graph, value: the compiled pattern and the payload value that it was tried at, for `explain`; op: the one that
    was looked at last.
    """

    pattern: str
    function: str
    why: Why
    span: tree.Span | None
    progress: float
    value: ir.Value = field(repr=False)
    op: ir.Operation | None = field(repr=False)
    node: Wanted | None = field(compare=False, repr=False)
    operands: tuple[Any, ...] = field(compare=False, repr=False)
    graph: Graph = field(compare=False, repr=False)

    @property
    def location(self) -> str:
        return location_text(self.value.owner.operation)

    @property
    def at(self) -> str:
        """The location of the op that was looked at last, "" if there is none."""
        return "" if self.op is None else location_text(self.op)


@dataclass(frozen=True)
class Found:
    """All that a search found, in the order of the program."""

    matches: tuple[Match, ...]
    near_misses: tuple[NearMiss, ...]

"""Terms: what one element of a tensor is, as an expression over indices.

A view (`views`) reads a payload op as the scalar expression that makes the element at given indices. In that
form a broadcast, a transpose or a reshape is only another choice of indices, and every spelling of a computation comes
to the same expression.

Terms are frozen. The shallow ones compare by value; `Apply` and `Reduce` compare by identity, because a program shares
its parts and a comparison by value would walk every path through them. Whoever makes them makes each only once.

Nothing here knows of MLIR beyond carrying its values as opaque hashable objects.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeAlias

if TYPE_CHECKING:
    from iree.compiler import ir
    from typing_extensions import TypeVar

    from opsplice.matchers.dims.extents import Extent

    # What ops are of, what they run over, and what is used as a number: terms, loops and indices in programs, nodes and
    # labels in patterns.
    Arg = TypeVar("Arg", default="Term", covariant=True)
    Along = TypeVar("Along", default="Loop", covariant=True)
    At = TypeVar("At", default="Index", covariant=True)
else:
    from typing import TypeVar

    Arg, Along, At = (TypeVar(name, covariant=True) for name in ("Arg", "Along", "At"))

# ---- indices ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Loop:
    """An index that runs over [0, size); size is None when only known at run time. Each is made only once.

    dim: where the size is read that is only known at run time; None for a dim of what a search starts at, which is not
    there any more where that is asked.
    """

    id: int
    size: int | None
    dim: DimSize | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """The only index of a dim of size one: zero. (Zero in a larger dim is an `Affine`.) There is only one, `UNIT`."""


UNIT = Point()


# The size of a dim. One that is known at run time only is None among others that are numbers, and says what it is
# computed from where there are several such (`extents.Extent`): so equal sizes mean that indices are split alike.
Sized: TypeAlias = "int | Extent | None"
# Where a slice starts: a number, a value of the program, or what is computed from such.
Offset: TypeAlias = "int | Extent | ir.Value"


@dataclass(frozen=True)
class Flat:
    """Several indices flattened row-major into one. `sizes[i]` is the size of `parts[i]`."""

    parts: tuple[Index, ...]
    sizes: tuple[Sized, ...]


@dataclass(frozen=True)
class Part:
    """The index number `position` that comes out when `whole` is split into dims of `sizes`, row-major."""

    whole: Index
    position: int
    sizes: tuple[Sized, ...]


@dataclass(frozen=True)
class Sum:
    """A sum of indices, each times a whole number, as a convolution's window has it. It has no part that is `UNIT`.

    constant: what is added, as a slice's offset is: a number, a value of the program, or what is computed from such.
    Without terms and constant it is zero, in a dim that is larger than one.
    """

    terms: tuple[tuple[int, Index], ...]
    constant: Offset = 0


@dataclass(frozen=True)
class Affine:
    """Any other arithmetic on indices: text with placeholders, and what fills them."""

    text: str
    parts: tuple[Index, ...]


Index = Loop | Point | Flat | Part | Sum | Affine


def summed(terms: dict[Index, int], size: int | None) -> Index:
    """The sum of indices, each times its factor, in a dim of `size`. Indices that are always zero vanish."""
    kept = sorted(((factor, i) for i, factor in terms.items() if i != UNIT and factor), key=str)
    return at_start(Sum(tuple(kept)), size)


def flatten(parts: tuple[Index, ...], sizes: tuple[Sized, ...]) -> Index:
    """One index for several, the inverse of `split`. Parts of size one vanish."""
    kept = [(p, s) for p, s in zip(parts, sizes, strict=True) if p != UNIT]
    if not kept:
        return UNIT
    if len(kept) == 1:
        return kept[0][0]
    kept = [pair for part, size in kept for pair in _apart(part, size)]
    parts, sizes = tuple(p for p, _ in kept), tuple(s for _, s in kept)
    first = parts[0]
    if isinstance(first, Part) and parts == tuple(Part(first.whole, i, first.sizes) for i in range(len(first.sizes))):
        return first.whole
    return Flat(parts, sizes)


def _apart(part: Index, size: Sized) -> Iterable[tuple[Index, Sized]]:
    """What a part of a flattened index flattens itself, where its sizes are known and are all of the dim's."""
    return zip(part.parts, part.sizes, strict=True) if isinstance(part, Flat) and fills(part, size) else ((part, size),)


def fills(part: Flat, size: Sized) -> bool:
    """Whether a flattened index is known to run over all of a dim of a size: where the dim was cut, it does not."""
    if None in part.sizes:
        return False
    open_sizes = [each for each in part.sizes if each is not None and not isinstance(each, int)]
    number = math.prod(each for each in part.sizes if isinstance(each, int))
    if not open_sizes:
        return number == size
    whole = functools.reduce(operator.mul, open_sizes)
    return size is None or replace(whole, factor=whole.factor * number) == size


def split(whole: Index, sizes: tuple[Sized, ...]) -> tuple[Index, ...]:
    """The indices of dims of `sizes` that `whole` flattens; size one gives `UNIT`."""
    kept = tuple(s for s in sizes if s != 1)
    if whole == UNIT or not kept:
        return (UNIT,) * len(sizes)
    if len(kept) == 1:
        pieces: tuple[Index, ...] = (whole,)
    elif isinstance(whole, Flat) and whole.sizes == kept:
        pieces = whole.parts
    else:
        pieces = _gathered(whole, kept) or tuple(Part(whole, i, kept) for i in range(len(kept)))
    rest = iter(pieces)
    return tuple(UNIT if s == 1 else next(rest) for s in sizes)


def _gathered(whole: Index, sizes: tuple[Sized, ...]) -> tuple[Index, ...]:
    """The parts of an index as fewer dims; () where these are not made of whole parts.

    One dim of a size that is not known is what dims of known sizes leave before and behind it.
    """
    if not isinstance(whole, Flat):
        return ()
    front = _taken(sizes, whole.sizes)
    behind = _taken(sizes[len(front) + 1 :][::-1], whole.sizes[::-1])
    start, end = sum(front), len(whole.parts) - sum(behind)
    counts = front if len(front) == len(sizes) else [*front, end - start, *reversed(behind)]
    if len(counts) != len(sizes) or sum(counts) != len(whole.parts) or min(counts) < 1:
        return ()
    edges = list(itertools.accumulate(counts, initial=0))
    return tuple(flatten(whole.parts[a:b], whole.sizes[a:b]) for a, b in itertools.pairwise(edges))


def _taken(sizes: Sequence[Sized], own: Sequence[Sized]) -> list[int]:
    """How many parts each of the first sizes takes, as long as all are known."""
    found: list[int] = []
    for size in sizes:
        total, count, start = 1, 0, sum(found)
        if size is not None and size in own[start : start + 1]:
            found.append(1)
            continue
        while start + count < len(own) and isinstance(each := own[start + count], int) and (total != size or not count):
            total, count = total * each, count + 1
        if not count or total != size:
            break
        found.append(count)
    return found


def mentions(index: Index, loop: Loop) -> bool:
    """Whether an index is computed from a loop."""
    if isinstance(index, Sum):
        return any(mentions(part, loop) for _, part in index.terms)
    if isinstance(index, (Flat, Affine)):
        return any(mentions(part, loop) for part in index.parts)
    return mentions(index.whole, loop) if isinstance(index, Part) else index == loop


def replaced(index: Index, loop: Loop, other: Index) -> Index:
    """An index with another one in place of a loop in it."""
    if isinstance(index, Flat):
        return Flat(tuple(replaced(part, loop, other) for part in index.parts), index.sizes)
    if isinstance(index, Sum) and len(index.terms) == 1:
        ((factor, part),) = index.terms
        return moved(replaced(part, loop, other), factor, index.constant) if mentions(part, loop) else index
    return other if index == loop else index


def moved(index: Index, step: int, start: Offset) -> Sum:
    """Where an element of a slice lies in what it is a slice of. start: a number, or a value of the program."""
    if index == UNIT:
        return Sum((), start)
    if isinstance(index, Sum) and isinstance(index.constant, int) and isinstance(start, int):
        return Sum(tuple((factor * step, part) for factor, part in index.terms), index.constant * step + start)
    return Sum(((step, index),), start)


def at_start(index: Sum, size: int | None) -> Index:
    """The loop that a sum is, where it runs over all of a dim of `size`; else the sum."""
    if index.constant == 0 and len(index.terms) == 1 and size is not None:
        ((factor, loop),) = index.terms
        if factor == 1 and isinstance(loop, Loop) and loop.size == size:
            return loop
    return index


# ---- terms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """The element of a payload value (a tensor, or a scalar with no indices) at `indices`."""

    value: ir.Value
    indices: tuple[Index, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.value, self.indices)))

    def __hash__(self) -> int:
        """Made once: accesses are looked up far more often than made."""
        found: int = self.__dict__["_hash"]
        return found


@dataclass(frozen=True, eq=False)
class Constant:
    """A number of element type `type`. Those that differ in the sign of zero only are not equal."""

    value: int | float
    type: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash((self.type, self.value))


@dataclass(frozen=True, eq=False)
class Apply(Generic[Arg]):
    """A scalar op. `op` is its full name, `type` its result's, `attributes` those that change its meaning, as text."""

    op: str
    args: tuple[Arg, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    type: str = ""


@dataclass(frozen=True, eq=False)
class Started(Apply[Arg]):
    """What the op of a reduction makes that starts from a value: `op` of that value and of the reduction, in order."""


@dataclass(frozen=True, eq=False)
class Reduce(Generic[Arg, Along]):
    """`body` combined by the op `combiner` over all values of `loops` (in a pattern: over labels)."""

    combiner: str
    loops: tuple[Along, ...]
    body: Arg


@dataclass(frozen=True)
class DimSize:
    """The size of a tensor value along an axis, at run time, as an integer."""

    value: ir.Value
    axis: int


@dataclass(frozen=True)
class Parts:
    """What a loop is split into, row-major. sizes: as in `Part`; dims: the same, each a number or where to read it."""

    sizes: tuple[Sized, ...]
    dims: tuple[int | DimSize, ...]


@dataclass(frozen=True)
class LoopIndex(Generic[At]):
    """An index (in a pattern: a label) used as a number."""

    index: At


# What makes a new index for a dim of some size.
Fresh = Callable[[int | DimSize | None], Index]

Term: TypeAlias = Access | Constant | Apply["Term"] | Reduce["Term", Loop] | DimSize | LoopIndex[Index]

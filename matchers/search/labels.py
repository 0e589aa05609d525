"""Labels of a pattern against indices of a payload, and the sizes that these run over."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from opsplice.matchers.patterns.nodes import Label, Window, is_place, labels_in
from opsplice.matchers.search.matches import Size
from opsplice.matchers.terms.ops.parts_of_dims import sizes_along
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Affine,
    Flat,
    Index,
    Loop,
    Part,
    Point,
    Sized,
    Sum,
    fills,
)

T = TypeVar("T")
_MOST_TURNS, _MOST_ORDERS = 5040, 24
# How far windows in an order of axes are apart that is tried first: their axes are neighbours.
_NEIGHBOURS = 1
# The size of a dim, or the sizes of a pack.
Sizes = Size | tuple[Size, ...]


def pair(
    labels: tuple[Label, ...], indices: tuple[Index, ...], bound: dict[Label, tuple[Index, ...]]
) -> list[tuple[Label, tuple[Index, ...]]] | None:
    """Labels against indices by position; a pack takes what the others leave.

    Where there are more indices than labels, those of size-one dims are dropped from the left; where there are fewer,
    labels bound to size one stand for nothing.
    """
    pack = next((i for i, label in enumerate(labels) if label.pack), None)
    if pack is not None:
        after = len(labels) - pack - 1
        if len(indices) < len(labels) - 1:
            return None
        stop = len(indices) - after
        singles = zip((*labels[:pack], *labels[pack + 1 :]), (*indices[:pack], *indices[stop:]), strict=True)
        pairs: list[tuple[Label, tuple[Index, ...]]] = [(label, (index,)) for label, index in singles]
        pairs.insert(pack, (labels[pack], indices[pack:stop]))
        return pairs
    extra = len(indices) - len(labels)
    if extra > 0:
        kept = list(indices)
        for index in indices:
            if extra and index == UNIT:
                kept.remove(UNIT)
                extra -= 1
        if extra:
            return None
        return [(label, (index,)) for label, index in zip(labels, kept, strict=True)]
    if extra < 0:
        units = [label for label in labels if bound.get(label) == (UNIT,) and not label.windowed][:-extra]
        if len(units) != -extra:
            return None
        rest = iter(indices)
        return [(label, (UNIT,) if label in units else (next(rest),)) for label in labels]
    return [(label, (index,)) for label, index in zip(labels, indices, strict=True)]


def aligned(
    labels: tuple[Label, ...], indices: tuple[Index, ...], bound: Mapping[Label, tuple[Index, ...]]
) -> list[tuple[Label, tuple[Index, ...]]] | None:
    """Labels against indices in order, wherever either have dims of size one; None if that cannot be told."""
    rest, pairs = nontrivial(indices), []
    for label in labels:
        known = bound.get(label) if isinstance(label, Label) else None
        if known is None and (label.pack or label.windowed):
            return None
        wanted = rest[:1] if known is None else nontrivial(known)
        if rest[: len(wanted)] != wanted:
            return None
        rest = rest[len(wanted) :]
        pairs.append((label, known or wanted or (UNIT,)))
    return None if rest else pairs


def ones_first(indices: tuple[Index, ...]) -> tuple[Index, ...]:
    """Indices with those of dims of size one before all others."""
    return (*(i for i in indices if i == UNIT), *nontrivial(indices))


def only_term(index: Index) -> Index:
    """What a sum of one term is, as over a window of one place in an image whose size is known at run time only."""
    if isinstance(index, Sum) and index.constant == 0 and len(index.terms) == 1:
        ((factor, part),) = index.terms
        return part if factor == 1 else index
    return index


def ones_last(indices: tuple[Index, ...]) -> int:
    """How many of the last indices are those of dims of size one."""
    return len(list(itertools.takewhile(lambda index: index == UNIT, reversed(indices))))


def has_ones_of_filters(indices: tuple[Index, ...]) -> bool:
    """Whether dims of size one are where those of a filter are: last, or the first two."""
    return indices[-1:] == (UNIT,) or indices[:2] == (UNIT, UNIT)


def turns(
    labels: Sequence[Label | Window],
    indices: tuple[Index, ...],
    may_be: Callable[[Label | Window, Index], bool],
    lacks: int = 0,
    kept: Collection[Index] = (),
    ones: int | None = None,
) -> Sequence[tuple[int, ...]]:
    """The orders in which indices may be those of labels, one each; a pack takes what the others leave.

    First come those in which windows are neighbours, as rows and columns are, then those that change least.

    lacks: how many of the last indices stand for dims that the program lacks, which are one like the other. The last
    place is there. Windows that would be of a single index lack theirs first, then those that come early; of other
    labels those that come late.

    ones: if a number, windows are of one place, or as large as the image: all indices of places but so many are the
    result's, `kept`. Orders that change least come first; where there are few dims they change nothing.
    """
    present = len(indices) - lacks
    single = [label for label in labels if not label.pack]
    pack = next((at for at, label in enumerate(labels) if label.pack), None)
    if len(indices) < len(single) or (pack is None and len(indices) > len(single)):
        return ()
    fitting = [tuple([axis for axis, index in enumerate(indices) if may_be(label, index)]) for label in single]
    places = tuple([at for at, label in enumerate(single) if is_place(label)])
    if places:
        fitting[places[-1]] = tuple([axis for axis in fitting[places[-1]] if axis < present])
    if ones is None:
        alone = [at for at, index in enumerate(indices[:present]) if lacks and isinstance(index, (Loop, Point))]
    else:
        alone = [at for at, index in enumerate(indices) if index != UNIT and only_term(index) not in kept]
    few = present <= sum(len(labels_in(label)) for label in single if not is_place(label))
    return _turns(tuple(fitting), places, pack, len(indices), present, frozenset(alone), ones, few)


@functools.lru_cache(maxsize=256)
def _turns(
    fitting: tuple[tuple[int, ...], ...],
    places: tuple[int, ...],
    pack: int | None,
    count: int,
    present: int,
    alone: frozenset[int],
    ones: int | None,
    few: bool,
) -> Sequence[tuple[int, ...]]:
    """The orders of `count` axes. fitting: those of each single label; alone: those that are no windows; few: as
    `turns` says of few dims."""
    found = []
    for axes in itertools.islice(_distinct(fitting), _MOST_TURNS):
        rest = tuple(axis for axis in range(count) if axis not in axes)
        missing = [(axis, at if at in places else -at) for at, axis in enumerate(axes) if axis >= present]
        if missing != sorted(missing, key=operator.itemgetter(0)):
            continue
        windows = [axes[at] for at in places if axes[at] < present]
        gaps = sum(after - axis != _NEIGHBOURS for axis, after in itertools.pairwise(windows))
        order = axes if pack is None else (*axes[:pack], *rest, *axes[pack:])
        moved = changes([axis for axis in order if axis < present])
        loops = len(alone.intersection(windows))
        if ones is not None and (loops > ones or (few and moved)):
            continue
        kinds = (loops, gaps, moved) if ones is None else (moved, loops, gaps)
        found.append((*kinds, [at for _, at in missing], order))
    return tuple(order for *_, order in sorted(found)[:_MOST_ORDERS])


def _distinct(choices: Sequence[Sequence[int]], taken: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """One of each of several choices, no two of them the same."""
    if len(taken) == len(choices):
        yield taken
        return
    for each in choices[len(taken)]:
        if each not in taken:
            yield from _distinct(choices, (*taken, each))


def changes(order: Sequence[int]) -> int:
    """How many pairs of axes are the other way round."""
    return sum(left > right for left, right in itertools.combinations(order, 2))


def is_in_windows(indices: tuple[Index, ...], may_step: bool = True, may_merge: bool = True) -> bool:
    """Whether any index is a sum of several or steps, as in a convolution and in no product of matrices.

    may_merge: whether merged dims are such sums, too.
    """
    sums = [factors(index) for index in indices if isinstance(index, (Sum, Flat) if may_merge else Sum)]
    return any(len(parts) > 1 or (may_step and any(step != 1 for step in parts.values())) for parts in sums)


def unflattened(indices: tuple[Index, ...]) -> tuple[Index, ...]:
    """Indices in one form for all that flatten to the same: a pack may be several dims here and one there.

    Flattened ones are taken apart, and all parts of one index put together again.
    """
    parts: list[Index] = []
    for index in indices:
        if isinstance(index, Flat):  # a part that does not fill its dim stays one
            pairs = zip(index.parts, index.sizes, strict=True)
            apart = ((part,) if _is_cut(part, size) else unflattened((part,)) for part, size in pairs)
            parts.extend(itertools.chain.from_iterable(apart))
        else:
            parts.append(index)
    whole: list[Index] = []
    while parts:
        first = parts[0]
        if isinstance(first, Part):
            count = len(first.sizes)
            if parts[:count] == [Part(first.whole, i, first.sizes) for i in range(count)]:
                parts[:count] = unflattened((first.whole,))
                continue
        whole.append(parts.pop(0))
    return nontrivial(tuple(whole))


def _is_cut(part: Index, size: Sized) -> bool:
    return isinstance(part, Flat) and None not in part.sizes and not fills(part, size)


def factors(index: Index) -> dict[Index, int]:
    """An index as a sum of others, each with its factor: what dims are merged, too, where their sizes are known."""
    if isinstance(index, Sum):
        return {part: factor for factor, part in index.terms}
    if isinstance(index, Flat):
        sizes = [size for size in index.sizes if isinstance(size, int)]
        if len(sizes) == len(index.sizes):
            return {part: math.prod(sizes[at + 1 :]) for at, part in enumerate(index.parts)}
    return {} if index == UNIT else {index: 1}


def permuted(things: Sequence[T], count: int) -> Iterator[tuple[T, ...]]:
    """So many of some things, in every order, the first of these only where there are very many."""
    return itertools.islice(itertools.permutations(things, count), _MOST_ORDERS)


def nontrivial(indices: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(i for i in indices if i != UNIT) if UNIT in indices else indices


def kept(size: Sizes, indices: tuple[Index, ...]) -> list[tuple[Size, Index]]:
    """Sizes with their indices, without those of size one."""
    sizes = size if isinstance(size, tuple) else (size,)
    return [(s, i) for s, i in zip(sizes, indices, strict=True) if i != UNIT and s != 1]


def sizes_of(access: Access, kinds: tuple[type, ...] = (Loop, Flat, Part)) -> dict[Index, Size]:
    """The size that each index of an access of some kinds runs over, read off the value. One sum may be several."""
    pairs = zip(access.indices, sizes_along(access.value), strict=True)
    return {index: size for index, size in pairs if isinstance(index, kinds)}


def window_sizes(access: Access) -> dict[Index, Size]:
    """The sizes of the dims that are read at a sum of indices, or at any other arithmetic on them."""
    return sizes_of(access, (Sum, Affine))

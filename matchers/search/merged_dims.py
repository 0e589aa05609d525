"""Results and reductions with other numbers of dims than a pattern has, as programs merge dims and split them again.

A program often makes batches and windows, or heads, one dim for its products of matrices, and splits it in between to
add a mask to each window; or it merges groups of weights, which have a scale each, to sum over all of them. A pattern
with both dims holds there, too: the one dim is taken apart as the program does it. The other way round, a reduction
over several dims is one over a single dim, for inputs that have one stride for them all.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import Graph, Input, Label, Node, Wanted, labels_in
from opsplice.matchers.terms.canonical import WIDTHS
from opsplice.matchers.terms.terms import (
    Access,
    Affine,
    Apply,
    DimSize,
    Flat,
    Index,
    Loop,
    LoopIndex,
    Part,
    Parts,
    Reduce,
    Sized,
    Sum,
    Term,
    mentions,
    split,
)
from opsplice.matchers.terms.views import Views

# How many terms below a result are looked at, also for each op of a pattern, which covers no more of the program;
# behind how many ops of a program for each of a pattern, as which two may be spelt, or behind how many more; and how
# many ways to take its dims apart are tried.
_MOST_TERMS, _TERMS_OF_OP, _LEVELS_OF_OP, _MORE_LEVELS = 64, 8, 2, 2
_MOST_WAYS = 4


@dataclass(frozen=True, eq=False)
class Finer:
    """The goal that a reduction of a pattern is one of the program's over as many dims, where these have others."""

    node: Reduce[Node, Label]


@dataclass(frozen=True)
class Kept:
    """The loops that a reduction keeps: those of which that is sure, and all that may be kept. A part of several loops
    that are flattened may be the same for each value of some of these: a group of `c h w` is one of `c` alone."""

    surely: frozenset[Index]
    maybe: frozenset[Index]


def groupings(views: Views, graph: Graph, value: ir.Value, lacks: int = 0) -> Iterator[Access]:
    """The accesses to a value with as many loops as a graph's first result has labels, several of them for one dim.

    There are none for a result of any rank. lacks: how many labels have none.
    """
    whole, labels = views.root(value), graph.results[0].labels
    if any(label.pack for label in labels):
        return iter(())
    most = min(_MOST_TERMS, _TERMS_OF_OP * graph.size)
    return itertools.islice(_taken_apart(views, whole, len(labels) - lacks - len(whole.indices), most), _MOST_WAYS)


def finest(views: Views, value: ir.Value) -> Access | None:
    """The access to a value with several loops for each dim that the program splits below, None if there is none."""
    whole = access = views.root(value)
    for loop, parts in views.remembered(whole, _MOST_TERMS, lambda: tuple(_splits(views, whole))):
        if loop in access.indices:
            access = views.split(access, loop, parts)
    return None if access == whole else access


def merged(views: Views, value: ir.Value) -> Sequence[Access]:
    """The accesses to a value with one loop for neighbours of known sizes that the program reduces together."""
    whole = views.root(value)
    found: Sequence[Access] = views.remembered(whole, "merged", lambda: list(_merged(views, whole)))
    return found


def _merged(views: Views, whole: Access) -> Iterator[Access]:
    reduced = (term.loops for term in _below(views, whole, _MOST_TERMS) if isinstance(term, Reduce))
    sizes = tuple(index.size if isinstance(index, Loop) else None for index in whole.indices)
    for run in dict.fromkeys(tuple(loop.size for loop in loops) for loops in reduced):
        for start in range(len(sizes) - len(run) + 1):
            stop = start + len(run)
            if len(run) > 1 and None not in run and sizes[start:stop] == run:
                one = split(views.fresh(math.prod(size or 0 for size in run)), run)
                yield Access(whole.value, (*whole.indices[:start], *one, *whole.indices[stop:]))


def kept_below(views: Views, access: Access, levels: int) -> Iterator[Kept]:
    """The loops of an access that a reduction below it keeps, for one after the other. levels: how many ops a pattern
    has above its first one.

    Those of which there is one for fewer loops come first, as the mean of a row does: so what the row is made of, which
    may be all of a program, is not read where nobody asks for more.
    """
    loops = [index for index in ungrouped(access.indices) if isinstance(index, Loop)]
    deep = levels + _MORE_LEVELS
    for term in _below(views, access, _MOST_TERMS, deep, lambda term: all(_reads(term, loop) for loop in loops)):
        if isinstance(term, Reduce):
            maybe = frozenset(loop for loop in loops if _reads(term, loop))
            yield Kept(frozenset(loop for loop in maybe if _reads(term, loop, surely=True)), maybe)


def _reads(term: Term, loop: Loop, *, surely: bool = False) -> bool:
    """Whether a term is, or surely is, another one for each value of a loop."""
    if isinstance(term, Access):
        return any(mentions(each, loop) for each in term.indices if not (surely and is_of_several(each)))
    if isinstance(term, LoopIndex):
        return mentions(term.index, loop) and not (surely and is_of_several(term.index))
    parts = term.args if isinstance(term, Apply) else (term.body,) if isinstance(term, Reduce) else ()
    return any(_reads(part, loop, surely=surely) for part in parts)


def is_of_several(index: Index) -> bool:
    """Whether an index is made of a part of several that are flattened."""
    if isinstance(index, Part):
        return isinstance(index.whole, Flat) or is_of_several(index.whole)
    if isinstance(index, Sum):
        return any(is_of_several(part) for _, part in index.terms)
    return isinstance(index, (Flat, Affine)) and any(map(is_of_several, index.parts))


def finer(views: Views, found: Reduce, counts: range, size: int) -> Iterator[Reduce]:
    """A reduction with more loops, several of them for one that is split below.

    counts: how many it may have. size: of how many ops the body of the pattern's is. A split behind more ops of the
    program says nothing of it.
    """
    deep = _LEVELS_OF_OP * (size + 1)
    how = "ops", deep
    for loop, parts in views.remembered(found.body, how, lambda: tuple(_splits(views, found.body, deep=deep))):
        if loop in found.loops and len(found.loops) + len(parts.sizes) - 1 in range(counts.stop):
            made = views.split_reduction(found, loop, parts)
            if made is not None:
                if len(made.loops) in counts:
                    yield made
                yield from finer(views, made, counts, size)


def coarser(views: Views, found: Reduce, count: int) -> Iterator[Reduce]:
    """A reduction over one loop, which runs over several dims."""
    made = views.merge_reduction(found) if count == 1 else None
    yield from () if made is None else (made,)


def ungrouped(indices: Iterable[Index]) -> Iterator[Index]:
    """The indices of a result, those of one dim each by itself, and that of several dims once."""
    for index in leaves(indices):
        if not isinstance(index, Part):
            yield index
        elif index.position == 0:
            yield index.whole


def is_along_others(
    node: Wanted, indices: tuple[Index, ...], reductions: Mapping[Reduce[Node, Label], tuple[Loop, ...]]
) -> bool:
    """Whether a value is read along what is reduced and no label of a node can be along, in whatever order dims are.

    That is a part alone of a dim that is reduced as one, and any dim of a reduction whose labels an input has not.
    """
    parts = {index for index in leaves(indices) if isinstance(index, Part)}
    alone = {part.whole for part in parts if sum(each.whole == part.whole for each in parts) < len(part.sizes)}
    own = {each for label in node.labels for each in labels_in(label)} if isinstance(node, Input) else None
    for scope, loops in reductions.items() if indices else ():
        is_other = own is not None and own.isdisjoint(scope.loops)
        if scope.combiner and any(
            loop in alone or (is_other and any(mentions(index, loop) for index in indices)) for loop in loops
        ):
            return True
    return False


def leaves(indices: Iterable[Index]) -> Iterator[Index]:
    """The indices of a result, those of one dim each by itself."""
    for index in indices:
        yield from leaves(index.parts) if isinstance(index, Flat) else (index,)


def _taken_apart(views: Views, access: Access, more: int, most: int) -> Iterator[Access]:
    """An access with so many loops more, each taken apart as it is below, in the first `most` terms."""
    if more <= 0:
        return
    loops = set(ungrouped(access.indices))
    for loop, parts in views.remembered(access, most, lambda: tuple(_splits(views, access, most))):
        left = more + 1 - len(parts.sizes)
        if loop in loops and left >= 0:
            finer = views.split(access, loop, parts)
            yield from _taken_apart(views, finer, left, most) if left else (finer,)


def _splits(
    views: Views, above: Term, most: int = _MOST_TERMS, deep: int = _MOST_TERMS
) -> Iterator[tuple[Loop, Parts]]:
    """What loops are split into below a term, each way once."""
    found: set[tuple[Index, tuple[Sized, ...]]] = set()
    for term in _below(views, above, most, deep):
        if not isinstance(term, Access):
            continue
        for index in term.indices:
            if not isinstance(index, Part) or (index.whole, index.sizes) in found:
                continue
            if isinstance(index.whole, Flat):
                found.add((index.whole, index.sizes))
                yield from _cut(index, term)
                continue
            dims = _dims_of(index, term)
            if dims is not None:
                found.add((index.whole, index.sizes))
                if isinstance(index.whole, Loop):
                    yield index.whole, Parts(index.sizes, dims)


def _cut(part: Part, access: Access) -> Iterator[tuple[Loop, Parts]]:
    """What the loops of several dims are split into where all of them together are dims of other sizes.

    C of C x H x W is g x c where the program reads g x (c H W), as group norms do, and the last of these is c x H x W
    where it reads C x H x W. Sizes are known at an end; others may be known at run time only.
    """
    assert isinstance(part.whole, Flat), "it flattens several dims"
    found: dict[Loop, Parts] = {}
    for step in (1, -1):
        own, wanted = _known(part.whole.sizes[::step]), _known(part.sizes[::step])
        edges, before = list(itertools.accumulate(wanted, operator.mul)), 1
        for loop, size in zip(part.whole.parts[::step], own, strict=False):
            inside = [1, *(e // before for e in edges if before < e < before * size and e % before == 0), size]
            cut = tuple(inner // outer for outer, inner in itertools.pairwise(inside))[::step]
            if isinstance(loop, Loop) and len(cut) > 1 and math.prod(cut) == size:
                found.setdefault(loop, Parts(cut, cut))
            before *= size
    first, last, known = part.sizes[0], part.whole.parts[-1], _known(part.whole.sizes)
    if isinstance(first, int) and isinstance(last, Loop) and len(known) == len(part.whole.sizes) - 1:
        before, dims = math.prod(known), _dims_of(part, access)
        if dims is not None and 0 < before < first and first % before == 0:  # all behind `inner` is the last one's
            inner = first // before
            found.setdefault(last, Parts((inner, *part.sizes[1:]), (inner, *dims[1:])))
    yield from found.items()


def _known(sizes: Sequence[Sized]) -> list[int]:
    """The first of some sizes, as many as are known."""
    return [size for size in itertools.takewhile(lambda size: isinstance(size, int), sizes) if isinstance(size, int)]


def _below(
    views: Views,
    above: Term,
    most: int,
    deep: int = _MOST_TERMS,
    is_late: Callable[[Term], bool] = lambda _term: False,
) -> Iterator[Term]:
    """A term and what it is made of, the first of them. deep: behind how many ops but casts. is_late: the last ones."""
    seen: dict[Term, int] = {above: 0}  # with how many ops are above
    pending, late = [above], list[Term]()
    while (pending or late) and len(seen) < most:
        term = (pending or late).pop(0)
        yield term
        level = seen[term]
        below: tuple[Term, ...] = ()
        if isinstance(term, Access):
            step = views.expand(term)
            below = () if step is None else (step.term,)
        elif level >= deep:
            continue
        elif isinstance(term, Apply):
            below, level = term.args, level + (term.op not in WIDTHS)
        elif isinstance(term, Reduce):
            below, level = (term.body,), level + 1
        new = {each: level for each in below if each not in seen}
        for each in new:
            (late if is_late(each) else pending).append(each)
        seen.update(new)


def _dims_of(part: Part, access: Access) -> tuple[int | DimSize, ...] | None:
    """The sizes of the dims that an index is split into where it is read; None where one is read elsewhere alone."""
    found: list[int | DimSize] = []
    for position, size in enumerate(part.sizes):
        each = Part(part.whole, position, part.sizes)
        if not isinstance(size, int) and each not in access.indices:
            return None
        found.append(size if isinstance(size, int) else DimSize(access.value, access.indices.index(each)))
    return tuple(found)

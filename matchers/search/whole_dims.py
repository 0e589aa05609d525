"""The dims of tensors that are lifted as wholes: a loop for each, or several where the program reads it as several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from opsplice.matchers.terms.terms import UNIT, Access, Flat, Index, Loop, Part, Parts, Reduce, Sized, Sum
from opsplice.matchers.terms.views import Views

# What a loop of a whole tensor is split into.
Splits = dict[Loop, Parts]


class CannotSayError(Exception):
    """What is read has no expression; the message says what it is."""


class AgainError(Exception):
    """A value was found to be an input, an op to be named, or a dim to be several: lift again, knowing that."""


@dataclass
class Wholes:
    """What is known of the dims of whole tensors. splits: None if none is to be split.

    fixed: whether nothing more is to be learned, as while only the meaning of an op by name is lifted.
    """

    views: Views
    splits: Splits | None
    fixed: bool = False
    _own: set[Loop] = field(default_factory=set)

    def whole(self, value: Any) -> Access:
        """The access to a whole value, with several loops for a dim that is to be split."""
        access = self.views.whole(value)
        for loop in loops(access.indices):
            self._own.add(loop)
            if self.splits and loop in self.splits:
                access = self.views.split(access, loop, self.splits[loop])
        return access

    def reduction(self, term: Reduce) -> Reduce:
        """A reduction, over several loops for a dim that is to be split."""
        for loop in term.loops:
            self._own.add(loop)
            if self.splits and loop in self.splits:
                term = self.views.split_reduction(term, loop, self.splits[loop]) or term
        return term

    def refuse(self, indices: tuple[Index, ...]) -> NoReturn:
        """Raise CannotSayError for indices, or AgainError where a dim is to be several first."""
        for index in _parts(indices):
            if isinstance(index, Part):
                self._split(index.whole, index.sizes)
        raise CannotSayError("it reads elements in windows, or through a reshape between two computations")

    def check_alike(self, own: tuple[Index, ...], labels: tuple[Index, ...]) -> None:
        """Raise unless a tensor is read along all of its dims, and these are split alike."""
        for axis, label in zip(own, labels, strict=True):
            if isinstance(label, Flat) and not isinstance(axis, Flat):
                self._split(axis, label.sizes)
            if isinstance(axis, Flat) and not isinstance(label, Flat):
                self._split(label, axis.sizes)
            sizes = [index.sizes if isinstance(index, Flat) else None for index in (axis, label)]
            if (axis == UNIT) != (label == UNIT) or sizes[0] != sizes[1]:
                raise CannotSayError("it reads a part of a tensor")

    def _split(self, loop: Index, sizes: tuple[Sized, ...]) -> None:
        """Lift again with several loops for this one, if it is that of a whole tensor."""
        if self.splits is None or self.fixed or not isinstance(loop, Loop):
            return
        numbers = tuple(size for size in sizes if isinstance(size, int))
        if loop not in self._own or loop in self.splits or numbers != sizes:
            return
        self.splits[loop] = Parts(sizes, numbers)
        raise AgainError


def loops(indices: tuple[Index, ...]) -> tuple[Loop, ...]:
    """The loops among indices, those that are flattened included."""
    return tuple(part for part in _parts(indices) if isinstance(part, Loop))


def is_simple(indices: tuple[Index, ...]) -> bool:
    """Whether each index is a loop of its own, several that are flattened, or that of a dim of size one."""
    found = loops(indices)
    return len(set(found)) == len(found) and all(isinstance(i, Loop) or i == UNIT for i in _parts(indices))


def is_window(indices: tuple[Index, ...]) -> bool:
    """Whether each index is a loop, a sum of loops, or that of a dim of size one."""
    sums = (i for i in indices if isinstance(i, Sum))
    is_plain = all(i.terms and i.constant == 0 and all(isinstance(loop, Loop) for _, loop in i.terms) for i in sums)
    return is_plain and all(isinstance(i, (Loop, Sum)) or i == UNIT for i in indices)


def _parts(indices: tuple[Index, ...]) -> list[Index]:
    return [part for index in indices for part in (index.parts if isinstance(index, Flat) else (index,))]

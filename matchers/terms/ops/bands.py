"""Values that depend on how far apart two indices are alone, as causal masks and sliding windows are: `band`.

    select(cmpi(index of column, addi(index of row, 2)) {predicate = sle}, 0.0, -inf)
      =>   band(none, 2, 0.0, -inf, 0, row, column): 0.0 where column - row is 2 at most, else -inf

A program computes them from indices by comparisons, truths and choices, in any spelling. Each step of that is read as
a function of the difference, which has one number up to some difference, another one up to the next, and so on. A whole
number that is known at run time only may be taken off the difference, such as how many keys a cache holds: `start`.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op, element_type
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.scalar_folding import fold
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, Index, Loop, LoopIndex, Reduce, Sum, Term
from opsplice.spec_lang.syntax import vocabulary

# The op of such a term: from which difference on, up to which, the number there, that elsewhere, what is taken off the
# difference, row and column.
BAND = vocabulary.BAND
# Where there is no such difference.
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
# No index is as large, nor what is added to one: nothing wraps round.
_LARGEST = 1 << 30
_DEEPEST = 32
_LEAST_BITS = 32
_PAIR = 2
# Elements of constant tables that are read.
_TABLES = ("i1", "i8", "i32", "i64", "f16", "f32", "f64")
_CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci")
_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}  # fmt: skip
_TRUTHS: Mapping[str, Callable[[int, int], int]] = {
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
}


@dataclass(frozen=True)
class _Line:
    """A sum of indices and of whole numbers that are known at run time only, each times a number, and a number."""

    factors: Mapping[Index | Access, int]
    start: int = 0

    def plus(self, other: _Line, times: int) -> _Line:
        factors = dict(self.factors)
        for index, factor in other.factors.items():
            factors[index] = factors.get(index, 0) + factor * times
        return _Line({index: factor for index, factor in factors.items() if factor}, self.start + other.start * times)

    @property
    def least(self) -> int | None:
        """The least number that it can be, None if that is not known."""
        least = self.start
        for index, factor in self.factors.items():
            size = index.size if isinstance(index, Loop) else None
            if isinstance(index, Access) or (factor < 0 and size is None):
                return None
            least += min(factor, 0) * ((size or 1) - 1)
        return least

    def may_have(self, sign: int) -> bool:
        """Whether it can be less than zero, zero, or more, as far as is known."""
        least, most = self.least, _Line({}).plus(self, -1).least
        if sign == 0:
            return (least is None or least <= 0) and (most is None or most <= 0)
        end = least if sign < 0 else most
        return end is None or end < 0


@dataclass(frozen=True)
class _Axes:
    """A difference: column - row - sign * start, which is only taken off if there is one.

    An index that is always zero is `UNIT`.
    """

    row: Index
    column: Index
    start: Access | None
    sign: int

    @property
    def turned(self) -> _Axes:
        """The negative difference."""
        return _Axes(self.column, self.row, self.start, self.sign if self.start is None else -self.sign)


@dataclass(frozen=True)
class _Steps:
    """A function of a difference: `values[i]` up to the difference `ends[i]`, the last value beyond all of them."""

    axes: _Axes
    ends: tuple[int, ...]
    values: tuple[Constant, ...]

    def at(self, difference: int) -> Constant:
        return self.values[bisect_left(self.ends, difference)]

    @property
    def joined(self) -> _Steps | Constant:
        """Without steps from a number to the same one."""
        if all(value == self.values[0] for value in self.values):
            return self.values[0]
        kept = [place for place, end in enumerate(self.ends) if self.values[place] != self.values[place + 1]]
        values = (*(self.values[place] for place in kept), self.values[-1])
        return _Steps(self.axes, tuple(self.ends[place] for place in kept), values)

    @property
    def turned(self) -> _Steps:
        """The same as a function of the negative difference."""
        ends = tuple(-end - 1 for end in reversed(self.ends))
        return _Steps(self.axes.turned, ends, self.values[::-1])


@dataclass(frozen=True)
class _Distance:
    """How far a line is from zero, on either side."""

    line: _Line


_Known = _Line | _Distance | _Steps | Constant


def bands(term: Term, resolve: Callable[[Term], Term]) -> tuple[Apply, ...]:
    """The ways to read a term as a band, one for each way to call the two indices; none if it is no band."""
    found = _read(term, resolve, {}, 0)
    if not isinstance(found, _Steps):
        return ()
    return tuple(band for steps in (found, found.turned) for band in _spelled(steps))


def _spelled(steps: _Steps) -> Iterator[Apply]:
    pieces = list(zip(pairwise((LOWEST - 1, *steps.ends, HIGHEST)), steps.values, strict=True))
    several = {(value.type, repr(value.value)) for value in steps.values}
    axes = steps.axes
    if len(several) != 2 or len(pieces) > 3 or (axes.start is not None and axes.sign < 0):
        return
    for number, ((before, last), inside) in enumerate(pieces):
        (outside, *others) = (value for place, value in enumerate(steps.values) if place != number)
        if all(other == outside for other in others) and inside != outside:
            limits = (Constant(before + 1, "i32"), Constant(last, "i32"))
            start = axes.start or Constant(0, "i64")
            yield Apply(BAND, (*limits, inside, outside, start, LoopIndex(axes.row), LoopIndex(axes.column)))


def _read(term: Term, resolve: Callable[[Term], Term], known: dict[int, Any], depth: int) -> _Known | None:
    found = resolve(term)
    if id(found) not in known:
        known[id(found)] = (found, _read_one(found, resolve, known, depth))  # kept, so that its id is its own
    made: _Known | None = known[id(found)][1]
    is_open = made is None or _is_size(made)
    return _number_at_run_time(term) or made if is_open and isinstance(term, Access) else made


def _read_one(found: Term, resolve: Callable[[Term], Term], known: dict[int, Any], depth: int) -> _Known | None:
    if isinstance(found, Constant):
        return found
    if isinstance(found, LoopIndex):
        return _line(found.index)
    if isinstance(found, Access):
        return _counted(found) or _table(found) or _number_at_run_time(found)
    if type(found) is not Apply or depth > _DEEPEST:
        return None
    if found.op == TAKE:
        every, place = found.args
        assert isinstance(every, Reduce), "what is taken is one of all elements along a dim"
        element = _read(every.body, resolve, known, depth + 1)
        return _taken(every.loops[0], element, _read(place, resolve, known, depth + 1))
    args: list[_Known] = []
    for arg in found.args:
        each = _read(arg, resolve, known, depth + 1)
        if each is None:
            return None
        args.append(each)
        if found.op == "arith.select" and len(args) == 1 and isinstance(each, Constant):
            return _read(found.args[1 if each.value else 2], resolve, known, depth + 1)
    if found.op == "math.absi" and isinstance(args[0], _Line):
        return _Distance(args[0])
    if any(isinstance(arg, _Distance) for arg in args):
        return _of_distance(found, args)
    if any(isinstance(arg, _Line) for arg in args):
        return _of_lines(found, [_as_line(arg) for arg in args])
    return _pointwise(found, [arg for arg in args if not isinstance(arg, (_Line, _Distance))])


# ---- indices -----------------------------------------------------------------------------------------------------


def _line(index: Index) -> _Line | None:
    if index == UNIT:
        return _Line({})
    if not isinstance(index, Sum):
        return _Line({index: 1})
    if not isinstance(index.constant, int):
        return None
    line = _Line({}, index.constant)
    for factor, part in index.terms:
        inner = _line(part)
        if inner is None:
            return None
        line = line.plus(inner, factor)
    return line


def _counted(access: Access) -> _Line | None:
    """An element of a constant tensor of one dim that counts up or down, such as 0, 1, 2."""
    op = defining_op(access.value)
    value = None if op is None or op.name != "arith.constant" else op.attributes["value"]
    places = [index for index in access.indices if index != UNIT]
    if not isinstance(value, ir.DenseIntElementsAttr) or value.is_splat or len(places) != 1:
        return None
    numbers = list(value)
    step = numbers[1] - numbers[0]
    line = _line(places[0])
    if line is None or any(number != numbers[0] + place * step for place, number in enumerate(numbers)):
        return None
    return _Line({}, numbers[0]).plus(line, step)


def _table(access: Access) -> _Steps | None:
    """An element of a constant tensor of two dims that is the same along each diagonal, with at most three runs."""
    op = defining_op(access.value)
    value = None if op is None or op.name != "arith.constant" else op.attributes["value"]
    places = [index for index in access.indices if index != UNIT]
    kind = element_type(access.value)
    if not isinstance(value, (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)) or value.is_splat:
        return None
    if kind not in _TABLES or len({*places}) != _PAIR or not all(isinstance(each, Loop) for each in places):
        return None
    table = np.array(value)
    table = table.reshape([size for size in table.shape if size > 1])
    if table.ndim != _PAIR:
        return None
    along = np.concatenate([table[::-1, 0], table[0, 1:]])  # from the corner at the lower left on
    ends = np.flatnonzero(along[1:] != along[:-1])
    if len(ends) > _PAIR or (table[1:, 1:] != table[:-1, :-1]).any():
        return None
    values = tuple(Constant(along[at].item() * 1, kind) for at in (*ends, -1))
    row, column = places
    return _Steps(_Axes(row, column, None, 1), tuple(int(end) - len(table) + 1 for end in ends), values)


def _is_size(known: _Known) -> bool:
    """Whether it is a value of type index alone, which programs cast before they compute with it."""
    return (
        isinstance(known, _Line)
        and not known.start
        and [*known.factors.values()] == [1]
        and any(isinstance(index, Access) and element_type(index.value) == "index" for index in known.factors)
    )


def _number_at_run_time(access: Access) -> _Line | None:
    """A whole number that the program has by itself, not one for each index."""
    kind = element_type(access.value)
    is_wide = kind == "index" or (vocabulary.is_integer(kind) and (vocabulary.bits(kind) or 0) >= _LEAST_BITS)
    return _Line({access: 1}) if is_wide and all(index == UNIT for index in access.indices) else None


def _taken(loop: Index, element: _Known | None, index: _Known | None) -> _Known | None:
    """The element at a computed index of what counts up or down along a loop."""
    place = _as_line(index)
    if isinstance(element, Constant):
        return element
    if not isinstance(element, _Line) or place is None:
        return None
    factors = dict(element.factors)
    return _Line({}, element.start).plus(place, factors.pop(loop, 0)).plus(_Line(factors), 1)


def _as_line(known: _Known | None) -> _Line | None:
    if isinstance(known, Constant):
        return _Line({}, known.value) if isinstance(known.value, int) and known.type != "i1" else None
    return known if isinstance(known, _Line) else None


def _of_lines(term: Apply, lines: Sequence[_Line | None]) -> _Known | None:
    first, *others = lines
    if first is None or None in others:
        return None
    if term.op in _CASTS:
        return first if (vocabulary.bits(term.type) or _LEAST_BITS) >= _LEAST_BITS else None
    (second,) = others if len(others) == 1 else (None,)
    made: _Known | None = None
    if second is None:
        return None
    if term.op in ("arith.addi", "arith.subi"):
        made = first.plus(second, 1 if term.op == "arith.addi" else -1)
    elif term.op == "arith.muli" and not (first.factors and second.factors):
        line, number = (first, second.start) if first.factors else (second, first.start)
        made = _Line({}).plus(line, number)
    elif term.op == "arith.cmpi":
        return _compared(term, first, second)
    return made if isinstance(made, _Line) and abs(made.start) < _LARGEST else None


def _of_distance(term: Apply, args: Sequence[_Known]) -> _Known | None:
    """A cast of a distance, or a comparison with one: `|x| > y` where x > y or -x > y, else both are less."""
    if term.op in _CASTS:
        return args[0] if (vocabulary.bits(term.type) or _LEAST_BITS) >= _LEAST_BITS else None
    name = _predicate(term) if term.op == "arith.cmpi" else ""
    distances = [arg for arg in args if isinstance(arg, _Distance)]
    other = next((line for arg in args if (line := _as_line(arg)) is not None), None)
    if not name.startswith("s") or len(distances) > 1 or other is None:
        return None
    is_left = isinstance(args[0], _Distance)
    sides: list[_Steps | Constant] = []
    for times in (1, -1):
        side = _Line({}).plus(distances[0].line, times)
        holds = _compared(term, side, other) if is_left else _compared(term, other, side)
        if holds is None:
            return None
        sides.append(holds)
    is_beyond = (name[1] == "g") == is_left
    return _pointwise(Apply("arith.ori" if is_beyond else "arith.andi", ()), sides)


def _predicate(term: Apply) -> str:
    return vocabulary.CMPI_PREDICATES[int(dict(term.attributes)["predicate"])]


def _compared(term: Apply, left: _Line, right: _Line) -> _Steps | Constant | None:
    """Where a comparison holds: the same everywhere, as far as can be told, or up to some difference of indices."""
    name, line = _predicate(term), left.plus(right, -1)
    if name.startswith("u") and (left.least is None or right.least is None or min(left.least, right.least) < 0):
        return None
    holds = _HOLDS[name[-2:]]
    if abs(line.start) >= _LARGEST:
        return None
    ends = {sign for sign in (-1, 0, 1) if line.may_have(sign)}
    truths = {holds(sign, 0) for sign in ends}
    if len(truths) == 1:
        return Constant(int(truths.pop()), "i1")
    starts = [(index, -factor) for index, factor in line.factors.items() if isinstance(index, Access)]
    columns = [index for index, factor in line.factors.items() if factor == 1 and not isinstance(index, Access)]
    rows = [index for index, factor in line.factors.items() if factor == -1 and not isinstance(index, Access)]
    if any(len(each) > 1 for each in (starts, columns, rows)) or len(starts + columns + rows) != len(line.factors):
        return None
    start, sign = starts[0] if starts else (None, 1)
    if sign not in (-1, 1):
        return None
    axes = _Axes(rows[0] if rows else UNIT, columns[0] if columns else UNIT, start, sign)
    # Below, at and above the difference at which the line is zero.
    values = tuple(Constant(int(holds(sign, 0)), "i1") for sign in (-1, 0, 1))
    return _Steps(axes, (-line.start - 1, -line.start), values).joined


# ---- numbers -----------------------------------------------------------------------------------------------------


def _pointwise(term: Apply, args: Sequence[_Steps | Constant]) -> _Steps | Constant | None:
    """What an op makes of numbers for each difference, of one pair of indices in all operands."""
    first = next((arg for arg in args if isinstance(arg, _Steps)), None)
    if first is None:
        return _number(term, [arg for arg in args if isinstance(arg, Constant)])
    aligned: list[_Steps | Constant] = []
    for arg in args:
        other = arg.turned if isinstance(arg, _Steps) and arg.axes != first.axes else arg
        if isinstance(other, _Steps) and other.axes != first.axes:
            return None
        aligned.append(other)
    ends = sorted({end for arg in aligned if isinstance(arg, _Steps) for end in arg.ends})
    values: list[Constant] = []
    for end in (*ends, ends[-1] + 1):
        value = _number(term, [arg.at(end) if isinstance(arg, _Steps) else arg for arg in aligned])
        if value is None:
            return None
        values.append(value)
    return _Steps(first.axes, tuple(ends), tuple(values)).joined


def _number(term: Apply, args: Sequence[Constant]) -> Constant | None:
    if term.op == "arith.select":
        return args[1] if args[0].value else args[2]
    compute = _TRUTHS.get(term.op)
    if compute is not None:
        truths = all(arg.type == "i1" for arg in args)
        return Constant(compute(*(int(arg.value) & 1 for arg in args)), "i1") if truths else None
    return fold(term, args)

"""The sizes of dims that are known at run time only, as sums of products of what they are computed from.

Two dims with equal extents have the same size, whichever tensors they belong to. A quotient is an extent if nothing
remains. A minimum or a choice is one if it is known which number it gives, as in the bounds of slices: `min(n + 1, 0)`
is 0. Sizes and their arithmetic are assumed to fit into 64 bits, and into 32 where the program casts them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from iree.compiler import ir

from opsplice.matchers.terms.terms import Apply, DimSize
from opsplice.spec_lang.syntax import vocabulary

# Ops whose operands are the sizes of the result's dynamic dims, after so many others.
SIZED_OPS = {
    "flow.tensor.tie_shape": 1,
    "hal.tensor.import": 1,
    "tensor.empty": 0,
    "tensor.splat": 1,
    "tensor.expand_shape": 1,
}
BITCAST = "iree_tensor_ext.bitcast"
ASSUMING_OP = "util.assume.int"
_FROM_BUILTIN, _TO_BUILTIN = "torch_c.from_builtin_tensor", "torch_c.to_builtin_tensor"
_MAX_DEPTH = 64
_MOST_POWER = 16
# How MLIR writes that a size is an operand.
_DYNAMIC = -(2**63)
_WIDE = ("index", "i64")
# How divisions round what is not negative.
DIVISIONS = {f"arith.{n}": "floordiv" for n in ("divsi", "divui", "floordivsi")}
DIVISIONS |= {f"arith.{n}": "ceildiv" for n in ("ceildivsi", "ceildivui")}
# Casts of sizes to other types; not `extf`, behind which a size has been rounded to fewer bits than it shows.
_CASTS = frozenset(f"arith.{n}" for n in ("index_cast", "index_castui", "sitofp", "uitofp", "truncf"))
_LEAST_BITS = 32
_LEAST, _MOST = ("arith.minui", "arith.minsi"), ("arith.maxui", "arith.maxsi")
# Signed comparisons by the numbers of their predicates: whether the first is to be less, and whether it may be equal.
_COMPARED = {2: (True, False), 3: (True, True), 4: (False, False), 5: (False, True)}


_Member = TypeVar("_Member")


class InOrder(frozenset[_Member]):
    """A set that lists its members in the order in which it was given them, which equality disregards.

    The order of a plain set follows the addresses of values, so that what is written from it differs from run to run.
    """

    _members: tuple[_Member, ...]

    def __new__(cls, members: Iterable[_Member] = ()) -> InOrder[_Member]:
        listed = tuple(dict.fromkeys(members))
        made = super().__new__(cls, listed)
        made._members = listed
        return made

    def __iter__(self) -> Iterator[_Member]:
        return iter(self._members)


_NO_ATOMS: InOrder[tuple[Any, int]] = InOrder()


@dataclass(frozen=True)
class Extent:
    """A product: `factor` times atoms, each so many times.

    An atom is a value that the program computes otherwise, a `DimSize` of which nothing is known, or a `Total`.
    """

    factor: int
    atoms: InOrder[tuple[Any, int]] = _NO_ATOMS

    @staticmethod
    def of(atom: Any) -> Extent:
        return Extent(1, InOrder(((atom, 1),)))

    @property
    def atom(self) -> Any | None:
        """The atom that this is, None if it is none."""
        ((atom, power), *rest) = self.atoms or ((None, 0),)
        return atom if self.factor == power == 1 and not rest else None

    @property
    def number(self) -> int | None:
        """The number that this is, None if it is known at run time only."""
        return None if self.atoms else self.factor

    @property
    def is_natural(self) -> bool:
        """Whether this is known not to be less than zero: what is made of sizes without taking any off."""
        return self.factor >= 0 and all(_is_natural(atom) for atom, _ in self.atoms)

    def __mul__(self, other: Extent) -> Extent:
        if not (self.factor and other.factor):
            return Extent(0)
        if not (self.atoms and other.atoms):
            return Extent(self.factor * other.factor, self.atoms or other.atoms)
        powers = Counter(dict(self.atoms))
        powers.update(dict(other.atoms))
        return Extent(self.factor * other.factor, InOrder(powers.items()))

    def __add__(self, other: Extent) -> Extent:
        return total((self, other))

    def __sub__(self, other: Extent) -> Extent:
        return total((self, other * Extent(-1)))

    def divided(self, other: Extent) -> Extent | None:
        """The quotient, None where it does not come out even for all sizes."""
        powers = Counter(dict(self.atoms))
        powers.subtract(dict(other.atoms))
        if not other.factor or self.factor % other.factor or any(power < 0 for power in powers.values()):
            return None
        return Extent(self.factor // other.factor, InOrder((a, power) for a, power in powers.items() if power))

    def renamed(self, name: Callable[[Any], Any]) -> Extent:
        """With each atom as `name` calls it, those of a sum in it: a number, or another atom."""
        found = Extent(self.factor)
        for atom, power in self.atoms:
            called = total(term.renamed(name) for term in atom.terms) if isinstance(atom, Total) else name(atom)
            if not isinstance(called, Extent):
                called = Extent(called) if isinstance(called, int) else Extent.of(called)
            for _ in range(power):
                found *= called
        return found


@dataclass(frozen=True)
class Total:
    """A sum of several products, with different atoms and no factor in common, none of them a sum alone."""

    terms: InOrder[Extent]


ONE = Extent(1)


def _is_natural(atom: Any) -> bool:
    if isinstance(atom, Total):
        return all(term.is_natural for term in atom.terms)
    if isinstance(atom, ir.Value):
        return not isinstance(atom.owner, ir.Block) and atom.owner.operation.name == "hal.buffer_view.dim"
    return isinstance(atom, DimSize)


def total(extents: Iterable[Extent]) -> Extent:
    """The sum of some extents."""
    factors: Counter[Any] = Counter()
    for extent in extents:
        inner = next((atom for atom, power in extent.atoms if power == 1 and isinstance(atom, Total)), None)
        is_sum = inner is not None and len(extent.atoms) == 1
        for term in inner.terms if inner is not None and is_sum else (ONE,):
            term = term * (Extent(extent.factor) if is_sum else extent)
            factors[term.atoms] += term.factor
    common = math.gcd(*factors.values())
    terms = [Extent(factor // common, atoms) for atoms, factor in factors.items() if factor]
    if not terms:
        return Extent(0)
    return Extent(common) * (terms[0] if len(terms) == 1 else Extent.of(Total(InOrder(terms))))


def product(extents: Iterable[Extent]) -> Extent:
    found = ONE
    for extent in extents:
        found *= extent
    return found


def extent_of_dim(size: DimSize, reads: MutableMapping[Any, None]) -> Extent:
    """The extent of a dim. reads: takes the values whose defining ops were read."""
    return SizeReader(reads).dim(size.value, size.axis)


def extent_of_number(value: ir.Value, reads: MutableMapping[Any, None]) -> Extent:
    """The extent that a whole number is as the program computes it."""
    return SizeReader(reads).number(value)


def size_operand(op: ir.Operation, kind: ir.RankedTensorType, axis: int) -> ir.Value | None:
    """The operand that is the size of a dynamic dim of an op's result, None for ops that are not told sizes so."""
    before = sum(kind.is_dynamic_dim(each) for each in range(axis))
    if op.name == BITCAST:  # the sizes of its source come first
        return op.operands[len(op.operands) - sum(map(kind.is_dynamic_dim, range(kind.rank))) + before]
    return op.operands[SIZED_OPS[op.name] + before] if op.name in SIZED_OPS else None


def is_size_cast(cast: Apply) -> bool:
    """Whether a cast of a size is that size, or rounds it as a pattern's own number is rounded."""
    return cast.op in _CASTS and holds_sizes(cast.type)


def holds_sizes(element: str) -> bool:
    """Whether sizes, and products of them, are taken to fit into a type: not into integers of fewer than 32 bits."""
    return not vocabulary.is_integer(element) or element == "index" or (vocabulary.bits(element) or 0) >= _LEAST_BITS


def groups(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> list[tuple[range, range]] | None:
    """Which dims of a reshape's source are which of its result, in order; None where that cannot be told."""
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        start_i, start_j = i, j
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right:
            if i < len(source) and right.divided(left) is not None:
                left, i = left * source[i], i + 1
            elif j < len(target) and left.divided(right) is not None:
                right, j = right * target[j], j + 1
            else:
                return None
        found.append((range(start_i, i), range(start_j, j)))
    if any(rest != ONE for rest in (*source[i:], *target[j:])):
        return None
    if found:  # dims of size one are left over
        found[-1] = range(found[-1][0].start, len(source)), range(found[-1][1].start, len(target))
    return found


def _value(expr: ir.AffineExpr, dims: list[Extent], symbols: list[Extent]) -> Extent | None:
    """What an expression of an affine map is, None for one that is no sum of products."""
    if isinstance(expr, ir.AffineDimExpr):
        return dims[int(expr.position)]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[int(expr.position)]
    if isinstance(expr, ir.AffineConstantExpr):
        return Extent(expr.value)
    if not isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr, ir.AffineFloorDivExpr, ir.AffineCeilDivExpr)):
        return None
    left, right = _value(expr.lhs, dims, symbols), _value(expr.rhs, dims, symbols)
    if left is None or right is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        return left + right
    return left * right if isinstance(expr, ir.AffineMulExpr) else left.divided(right)


def _is_less(left: Extent, right: Extent, unsigned: bool) -> bool | None:
    """Whether one number is the lesser of two, None if that is not known."""
    if unsigned and not (left.is_natural and right.is_natural):
        return None
    return True if (right - left).is_natural else False if (left - right).is_natural else None


class SizeReader:
    """Reads sizes, and remembers them. assumed: the results of the assumptions that it passed, by what these are of."""

    def __init__(self, reads: MutableMapping[Any, None]) -> None:
        self.reads = reads
        self.assumed: dict[Extent, list[ir.OpResult]] = {}
        self.numbers: dict[ir.Value, Extent] = {}

    def _maker(self, value: ir.Value) -> ir.Operation | None:
        self.reads[value] = None
        return None if isinstance(value.owner, ir.Block) else value.owner.operation

    def dim(self, value: ir.Value, axis: int, depth: int = 0) -> Extent:
        kind = value.type if isinstance(value, ir.Value) else None  # an index has a size, too
        if not isinstance(kind, ir.RankedTensorType) or not 0 <= axis < kind.rank:
            plain = None if kind is None or depth > _MAX_DEPTH else self._converted(value)
            return Extent.of(DimSize(value, axis)) if plain is None else self.dim(plain, axis, depth + 1)
        if not kind.is_dynamic_dim(axis):
            return Extent(kind.get_dim_size(axis))
        op = self._maker(value)
        found = None if op is None or depth > _MAX_DEPTH else self._made(op, value, axis, depth + 1)
        return Extent.of(DimSize(value, axis)) if found is None else found

    def _converted(self, value: ir.Value) -> ir.Value | None:
        """The tensor that a frontend's tensor is."""
        op = self._maker(value)
        return op.operands[0] if op is not None and op.name == _FROM_BUILTIN else None

    def _made(self, op: ir.Operation, value: ir.Value, axis: int, depth: int) -> Extent | None:
        name, operands = op.name, op.operands
        if (told := size_operand(op, value.type, axis)) is not None:
            return self.number(told, depth)
        if name in ("tensor.cast", _TO_BUILTIN):
            return self.dim(operands[0], axis, depth)
        if name == "tensor.concat":
            joined = ir.IntegerAttr(op.attributes["dim"]).value
            parts = operands if axis == joined else operands[:1]
            return total(self.dim(operand, axis, depth) for operand in parts)
        if name == "tensor.insert_slice":
            return self.dim(operands[1], axis, depth)
        if name == "tensor.collapse_shape":
            group = ir.ArrayAttr(ir.ArrayAttr(op.attributes["reassociation"])[axis])
            return product(self.dim(operands[0], ir.IntegerAttr(a).value, depth) for a in group)
        if name == "tensor.extract_slice":
            return self._sliced(op, axis, depth)
        if name == "tensor.reshape":
            shape = self._maker(operands[1])
            if shape is None or shape.name != "tensor.from_elements":
                return None
            return self.number(shape.operands[axis], depth)
        if name.startswith(("linalg.", "iree_linalg_ext.")):  # their last operands are where results start from
            start = operands[len(operands) - len(op.results) + ir.OpResult(value).result_number]
            return self.dim(start, axis, depth) if start.type == value.type else None
        if name.startswith(("arith.", "math.")) and isinstance(operands[len(operands) - 1].type, ir.RankedTensorType):
            return self.dim(operands[len(operands) - 1], axis, depth)
        return None

    def _sliced(self, op: ir.Operation, axis: int, depth: int) -> Extent | None:
        """The size of a slice along an axis of the result, in which dims of size one may be left out."""
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        kind, at, spare = op.results[0].type, 0, len(sizes) - op.results[0].type.rank
        for position, size in enumerate(sizes):
            if size == 1 and spare and (kind.is_dynamic_dim(at) or kind.get_dim_size(at) != 1):
                spare -= 1
                continue
            if at == axis:
                place = segments[0] + segments[1] + sizes[:position].count(_DYNAMIC)
                return self.number(op.operands[place], depth) if size == _DYNAMIC else Extent(size)
            at += 1
        return None

    def number(self, value: ir.Value, depth: int = 0) -> Extent:
        if value not in self.numbers:
            op = self._maker(value)
            found = None
            if op is not None and depth <= _MAX_DEPTH and str(value.type) in _WIDE:
                found = self._computed(op, value, depth + 1)
            self.numbers[value] = Extent.of(value) if found is None else found
        return self.numbers[value]

    def _chosen(self, value: ir.Value, depth: int) -> bool | None:
        """Whether a signed comparison holds, None if it is another value or that is not known."""
        op = self._maker(value)
        asked = None if op is None or op.name != "arith.cmpi" else ir.IntegerAttr(op.attributes["predicate"]).value
        if op is None or asked not in _COMPARED:
            return None
        left, right = (self.number(operand, depth) for operand in op.operands)
        wants_less, or_equal = _COMPARED[asked]
        if left == right:
            return or_equal
        apart = (right - left if wants_less else left - right) - (Extent(0) if or_equal else ONE)
        other = (left - right if wants_less else right - left) - (ONE if or_equal else Extent(0))
        return True if apart.is_natural else False if other.is_natural else None

    def _computed(self, op: ir.Operation, value: ir.Value, depth: int) -> Extent | None:
        name, operands = op.name, op.operands
        if name == "arith.constant":
            return Extent(ir.IntegerAttr(op.attributes["value"]).value)
        if name == "arith.muli":
            found = self.number(operands[0], depth) * self.number(operands[1], depth)
            return found if all(power <= _MOST_POWER for _, power in found.atoms) else None
        if name in ("arith.addi", "arith.subi"):
            left, right = (self.number(operand, depth) for operand in operands)
            return left + right if name == "arith.addi" else left - right
        if name in DIVISIONS:
            return self.number(operands[0], depth).divided(self.number(operands[1], depth))
        if name in _LEAST or name in _MOST:
            left, right = (self.number(operand, depth) for operand in operands)
            is_less = True if left == right else _is_less(left, right, name in (_LEAST[0], _MOST[0]))
            return None if is_less is None else left if is_less == (name in _LEAST) else right
        if name == "arith.select":
            chosen = self._chosen(operands[0], depth)
            return None if chosen is None else self.number(operands[1 if chosen else 2], depth)
        if name == "affine.apply":
            applied = ir.AffineMapAttr(op.attributes["map"]).value
            given = [self.number(operand, depth) for operand in operands]
            return _value(applied.results[0], given[: applied.n_dims], given[applied.n_dims :])
        if name == "arith.index_cast" and str(operands[0].type) in _WIDE:
            return self.number(operands[0], depth)
        if name == ASSUMING_OP:
            result = ir.OpResult(value)
            found = self.number(operands[result.result_number], depth)
            self.assumed.setdefault(found, []).append(result)
            return found
        if name == "tensor.dim":
            axis = self._maker(operands[1])
            if axis is not None and axis.name == "arith.constant":
                return self.dim(operands[0], ir.IntegerAttr(axis.attributes["value"]).value, depth)
        return None

"""Sizes as the program computes them: the extent of a dim, or of a whole number.

A minimum or a choice is one if it is known which number it gives, as in the bounds of slices: `min(n + 1, 0)` is 0.
Numbers may be held in small tensors meanwhile, in which frontends of ONNX compute shapes:

    %t = linalg.fill ins(%n : i64) outs(...) -> tensor<1xi64>
    %d = linalg.generic ins(%t, %two) { arith.divsi } -> tensor<1xi64>        tensor.extract %d[0] is n / 2
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, Extent, atoms_in, product, total
from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.terms.terms import DimSize

_K = TypeVar("_K")
_T = TypeVar("_T")
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
# The elements of a tensor that holds a shape.
_MOST_HELD = 16
# How MLIR writes that a size is an operand.
_DYNAMIC = -(2**63)
_WIDE = ("index", "i64")
# How divisions round what is not negative.
DIVISIONS = {f"arith.{n}": "floordiv" for n in ("divsi", "divui", "floordivsi")}
DIVISIONS |= {f"arith.{n}": "ceildiv" for n in ("ceildivsi", "ceildivui")}
_LEAST, _MOST = ("arith.minui", "arith.minsi"), ("arith.maxui", "arith.maxsi")
_EQUAL = 0
# Signed comparisons by the numbers of their predicates: whether the first is to be less, and whether it may be equal.
_COMPARED = {2: (True, False), 3: (True, True), 4: (False, False), 5: (False, True)}


def size_operand(op: ir.Operation, kind: ir.RankedTensorType, axis: int) -> ir.Value | None:
    """The operand that is the size of a dynamic dim of an op's result, None for ops that are not told sizes so."""
    before = sum(kind.is_dynamic_dim(each) for each in range(axis))
    if op.name == BITCAST:  # the sizes of its source come first
        return op.operands[len(op.operands) - sum(map(kind.is_dynamic_dim, range(kind.rank))) + before]
    return op.operands[SIZED_OPS[op.name] + before] if op.name in SIZED_OPS else None


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


@dataclass(frozen=True)
class _Number:
    """A number where it is computed: a value as one reader sees it, or what it is known to be."""

    reader: SizeReader
    value: ir.Value | int

    @property
    def op(self) -> ir.Operation | None:
        """What makes it, None for what is known and what a block is given."""
        return None if isinstance(self.value, int) else self.reader._maker(self.value)


@dataclass
class _Passed:
    """What was passed on the way to a size.

    reads: the values whose defining ops were read. assumed: the results of assumptions, by what these are of. is_cut:
    whether the way was too long to be followed to its end.
    """

    reads: MutableMapping[Any, None] = field(default_factory=dict)
    assumed: dict[Extent, dict[ir.OpResult, None]] = field(default_factory=dict)
    is_cut: bool = False

    def add(self, other: _Passed) -> None:
        self.reads.update(other.reads)
        for extent, results in other.assumed.items():
            self.assumed.setdefault(extent, {}).update(results)
        self.is_cut |= other.is_cut


class SizeReader:
    """Reads sizes, and remembers them, each with what was passed on the way to it."""

    def __init__(self) -> None:
        self._passed = [_Passed()]
        self._numbers: dict[ir.Value, tuple[Extent, _Passed]] = {}
        self._held: dict[tuple[ir.Value, int], tuple[_Number | None, _Passed]] = {}
        self._arguments: dict[ir.Value, _Number] = {}

    @property
    def assumed(self) -> Mapping[Extent, Iterable[ir.OpResult]]:
        """The results of the assumptions that were passed, by what these are of."""
        return self._passed[-1].assumed

    def noting(self, reads: MutableMapping[Any, None]) -> SizeReader:
        """The reader itself, which from now on adds the values whose defining ops it reads."""
        self._passed[-1] = _Passed(reads)
        return self

    def _kept(self, table: dict[_K, tuple[_T, _Passed]], key: _K, read: Callable[[], _T]) -> _T:
        """What `read` gives, from a table where it is there; either way what was passed for it counts as passed."""
        known = table.get(key)
        if known is None:
            self._passed.append(_Passed())
            try:
                known = read(), self._passed[-1]
            finally:
                self._passed.pop()
            if not known[1].is_cut:  # from elsewhere it is less far
                table[key] = known
        self._passed[-1].add(known[1])
        return known[0]

    def _maker(self, value: ir.Value) -> ir.Operation | None:
        self._passed[-1].reads[value] = None
        return None if isinstance(value.owner, ir.Block) else value.owner.operation

    def _is_too_deep(self, depth: int) -> bool:
        is_cut = depth > _MAX_DEPTH
        self._passed[-1].is_cut |= is_cut
        return is_cut

    def of(self, size: DimSize | ir.Value) -> Extent:
        """The extent of a dim, or that a whole number is as the program computes it."""
        return self.dim(size.value, size.axis) if isinstance(size, DimSize) else self.number(size)

    def dim(self, value: ir.Value, axis: int, depth: int = 0) -> Extent:
        kind = value.type if isinstance(value, ir.Value) else None  # an index has a size, too
        if not isinstance(kind, ir.RankedTensorType) or not 0 <= axis < kind.rank:
            plain = None if kind is None or self._is_too_deep(depth) else self._converted(value)
            return Extent.of(DimSize(value, axis)) if plain is None else self.dim(plain, axis, depth + 1)
        if not kind.is_dynamic_dim(axis):
            return Extent(kind.get_dim_size(axis))
        op = self._maker(value)
        found = None if op is None or self._is_too_deep(depth) else self._made(op, value, axis, depth + 1)
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
        if value in self._arguments:
            return self._extent(self._arguments[value], depth)
        return self._kept(self._numbers, value, lambda: self._number(value, depth))

    def _number(self, value: ir.Value, depth: int) -> Extent:
        op, found = self._maker(value), None
        if op is not None and not self._is_too_deep(depth) and str(value.type) in _WIDE:
            found = self._computed(op, value, depth + 1)
        return Extent.of(value) if found is None else found

    def _chosen(self, value: ir.Value, depth: int) -> bool | None:
        """Whether a signed comparison holds, None if it is another value or that is not known."""
        number = self._origin(_Number(self, value), depth)
        if isinstance(number.value, int):
            return bool(number.value)
        compared = self._compared(number, depth)
        if compared is None:
            return None
        asked, left, right = compared
        if asked == _EQUAL:
            return True if left == right else False if (left - right).number else None
        if asked not in _COMPARED:
            return None
        wants_less, or_equal = _COMPARED[asked]
        if left == right:
            return or_equal
        apart = (right - left if wants_less else left - right) - (Extent(0) if or_equal else ONE)
        other = (left - right if wants_less else right - left) - (ONE if or_equal else Extent(0))
        return True if apart.is_natural else False if other.is_natural else None

    def _compared(self, number: _Number, depth: int) -> tuple[int, Extent, Extent] | None:
        """The predicate and the sides of a comparison of whole numbers."""
        if number.op is None or number.op.name != "arith.cmpi":
            return None
        left, right = (number.reader.number(operand, depth) for operand in number.op.operands)
        return ir.IntegerAttr(number.op.attributes["predicate"]).value, left, right

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
            return self.number(operands[0], depth).divided(self._divisor(operands[1], depth))
        if name in _LEAST or name in _MOST:
            left, right = (self.number(operand, depth) for operand in operands)
            is_less = True if left == right else _is_less(left, right, name in (_LEAST[0], _MOST[0]))
            return None if is_less is None else left if is_less == (name in _LEAST) else right
        if name == "arith.select":
            chosen = self._chosen(operands[0], depth)
            if chosen is None:
                return self._unless_zero(op, depth)
            return self.number(operands[1 if chosen else 2], depth)
        if name == "affine.apply":
            applied = ir.AffineMapAttr(op.attributes["map"]).value
            given = [self.number(operand, depth) for operand in operands]
            return _value(applied.results[0], given[: applied.n_dims], given[applied.n_dims :])
        if name == "arith.index_cast" and str(operands[0].type) in _WIDE:
            return self.number(operands[0], depth)
        if name == ASSUMING_OP:
            result = ir.OpResult(value)
            found = self.number(operands[result.result_number], depth)
            self._passed[-1].assumed.setdefault(found, {})[result] = None
            return found
        if name == "tensor.dim":
            axis = self._maker(operands[1])
            if axis is not None and axis.name == "arith.constant":
                return self.dim(operands[0], ir.IntegerAttr(axis.attributes["value"]).value, depth)
        if name == "tensor.extract":
            return self._extracted(op, depth)
        return None

    def _divisor(self, value: ir.Value, depth: int) -> Extent:
        """What is divided by: `max(n, 1)` is n, as without elements it makes no difference how many there are."""
        number = self._origin(_Number(self, value), depth)
        if number.op is not None and number.op.name in _MOST:
            left, right = (number.reader.number(operand, depth) for operand in number.op.operands)
            for size, least in ((left, right), (right, left)):
                if least == ONE and size.is_natural:
                    return size
        return self.number(value, depth)

    def _unless_zero(self, op: ir.Operation, depth: int) -> Extent | None:
        """`select(n == 0, n * k, n)` is n."""
        compared = self._compared(self._origin(_Number(self, op.operands[0]), depth), depth)
        then, otherwise = (self.number(operand, depth) for operand in op.operands[1:3])
        is_zero = compared == (_EQUAL, otherwise, Extent(0))
        return otherwise if is_zero and then.divided(otherwise) is not None else None

    def _origin(self, number: _Number, depth: int) -> _Number:
        """A number outside of the bodies that are given it, and of the tensors that hold it."""
        while isinstance(number.value, ir.Value):
            reader, held = number.reader, number.reader._arguments.get(number.value)
            if held is None and number.op is not None and number.op.name == "tensor.extract":
                held = reader._element_of(number.op, depth)
            if held is None:
                break
            number = held
        return number

    def _extent(self, number: _Number, depth: int) -> Extent:
        value = number.value
        return Extent(value) if isinstance(value, int) else number.reader.number(value, depth)

    def _extracted(self, op: ir.Operation, depth: int) -> Extent | None:
        held = self._element_of(op, depth)
        found = None if held is None or self._is_too_deep(depth) else self._extent(held, depth)
        return None if found is None or any(map(_is_in_body, atoms_in(found))) else found

    def _element_of(self, op: ir.Operation, depth: int) -> _Number | None:
        tensor, *indices = op.operands
        places = [self.number(index, depth).number for index in indices]
        sizes = ir.RankedTensorType(tensor.type).shape
        if any(place is None or not 0 <= place < size for place, size in zip(places, sizes, strict=True)):
            return None
        return self._element(tensor, _flat(cast("list[int]", places), sizes), depth)

    def _element(self, tensor: ir.Value, at: int, depth: int) -> _Number | None:
        """The number that a small tensor holds at a place, counted row by row."""
        kind = tensor.type
        if self._is_too_deep(depth) or not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
            return None
        if math.prod(kind.shape) > _MOST_HELD:
            return None
        return self._kept(self._held, (tensor, at), lambda: self._element_of_maker(tensor, at, depth))

    def _element_of_maker(self, tensor: ir.Value, at: int, depth: int) -> _Number | None:
        op = self._maker(tensor)
        return None if op is None else self._element_made(op, at, depth + 1)

    def _element_made(self, op: ir.Operation, at: int, depth: int) -> _Number | None:
        name, operands = op.name, op.operands
        if name == "arith.constant":
            held = op.attributes["value"]
            return _Number(self, int(held[at])) if isinstance(held, ir.DenseIntElementsAttr) else None
        if name == "linalg.fill":
            return _Number(self, operands[0])
        if name == "tensor.from_elements":
            return _Number(self, operands[at])
        if name in ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"):
            return self._element(operands[0], at, depth)
        if name == "tensor.concat" and all(ir.RankedTensorType(value.type).rank == 1 for value in operands):
            for value in operands:
                size = ir.RankedTensorType(value.type).shape[0]
                if not 0 <= at < size:
                    at -= size
                    continue
                return self._element(value, at, depth)
        if name == "tensor.extract_slice" and ir.RankedTensorType(operands[0].type).rank == 1:
            (start,), (step,) = (
                ir.DenseI64ArrayAttr(op.attributes[f"static_{each}"]) for each in ("offsets", "strides")
            )
            if _DYNAMIC not in (start, step):
                return self._element(operands[0], start + at * step, depth)
        return self._element_computed(op, at, depth) if name == "linalg.generic" else None

    def _element_computed(self, op: ir.Operation, at: int, depth: int) -> _Number | None:
        """What the body of a loop over at most one dim yields, whose arguments are elements of other tensors."""
        body, maps = op.regions[0].blocks[0], ir.ArrayAttr(op.attributes["indexing_maps"])
        *inputs, whole = (ir.AffineMapAttr(each).value for each in maps)
        if whole.n_dims > 1 or len(op.results) > 1 or len(whole.results) != whole.n_dims:
            return None
        reader = SizeReader()
        reader._passed = self._passed
        for argument, value, read in zip(body.arguments, op.operands, inputs, strict=False):
            places = [at if isinstance(each, ir.AffineDimExpr) else 0 for each in read.results]
            held = self._element(value, places[0] if places else 0, depth)
            if len(places) > 1 or held is None:
                return None
            reader._arguments[argument] = held
        return _Number(reader, last_op(body).operands[0])


def _flat(places: Sequence[int], sizes: Sequence[int]) -> int:
    return functools.reduce(lambda at, step: at * step[1] + step[0], zip(places, sizes, strict=True), 0)


def _is_in_body(atom: Any) -> bool:
    """Whether a number is one of many that a loop computes, each for another element."""
    if not isinstance(atom, ir.Value):
        return False
    block = atom.owner if isinstance(atom.owner, ir.Block) else atom.owner.operation.block
    return bool(block.owner.name.startswith("linalg."))

"""How much a computation does: its operations on numbers, of sizes that are open, too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

# The public module `dialects.linalg` takes longer to load than a small compile.
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.dims.extents import Extent, InOrder, Total, product, total
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting.records import Part, SymbolicSize
from opsplice.spec_lang.syntax import vocabulary


@dataclass(frozen=True)
class Work:
    """What ops do: the longest sum, of sizes that are known; operations on floats and integers, a sum.
    sparse: the arguments that are read at computed indices. positive: those whose root or logarithm is taken.
    held: the bytes of the tensors among them that are constant."""

    longest_sum: int
    operations: tuple[SymbolicSize, ...]
    sparse: frozenset[int]
    positive: frozenset[int]
    held: int

    @classmethod
    def of(cls, function: ir.Operation, inputs: Sequence[Part] = (), open_size: int = 1) -> Work:
        """Of all ops with loops in a function, and of those on whole tensors; or of a single op.

        inputs: of the function, for the sizes that are open; those that they do not say are `open_size`.
        """
        longest, made, views = 1, list[Extent](), Views()
        for op in ops_in(function):
            maps = get_indexing_maps(op) if op.name.startswith("linalg.") and len(op.regions) == 1 else None
            if maps is not None:
                summed, turns = _loops(op, [ir.AffineMapAttr(each).value for each in maps], views)
                longest = max(longest, summed)
                count = sum(_computes(each.operation) for each in op.regions[0].blocks[0].operations)
                zeros = math.prod(_apart(each) for each in op.operands)
                products = _products(turns * Extent(count))
                made += [Extent(round(each.factor / zeros), each.atoms) for each in products]
            elif _computes(op) and op.results and _is_tensor(op.results[0]):
                made.append(_elements(op.results[0], views))
            elif op.name == "iree_linalg_ext.attention":
                made += _attention(op, views)
            elif op.name == "linalg.softmax":
                made += [_elements(value, views) for value in op.operands if _is_tensor(value)]
            elif op.name.startswith("iree_linalg_ext."):
                made += [_elements(value, views) for value in op.results if _is_tensor(value)]
        read = {op.operands[0] for op in ops_in(function, "tensor.extract")}
        blocks = [body.blocks[0] for body in function.regions]
        arguments = [(n, each) for block in blocks for n, each in enumerate(block.arguments)]
        taken = frozenset(n for n, each in arguments if each in read)
        positive = frozenset(n for n, each in arguments if has_root(each))
        given = [pair for block in blocks for pair in zip(block.arguments, inputs, strict=False)]
        sizes = {DimSize(value, axis): size for value, part in given for axis, size in enumerate(part.sizes or ())}
        named = total(made).renamed(lambda atom: _extent_of(sizes.get(atom, open_size)))
        terms = tuple(SymbolicSize(each.factor, tuple(sorted(each.atoms))) for each in _products(named))
        held = sum(_bytes(each.results[0].type) for each in ops_in(function, "arith.constant") if _is_read(each, read))
        return cls(longest, terms, taken, positive, held)


# The functions that numbers below 0 have none of, and what may be done before one is taken.
_ROOTS = ("math.sqrt", "math.rsqrt", "math.log", "math.log2", "math.log10")
_BEFORE = ("arith.addf", "arith.extf", "arith.truncf", "tensor.expand_shape", "tensor.collapse_shape")


def has_root(value: ir.Value) -> bool:
    """Whether a root or a logarithm of a value is taken, maybe after something was added, as of a variance."""
    seen, pending = set[ir.Value](), [value]
    while pending:
        each = pending.pop()
        for use in () if each in seen else each.uses:
            op = use.owner.operation
            if op.name in _ROOTS:
                return True
            if op.name == "linalg.generic" and "reduction" not in str(op.attributes["iterator_types"]):
                pending.append(op.regions[0].blocks[0].arguments[use.operand_number])
            elif op.name == "linalg.yield":
                pending += [*op.parent.results][use.operand_number : use.operand_number + 1]
            elif op.name in _BEFORE:
                pending += op.results
        seen.add(each)
    return False


def _extent_of(size: int | SymbolicSize) -> Extent:
    return Extent(size) if isinstance(size, int) else Extent(size.factor, InOrder(size.symbols))


def _products(extent: Extent) -> Iterator[Extent]:
    """A product of sizes, and of sums of these, as products of sizes that are to be added."""
    inner = next((atom for atom, _ in extent.atoms if isinstance(atom, Total)), None)
    if inner is None:
        yield extent
        return
    rest = extent.divided(Extent.of(inner))
    assert rest is not None
    for term in inner.terms:
        yield from _products(rest * term)


def _loops(op: ir.Operation, maps: Sequence[ir.AffineMap], views: Views) -> tuple[int, Extent]:
    """How many numbers a loop nest adds to each result, as far as that is known, and its turns."""
    sizes: dict[int, Extent] = {}
    written: set[int] = set()
    inputs = len(maps) - len(op.results)
    for number, (indexing, operand) in enumerate(zip(maps, op.operands, strict=True)):
        for axis, result in enumerate(indexing.results):
            if not isinstance(result, ir.AffineDimExpr) or not _is_tensor(operand):
                continue
            position = ir.AffineDimExpr(result).position
            if position not in sizes or not operand.type.is_dynamic_dim(axis):
                sizes[position] = views.extent(DimSize(operand, axis))
            if number >= inputs:
                written.add(position)
    summed = math.prod(size.number or 1 for position, size in sizes.items() if position not in written)
    return summed, product(sizes.values())


def _apart(value: ir.Value) -> int:
    """How many elements a tensor has for each that is put between its zeros, as a transposed convolution's input."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "tensor.insert_slice":
        return 1
    return math.prod(n for n in ir.DenseI64ArrayAttr(value.owner.attributes["static_strides"]) if n > 0)


def _attention(op: ir.Operation, views: Views) -> Iterator[Extent]:
    """Two products, each a multiplication and an addition for each turn of its loops, and softmax between them."""
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    loops = [[ir.AffineDimExpr(each).position for each in indexing.results] for indexing in maps]
    queries, keys, values = loops[:3]
    sizes = {at: views.extent(DimSize(op.operands[n], axis)) for n in range(3) for axis, at in enumerate(loops[n])}
    kept = {*values, *loops[-1]}
    both = {*queries, *keys}
    scores = both & kept
    for count, turns in ((2, both), (4, scores), (2, scores | {*values})):
        yield product(sizes[at] for at in turns) * Extent(count)


def _elements(value: ir.Value, views: Views) -> Extent:
    return product(views.extent(DimSize(value, axis)) for axis in range(value.type.rank))


def _computes(op: ir.Operation) -> bool:
    name = str(op.name)
    return name.startswith(("arith.", "math.")) and name != "arith.constant"


def _is_read(constant: ir.Operation, tables: set[ir.Value]) -> bool:
    """Whether a constant is a tensor that is read as a whole; one with a single number is none."""
    value = constant.attributes["value"]
    is_splat = isinstance(value, ir.DenseElementsAttr) and value.is_splat
    return _is_tensor(constant.results[0]) and not is_splat and constant.results[0] not in tables


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def elements(kind: ir.RankedTensorType) -> int:
    """How many a tensor has; sizes that are open count as 1."""
    return math.prod(1 if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank))


def _bytes(kind: ir.RankedTensorType) -> int:
    return -(-elements(kind) * (vocabulary.bits(str(kind.element_type)) or 0) // 8)


def operations(op: ir.Operation, open_size: int = 1) -> int:
    """The operations on numbers of a single op. open_size: what sizes count as of which nothing is known."""
    return sum(part.value({}) for part in Work.of(op, open_size=open_size).operations)


def is_plain(op: ir.Operation) -> bool:
    """Whether an op computes each element with one operation."""
    return operations(op) <= _elements(op.results[0], Views()).renamed(lambda _: 1).factor

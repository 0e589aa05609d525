"""What reads single elements of a slice reads the tensor that the slice is of.

    %s = tensor.extract_slice %x[0, 0, 1] [5, 4, 1] [1, 1, 1] : tensor<5x4x2xf32> to tensor<5x4xf32>
    tensor.extract %s[%i, %j]                =>  tensor.extract %x[%i, %j, 1]

IREE 3.13 reads the slice where it lies, too, and has no code for that where its elements are not side by side: a
program with `x[:, :, 1].flip(-1)` or `x[..., 0].gather(1, i)` does not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from opsplice.rewrites.ir import emit

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@emit.of_each("tensor.extract")
def read_through(op: ir.Operation) -> None:
    """Change what reads one element, where inputs are converted."""
    source, *at = op.operands
    is_slice = False
    while isinstance(source, ir.OpResult) and (step := _STEPS.get(source.owner.name)):
        inside = step(source.owner, at)
        if inside is None:
            break
        is_slice |= source.owner.name == "tensor.extract_slice"
        source, at = source.owner.operands[0], inside
    if is_slice:
        emit.replace(op, emit.value("tensor.extract", [source, *at], op.results[0].type))


def _in_slice(op: ir.Operation, at: Sequence[ir.Value]) -> list[ir.Value]:
    """Indices into what a slice is of."""
    offsets, sizes, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{part}"])) for part in _PARTS)
    given = iter(op.operands[1:])
    starts = [next(given) if offset == _DYNAMIC else emit.index(offset) for offset in offsets]
    for size in sizes:
        if size == _DYNAMIC:
            next(given)
    steps = [next(given) if stride == _DYNAMIC else emit.index(stride) for stride in strides]
    shape, left, inside = list(ir.RankedTensorType(op.results[0].type).shape), list(at), []
    for size, start, step in zip(reversed(sizes), reversed(starts), reversed(steps), strict=True):
        # A dim of one element may be left out of the result.
        if size != 1 or (shape and shape[-1] == 1):
            shape.pop()
            start = emit.plus(start, emit.times(left.pop(), step))
        inside.append(start)
    return inside[::-1]


def _in_collapsed(op: ir.Operation, at: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Indices into a tensor whose dims of one element are joined with others; None where others are joined."""
    shape = ir.RankedTensorType(op.operands[0].type).shape
    inside = [emit.index(0) for _ in shape]
    for index, group in zip(at, _groups(op), strict=True):
        wide = [dim for dim in group if shape[dim] != 1]
        if len(wide) > 1:
            return None
        for dim in wide:
            inside[dim] = index
    return inside


def _in_expanded(op: ir.Operation, at: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Indices into a tensor that got dims of one element; None where a dim was split."""
    shape, inside = ir.RankedTensorType(op.results[0].type).shape, []
    for group in _groups(op):
        wide = [dim for dim in group if shape[dim] != 1]
        if len(wide) > 1:
            return None
        inside.append(at[wide[0] if wide else group[0]])
    return inside


def _groups(op: ir.Operation) -> list[list[int]]:
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(each)] for each in op.attributes["reassociation"]]


_PARTS = ("offsets", "sizes", "strides")
_STEPS: dict[str, Callable[[ir.Operation, Sequence[ir.Value]], list[ir.Value] | None]] = {
    "tensor.collapse_shape": _in_collapsed,
    "tensor.expand_shape": _in_expanded,
    "tensor.extract_slice": _in_slice,
}

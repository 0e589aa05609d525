"""Operators of ONNX that IREE's importer does not know, or makes wrongly, as other ops of the module that it makes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from iree.compiler import ir
from onnx import TensorProto

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.matchers.ir.tensor_values import DYNAMIC, shape_of
from opsplice.onnx.size_checks import element_text, known_as, torch_int, torch_tensor
from opsplice.rewrites.ir import emit

_WRITTEN_OUT = (TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
TO_SIGNLESS = re.compile(r"\b[su]i(\d+)")


def write_out(module: ir.Module) -> None:
    """Write casts and products as other ops, where their sizes are known; and give the states of loops one type."""
    emit.load_dialects(module.context)
    for op in ops_in(module.operation, "torch.operator"):
        form = _FORMS.get(op.attributes["name"].value)
        if form is None:
            continue
        with op.location, ir.InsertionPoint(op):
            made = form(op)
        if made is not None:
            emit.replace(op, made)


# ---- loops -----------------------------------------------------------------------------------------------------------


def _loop(op: ir.Operation) -> None:
    """Have what a loop begins with, what a round ends with and its results have the types that a round is given.

    IREE's importer refuses a state that begins without rows and gets one in each round.
    """
    body = op.regions[0].blocks[0]
    given = [each.type for each in body.arguments][2:]
    _cast_operands(op, 2, given)
    end = last_op(body)
    with ir.InsertionPoint(end):
        _cast_operands(end, 1, given)
    for result, kind in zip(op.results, given, strict=False):
        if result.type != kind:
            said = result.type
            result.set_type(kind)
            emit.put_behind(result, functools.partial(known_as, kind=said))


def _cast_operands(op: ir.Operation, first: int, kinds: Sequence[ir.Type]) -> None:
    for number, kind in enumerate(kinds, first):
        if op.operands[number].type != kind:
            op.operands[number] = known_as(op.operands[number], kind)


# ---- casts -----------------------------------------------------------------------------------------------------------


def _cast(op: ir.Operation) -> ir.Value | None:
    """Plain ones of each element, where IREE's importer knows none, or makes 127 of 200.0.

    torch.operator "onnx.Cast"(%x) {torch.onnx.to = 4}  =>  arith.trunci (arith.fptosi %x : f32 to i32) : i32 to i16
    """
    return _elementwise(op, _converted) if op.attributes["torch.onnx.to"].value in _WRITTEN_OUT else None


def _bit_cast(op: ir.Operation) -> ir.Value:
    """torch.operator "onnx.BitCast"(%x) {torch.onnx.to = 6}  =>  arith.bitcast %x : f32 to i32"""
    return _elementwise(op, _bits)


def _elementwise(op: ir.Operation, write: Callable[[ir.Value, list[int], ir.Type, ir.Type], ir.Value]) -> ir.Value:
    x, result = op.operands[0], op.results[0]
    sizes, known = ([DYNAMIC if size is None else size for size in shape_of(value) or ()] for value in (x, result))
    plain = emit.value("torch_c.to_builtin_tensor", [x], ir.RankedTensorType.get(sizes, _element(x.type)[0]))
    made = write(plain, sizes, x.type, result.type)
    if known != sizes:  # of a result the model may say more
        made = emit.value("tensor.cast", [made], ir.RankedTensorType.get(known, _element(result.type)[0]))
    return emit.value("torch_c.from_builtin_tensor", [made], result.type)


def _converted(plain: ir.Value, sizes: list[int], kind: ir.Type, wanted: ir.Type) -> ir.Value:
    (given, has_sign), (made, _) = (_element(each) for each in (kind, wanted))
    if isinstance(given, ir.FloatType):
        # Of twice the width those with a sign hold all numbers without.
        given = ir.IntegerType.get_signless(min(max(2 * made.width, 32), 64))
        name = "fptoui" if made == given else "fptosi"
        plain = emit.value(f"arith.{name}", [plain], ir.RankedTensorType.get(sizes, given))
    if given.width != made.width:
        name = "trunci" if given.width > made.width else "extsi" if has_sign else "extui"
        plain = emit.value(f"arith.{name}", [plain], ir.RankedTensorType.get(sizes, made))
    return plain


def _bits(plain: ir.Value, sizes: list[int], kind: ir.Type, wanted: ir.Type) -> ir.Value:
    """The same bits as elements of another type. A truth value is a byte in memory, and one bit in a program."""
    (given, _), (made, _) = (_element(each) for each in (kind, wanted))
    if given == made:
        return plain
    name = "extui" if str(given) == "i1" else "trunci" if str(made) == "i1" else "bitcast"
    return emit.value(f"arith.{name}", [plain], ir.RankedTensorType.get(sizes, made))


def _element(kind: ir.Type) -> tuple[ir.Type, bool]:
    """The type of a tensor's elements as MLIR has it, and whether they have a sign."""
    element = element_text(kind)
    return ir.Type.parse(TO_SIGNLESS.sub(r"i\1", element)), element.startswith("s")


# ---- products over dims ----------------------------------------------------------------------------------------------


def _product(op: ir.Operation) -> ir.Value | None:
    """Over one dim after the other, as IREE's importer makes those of fixed sizes alone.

    torch.operator "onnx.ReduceProd"(%x) {torch.onnx.axes = [0, 1]}  =>  torch.aten.prod.dim_int, of 1 and then of 0
    """
    shape, axes, result = shape_of(op.operands[0]), _axes(op), op.results[0]
    if shape is None or axes is None or shape_of(result) is None:
        return None
    product, element, sizes = op.operands[0], element_text(result.type), list(shape)
    if not axes and not _flag(op, "noop_with_empty_axes", False):
        axes = range(len(sizes))
    keeps = _flag(op, "keepdims", True)
    flag = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), keeps)
    keep = emit.value("torch.constant.bool", [], ir.Type.parse("!torch.bool"), value=flag)
    none = emit.value("torch.constant.none", [], ir.Type.parse("!torch.none"))
    for axis in sorted((each % len(sizes) for each in axes), reverse=True):
        sizes[axis : axis + 1] = [1] if keeps else []
        kind = torch_tensor(sizes, element)
        product = emit.value("torch.aten.prod.dim_int", [product, torch_int(axis), keep, none], kind)
    return product


def _axes(op: ir.Operation) -> Sequence[int] | None:
    """The dims that an op reduces, [] for all or, with `noop_with_empty_axes`, for none; None if they are not known."""
    if "torch.onnx.axes" in op.attributes:
        return [ir.IntegerAttr(each).value for each in op.attributes["torch.onnx.axes"]]
    if len(op.operands) == 1 or str(op.operands[1].type) == "!torch.none":
        return []
    owner = op.operands[1].owner
    if isinstance(owner, ir.Block) or "torch.onnx.value" not in owner.attributes:
        return None
    return [int(each) for each in ir.DenseIntElementsAttr(owner.attributes["torch.onnx.value"])]


def _flag(op: ir.Operation, name: str, default: bool) -> bool:
    name = f"torch.onnx.{name}"
    return bool(ir.IntegerAttr(op.attributes[name]).value) if name in op.attributes else default


_FORMS = {"onnx.BitCast": _bit_cast, "onnx.Cast": _cast, "onnx.Loop": _loop, "onnx.ReduceProd": _product}

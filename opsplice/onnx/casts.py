"""Casts of ONNX that IREE's importer does not know, or makes wrongly, as ops on each element."""

from __future__ import annotations

import re

from iree.compiler import ir
from onnx import TensorProto

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import DYNAMIC, shape_of
from opsplice.rewrites.ir import emit

_WRITTEN_OUT = (TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
TO_SIGNLESS = re.compile(r"\b[su]i(\d+)")


def write_casts(module: ir.Module) -> None:
    """Write casts as plain ones of each element where IREE's importer knows none, or makes 127 of 200.0.

    torch.operator "onnx.Cast"(%x) {torch.onnx.to = 4}  =>  arith.trunci (arith.fptosi %x : f32 to i32) : i32 to i16
    """
    emit.load_dialects(module.context)
    for op in ops_in(module.operation, "torch.operator"):
        if op.attributes["name"].value == "onnx.Cast" and op.attributes["torch.onnx.to"].value in _WRITTEN_OUT:
            with op.location, ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(_cast(op.operands[0], op.results[0].type))
            op.erase()


def _cast(x: ir.Value, wanted: ir.Type) -> ir.Value:
    sizes = [DYNAMIC if size is None else size for size in shape_of(x) or ()]
    (given, has_sign), (made, _) = (_element(each) for each in (x.type, wanted))
    plain = emit.value("torch_c.to_builtin_tensor", [x], ir.RankedTensorType.get(sizes, given))
    if isinstance(given, ir.FloatType):
        # Of twice the width those with a sign hold all numbers without.
        given = ir.IntegerType.get_signless(min(max(2 * made.width, 32), 64))
        name = "fptoui" if made == given else "fptosi"
        plain = emit.value(f"arith.{name}", [plain], ir.RankedTensorType.get(sizes, given))
    if given.width != made.width:
        name = "trunci" if given.width > made.width else "extsi" if has_sign else "extui"
        plain = emit.value(f"arith.{name}", [plain], ir.RankedTensorType.get(sizes, made))
    return emit.value("torch_c.from_builtin_tensor", [plain], wanted)


def _element(kind: ir.Type) -> tuple[ir.Type, bool]:
    """The type of a tensor's elements as MLIR has it, and whether they have a sign."""
    element = str(kind).rpartition(",")[2].removesuffix(">")
    return ir.Type.parse(TO_SIGNLESS.sub(r"i\1", element)), element.startswith("s")

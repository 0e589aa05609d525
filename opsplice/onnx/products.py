"""Products over dims, which IREE's importer takes of fixed sizes alone, as those along one dim after the other."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.onnx.size_checks import torch_int
from opsplice.rewrites.ir import emit


def write_products(module: ir.Module) -> None:
    """Write products over dims that are known as the ops that IREE's importer makes where sizes are fixed.

    torch.operator "onnx.ReduceProd"(%x) {torch.onnx.axes = [0, 1]}  =>  torch.aten.prod.dim_int, of 1 and then of 0
    """
    for op in ops_in(module.operation, "torch.operator"):
        if op.attributes["name"].value != "onnx.ReduceProd":
            continue
        shape, axes = shape_of(op.operands[0]), _axes(op)
        if shape is not None and axes is not None and shape_of(op.results[0]) is not None:
            with op.location, ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(_product(op, list(shape), axes))
            op.erase()


def _axes(op: ir.Operation) -> list[int] | None:
    """The dims that an op reduces, [] for all or, with `noop_with_empty_axes`, for none; None if they are not known."""
    if "torch.onnx.axes" in op.attributes:
        return [ir.IntegerAttr(each).value for each in op.attributes["torch.onnx.axes"]]
    if len(op.operands) == 1 or str(op.operands[1].type) == "!torch.none":
        return []
    owner = op.operands[1].owner
    if isinstance(owner, ir.Block) or "torch.onnx.value" not in owner.attributes:
        return None
    return [int(each) for each in ir.DenseIntElementsAttr(owner.attributes["torch.onnx.value"])]


def _product(op: ir.Operation, sizes: list[int | None], axes: Sequence[int]) -> ir.Value:
    product, result = op.operands[0], op.results[0].type
    element = str(result).rpartition(",")[2].removesuffix(">")
    if not axes and not _flag(op, "noop_with_empty_axes", False):
        axes = range(len(sizes))
    keeps = _flag(op, "keepdims", True)
    flag = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), keeps)
    keep = emit.value("torch.constant.bool", [], ir.Type.parse("!torch.bool"), value=flag)
    none = emit.value("torch.constant.none", [], ir.Type.parse("!torch.none"))
    for axis in sorted((each % len(sizes) for each in axes), reverse=True):
        sizes[axis : axis + 1] = [1] if keeps else []
        shape = ",".join("?" if size is None else str(size) for size in sizes)
        kind = ir.Type.parse(f"!torch.vtensor<[{shape}],{element}>")
        product = emit.value("torch.aten.prod.dim_int", [product, torch_int(axis), keep, none], kind)
    return product


def _flag(op: ir.Operation, name: str, default: bool) -> bool:
    name = f"torch.onnx.{name}"
    return bool(ir.IntegerAttr(op.attributes[name]).value) if name in op.attributes else default

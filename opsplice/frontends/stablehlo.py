"""What IREE 3.13 does not take of StableHLO, or does wrongly, gets another form before anything else reads it."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.frontends import scatters, small_integers, sums_of_halves, unsigned_numbers
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit

PRODUCTS = ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution")
_ALGORITHM = "algorithm"
_CALL = "func.call"


def mend(module: ir.Module) -> None:
    """Change a module, edit by edit: one may see what those before it have made."""
    names = {op.name for op in ops_in(module.operation)}
    # IREE inlines behind a pass that makes `reshape(convert(x))` of `convert(reshape(x))` where nothing else reads the
    # reshape, and before one that joins equal ops. Of two functions that convert one reshape one conversion is left
    # then, which another pass turns around while it works on it: it crashes, or makes values of the wrong shape.
    if _CALL in names and any(name.startswith("stablehlo.") for name in names):
        PassManager.parse("builtin.module(inline{default-pipeline=})", module.context).run(module.operation)
    with module.context, ir.Location.unknown():
        small_integers.hold_in_bytes(module)
        for edit, edited in _EDITS:
            for op in ops_in(module.operation, *edited) if names.intersection(edited) else ():
                module.context.get_dialect_descriptor("stablehlo")  # before ops of it are built
                with op.location, ir.InsertionPoint(op):
                    edit(op)


def _drop_algorithm(op: ir.Operation) -> None:
    """Let a product be computed by any algorithm: IREE lowers none that names one. Its types stay.

    JAX names one in `jax.nn.dot_product_attention` of bf16, and for `precision="BF16_BF16_F32"` and the like, where a
    product of f32 is more exact than what was asked for.
    """
    if _ALGORITHM in op.attributes:
        del op.attributes[_ALGORITHM]


def _reshape_broadcast(op: ir.Operation) -> None:
    """Make a reshape of a broadcast that repeats nothing and keeps the order of dims.

    JAX leaves batches of one out of products, and broadcasts results to have them again: `[h, m, n]` to `[1, h, m, n]`.
    IREE would make a copy of that, and patterns see an op behind the product.
    """
    operand, result = (ir.RankedTensorType(value.type) for value in (op.operands[0], op.results[0]))
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    if not (operand.has_static_shape and result.has_static_shape) or dims != sorted(dims) or not dims:
        return
    kept = [result.get_dim_size(dim) for dim in dims]
    if kept == operand.shape and all(size == 1 for dim, size in enumerate(result.shape) if dim not in dims):
        emit.replace(op, emit.value("stablehlo.reshape", [op.operands[0]], result))


def _widen_channels(op: ir.Operation) -> None:
    """Hand a convolution of each channel alone numbers of the type that it adds up, both of the other sign.

    Of others IREE lowers none: "expected collapsed type to be 'tensor<3x3x4xbf16>', but got
    'tensor<3x3x4xf32>'". It takes conversions of operands back, but those of numbers whose sign is changed then stay,
    and products of two such numbers are the same.
    """
    element = ir.RankedTensorType(op.results[0].type).element_type
    kinds = [ir.RankedTensorType(value.type) for value in op.operands]
    dims = str(op.attributes["dimension_numbers"]).partition("]x[")[2].partition("]")[0].split(", ")
    groups, channels = ir.IntegerAttr(op.attributes["feature_group_count"]).value, kinds[1].shape[dims.index("i")]
    if groups == 1 or channels > 1 or element in [k.element_type for k in kinds]:
        return
    for number, (value, kind) in enumerate(zip(op.operands, kinds, strict=True)):
        wide = ir.RankedTensorType.get(kind.shape, element)
        op.operands[number] = emit.value("stablehlo.negate", [emit.value("stablehlo.convert", [value], wide)], wide)


def _keep_truths(op: ir.Operation) -> None:
    """Hand a conversion of truths over as an op on single numbers.

    IREE would have a product convert what it reads, and take a truth for a signed number of one bit, which is -1: sums
    of rows come out negative, or do not compile, "expected type of bb argument #0 ('i1')".
    """
    operand, result = (ir.RankedTensorType(value.type) for value in (op.operands[0], op.results[0]))
    if operand.rank and str(operand.element_type) == "i1" and (kind := str(result.element_type)) in _OF_TRUTH:
        _write_out(op, _OF_TRUTH[kind])


_OF_TRUTH = {
    **dict.fromkeys(("f16", "bf16", "f32", "f64"), "arith.uitofp"),
    **dict.fromkeys(("i8", "i16", "i32", "i64"), "arith.extui"),
}


def _keep_complex(op: ir.Operation) -> None:
    """Hand a complex quotient, and a size, over as an op on single numbers, which `complex_functions` writes out.

    IREE writes them out with squares of tensors, which are too large for their type, or too small.
    """
    if isinstance(ir.RankedTensorType(op.operands[0].type).element_type, ir.ComplexType):
        _write_out(op, _OF_COMPLEX[op.name])


def _write_out(op: ir.Operation, scalar: str) -> None:
    """Make an op on tensors, element by element, a loop over an op on single numbers."""
    emit.load_dialects(op.context)
    whole, body = emit.over_elements(op)
    with ir.InsertionPoint(body):
        made = emit.value(scalar, list(body.arguments)[:-1], whole.type.element_type)
        emit.op("linalg.yield", [made])
    emit.replace(op, whole)


_OF_COMPLEX = {"stablehlo.abs": "complex.abs", "stablehlo.divide": "complex.div"}


def _begin_windows_once(op: ir.Operation) -> None:
    """Have padded windows begin with what changes nothing, and what they begin with added behind them.

    IREE pads with it, as StableHLO has it. XLA, and so JAX, leaves out what lies outside.
    """
    (block,) = op.regions[0].blocks
    combined, *others = (inner.operation.name for inner in block.operations)
    kind = ir.RankedTensorType(op.results[0].type)
    if others != ["stablehlo.return"] or combined not in _NEUTRAL or "padding" not in op.attributes:
        return
    neutral = ir.DenseElementsAttr.get_splat(op.operands[1].type, emit.number(_NEUTRAL[combined], kind.element_type))
    maker = defining_op(op.operands[1])
    while maker is not None and maker.name == "stablehlo.broadcast_in_dim":
        maker = defining_op(maker.operands[0])
    if maker is not None and maker.attributes.get("value", None) == neutral:
        return
    no_dims = ir.DenseI64ArrayAttr.get([])
    start = emit.value("stablehlo.broadcast_in_dim", [op.operands[1]], kind, broadcast_dimensions=no_dims)
    op.operands[1] = emit.value(_CONSTANT, [], op.operands[1].type, value=neutral)
    with ir.InsertionPoint.after(op):
        whole = emit.op(combined, [start, start], [kind])
    op.results[0].replace_all_uses_with(whole.results[0])
    whole.operands[0] = op.results[0]


_CONSTANT = "stablehlo.constant"
_NEUTRAL = {"stablehlo.add": 0, "stablehlo.multiply": 1}

# What is done to an op, and the names of those that it is done to.
_EDITS: tuple[tuple[Callable[[ir.Operation], None], tuple[str, ...]], ...] = (
    (_drop_algorithm, ("stablehlo.dot_general",)),
    (_begin_windows_once, ("stablehlo.reduce_window",)),
    (_keep_complex, tuple(_OF_COMPLEX)),
    (_keep_truths, ("stablehlo.convert",)),
    (sums_of_halves.add_in_f32, (*PRODUCTS, "stablehlo.reduce", "stablehlo.reduce_window")),
    (_widen_channels, ("stablehlo.convolution",)),
    (_reshape_broadcast, ("stablehlo.broadcast_in_dim",)),
    (scatters.part_windows, ("stablehlo.scatter",)),
    (unsigned_numbers.give_signs, unsigned_numbers.OPS),
    (unsigned_numbers.widen, PRODUCTS),
)

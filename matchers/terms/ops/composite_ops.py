"""Ops that stand for several: softmax, attention, and numbers made integers and back, as terms."""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import element_type, shape_of
from opsplice.matchers.terms.ops.structured_ops import Operand, loop_sizes, loops_of_output
from opsplice.matchers.terms.terms import Access, Apply, Constant, DimSize, Fresh, Index, Loop, Reduce, Term
from opsplice.spec_lang.syntax import vocabulary

_WHOLE = "i64"  # of the zero point of a whole tensor: those of channels are as wide as the integers


def softmax(op: ir.Operation, indices: tuple[Index, ...], fresh: Fresh) -> Term:
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    source, kind = op.operands[0], element_type(op.operands[0])
    shape = shape_of(source)
    assert shape is not None

    def at(index: Index) -> Term:
        return Access(source, (*indices[:axis], index, *indices[axis + 1 :]))

    return _softmax_of(at, indices[axis], shape[axis], kind, fresh)


def _softmax_of(at: Callable[[Index], Term], index: Index, size: int | DimSize | None, kind: str, fresh: Fresh) -> Term:
    """The softmax of `at` over an index of `size`, at `index`."""

    def reduced(combiner: str, make: Callable[[Index], Term]) -> Term:
        loop = fresh(size)
        body = make(loop)
        return Reduce(combiner, (loop,), body) if isinstance(loop, Loop) else body

    peak = reduced("arith.maximumf", at)

    def shifted(index: Index) -> Term:
        return Apply("math.exp", (Apply("arith.subf", (at(index), peak), (), kind),), (), kind)

    return Apply("arith.divf", (shifted(index), reduced("arith.addf", shifted)), (), kind)


def attention(op: ir.Operation, indices: tuple[Index, ...], fresh: Fresh) -> Term | None:
    """`contract(softmax(contract(q, k) * scale + mask), v)`; None where the op does anything else besides.

    A mask of booleans is read as IREE does it: minus infinity in place of the score where it is false. Where the
    scale or a mask is of a wider type than the rest, all is computed in that, and the result cut short.
    """
    maps = [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
    operands = tuple(map(Operand.of, op.operands, maps))
    body = op.regions[0].blocks[0]
    made = element_type(op.results[0])
    if len(op.results) != 1 or len(maps) != len(op.operands) or len(maps) not in (5, 6):
        return None
    if len(body.operations) != 1 or body.operations[0].operands[0] != body.arguments[0]:
        return None  # the scores are changed in the body
    if any(element_type(v) != made for v in (*op.operands[:3],)):
        return None
    beside = [element_type(v) for v in list(op.operands)[3:-1] if element_type(v) != "i1"]
    kind = max((made, *beside), key=lambda name: vocabulary.bits(name) or 0)
    if not all(map(vocabulary.is_float, (made, *beside))):
        return None
    loops = loops_of_output(operands[-1].map, indices)
    names = [{each for each in operand.map if isinstance(each, int)} for operand in operands]
    summed, keys = (names[0] & names[1]) - names[-1], (names[1] & names[2]) - names[-1]
    if loops is None or len(keys) != 1 or len(summed) != 1:
        return None
    (along,), (depth,) = keys, summed
    sizes = loop_sizes(operands)

    def element(number: int, at: dict[int, Index]) -> Term:
        access = operands[number].at(at)
        own = element_type(op.operands[number])
        return access if own in (kind, "i1") else Apply("arith.extf", (access,), (), kind)

    def score(index: Index) -> Term:
        inner = fresh(sizes.get(depth))
        at = {**loops, along: index, depth: inner}
        product: Term = Apply("arith.mulf", (element(0, at), element(1, at)), (), kind)
        if isinstance(inner, Loop):
            product = Reduce("arith.addf", (inner,), product)
        product = Apply("arith.mulf", (product, element(3, at)), (), kind)
        if len(maps) == 5:
            return product
        mask = element(4, at)
        if element_type(op.operands[4]) == "i1":
            return Apply("arith.select", (mask, product, Constant(-math.inf, kind)), (), kind)
        return Apply("arith.addf", (product, mask), (), kind)

    index = fresh(sizes.get(along))
    weight = _softmax_of(score, index, sizes.get(along), kind, fresh)
    product = Apply("arith.mulf", (weight, element(2, {**loops, along: index})), (), kind)
    total = Reduce("arith.addf", (index,), product) if isinstance(index, Loop) else product
    return total if made == kind else Apply("arith.truncf", (total,), (), made)


def dequantized(op: ir.Operation, indices: tuple[Index, ...]) -> Term | None:
    """`mulf(sitofp(subi(x, zero)), scale)` in i32, which holds integers of 16 bits; no `subi` without zero point."""
    made = _integer_beside(op, indices, op.operands[0], "input_unsigned")
    if made is None:
        return None
    (x, scale, *zero), is_unsigned, bits = made
    if zero and bits == vocabulary.bits("i32"):
        return None
    kind = element_type(op.results[0])
    number: Term = x
    if zero:
        wide = Apply("arith.extui" if is_unsigned else "arith.extsi", (x,), (), "i32")
        resized = "arith.trunci" if element_type(op.operands[2]) == _WHOLE else f"arith.ext{_zero_sign(op)}i"
        number = Apply("arith.subi", (wide, Apply(resized, (zero[0],), (), "i32")), (), "i32")
    whole = Apply("arith.uitofp" if is_unsigned and not zero else "arith.sitofp", (number,), (), kind)
    return Apply("arith.mulf", (whole, scale), (), kind)


def quantized(op: ir.Operation, indices: tuple[Index, ...]) -> Term | None:
    """`fptosi(clamp(addf(roundeven(divf(x, scale)), zero)))`; without zero point no `addf`."""
    made = _integer_beside(op, indices, op.results[0], "storage_unsigned")
    if made is None:
        return None
    (x, scale, *zero), is_unsigned, _ = made
    kind = element_type(op.operands[0])
    value: Term = Apply("math.roundeven", (Apply("arith.divf", (x, scale), (), kind),), (), kind)
    if zero:
        value = Apply("arith.addf", (value, Apply(f"arith.{_zero_sign(op)}itofp", (zero[0],), (), kind)), (), kind)
    for name, limit in (("maximumf", "quant_min"), ("minimumf", "quant_max")):
        bound = Constant(float(ir.IntegerAttr(op.attributes[limit]).value), kind)
        value = Apply(f"arith.{name}", (value, bound), (), kind)
    return Apply("arith.fptoui" if is_unsigned else "arith.fptosi", (value,), (), element_type(op.results[0]))


def _zero_sign(op: ir.Operation) -> str:
    """The letter of casts of a zero point."""
    return "u" if "zp_unsigned" in op.attributes else "s"


def _integer_beside(
    op: ir.Operation, indices: tuple[Index, ...], integers: ir.Value, unsigned: str
) -> tuple[tuple[Access, ...], bool, int] | None:
    """What such an op reads: numbers, scales, and zero points if any; whether its integers are unsigned; their bits."""
    maps = [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
    bits = vocabulary.bits(element_type(integers))
    if len(maps) not in (3, 4) or len(maps) != len(op.operands) or bits not in (8, 16, 32):
        return None
    floats = {element_type(v) for v in (op.operands[0], op.operands[1], op.results[0])} - {element_type(integers)}
    points = {element_type(v) for v in list(op.operands)[2:-1]}
    if len(floats) != 1 or not points <= {_WHOLE, element_type(integers)}:
        return None
    operands = tuple(map(Operand.of, op.operands, maps))
    loops = loops_of_output(operands[-1].map, indices)
    if loops is None:
        return None
    return tuple(each.at(loops) for each in operands[:-1]), unsigned in op.attributes, bits

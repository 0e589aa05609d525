"""Conversions to and from floats that IREE 3.13 computes wrongly, or not at all, get another form.

    arith.sitofp %x : i64 to bf16   =>    the upper half of the bits of arith.sitofp %x : i64 to f32, rounded

IREE makes it a call of a function that compilers bring and programs lack, also where it is spelled by way of f32.

    arith.truncf (arith.constant -1.8e308 : f64)   =>    arith.constant -inf : f32

MLIR folds none that loses something, and IREE's VM, which then has them, knows no f64 in constants, and no f16.

    arith.truncf %x : f32 to f8E5M2     =>    of the smallest normal number where %x is rounded up to it
    arith.extf %x : f8E4M3FN to f16     =>    NaN where that to f32 is -480, and by way of f32

IREE makes 0 of the one, reads one of the two NaNs as -480, and has no code for 8-bit floats but from and to f32.

    arith.truncf %x : f64 to f16    =>    that of %x as f32, the last bit set where some are cut off

IREE goes by way of the nearest f32, which rounds twice, and makes 0 of what is below 2^-14; so to bf16.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from opsplice.rewrites.ir import emit
from opsplice.spec_lang.syntax import vocabulary

_BYTE = 8

_of = emit.alike


def of_integer(op: ir.Operation) -> ir.Value | None:
    """An integer as a bf16: the nearest, of two the even one."""
    if not isinstance(op.results[0].type, ir.BF16Type):
        return None
    word = ir.IntegerType.get_signless(32)
    bits = emit.value("arith.bitcast", [emit.value(op.name, list(op.operands), ir.F32Type.get())], word)
    sixteen = emit.constant(16, word)
    is_odd = _of("arith.andi", _of("arith.shrui", bits, sixteen), emit.constant(1, word))
    raised = _of("arith.addi", bits, _of("arith.addi", is_odd, emit.constant(0x7FFF, word)))
    upper = emit.value("arith.trunci", [_of("arith.shrui", raised, sixteen)], ir.IntegerType.get_signless(16))
    return emit.value("arith.bitcast", [upper], op.results[0].type)


def rounded(op: ir.Operation, known: float | None) -> ir.Value | None:
    """A float in a smaller type. known: the number, where it is known."""
    (x,), made = op.operands, op.results[0].type
    if known is not None:
        return emit.constant(known, made)
    if isinstance(made, (ir.F16Type, ir.BF16Type)) and isinstance(x.type, ir.F64Type):
        return emit.value("arith.truncf", [_to_odd(x)], made)
    return _to_eight_bits(op)


def _to_odd(x: ir.Value) -> ir.Value:
    """A number of f64 as f32, of the two around it the one whose last bit is set: rounded again, it is rounded once."""
    word = ir.IntegerType.get_signless(32)
    near = emit.value("arith.truncf", [x], ir.F32Type.get())
    back, bits = emit.value("arith.extf", [near], x.type), emit.value("arith.bitcast", [near], word)
    is_beyond = emit.compared(">", *(_of("math.absf", each) for each in (back, x)))
    below = _of("arith.subi", bits, emit.constant(1, word))
    odd = _of("arith.ori", _of("arith.select", is_beyond, below, bits), emit.constant(1, word))
    bits = _of("arith.select", emit.compared("!=", back, x), odd, bits)
    return emit.value("arith.bitcast", [bits], near.type)


def _to_eight_bits(op: ir.Operation) -> ir.Value | None:
    made = op.results[0].type
    if not _is_of_eight_bits(made):
        return None
    (x,) = op.operands
    x = _to_odd(x) if isinstance(x.type, ir.F64Type) else _resized(x, ir.F32Type.get())
    digits, least, _ = vocabulary.FLOAT_FORMATS[str(made)]
    normal, half = 2.0 ** (least + digits - 1), 2.0 ** (least - 1)
    size = _of("math.absf", x)
    is_near = emit.compared(">=", size, emit.constant(normal - half, x.type))
    is_near = _of("arith.andi", is_near, emit.compared("<", size, emit.constant(normal, x.type)))
    raised = _of("math.copysign", emit.constant(normal, x.type), x)
    return emit.value("arith.truncf", [_of("arith.select", is_near, raised, x)], made)


def widened(op: ir.Operation) -> ir.Value | None:
    """An 8-bit float in a larger type."""
    (x,) = op.operands
    if not _is_of_eight_bits(x.type):
        return None
    wide = emit.value("arith.extf", [x], ir.F32Type.get())
    if isinstance(x.type, ir.Float8E4M3FNType):
        is_lost = emit.compared("==", wide, emit.constant(-480, wide.type))
        wide = _of("arith.select", is_lost, emit.constant(math.nan, wide.type), wide)
    return _resized(wide, op.results[0].type)


def _is_of_eight_bits(kind: ir.Type) -> bool:
    return isinstance(kind, ir.FloatType) and kind.width == _BYTE and str(kind) in vocabulary.FLOAT_FORMATS


def _resized(number: ir.Value, kind: ir.Type) -> ir.Value:
    """A float in another type, which holds it or is nearest to it."""
    if number.type == kind:
        return number
    return emit.value("arith.extf" if number.type.width < kind.width else "arith.truncf", [number], kind)

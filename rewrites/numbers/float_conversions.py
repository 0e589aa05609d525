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

    math.absf (arith.truncf %x : f32 to bf16)   =>    the same of %x with its bits of f32 rounded to those of bf16

IREE computes in f32 what is of bf16, and rounds only what goes to memory: where both ops meet in a dispatch, %x stays
as it is, and `x.to(bf16).float()` rounds nothing. Results of arithmetic on bf16 are left to IREE.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import VIEWS
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.number_ops import Number, choose
from opsplice.spec_lang.syntax import vocabulary

_BYTE = 8


def of_integer(op: ir.Operation) -> Number | None:
    """An integer as a bf16: the nearest, of two the even one."""
    if not isinstance(op.results[0].type, ir.BF16Type):
        return None
    number = Number(emit.value(op.name, list(op.operands), ir.F32Type.get()))
    upper = _bits_for_bf16(number) >> 16
    return upper.cast("arith.trunci", ir.IntegerType.get_signless(16)).bitcast(op.results[0].type)


def rounded(op: ir.Operation, known: float | None) -> Number | None:
    """A float in a smaller type. known: the number, where it is known."""
    (x,), made = map(Number, op.operands), op.results[0].type
    if known is not None:
        return Number(emit.constant(known, made))
    if isinstance(made, ir.BF16Type) and isinstance(x.type, ir.F32Type) and _is_computed_with(op.result):
        return _with_bits_of_bf16(x).to(made)
    if isinstance(made, (ir.F16Type, ir.BF16Type)) and isinstance(x.type, ir.F64Type):
        return _to_odd(x).to(made)
    return _to_eight_bits(x, made) if _is_of_eight_bits(made) else None


def _is_computed_with(number: ir.Value) -> bool:
    """Whether something is computed of a number, there or in a loop that reads it."""
    for use in number.uses:
        user = use.owner.operation if isinstance(use.owner, ir.OpView) else use.owner
        if user.name.startswith(("arith.", "math.")):
            return True
        if user.name == "linalg.yield":
            read: list[ir.Value] = [user.parent.results[use.operand_number]]
        elif user.name == "linalg.generic":
            read = [user.regions[0].blocks[0].arguments[use.operand_number]]
        else:
            read = list(user.results) if user.name in VIEWS else []
        if any(map(_is_computed_with, read)):
            return True
    return False


def _with_bits_of_bf16(x: Number) -> Number:
    """The nearest number of bf16, of two the even one, as f32."""
    return choose(x != x, x, (_bits_for_bf16(x) & -0x10000).bitcast(x.type))


def _bits_for_bf16(x: Number) -> Number:
    """The bits of a number of f32, whose upper half is that of the nearest bf16, of two the even one."""
    bits = x.bitcast(ir.IntegerType.get_signless(32))
    return bits + (((bits >> 16) & 1) + 0x7FFF)


def _to_odd(x: Number) -> Number:
    """A number of f64 as f32, of the two around it the one whose last bit is set: rounded again, it is rounded once."""
    near = x.to(ir.F32Type.get())
    back, bits = near.to(x.type), near.bitcast(ir.IntegerType.get_signless(32))
    odd = choose(back.of("absf") > x.of("absf"), bits - 1, bits) | 1
    return choose(back != x, odd, bits).bitcast(near.type)


def _to_eight_bits(x: Number, made: ir.Type) -> Number:
    x = _to_odd(x) if isinstance(x.type, ir.F64Type) else x.to(ir.F32Type.get())
    digits, least, _ = vocabulary.FLOAT_FORMATS[str(made)]
    normal, half = 2.0 ** (least + digits - 1), 2.0 ** (least - 1)
    size = x.of("absf")
    is_near = (size >= normal - half) & (size < normal)
    return choose(is_near, x.like(normal).of("copysign", x), x).to(made)


def widened(op: ir.Operation) -> Number | None:
    """An 8-bit float in a larger type."""
    (x,) = map(Number, op.operands)
    if not _is_of_eight_bits(x.type):
        return None
    wide = x.to(ir.F32Type.get())
    if isinstance(x.type, ir.Float8E4M3FNType):
        wide = choose(wide == -480, math.nan, wide)
    return wide.to(op.results[0].type)


def _is_of_eight_bits(kind: ir.Type) -> bool:
    return isinstance(kind, ir.FloatType) and kind.width == _BYTE and str(kind) in vocabulary.FLOAT_FORMATS

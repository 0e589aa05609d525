"""Halves below 2^-14 stay what they are on CPUs without an instruction that makes halves.

    llvm.fmul %a, %b : f16    =>    the f32 product of both, whose bits become those of a half, rounded to even

Bits of halves become f32 by arithmetic on bits, too: LLVM puts the largest of two f32 that were halves back to halves.

IREE 3.13 brings a function of its own for such CPUs, as x86_64 is without features: it makes 0 of each result below
2^-14, which is 6.1e-5. So 0.005 * 0.005 was 0, and the variance of small numbers with it.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.ir.executables import executables, variants

# When each dispatch is a function of LLVM's.
PHASE = "executable-targets"

# Features of CPUs, any of which brings the instruction; the others have it always.
_INSTRUCTIONS = {"x86_64": {"f16c", "avx512fp16"}, "riscv64": {"zfh", "zfhmin"}, "riscv32": {"zfh", "zfhmin"}}
# What makes new numbers of floats, and is named the same for f32.
_OPS = (
    *("llvm.fadd", "llvm.fsub", "llvm.fmul", "llvm.fdiv", "llvm.frem", "llvm.fptrunc", "llvm.sitofp", "llvm.uitofp"),
    *("llvm.intr.fma", "llvm.intr.fmuladd", "llvm.intr.sqrt", "llvm.intr.maxnum", "llvm.intr.minnum"),
    *("llvm.intr.maximum", "llvm.intr.minimum", "llvm.intr.exp", "llvm.intr.exp2", "llvm.intr.pow"),
    *("llvm.intr.vector.reduce.fadd", "llvm.intr.vector.reduce.fmul"),
    *("llvm.intr.vector.reduce.fmax", "llvm.intr.vector.reduce.fmin"),
    *("llvm.intr.vector.reduce.fmaximum", "llvm.intr.vector.reduce.fminimum"),
)
_SIGN, _SIZE = 0x8000, 0x7FFFFFFF
# 2^-14 and 2^16 as bits of f32, and what is between the exponents of both types.
_LEAST, _MOST, _SHIFT = 0x38800000, 0x47800000, (127 - 15) << 23
# Of `llvm.icmp`: greater than, without signs.
_LARGER = 8
_INFINITY, _HALF_LEAST, _HALF_INFINITY, _HALF_NAN = 0x7F800000, 0x0400, 0x7C00, 0x7E00


def keep(module: ir.Module) -> None:
    """Change the code of a module at `PHASE` for CPUs that have no halves."""
    with emit.building(module):
        for variant in (each for executable in executables(module) for each in variants(executable)):
            target = parse_target(str(variant.attributes["target"]))
            wanted = _INSTRUCTIONS.get(target.arch) if target.is_cpu else None
            if wanted is not None and wanted.isdisjoint(target.feature_names):
                for op in list(ops_in(variant, *_OPS)):
                    _write_in_f32(op)
                for op in list(ops_in(variant, "llvm.fpext")):
                    _widen(op)


def _write_in_f32(op: ir.Operation) -> None:
    made = op.results[0].type
    if not _is_of(made, ir.F16Type) or any(_is_of(value.type, ir.F64Type) for value in op.operands):
        return
    with op.location, ir.InsertionPoint(op):
        wide = [
            _made("fpext", _with(each.type, ir.F32Type.get()), each) if _is_of(each.type, ir.F16Type) else each
            for each in op.operands
        ]
        if op.name != "llvm.fptrunc":
            attributes = emit.attributes_of(op)
            wide = [ir.Operation.create(op.name, [_with(made, ir.F32Type.get())], wide, attributes).result]
        emit.replace(op, _narrowed(wide[0], made))


def _widen(op: ir.Operation) -> None:
    """Numbers of f32 from the bits of halves."""
    half, made = op.operands[0], op.results[0].type
    if not _is_of(half.type, ir.F16Type):
        return
    with op.location, ir.InsertionPoint(op):
        word, wide = _with(made, _number(32)), _with(made, ir.F32Type.get())
        bits = _made("zext", word, _made("bitcast", _with(made, _number(16)), half))
        size = _made("and", word, bits, _constant(_SIGN - 1, word))
        usual = _made("add", word, _made("shl", word, size, _constant(13, word)), _constant(_SHIFT, word))
        large = _made("add", word, usual, _constant(_SHIFT, word))
        one_half = _constant(0.5, wide)
        behind = _made("bitcast", wide, _made("or", word, size, _made("bitcast", word, one_half)))
        small = _made("bitcast", word, _made("fsub", wide, behind, one_half))
        found = _made("select", word, _is_above(size, _HALF_LEAST - 1), usual, small)
        found = _made("select", word, _is_above(size, _HALF_INFINITY - 1), large, found)
        sign = _made("shl", word, _made("and", word, bits, _constant(_SIGN, word)), _constant(16, word))
        found = _made("bitcast", wide, _made("or", word, found, sign))
        emit.replace(op, found if wide == made else _made("fpext", made, found))


def _narrowed(number: ir.Value, kind: ir.Type) -> ir.Value:
    """Numbers of f32 as halves, rounded to even."""
    word = _with(kind, _number(32))
    bits = _made("bitcast", word, number)
    size = _made("and", word, bits, _constant(_SIZE, word))
    last = _made("and", word, _made("lshr", word, size, _constant(13, word)), _constant(1, word))
    rounding = _made("add", word, last, _constant(0xFFF - _SHIFT, word))
    usual = _made("lshr", word, _made("add", word, size, rounding), _constant(13, word))
    # The sum with 1/2 has the bits of the half behind those of 1/2.
    half = _constant(0.5, number.type)
    low = _made("bitcast", word, _made("fadd", number.type, _made("bitcast", number.type, size), half))
    small = _made("sub", word, low, _made("bitcast", word, half))
    is_nan = _is_above(size, _INFINITY)
    large = _made("select", word, is_nan, _constant(_HALF_NAN, word), _constant(_HALF_INFINITY, word))
    found = _made("select", word, _is_above(size, _LEAST - 1), usual, small)
    found = _made("select", word, _is_above(size, _MOST - 1), large, found)
    sign = _made("and", word, _made("lshr", word, bits, _constant(16, word)), _constant(_SIGN, word))
    narrow = _made("trunc", _with(kind, _number(16)), _made("or", word, found, sign))
    return _made("bitcast", kind, narrow)


def _made(name: str, kind: ir.Type, *operands: ir.Value) -> ir.Value:
    return emit.value(f"llvm.{name}", operands, kind)


def _is_above(left: ir.Value, right: int) -> ir.Value:
    kind, asked = _with(left.type, _number(1)), ir.IntegerAttr.get(_number(64), _LARGER)
    return emit.value("llvm.icmp", [left, _constant(right, left.type)], kind, predicate=asked)


def _constant(number: float, kind: ir.Type) -> ir.Value:
    element = kind.element_type if isinstance(kind, ir.VectorType) else kind
    one = (
        ir.FloatAttr.get(element, number) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, number)
    )
    value = ir.DenseElementsAttr.get_splat(kind, one) if isinstance(kind, ir.VectorType) else one
    return emit.value("llvm.mlir.constant", [], kind, value=value)


def _number(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)


def _is_of(kind: ir.Type, element: type[ir.Type]) -> bool:
    return isinstance(kind.element_type if isinstance(kind, ir.VectorType) else kind, element)


def _with(kind: ir.Type, element: ir.Type) -> ir.Type:
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element

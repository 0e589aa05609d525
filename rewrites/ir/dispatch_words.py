"""Constants of dispatches, words of 32 bits: how a call packs scalars into them, and how code takes these out again.

A scalar is its bits: of f64, i64 and index two words, the low one first; what is narrower than a word is widened (f16
and bf16 by zeros, integers by their sign).
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.rewrites.ir import emit

_TWO_WORDS = frozenset({"i64", "f64", "index"})
_FLOATS = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}
_UNSIGNED = frozenset({"i1", "f16", "bf16"})


def count(element: str) -> int:
    """How many words a scalar takes."""
    return 2 if element in _TWO_WORDS else 1


def pack(value: ir.Value, element: str) -> list[ir.Value]:
    """A scalar in words. Its value may be the bits of a float."""
    word = ir.IntegerType.get_signless(32)
    if element == "index":
        value = emit.value("arith.index_cast", [value], ir.IntegerType.get_signless(64))
    elif element in _FLOATS and not isinstance(value.type, ir.IntegerType):
        value = emit.value("arith.bitcast", [value], ir.Type.parse(_FLOATS[element]))
    if element in _TWO_WORDS:
        shifted = emit.value("arith.shrui", [value, emit.constant(32, value.type)], value.type)
        return [emit.value("arith.trunci", [part], word) for part in (value, shifted)]
    if value.type == word:
        return [value]
    return [emit.value("arith.extui" if element in _UNSIGNED else "arith.extsi", [value], word)]


def load(layout: ir.Attribute, ordinal: int) -> ir.Value:
    """A word of the executable's interface."""
    word, number = ir.IntegerType.get_signless(32), ir.IntegerAttr.get(ir.IndexType.get(), ordinal)
    return emit.value("hal.interface.constant.load", [], word, layout=layout, ordinal=number)


def unpack(layout: ir.Attribute, ordinal: int, element: str) -> ir.Value:
    """The scalar whose words begin at `ordinal` of the executable's interface."""
    value = load(layout, ordinal)
    if element in _TWO_WORDS:
        wide = ir.IntegerType.get_signless(64)
        low = emit.value("arith.extui", [value], wide)
        high = emit.value("arith.extui", [load(layout, ordinal + 1)], wide)
        high = emit.value("arith.shli", [high, emit.constant(32, wide)], wide)
        value = emit.value("arith.ori", [low, high], wide)
    if element == "index":
        return emit.value("arith.index_cast", [value], ir.IndexType.get())
    kind = ir.Type.parse(_FLOATS.get(element, element))
    if value.type != kind:
        value = emit.value("arith.trunci", [value], kind)
    return emit.value("arith.bitcast", [value], ir.Type.parse(element)) if element in _FLOATS else value

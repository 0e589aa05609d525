"""Functions of SPIR-V modules as MLIR: what is written, and that no file does harm. What they compute is tested where
they run (tests/rewrites/approaches/test_scalar_kernels.py)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.errors import OpspliceError
from opsplice.targets.link.spirv_to_mlir import to_mlir
from tests.targets.formats import spirv_assembly as spv

# float f(float x) { return -x + 1.5; }
MODULE = (
    spv.op(spv.CAPABILITY, 1),
    spv.op(spv.EXT_INST_IMPORT, 1, "GLSL.std.450"),
    spv.op(spv.NAME, 5, "f"),
    spv.op(spv.FLOAT, 2, 32),
    spv.op(spv.FUNCTION_TYPE, 3, 2, 2),
    spv.op(spv.CONSTANT, 2, 4, 0x3FC00000),
    spv.op(spv.FUNCTION, 2, 5, 0, 3),
    spv.op(spv.PARAMETER, 2, 6),
    spv.op(spv.LABEL, 7),
    spv.op(127, 2, 8, 6),
    spv.op(129, 2, 9, 8, 4),
    spv.op(254, 9),
    spv.op(spv.FUNCTION_END),
)


def test_a_function():
    assert to_mlir(spv.binary(*MODULE), "f.spv", ["f"]) == (
        'spirv.func @f(%v6: f32) -> f32 "None" {\n'
        "%v4 = spirv.Constant 0x3FC00000 : f32\n"
        '%v8 = "spirv.FNegate"(%v6) : (f32) -> f32\n'
        '%v9 = "spirv.FAdd"(%v8, %v4) : (f32, f32) -> f32\n'
        "spirv.ReturnValue %v9 : f32\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("place", "instruction", "message"),
    [
        (9, spv.op(127, 2, 8, 77), "has a value that it does not make"),
        (9, spv.op(127, 77, 8, 6), "is a damaged SPIR-V module"),
        (9, spv.op(400, 2, 8, 6), "has instruction 400, which cannot be taken over"),
        (9, spv.op(spv.EXT_INST, 2, 8, 1, 61, 6), r"has function 61 of GLSL\.std\.450"),
        (9, spv.op(249, 7), "has a loop"),
        (9, spv.op(249, 70), "is a damaged SPIR-V module"),
        (9, spv.op(250, 6, 7, 7), "has a branch that is not structured"),
        (9, spv.op(spv.CALL, 2, 8, 5, 6), None),  # it calls itself
        (9, spv.op(spv.CALL, 2, 8, 50, 6), "is a damaged SPIR-V module"),
        (11, spv.op(spv.LABEL, 70), "has a block that leads nowhere"),
        (3, spv.op(spv.VECTOR, 2, 2, 4), "is a damaged SPIR-V module"),  # of itself
        (3, spv.op(spv.POINTER, 2, 7, 2), "is a damaged SPIR-V module"),
        (2, spv.op(spv.NAME, 5, "g"), "does not define a function 'f'"),
        (6, spv.op(spv.FUNCTION, 2), "is a damaged SPIR-V module"),
        (8, spv.op(0), "function 'f' of f.spv has no body"),
    ],
)
def test_what_is_refused(place, instruction, message):
    module = [*MODULE[:place], instruction, *MODULE[place + 1 :]]
    if message is None:
        assert "spirv.FunctionCall" in to_mlir(spv.binary(*module), "f.spv", ["f"])
        return
    with pytest.raises(OpspliceError, match=message):
        to_mlir(spv.binary(*module), "f.spv", ["f"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2**32 - 1)), min_size=1, max_size=6))
def test_no_words_do_harm(changes):
    data = bytearray(spv.binary(*MODULE))
    for at, word in changes:
        data[4 * at + 20 : 4 * at + 24] = word.to_bytes(4, "little")
    made = "spirv.func @f("
    with contextlib.suppress(OpspliceError):
        made = to_mlir(bytes(data), "f.spv", ["f"])
    assert made.startswith("spirv.func @f(")

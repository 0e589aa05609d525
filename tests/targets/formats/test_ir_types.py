"""Types of functions as LLVM writes them, against those that calls pass."""

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats import llvm_types
from opsplice.targets.formats.llvm_types import ADDRESS


@pytest.mark.parametrize(
    ("written", "result", "parameters"),
    [
        ("void ()", "void", []),
        ("float (float, i64)", "f32", ["f32", "i64"]),
        ("void (ptr, double, ptr, i64)", "void", [ADDRESS, "f64", ADDRESS, "index"]),
        ("half (bfloat, half)", "f16", ["bf16", "bf16"]),  # clang calls a bf16 a half or a bfloat, and passes it alike
        ("i32 (i32, i32)", "i1", ["i8", "i16"]),
        ("i1 (i8, i16)", "i1", ["i8", "i16"]),  # as clang writes what it widens
    ],
)
def test_types_that_a_call_fits(written, result, parameters):
    llvm_types.check("k.ll", "k", written, result, parameters, "kernel k")


@pytest.mark.parametrize(
    ("written", "result", "parameters", "wanted"),
    [
        ("double (double)", "f32", ["f32"], "float (float)"),
        ("i32 (i32)", "f32", ["f32"], "float (float)"),
        ("float (float, float)", "f32", ["f32"], "float (float)"),
        ("float ()", "f32", ["f32"], "float (float)"),
        ("half (bfloat)", "f16", ["f16"], "half (half)"),
        ("void (ptr, i32)", "void", [ADDRESS, "index"], "void (ptr, i64)"),
        ("void (ptr, ptr addrspace(1))", "void", [ADDRESS, ADDRESS], "void (ptr, ptr)"),
        ("void (ptr, ...)", "void", [ADDRESS], "void (ptr)"),
        ("ptr (ptr)", "void", [ADDRESS], "void (ptr)"),
        ("void ({ float, float })", "void", ["f32", "f32"], "void (float, float)"),
    ],
)
def test_types_that_it_does_not_fit_are_named(written, result, parameters, wanted):
    with pytest.raises(OpspliceError) as caught:
        llvm_types.check("k.ll", "k", written, result, parameters, "kernel scale")
    assert caught.value.message == f"'k' in k.ll is `{written}`, and kernel scale calls it as `{wanted}`"

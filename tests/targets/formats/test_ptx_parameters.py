"""Entries of PTX with parameters in an order and widths of their own, as what IREE passes."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.build import ptxas
from opsplice.targets.formats import ptx
from opsplice.targets.formats.ptx_parameters import Given, rearranged

TEXT = """.version 7.0
.target sm_80
.address_size 64
.visible .entry other(.param .u64 k_param_0) { ret; }
.visible .entry k(
  .param .u64 .ptr .global .align 4 k_param_0, // the result
  .param .u64 k_param_1,
  .param .u64 k_param_2,
  .param .f32 k_param_3,
  .param .u32 k_param_4,
  .param .f64 k_param_5,
  .param .u64 k_param_10,
  .param .u8 k_param_11,
  .param .s16 k_param_12
)
.maxntid 64, 1, 1
{
  .reg .b16 %rs<3>; .reg .b32 %r<2>; .reg .b64 %rd<6>; .reg .f32 %f<2>; .reg .f64 %fd<2>;
  ld.param.u64 %rd1, [k_param_0];
  ld.param.s64 %rd2, [k_param_1+0];
  ld.param.u64 %rd3, [k_param_2];
  { ld.param.f32 %f1, [k_param_3]; }
  ld.param.s32 %rd4, [k_param_4];
  ld.param.f64 %fd1, [k_param_5];
  ld.param.u64 %rd5, [k_param_10];
  ld.param.s8 %rs1, [k_param_11];
  ld.param.u16 %rs2, [k_param_12];
  ret;
}
"""
OUT, X = Given("out", buffer=1), Given("x", buffer=0)
N, FAR = Given("n", "i32", words=(3,)), Given("far", "f64", words=(0, 1))
FLAG, SHORT = Given("1", number=1), Given("short", "i16", words=(3,))
GIVEN = [OUT, N, X, Given("a", "f32", words=(2,)), Given("-3", number=-3), FAR, Given("0", number=0), FLAG, SHORT]


def made(given=GIVEN, text=TEXT):
    entry = ptx.find_entry(ptx.reflect(text, "k.ptx"), "k.ptx", "k")
    return rearranged(text, entry, 2, 4, given)


def test_what_is_read_is_what_is_passed():
    text = made()
    entry = ptx.find_entry(ptx.reflect(text, "k.ptx"), "k.ptx", "k")
    assert [parameter.told for parameter in entry.parameters or ()] == ["u64"] * 2 + ["u32"] * 4
    assert entry.most_threads == 64
    for line in (
        "ld.param.u64 %rd1, [k_buffer_1];",
        "{ .reg .b32 %opsplice_0; ld.param.u32 %opsplice_0, [k_word_3]; cvt.s64.s32 %rd2, %opsplice_0; }",
        "ld.param.u64 %rd3, [k_buffer_0];",
        "ld.param.f32 %f1, [k_word_2];",
        "{ .const .s32 opsplice_number_s32 = -3; ld.const.s32 %rd4, [opsplice_number_s32]; }",
        "{ .const .s8 opsplice_number_s8 = 1; ld.const.s8 %rs1, [opsplice_number_s8]; }",
        "ld.param.u16 %rs2, [k_word_3];",
        "ld.param.u32 %opsplice_0, [k_word_0]; ld.param.u32 %opsplice_1, [k_word_1]; mov.b64 %fd1, ",
        ".entry other(.param .u64 k_param_0) { ret; }",
    ):
        assert line in text


def test_it_assembles(tmp_path):
    assembler = ptxas.find()
    if assembler is None:
        pytest.skip("there is no ptxas")
    numbers = [*GIVEN[:3], *(Given(str(n), number=n) for n in (5, -6, 7, -8, 255, -300))]
    for number, given in enumerate((GIVEN, numbers)):
        path = tmp_path / f"{number}.ptx"
        path.write_text(made(given))
        assert not ptxas.check(assembler, path, path.name, "sm_80")


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        (GIVEN[:-1], TEXT, "takes 9 parameters .*, and gets 8: out, n, x, a, -3, far, 0, 1"),
        ([*GIVEN[:4], X, *GIVEN[5:]], TEXT, "parameter 5, which is u32, gets x"),
        ([*GIVEN[:3], N, *GIVEN[4:]], TEXT, r"parameter 4, which is f32, gets n \(i32\)"),
        ([*GIVEN[:7], N, SHORT], TEXT, r"parameter 8, which is u8, gets n \(i32\)"),
        ([*GIVEN[:7], SHORT, SHORT], TEXT, r"parameter 8, which is u8, gets short \(i16\)"),
        ([*GIVEN[:7], Given("256", number=256), SHORT], TEXT, "parameter 8, which is u8, gets 256"),
        ([*GIVEN[:5], N, *GIVEN[6:]], TEXT, r"parameter 6, which is f64, gets n \(i32\)"),
        (GIVEN, TEXT.replace("[k_param_2]", "[k_param_2+4]"), "reads its parameter 3 otherwise than whole"),
    ],
)
def test_what_does_not_fit(given, text, said):
    with pytest.raises(OpspliceError, match=said):
        made(given, text)

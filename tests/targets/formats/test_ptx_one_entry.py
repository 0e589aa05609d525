"""Modules of PTX with one of their entries only."""

from __future__ import annotations

from opsplice.targets.formats.ptx import with_one_entry

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 table[4] = {1, 2, 3, 4};\n"
FUNCTION = ".func (.reg .f32 %r) twice(.reg .f32 %x) { add.f32 %r, %x, %x; ret; } // .entry no {\n"
FIRST = """.visible .entry first(
    .param .u64 first_param_0
)
.maxntid 64, 1, 1
{
    { .reg .pred %p; }
    .pragma "nounroll } .entry second";
    ret; // }
}
"""
SECOND = ".weak .entry second() {\n    ret;\n}\n"
DECLARED = ".visible .entry third(.param .u32 third_param_0);\n"


def test_other_entries_are_left_out() -> None:
    text = HEAD + FIRST + FUNCTION + SECOND + DECLARED
    assert with_one_entry(text, "first").split() == (HEAD + FIRST + FUNCTION).split()
    assert with_one_entry(text, "second").split() == (HEAD + FUNCTION + SECOND).split()
    assert with_one_entry(text, "third").split() == (HEAD + FUNCTION + DECLARED).split()


def test_names_are_whole() -> None:
    text = HEAD + SECOND + SECOND.replace("second", "second_wide")
    assert with_one_entry(text, "second").split() == (HEAD + SECOND).split()

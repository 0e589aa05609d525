"""Diagnostics: the place is underlined as a terminal shows it, and errors cross process borders."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError, nearest
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax.spec_errors import MAX_SHOWN, SpecError, error, render, warning
from opsplice.spec_lang.syntax.tree import Source, Span


def at(text: str, marked: str, path: Path | None = Path("a.splice")) -> Span:
    start = text.index(marked)
    return Span(Source(text, path), start, start + len(marked))


def test_render():
    text = "pattern p(x: f32) {\n  mulf(x, y)\n}\n"
    found = error(at(text, "mulf"), "mulf is wrong", "write muli", [(at(text, "x: f32"), "x is here")])
    assert render(found) == (
        "a.splice:2:3: error: mulf is wrong\n"
        "    2 |   mulf(x, y)\n"
        "      |   ^~~~\n"
        "a.splice:1:11: note: x is here\n"
        "    1 | pattern p(x: f32) {\n"
        "      |           ^~~~~~\n"
        "help: write muli"
    )


def test_a_warning_of_text_without_a_file():
    assert render(warning(at("abc", "b", None), "odd")).startswith("<text>:1:2: warning: odd\n")


@pytest.mark.parametrize(
    ("text", "marked", "line", "underline"),
    [
        ("\tfoo(x)", "foo", "    foo(x)", "    ^~~"),
        ("漢字 foo", "foo", "漢字 foo", "     ^~~"),
        ("a 漢字 b", "漢字", "a 漢字 b", "  ^~~~"),
        ("e\u0301 foo", "foo", "e\u0301 foo", "  ^~~"),
        ("foo\r\nbar", "foo", "foo", "^~~"),
        ("foo(\n  bar)", "foo(\n  bar)", "foo(", "^~~~"),
        ("\x1b[31mfoo", "foo", "\ufffd[31mfoo", "     ^~~"),
    ],
)
def test_underlines(text, marked, line, underline):
    _, shown, under = render(error(at(text, marked), "m")).splitlines()
    assert (shown.partition(" | ")[2], under.partition(" | ")[2]) == (line, underline)


def test_a_long_line_is_cut_around_the_place():
    text = "x" * 5000 + " foo " + "y" * 5000
    _, shown, under = render(error(at(text, "foo"), "m")).splitlines()
    assert len(shown) < 140
    assert shown[under.index("^") :].startswith("foo y")
    assert under.endswith("^~~")


def test_the_end_of_a_file_has_a_place():
    source = Source("abc")
    assert render(error(Span(source, 3, 3), "m")).splitlines()[1:] == ["    1 | abc", "      |    ^"]
    assert render(error(Span(Source(""), 0, 1), "m")) == "<text>:1:1: error: m"


def test_color_only_paints():
    found = error(at("foo bar", "bar"), "m", "h", [(at("foo bar", "foo"), "n")])
    colored = render(found, color=True)
    assert "\x1b[1;31merror:" in colored
    plain = colored
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;36m"):
        plain = plain.replace(code, "")
    assert plain == render(found)


def test_a_spec_error_says_it_all_and_survives_pickling():
    text = "foo bar"
    raised = SpecError([warning(at(text, "foo"), "odd"), error(at(text, "bar"), "wrong", "mend it")])
    assert isinstance(raised, OpspliceError)
    again = pickle.loads(pickle.dumps(raised))
    for found in (raised, again):
        assert found.message == "1 error in a.splice"
        assert "a.splice:1:5: error: wrong" in str(found)
        assert "help: mend it" in str(found)
        assert [d.message for d in found.diagnostics] == ["odd", "wrong"]


def test_a_flood_is_cut():
    raised = SpecError([error(at("foo", "foo"), f"m{i}") for i in range(MAX_SHOWN + 5)])
    assert raised.message == "25 errors in a.splice"
    assert "m19\n" in str(raised)
    assert "m20\n" not in str(raised)
    assert str(raised).endswith("and 5 more")


def test_nearest():
    assert nearest("mulff", ["addf", "mulf", "muli"]) == "mulf"
    assert nearest("zzz", ["addf", "mulf"]) is None


KERNEL = 'kernel k(x: f32[m, n]) -> f32[m, n] { cpu "k.c" }\n'
PATTERN = "pattern p(x: tensor<m x n x f32>) { negf(x) }\n"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("pattern p(x: tensor<m, n, f32>) { negf(x) }", "the dims of a tensor are joined by x"),
        (KERNEL.replace("[m, n])", "[m n])"), "the dims of a buffer are separated by commas: f32[m, n]"),
        (KERNEL.replace("[m, n])", "[m, n] stridded)"), "did you mean strided?"),
        (KERNEL.replace("cpu", "grid m cpu"), "sizes stand in brackets: grid (m)"),
        (KERNEL.replace("cpu", "gpu"), "there are cpu cuda rocm"),
        (KERNEL + PATTERN + "replace p with k(pack[m n -> m / 8 n 8](x))", "stands in brackets: (m / 8)"),
        (KERNEL + PATTERN + "replace p with k(y)", "there are x, m, n"),
        (KERNEL + PATTERN + "replace other with k(x)", "there are p"),
        (KERNEL.replace("-> f32[m, n]", "-> (f32[m, n], f32[m])") + PATTERN + "replace p with k(x)", "is `scratch`"),
        ("pattern p(x: tensor<m x n x f32>) { negf(nothing) }", "there are x, m, n"),
        ("pattern p(x: tensor<m x n x f32>) { take[m n -> m](x, 0) }", "separated by commas: [m n, m -> n]"),
    ],
)
def test_what_to_do_is_said(text, advice):
    with pytest.raises(SpecError) as caught:
        load_text(text, Path("a.splice"))
    assert advice in str(caught.value)

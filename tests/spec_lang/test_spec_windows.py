"""Sums of labels in subscripts: read, judged and written."""

from __future__ import annotations

import pytest

from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import SpecError


def conv(subscripts: str, where: str = "") -> str:
    return f"""pattern p(x: tensor<n x h x c x f32>, k: tensor<kh x c x f x f32>) {where} {{
  contract[{subscripts}](x, k)
}}
"""


def windows(text: str) -> tuple[tree.Window, ...]:
    (result,) = load_text(text).patterns["p"].results
    assert isinstance(result, tree.Contract)
    return result.subscripts.windows


def test_factors_are_numbers_or_names():
    (window,) = windows(conv("n (2*y + d*i) c, i c f -> n y f"))
    assert window.terms == ((2, "y"), ("d", "i"))
    assert str(window) == "(2*y + d*i)"


def test_labels_of_a_sum_are_whole_words():
    text = conv("n (row + tap) c, tap c f -> n row f")
    (window,) = windows(text)
    assert window.terms == ((1, "row"), (1, "tap"))
    (result,) = load_text(text).patterns["p"].results
    assert isinstance(result, tree.Contract)
    assert result.subscripts.result == ("n", "row", "f")


def test_a_factor_is_a_dim_for_conditions():
    assert load_text(conv("n (s*y + i) c, i c f -> n y f", "where s == 2 and s < kh")).patterns


def test_the_size_of_a_window_and_its_stride_are_numbers():
    """As sizes of parameters are; a dim of the result alone is none."""
    text = "pattern p(x: tensor<m x l x f32>) { divf(reduce addf[m (s*t + k) -> m t](x), NUMBER) }"
    for number in ("k", "s"):
        (result,) = load_text(text.replace("NUMBER", number)).patterns["p"].results
        assert isinstance(result, tree.Call)
        assert isinstance(result.args[1], tree.Constant)
    with pytest.raises(SpecError, match="unknown name t"):
        load_text(text.replace("NUMBER", "t"))


@pytest.mark.parametrize("written", ["n (2*y+d*i)c,i c f->n y f", "n ( 2 * y  +  d * i ) c, i c f -> n y f"])
def test_formatting(written):
    text = formatter.format(conv(written), None)
    assert "contract[n (2*y + d*i) c, i c f -> n y f](x, k)" in text
    assert formatter.format(text, None) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (conv("n (0*y + i) c, i c f -> n y f"), "a stride is a whole number, 1 or more"),
        (conv("n y c, i c f -> n (y + i) f"), "a sum of labels says where an operand is read"),
        (conv("n (s*y + i) c, i c f -> n y f", "where t == 2"), "unknown dim t"),
        (conv("n (y + i) c, i c f -> n z f"), "label z is in no operand"),
        (
            "pattern p(x: tensor<n x f32>) { absf(broadcast[(n + m) -> n m](x)) }",
            "broadcast reads no sums of labels",
        ),
        (conv("n (y + ) c, i c f -> n y f"), "expected a name"),
    ],
)
def test_what_is_wrong(text, message):
    with pytest.raises(SpecError) as caught:
        load_text(text)
    assert message in str(caught.value)

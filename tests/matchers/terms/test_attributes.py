"""Names of ops as patterns write them."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.matchers.terms.attributes import is_named, same_attribute
from opsplice.spec_lang.syntax.tree import Source, Span


@pytest.mark.parametrize(
    ("name", "wanted", "fits"),
    [
        ("arith.addf", "arith.addf", True),
        ("arith.addf", "arith.*", True),
        ("arith.addf", "arith.*f", True),
        ("arith.addf", "*.add*", True),
        ("arith.addf", "math.*", False),
        ("arith.addf", "arith.add", False),
        ("arith.addf", "*.add", False),
        # Only `*` stands for other letters.
        ("arith.addf", "arith.*d?", False),
        ("arith.addf", "arith.*[f]", False),
        ("arithxaddf", "arith.*", False),
    ],
)
def test_only_a_star_stands_for_letters(name: str, wanted: str, fits: bool) -> None:
    assert is_named(name, wanted) is fits


@pytest.mark.parametrize(
    ("value", "attribute", "same"),
    [
        (0.1, "0.1 : f32", True),  # as f32 holds it
        (0.1, "0.1 : f64", True),
        (0.1, "0.1000001 : f64", False),
        (1, "1.0 : f32", True),
        (True, "1.0 : f32", False),
        (1, "true", False),
        (True, "true", True),
        (True, "1 : i32", False),
        (1, "1 : i32", True),
        ("1", "1 : i32", False),
        ("1", '"1"', True),
        (1, '"1"', False),
        ((1, 2), "[1, 2 : i32]", True),
        ((1, 2), "array<i64: 1, 2>", True),
        ((1, 2), "dense<[1, 2]> : tensor<2xi32>", True),
        ((1, 1), "dense<1> : vector<2xi64>", True),
        ((1, 2), "dense<[[1, 2]]> : tensor<1x2xi64>", False),  # another shape
        ((1, 2, 3, 4), "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>", False),
        ((1,), "dense<1> : tensor<i64>", False),
        ((), "dense<[[1, 2]]> : tensor<1x2xi64>", False),
        ((), "array<i64>", True),
        ((), '"list"', False),
        ((1, 2), "[1, [2]]", False),
        ((1, 2), "[1, 3]", False),
        ((0.1, 1), "[0.1 : f32, 1.0 : f64]", True),
        ((0.1,), "array<f32: 0.1>", True),
        ((0.0,), "array<f64: -0.0>", False),
        ((0.0,), "dense<-0.0> : tensor<1xf32>", False),
    ],
)
def test_an_attribute_is_one_value_of_one_kind(session, value, attribute, same):
    found = ir.Attribute.parse(attribute, context=session.context)
    assert same_attribute(value, found, Span(Source(""), 0, 0)) is same

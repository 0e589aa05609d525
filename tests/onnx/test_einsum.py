"""Einsum of open sizes: numbers against numpy's, in one model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import make_model, node

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}
FIXED = "de"
EQUATIONS = (
    "abd,dce->abce",  # a linear layer of XLNet
    "abcd,dce->abe",
    "ac,bac,cab->a",
    "abc,bd->adbc",
    "abcd,abed->acbe",
    "ab,ab->",
    "b,abc->ac",
    "ca,bd->dbca",
    "abc->ca",
    "ab,cd",
    "...ab,...bd->...ad",
    "a...,d...->ad...",
)
RANKS = {"...ab,...bd->...ad": "cab,cbd->cad", "a...,d...->ad...": "ab,db->adb"}


def test_numbers_are_those_of_numpy():
    """IREE takes what is open and only one side has for 1: it fails when the program runs, or makes other numbers."""
    nodes, kinds, feed, results = [], {}, {}, {}
    for number, equation in enumerate(EQUATIONS):
        before, _, behind = RANKS.get(equation, equation).partition("->")
        names = [f"x{number}.{place}" for place, _ in enumerate(before.split(","))]
        for name, letters in zip(names, before.split(","), strict=True):
            kinds[name] = (TensorProto.FLOAT, [SIZES[each] if each in FIXED else f"{each}{name}" for each in letters])
            feed[name] = np.random.default_rng(len(feed)).standard_normal([SIZES[each] for each in letters], np.float32)
        nodes.append(node("Einsum", " ".join(names), f"y{number}", equation=equation))
        rank = len(behind) if "->" in equation else 4
        results[f"y{number}"] = (TensorProto.FLOAT, [f"{axis}y{number}" for axis in range(rank)])
    found = opsplice.onnx.session(make_model(nodes, kinds, results), providers=["local-sync"]).run(None, feed)
    for number, (equation, value) in enumerate(zip(EQUATIONS, found, strict=True)):
        given = [feed[name] for name in feed if name.startswith(f"x{number}.")]
        wanted = np.einsum(equation, *given)
        assert value.shape == wanted.shape, equation
        np.testing.assert_allclose(value, wanted, 1e-5, 1e-5, err_msg=equation)

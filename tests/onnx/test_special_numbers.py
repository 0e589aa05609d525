"""Numbers of operators that IREE computes otherwise: NaN, infinities, equal elements, and what lies at ends of dims."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def numbers(**given: object) -> dict[str, np.ndarray]:
    """What nodes read besides inputs."""
    return {name: np.asarray(value) for name, value in given.items()}


def test_what_is_no_number_stays() -> None:
    """Of Max, Min and Clip whichever operand it is, and of Sign; it is equal to nothing."""
    nodes = [
        node("Max", "x y", "greatest"),
        node("Min", "y x", "least"),
        node("Max", "x zero", "above"),
        node("Min", "zero x", "below"),
        node("Clip", "x zero one", "inside"),
        node("Clip", "y - one", "to_one"),
        node("Sign", "x", "sign"),
        node("Equal", "x y", "same"),
    ]
    outputs = {each.output[0]: [2, 3] for each in nodes} | {"same": (BOOL, [2, 3])}
    given = numbers(zero=np.float32(0), one=np.float32(1))
    x = np.array([[np.nan, -2, 3], [np.inf, -np.inf, 0.5]], np.float32)
    y = np.array([[1, np.nan, 3], [np.inf, np.nan, -0.5]], np.float32)
    check(make_model(nodes, {"x": [2, 3], "y": [2, 3]}, outputs, given), {"x": x, "y": y})


def test_the_last_of_equal_elements() -> None:
    nodes = [
        node("ArgMax", "x", "last", axis=1, keepdims=0, select_last_index=1),
        node("ArgMin", "x", "lowest", axis=-1, select_last_index=1),
        node("ArgMax", "x", "first", axis=0),
    ]
    outputs = {"last": (INT64, [2]), "lowest": (INT64, [2, 1]), "first": (INT64, [1, 4])}
    x = np.array([[1, 3, 3, 1], [0, 0, -1, -1]], np.float32)
    check(make_model(nodes, {"x": [2, 4]}, outputs), {"x": x})


def test_logarithms_of_sums_of_large_powers() -> None:
    nodes = [
        node("ReduceLogSumExp", "x axis", "row", keepdims=0),
        node("ReduceLogSumExp", "x", "whole"),
    ]
    x = np.array([[1000, 999, -1000], [-2000, -2001, -2000], [-np.inf, -np.inf, -np.inf]], np.float32)
    model = make_model(nodes, {"x": [3, 3]}, {"row": [3], "whole": [1, 1]}, numbers(axis=np.array([1])))
    check(model, {"x": x})


@pytest.mark.parametrize("rows", [4, "rows"])
def test_what_is_put_around(rows: int | str) -> None:
    """By each mode; negative pads cut off before."""
    nodes = [
        node("Pad", "x around", "constant", mode="constant"),
        node("Pad", "x around", "edge", mode="edge"),
        node("Pad", "x around", "reflect", mode="reflect"),
        node("Pad", "x cut", "less", mode="constant"),
        node("Pad", "x cut_around", "less_edge", mode="edge"),
    ]
    given = numbers(around=np.array([2, 1, 1, 0]), cut=np.array([-1, 2, 0, -2]), cut_around=np.array([0, -1, 0, 2]))
    shapes = {"constant": [7, 6], "edge": [7, 6], "reflect": [7, 6], "less": [3, 5], "less_edge": [4, 6]}
    if rows != 4:
        shapes = {name: [None, columns] for name, (_, columns) in shapes.items()}
    check(make_model(nodes, {"x": [rows, 5]}, shapes, given), {"x": floats(4, 5)})


def test_slices_backwards_from_behind_the_end() -> None:
    nodes = [node("Slice", "x far low axis back", "turned"), node("Slice", "x end low axis two", "every_second")]
    given = numbers(
        far=np.array([100]), end=np.array([5]), low=np.array([-100]), axis=np.array([1]), back=np.array([-1]),
        two=np.array([-2]),
    )  # fmt: skip
    check(make_model(nodes, {"x": [2, 5]}, {"turned": [2, 5], "every_second": [2, 3]}, given), {"x": floats(2, 5)})

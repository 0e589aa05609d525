"""Nodes in branches and in bodies of loops are written as others, too, and their shapes are known."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx.parser

from tests.onnx.test_expansion import check, exact_sums_of_bytes

HEAD = '<ir_version: 8, opset_import: ["": 18]>'


@exact_sums_of_bytes
def test_branches():
    """Both name a value `inner`; the axes and the zero point are constants of the graph around."""
    text = """branches (bool c, float[2,3] x, uint8[2,3] b, uint8[3,2] w) => (
            float[2,3] soft, bool[2,3] same, float[2] sums, float[3,2] other, int32[2,2] product)
        <int64[1] axes = {1}, int64[2] sizes = {3, 2}, float s = {0.5}, uint8[2,3] q = {1, 200, 3, 4, 5, 255}> {
        soft, same, sums, other, product = If (c) <
            then_branch = first () => (
                float[2,3] t1, bool[2,3] t2, float[2] t3, float[3,2] t4, int32[2,2] t5) {
                t1 = Softsign (x)
                t2 = Equal (x, x)
                inner = Mul (x, x)
                t3 = ReduceSum <keepdims = 0> (inner, axes)
                t4 = Reshape (inner, sizes)
                t5 = MatMulInteger (b, w)
            },
            else_branch = second () => (
                float[2,3] e1, bool[2,3] e2, float[2] e3, float[3,2] e4, int32[2,2] e5) {
                e1 = DequantizeLinear (q, s)
                e2 = Constant <value = bool[2,3] {1, 0, 1, 0, 1, 0}> ()
                inner = Unsqueeze (x, axes)
                e3 = ReduceProd <keepdims = 0> (x, axes)
                e4 = Transpose (e1)
                e5 = Constant <value = int32[2,2] {1, 2, 3, 4}> ()
            }
        >
    }"""
    numbers = np.random.default_rng(0)
    feed = {
        "x": np.array([[1, np.nan, -3], [0.5, 2, 0]], np.float32),
        "b": numbers.integers(0, 256, (2, 3), np.uint8),
        "w": numbers.integers(0, 256, (3, 2), np.uint8),
    }
    for condition in (True, False):
        check(onnx.parser.parse_model(HEAD + text), {"c": np.array(condition), **feed})


@pytest.mark.parametrize("shape", [[2, 3], ["n", 3], None], ids=["fixed", "open", "unknown"])
def test_the_state_of_loops_has_the_shape_that_it_begins_with(shape):
    """ONNX's own inference says nothing of it, so that its rank was not known."""
    text = """loop (float[2,3] x, float[3] w) => (float[2,3] z) <int64 rounds = {3}, bool always = {1}> {
        y = Loop (rounds, always, x) <
            body = round (int64 i, bool go, float[1,2] s) => (bool on, float[1,2] n) {
                soft = Softsign (s)
                n = Add (soft, w)
                on = Identity (go)
            }
        >
        z = Relu (y)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    (body,) = (each.g for each in model.graph.node[0].attribute)
    for value in (body.input[2], body.output[1]):
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, shape))
    numbers = np.random.default_rng(1)
    check(model, {"x": numbers.normal(size=(2, 3)).astype("f"), "w": numbers.normal(size=3).astype("f")})


@pytest.mark.parametrize("condition", [0, 1])
def test_of_a_constant_condition_one_branch_is_taken(condition):
    """The other has results of another rank, of which ONNX says that of the first. Both conditions name `inner`."""
    text = f"""taken (float[2,3] x) => (float[2,3] z, float[2,3] one) <bool c = {{{condition}}}, bool no = {{0}}> {{
        y = If (c) <
            then_branch = first () => (float[6] flat) {{
                flat_shape = Constant <value = int64[1] {{6}}> ()
                inner = Neg (x)
                flat = Reshape (inner, flat_shape)
            }},
            else_branch = second () => (float[2,3] same) {{
                two = Constant <value = float {{2.0}}> ()
                inner = Mul (x, two)
                same = Identity (inner)
            }}
        >
        soft = Softsign (y)
        sizes = Constant <value = int64[2] {{2, 3}}> ()
        shaped = Reshape (soft, sizes)
        z = Exp (shaped)
        one = If (no) <
            then_branch = third () => (float[2,3] t) {{ t = Neg (x) }},
            else_branch = fourth () => (float[2,3] e) {{
                two = Constant <value = float {{3.0}}> ()
                inner = Add (z, two)
                e = Softsign (inner)
            }}
        >
    }}"""
    x = np.random.default_rng(2).normal(size=(2, 3)).astype(np.float32)
    check(onnx.parser.parse_model(HEAD + text), {"x": x})

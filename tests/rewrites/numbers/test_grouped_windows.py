"""Convolutions of groups that begin with a bias, of one image of open sizes."""

from __future__ import annotations

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.numbers import windowed_ops


def convolved(batch: int, size: str, is_split: bool = True) -> str:
    """is_split: the channels of copies of the bias become groups."""
    height = "?" if size == "?" else 4
    image, sums = f"tensor<{batch}x2x3x{size}x6xf32>", f"tensor<{batch}x2x4x{height}x4xf32>"
    filters, copies = "tensor<2x4x3x3x3xf32>", f"tensor<{batch}x8x{height}x4xf32>" if is_split else sums
    bias, dims = ("tensor<8xf32>", "0, 2, 3") if is_split else ("tensor<2x4xf32>", "0, 3, 4")
    n = "%n" if size == "?" else 4
    split = f"""
  %s = tensor.expand_shape %b [[0], [1, 2], [3], [4]] output_shape [{batch}, 2, 4, {n}, 4] : {copies} into {sums}"""
    return f"""
func.func @convolved(%x: {image}, %f: {filters}, %bias: {bias}) -> {sums} {{
  %three = arith.constant 3 : index
  %two = arith.constant 2 : index
  %h = tensor.dim %x, %three : {image}
  %n = arith.subi %h, %two : index
  %e = tensor.empty({"%n" if size == "?" else ""}) : {copies}
  %b = linalg.broadcast ins(%bias : {bias}) outs(%e : {copies}) dimensions = [{dims}]{split * is_split}
  %r = linalg.conv_2d_ngchw_gfchw {{strides = dense<1> : vector<2xi64>, dilations = dense<1> : vector<2xi64>}}
    ins(%x, %f : {image}, {filters}) outs({"%s" if is_split else "%b"} : {sums}) -> {sums}
  return %r : {sums}
}}
"""


def test_they_compile_and_have_the_numbers_of_numpy():
    program = opsplice.compile(convolved(1, "?"), isolate=True)
    rng = np.random.default_rng(0)
    f, bias = rng.random((2, 4, 3, 3, 3), dtype=np.float32), rng.random(8, dtype=np.float32)
    for size in (3, 7):
        x = rng.random((1, 2, 3, size, 6), dtype=np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (3, 4))
        wanted = np.einsum("ngchwij,gfcij->ngfhw", windows, f) + bias.reshape(2, 4, 1, 1)
        np.testing.assert_allclose(program.run("convolved", x, f, bias), wanted, rtol=1e-5)


OTHERS = [(1, "?", True, "fill"), (1, "?", False, "broadcast"), (2, "?", True, "expand"), (1, "6", True, "expand")]


@pytest.mark.parametrize(("batch", "size", "is_split", "begins_with"), OTHERS)
def test_others_stay(batch: int, size: str, is_split: bool, begins_with: str):
    with Compilation() as compilation:
        module = ir.Module.parse(convolved(batch, size, is_split), context=compilation.context)
        windowed_ops.mend(module)
        module.operation.verify()
        convolution = next(line for line in str(module).splitlines() if "conv_2d" in line)
        start = convolution.partition("outs(")[2].partition(" ")[0]
        made = next(line for line in str(module).splitlines() if line.strip().startswith(f"{start} = "))
        assert begins_with in made

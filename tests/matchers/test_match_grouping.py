"""Patterns with more dims than their result has in the program, which merges dims that it splits further down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice

# x has rows of windows, m a number for each window (or batch); the result has the rows again.
WINDOWS = """func.func @f(%x: tensor<8x3xf32>, %m: tensor<{size}xf32>) -> tensor<{rows}xf32> {{
  %e = tensor.empty() : tensor<2x4x3xf32>
  %s = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 3] : tensor<8x3xf32> into tensor<2x4x3xf32>
  %w = linalg.broadcast ins(%m : tensor<{size}xf32>) outs(%e : tensor<2x4x3xf32>) dimensions = {dims}
  %a = arith.addf %s, %w : tensor<2x4x3xf32>
  %c = tensor.collapse_shape %a [{merged}] : tensor<2x4x3xf32> into tensor<{rows}xf32>
  %r = math.exp %c : tensor<{rows}xf32>
  return %r : tensor<{rows}xf32> }}"""
SPEC = "pattern p(x: tensor<b x w x h x f32>, m: tensor<{0} x f32>) {{ exp(addf(x, broadcast[{0} -> b w h](m))) }}"


@pytest.mark.parametrize(
    ("rows", "merged"), [("8x3", "[0, 1], [2]"), ("2x12", "[0], [1, 2]"), ("24", "[0, 1, 2]")], ids=["bw", "wh", "bwh"]
)
@pytest.mark.parametrize(("label", "size", "dims"), [("b", 2, "[1, 2]"), ("w", 4, "[0, 2]"), ("h", 3, "[0, 1]")])
def test_a_result_is_taken_apart_as_the_program_does_it(find, rows, merged, label, size, dims):
    program = WINDOWS.format(rows=rows, merged=merged, size=size, dims=dims)
    outcome = find(program, SPEC.format(label))
    assert (outcome.dims, list(outcome.inputs)) == ({"b": 2, "w": 4, "h": 3}, ["x", "m"])
    assert outcome.only.roots[0].owner.name == "math.exp"
    others = {"b", "w", "h"} - {label}
    assert [find(program, SPEC.format(other)).count for other in others] == [0, 0]


def test_dims_that_are_merged_twice_are_taken_apart_twice(find):
    program = WINDOWS.format(rows="8x3", merged="[0, 1], [2]", size=4, dims="[0, 2]").replace(
        "return %r : tensor<8x3xf32>",
        """%n = tensor.collapse_shape %r [[0, 1]] : tensor<8x3xf32> into tensor<24xf32>
        %t = math.tanh %n : tensor<24xf32>
        return %t : tensor<24xf32>""",
    )
    spec = SPEC.format("w").replace("exp(addf", "tanh(exp(addf").replace("(m)))", "(m))))")
    assert find(program.replace("-> tensor<8x3xf32>", "-> tensor<24xf32>"), spec).dims == {"b": 2, "w": 4, "h": 3}


def test_a_split_result_counts_once(find):
    program = WINDOWS.format(rows="8x3", merged="[0, 1], [2]", size=4, dims="[0, 2]").replace(
        "return %r : tensor<8x3xf32>",
        """%n = tensor.expand_shape %r [[0, 1], [2]] output_shape [2, 4, 3] : tensor<8x3xf32> into tensor<2x4x3xf32>
        return %n : tensor<2x4x3xf32>""",
    )
    outcome = find(program.replace("-> tensor<8x3xf32>", "-> tensor<2x4x3xf32>"), SPEC.format("w"))
    assert outcome.only.roots[0].owner.name == "math.exp"


def test_another_order_of_dims_is_none(find):
    """Merged again after a transpose: each element is another one's exponential."""
    program = """func.func @f(%x: tensor<8x3xf32>, %m: tensor<4xf32>) -> tensor<8x3xf32> {
      %e = tensor.empty() : tensor<2x4x3xf32>
      %o = tensor.empty() : tensor<4x2x3xf32>
      %s = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 3] : tensor<8x3xf32> into tensor<2x4x3xf32>
      %w = linalg.broadcast ins(%m : tensor<4xf32>) outs(%e : tensor<2x4x3xf32>) dimensions = [0, 2]
      %a = arith.addf %s, %w : tensor<2x4x3xf32>
      %t = linalg.transpose ins(%a : tensor<2x4x3xf32>) outs(%o : tensor<4x2x3xf32>) permutation = [1, 0, 2]
      %c = tensor.collapse_shape %t [[0, 1], [2]] : tensor<4x2x3xf32> into tensor<8x3xf32>
      %r = math.exp %c : tensor<8x3xf32>
      return %r : tensor<8x3xf32> }"""
    assert [find(program, SPEC.format(label)).count for label in "bwh"] == [0, 0, 0]


def test_a_kernel_of_more_dims_makes_the_merged_result(tmp_path: Path):
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
        #include <math.h>
        void grouped(const float *x, const float *m, float *out, size_t b, size_t w, size_t h) {
          for (size_t i = 0; i < b * w * h; ++i) out[i] = expf(x[i] + m[i / h % w]);
        }"""
    )
    spec = (
        SPEC.format("w")
        + """
    kernel grouped(x: f32[b, w, h], m: f32[w]) -> f32[b, w, h] { cpu "k.c" as bitcode }
    replace p with grouped(x, m)"""
    )
    (tmp_path / "s.splice").write_text(spec)
    text = WINDOWS.format(rows="24", merged="[0, 1, 2]", size=4, dims="[0, 2]")
    (tmp_path / "model.mlir").write_text(text)
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "s.splice"])
    x, m = (np.random.default_rng(i).uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate([(8, 3), 4]))
    assert len(program.report.replacements) == 1
    wanted = np.exp(x.reshape(2, 4, 3) + m.reshape(1, 4, 1)).reshape(24)
    np.testing.assert_allclose(np.asarray(program.run("f", x, m)), wanted, rtol=1e-5)

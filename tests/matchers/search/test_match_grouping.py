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


# Twelve channels in three groups of four, each convolved to two.
GROUPS = """func.func @f(%x: tensor<1x12x5x6xf32>, %f: tensor<3x2x4x3x3xf32>) -> tensor<1x6x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x2x3x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x2x3x4xf32>) -> tensor<1x3x2x3x4xf32>
  %s = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [1, 3, 4, 5, 6]
    : tensor<1x12x5x6xf32> into tensor<1x3x4x5x6xf32>
  %y = linalg.conv_2d_ngchw_gfchw ins(%s, %f : tensor<1x3x4x5x6xf32>, tensor<3x2x4x3x3xf32>)
    outs(%z : tensor<1x3x2x3x4xf32>) -> tensor<1x3x2x3x4xf32>
  %c = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<1x3x2x3x4xf32> into tensor<1x6x3x4xf32>
  %r = math.exp %c : tensor<1x6x3x4xf32>
  return %r : tensor<1x6x3x4xf32> }"""


def test_a_convolution_in_groups_holds_with_what_follows_where_these_are_merged(find):
    spec = """pattern p(x: tensor<n x gc x h x w x f32>, f: tensor<g x o x c x kh x kw x f32>) where apart == c {
      exp(contract[n (apart*g + c) (sh*y + dh*i) (sw*z + dw*j), g o c i j -> n g o y z](x, f)) }"""
    outcome = find(GROUPS, spec)
    assert (outcome.dims["g"], outcome.dims["o"], outcome.dims["apart"]) == (3, 2, 4)
    assert outcome.only.roots[0].owner.name == "math.exp"


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


@pytest.mark.parametrize(("b", "h"), [(1, 4), (4, 1), (2, 4)])
def test_a_batch_of_one_is_a_dim_of_the_pattern(find, b, h):
    """As PyTorch has products of several batch dims: one of them at a time, whatever sizes they have."""
    both = b * h
    program = f"""func.func @f(%q: tensor<{b}x{h}x6x8xf32>, %k: tensor<{b}x{h}x8x7xf32>) -> tensor<{b}x{h}x6x7xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{both}x6x7xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{both}x6x7xf32>) -> tensor<{both}x6x7xf32>
      %a = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<{b}x{h}x6x8xf32> into tensor<{both}x6x8xf32>
      %b = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<{b}x{h}x8x7xf32> into tensor<{both}x8x7xf32>
      %p = linalg.batch_matmul ins(%a, %b : tensor<{both}x6x8xf32>, tensor<{both}x8x7xf32>)
        outs(%z : tensor<{both}x6x7xf32>) -> tensor<{both}x6x7xf32>
      %r = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [{b}, {h}, 6, 7]
        : tensor<{both}x6x7xf32> into tensor<{b}x{h}x6x7xf32>
      return %r : tensor<{b}x{h}x6x7xf32> }}"""
    spec = """pattern p(q: tensor<b x h x m x d x f32>, k: tensor<b x h x d x n x f32>) {
      contract[b h m d, b h d n -> b h m n](q, k) }"""
    outcome = find(program, spec)
    assert outcome.dims == {"b": b, "h": h, "m": 6, "d": 8, "n": 7}
    assert list(outcome.inputs) == ["q", "k"]


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


# A batch of a size that is known at run time only: its heads are merged with it, two of them read the same rows of x,
# and each batch has a number of its own.
HEADS = """func.func @f(%x: tensor<?x2x3xf32>, %m: tensor<?xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %b = tensor.dim %x, %c0 : tensor<?x2x3xf32>
  %bh = arith.muli %b, %c4 : index
  %e = tensor.empty(%b) : tensor<?x2x2x3xf32>
  %w = linalg.broadcast ins(%x : tensor<?x2x3xf32>) outs(%e : tensor<?x2x2x3xf32>) dimensions = [2]
  %q = tensor.collapse_shape %w [[0, 1, 2], [3]] : tensor<?x2x2x3xf32> into tensor<?x3xf32>
  %s = tensor.expand_shape %q [[0, 1], [2]] output_shape [%b, 4, 3] : tensor<?x3xf32> into tensor<?x4x3xf32>
  %e4 = tensor.empty(%b) : tensor<?x4x3xf32>
  %n = linalg.broadcast ins(%m : tensor<?xf32>) outs(%e4 : tensor<?x4x3xf32>) dimensions = [1, 2]
  %a = arith.addf %s, %n : tensor<?x4x3xf32>
  %c = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x4x3xf32> into tensor<?x3xf32>
  %r = math.exp %c : tensor<?x3xf32>
  return %r : tensor<?x3xf32> }"""


def test_a_batch_of_unknown_size_is_taken_apart_from_its_heads(tmp_path: Path):
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
        #include <math.h>
        void biased(const float *x, const float *m, float *out, size_t b, size_t h, size_t xh, size_t oh, size_t i) {
          for (size_t j = 0; j < h; ++j) out[j * oh] = expf(x[j * xh] + *m);
        }"""
    )
    (tmp_path / "s.splice").write_text(
        """kernel biased(x: f32[...b, h] strided, m: f32[...b] strided) -> f32[...b, h] strided {
          grid (b)
          cpu "k.c"
        }
        pattern p(x: tensor<...b x h x f32>, m: tensor<...b x f32>) { exp(addf(x, broadcast[...b -> ...b h](m))) }
        replace p with biased(x, m)"""
    )
    (tmp_path / "model.mlir").write_text(HEADS)
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "s.splice"])
    assert [each.kernel for each in program.report.replacements] == ["biased"]
    for batch in (1, 5):
        x, m = (
            np.random.default_rng(batch).uniform(-1, 1, shape).astype(np.float32) for shape in [(batch, 2, 3), batch]
        )
        wanted = np.exp(np.repeat(x, 2, axis=1) + m.reshape(-1, 1, 1)).reshape(-1, 3)
        np.testing.assert_allclose(np.asarray(program.run("f", x, m)), wanted, rtol=1e-5)


def test_an_input_that_lacks_an_open_dim_is_repeated_along_it(tmp_path: Path):
    """The other input, which is transposed, says how large that dim is."""
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
        #include <math.h>
        void sums(const float *x, const float *y, float *out, size_t m, size_t n,
                  size_t xm, size_t xn, size_t ym, size_t yn, size_t om, size_t on) {
          for (size_t i = 0; i < m * n; ++i)
            out[i / n * om + i % n * on] = expf(x[i / n * xm + i % n * xn] + y[i / n * ym + i % n * yn]);
        }"""
    )
    (tmp_path / "s.splice").write_text(
        """kernel sums(x: f32[m, n] strided, y: f32[m, n] strided) -> f32[m, n] strided { cpu "k.c" as bitcode }
        pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { exp(addf(x, y)) }
        replace p with sums(x, y)"""
    )
    (tmp_path / "model.mlir").write_text(
        """func.func @f(%x: tensor<?x?xf32>, %y: tensor<?xf32>) -> tensor<?x?xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %n = tensor.dim %x, %c0 : tensor<?x?xf32>
          %m = tensor.dim %x, %c1 : tensor<?x?xf32>
          %e = tensor.empty(%m, %n) : tensor<?x?xf32>
          %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (n)>,
              affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
              ins(%x, %y : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
          ^bb0(%a: f32, %b: f32, %o: f32):
            %0 = arith.addf %a, %b : f32
            %1 = math.exp %0 : f32
            linalg.yield %1 : f32
          } -> tensor<?x?xf32>
          return %r : tensor<?x?xf32> }"""
    )
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "s.splice"])
    assert [each.kernel for each in program.report.replacements] == ["sums"]
    x, y = (np.random.default_rng(i).uniform(-1, 1, size).astype(np.float32) for i, size in enumerate([(5, 3), 5]))
    np.testing.assert_allclose(np.asarray(program.run("f", x, y)), np.exp(x.T + y), rtol=1e-5)


# ---- reductions ------------------------------------------------------------------------------------------------------

# Weights of 8 bits in groups that have a scale each. The product sums over all groups at once.
WEIGHTS = """
func.func @f(%x: tensor<{m}x12xf32>, %w: tensor<5x3x4xi8>, %s: tensor<5x{count}xf32>) -> tensor<{m}x5xf32> {{
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x3x4xf32>
  %d = linalg.generic {{indexing_maps = [affine_map<(n, g, k) -> (n, g, k)>, affine_map<(n, g, k) -> (n, {scale})>,
      affine_map<(n, g, k) -> (n, g, k)>], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%w, %s : tensor<5x3x4xi8>, tensor<5x{count}xf32>) outs(%e : tensor<5x3x4xf32>) {{
  ^bb0(%a: i8, %b: f32, %o: f32):
    %1 = arith.sitofp %a : i8 to f32
    %2 = arith.mulf %1, %b : f32
    linalg.yield %2 : f32
  }} -> tensor<5x3x4xf32>
  {merge}
  %eo = tensor.empty() : tensor<{m}x5xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%eo : tensor<{m}x5xf32>) -> tensor<{m}x5xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
      affine_map<(m, n, k) -> (m, n)>] ins(%x, %c : tensor<{m}x12xf32>, tensor<5x12xf32>)
      outs(%z : tensor<{m}x5xf32>) -> tensor<{m}x5xf32>
  return %r : tensor<{m}x5xf32> }}"""
MERGED = "%c = tensor.collapse_shape %d [[0], [1, 2]] : tensor<5x3x4xf32> into tensor<5x12xf32>"
TURNED = """%et = tensor.empty() : tensor<5x4x3xf32>
  %t = linalg.transpose ins(%d : tensor<5x3x4xf32>) outs(%et : tensor<5x4x3xf32>) permutation = [0, 2, 1]
  %c = tensor.collapse_shape %t [[0], [1, 2]] : tensor<5x4x3xf32> into tensor<5x12xf32>"""
GROUPED = """
pattern p(x: tensor<m x {first} x {second} x f32>, w: tensor<n x g x k x i8>, s: tensor<n x {scale} x f32>) {{
  contract[m {first} {second}, n g k -> m n](x, mulf(sitofp(w) : f32, broadcast[n {scale} -> n g k](s)))
}}"""


@pytest.mark.parametrize(("merge", "order"), [(MERGED, "gk"), (TURNED, "kg")], ids=["merged", "turned"])
@pytest.mark.parametrize(("scale", "count"), [("g", 3), ("k", 4)])
def test_a_sum_is_taken_apart_as_the_program_does_it(find, merge, order, scale, count):
    program = WEIGHTS.format(m=2, count=count, scale=scale, merge=merge)
    first, second = order
    outcome = find(program, GROUPED.format(first=first, second=second, scale=scale))
    assert outcome.dims == {"m": 2, "g": 3, "k": 4, "n": 5}
    assert outcome.inputs == {"x": "%arg0", "w": "%arg1", "s": "%arg2"}
    assert outcome.only.roots[0].owner.name == "linalg.matmul"
    assert "linalg.matmul" in {op.name for op in outcome.only.ops}
    assert find(program, GROUPED.format(first=second, second=first, scale=scale)).count == 0
    assert find(program, GROUPED.format(first=first, second=second, scale="gk".replace(scale, ""))).count == 0


def test_an_input_with_a_pack_is_reshaped_for_a_sum_that_is_taken_apart(find):
    program = WEIGHTS.format(m=2, count=3, scale="g", merge=MERGED)
    spec = GROUPED.format(first="g", second="k", scale="g").replace("<m x", "<...m x").replace("m g k", "...m g k")
    outcome = find(program, spec.replace("-> m n", "-> ...m n"))
    assert outcome.dims == {"m": (2,), "g": 3, "k": 4, "n": 5}
    assert outcome.inputs == {"x": "%arg0", "w": "%arg1", "s": "%arg2"}


def test_a_factor_with_other_groups_is_what_lies_in_memory_the_same(find):
    """One factor has groups of 4 along the sum, the other one of 3: both are the same elements in order."""
    program = WEIGHTS.format(m=2, count=3, scale="g", merge=MERGED).replace(
        "%x: tensor<2x12xf32>", "%y: tensor<2x4x3xf32>"
    )
    program = program.replace(
        "%c0 =",
        """%h = math.exp %y : tensor<2x4x3xf32>
  %x = tensor.collapse_shape %h [[0], [1, 2]] : tensor<2x4x3xf32> into tensor<2x12xf32>
  %c0 =""",
    )
    spec = GROUPED.format(first="g", second="k", scale="g")
    assert find(program, spec).inputs["x"] == "%collapsed"
    assert find(program, spec.replace("](x,", "](exp(x),")).inputs["x"] == "%arg0"


def test_sums_and_maxima_over_one_merged_dim_are_taken_apart_alike(find):
    program = """func.func @f(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>) -> tensor<2xf32> {
      %e = tensor.empty() : tensor<2x3x4xf32>
      %b = linalg.broadcast ins(%s : tensor<3xf32>) outs(%e : tensor<2x3x4xf32>) dimensions = [0, 2]
      %a = arith.addf %x, %b : tensor<2x3x4xf32>
      %c = tensor.collapse_shape %a [[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>
      %low = arith.constant dense<0xFF800000> : tensor<2xf32>
      %zero = arith.constant dense<0.0> : tensor<2xf32>
      %m = linalg.reduce { arith.maximumf } ins(%c : tensor<2x12xf32>) outs(%low : tensor<2xf32>) dimensions = [1]
      %ec = tensor.empty() : tensor<2x12xf32>
      %w = linalg.broadcast ins(%m : tensor<2xf32>) outs(%ec : tensor<2x12xf32>) dimensions = [1]
      %d = arith.subf %c, %w : tensor<2x12xf32>
      %r = linalg.reduce { arith.addf } ins(%d : tensor<2x12xf32>) outs(%zero : tensor<2xf32>) dimensions = [1]
      return %r : tensor<2xf32> }"""
    spec = """pattern p(x: tensor<m x g x k x f32>, s: tensor<SCALE x f32>) {
      a = addf(x, broadcast[SCALE -> m g k](s))
      reduce addf[m g k -> m](subf(a, broadcast[m -> m g k](reduce maximumf[m g k -> m](a))))
    }"""
    assert find(program, spec.replace("SCALE", "g")).dims == {"m": 2, "g": 3, "k": 4}
    assert find(program, spec.replace("SCALE", "k")).count == 0


SUM = """func.func @f(%x: tensor<2x3x4x5xf32>) -> tensor<{kept}xf32> {{
  %z = arith.constant dense<0.0> : tensor<{kept}xf32>
  %s = linalg.reduce {{ arith.addf }} ins(%x : tensor<2x3x4x5xf32>) outs(%z : tensor<{kept}xf32>) dimensions = {dims}
  %r = math.exp %s : tensor<{kept}xf32>
  return %r : tensor<{kept}xf32> }}"""
ROWS = "pattern p(x: tensor<...m x n x f32>) { exp(reduce addf[...m n -> ...m](x)) }"
COLUMNS = "pattern p(x: tensor<...b x n x m x f32>) { exp(reduce addf[...b n m -> ...b m](x)) }"


@pytest.mark.parametrize("dims", [[1, 2], [2, 3], [0, 1, 2], [1, 2, 3], [0, 2], [1, 3], [0, 1, 3], [0, 3]], ids=str)
def test_a_sum_over_one_dim_is_one_over_several_that_lie_in_one_run(find, dims):
    sizes = (2, 3, 4, 5)
    kept = "x".join(str(size) for axis, size in enumerate(sizes) if axis not in dims)
    is_run, end = dims == list(range(dims[0], dims[-1] + 1)), dims[-1]
    for spec, wanted in ((ROWS, is_run and end == 3), (COLUMNS, is_run and end == 2)):
        outcome = find(SUM.format(kept=kept, dims=dims), spec)
        assert outcome.count == wanted, spec
        assert not wanted or outcome.dims["n"] == np.prod([sizes[axis] for axis in dims])


@pytest.mark.parametrize(("turned", "count"), [(False, 1), (True, 0)])
def test_a_product_over_one_dim_is_one_over_heads_and_their_columns(find, turned, count):
    """As flax projects what its heads made: weights have the two dims in the same order."""
    kind, read = ("4x3x5", "(d1, d0, k)") if turned else ("3x4x5", "(d0, d1, k)")
    program = f"""func.func @f(%x: tensor<2x3x4xf32>, %w: tensor<{kind}xf32>) -> tensor<2x5xf32> {{
      %z = arith.constant dense<0.0> : tensor<2x5xf32>
      %s = linalg.generic {{indexing_maps = [affine_map<(m, k, d0, d1) -> (m, d0, d1)>,
          affine_map<(m, k, d0, d1) -> {read}>, affine_map<(m, k, d0, d1) -> (m, k)>],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
        ins(%x, %w : tensor<2x3x4xf32>, tensor<{kind}xf32>) outs(%z : tensor<2x5xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %p, %o : f32
        linalg.yield %t : f32
      }} -> tensor<2x5xf32>
      %r = math.exp %s : tensor<2x5xf32>
      return %r : tensor<2x5xf32> }}"""
    spec = "pattern p(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { exp(contract[m k, k n -> m n](x, w)) }"
    outcome = find(program, spec)
    assert outcome.count == count
    assert not count or outcome.dims == {"m": 2, "k": 12, "n": 5}


def test_what_is_captured_of_grouped_weights_computes_what_the_program_does(tmp_path: Path):
    text = WEIGHTS.format(m=2, count=3, scale="g", merge=TURNED)
    capture = opsplice.capture(text, "linalg.matmul", to="linalg.generic", name="grouped")
    assert not capture.notes
    assert len(capture.inputs) == 3
    spec, _ = capture.save(tmp_path / "grouped.splice")
    program = opsplice.compile(text, specs=[spec])
    assert len(program.report.replacements) == 1
    random = np.random.default_rng(0)
    x, s = (random.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, 12), (5, 3)))
    w = random.integers(-128, 128, (5, 3, 4), np.int8)
    wanted = x @ (w * s[:, :, None]).transpose(0, 2, 1).reshape(5, 12).T
    np.testing.assert_allclose(np.asarray(program.run("f", x, w, s)), wanted, rtol=1e-4)

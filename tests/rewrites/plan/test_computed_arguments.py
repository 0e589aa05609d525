"""What rules compute for kernels: packed weights, folded batch norms. IREE folds it for constants."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.matchers.ir.op_names import around, ops_in
from opsplice.runtime.weights import Arrays
from opsplice.targets.build import shaders
from tests.rewrites.conftest import write_spec

SPEC = """
kernel gemm(x: f32[m, k], w: f32[p, k, 8], bias: f32[n]) -> f32[m, n] {
  cpu "kernels.c"
}
kernel convolve(x: f32[b, c, h, w], f: f32[p, c, i, j, 8], bias: f32[o]) -> f32[b, o, y, z] {
  cpu "kernels.c"
}
kernel rows(x: f32[m, k], w: f32[n, k]) -> f32[m, n] {
  cpu "kernels.c"
}

pattern linear(x: tensor<m x k x f32>, w: tensor<n x k x f32>, bias: tensor<n x f32>) {
  addf(contract[m k, n k -> m n](x, w), broadcast[n -> m n](bias))
}
pattern normed(
  x: tensor<b x c x h x w x f32>,
  f: tensor<o x c x i x j x f32>,
  gain: tensor<o x f32>,
  beta: tensor<o x f32>,
  mean: tensor<o x f32>,
  variance: tensor<o x f32>,
) {
  y = contract[b c (y + i) (z + j), o c i j -> b o y z](x, f)
  centred = subf(y, broadcast[o -> b o y z](mean))
  s = rsqrt(addf(variance, 0.00001))
  scaled = mulf(mulf(centred, broadcast[o -> b o y z](s)), broadcast[o -> b o y z](gain))
  addf(scaled, broadcast[o -> b o y z](beta))
}
pattern quantised(x: tensor<m x k x f32>, w: tensor<k x n x i8>, scale: tensor<n x f32>) {
  contract[m k, k n -> m n](x, mulf(sitofp(w) : f32, broadcast[n -> k n](scale)))
}

pattern scale_of(gain: tensor<o x f32>, variance: tensor<o x f32>) {
  mulf(gain, rsqrt(addf(variance, 0.00001)))
}

replace linear with gemm(x, pack[n k -> (n / 8) k 8](w), bias)
replace normed where weight(f) with convolve(
  x,
  pack[o c i j -> (o / 8) c i j 8](mulf(f, broadcast[o -> o c i j](scale_of(gain, variance)))),
  subf(beta, mulf(mean, scale_of(gain, variance))),
)
replace quantised with rows(x, transpose[k n -> n k](mulf(sitofp(w) : f32, broadcast[n -> k n](scale))))
"""

CODE = """
#include <stddef.h>
void gemm(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t p, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = bias[j];
      for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[(j / 8 * k + l) * 8 + j % 8];
      out[i * n + j] = sum;
    }
}
void rows(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
      out[i * n + j] = sum;
    }
}
void convolve(const float *x, const float *f, const float *bias, float *out, size_t b, size_t c, size_t h, size_t w,
              size_t p, size_t fi, size_t fj, size_t o, size_t y, size_t z) {
  for (size_t n = 0; n < b * o * y * z; ++n) {
    size_t at = n / z / y / o, channel = n / z / y % o, row = n / z % y, column = n % z;
    float sum = bias[channel];
    for (size_t l = 0; l < c; ++l)
      for (size_t i = 0; i < fi; ++i)
        for (size_t j = 0; j < fj; ++j)
          sum += x[((at * c + l) * h + row + i) * w + column + j] *
                 f[(((channel / 8 * c + l) * fi + i) * fj + j) * 8 + channel % 8];
    out[n] = sum;
  }
}
"""
_RANDOM = np.random.default_rng(0)
NK, KN = (_RANDOM.standard_normal(shape, np.float32) for shape in ((1000, 64), (64, 50)))
BIAS, WIDE = (_RANDOM.standard_normal(n, np.float32) for n in (50, 1000))
FILTER = _RANDOM.standard_normal((12, 3, 3, 3), np.float32)
GAIN, BETA, MEAN = (_RANDOM.standard_normal(12, np.float32) for _ in range(3))
VARIANCE = _RANDOM.random(12, np.float32)
BYTES, SCALE = _RANDOM.integers(-128, 128, (64, 50), np.int8), _RANDOM.random(50, np.float32)


def _constant(name: str, value: np.ndarray) -> str:
    kind = f"tensor<{'x'.join(map(str, value.shape))}x{'i8' if value.dtype == np.int8 else 'f32'}>"
    return f'%{name} = arith.constant dense<"0x{value.tobytes().hex().upper()}"> : {kind}'


_X, _BIAS = "%x: tensor<4x64xf32>", "%bias: tensor<50xf32>"


def _linear(name: str, arguments: str, before: str, labels: str, m: str) -> str:
    n = 1000 if name == "constant" else 50
    weights = f"tensor<{n}x64xf32>" if labels == "j, k" else f"tensor<64x{n}xf32>"
    kind = f"tensor<{m}x{n}xf32>"
    size = "%m = tensor.dim %x, %zero : tensor<?x64xf32>" if m == "?" else ""
    return f"""
  func.func @{name}({arguments}) -> {kind} {{
    {before}
    %zero = arith.constant 0 : index
    %none = arith.constant 0.0 : f32
    {size}
    %empty = tensor.empty({"%m" if size else ""}) : {kind}
    %start = linalg.fill ins(%none : f32) outs(%empty : {kind}) -> {kind}
    %product = linalg.generic {{
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> ({labels})>,
                       affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]
    }} ins(%x, %w : tensor<{m}x64xf32>, {weights}) outs(%start : {kind}) {{
    ^bb0(%in: f32, %weight: f32, %out: f32):
      %0 = arith.mulf %in, %weight : f32
      %1 = arith.addf %out, %0 : f32
      linalg.yield %1 : f32
    }} -> {kind}
    %sum = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    }} ins(%product, %bias : {kind}, tensor<{n}xf32>) outs(%empty : {kind}) {{
    ^bb0(%in: f32, %more: f32, %out: f32):
      %0 = arith.addf %in, %more : f32
      linalg.yield %0 : f32
    }} -> {kind}
    return %sum : {kind}
  }}"""


def _spread(name: str, operand: str, other: str, op: str) -> str:
    """An elementwise op of a picture and a value for each of its channels."""
    kind = "tensor<2x12x5x4xf32>"
    return f"""
    %{name} = linalg.generic {{
      indexing_maps = [affine_map<(b, o, y, z) -> (b, o, y, z)>, affine_map<(b, o, y, z) -> (o)>,
                       affine_map<(b, o, y, z) -> (b, o, y, z)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    }} ins(%{operand}, %{other} : {kind}, tensor<12xf32>) outs(%empty : {kind}) {{
    ^bb0(%in: f32, %more: f32, %out: f32):
      %0 = arith.{op} %in, %more : f32
      linalg.yield %0 : f32
    }} -> {kind}"""


LINEARS = "\n".join(
    [
        f'util.global private @held = dense<"0x{KN.tobytes().hex().upper()}"> : tensor<64x50xf32>',
        f'util.global private @variance = dense<"0x{VARIANCE.tobytes().hex().upper()}"> : tensor<12xf32>',
        _linear("constant", "%x: tensor<?x64xf32>", f"{_constant('w', NK)} {_constant('bias', WIDE)}", "j, k", "?"),
        _linear("loaded", f"{_X}, {_BIAS}", "%w = util.global.load @held : tensor<64x50xf32>", "k, j", "4"),
        _linear("given", f"{_X}, %w: tensor<50x64xf32>, {_BIAS}", "", "j, k", "4"),
        _linear("turned", f"{_X}, %w: tensor<64x50xf32>, {_BIAS}", "", "k, j", "4"),
    ]
)
PROGRAM = f"""
module {{
{LINEARS}
  func.func @normed(%x: tensor<2x3x7x6xf32>) -> tensor<2x12x5x4xf32> {{
    {_constant("f", FILTER)}
    {_constant("gain", GAIN)}
    {_constant("beta", BETA)}
    {_constant("mean", MEAN)}
    %variance = util.global.load @variance : tensor<12xf32>
    %epsilon = arith.constant dense<0.00001> : tensor<12xf32>
    %none = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<2x12x5x4xf32>
    %start = linalg.fill ins(%none : f32) outs(%empty : tensor<2x12x5x4xf32>) -> tensor<2x12x5x4xf32>
    %y = linalg.conv_2d_nchw_fchw {{dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}}
      ins(%x, %f : tensor<2x3x7x6xf32>, tensor<12x3x3x3xf32>) outs(%start : tensor<2x12x5x4xf32>)
      -> tensor<2x12x5x4xf32>
    %wide = arith.addf %variance, %epsilon : tensor<12xf32>
    %s = math.rsqrt %wide : tensor<12xf32>
    {_spread("centred", "y", "mean", "subf")}
    {_spread("scaled", "centred", "s", "mulf")}
    {_spread("gained", "scaled", "gain", "mulf")}
    {_spread("made", "gained", "beta", "addf")}
    return %made : tensor<2x12x5x4xf32>
  }}
  func.func @quantised(%x: tensor<4x64xf32>) -> tensor<4x50xf32> {{
    {_constant("bytes", BYTES)}
    {_constant("scale", SCALE)}
    %none = arith.constant 0.0 : f32
    %room = tensor.empty() : tensor<64x50xf32>
    %w = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    }} ins(%bytes, %scale : tensor<64x50xi8>, tensor<50xf32>) outs(%room : tensor<64x50xf32>) {{
    ^bb0(%in: i8, %more: f32, %out: f32):
      %0 = arith.sitofp %in : i8 to f32
      %1 = arith.mulf %0, %more : f32
      linalg.yield %1 : f32
    }} -> tensor<64x50xf32>
    %empty = tensor.empty() : tensor<4x50xf32>
    %start = linalg.fill ins(%none : f32) outs(%empty : tensor<4x50xf32>) -> tensor<4x50xf32>
    %y = linalg.matmul ins(%x, %w : tensor<4x64xf32>, tensor<64x50xf32>) outs(%start : tensor<4x50xf32>)
      -> tensor<4x50xf32>
    return %y : tensor<4x50xf32>
  }}
}}
"""

SPLIT = """
kernel parts(a: f32[m, k], b: f32[p, k, 8]) -> f32[ceildiv(k, 16), m, p * 8] {
  grid (ceildiv(k, 16))
  cpu "split.c"
}
kernel total(parts: f32[s, m, o], bias: f32[n]) -> f32[m, n] {
  cpu "split.c"
}
replace linear where n == 50 with total(parts(x, pack[n k -> (n / 8) k 8](w)), bias)
"""
SPLIT_CODE = """
#include <stddef.h>
void parts(const float *a, const float *b, float *out, size_t m, size_t k, size_t p, size_t s) {
  size_t end = s * 16 + 16 < k ? s * 16 + 16 : k;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < p * 8; ++j) {
      float sum = 0;
      for (size_t l = s * 16; l < end; ++l) sum += a[i * k + l] * b[(j / 8 * k + l) * 8 + j % 8];
      out[(s * m + i) * p * 8 + j] = sum;
    }
}
void total(const float *parts, const float *bias, float *out, size_t s, size_t m, size_t o, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      out[i * n + j] = bias[j];
      for (size_t p = 0; p < s; ++p) out[i * n + j] += parts[(p * m + i) * o + j];
    }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> opsplice.Program:
    patterns, replace, rules = SPEC.partition("replace")
    spec = f"{patterns}{SPLIT}{replace}{rules}"
    path = write_spec(tmp_path_factory.mktemp("computed"), spec, {"kernels.c": CODE, "split.c": SPLIT_CODE})
    return opsplice.compile(PROGRAM, [path], ["--iree-llvmcpu-target-cpu=host"])


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def test_kernels_are_given_packed_and_folded_weights(program):
    """Also where the last piece is filled up, for weights in either layout, and for those that the caller gives."""
    x, b, w, turned = _normal(4, 64), _normal(50), _normal(50, 64), _normal(64, 50)
    picture = _normal(2, 3, 7, 6)
    windows = np.lib.stride_tricks.sliding_window_view(picture, (3, 3), (2, 3))
    spread = np.s_[None, :, None, None]
    folded = (np.einsum("bcyzij,ocij->boyz", windows, FILTER) - MEAN[spread]) * (1 / np.sqrt(VARIANCE + 1e-5))[spread]
    expected = {
        "constant": ((x,), x @ NK.T + WIDE),
        "loaded": ((x, b), x @ KN + b),
        "given": ((x, w, b), x @ w.T + b),
        "turned": ((x, turned, b), x @ turned + b),
        "normed": ((picture,), folded * GAIN[spread] + BETA[spread]),
        "quantised": ((x,), x @ (BYTES * SCALE)),
    }
    assert sorted(r.function.lstrip("@") for r in program.report.replacements) == sorted(expected)
    for name, (inputs, wanted) in expected.items():
        np.testing.assert_allclose(program.run(name, *inputs), wanted, rtol=1e-4, atol=1e-3, err_msg=name)


def test_a_kernel_takes_what_another_one_makes(program):
    """In two dispatches, with a buffer between them whose size the first kernel's signature says."""
    made = {r.function.lstrip("@"): r for r in program.report.replacements}
    assert [Path(use.source).name for use in made["loaded"].artifacts] == ["split.c"]
    assert made["loaded"].kernel == "total"
    assert made["constant"].kernel == "gemm"


def test_sizes_that_are_known_at_run_time_only_are_not_computed_for_commands(tmp_path):
    spec = """
    kernel parts(x: f32[n]) -> f32[ceildiv(n, 4)] { cpu "split.py" as command }
    kernel whole(x: f32[s], y: f32[n]) -> f32[n] { cpu "split.c" }
    pattern p(x: tensor<n x f32>) { negf(exp(x)) }
    replace p with whole(parts(x), x)
    """
    program = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = math.exp %x : tensor<?xf32>
      %1 = arith.negf %0 : tensor<?xf32>
      return %1 : tensor<?xf32>
    }"""
    (kept,) = opsplice.match(program, [write_spec(tmp_path, spec, {"split.c": SPLIT_CODE})]).kept
    assert kept.reason == "the size of what command parts makes is known at run time only"


def test_a_program_holds_weights_in_one_layout(program):
    """IREE packs constants when it compiles: the program has no room for them as they were, too."""
    floats = NK.nbytes + KN.nbytes + FILTER.nbytes + 4 * BYTES.nbytes
    assert len(program.vmfb) < 1.3 * floats + 30000


def test_weights_are_what_is_computed_from_weights(tmp_path):
    rules = "replace linear where weight(w) with gemm(x, pack[n k -> (n / 8) k 8](w), bias)\n"
    rules += "replace quantised where weight(w) and weight(scale) with rows(x, transpose[k n -> n k](sitofp(w) : f32))"
    patterns = SPEC.partition("replace")[0]
    report = opsplice.match(PROGRAM, [write_spec(tmp_path, patterns + rules, {"kernels.c": CODE})])
    assert {r.function.lstrip("@") for r in report.replacements} == {"constant", "loaded", "quantised"}
    assert {r.function.lstrip("@") for r in report.kept} == {"given", "turned"}
    assert {r.reason for r in report.kept} == {"the rule's condition `weight(w)` does not hold"}


LOOP = """
util.global private @weights : tensor<2x50x64xf32>
func.func @main(%state: tensor<4x64xf32>, %other: tensor<50x64xf32>, %bias: tensor<50xf32>) -> tensor<4x50xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %five = arith.constant 5 : index
  %empty = tensor.empty() : tensor<4x50xf32>
  %all = util.global.load @weights : tensor<2x50x64xf32>
  %r = scf.for %i = %zero to %five step %one iter_args(%before = %empty) -> tensor<4x50xf32> {
    %none = arith.constant 0.0 : f32
    %start = linalg.fill ins(%none : f32) outs(%empty : tensor<4x50xf32>) -> tensor<4x50xf32>
    %w = tensor.extract_slice %all[1, 0, 0] [1, 50, 64] [1, 1, 1] : tensor<2x50x64xf32> to tensor<50x64xf32>
    %wide = tensor.empty() : tensor<64x50xf32>
    %turned = linalg.transpose ins(%WEIGHT : tensor<50x64xf32>) outs(%wide : tensor<64x50xf32>) permutation = [1, 0]
    %y = linalg.matmul ins(%state, %turned : tensor<4x64xf32>, tensor<64x50xf32>) outs(%start : tensor<4x50xf32>)
      -> tensor<4x50xf32>
    %spread = linalg.broadcast ins(%bias : tensor<50xf32>) outs(%empty : tensor<4x50xf32>) dimensions = [0]
    %z = arith.addf %y, %spread : tensor<4x50xf32>
    %sum = arith.addf %z, %before : tensor<4x50xf32>
    scf.yield %sum : tensor<4x50xf32>
  }
  return %r : tensor<4x50xf32>
}
"""


@pytest.mark.parametrize(("weight", "is_inside"), [("w", False), ("other", True)])
def test_weights_are_packed_before_loops(tmp_path, weight, is_inside):
    """IREE computes once what constants and parameters give, but not what stands in a loop."""
    patterns = SPEC.partition("replace")[0]
    rule = "replace linear with gemm(x, pack[n k -> (n / 8) k 8](w), bias)"
    spec = write_spec(tmp_path, patterns + rule, {"kernels.c": CODE})
    module, report = opsplice.transform(LOOP.replace("WEIGHT", weight), [spec])
    assert len(report.replacements) == 1
    (pack,) = ops_in(module.operation, "linalg.pack")
    (loop,) = ops_in(module.operation, "scf.for")
    assert (loop in around(pack)) == is_inside


@pytest.mark.parametrize("rows", [512, 4096, 32768])
def test_what_iree_would_compute_in_each_call_is_left_alone(tmp_path, rows):
    """Constants that grow by more than 8 MB it leaves to the program: here bytes that become floats."""
    program = f"""
    util.global private @bytes = dense<3> : tensor<{rows}x128xi8>
    func.func @main(%x: tensor<4x128xf32>) -> tensor<4x{rows}xf32> {{
      %bytes = util.global.load @bytes : tensor<{rows}x128xi8>
      %w = arith.sitofp %bytes : tensor<{rows}x128xi8> to tensor<{rows}x128xf32>
      %none = arith.constant dense<0.0> : tensor<4x{rows}xf32>
      %y = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
                                          affine_map<(i, j, k) -> (i, j)>]
        ins(%x, %w : tensor<4x128xf32>, tensor<{rows}x128xf32>) outs(%none : tensor<4x{rows}xf32>)
        -> tensor<4x{rows}xf32>
      return %y : tensor<4x{rows}xf32>
    }}"""
    spec = """
    kernel rows(x: f32[m, k], w: f32[p, k, 8]) -> f32[m, n] { cpu "kernels.c" }
    pattern product(x: tensor<m x k x f32>, w: tensor<n x k x f32>) { contract[m k, n k -> m n](x, w) }
    replace product where weight(w) with rows(x, pack[n k -> (n / 8) k 8](w))
    """
    code = (
        "void rows(float *x, float *w, float *out, long m, long k, long p, long n) { out[m * n - 1] = x[k - 1] + p; }"
    )
    file = write_spec(tmp_path, spec, {"kernels.c": code})
    report = opsplice.match(program, [file])
    assert len(report.replacements) == (rows < 32768)
    if rows == 4096:
        own = opsplice.compile(program, [file], flags=["--iree-opt-const-expr-max-size-increase-threshold=1048576"])
        assert b"_pack" in own.vmfb
        assert b"_pack" not in opsplice.compile(program, [file]).vmfb
    reason = (
        "`pack[n k -> (n / 8) k 8](w)` is 12.0 MB larger than the weights in it, so IREE would compute it in each call"
    )
    assert [each.reason for each in report.kept] == [reason] * (rows == 32768)


def test_a_pattern_that_an_argument_uses_is_used(tmp_path):
    assert opsplice.lint(write_spec(tmp_path, SPEC, {"kernels.c": CODE})) == ()


NESTED = """
kernel inner(x: f32[n]) -> f32[n] { cpu "inner.c" }
kernel outer(x: f32[n]) -> f32[n] { cpu "outer.o" }
pattern p(x: tensor<n x f32>) { negf(exp(x)) }
replace p with outer(inner(x))
"""


def test_kernels_that_make_arguments_are_looked_at_as_others(tmp_path):
    """Their files have to be there, and are not built where nothing may be."""
    path = write_spec(tmp_path, NESTED, {"outer.o": ""})
    assert [d.code for d in opsplice.lint(path)] == ["missing-file"]
    with pytest.raises(opsplice.OpspliceError) as refused:
        opsplice.compile("module {}", [path], no_code=True)
    assert "inner is " in refused.value.details


NIBBLES = """
kernel add_nibbles(x: f32[n], w: i4[n]) -> f32[n] { cpu "nibbles.c" }
pattern low_bits<I in {i8, i32}>(x: tensor<n x f32>, w: tensor<n x I>) { addf(x, sitofp(andi(w, 15)) : f32) }
pattern own_type(x: tensor<n x f32>, w: tensor<n x i4>) { addf(x, uitofp(w) : f32) }
replace low_bits with add_nibbles(x, trunci(w) : i4)
replace own_type with add_nibbles(x, w)
"""
NIBBLES_CODE = """
#include <stddef.h>
void add_nibbles(const float *x, const unsigned char *w, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] + (i % 2 ? w[i / 2] >> 4 : w[i / 2] & 15);
}
"""


def _low_bits(name: str, size: int, element: str, arguments: str = "", before: str = "") -> str:
    kind, number = f"tensor<{size}x{element}>", f"tensor<{size}xf32>"
    masked = f"%mask = arith.constant dense<15> : {kind}\n%low = arith.andi %w, %mask : {kind}"
    op, low = ("sitofp", masked) if element != "i4" else ("uitofp", f"%low = tensor.cast %w : {kind} to {kind}")
    return f"""func.func @{name}(%x: {number}{arguments}) -> {number} {{
      {before}
      {low}
      %0 = arith.{op} %low : {kind} to {number}
      %1 = arith.addf %x, %0 : {number}
      return %1 : {number}
    }}
    """


NIBBLES_SHADER = """#version 450
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { uint8_t w[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint n; };
void main() {
  for (uint i = 0; i < n; ++i) result[i] = x[i] + float(uint(w[i / 2]) >> i % 2 * 4 & 15);
}
"""
NIBBLES_DISPATCH = """
#include "opsplice_dispatch.h"
int add_nibbles(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  const float *x = dispatch->bindings[0];
  const unsigned char *w = dispatch->bindings[1];
  float *out = dispatch->bindings[2];
  for (unsigned i = 0; i < dispatch->constants[0]; ++i) out[i] = x[i] + (w[i / 2] >> i % 2 * 4 & 15);
  return 0;
}
"""
NIBBLES_AS = {
    "function": ('cpu "nibbles.c"', "cpu", "local-task"),
    "dispatch": ('cpu "dispatch.c" as dispatch', "cpu", "local-task"),
    "shader": ('vulkan "nibbles.comp"', "vulkan:llvmpipe", "vulkan"),
}


@pytest.mark.parametrize("approach", NIBBLES_AS)
def test_numbers_of_four_bits_lie_in_pairs(tmp_path, request, approach):
    """Whatever type they are cut from; a type variable is cast to four bits in each of its types."""
    clause, target, device = NIBBLES_AS[approach]
    if approach == "shader":
        request.getfixturevalue("vulkan")
        if shaders.find("glslang") is None:
            pytest.skip(f"glslang is not installed ({shaders.HOW_TO_GET['glslang']})")
    program = "".join(
        [
            "util.global private @own_weights = dense<[0, 1, -1, -8, 7, 3, 2, 5]> : tensor<8xi4>\n",
            _low_bits("bytes", 38, "i8", ", %w: tensor<38xi8>"),
            _low_bits("words", 6, "i32", ", %w: tensor<6xi32>"),
            _low_bits("odd", 5, "i8", ", %w: tensor<5xi8>"),
            _low_bits("own", 8, "i4", "", "%w = util.global.load @own_weights : tensor<8xi4>"),
        ]
    )
    files = {"nibbles.c": NIBBLES_CODE, "dispatch.c": NIBBLES_DISPATCH, "nibbles.comp": NIBBLES_SHADER}
    path = write_spec(tmp_path, NIBBLES.replace('cpu "nibbles.c"', clause), files)
    compiled = opsplice.compile(program, [path], targets=[target])
    assert {r.function.lstrip("@") for r in compiled.report.replacements} == {"bytes", "words", "own"}
    (kept,) = compiled.report.kept
    assert kept.reason == "the size of a buffer of i4 is even and known when compiling"
    run = partial(compiled.run, device=device)
    w, x = np.arange(-19, 19).astype(np.int8), _normal(38)
    np.testing.assert_array_equal(run("bytes", x, w), x + (w & 15))
    words = np.int32([0, 1, 31, -2, 170, 15])
    np.testing.assert_array_equal(run("words", x[:6], words), x[:6] + np.float32([0, 1, 15, 14, 10, 15]))
    np.testing.assert_array_equal(run("own", x[:8]), x[:8] + np.float32([0, 1, 15, 8, 7, 3, 2, 5]))


def test_parameters_are_packed_once_when_the_program_is_loaded(tmp_path):
    spec = """
    kernel parts(a: f32[m, k], b: f32[p, k, 8]) -> f32[ceildiv(k, 16), m, p * 8] {
      grid (ceildiv(k, 16))
      cpu "split.c"
    }
    kernel total(parts: f32[s, m, o], bias: f32[n]) -> f32[m, n] { cpu "split.c" }
    pattern linear(x: tensor<m x k x f32>, w: tensor<k x n x f32>, bias: tensor<n x f32>) {
      addf(contract[m k, k n -> m n](x, w), broadcast[n -> m n](bias))
    }
    replace linear where weight(w) with total(parts(x, pack[k n -> (n / 8) k 8](w)), bias)
    """
    model = """
    util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<64x50xf32>
    func.func @main(%x: tensor<4x64xf32>, %b: tensor<50xf32>) -> tensor<4x50xf32> {
      %none = arith.constant 0.0 : f32
      %w = util.global.load @w : tensor<64x50xf32>
      %empty = tensor.empty() : tensor<4x50xf32>
      %start = linalg.fill ins(%none : f32) outs(%empty : tensor<4x50xf32>) -> tensor<4x50xf32>
      %y = linalg.matmul ins(%x, %w : tensor<4x64xf32>, tensor<64x50xf32>) outs(%start : tensor<4x50xf32>)
        -> tensor<4x50xf32>
      %spread = linalg.broadcast ins(%b : tensor<50xf32>) outs(%empty : tensor<4x50xf32>) dimensions = [0]
      %r = arith.addf %y, %spread : tensor<4x50xf32>
      return %r : tensor<4x50xf32>
    }"""
    made = opsplice.compile(model, [write_spec(tmp_path, spec, {"split.c": SPLIT_CODE})])
    assert [r.kernel for r in made.report.replacements] == ["total"]
    weights, x, b = _normal(64, 50), _normal(4, 64), _normal(50)
    program = dataclasses.replace(made, parameters=(Arrays({"w": weights}),))
    wanted = x @ weights + b
    np.testing.assert_allclose(program.run("main", x, b), wanted, rtol=1e-4, atol=1e-4)
    weights[:] = 0  # what was loaded is packed: the program looks at it no more
    np.testing.assert_allclose(program.run("main", x, b), wanted, rtol=1e-4, atol=1e-4)


PARTIAL = """
kernel shifted(x: f32[n], shift: f32[n] optional) -> f32[n] { cpu "shifted.c" }
kernel always(x: f32[n], shift: f32[n]) -> f32[n] { cpu "shifted.c" }
pattern p(x: tensor<n x f32>, shift: tensor<n x i32>) {
  e = exp(x)
  negf(e) | addf(negf(e), sitofp(shift) : f32)
}
pattern q(x: tensor<n x f32>, shift: tensor<n x i32>) {
  e = exp2(x)
  negf(e) | addf(negf(e), sitofp(shift) : f32)
}
pattern r(x: tensor<n x f32>, by: f32) {
  e = absf(x)
  negf(e) | mulf(negf(e), by)
}
replace p with shifted(x, negf(sitofp(shift) : f32))
replace r with shifted(x, mulf(x, by))
replace q with always(x, negf(sitofp(shift) : f32)) otherwise keep
"""
PARTIAL_CODE = """
#include <stddef.h>
void shifted(const float *x, const float *shift, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] - (shift ? shift[i] : 100);
}
"""


def _shifted(name: str, op: str, shifts: bool) -> str:
    given, sum_ = ", %shift: tensor<4xi32>", "%2 = arith.sitofp %shift : tensor<4xi32> to tensor<4xf32>"
    added = f"{sum_}\n  %3 = arith.addf %1, %2 : tensor<4xf32>\n  return %3" if shifts else "return %1"
    return f"""func.func @{name}(%x: tensor<4xf32>{given if shifts else ""}) -> tensor<4xf32> {{
  %0 = math.{op} %x : tensor<4xf32>
  %1 = arith.negf %0 : tensor<4xf32>
  {added} : tensor<4xf32>
}}
"""


def test_nothing_is_computed_from_what_a_match_lacks(tmp_path):
    """The kernel gets null where its buffer is optional; else the rule does not take the match."""
    path = write_spec(tmp_path, PARTIAL, {"shifted.c": PARTIAL_CODE})
    program = "".join([_shifted("has", "exp", True), _shifted("lacks", "exp", False), _shifted("needs", "exp2", False)])
    program += _shifted("plain", "absf", False) + _shifted("by", "absf", True).replace(
        ", %shift: tensor<4xi32>", ""
    ).replace(
        "%2 = arith.sitofp %shift : tensor<4xi32> to tensor<4xf32>", "%2 = arith.constant dense<3.0> : tensor<4xf32>"
    ).replace("addf", "mulf")
    compiled = opsplice.compile(program, [path])
    x, shift = np.arange(4, dtype=np.float32), np.array([3, -1, 0, 7], np.int32)
    np.testing.assert_array_equal(compiled.run("has", x, shift), x + shift)
    np.testing.assert_array_equal(compiled.run("lacks", x), x - 100)
    np.testing.assert_array_equal(compiled.run("plain", x), x - 100)
    np.testing.assert_array_equal(compiled.run("by", x), x - 3 * x)
    np.testing.assert_allclose(compiled.run("needs", x), -(2**x), rtol=1e-6)
    (kept,) = (each for each in compiled.report.kept if each.function == "needs")
    assert kept.reason == "it has no shift, and kernel always's buffer is not `optional`"


SCALED_SPEC = """
kernel scale(x: f32[m, n], gain: f32[]) -> f32[m, n] {
  cpu "scale.c"
}
pattern scaled(x: tensor<m x n x f32>, gain: f32 = 3.0) {
  y = mulf(x, gain)
  negf(y) | absf(x)
}
replace scaled with scale(x, gain)
"""
SCALED_C = """#include <stddef.h>
void scale(const float *x, const float *gain, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = 10 * *gain * x[i];
}
"""


def scaled(name: str, by: str = "", places: str = "", kind: str = "", factor: str = "%b") -> str:
    """x by a number, negated. by, places, kind: the tensor that the number is in, where it is in one."""
    maps = ["affine_map<(i, j) -> (i, j)>", *([f"affine_map<(i, j) -> ({places})>"] if by else [])]
    given, kinds, taken = (f", {each}" if by else "" for each in (by, kind, "%b: f32"))
    return f"""
  {name} = linalg.generic {{indexing_maps = [{", ".join([*maps, maps[0]])}], iterator_types = ["parallel", "parallel"]}}
      ins(%x{given} : tensor<2x5xf32>{kinds}) outs(%e : tensor<2x5xf32>) {{
  ^bb0(%a: f32{taken}, %o: f32):
    %p = arith.mulf %a, {factor} : f32
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }} -> tensor<2x5xf32>"""


RESULTS = ", ".join(["tensor<2x5xf32>"] * 5)
SCALED = f"""
func.func @main(%x: tensor<2x5xf32>, %in: tensor<f32>, %one: tensor<1x1xf32>, %bare: f32) -> ({RESULTS}) {{
  %e = tensor.empty() : tensor<2x5xf32>
  %c = arith.constant 7.0 : f32
  {scaled("%0", "%in", "", "tensor<f32>")}
  {scaled("%1", "%one", "0, 0", "tensor<1x1xf32>")}
  {scaled("%2", factor="%bare")}
  {scaled("%3", factor="%c")}
  %4 = math.absf %x : tensor<2x5xf32>
  return %0, %1, %2, %3, %4 : {RESULTS}
}}
"""


def test_a_scalar_for_a_buffer_without_dims(tmp_path: Path) -> None:
    """From tensors of one element, a scalar, a constant, and the pattern's own number where the match has none."""
    compiled = opsplice.compile(SCALED, [write_spec(tmp_path, SCALED_SPEC, {"scale.c": SCALED_C})])
    assert len(compiled.report.replacements) == 5
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    found = compiled.run("main", x, np.float32(0.5), np.full((1, 1), 2, np.float32), 4.0)
    for result, gain in zip(found, (0.5, 2, 4, 7, 3), strict=True):
        np.testing.assert_array_equal(result, 10 * gain * x)


EITHER = """
kernel either(x: f32[m, n], by: f32[m, n] optional) -> f32[m, n] {
  cpu "either.c"
}
pattern summed(x: tensor<m x n x f32>, shift: tensor<m x n x i32>, bias: tensor<m x n x f32>) {
  e = exp(x)
  addf(only(e), sitofp(shift) : f32) | mulf(only(e), bias) | e
}
replace summed with either(x, negf(sitofp(shift) : f32) | bias)
"""
EITHER_CODE = """#include <stddef.h>
void either(const float *x, const float *by, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = by ? x[i] + by[i] : x[i] - 100;
}
"""


def of_either(name: str, given: str, lines: str) -> str:
    return f"""
func.func @{name}(%x: tensor<2x3xf32>{given}) -> tensor<2x3xf32> {{
  %e = math.exp %x : tensor<2x3xf32>
  {lines}
}}"""


def test_what_a_match_has_is_passed_of_alternatives(tmp_path: Path) -> None:
    """A dense buffer is given what is dense, here what is cut out first."""
    shifted = "%f = arith.sitofp %s : tensor<2x3xi32> to tensor<2x3xf32>\n%r = arith.addf %e, %f : tensor<2x3xf32>"
    cut = """%t = tensor.extract_slice %b[0, 1] [2, 3] [1, 1] : tensor<2x6xf32> to tensor<2x3xf32>
  %r = arith.mulf %e, %t : tensor<2x3xf32>"""
    program = of_either("shift", ", %s: tensor<2x3xi32>", f"{shifted}\n  return %r : tensor<2x3xf32>")
    program += of_either("bias", ", %b: tensor<2x6xf32>", f"{cut}\n  return %r : tensor<2x3xf32>")
    program += of_either("none", "", "return %e : tensor<2x3xf32>")
    compiled = opsplice.compile(program, [write_spec(tmp_path, EITHER, {"either.c": EITHER_CODE})])
    assert len(compiled.report.replacements) == 3
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    bias = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    np.testing.assert_array_equal(compiled.run("shift", x, x.astype(np.int32) * 5), x - 5 * x)
    np.testing.assert_array_equal(compiled.run("bias", x, bias), x + bias[:, 1:4])
    np.testing.assert_array_equal(compiled.run("none", x), x - 100)

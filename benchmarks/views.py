"""Scores straight from a cache of keys, by strides, against the same kernel on copies and IREE's own code.

    python -m benchmarks.views

One query of 32 heads reads a cache of 1024 keys, whose 8 heads lie behind the keys and serve four heads of the query
each. A kernel that is told strides reads them there; a dense one needs them turned and repeated first. Times are the
processor's, of all threads, so that other work on the machine counts little.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import opsplice
from benchmarks.calling import CPU
from benchmarks.timing import header, paired

ROUNDS = 20
MODEL = """
func.func @step(%q: tensor<32x1x64xf32>, %cache: tensor<1024x8x64xf32>) -> tensor<32x1x1024xf32> {
  %turned_in = tensor.empty() : tensor<8x1024x64xf32>
  %turned = linalg.transpose ins(%cache : tensor<1024x8x64xf32>) outs(%turned_in : tensor<8x1024x64xf32>)
    permutation = [1, 0, 2]
  %repeated_in = tensor.empty() : tensor<8x4x1024x64xf32>
  %repeated = linalg.broadcast ins(%turned : tensor<8x1024x64xf32>) outs(%repeated_in : tensor<8x4x1024x64xf32>)
    dimensions = [1]
  %k = tensor.collapse_shape %repeated [[0, 1], [2], [3]] : tensor<8x4x1024x64xf32> into tensor<32x1024x64xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x1x1024xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x1x1024xf32>) -> tensor<32x1x1024xf32>
  %scores = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
    affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]
    ins(%q, %k : tensor<32x1x64xf32>, tensor<32x1024x64xf32>) outs(%start : tensor<32x1x1024xf32>)
    -> tensor<32x1x1024xf32>
  return %scores : tensor<32x1x1024xf32>
}
"""
SPEC = """
kernel scores(q: f32[...b, m, d]{word}, k: f32[...b, n, d]{word}) -> f32[...b, m, n]{word} {{
  grid (b)
  cpu "scores.c" as bitcode
}}
pattern p(q: tensor<...b x m x d x f32>, k: tensor<...b x n x d x f32>) {{
  contract[...b m d, ...b n d -> ...b m n](q, k)
}}
replace p with scores(q, k)
"""
CODE = """
#include <stddef.h>
void scores(const float *restrict q, const float *restrict k, float *restrict out, size_t b, size_t m, size_t d,
            size_t n,
#ifdef STRIDED
            size_t q_m, size_t q_d, size_t k_n, size_t k_d, size_t out_m, size_t out_n, size_t workgroup_x) {
#else
            size_t workgroup_x) {
  const size_t q_m = d, q_d = 1, k_n = d, k_d = 1, out_m = n, out_n = 1;
  q += workgroup_x * m * d, k += workgroup_x * n * d, out += workgroup_x * m * n;
#endif
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < d; ++l) sum += q[i * q_m + l * q_d] * k[j * k_n + l * k_d];
      out[i * out_m + j * out_n] = sum;
    }
}
"""


def main() -> None:
    random = np.random.default_rng(0)
    inputs = [random.normal(size=shape).astype(np.float32) for shape in ((32, 1, 64), (1024, 8, 64))]
    with tempfile.TemporaryDirectory() as name:
        strided = _compiled(Path(name) / "strided", " strided")
        dense = _compiled(Path(name) / "dense", "")
        plain = opsplice.compile(MODEL, [], [CPU])
    wanted = plain.run("step", *inputs)
    calls = [program.direct("step") for program in (strided, dense, plain)]
    for program in (strided, dense):
        np.testing.assert_allclose(program.run("step", *inputs), wanted, rtol=1e-4, atol=1e-4)
    print(header("scores from a cache, grouped heads", "strided", "against"))
    for other, what in ((calls[1], "the same kernel, on copies"), (calls[2], "IREE's own code")):
        taken = paired(lambda: calls[0](inputs), lambda other=other: other(inputs), ROUNDS, clock=time.process_time)
        print(taken.row(what, 1e-3, "ms"))


def _compiled(folder: Path, word: str) -> opsplice.Program:
    folder.mkdir()
    (folder / "scores.c").write_text(f"#define STRIDED\n{CODE}" if word else CODE)
    (folder / "scores.splice").write_text(SPEC.format(word=word))
    program = opsplice.compile(MODEL, [folder / "scores.splice"], [CPU])
    assert len(program.report.replacements) == 1, program.report
    return program


if __name__ == "__main__":
    main()

"""`argmax` and `argmin` of the library: as frontends write them, along any dim, of any type, and what is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.rewrites.conftest import write_spec

KERNEL_C = """
#include <stddef.h>
#include <stdint.h>
#define FIRST(name, type, place, op)                                                                  \\
  void name(const type *x, place *at, size_t m, size_t n, size_t x_n, size_t workgroup) {             \\
    size_t best = 0;                                                                                  \\
    for (size_t j = 1; j < n; ++j)                                                                    \\
      if (x[j * x_n] op x[best * x_n]) best = j;                                                      \\
    *at = (place)best;                                                                                \\
  }
FIRST(largest_f32_i32, float, int32_t, >)
FIRST(largest_f32_i64, float, int64_t, >)
FIRST(largest_i32_i32, int32_t, int32_t, >)
FIRST(smallest_f32_i32, float, int32_t, <)
"""
SPEC = """
import "opsplice:nn"

kernel largest<T in {f32, i32}, I in {i32, i64}>(x: T[...m, n] strided) -> I[...m] strided {
  grid (m)
  symbol "largest_{T}_{I}"
  cpu "k.c"
}

kernel smallest<T in {f32}, I in {i32}>(x: T[...m, n] strided) -> I[...m] strided {
  grid (m)
  symbol "smallest_{T}_{I}"
  cpu "k.c"
}

replace argmax with largest(x)
replace argmin with smallest(x)
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> Path:
    return write_spec(tmp_path_factory.mktemp("argmax"), SPEC, {"k.c": KERNEL_C})


def values() -> np.ndarray:
    """With many equal elements, so that which of them comes first matters."""
    return np.random.default_rng(5).integers(-3, 4, (4, 5, 32)).astype(np.float32)


def check(program: opsplice.Program, function: str, wanted: list[np.ndarray]) -> None:
    found = [each.pattern for each in program.report.replacements]
    assert (found.count("argmax"), found.count("argmin")) == (len(wanted) - 1, 1), program.report
    for got, exact in zip(program.run(function, values()), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), exact)


def test_places_of_pytorch(spec):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Places(torch.nn.Module):
        def forward(self, x):
            return x.argmax(-1), x.argmax(1), x.argmax(), x.max(1).indices, x.int().argmax(-1), x.argmin(0)

    program = opsplice_torch.export(Places().eval(), (torch.zeros(4, 5, 32),), specs=[spec])
    x = values()
    check(program, "main", [x.argmax(-1), x.argmax(1), x.argmax(), x.argmax(1), x.argmax(-1), x.argmin(0)])


def test_places_of_jax(spec):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")

    def places(x):
        jnp = jax.numpy
        return jnp.argmax(x, -1), jnp.argmax(x, 0), jnp.argmax(x), jnp.argmax(x.astype(int), 1), jnp.argmin(x, 1)

    program = opsplice.compile(jax.export.export(jax.jit(places))(np.zeros((4, 5, 32), np.float32)), [spec])
    x = values()
    check(program, "main", [x.argmax(-1), x.argmax(0), x.argmax(), x.argmax(1), x.argmin(1)])


GENERIC = """
func.func @f(%x: tensor<4x32xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%low : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.empty() : tensor<4xi64>
  %3 = linalg.fill ins(%zero : i64) outs(%2 : tensor<4xi64>) -> tensor<4xi64>
  %4:2 = linalg.generic {
    indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<4x32xf32>) outs(%1, %3 : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%new: f32, %best: f32, %at: i64):
    %column = linalg.index 1 : index
    %here = arith.index_cast %column : index to i64
    %more = arith.cmpf ogt, %new, %best : f32
    %e = arith.maximumf %new, %best : f32
    %p = arith.select %more, %here, %at : i64
    linalg.yield %e, %p : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %4#0, %4#1 : tensor<4xf32>, tensor<4xi64>
}
"""
CHANGES = {
    "as it is": ("", "", {"argmax"}),
    "the other way round": ("ogt, %new, %best", "olt, %best, %new", {"argmax"}),
    "what is unordered is larger": ("ogt, %new, %best", "ugt, %new, %best", {"argmax"}),
    "kept where it is not more": (
        "ogt, %new, %best : f32\n    %e = arith.maximumf %new, %best : f32\n    %p = arith.select %more, %here, %at",
        "ule, %new, %best : f32\n    %e = arith.select %more, %best, %new : f32\n"
        "    %p = arith.select %more, %at, %here",
        {"argmax"},
    ),
    "starts at the lowest number": ("0xFF800000", "0xFF7FFFFF", {"argmax"}),
    "the last of several": ("ogt, %new", "oge, %new", set()),
    "where another is smallest": ("ogt, %new", "olt, %new", set()),
    "the place of another row": ("linalg.index 1", "linalg.index 0", set()),
    "starts at one": ("constant 0 : i64", "constant 1 : i64", set()),
    "starts at a number": ("0xFF800000", "0.0", set()),
    "of what is computed": ("arith.maximumf %new, %best", "arith.addf %new, %best", set()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_bodies_are_told_by_what_they_compute(name, tmp_path, spec):
    old, new, wanted = CHANGES[name]
    assert old in GENERIC
    (tmp_path / "model.mlir").write_text(GENERIC.replace(old, new) if old else GENERIC)
    report = opsplice.match(tmp_path / "model.mlir", [spec])
    assert {each.pattern for each in report.replacements} == wanted

"""Commands whose buffers are strided or may be left out: arrays in the memory of what the program has."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from tests.rewrites.conftest import tvm_library, write_spec

# Heads behind the places, q and k cut out of one projection, two query heads for each head of keys, and the scores in
# an order of their own.
MODEL = """
func.func @scores(%x: tensor<BxMx48xf32>) -> tensor<Mx4xBxMxf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<BxMx48xf32>
  %m = tensor.dim %x, %c1 : tensor<BxMx48xf32>
  %q0 = tensor.extract_slice %x[0, 0, 0][BS, MS, 32][1, 1, 1] : tensor<BxMx48xf32> to tensor<BxMx32xf32>
  %k0 = tensor.extract_slice %x[0, 0, 32][BS, MS, 16][1, 1, 1] : tensor<BxMx48xf32> to tensor<BxMx16xf32>
  %q = tensor.expand_shape %q0 [[0], [1], [2, 3, 4]] output_shape [BS, MS, 2, 2, 8]
      : tensor<BxMx32xf32> into tensor<BxMx2x2x8xf32>
  %k = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [BS, MS, 2, 8]
      : tensor<BxMx16xf32> into tensor<BxMx2x8xf32>
  %e = tensor.empty(EMPTY) : tensor<Bx2x2xMxMxf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<Bx2x2xMxMxf32>) -> tensor<Bx2x2xMxMxf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, h, g, i, j, d) -> (b, i, h, g, d)>,
      affine_map<(b, h, g, i, j, d) -> (b, j, h, d)>, affine_map<(b, h, g, i, j, d) -> (b, h, g, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<BxMx2x2x8xf32>, tensor<BxMx2x8xf32>) outs(%f : tensor<Bx2x2xMxMxf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<Bx2x2xMxMxf32>
  %h = tensor.collapse_shape %s [[0], [1, 2], [3], [4]] : tensor<Bx2x2xMxMxf32> into tensor<Bx4xMxMxf32>
  %te = tensor.empty(TURNED) : tensor<Mx4xBxMxf32>
  %r = linalg.transpose ins(%h : tensor<Bx4xMxMxf32>) outs(%te : tensor<Mx4xBxMxf32>) permutation = [2, 1, 0, 3]
  return %r : tensor<Mx4xBxMxf32>
}
"""
SPEC = """
kernel scores(q: f32[...b, m, d] strided, k: f32[...b, n, d] strided) -> f32[...b, m, n] strided {
  cpu "host.py" as command
}
pattern product(q: tensor<...b x m x d x f32>, k: tensor<...b x n x d x f32>) {
  contract[...b m d, ...b n d -> ...b m n](q, k)
}
replace product with scores(q, k)
"""
CODE = """
import numpy as np

def scores(q, k, out):
  assert q.base is not None and not q.flags.writeable and q.strides[-1] == 4
  assert q.shape[:-2] == k.shape[:-2] == out.shape[:-2], (q.shape, k.shape, out.shape)
  assert 0 in k.strides, "query heads share one of keys"
  assert out.strides[-1] == 4 and out.strides[-2] > out.strides[0]
  np.matmul(q, k.swapaxes(-1, -2), out=out)
"""


def model(b: str, m: str) -> str:
    """The model, with sizes of batch and places; `?` for one that is known at run time only."""
    sizes = {"B": b, "M": m, "BS": "%b" if b == "?" else b, "MS": "%m" if m == "?" else m}
    open_sizes = [name for name, size in (("%b", b), ("%m", m), ("%m", m)) if size == "?"]
    turned = [name for name, size in (("%m", m), ("%b", b), ("%m", m)) if size == "?"]
    text = MODEL.replace("EMPTY", ", ".join(open_sizes)).replace("TURNED", ", ".join(turned))
    for name in ("BS", "MS"):
        text = text.replace(f"[{name}", f"[{sizes[name]}").replace(f" {name}", f" {sizes[name]}")
    return text.replace("BxMx", f"{b}x{m}x").replace("Bx", f"{b}x").replace("Mx", f"{m}x").replace("xBx", f"x{b}x")


def expected(x: np.ndarray) -> np.ndarray:
    b, m, _ = x.shape
    q, k = x[..., :32].reshape(b, m, 2, 2, 8), x[..., 32:].reshape(b, m, 2, 8)
    return np.einsum("bihgd,bjhd->ihgbj", q, k).reshape(m, 4, b, m)


@pytest.mark.parametrize(("b", "m"), [("3", "5"), ("?", "5"), ("?", "?")])
def test_arrays_lie_in_the_programs_memory(tmp_path, b, m):
    text = model(b, m)
    program = opsplice.compile(text, [write_spec(tmp_path, SPEC, {"host.py": CODE})])
    (replaced,) = program.report.replacements
    assert replaced.action == "command"
    assert "q reads [:, :, :32] of tensor" in "\n".join(replaced.views)
    x = np.random.default_rng(0).standard_normal((3, 5, 48), np.float32)
    np.testing.assert_allclose(program.run("scores", x), expected(x), rtol=1e-5, atol=1e-5)
    if b == "?":
        x = x[:1]
        np.testing.assert_allclose(program.run("scores", x), expected(x), rtol=1e-5, atol=1e-5)


def test_nothing_is_copied(tmp_path):
    program = opsplice.compile(model("3", "5"), [write_spec(tmp_path, SPEC, {"host.py": CODE})])
    assert program.report.replacements
    assert b"dispatch" not in program.vmfb


OPTIONAL = """
kernel plus(x: f32[m, n], bias: f32[n] optional, scale: f32) -> f32[m, n] { cpu "host.py" as command }
pattern p(x: tensor<m x n x f32>, bias: tensor<n x f32>, scale: f32 = 1.0) {
  negf(mulf?(addf?(x, broadcast[n -> m n](bias)), scale))
}
replace p with plus(x, bias, scale)
"""
WITH_AND_WITHOUT = """
func.func @without(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = arith.negf %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func @with(%x: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %w = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<2x3xf32>) dimensions = [0]
  %s = arith.addf %x, %w : tensor<2x3xf32>
  %r = arith.negf %s : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
"""


def test_a_part_that_is_not_there_is_none(pairs):
    code = "def plus(x, bias, scale, out):\n  out[...] = -(x if bias is None else x + bias) * scale\n"
    made = pairs(WITH_AND_WITHOUT, OPTIONAL, {"host.py": code})
    assert made.replaced == 2
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made.run("without", x)
    made.run("with", x, np.arange(3, dtype=np.float32))


def test_one_element_that_is_repeated(tmp_path):
    """An array may have as many elements as its memory, and not be that memory."""
    text = """
    func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %one = tensor.extract_slice %x[2][1][1] : tensor<4xf32> to tensor<1xf32>
      %two = tensor.collapse_shape %one [] : tensor<1xf32> into tensor<f32>
      %e = tensor.empty() : tensor<4xf32>
      %w = linalg.broadcast ins(%two : tensor<f32>) outs(%e : tensor<4xf32>) dimensions = [0]
      %r = arith.mulf %w, %y : tensor<4xf32>
      return %r : tensor<4xf32>
    }
    """
    spec = """
    kernel times(x: f32[n] strided, y: f32[n]) -> f32[n] { cpu "host.py" as command }
    pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { mulf(x, y) }
    replace p with times(x, y)
    """
    code = "def times(x, y, out):\n  out[...] = x * y\n"
    program = opsplice.compile(text, [write_spec(tmp_path, spec, {"host.py": code})])
    assert program.report.replacements
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + 1
    np.testing.assert_array_equal(program.run("f", x, y), x[2] * y)


LIBRARY = """
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

void turned(ffi::TensorView x, ffi::TensorView out) {
  const float *given = static_cast<const float *>(x.data_ptr());
  float *made = static_cast<float *>(out.data_ptr());
  if (x.stride(1) == 1) TVM_FFI_THROW(ValueError) << "columns lie side by side";
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < x.size(1); ++j)
      made[i * out.stride(0) + j * out.stride(1)] = -given[i * x.stride(0) + j * x.stride(1)];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(turned, turned);
"""


def test_tensors_of_a_library_have_strides(tmp_path_factory):
    """`tvm_library` skips where the package or a compiler is not there."""
    folder = tmp_path_factory.mktemp("tvm")
    library = tvm_library(folder, LIBRARY)
    text = """
    func.func @f(%x: tensor<3x?xf32>) -> tensor<?x2xf32> {
      %c1 = arith.constant 1 : index
      %n = tensor.dim %x, %c1 : tensor<3x?xf32>
      %rows = tensor.extract_slice %x[1, 0][2, %n][1, 1] : tensor<3x?xf32> to tensor<2x?xf32>
      %e = tensor.empty(%n) : tensor<?x2xf32>
      %t = linalg.transpose ins(%rows : tensor<2x?xf32>) outs(%e : tensor<?x2xf32>) permutation = [1, 0]
      %r = arith.negf %t : tensor<?x2xf32>
      return %r : tensor<?x2xf32>
    }
    """
    spec = """
    kernel turned(x: f32[m, n] strided) -> f32[m, n] strided { cpu "library.so" as command }
    pattern p(x: tensor<m x n x f32>) { negf(x) }
    replace p with turned(x)
    """
    program = opsplice.compile(text, [write_spec(folder, spec, {})])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(program.run("f", x), -x[1:].T)
    loaded = opsplice.load(program.vmfb, commands=[f"library={library}"])
    np.testing.assert_array_equal(loaded.run("f", x), -x[1:].T)

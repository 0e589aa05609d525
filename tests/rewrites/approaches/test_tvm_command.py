"""Commands in a library with TVM's interface, built with the tools of `apache-tvm-ffi`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from tests.rewrites.conftest import tvm_library, write_spec

CODE = """
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

void scale(ffi::TensorView x, double factor, ffi::TensorView out) {
  if (x.ndim() != 2 || x.size(1) != out.size(1)) TVM_FFI_THROW(ValueError) << "wrong shapes";
  if (x.size(0) == 1) TVM_FFI_THROW(ValueError) << "one row is too few";
  const float *given = static_cast<const float *>(x.data_ptr());
  float *made = static_cast<float *>(out.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) made[i] = given[i] * factor;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);

void add(ffi::TensorView x, ffi::TensorView y) {
  int16_t *sum = static_cast<int16_t *>(x.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) sum[i] += static_cast<int16_t *>(y.data_ptr())[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
"""
MODEL = """
func.func @scale(%x: tensor<?x?xf32>, %s: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %splat = tensor.splat %s[%m, %n] : tensor<?x?xf32>
  %r = arith.mulf %x, %splat : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @add(%x: tensor<5xi16>, %y: tensor<5xi16>) -> tensor<5xi16> {
  %r = arith.addi %x, %y : tensor<5xi16>
  return %r : tensor<5xi16>
}
"""
SPEC = """
kernel scale(x: f32[m, n], factor: f32) -> f32[m, n] { cpu "library.so" as command }
pattern scaled(x: tensor<m x n x f32>, factor: f32) { mulf(x, factor) }
replace scaled with scale(x, factor)

kernel add(x: i16[n], y: i16[n]) -> x { cpu "library.so" as command }
pattern sum(x: tensor<n x i16>, y: tensor<n x i16>) { addi(x, y) }
replace sum with add(x, y)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return tvm_library(tmp_path_factory.mktemp("tvm"), CODE)


def test_a_library_computes_in_a_program(tmp_path, library):
    shutil.copy(library, tmp_path)
    program = opsplice.compile(MODEL, [write_spec(tmp_path, SPEC, {})])
    assert [r.action for r in program.report.replacements] == ["command", "command"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(program.run("scale", x, 2.5), x * np.float32(2.5))
    a, b = np.arange(5, dtype=np.int16), np.full(5, 7, np.int16)
    np.testing.assert_array_equal(program.run("add", a, b), a + b)
    assert a[0] == 0
    with pytest.raises(OpspliceError, match=r"the command 'library\.scale' failed: ValueError: one row is too few"):
        program.run("scale", x[:1], 2.5)
    loaded = opsplice.load(program.vmfb, commands=[f"library={library}"])
    np.testing.assert_array_equal(loaded.run("scale", x, 2.0), x * 2)


def test_a_function_that_the_library_lacks(tmp_path, library):
    shutil.copy(library, tmp_path)
    spec = write_spec(
        tmp_path, SPEC.replace("kernel scale", "kernel scales").replace("with scale(", "with scales("), {}
    )
    with pytest.raises(OpspliceError, match=r"has no function 'scales' with TVM's interface") as failure:
        opsplice.compile(MODEL, [spec])
    assert failure.value.hint == "it has add, scale"

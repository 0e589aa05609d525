"""Functions that Numba compiles as kernels: what they are called with, what they compute, and what is refused."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.rewrites.plan.generation import Request
from tests.rewrites.conftest import write_spec

pytest.importorskip("numba")
import numba

from opsplice.generating import numba_code

MODEL = """
func.func @softmax(%x: tensor<?x?xf32>, %s: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %splat = tensor.splat %s[%m, %n] : tensor<?x?xf32>
  %y = arith.mulf %x, %splat : tensor<?x?xf32>
  %r = linalg.softmax dimension(1) ins(%y : tensor<?x?xf32>) outs(%x : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @add(%x: tensor<4x3xi32>, %y: tensor<4x3xi32>) -> tensor<4x3xi32> {
  %r = arith.addi %x, %y : tensor<4x3xi32>
  return %r : tensor<4x3xi32>
}
func.func @subtract(%x: tensor<4x3xi32>, %y: tensor<4x3xi32>) -> tensor<4x3xi32> {
  %r = arith.subi %x, %y : tensor<4x3xi32>
  return %r : tensor<4x3xi32>
}
"""
SPEC = """
kernel softmax(x: f32[...m, n], scale: f32) -> f32[...m, n] { grid (m) cpu "k.py" as generated }
pattern softmaxes(x: tensor<...m x n x f32>, scale: f32) {
  s = mulf(x, scale)
  e = exp(subf(s, broadcast[...m -> ...m n](reduce maximumf[...m n -> ...m](s))))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}
replace softmaxes with softmax(x, scale)

kernel add(x: i32[...m, n], y: i32[...m, n]) -> x { cpu "k.py" as generated }
pattern sum(x: tensor<...m x n x i32>, y: tensor<...m x n x i32>) { addi(x, y) }
replace sum with add(x, y)

kernel subtract(x: i32[m, n], y: i32[m, n]) -> i32[m, n] { grid (m) cpu "k.py" as generated }
pattern difference(x: tensor<m x n x i32>, y: tensor<m x n x i32>) { subi(x, y) }
replace difference with subtract(x, y)
"""
CODE = """
import math

import numba

from opsplice.generating import numba_code


def softmax(x, scale, out, row):
    peak = -math.inf
    for value in x[row]:
        peak = max(peak, value * scale)
    total = 0.0
    for i in range(x.shape[1]):
        out[row, i] = math.exp(x[row, i] * scale - peak)
        total += out[row, i]
    for i in range(x.shape[1]):
        out[row, i] /= total


@numba.njit
def added(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] += y[i, j] * (1 if x.shape == (4, 3) else 100)


I, N = numba.types.CPointer(numba.int32), numba.uint64


@numba.cfunc(numba.void(I, I, I, N, N, N))
def subtracted(x, y, out, m, n, row):
    for i in range(row * n, (row + 1) * n):
        out[i] = x[i] - y[i]


def generate(request):
    functions = {"softmax": softmax, "add": added, "subtract": subtracted}
    return numba_code.compiled(functions[request.kernel], request)
"""


def test_numbas_functions_compute_in_a_program(tmp_path):
    program = opsplice.compile(MODEL, [write_spec(tmp_path, SPEC, {"k.py": CODE})])
    assert [r.kernel for r in program.report.replacements] == ["softmax", "add", "subtract"]
    x = np.random.default_rng(0).standard_normal((5, 7), np.float32)
    e = np.exp(x * 2.5 - np.max(x * 2.5, axis=1, keepdims=True))
    np.testing.assert_allclose(program.run("softmax", x, 2.5), e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)
    a, b = np.arange(12, dtype=np.int32).reshape(4, 3), np.full((4, 3), 7, np.int32)
    assert (program.run("add", a, b) == a + b).all()
    assert (program.run("subtract", a, b) == a - b).all()
    assert a[0, 0] == 0


STRIDED = """
import numba

from opsplice.generating import numba_code

X, N = numba.types.CPointer(numba.float32), numba.types.intp


@numba.cfunc(numba.void(X, X, X, N, N, N, N, N, N, N, N, N))
def moved(x, by, out, b, m, n, x_m, x_n, by_n, out_m, out_n, batch):
    for i in range(m):
        for j in range(n):
            out[i * out_m + j * out_n] = -x[i * x_m + j * x_n] - (by[j * by_n] if by_n else 0)


def generate(request):
    return numba_code.compiled(moved, request)
"""


def test_a_cfunc_gets_strides_and_null_pointers(tmp_path):
    spec = """
kernel moved(x: f32[...b, m, n] strided, by: f32[n] strided optional) -> f32[...b, m, n] strided {
  grid (b)
  cpu "k.py" as generated
}
pattern p(x: tensor<...b x m x n x f32>, by: tensor<n x f32>) {
  negf(addf?(x, broadcast[n -> ...b m n](by)))
}
replace p with moved(x, by)
"""
    model = """
func.func @plain(%given: tensor<2x5x6xf32>) -> tensor<2x6x5xf32> {
  %e = tensor.empty() : tensor<2x6x5xf32>
  %t = linalg.transpose ins(%given : tensor<2x5x6xf32>) outs(%e : tensor<2x6x5xf32>) permutation = [0, 2, 1]
  %r = arith.negf %t : tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}
func.func @added(%x: tensor<2x6x5xf32>, %by: tensor<5xf32>) -> tensor<2x6x5xf32> {
  %e = tensor.empty() : tensor<2x6x5xf32>
  %wide = linalg.broadcast ins(%by : tensor<5xf32>) outs(%e : tensor<2x6x5xf32>) dimensions = [0, 1]
  %s = arith.addf %x, %wide : tensor<2x6x5xf32>
  %r = arith.negf %s : tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}
"""
    program = opsplice.compile(model, [write_spec(tmp_path, spec, {"k.py": STRIDED})])
    assert [r.kernel for r in program.report.replacements] == ["moved", "moved"]
    x, by = np.arange(60, dtype=np.float32).reshape(2, 5, 6), np.arange(5, dtype=np.float32)
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    assert np.array_equal(program.run("plain", x), -turned)
    assert np.array_equal(program.run("added", turned, by), -(turned + by))


REQUEST = Request(
    name="k_1", kernel="k", dims={"m": 3, "n": None}, types={}, elements=("f32", "i8", "f32"), numbers={}, layout={},
    buffers=(), words=(), grid=("m",), workgroup=(), target="cpu", shapes=(("m", "n"), None, ("m", "4")),
)  # fmt: skip


def test_what_a_function_is_called_with():
    def fill(x, number, out, row):
        if number == 9:
            raise ValueError
        out[row, 0] = x.shape[0]

    code = numba_code.compiled(fill, REQUEST)
    text = code.text
    assert code.suffix == ".ll"
    assert re.search(r"^define void @k_1\(ptr [^,]+, i32 %1, ptr [^,]+, i64 %3, i64 %4, i64 %5\)", text, re.MULTILINE)
    assert "call void @llvm.trap()" in text  # where it raises
    assert "cfunc" not in text


def allocates(x, number, out, row):
    out[row, 0] = (x[row] + x[row])[0]


def loops(x, number, out, row):
    out[row, 0] = number


def lacks_a_name(x, number, out, row):
    out[row, 0] = unheard_of(x)  # noqa: F821


WORDS = (("t", "i32"), ("n", "i32"))
CUDA = {"target": "cuda", "arch": "sm_80", "buffers": (("x", "f32"), ("out", "f32")), "words": WORDS}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "NameError: name 'unheard_of' is not defined"),
        (CUDA, "Signature mismatch: 3 argument types given, but function takes 4 arguments"),
    ],
)
def test_what_numba_does_not_compile_is_told_without_numbas_own_names(changes, said):
    request = dataclasses.replace(REQUEST, **changes)
    with pytest.raises(OpspliceError) as caught:
        numba_code.compiled(lacks_a_name, request)
    assert caught.value.message == f"Numba does not compile lacks_a_name: {said}"
    assert "nopython" not in (caught.value.details or "")
    with pytest.raises(OpspliceError, match=r"does not compile loops: .*fast_math"):
        numba_code.compiled(loops, REQUEST, fast_math=True)


@pytest.mark.parametrize(
    ("function", "changes", "message"),
    [
        (allocates, {}, "the function needs NRT_.* from Python's runtime, which a kernel does not have"),
        (numba.cfunc("void(int64)")(lambda x: None), {}, "the cfunc is .int64,. -> none, and the kernel needs"),
        (loops, {"target": "rocm"}, "become kernels for cpu and cuda, and this is for rocm"),
        (loops, {"target": "cuda", "words": (("t", "i64"), ("t", "i64"))}, "kernels for cuda take no i64: t"),
        (loops, {"target": "cuda", "buffers": (("x", "f16"),)}, "kernels for cuda take no f16: x"),
        (
            loops,
            {"layout": {"stride(x, n)": 1}},
            "Numba's arrays are dense, and this kernel has strided or optional",
        ),
        (loops, {"elements": ("bf16", "i8", "f32")}, "Numba has no bf16 on a CPU"),
    ],
)
def test_what_is_refused(function, changes, message):
    with pytest.raises(OpspliceError, match=message):
        numba_code.compiled(function, dataclasses.replace(REQUEST, **changes))


CUDA_SPEC = """
kernel softmax(x: f32[...m, n], scale: f32) -> f32[...m, n] {
  grid (m)
  workgroup (64)
  cuda "generate.py" as generated
}
""" + SPEC[SPEC.index("pattern softmaxes") : SPEC.index("kernel add")]
CUDA_KERNEL = """
import math

from numba import cuda, float32


@cuda.jit(device=True)
def combined(parts, own, largest):
    at = cuda.threadIdx.x
    cuda.syncthreads()
    parts[at] = own
    half = 32
    while half:
        cuda.syncthreads()
        if at < half:
            own, other = parts[at], parts[at + half]
            parts[at] = own + other if not largest else own if own > other else other
        half //= 2
    cuda.syncthreads()
    return parts[0]


@cuda.jit
def softmax(x, scale, out):
    parts = cuda.shared.array(64, float32)
    row, peak, total = cuda.blockIdx.x, -math.inf, 0.0
    for i in range(cuda.threadIdx.x, x.shape[1], 64):
        peak = x[row, i] * scale if x[row, i] * scale > peak else peak
    peak = combined(parts, peak, True)
    for i in range(cuda.threadIdx.x, x.shape[1], 64):
        out[row, i] = math.exp(x[row, i] * scale - peak)
        total += out[row, i]
    total = combined(parts, total, False)
    for i in range(cuda.threadIdx.x, x.shape[1], 64):
        out[row, i] /= total
"""
GENERATE = """
from kernel import softmax

from opsplice.generating import numba_code


def generate(request):
    return numba_code.compiled(softmax, request)
"""


def test_what_numba_makes_for_cuda_is_in_a_program(tmp_path):
    """It is assembled, and its numbers are those of Numba's simulator; nothing here runs the code itself."""
    from numba.cuda.cudadrv import nvvm

    if not nvvm.is_available():
        pytest.skip("Numba finds no NVVM: install NVIDIA's CUDA toolkit")
    spec = write_spec(tmp_path, CUDA_SPEC, {"kernel.py": CUDA_KERNEL, "generate.py": GENERATE})
    program = opsplice.compile(MODEL, [spec], targets=["cuda:sm_80"])
    assert [r.kernel for r in program.report.replacements] == ["softmax"]
    (entry,) = re.findall(rb"\.entry (softmax_\w+)\(([^)]*)\)", program.vmfb)
    assert re.findall(rb"\.param \.(\w+)", entry[1]) == [b"u64", b"u64", b"f32", b"u32", b"u32"]
    script = """if True:
        import numpy as np
        from kernel import softmax
        x, out = np.random.default_rng(0).standard_normal((3, 100), np.float32), np.empty((3, 100), np.float32)
        softmax[3, 64](x, 2.5, out)
        e = np.exp(x.astype(float) * 2.5)
        np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    """
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)

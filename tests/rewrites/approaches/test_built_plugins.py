"""Plugins that a run builds of the kernels' files: with a BLAS library, the C library's mathematics and OpenMP."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.arch import host_arch
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import toolchains
from opsplice.targets.plugins import plugin_build
from opsplice.targets.plugins.plugin_source import SIZE, Argument, Function
from tests.environment import under

MODEL = """
func.func @product(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x5xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x5xf32>) -> tensor<3x5xf32>
  %r = linalg.matmul ins(%a, %b : tensor<3x4xf32>, tensor<4x5xf32>) outs(%filled : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}
func.func @erf(%x: tensor<6xf32>) -> tensor<6xf32> {
  %r = math.erf %x : tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func @threads(%x: tensor<6xf32>) -> tensor<6xf32> {
  %r = math.cbrt %x : tensor<6xf32>
  return %r : tensor<6xf32>
}
"""
SPEC = """
kernel sgemm(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { cpu "sgemm.c" as plugin links "LIBRARY" }
pattern product(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { contract[mk, kn -> mn](a, b) }
replace product with sgemm(a, b)

kernel erfs(x: f32[n]) -> f32[n] { cpu "erfs.c" as plugin }
pattern erf_of(x: tensor<n x f32>) { erf(x) }
replace erf_of with erfs(x)

kernel threads(x: f32[n]) -> f32[n] { cpu "threads.c" as plugin flags "-fopenmp" }
pattern cbrt_of(x: tensor<n x f32>) { cbrt(x) }
replace cbrt_of with threads(x)
"""
# As numpy's own copy of OpenBLAS calls it.
SGEMM = """
#include <stddef.h>
#include <stdint.h>
void scipy_cblas_sgemm64_(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                          int64_t, float, float *, int64_t);
void sgemm(const float *a, const float *b, float *out, size_t m, size_t k, size_t n) {
  scipy_cblas_sgemm64_(101, 111, 111, m, n, k, 1, a, k, b, n, 0, out, n);
}
"""
ERFS = """
#include <math.h>
#include <stddef.h>
void erfs(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = erff(x[i]); }
"""
THREADS = """
#include <omp.h>
#include <stddef.h>
void threads(const float *x, float *out, size_t n) {
#pragma omp parallel for num_threads(2)
  for (size_t i = 0; i < n; ++i) out[i] = omp_get_num_threads();
}
"""

needs_gcc = pytest.mark.skipif(toolchains.find("gcc") is None, reason="OpenMP needs gcc here: apt-get install gcc")


def blas() -> Path:
    """numpy's copy of OpenBLAS."""
    found = list((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*.so"))
    if not found:
        pytest.skip("numpy brings no OpenBLAS here")
    return found[0]


@needs_gcc
def test_a_program_gets_the_plugin_that_its_spec_names(tmp_path):
    spec = tmp_path / "spec.splice"
    spec.write_text(SPEC.replace("LIBRARY", str(blas())))
    for name, text in {"sgemm.c": SGEMM, "erfs.c": ERFS, "threads.c": THREADS}.items():
        (tmp_path / name).write_text(text)
    program = opsplice.compile(MODEL, [spec])
    assert [r.action for r in program.report.replacements] == ["dynamic function"] * 3
    random = np.random.default_rng(0)
    a, b, x = (random.standard_normal(shape, np.float32) for shape in ((3, 4), (4, 5), (6,)))
    np.testing.assert_allclose(program.run("product", a, b), a @ b, rtol=1e-5, atol=1e-6)
    assert program.run("erf", np.float32([0, 1, -1, 9, -9, 0.5])).tolist() == pytest.approx(
        [0, 0.8427008, -0.8427008, 1, -1, 0.5204999]
    )
    assert program.run("threads", x).tolist() == [2] * 6
    with pytest.raises(OpspliceError, match="imports 'erfs', 'sgemm', 'threads' from a plugin, and none is given"):
        opsplice.load(program.vmfb).run("erf", x)
    (tmp_path / "erfs.c").write_text("#include <nowhere.h>\n")
    again = opsplice.compile(MODEL, [spec])
    with pytest.raises(OpspliceError, match=r"cannot compile erfs\.c") as failure:
        again.run("erf", x)
    assert failure.value.hint == 'install what has <nowhere.h>, or name its folder: flags "-I FOLDER"'


def build(path: Path, flags: tuple[str, ...], compiler: str, links: tuple[Path, ...] = ()) -> plugin_build.Built:
    function = Function(path.stem, (Argument("f32", True, True), Argument("f32", True), SIZE))
    source = plugin_build.Source(path, flags, lambda _: [function], links)
    return under({"OPSPLICE_CC": compiler}, plugin_build.build_system, "kernels", [source], CpuTarget(host_arch()))


@needs_gcc
@pytest.mark.parametrize(
    ("flags", "compiler", "message", "hint"),
    [
        ((), "gcc", "the plugin does not link", 'cpu "k.c" as plugin flags "-fopenmp"'),
        (("-fopenmp",), "zig", r"zig cannot compile threads\.c", "zig has no OpenMP"),
        (("-fopenmp", "-lnowhere"), "gcc", "the plugin does not link", 'install nowhere .* links "libnowhere.so"'),
        (("-fopenmp", "-lnowhere"), "", "the plugin does not link", 'install nowhere .* links "libnowhere.so"'),
    ],
)
def test_what_a_plugin_lacks(tmp_path, flags, compiler, message, hint):
    if compiler == "zig" and toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    path = tmp_path / "threads.c"
    path.write_text(THREADS)
    with pytest.raises(OpspliceError, match=message) as failure:
        build(path, flags, compiler)
    assert re.search(hint, failure.value.hint)


@needs_gcc
def test_a_function_that_nothing_declares_is_an_error_in_a_plugin(tmp_path):
    (tmp_path / "k.c").write_text("void k(float *out, const float *x) { *out = tgamma_of(*x); }\n")
    with pytest.raises(OpspliceError, match=r"cannot compile k\.c") as failure:
        build(tmp_path / "k.c", (), "gcc")
    assert failure.value.hint == "declare the function, or include the header that does"


@needs_gcc
@pytest.mark.parametrize("compiler", ["clang", "zig", "gcc"])
def test_archives_and_libraries_by_their_files(tmp_path, compiler):
    """An archive becomes part of the plugin, a shared library is found again where it lies."""
    if toolchains.find(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    (tmp_path / "twice.c").write_text("float twice(float x) { return 2 * x; }\n")
    (tmp_path / "sums.c").write_text("""
#include <stddef.h>
float twice(float);
void sums(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = x[i] + twice(x[i]); }
""")
    made = "gcc -fPIC -c twice.c && ar rcs libtwice.a twice.o && gcc -fPIC -shared -o libtwice.so twice.c"
    subprocess.run(made, shell=True, cwd=tmp_path, check=True)
    for library in ("libtwice.a", "libtwice.so"):
        built = build(tmp_path / "sums.c", (), compiler, (tmp_path / library,))
        plugin = tmp_path / f"{library}.plugin"
        plugin.write_bytes(built.data)
        assert ctypes.CDLL(str(plugin), mode=os.RTLD_NOW).opsplice_import_sums is not None
    with pytest.raises(OpspliceError, match=r"no such file: .*nowhere\.so"):
        build(tmp_path / "sums.c", (), compiler, (tmp_path / "nowhere.so",))

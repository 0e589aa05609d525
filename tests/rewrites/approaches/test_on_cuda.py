"""Every approach on a CUDA GPU, where there is one. What can be told without is beside the other backends' tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests import command_line
from tests.plain import Plain
from tests.rewrites.approaches import test_command, test_functions_from_plugins, test_provided_on_gpus
from tests.rewrites.approaches.test_gpu_dispatch import INLINE, PROGRAM
from tests.rewrites.approaches.test_scalar_kernels import SOFTSIGN, SOFTSIGN_LL, SOFTSIGNS, check_softsigns
from tests.rewrites.conftest import write_spec

pytestmark = pytest.mark.usefixtures("cuda")
SAMPLES = Path(__file__).parents[3] / "samples"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.cell("static function", "CUDA", "runs")
def test_a_function_on_elements(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SOFTSIGN % 'cuda "softsign.ll"', SOFTSIGN_LL)
    check_softsigns(opsplice.compile(SOFTSIGNS, [spec], targets=["cuda"]), "cuda")


def test_a_function_on_elements_behind_a_product() -> None:
    sample = SAMPLES / "scalar_functions"
    x, w = numbers(7, 64), numbers(64, 64, seed=1)
    y = x.astype(np.float64) @ w
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=["cuda"])
    np.testing.assert_allclose(program.run("main", x, w, device="cuda"), y / (1 + np.exp(-1.702 * y)) + x, atol=1e-4)


@pytest.mark.cell("dynamic function", "CUDA", "runs")
def test_a_function_on_elements_from_a_plugin(tmp_path: Path) -> None:
    program = test_functions_from_plugins.compiled(tmp_path, "cuda as plugin", "cuda")
    plugin = tmp_path / "softsign.ll"
    plugin.write_text(SOFTSIGN_LL["softsign.ll"])
    for rows in (1, 37, 300):
        x, y = test_functions_from_plugins.inputs(rows)
        got = program.run("main", x, y, device="cuda", plugins=[plugin])
        np.testing.assert_allclose(got, (x / (1 + np.abs(x)) + 10) * y, rtol=2e-6)


@pytest.mark.cell("static dispatch", "CUDA", "runs")
@pytest.mark.parametrize("target", ["cuda", "cuda:sm_80"])
def test_a_kernel_in_cuda_c(cuda_compiler: None, target: str) -> None:
    sample = SAMPLES / "dispatches"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=[target])
    assert len(program.report.replacements) == 1
    plain = Plain(sample / "model.mlir")
    for shape in ((1, 1), (3, 200), (70, 64)):
        inputs = (numbers(*shape), np.float32(0.5), numbers(shape[1], seed=1))
        found, wanted = program.run("main", *inputs, device="cuda"), plain.run("main", *inputs)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=str(shape))


PROVIDED = """
extern "C" __global__ void neg_abs_mul(const float *a, const float *b, float *out, float scale, int k, int k_high,
                                       unsigned m, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, at = blockIdx.y * n + i;
  long long whole = (unsigned long long)k_high << 32 | (unsigned)k;
  if (i < n) out[at] = -fabsf(a[at] * b[at]) * scale + (float)whole;
}
"""


@pytest.mark.cell("dynamic dispatch", "CUDA", "runs")
def test_a_kernel_of_a_provider(cuda_compiler: None, tmp_path: Path) -> None:
    spec = test_provided_on_gpus.SPEC.format(clauses='cuda "k.cu" as provided', otherwise="")
    program = opsplice.compile(
        test_provided_on_gpus.MODEL, [write_spec(tmp_path, spec, {"k.cu": PROVIDED})], targets=["cuda"]
    )
    assert {r.action for r in program.report.replacements} == {"dynamic dispatch"}
    assert b".entry neg_abs_mul(" not in program.vmfb
    for shape in ((5, 300), (1, 1), (3, 64)):
        a, b = test_provided_on_gpus.numbers(*shape)
        wanted = np.exp(test_provided_on_gpus.expected(a, b))
        for _ in range(2):
            np.testing.assert_allclose(program.run("main", a, b, device="cuda"), wanted, rtol=1e-5)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> opsplice.Program:
    text = test_command.SPEC.replace('cpu "host.py" as command', 'cuda "host.py" as command')
    spec = write_spec(tmp_path_factory.mktemp("commands"), text, {"host.py": test_command.PYTHON})
    return opsplice.compile(test_command.MODEL, [spec], targets=["cuda"])


@pytest.mark.cell("command", "CUDA", "runs")
@pytest.mark.parametrize("function", test_command.INPUTS)
def test_commands(commands: opsplice.Program, function: str) -> None:
    inputs = test_command.INPUTS[function]
    found = test_command._listed(commands.run(function, *inputs, device="cuda"))
    wanted = test_command._listed(Plain(test_command.MODEL).run(function, *inputs))
    for result, own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result, own, rtol=1e-6)


@pytest.mark.cell("inline IR", "CUDA", "runs")
def test_inserted_mlir(tmp_path: Path) -> None:
    program = opsplice.compile(PROGRAM, [write_spec(tmp_path, INLINE, {})], targets=["cuda"])
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(program.run("main", x, device="cuda"), x * np.float32(np.pi), rtol=1e-6)


# ---- kernels that people have --------------------------------------------------------------------------------------


def test_a_kernel_in_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sample = SAMPLES / "triton_softmax"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=["cuda"])
    plain = Plain(sample / "model.mlir")
    for name, x in {"short": numbers(4, 128, 384), "long": numbers(4, 5, 1000)}.items():
        found, wanted = program.run(name, x, device="cuda"), plain.run(name, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7, err_msg=name)


TAKEN = """
extern "C" __global__ void scale(float *out, long long n, const float *x, float a, long long seed, int m,
                                 const void *none) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m * n) out[i] = x[i] * a + (float)seed + (none ? 1 : 0);
}
"""
SCALE = """
kernel scale(x: f32[m, n], a: f32) -> f32[m, n] {
  grid (ceildiv(m * n, 128))
  cuda "scale.cu" threads 128 takes "out, n, x, a, 7, m, 0"
}
pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }
replace p with scale(x, 2.5)
"""


def test_parameters_in_an_order_of_their_own(cuda_compiler: None, tmp_path: Path) -> None:
    model = PROGRAM.replace("tensor<?xf32>", "tensor<5x70xf32>")
    program = opsplice.compile(model, [write_spec(tmp_path, SCALE, {"scale.cu": TAKEN})], targets=["cuda"])
    x = numbers(5, 70)
    np.testing.assert_allclose(program.run("main", x, device="cuda"), x * 2.5 + 7, rtol=1e-6)


def test_a_kernel_in_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba is not installed (pip install 'opsplice[numba]')")
    from numba.cuda.cudadrv import nvvm

    from tests.rewrites.plan import test_numba_kernels as numba_kernels

    if not nvvm.is_available():
        pytest.skip("Numba finds no NVVM: install NVIDIA's CUDA toolkit")
    files = {"kernel.py": numba_kernels.CUDA_KERNEL, "generate.py": numba_kernels.GENERATE}
    spec = write_spec(tmp_path, numba_kernels.CUDA_SPEC, files)
    program = opsplice.compile(numba_kernels.MODEL, [spec], targets=["cuda"])
    assert program.report.replacements
    inputs = numbers(5, 70), np.float32(0.75)
    found, wanted = program.run("softmax", *inputs, device="cuda"), Plain(numba_kernels.MODEL).run("softmax", *inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


SHARED = """
extern "C" __global__ void flip(const float *x, float *out, unsigned m, unsigned n) {
  extern __shared__ float row[];
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = row[n - 1 - i] + row[i];
}
"""
FLIP = """
kernel flip(x: f32[m, n]) -> f32[m, n] { grid (m) workgroup (64) cuda "flip.cu" shared %d }
pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }
replace p with flip(x)
"""


@pytest.mark.parametrize("bytes_", [40_000, 100_000])  # a driver gives up to 48 kB without being asked for more
def test_memory_that_a_workgroup_shares(cuda_compiler: None, tmp_path: Path, bytes_: int) -> None:
    columns = bytes_ // 4
    model = f"""
func.func @main(%x: tensor<3x{columns}xf32>) -> tensor<3x{columns}xf32> {{
  %0 = math.absf %x : tensor<3x{columns}xf32>
  %1 = arith.negf %0 : tensor<3x{columns}xf32>
  return %1 : tensor<3x{columns}xf32>
}}
"""
    program = opsplice.compile(model, [write_spec(tmp_path, FLIP % bytes_, {"flip.cu": SHARED})], targets=["cuda"])
    x = numbers(3, columns)
    np.testing.assert_allclose(program.run("main", x, device="cuda"), x + x[:, ::-1])


# ---- from the command line -----------------------------------------------------------------------------------------


def test_compile_and_run(cuda_compiler: None, tmp_path: Path) -> None:
    sample = SAMPLES / "dispatches"
    inputs = ["--input=3x70xf32=1", "--input=f32=0.5", "--input=70xf32=0.25"]
    given = ["run", str(sample / "model.mlir"), f"--spec={sample / 'replace.splice'}", "--target=cuda", *inputs]
    done = command_line.opsplice(*given, cwd=tmp_path, check=True)
    assert done.stdout.startswith("result[0]: 3x70xf32=2.117 2.117"), done.stdout

"""The transformer sample's C kernels, called through their plain C ABI and compared with numpy in float64."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import platform
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

KERNELS = Path(__file__).parents[2] / "samples" / "transformer" / "kernels"
SOURCES = ("linear.c", "softmax.c", "layernorm.c")
FLAGS = [
    *("-std=c17", "-O3", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fno-math-errno"),
    *("-Wall", "-Wextra", "-Werror"),
]
# What the sample's spec asks for, by the widest feature that each needs.
VARIANTS = {
    "portable": ([], ()),
    "avx2": (["-mavx2", "-mfma", "-ffp-contract=fast"], ("avx2", "fma")),
    "avx512": (["-mavx512f", "-mfma", "-ffp-contract=fast"], ("avx512f", "fma")),
}
UNTOUCHED = np.float32(-12345.0)


def compiler_command(name: str) -> list[str]:
    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the ziglang wheel is not installed")
        return [sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined"]
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return [path]


def cpu_features() -> set[str]:
    info = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not info.exists():
        return set()
    return {word for line in info.read_text().splitlines() if line.startswith("flags") for word in line.split()}


def compile_library(command: list[str], sources: list[Path], output: Path) -> ctypes.CDLL:
    done = subprocess.run(
        [*command, *FLAGS, f"-I{KERNELS}", "-shared", "-nostdlib", *map(str, sources), "-o", str(output)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(output))


@pytest.fixture(scope="module", params=list(itertools.product(["zig", "gcc"], VARIANTS)), ids="-".join)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler, variant = request.param
    flags, needed = VARIANTS[variant]
    command = compiler_command(compiler)
    if missing := set(needed) - cpu_features():
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")
    probe = tmp_path_factory.mktemp("kernels") / "probe.c"
    probe.write_text(
        '#include "vector.h"\n'
        "void exponentials(const float *x, float *out, size_t n) {\n"
        "  for (size_t i = 0; i < n; i += LANES) store(out + i, exponential(load(x + i)));\n"
        "}\n"
    )
    return compile_library([*command, *flags], [probe, *(KERNELS / s for s in SOURCES)], probe.with_suffix(".so"))


def call(function: Callable[..., None], *args: np.ndarray | float | int) -> None:
    """Calls a kernel: arrays go as pointers, floats as float, ints as size_t."""
    converted: list[object] = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            assert arg.dtype == np.float32
            assert arg.flags.c_contiguous
            converted.append(ctypes.c_void_p(arg.ctypes.data))
        else:
            converted.append(ctypes.c_float(arg) if isinstance(arg, float) else ctypes.c_size_t(arg))
    function(*converted)


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def run(
    function: Callable[..., None],
    args: list[np.ndarray | float],
    shape: tuple[int, ...],
    dims: list[int],
    grid: list[int],
) -> np.ndarray:
    """Runs every workgroup of a kernel with one result, on threads, in any order; nothing beside the result changes."""
    margin = 64
    size = int(np.prod(shape))
    buffer = np.full(size + 2 * margin, UNTOUCHED, dtype=np.float32)
    out = buffer[margin : margin + size]
    workgroups = list(itertools.product(*map(range, grid)))
    random.Random(0).shuffle(workgroups)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda ids: call(function, *args, out, *dims, *ids), workgroups))
    assert (buffer[:margin] == UNTOUCHED).all()
    assert (buffer[margin + size :] == UNTOUCHED).all()
    return out.reshape(shape).copy()


def run_softmax(library: ctypes.CDLL, x: np.ndarray) -> np.ndarray:
    m, n = x.shape
    return run(library.softmax, [x], (m, n), [m, n], [ceildiv(m, 16)])


def run_layernorm(library: ctypes.CDLL, x: np.ndarray, gain: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    m, n = x.shape
    return run(library.layernorm, [x, gain, bias, eps], (m, n), [m, n], [ceildiv(m, 16)])


def run_linear(library: ctypes.CDLL, symbol: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """w is [k, n], whatever layout the kernel takes."""
    (m, k), n = x.shape, w.shape[1]
    weight = w if symbol.endswith("_kn") else np.ascontiguousarray(w.T)
    return run(getattr(library, symbol), [x, weight, bias], (m, n), [m, k, n], [ceildiv(n, 32), ceildiv(m, 128)])


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax_reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm_reference(x: np.ndarray, gain: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    x = x.astype(np.float64)
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + eps) * gain + bias


def gelu_reference(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_exponential_is_within_2_ulp(library: ctypes.CDLL) -> None:
    x = np.linspace(-87.32, 88.71, 1 << 20, dtype=np.float32)
    out = np.empty_like(x)
    call(library.exponentials, x, out, x.size)
    expected = np.exp(x.astype(np.float64))
    ulp = np.abs(out - expected) / np.spacing(expected.astype(np.float32))
    assert ulp.max() < 2


def test_exponential_at_the_edges(library: ctypes.CDLL) -> None:
    # e^-88 is denormal, and flushed. One vector of the widest kind.
    values = [0, -0.0, 1e-30, -88, -1e30, -np.inf, 89, 1e30, np.inf, np.nan, 0, 0, 0, 0, 0, 0]
    expected = [1, 1, 1, 0, 0, 0, np.inf, np.inf, np.inf, np.nan, 1, 1, 1, 1, 1, 1]
    x = np.array(values, dtype=np.float32)
    out = np.empty_like(x)
    call(library.exponentials, x, out, x.size)
    np.testing.assert_array_equal(out, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (3, 16), (17, 33), (16, 128), (50, 1000)])
def test_softmax(library: ctypes.CDLL, m: int, n: int) -> None:
    x = normal(m + n, m, n) * 4
    out = run_softmax(library, x)
    expected = softmax_reference(x)
    # Beside the sum's rounding: the distance from the maximum is off by half an ulp, which e^ carries to the result.
    distance = x.max(axis=-1, keepdims=True) - x
    assert (np.abs(out - expected) <= (2e-6 + 6e-8 * distance) * expected).all()
    np.testing.assert_allclose(out.sum(axis=-1), 1, rtol=1e-6)


def test_softmax_does_not_overflow(library: ctypes.CDLL) -> None:
    x = np.array([[1e30, 1e30, -1e30], [-3e38, -3e38, -3e38], [500, 400, -np.inf]], dtype=np.float32)
    expected = np.array([[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]])
    np.testing.assert_allclose(run_softmax(library, x), expected, rtol=1e-6)


def test_softmax_of_nan_is_nan_in_that_row_only(library: ctypes.CDLL) -> None:
    x = normal(0, 3, 40)
    x[1, 37] = np.nan
    out = run_softmax(library, x)
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[[0, 2]]).all()


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (3, 16), (17, 33), (128, 256), (5, 1000)])
def test_layernorm(library: ctypes.CDLL, m: int, n: int) -> None:
    x, gain, bias = normal(1, m, n) * 3 + 1, normal(2, n), normal(3, n)
    out = run_layernorm(library, x, gain, bias, 1e-5)
    np.testing.assert_allclose(out, layernorm_reference(x, gain, bias, 1e-5), rtol=2e-6, atol=2e-6)


def test_layernorm_uses_eps(library: ctypes.CDLL) -> None:
    x, gain, bias = normal(1, 2, 8), np.ones(8, np.float32), np.zeros(8, np.float32)
    out = run_layernorm(library, x, gain, bias, 3.0)
    np.testing.assert_allclose(out, layernorm_reference(x, gain, bias, 3.0), rtol=2e-6, atol=1e-6)


def test_layernorm_keeps_its_digits_far_from_zero(library: ctypes.CDLL) -> None:
    x = normal(1, 4, 256) + np.float32(1000)
    gain, bias = np.ones(256, np.float32), np.zeros(256, np.float32)
    out = run_layernorm(library, x, gain, bias, 1e-5)
    # One ulp of the mean, 6e-5, is all that is lost.
    np.testing.assert_allclose(out, layernorm_reference(x, gain, bias, 1e-5), atol=1e-4)


@pytest.mark.parametrize("symbol", ["linear_bias_kn", "linear_bias_nk", "linear_bias_gelu_kn", "linear_bias_gelu_nk"])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (1, 3, 7), (5, 3, 7), (7, 130, 31), (9, 128, 33), (129, 17, 65), (128, 256, 96), (200, 300, 40)],
)
def test_linear(library: ctypes.CDLL, symbol: str, m: int, k: int, n: int) -> None:
    x, w, bias = normal(1, m, k), normal(2, k, n), normal(3, n)
    out = run_linear(library, symbol, x, w, bias)
    expected = x.astype(np.float64) @ w.astype(np.float64) + bias
    if "gelu" in symbol:
        expected = gelu_reference(expected)
    # A float32 dot product is off by a few roundings of the sum of its terms' sizes; gelu's slope is below 1.13.
    size = np.abs(x) @ np.abs(w) + np.abs(bias)
    assert (np.abs(out - expected) <= 1e-6 * size).all()


def test_gelu_alone(library: ctypes.CDLL) -> None:
    x = np.linspace(-12, 12, 10001, dtype=np.float32).reshape(-1, 1)
    one, zero = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    out = run_linear(library, "linear_bias_gelu_kn", x, one, zero)
    assert (np.abs(out - gelu_reference(x)) <= 4e-7 * np.maximum(np.abs(x), 1e-3)).all()


def test_gelu_of_huge_values(library: ctypes.CDLL) -> None:
    x = np.array([[1e20], [-1e20], [30], [-30], [np.inf], [np.nan]], dtype=np.float32)
    out = run_linear(library, "linear_bias_gelu_kn", x, np.ones((1, 1), np.float32), np.zeros(1, np.float32)).ravel()
    np.testing.assert_array_equal(out, np.array([1e20, 0, 30, 0, np.inf, np.nan], dtype=np.float32))


def test_a_workgroup_writes_its_own_part_only(library: ctypes.CDLL) -> None:
    m, k, n = 150, 140, 70
    x, w, bias = normal(1, m, k), normal(2, k, n), normal(3, n)
    out = np.full((m, n), UNTOUCHED, dtype=np.float32)
    call(library.linear_bias_gelu_kn, x, w, bias, out, m, k, n, 1, 1)
    own = np.zeros((m, n), dtype=bool)
    own[128:256, 32:64] = True
    np.testing.assert_array_equal(out != UNTOUCHED, own)

    rows = np.full((40, n), UNTOUCHED, dtype=np.float32)
    call(library.softmax, normal(4, 40, n), rows, 40, n, 1)
    np.testing.assert_array_equal((rows != UNTOUCHED).all(axis=1), np.arange(40) // 16 == 1)
    np.testing.assert_array_equal((rows != UNTOUCHED).any(axis=1), np.arange(40) // 16 == 1)

    rows[:] = UNTOUCHED
    call(library.layernorm, normal(4, 40, n), normal(5, n), normal(6, n), 1e-5, rows, 40, n, 2)
    np.testing.assert_array_equal((rows != UNTOUCHED).all(axis=1), np.arange(40) // 16 == 2)
    np.testing.assert_array_equal((rows != UNTOUCHED).any(axis=1), np.arange(40) // 16 == 2)


def undefined_symbols(elf: bytes) -> set[str]:
    """Names of the undefined symbols of a little-endian ELF64 object, layout as in the System V ABI."""
    sections_at, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, sections_at + 64 * i) for i in range(count)]
    symbols = next(s for s in sections if s[1] == 2)  # SHT_SYMTAB; [4] is the offset, [5] the size, [6] the strings
    strings_at = sections[symbols[6]][4]
    names = set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section = struct.unpack_from("<IBBH", elf, at)
        start = strings_at + name
        if name and section == 0:
            names.add(elf[start : elf.index(0, start)].decode())
    return names


def compile_object(arch: str, source: Path, output: Path) -> bytes:
    command = [
        *compiler_command("zig"),
        "-target",
        f"{arch}-freestanding",
        *FLAGS,
        "-c",
        str(source),
        "-o",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output.read_bytes()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64"])
def test_objects_need_no_library(source: str, arch: str, tmp_path: Path) -> None:
    """IREE links the objects as they are: a call of libm or memcpy would stay undefined."""
    assert undefined_symbols(compile_object(arch, KERNELS / source, tmp_path / "kernel.o")) == set()


def test_a_needed_library_would_be_noticed(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("float expf(float);\nvoid kernel(float *x) { x[0] = expf(x[0]); }\n")
    assert undefined_symbols(compile_object("aarch64", source, tmp_path / "kernel.o")) == {"expf"}

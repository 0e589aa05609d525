"""The mathematics of C that kernels get: within 2 ulp of mpmath over its range, and at special values."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Callable

import ml_dtypes
import mpmath
import numpy as np
import pytest
from llvmlite import binding

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import libm, llvm_worker, toolchains
from opsplice.targets.formats import elf
from tests.environment import under

HUGE = sys.float_info.max
# Where a function is asked in f64; what is further than f32 goes is left out there.
RANGES = {
    "acos": (-1, 1), "acosh": (1, HUGE), "asin": (-1, 1), "asinh": (-HUGE, HUGE), "atan": (-HUGE, HUGE),
    "atanh": (-1, 1), "cbrt": (-HUGE, HUGE), "cos": (-1e9, 1e9), "cosh": (-710, 710), "erf": (-6, 6), "erfc": (-6, 28),
    "exp": (-708, 709), "exp10": (-307, 308), "exp2": (-1021, 1023), "expm1": (-40, 709), "lgamma": (-1e15, 2.5e305),
    "log": (1e-307, HUGE), "log10": (1e-307, HUGE), "log1p": (-0.9999999, HUGE), "log2": (1e-307, HUGE),
    "sin": (-1e9, 1e9), "sinh": (-710, 710), "tan": (-1e9, 1e9), "tanh": (-22, 22), "tgamma": (-170, 171),
}  # fmt: skip
TRUE: dict[str, Callable[..., mpmath.mpf]] = {
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp10": lambda x: mpmath.mpf(10) ** x,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "fmod": lambda x, y: mpmath.mpf(math.fmod(float(x), float(y))),
    "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)),
    "log2": lambda x: mpmath.log(x, 2),
    "pow": lambda x, y: x**y,
    "remainder": lambda x, y: mpmath.mpf(math.remainder(float(x), float(y))),
    "tgamma": mpmath.gamma,
}
KINDS = [(np.float32, ctypes.c_float, "f"), (np.float64, ctypes.c_double, "")]
NARROWED = [(np.float32, ctypes.c_float, "sf"), (np.float64, ctypes.c_double, "df")]
COUNT = 60


@pytest.fixture(scope="module")
def call() -> Callable[..., Callable[..., float]]:
    """A function of the library, by its name, for so many numbers and more; `result` is its type."""
    try:
        data = libm.file().read_bytes()
    except MissingToolError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_bitcode(data)
    machine = binding.Target.from_default_triple().create_target_machine(opt=2)
    module.triple, module.data_layout = binding.get_default_triple(), str(machine.target_data)
    assert not [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    assert {f.name for f in module.functions} >= libm.NAMES | libm.HELPERS
    assert not llvm_worker._intrinsics(str(module)), "they would be calls that nothing answers in a kernel"
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()

    def function(name: str, kind: type, count: int, *more: type, result: type | None = None) -> Callable[..., float]:
        return ctypes.CFUNCTYPE(result or kind, *[kind] * count, *more)(engine.get_function_address(name))

    return function


def ulps(found: float, wanted: mpmath.mpf, dtype: type) -> float:
    """How far a number is from the true one, in spacings of numbers around that."""
    with np.errstate(over="ignore"):
        nearest = dtype(float(wanted))
    if not np.isfinite(nearest):
        return 0 if abs(found) >= float(np.finfo(dtype).max) else math.inf
    return float(abs(mpmath.mpf(float(found)) - wanted) / mpmath.mpf(float(np.spacing(abs(nearest)))))


def numbers(low: float, high: float, dtype: type) -> np.ndarray:
    """Numbers between two: evenly spread, spread over magnitudes, and around 0."""
    random = np.random.default_rng(0)
    low, high = max(low, -float(np.finfo(dtype).max)), min(high, float(np.finfo(dtype).max))
    sizes = 10.0 ** random.uniform(math.log10(np.finfo(dtype).tiny), math.log10(max(abs(low), abs(high))), COUNT)
    even = low / 2 + random.uniform(0, 1, COUNT) * (high / 2 - low / 2)
    found = np.concatenate([2 * even, sizes, -sizes, random.uniform(-3, 3, COUNT)])
    return found[(found >= low) & (found <= high)].astype(dtype)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(("dtype", "kind", "suffix"), KINDS, ids=["f32", "f64"])
def test_functions_of_one_number(call, name, dtype, kind, suffix):
    function, true = call(name + suffix, kind, 1), TRUE.get(name) or getattr(mpmath, name)
    with mpmath.workprec(400):
        for x in numbers(*RANGES[name], dtype):
            if name in ("lgamma", "tgamma") and x <= 0 and x == round(x):
                continue  # a pole
            wanted = true(mpmath.mpf(float(x)))
            assert ulps(function(x), wanted, dtype) <= 2, (x, function(x), wanted)


# Where functions of Zig's and musl's overflow or are further off.
HARD = [
    *(("sinh", each, np.float32) for each in (-88.72202, 88.7216, 88.7225, 88.3, 80.5)),
    *(("sinh", each, np.float64) for each in (709.7822, -709.78, 709.4, 80.5)),
    *(("tanh", each, np.float32) for each in (-0.22974196, -0.24655132, 0.2554, 9.9, 10.1)),
    *(("erfc", each, np.float32) for each in (4.088313, 1.3467458)),
    *(("lgamma", each, np.float32) for each in (-2.4569478, -2.747674, 0.9999, 2.0001)),
]


@pytest.mark.parametrize(("name", "x", "dtype"), HARD)
def test_numbers_that_are_hard(call, name, x, dtype):
    kind, suffix = next(each[1:] for each in KINDS if each[0] == dtype)
    with mpmath.workprec(400):
        wanted = mpmath.re((TRUE.get(name) or getattr(mpmath, name))(mpmath.mpf(float(dtype(x)))))
        assert ulps(call(name + suffix, kind, 1)(dtype(x)), wanted, dtype) <= 2


# Where functions are made in another way.
PIECES = {
    "erfc": (-6, -1, 0, 1, 5, 15, 26.5, 27.3), "tgamma": (-184, -170, -12, -1, 0, 1, 12, 171.6243),
    "lgamma": (-1000, -18.5, -8, -4, -3, -2.5, -2, -1, 0, 0.5, 0.9, 1.1, 2, 2.6, 8, 20, 1000),
}  # fmt: skip
# The worst of a million in each piece, and what was further off before.
WORST = {
    "erfc": (0.994698793900105, 25.654290594316198, 26.543627748580086),
    "tgamma": (-171.0338610303924, -145.53929660629063, 109.01305401922991, -3.6475245646340957),
    "lgamma": (0.7224842432603554, 0.3309471465336752, 2.751958771923622, -3.1786197740700857,
        5.9045130334294175e+113, 10.832879736661305),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_the_pieces_of_functions(call, name):
    function, true = call(name, ctypes.c_double, 1), TRUE.get(name) or getattr(mpmath, name)
    random, ends = np.random.default_rng(0), PIECES[name]
    pieces = [random.uniform(low, high, 150) for low, high in itertools.pairwise(ends)]
    beside = [np.nextafter(end, way) for end in ends for way in (-math.inf, math.inf)]
    with mpmath.workprec(300):
        for x in (*np.concatenate(pieces).tolist(), *beside, *WORST[name]):
            wanted = mpmath.re(true(mpmath.mpf(float(x))))
            assert ulps(function(x), wanted, np.float64) <= 2, (x, function(x), wanted)


def test_the_logarithm_of_gamma_near_where_it_is_0(call):
    function = call("lgamma", ctypes.c_double, 1)
    near = [-2.457, -2.748, -3.144, -3.955, -4.039, 1, 2]
    near += [-n + sign / math.factorial(n) for n in range(5, 18) for sign in (1, -1)]
    with mpmath.workprec(300):
        for start in near:
            zero = float(mpmath.findroot(lambda x: mpmath.rgamma(x) ** 2 - 1, start, tol=1e-60))
            away = [sign * 2.0**-k for k in range(4, 52) for sign in (1, -1)]
            beside = [np.nextafter(zero, -math.inf), zero, np.nextafter(zero, math.inf)]
            for x in {*beside, *(zero + each * abs(zero) for each in away)} - {-float(n) for n in range(30)}:
                wanted = TRUE["lgamma"](mpmath.mpf(float(x)))
                assert ulps(function(x), wanted, np.float64) <= 2, (x, function(x), wanted)


def test_signs_and_limits_of_the_gamma_functions(call):
    gamma, logarithm = call("tgamma", ctypes.c_double, 1), call("lgamma", ctypes.c_double, 1)
    signs = {-0.0: -INF, 1e-310: INF, -1e-310: -INF, -184.5: -0.0, -185.5: 0.0, -1e10 - 0.5: -0.0}
    for x, wanted in signs.items():
        assert (gamma(x), math.copysign(1, gamma(x))) == (wanted, math.copysign(1, wanted)), x
    assert [gamma(n) for n in range(1, 23)] == [math.factorial(n - 1) for n in range(1, 23)]
    assert gamma(171.6243769563027) < INF == gamma(math.nextafter(171.6243769563027, 200))
    assert logarithm(2.5599e305) < INF == logarithm(2.56e305)
    assert logarithm(-(2.0**52) + 0.5) < 0
    assert {logarithm(x) for x in (-0.0, -1, -18, -19, -(2.0**52), -1e300, -INF)} == {INF}
    assert all(math.isnan(gamma(x)) for x in (-1, -18, -(2.0**52), -1e300, -INF))


@pytest.mark.parametrize("name", ["hypot", "hypotf", "pow", "acoshf", "erfc", "tgammaf", "lgamma"])
def test_a_part_of_it_has_all_that_it_calls(name):
    if toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    made = libm.object_file(CpuTarget("x86_64"), [name])
    assert not elf.read_object(made.read_bytes(), name).undefined


@pytest.mark.skipif(archs.host_arch() != "x86_64", reason="what 16 bits are returned in is known of x86_64")
@pytest.mark.parametrize(("dtype", "kind", "name"), [(*each[:2], f"__trunc{each[2]}bf2") for each in NARROWED])
def test_numbers_are_rounded_once_to_bf16(call, dtype, kind, name):
    function = call(name, kind, 1, result=ctypes.c_float)
    random = np.random.default_rng(0)
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 3.4e38, 1e-40, 0.0, -0.0])
    given = np.concatenate([ties, random.standard_normal(2000), [np.inf, -np.inf, np.nan]]).astype(dtype)
    found = np.array([function(x) for x in given], np.float32).view(np.uint32).astype(np.uint16)
    below = given.astype(np.float64)
    wanted = below.astype(np.float32).astype(ml_dtypes.bfloat16)
    # f64 goes by way of f32 in numpy, too: one that lies beside the middle of two is told from that.
    middle = (below.astype(np.float32).view(np.uint32) & 0xFFFF) == 0x8000
    assert np.array_equal(found[~middle & ~np.isnan(below)], wanted.view(np.uint16)[~middle & ~np.isnan(below)])
    assert np.isnan(found[np.isnan(below)].view(ml_dtypes.bfloat16)).all()
    assert middle.sum() >= (4 if dtype is np.float64 else 2)
    for x, bits in zip(below[middle], found[middle], strict=True):
        low = np.float32(x).view(np.uint32) >> 16
        above = abs(x) > abs(float(np.float32(x))) or (x == float(np.float32(x)) and low & 1)
        assert bits == low + above, x


@pytest.mark.parametrize("name", ["atan2", "hypot", "pow", "remainder", "fmod"])
@pytest.mark.parametrize(("dtype", "kind", "suffix"), KINDS, ids=["f32", "f64"])
def test_functions_of_two_numbers(call, name, dtype, kind, suffix):
    function = call(name + suffix, kind, 2)
    true = TRUE.get(name) or getattr(mpmath, name)
    low, high = (1e-9, 1e9) if name == "pow" else (-1e9, 1e9)
    firsts, seconds = numbers(low, high, dtype), numbers(-3, 3, dtype)[::-1]
    with mpmath.workprec(400):
        for x, y in zip(firsts, seconds, strict=False):
            wanted = true(mpmath.mpf(float(x)), mpmath.mpf(float(y)))
            assert ulps(function(x, y), wanted, dtype) <= 2, (x, y, function(x, y), wanted)


INF, NAN = math.inf, math.nan
SPECIAL = {
    "acos": {1: 0, 2: NAN}, "acosh": {1: 0, 0.5: NAN, -2: NAN, INF: INF}, "asin": {0: 0, 2: NAN},
    "atan": {INF: math.pi / 2}, "atanh": {1: INF, -1: -INF, 2: NAN}, "cbrt": {INF: INF, -INF: -INF, -8: -2},
    "cos": {0: 1, INF: NAN}, "cosh": {0: 1, -INF: INF}, "erf": {INF: 1, -INF: -1, 0: 0},
    "erfc": {INF: 0, -INF: 2, 0: 1, 29: 0, -29: 2},
    "exp": {0: 1, INF: INF, -INF: 0}, "exp2": {3: 8, -INF: 0}, "exp10": {3: 1000}, "expm1": {-INF: -1, 0: 0},
    "lgamma": {1: 0, 2: 0, INF: INF, 0: INF}, "log": {0: -INF, 1: 0, -1: NAN, INF: INF}, "log10": {0: -INF, 1000: 3},
    "log1p": {-1: -INF, 0: 0, -2: NAN}, "log2": {8: 3, 0: -INF}, "sin": {0: 0, INF: NAN},
    "sinh": {INF: INF, 0: 0}, "tan": {0: 0, -INF: NAN}, "tanh": {INF: 1, -INF: -1, 0: 0},
    "tgamma": {5: 24, 0: INF, -INF: NAN},
    "nearbyint": {0.5: 0, -2.5: -2}, "rint": {1.5: 2, 1e15: 1e15, -INF: -INF}, "roundeven": {2.5: 2, -3.5: -4},
    "trunc": {-1.5: -1}, "round": {2.5: 3}, "logb": {0.3: -2, 0: -INF},
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind", "suffix"), KINDS, ids=["f32", "f64"])
def test_special_values(call, dtype, kind, suffix):
    for name, values in SPECIAL.items():
        function = call(name + suffix, kind, 1)
        for x, wanted in {**values, NAN: NAN}.items():
            found = function(x)
            epsilon = float(np.finfo(dtype).eps)
            np.testing.assert_allclose(dtype(found), dtype(wanted), epsilon, err_msg=f"{name}({x})")
    for name in ("asin", "asinh", "atan", "atanh", "cbrt", "erf", "expm1", "log1p", "rint", "sin", "sinh", "tan"):
        assert math.copysign(1, call(name + suffix, kind, 1)(-0.0)) == -1, name
    last = dtype(88.72283 if dtype == np.float32 else 709.7827)
    np.testing.assert_allclose(call(f"expm1{suffix}", kind, 1)(last), math.exp(last), 4 * float(np.finfo(dtype).eps))
    power = call(f"pow{suffix}", kind, 2)
    assert [power(*each) for each in [(NAN, 0), (1, NAN), (-2, 3), (0, -1), (-INF, 3)]] == [1, 1, -8, INF, -INF]


# The functions whose result is no float, or that write another one, by what they are given.
PARTS = {
    "frexp": {0: (0, 0), -3: (-0.75, 2), 1e-40: None, INF: None},
    "modf": {2.75: (0.75, 2), -2.5: (-0.5, -2), INF: (0, INF)},
}  # fmt: skip
WHOLE = {
    "ilogb": {0.3: -2, 1024: 10}, "lrint": {2.5: 2, -3.5: -4}, "llrint": {1.5: 2, 1e10: 10**10, INF: 2**63 - 1},
    "lround": {2.5: 3, -2.5: -3}, "llround": {0.5: 1, -1e10: -(10**10)},
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind", "suffix"), KINDS, ids=["f32", "f64"])
def test_functions_that_give_whole_numbers_and_parts(call, dtype, kind, suffix):
    for name, values in WHOLE.items():
        function = call(name + suffix, kind, 1, result=ctypes.c_int if name == "ilogb" else ctypes.c_int64)
        assert {x: function(x) for x in values} == values, name
    for name, each in PARTS.items():
        other = ctypes.c_int() if name == "frexp" else kind()
        for x, wanted in each.items():
            found = call(name + suffix, kind, 1, ctypes.c_void_p)(x, ctypes.addressof(other)), other.value
            assert found == wanted or (wanted is None and found[0] == math.frexp(dtype(x))[0]), (name, x, found)
    other = ctypes.c_int()
    assert call(f"remquo{suffix}", kind, 2, ctypes.c_void_p)(7, 2, ctypes.addressof(other)) == -1
    assert other.value == 4
    assert call(f"copysign{suffix}", kind, 2)(3, -0.0) == -3
    assert call(f"sqrt{suffix}", kind, 1)(2) == dtype(2) ** dtype(0.5)
    assert call(f"scalbln{suffix}", kind, 1, ctypes.c_long)(3, 4) == 48


def test_what_compilers_call_of_themselves(call):
    assert call("__powidf2", ctypes.c_double, 1, ctypes.c_int)(2, -3) == 0.125
    assert call("__popcountdi2", ctypes.c_int64, 1, result=ctypes.c_int)(-1) == 64


CODE = """
#include <math.h>
#include <stddef.h>
typedef float v4 __attribute__((vector_size(16), aligned(4)));
static v4 power(v4 x) { return __builtin_elementwise_pow(x, x); }
void k(const float *x, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = tanhf(x[i]) + (float)lgamma(x[i]);
  for (size_t i = 0; i + 4 <= n; i += 4)
    *(v4 *)(out + i) += __builtin_elementwise_sin(*(v4 *)(x + i)) * power(*(v4 *)(x + i));
}
"""


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_a_kernel_has_in_it_what_it_calls(tmp_path, arch):
    if toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    (tmp_path / "k.c").write_text(CODE)
    request = ArtifactRequest(tmp_path / "k.c", ("k",))
    artifact = under({"OPSPLICE_CC": "zig"}, cpu.resolve, request, CpuTarget(arch), Store(tmp_path / "store"))
    assert artifact.form == "bitcode"
    if arch != archs.host_arch():
        return
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_bitcode(artifact.path.read_bytes())
    machine = binding.Target.from_default_triple().create_target_machine(opt=2)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    x = np.float32([0.5, 1.5, 2.5, 3.5, 4.5])
    out = np.empty_like(x)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, out)]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(engine.get_function_address("k"))(
        *pointers, 5
    )
    wanted = [math.tanh(v) + math.lgamma(v) for v in x.tolist()]
    wanted = [*(w + math.sin(v) * v**v for v, w in zip(x[:4].tolist(), wanted, strict=False)), wanted[4]]
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("arch", "features", "left"), [("x86_64", "", 0), ("x86_64", "+sse4.1", 3), ("riscv64", "", 2), ("aarch64", "", 3)]
)
def test_rounding_is_an_instruction_where_the_cpu_has_one(tmp_path, arch, features, left):
    if toolchains.find("zig") is None or toolchains.find("clang") is None:
        pytest.skip("zig or clang is not here")
    (tmp_path / "k.c").write_text(
        "#include <math.h>\nvoid k(float *x, double *y) { *x = truncf(*x) + nearbyintf(*x); *y = ceil(acosh(*y)); }\n"
    )
    request = ArtifactRequest(tmp_path / "k.c", ("k",), form="bitcode")
    target = CpuTarget.of(arch, features)
    artifact = under({"OPSPLICE_CC": "clang"}, cpu.resolve, request, target, Store(tmp_path / "store"))
    module = binding.parse_bitcode(artifact.path.read_bytes())
    assert len(llvm_worker._intrinsics(str(module))) == left
    assert not [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]


def test_without_zig_it_says_how_to_get_it(tmp_path, monkeypatch):
    if toolchains.find("clang") is None:
        pytest.skip("clang is not here")

    def lacking() -> str:
        raise MissingToolError("zig is not installed", hint="pip install ziglang")

    monkeypatch.setattr(libm, "_zig_version", lacking)
    (tmp_path / "k.c").write_text("float tanhf(float);\nvoid k(float *x) { *x = tanhf(*x); }\n")
    request = ArtifactRequest(tmp_path / "k.c", ("k",))
    with pytest.raises(OpspliceError, match=r"k\.c needs 'tanhf', and zig is not installed") as failure:
        under({"OPSPLICE_CC": "clang"}, cpu.resolve, request, CpuTarget("x86_64"), Store(tmp_path / "store"))
    assert failure.value.hint == "pip install ziglang"

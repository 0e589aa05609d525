"""Powers of negative numbers and zeros; angles, roots, logarithms, hyperbolic functions of large and small numbers."""

import sys

import ml_dtypes
import numpy as np
import pytest

import opsplice

KINDS = {"f16": (np.float16, 2e-3), "f32": (np.float32, 5e-6), "f64": (np.float64, 1e-12)}
KNOWN = ["5.0", "-3.0", "4.0", "2.0", "1.5"]
WHOLE = [-1, -2, -3, 3]
ANGLES = ("sin", "cos", "tan")
OTHERS = {"acosh": np.arccosh, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "log10": np.log10}
BASES = [10.0, 0.5, 10000.0, 0.9375, 1.0078125, 1.0, 0.0, 1e-30]
OTHERS["sinh"] = np.sinh
NUMBERS = np.array([-np.inf, -4, -1.5, -1, -0.25, -0.0, 0, 0.25, 1, 1.5, 4, np.inf, np.nan])


def function(name: str, kind: str, body: str) -> str:
    return f"""
func.func @{name}(%x: tensor<?x{kind}>, %y: tensor<?x{kind}>) -> tensor<?x{kind}> {{
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x{kind}>
  %empty = tensor.empty(%n) : tensor<?x{kind}>
  %made = linalg.generic {{indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]}}
      ins(%x, %y : tensor<?x{kind}>, tensor<?x{kind}>) outs(%empty : tensor<?x{kind}>) {{
  ^bb0(%a: {kind}, %b: {kind}, %out: {kind}):
    {body}
    linalg.yield %r : {kind}
  }} -> tensor<?x{kind}>
  return %made : tensor<?x{kind}>
}}
"""


def power_of(number: int, kind: str) -> str:
    return f"%c = arith.constant {KNOWN[number]} : {kind}\n%r = math.powf %a, %c : {kind}"


# As IREE writes PyTorch's.
GELU = """
    %root = arith.constant 0.797724008 : f32
    %share = arith.constant 4.471500e-02 : f32
    %one = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %three = arith.constant 3 : i32
    %cube = math.fpowi %a, %three : f32, i32
    %part = arith.mulf %cube, %share : f32
    %sum = arith.addf %a, %part : f32
    %scaled = arith.mulf %sum, %root : f32
    %tanh = math.tanh %scaled : f32
    %more = arith.addf %tanh, %one : f32
    %much = arith.mulf %a, %half : f32
    %r = arith.mulf %much, %more : f32"""


def whole_power_of(number: int, kind: str) -> str:
    return f"%c = arith.constant {WHOLE[number]} : i32\n%r = math.fpowi %a, %c : {kind}, i32"


@pytest.fixture(scope="module")
def program():
    texts = [function(f"power_{kind}", kind, f"%r = math.powf %a, %b : {kind}") for kind in KINDS]
    texts += [function(f"power_{n}_{kind}", kind, power_of(n, kind)) for kind in KINDS for n in range(len(KNOWN))]
    texts += [function(f"whole_{n}_{kind}", kind, whole_power_of(n, kind)) for kind in KINDS for n in range(len(WHOLE))]
    texts += [function(name, "f32", f"%r = math.{name} %a : f32") for name in ANGLES]
    texts += [function(f"{name}_{k}", k, f"%r = math.{name} %a : {k}") for name in OTHERS for k in ("f16", "f32")]
    texts += [function(f"atan2_{k}", k, f"%r = math.atan2 %a, %b : {k}") for k in KINDS]
    texts += [function(f"cbrt_{k}", k, f"%r = math.cbrt %a : {k}") for k in KINDS]
    texts += [function(f"exp2_{k}", k, f"%r = math.exp2 %a : {k}") for k in KINDS]
    texts += [function(f"two_{k}", k, f"%c = arith.constant 2.0 : {k}\n%r = math.powf %c, %a : {k}") for k in KINDS]
    for number, base in enumerate(BASES):
        body = f"%c = arith.constant {base:.9e} : f32\n%r = math.powf %c, %a : f32"
        texts.append(function(f"of_{number}", "f32", body))
    texts.append(function("gelu", "f32", GELU))
    model = "#one = affine_map<(a) -> (a)>\n" + "".join(texts)
    return opsplice.compile(model, flags=["--iree-input-demote-f64-to-f32=false"])


@pytest.mark.parametrize("kind", KINDS)
def test_powers_are_those_of_numpy(program, kind):
    dtype, tolerance = KINDS[kind]
    x, y = (each.ravel().astype(dtype) for each in np.meshgrid(NUMBERS, [*NUMBERS, 2, 3, -3, 0.5]))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(program.run(f"power_{kind}", x, y), np.power(x, y), tolerance)
        for number, known in enumerate(KNOWN):
            found = program.run(f"power_{number}_{kind}", x, y)
            wanted = np.power(x, dtype(known))
            np.testing.assert_allclose(found, wanted, tolerance)
            is_number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("kind", KINDS)
def test_whole_powers_are_those_of_numpy(program, kind):
    dtype, tolerance = KINDS[kind]
    x = np.array([*NUMBERS, 40, *([] if kind == "f16" else [1e-30, -1e30])], dtype)
    for number, known in enumerate(WHOLE):
        found = program.run(f"whole_{number}_{kind}", x, x)
        with np.errstate(all="ignore"):
            wanted = np.power(x.astype(np.float64), known).astype(dtype)
        tiny = 1e-37 if kind == "f32" else 0  # IREE's code takes numbers below the normal ones for 0
        np.testing.assert_allclose(found, wanted, tolerance, tiny)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("name", ANGLES)
def test_functions_of_angles_are_those_of_numpy(program, name):
    apart = np.array([0, 1e-4, -1e-6, -0.5, 0.7])
    small = np.float32([-1e-3, -1e-5, -1e-8, -1e-20, 1e-30, 0.3, -0.9])
    x = np.concatenate([small, (np.pi / 2 * np.arange(-700, 701)[:, None] + apart).ravel().astype(np.float32)])
    wanted, found = getattr(np, name)(x.astype(np.float64)), program.run(name, x, x)
    np.testing.assert_allclose(found[: small.size], wanted[: small.size], 5e-7)
    if name == "tan":
        np.testing.assert_allclose(found, wanted, 1e-3)
    else:
        np.testing.assert_allclose(found, wanted, 0, 3e-7)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_of_large_angles(program, name):
    x = np.linspace(-1e8, 1e8, 20001).astype(np.float32)
    np.testing.assert_allclose(program.run(name, x, x), getattr(np, name)(x.astype(np.float64)), 0, 1e-6)


@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_those_of_numpy(program, name, kind):
    dtype, tolerance = KINDS[kind]
    tolerance = 6e-7 if kind == "f32" else tolerance
    sizes = [0, 1e-30, 1e-8, 1e-4, 0.1, 0.5, 0.99, 1, 1.0003, 2, 3.5, 9.9, 10.1, 60, 89, 300, 5000, 2e18, 1e30, np.inf]
    sizes += [*np.linspace(0.01, 3, 99)]
    with np.errstate(all="ignore"):
        x = np.array([*sizes, np.nan, *(-size for size in sizes)]).astype(dtype)
        wanted = OTHERS[name](x.astype(np.float64)).astype(dtype)
    found = program.run(f"{name}_{kind}", x, x)
    np.testing.assert_allclose(found, wanted, tolerance)
    np.testing.assert_array_equal(np.signbit(found)[wanted == wanted], np.signbit(wanted)[wanted == wanted])


@pytest.mark.parametrize("kind", KINDS)
def test_angles_of_points_are_those_of_numpy(program, kind):
    dtype, tolerance = KINDS[kind]
    sizes = [*NUMBERS, *np.linspace(-3, 3, 30)]
    y, x = (each.ravel().astype(dtype) for each in np.meshgrid(sizes, sizes))
    found, wanted = program.run(f"atan2_{kind}", y, x), np.arctan2(y, x)
    np.testing.assert_allclose(found, wanted, 4e-7 if kind == "f32" else tolerance)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)])


def test_gelu_has_the_root_of_two_by_pi(program):
    x = np.linspace(-4, 4, 99).astype(np.float32)
    wide = x.astype(np.float64)
    wanted = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(program.run("gelu", x, x), wanted, 1e-5, 1e-6)


def test_powers_of_halves_are_rounded_once(program):
    x, y = (each.ravel().astype(np.float16) for each in np.meshgrid(np.linspace(0.2, 7, 30), np.linspace(-4, 4.7, 30)))
    wanted = np.power(x.astype(np.float32), y.astype(np.float32))
    normal = wanted > 1e-4
    np.testing.assert_allclose(program.run("power_f16", x, y)[normal], wanted[normal], 5e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_powers_of_two(program, kind):
    number, tolerance = KINDS[kind]
    whole = np.arange(-14, 15) if kind == "f16" else np.arange(-126, 128)
    x = np.concatenate([whole, whole + 0.3, [np.inf, -np.inf, np.nan, 1e4, -1e4, 0.5]]).astype(number)
    with np.errstate(over="ignore"):
        wanted = np.exp2(x.astype(np.float64)).astype(number)
    found = program.run(f"exp2_{kind}", x, x)
    np.testing.assert_array_equal(program.run(f"two_{kind}", x, x), found)
    np.testing.assert_allclose(found, wanted, 2e-7 if kind == "f32" else tolerance)
    if kind == "f32":
        np.testing.assert_array_equal(found[: whole.size], wanted[: whole.size])


@pytest.mark.parametrize("number", range(len(BASES)))
def test_powers_of_known_numbers(program, number):
    base = float(np.float32(BASES[number]))
    rates = np.log2(base) if base else 1
    sizes = np.linspace(-125.9, 127.9, 999) / (rates or 1)
    x = np.concatenate([sizes, [0, -0.0, 1, 1e-20, -1e-3, np.inf, -np.inf, np.nan, 1e30, -1e30]]).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = np.power(base, x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(program.run(f"of_{number}", x, x), wanted, 2.5e-7, 1e-44)


@pytest.mark.parametrize("kind", KINDS)
def test_cube_roots(program, kind):
    number, tolerance = KINDS[kind]
    x = np.array([*NUMBERS, 27, -1000, 6e-8, -3e4, np.finfo(number).max, np.finfo(number).tiny], number)
    x = np.concatenate([x, np.linspace(-9, 9, 99).astype(number)])
    tolerance = 3e-7 if kind == "f32" else tolerance
    np.testing.assert_allclose(program.run(f"cbrt_{kind}", x, x), np.cbrt(x.astype(np.float64)), tolerance)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_numbers_that_lose_something_are_rounded(kind):
    """As what IREE pads images with for their maxima: its VM has no f64 in constants, and no f16."""
    ends = {"lowest": -sys.float_info.max, "tenth": 0.1}
    functions = [
        f"""func.func @{name}(%x: tensor<2x{kind}>) -> tensor<5x{kind}> {{
          %number = arith.constant {end!r} : f64
          %narrow = arith.truncf %number : f64 to {kind}
          %y = tensor.pad %x low[1] high[2] {{
          ^bb0(%i: index):
            tensor.yield %narrow : {kind}
          }} : tensor<2x{kind}> to tensor<5x{kind}>
          return %y : tensor<5x{kind}>
        }}"""
        for name, end in ends.items()
    ]
    program = opsplice.compile("\n".join(functions), flags=["--iree-input-demote-f64-to-f32=false"])
    dtype = ml_dtypes.bfloat16 if kind == "bf16" else KINDS[kind][0]
    for name, end in ends.items():
        with np.errstate(over="ignore"):
            around = np.array(end).astype(dtype)
        found = program.run(name, np.array([1, 2], dtype))
        np.testing.assert_array_equal(found, np.array([around, 1, 2, around, around], dtype))


def test_tensors_are_changed_as_their_elements_are():
    """Without a loop in the program: hand-written MLIR has such."""
    text = """
func.func @f(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  %power = math.powf %x, %y : tensor<?x2xf32>
  %sine = math.sin %x : tensor<?x2xf32>
  return %power, %sine : tensor<?x2xf32>, tensor<?x2xf32>
}"""
    x, y = np.array([[-2, 0], [-3, 1000]], np.float32), np.array([[5, 0], [3, 0.5]], np.float32)
    power, sine = opsplice.compile(text).run("f", x, y)
    np.testing.assert_allclose(power, x.astype(np.float64) ** y, 1e-6)
    np.testing.assert_allclose(sine, np.sin(x.astype(np.float64)), 0, 1e-7)


EIGHT_BITS = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ")
FROM = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


@pytest.fixture(scope="module")
def of_eight_bits():
    both = [
        f"""
func.func @{name}_{small}_{wide}(%x: tensor<?x{given}>) -> tensor<?x{made}> {{
  %made = arith.{name} %x : tensor<?x{given}> to tensor<?x{made}>
  return %made : tensor<?x{made}>
}}"""
        for small in EIGHT_BITS
        for wide in FROM
        for name, given, made in (("extf", small, wide), ("truncf", wide, small))
    ]
    return opsplice.compile("\n".join(both))


@pytest.mark.parametrize("wide", FROM)
@pytest.mark.parametrize("small", EIGHT_BITS)
def test_floats_of_eight_bits_are_those_of_ml_dtypes(of_eight_bits, small, wide):
    """All of them; and to them each, what is between two, what is next to that, and what is too large."""
    kind, other = np.dtype(getattr(ml_dtypes, small.replace("f8", "float8_").lower())), np.dtype(FROM[wide])
    every = np.arange(256, dtype=np.uint8).view(kind)
    ends = np.unique(every.astype(np.float32)[np.isfinite(every.astype(np.float32))])
    between = ((ends[1:] + ends[:-1]) / 2).astype(np.float32)
    around = [np.nextafter(between, np.float32(end)) for end in (-np.inf, np.inf)]
    with np.errstate(over="ignore"):
        numbers = np.concatenate([ends, between, *around, np.float32([9e9, -9e9, np.inf, np.nan])]).astype(other)
    for name, x, wanted in (("extf", every, every.astype(other)), ("truncf", numbers, numbers.astype(kind))):
        found = np.asarray(of_eight_bits.run(f"{name}_{small}_{wide}", x)).view(wanted.dtype)
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
        is_number = ~np.isnan(wanted.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("small", [*EIGHT_BITS, "f16", "bf16"])
def test_doubles_are_rounded_once(small):
    """What lies just beside the middle of two numbers, and halves below 2^-14."""
    text = f"""
func.func @f(%x: tensor<?xf64>) -> tensor<?x{small}> {{
  %made = arith.truncf %x : tensor<?xf64> to tensor<?x{small}>
  return %made : tensor<?x{small}>
}}"""
    kind = np.dtype(FROM.get(small) or getattr(ml_dtypes, small.replace("f8", "float8_").lower()))
    bits = np.arange(1 << 8 * kind.itemsize - 1, dtype=f"u{kind.itemsize}")
    with np.errstate(invalid="ignore"):
        every = bits.view(kind).astype(np.float64)
    is_used = np.isfinite(every) & ((every == 0) | (every >= 2.0**-126))  # IREE's threads have no smaller f32
    every, is_odd = every[is_used], bits[is_used] % 2 == 1
    between = (every[1:] + every[:-1]) / 2
    numbers = np.concatenate([every, *(between * (1 + share) for share in (0, -1e-15, 1e-15, -1e-9, 1e-9))])
    numbers = numbers[(numbers == 0) | (numbers >= 2.0**-126)]
    at = np.searchsorted(between, numbers)
    at += (numbers == np.append(between, 0)[at]) & is_odd[at]  # of two the even one
    found = opsplice.compile(text, [], ["--iree-input-demote-f64-to-f32=false"]).run("f", [*numbers, *-numbers])
    found = np.asarray(found).view(kind).astype(np.float64)
    np.testing.assert_array_equal(found, np.concatenate([every[at], -every[at]]))


@pytest.mark.parametrize(
    "read",
    [
        "%t = arith.extf %i : bf16 to f32\n%r = math.absf %t : f32",
        "%t = math.absf %i : bf16\n%r = arith.extf %t : bf16 to f32",
    ],
)
def test_numbers_rounded_to_bf16_are_rounded_where_they_are_read_at_once(read):
    """One loop rounds, and another one computes with it, which IREE makes one dispatch of."""
    program = opsplice.compile(
        """
        #map = affine_map<(i) -> (i)>
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %narrow = tensor.empty(%n) : tensor<?xbf16>
          %wide = tensor.empty(%n) : tensor<?xf32>
          %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
              ins(%x : tensor<?xf32>) outs(%narrow : tensor<?xbf16>) {
          ^bb0(%i: f32, %o: bf16):
            %t = arith.truncf %i : f32 to bf16
            linalg.yield %t : bf16
          } -> tensor<?xbf16>
          %b = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
              ins(%a : tensor<?xbf16>) outs(%wide : tensor<?xf32>) {
          ^bb0(%i: bf16, %o: f32):
            READ
            linalg.yield %r : f32
          } -> tensor<?xf32>
          return %b : tensor<?xf32>
        }
        """.replace("READ", read)
    )
    bits = np.random.default_rng(0).integers(0, 1 << 32, 4096, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), np.float32([1.00390625, 1.01171875, np.inf, -np.inf, np.nan, -0.0])])
    with np.errstate(all="ignore"):
        wanted = np.abs(x.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(program.run("main", x), wanted)

"""Functions of complex numbers: of zeros of both signs, beside the negative line, of all sizes."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice

FORMS = {
    "log": "complex.log %a : complex<f32>",
    "log1p": "complex.log1p %a : complex<f32>",
    "pow": "complex.pow %a, %b : complex<f32>",
    "div": "complex.div %b, %a : complex<f32>",
    **{name: f"complex.{name} %a : complex<f32>" for name in ("cos", "exp", "expm1", "rsqrt", "sin", "tan", "tanh")},
    "abs": """complex.abs %a : complex<f32>
    %none = arith.constant 0.0 : f32
    %r = complex.create %size, %none : complex<f32>""",
}


def function(name: str, form: str) -> str:
    return f"""
func.func @{name}(%x: tensor<?xcomplex<f32>>, %y: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {{
  %made = linalg.generic {{indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]}}
      ins(%x, %y : tensor<?xcomplex<f32>>, tensor<?xcomplex<f32>>) outs(%x : tensor<?xcomplex<f32>>) {{
  ^bb0(%a: complex<f32>, %b: complex<f32>, %out: complex<f32>):
    {"%size" if "%size" in form else "%r"} = {form}
    linalg.yield %r : complex<f32>
  }} -> tensor<?xcomplex<f32>>
  return %made : tensor<?xcomplex<f32>>
}}
"""


@pytest.fixture(scope="module")
def program():
    model = "#one = affine_map<(i) -> (i)>" + "".join(function(*form) for form in FORMS.items())
    return opsplice.compile(model, isolate=True)


ZEROS = [complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
BESIDE = [complex(a, b) for a in (-4, -1, -0.25, 1, 3) for b in (0.0, -0.0, 1e-3, -2)]


def test_functions_are_those_of_numpy(program):
    small = [complex(a, b) for a in (1e-5, -1e-5, 0.5) for b in (-1e-5, 1e-30, 3)]
    x = np.array(BESIDE + small + [-90 + 1j, 60 + 1e-5j, 1e-5 - 60j], np.complex64)
    exact, y = x.astype(np.complex128), np.full_like(x, 2 - 3j)
    wanted = {name: getattr(np, name)(exact) for name in ("abs", "cos", "exp", "expm1", "sin", "tan", "tanh")}
    wanted |= {"rsqrt": np.conj(np.sqrt(exact)) / np.abs(exact), "div": y / exact}
    for name, numbers in wanted.items():
        found = program.run(name, x, y)
        fits = np.abs(numbers.imag) > 1e-37  # as what rounding leaves of them
        np.testing.assert_allclose(found.imag[fits], numbers.imag[fits], 2e-6, 1e-7 * (name == "div"), err_msg=name)
        np.testing.assert_allclose(found.real, numbers.real, 2e-6, 2e-7, err_msg=name)
        if name in ("rsqrt", "exp"):
            np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(numbers.imag))


def test_sizes_and_quotients_of_what_has_no_square(program):
    x = np.array([3e20 + 4e20j, 3e-25 - 4e-25j, 1e20j, -1e-25, 1e30 - 1e30j], np.complex64)
    one = np.ones_like(x)
    np.testing.assert_allclose(program.run("abs", x, one), np.abs(x.astype(np.complex128)), 1e-6)
    np.testing.assert_allclose(program.run("div", x, one), 1 / x.astype(np.complex128), 1e-6)
    np.testing.assert_array_equal(program.run("div", x * 0, 2 * one).real, [np.inf] * 3 + [-np.inf, np.inf])
    np.testing.assert_array_equal(program.run("div", np.full_like(x, complex(np.inf, 1)), 2 * one), 0 * one)
    for side in (1, np.nan):
        np.testing.assert_array_equal(program.run("abs", np.full_like(x, complex(-np.inf, side)), one), np.inf)


def test_logarithms_and_powers_are_those_of_numpy(program):
    large = [1e30 + 2e30j, -1e-30 + 1e-31j, 0.6 + 0.8j, 1e-4 - 1e-5j]
    x = np.array(ZEROS + BESIDE + large, np.complex64)
    y = np.resize(np.array([0.5, -1 / 3, 0, 1.5 + 0.5j, 2 - 1j], np.complex64), x.shape)
    exact = x.astype(np.complex128)
    with np.errstate(all="ignore"):
        wanted = {"log": np.log(exact), "log1p": np.log1p(exact)}
    for name, numbers in wanted.items():
        found = program.run(name, x, y)
        np.testing.assert_allclose(found.view(np.float32), numbers.view(np.float64), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(numbers.imag))
    # NumPy has no power of zero that is not whole.
    powers = np.where(exact == 0, np.where(y == 0, 1, 0), np.power(np.where(exact == 0, 1, exact), y))
    fits = np.abs(powers) < np.finfo(np.float32).max
    assert fits.sum() > len(fits) - len(large)
    np.testing.assert_allclose(program.run("pow", x, y)[fits], powers[fits], rtol=2e-5, atol=1e-7)

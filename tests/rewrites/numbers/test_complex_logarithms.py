"""Logarithms and powers of complex numbers: of zeros of both signs, beside the negative line, of all sizes."""

from __future__ import annotations

import numpy as np

import opsplice

FORMS = {
    "log": "complex.log %a : complex<f32>",
    "log1p": "complex.log1p %a : complex<f32>",
    "pow": "complex.pow %a, %b : complex<f32>",
}


def function(name: str, form: str) -> str:
    return f"""
func.func @{name}(%x: tensor<?xcomplex<f32>>, %y: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {{
  %made = linalg.generic {{indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]}}
      ins(%x, %y : tensor<?xcomplex<f32>>, tensor<?xcomplex<f32>>) outs(%x : tensor<?xcomplex<f32>>) {{
  ^bb0(%a: complex<f32>, %b: complex<f32>, %out: complex<f32>):
    %r = {form}
    linalg.yield %r : complex<f32>
  }} -> tensor<?xcomplex<f32>>
  return %made : tensor<?xcomplex<f32>>
}}
"""


def test_they_are_those_of_numpy():
    zeros = [complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    beside = [complex(a, b) for a in (-4, -1, -0.25, 1, 3) for b in (0.0, -0.0, 1e-3, -2)]
    large = [1e30 + 2e30j, -1e-30 + 1e-31j, 0.6 + 0.8j, 1e-4 - 1e-5j]
    x = np.array(zeros + beside + large, np.complex64)
    y = np.resize(np.array([0.5, -1 / 3, 0, 1.5 + 0.5j, 2 - 1j], np.complex64), x.shape)
    program = opsplice.compile(
        "#one = affine_map<(i) -> (i)>" + "".join(function(*form) for form in FORMS.items()), isolate=True
    )
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

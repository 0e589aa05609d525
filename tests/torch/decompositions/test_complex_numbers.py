"""Ops on complex numbers by their parts: the numbers of f64, and no worse than eager's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice.torch
from opsplice.rewrites.numbers import complex_functions
from opsplice.torch.decompositions import complex_numbers

FUNCTIONS = {
    "acos": complex_functions.inverse_cosine,
    "acosh": complex_functions.inverse_hyperbolic_cosine,
    "asin": complex_functions.inverse_sine,
    "asinh": complex_functions.inverse_hyperbolic_sine,
    "atan": complex_functions.inverse_tangent,
    "atanh": complex_functions.inverse_hyperbolic_tangent,
    "cos": complex_functions.cosine,
    "cosh": complex_functions.hyperbolic_cosine,
    "exp": complex_functions.exponential,
    "expm1": complex_functions.exponential_less_one,
    "log": complex_functions.logarithm,
    "rsqrt": complex_functions.inverse_root,
    "reciprocal": complex_functions.reciprocal,
    "sigmoid": complex_functions.logistic,
    "sin": complex_functions.sine,
    "sinh": complex_functions.hyperbolic_sine,
    "sqrt": complex_functions.root,
    "tan": complex_functions.tangent,
    "tanh": complex_functions.hyperbolic_tangent,
}
# What grows with e to a part has large numbers of other sizes.
OF_ANY_SIZE = ("log", "reciprocal", "rsqrt", "sqrt")


def numbers(parts):
    return torch.complex(parts.repeat(len(parts)), parts.repeat_interleave(len(parts)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exact_for_large_and_small_numbers(name):
    ends = [1e-15, 3e15, -4e17] if name in OF_ANY_SIZE else [1e-15, 20, -40, 80]
    z = numbers(torch.tensor([0.0, 1, -1, 0.999, 1e-4, -3, *ends, *torch.randn(20)]))
    exact = getattr(torch, name)(z.to(torch.complex128))
    z, exact = z[torch.isfinite(exact)], exact[torch.isfinite(exact)]
    off = (complex_numbers.function(FUNCTIONS[name])(z) - exact).abs() / exact.abs().clamp_min(1e-30)
    assert float(off.max()) < 3e-7


def test_magnitudes_and_angles_of_large_and_small_numbers():
    parts = torch.tensor([0, -0.0, 1e-30, 3, -4e30, 3e38])
    numbers = torch.complex(parts.repeat(6), parts.repeat_interleave(6))
    torch.testing.assert_close(complex_numbers.magnitude(numbers), numbers.abs())
    torch.testing.assert_close(complex_numbers.angle(numbers), numbers.angle())


class Everything(torch.nn.Module):
    def forward(self, x, y):
        a, b = torch.view_as_complex(x), torch.view_as_complex(y)
        functions = [getattr(torch, name)(a) for name in FUNCTIONS]
        logarithms = [torch.log1p(a), torch.log2(a), torch.log10(a)]
        products = [a / b, 2 / a, a / (1 + 2j), a * 1j, x[..., 0] * (2 - 1j), -a, a**3, a**-2, a**0.5, a**b, 2**a]
        sums = [a.mean(), a.mean(0), a.prod(0), a.prod(), a.cumsum(1), torch.stack([a.var(1), a.var(1)])]
        asked = [a == b, a != a.conj(), torch.isnan(a / b), torch.isinf(a / 0), torch.std(a, 0, correction=1)]
        return *map(torch.view_as_real, [*logarithms, *functions, *products, *sums[:5]]), sums[5], *asked


def test_programs_compute_with_complex_numbers():
    x, y = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    y[0] = x[0]
    x[1, :, 1] = 0
    program = opsplice.torch.export(Everything().eval(), (x, y))
    wanted = Everything()(x.double(), y.double())
    for got, exact in zip(program.run("main", x.numpy(), y.numpy()), wanted, strict=True):
        np.testing.assert_allclose(got, exact.numpy(), rtol=2e-6, atol=1e-6 * float(exact.double().abs().max()))


def loss(x, signal, y):
    """Complex numbers come in, are kept for the backward pass, written to parts of tensors, and go out."""
    spectrum = torch.stft(signal, 16, 6, window=torch.hann_window(16), return_complex=True)
    back = torch.fft.irfft(torch.fft.rfft(signal, norm="ortho") * x[0, 0], n=24, norm="ortho")
    written = x.clone()
    written[:, 1:3] = 1j * x[:, :2]
    written[1] = 2.5 - 0.5j
    functions = (x.log() + x.sqrt() * y).abs().sum() + x[:, torch.tensor([0, 2])].angle().sum()
    products = [written @ x.mT, x.conj() * y - y.conj() * y.imag, torch.nn.functional.linear(x, x)]
    return [*products, spectrum.abs() * back.mean(), functions]


def test_compiled_graphs_pass_complex_numbers_and_their_gradients():
    x, y = (torch.complex(*torch.randn(2, 3, 4)) for _ in range(2))

    def gradients(function):
        leaves = [each.clone().requires_grad_() for each in (x, torch.linspace(-1, 1, 48).view(2, 24) ** 3)]
        results = function(*leaves, y.conj())
        sum(each.abs().square().sum() for each in results).backward()
        return [*(each.resolve_conj() for each in results), *(leaf.grad.resolve_conj() for leaf in leaves)]

    compiled = gradients(torch.compile(loss, backend="opsplice"))
    torch.testing.assert_close(compiled, gradients(loss), rtol=1e-4, atol=1e-4)


def test_gradients_of_means() -> None:
    """They are quotients by a number, which IREE has for floats alone."""
    x = torch.randn(3, 4, dtype=torch.complex64)
    given = [x.clone().requires_grad_() for _ in range(2)]
    for tensor, function in zip(given, (f := lambda x: x.mean(1), torch.compile(f, backend="opsplice")), strict=True):
        function(tensor).abs().sum().backward()
    torch.testing.assert_close(given[0].grad, given[1].grad)


def test_means_and_deviations() -> None:
    def run(z: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        kind = torch.complex64
        return [
            z.mean(0, dtype=kind),
            x.mean(dtype=kind),
            x.sum(1, dtype=kind),
            *torch.std_mean(z),
            *torch.var_mean(z, 1),
        ]

    given = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(*given), run(*given))


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_real_numbers_of_complex_ones() -> None:
    def run(z: torch.Tensor) -> list[torch.Tensor]:
        return [z.to(kind) for kind in (torch.float32, torch.float64, torch.int32, torch.bool, torch.complex128)]

    z = torch.tensor([0, 1j, -2.5 + 1j, 3], dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(z), run(z))


@pytest.mark.parametrize("shapes", [((5,), (3, 5)), ((3, 5), (5,)), ((3, 1), (3, 5))])
def test_numbers_of_sizes_and_angles_of_other_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    size, angle = map(torch.randn, shapes)
    found = torch.compile(torch.polar, backend="opsplice")(size, angle)
    exact = size.double().numpy() * np.exp(1j * angle.double().numpy())
    np.testing.assert_allclose(found.numpy(), exact, rtol=1e-5, atol=1e-6)


def moved(z: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    places = torch.tensor([[0, 2, 1], [1, 1, 0]])
    is_set = torch.tensor([True, False, True, False])
    return [
        z.scatter(0, places, y),
        z.scatter(1, places, 1 - 2j),
        z.scatter_add(0, places, y),
        z.masked_fill(is_set, 2 + 1j),
        x.masked_fill(is_set, 2),
        z * torch.tensor([1, 2j, 3, 4 - 1j]),
        z.index_fill(1, places[0], -1j),
        torch.full_like(x, 2 - 1j, dtype=torch.complex64) * x,
        torch.full_like(z, 3) * x,
        torch.nn.functional.pad(z, (1, 2)),
        torch.nn.functional.pad(z, (-1, 2)),
        z[:, :0] @ y[:0, :3],
        *(ask(each) for ask in (torch.any, torch.all) for each in (z, z * 0, z[0])),
        *(z.any(0), z.all(1, keepdim=True), (z * x.ge(0)).all(0)),
        *(torch.logical_not(z), torch.logical_and(z, x > 0), torch.logical_or(x, z * 0), torch.logical_xor(z, z)),
    ]


def test_numbers_are_moved_and_asked_for() -> None:
    z, x = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4)
    z[0, 0], z[1, 1] = 0, 1j
    given = z, torch.randn(2, 4, dtype=torch.complex64), x
    torch.testing.assert_close(torch.compile(moved, backend="opsplice")(*given), moved(*given))


def sums(z: torch.Tensor) -> list[torch.Tensor]:
    batched = z.expand(2, 3, 4)
    return [
        z.cumprod(0),
        z.cumprod(1),
        torch.logcumsumexp(z / 9, 1),
        torch.logaddexp(z, z * -30),
        torch.logaddexp(torch.tensor([-torch.inf, 1 - 1j]), z[0, :2].real + 0j),
        torch.baddbmm(batched[:, :, :3], batched, batched.mT, beta=0.5j, alpha=2),
        torch.addmm(z @ z.mT, z, z.mT, beta=0),
        torch.exp2(z),
        torch.ldexp(z, torch.tensor(3)),
        torch.nn.functional.silu(z),
        *(torch.linalg.vector_norm(z, order, dim=1) for order in (1, 2, torch.inf)),
        torch.nn.functional.pairwise_distance(z, -z),
        z + 2,
        z - (1 + 2j),
    ]


def test_sums_and_products() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(sums, backend="opsplice")(z), sums(z), rtol=1e-5, atol=1e-5)

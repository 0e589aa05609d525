"""Functions of numbers that IREE lacks: the same numbers as in eager."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import special
from torch.nn import functional

import opsplice  # noqa: F401  # its backend


def results(x: torch.Tensor, y: torch.Tensor, number: torch.Tensor) -> list[torch.Tensor]:
    places = torch.tensor([[0, 0], [1, 2], [3, 3]])
    ordered = torch.arange(5.0)
    whole = torch.tensor([[0, 4, -18, 120, 2**40], [6, 0, 12, 7, 10**11], [-5, 9, 30, 2, 3**9]])
    asked = torch.tensor([0.0, 2, 9, -1, torch.nan])
    edges = torch.tensor([-0.0, -1, -7.5, 1e-20, 40, 1e10, 3e38, torch.inf, -torch.inf, torch.nan])
    halves = [torch.ones(shape, dtype=torch.float16) for shape in [(2, 2), (3, 2, 4), (3, 4, 2)]]
    return [
        torch.fmax(x, y),
        torch.fmin(x, y[0]),
        torch.fmax(x, number),
        torch.signbit(x * 0),
        torch.copysign(x, -x.flip(0)),
        torch.copysign(number, -number),
        torch.copysign(places, -x[0, 0].double()),
        torch.hypot(x * 1e30, torch.ones(5) * 1e25),
        torch.gcd(whole, whole.flip(0)),
        torch.gcd(whole[0].to(torch.int8), torch.tensor(6, dtype=torch.int8)),
        torch.gcd(whole.abs().to(torch.uint8), torch.tensor([200, 250, 0, 255, 64], dtype=torch.uint8)),
        torch.lcm(whole, torch.tensor([[4], [0], [-6]])),
        torch.erfc(x * 4),
        torch.erfinv(torch.cat([x[0] / 8, torch.tensor([-1.0, 1, 2, 0, 0.999])])),
        *(gamma(each) for gamma in (torch.lgamma, torch.digamma) for each in (x * 4, ordered, edges)),
        *(torch.polygamma(order, each) for order in (0, 1) for each in (x * 4, ordered + 0.1, edges[2:])),
        *(torch.polygamma(order, ordered.double() + 0.1) for order in (2, 5)),
        *(special.zeta(ordered[:, None], torch.cat([x[0] * 4, edges[2:5], ordered])), special.zeta(2.5, x[0] * 4)),
        *(bessel(each) for bessel in (special.i0e, special.i1e) for each in (x * 9, edges[:5])),
        special.i1e(x.bfloat16()),
        *(bessel(x * 9) for bessel in (special.i0, special.i1)),
        *(bessel(x.double() * 12) for bessel in (special.i0, special.i1e)),
        *(special.erfcx(each) for each in (x * 3, edges)),
        special.log_ndtr(x * 9),
        *(torch.fft.fftfreq(size, 0.3) * number for size in (5, 6)),
        *(torch.fft.rfftfreq(size) * number for size in (5, 6)),
        *(torch.angle(each) for each in (x, edges, places)),
        torch.dist(x, y[1], 3),
        torch.view_copy(x, (5, 3)),
        torch.permute_copy(x, (1, 0)),
        torch.narrow_copy(x, 1, 1, 3),
        *torch.unbind_copy(x, 1),
        torch.as_strided_copy(x, (2, 2), (1, 3)),
        torch.searchsorted(x[0].sort()[0], x),
        torch.searchsorted(ordered, asked),
        torch.searchsorted(ordered, asked, right=True),
        *torch.aminmax(x),
        *torch.aminmax(x, dim=1, keepdim=True),
        torch.fmod(x, 0.7),
        torch.arange(0.1, 1.1, 1.0) + number,
        x.scatter(1, places, x[:, 1:3], reduce="add"),
        x.scatter(1, places, 2.5, reduce="multiply"),
        torch.gather(number, 0, torch.tensor([0])),
        torch.addbmm(*(each * 1.1 for each in halves)),
        functional.avg_pool2d(x.view(1, 1, 3, 5), 2, 1, divisor_override=3),
        *functional.adaptive_max_pool2d(x.view(1, 3, 5), (1, 5), return_indices=True),
        x.median(),
        number.median(0)[0],
        *torch.var_mean(x[:0], correction=1),
    ]


def test_functions_give_the_numbers_of_eager():
    torch.manual_seed(0)
    x, y, number = torch.randn(3, 5), torch.randn(3, 5), torch.tensor(2.5)
    y[0, 0] = torch.nan
    found = torch.compile(results, backend="opsplice")(x, y, number)
    torch.testing.assert_close(found, results(x, y, number), rtol=1e-5, atol=1e-7, equal_nan=True)


def orders(x: torch.Tensor, whole: torch.Tensor, ends: torch.Tensor, wide: torch.Tensor) -> list[torch.Tensor]:
    apart = ends[:, None].expand(len(ends), len(ends))
    left, right = x[:4].repeat(4, 4).to(torch.float8_e4m3fn), x.repeat(4, 4).to(torch.float8_e4m3fn).t()
    row_scales, column_scales = x[:4].abs().repeat(4, 1)[:, :1] + 1, x.abs().repeat(4, 1)[:, 1:2].t() + 1
    one = torch.tensor(0.5)
    return [
        torch.nextafter(apart, ends),
        torch.nextafter(wide, wide.flip(0)),
        torch.nextafter(ends.bfloat16(), one.bfloat16()),
        *torch.mode(whole),
        *torch.mode(whole.float(), 0, keepdim=True),
        *torch.mode(whole > 1, 0),
        *torch.mode(one),
        *torch.nanmedian(torch.where(whole > 1, torch.nan, x), 1),
        torch.nanmedian(torch.where(x > -9, torch.nan, x), 0, keepdim=True)[0],
        torch.nanmedian(torch.where(whole > 1, torch.nan, x)),
        torch.nanmedian(whole),
        torch._scaled_mm(left, right, one, one * 3, out_dtype=torch.float32),
        torch._scaled_mm(left, right, row_scales, column_scales, bias=right[0].bfloat16(), out_dtype=torch.bfloat16),
    ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_orders_are_those_of_eager(dynamic: bool) -> None:
    fast = torch.compile(orders, backend="opsplice", dynamic=dynamic)
    ends = torch.tensor([0, -0.0, 1, -1, torch.inf, -torch.inf, torch.nan, 1e-45, -1e-45, 3.4028234663852886e38, 0.5])
    for rows, columns in ((4, 8), (8, 4)) if dynamic else ((4, 8),):
        x, whole = torch.randn(rows, columns), torch.randint(0, 4, (rows, columns))
        found, wanted = (each(x, whole, ends, ends.double()) for each in (fast, orders))
        torch.testing.assert_close(found[:-1], wanted[:-1], rtol=1e-6, atol=0, equal_nan=True)
        torch.testing.assert_close(found[-1], wanted[-1])
        assert torch.equal(torch.signbit(found[0]), torch.signbit(wanted[0]))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16])
def test_a_number_as_a_share_and_a_power_of_two(kind: torch.dtype) -> None:
    form = torch.finfo(kind)
    x = torch.tensor(
        [0, -0.0, 1, -1, 0.75, 3.5, -1000, form.max, form.tiny, -form.tiny, torch.inf, torch.nan], dtype=kind
    )
    (share, power), wanted = torch.compile(torch.frexp, backend="opsplice")(x), torch.frexp(x)
    torch.testing.assert_close(share, wanted.mantissa, rtol=0, atol=0, equal_nan=True)
    assert power[:-2].equal(wanted.exponent[:-2])


def test_the_bits_of_scalars() -> None:
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        bits = x.view(torch.int32)
        return [bits, bits.view(torch.float32), torch.nextafter(x, x + 1), *torch.frexp(x)]

    x = torch.tensor(3.5)
    torch.testing.assert_close(torch.compile(run, backend="opsplice", options={"isolate": True})(x), run(x))

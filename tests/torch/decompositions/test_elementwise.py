"""Arithmetic that IREE does not take as PyTorch has it: the numbers of eager mode."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice.torch
from opsplice.torch.decompositions import elementwise
from opsplice.torch.decompositions.windows import overlapping_sum


class Arithmetic(torch.nn.Module):
    def forward(self, n: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            2**n,
            (n - 3) ** 5,
            n.to(torch.int8) ** (n[:1].to(torch.int8).abs() + 3),
            n**2.5,
            torch.fmod(x, 0.3),
            -7 % (n.abs() + 2),
            7 % (x.abs() + 0.3),
            torch.hypot(x, x.flip(0)),
            2 ** torch.arange(5) * n[:5],
            torch.full((3,), 200, dtype=torch.uint8) + n[:3].to(torch.uint8),
            torch.tensor([1, 200], dtype=torch.uint8).to(torch.int64) * n[:2],
            (n > 2).to(torch.bfloat16).float(),
            n.to(torch.bfloat16).float(),
            torch.nn.functional.pad(y, (2, 2), mode="reflect"),
            torch.istft(torch.stft(y[:, :28], 8, 3, return_complex=True), 8, 3),
        ]


def test_arithmetic_is_that_of_eager():
    n = torch.tensor([0, 1, 2, 5, 62, 63, 64, 200, -1, -2])
    model, x = Arithmetic().eval(), torch.linspace(-3, 3, 10, dtype=torch.float64)
    program = opsplice.torch.export(
        model, (n, x, torch.ones(1, 30)), dynamic={"y": {1: torch.export.Dim("n", min=28, max=99)}}
    )
    for y in (torch.randn(1, 30), torch.randn(1, 41)):
        found = program.run("main", n.numpy(), x.numpy(), y.numpy())
        for got, wanted in zip(found, model(n, x, y), strict=True):
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6)


def _one_by_one(*ops):
    class Module(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
            return [op(*tensors) for op in ops]

    return Module().eval()


def _differences(module: torch.nn.Module, *tensors: torch.Tensor) -> dict[int, tuple[list[float], ...]]:
    found = opsplice.torch.export(module, tensors).run("main", *(tensor.numpy() for tensor in tensors))
    differences = {}
    for number, (got, wanted) in enumerate(zip(found, module(*tensors), strict=True)):
        got = torch.from_numpy(np.array(got))
        assert got.dtype == wanted.dtype, number
        off = ~torch.isclose(got, wanted, rtol=1e-5, atol=0, equal_nan=True)
        if off.any():
            given = [tensor[off][:3].tolist() for tensor in tensors if tensor.shape == off.shape]
            differences[number] = *given, got[off][:3].tolist(), wanted[off][:3].tolist()
    return differences


_ENDS = [0.0, 1.0, -1.0, 0.1, 7.3, -7.3, 2.5, 100.0, -129.0, 1e10, torch.inf, -torch.inf, torch.nan]


def test_numbers_without_end_and_those_that_are_none():
    x = torch.tensor(_ENDS).repeat_interleave(len(_ENDS))
    y = torch.tensor(_ENDS).repeat(len(_ENDS))
    module = _one_by_one(
        torch.fmod,
        torch.floor_divide,
        torch.maximum,
        torch.minimum,
        torch.hypot,
        lambda x, y: x.clamp(y, y.abs()),
        lambda x, y: torch.nn.functional.threshold(x, 0.1, 20.0),
        lambda x, y: x.isfinite(),
        lambda x, y: torch.fmod(x, 3),
        lambda x, y: x // 3,
        lambda x, y: x // -0.3,
        lambda x, y: 7 // x,
        lambda x, y: x**-1,
        lambda x, y: x**-2,
        lambda x, y: x**-3.0,
        lambda x, y: x == 0.1,
        lambda x, y: x <= 0.1,
        lambda x, y: x == x.clone(),
        lambda x, y: torch.where(x == x, x, 5.0),
        lambda x, y: x.clamp(-1, 2.5),
        lambda x, y: x.clamp_min(0.5),
        lambda x, y: x.clamp_max(0.5),
        lambda x, y: torch.nn.functional.relu6(x),
        lambda x, y: torch.nn.functional.hardtanh(x),
        lambda x, y: torch.nn.functional.hardsigmoid(x),
        lambda x, y: torch.maximum(x, torch.tensor(0.5)),
        lambda x, y: torch.minimum(torch.tensor(0.5), x),
    )
    assert not _differences(module, x, y)


def test_integers_at_the_ends_of_their_types():
    long = torch.tensor([2**63 - 1, -(2**63) + 1, 2**53 + 1, 7, -7, 3])
    byte = torch.tensor([200, 255, 127, 128, 1, 3], dtype=torch.uint8)
    module = _one_by_one(
        lambda long, byte: -long,
        lambda long, byte: long // 3,
        lambda long, byte: long // -3,
        lambda long, byte: long // long.flip(0),
        lambda long, byte: long.clamp(-5, 2**62 + 1),
        lambda long, byte: long.clamp(min=-5.5),
        lambda long, byte: byte.clamp(1.5, 200.5),
        lambda long, byte: long.isfinite(),
        lambda long, byte: -byte,
        lambda long, byte: byte.abs(),
        lambda long, byte: byte // byte.flip(0),
        lambda long, byte: torch.fmod(byte, byte.flip(0)),
        lambda long, byte: torch.remainder(byte, byte.flip(0)),
        lambda long, byte: byte.reciprocal(),
        lambda long, byte: torch.nn.functional.threshold(byte, 4, 20),
    )
    assert not _differences(module, long, byte)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
def test_bytes_and_numbers(kind: torch.dtype):
    """IREE's compiler ends the process where it subtracts a number from bytes."""
    module = _one_by_one(
        lambda x: x - 3,
        lambda x: x - -3,
        lambda x: x - 1.5,
        lambda x: torch.sub(x, 3, alpha=2),
        lambda x: 3 - x,
        lambda x: torch.rsub(x, 3, alpha=2),
        lambda x: x % 3,
        lambda x: x % -3,
        lambda x: x // -3,
        lambda x: torch.fmod(x, 3),
        *(partial(compared, other=number) for compared in (torch.lt, torch.ge, torch.eq) for number in (-1, 300)),
        lambda x: torch.nn.functional.hardtanh(x, 0, 6.5),
    )
    assert not _differences(module, torch.tensor([0, 1, 2, 7, 100, 127, 128, 200, 255]).to(kind))


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
def test_bytes_and_open_sizes(kind: torch.dtype):
    def combined(x: torch.Tensor) -> list[torch.Tensor]:
        size = x.shape[0]
        return [x - size, size - x, x * size, torch.sub(x, size, alpha=2)]

    fast = torch.compile(combined, backend="opsplice", dynamic=True)
    for size in (5, 9):
        x = torch.arange(0, 40 * size, 40).to(kind)
        torch.testing.assert_close(fast(x), combined(x))


def test_truths_and_numbers():
    module = _one_by_one(
        lambda x: x <= -1,
        lambda x: x >= 2,
        lambda x: x == 1,
        lambda x: x & 2,
        lambda x: torch.bitwise_left_shift(x, 3),
        lambda x: 2**x,
        lambda x: x.mean(0, dtype=torch.float64),
        lambda x: x.mean(dtype=torch.float32),
        lambda x: torch.diagonal_scatter(torch.stack([x, x]), torch.tensor([2, 0])),
    )
    assert not _differences(module, torch.tensor([True, False]))


def test_comparisons_of_constants_with_numbers_of_other_types():
    ops = (torch.lt, torch.ge, torch.eq)
    values = ((3, torch.float32), (-3, torch.float64), (2, torch.float16), (3, torch.int32), (200, torch.uint8))

    def compared(op, value, kind, number):
        # The absolute value is what IREE computes before it compares.
        return lambda x: op(torch.full((4,), value, dtype=kind).abs(), number)

    numbers = (0, 2, -4, 2.5)
    cases = [(op, value, kind, number) for op in ops for value, kind in values for number in numbers]
    assert not _differences(_one_by_one(*(compared(*case) for case in cases)), torch.ones(4))


def test_divisions_of_constants():
    """IREE computes them itself, without signs: 7 // -2 was -1, and -7 % 2 was -1."""
    divisions = (torch.remainder, torch.floor_divide, torch.fmod, lambda x, y: torch.div(x, y, rounding_mode="trunc"))

    def divided(op, value, kind, number):
        return lambda x: op(torch.full((4,), value, dtype=kind), number) + torch.ones(4, dtype=kind)

    cases = [(op, v, k, n) for op in divisions for v in (7, -7) for k in (torch.int64, torch.int8) for n in (2, -2, -3)]
    assert not _differences(_one_by_one(*(divided(*case) for case in cases)), torch.ones(4))


def test_powers_of_integers_wrap_around_as_in_eager():
    numbers = torch.tensor([0, 1, 2, 3, 5, 31, 62, 63, 64, 65, 2**62 + 1, -1, -2, -3, -(2**63)])
    for kind in (torch.int8, torch.uint8, torch.int32, torch.int64):
        base, exponent = numbers.to(kind).unsqueeze(-1), numbers.to(kind)
        torch.testing.assert_close(elementwise.power(base, exponent), base**exponent)
        for number in (0, 1, 2, 7, 65):
            torch.testing.assert_close(elementwise.power(base, number), base**number)
            torch.testing.assert_close(elementwise.power(number, exponent), number**exponent)


def test_hypotenuses_of_what_has_no_end():
    ends = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, 3.0])
    left, right = ends.repeat(5), ends.repeat_interleave(5)
    torch.testing.assert_close(elementwise.hypotenuse(left, right), torch.hypot(left, right), equal_nan=True)


def test_windows_along_a_dim_counted_from_the_last_are_summed():
    windows = torch.randn(2, 17, 6, 4)
    for dim, sizes in ((1, [2, 52, 6]), (-2, [2, 52, 6])):
        expected = torch.ops.aten.unfold_backward(windows, sizes, dim, 4, 3)
        torch.testing.assert_close(overlapping_sum(windows, sizes, dim, 4, 3), expected)


def test_numbers_below_zero_with_constants():
    """As models make a mask where they are given none, and add its zeros times the lowest number to scores."""
    lowest = torch.finfo(torch.float32).min
    module = _one_by_one(
        lambda x: x + (1.0 - torch.ones_like(x)) * lowest,
        lambda x: x + (1 - torch.full((4,), 0.1)),
        lambda x: x + (-3 - torch.full((4,), 0.1)),
        lambda x: x + torch.rsub(torch.full((4,), 3.0), 0.1, alpha=2),
        lambda x: x.half() + (1.0 - torch.full((4,), 3.0, dtype=torch.float16)),
        lambda x: x + torch.full((4,), 0.1) * -1,
        lambda x: x + torch.add(torch.full((4,), 0.1), -3),
        lambda x: x + torch.sub(torch.full((4,), 0.1), -3),
        lambda x: x + torch.sub(torch.full((4,), 3.0), torch.ones(4), alpha=-2),
        lambda x: x + torch.add(torch.full((4,), 3.0), 3, alpha=-2),
        lambda x: x + torch.addcmul(torch.full((4,), 3.0), torch.ones(4), torch.ones(4), value=-2),
        lambda x: x + (5 - torch.full((4,), 3)) + torch.full((4,), 3) * -2,
    )
    assert _differences(module, torch.tensor([0.0, 1.0, -7.25, 1e-3])) == {}


def lists(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> list[torch.Tensor]:
    one, other = [x, y], [y * 2, x * 2]
    written = [each * 1 for each in one]
    torch._foreach_mul_(written, 3)
    torch._foreach_copy_(written[:1], other[:1])
    torch._foreach_zero_(written[1:])
    made = [
        torch._foreach_add(one, other, alpha=2),
        torch._foreach_sub(one, [1.0, 2.0]),
        torch._foreach_mul(one, scale),
        torch._foreach_addcmul(one, other, other, 0.3),
        torch._foreach_addcdiv(one, other, other, [0.3, 0.4]),
        torch._foreach_lerp(one, other, 0.3),
        torch._foreach_maximum(one, other),
        torch._foreach_minimum(one, [0.1, 0.2]),
        torch._foreach_norm(one, 1),
        torch._foreach_max(one),
        torch._foreach_pow(2.0, one),
    ]
    return [*written, *(each for results in made for each in results)]


def test_ops_on_lists() -> None:
    """Optimizers and the clipping of gradients have them."""
    given = torch.randn(4, 3), torch.randn(4, 3), torch.tensor(2.0)
    torch.testing.assert_close(torch.compile(lists, backend="opsplice")(*given), lists(*given))


def test_products_of_bytes_that_are_added() -> None:
    def run(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        return [torch.baddbmm(x, y, z, beta=3, alpha=2), torch.scalar_tensor(200, dtype=torch.uint8) + x]

    given = [torch.randint(0, 256, shape, dtype=torch.uint8) for shape in ((2, 3, 5), (2, 3, 4), (2, 4, 5))]
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(*given), run(*given))

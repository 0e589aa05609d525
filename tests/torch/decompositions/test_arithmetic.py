"""Arithmetic that IREE does not take as PyTorch has it: the numbers of eager mode."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice.torch
from opsplice.torch.decompositions import arithmetic
from opsplice.torch.decompositions.windows import overlapping_sum


class Arithmetic(torch.nn.Module):
    def forward(self, n: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            2**n,
            (n - 3) ** 5,
            n.to(torch.int8) ** (n[:1].to(torch.int8).abs() + 3),
            n**2.5,
            torch.fmod(x, 0.3),
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


def test_powers_of_integers_wrap_around_as_in_eager():
    numbers = torch.tensor([0, 1, 2, 3, 5, 31, 62, 63, 64, 65, 2**62 + 1, -1, -2, -3, -(2**63)])
    for kind in (torch.int8, torch.uint8, torch.int32, torch.int64):
        base, exponent = numbers.to(kind).unsqueeze(-1), numbers.to(kind)
        torch.testing.assert_close(arithmetic.power(base, exponent), base**exponent)
        for number in (0, 1, 2, 7, 65):
            torch.testing.assert_close(arithmetic.power(base, number), base**number)
            torch.testing.assert_close(arithmetic.power(number, exponent), number**exponent)


def test_hypotenuses_of_what_has_no_end():
    ends = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, 3.0])
    left, right = ends.repeat(5), ends.repeat_interleave(5)
    torch.testing.assert_close(arithmetic.hypotenuse(left, right), torch.hypot(left, right), equal_nan=True)


def test_windows_along_a_dim_counted_from_the_last_are_summed():
    windows = torch.randn(2, 17, 6, 4)
    for dim, sizes in ((1, [2, 52, 6]), (-2, [2, 52, 6])):
        expected = torch.ops.aten.unfold_backward(windows, sizes, dim, 4, 3)
        torch.testing.assert_close(overlapping_sum(windows, sizes, dim, 4, 3), expected)

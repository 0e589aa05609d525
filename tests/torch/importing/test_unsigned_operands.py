"""Bytes of 128 and above, and truths, beside numbers of other types: the numbers of eager mode."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch


def mixed(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> list[torch.Tensor]:
    return [
        x / 255,
        (x - 127.5) * 0.5,
        2.5 - x,
        1.01**x,
        x * y,
        y - x,
        x / y,
        x / x.flip(0),
        x * n,
        n + x,
        torch.where(m, x, y),
        torch.where(m, x, n),
        torch.maximum(x, n),
        torch.atan2(x, y),
        x > y,
        n <= x,
        torch.cat([x, y]),
        torch.cat([n, x]),
        x.mean(dtype=torch.float32),
        m <= n,
        n == m,
        x & m,
        m ^ n,
        torch.minimum(x, m),
        torch.stack([y, x]),
        x < n[5] * 50,
        x.max() - x.min(),
        (x.to(torch.int8).min() + 1) * 2,
        x[:4].view(2, 2) @ x[:4].view(2, 2),
        x[:4].view(2, 1, 2).to(torch.int8) @ x[:4].view(2, 2, 1).to(torch.int8),
        x.to(torch.int8),
    ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_operands_of_other_types(dynamic: bool) -> None:
    x = torch.tensor([0, 1, 7, 127, 128, 200, 255], dtype=torch.uint8)
    given = x, torch.linspace(-3, 300, 7), torch.arange(7) - 1, x % 2 == 1
    torch.testing.assert_close(torch.compile(mixed, backend="opsplice", dynamic=dynamic)(*given), mixed(*given))

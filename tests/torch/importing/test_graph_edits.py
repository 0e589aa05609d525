"""Tensors without elements through the backend: IREE's compiler would end the process on these ops."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch.nn import functional

ROWS, COLUMNS = torch.ones(5, 0), torch.ones(0, 10)


def empty_results(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        functional.group_norm(x[:0], 2) + 1,
        functional.pixel_shuffle(x[:, :0, None], 1),
        functional.unfold(x[:0].reshape(0, 1, 2, 3), 2),
        x[:0].reciprocal().to(torch.int64),
        torch.eye(0, 3),
        x[:, :0] @ x[:0],
    ]


def sums_of_nothing(x: torch.Tensor) -> list[torch.Tensor]:
    batches = x[None].expand(3, 4, 6)
    return [
        ROWS @ COLUMNS,
        torch.addmm(x[0, 0] + torch.arange(10.0), ROWS, COLUMNS, beta=0.5),
        torch.baddbmm(batches, batches[..., :0].expand(3, 4, 0), batches[:, :0], beta=2),
        x.scatter_add(1, torch.zeros(4, 0, dtype=torch.int64), x) + x.index_put((torch.arange(0),), x[:0]),
        torch.cat([x, x[:0]]).sum(0),
    ]


@pytest.mark.parametrize("function", [empty_results, sums_of_nothing])
def test_results_are_those_of_eager(function) -> None:
    x = torch.arange(24.0).reshape(4, 6) + 1
    found = torch.compile(function, backend="opsplice", fullgraph=True)(x)
    for result, wanted in zip(found, function(x), strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        torch.testing.assert_close(result, wanted)


def test_gradients_of_what_nothing_depends_on_are_zeros() -> None:
    layer = torch.nn.Linear(6, 3)
    torch.compile(layer, backend="opsplice")(torch.ones(0, 6)).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0] * 6] * 3
    assert layer.bias.grad.tolist() == [0.0] * 3

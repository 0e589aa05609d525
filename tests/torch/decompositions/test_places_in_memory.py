"""Tensors by their places in memory, read, written and with gradients: the numbers of eager mode."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice


def by_places(x: torch.Tensor, turned: torch.Tensor) -> list[torch.Tensor]:
    """Of a tensor in order, transposed, sliced, expanded, and of an input that is a view; all of it, and parts."""
    made, diagonal = 2 * x, 2 * x
    columns = torch.empty_strided(x.shape, (1, x.shape[0])).copy_(x)
    diagonal.as_strided((4,), (x.shape[1] + 1,)).fill_(7)
    return [
        made.as_strided((x.shape[0] - 2, 3), (4, 1)),
        made.as_strided((x.shape[1], x.shape[0]), (1, x.shape[1])) + 1,
        made.t().as_strided((3, 2), (1, 3), 2),
        made[1:].as_strided((3, 2), (3, 1)),
        made[:, :1].expand(x.shape).as_strided((3, 2), (1, 0)),
        turned.as_strided((5,), (2,)) * 2,
        turned.as_strided(turned.shape, turned.stride()) * 2,
        columns.as_strided((5,), (3,)) * 2,
        diagonal,
    ]


def sliced(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x.detach().flip(0)[1:].t()


@pytest.mark.parametrize("dynamic", [False, True])
def test_places_in_memory(dynamic: bool) -> None:
    compiled = torch.compile(by_places, backend="opsplice", dynamic=dynamic)
    for size in ((6, 4), (8, 5)) if dynamic else ((6, 4),):
        results = []
        for function in (by_places, compiled):
            x = torch.arange(float(size[0] * size[1])).view(size).requires_grad_()
            made = function(*sliced(x))
            sum((each * torch.arange(each.numel()).view(each.shape)).sum() for each in made).backward()
            results.append([*made, x.grad])
        for wanted, got in zip(*results, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def between(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    """PyTorch lays the result out as the first tensor, by an op that IREE does not know."""
    return [torch.lerp(x.T, y, weight), torch.lerp(x.T, y, 0.3) @ x]


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_laid_out_like_an_input(dynamic: bool) -> None:
    x, y, weight = torch.randn(5, 7), torch.randn(7, 5), torch.rand(7, 5)
    found = torch.compile(between, backend="opsplice", dynamic=dynamic)(x, y, weight)
    torch.testing.assert_close(found, between(x, y, weight))


def laid_out(x: torch.Tensor, *strides: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.empty_strided(x.shape, strides).copy_(x)
    return made.as_strided((3, 2), (1, 2)), made


def test_views_of_a_tensor_whose_dims_lie_in_another_order() -> None:
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    wanted, got = laid_out(x, 1, 3), torch.compile(laid_out, backend="opsplice")(x, 1, 3)
    for one, other in zip(wanted, got, strict=True):
        assert other.stride() == one.stride()
        torch.testing.assert_close(other, one, rtol=0, atol=0)


def test_views_of_a_tensor_with_gaps_are_refused() -> None:
    """A program gives the tensor without gaps, and PyTorch would make the view from that."""
    with pytest.raises(
        opsplice.OpspliceError, match=r"test_places_in_memory\.py:\d+: a result of as_strided shares memory"
    ):
        torch.compile(laid_out, backend="opsplice")(torch.ones(3, 4, requires_grad=True), 8, 2)


def flattened(x: torch.Tensor, y: torch.Tensor, images: torch.Tensor) -> list[torch.Tensor]:
    """What is a copy, as its source lies in memory in another order, does not see what is written later."""
    made = [
        torch.diagonal_scatter(x.mT, x[0] * 0),
        x.mT.put(torch.tensor([0, 3]), x[0, :2]),
        y.mT.masked_scatter(y.mT > 0, x),
        y.topk(2, 0)[0],
        torch.nn.functional.adaptive_max_pool2d(images, 3),
    ]
    flat = [each.flatten() for each in made]
    for each in made:
        each.fill_(1)
    return flat


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_formula_makes_lies_in_memory_as_in_eager(dynamic: bool) -> None:
    fast = torch.compile(flattened, backend="opsplice", dynamic=dynamic)
    for size in (3, 4) if dynamic else (3,):
        images = torch.randn(2, 3, size, 7).contiguous(memory_format=torch.channels_last)
        given = torch.randn(5, size), torch.randn(size, 5), images
        torch.testing.assert_close(fast(*given), flattened(*given))

"""The gradients of what is read between the pixels of an image."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

import opsplice.torch  # noqa: E402, F401
from opsplice.torch.decompositions import sampling  # noqa: E402

WAYS = list(itertools.product((0, 1), (0, 1, 2), (False, True)))


@pytest.mark.parametrize("sizes", [(4, 5), (1, 3)])
@pytest.mark.parametrize(("mode", "padding", "align_corners"), WAYS)
def test_the_formula_is_pytorchs(mode: int, padding: int, align_corners: bool, sizes: tuple[int, int]) -> None:
    image, grid = torch.randn(2, 3, *sizes, dtype=torch.float64), torch.randn(2, 3, 5, 2, dtype=torch.float64) * 1.5
    given = torch.randn(2, 3, 3, 5, dtype=torch.float64)
    arguments = (given, image, grid, mode, padding, align_corners, [True, True])
    wanted = torch.ops.aten.grid_sampler_2d_backward(*arguments)
    torch.testing.assert_close(sampling.grid_sampler_2d_backward(*arguments), wanted)


def test_gradients_of_images_and_places() -> None:
    def read(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        bent = functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False)
        return functional.grid_sample(bent, grid, align_corners=True).square().sum()

    image, grid = torch.randn(2, 3, 6, 5), torch.rand(2, 6, 5, 2) * 3 - 1.5
    inputs = (image.requires_grad_(), grid.requires_grad_())
    wanted = torch.autograd.grad(read(*inputs), inputs)
    found = torch.autograd.grad(torch.compile(read, backend="opsplice")(*inputs), inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)

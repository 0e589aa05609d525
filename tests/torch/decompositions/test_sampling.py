"""What is read between the pixels of an image, and its gradients."""

from __future__ import annotations

import itertools
import time

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

import opsplice.torch  # noqa: E402, F401
from opsplice.torch.decompositions import sampling  # noqa: E402

# PyTorch has no cubic reads in 3D.
MODES = [(0, (4, 5)), (1, (1, 3)), (2, (4, 3)), (0, (1, 4)), (2, (1, 4)), (0, (2, 3, 4)), (1, (3, 1, 4))]


@pytest.mark.parametrize(("padding", "align_corners"), itertools.product((0, 1, 2), (False, True)))
@pytest.mark.parametrize(("mode", "sizes"), MODES)
def test_the_formula_is_pytorchs(mode: int, padding: int, align_corners: bool, sizes: tuple[int, ...]) -> None:
    places = (2, *(3, 5, 2)[: len(sizes)])
    image = torch.randn(2, 3, *sizes, dtype=torch.float64)
    image[0, 0].view(-1)[0] = torch.inf  # counts for nothing where a place lies outside
    grid = torch.randn(*places, len(sizes), dtype=torch.float64) * 1.5
    ways = (mode, padding, align_corners)
    forward = getattr(torch.ops.aten, f"grid_sampler_{len(sizes)}d")
    found = sampling.grid_sampler(image, grid, *ways)
    torch.testing.assert_close(found, forward(image, grid, *ways), equal_nan=True)
    image[0, 0].view(-1)[0] = 1
    arguments = (torch.randn(found.shape, dtype=torch.float64), image, grid, *ways, [True, True])
    wanted = getattr(torch.ops.aten, f"grid_sampler_{len(sizes)}d_backward")(*arguments)
    torch.testing.assert_close(sampling.grid_sampler_backward(*arguments), wanted)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_places_outside_of_an_image_read_nothing_of_it(mode: str) -> None:
    image, grid = torch.randn(1, 1, 4, 4), torch.tensor([[[[3.0, 3], [0.5, 0.5], [1.2, 1.1]]]])
    image[0, 0, 0, 0] = torch.nan

    def read(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(image, grid, mode=mode, align_corners=False)

    found = torch.compile(read, backend="opsplice")(image, grid)
    assert found.isfinite().all()
    torch.testing.assert_close(found, read(image.double(), grid.double()).float(), rtol=1e-5, atol=1e-5)


def test_a_single_number_compiles_in_seconds() -> None:
    image, grid = torch.randn(1, 1, 2, 2, 2), torch.rand(1, 1, 1, 1, 3)
    start = time.monotonic()
    found = torch.compile(functional.grid_sample, backend="opsplice")(image, grid, align_corners=False)
    assert time.monotonic() - start < 30
    torch.testing.assert_close(found, functional.grid_sample(image, grid, align_corners=False))


def test_gradients_of_images_and_places() -> None:
    def read(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        bent = functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False)
        return functional.grid_sample(bent, grid, align_corners=True).square().sum()

    image, grid = torch.randn(2, 3, 6, 5), torch.rand(2, 6, 5, 2) * 3 - 1.5
    inputs = (image.requires_grad_(), grid.requires_grad_())
    wanted = torch.autograd.grad(read(*inputs), inputs)
    found = torch.autograd.grad(torch.compile(read, backend="opsplice")(*inputs), inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)

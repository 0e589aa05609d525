"""Graphs that compute with Python's numbers, of open sizes and of floats that are inputs."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
from torch.nn import functional  # noqa: E402


def of_sizes(x: torch.Tensor) -> list[torch.Tensor]:
    """int(100 * 0.29) is 28; with floats of 32 bits it is 29."""
    height, width = x.shape[-2:]
    cut = [
        x[..., : int(height * 0.29) + 1, :],
        x[..., : math.ceil(width / 2.5)],
        x[..., : math.floor(height / width) + 1],
    ]
    largest, least = x.new_ones(max(height, width)), x.new_ones(min(height, width))
    return [*cut, largest, least, functional.interpolate(x, scale_factor=1.5, mode="bilinear")]


@pytest.mark.parametrize("dynamic", [True, None])
def test_sizes_are_those_of_eager(dynamic: bool | None) -> None:
    fast = torch.compile(of_sizes, backend="opsplice", dynamic=dynamic)
    for sizes in ((2, 3, 100, 12), (2, 3, 9, 20)):
        x = torch.randn(sizes)
        torch.testing.assert_close(fast(x), of_sizes(x))


def test_sizes_are_results() -> None:
    def counted(x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        doubled = x * 2
        return doubled, x.shape[0] * 2, doubled.view(-1)

    fast = torch.compile(counted, backend="opsplice", dynamic=True)
    for sizes in ((3, 4), (5, 2)):
        x = torch.randn(sizes)
        found, wanted = fast(x), counted(x)
        assert found[1] == wanted[1]
        torch.testing.assert_close(found, wanted)


def test_sums_and_powers_of_sizes_are_sizes() -> None:
    def made(x: torch.Tensor) -> list[torch.Tensor]:
        rows, columns = x.shape
        return [x.new_ones(torch.sym_sum([-1, rows, columns, 3, rows])), x.new_ones(columns**2, rows**3)]

    fast = torch.compile(made, backend="opsplice", dynamic=True)
    for sizes in ((3, 4), (5, 2)):
        torch.testing.assert_close(fast(torch.ones(sizes)), made(torch.ones(sizes)))


def test_strides_are_products_of_sizes() -> None:
    def overlapping(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (0, 0, 2, 2), value=-1.0)
        whole, row, one = padded.stride()
        return padded.as_strided((x.shape[0], x.shape[1] // 2, 6, x.shape[2]), (whole, 2 * row, row, one)) * 2

    fast = torch.compile(overlapping, backend="opsplice", dynamic=True)
    for sizes in ((2, 8, 4), (3, 6, 5)):
        x = torch.randn(sizes)
        torch.testing.assert_close(fast(x), overlapping(x))


def test_one_size_is_found_from_open_ones() -> None:
    """IREE took -1 for the size where what is left comes from several open sizes, or is a part of one."""

    def viewed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.view(-1, 3, 2, 4, 4) * 2, y.view(-1, 4, 2, 2) + 1, y.view(-1, 2, y.shape[1]) + 1, y.view(2, -1) * 2]

    fast = torch.compile(viewed, backend="opsplice", dynamic=True)
    for rows in (4, 6):
        x, y = torch.randn(rows, 96), torch.randn(rows, 8)
        torch.testing.assert_close(fast(x, y), viewed(x, y))


def test_floats_are_inputs_where_they_change() -> None:
    def scaled(x: torch.Tensor, number: float) -> torch.Tensor:
        return x * math.sqrt(2.0 / number) + x / (number / x.shape[0])

    fast = torch.compile(scaled, backend="opsplice", dynamic=True, fullgraph=True)
    x = torch.randn(3, 4)
    for number in (2.7, math.pi):
        torch.testing.assert_close(fast(x, number), scaled(x, number))


def test_numbers_meet_tensors() -> None:
    def moved(x: torch.Tensor) -> list[torch.Tensor]:
        rolled = [x.roll(1, 1), x.roll((-2, 23), (1, 2)), x.roll(5)]
        parts = [part * 2 for part in (*x.chunk(2, 1), *x.split([x.shape[2] - 2, 2], -1), *x.tensor_split(3, 2))]
        return [*rolled, *parts, x.median(-1)[0], x.kthvalue(2, 1)[0], functional.scaled_dot_product_attention(x, x, x)]

    fast = torch.compile(moved, backend="opsplice", dynamic=True)
    for sizes in ((2, 6, 10), (3, 7, 9)):
        x = torch.randn(sizes)
        torch.testing.assert_close(fast(x), moved(x))

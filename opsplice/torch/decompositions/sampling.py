"""The gradient of what an image has between its pixels, as `torch.nn.functional.grid_sample` reads it."""

from __future__ import annotations

import torch

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = range(3)


def grid_sampler_2d_backward(
    gradient: torch.Tensor,
    image: torch.Tensor,
    grid: torch.Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The gradients of the image [n, c, h, w] and of the places [n, i, j, 2], where `mask` asks for them."""
    if mode not in (_BILINEAR, _NEAREST):
        return NotImplemented
    wide = torch.promote_types(image.dtype, torch.float32)
    n, c, height, width = image.shape
    count = grid.shape[1] * grid.shape[2]
    pixels, given = image.reshape(n, c, height * width).to(wide), gradient.reshape(n, c, count).to(wide)
    places = grid.reshape(n, 1, count, 2).to(wide)
    (x, per_x), (y, per_y) = (
        _place(places[..., dim], size, padding, align_corners) for dim, size in ((0, width), (1, height))
    )
    read, weights, by_x, by_y = [], [], given.new_zeros(()), given.new_zeros(())
    for row, share_y, slope_y in _neighbours(y, mode):
        for column, share_x, slope_x in _neighbours(x, mode):
            is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = torch.where(is_inside, row * width + column, 0).to(torch.int64)
            read.append(index)
            weights.append(torch.where(is_inside, share_y * share_x, 0))
            if mask[1]:
                value = given * torch.where(is_inside, pixels.gather(2, index.expand(n, c, count)), 0)
                by_x, by_y = by_x + value * (share_y * slope_x), by_y + value * (share_x * slope_y)
    of_image = of_grid = None
    if mask[0]:
        written = torch.cat([given * weight for weight in weights], 2)
        zeros = written.new_zeros(n, c, height * width)
        of_image = zeros.scatter_add(2, torch.cat(read, 2).expand_as(written), written)
        of_image = of_image.reshape(image.shape).to(image.dtype)
    if mask[1]:
        slopes = torch.stack([by_x * per_x, by_y * per_y], 3).sum(1)
        of_grid = torch.zeros_like(grid) if mode == _NEAREST else slopes.reshape(grid.shape).to(grid.dtype)
    return of_image, of_grid


def _place(at: torch.Tensor, size: int, padding: int, align_corners: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Places from -1 to 1 as places from 0 to a size, and how much they change with the former."""
    half = (size - 1) / 2 if align_corners else size / 2
    x, slope = at * half + (size - 1) / 2, torch.ones_like(at) * half
    if padding == _REFLECTION and align_corners and size == 1:
        return torch.zeros_like(at), torch.zeros_like(at)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        way = (x - low).abs()
        turns = torch.floor(way / span)
        is_even = torch.remainder(turns, 2) == 0
        rest = way - turns * span
        slope = slope * torch.where((x >= low) == is_even, 1, -1)
        x = torch.where(is_even, rest, span - rest) + low
    if padding != _ZEROS:
        slope = torch.where((x > 0) & (x < size - 1), slope, 0)
        x = x.clamp(0, size - 1)
    return x, slope


def _neighbours(x: torch.Tensor, mode: int) -> list[tuple[torch.Tensor, torch.Tensor, float]]:
    """The pixels that a place between them is made of, with their shares, and how much a share changes with it."""
    if mode == _NEAREST:
        return [(x.round(), torch.ones_like(x), 0.0)]
    left = x.floor()
    return [(left, left + 1 - x, -1.0), (left + 1, x - left, 1.0)]

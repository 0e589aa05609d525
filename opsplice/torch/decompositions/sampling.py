"""Images of other sizes, and the gradient of what `torch.nn.functional.grid_sample` reads between pixels.

Each function has the signature of its op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsplice.torch.decompositions.windows import spread

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = range(3)


def grid_sampler_2d_backward(
    gradient: Tensor,
    image: Tensor,
    grid: Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
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


def _place(at: Tensor, size: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor]:
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


def _neighbours(x: Tensor, mode: int) -> list[tuple[Tensor, Tensor, float]]:
    """The pixels that a place between them is made of, with their shares, and how much a share changes with it."""
    if mode == _NEAREST:
        return [(x.round(), torch.ones_like(x), 0.0)]
    left = x.floor()
    return [(left, left + 1 - x, -1.0), (left + 1, x - left, 1.0)]


# ---- other sizes ----------------------------------------------------------------------------------------------------


def nearest(tensor: Tensor, size: Sequence[int] | None, *scales: Any) -> Tensor:
    """Whole factors repeat elements, where IREE computes where to read. Larger ones might be rounded otherwise."""
    sizes = zip(tensor.shape[2:], size or (None, None), _of_both_dims(scales), strict=True)
    factors = [_whole_factor(*each) for each in sizes]
    if 0 in factors:
        return NotImplemented
    (high, wide), (n, c, h, w) = factors, tensor.shape
    return tensor[:, :, :, None, :, None].expand(n, c, h, high, w, wide).reshape(n, c, high * h, wide * w)


def _of_both_dims(scales: tuple[Any, ...]) -> list[float | None]:
    """The factors of rows and columns, which one form of an op has as a list, and one as an argument each."""
    given = scales[0] if scales and isinstance(scales[0], list | tuple) else scales
    return [*given, None, None][:2]


def _whole_factor(before: int, after: int | None, scale: float | None) -> int:
    """How often each element of a dim is repeated; 0 if that is not known."""
    if scale is None and isinstance(before, int) and isinstance(after, int) and before > 0:
        scale = after / before
    return next((factor for factor in range(1, 9) if factor == scale), 0)


def bilinear(tensor: Tensor, size: Sequence[int] | None, is_aligned: bool, *scales: Any) -> Tensor:
    """Rows and then columns, as the pattern `bilinear` has it, where PyTorch's own formula reads four neighbours."""
    if not tensor.is_floating_point():
        return NotImplemented
    image = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
    for number, scale in enumerate(_of_both_dims(scales)):
        dim, before = number - 2, tensor.shape[number + 2]
        after = size[number] if size else int(before * (scale or 1))
        at = _places_before(before, after, scale, is_aligned, image)
        first = at.to(torch.int64).clamp(max=before - 1)
        share = (at - first).clamp(0, 1).reshape(-1, *[1] * (-1 - dim))
        second = image.index_select(dim, (first + 1).clamp(max=before - 1))
        image = image.index_select(dim, first) * (1 - share) + second * share
    return image.to(tensor.dtype)


def _places_before(before: int, after: int, scale: float | None, is_aligned: bool, like: Tensor) -> Tensor:
    """Where the elements of a dim of `after` lie in it as it was, with `before`."""
    at = torch.arange(after, dtype=like.dtype, device=like.device)
    if is_aligned:
        return at * ((before - 1) / (after - 1) if after > 1 else 0)
    return ((at + 0.5) * (1 / scale if scale else before / after) - 0.5).clamp(min=0)


def tent(at: Tensor) -> Tensor:
    return (1 - at.abs()).clamp(min=0)


def cubic(at: Tensor) -> Tensor:
    at = at.abs()
    near, far = (1.5 * at - 2.5) * at * at + 1, ((2.5 - 0.5 * at) * at - 4) * at + 2
    return torch.where(at < 1, near, torch.where(at < 2, far, 0.0))


def smooth(weigh: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """An image of another size, each dim by a matrix. weigh: of distances in elements of the smaller size."""

    def formula(tensor: Tensor, sizes: Sequence[int], is_aligned: bool, *scales: float | None) -> Tensor:
        if not tensor.is_floating_point():
            return NotImplemented
        known = zip(tensor.shape[-2:], sizes, scales or (None, None), strict=True)
        return spread(tensor, [_weights(*each, is_aligned, weigh, tensor).T for each in known])

    return formula


def smooth_backward(weigh: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The gradient of the same."""

    def formula(
        gradient: Tensor, sizes: Sequence[int], before: Sequence[int], is_aligned: bool, *scales: float | None
    ) -> Tensor:
        known = zip(before[-2:], sizes, scales or (None, None), strict=True)
        return spread(gradient, [_weights(*each, is_aligned, weigh, gradient) for each in known])

    return formula


def _weights(
    size: int, after: int, scale: float | None, is_aligned: bool, weigh: Callable[[Tensor], Tensor], like: Tensor
) -> Tensor:
    """What part of each of `after` outputs each of `size` inputs is, a row for each output."""
    step = (size - 1) / max(after - 1, 1) if is_aligned else 1 / scale if scale else size / after
    kind = {"dtype": torch.promote_types(like.dtype, torch.float32), "device": like.device}
    inputs, outputs = (torch.arange(count, **kind) + 0.5 for count in (size, after))
    weights = weigh((inputs - step * outputs.unsqueeze(-1)) / max(step, 1))
    return (weights / weights.sum(-1, keepdim=True)).to(like.dtype)

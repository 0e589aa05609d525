"""Images of other sizes, and what `torch.nn.functional.grid_sample` reads between pixels, with its gradient.

Each function has the signature of its op.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsplice.torch.decompositions.windows import spread

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


def grid_sampler(image: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    """What lies at places [n, i, j, 2] of an image [n, c, h, w]; so in 3D."""
    count = math.prod((*image.shape[:2], *grid.shape[1:-1]))
    if isinstance(count, int) and count == 1:  # IREE's compiler takes minutes for a single number, and seconds for two
        return grid_sampler(image, torch.cat([grid, grid], 1), mode, padding, align_corners)[:, :, :1].clone()
    pixels, reads = _reads(image, grid, mode, padding, align_corners)
    read = functools.reduce(torch.add, [each.inside(each.of(pixels) * each.share) for each in reads])
    return read.reshape(*image.shape[:2], *grid.shape[1:-1]).to(image.dtype)


def grid_sampler_backward(
    gradient: Tensor,
    image: Tensor,
    grid: Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the image [n, c, h, w] and of the places [n, i, j, 2], where `mask` asks for them; so in 3D."""
    pixels, reads = _reads(image, grid, mode, padding, align_corners)
    given = gradient.reshape(*pixels.shape[:2], -1).to(pixels.dtype)
    of_image = of_grid = None
    if mask[0]:
        written = torch.cat([each.inside(given * each.share) for each in reads], 2)
        indices = torch.cat([each.index for each in reads], 2).expand_as(written)
        of_image = torch.zeros_like(pixels).scatter_add(2, indices, written).reshape(image.shape).to(image.dtype)
    if mask[1] and mode == _NEAREST:
        of_grid = torch.zeros_like(grid)
    elif mask[1]:
        by_dim = zip(
            *([each.inside(given * each.of(pixels) * by) for by in each.slopes] for each in reads), strict=True
        )
        slopes = [functools.reduce(torch.add, of_dim) for of_dim in by_dim]
        of_grid = torch.stack(slopes, 3).sum(1).reshape(grid.shape).to(grid.dtype)
    return of_image, of_grid


@dataclasses.dataclass(frozen=True)
class _Read:
    """A pixel that each place reads: which one, its share, and how much that changes with each number of the place.

    Where it lies outside of the image, it is the first pixel, which counts for nothing.
    """

    is_inside: Tensor
    index: Tensor
    share: Tensor
    slopes: list[Tensor]

    def of(self, pixels: Tensor) -> Tensor:
        n, c, _ = pixels.shape
        return pixels.gather(2, self.index.expand(n, c, self.index.shape[2]))

    def inside(self, values: Tensor) -> Tensor:
        return torch.where(self.is_inside, values, 0)


def _reads(image: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> tuple[Tensor, list[_Read]]:
    """The pixels in rows [n, c, pixels], and what places, each x, y(, z), read of them."""
    wide = torch.promote_types(image.dtype, torch.float32)
    sizes = image.shape[:1:-1]
    places = grid.reshape(grid.shape[0], 1, -1, len(sizes)).to(wide)
    found = [_neighbours(places[..., dim], size, mode, padding, align_corners) for dim, size in enumerate(sizes)]
    reads = []
    for corner in itertools.product(*found):
        is_inside = functools.reduce(
            torch.logical_and, [(at >= 0) & (at < size) for (at, _, _), size in zip(corner, sizes, strict=True)]
        )
        index = torch.zeros_like(is_inside, dtype=torch.int64)
        for (at, _, _), size in zip(reversed(corner), reversed(sizes), strict=True):
            index = index * size + torch.where(is_inside, at, 0).to(torch.int64)
        factors = [
            [slope if other == dim else share for other, (_, share, slope) in enumerate(corner)]
            for dim in range(len(sizes))
        ]
        shares = [share for _, share, _ in corner]
        reads.append(_Read(is_inside, index, math.prod(shares), [math.prod(each) for each in factors]))
    return image.reshape(*image.shape[:2], -1).to(wide), reads


def _neighbours(
    at: Tensor, size: int, mode: int, padding: int, align_corners: bool
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The pixels that a place from -1 to 1 is made of, their shares, and how much a share changes with the place."""
    half = (size - 1) / 2 if align_corners else size / 2
    x = at * half + (size - 1) / 2
    if mode == _BICUBIC:
        left = x.floor()
        steps = [(left + step, x - left - step) for step in (-1, 0, 1, 2)]
        return [
            (_padded(pixel, size, padding, align_corners)[0], _share(far), _slope_of_share(far) * half)
            for pixel, far in steps
        ]
    x, slope = _padded(x, size, padding, align_corners)
    if mode == _NEAREST:
        return [(x.round(), torch.ones_like(x), torch.zeros_like(x))]
    left = x.floor()
    return [(left, left + 1 - x, -slope * half), (left + 1, x - left, slope * half)]


def _padded(x: Tensor, size: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Where numbers of pixels lie inside, and how much that changes with the number."""
    slope = torch.ones_like(x)
    if padding == _REFLECTION and align_corners and size == 1:
        return torch.zeros_like(x), torch.zeros_like(x)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        way = (x - low).abs()
        turns = torch.floor(way / span)
        is_even = torch.remainder(turns, 2) == 0
        rest = way - turns * span
        slope = torch.where((x >= low) == is_even, 1.0, -1.0).to(x.dtype)
        x = torch.where(is_even, rest, span - rest) + low
    if padding != _ZEROS:
        slope = torch.where((x > 0) & (x < size - 1), slope, 0)
        x = x.clamp(0, size - 1)
    return x, slope


def _share(far: Tensor) -> Tensor:
    """Of a pixel that is so many pixels away, between -2 and 2, for bicubic places."""
    way = far.abs()
    near = (1.25 * way - 2.25) * way * way + 1
    return torch.where(way <= 1, near, ((3.75 - 0.75 * way) * way - 6) * way + 3)


def _slope_of_share(far: Tensor) -> Tensor:
    way = far.abs()
    slope = torch.where(way <= 1, (3.75 * way - 4.5) * way, (7.5 - 2.25 * way) * way - 6)
    return torch.where(far < 0, -slope, slope)


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

"""Pools and convolutions that PyTorch cannot take apart, in ops that IREE takes. Each has the signature of its op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsplice.torch.decompositions.formulas import Tensors, aten

_IMAGE = 3  # dims, without a batch
_VOLUME = 3  # dims that a filter moves along


def max_pool(op: Callable[..., Tensors], dims: int) -> Callable[..., Tensors]:
    """IREE takes batches only, and counts windows that hang over as if each did."""

    def formula(
        tensor: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil: bool = False,
    ) -> Tensors:
        kernel, stride, padding, dilation = (
            _for_each(each, dims) for each in (kernel, stride or kernel, padding, dilation)
        )
        if tensor.dim() == dims + 1:
            return [each.squeeze(0) for each in op(tensor.unsqueeze(0), kernel, stride, padding, dilation, ceil)]
        more = _overhang(tensor.shape[-dims:], kernel, stride, padding, dilation) if ceil else None
        if not tensor.is_floating_point() and (more or not ceil):
            return _max_pool_of_integers(tensor, kernel, stride, padding, dilation, more or [0] * dims)
        if more is None:
            return NotImplemented
        longer = torch.nn.functional.pad(tensor, [n for each in reversed(more) for n in (0, each)], value=-torch.inf)
        values, left = op(longer, kernel, stride, padding, dilation)
        places, below = torch.zeros_like(left), 1
        for size, whole in reversed(list(zip(tensor.shape[-dims:], longer.shape[-dims:], strict=True))):
            places, left, below = places + left % whole * below, left // whole, below * size
        return values, places

    return formula


def _max_pool_of_integers(
    tensor: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    more: Sequence[int],
) -> Tensors:
    """Windows in rows: IREE has no places of integers, and its compiler ends the process on windows in 3D."""
    dims = len(kernel)
    sizes = tensor.shape[-dims:]
    around = [
        n for before, behind in zip(reversed(padding), reversed(more), strict=True) for n in (before, before + behind)
    ]
    members = torch.nn.functional.pad(tensor, around, value=torch.iinfo(tensor.dtype).min)
    places = torch.zeros((), dtype=torch.int64)
    for dim, size in enumerate(sizes):
        room = members.shape[2 + 2 * dim] - dilation[dim] * (kernel[dim] - 1) - 1
        starts = torch.arange(room // stride[dim] + 1) * stride[dim]
        read = starts[:, None] + torch.arange(kernel[dim]) * dilation[dim]
        members = members.index_select(2 + 2 * dim, read.flatten()).unflatten(2 + 2 * dim, read.shape)
        at = (read - padding[dim]).clamp(0, size - 1)
        shape = [1] * (2 * dims)
        shape[2 * dim], shape[2 * dim + 1] = read.shape
        places = places * size + at.view(shape)
    order = [*range(0, 2 * dims, 2), *range(1, 2 * dims, 2)]
    members = members.permute(0, 1, *(2 + dim for dim in order)).flatten(2 + dims)
    values, chosen = members.max(-1)
    places = places.permute(order).flatten(dims).expand(members.shape)
    return [values, places.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)]


def adaptive_max_pool(tensor: Tensor, sizes: Sequence[int]) -> Tensors:
    """IREE takes batches only, and windows of one known size: others are gathered, in a row for each output."""
    if tensor.dim() == _IMAGE:
        return [each.squeeze(0) for each in aten.adaptive_max_pool2d(tensor.unsqueeze(0), sizes)]
    whole = tensor.shape[-2:]
    if 0 in sizes or not all(isinstance(outputs, int) for outputs in sizes):
        return NotImplemented
    is_known = all(isinstance(size, int) for size in whole)
    if is_known and not any(size % outputs for size, outputs in zip(whole, sizes, strict=True)):
        return NotImplemented
    rows, columns = (_windows(*each, tensor) for each in zip(whole, sizes, strict=True))
    taken = tensor.index_select(-2, rows.flatten()).index_select(-1, columns.flatten())
    members = taken.unflatten(-1, columns.shape).unflatten(-3, rows.shape).transpose(-3, -2).flatten(-2)
    values, at = members.max(-1)
    places = (rows[:, None, :, None] * whole[1] + columns[None, :, None, :]).flatten(-2)
    return [values, places.expand(members.shape).gather(-1, at.unsqueeze(-1)).squeeze(-1)]


def _windows(size: int, outputs: int, like: Tensor) -> Tensor:
    """For each output of an adaptive pool the places of its window; the last one fills up those of short windows."""
    if isinstance(size, int):
        extent = max(-(-(at + 1) * size // outputs) - at * size // outputs for at in range(outputs))
    else:
        extent = size if outputs == 1 else size // outputs + 2  # the most that a window can have
    at = torch.arange(outputs, device=like.device).unsqueeze(1)
    starts, ends = at * size // outputs, ((at + 1) * size + outputs - 1) // outputs
    return torch.minimum(starts + torch.arange(extent, device=like.device), ends - 1)


def max_pool_backward(gradient: Tensor, tensor: Tensor, *others: Any) -> Tensor:
    """IREE's compiler crashes without a batch."""
    return max_backward(2)(gradient, tensor, *others) if tensor.dim() == _IMAGE else NotImplemented


def average_pool(
    tensor: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    ceil: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Tensor:
    """IREE counts windows as `max_pool` says, and reads past the end of lists that have one number for all dims.

    Where padding does not count, it computes the divisor anew for each element; it is one for each place.
    """
    padding = padding or [0, 0]  # PyTorch leaves zeros out
    if tensor.dim() == _IMAGE:  # IREE takes batches only
        others = kernel, stride, padding, ceil, count_padding, divisor
        return aten.avg_pool2d(tensor.unsqueeze(0), *others).squeeze(0)
    given = [list(kernel), list(stride), list(padding)]
    kernel, stride, padding = (_for_each(each, 2) for each in (kernel, stride or kernel, padding))
    if ceil and not any(padding):  # EfficientNet's last window has 1280 places for each of 7
        sizes = (size if isinstance(size, int) else n for n, size in zip(kernel, tensor.shape[-2:], strict=True))
        kernel = [*map(min, kernel, sizes)]
    over = _overhang(tensor.shape[-2:], kernel, stride, padding, (1, 1)) if ceil else None
    fits = over is not None and not any(over)
    is_whole = (fits or not ceil) and all(isinstance(size, int) for size in tensor.shape[-2:])
    if is_whole and any(padding) and not count_padding and divisor is None:
        sums = aten.avg_pool2d(tensor, kernel, stride, padding, False, True, 1)
        rows, columns = (
            _numbers_inside(tensor, dim, sums.shape[dim], kernel[dim], stride[dim], padding[dim]) for dim in (-2, -1)
        )
        return sums / (rows[:, None] * columns).to(tensor.dtype)
    if not fits and [kernel, stride, padding] == given:
        return NotImplemented
    return aten.avg_pool2d(tensor, kernel, stride, padding, ceil and not fits, count_padding, divisor)


def _numbers_inside(tensor: Tensor, dim: int, windows: int, kernel: int, stride: int, padded: int) -> Tensor:
    """How many numbers along a dim each window has that are no padding."""
    starts = torch.arange(windows, device=tensor.device) * stride - padded
    return (starts + kernel).clamp(max=tensor.shape[dim]) - starts.clamp(min=0)


def adaptive_average_pool(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A pool by `op`, where all windows have one size: IREE reads element by element at indices that it computes."""

    def formula(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
        whole = tensor.shape[-len(sizes) :]
        is_known = all(isinstance(size, int) for size in (*whole, *sizes)) and 0 not in sizes
        if not is_known or all(size == 1 for size in sizes):  # which is a mean
            return NotImplemented
        if any(size % outputs for size, outputs in zip(whole, sizes, strict=True)):
            return NotImplemented
        kernel = [size // outputs for size, outputs in zip(whole, sizes, strict=True)]
        batch = tensor if tensor.dim() > len(sizes) + 1 else tensor.unsqueeze(0)
        return op(batch, kernel, kernel).reshape(*tensor.shape[: -len(sizes)], *sizes)

    return formula


def _overhang(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[int] | None:
    """How far the last window reaches over each dim with its padding; None where that is not known."""
    if not all(isinstance(size, int) for size in sizes):
        return None
    found = []
    for size, extent, step, padded, apart in zip(sizes, kernel, stride, padding, dilation, strict=True):
        window = apart * (extent - 1) + 1
        last = -(-(size + 2 * padded - window) // step)
        if last * step >= size + padded:  # it would begin behind the tensor
            last -= 1
        found.append(max(0, last * step + window - size - 2 * padded))
    return found


def average_pool_backward(
    gradient: Tensor,
    tensor: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _ceil: bool,
    count_padding: bool,
    divisor: int | None,
) -> Tensor:
    dims = len(kernel)
    stride, padding = [*(stride or kernel)] * (dims // len(stride or kernel)), [*padding] * (dims // len(padding))
    shares = []
    for number in range(dims):
        size, padded = tensor.shape[number - dims], padding[number]
        starts = torch.arange(gradient.shape[number - dims], device=tensor.device) * stride[number] - padded
        ends = (starts + kernel[number]).clamp(max=size + padded)
        counts: Tensor | int = ends - starts if count_padding else ends.clamp(max=size) - starts.clamp(min=0)
        shares.append(_shares(size, starts, ends, 1 if divisor else counts, gradient))
    return spread(gradient, shares) / (divisor or 1)


def adaptive_average_pool_backward(dims: int) -> Callable[..., Tensor]:
    def formula(gradient: Tensor, tensor: Tensor) -> Tensor:
        shares = []
        for dim in range(-dims, 0):
            size, outputs = tensor.shape[dim], gradient.shape[dim]
            at = torch.arange(outputs, device=tensor.device)
            starts, ends = at * size // outputs, ((at + 1) * size + outputs - 1) // outputs
            shares.append(_shares(size, starts, ends, ends - starts, gradient))
        return spread(gradient, shares)

    return formula


def replication_pad_backward(gradient: Tensor, tensor: Tensor, amounts: Sequence[int]) -> Tensor:
    shares = []
    for dim in range(-len(amounts) // 2, 0):
        size = tensor.shape[dim]
        copied = torch.arange(gradient.shape[dim], device=tensor.device) - amounts[-2 * dim - 2]
        copied = copied.clamp(0, size - 1)
        shares.append(_shares(size, copied, copied + 1, 1, gradient))
    return spread(gradient, shares)


def max_backward(dims: int) -> Callable[..., Tensor]:
    """The gradient of a pool of so many dims, put to the places of its maxima, which are the op's last argument."""

    def formula(gradient: Tensor, tensor: Tensor, *others: Any) -> Tensor:
        flat = torch.zeros_like(tensor).flatten(-dims)
        return flat.scatter_add(-1, others[-1].flatten(-dims), gradient.flatten(-dims)).view(tensor.shape)

    return formula


def convolution(
    tensor: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Of each channel apart: IREE takes neither transposed convolutions nor those of volumes.

    The former become plain ones over spread elements.
    """
    if groups == 1 or weight.shape[0] != groups:
        return NotImplemented
    dims = tensor.dim() - 2
    stride, padding, dilation, more = (_for_each(each, dims) for each in (stride, padding, dilation, output_padding))
    if not transposed:
        is_taken = dims < _VOLUME or tensor.shape[1] != groups
        return NotImplemented if is_taken else _of_slices(tensor, weight, bias, stride, padding, dilation)
    around: list[int] = []
    for number in reversed(range(dims)):
        dim, step = number + 2, stride[number]
        apart = torch.nn.functional.pad(tensor.unsqueeze(dim + 1), [0, 0] * (dims - 1 - number) + [0, step - 1])
        tensor = apart.flatten(dim, dim + 1).narrow(dim, 0, (tensor.shape[dim] - 1) * step + 1)
        reach = dilation[number] * (weight.shape[dim] - 1) - padding[number]
        around += [reach, reach + more[number]]
    mirrored = weight.flatten(0, 1).unsqueeze(1).flip(list(range(2, dims + 2)))
    spread, one, none = aten.constant_pad_nd(tensor, around), [1] * dims, [0] * dims
    return aten.convolution(spread, mirrored, bias, one, none, dilation, False, none, groups)


def _of_slices(
    volume: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """A convolution of each channel of volumes apart: for each slice of the filter one of images, added up."""
    padded = aten.constant_pad_nd(volume, [0, 0, 0, 0, padding[0], padding[0]])
    depth = (padded.shape[2] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
    total: Tensor | None = None
    for number, plane in enumerate(weight.unbind(2)):
        first = number * dilation[0]
        slices = padded[:, :, first : first + stride[0] * (depth - 1) + 1 : stride[0]]
        images, form = slices.transpose(1, 2).flatten(0, 1), (stride[1:], padding[1:], dilation[1:], False, [0, 0])
        part = aten.convolution(images, plane, bias if total is None else None, *form, weight.shape[0])
        total = part if total is None else total + part
    assert total is not None
    return total.unflatten(0, (volume.shape[0], depth)).transpose(1, 2)


def convolution_backward(
    gradient: Tensor,
    tensor: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """A transposed convolution is the gradient of a plain one, so its own gradients are plain ones.

    Those of groups and of volumes are plain ones, too, and those of more zeros around than a filter reaches: IREE does
    not take all of them. One number for all dims, as
    `padding="valid"` gives it, is written out: IREE reads past the end of shorter lists.
    """
    if not transposed:
        lists, dims = (stride, padding, dilation, output_padding), tensor.dim() - 2
        stride, padding, dilation, output_padding = (_for_each(dim, dims) for dim in lists)
        reaches = [apart * (size - 1) for apart, size in zip(dilation, weight.shape[2:], strict=True)]
        is_cut = any(padded > reach for padded, reach in zip(padding, reaches, strict=True))
        if groups > 1 or dims == _VOLUME or is_cut:
            return _plain_backward(gradient, tensor, weight, stride, padding, dilation, groups, wanted)
        if (stride, padding, dilation, output_padding) == tuple(map(list, lists)):
            return NotImplemented
        return aten.convolution_backward(
            gradient, tensor, weight, bias_sizes, stride, padding, dilation, False, output_padding, groups, wanted
        )
    of_tensor = of_weight = of_bias = None
    none = [0] * len(stride)
    if wanted[0]:
        of_tensor = aten.convolution(gradient, weight, None, stride, padding, dilation, False, none, groups)
        for dim in range(2, tensor.dim()):  # what output_padding adds may be as wide as a stride
            of_tensor = of_tensor.narrow(dim, 0, tensor.shape[dim])
    if wanted[1]:
        of_weight = aten.convolution_backward(
            tensor, gradient, weight, None, stride, padding, dilation, False, none, groups, [False, True, False]
        )[1]
    if wanted[2]:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_tensor, of_weight, of_bias


def _plain_backward(
    gradient: Tensor,
    tensor: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a convolution that is not transposed: each a convolution.

    That of the filter moves the gradient over the input, each with its batch as its channels.
    """
    dims, of_tensor, of_weight = range(2, tensor.dim()), None, None
    none = [0] * len(dims)
    if wanted[0]:
        sizes = zip(dims, stride, padding, dilation, strict=True)
        left = [
            (tensor.shape[dim] + 2 * padded - apart * (weight.shape[dim] - 1) - 1) % step
            for dim, step, padded, apart in sizes
        ]
        of_tensor = aten.convolution(gradient, weight, None, stride, padding, dilation, True, left, groups)
    if wanted[1] and isinstance(tensor.shape[0], int) and not tensor.shape[0]:
        of_weight = torch.zeros_like(weight)
    elif wanted[1]:
        channels = weight.shape[1]
        moved = tensor.unflatten(1, (groups, channels)).permute(2, 1, 0, *(dim + 1 for dim in dims)).flatten(1, 2)
        made = aten.convolution(moved, gradient.transpose(0, 1), None, dilation, padding, stride, False, none, groups)
        for dim in dims:  # where the last window ends before the input does, there is more than a filter
            made = made.narrow(dim, 0, weight.shape[dim])
        of_weight = made.transpose(0, 1)
    return of_tensor, of_weight, gradient.sum([0, *dims]) if wanted[2] else None


def _for_each(numbers: Sequence[int], dims: int) -> list[int]:
    return list(numbers) * dims if len(numbers) == 1 else list(numbers)


def _shares(size: int, starts: Tensor, ends: Tensor, counts: Tensor | int, like: Tensor) -> Tensor:
    """What part of each output each of `size` inputs is, a row for each output."""
    at = torch.arange(size, device=like.device)
    inside = (at >= starts.unsqueeze(-1)) & (at < ends.unsqueeze(-1))
    weights = inside.to(like.dtype)
    return weights / (counts.unsqueeze(-1).to(like.dtype) if isinstance(counts, Tensor) else counts)


def spread(gradient: Tensor, shares: Sequence[Tensor]) -> Tensor:
    """The gradient of an average over windows, a matrix for each of the last dims."""
    for dim, matrix in enumerate(shares, gradient.dim() - len(shares)):
        gradient = (gradient.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return gradient


def overlapping_sum(windows: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    """The sum of windows along a dim where they overlap, as short-time spectra become a signal again.

    A window is cut into blocks of `step`. Put one below the other with one row too few, block n of each begins n
    windows further on, where it lies in the sum.
    """
    if not sizes:
        return windows.sum(0)
    count = -(-size // step)
    dim %= len(sizes)
    moved = torch.nn.functional.pad(windows.movedim(dim, -2), (0, count * step - size))
    blocks = moved.unflatten(-1, (count, step)).transpose(-2, -3)
    lines = blocks.shape[-2] + count - 1
    longer = torch.nn.functional.pad(blocks, (0, 0, 0, count)).flatten(-3, -2)
    summed = longer.narrow(-2, 0, count * lines).unflatten(-2, (count, lines)).sum(-3).flatten(-2)
    return torch.nn.functional.pad(summed, (0, sizes[dim] - summed.shape[-1])).movedim(-1, dim)

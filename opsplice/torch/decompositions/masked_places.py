"""Elements at places that a mask or indices name, where IREE's importer takes them in another form or never ends.

IREE reads and writes no elements at several indices whose number it does not know, and its importer does not come to an
end with a mask of several dims.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def at_places(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Indices of one type, where a program has them in several, and for a mask those where it holds, along one dim.

    Of several indices with an open size at one place, the one index along their dims joined; so, too, where dims lie
    between those that are written at.
    """

    def formula(tensor: Tensor, indices: Sequence[Tensor | None], *others: Any) -> Tensor:
        kinds = {index.dtype for index in indices if index is not None}
        masks = [index for index in indices if index is not None and index.dtype == torch.bool]
        if any(mask.dim() == 0 for mask in masks):
            return NotImplemented
        if not masks and len(kinds) < 2:
            as_one = _meet_open(indices) or (op is aten.index_put.default and _are_apart(indices))
            return at_one_index(op, tensor, indices, *others) if as_one else NotImplemented
        flat, places = tensor, list[Tensor | None]()
        for index in indices:
            if index is not None and index.dtype == torch.bool:
                flat = flat.flatten(len(places), len(places) + index.dim() - 1)
                places += held(index.flatten())
            else:
                places.append(index if index is None else index.long())
        made = op(flat, places, *others)
        return made if op is aten.index.Tensor else made.view(tensor.shape)

    return formula


def _meet_open(indices: Sequence[Tensor | None]) -> bool:
    """Whether two indices have an open size each for one dim of what they name together."""
    shapes = [index.shape[::-1] for index in indices if index is not None]
    sizes = itertools.zip_longest(*shapes, fillvalue=1)
    return any(sum(not isinstance(size, int) for size in each) > 1 for each in sizes)


def _are_apart(indices: Sequence[Tensor | None]) -> bool:
    """Whether there are dims without an index between those with one."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    return dims[-1] - dims[0] >= len(dims)


def at_one_index(op: Callable[..., Tensor], tensor: Tensor, indices: Sequence[Tensor | None], *others: Any) -> Tensor:
    """What is named together by several indices, as one along their dims joined."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    first, count = dims[0], len(dims)
    are_apart = _are_apart(indices)
    if are_apart:  # PyTorch puts what they name in front
        tensor, first = tensor.movedim(dims, list(range(count))), 0
    place: Tensor | int = 0
    for size, index in zip(tensor.shape[first:], (each for each in indices if each is not None), strict=False):
        place = place * size + from_front(index, size)
    made = op(tensor.flatten(first, first + count - 1), [*[None] * first, place], *others)
    if op is aten.index.Tensor:
        return made
    made = made.view(tensor.shape)
    return made.movedim(list(range(count)), dims) if are_apart else made


def from_front(index: Tensor, size: int) -> Tensor:
    """Places of a dim, of which those below 0 count from its end."""
    return torch.where(index < 0, index + size, index)


def held(mask: Tensor) -> Sequence[Tensor]:
    """The places where a mask holds, along each of its dims."""
    return torch.nonzero(mask).unbind(1)


def selected(tensor: Tensor, mask: Tensor) -> Tensor:
    tensor, mask = torch.broadcast_tensors(tensor, mask)
    return tensor[mask]


def put_where(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Values written where a mask of the first dims holds: each place reads its value, so none has to be counted."""
    mask = indices[0]
    if len(indices) > 1 or mask is None or mask.dtype != torch.bool or mask.dim() == 0:
        return NotImplemented
    rest = tensor.dim() - mask.dim()
    if values.dim() > rest:  # one for each place, or for all
        if not isinstance(values.shape[0], int) or values.shape[0] == 0:
            return NotImplemented
        place = (mask.flatten().cumsum(0) - 1).clamp(0, values.shape[0] - 1)
        values = values[place].view(*mask.shape, *values.shape[1:])
    where = mask.view(*mask.shape, *(1 for _ in range(rest)))
    return torch.where(where, tensor + values if accumulate else values, tensor)


def added_truths(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Truths added up are true where one is: IREE adds their bits."""
    if not accumulate or tensor.dtype != torch.bool:
        return NotImplemented
    return aten.index_put(tensor.int(), indices, values.int(), accumulate) != 0


def put_at_index(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """An index without dims, or of several of open sizes, as one of one dim: IREE takes such sizes for 1.

    One value at an open number of places is one for each: PyTorch sees numbers that are 1 where IREE does not.
    """
    named = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    (dim, index), *others = named
    if others or index.dtype == torch.bool:
        return NotImplemented
    if index.dim() and all(isinstance(size, int) for size in index.shape):
        return NotImplemented
    given = values.shape[dim - tensor.dim() :][:1] if values.dim() >= tensor.dim() - dim else ()
    is_one = any(isinstance(size, int) and size == 1 for size in given)
    if index.dim() == 1 and not is_one:
        return NotImplemented
    places, values = in_one_row(tensor, dim, index, values)
    return aten.index_put(tensor, [*indices[:dim], places], values, accumulate)


def in_one_row(tensor: Tensor, dim: int, index: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """An index along a dim of a tensor with its dims joined, and what is put there, one for each place."""
    before, behind = tensor.shape[:dim], tensor.shape[dim + 1 :]
    values = values.expand(*before, *index.shape, *behind)
    return index.reshape(-1), values.reshape(*before, index.numel(), *behind)


def put(tensor: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = aten.index_put(tensor.flatten(), [index.flatten()], source.flatten(), accumulate)
    return flat.view(tensor.shape)


def put_row(tensor: Tensor, row: Tensor, dim: int, index: int) -> Tensor:
    """One place of a dim written, counted from its front: at -1 IREE's importer writes nothing."""
    return aten.select_scatter(tensor, row, dim, index + tensor.shape[dim]) if index < 0 else NotImplemented


def put_in_order(tensor: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Elements of the source written where a mask holds, one after another."""
    tensor, mask = torch.broadcast_tensors(tensor, mask)
    place = (mask.flatten().cumsum(0) - 1).clamp(min=0)
    return torch.where(mask, source.flatten().index_select(0, place).view(tensor.shape), tensor)


def taken_in_order(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradient of the same by its source, one after another from the front, and zeros behind them."""
    gradient, mask = torch.broadcast_tensors(gradient, mask)
    held, count = mask.flatten(), math.prod(sizes)
    place = torch.where(held, held.cumsum(0) - 1, count)
    return gradient.new_zeros(count + 1).scatter(0, place, gradient.flatten())[:count].view(sizes)


def put_diagonal(tensor: Tensor, diagonal: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    moved = tensor.movedim((first, second), (-2, -1))
    row, column = (torch.arange(size, device=tensor.device) for size in moved.shape[-2:])
    place = (row + min(offset, 0)).clamp(0, diagonal.shape[-1] - 1)
    rows = diagonal.to(tensor.dtype).index_select(-1, place).unsqueeze(-1)
    return torch.where(row.unsqueeze(-1) + offset == column, rows, moved).movedim((-2, -1), (first, second))


def reduce_rows(
    tensor: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if tensor.dim() == 0:
        return reduce_rows(tensor[None], 0, index, source.view(1), reduce, include_self=include_self)[0]
    places = index.view(-1, *(1 for _ in range(dim % tensor.dim() + 1, tensor.dim()))).expand_as(source)
    return aten.scatter_reduce.two(tensor, dim, places, source, reduce, include_self=include_self)

"""Elements at places that a mask or indices name, where IREE's importer takes them in another form or never ends.

IREE reads no elements at several indices whose number it does not know, and its importer does not come to an end with a
mask of several dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def at_places(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Indices of one type, where a program has them in several, and for a mask those where it holds, along one dim."""

    def formula(tensor: Tensor, indices: Sequence[Tensor | None], *others: Any) -> Tensor:
        kinds = {index.dtype for index in indices if index is not None}
        masks = [index for index in indices if index is not None and index.dtype == torch.bool]
        if (not masks and len(kinds) < 2) or any(mask.dim() == 0 for mask in masks):
            return NotImplemented
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


def put(tensor: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = aten.index_put(tensor.flatten(), [index.flatten()], source.flatten(), accumulate)
    return flat.view(tensor.shape)

"""Sums of f16 and bf16, which PyTorch adds up in f32: IREE rounds after each term, and ones in bf16 sum up to 256."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsplice.torch.decompositions.masked_places import from_front

HALVES = (torch.float16, torch.bfloat16)


def in_f32(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An op on halves, computed in f32 and rounded once."""

    def formula(tensor: Tensor, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        kind = dtype or tensor.dtype
        if kind not in HALVES:
            return NotImplemented
        wide = [each.float() if isinstance(each, Tensor) and each.dtype in HALVES else each for each in args]
        return op(tensor.to(kind).float(), *wide, **options).to(kind)

    return formula


def added_at_places(
    tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Along one dim, as `index_add` and the gradients of tables add. IREE has no room for what an index_put widens."""
    dim, index = len(indices) - 1, indices[-1]
    if not accumulate or tensor.dtype not in HALVES or any(each is not None for each in indices[:-1]):
        return NotImplemented
    if index is None or index.dim() != 1 or index.dtype == torch.bool:
        return NotImplemented
    shape = [*tensor.shape[:dim], index.shape[0], *tensor.shape[dim + 1 :]]
    places = from_front(index, tensor.shape[dim]).long().view(-1, *[1] * (tensor.dim() - dim - 1)).expand(shape)
    return tensor.scatter_add(dim, places, values.expand(shape))

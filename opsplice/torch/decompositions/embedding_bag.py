"""Sums, means and maxima of bags of rows of a table. Each function has the signature of the op that it is for."""

from __future__ import annotations

import torch

_SUM, _MEAN, _MAX = range(3)


def forward(
    table: torch.Tensor,
    indices: torch.Tensor,
    starts: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    weights: torch.Tensor | None = None,
    ends_too: bool = False,
    left_out: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The bags [bags, columns], and what the backward pass takes: the bag of each index, and how many a bag has.

    The last result, the rows that maxima are of, is not computed: their backward pass is not known to IREE.
    """
    bags = starts.shape[0] - ends_too
    bag = torch.bucketize(torch.arange(indices.shape[0], device=indices.device), starts[:bags], right=True) - 1
    kept = indices != left_out if left_out >= 0 else torch.ones_like(indices, dtype=torch.bool)
    count = indices.new_zeros(bags).index_add(0, bag, kept.to(indices.dtype))
    rows = table[indices]
    if mode == _MAX:
        rows = torch.where(kept.unsqueeze(1), rows, -torch.inf)
        least = rows.new_full((bags, rows.shape[1]), -torch.inf)
        largest = least.scatter_reduce(0, bag.unsqueeze(1).expand_as(rows), rows, "amax")
        found = torch.where(count.unsqueeze(1) > 0, largest, 0)
    else:
        rows = _weighted(rows, kept, weights)
        found = rows.new_zeros(bags, rows.shape[1]).index_add(0, bag, rows)
        found = found / _divisor(count, found) if mode == _MEAN else found
    return found, bag, count, indices.new_zeros(0)


def backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    starts: torch.Tensor,
    bag: torch.Tensor,
    count: torch.Tensor,
    largest: torch.Tensor,
    rows: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    weights: torch.Tensor | None,
    left_out: int = -1,
) -> torch.Tensor:
    """The gradient of the table [rows, columns]."""
    if mode == _MAX or scale_grad_by_freq or sparse:
        return NotImplemented
    share = gradient / _divisor(count, gradient) if mode == _MEAN else gradient
    kept = indices != left_out if left_out >= 0 else torch.ones_like(indices, dtype=torch.bool)
    each = _weighted(share[bag], kept, weights)
    return gradient.new_zeros(rows, gradient.shape[1]).index_add(0, indices, each)


def _weighted(rows: torch.Tensor, kept: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    rows = rows if weights is None else rows * weights.unsqueeze(1)
    return torch.where(kept.unsqueeze(1), rows, 0)


def _divisor(count: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return count.clamp(min=1).unsqueeze(1).to(like.dtype)

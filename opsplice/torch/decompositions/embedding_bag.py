"""Sums, means and maxima of bags of rows of a table, and how long rows may be.

Each function has the signature of the op that it is for.
"""

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

    The last result is the row that each maximum is of, the first one of equal ones.
    """
    bags = starts.shape[0] - ends_too
    bag = torch.bucketize(torch.arange(indices.shape[0], device=indices.device), starts[:bags], right=True) - 1
    kept = indices != left_out if left_out >= 0 else torch.ones_like(indices, dtype=torch.bool)
    count = indices.new_zeros(bags).index_add(0, bag, kept.to(indices.dtype))
    rows, chosen = table[indices], indices.new_zeros(0)
    if mode == _MAX:
        rows = torch.where(kept.unsqueeze(1), rows, -torch.inf)
        least = rows.new_full((bags, rows.shape[1]), -torch.inf)
        bags_of = bag.unsqueeze(1).expand_as(rows)
        largest = least.scatter_reduce(0, bags_of, rows, "amax")
        places, last = torch.arange(indices.shape[0], device=indices.device).unsqueeze(1), indices.shape[0] - 1
        places = torch.where((rows == largest[bag]) & kept.unsqueeze(1), places, last)
        first = places.new_full(least.shape, last).scatter_reduce(0, bags_of, places, "amin")
        chosen = indices[first]
        found = torch.where(count.unsqueeze(1) > 0, largest, 0)
    else:
        rows = _weighted(rows, kept, weights)
        found = rows.new_zeros(bags, rows.shape[1]).index_add(0, bag, rows)
        found = found / _divisor(count, found) if mode == _MEAN else found
    return found, bag, count, chosen


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
    if scale_grad_by_freq or sparse:
        return NotImplemented
    table = gradient.new_zeros(rows, gradient.shape[1])
    if mode == _MAX:
        return table.scatter_add(0, largest, torch.where(count.unsqueeze(1) > 0, gradient, 0))
    share = gradient / _divisor(count, gradient) if mode == _MEAN else gradient
    kept = indices != left_out if left_out >= 0 else torch.ones_like(indices, dtype=torch.bool)
    each = _weighted(share[bag], kept, weights)
    return table.index_add(0, indices, each)


def weights_backward(
    gradient: torch.Tensor,
    table: torch.Tensor,
    indices: torch.Tensor,
    starts: torch.Tensor,
    bag: torch.Tensor,
    mode: int,
    left_out: int = -1,
) -> torch.Tensor:
    """The gradient of the weights of samples, which only sums have."""
    each = (table[indices] * gradient[bag]).sum(1)
    return torch.where(indices != left_out, each, 0) if left_out >= 0 else each


def _weighted(rows: torch.Tensor, kept: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    rows = rows if weights is None else rows * weights.unsqueeze(1)
    return torch.where(kept.unsqueeze(1), rows, 0)


def _divisor(count: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return count.clamp(min=1).unsqueeze(1).to(like.dtype)


def shortened(table: torch.Tensor, indices: torch.Tensor, longest: float, power: float) -> torch.Tensor:
    """The table with the rows that indices name made as long as they may be, where they are longer."""
    named = indices.new_zeros(table.shape[0], 1).index_fill(0, indices.flatten().long(), 1) > 0
    length = torch.linalg.vector_norm(table, power, 1, keepdim=True)
    return torch.where(named & (length > longest), table * (longest / (length + 1e-7)), table)

"""Products and distances of matrices. Each has the signature of its op."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from opsplice.torch.decompositions.elementwise import BYTES


def grouped_product(
    left: Tensor,
    right: Tensor,
    ends: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A product for each group of the rows of `left`, of the columns of `right`, or of the dim that is summed over.

    IREE takes no slice of a computed size, so every group is multiplied as a whole, with zeros where others are.
    """
    if ends is None:
        result = left @ right
    elif left.dim() == 2:
        summed = right.dim() == 2
        member = _members(ends, left.shape[-1 if summed else 0]).unsqueeze(1 if summed else 2)
        product = torch.where(member, left, 0) @ right
        result = product if summed else product.sum(0)
    else:
        result = (left @ torch.where(_members(ends, right.shape[1]).unsqueeze(1), right, 0)).sum(0)
    return (result if bias is None else result + bias).to(dtype or left.dtype)


def grouped_product_backward(left: Tensor, right: Tensor, ends: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return grouped_product(gradient, right.transpose(1, 2), ends), grouped_product(left.t(), gradient, ends)


def _members(ends: Tensor, size: int) -> Tensor:
    """For each group, whether it has each place; groups follow one another and end at `ends`."""
    place, end = torch.arange(size, device=ends.device), ends.unsqueeze(1)
    return (place < end) & (place >= torch.cat([end.new_zeros(1, 1), end[:-1]]))


def added_product(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """IREE adds to products of floats alone, and its compiler crashes where it adds to a batch of products of bytes."""
    if added.is_floating_point():
        return NotImplemented
    product = _factor(alpha, added) * (left @ right)
    return _factor(beta, added) * added + product if beta else product


def added_products(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """One product over the batch and the inner dim, which adds halves up in f32."""
    product = left.transpose(0, 1).flatten(1) @ right.flatten(0, 1)
    return _factor(beta, added) * added + _factor(alpha, added) * product


def _factor(number: float, tensor: Tensor) -> float:
    """A number by which a tensor is multiplied, of integers one: PyTorch hands on floats."""
    return number if tensor.is_floating_point() or tensor.is_complex() else int(number)


def scaled_product(
    left: Tensor,
    right: Tensor,
    left_scale: Tensor,
    right_scale: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    _fast: bool = False,
) -> Tensor:
    """A product of f8, in f32, with scales of all of a matrix, or of the rows of one and the columns of the other."""
    if any(
        each.numel() not in (1, rows) for each, rows in ((left_scale, left.shape[0]), (right_scale, right.shape[1]))
    ):
        return NotImplemented
    product = (left.float() @ right.float()) * left_scale * right_scale
    product = product if bias is None else product + bias
    kind = out_dtype or left.dtype
    return (product / scale if scale is not None and kind.itemsize == 1 else product).to(kind)


def of_bytes(op: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """IREE's compiler crashes on products of bytes whose sums are bytes."""

    def formula(left: Tensor, right: Tensor) -> Tensor:
        if left.dtype not in BYTES:
            return NotImplemented
        return op(left.to(torch.int32), right.to(torch.int32)).to(left.dtype)

    return formula


def distances(left: Tensor, right: Tensor, power: float, _mode: int | None) -> Tensor:
    return torch.linalg.vector_norm(left.unsqueeze(-2) - right.unsqueeze(-3), power, -1)


def distances_backward(gradient: Tensor, left: Tensor, right: Tensor, power: float, found: Tensor) -> Tensor:
    if power == 2:
        share = torch.where(found == 0, 0, gradient / found)
        return left * share.sum(-1, keepdim=True) - share @ right
    apart, found = left.unsqueeze(-2) - right.unsqueeze(-3), found.unsqueeze(-1)
    size = apart.abs()
    slope = (size == found).to(size.dtype) if math.isinf(power) else (size / found) ** (power - 1)
    return (torch.where(size == 0, 0, slope * apart.sign() * (power > 0)) * gradient.unsqueeze(-1)).sum(-2)


def distances_of_pairs(tensor: Tensor, power: float = 2) -> Tensor:
    """The distance of each row from each one behind it."""
    first, second = _pairs(tensor)
    return torch.linalg.vector_norm(tensor[first] - tensor[second], power, dim=-1)


def distances_of_pairs_backward(gradient: Tensor, tensor: Tensor, power: float, found: Tensor) -> Tensor:
    rows = tensor.shape[0]
    first, second = _pairs(tensor)
    whole = [each.new_zeros(rows, rows).index_put([first, second], each) for each in (gradient, found)]
    both, lengths = (each + each.mT for each in whole)
    return distances_backward(both, tensor, tensor, power, lengths)


def _pairs(tensor: Tensor) -> Tensor:
    return torch.triu_indices(tensor.shape[0], tensor.shape[0], 1, device=tensor.device)

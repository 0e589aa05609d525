"""Sums of f16 and bf16, which PyTorch adds up in f32: IREE rounds after each term, and ones in bf16 sum up to 256."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsplice.matchers.terms.constants import rounded
from opsplice.torch.decompositions.masked_places import at_one_index, from_front, in_one_row

aten = torch.ops.aten

_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}
HALVES = tuple(_NAMES)


def widened(*args: Any) -> list[Any]:
    """Arguments with halves among them as f32."""
    return [each.float() if isinstance(each, Tensor) and each.dtype in HALVES else each for each in args]


def in_f32(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An op on halves, computed in f32 and rounded once."""

    def formula(tensor: Tensor, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        kind = dtype or tensor.dtype
        if kind not in HALVES:
            return NotImplemented
        return op(*widened(tensor.to(kind), *args), **options).to(kind)

    return formula


def norm_in_f32(op: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """A norm of halves, or their moments, in f32. Moments have the type of the norm's weights, if there are any."""

    def formula(tensor: Tensor, *args: Any, **options: Any) -> tuple[Tensor, ...]:
        if tensor.dtype not in HALVES:
            return NotImplemented
        weights = [each for each in args if isinstance(each, Tensor)]
        result, *moments = op(*widened(tensor, *args), **options)
        kind = weights[0].dtype if weights else tensor.dtype
        return result.to(tensor.dtype), *(each.to(kind) for each in moments)

    return formula


def by_number(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An op on halves and numbers of which one is no half, in f32: 0.7 is 0.1 % less in bf16."""
    defaults = [each.default_value for each in op._schema.arguments] if isinstance(op, torch._ops.OpOverload) else []

    def formula(*args: Any, **options: Any) -> Tensor:
        kinds = {each.dtype for each in args if isinstance(each, Tensor)}
        kind = kinds.pop()
        numbers = [each for each in (*args, *defaults[len(args) :]) if type(each) in (int, float)]
        if kinds or kind not in HALVES or all(rounded(each, _NAMES[kind]) == each for each in numbers):
            return NotImplemented
        return op(*widened(*args), **options).to(kind)

    return formula


def added_at_places(
    tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Along one dim, as `index_add` and the gradients of tables add. IREE has no room for what an index_put widens."""
    named = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not accumulate or tensor.dtype not in HALVES or any(index.dtype == torch.bool for _, index in named):
        return NotImplemented
    if len(named) > 1:
        return at_one_index(aten.index_put.default, tensor, indices, values, accumulate)
    ((dim, index),) = named
    places, values = in_one_row(tensor, dim, from_front(index, tensor.shape[dim]).long(), values)
    places = places.reshape(-1, *[1] * (tensor.dim() - dim - 1)).expand(values.shape)
    return tensor.scatter_add(dim, places, values)

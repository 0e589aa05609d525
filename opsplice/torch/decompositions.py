"""Which of PyTorch's ops become smaller ones before IREE sees them.

An op stays whole where IREE converts it itself: its own form is then the one that patterns were written for. An op that
IREE does not take becomes ops that it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

aten = torch.ops.aten

# Of PyTorch's core decompositions, those of ops that IREE takes as they are.
WHOLE = (
    aten.addmm,
    aten.baddbmm,
    aten.gelu,
    aten.glu,
    aten.hardswish,
    aten.leaky_relu,
    aten.masked_fill,
    aten.silu,
    aten.softplus,
    aten.stack,
    aten.std,
    aten.threshold,
    aten.unbind,
)

Table = dict[Any, Callable[..., Any]]


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention as products around a softmax, laid out as PyTorch lays its result out."""
    weights = _attention_weights(query, key, is_causal, attn_mask, scale)
    result = weights @ _per_query_head(value, query)
    # What the backward pass makes of the second result, the sums of the softmax, it computes again.
    return _rows_outside(result), query.new_zeros(query.shape[:-1], dtype=torch.float32)


def _attention_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _result: torch.Tensor,
    _sums: torch.Tensor,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weights = _attention_weights(query, key, is_causal, attn_mask, scale)
    of_weights = gradient @ _per_query_head(value, query).transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * _scale(query, scale)
    of_query = of_scores @ _per_query_head(key, query)
    of_key = _per_own_head(of_scores.transpose(-2, -1) @ query, key)
    of_value = _per_own_head(weights.transpose(-2, -1) @ gradient, value)
    return _rows_outside(of_query), _rows_outside(of_key), _rows_outside(of_value)


def _attention_weights(
    query: torch.Tensor, key: torch.Tensor, is_causal: bool, mask: torch.Tensor | None, scale: float | None
) -> torch.Tensor:
    scores = query @ _per_query_head(key, query).transpose(-2, -1) * _scale(query, scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = torch.where(seen, scores, -torch.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1)


def _scale(query: torch.Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _per_query_head(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values, repeated for the heads of the queries that share them."""
    heads = query.shape[1] // tensor.shape[1]
    return tensor if heads == 1 else tensor.repeat_interleave(heads, 1)


def _per_own_head(gradient: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    heads = gradient.shape[1] // tensor.shape[1]
    return gradient if heads == 1 else gradient.unflatten(1, (tensor.shape[1], heads)).sum(2)


def _rows_outside(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers with heads inside rows in memory: views behind an attention count on that."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _squeeze(tensor: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    for dim in sorted((dim % max(tensor.dim(), 1) for dim in dims), reverse=True):
        tensor = aten.squeeze.dim(tensor, dim)
    return tensor


OWN: Table = {
    aten.squeeze.dims: _squeeze,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_backward,
}


@functools.cache
def _table() -> Table:
    whole = {getattr(packet, name) for packet in WHOLE for name in packet.overloads()}
    return {op: body for op, body in core_aten_decompositions().items() if op not in whole} | OWN


def table() -> Table:
    """What aot_autograd takes apart, by op."""
    return dict(_table())

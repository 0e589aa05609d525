"""Layers that PyTorch has as one op. Each formula has the signature of its op.

Recurrent layers become operators of ONNX, which kernels take whole, and the loops that stand for them elsewhere.
Attention becomes products around a softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional

from opsplice.torch.decompositions.halves import widened

# ---- recurrent layers -----------------------------------------------------------------------------------------------

# The states behind a step: of those before it, its row of the input's product, and the state's product.
Step = Callable[[Sequence[Tensor], Tensor, Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Kind:
    """Layers of a kind.

    gates: where the gates, in ONNX's order, are in PyTorch's. operator: ONNX's name, "" where PyTorch's layers are more
    than one of its; forms: what it is told besides its direction.
    """

    step: Step
    gates: tuple[int, ...]
    operator: str = ""
    forms: tuple[tuple[str, int], ...] = ()

    def in_order(self, parameter: Tensor) -> Tensor:
        """A weight or a bias, [gates, ...], with its gates in ONNX's order."""
        parts = parameter.chunk(len(self.gates))
        return torch.cat([parts[gate] for gate in self.gates])


def layers(kind: Kind) -> Callable[..., Any]:
    """The formula of an op whose layers are of a kind."""

    def formula(
        x: Tensor,
        start: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        count: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        directions, x, ends = 2 if bidirectional else 1, x.transpose(0, 1) if batch_first else x, []
        states = zip(
            *(each.split(directions) for each in ([start] if isinstance(start, Tensor) else start)), strict=True
        )
        each = len(params) // (count * directions)
        ways = [params[first : first + each] for first in range(0, len(params), each)]
        for number, begin in enumerate(states):
            given = functional.dropout(x, dropout, train and number > 0)
            own = ways[number * directions : (number + 1) * directions]
            shown, *end = _layer(kind, given, own, has_biases, begin)
            x = shown.transpose(1, 2).flatten(2)
            ends.append(end)
        return x.transpose(0, 1) if batch_first else x, *(torch.cat(each) for each in zip(*ends, strict=True))

    return formula


def _layer(
    kind: Kind, x: Tensor, ways: Sequence[Sequence[Tensor]], has_biases: bool, start: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """What a layer shows in all steps, [steps, directions, batch, size], and the states behind the last one.

    ways: the parameters of each direction. start: states, [directions, batch, size].
    """
    gated, parameters = 4 if has_biases else 2, [*zip(*ways, strict=True)]
    weight, of_state, *biases = (torch.stack([*map(kind.in_order, each)]) for each in parameters[:gated])
    projections = [torch.stack(each) for each in parameters[gated:]]
    bias = torch.cat(biases, 1) if biases else x.new_zeros(len(ways), 2 * weight.shape[1])
    given = x, weight, of_state, bias
    if projections or not kind.operator:
        return _loop(kind, *given, *projections, start=start)
    lengths = torch.full((x.shape[1],), x.shape[0], dtype=torch.int32)
    direction = "bidirectional" if len(ways) > 1 else "forward"
    forms = {"hidden_size": of_state.shape[2], "direction": direction, **dict(kind.forms)}
    return hints_wrapper(
        lambda x, weight, of_state, bias, lengths, *start: _loop(kind, x, weight, of_state, bias, start=start),
        (*given, lengths, *start),
        {},
        hints={"name": f"onnx.{kind.operator}"} | {f"torch.onnx.{form}": value for form, value in forms.items()},
    )


def _loop(
    kind: Kind,
    x: Tensor,
    weight: Tensor,
    of_state: Tensor,
    bias: Tensor,
    *projection: Tensor,
    start: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """A layer, both directions in a step, which go through the input's product from either end."""
    own, other = bias.chunk(2, 1)
    made = functional.linear(x.flatten(0, 1), weight.flatten(0, 1), own.flatten())
    rows = made.view(*x.shape[:2], *weight.shape[:2]).transpose(1, 2)

    def combine(*values: Tensor) -> tuple[Tensor, ...]:
        state, (row, of_state, bias, *projection) = values[: len(start)], values[len(start) :]
        made, *rest = kind.step(state, row, torch.bmm(state[0], of_state) + bias)
        for each in projection:
            made = torch.bmm(made, each)
        return made, *rest, made.clone()

    read = (of_state.mT, other[:, None], *(each.mT for each in projection))
    *ends, shown = scan_op(combine, start, [_along_time(rows)], read)
    return _along_time(shown), *ends


def _along_time(steps: Tensor) -> Tensor:
    """The steps of a layer, [steps, directions, ...], in the order that each direction takes them in, and back."""
    forward, *backward = steps.unbind(1)
    return torch.stack([forward, *(each.flip(0) for each in backward)], 1)


def _lstm(state: Sequence[Tensor], row: Tensor, product: Tensor) -> tuple[Tensor, ...]:
    taken, shown, kept, new = (row + product).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def _gru(state: Sequence[Tensor], row: Tensor, product: Tensor) -> tuple[Tensor, ...]:
    (update, reset, new), old = row.chunk(3, -1), product.chunk(3, -1)
    made = (new + (reset + old[1]).sigmoid() * old[2]).tanh()
    return (made + (update + old[0]).sigmoid() * (state[0] - made),)


def _plain(function: Callable[[Tensor], Tensor]) -> Step:
    """A step of a layer without gates."""
    return lambda state, row, product: (function(row + product),)


LSTM = Kind(_lstm, (0, 3, 1, 2), "LSTM")
GRU = Kind(_gru, (1, 0, 2), "GRU", (("linear_before_reset", 1),))
TANH, RELU = Kind(_plain(torch.tanh), (0,)), Kind(_plain(torch.relu), (0,))


# ---- attention -------------------------------------------------------------------------------------------------------


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention as products around a softmax.

    Halves are f32 in between: PyTorch rounds nothing between the two products.
    """
    q, k, v, mask = widened(query, key, value, attn_mask)
    result = _attention_weights(q, k, is_causal, mask, scale) @ _per_query_head(v, q)
    # What the backward pass makes of the second result, the sums of the softmax, it computes again.
    return result.to(query.dtype), query.new_zeros(query.shape[:-1], dtype=torch.float32)


def attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _result: Tensor,
    _sums: Tensor,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    kind = query.dtype
    gradient, query, key, value, mask = widened(gradient, query, key, value, attn_mask)
    weights = _attention_weights(query, key, is_causal, mask, scale)
    of_weights = gradient @ _per_query_head(value, query).transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * _scale(query, scale)
    of_query = of_scores @ _per_query_head(key, query)
    of_key = _per_own_head(of_scores.transpose(-2, -1) @ query, key)
    of_value = _per_own_head(weights.transpose(-2, -1) @ gradient, value)
    return of_query.to(kind), of_key.to(kind), of_value.to(kind)


def encoder_layer(
    tensor: Tensor,
    width: int,
    heads: int,
    in_weight: Tensor,
    in_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *parts: Any,
) -> Tensor:
    """A layer of a transformer in evaluation mode, which PyTorch has as one op.

    parts: weights and biases of two norms and of two linear layers, then, if there is one, a mask that is true where
    nothing is seen, and its kind: 0 for (length, length), 1 for (batch, length), 2 for (batch, heads, length, length).
    """
    norms, layers, (mask, kind) = parts[:4], parts[4:8], (*parts[8:], None, None)[:2]
    seen = None if mask is None else mask.to(torch.bool).logical_not()
    if seen is not None and kind == 1:
        seen = seen.unsqueeze(1).unsqueeze(1)

    def attended(x: Tensor) -> Tensor:
        rows = functional.linear(x, in_weight, in_bias).view(*x.shape[:2], 3, heads, width // heads)
        query, key, value = rows.permute(2, 0, 3, 1, 4).unbind()
        result = functional.scaled_dot_product_attention(query, key, value, seen)
        return functional.linear(result.transpose(1, 2).reshape(x.shape), out_weight, out_bias)

    def fed(x: Tensor) -> Tensor:
        hidden = functional.linear(x, *layers[:2])
        return functional.linear(functional.gelu(hidden) if use_gelu else torch.relu(hidden), *layers[2:])

    for function, (weight, bias) in ((attended, norms[:2]), (fed, norms[2:])):
        if norm_first:
            tensor = tensor + function(functional.layer_norm(tensor, (width,), weight, bias, eps))
        else:
            tensor = functional.layer_norm(tensor + function(tensor), (width,), weight, bias, eps)
    return tensor


def _attention_weights(query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None) -> Tensor:
    scores = query @ _per_query_head(key, query).transpose(-2, -1) * _scale(query, scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = torch.where(seen, scores, -torch.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf) if mask.dtype == torch.bool else scores + mask
        # PyTorch makes zeros of rows without any key.
        none = (scores == -torch.inf).all(-1, keepdim=True)
        return torch.where(none, 0.0, torch.softmax(scores, -1))
    return torch.softmax(scores, -1)


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _per_query_head(tensor: Tensor, query: Tensor) -> Tensor:
    """Keys or values, repeated for the heads of the queries that share them."""
    heads = query.shape[1] // tensor.shape[1]
    return tensor if heads == 1 else tensor.repeat_interleave(heads, 1)


def _per_own_head(gradient: Tensor, tensor: Tensor) -> Tensor:
    heads = gradient.shape[1] // tensor.shape[1]
    return gradient if heads == 1 else gradient.unflatten(1, (tensor.shape[1], heads)).sum(2)

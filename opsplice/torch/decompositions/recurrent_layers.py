"""Recurrent layers as operators of ONNX, which kernels take whole, and the loops that stand for them elsewhere.

Each formula has the signature of its op.
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

"""Recurrent layers of many steps as loops. Each formula has the signature of its op.

PyTorch writes out all steps, each of which takes about 0.2 s of a compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch._higher_order_ops.while_loop import while_loop_op
from torch.nn import functional

# The steps of a layer, in all directions, that are written out.
MOST_WRITTEN = 128

# The states behind a step: of those before it, its row of the input's product, the state's product, and the weight of
# a projection, if the layer has one.
Step = Callable[..., tuple[Tensor, ...]]


def in_steps(combine: Callable[..., Any], first: Sequence[Any], rows: Sequence[Any], read: Sequence[Any]) -> Any:
    """A scan as a loop that counts, and writes a row of each result in a step."""
    shapes = combine(*first, *(each[0] for each in rows), *read)[len(first) :]
    written = [each.new_zeros([rows[0].shape[0], *each.shape]) for each in shapes]
    start = len(first) + len(written)

    def is_left(step: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return step < others[start].shape[0]

    def stepped(step: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state, so_far, rest = others[: len(first)], others[len(first) : start], others[start:]
        place = step.view(1)
        given = [each.index_select(0, place).squeeze(0) for each in rest[: len(rows)]]
        results = combine(*state, *given, *rest[len(rows) :])
        made = zip(so_far, results[len(first) :], strict=True)
        return step + 1, *results[: len(first)], *(all_.index_put((place,), row[None]) for all_, row in made)

    begin = (torch.zeros((), dtype=torch.int64), *first, *written)
    return while_loop_op(is_left, stepped, begin, (*rows, *read))[1:]


def layers(op: Any, step: Step) -> Callable[..., Any]:
    """The formula of an op whose layers take such steps."""

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
        steps, directions = x.shape[1 if batch_first else 0], 2 if bidirectional else 1
        if steps * directions <= MOST_WRITTEN or (train and dropout):
            whole = get_decompositions([op])[op]
            return whole(x, start, params, has_biases, count, dropout, train, bidirectional, batch_first)
        states = [start] if isinstance(start, Tensor) else start
        each, x, ends = len(params) // (count * directions), x.transpose(0, 1) if batch_first else x, []
        for layer in range(count):
            shown = []
            for number in range(layer * directions, (layer + 1) * directions):
                own, begin = params[number * each : (number + 1) * each], [state[number] for state in states]
                out, end = _direction(x, begin, own, has_biases, number % directions, step)
                shown.append(out)
                ends.append(end)
            x = torch.cat(shown, -1)
        return x.transpose(0, 1) if batch_first else x, *(torch.stack(kind) for kind in zip(*ends, strict=True))

    return formula


def _direction(
    x: Tensor, start: list[Tensor], params: Sequence[Tensor], has_biases: bool, is_backwards: int, step: Step
) -> tuple[Tensor, Sequence[Tensor]]:
    """What one direction of a layer shows in all steps, and the states behind the last one."""
    weight, of_state, *others = params
    bias, *others = others if has_biases else [None, *others]
    given = functional.linear(x, weight, bias)

    def combine(*values: Tensor) -> tuple[Tensor, ...]:
        state, (row, weight, *rest) = values[: len(start)], values[len(start) :]
        bias, *rest = rest if has_biases else [None, *rest]
        made = step(state, row, functional.linear(state[0], weight, bias), *rest)
        return *made, made[0].clone()

    rows = given.flip(0) if is_backwards else given
    *ends, shown = in_steps(combine, start, [rows], [of_state, *others])
    return shown.flip(0) if is_backwards else shown, ends


def lstm(state: Sequence[Tensor], row: Tensor, product: Tensor, projection: Tensor | None = None) -> tuple[Tensor, ...]:
    """A step of an LSTM."""
    taken, kept, new, shown = (row + product).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    hidden = shown.sigmoid() * cell.tanh()
    return hidden if projection is None else functional.linear(hidden, projection), cell


def gru(state: Sequence[Tensor], row: Tensor, product: Tensor) -> tuple[Tensor, ...]:
    """A step of a GRU."""
    (reset, update, new), old = row.chunk(3, -1), product.chunk(3, -1)
    made = (new + (reset + old[0]).sigmoid() * old[2]).tanh()
    return (made + (update + old[1]).sigmoid() * (state[0] - made),)


def plain(function: Callable[[Tensor], Tensor]) -> Step:
    """A step of a layer without gates."""
    return lambda state, row, product: (function(row + product),)

"""Ops that take functions: what the functions say holds, ahead of time and in torch.compile."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch._higher_order_ops.map import map as for_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import opsplice


class Flexible(torch.nn.Module):
    """Attention of documents in one row, with a bias that is a weight: scores and masks both read tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(4, 31))
        self.window = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 5), None, None, 16, 16, device="cpu")

    def forward(self, q, k, v, document):
        def biased(score, b, h, i, j):
            return score + self.bias[h, i - j + 15]

        def mask(b, h, i, j):
            return (i > j) & (document[b, i] == document[b, j])

        made = create_block_mask(mask, 2, None, 16, 16, device="cpu")
        return [
            *flex_attention(q, k, v, biased, made, enable_gqa=True, return_lse=True),
            flex_attention(q, k, v, block_mask=self.window, scale=0.5, enable_gqa=True),
        ]


def test_masks_and_scores_of_flex_attention_hold():
    model = Flexible().eval()
    inputs = [*(torch.randn(2, heads, 16, 8) for heads in (4, 2, 2)), torch.arange(32).view(2, 16) // 5]
    with torch.no_grad():
        compiled = torch.compile(model, backend="opsplice")(*inputs)
        program = opsplice.torch.export(model, tuple(inputs))
        exact = model.double()(*(each.double() for each in inputs[:3]), inputs[3])
    ahead = program.run("main", *(each.numpy() for each in inputs))
    for each, other, wanted in zip(compiled, ahead, exact, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-6)


class Control(torch.nn.Module):
    """Branches by values and by sizes, loops with what they read, and each in another; sorts share nothing."""

    def forward(self, x, h):
        def step(state, row):
            made = for_rows(lambda each, other: each * other.sin(), row, state)
            following = torch.cond(made.sum() > 0, lambda a, b: a.sum() * b, lambda a, b: b.cos() - a[0], (made, state))
            return following, made.clone()

        def order(values):
            return torch.cond(values[0, 0] > 0, lambda v: v.argsort(0), lambda v: v.argsort(1), (values,))

        return [
            *scan(step, h, x),
            *torch.cond(x.sum() > 0, lambda v: (order(v[0]), v.sin()), lambda v: ((-v[0]).argsort(0), v + 1), (x,)),
            x[1].sort(0)[1],
            torch.cond(x.shape[0] > 5, lambda v: v * 2, lambda v: v * 3, (x,)),
            while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * h + n), (torch.tensor(0), x))[1],
        ]


def test_branches_and_loops_give_the_numbers_of_eager():
    h = torch.randn(4)
    program = opsplice.torch.export(Control().eval(), (torch.randn(3, 4, 4), h), dynamic={"x": {0: "n"}, "h": None})
    for x in (torch.randn(3, 4, 4).abs(), -torch.rand(7, 4, 4), torch.randn(3, 4, 4).abs() - torch.eye(4)):
        for got, wanted in zip(program.run("main", x.numpy(), h.numpy()), Control()(x, h), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def computed(x, h):
    last, made = scan(lambda state, row: (state * 0.5 + row, (state * row).sin()), h, x)
    rows = for_rows(lambda row, other: row.exp() * other, x, h)
    return [last, made, rows, torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v * 3, (x,))]


def test_branches_and_loops_have_gradients():
    def gradients(function):
        given = [torch.linspace(-1, 2, 12).view(3, 4).requires_grad_(), torch.linspace(1, 2, 4).requires_grad_()]
        results = function(*given)
        sum(each.square().sum() for each in results).backward()
        return [*results, *(each.grad for each in given)]

    torch.testing.assert_close(gradients(torch.compile(computed, backend="opsplice")), gradients(computed))


def test_a_branch_that_draws_is_refused():
    def drawn(x):
        return torch.cond(x.sum() > 0, lambda v: v * torch.rand_like(v), lambda v: v.clone(), (x,))

    with pytest.raises(opsplice.OpspliceError, match=r"test_higher_order.py:\d+: a branch or a loop draws random"):
        torch.compile(drawn, backend="opsplice")(torch.ones(3))

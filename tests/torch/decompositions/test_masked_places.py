"""Elements that a mask names, read and written: the numbers of eager, whatever dims the mask has."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import numpy as np
import torch

import opsplice


class Read(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            x[x > 0],
            x[x[:, 0] > 0],
            x[:, y > 0],
            torch.stack([x, 2 * x])[:, x > 0],
            torch.masked_select(x, y > 0),
            *torch.where(x > 0),
        ]


class Write(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        numbers = torch.arange(20.0)
        return [
            x.index_put((x > 0,), torch.tensor(7.0)),
            x.index_put((x[:, 0] > 0,), y, accumulate=True),
            x.index_put((x[:, 0] > 0,), numbers.view(4, 5)[:2]),
            x.index_put((x > 0,), numbers[:11]),
            x.index_put((x > 0,), (2 * x)[x > 0]),
            x.index_put((x[:, 0] > 0, torch.tensor([1, 3])), torch.tensor(7.0)),
            torch.ops.aten.index_put(x, [None, y > 0], torch.tensor(7.0)),
            x.masked_scatter(x > 0, numbers),
            x.index_reduce(1, torch.tensor([1, 3, 1]), numbers[:12].view(4, 3), "mean", include_self=False),
            (x > 0).index_put((y[:4] > 0,), torch.tensor(True), accumulate=True),
        ]


@pytest.mark.parametrize("model", [Read(), Write()])
def test_elements_that_a_mask_names(model: torch.nn.Module) -> None:
    x = torch.tensor([[1.0, -2, 3, -4, 5], [-1, 2, -3, 4, -5], [6, 7, -8, 9, -1], [-1, -1, 1, 1, 2]])
    y = torch.tensor([-1.0, 2, 3, -4, 5])
    program = opsplice.torch.export(model.eval(), (x, y))
    found, wanted = program.run(None, x.numpy(), y.numpy()), model(x, y)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def at_open_places(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> list[torch.Tensor]:
    """At as many places as a call has: side by side, apart, behind a dim, below 0, in a grid, and written."""
    apart, few = x.clone(), i % 4
    apart[i, :, j] += 1
    return [
        x[i, j],
        x[torch.arange(x.shape[0]), x.sum(-1).argmax(-1)],
        x[i, :, j],
        x[:, few, j],
        x[-i - 1, j - 4],
        x[i[:, None], j[i % 3][:, None]],
        x[i, j, few],
        x.index_put((i, j), x[i, j] * 2, accumulate=True),
        apart,
        x.masked_scatter(x > 0, 2 * x),
        torch.diagonal_scatter(x, x[:, 0, :3], -1, 1, 2),
        torch.diagonal_scatter(x, x[:4, 0].transpose(0, 1), 0, 0, 1),
        x.transpose(0, 2).squeeze(2) + 1,
    ]


def test_elements_at_places_of_open_number() -> None:
    fast = torch.compile(at_open_places, backend="opsplice", dynamic=True)
    for batch, count in ((4, 4), (9, 6)):
        x, i, j = torch.randn(batch, 4, 5), torch.randperm(batch)[:count], torch.randint(0, 4, (count,))
        torch.testing.assert_close(fast(x, i, j), at_open_places(x, i, j))


def test_gradients_of_elements_that_a_mask_places_in_order() -> None:
    fast = torch.compile(torch.masked_scatter, backend="opsplice", dynamic=True)
    for batch in (3, 5):
        mask, slope = torch.rand(4, 1) > 0.4, torch.randn(batch, 4, 6)
        x, source = (torch.randn(*sizes, requires_grad=True) for sizes in ((batch, 4, 6), (batch * 4, 7)))
        found, wanted = (op(x, mask, source) for op in (fast, torch.masked_scatter))
        torch.testing.assert_close(*(torch.autograd.grad(made, (x, source), slope) for made in (found, wanted)))


def written_from_the_end(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """At places below 0: along the first dim, along another, at both, one place alone, and added, also one to all."""
    assigned = x.clone()
    assigned[i] = y
    last = x.clone()
    last[-1] = y[0]
    last[:, -1] = y[0, 0]
    return [
        assigned,
        last,
        torch.ops.aten.index_put(x, [None, j], y[:1, :4].expand(x.shape[0], 4)),
        x.index_put((i, j), y[:, 0]),
        x.index_put((i,), y, accumulate=True),
        x.index_put((i,), y[:1], accumulate=True),
        x.index_put((i,), torch.ones((), dtype=x.dtype), accumulate=True),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_places_below_0_count_from_the_end_where_they_are_written(dtype: torch.dtype, dynamic: bool) -> None:
    x, y = torch.arange(30).view(6, 5).to(dtype), torch.arange(20, 40).view(4, 5).to(dtype)
    i, j = torch.tensor([-1, 2, -3, 0]), torch.tensor([-1, 0, 2, -3])
    found = torch.compile(written_from_the_end, backend="opsplice", dynamic=dynamic)(x, i, j, y)
    torch.testing.assert_close(found, written_from_the_end(x, i, j, y))


def test_gradients_of_elements_at_places_with_dims_between() -> None:
    x, slope = torch.randn(3, 4, 5, requires_grad=True), torch.randn(4, 4)
    i, j = torch.tensor([0, 2, -1, 0]), torch.tensor([4, 0, 1, 4])
    found = torch.compile(lambda x: x[i, :, j], backend="opsplice")(x)
    torch.testing.assert_close(*(torch.autograd.grad(made, x, slope) for made in (found, x[i, :, j])))


def test_rows_are_added_at_places_that_are_computed() -> None:
    x, places = torch.randn(5, 7), torch.tensor([2, 0, 1, 2, 4], dtype=torch.int32)
    added = torch.compile(lambda x, i: x.index_add(0, i.long(), x.sin()), backend="opsplice", dynamic=True)
    torch.testing.assert_close(added(x, places), x.index_add(0, places.long(), x.sin()))


def test_gradients_of_largest_rows_of_an_open_number() -> None:
    """As of the messages of a graph: what is added at places that are computed is computed, too."""

    def largest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[0])
        rows, places = (x @ w)[at], ((at * 3 + 1) % x.shape[0]).unsqueeze(1)
        return torch.zeros_like(x).scatter_reduce(0, places.expand(-1, 6), rows, "amax").square().mean()

    x, w = torch.randn(7, 6), torch.randn(6, 6, requires_grad=True)
    compiled = torch.compile(largest, backend="opsplice", dynamic=True)
    found, wanted = (torch.autograd.grad(each(x, w), w) for each in (compiled, largest))
    torch.testing.assert_close(found, wanted)


class Turned(torch.nn.Module):
    """Complex numbers, of which PyTorch's exporter asserts the type."""

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        turns = torch.polar(torch.ones_like(angles), angles).to("cpu")
        return torch.view_as_real(torch.view_as_complex(x.float().view(4, 5, 2)) * turns.to(x.device)).flatten(1)


def test_what_is_said_of_complex_numbers_is_left_out() -> None:
    x, angles = torch.randn(4, 10), torch.randn(5)
    exported = torch.export.export(Turned(), (x, angles))
    assert torch.ops.aten._assert_tensor_metadata.default in {node.target for node in exported.graph.nodes}
    found = opsplice.torch.export(Turned().eval(), (x, angles)).run(None, x.numpy(), angles.numpy())
    np.testing.assert_allclose(found, Turned()(x, angles), rtol=1e-5, atol=1e-6)


def test_places_of_several_open_dims_and_of_none_are_written():
    """As the gradients of embeddings are, in batches of any size of sequences of any length, and of one word."""

    def write(table: torch.Tensor, ids: torch.Tensor, rows: torch.Tensor) -> list[torch.Tensor]:
        first = table.index_put((ids,), rows, accumulate=True)
        return [first, torch.ops.aten.index_put(table.T, [None, ids], rows.movedim(-1, 0), True)]

    compiled, table = torch.compile(write, backend="opsplice", dynamic=True), torch.randn(10, 4)
    for sizes in ((2, 3), (5, 2), ()):
        ids, rows = torch.randint(-10, 10, sizes), torch.randn(*sizes, 4)
        torch.testing.assert_close(compiled(table, ids, rows), write(table, ids, rows))


def test_places_of_an_open_number_that_is_one() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[0] // 2
        return x.index_put((torch.arange(half),), x[:half] * 2)

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(doubled, backend="opsplice", dynamic=True)(x), doubled(x))


def of_truths(x: torch.Tensor, mask: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Numbers written as truths, and truths put together at places, some of which are there twice."""
    few = x.to(torch.uint8) * 200 + 5
    return [
        x.masked_fill(mask, 2),
        torch.full((3,), 2, dtype=torch.bool),
        torch.full_like(x, 2),
        x.clone().fill_(0.5),
        x.index_add(0, i, y),
        x.index_put((i,), y, accumulate=True),
        x.scatter_add(0, i, y),
        *(x.scatter_reduce(0, i, y, each) for each in ("sum", "prod", "amax", "amin")),
        *(few.scatter_reduce(0, i, few[i], each) for each in ("sum", "amax", "amin")),
    ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_truths_at_places_are_those_of_eager(dynamic: bool) -> None:
    x, mask = torch.tensor([False, True, True, False, True]), torch.tensor([False, True, True, True, False])
    i, y = torch.tensor([0, 2, 1, 0, 2, 1]), torch.tensor([False, True, True, True, True, False])
    found = torch.compile(of_truths, backend="opsplice", dynamic=dynamic)(x, mask, i, y)
    torch.testing.assert_close(found, of_truths(x, mask, i, y))


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int64], ids=str)
def test_means_of_integers_at_places_are_rounded_down(kind: torch.dtype) -> None:
    def means(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        both = [x.scatter_reduce(0, i, x, "mean", include_self=with_self) for with_self in (True, False)]
        return [*both, x.index_reduce(0, i, x, "mean")]

    x, i = torch.tensor([-100, 51, 200, -7, 90, 255, -32]).to(kind), torch.tensor([0, 0, 0, 2, 2, 2, 4])
    torch.testing.assert_close(torch.compile(means, backend="opsplice")(x, i), means(x, i))

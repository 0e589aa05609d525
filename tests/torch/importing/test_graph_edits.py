"""Tensors without elements through the backend: IREE's compiler would end the process on these ops."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch.nn import functional

import opsplice

ROWS, COLUMNS = torch.ones(5, 0), torch.ones(0, 10)


def empty_results(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        functional.group_norm(x[:0], 2) + 1,
        functional.pixel_shuffle(x[:, :0, None], 1),
        functional.unfold(x[:0].reshape(0, 1, 2, 3), 2),
        x[:0].reciprocal().to(torch.int64),
        torch.eye(0, 3),
        x[:, :0] @ x[:0],
    ]


def sums_of_nothing(x: torch.Tensor) -> list[torch.Tensor]:
    batches = x[None].expand(3, 4, 6)
    return [
        ROWS @ COLUMNS,
        torch.addmm(x[0, 0] + torch.arange(10.0), ROWS, COLUMNS, beta=0.5),
        torch.baddbmm(batches, batches[..., :0].expand(3, 4, 0), batches[:, :0], beta=2),
        x.scatter_add(1, torch.zeros(4, 0, dtype=torch.int64), x) + x.index_put((torch.arange(0),), x[:0]),
        torch.cat([x, x[:0]]).sum(0),
    ]


@pytest.mark.parametrize("function", [empty_results, sums_of_nothing])
def test_results_are_those_of_eager(function) -> None:
    x = torch.arange(24.0).reshape(4, 6) + 1
    found = torch.compile(function, backend="opsplice", fullgraph=True)(x)
    for result, wanted in zip(found, function(x), strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_without_numbers_is_one_kernel(dtype: torch.dtype) -> None:
    """`nan_to_num` asks for infinities, too, which a softmax has none of: rows without any key are zeros."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.mT).masked_fill(mask, -torch.inf).float()
        return torch.nan_to_num(torch.softmax(scores, -1).to(q.dtype)) @ v

    fast = torch.compile(attention, backend="opsplice", options={"specs": ["opsplice_kernels"]})
    q, k, v = (torch.randn(2, 4, 64, 32).to(dtype) / 4 for _ in range(3))
    mask = torch.rand(64, 64) < 0.3
    mask[3] = True
    found, wanted = fast(q, k, v, mask), attention(*(each.double() for each in (q, k, v)), mask)
    assert not found[..., 3, :].any()
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-6 if dtype == torch.float32 else 4e-3)
    assert "=> attention_rows" in str(opsplice.torch.report())


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_chosen_where_a_softmax_is_infinite_keeps_its_shape(dynamic: bool) -> None:
    """And what is compared may be a size, which is a node of the graph where it is open."""

    def chosen(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = x.softmax(-1)
        return torch.where(shares == torch.inf, shares, 0.5), torch.where(shares == x.shape[0], shares, -shares)

    x = torch.randn(3, 4)
    found = torch.compile(chosen, backend="opsplice", dynamic=dynamic)(x)
    torch.testing.assert_close(found, chosen(x))


def test_infinities_of_other_tensors_become_numbers() -> None:
    x = torch.tensor([[torch.inf, -torch.inf, torch.nan, 2]])
    fast = torch.compile(lambda x: (x.nan_to_num(), (x.softmax(1) / 0).nan_to_num(1, 3)), backend="opsplice")
    limit = torch.finfo(torch.float32).max
    plain, divided = fast(x[:, :2]), fast(torch.zeros(1, 2))
    torch.testing.assert_close(plain[0], torch.tensor([[limit, -limit]]))
    torch.testing.assert_close(divided[1], torch.full((1, 2), 3.0))


def test_sums_of_no_columns_of_an_open_number_of_rows() -> None:
    fast = torch.compile(lambda x: x[:, 3:2].sum() + x.shape[0], backend="opsplice", dynamic=True, fullgraph=True)
    assert [fast(torch.ones(rows, 6)).item() for rows in (4, 9)] == [4, 9]


def test_gradients_of_what_nothing_depends_on_are_zeros() -> None:
    layer = torch.nn.Linear(6, 3)
    torch.compile(layer, backend="opsplice")(torch.ones(0, 6)).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0] * 6] * 3
    assert layer.bias.grad.tolist() == [0.0] * 3


def test_gradients_of_convolutions_of_no_images() -> None:
    layers = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 2, groups=2), torch.nn.ConvTranspose2d(4, 6, 2, groups=2))
    torch.compile(layers, backend="opsplice")(torch.ones(0, 4, 5, 5)).sum().backward()
    for layer in layers:
        torch.testing.assert_close(layer.weight.grad, torch.zeros_like(layer.weight))
        torch.testing.assert_close(layer.bias.grad, torch.zeros_like(layer.bias))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_of_images_with_zeros_around(dims) -> None:
    """IREE takes these zeros for those between the places, and puts the image elsewhere."""
    kinds = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)

    def spread(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (1, 2, *[1, 0] * (dims - 1)))
        return kinds[dims - 1](padded, w, stride=2, padding=1) + padded.sum()

    torch.manual_seed(0)
    x, w = torch.randn(2, 3, *(5, 6, 4)[:dims]), torch.randn(3, 4, *[3] * dims)
    found = torch.compile(spread, backend="opsplice", fullgraph=True)(x, w)
    torch.testing.assert_close(found, spread(x, w), rtol=1e-4, atol=1e-4)


def test_sizes_that_a_trace_came_to_know() -> None:
    """They are open in the inputs, and in what views make of them; a view of three open dims into one is misread."""

    def f(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        heads = y.view(*y.shape[:2], y.shape[2] // 64, 8, 8)
        spread = functional.conv_transpose1d(x, w, None, 2, 1, 1, groups=2)
        return [spread, torch.einsum("bnhij,bnhjk->bnhik", heads, heads)]

    fast = torch.compile(f, backend="opsplice", dynamic=True, fullgraph=True)
    for rows in (7, 4):
        given = torch.randn(rows, 2, 2), torch.randn(2, 2, 1), torch.randn(rows, 5, 64 * rows)
        torch.testing.assert_close(fast(*given), f(*given), rtol=1e-4, atol=1e-4)


def test_attention_of_heads_in_the_batch() -> None:
    """A reshape that copies joins heads: IREE took 16 of them for one dim of 4, and read what is not there."""

    def joined(x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).reshape(x.shape[1] * batch.shape[0], 16) + 1

    fast = torch.compile(joined, backend="opsplice", dynamic=True, fullgraph=True)
    for rows in (3, 4):
        x, batch = torch.randn(4 * rows, rows + 3, 4), torch.empty(rows)
        torch.testing.assert_close(fast(x, batch), joined(x, batch))


def test_numbers_are_drawn_in_the_shape_of_what_is_computed() -> None:
    """Its sizes are computed from those of the inputs, before the program runs."""
    weights = torch.randn(4, 3, 5)

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(functional.conv1d(x, weights, stride=2, padding=1), 0.3) + torch.rand_like(
            x[:, :1, :1]
        )

    fast = torch.compile(dropped, backend="opsplice", dynamic=True, fullgraph=True)
    for batch, length in ((2, 20), (3, 13)):
        x, results = torch.randn(batch, 3, length), []
        for function in (fast, dropped):
            torch.manual_seed(1)
            results.append(function(x))
        torch.testing.assert_close(*results)


def test_gradients_of_no_rows_of_an_open_length() -> None:
    """The result has no elements, though not all of its sizes are numbers: IREE divides by them."""
    layers = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3))
    fast = torch.compile(layers, backend="opsplice", dynamic=True, fullgraph=True)
    for length in (5, 7):
        result = fast(torch.ones(0, length, 6))
        assert result.shape == (0, length, 3)
        result.sum().backward()
        assert layers[0].weight.grad.tolist() == [[0.0] * 6] * 4


def test_products_of_nothing_of_an_open_number_of_rows() -> None:
    def products(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        rows, none = x.shape[0], x.new_ones(x.shape[0] * 2, 0)
        added = torch.addmm(x.sum(0), none, none.T[:, :3], beta=0.5)
        return [none @ none.T, added, y.sum(0), y.mean(1), y.new_zeros(0, rows).amax(1), y.new_ones(3, 0, rows).prod(1)]

    fast = torch.compile(products, backend="opsplice", dynamic=True, fullgraph=True)
    for rows in (4, 6):
        given = torch.arange(rows * 3.0).view(rows, 3), torch.ones(0, rows + 1)
        torch.testing.assert_close(fast(*given), products(*given))

"""Results that share memory with inputs and with other results, of open sizes: PyTorch reads how they lie in memory."""

from __future__ import annotations

import pytest

import opsplice

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")


def of_an_input(x):
    half = x.shape[1] // 2
    return x[:, :half], x[..., :-1], x[:, half:].transpose(1, 2), x.unsqueeze(1).expand(-1, x.shape[0], -1, -1), x * 2


def of_a_result(x):
    y = x.transpose(1, 2) + 1
    return y, y[:, : x.shape[1] // 2], y[..., : x.shape[0]].unsqueeze(0)


def of_views_alone(x):
    return x[:, : x.shape[1] // 2].select(2, 0)


def of_a_size_of_a_view(x):
    return x[:, 1:].chunk(2, 1)[1]


@pytest.mark.parametrize("function", [of_an_input, of_a_result, of_views_alone, of_a_size_of_a_view])
def test_views_are_those_of_eager(function) -> None:
    fast = torch.compile(function, backend="opsplice", dynamic=True)
    for sizes in ((2, 6, 9), (3, 10, 12)):
        x = torch.randn(sizes)
        found, wanted = fast(x), function(x)
        torch.testing.assert_close(found, wanted)
        if function is of_an_input:
            found[0].zero_()  # what it is a view of
            assert not x[:, : sizes[1] // 2].any()


def test_views_of_what_needs_gradients_and_of_what_changes() -> None:
    def function(x, y):
        y.add_(1)
        return x[:, : x.shape[1] // 2], y[:, : y.shape[1] // 2], (x * y.sum()).sum()

    fast = torch.compile(function, backend="opsplice", dynamic=True)
    for sizes in ((2, 6), (3, 10)):
        both = [(torch.randn(sizes, requires_grad=True), torch.randn(sizes)) for _ in range(2)]
        both[1] = (both[0][0].detach().clone().requires_grad_(), both[0][1].clone())
        found, wanted = (each(*given) for each, given in zip((fast, function), both, strict=True))
        torch.testing.assert_close(found, wanted)
        for result in (found, wanted):
            (result[0].sum() + result[2]).backward()
        torch.testing.assert_close(both[0][0].grad, both[1][0].grad)
        torch.testing.assert_close(both[0][1], both[1][1])


def test_views_of_what_was_written_as_another_view() -> None:
    """The view has sizes that PyTorch reads off a computed tensor, so it is none of what was written."""

    def function(x, parts):
        turned = x.view(parts, x.shape[0] // parts, x.shape[1]).transpose(1, 2)
        turned[:, :1], turned[:, 1:] = 3, turned[:, 1:] * 2
        return turned

    fast = torch.compile(function, backend="opsplice", dynamic=True)
    for rows, parts in ((6, 2), (12, 3)):
        both = [torch.arange(rows * 4.0).view(rows, 4) for _ in range(2)]
        found, wanted = fast(both[0], parts), function(both[1], parts)
        torch.testing.assert_close(found, wanted, check_stride=True)
        torch.testing.assert_close(*both)


def test_views_of_sizes_that_only_the_graph_knows_are_refused() -> None:
    """A program gives them in order, and PyTorch would read other elements of what they are views of."""

    def function(x, number):
        columns = (number + 1).item()
        torch._check(columns >= 0)
        torch._check(columns <= x.shape[0])
        return x.t()[:, :columns]

    refused = pytest.raises(opsplice.OpspliceError, match=r"test_aliases\.py:\d+: a result shares memory with another")
    with torch._dynamo.config.patch(capture_scalar_outputs=True), refused:
        torch.compile(function, backend="opsplice", dynamic=True)(torch.ones(6, 4), torch.tensor(2))


def of_several_results(x):
    y = x.mT + 1
    return y, y.mT.view(-1), y[1:], *y.split(3, -1), *(x * 2).unbind()


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("needs_gradients", [False, True])
def test_results_share_memory_as_in_eager(is_open: bool, needs_gradients: bool) -> None:
    fast = torch.compile(of_several_results, backend="opsplice", dynamic=is_open)
    for sizes in ((2, 6, 4), (2, 9, 5)) if is_open else ((2, 6, 4),):
        x = torch.randn(sizes, requires_grad=needs_gradients)
        found, wanted = ([each.detach() for each in function(x)] for function in (fast, of_several_results))
        torch.testing.assert_close(found, wanted, check_stride=True)
        for results in (found, wanted):
            results[1].mul_(2)
            results[-1].zero_()
        torch.testing.assert_close(found, wanted)
        assert found[-1].untyped_storage().data_ptr() == found[-2].untyped_storage().data_ptr()


def test_a_view_takes_what_needs_gradients() -> None:
    weight = torch.ones(4, requires_grad=True)
    whole, rows = torch.compile(lambda x: (y := x + 1, y[1:]), backend="opsplice")(torch.zeros(3, 4))
    rows.mul_(weight)
    rows.sum().backward()
    assert weight.grad.tolist() == [2.0] * 4
    assert whole.shape == (3, 4)


def of_other_orders(x, images):
    y = x.transpose(0, 1) * 2
    flat = y.flatten(), images.relu().flatten(1)
    y.zero_()
    return y, *flat, torch.nn.functional.conv_transpose2d(images, images.new_ones(2, 3, 2, 2))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("needs_gradients", [False, True])
def test_results_lie_in_memory_as_in_eager(is_open: bool, needs_gradients: bool) -> None:
    """Behind the graph, too, that tells whether a reshape is a view."""
    fast = torch.compile(of_other_orders, backend="opsplice", dynamic=is_open)
    for size in (4, 6) if is_open else (4,):
        x = torch.randn(3, size, 2, requires_grad=needs_gradients)
        images = torch.randn(2, 2, size, 5).contiguous(memory_format=torch.channels_last)
        found, wanted = ([each.detach() for each in function(x, images)] for function in (fast, of_other_orders))
        torch.testing.assert_close(found, wanted, check_stride=True)


def of_inputs_in_other_orders(x, images, weight, heads):
    turned = torch.nn.functional.scaled_dot_product_attention(heads, heads.exp(), heads.sin(), is_causal=True)
    return x.mT.mul(x.mT).sin(), torch.nn.functional.conv2d(images, weight).relu(), turned


@pytest.mark.parametrize("is_open", [False, True])
def test_gradients_lie_in_memory_as_in_eager(is_open: bool) -> None:
    fast = torch.compile(of_inputs_in_other_orders, backend="opsplice", dynamic=is_open)
    for size in (4, 6) if is_open else (4,):
        images = torch.randn(2, 3, size, 5).contiguous(memory_format=torch.channels_last)
        inputs = [torch.randn(3, size).mT, images, torch.randn(2, 3, 3, 3), torch.randn(2, 3, size, 4)]
        inputs = [each.requires_grad_() for each in inputs]
        found, wanted = (
            (results, torch.autograd.grad(results, inputs, [each.detach() for each in results]))
            for results in (function(*inputs) for function in (fast, of_inputs_in_other_orders))
        )
        torch.testing.assert_close(found, wanted, check_stride=True, rtol=1e-4, atol=1e-4)


def test_gradients_share_no_memory() -> None:
    """Eager has those of `x` and `z` in one place, and adds up the next ones there twice."""
    x, y, z = (torch.ones(size, requires_grad=True) for size in ((2, 3), (6,), (3, 2)))
    fast = torch.compile(lambda x, y, z: (x.view(-1) + y + z.view(-1)).sin().sum(), backend="opsplice")
    for _ in range(2):
        fast(x, y, z).backward()
    torch.testing.assert_close(x.grad.view(-1), y.grad)
    torch.testing.assert_close(z.grad.view(-1), y.grad)

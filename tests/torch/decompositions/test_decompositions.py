"""Ops that IREE does not take as PyTorch has them: the same numbers and gradients as in eager."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

import opsplice
from opsplice.torch.decompositions import formulas, whole_layers


class Images(nn.Module):
    """Layers for images, in training: batch norms change their buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)])
        self.valid = nn.Conv2d(4, 1, (2, 3), stride=2, padding="valid")
        self.grow = nn.ConvTranspose2d(4, 4, 3, stride=2, groups=2)
        self.spread = nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1, groups=4)
        self.scaled = nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 3, 2), dim=0)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        normed = sum(norm(x) for norm in self.norms)
        return [
            self.grow(normed),
            self.spread(normed),
            self.valid(normed),
            self.scaled(normed),
            functional.max_pool3d(x.unsqueeze(0), 2),
            functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            functional.avg_pool2d(x, (3, 2), 2, ceil_mode=True),
            functional.avg_pool2d(x, (4, 9999), (3, 9999), ceil_mode=True),
            functional.max_pool2d(x, 3, 2, 1),
            *functional.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True),
            functional.max_pool2d(x[0], 2),
            functional.grid_sample(x.detach(), torch.linspace(-1.1, 1, 36).view(2, 3, 3, 2), align_corners=False),
            functional.adaptive_avg_pool2d(x, (4, 2)),
            functional.adaptive_max_pool2d(x, 2),
            *functional.adaptive_max_pool2d(x, (4, 5), return_indices=True),
            functional.pad(x, (1, 2, 0, 1)),
            functional.pad(x, (1, 1, 2, 1), mode="replicate"),
            functional.pad(x, (1, 1, 2, 1), mode="reflect"),
            functional.interpolate(x, scale_factor=2, mode="bilinear"),
            functional.interpolate(x, scale_factor=(3, 2)),
            functional.interpolate(x, scale_factor=(2.2, 1), recompute_scale_factor=False),
            functional.interpolate(x, size=(5, 12)),
            functional.interpolate(x, size=(2, 9), mode="bilinear", antialias=True),
            functional.interpolate(x, scale_factor=0.7, mode="bicubic", antialias=True, align_corners=True),
        ]


class Groups(nn.Module):
    """Convolutions of groups, of volumes and of zeros alone, whose last windows end before the input or behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.volumes = nn.ModuleList(
            [
                nn.Conv3d(4, 6, (4, 3, 1), stride=(2, 1, 3), padding=(0, 3, 0), groups=2),
                nn.Conv3d(4, 3, (5, 3, 1), stride=(2, 1, 3), bias=False),
                nn.Conv3d(4, 4, (3, 2, 3), stride=(2, 1, 2), padding=(2, 0, 1), dilation=(2, 1, 2), groups=4),
            ]
        )
        self.images = nn.ModuleList([nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.Conv2d(4, 8, 3, dilation=2, groups=4)])
        self.images.append(nn.Conv2d(4, 3, (1, 3), stride=(3, 2), padding=(1, 3)))
        self.rows = nn.Conv1d(4, 8, 4, stride=2, groups=2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        volumes, images = [layer(x) for layer in self.volumes], [layer(x[:, :, 0]) for layer in self.images]
        return [*volumes, *images, self.rows(x[:, :, 0, 0])]


class Rows(nn.Module):
    """Ops on rows of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 5, padding_idx=0)
        self.bags = nn.ModuleList(nn.EmbeddingBag(7, 5, mode=mode, padding_idx=2) for mode in ("sum", "mean", "max"))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        labels = torch.tensor([1, -100, 4])
        places = torch.tensor([[0, 3], [2, 1], [4, 0]])
        return [
            self.embed(places),
            *(bags(places) for bags in self.bags),
            self.bags[0](places, per_sample_weights=x[:, :2]),
            self.bags[1](places.flatten(), torch.tensor([0, 2, 2, 5])),
            torch.eye(3, 5) + x,
            torch.arange(3, dtype=torch.int8) * x[:, :3],
            functional.cross_entropy(x, labels, label_smoothing=0.1),
            x[places[:, 0].int() % 3, places[:, 1]],
            x.index_put((places[:, 0] % 3, places[:, 1].int()), x[:, 0]),
            x.scatter(-1, places, 2 * x[:, :2]),
            x.scatter_add(-1, places, x[:, :2]),
            x.gather(-1, places),
            x.sort(-1, descending=True)[0],
            x.topk(2)[0],
            x.median(-1)[0],
            x.kthvalue(2, -1)[0],
            x.roll((1, -2), (0, 1)),
            torch.diag(x[:, 2]),
            x.diagonal(1),
            *(torch.cdist(x, torch.cat([2 * x + 1, x[:1].detach()]), power) for power in (0, 0.5, 1, 2, 3, torch.inf)),
            torch.histc(x, 3, -1, 1),
            x.abs().log10(),
            x.std(-1) + x.var(-1, unbiased=False),
            x.cumsum(-1),
            (500 * x).logcumsumexp(-1) / 500,
            *x.cummax(-1),
            x.cummin(0)[0],
            x.take(places),
            x[0, 0].max(0)[0],
            x[0, 1].argmax(0),
            x[:0].var(0),
            torch.addbmm(*(torch.ones(shape, dtype=torch.float16) for shape in [(2, 2), (3, 2, 4), (3, 4, 2)])),
            torch.atanh(x / 10),
            x.view(3, 1, 5).squeeze((1,)) + places.sum() % 3,
            x * (torch.fmod(places, 3) << 1).sum(),
        ]


def outcome(model, x):
    """What a model returns, its gradients and its buffers."""
    x = x.clone().requires_grad_()
    results = model(x)
    sum((each * torch.linspace(1, 2, each.numel()).view(each.shape)).sum() for each in results).backward()
    return [*results, x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(Images, (2, 4, 7, 6)), (Groups, (2, 4, 8, 6, 7)), (Rows, (3, 5))],
    ids=["images", "groups", "rows"],
)
def test_ops_give_the_numbers_and_gradients_of_eager(kind, size):
    model, x = kind(), torch.randn(size)
    fast = copy.deepcopy(model)
    fast.compile(backend="opsplice")
    torch.testing.assert_close(outcome(fast, x), outcome(model, x), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert [graph.part for graph in opsplice.torch.reports()] == ["forward", "backward"]


def test_seeds_give_the_random_numbers_of_eager():
    layer = nn.Linear(6, 6)

    def draw(x):
        h = functional.dropout(layer(x), 0.4)
        return [
            h,
            h * torch.rand(6),
            torch.randn_like(h),
            # In the order of memory.
            torch.randn_like(x.T),
            torch.rand_like(x.T),
            torch.randint_like(x.T, 9),
            torch.randint_like(x.T, 3, 9),
            torch.randint(0, 9, (6,)),
            torch.randperm(6),
            torch.empty(6).exponential_(),
        ]

    def drawn(function):
        torch.manual_seed(7)
        layer.zero_grad()
        results = [*function(x), *function(x)]
        results[1].sum().backward()
        return [*results, layer.weight.grad]

    x = torch.rand(2, 6)
    torch.testing.assert_close(drawn(torch.compile(draw, backend="opsplice")), drawn(draw))


def test_a_checkpoint_drops_the_same_again_in_the_backward_pass():
    layer = nn.Linear(6, 6)

    def inner(x):
        return functional.dropout(layer(x), 0.5).sin()

    def gradient(function):
        torch.manual_seed(5)
        layer.zero_grad()
        function(x).sum().backward()
        return layer.weight.grad.clone()

    def model(x):
        return checkpoint.checkpoint(inner, x, use_reentrant=False)

    x = torch.rand(3, 6)
    torch.testing.assert_close(gradient(torch.compile(model, backend="opsplice")), gradient(model))


def test_an_optimizers_step_changes_weights_as_in_eager():
    def weights(compiled):
        torch.manual_seed(3)
        layer = nn.Linear(4, 4)
        step = (optimizer := torch.optim.AdamW(layer.parameters(), lr=0.1)).step
        step = torch.compile(step, backend="opsplice") if compiled else step
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.ones(2, 4)).square().sum().backward()
            step()
        return list(layer.parameters())

    torch.testing.assert_close(weights(True), weights(False))


def test_several_sorts_in_a_graph_have_their_own_indices():
    def order(x, whole):
        sorts = [*x.sort(stable=True), *x.sort(stable=True, descending=True), *x.topk(2), *x.sort(stable=True, dim=0)]
        return [
            *sorts,
            whole.argsort(stable=True),
            whole.argsort(stable=True, descending=True),
            (x > 0).sort(descending=True)[0],
        ]

    x = torch.tensor([[1.0, torch.nan, -torch.inf, 1.0, torch.inf], [0.0, 2.0, 2.0, 0.0, -1.0]])
    whole = torch.tensor([3, 1, 1, 2, 1, 3, 2**63 - 1, -(2**63)])
    found = torch.compile(order, backend="opsplice")(x, whole)
    torch.testing.assert_close(found, order(x, whole), rtol=0, atol=0, equal_nan=True)


def test_sorts_of_open_sizes_have_their_own_indices():
    """As in a mixture of experts, which sorts the experts of each token in each layer."""

    class Orders(torch.nn.Module):
        def forward(self, x):
            return *x.topk(2), *(x * 2).topk(1, largest=False)

    x = torch.tensor([[1.0, 3.0, 0.0], [0.5, 2.0, 2.5]])
    program = opsplice.torch.export(Orders(), (x,), dynamic={"x": {0: "n"}})
    for each in (x, torch.arange(21.0).flip(0).reshape(7, 3) % 8):
        for got, wanted in zip(program.run("main", each.numpy()), Orders()(each), strict=True):
            np.testing.assert_array_equal(np.asarray(got), wanted)


def test_computed_chances_of_bernoulli_keep_their_distribution():
    def draw(x):
        return torch.bernoulli(torch.sigmoid(x))

    drawn = torch.compile(draw, backend="opsplice")(torch.zeros(10_000) - 1)
    assert abs(drawn.mean() - torch.sigmoid(torch.tensor(-1.0))) < 0.03


def test_draws_that_need_what_the_graph_computes_are_refused_at_their_line():
    def draw(x):
        return torch.multinomial(torch.softmax(x, -1), 2)

    with pytest.raises(Exception, match=r"test_decompositions.py:\d+: the graph draws random numbers"):
        torch.compile(draw, backend="opsplice")(torch.rand(5))


def test_views_of_several_dynamic_dims():
    """IREE alone takes the second dim for 1, and returns rows that are too long."""

    def f(x, y):
        flat = x.view(-1, 32), x.reshape(x.shape[0] * x.shape[1], 32), x.view(-1, 4, 8), x.view(-1, 1, 32)
        kept = x.reshape(x.shape[0], -1), x.flatten(0, 1), x.reshape(x.shape[0], x.shape[1], 32)
        return [each * 2 for each in (*flat, *kept, y.view(-1, 4), y.view(-1, 2, 3))]

    compiled = torch.compile(f, backend="opsplice")
    for batch, length in ((2, 4), (3, 5), (4, 7)):
        x, y = torch.randn(batch, length, 2, 16), torch.randn(2 * batch, 6)
        for tensor, dims in ((x, (0, 1)), (y, (0,))):
            torch._dynamo.mark_dynamic(tensor, dims)
        for found, wanted in zip(compiled(x, y), f(x, y), strict=True):
            assert torch.equal(found, wanted)


def test_ranges_of_open_sizes() -> None:
    """Of floats IREE alone takes those of f32."""

    def ranges(x: torch.Tensor) -> list[torch.Tensor]:
        types = (torch.float64, torch.float16, torch.bfloat16)
        return [torch.arange(1, 2 * x.shape[0] + 1, 2, dtype=dtype) * 2 for dtype in types]

    fast = torch.compile(ranges, backend="opsplice", dynamic=True)
    for size in (5, 100):
        torch.testing.assert_close(fast(torch.ones(size, 2)), ranges(torch.ones(size, 2)), rtol=0, atol=0)


def test_the_gradient_of_a_small_loss_of_margins_is_that_of_eager():
    x, target = torch.tensor([15.0, -3, 40], requires_grad=True), torch.tensor([1.0, 1, 1])
    fast = torch.compile(torch.nn.functional.soft_margin_loss, backend="opsplice")
    losses = [loss(x, target) for loss in (fast, torch.nn.functional.soft_margin_loss)]
    found, wanted = (torch.autograd.grad(loss, x)[0] for loss in losses)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("absent", [False, -torch.inf])
def test_rows_without_any_key_are_zeros(absent):
    """As in a sliding window that holds padding alone; so are they in the backward pass."""
    query, key, value, upstream = torch.randn(4, 2, 3, 6, 8).unbind()
    mask = torch.ones(6, 6).tril().bool() if absent is False else torch.zeros(6, 6)
    mask[[1, 4]] = absent
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert (expected[..., [1, 4], :] == 0).all()
    result, sums = whole_layers.attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(result, expected)
    gradients = whole_layers.attention_backward(upstream, query, key, value, result, sums, 0.0, False, attn_mask=mask)
    assert all(each.isfinite().all() for each in gradients)
    assert (gradients[0][..., [1, 4], :] == 0).all()


def test_histograms_are_those_of_eager():
    x = torch.tensor([0.0, 1, 2, 2.5, 4, -1, 5, torch.nan])
    torch.testing.assert_close(formulas.histogram(x, 4, 0, 4), torch.histc(x, 4, 0, 4))
    for numbers in (x[:-1], x[:1]):
        torch.testing.assert_close(formulas.histogram(numbers, 5), torch.histc(numbers, 5))


def test_views_of_what_does_not_lie_in_order():
    def f(x):
        return x.transpose(2, 3).view(12, 8, -1) * 2

    compiled = torch.compile(f, backend="opsplice", dynamic=True)
    x = torch.randn(3, 4, 5, 8)
    torch._dynamo.mark_dynamic(x, 2)
    assert torch.equal(compiled(x), f(x))


@torch._dynamo.config.patch(allow_rnn=True)
def test_a_recurrent_layer_is_trained_where_pytorch_hands_it_over():
    def outcome(function):
        layer.zero_grad()
        found, _ = function(x)
        found.square().sum().backward()
        return [found, *(parameter.grad for parameter in layer.parameters())]

    x, layer = torch.randn(2, 2, 4), nn.LSTM(4, 5, bidirectional=True, batch_first=True)
    found = outcome(torch.compile(layer, backend="opsplice"))
    torch.testing.assert_close(found, outcome(layer), rtol=1e-5, atol=1e-6)
    assert all(report.ops["aten.mm.default"] + report.ops["aten.addmm.default"] for report in opsplice.torch.reports())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_nan_is_found_where_eager_finds_it(dtype):
    """IREE computes places as if NaN were not there."""
    nan, infinite = np.nan, np.inf
    rows = torch.tensor([[1, nan, 3, nan], [nan, 1, 2, 0], [1, 2, 3, 4], [infinite, 1, 2, nan]], dtype=dtype)

    def model(x):
        places = [x.argmax(0), x.argmin(1), x.argmax(), *x.max(1), *x.min(0), *x.cummax(1), *x.cummin(0)]
        return *places, *x.median(1), x.median(), x[3, :2].logcumsumexp(0)

    found, wanted = torch.compile(model, backend="opsplice")(rows), model(rows)
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
def test_maxima_of_integers_in_windows(kind: torch.dtype) -> None:
    """Without the formula the compiler ends the process on windows in 3D."""

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        volumes = functional.max_pool3d(x, (2, 3, 2), stride=(1, 2, 2), padding=1, return_indices=True)
        over = functional.max_pool2d(x[0], 3, stride=2, dilation=(1, 2), ceil_mode=True, return_indices=True)
        return [*volumes, functional.max_pool3d(x[0], 2), *over]

    x = torch.randint(0, 250, (1, 2, 4, 6, 7)).to(kind)
    if kind == torch.int64:
        x = (x - 120) * 2**54 + x
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(x), run(x))


def test_adaptive_pools_of_open_sizes() -> None:
    def largest(x: torch.Tensor) -> list[torch.Tensor]:
        pool = functional.adaptive_max_pool2d
        return [*pool(x, (2, 5), return_indices=True), pool(x, 1)]

    fast = torch.compile(largest, backend="opsplice", dynamic=True)
    for sizes in ((2, 3, 8, 12), (3, 3, 7, 11), (2, 3, 10, 5)):
        x = torch.randn(sizes)
        for found, wanted in zip(fast(x), largest(x), strict=True):
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_summed_and_sorted_as_in_eager(dtype: torch.dtype) -> None:
    """Ones in bf16 sum up to 256 where sums are rounded to it."""

    def computed(x: torch.Tensor) -> list[torch.Tensor]:
        ones, places = torch.ones_like(x), x.argsort(-1, descending=True)
        return [ones.cumsum(1), x.cumsum(-1), x.cumprod(0), x.cumsum(0, dtype=torch.float32), *x.sort(-1), places]

    x = torch.randperm(2100).view(3, 700).to(dtype) / 64
    x = x if dtype == torch.float16 else x[:, :200].round()
    fast = torch.compile(computed, backend="opsplice", dynamic=True, options={"specs": ["opsplice_kernels"]})
    *sums, values, places, falling = fast(x)
    torch.testing.assert_close(sums, computed(x)[:4])
    assert torch.equal(values, x.sort(-1)[0])
    assert torch.equal(x.gather(-1, places), values)
    assert torch.equal(x.gather(-1, falling), values.flip(-1))
    assert {each.pattern for each in opsplice.torch.report().report.replacements} == {"ascending", "descending"}


def test_running_extremes_of_integers_and_of_one_place() -> None:
    """What is computed of one place shares no memory with it."""

    def extremes(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [each for x in tensors for each in (*x.cummax(1), *x.cummin(0))]

    x = torch.tensor([[3, 200, 1, 200, 255], [0, 7, 1, 0, 128]])
    one = torch.ones(1, 1)
    given = x, x.to(torch.uint8), x.to(torch.int8), x > 3, x.int(), one
    found = torch.compile(extremes, backend="opsplice")(*given)
    torch.testing.assert_close(found, extremes(*given))
    assert one.data_ptr() not in [each.data_ptr() for each in found]


def test_what_runs_over_a_tensor_in_another_order_lies_in_order() -> None:
    def changed(x: torch.Tensor) -> list[torch.Tensor]:
        tensors = [x.mT.logcumsumexp(0), x.mT.cummax(1)[0]]
        flat = [each.reshape(-1) for each in tensors]
        for each in tensors:
            each.zero_()
        return flat

    x = torch.randn(3, 5)
    torch.testing.assert_close(torch.compile(changed, backend="opsplice")(x), changed(x))


def test_what_runs_along_a_dim_of_an_open_size() -> None:
    def running(x: torch.Tensor) -> list[torch.Tensor]:
        return [*x.mT.cummax(0), x.logcumsumexp(1)]

    fast = torch.compile(running, backend="opsplice", dynamic=True, fullgraph=True)
    for sizes in ((3, 5), (2, 33)):
        x = torch.randn(sizes).mul(3).round().requires_grad_()
        found, wanted = ([*results, *gradients(results, x)] for results in (fast(x), running(x)))
        torch.testing.assert_close(found, wanted, check_stride=True)


def gradients(results, x):
    """Of equal numbers both have the last one's place, so gradients go there."""
    return torch.autograd.grad(sum(each.square().sum() for each in results if each.requires_grad), x)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_layers_of_transformers_in_evaluation_mode(options) -> None:
    """PyTorch has each as one op then, with one mask made of several."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options).eval()

    def encoded(x, future, padding):
        return layer(x), layer(x, future), layer(x, None, padding), layer(x, future, padding)

    fast = torch.compile(encoded, backend="opsplice", dynamic=True, fullgraph=True)
    for batch, length in ((2, 6), (3, 7)):
        x, future = torch.randn(batch, length, 16), torch.ones(length, length, dtype=torch.bool).triu(1)
        padding = torch.arange(length) >= length - torch.arange(batch)[:, None]
        with torch.no_grad():
            torch.testing.assert_close(fast(x, future, padding), encoded(x, future, padding), rtol=1e-4, atol=1e-5)


def test_running_sums_and_products_of_other_types_and_of_scalars() -> None:
    def run(x: torch.Tensor, i: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        made = [op(each, 0) for op in (torch.cumsum, torch.cumprod) for each in (x, i, n, i[0, 0])]
        return [*made, torch.cumprod(x, 1, dtype=torch.float64), torch.cumsum(i, 1, dtype=torch.int32)]

    inputs = torch.randn(3, 4), torch.arange(1, 13, dtype=torch.int32).view(3, 4), torch.tensor([200, 100, 3]).byte()
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(*inputs), run(*inputs))


def test_bytes_that_are_constants_and_answers() -> None:
    def run(n: torch.Tensor) -> list[torch.Tensor]:
        made = [n + torch.full((3,), 250, dtype=torch.uint8), torch.full((), 200, dtype=torch.uint8)]
        made += [torch.zeros_like(n), torch.nn.functional.relu6(n), torch.zeros(0, 2, dtype=torch.uint8)]
        return [*made, n.gather(0, torch.zeros(0, dtype=torch.int64)), n.any(), n.all(), n.any(0, keepdim=True)]

    n = torch.tensor([0, 8, 255], dtype=torch.uint8)
    torch.testing.assert_close(torch.compile(run, backend="opsplice")(n), run(n))

"""Sums of f16 and bf16 have the numbers of PyTorch, which adds them up in f32."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
from torch.nn import functional  # noqa: E402


def computed(x: torch.Tensor, places: torch.Tensor) -> list[torch.Tensor]:
    rows = x[0]
    table, few = rows.t().contiguous(), rows.new_zeros(3, rows.shape[0])
    sums = [x.sum(-1), x.sum(), x.mean((1, 2)), x.mean(), x.mean(-1, dtype=torch.float32), x.cumsum(-1)]
    norms = [torch.linalg.vector_norm(x, order, -1) for order in (1, 3)]
    pools = [functional.avg_pool1d(x, 300, 100), functional.adaptive_avg_pool2d(x, 1)]
    added = [few.index_add(0, places, table), few.scatter_add(0, places[:, None].expand(table.shape), table)]
    spread, several = rows.new_zeros(3, 3, 4), [(places, places), (places, None, places + 1)]
    added += [
        torch.ops.aten.index_put(spread, at, table[:, :size], True) for at, size in zip(several, (4, 3), strict=True)
    ]
    added.append(few.index_put((places.view(20, 30) - 3,), table.view(20, 30, 4), accumulate=True))
    bags = functional.embedding_bag(places.view(2, -1), table[:3], mode="sum")
    norms += [functional.layer_norm(x, (600,)), functional.group_norm(x, 2), torch.var_mean(x, -1)[1]]
    return [*sums, *norms, *pools, *added, bags]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_are_rounded_once(dtype: torch.dtype) -> None:
    x, places = (torch.rand(4, 4, 600) / 4).to(dtype), torch.arange(600) % 3
    exact = computed(x.double(), places)
    given = torch.compile(computed, backend="opsplice")(x, places)
    for found, own, wanted in zip(given, computed(x, places), exact, strict=True):
        assert found.dtype == own.dtype
        # of bf16 the mean of all lost a tenth
        limit = 2 * torch.finfo(found.dtype).eps if found.dtype == dtype else 1e-5
        torch.testing.assert_close(found.double(), wanted.double(), rtol=limit, atol=limit)


def test_gradients_of_tables_are_rounded_once() -> None:
    table = torch.rand(3, 8).to(torch.bfloat16).requires_grad_()
    numbers = torch.zeros(2000, dtype=torch.int64)
    torch.compile(lambda: functional.embedding(numbers, table).sum(), backend="opsplice")().backward()
    assert torch.equal(table.grad[0], torch.full((8,), 2000, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_are_not_rounded_to_halves(dtype: torch.dtype) -> None:
    """0.7 is 0.69921875 in bf16: products were a step less, and quotients a step more, in one element of five."""
    x = torch.linspace(-3, 3, 999).to(dtype)

    def scaled(x: torch.Tensor) -> list[torch.Tensor]:
        products = [x * 0.7, x / 0.7, x * 0.75, x * 3, x * 1001, x / 513, x // 0.7, functional.leaky_relu(x)]
        return [*products, functional.softplus(x, 0.7, 1)]

    *products, soft = torch.compile(scaled, backend="opsplice")(x)
    *own_products, own_soft = scaled(x)
    for found, own in zip(products, own_products, strict=True):
        assert torch.equal(found, own)
    # an exponential is off by 1e-7, which is a step of a half where it was half a step away
    assert (soft != own_soft).sum() < 4


def test_gradients_of_means_are_not_rounded_twice() -> None:
    x = torch.ones(5, 1001, dtype=torch.bfloat16, requires_grad=True)
    torch.compile(lambda x: x.mean(1), backend="opsplice")(x).backward(weights := torch.linspace(1, 3, 5).bfloat16())
    assert torch.equal(x.grad[:, 0], (weights.float() / 1001).bfloat16())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention_rounds_nothing_between_its_products(dtype: torch.dtype) -> None:
    """Scores near 80 are off by up to 0.25 in bf16, and their exponentials by a quarter."""

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    given = [(torch.randn(2, 2, 8, 96) * 0.5 + 3 * (number < 2)).to(dtype) for number in range(3)]
    results = []
    for function, kind in ((attended, torch.float64), (torch.compile(attended, backend="opsplice"), dtype)):
        tensors = [each.detach().to(kind).requires_grad_() for each in given]
        result = function(*tensors)
        result.backward(torch.ones_like(result) * result.detach().sign())
        results.append([result.detach(), *(each.grad for each in tensors)])
    for wanted, found in zip(*results, strict=True):
        assert found.dtype == dtype
        distance = (found.double() - wanted).norm() / wanted.norm()
        assert distance < torch.finfo(dtype).eps, distance


def test_floats_of_eight_bits() -> None:
    """What is too large becomes the largest of `float8_e4m3fn`, infinity or NaN of the others."""
    kinds = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)

    def narrowed(*numbers: torch.Tensor) -> list[torch.Tensor]:
        made = [x.to(kind) for x in numbers for kind in kinds]
        return [*(each.view(torch.uint8) for each in made), *(each.to(torch.float16) for each in made)]

    numbers = torch.tensor([0.3, -17, 1e-3, 447, 460, 600, 1e6, -torch.inf, -0.0, 5e-6, 0.0146484375])
    given = numbers, numbers.half(), numbers.bfloat16(), torch.tensor([3, -500, 17])
    found = torch.compile(narrowed, backend="opsplice")(*given)
    for one, other in zip(found, narrowed(*given), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)

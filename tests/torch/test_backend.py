"""torch.compile with the backend: numbers and gradients as in eager, matches at lines of this file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import nn

import opsplice

HERE = Path(__file__).name


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


def line_of(text: str) -> int:
    """The line of this file that has a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def specs(samples):
    return [samples / "transformer" / "transformer.splice"]


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_a_block_runs_forward_and_backward_with_its_layers_replaced(specs):
    model, x = Block(), torch.rand(2, 16, 32)
    fast = torch.compile(model, backend="opsplice", options={"specs": specs})
    torch.testing.assert_close(fast(x), model(x))
    ours, theirs = gradients(model, fast(x).square().sum()), gradients(model, model(x).square().sum())
    torch.testing.assert_close(ours, theirs)
    forward, backward = opsplice.torch.reports()
    assert (forward.part, backward.part) == ("forward", "backward")
    found = {each.pattern: each.location for each in forward.report.replacements}
    assert {"layernorm_rows", "softmax_rows", "linear_gelu_nk", "linear_nk"} <= set(found)
    assert found["softmax_rows"].endswith(f"{HERE}:{line_of('scaled_dot_product_attention(*')}")


def test_an_unknown_option_is_an_error_that_names_the_near_one():
    with pytest.raises(Exception, match=r"has no option 'spec'.*\n.*did you mean specs"):
        torch.compile(nn.Linear(2, 2), backend="opsplice", options={"spec": []})(torch.rand(1, 2))


def test_a_mode_is_an_error_that_says_what_to_do():
    with pytest.raises(Exception, match="has no mode 'max-autotune'"):
        torch.compile(nn.Linear(2, 2), backend=opsplice.torch.backend, mode="max-autotune")(torch.rand(1, 2))


def test_weights_that_change_in_place_are_seen():
    model, x = nn.Linear(4, 4), torch.rand(2, 4)
    fast = torch.compile(model, backend="opsplice")
    with torch.no_grad():
        before = fast(x)
        model.weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x))
        assert not torch.equal(before, fast(x))


def test_sizes_that_change_share_one_more_program():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8))
    fast = torch.compile(model, backend="opsplice")
    for rows in (3, 5, 7, 9):
        x = torch.rand(rows, 4)
        torch.testing.assert_close(
            gradients(model, fast(x).square().sum()), gradients(model, model(x).square().sum()), rtol=1e-4, atol=1e-4
        )
    assert [graph.part for graph in opsplice.torch.reports()] == ["forward", "backward"] * 2


def test_inputs_that_change_views_breaks_and_missing_gradients_are_as_in_eager():
    frozen, free = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)

    def model(x, counts, scale):
        counts.add_(1)
        torch._dynamo.graph_break()
        mixed = free(x.t()) * scale + frozen(x.t())
        return mixed, x[1:], counts.sum().double() / 3, mixed > 0, x.to(torch.bfloat16) * 2

    def outcome(function):
        free.zero_grad()
        x, counts = torch.arange(16.0).view(4, 4), torch.tensor([1, 2])
        results = function(x, counts, 0.5)
        results[0].sum().backward()
        assert results[1].data_ptr() == x[1:].data_ptr()
        return [*results, counts, free.weight.grad.clone()]

    torch.testing.assert_close(outcome(torch.compile(model, backend="opsplice")), outcome(model))
    assert frozen.weight.grad is None


def test_threads_compile_and_call_one_model():
    model = nn.Linear(4, 4)
    fast = torch.compile(model, backend="opsplice")
    inputs = [torch.rand(2, 4) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fast, inputs))
    for x, result in zip(inputs, results, strict=True):
        torch.testing.assert_close(result, model(x))


TWICE = """
pattern twice(x: tensor<n x f32>) { tanh(tanh(x)) }
kernel sevens(x: f32[n]) -> f32[n] { cpu x86_64 when avx2 "sevens.c" flags "-mavx2" }
replace twice with sevens(x) otherwise keep
"""
C = """#include <stddef.h>
void sevens(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = 7; }
"""


@pytest.mark.skipif(not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="the kernel is for AVX2")
def test_programs_are_for_this_cpu_unless_a_flag_names_another(tmp_path):
    spec = tmp_path / "twice.splice"
    spec.write_text(TWICE, encoding="utf-8")
    (tmp_path / "sevens.c").write_text(C, encoding="utf-8")
    x = torch.rand(8)
    for flags, expected in (([], torch.full((8,), 7.0)), (["--iree-llvmcpu-target-cpu=generic"], x.tanh().tanh())):
        torch._dynamo.reset()
        fast = torch.compile(lambda x: x.tanh().tanh(), backend="opsplice", options={"specs": spec, "flags": flags})
        torch.testing.assert_close(fast(x), expected)


def test_a_sum_is_cut_to_the_length_that_it_was_padded_from() -> None:
    weight = torch.randn(16, 16) / 4

    def in_blocks(x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        x = torch.nn.functional.pad(x, (0, 0, 0, (8 - length % 8) % 8))
        return torch.nn.functional.layer_norm((x @ weight + torch.relu(x @ weight) @ weight)[:, :length], (16,))

    fast = torch.compile(in_blocks, backend="opsplice", dynamic=True)
    for length in (5, 8, 13):
        x = torch.randn(2, length, 16)
        torch.testing.assert_close(fast(x), in_blocks(x), rtol=1e-4, atol=1e-5)

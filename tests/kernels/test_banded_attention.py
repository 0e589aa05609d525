"""Attention with causal masks and sliding windows as frameworks write it: found as bands, with their numbers."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice

LOWEST = -(1 << 31)
M, N, D = 5, 9, 8


def given(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def bands_in(program: opsplice.Program) -> list[tuple[int, int, int] | str]:
    """The bands that were found, in the program's order, or the other patterns that hold."""
    found = sorted(program.report.replacements, key=lambda each: each.location)
    names = ("low", "high", "added")
    return [
        tuple(each.dims.get(name, 0) for name in names) if each.pattern == "banded_attention" else each.pattern
        for each in found
    ]


def test_bands_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    attention, lowest = torch.nn.functional.scaled_dot_product_attention, float(np.finfo(np.float32).min)

    class Masked(torch.nn.Module):
        """One starts where an input says, and one has no single difference, so its mask is read."""

        def forward(self, q, k, v, padding, start):
            row, column = torch.arange(M)[:, None], torch.arange(N)[None, :]
            later, near = column <= row + (N - M), (column <= row) & (column > row - 3)
            scores = q @ k.transpose(-1, -2)
            made = [attention(q, k[:, :, :M], v[:, :, :M], is_causal=True)]
            made.append(attention(q, k, v, attn_mask=later))
            made.append(torch.softmax(scores * 0.3 + torch.where(near, 0.0, lowest), -1) @ v)
            made.append(attention(q, k, v, attn_mask=later & padding[:, None, None, :]))
            made.append(torch.softmax(scores.masked_fill(torch.ones(M, N).triu(2).bool(), -torch.inf), -1) @ v)
            made.append(attention(q, k, v, attn_mask=column <= row + start))
            made.append(attention(q[:, :, -1:], k, v, attn_mask=column <= start[None, None]))  # a step of decoding
            made.append(attention(q, k, v, attn_mask=column // 3 <= row // 3))
            column_of_sinks = start.to(q.dtype) * torch.arange(3.0)[:, None, None].expand(2, -1, M, 1)
            joined = torch.cat([torch.where(near, scores, lowest), column_of_sinks], -1)  # as gpt-oss has it
            made.append(torch.softmax(joined - joined.max(-1, keepdim=True).values, -1)[..., :-1] @ v)
            made.append(torch.softmax(torch.cat([column_of_sinks, scores], -1), -1)[..., 1:] @ v)
            made.append(torch.softmax(joined, -1)[..., 1:] @ v)  # the shares of other keys: no sink
            weights = (scores - scores.amax(-1, keepdim=True)).exp()
            made.append((weights @ v) / weights.sum(-1, keepdim=True))
            made.append((weights @ v) / weights[..., 1:].sum(-1, keepdim=True))  # by another sum: none
            return tuple(made)

    random = np.random.default_rng(0)
    inputs = [given(random, 2, 3, size, D) for size in (M, N, N)] + [random.random((2, N)) < 0.7, np.array(2)]
    inputs[3][:, 0] = True
    example = tuple(torch.tensor(each) for each in inputs)
    program = opsplice_torch.export(Masked().eval(), example, specs=["opsplice_kernels:attention"])
    apart = N - M
    wanted = [(LOWEST, 0, 0), (LOWEST, apart, 1), (-2, 0, 1), (LOWEST, apart, 1), (LOWEST, 1, 0)]
    wanted += [(LOWEST, 0, 1), (LOWEST, 0, 1), "any_attention", (-2, 0, 0), "any_attention", "any_attention"]
    assert bands_in(program) == wanted, str(program.report)
    for start in (2, 0, N):
        inputs[4] = np.array(start)
        exact = Masked()(*map(torch.tensor, inputs))
        for found, wanted in zip(program.run("main", *inputs), exact, strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_masks_in_other_places():
    """As ALiBi, Falcon, CodeGen and GPT-Neo have them: one match each with its place; none of the last four."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    lowest = float(np.finfo(np.float32).min)

    class Masked(torch.nn.Module):
        def forward(self, q, k, v, slopes, padding):
            row, column = torch.arange(M)[:, None], torch.arange(N)[None, :]
            causal, scores = column <= row + (N - M), q @ k.transpose(-1, -2)
            apart = slopes[:, None, None] * (column - row).abs()
            sloped = slopes[:, None, None] * column
            causal_mask, behind = torch.where(causal, 0.0, lowest), torch.where(padding, 0.0, lowest)[:, None, None]
            attended = [
                scores * 0.3 - apart,
                torch.where(causal, scores * 0.3 - apart, -1e4),
                scores * 0.3 - apart + causal_mask,
                (scores + sloped) * 0.3 + causal_mask,
                torch.where(causal, (scores + sloped) / 0.3, lowest),
                (scores + causal_mask) / 0.3,
                (scores + sloped + causal_mask) / 0.3,
                scores * 0.3 + torch.where(causal, sloped, -1.5),
                scores * 0.3 + torch.where(causal & padding[:, None, None], sloped, lowest),
                torch.where(causal, scores, lowest) + behind,
                apart - scores,  # a mask is added to scores whose scale is -1
                (scores + apart) * slopes[:, None, None],  # a factor for each head is no scale
                torch.where(causal, scores + behind, lowest) + behind,  # added twice
                (scores - apart + causal_mask) * 0.3,
                torch.where(causal, scores, apart) + behind,  # keys that are left out have scores of their own
            ]
            return tuple(torch.softmax(each, -1) @ v for each in attended)

    random = np.random.default_rng(4)
    inputs = [*(given(random, 2, 3, size, D) for size in (M, N, N)), random.random(3).astype(np.float32)]
    inputs.append(random.random((2, N)) < 0.7)
    inputs[4][:, 0] = True
    example = tuple(torch.tensor(each) for each in inputs)
    program = opsplice_torch.export(Masked().eval(), example, specs=["opsplice_kernels:attention"])
    found = sorted(program.report.replacements, key=lambda each: each.location)
    banded = [("banded_attention", place) for place in (1, 1, 2, 2, 3, 3, 4, 4)]
    assert [(each.pattern, each.dims.get("mask_as", 0)) for each in found] == [
        *(("any_attention", 1), *banded, ("any_attention", 3), ("any_attention", 0))
    ], str(program.report)
    exact = Masked()(*(each.double() if each.is_floating_point() else each for each in example))
    for number, (result, wanted) in enumerate(zip(program.run("main", *inputs), exact, strict=True)):
        np.testing.assert_allclose(np.asarray(result), wanted.numpy(), rtol=1e-5, atol=1e-6, err_msg=str(number))


def test_scores_that_are_no_lower_than_some_number():
    """Baichuan's: with one mask for later keys and for how far keys are apart, and where the mask is read."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Baichuan(torch.nn.Module):
        def forward(self, q, k, v, slopes, mask):
            lowest = torch.tensor(torch.finfo(torch.float32).min)
            later = torch.full((M, M), -torch.inf).triu(1) + slopes[:, None, None] * torch.arange(M)
            scores = q @ k.transpose(-1, -2) / D**0.5
            return tuple(torch.softmax(torch.max(scores + each, lowest), -1) @ v for each in (later, mask))

    random = np.random.default_rng(3)
    inputs = [*(given(random, 2, 3, M, D) for _ in range(3)), random.random(3).astype(np.float32)]
    inputs.append(np.where(random.random((M, M)) < 0.5, 0.0, -np.inf).astype(np.float32))
    inputs[4][2] = -np.inf
    example = tuple(torch.tensor(each) for each in inputs)
    program = opsplice_torch.export(Baichuan().eval(), example, specs=["opsplice_kernels:attention"])
    assert bands_in(program) == [(LOWEST, 0, 1), "any_attention"], str(program.report)
    for found, exact in zip(program.run("main", *inputs), Baichuan()(*example), strict=True):
        np.testing.assert_allclose(np.asarray(found), exact.numpy(), rtol=1e-5, atol=1e-6)


def test_a_cache_that_grows():
    """Keys and values are put together behind each other, of sizes that are known at run time only."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Cached(torch.nn.Module):
        def forward(self, keys, values, x):
            past, more = keys.shape[2], x.shape[2]
            keys, values = torch.cat([keys, x.tanh()], 2), torch.cat([values, x.cos()], 2)
            later = torch.arange(past + more)[None] <= torch.arange(past, past + more)[:, None]
            made = torch.nn.functional.scaled_dot_product_attention(x.sin(), keys, values, attn_mask=later)
            return made, keys, values

    random = np.random.default_rng(2)
    example = tuple(torch.tensor(given(random, 2, 3, size, D)) for size in (7, 7, 4))
    dynamic = {"keys": {2: "past"}, "values": {2: "past"}, "x": {2: "more"}}
    specs = ["opsplice_kernels:attention"]
    program = opsplice_torch.export(Cached().eval(), example, dynamic=dynamic, specs=specs)
    assert bands_in(program) == [(LOWEST, 0, 1)], str(program.report)
    for past, more in ((7, 4), (1, 1), (90, 3)):
        inputs = [given(random, 2, 3, size, D) for size in (past, past, more)]
        for found, exact in zip(program.run("main", *inputs), Cached()(*map(torch.tensor, inputs)), strict=True):
            np.testing.assert_allclose(np.asarray(found), exact.numpy(), rtol=1e-5, atol=1e-6)


def test_sinks_beside_any_number_of_keys():
    """gpt-oss joins its sinks to scores whose number is known at run time only, and cuts the last share off."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Sinks(torch.nn.Module):
        def forward(self, q, k, v, sinks):
            row, column = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None, :]
            near = torch.where((column <= row) & (column > row - 3), 0.0, float(np.finfo(np.float32).min))
            scores = q @ k.transpose(-1, -2)
            joined = torch.cat([scores + near, sinks[:, None, None].expand(2, -1, q.shape[2], 1)], -1)
            joined = joined - joined.max(-1, keepdim=True).values
            wider = torch.softmax(torch.cat([scores, sinks[:, None, None].expand(2, -1, q.shape[2], 2)], -1), -1)
            more = v.repeat(1, 1, 2, 1)[:, :, : k.shape[2] + 1]
            return torch.softmax(joined, -1)[..., :-1] @ v, wider[..., :-1] @ more

    random = np.random.default_rng(3)
    given_for = lambda m, n: [*(given(random, 2, 3, size, D) for size in (m, n, n)), given(random, 3)]  # noqa: E731
    dynamic = {"q": {2: "m"}, "k": {2: "n"}, "v": {2: "n"}}
    example = tuple(torch.tensor(each) for each in given_for(M, N))
    specs = ["opsplice_kernels:attention"]
    program = opsplice_torch.export(Sinks().eval(), example, dynamic=dynamic, specs=specs)
    assert bands_in(program) == [(-2, 0, 1)], str(program.report)  # two more shares, one with a value: no sink
    for m, n in ((M, N), (4, 2), (70, 70)):
        inputs = given_for(m, n)
        for found, exact in zip(program.run("main", *inputs), Sinks()(*map(torch.tensor, inputs)), strict=True):
            np.testing.assert_allclose(np.asarray(found), exact.numpy(), rtol=1e-5, atol=1e-6)


def test_bands_of_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    attention = jax.nn.dot_product_attention

    def masked(q, k, v, lengths, start):
        row, column = jax.numpy.arange(N)[:, None], jax.numpy.arange(N)[None, :]
        return (
            attention(q, k, v, mask=(column <= row + start)[None, None]),
            attention(q, k, v, is_causal=True),
            attention(q, k, v, local_window_size=(2, 1)),
            attention(q, k, v, is_causal=True, key_value_seq_lengths=lengths),
        )

    random = np.random.default_rng(1)
    inputs = [*(given(random, 2, N, 3, D) for _ in range(3)), np.array([4, 9], np.int32), np.int32(3)]
    program = opsplice.compile(jax.export.export(jax.jit(masked))(*inputs), ["opsplice_kernels:attention"])
    wanted = [(LOWEST, 0, 0), (LOWEST, 0, 0), (-2, 1, 0), (LOWEST, 0, 0)]
    assert bands_in(program) == wanted, str(program.report)
    for found, exact in zip(program.run("main", *inputs), masked(*inputs), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(exact), rtol=1e-5, atol=1e-6)

"""Rotary embeddings against numpy: of halves and of pairs, in any layout, as frontends write them."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *, pairs: bool) -> np.ndarray:
    """x [..., m, n], turned by cosines and sines of [m, n]."""
    half = x.shape[-1] // 2
    halves = np.concatenate((-x[..., half:], x[..., :half]), -1)
    other = np.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape) if pairs else halves
    return x * cos + other * sin


def arranged(memory: np.ndarray, m: int, h: int, layout: str) -> np.ndarray:
    """The memory of a tensor of m places as [m, 2, h], as it lies in a layout."""
    shape = {"halves": (m, 2, h), "pairs": (m, h, 2), "any": (2, h, m)}[layout]
    order = {"halves": (0, 1, 2), "pairs": (0, 2, 1), "any": (2, 0, 1)}[layout]
    return memory.reshape(shape).transpose(order)


@pytest.mark.parametrize("layout", ["halves", "pairs", "any"])
def test_rope(kernel, guarded, layout):
    random = np.random.default_rng(4)
    for m, h in ((1, 1), (3, 5), (2, 64), (4, 37)):
        given = [guarded(random.standard_normal(2 * m * h).astype(np.float32)) for _ in range(3)]
        out = guarded(np.zeros(2 * m * h, np.float32))
        parts = [arranged(each, m, h, layout) for each in (*given, out)]
        steps = [step // 4 for each in parts for step in each.strides]
        kernel("rope/rope.c", "opsplice_rope")(*given, out, 1, m, 2, h, *steps, 0)
        wanted = turned(*(each.reshape(m, 2 * h) for each in parts[:3]), pairs=False)
        np.testing.assert_allclose(parts[3].reshape(m, 2 * h), wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def given() -> tuple[np.ndarray, ...]:
    """Queries [batch, places, heads, numbers], cosines and sines."""
    random = np.random.default_rng(5)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 3, 16), (6, 16), (6, 16)))


def check(program: opsplice.Program, inputs, patterns, wanted) -> None:
    assert sorted(each.pattern for each in program.report.replacements) == patterns, program.report
    for found, exact in zip(program.run("main", *inputs), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), exact, rtol=1e-5, atol=1e-5)


def test_rope_of_pytorch(given):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Turned(torch.nn.Module):
        def forward(self, x, cos, sin):
            first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
            in_front = x.transpose(1, 2)
            pairs = torch.stack((-in_front[..., 1::2], in_front[..., ::2]), -1).flatten(-2)
            c, s = cos[:, None], sin[:, None]
            return x * c + torch.cat((-second, first), -1) * s, in_front * cos + pairs * sin

    x, cos, sin = given
    program = opsplice_torch.export(
        Turned().eval(), tuple(map(torch.zeros, (x.shape, cos.shape, sin.shape))), specs=["opsplice_kernels:rope"]
    )
    in_front = x.transpose(0, 2, 1, 3)
    halves = turned(in_front, cos, sin, pairs=False).transpose(0, 2, 1, 3)
    check(program, given, ["rope", "rope"], [halves, turned(in_front, cos, sin, pairs=True)])


def test_rope_of_jax(given):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    jnp = jax.numpy

    def both(x, cos, sin):
        first, second = jnp.split(x, 2, -1)
        c, s = cos[:, None, :8], sin[:, None, :8]
        whole = x * cos[:, None] + jnp.concatenate((-second, first), -1) * sin[:, None]
        # The other way round, and with a part of the row left as it is: neither is a rotation of x.
        wrong = x * cos[:, None] + jnp.concatenate((-first, second), -1) * sin[:, None]
        return whole, jnp.concatenate((first * c - second * s, second * c + first * s), -1), wrong

    x, cos, sin = given
    program = opsplice.compile(jax.export.export(jax.jit(both))(*given), ["opsplice_kernels:rope"])
    in_front = x.transpose(0, 2, 1, 3)
    halves = [
        turned(in_front, *each, pairs=False).transpose(0, 2, 1, 3)
        for each in ((cos, sin), (np.tile(cos[:, :8], 2), np.tile(sin[:, :8], 2)))
    ]
    swapped = np.concatenate((-x[..., :8], x[..., 8:]), -1)
    wrong = x * cos[:, None] + swapped * sin[:, None]
    check(program, given, ["rope", "rope_by_halves"], [*halves, wrong])

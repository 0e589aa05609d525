"""Products with packed weights against numpy in float64: sizes around the tiles, and all that may follow."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.kernels.conftest import of_halves

SIZES = [(1, 1, 1), (1, 5, 32), (1, 65, 33), (2, 31, 17), (13, 64, 32), (15, 7, 70), (300, 50, 95)]


def packed(w: np.ndarray) -> np.ndarray:
    k, n = w.shape
    panels = -(-n // 32)
    wide = np.zeros((k, panels * 32), np.float32)
    wide[:, :n] = w
    return wide.reshape(k, panels, 32).transpose(1, 0, 2).copy()


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_linear(kernel, guarded, m, k, n):
    random = np.random.default_rng(0)
    x, w, bias, factor, rest = (
        random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,), (m, n), (m, n))
    )
    panels, out = packed(w), guarded(np.zeros((m, n), np.float32))
    plain = x.astype(float) @ w
    silu = (plain + bias) / (1 + np.exp(-plain - bias))
    x, bias, factor, rest = (guarded(value) for value in (x, bias, factor, rest))
    # Weights are fetched ahead of the tile, which no access is: the guard behind them stays.
    w = guarded(panels)
    for given, activation, wanted in (
        ((None, None, None), 0, plain),
        ((bias, None, rest), 1, np.maximum(plain + bias, 0) + rest),
        ((bias, factor, None), 4, silu * factor),
        ((bias, factor, rest), 4, silu * factor + rest),
    ):
        out[...] = np.nan
        for group in range(-(-m // 252)):
            for panel in range(len(panels)):
                kernel("linear/linear.c", "opsplice_linear")(
                    x, w, *given, ctypes.c_int32(activation), out, m, k, len(panels), n, panel, group
                )
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "k", "n"), [*SIZES, (2, 300, 40), (1, 300, 40), (1, 4, 40), (6, 130, 64), (16, 9, 40)])
@pytest.mark.parametrize("order", ["kn", "nk"])
def test_weights_that_are_not_packed(kernel, guarded, m, k, n, order):
    """In either layout, through more than one part of k; and with all else in other strides, too."""
    random = np.random.default_rng(0)
    x, w, bias, rest = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,), (m, n)))
    wanted = np.maximum(x.astype(float) @ w + bias, 0) + rest
    x, bias, rest, out = guarded(x), guarded(bias), guarded(rest), guarded(np.full((m, n), np.nan, np.float32))
    strides = (n, 1) if order == "kn" else (1, k)
    weight = guarded(w if order == "kn" else np.ascontiguousarray(w.T))
    for panel, group in np.ndindex(-(-n // 32), -(-m // 252)):
        kernel("linear/linear.c", "opsplice_linear_unpacked")(
            *(x, weight, bias, None, rest, ctypes.c_int32(1), out, m, k, n, *strides, panel, group)
        )
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    turned, wide = guarded(np.ascontiguousarray(x.T)), np.full((m, n + 3), np.nan, np.float32)
    for panel, group in np.ndindex(-(-n // 32), -(-m // 252)):
        kernel("linear/linear.c", "opsplice_product")(
            *(turned, weight, wide, 1, m, k, n, 1, m, *strides, n + 3, 1, panel, 0, group)
        )
    np.testing.assert_allclose(wide[:, :n], x.astype(float) @ w, rtol=1e-4, atol=1e-4)
    assert np.isnan(wide[:, n:]).all()


@pytest.mark.parametrize(("m", "k", "n"), [*SIZES, (40, 300, 40)])
def test_groups_of_rows(kernel, guarded, m, k, n):
    """In order as PyTorch has them, empty ones among them; and anyhow, so that rows are in none and in several."""
    random = np.random.default_rng(0)
    x, w = random.standard_normal((m, k)).astype(np.float32), random.standard_normal((5, k, n)).astype(np.float32)
    ends = np.sort(random.integers(0, m + 1, 5))[:, None]
    ordered = (np.arange(m) < ends) & (np.arange(m) >= np.roll(ends, 1) * (np.arange(5) > 0)[:, None])
    panels, x, out = guarded(np.stack([packed(each) for each in w])), guarded(x), guarded(np.zeros((m, n), np.float32))
    for member in (ordered, random.random((5, m)) < 0.4, np.zeros((5, m), bool)):
        out[...] = np.nan
        for panel, share in np.ndindex(-(-n // 32), -(-m // 252)):
            kernel("linear/linear.c", "opsplice_grouped")(
                x, panels, guarded(member.astype(np.uint8)), out, m, k, 5, -(-n // 32), n, panel, share
            )
        wanted = np.einsum("gm,mk,gkn->mn", member, x.astype(float), w)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m", [1, 13])
def test_a_large_bias_is_added_last(kernel, m):
    """Else each product next to it is rounded as it is: 600 of them were off by 15 units in the last place."""
    random = np.random.default_rng(0)
    k, n = 600, 40
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    x, bias = x * np.float32(1e-3), random.uniform(1, 2, n).astype(np.float32)
    out, panels, none = np.empty((m, n), np.float32), packed(w), (None, None, ctypes.c_int32(0))
    for panel in range(2):
        kernel("linear/linear.c", "opsplice_linear")(x, panels, bias, *none, out, m, k, 2, n, panel, 0)
    np.testing.assert_allclose(out, x.astype(float) @ w + bias, rtol=1.5e-7)
    for panel in range(2):
        kernel("linear/linear.c", "opsplice_linear_unpacked")(x, w, bias, *none, out, m, k, n, n, 1, panel, 0)
    np.testing.assert_allclose(out, x.astype(float) @ w + bias, rtol=1.5e-7)


def rounded(value: np.ndarray, kind: str) -> np.ndarray:
    """The bits of the nearest f16 or bf16, the even one of two."""
    if kind == "f16":
        return value.astype(np.float16).view(np.uint16)
    bits = np.asarray(value, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits: np.ndarray, kind: str) -> np.ndarray:
    return bits.view(np.float16).astype(float) if kind == "f16" else (bits.astype(np.uint32) << 16).view(np.float32)


@of_halves
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("order", ["kn", "nk"])
@pytest.mark.parametrize(("m", "k", "n"), [*SIZES, (1, 300, 70), (169, 258, 33), (29, 288, 70)])
def test_weights_of_halves_that_are_not_packed(kernel, guarded, kind, order, m, k, n):
    """In either layout, through more than one part of k, in pairs, too; one row by columns side by side."""
    random = np.random.default_rng(0)
    shapes = ((m, k), (k, n), (n,), (m, n))
    halves = [rounded(random.standard_normal(shape).astype(np.float32), kind) for shape in shapes]
    x, w, bias, rest = (widened(value, kind).astype(float) for value in halves)
    weight = guarded(halves[1] if order == "kn" else np.ascontiguousarray(halves[1].T))
    given, out = [guarded(value) for value in (halves[0], *halves[2:])], guarded(np.zeros((m, n), np.uint16))
    for panel, group in np.ndindex(-(-n // 32), -(-m // 168)):
        kernel("linear/halves.c", f"opsplice_half_linear_unpacked_{kind}")(
            *(given[0], weight, given[1], None, given[2], ctypes.c_int32(1), out, m, k, n),
            *((n, 1) if order == "kn" else (1, k)),
            *(panel, group),
        )
    step = {"f16": 2.0**-11, "bf16": 2.0**-8}[kind]
    np.testing.assert_allclose(widened(out, kind), np.maximum(x @ w + bias, 0) + rest, rtol=1.01 * step, atol=1e-4)


@of_halves
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("m", "k", "n"), [*SIZES, (1, 300, 70), (169, 258, 33), (16, 32, 70), (185, 96, 40)])
def test_products_of_halves(kernel, guarded, kind, m, k, n):
    """An odd k, slices of it, workgroups of two panels and of one, a second one of rows; and all that may follow."""
    random = np.random.default_rng(0)
    shapes = ((m, k), (k, n), (n,), (m, n), (m, n))
    halves = [rounded(random.standard_normal(shape).astype(np.float32), kind) for shape in shapes]
    values = [widened(value, kind) for value in halves]
    plain = values[0].astype(float) @ values[1]
    pairs = np.zeros((-(-n // 32), -(-k // 2), 32, 2), np.uint16)
    for column, number in np.ndindex(n, k):
        pairs[column // 32, number // 2, column % 32, number % 2] = halves[1][number, column]
    x, bias, factor, rest = (guarded(value) for value in (halves[0], *halves[2:]))
    pairs, out = guarded(pairs), guarded(np.zeros((m, n), np.uint16))
    silu = (plain + values[2]) / (1 + np.exp(-plain - values[2]))
    for given, activation, wanted in (
        ((None, None, None), 0, plain),
        ((bias, None, rest), 1, np.maximum(plain + values[2], 0) + values[4]),
        ((bias, factor, rest), 4, silu * values[3] + values[4]),
    ):
        out[...] = 0xFFFF
        for place in np.ndindex(-(-len(pairs) // 2), -(-m // 168)):
            kernel("linear/halves.c", f"opsplice_half_linear_{kind}")(
                *(x, pairs, *given, ctypes.c_int32(activation), out, m, k, len(pairs), pairs.shape[1], n, *place)
            )
        last = 2.0**-11 if kind == "f16" else 2.0**-8
        np.testing.assert_allclose(widened(out, kind), wanted, rtol=last * 1.01, atol=1e-4)


@of_halves
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_every_half_is_read_and_rounded_as_ieee_says(kernel, kind):
    """Each number of 16 bits times 1, and each number between two: ties to even, denormals, infinities and NaN."""
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    largest = rounded(np.float32(65504 if kind == "f16" else 3.3895314e38), kind)
    both = np.stack([x, np.where(x & 0x7FFF < largest, x + 1, 0)], axis=1).astype(np.uint16)
    # The number itself, the middle between it and the next one, and their sum.
    weights = np.array([[1, 0.5, 1], [0, 0.5, 1]], np.float32)
    pairs, out = np.zeros((1, 1, 32, 2), np.uint16), np.empty((1 << 16, 3), np.uint16)
    pairs[0, 0, :3] = rounded(weights.T.copy(), kind)
    for group in range(-(-len(x) // 168)):
        kernel("linear/halves.c", f"opsplice_half_linear_{kind}")(
            *(both, pairs, None, None, None, ctypes.c_int32(0), out, len(x), 2, 1, 1, 3, 0, group)
        )
    with np.errstate(over="ignore", invalid="ignore"):
        values = widened(both.reshape(-1), kind).reshape(both.shape).astype(np.float32)
        exact = 0 + values[:, :1] * weights[0] + values[:, 1:] * weights[1]  # no sum is -0
        wanted = rounded(exact, kind)
    is_nan = np.isnan(exact)
    np.testing.assert_array_equal(out[~is_nan], wanted[~is_nan])
    assert is_nan.any()
    assert np.isnan(widened(out[is_nan], kind)).all()

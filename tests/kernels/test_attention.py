"""Attention against numpy in float64: sizes around the blocks, masks, caps and layouts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

SIZES = (
    (1, 1, 1, 1),
    (1, 70, 64, 64),
    (2, 33, 48, 40),
    (13, 7, 20, 18),
    (9, 4, 21, 16),
    (85, 65, 32, 96),
    (40, 129, 128, 256),
)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def strides(value: np.ndarray | None) -> list[int]:
    return [0, 0] if value is None else [stride // value.itemsize for stride in value.strides]


def sink_stride(sink: np.ndarray | None) -> int:
    return 0 if sink is None else sink.strides[0] // sink.itemsize


def attention(
    function,
    q,
    k,
    v,
    out,
    masks=(None,) * 4,
    scale=0.3,
    cap=0.0,
    fill=-np.inf,
    zeros=0,
    sink=None,
    mask_as=0,
    factors=None,
    lowest=-np.inf,
    bias_as=0,
) -> None:
    sizes = [1, *q.shape, len(k), v.shape[1]]
    views = [stride for value in (q, k, v, *masks, factors) for stride in strides(value)]
    views += [sink_stride(sink), *strides(out)]
    numbers = (scale, cap, fill, zeros, mask_as, bias_as, lowest)
    for group in range(-(-len(q) // 84)):
        function(q, k, v, *masks, factors, sink, *numbers, out, *sizes, *views, group, 0)


def wanted(q, k, v, change=lambda scores: scores, scale=0.3, sink=None) -> np.ndarray:
    scores = change(q.astype(float) @ k.astype(float).T * scale)
    beside = np.full(len(q), -np.inf) if sink is None else sink.astype(float)
    peak = np.maximum(scores.max(1), beside)[:, None]
    weights = np.exp(scores - peak)
    return weights / (weights.sum(1, keepdims=True) + np.exp(beside[:, None] - peak)) @ v.astype(float)


@pytest.mark.parametrize(("m", "n", "d", "e"), SIZES)
def test_masks(kernel, guarded, m, n, d, e):
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = (guarded(values(*shape, seed=i)) for i, shape in enumerate(((m, d), (n, d), (n, e))))
    out = guarded(np.zeros((m, e), np.float32))
    keep = np.random.default_rng(3).random((m, n)) < 0.7
    keep[:, n // 2] = True
    mask = np.where(keep, values(m, n, seed=4), -np.inf).astype(np.float32)
    keep, drop, mask, bias = guarded(keep), guarded(~keep), guarded(mask), guarded(values(n, seed=5))
    by_key = np.broadcast_to(bias, (m, n))
    for masks, cap, change in (
        ((None,) * 4, 0.0, lambda s: s),
        ((mask, None, None, None), 0.0, lambda s: s + mask),
        ((mask, by_key, None, None), 0.0, lambda s: s + mask + bias),
        ((None, None, keep, None), 0.0, lambda s: np.where(keep, s, -np.inf)),
        ((None, None, None, drop), 2.0, lambda s: np.where(keep, 2 * np.tanh(s / 2), -np.inf)),
    ):
        out[...] = np.nan
        attention(function, q, k, v, out, masks, cap=cap)
        np.testing.assert_allclose(out, wanted(q, k, v, change), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [7, 150])
def test_masks_in_other_places(kernel, guarded, n):
    """Subtracted, added before the scale, and added after scores are left out: rows with no key left are means."""
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = (guarded(values(size, 20, seed=seed)) for seed, size in enumerate((90, n, n)))
    out, some = guarded(np.zeros((90, 20), np.float32)), np.random.default_rng(3).random((90, n)) < 0.6
    some[5], some[4, 1:] = False, False
    slopes, low = guarded(values(90, n, seed=4)), guarded(np.where(some, np.float32(0), np.float32(LOWEST)))
    keep, drop, bias = guarded(some), guarded(~some), guarded(values(n, seed=6))
    by_key = np.broadcast_to(bias, (90, n))
    left_in = np.arange(n) <= np.arange(90)[:, None]
    later = guarded(np.where(left_in, np.float32(0), np.float32(-np.inf)))
    for mask_as, masks, fill, change in (
        (1, (slopes, None, None, None), 0.0, lambda s: s - slopes),
        (1, (slopes, by_key, keep, None), -1e4, lambda s: np.where(some, s - slopes + bias, -1e4)),
        (2, (slopes, None, None, None), 0.0, lambda s: s + slopes * 0.3),
        (2, (low, by_key, None, None), 0.0, lambda s: np.where(some, s, LOWEST * 0.3) + bias),
        (2, (slopes, None, None, drop), LOWEST, lambda s: np.where(some, s + slopes * 0.3, LOWEST)),
        (3, (slopes, None, None, drop), -3.0, lambda s: np.where(some, s, -3.0) + slopes),
        (3, (later, None, keep, None), -1e4, lambda s: np.where(some, s, -1e4) + later),
    ):
        out[...] = np.nan
        attention(function, q, k, v, out, masks, fill=fill, mask_as=mask_as)
        np.testing.assert_allclose(out, wanted(q, k, v, change), rtol=1e-5, atol=1e-5, err_msg=f"{mask_as} {fill}")


@pytest.mark.parametrize("n", [7, 150])
def test_biases_that_are_subtracted(kernel, guarded, n):
    """From scores alone and from those with a mask, which is added before the scale or behind it."""
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = (guarded(values(size, 20, seed=seed)) for seed, size in enumerate((90, n, n)))
    out, mask = guarded(np.zeros((90, 20), np.float32)), guarded(values(90, n, seed=4))
    far = guarded(np.where(np.arange(n) <= np.arange(90)[:, None], np.float32(0), np.float32(1e30)))
    for mask_as, given, change in (
        (0, (None, far), lambda s: s - far),
        (0, (mask, far), lambda s: s + mask - far),
        (2, (mask, far), lambda s: s + mask * 0.3 - far),
    ):
        out[...] = np.nan
        attention(function, q, k, v, out, (*given, None, None), mask_as=mask_as, bias_as=1)
        np.testing.assert_allclose(out, wanted(q, k, v, change), rtol=1e-5, atol=1e-5, err_msg=f"{mask_as}")


@pytest.mark.parametrize(("m", "n", "e"), [(1, 1, 1), (3, 20, 18), (45, 21, 40), (90, 150, 96)])
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_scores_alone(kernel, guarded, m, n, e, kind):
    """In any layout, with keys that do not count, a sink, and rows without any key."""
    function = kernel("attention/attention.c", f"opsplice_attention_of_scores_{kind}")
    type_of = {"f32": np.float32, "f16": np.float16}[kind]
    scores, v = values(m, n, seed=1).astype(type_of), guarded(values(n, e, seed=2).astype(type_of))
    scores[:, n // 3 : n // 2] = -np.inf
    sink, out = guarded(values(m, seed=3).astype(type_of)), guarded(np.zeros((m, e), type_of))
    nothing = np.zeros((m, 1), np.float32), np.zeros((n, 1), np.float32)

    def run(scores, sink, zeros):
        out[...] = np.nan
        views = [*strides(scores), *strides(v), sink_stride(sink), *strides(out)]
        for group in range(-(-m // 84)):
            function(scores, v, sink, zeros, out, 1, m, n, e, *views, group, 0)

    for given in (guarded(scores), np.ascontiguousarray(scores.T).T):
        for beside in (None, sink):
            run(given, beside, 0)
            exact = wanted(*nothing, v, lambda s: scores.astype(float), sink=beside)
            np.testing.assert_allclose(out.astype(float), exact, rtol=1e-5 if kind == "f32" else 2e-3, atol=1e-5)
    scores[-1] = -np.inf
    for zeros, last in ((0, np.nan), (1, 0.0)):
        run(scores, None, zeros)
        np.testing.assert_array_equal(out[-1], np.full(e, last, type_of))


@pytest.mark.parametrize("n", [7, 150])
def test_factors(kernel, guarded, n):
    """One for all scores, for each row, for each key, and for each score. NaN makes keys NaN that are left out."""
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = (guarded(values(size, 20, seed=seed)) for seed, size in enumerate((90, n, n)))
    out, keep = guarded(np.zeros((90, 20), np.float32)), guarded(np.arange(n) <= np.arange(90)[:, None])
    mask = guarded(np.where(keep, np.float32(0), np.float32(-np.inf)))
    for shape in ((1, 1), (90, 1), (1, n), (90, n)):
        factors = np.broadcast_to(guarded(values(*shape, seed=5)), (90, n))
        for masks, cap, change in (
            ((None,) * 4, 0.0, lambda s: s),
            ((mask, None, None, None), 0.0, lambda s: s + mask),
            ((None, None, keep, None), 2.0, lambda s: np.where(keep, 2 * np.tanh(s / 2), -np.inf)),
        ):
            out[...] = np.nan
            attention(function, q, k, v, out, masks, cap=cap, factors=factors)
            exact = wanted(q, k, v, lambda s, factors=factors, change=change: change(s * factors))
            np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5, err_msg=f"{shape} {cap}")
        wrong = np.broadcast_to(np.float32(np.nan), (90, n))
        attention(function, q, k, v, out, (mask, None, None, None), factors=wrong)
        assert np.isnan(out).all()


def test_layouts(kernel):
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = values(44, 30), values(45, 30, seed=1), values(45, 24, seed=2)
    turned = [np.ascontiguousarray(value.T).T for value in (q, k, v)]
    apart = [np.repeat(value, 3, axis=1)[:, ::3] for value in (q, k, v)]
    for given in (turned, apart):
        out = np.full((24, 44), np.nan, np.float32).T
        attention(function, *given, out)
        np.testing.assert_allclose(out, wanted(q, k, v), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m", [3, 45, 90])
@pytest.mark.parametrize("e", [64, 80])
def test_heads_side_by_side(kernel, m, e):
    """Rows of a head lie apart, and only its own part of the result is written."""
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = values(m, 3 * 80), values(75, 3 * 80, seed=1), values(75, 3 * e, seed=2)
    out = np.full((m, 3 * e), np.nan, np.float32)
    heads = (q[:, 80:160], k[:, 80:160], v[:, e : 2 * e])
    attention(function, *heads, out[:, e : 2 * e], scale=0.1)
    np.testing.assert_allclose(out[:, e : 2 * e], wanted(*heads, scale=0.1), rtol=1e-5, atol=1e-5)
    assert np.isnan(np.delete(out, range(e, 2 * e), axis=1)).all()


@pytest.mark.parametrize(("m", "n", "d", "e"), SIZES)
def test_sinks(kernel, guarded, m, n, d, e):
    """One more score for each row: far below the others, among them, far above, and with no key left."""
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    q, k, v = (guarded(values(*shape, seed=i)) for i, shape in enumerate(((m, d), (n, d), (n, e))))
    out, sink = guarded(np.zeros((m, e), np.float32)), guarded(values(m, seed=3) * 40)
    keep = guarded(np.random.default_rng(4).random((m, n)) < 0.5)
    keep[-1] = False
    for masks, change in (
        ((None,) * 4, lambda s: s),
        ((None, None, keep, None), lambda s: np.where(keep, s, -np.inf)),
        ((None, None, keep, None), lambda s: np.where(keep, s, LOWEST)),
    ):
        fill = change(np.full((m, n), 0.0)).min()
        for given in (sink, np.broadcast_to(sink[:1], m)):
            out[...] = np.nan
            attention(function, q, k, v, out, masks, fill=fill, sink=given)
            np.testing.assert_allclose(out, wanted(q, k, v, change, sink=given), rtol=1e-5, atol=1e-5)
    for wrong in (np.nan, np.inf):
        attention(function, q, k, v, out, sink=np.full(m, wrong, np.float32))
        assert np.isnan(out).all()


LOWEST = float(np.finfo(np.float32).min)


def test_scores_that_are_no_lower_than_some_number(kernel, guarded):
    """Rows without any key weigh all alike, also where a band leaves them out; NaN stays NaN."""
    q, k, v = (guarded(values(size, D, seed=seed)) for seed, size in enumerate((170, 200, 200)))
    out, inside, apart = guarded(np.zeros((170, D), np.float32)), in_band(170, 200, 60, 70), {"low": 60, "high": 70}
    mask = guarded(np.where(inside, np.float32(0), np.float32(-np.inf)))
    assert not inside.any(axis=1).all()
    plain = kernel("attention/attention.c", "opsplice_attention_f32")
    with_band = kernel("attention/attention.c", "opsplice_banded_attention_f32_i64")
    for lowest in (LOWEST, -1.5):
        exact = wanted(q, k, v, lambda s, lowest=lowest: np.maximum(np.where(inside, s, -np.inf), lowest))
        attention(plain, q, k, v, out, (mask, None, None, None), lowest=lowest)
        np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5, err_msg=f"{lowest}")
        for added in (0, 1):
            out[...] = np.nan
            banded(with_band, q, k, v, out, **apart, added=added, lowest=lowest)
            np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5, err_msg=f"{lowest} {added}")
    bare = wanted(q, k, v, lambda s: np.maximum(s, 0.1))
    attention(plain, q, k, v, out, lowest=0.1)
    np.testing.assert_allclose(out, bare, rtol=1e-5, atol=1e-5)
    q[3, 2] = np.nan
    attention(plain, q, k, v, out, lowest=0.1)
    np.testing.assert_array_equal(np.isnan(out).any(axis=1), np.arange(170) == 3)
    assert np.isnan(out[3]).all()


@pytest.mark.parametrize("n", [3, 21, 150])
@pytest.mark.parametrize("m", [3, 9])
def test_rows_without_keys(kernel, m, n):
    """All scores the lowest number: the mean of the values. All minus infinity: NaN, or zero where so asked."""
    q, k, v, out = values(m, 16), values(n, 16, seed=1), values(n, 16, seed=2), np.empty((m, 16), np.float32)
    function = kernel("attention/attention.c", "opsplice_attention_f32")
    drop = np.arange(m)[:, None] < [1] * n
    late = drop | (np.arange(n) < n - 1)  # of what is left only the last key counts
    for dropped, fill, zeros, first, others in (
        (drop, LOWEST, 0, v.mean(0), None),
        (drop, -np.inf, 0, np.nan, None),
        (drop, -np.inf, 1, 0.0, None),
        (late, -np.inf, 1, 0.0, v[-1:]),
        (late, -1e4, 0, v.mean(0), v[-1:]),
    ):
        expected = wanted(q, k, v) if others is None else np.broadcast_to(others, out.shape).copy()
        expected[0] = first
        attention(function, q, k, v, out, (None, None, None, dropped), fill=fill, zeros=zeros)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
        mask = np.where(dropped, np.float32(fill), np.float32(0))
        attention(function, q, k, v, out, (mask, None, None, None), zeros=zeros)
        np.testing.assert_allclose(out[1:], expected[1:], rtol=1e-5, atol=1e-5)
        if zeros and fill == -np.inf:
            wrong = np.where(np.arange(m)[:, None] == 1, np.float32(np.nan), q)
            for by, middle in ((1, np.nan), (2, 0.0)):
                attention(function, wrong, k, v, out, (None, None, None, dropped), fill=fill, zeros=by)
                np.testing.assert_array_equal(out[:2], np.array([[0.0], [middle]]) + np.zeros_like(out[:2]))
        if fill < -1e30:  # lower than scores can tell
            np.testing.assert_allclose(out[0], expected[0], rtol=1e-5, atol=1e-5)


M, N, D = 170, 200, 20
ROW, KEY = np.arange(M)[:, None], np.arange(N)[None, :]
LEFT_IN = {
    "causal": KEY <= ROW + N - M,
    "window": (KEY <= ROW) & (KEY > ROW - 70),
    "documents": KEY // 90 == ROW // 90,
    "holes": (KEY >= 130) & (ROW % 90 >= 10),
}


@pytest.mark.parametrize("kind", LEFT_IN)
def test_keys_that_masks_leave_out(kernel, kind):
    """What is not computed changes no number: NaN and infinity in it are where numpy has them."""
    function, left_in = kernel("attention/attention.c", "opsplice_attention_f32"), LEFT_IN[kind]
    out = np.empty((M, D), np.float32)
    for fill, wrong in ((-np.inf, None), (LOWEST, None), (-1e30, None), (-np.inf, 0), (-np.inf, 1), (LOWEST, 2)):
        given = [values(size, D, seed=seed) for seed, size in enumerate((M, N, N))]
        if wrong is not None:
            given[wrong][-2, 3] = np.inf if wrong == 2 else np.nan
        mask = np.where(left_in, np.float32(0), np.float32(fill))
        for masks, change in (
            (
                (mask, None, None, None),
                lambda s, mask=mask: s.astype(np.float32) + mask,
            ),
            ((None, None, left_in, None), lambda s, fill=fill: np.where(left_in, s, fill)),
            ((None, None, None, ~left_in), lambda s, fill=fill: np.where(left_in, s, fill)),
        ):
            with np.errstate(invalid="ignore"):
                attention(function, *given, out, masks, fill=fill)
                np.testing.assert_allclose(out, wanted(*given, change), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "type_of", "unit"), [("f16", np.float16, 2.0**-10), ("bf16", ml_dtypes.bfloat16, 2.0**-7)]
)
@pytest.mark.parametrize(("m", "n", "d", "e"), SIZES)
def test_halves(kernel, guarded, m, n, d, e, kind, type_of, unit):
    """Of either kind: masks and results are such, too, and all between is f32; one row, and rows that lie apart."""
    function = kernel("attention/attention.c", f"opsplice_attention_{kind}")
    shapes = ((m, d), (n, d), (n, e), (m, n))
    q, k, v, bias = (guarded(values(*shape, seed=i).astype(type_of)) for i, shape in enumerate(shapes))
    keep = np.arange(n) <= np.arange(m)[:, None] + n // 2
    mask = guarded(np.where(keep, 0.0, -np.inf).astype(type_of))
    out = guarded(np.zeros((m, e), type_of))
    for given in ((q, k, v), [np.ascontiguousarray(value.T).T for value in (q, k, v)]):
        out[...] = np.nan
        attention(function, *given, out, (mask, bias, None, None))
        exact = wanted(q, k, v, lambda s: np.where(keep, s + bias.astype(float), -np.inf))
        np.testing.assert_allclose(out.astype(float), exact, rtol=unit, atol=unit * 1e-2)


# ---- bands -----------------------------------------------------------------------------------------------------------


def banded(
    function,
    q,
    k,
    v,
    out,
    low,
    high,
    bias=None,
    keep=None,
    fill=-np.inf,
    zeros=0,
    added=0,
    sink=None,
    start=0,
    mask_as=0,
    lowest=-np.inf,
) -> None:
    sizes = [1, *q.shape, len(k), v.shape[1]]
    views = [stride for value in (q, k, v, bias, keep) for stride in strides(value)]
    views += [sink_stride(sink), *strides(out)]
    for group in range(-(-len(q) // 84)):
        band = (low, high, start, added, mask_as, lowest)
        function(q, k, v, bias, keep, sink, 0.3, 0.0, fill, zeros, *band, out, *sizes, *views, group, 0)


LEAST, MOST = -(1 << 31), (1 << 31) - 1
BANDS = [
    *((170, 200, *band) for band in ((LEAST, 30), (-70, 0), (40, 41), (500, MOST))),
    *((1, 150, LEAST, 3), (90, 40, -7, 5), (90, 40, 0, MOST)),
]


def in_band(m: int, n: int, low: int, high: int) -> np.ndarray:
    apart = np.arange(n) - np.arange(m)[:, None]
    return (low <= apart) & (apart <= high)


@pytest.mark.parametrize(("m", "n", "low", "high"), BANDS)
def test_bands(kernel, guarded, m, n, low, high):
    """By a choice or added, with further keys left out and a bias: rows without any key are NaN, zero, or a mean."""
    function = kernel("attention/attention.c", "opsplice_banded_attention_f32_i64")
    q, k, v = (guarded(values(size, D, seed=seed)) for seed, size in enumerate((m, n, n)))
    out, bias = guarded(np.zeros((m, D), np.float32)), guarded(values(m, n, seed=4))
    keep = guarded(np.random.default_rng(5).random((m, n)) < 0.8)
    inside = in_band(m, n, low, high)
    for fill, added, zeros in ((-np.inf, 0, 0), (-np.inf, 1, 1), (LOWEST, 0, 0), (-3.0, 1, 0)):
        for with_keep, with_bias in ((False, False), (True, True)):
            left_in = inside & keep if with_keep else inside

            def change(scores, fill=fill, added=added, with_bias=with_bias, left_in=left_in):
                scores = scores + bias if with_bias else scores
                with np.errstate(over="ignore"):
                    outside = (scores.astype(np.float32) + np.float32(fill)).astype(float) if added else fill
                return np.where(left_in, scores, outside)

            out[...] = 7
            start = 0 if LEAST in (low, high) or MOST in (low, high) else 13 * with_bias
            banded(function, q, k, v, out, low - start, high - start, bias if with_bias else None,
                   keep if with_keep else None, fill, zeros, added, start=start)  # fmt: skip
            with np.errstate(invalid="ignore"):
                expected = wanted(q, k, v, change)
            expected = np.nan_to_num(expected, nan=0.0) if zeros else expected
            np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5, err_msg=f"{fill} {added} {with_keep}")


@pytest.mark.parametrize("mask_as", [1, 2, 3, 4])
def test_biases_and_bands_in_other_places(kernel, guarded, mask_as):
    """Subtracted, or added before the scale; the score of what is left out, too, or without the bias."""
    function = kernel("attention/attention.c", "opsplice_banded_attention_f32_i64")
    q, k, v = (guarded(values(size, D, seed=seed)) for seed, size in enumerate((170, 200, 200)))
    out, bias = guarded(np.zeros((170, D), np.float32)), guarded(values(170, 200, seed=4))
    inside, factor = in_band(170, 200, -70, 5), {1: -1.0, 2: 0.3, 3: 0.3, 4: 1.0}[mask_as]
    for fill, added in ((-3.0, 0), (-3.0, 1), (-np.inf, 1))[mask_as > 2 :]:

        def change(scores, fill=fill, added=added):
            biased, own = scores + factor * bias, fill * 0.3 if mask_as == 3 else fill
            return np.where(inside, biased, own + (added and (scores if mask_as == 4 else biased)))

        banded(function, q, k, v, out, -70, 5, bias, fill=fill, added=added, mask_as=mask_as)
        np.testing.assert_allclose(out, wanted(q, k, v, change), rtol=1e-5, atol=1e-5, err_msg=f"{fill} {added}")


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_what_a_band_leaves_out_is_not_computed_and_changes_no_number(kernel, wrong):
    function, out = kernel("attention/attention.c", "opsplice_banded_attention_f32_i64"), np.empty((M, D), np.float32)
    given = [values(size, D, seed=seed) for seed, size in enumerate((M, N, N))]
    given[wrong][-2, 3] = np.inf if wrong == 2 else np.nan
    for fill in (-np.inf, LOWEST):
        banded(function, *given, out, LEAST, N - M, fill=fill)
        with np.errstate(invalid="ignore"):
            exact = wanted(*given, lambda s, fill=fill: np.where(LEFT_IN["causal"], s, fill))
        np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_bands_of_halves(kernel, guarded, kind):
    type_of, unit = {"f16": (np.float16, 2.0**-10), "bf16": (ml_dtypes.bfloat16, 2.0**-7)}[kind]
    function = kernel("attention/attention.c", f"opsplice_banded_attention_{kind}_i64")
    q, k, v = (guarded(values(size, D, seed=seed).astype(type_of)) for seed, size in enumerate((M, N, N)))
    out = guarded(np.zeros((M, D), type_of))
    sink = guarded(values(M, seed=4).astype(type_of))
    banded(function, q, k, v, out, -70, 0, sink=sink)
    exact = wanted(q, k, v, lambda s: np.where(in_band(M, N, -70, 0), s, -np.inf), sink=sink)
    np.testing.assert_allclose(out.astype(float), exact, rtol=unit, atol=unit * 1e-2)

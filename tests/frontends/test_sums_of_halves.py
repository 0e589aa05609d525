"""Sums of f16 and bf16 in StableHLO are rounded once, as XLA has them."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice.jax

jax = pytest.importorskip("jax")
jnp = jax.numpy


def of_channels(image, filters, **form):
    dims = ("NCHW", "HWIO", "NCHW")
    return jax.lax.conv_general_dilated(
        image, filters, (1, 1), "SAME", dimension_numbers=dims, feature_group_count=image.shape[1], **form
    )


def sums(x, image):
    """Products, a convolution, running sums and products, a sum of terms, and windows whose numbers stay."""
    ones = jnp.ones((8, image.shape[1], 3, 3), image.dtype)
    return {
        "product": x @ x.T,
        # Nothing is added up.
        "product of numbers": jnp.dot(x[0, :1].reshape(()), jnp.dot(x[0, :1].reshape(()), x[1, 1])),
        "convolution": jax.lax.conv(image, ones, (1, 1), "SAME"),
        "convolution of each channel": of_channels(image, jnp.ones((3, 3, 1, 64), image.dtype)),
        "running sum": jnp.cumsum(x, 1),
        "running product": jnp.cumprod(1 + x[:, :64] / 64, 1),
        "running logarithm of a sum": jax.lax.cumlogsumexp(x, 1),
        "sum": jax.lax.reduce(x, jnp.zeros((), x.dtype), jax.lax.add, (1,)),
        "largest": jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    }


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_are_rounded_once(kind):
    random = np.random.default_rng(0)
    given = [jnp.asarray(random.random(shape), kind) for shape in ((4, 2048), (2, 64, 6, 6))]
    found = opsplice.jax.jit(sums)(*given)
    with jax.enable_x64(True):
        wanted = sums(*(jnp.asarray(np.asarray(each).astype(np.float64)) for each in given))
    for name, exact in wanted.items():
        # The terms of the running product are of 16 bits themselves.
        steps = 8 if name == "running product" else 1
        limit = steps * {"float16": 2.0**-11, "bfloat16": 2.0**-8}[kind] * 1.01
        np.testing.assert_allclose(np.asarray(found[name]).astype(np.float64), exact, limit, limit, err_msg=name)


def test_bytes_of_each_channel_are_added_in_a_wider_type():
    random = np.random.default_rng(0)
    bytes_of = [random.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 4, 6, 6), (3, 3, 1, 4))]
    found = opsplice.jax.jit(of_channels)(*bytes_of)
    wide = lambda image, filters: of_channels(image, filters, preferred_element_type=jnp.int32)  # noqa: E731
    wanted = of_channels(*(each.astype(np.float32) for each in bytes_of))
    np.testing.assert_array_equal(opsplice.jax.jit(wide)(*bytes_of), wanted)
    np.testing.assert_array_equal(found, np.asarray(wanted).astype(np.int32).astype(np.int8))

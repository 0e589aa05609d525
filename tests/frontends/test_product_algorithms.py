"""Products that name their algorithm, which IREE does not take."""

import numpy as np
import pytest

import opsplice.jax

jax = pytest.importorskip("jax")
jnp = jax.numpy


def test_attention_in_bf16_and_products_by_an_algorithm():
    random = np.random.default_rng(0)
    q, k, v = (jnp.asarray(random.standard_normal((2, 12, heads, 16)), jnp.bfloat16) for heads in (4, 2, 2))
    x, y = (jnp.asarray(random.standard_normal(size), jnp.float32) for size in ((5, 64), (64, 32)))

    def f(q, k, v, x, y):
        precisions = ("BF16_BF16_F32", "BF16_BF16_F32_X3", "F32_F32_F32")
        products = [jax.lax.dot(x, y, precision=precision) for precision in precisions]
        return jax.nn.dot_product_attention(q, k, v, is_causal=True), products

    fast = opsplice.jax.jit(f, specs=["opsplice_kernels:attention"])
    attended, products = fast(q, k, v, x, y)
    with jax.enable_x64(True):
        wide = [np.asarray(each).astype(np.float64) for each in (q, k, v)]
        wanted = np.asarray(jax.nn.dot_product_attention(*wide, is_causal=True))
    np.testing.assert_allclose(np.asarray(attended).astype(np.float64), wanted, 0.01, 0.01)
    for found in products:
        np.testing.assert_allclose(found, np.asarray(x, np.float64) @ np.asarray(y, np.float64), 1e-5, 1e-5)
    assert [each.kernel for program in fast.report().programs for each in program.report.replacements] == [
        "banded_attention_rows"
    ]

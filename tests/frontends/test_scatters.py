"""Scatters whose windows or dims are such as IREE does not take, as JAX writes them."""

import numpy as np
import pytest

import opsplice.jax

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.random.default_rng(0).standard_normal((4, 5, 6), np.float32)
PLACES = np.array([0, 3, 7, -1])
CASES = {
    "rows of windows": lambda x, i: x.at[i, 1:].max(x[:, 1:] * 2, mode="drop"),
    "two rows": lambda x, i: x.at[i[:2], 1:3].set(x[:2, 2:4]),
    "a slice": lambda x, i: x.at[:, 1:3].add(x[:, 2:4]),
    "two dims apart": lambda x, i: x.at[i, :, i].add(x[:, :, 0]),
    "the last dims": lambda x, i: x.at[:, i, i].multiply(x[:, :4, 0]),
    "all": lambda x, i: x.at[...].max(-x),
    "a number": lambda x, i: x[0, 0, 0].at[...].add(x[1, 1, 1]),
    "without a sign": lambda x, i: (
        jnp.abs(x * 9).astype(jnp.uint8).at[...].min(jnp.uint8(200) + i[0].astype(jnp.uint8))
    ),
    "by bytes": lambda x, i: x.at[jnp.array([200, 1], jnp.uint8), :, jnp.array([1, 2], jnp.uint8)].set(x[:2, :, 0]),
    "in batches": lambda x, i: jax.vmap(lambda a, j, y: a.at[j, 1:3].add(y))(x, i, x[:, 0, 2:4]),
    "derivative": lambda x, i: jax.grad(lambda a: (jnp.diagonal(a, axis1=1, axis2=2) ** 2).sum())(x),
}


@pytest.mark.parametrize("size", [2, 3], ids=["", "of three"])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_windows_that_lie_outside_in_part(mode, size):
    """They are left out as a whole, or moved inside."""
    numbers = jax.lax.ScatterDimensionNumbers((1, 2), (), (0,))
    places = jnp.array([[0], [3], [-1], [4]])

    def f(x, y):
        return jax.lax.scatter_add(x, places, y, numbers, mode=mode)

    y = jnp.asarray(np.random.default_rng(1).standard_normal((4, size, 5), np.float32))
    np.testing.assert_allclose(opsplice.jax.jit(f)(X[:, :, 0], y), jax.jit(f)(X[:, :, 0], y), 1e-6)


def test_forms_that_iree_does_not_take():
    def every(x, i):
        return {name: f(x, i) for name, f in CASES.items()}

    wanted = jax.jit(every)(X, PLACES)
    for name, found in opsplice.jax.jit(every)(X, PLACES).items():
        np.testing.assert_allclose(found, wanted[name], 1e-6, err_msg=name)


def test_models_that_were_exported():
    """A portable artifact has ops of its own."""
    exported = jax.export.export(jax.jit(CASES["rows of windows"]))(X, PLACES.astype(np.int32))
    for model in (exported, exported.serialize()):
        found = opsplice.compile(model).run(None, X, PLACES.astype(np.int32))
        np.testing.assert_allclose(found, CASES["rows of windows"](jnp.asarray(X), PLACES), 1e-6)

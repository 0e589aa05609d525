"""Factorizations and Fourier transforms, for which JAX calls a library: the values are those of that library."""

import itertools

import numpy as np
import pytest
from iree.compiler import ir

import opsplice.jax
from opsplice.matchers.ir.op_names import ops_in
from tests.jax.test_jit import same

jax = pytest.importorskip("jax")
jnp = jax.numpy


def numbers(*shape, seed=0, kind=np.float32):
    random = np.random.default_rng(seed)
    real = random.standard_normal(shape, np.float32)
    return jnp.asarray(real if kind is np.float32 else real + 1j * random.standard_normal(shape, np.float32), kind)


def check(f, *arguments, tolerance=2e-5):
    same(opsplice.jax.jit(f)(*arguments), jax.jit(f)(*arguments), tolerance)


@pytest.mark.parametrize("kind", [np.float32, np.complex64])
def test_factorizations(kind):
    """Of several matrices at a time, in one of which there is no Cholesky factor: it is NaN."""
    square, tall, right = (
        numbers(2, *shape, seed=seed, kind=kind) for seed, shape in enumerate([(5, 5), (5, 3), (5, 2)])
    )
    positive = square @ square.conj().mT + jnp.eye(5)
    positive = positive.at[1].add(-9 * jnp.eye(5))

    def every(square, positive, tall, right):
        lu, pivots, permutation = jax.lax.linalg.lu(square)
        return {
            "cholesky": jnp.linalg.cholesky(positive),
            "lu": (lu, pivots, permutation, jnp.linalg.det(square)),
            "solve": (jnp.linalg.solve(square, right), jnp.linalg.solve(square[0], right[0, :, 0])),
        } | ({} if kind is np.complex64 else {"qr": [jnp.linalg.qr(tall), jnp.linalg.qr(tall.mT)]})

    check(every, square, positive, tall, right)


def test_eigenvalues():
    """Vectors may have either sign: what they make is compared. A matrix that holds NaN has none."""

    def every(a, odd):
        (values, vectors), of_odd = jnp.linalg.eigh(a), jnp.linalg.eigh(odd, UPLO="U", symmetrize_input=False)
        whole = (vectors * values[..., None, :]) @ vectors.mT
        some = jnp.linalg.eigvalsh(a)[..., -2:], jnp.linalg.eigvalsh(a[:, :0, :0])
        return values, whole, of_odd[0], jnp.abs(of_odd[1]), *some, jax.grad(condition)(a[0])

    def condition(a):
        values = jnp.linalg.eigvalsh(a)
        return values[-1] - jnp.square(values[0])

    a = numbers(2, 6, 6)
    check(every, (a + a.mT).at[1, 2, 3].set(jnp.nan).at[1, 3, 2].set(jnp.nan), numbers(5, 5, seed=1), tolerance=2e-4)


@pytest.mark.parametrize("scale", [1e-25, 1e25, 0])
def test_values_of_small_and_large_matrices(scale):
    """Squares of their numbers are 0, or infinite."""

    def every(a):
        return [values / (scale or 1) for values in (jnp.linalg.eigvalsh(a), jnp.linalg.svd(a)[1])]

    a = numbers(4, 4)
    check(every, (a + a.T) * scale)


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 6), (4, 4)])
def test_singular_values(shape):
    """Of tall, wide and square matrices, in one of which a column is another one, so that one value is 0."""

    def every(a):
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        whole_left, _, whole_right = jnp.linalg.svd(a)
        ones = [whole_left @ whole_left.mT, whole_right @ whole_right.mT]
        return values, (left * values[..., None, :]) @ right, ones, jnp.linalg.pinv(a, rtol=1e-4)

    a = numbers(*shape)
    check(every, a.at[..., 1].set(a[..., 0]) if shape == (4, 4) else a, tolerance=5e-5)


@pytest.mark.parametrize("left", [False, True])
def test_triangles(left):
    """The other half of the matrix, and the diagonal if it counts as ones, are not read."""
    shape = (2, 4, 3) if left else (2, 3, 4)

    def solved(a, b, lower, **form):
        other = jnp.triu(jnp.ones((4, 4)), 1) if lower else jnp.tril(jnp.ones((4, 4)), -1)
        other = other + jnp.eye(4) if form["unit_diagonal"] else other
        a = jnp.where(other > 0, jnp.nan, a)
        return jax.lax.linalg.triangular_solve(a, b, lower=lower, left_side=left, **form)

    def every(a, b):
        ways = itertools.product([False, True], repeat=3)
        return [solved(a, b, one, transpose_a=two, unit_diagonal=three) for one, two, three in ways]

    check(every, numbers(2, 4, 4) + 3 * jnp.eye(4), numbers(*shape, seed=1))


@pytest.mark.parametrize("size", [12, 74])
def test_fourier_transforms(size):
    """Of sizes with factors and without, along one dim and several."""

    def every(x, z):
        half = jnp.fft.rfft2(x)
        one_way = jnp.fft.fft(z), jnp.fft.ifft(z, axis=0), jnp.fft.fft2(z), jnp.fft.ifft2(z), jnp.fft.rfft(x), half
        return *one_way, jnp.fft.irfft(half, size), jnp.fft.irfft2(half, x.shape), jnp.fft.rfftn(x[None])

    check(every, numbers(6, size), numbers(6, size, seed=1, kind=np.complex64), tolerance=1e-4)


def test_within_loops_and_derivatives():
    def f(x):
        positive = x @ x.T + jnp.eye(4)
        steps = jax.lax.fori_loop(0, 2, lambda _, y: jnp.linalg.cholesky(y) + positive, positive)
        return jnp.sum(steps) + jnp.linalg.slogdet(positive)[1]

    check(f, numbers(4, 4))
    check(jax.scipy.linalg.expm, numbers(4, 4) / 4)
    check(jax.grad(lambda x: jnp.log(jnp.diagonal(jnp.linalg.cholesky(x @ x.T + jnp.eye(4)))).sum()), numbers(4, 4))


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 2e-5), (jnp.bfloat16, 1e-2)])
def test_gradients_of_pools_whose_windows_overlap(kind, tolerance):
    """Of the largest and the smallest, in one dim, two and three, with equal elements and zeros around."""

    def pooled(x, least, combine, window, steps, padding):
        return jax.lax.reduce_window(x, np.asarray(least, x.dtype), combine, window, steps, padding)

    def every(image, row):
        largest = pooled(image, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        smallest = pooled(image, jnp.inf, jax.lax.min, (1, 2, 3, 1), (1, 1, 2, 1), "VALID")
        deep = pooled(image, -jnp.inf, jax.lax.max, (1, 2, 2, 2), (1, 1, 1, 1), [(0, 0), (1, 0), (0, 1), (1, 1)])
        long = pooled(row, -jnp.inf, jax.lax.max, (1, 4), (1, 3), [(0, 0), (2, 2)])
        return sum((part.astype(jnp.float32) ** 2).sum() for part in (largest, smallest, deep, long))

    image = jnp.round(numbers(2, 9, 8, 3) * 2).astype(kind)
    check(jax.grad(every, (0, 1)), image, numbers(2, 11, seed=1).astype(kind), tolerance=tolerance)


def test_approximate_first_elements():
    """Of the largest and the smallest, along any dim, and of more than are wanted."""

    def every(x):
        ways = [jax.lax.approx_max_k, jax.lax.approx_min_k]
        return [first(x, 3, reduction_dimension=dim, aggregate_to_topk=dim == 0) for first in ways for dim in (0, 1)]

    check(every, numbers(9, 5), tolerance=0)


def test_random_numbers_are_drawn_without_loops():
    """A round of a loop takes IREE longer than what Threefry does in it."""

    def draw(key):
        first, second = jax.random.split(key)
        return jax.random.normal(first, (3, 5)), jax.random.bits(second, (7,), "uint8"), jax.random.fold_in(key, 3)

    key = jax.random.key(5)
    check(draw, key, tolerance=1e-6)
    with ir.Context():
        module = ir.Module.parse(opsplice.jax.jit(draw).lower(key).source.content)
        assert not ops_in(module.operation, "stablehlo.while")

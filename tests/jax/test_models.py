"""Models of JAX's libraries through `opsplice.jax.jit`, with the transformer sample's kernels: numbers and matches."""

import inspect

import numpy as np
import pytest

jax = pytest.importorskip("jax")
splice = pytest.importorskip("opsplice.jax")
jnp = jax.numpy

WIDTH = 32
# Of an MLP behind a norm, as each library writes it.
LAYERS = ["layernorm", "linear_bias_gelu", "linear_bias", "softmax"]


@pytest.fixture(scope="module")
def spec(request):
    return request.config.rootpath / "samples" / "transformer" / "transformer.splice"


@pytest.fixture(scope="module")
def x():
    return jax.random.normal(jax.random.key(0), (4, WIDTH))


def kernels(function):
    """The kernels of a function's only program, in the order of the program, without the layout of weights."""
    (program,) = function.report().programs
    return [each.kernel.removesuffix("_kn").removesuffix("_nk") for each in program.report.replacements]


def check(model, spec, *arguments, wanted=LAYERS, tolerance=1e-5):
    fast = splice.jit(model, specs=[spec])
    found, expected = fast(*arguments), model(*arguments)
    compare = lambda ours, theirs: np.testing.assert_allclose(ours, theirs, tolerance, tolerance)  # noqa: E731
    jax.tree.map(compare, found, expected)
    assert kernels(fast) == wanted
    return fast


def test_flax_linen(spec, x):
    nn = pytest.importorskip("flax.linen")

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            hidden = nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))
            return nn.softmax(nn.Dense(WIDTH)(hidden))

    layer = Layer()
    fast = check(layer.apply, spec, layer.init(jax.random.key(1), x), x)
    (program,) = fast.report().programs
    places = {each.location.rpartition(":")[0] for each in program.report.replacements}
    line = inspect.unwrap(Layer.__call__).__code__.co_firstlineno  # of its decorator
    assert places == {f"{__file__}:{line + 2}", f"{__file__}:{line + 3}"}


def test_flax_nnx_as_an_argument_and_closed_over(spec, x):
    nnx = pytest.importorskip("flax.nnx")

    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.up, self.down = nnx.Linear(WIDTH, 64, rngs=rngs), nnx.Linear(64, WIDTH, rngs=rngs)

        def __call__(self, x):
            return nnx.softmax(self.down(nnx.gelu(self.up(self.norm(x)))))

    layer = Layer(nnx.Rngs(0))
    check(lambda layer, x: layer(x), spec, layer, x)
    fast = check(lambda x: layer(x), spec, x)
    (weights,) = fast.program(x).parameters
    assert sorted(each.shape for each in weights.arrays.values()) == [(32,), (32,), (32,), (32, 64), (64,), (64, 32)]


def test_equinox(spec, x):
    eqx = pytest.importorskip("equinox")

    class Layer(eqx.Module):
        norm: eqx.nn.LayerNorm
        up: eqx.nn.Linear
        down: eqx.nn.Linear

        def __call__(self, x):
            return jax.nn.softmax(self.down(jax.nn.gelu(self.up(self.norm(x)))))

    first, second = jax.random.split(jax.random.key(1))
    layer = Layer(eqx.nn.LayerNorm(WIDTH), eqx.nn.Linear(WIDTH, 64, key=first), eqx.nn.Linear(64, WIDTH, key=second))
    check(lambda layer, x: jax.vmap(layer)(x), spec, layer, x)


def test_haiku(spec, x):
    hk = pytest.importorskip("haiku")

    def layer(x):
        hidden = jax.nn.gelu(hk.Linear(64)(hk.LayerNorm(-1, True, True)(x)))
        return jax.nn.softmax(hk.Linear(WIDTH)(hidden))

    model = hk.without_apply_rng(hk.transform(layer))
    check(model.apply, spec, model.init(jax.random.key(1), x), x)


def test_a_transformer_block_is_trained_as_jax_trains_it(spec, x):
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            normed = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=2, deterministic=True)(normed, normed)
            hidden = nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))
            return x + nn.Dense(WIDTH)(hidden)

    block, optimizer = Block(), optax.adam(1e-2)
    sequence = jnp.stack([x, -x])
    weights = block.init(jax.random.key(1), sequence)

    def step(weights, state, x):
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((block.apply(w, x) - 1) ** 2))(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, loss

    fast = splice.jit(step, specs=[spec], donate_argnums=(0, 1))
    plain = jax.jit(step)
    ours, theirs = [(jax.tree.map(jnp.copy, weights), optimizer.init(weights), None) for _ in range(2)]
    for _ in range(5):
        ours, theirs = fast(*ours[:2], sequence), plain(*theirs[:2], sequence)
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-4)
    assert float(ours[2]) < 0.8 * float(jnp.mean((block.apply(weights, sequence) - 1) ** 2))
    assert len(fast.report().programs) == 1
    assert "softmax" in kernels(fast)


def test_loops_and_branches(spec):
    def rnn(weights, state, inputs, stop):
        def cell(state, x):
            state = jnp.tanh(x @ weights + state)
            return state, jax.nn.softmax(state)

        state, outputs = jax.lax.scan(jax.checkpoint(cell), state, inputs)
        state = jax.lax.while_loop(lambda each: each.sum() < stop, lambda each: each + 1, state)
        return jax.lax.cond(stop > 3, jnp.sin, jnp.cos, state), outputs

    weights = jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)) / 8
    inputs = jax.random.normal(jax.random.key(1), (5, 2, WIDTH))
    check(rnn, spec, weights, jnp.zeros((2, WIDTH)), inputs, 100.0, wanted=["softmax"])
    gradient = lambda *given: jax.grad(lambda w: rnn(w, *given[1:3], -1e9)[1][:, 0, 0].sum())(given[0])  # noqa: E731
    plain = splice.jit(gradient)
    given = (weights, jnp.zeros((2, WIDTH)), inputs)
    np.testing.assert_allclose(plain(*given), gradient(*given), rtol=1e-3, atol=1e-5)


def test_loops_that_update_rows_in_place():
    """The caller's array stays as it is, call by call, on several threads."""

    def loop(x, count):
        def turn(_, state):
            x, count = state
            x = x.at[jnp.array([1, 2, 1])].add(x * 0.5)
            return x - 0.2 * x.sum(0, keepdims=True), count + 1

        return jax.lax.fori_loop(0, 3, turn, (x, count))

    x, count = jnp.arange(9.0).reshape(3, 3), jnp.zeros((3, 3), int)
    fast, wanted = splice.jit(loop, device="local-task"), loop(x, count)
    for _ in range(30):
        jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, 1e-5), fast(x, count), wanted)

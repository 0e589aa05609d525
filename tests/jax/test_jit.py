"""`opsplice.jax.jit` beside `jax.jit`: the same values, types and pytrees, whatever goes in."""

import functools
import warnings

import numpy as np
import pytest

import opsplice

jax = pytest.importorskip("jax")
jnp = jax.numpy

SOFTMAX = """
pattern softmax(x: tensor<...m x n x f32>) {
  e = exp(subf(x, broadcast[...m -> ...m n](reduce maximumf[...m n -> ...m](x))))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}

annotate softmax with {seen}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("jax") / "softmax.splice"
    path.write_text(SOFTMAX)
    return path


def same(found, wanted, tolerance=1e-6):
    """Leaf by leaf: types, weak types, shapes and values."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(ours, jax.Array)
        assert ours.aval == theirs.aval
        if jax.dtypes.issubdtype(ours.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        wide = np.complex128 if jnp.iscomplexobj(ours) else np.float64
        np.testing.assert_allclose(np.asarray(ours).astype(wide), np.asarray(theirs).astype(wide), tolerance, tolerance)


def test_values_types_and_trees_are_those_of_jax():
    weights = np.random.default_rng(0).standard_normal((32, 32), np.float32)
    mask, nibbles = np.arange(2048) % 3 == 0, jnp.arange(2048).reshape(32, 64).astype(jnp.int4)

    def everything(arrays, key, scalar, flag, *, none=None):
        first, second = jax.random.split(key)
        return {
            "key": second,
            "random": jax.random.normal(first, (3, 2)) + jax.random.uniform(first),
            "turned constants": arrays["f32"] @ weights.T,
            "large constants": (arrays["f32"] @ weights, jnp.where(mask, 1, 0).sum(), none),
            "nibbles": (arrays["f32"] @ nibbles.astype(jnp.float32), nibbles[:2], arrays["uint4"].astype(jnp.int32)),
            "types": {name: value + value for name, value in arrays.items() if name != "bool"},
            "weak": (scalar * 2, jnp.full((2,), 3.0), jnp.float16(1) * scalar),
            "bool": (~arrays["bool"], flag, jnp.logical_and(flag, arrays["bool"])),
            "empty": (arrays["empty"].T, jnp.zeros((0, 3), jnp.bfloat16)),
            "as it is": (arrays["uint8"], arrays["f32"]),
            "unsigned": (arrays["u32"] // 3, arrays["uint8"] > 200),
        }

    kinds = [jnp.bfloat16, jnp.float16, jnp.int8, jnp.int32, jnp.uint8, jnp.complex64, jnp.int4, jnp.uint4]
    arrays = {kind.dtype.name: jnp.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    arrays |= {"f32": np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 32), "bool": np.array([True, False])}
    arrays |= {"empty": jnp.zeros((0, 4)), "0-d": jnp.float32(3), "u32": np.uint32(2**32 - 1), "f64": np.ones(3)}
    given = (arrays, jax.random.split(jax.random.key(3, impl="rbg"))[0], 1.5, True)
    same(opsplice.jax.jit(everything)(*given), jax.jit(everything)(*given))


def test_indices_outside_of_an_array_read_the_nearest_and_write_nothing():
    def f(x, i):
        read = x[i[0]], jnp.take(x, i, mode="clip"), x[i, i], jnp.take(x, i), jnp.take(x, i[0, 0], 1)
        one, column = i[1, 2], x.at[:, i[1, 1]]
        written = x.at[i].set(7), x.at[i, i].add(2), x.at[one].max(99), x.at[i[0]].multiply(x), column.set(0)
        sliced = jax.lax.dynamic_slice(x, (one, one), (2, 2)), jax.lax.dynamic_update_slice(x, x[:2] + 1, (one, one))
        return read, written, sliced

    for far in (9, 2**31 - 1, -(2**31), -4):
        x, i = jnp.arange(12.0).reshape(3, 4), jnp.array([[-9, -1, 0], [2, 3, far]])
        given = np.array(x)
        same(opsplice.jax.jit(f)(x, i), jax.jit(f)(x, i))
        np.testing.assert_array_equal(x, given)


def test_a_crash_in_a_child_is_an_error(monkeypatch):
    def crashed(job, _on_progress):
        raise opsplice.OpspliceError(f"the compiler crashed on {job.source.name}")

    monkeypatch.setattr("opsplice.compiling.compilation.run_isolated", crashed)
    with pytest.raises(opsplice.OpspliceError, match="crashed"):
        opsplice.jax.jit(lambda x: x + 5, isolate=True, cache=False)(np.ones(3, np.float32))


def test_x64_is_as_the_context_says():
    f = opsplice.jax.jit(lambda x, n: (x * 1.1 + n, n))
    x, n = np.array([1.0, 2.0]), np.int64(2**31 - 1)
    same(f(x, n), jax.jit(lambda x, n: (x * 1.1 + n, n))(x, n))
    with jax.enable_x64(True):
        same(f(x, n), jax.jit(lambda x, n: (x * 1.1 + n, n))(x, n), 1e-15)
        assert f(x, n)[0].dtype == jnp.float64
    assert f(x, n)[0].dtype == jnp.float32
    assert len(f.report().programs) == 2


def test_a_program_for_each_set_of_shapes_and_static_arguments():
    traced = []

    @opsplice.jax.jit(static_argnames=("mode", "count"))
    def f(x, mode, *, count=1, y=None):
        """Its doc."""
        traced.append((mode, count))
        return x * count if mode == "scale" else x + (0 if y is None else y)

    assert f.__name__ == "f"
    assert f.__doc__ == "Its doc."
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(f(x, "scale", count=3), x * 3)
    np.testing.assert_array_equal(f(x + 1, mode="scale", count=3), (x + 1) * 3)
    np.testing.assert_array_equal(f(x, "add", y=x), x + x)
    np.testing.assert_array_equal(f(2.0, "scale", count=3), 6.0)
    assert traced == [("scale", 3), ("scale", 3), ("add", 1), ("scale", 3)]  # by place and by name are two, as for JAX
    assert [each.signature for each in f.report().programs] == [
        "f(float32[3])",
        "f(float32[3])",
        "f(float32[3], y=float32[3])",
        "f(~float32[])",
    ]
    with pytest.raises(ValueError, match="unhashable"):
        f(x, ["scale"])
    with pytest.raises(TypeError, match="str"):
        f("x", "scale")


def test_static_arguments_by_number():
    class Model:
        @functools.partial(opsplice.jax.jit, static_argnums=(0, -1))
        def call(self, x, n):
            return x[:n]

    model = Model()
    np.testing.assert_array_equal(model.call(jnp.arange(4), 2), [0, 1])
    np.testing.assert_array_equal(model.call(jnp.arange(4), 3), [0, 1, 2])


def test_donated_arrays_are_deleted_and_results_are_no_ones_memory():
    f = opsplice.jax.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = jnp.ones(16), np.ones(16, np.float32)
    total, given = f(x, y)
    assert x.is_deleted()
    y[:] = 5
    np.testing.assert_array_equal(total, np.full(16, 2))
    np.testing.assert_array_equal(given, np.ones(16))
    with pytest.raises(RuntimeError, match="has been deleted"):
        f(x, y)


def test_transformations_inside_are_compiled_and_matched(spec):
    def loss(w, x):
        return jnp.log(jax.nn.softmax(x @ w)).mean()

    w, x = np.random.default_rng(1).standard_normal((2, 8, 8), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inner = opsplice.jax.jit(loss, specs=[spec])
        step = opsplice.jax.jit(jax.value_and_grad(inner), specs=[spec])
        same(step(w, x), jax.value_and_grad(loss)(w, x), 1e-5)
    (program,) = step.report().programs
    (found, *_) = program.report.replacements
    assert found.pattern == "softmax"
    assert found.location.partition(":")[0] == __file__
    assert "test_jit.py" in str(step.report())


def test_transformations_around_it_are_those_of_jax_and_say_so(spec):
    f = opsplice.jax.jit(lambda x: jnp.sin(x) * 2, specs=[spec])
    x = jnp.linspace(0, 1, 4)
    with pytest.warns(opsplice.jax.NotSplicedWarning, match="put opsplice.jax.jit outermost") as warned:
        derivative = jax.grad(f)(0.5)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        np.testing.assert_allclose(derivative, 2 * np.cos(0.5), rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(f)(x), np.sin(x) * 2, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(lambda x: f(x) + f(jnp.zeros(4)))(x), np.sin(x) * 2, rtol=1e-6)
    assert f.report().programs == ()
    assert str(f.report()) == "no program was compiled so far"


def test_a_function_of_a_tracer_is_run_by_jax(spec):
    def outer(w):
        return opsplice.jax.jit(lambda x: x * w, specs=[spec])(jnp.float32(3))

    with pytest.warns(opsplice.jax.NotSplicedWarning):
        assert jax.grad(outer)(2.0) == 3.0


def test_patterns_pass_complex_constants_over(spec):
    f = opsplice.jax.jit(lambda x: x * jnp.array([1 + 2j, 3 - 1j]), specs=[spec])
    np.testing.assert_allclose(f(jnp.ones(2)), [1 + 2j, 3 - 1j])
    # The library's patterns read as far as equal ones.
    of_transforms = opsplice.jax.jit(
        jax.grad(lambda x: (jnp.fft.irfft(jnp.fft.rfft(x) * 2) ** 3).sum()), specs=["opsplice_kernels"]
    )
    assert not of_transforms.lower(jnp.ones((3, 12))).match().replacements


def schur(x):
    return jax.scipy.linalg.schur(x)[0] + 1


def test_what_iree_cannot_compile_names_the_line():
    with pytest.raises(opsplice.OpspliceError) as error:
        opsplice.jax.jit(schur)(jnp.eye(4))
    line = schur.__code__.co_firstlineno + 1
    assert error.value.message == "IREE cannot compile schur(float32[4,4]): it has no lapack_sgees_ffi"
    assert f"{__file__}:{line}:" in error.value.details
    assert "return jax.scipy.linalg.schur(x)[0] + 1" in error.value.details
    assert error.value.hint == "leave that part to JAX: outside of the function, or all of it with fallback=True"


def test_fallback_runs_it_by_jax_and_says_so():
    f = opsplice.jax.jit(schur, fallback=True)
    with pytest.warns(opsplice.jax.NotSplicedWarning, match="lapack_sgees_ffi") as warned:
        np.testing.assert_allclose(f(4 * jnp.eye(4)), 4 * np.eye(4) + 1)
    assert warned[0].filename == __file__
    assert str(f.report()).startswith("schur(float32[4,4])\n  run by JAX: ")


def test_arguments_of_jit_that_it_does_not_take():
    with pytest.raises(TypeError, match=r"takes no 'in_shardings'; .*static_argnums"):
        opsplice.jax.jit(lambda x: x, in_shardings=None)


def test_disable_jit_runs_the_python_function():
    f = opsplice.jax.jit(lambda x: float(x) + 1)
    with jax.disable_jit():
        assert f(jnp.float32(2)) == 3.0


def test_a_program_is_saved_with_its_weights_and_runs_without_jax(tmp_path):
    weights = np.random.default_rng(0).standard_normal((32, 64), np.float32)
    f = opsplice.jax.jit(lambda tree: {"y": tree["x"] @ weights})
    x = np.ones((2, 32), np.float32)
    program = f.program({"x": jax.ShapeDtypeStruct((2, 32), jnp.float32)})
    program.save(tmp_path / "model.vmfb")
    assert (tmp_path / "model.irpa").stat().st_size > weights.nbytes
    np.testing.assert_allclose(opsplice.load(tmp_path / "model.vmfb").run(None, x), x @ weights, rtol=1e-5)


def test_explain_takes_the_arguments_of_a_call(spec):
    def layer(x):
        e = jnp.exp(x)
        return e / e.sum(-1, keepdims=True)

    f = opsplice.jax.jit(layer, specs=[spec])
    (told,) = f.explain(jnp.ones((2, 8))).patterns
    assert told.misses[0].location.startswith(f"{__file__}:")
    line = layer.__code__.co_firstlineno + 2
    (told,) = f.lower(jnp.ones((2, 8))).explain(pattern="softmax", at=f"test_jit.py:{line}").patterns
    assert told.misses[0].location.startswith(f"{__file__}:{line}:")
    assert not f.lower(jnp.ones((2, 8))).match().replacements

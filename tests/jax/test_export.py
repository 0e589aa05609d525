"""What `jax.export` and `jax.jit(...).lower` give, and files of StableHLO, wherever a model is taken."""

import json

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from tests.command_line import opsplice as command

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
SOFTMAX = """
pattern softmax(x: tensor<...m x n x f32>) {
  e = exp(subf(x, broadcast[...m -> ...m n](reduce maximumf[...m n -> ...m](x))))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}

annotate softmax with {seen}
"""


@pytest.fixture(scope="module")
def exported():
    return jax.export.export(jax.jit(jax.nn.softmax))(jax.ShapeDtypeStruct(X.shape, X.dtype))


def test_what_lower_gives_is_a_model():
    program = opsplice.compile(jax.jit(jnp.tanh).lower(X))
    np.testing.assert_allclose(program.run(None, X), np.tanh(X), rtol=1e-6)


def test_keys_leave_sharding_constraints_which_mean_nothing_on_one_device():
    def f(key, x):
        first, second = jax.random.split(key)
        return jax.random.uniform(first, x.shape) + x, second

    key = jax.random.key(7)
    exported = jax.export.export(jax.jit(f))(key, X)
    assert b"sdy\0" in exported.mlir_module_serialized
    found, new = opsplice.compile(exported).run(None, jax.random.key_data(key), X)
    wanted, wanted_key = f(key, X)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_array_equal(new.view(np.uint32), jax.random.key_data(wanted_key))
    same, _ = opsplice.jax.jit(jax.export.deserialize(exported.serialize()).call)(key, X)
    np.testing.assert_array_equal(same, found)
    with pytest.raises(OpspliceError) as error:
        opsplice.match(exported.mlir_module_serialized, [])
    assert error.value.hint.endswith("give the jax.export.Exported itself")


def test_a_function_spread_over_devices_is_refused():
    mesh = jax.sharding.AbstractMesh((2,), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    spread = opsplice.jax.jit(lambda x: jax.lax.with_sharding_constraint(x, rows) + 1, fallback=False)
    with pytest.raises(OpspliceError, match="sharded over 2 devices") as error:
        spread(X)
    assert "without a mesh" in error.value.hint


def test_symbolic_shapes_say_what_to_do():
    (rows,) = jax.export.symbolic_shape("rows")
    symbolic = jax.export.export(jax.jit(jax.nn.softmax))(jax.ShapeDtypeStruct((rows, 8), jnp.float32))
    portable = symbolic.mlir_module_serialized
    for attempt in (lambda: opsplice.match(portable, []), lambda: opsplice.jax.jit(symbolic.call)(X)):
        with pytest.raises(OpspliceError) as error:
            attempt()
        assert error.value.hint.endswith("export the model for each shape it is called with")
    with pytest.raises(OpspliceError, match="the dim 'rows' of the JAX model is open") as error:
        opsplice.compile(symbolic)
    assert error.value.hint == "say how large it is: --dim rows=8, or dims={'rows': 8}"
    with pytest.raises(OpspliceError, match="has no dim 'columns'"):
        opsplice.compile(symbolic.serialize(), dims={"columns": 8})


def test_what_exports_are_serialized_to_is_a_model(exported, tmp_path):
    (rows,) = jax.export.symbolic_shape("rows")
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    symbolic = jax.export.export(jax.jit(lambda key, x: jax.nn.softmax(x) + jax.random.uniform(key, (8,))))(
        key, jax.ShapeDtypeStruct((rows, 8), jnp.float32)
    )
    model = tmp_path / "softmax.export"
    model.write_bytes(exported.serialize())
    found = opsplice.compile(model).run(None, X)
    np.testing.assert_allclose(found, jax.nn.softmax(X), rtol=1e-6)
    key = jax.random.key(3)
    found = opsplice.compile(symbolic, dims={"rows": 4}).run(None, jax.random.key_data(key), X)
    np.testing.assert_allclose(found, jax.nn.softmax(X) + jax.random.uniform(key, (8,)), rtol=1e-6)
    with pytest.raises(OpspliceError, match="is damaged, or of another version of JAX"):
        opsplice.compile(bytes(exported.serialize())[:1500])


@pytest.mark.parametrize("isolation", [[], ["--no-isolate"]], ids=["isolated", "in the process"])
def test_files_of_stablehlo_are_models_of_all_commands(exported, isolation, tmp_path):
    spec, model = tmp_path / "softmax.splice", tmp_path / "model.stablehlo"
    spec.write_text(SOFTMAX)
    model.write_bytes(exported.mlir_module_serialized)
    matched = command("match", model, f"--spec={spec}", "--json", *isolation, check=True)
    (found,) = json.loads(matched.stdout)["matches"]
    assert found["pattern"] == "softmax"
    assert "softmax" in command("explain", model, f"--spec={spec}", *isolation, check=True).stdout
    np.save(tmp_path / "x.npy", X)
    files = f"--input=@{tmp_path}/x.npy", f"--output=@{tmp_path}/y.npy"
    command("run", model, f"--spec={spec}", "--iree-llvmcpu-target-cpu=generic", *files, *isolation, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), jax.nn.softmax(X), rtol=1e-5)

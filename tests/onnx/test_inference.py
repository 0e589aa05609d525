from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

import ml_dtypes
import onnx
from onnx import TensorProto

import opsplice.onnx
from opsplice.common.errors import OpspliceError
from tests.onnx.models import RANDOM, make_model, node

# Each type of elements that IREE computes with, and what numpy calls it.
TYPES = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT32": np.uint32,
}


@pytest.fixture(scope="module")
def session(mlp):
    return opsplice.onnx.session(mlp)


@pytest.fixture(scope="module")
def two():
    """Two inputs that share a symbolic dim, two outputs, and a constant that is listed among the inputs."""
    nodes = [node("Add", "a b", "sum"), node("Mul", "a b", "product"), node("Add", "product one", "more")]
    model = make_model(
        nodes,
        {"a": ["n", 4], "b": ["n", 4], "one": [1]},
        {"sum": ["n", 4], "more": ["n", 4]},
        {"one": np.ones(1, np.float32)},
    )
    model.producer_name, model.model_version = "tests", 7
    onnx.helper.set_model_props(model, {"license": "none"})
    return model


@pytest.fixture(scope="module")
def pair(two):
    return opsplice.onnx.session(two)


def error_of(session, feed, names=None):
    with pytest.raises(OpspliceError) as caught:
        session.run(names, feed)
    return caught.value


def test_it_is_used_like_onnxruntimes(two):
    ort = pytest.importorskip("onnxruntime")
    feed = {"b": np.full((3, 4), 2, np.float32), "a": RANDOM.normal(size=(3, 4)).astype(np.float32)}
    seen = []
    for package in (ort, opsplice.onnx):
        session = package.InferenceSession(two.SerializeToString(), providers=["CPUExecutionProvider"])
        described = [(each.name, each.type, each.shape) for each in (*session.get_inputs(), *session.get_outputs())]
        about = session.get_modelmeta()
        properties = (about.producer_name, about.version, about.graph_name, about.custom_metadata_map)
        results = session.run(["more", "sum"], feed), session.run(None, feed), session.run([], feed)
        listed = [array.tolist() for each in results for array in each]
        seen.append((described, properties, session.get_providers(), listed))
    assert seen[0] == seen[1]


def test_a_session_shows_what_its_rules_did(session):
    assert session.report.replacements == ()
    assert session.program.vmfb


def test_every_type_comes_back_as_it_is():
    """0-d, empty and full tensors of each type; numbers that only the right sign and width keep."""
    inputs, outputs, nodes, feed = {}, {}, [], {}
    for name, dtype in TYPES.items():
        for shape in [(), (0, 2), (2, 2)]:
            value = f"{name}{len(shape)}{shape[:1] == (0,)}"
            inputs[value], outputs[f"{value}_sum"] = [(getattr(TensorProto, name), shape)] * 2
            nodes.append(node("Add", f"{value} {value}", f"{value}_sum"))
            feed[value] = np.full(shape, 100 if name == "UINT8" else 50).astype(dtype)
    inputs["truth"] = outputs["falsehood"] = (TensorProto.BOOL, [3])
    nodes.append(node("Not", "truth", "falsehood"))
    feed["truth"] = np.array([True, False, True])
    session = opsplice.onnx.session(make_model(nodes, inputs, outputs), providers=["local-sync"])
    results = session.run(None, feed)
    assert results.pop().tolist() == [False, True, False]
    for (value, array), result in zip(feed.items(), results, strict=False):
        assert (result.dtype, result.shape) == (array.dtype, array.shape), value
        np.testing.assert_array_equal(result.astype(np.float64), array.astype(np.float64) * 2, err_msg=value)


def test_inputs_are_checked_by_name(session, pair):
    x = np.zeros((3, 64))
    error = error_of(session, {"x": x})
    assert error.message == "the input 'x' is float64[3, 64], the model takes tensor(float)[batch, 64]"
    assert error.hint == "convert it: x.astype(np.float32)"
    assert "the input 'x' is float32[64]" in error_of(session, {"x": x[0].astype(np.float32)}).message
    assert error_of(session, {"x": np.zeros((1, 65), np.float32)}).hint == "dim 1 is 65, and the model has 64"
    assert error_of(session, {}).message == "the input 'x' is missing"
    assert error_of(session, {"x": x, "y": x}).message == "the model has no input 'y'"
    assert error_of(session, {"x": x}, ["q"]).message == "the model has no output 'q'"
    assert "'x' is <U1" in error_of(session, {"x": ["a"]}).message
    rows = [np.zeros((count, 4), np.float32) for count in (2, 3)]
    assert error_of(pair, {"a": rows[0], "b": rows[1]}).hint == "'n' is 3 here, and 2 in the input 'a'"
    given = {"a": rows[0], "b": rows[0], "one": np.ones(1, np.float32)}
    assert error_of(pair, given).message == "'one' is a constant of the model, and cannot be given"


def test_numbers_and_other_orders_of_memory_are_taken(pair):
    a = np.arange(8, dtype=np.float32).reshape(4, 2).T
    (found,) = pair.run(["sum"], {"a": a, "b": [[1, 2, 3, 4], [5, 6, 7, 8]]})
    np.testing.assert_array_equal(found, a + np.arange(1, 9).reshape(2, 4))
    (found,) = pair.run(["sum"], {"a": a[:, ::-1], "b": a.astype(">f4").astype("<f4")})
    np.testing.assert_array_equal(found, a[:, ::-1] + a)


def test_results_are_memory_of_their_own(pair):
    a = np.ones((2, 4), np.float32)
    first = pair.run(None, {"a": a, "b": a})
    kept = [each.copy() for each in first]
    pair.run(None, {"a": a * 5, "b": a})
    np.testing.assert_array_equal(first, kept)
    first[0][:] = 9
    assert a.max() == 1


def test_threads_share_a_session(session):
    inputs = [RANDOM.normal(size=(count, 64)).astype(np.float32) for count in (1, 5, 9, 13)] * 4
    alone = [session.run(None, {"x": x})[0] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: session.run(None, {"x": x})[0], inputs))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_providers(mlp):
    assert {"CPUExecutionProvider", "local-sync"} <= set(opsplice.onnx.get_available_providers())
    with pytest.raises(OpspliceError, match="there is no provider 'NoSuchProvider'"):
        opsplice.onnx.session(mlp, providers=["NoSuchProvider"])
    if "CUDAExecutionProvider" not in opsplice.onnx.get_available_providers():
        with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not available on this machine"):
            session = opsplice.onnx.session(mlp, providers=["CUDAExecutionProvider", ("CPUExecutionProvider", {})])
        assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="sess_options are for onnxruntime"):
        opsplice.onnx.InferenceSession(mlp, object())


def test_a_session_wants_an_onnx_model():
    with pytest.raises(OpspliceError, match="is not an ONNX model"):
        opsplice.onnx.session("module {}\n")


def test_onnxs_interface_of_backends(two):
    backend = opsplice.onnx.backend
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    a = np.ones((2, 4), np.float32)
    results = backend.run_model(two, [a, a])
    np.testing.assert_array_equal(results, [a * 2, a * 2])
    assert results.more is results[1]
    with pytest.raises(OpspliceError, match="device CUDA"):
        backend.prepare(two, "CUDA")

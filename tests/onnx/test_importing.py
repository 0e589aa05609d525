import copy

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

import onnx
from onnx import TensorProto, helper, numpy_helper

import opsplice
import opsplice.onnx
from opsplice import cli, frontends
from opsplice.common.errors import OpspliceError
from tests.onnx.models import RANDOM, make_model, node

CPU = ["--iree-llvmcpu-target-cpu=host"]
SPLICE = """
pattern rows(x: tensor<...m x n x f32>) {
  diff = subf(x, broadcast[...m -> ...m n](reduce maximumf[...m n -> ...m](x)))
  e = exp(diff)
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}
kernel softmax(x: f32[...m, n]) -> f32[...m, n] { cpu "softmax.c" as bitcode }
replace rows with softmax(x)
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "softmax.c").write_text("void softmax(const float *x, float *y, long m, long n) {}")
    (tmp_path / "s.splice").write_text(SPLICE)
    return str(tmp_path / "s.splice")


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSPLICE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def error_of(model, **options):
    with pytest.raises(OpspliceError) as caught:
        frontends.load(model, **options)
    return caught.value


def save_apart(model, folder):
    # What is saved is changed by it.
    whole = copy.deepcopy(model)
    onnx.save(whole, folder / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)


def weight_of(model):
    return onnx.numpy_helper.to_array(model.graph.initializer[0])


def test_a_file_bytes_and_a_model_are_taken(mlp, tmp_path):
    onnx.save(mlp, tmp_path / "m.onnx")
    x = RANDOM.normal(size=(3, 64)).astype(np.float32)
    program = opsplice.compile(tmp_path / "m.onnx", flags=CPU)
    np.testing.assert_allclose(program.run("main", x), softmax(x @ weight_of(mlp)), rtol=1e-4, atol=1e-6)
    assert weight_of(mlp).tobytes() not in program.vmfb
    assert str(program.functions["main"].inputs[0]) == "tensor<?x64xf32>"
    assert program.functions["main"].inputs[0].name == "x"
    program.save(tmp_path / "m.vmfb")
    loaded = opsplice.load(tmp_path / "m.vmfb")
    np.testing.assert_array_equal(loaded.run("main", x), program.run("main", x))
    for given in (mlp, mlp.SerializeToString()):
        source = frontends.load(given)
        assert source.name == "<ONNX model>"
        assert source.parameters
        assert source.facts["inputs"] == [{"name": "x", "type": "float", "shape": ["batch", 64]}]


def test_integers_keep_their_sign():
    model = make_model([node("Add", "x x", "y")], {"x": (TensorProto.UINT8, [2])}, {"y": (TensorProto.UINT8, [2])})
    result = opsplice.compile(model, flags=CPU).run(None, np.array([1, 100], np.uint8))
    assert result.dtype == np.uint8
    assert result.tolist() == [2, 200]


def test_nodes_are_named_in_reports(mlp, spec):
    report = opsplice.match(mlp, [spec])
    assert [each.location for each in report.replacements] == ["Softmax of z"]


def test_the_commands_take_models(mlp, spec, tmp_path, capsys):
    save_apart(mlp, tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    model, x = str(tmp_path / "m.onnx"), f"--input=@{tmp_path}/x.npy"
    assert cli.main(["run", model, x, "--dim", "batch=3", "--no-isolate"]) == 0
    assert capsys.readouterr().out.startswith("result[0]: 3x32xf32=[0.03125")
    assert cli.main(["match", model, "--dim", "batch=3", f"--spec={spec}", "--no-isolate"]) == 0
    assert "m = 3, n = 32" in capsys.readouterr().out
    assert cli.main(["explain", model, f"--spec={spec}", "--no-isolate"]) == 0
    assert "Softmax of z" in capsys.readouterr().out
    assert cli.main(["capture", model, "--no-isolate"]) == 0
    assert "/layer/MatMul" in capsys.readouterr().out
    assert cli.main(["compile", model, "-o", f"{tmp_path}/m.vmfb", *CPU, "--no-isolate"]) == 0
    assert f"wrote {tmp_path}/m.irpa" in capsys.readouterr().err


def test_nodes_are_pointed_at_by_their_names(mlp, spec):
    found = opsplice.explain(mlp, [spec], at="Softmax of z")
    assert [match.location for pattern in found.patterns for match in pattern.matches] == ["Softmax of z"]
    captured = opsplice.capture(mlp, "Softmax of z")
    assert "contract" not in captured.spec
    assert "reduce maximumf" in captured.spec
    with pytest.raises(OpspliceError, match="cannot tell what 'Softmax of y' points at") as failure:
        opsplice.capture(mlp, "Softmax of y")
    assert failure.value.hint == "did you mean Softmax of z?"


def test_dims_are_bound_by_name(mlp):
    assert frontends.load(mlp, {"batch": 5}).facts["outputs"][0]["shape"] == [5, 32]
    error = error_of(mlp, dims={"bacth": 5})
    assert error.message == "the ONNX model has no symbolic dim 'bacth'"
    assert error.hint == "it has: batch"
    assert "cannot be -1" in error_of(mlp, dims={"batch": -1}).message
    assert "the model has no named dims" in error_of("module {}", dims={"batch": 5}).message


def test_dims_on_the_command_line(mlp, tmp_path, capsys):
    onnx.save(mlp, tmp_path / "m.onnx")
    for given, said in (["batch"], "is not a dim with a size"), (["batch=3", "--dim", "batch=4"], "batch is 3 and 4"):
        with pytest.raises(SystemExit):
            cli.main(["capture", str(tmp_path / "m.onnx"), "--dim", *given])
        assert said in capsys.readouterr().err


# ---- weights in files ------------------------------------------------------------------------------------------------


@pytest.fixture
def external(mlp, tmp_path):
    """The model with its weight in a file, and a way to say where that is."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_apart(mlp, folder)

    def write(**entries):
        model = onnx.load(folder / "m.onnx", load_external_data=False)
        for entry in model.graph.initializer[0].external_data:
            entry.value = entries.get(entry.key, entry.value)
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        return folder / "m.onnx"

    return write


@pytest.mark.parametrize("location", ["../weights", "/etc/passwd", "a/../../weights", ""])
def test_weights_from_outside_of_the_folder_are_refused(external, location):
    assert "not a place in the model's folder" in error_of(external(location=location)).message


def test_links_lead_out_of_the_folder_only_with_the_model(external, tmp_path):
    path = external()
    (tmp_path / "elsewhere").write_bytes((path.parent / "weights").read_bytes())
    (path.parent / "weights").unlink()
    (path.parent / "weights").symlink_to(tmp_path / "elsewhere")
    assert f"a link to {tmp_path}/elsewhere, which is outside" in error_of(path).message
    path.rename(tmp_path / "blob")
    path.symlink_to(tmp_path / "blob")
    assert frontends.load(path).parameters, "the model itself is there, as in a download's cache"


def test_weights_that_are_not_all_there(external):
    path = external()
    weights = path.parent / "weights"
    content = weights.read_bytes()
    weights.write_bytes(content[:100])
    assert error_of(path).message == f"{weights} ends before tensor 'w': it has 100 bytes, 8192 are needed"
    weights.unlink()
    assert error_of(path).message.endswith(f"is in a file 'weights', and {weights} is not there")
    weights.write_bytes(content)
    for entries in {"offset": "-8"}, {"length": "12"}:
        assert "8192 bytes" in error_of(external(**entries)).message
    assert "not a number" in error_of(external(offset="x", length="8192")).message


# ---- models that are none --------------------------------------------------------------------------------------------


def test_damaged_models_are_refused_in_words(mlp, tmp_path):
    content = mlp.SerializeToString()
    path = tmp_path / "m.onnx"
    for damaged in (content[:60], b"\x08\x0a\x00nonsense", b"\x08\x0a"):
        path.write_bytes(damaged)
        assert error_of(path).message.startswith(f"{path} is not an ONNX model")
    path.write_bytes(b"")
    assert error_of(path).message == f"{path} is empty"


@pytest.mark.parametrize("change", [{"data_type": 2**31 - 1}, {"dims": [3]}])
def test_damaged_tensors_are_named(mlp, change):
    model = copy.deepcopy(mlp)
    tensor = model.graph.initializer[0]
    for name in change:
        tensor.ClearField(name)
    tensor.MergeFrom(TensorProto(**change))
    assert error_of(model).message.startswith("tensor 'w' of the ONNX model is damaged: ")


def test_what_iree_has_no_type_for_is_named(mlp):
    strings = make_model(
        [node("Identity", "x", "y")], {"x": (TensorProto.STRING, [2])}, {"y": (TensorProto.STRING, [2])}
    )
    assert error_of(strings).message == "'x' of the ONNX model is a string, which IREE has no type for"
    sequence = make_model([node("SequenceConstruct", "x", "y")], {"x": [2]}, {"y": [2]})
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    sequence.graph.output[0].CopyFrom(helper.make_value_info("y", kind))
    assert error_of(sequence).message.startswith("'y' of the ONNX model is a sequence")


def test_unknown_operators_are_named():
    model = make_model([node("Frob", "x", "y", domain="acme")], {"x": [2]}, {"z": [2]}, domains={"acme": 1})
    model.graph.node.append(node("Relu", "y", "z"))
    error = error_of(model)
    assert error.message == "node 'Frob of y' of the ONNX model is acme.Frob, which is not supported"
    assert error.hint == "export the model without it, or write it with ONNX's operators"


def test_operators_whose_inputs_do_not_fit_say_what_onnx_says():
    nodes = [node("Relu", "x", "r"), node("MatMul", "r y", "z", name="scores"), node("Relu", "z", "o")]
    error = error_of(make_model(nodes, {"x": [2, 3], "y": [4, 5]}, {"o": None}))
    assert error.message == "node 'scores' of the ONNX model has a result 'z' of unknown type"
    assert error.hint == (
        "ONNX refuses the inputs of ai.onnx.MatMul: [ShapeInferenceError] Incompatible dimensions for matrix "
        "multiplication; export the model again"
    )


def test_an_invalid_model_says_what_the_checker_says():
    model = make_model([node("Relu", "nowhere", "y")], {"x": [2]}, {"y": [2]})
    error = error_of(model)
    assert error.message == "the ONNX model is not a valid ONNX model"
    assert "nowhere" in error.details


def test_results_need_neither_type_nor_shape():
    """As onnxruntime takes them: a value in the middle is often added by its name alone."""
    nodes = [node("Conv", "x w", "y", name="c"), node("Relu", "y", "z", name="r"), node("Shape", "z", "s", name="n")]
    model = make_model(nodes, {"x": ["n", 1, 4, 5]}, {"z": None}, {"w": np.ones((2, 1, 3, 3), np.float32)})
    model.graph.output.extend([onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="s")])
    session = opsplice.onnx.session(model)
    told = [(each.name, each.type, each.shape[1:]) for each in session.get_outputs()]
    assert told == [("z", "tensor(float)", [2, 2, 3]), ("y", "tensor(float)", [2, 2, 3]), ("s", "tensor(int64)", [])]
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")
    feed = {"x": np.ones((3, 1, 4, 5), np.float32)}
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    for one, other in zip(session.run(None, feed), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_input_without_a_shape_is_named():
    model = make_model([node("Relu", "x", "y", name="r")], {"x": None}, {"y": ["n"]})
    assert error_of(model).message == "input 'x' of the ONNX model has no shape"


def test_constants_that_are_not_tensors():
    """Numbers, lists of them, and sparse ones: by one index for each element, and by several."""
    values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "sparse")
    by_one = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 5])), [2, 3])
    by_two = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([[0, 2], [1, 0]])), [2, 3])
    nodes = [
        node("Constant", "", "one", value_float=0.5),
        node("Constant", "", "three", value_floats=[1.0, 2.0, 3.0]),
        node("Constant", "", "sizes", value_ints=[2, 3]),
        node("Constant", "", "flat", sparse_value=by_one),
        node("Sum", "one three flat sparse", "total"),
        node("Expand", "total sizes", "wide"),
        node("Add", "x wide", "y"),
    ]
    model = make_model(nodes, {"x": [2, 3]}, {"y": [2, 3]})
    model.graph.sparse_initializer.append(by_two)
    (y,) = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(y, [[1.5, 4.0, 5.0], [4.0, 2.5, 6.0]])


def test_values_without_elements():
    """Results, results in between, and products of nothing, at which IREE's compiler crashed."""
    nodes = [
        node("MatMul", "tall wide", "zeros"),
        node("Reshape", "wide form", "turned", allowzero=1),
        node("Slice", "x two two", "none"),
        node("Concat", "x none", "all", axis=0),
        node("Split", "x parts", "first rest"),
        node("ReduceL2", "x no_axes", "sizes", noop_with_empty_axes=1),
        node("ReduceLogSumExp", "x no_axes", "same", noop_with_empty_axes=1),
    ]
    constants = {"form": np.array([3, 0]), "two": np.array([2]), "parts": np.array([0, 4])}
    constants["no_axes"] = np.array([], np.int64)
    shapes = {"zeros": [2, 3], "turned": [3, 0], "none": [0, 3], "all": [4, 3], "first": [0, 3], "rest": [4, 3]}
    model = make_model(
        nodes, {"tall": [2, 0], "wide": [0, 3], "x": [4, 3]}, shapes | {"sizes": [4, 3], "same": [4, 3]}, constants
    )
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    feed = {"tall": np.zeros((2, 0), np.float32), "wide": np.zeros((0, 3), np.float32), "x": x}
    session = opsplice.onnx.session(model, providers=["local-sync"])
    zeros, turned, none, whole, first, rest, sizes, same = session.run(None, feed)
    assert (zeros == np.zeros((2, 3))).all()
    assert (turned.shape, none.shape, first.shape) == ((3, 0), (0, 3), (0, 3))
    assert all((each == x).all() for each in (whole, rest, same))
    assert (sizes == abs(x)).all()


def test_a_result_with_another_type_beside_its_own():
    """Converters to half precision leave one without sizes, and for numbers in between one without a shape."""
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes zero", "rows"),
        node("Cast", "rows", "number", to=TensorProto.FLOAT),
        node("Add", "x number", "y"),
    ]
    model = make_model(nodes, {"x": ["n", 3]}, {"y": ["n", 3]}, {"zero": np.int64(0)})
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, []))
    model.graph.value_info.append(helper.make_tensor_value_info("rows", TensorProto.INT64, None))
    program = opsplice.compile(model)
    np.testing.assert_array_equal(program.run("main", np.ones((2, 3), np.float32)), np.full((2, 3), 3))

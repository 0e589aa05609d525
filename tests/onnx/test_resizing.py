"""Resize, GridSample and AffineGrid, written with other operators: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx
import onnxruntime as ort
from onnx import TensorProto

import opsplice.onnx
from opsplice.onnx import expansion, importing
from opsplice.onnx.model_file import Scope
from tests.onnx.models import OPSET, RANDOM, make_model, node
from tests.onnx.test_expansion import U8, check, floats, integers, scale
from tests.onnx.test_spectra import run


def test_grid_samples_are_those_of_onnxruntime():
    """At ties, which come from how places are rounded, too; (-1/3 + 1) * 6 / 2 - 1/2 is one in f32, or is not."""
    around = ("zeros", "border", "reflection")
    ways = [("nearest", way, way == "zeros") for way in around] + [("cubic", way, way == "border") for way in around]
    nodes = [
        node("GridSample", "x grid", f"y{n}", mode=mode, padding_mode=padding, align_corners=int(corners))
        for n, (mode, padding, corners) in enumerate(ways)
    ]
    ticks = np.array([-2.7, -1.5, -1, -1 / 3, 0, 0.25, 0.77, 1.1, 5], np.float32)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1)[None].repeat(2, axis=0)
    outputs = {f"y{n}": [2, 2, 9, 9] for n in range(len(ways))}
    model = make_model(nodes, {"x": [2, 2, 4, 6], "grid": [2, 9, 9, 2]}, outputs)
    check(model, {"x": RANDOM.normal(size=(2, 2, 4, 6)).astype(np.float32), "grid": grid}, 5e-6)


@pytest.mark.parametrize("width", [5001, "w"], ids=["fixed", "open"])
def test_grid_samples_of_large_images(width):
    """Of more elements than f32 has whole numbers."""
    nodes = [node("GridSample", "x grid", "y", mode="nearest", align_corners=1)]
    model = make_model(nodes, {"x": [1, 1, 4001, width], "grid": [1, 1, 4, 2]}, {"y": [None] * 4})
    image = np.arange(4001 * 5001, dtype=np.int64).astype(np.uint32).view(np.float32).reshape(1, 1, 4001, 5001)
    places = np.array([[5000, 4000], [4999, 4000], [4998, 3999], [1, 3600]])
    grid = (places / np.array([5000, 4000]) * 2 - 1).astype(np.float32).reshape(1, 1, 4, 2)
    (found,) = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": image, "grid": grid})
    np.testing.assert_array_equal(found.reshape(-1).view(np.uint32), places @ [1, 5001])


def test_grid_samples_of_open_sizes():
    ways = [("linear", "zeros", 0), ("nearest", "reflection", 1), ("cubic", "border", 0)]
    nodes = [
        node("GridSample", "x grid", mode, mode=mode, padding_mode=padding, align_corners=corners)
        for mode, padding, corners in ways
    ]
    inputs = {"x": ["n", "c", "h", "w"], "grid": ["n", "rows", "columns", 2]}
    model = make_model(nodes, inputs, {mode: [None] * 4 for mode, *_ in ways})
    for n, c, h, w in ((2, 3, 5, 4), (1, 1, 2, 7)):
        grid = RANDOM.uniform(-1.3, 1.3, (n, h + 1, w, 2)).astype(np.float32)
        check(model, {"x": floats(n, c, h, w), "grid": grid}, 1e-4)


@pytest.mark.parametrize("size", [[2, 2, 3, 4, 5], ["n", "c", "d", "h", "w"]], ids=["fixed", "open"])
def test_grid_samples_of_volumes(size):
    """Of an extent of one, too. IREE takes elements of other places."""
    around = ("zeros", "border", "reflection")
    ways = [(mode, way, corners) for mode in ("nearest", "linear") for way in around for corners in (0, 1)]
    nodes = [
        node("GridSample", "x grid", f"y{n}", mode=mode, padding_mode=padding, align_corners=corners)
        for n, (mode, padding, corners) in enumerate(ways)
    ]
    inputs = {"x": size, "grid": [size[0], 2, 3, 4, 3]}
    model = make_model(nodes, inputs, {each.output[0]: [None] * 5 for each in nodes})
    for shape in ((2, 2, 3, 4, 5), (1, 1, 1, 2, 7)) if size[0] == "n" else ((2, 2, 3, 4, 5),):
        grid = RANDOM.uniform(-1.3, 1.3, (shape[0], 2, 3, 4, 3)).astype(np.float32)
        check(model, {"x": floats(*shape), "grid": grid}, 1e-4)


PLACES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
NEAREST = [{"mode": "nearest", "nearest_mode": each} for each in ROUNDINGS]
CUBIC = [{"mode": "cubic", "exclude_outside": outside, "cubic_coeff_a": -0.5} for outside in (0, 1)]


FACTORS = [(2, 3), (1, 7), (2, 2), (1.5, 2.4), (0.6, 1.25), (0.25, 0.2)]
FIXED, OPEN = [2, 2, 5, 7], ["n", 2, "h", "w"]


@pytest.mark.parametrize(
    ("sizes", "factors"), [*((FIXED, each) for each in FACTORS), *((OPEN, each) for each in FACTORS[3:5])]
)
def test_images_are_resized(sizes, factors):
    """In every way of ONNX, by factors and to sizes. onnxruntime runs what is written, and the model itself."""
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    ways = [
        {**way, "coordinate_transformation_mode": p} for way in [*NEAREST, {"mode": "linear"}, *CUBIC] for p in PLACES
    ]
    nodes = [node("Resize", "x roi s", f"y{number}", **way) for number, way in enumerate(ways)]
    ways += [{**way, **crop} for way in (NEAREST[0], {"mode": "linear"})]
    nodes += [node("Resize", "x roi - z", f"z{number}", **way) for number, way in enumerate(ways)]
    constants = {
        "s": scale([1, 1, *factors]),
        "z": np.array([2, 2, *np.floor(np.multiply(factors, (11, 13)))], np.int64),
    }
    constants["roi"] = scale([0, 0, 0.1, -0.2, 1, 1, 0.9, 0.7])
    outputs = {each.output[0]: [None] * 4 for each in nodes}
    model = make_model(nodes, {"x": sizes}, outputs, constants, 19)
    written = onnx.ModelProto.FromString(model.SerializeToString())
    assert expansion.expand(Scope.of(written.graph), {}, OPSET)
    assert not any(each.op_type == "Resize" for each in written.graph.node)
    onnx.checker.check_model(written)
    x = floats(2, 2, 5, 7)
    found, wanted = (ort.InferenceSession(each.SerializeToString()).run(None, {"x": x}) for each in (written, model))
    for one, other, each in zip(found, wanted, nodes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=str(each))


@pytest.mark.parametrize(("kind", "element"), [(np.int8, TensorProto.INT8), (np.uint8, U8)])
def test_bytes_are_weighed_and_cut_off(kind, element):
    """As onnxruntime does, whose sums have the same exact weights."""
    nodes = [node("Resize", "x - s", "y", mode="linear"), node("Resize", "x - - z", "small", mode="linear")]
    constants = {"s": scale([1, 1, 2, 4]), "z": np.array([1, 2, 4, 2])}
    outputs = {"y": (element, [1, 2, 16, 32]), "small": (element, [1, 2, 4, 2])}
    model = make_model(nodes, {"x": (element, [1, 2, 8, 8])}, outputs, constants, 19)
    check(model, {"x": integers(kind, 1, 2, 8, 8)})


def test_images_of_open_sizes():
    """To sizes and factors that are values, too; an image smoothed by a constant factor."""
    form = {"mode": "linear"}
    nodes = [
        node("Resize", "x - s", "twice"),
        node("Resize", "x - - size", "sized", axes=[3, 2], coordinate_transformation_mode="align_corners", **form),
        node("Resize", "x - - wanted", "wide", coordinate_transformation_mode="asymmetric"),
        node("Resize", "x - factors", "scaled", mode="cubic"),
        node("Resize", "x - less", "smooth", antialias=1, **form),
    ]
    constants = {"s": scale([1, 1, 2, 2]), "size": np.array([9, 4]), "less": scale([1, 1, 0.4, 0.6])}
    inputs = {"x": ["n", 2, "h", "w"], "wanted": (TensorProto.INT64, [4]), "factors": [4]}
    model = make_model(nodes, inputs, {each.output[0]: [None] * 4 for each in nodes}, constants)
    for n, h, w in ((1, 4, 5), (3, 6, 1)):
        given = {"wanted": np.array([n, 2, 5, 7]), "factors": scale([1, 1, 1.5, 2.25])}
        check(model, {"x": floats(n, 2, h, w), **given}, 1e-4)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_images_that_keep_their_ratio(policy):
    nodes = [node("Resize", "x - - size", "y", axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear")]
    size = {"size": np.array([7, 8])}
    check(make_model(nodes, {"x": ["n", 1, 3, 4]}, {"y": [None] * 4}, size), {"x": floats(2, 1, 3, 4)})
    opened = make_model(nodes, {"x": ["n", 1, "h", 4]}, {"y": [None] * 4}, size)
    check(opened, {"x": floats(2, 1, 3, 4)})
    given = make_model(nodes, {"x": ["n", 1, "h", "w"], "size": (TensorProto.INT64, [2])}, {"y": [None] * 4})
    check(given, {"x": floats(1, 1, 6, 5), "size": np.array([4, 9])})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_parts_of_images_that_the_program_is_given(mode):
    """Which lie outside in part."""
    form = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    model = make_model(
        [node("Resize", "x part - size", "y", axes=[3, 2], **form)],
        {"x": ["n", 1, "h", 4], "part": [4], "size": (TensorProto.INT64, [2])},
        {"y": [None] * 4},
    )
    given = {"part": np.array([0.4, 0.6, 0.9, 1.3], np.float32), "size": np.array([3, 5])}
    x = floats(2, 1, 5, 4)
    found = run(model, {"x": x, **given})["y"]
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x, **given})
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_places_as_older_models_have_them(mode):
    """In the middle of elements, as TensorFlow's converters wrote them before version 13."""
    form = {"mode": mode, "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    constants = {"none": np.array([], np.float32), "by": np.array([1, 1, 2, 1.5], np.float32)}
    nodes = [node("Resize", "x none by", "y", **form)]
    check(make_model(nodes, {"x": [1, 2, 3, 4]}, {"y": [1, 2, 6, 6]}, constants, opset=11), {"x": floats(1, 2, 3, 4)})


def test_grids_of_places_that_matrices_move():
    """Of images and volumes; the sizes are known, those of another tensor, or given when the model runs."""
    nodes = [node("Shape", "image", "of_image")]
    outputs = {}
    of = (("flat", "known", 0), ("flat", "of_image", 1), ("flat", "given", 0), ("deep", "volume", 1))
    for matrices, sizes, corners in of:
        nodes.append(node("AffineGrid", f"{matrices} {sizes}", f"{sizes}_grid", align_corners=corners))
        outputs[f"{sizes}_grid"] = [None] * (4 if matrices == "flat" else 5)
    inputs = {"flat": ["n", 2, 3], "deep": [2, 3, 4], "image": ["n", 3, "h", "w"], "given": (TensorProto.INT64, [4])}
    sizes = {"known": np.array([2, 3, 5, 6]), "volume": np.array([2, 3, 4, 5, 6])}
    model = make_model(nodes, inputs, outputs, sizes)
    feed = {"flat": floats(2, 2, 3), "deep": floats(2, 3, 4), "image": floats(2, 3, 7, 4)}
    check(model, feed | {"given": np.array([2, 3, 2, 8])}, 1e-6)


@pytest.mark.parametrize("way", ["Slice", "Shape", "Gather"])
def test_batch_and_channels_are_not_resized_where_their_sizes_are_read(way):
    """As PyTorch writes `interpolate` of open sizes. All four dims were resized, which took most of the time."""
    reads = {
        "Slice": [node("Shape", "x", "shape"), node("Slice", "shape zero two", "outer")],
        "Shape": [node("Shape", "x", "outer", start=0, end=2)],
        "Gather": [node("Shape", "x", "shape"), node("Gather", "shape both", "outer")],
    }
    nodes = [
        *reads[way],
        node("Shape", "other", "inner", start=2),
        node("Concat", "outer inner", "sizes", axis=0),
        node("Resize", "x - - sizes", "y", mode="linear"),
    ]
    constants = {"zero": np.array([0]), "two": np.array([2]), "both": np.array([0, 1])}
    inputs = {"x": ["n", "c", "h", "w"], "other": ["n", "d", "i", "j"]}
    model = make_model(nodes, inputs, {"y": [None] * 4}, constants)
    typed, _ = importing._typed(model, {}, "a model")
    taken = [each for each in typed.graph.node if each.op_type == "Gather" and each.input[0] == "x"]
    assert {onnx.helper.get_node_attr_value(each, "axis") for each in taken} == {2}
    check(model, {"x": floats(2, 3, 4, 5), "other": floats(2, 1, 9, 3)})


@pytest.mark.parametrize("batch", ["n", 2])
@pytest.mark.parametrize("shape", [[8, 15], [4, 10], [9, 7]], ids=["whole", "rows", "parts"])
def test_elements_are_repeated_where_the_batch_is_open(batch, shape):
    """As PyTorch writes `interpolate` to sizes of numbers: which elements were taken was computed for each place."""
    nodes = [
        node("Shape", "x", "outer", start=0, end=2),
        node("Concat", "outer inner", "sizes", axis=0),
        node("Resize", "x - - sizes", "y", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    model = make_model(nodes, {"x": [batch, 3, 4, 5]}, {"y": [None] * 4}, {"inner": np.array(shape)})
    typed, _ = importing._typed(model, {}, "a model")
    taken = [each for each in typed.graph.node if each.op_type == "Gather" and each.input[0] == "x"]
    assert bool(taken) == (shape == [9, 7])
    check(model, {"x": floats(2, 3, 4, 5)})


def test_channels_are_resized_to_another_size_of_the_image():
    """To the columns, which are the last of the sizes from the rows on."""
    nodes = [
        node("Shape", "x", "batch", start=0, end=1),
        node("Shape", "x", "inner", start=2),
        node("Gather", "inner last", "columns"),
        node("Concat", "batch columns inner", "sizes", axis=0),
        node("Resize", "x - - sizes", "y", mode="nearest"),
    ]
    model = make_model(nodes, {"x": ["n", "c", "h", "w"]}, {"y": [None] * 4}, {"last": np.array([-1])})
    check(model, {"x": floats(2, 3, 4, 6)})


@pytest.mark.parametrize("shape", [["n", "c", "h", "w"], ["n", 8, "h", "w"], [2, "c", 4, 6]])
def test_pixels_of_open_sizes_are_shuffled(shape):
    """A fixed number of channels was needed, and an open height or width took most of the time of Swin2SR."""
    way = {"blocksize": 2, "mode": "CRD"}
    nodes = [node("DepthToSpace", "x", "wide", **way), node("SpaceToDepth", "x", "deep", **way)]
    model = make_model(
        nodes, {"x": shape}, {"wide": [None] * 4, "deep": [None] * 4}, opset=onnx.defs.onnx_opset_version()
    )
    x = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)
    wide, deep = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": x})
    apart = x.reshape(2, 2, 2, 2, 4, 6).transpose(0, 1, 4, 2, 5, 3)
    np.testing.assert_array_equal(wide, apart.reshape(2, 2, 8, 12))
    apart = x.reshape(2, 8, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4)
    np.testing.assert_array_equal(deep, apart.reshape(2, 32, 2, 3))

"""Elements at the edges: behind the end of a tensor, around it, the last of several that are equal."""

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx.reference
from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import U8, check, floats

NAN, INFINITE = np.nan, np.inf


@pytest.mark.parametrize("size", [5, "n"], ids=["fixed", "open"])
def test_slices_that_go_backwards_from_behind_the_end(size):
    """IREE reads what lies there."""
    constants = {"far": np.array([2**31]), "start": np.array([-(2**31)]), "last": np.array([1]), "back": np.array([-2])}
    constants |= {"near": np.array([1, 7]), "ends": np.array([3, 0]), "axes": np.array([0, 1]), "by": np.array([1, -1])}
    nodes = [node("Slice", "x far start last back", "y"), node("Slice", "x near ends axes by", "z")]
    outputs = {"y": [4, 3 if size == 5 else "m"], "z": [2, 4 if size == 5 else "k"]}
    model = make_model(nodes, {"x": [4, size]}, outputs, constants)
    check(model, {"x": floats(4, 5)})


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("sizes", [[4, 5], ["h", "w"]], ids=["fixed", "open"])
def test_what_is_put_around(mode, sizes):
    """Of vectors and images: IREE's compiler does not end at some, and does not lower others."""
    constants = {"two": np.array([0, 0, 2, 1, 0, 0, 1, 3]), "one": np.array([2, 1])}
    nodes = [node("Pad", "x two", "y", mode=mode), node("Pad", "v one", "z", mode=mode)]
    around = [size + 3 if isinstance(size, int) else None for size in (sizes[0], 6 if sizes[1] == 5 else "w")]
    outputs = {"y": [1, 2, around[0], None], "z": [None]}
    model = make_model(nodes, {"x": [1, 2, *sizes], "v": sizes[1:]}, outputs, constants)
    check(model, {"x": floats(1, 2, 4, 5), "v": floats(5)})


def test_pads_that_the_program_computes():
    """Negative ones leave elements out, which IREE keeps; it lowers no modes but that of one number around."""
    pads, axes, nodes, outputs = np.array([-1, 2, 2, -1]), np.array([2, 0]), [], {}
    for mode in ("constant", "edge", "reflect", "wrap"):
        nodes += [node("Pad", "x pads", mode, mode=mode), node("Pad", "z pads - axes", f"{mode}_of_two", mode=mode)]
        outputs |= {mode: [None, None], f"{mode}_of_two": [None, None, None]}
    inputs = {"x": [4, "n"], "z": [4, 2, "n"], "pads": (TensorProto.INT64, [4])}
    check(make_model(nodes, inputs, outputs, {"axes": axes}), {"x": floats(4, 5), "z": floats(4, 2, 5), "pads": pads})


def test_slices_with_steps_that_name_no_dims():
    """IREE does not lower them."""
    constants = {"starts": np.array([0, -1]), "ends": np.array([9, 0]), "by": np.array([2, -2])}
    model = make_model([node("Slice", "x starts ends - by", "y")], {"x": [5, 4]}, {"y": [3, 2]}, constants)
    check(model, {"x": floats(5, 4)})


def test_slices_that_begin_where_the_program_says():
    """Backwards from behind the end, where IREE reads what lies there."""
    constants = {"axes": np.array([-1, 0]), "by": np.array([-2, 1])}
    nodes = [node("Slice", "x starts ends axes by", "y"), node("Slice", "x inside ends axes by", "z")]
    integers = {name: (TensorProto.INT64, [2]) for name in ("starts", "ends", "inside")}
    model = make_model(nodes, {"x": [4, "n"]} | integers, {"y": [None, None], "z": [None, None]}, constants)
    feed = {"starts": np.array([100, -3]), "ends": np.array([1, 9]), "inside": np.array([-2, 1])}
    check(model, {"x": floats(4, 7)} | feed)


@pytest.mark.parametrize("sizes", [[4, 5], ["h", "w"]], ids=["fixed", "open"])
def test_negative_pads_leave_elements_out(sizes):
    """IREE moves the rest elsewhere, or does not compile it."""
    constants = {"both": np.array([0, 2, 0, -2]), "out": np.array([-1, 1, -1, -2]), "three": np.array(3, np.float32)}
    nodes = [node("Pad", "x both", "y"), node("Pad", "x out three", "z")]
    model = make_model(nodes, {"x": sizes}, {"y": [None, None], "z": [None, None]}, constants)
    check(model, {"x": floats(4, 5)})


def test_the_last_of_equal_elements():
    """IREE takes the first one always."""
    nodes = [
        node("ArgMax", "x", "a", axis=-1, select_last_index=1),
        node("ArgMin", "x", "b", axis=0, keepdims=0, select_last_index=1),
    ]
    outputs = {"a": (TensorProto.INT64, ["n", 1]), "b": (TensorProto.INT64, [9])}
    check(make_model(nodes, {"x": ["n", 9]}, outputs), {"x": floats(3, 9).round()})


def test_what_is_no_number():
    """Equal to nothing, and neither bounded nor left out."""
    x = np.array([NAN, -2, 0, 3, INFINITE, -INFINITE, NAN], np.float32)
    y = np.array([1, NAN, 0, NAN, -1, 5, NAN], np.float32)
    nodes = [
        node("Sign", "x", "sign"), node("Clip", "x low high", "clip"), node("Max", "x zero", "relu"),
        node("Max", "x y", "max"), node("Min", "x y high", "min"), node("Equal", "x y", "same"),
        node("Equal", "x x", "number"),
    ]  # fmt: skip
    constants = {name: np.array(value, np.float32) for name, value in (("low", -1), ("high", 1), ("zero", 0))}
    outputs = {name: [7] for name in ("sign", "clip", "relu", "max", "min")}
    flags = {name: (TensorProto.BOOL, [7]) for name in ("same", "number")}
    model = make_model(nodes, {"x": [7], "y": [7]}, outputs | flags, constants)
    feed = {"x": x, "y": y}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_logarithms_of_sums_of_large_powers():
    """A power of 300 is infinite, and its sum's logarithm is not."""
    constants = {"axes": np.array([-1, 0])}
    nodes = [node("ReduceLogSumExp", "x axes", "y", keepdims=0), node("ReduceLogSumExp", "x", "z")]
    model = make_model(nodes, {"x": ["n", 4, 5]}, {"y": [4], "z": [1, 1, 1]}, constants)
    check(model, {"x": floats(3, 4, 5) * 90 + 200})


def test_the_first_or_last_nan_is_the_largest_and_the_smallest():
    """As in NumPy, whose order ONNX's reference has; onnxruntime's places depend on where the NaN is."""
    x = np.array([[1, NAN, 3, NAN], [NAN, 1, 2, 0], [1, 2, 3, 2], [INFINITE, 1, -INFINITE, NAN]], np.float32)
    forms = [{"axis": axis, "select_last_index": last} for axis in (0, 1) for last in (0, 1)]
    nodes = [
        node(kind, "x", f"{kind}{number}", keepdims=0, **form)
        for kind in ("ArgMax", "ArgMin")
        for number, form in enumerate(forms)
    ]
    outputs = {each.output[0]: (TensorProto.INT64, [4]) for each in nodes}
    model = make_model(nodes, {"x": [4, 4]}, outputs)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": x})
    for one, other in zip(found, onnx.reference.ReferenceEvaluator(model).run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_integers_are_negated_without_rounding(kind):
    """IREE negates them as floats of 32 bits."""
    element, info = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), np.iinfo(kind)
    model = make_model([node("Neg", "x", "y")], {"x": (element, ["n"])}, {"y": (element, ["n"])})
    x = np.array([info.min, info.max, info.max - 2, -1, 0, 5], kind)
    check(model, {"x": x})


@pytest.mark.parametrize("rows", [3, "n"], ids=["fixed", "open"])
def test_several_sorts_have_their_own_places(rows):
    """IREE sorts in place, and would begin each of them with what the one before left."""
    nodes = [node("TopK", "x k", "a b"), node("TopK", "x k", "c d", largest=0)]
    values, places = ({name: (kind, [rows, 2]) for name in names} for names, kind in (("ac", 1), ("bd", 7)))
    model = make_model(nodes, {"x": [rows, 6]}, values | places, {"k": np.array([2])})
    check(model, {"x": floats(3, 6)})


def test_sizes_that_inputs_have_to_have():
    """A symbolic dim beside a known size: IREE knows some of the values then, and takes the others for open."""
    constants = {
        "scale": np.array(0.01, np.float32), "zero": np.array(128, np.uint8), "parts": np.array([1, 2]),
        "two": floats(2, 1, 5), "kernel": floats(4, 3, 2), "across": floats(2, 5, 3), "ones": floats(2, 3, 4),
    }  # fmt: skip
    nodes = [
        node("Split", "x parts", "a b", axis=1),
        node("QuantizeLinear", "b scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "y"),
        node("Greater", "b two", "g"),
        node("Conv", "x kernel bias", "c"),
        node("MatMul", "v across", "m"),
        node("Concat", "w ones", "j", axis=-1),
    ]
    inputs = {"x": ["n", 3, 5], "bias": ["outs"], "v": ["batch", 4, "terms"], "w": ["two", "three", "four"]}
    shapes = {"y": ["n", 2, 5], "c": ["n", 4, 4], "m": [2, 4, 3], "j": [2, 3, None]}
    model = make_model(nodes, inputs, shapes | {"g": (TensorProto.BOOL, [2, 2, 5])}, constants)
    check(model, {"x": floats(2, 3, 5), "bias": floats(4), "v": floats(2, 4, 5), "w": floats(2, 3, 2)})
    session = opsplice.onnx.session(model)
    assert [each.shape for each in session.get_inputs()] == [[2, 3, 5], [4], [2, 4, 5], [2, 3, "four"]]
    assert session.get_outputs()[0].shape == [2, 2, 5]


def test_means_of_integers_and_sequences_turned():
    """IREE lowers neither. Quotients of integers are cut off."""
    constants = {"rows": np.array([0]), "last": np.array([-1]), "ends": np.array([1, 3, 4])}
    nodes = [
        node("ReduceMean", "i last", "a"),
        node("ReduceMean", "i rows", "b", keepdims=0),
        node("ReduceMean", "i -", "c"),
        node("ReverseSequence", "x lengths", "d", batch_axis=0, time_axis=1),
        node("ReverseSequence", "w ends", "e"),
    ]
    whole, wide = TensorProto.INT32, TensorProto.UINT32
    inputs = {"i": (whole, ["n", 3]), "x": ["n", "m"], "lengths": (TensorProto.INT64, ["n"]), "w": (wide, [4, 3, 2])}
    outputs = {"a": (whole, ["n", 1]), "b": (whole, [3]), "c": (whole, [1, 1]), "d": ["n", "m"], "e": (wide, [4, 3, 2])}
    random = np.random.default_rng(0)
    feed = {"i": random.integers(-9, 9, (4, 3), np.int32), "x": floats(4, 5), "lengths": np.array([1, 5, 3, 2])}
    check(make_model(nodes, inputs, outputs, constants), feed | {"w": random.integers(0, 2**32, (4, 3, 2), np.uint32)})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_images_made_smaller_are_smoothed(mode):
    """By factors below one; others weigh as many elements as ever. IREE does not lower it."""
    constants = {"scales": np.array([1, 1, 0.4, 2], np.float32), "sizes": np.array([1, 2, 5, 4])}
    form = {"mode": mode, "antialias": 1}
    nodes = [
        node("Resize", "x - scales", "a", **form),
        node("Resize", "x - - sizes", "b", exclude_outside=1, coordinate_transformation_mode="asymmetric", **form),
    ]
    model = make_model(nodes, {"x": [1, 2, 9, 7]}, {"a": [1, 2, 3, 14], "b": [1, 2, 5, 4]}, constants)
    check(model, {"x": floats(1, 2, 9, 7)})


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.uint32, np.uint64])
def test_casts_to_integers(kind):
    """IREE makes 127 of 200.0, and has no casts to the other types."""
    most, element = np.iinfo(kind).max, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    numbers = [0, 0.5, 2.9, 100.7, *(most * share for share in (0.49, 0.75, 0.9))]
    feed = {"float16": np.array([x for x in numbers if x < 2**16], np.float16)}
    for each in (np.float32, np.float64, ml_dtypes.bfloat16):
        feed[each.__name__] = np.array(numbers, each)
    for each in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        limits = np.iinfo(each)
        feed[each.__name__] = np.array([limits.min, limits.max, limits.max // 4 * 3, 0, 1, 100], each)
    feed["bool"] = np.array([True, False])
    inputs = {name: (onnx.helper.np_dtype_to_tensor_dtype(x.dtype), [f"n_{name}"]) for name, x in feed.items()}
    outputs = {f"to_{name}": (element, [f"n_{name}"]) for name in feed}
    model = make_model([node("Cast", name, f"to_{name}", to=element) for name in feed], inputs, outputs)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for one, given in zip(found, feed.values(), strict=True):
        assert one.dtype == kind
        np.testing.assert_array_equal(one, given.astype(kind))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_large_integers_without_a_sign(kind):
    """IREE takes them for negative ones."""
    most, element = np.iinfo(kind).max, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [node("Div", "x by", "div"), node("Mod", "x by", "mod"), node("Clip", "x low high", "clip")]
    nodes += [node("TopK", "x two", "top at"), node("Abs", "x", "abs")]
    constants = {"by": 7, "low": 9, "high": most - 3}
    constants = {name: np.array(value, kind) for name, value in constants.items()} | {"two": np.array([2])}
    outputs = {name: (element, ["n"]) for name in ("div", "mod", "clip", "abs")}
    outputs |= {"top": (element, [2]), "at": (TensorProto.INT64, [2])}
    x = np.array([3, most, 0, most // 2 + 7, most // 2, 12, most - 5], kind)
    model = make_model(nodes, {"x": (element, ["n"])}, outputs, constants)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": x})
    wanted = (x // 7, x % 7, x.clip(9, most - 3), x, np.sort(x)[:-3:-1], np.argsort(x)[:-3:-1])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_powers_of_integers_and_their_signs():
    """IREE lowers no powers of integers; its compiler ends the process at some, and at signs of those without one."""
    kinds = {kind.__name__: kind for kind in (np.int64, np.uint8, np.uint16)}
    constants, nodes, inputs, outputs, feed = {"root": np.array(0.5, np.float32)}, [], {}, {}, {}
    for name, kind in kinds.items():
        constants |= {f"{number}_{name}": np.array(number, kind) for number in (0, 2, 3)}
        powers = [*(f"{number}_{name}" for number in (0, 2, 3)), "root", f"y_{name}"]
        nodes += [node("Pow", f"x_{name} {power}", f"{number}_of_{name}") for number, power in enumerate(powers)]
        nodes.append(node("Sign", f"x_{name}", f"sign_{name}"))
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        inputs |= {f"{which}_{name}": (element, ["n"]) for which in "xy"}
        outputs |= {each: (element, ["n"]) for made in nodes[-6:] for each in made.output}
        feed |= {f"x_{name}": np.array([3, 0, 6, 1], kind), f"y_{name}": np.array([2, 0, 2, 3], kind)}
    model = make_model(nodes, inputs, outputs, constants)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for at, name in enumerate(kinds):
        x, y = feed[f"x_{name}"], feed[f"y_{name}"]
        wanted = (x**0, x**2, x**3, np.sqrt(x).astype(x.dtype), x**y, np.sign(x))
        for one, other in zip(found[6 * at : 6 * at + 6], wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_powers_that_the_program_computes():
    """Of integers, and whole: IREE's powers of doubles are a little less than some, so 2 to the power of 3 was 7."""
    whole = TensorProto.INT64
    nodes = [node("Pow", "x by", "y"), node("Pow", "two x", "z"), node("Pow", "square root", "w")]
    constants = {"two": np.array(2), "root": np.array(0.5, np.float32)}
    inputs = {"x": (whole, ["n"]), "by": (whole, [4, 1]), "square": (whole, ["n"])}
    outputs = {"y": (whole, [4, "n"]), "z": (whole, ["n"]), "w": (whole, ["n"])}
    x = np.arange(-7, 12)
    check(make_model(nodes, inputs, outputs, constants), {"x": x, "by": np.arange(1, 5)[:, None], "square": x**2})


def test_integers_at_which_the_compiler_ended_the_process():
    """Constants of 16 and 64 bits without a sign, norms of the latter, and Einsum of bytes."""
    wide = {TensorProto.UINT16: np.uint16, TensorProto.UINT64: np.uint64}
    nodes, outputs = [node("Einsum", "bytes bytes", "product", equation="ij,kj->ik")], {"product": (U8, [2, 2])}
    for element, kind in wide.items():
        most = onnx.numpy_helper.from_array(np.array([np.iinfo(kind).max], kind))
        nodes.append(node("ConstantOfShape", "shape", f"filled{element}", value=most))
        nodes.append(node("EyeLike", "bytes", f"eye{element}", dtype=element, k=1))
        outputs |= {f"filled{element}": (element, [None, None]), f"eye{element}": (element, [2, 3])}
    nodes.append(node("ReduceL2", "numbers", "norm", keepdims=0))
    outputs["norm"] = (TensorProto.UINT64, [])
    inputs = {"shape": (TensorProto.INT64, [2]), "bytes": (U8, [2, 3]), "numbers": (TensorProto.UINT64, [2])}
    model = make_model(nodes, inputs, outputs)
    feed = {"shape": np.array([2, 1]), "bytes": np.array([[1, 2, 200], [3, 4, 5]], np.uint8)}
    feed["numbers"] = np.array([3, 4], np.uint64)
    product, *found, norm = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    np.testing.assert_array_equal(product, np.einsum("ij,kj->ik", feed["bytes"], feed["bytes"]))
    assert norm == 5
    for kind, filled, eye in zip(wide.values(), found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(filled, np.full((2, 1), np.iinfo(kind).max, kind))
        np.testing.assert_array_equal(eye, np.eye(2, 3, 1, kind))
        assert filled.dtype == eye.dtype == kind

"""Operators of onnxruntime's optimisers, which ONNX does not have: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import ml_dtypes
from onnx import TensorProto, helper

from opsplice import frontends
from opsplice.common.errors import OpspliceError
from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check

MICROSOFT = {"domain": "com.microsoft"}
HEADS = {"num_heads": 4, **MICROSOFT}
GROUPS = {"kv_num_heads": 2, **HEADS}
PAIRS = {"rotary_interleaved": 1, **GROUPS}


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int32)


def compare(nodes, feed, constants, shapes, tolerance=1e-5, opset=17):
    """shapes: of results. Constants and inputs are known by their names in the nodes."""
    kinds = {name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in feed.items()}
    check(make_model(nodes, kinds, shapes, constants, opset, domains={"com.microsoft": 1}), feed, tolerance)


def test_products_and_convolutions_with_activations():
    constants = {"w": floats(16, 32), "b": floats(16), "k": floats(8, 3, 3, 3), "kb": floats(8)}
    nodes = [
        node("FusedMatMul", "x w", "product", transB=1, alpha=0.5, **MICROSOFT),
        node(
            "FusedGemm", "m w b", "gemm", transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.3, **MICROSOFT
        ),
        node("FusedConv", "i k kb", "clipped", activation="Clip", activation_params=[0.0, 6.0], **MICROSOFT),
        node("FusedConv", "i k kb z", "added", strides=[2, 2], pads=[1] * 4, activation="Relu", **MICROSOFT),
        node("FusedConv", "i k", "hard", activation="HardSigmoid", activation_params=[0.2, 0.4], **MICROSOFT),
        node("QuickGelu", "x", "quick", alpha=1.702, **MICROSOFT),
        node("BiasGelu", "product b", "gelu", **MICROSOFT),
        node("FastGelu", "product b", "fast", **MICROSOFT),
    ]
    feed = {"x": floats(2, 5, 32), "m": floats(5, 32), "i": floats(1, 3, 10, 10), "z": floats(1, 8, 5, 5)}
    shapes = {"product": [2, 5, 16], "gemm": [5, 16], "clipped": [1, 8, 8, 8], "added": [1, 8, 5, 5]}
    shapes |= {"hard": [1, 8, 8, 8], "quick": [2, 5, 32], "gelu": [2, 5, 16], "fast": [2, 5, 16]}
    compare(nodes, feed, constants, shapes)


def test_products_whose_rows_come_before_batches():
    nodes = [
        node("FusedMatMul", "x y", "one", transBatchA=1, **MICROSOFT),
        node("FusedMatMul", "turned y", "other", transA=1, transBatchA=1, alpha=0.5, **MICROSOFT),
        node("FusedMatMul", "x y1", "both", transBatchA=1, transBatchB=1, **MICROSOFT),
    ]
    feed = {"x": floats(3, 2, 6, 5), "turned": floats(5, 2, 6, 3), "y": floats(2, 6, 5, 4), "y1": floats(5, 2, 6, 4)}
    compare(nodes, feed, {}, {name: [2, 6, 3, 4] for name in ("one", "other", "both")})


def test_norms_of_chosen_dims():
    """ONNX knows no shape where the model names no dims."""
    nodes = [node("MeanVarianceNormalization", "x", "channels"), node("Relu", "channels", "y")]
    nodes.append(node("MeanVarianceNormalization", "x", "z", axes=[1, -1]))
    compare(nodes, {"x": floats(2, 3, 4, 5)}, {}, {"y": [2, 3, 4, 5], "z": [2, 3, 4, 5]})


def test_forms_that_iree_does_not_lower_or_reads_otherwise():
    """Vectors times batches, the largest of several shapes, and scans that run backwards."""
    x, state = helper.make_tensor_value_info("s_x", 1, [4]), helper.make_tensor_value_info("s_state", 1, [4])
    results = [helper.make_tensor_value_info(name, 1, [4]) for name in ("s_next", "s_out")]
    steps = [node("Add", "s_state s_x", "s_next"), node("Mul", "s_next v", "s_out")]
    body = helper.make_graph(steps, "body", [state, x], results)
    ways = {"scan_input_directions": [1], "scan_output_directions": [1], "scan_output_axes": [1]}
    nodes = [
        node("MatMul", "v batch", "before"),
        node("MatMul", "turned v", "behind"),
        node("Max", "column v batch", "most"),
        node("Min", "column v batch", "least"),
        node("Scan", "v rows", "end all", num_scan_inputs=1, body=body, **ways),
    ]
    feed = {"v": floats(4), "batch": floats(2, 4, 4), "turned": floats(2, 3, 4), "column": floats(4, 1)}
    feed["rows"] = floats(5, 4)
    shapes = {"before": [2, 4], "behind": [2, 3], "most": [2, 4, 4], "least": [2, 4, 4], "end": [4], "all": [4, 5]}
    compare(nodes, feed, {}, shapes)


@pytest.mark.parametrize("opset", [17, 21])
def test_norms_of_sums(opset):
    constants = {name: floats(32) for name in ("gain", "bias", "more")} | {
        "words": floats(9, 32),
        "spots": floats(6, 32),
    }
    nodes = [
        node("SkipLayerNormalization", "x y gain bias more", "n - - sum", epsilon=1e-5, **MICROSOFT),
        node("SkipSimplifiedLayerNormalization", "n x gain", "r - - total", epsilon=1e-5, **MICROSOFT),
        node("SimplifiedLayerNormalization", "r gain", "s", epsilon=1e-5, axis=-1),
        node("EmbedLayerNormalization", "i - words spots - gain bias - ", "e counts", epsilon=1e-5, **MICROSOFT),
        node("EmbedLayerNormalization", "i - words spots - gain bias - at", "p none", epsilon=1e-5, **MICROSOFT),
    ]
    nodes[-2].input[7] = "mask"
    feed = {"x": floats(2, 5, 32), "y": floats(2, 5, 32), "i": np.array([[1, 2, 3], [4, 5, 8]], np.int32)}
    feed["at"] = np.array([[2, 0, 5], [1, 1, 3]], np.int32)
    shapes = {name: [2, 5, 32] for name in ("n", "sum", "r", "total", "s")} | {"e": [2, 3, 32], "p": [2, 3, 32]}
    shapes["counts"] = shapes["none"] = (TensorProto.INT32, [2])
    compare(nodes, feed | {"mask": np.array([[1, 1, 1], [1, 0, 0]], np.int32)}, constants, shapes, opset=opset)


def test_attention():
    """With masks by key and by length, causal, with what was kept; and heads that are apart already."""
    constants = {"w": floats(32, 96) / 4, "b": floats(96), "narrow": floats(32, 80) / 4, "few": floats(80)}
    feed = {"x": floats(2, 6, 32), "past": floats(2, 2, 4, 5, 8), "keys": ints([1] * 6, [1, 1, 1, 0, 0, 0])}
    feed |= {
        "longer": floats(2, 9, 32),
        "spans": ints(6, 3, 1, 0),
        "more": ints(9, 4),
        "packed": ints(9, 4, 0, 6, 12, 0, 9, 18),
        "ends": ints(6, 3),
        "bias": floats(1, 4, 6, 11),
        "k": floats(2, 4, 6, 8),
        "cache": floats(2, 4, 5, 8),
    }
    nodes = [
        node("Attention", "x w b keys", "masked", **HEADS),
        node("Attention", "x w b ends", "cut", **HEADS),
        node("Attention", "x w b - past", "causal kept", unidirectional=1, **HEADS),
        node("Attention", "x narrow few", "small", qkv_hidden_sizes=[32, 32, 16], scale=0.3, **HEADS),
        node("MultiHeadAttention", "x x x b keys", "apart", **HEADS),
        node("MultiHeadAttention", "x x x - - bias cache cache", "biased keys1 values1", **HEADS),
        node("MultiHeadAttention", "x k k", "heads", unidirectional=1, **HEADS),
        node("MultiHeadAttention", "x longer longer", "across", unidirectional=1, **HEADS),
        node("Attention", "x w b spans", "between", **HEADS),
        node("MultiHeadAttention", "x longer longer - more", "shorter", **HEADS),
        node("MultiHeadAttention", "x longer longer - packed", "shorter1", **HEADS),
    ]
    shapes = {name: [2, 6, 32] for name in ("masked", "cut", "causal", "apart", "biased", "heads", "across")} | {
        "small": [2, 6, 16]
    }
    shapes |= {name: [2, 6, 32] for name in ("between", "shorter", "shorter1")}
    shapes |= {"kept": [2, 2, 4, 11, 8], "keys1": [2, 4, 11, 8], "values1": [2, 4, 11, 8]}
    compare(nodes, feed, constants, shapes, 2e-5)


def test_attention_of_bytes():
    """With masks by key, and behind what was kept.

    Of larger weights onnxruntime's sums overflow on CPUs without VNNI.
    """
    constants = {"w": RANDOM.integers(-64, 65, (32, 96), np.int8), "b": floats(96), "none": np.int8(0)}
    constants |= {"step": np.float32(0.02), "scale": np.float32(0.01), "middle": np.uint8(120)}
    feed = {"x": RANDOM.integers(0, 256, (2, 6, 32), np.uint8), "keys": ints([1] * 6, [1, 1, 1, 0, 0, 0])}
    nodes = [
        node("QAttention", "x w b step scale keys middle none", "y", **HEADS),
        node("QAttention", "x w b step scale - middle none past", "z kept", unidirectional=1, **HEADS),
    ]
    shapes = {"y": [2, 6, 32], "z": [2, 6, 32], "kept": [2, 2, 4, 11, 8]}
    compare(nodes, feed | {"past": floats(2, 2, 4, 5, 8)}, constants, shapes, 1e-4)


def test_a_mask_that_is_known_in_the_second_round():
    """What was written in the first round has the names of the second: numbers for one were nodes for the other."""
    constants = {"w": floats(32, 96) / 4, "b": floats(96), "ones": np.eye(6, dtype=np.float32)}
    nodes = [
        node("FusedMatMul", "m ones", "same", **MICROSOFT),
        node("Cast", "same", "keys", to=TensorProto.INT32),
        node("Attention", "x w b keys", "y", **HEADS),
    ]
    feed = {"x": floats(2, 6, 32), "m": np.array([[1] * 6, [1, 1, 0, 0, 0, 0]], np.float32)}
    compare(nodes, feed, constants, {"y": [2, 6, 32]}, 2e-5)


def test_a_layer_norm_in_a_model_that_is_older():
    """onnxruntime's optimiser writes it into models of any version."""
    constants = {"gain": floats(32), "bias": floats(32)}
    norm = node("LayerNormalization", "x gain bias", "y", epsilon=1e-5)
    compare([norm], {"x": floats(2, 5, 32)}, constants, {"y": [2, 5, 32]}, opset=15)


def test_rotary_embeddings_and_grouped_heads():
    """Of a prompt, and of one step behind what was kept, which is shorter for one of the batch."""
    angles = floats(20, 8)
    constants = {"cos": np.cos(angles), "sin": np.sin(angles), "all": ints(5, 5), "now": np.array(6, np.int32)}
    feed = {
        "x": floats(2, 4, 6, 16),
        "flat": floats(2, 6, 64),
        "places": np.array([[3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5]]),
    }
    feed |= {"at": np.array([3]), "k": floats(2, 6, 32), "step": floats(2, 1, 128), "old": floats(2, 2, 5, 16)}
    nodes = [
        node("RotaryEmbedding", "x at cos sin", "turned", **MICROSOFT),
        node("RotaryEmbedding", "flat places cos sin", "pairs", interleaved=1, **HEADS),
        node("GroupQueryAttention", "flat k k - - all now cos sin", "prompt k1 v1", do_rotary=1, **GROUPS),
        node("GroupQueryAttention", "flat k k - - all now", "window", local_window_size=3, softcap=2.0, **GROUPS),
        node("GroupQueryAttention", "step - - old old all now cos sin", "next k2 v2", do_rotary=1, **PAIRS),
    ]  # fmt: skip
    shapes = {
        "turned": [2, 4, 6, 16],
        "pairs": [2, 6, 64],
        "prompt": [2, 6, 64],
        "window": [2, 6, 64],
        "next": [2, 1, 64],
    }
    compare(nodes, feed, constants, shapes | {name: [2, 2, 6, 16] for name in ("k1", "v1", "k2", "v2")})


def test_what_was_kept_differs_in_length():
    """In the second of the batch three elements count, and the new one is the fourth; and several new ones at once."""
    constants = {"counts": ints(5, 3), "now": ints(6)[0], "last": ints(7), "then": ints(8)[0]}
    feed = {
        "step": floats(2, 1, 128),
        "old": floats(2, 2, 5, 16),
        "steps": floats(1, 3, 128),
        "older": floats(1, 2, 5, 16),
    }
    nodes = [
        node("GroupQueryAttention", "step - - old old counts now", "y k v", **GROUPS),
        node("GroupQueryAttention", "steps - - older older last then", "z k1 v1", **GROUPS),
    ]
    compare(nodes, feed, constants, {"y": [2, 1, 64], "z": [1, 3, 64], "k1": [1, 2, 8, 16], "v1": [1, 2, 8, 16]})


@pytest.mark.parametrize("room", [4, 7])
def test_a_cache_of_a_window_keeps_its_size(room):
    """Of a prompt, one or several steps, also more than there is room for; what lies behind what counts is not said."""
    angles, nodes, shapes = floats(20, 8), [], {}
    constants = {"cos": np.cos(angles), "sin": np.sin(angles), "zero": ints(0), "two": ints(2)}
    feed = {"old": floats(1, 2, room, 16)}
    form = {"sliding_window_cache": 1, "local_window_size": 4, "do_rotary": 1, **GROUPS}
    for new, last in ((3, 2), (1, 9), (2, 12), (5, 18), (9, 8)):
        at = f"{new}_{last}"
        inputs = f"x{at} - - old old last{at} now{at} cos sin"
        nodes.append(node("GroupQueryAttention", inputs, f"y{at} all{at} v{at}", **form))
        freed = room - 3  # at once, where the cache is full
        count = last + 1 + freed * min(0, (room - last - 1) // freed)
        nodes.append(node("Slice", f"all{at} zero end{at} two", f"k{at}"))
        constants |= {f"last{at}": ints(last), f"now{at}": ints(last + 1)[0], f"end{at}": ints(count)}
        feed[f"x{at}"] = floats(1, new, 128)
        shapes |= {f"y{at}": [1, new, 64], f"k{at}": [1, 2, count, 16]}
    compare(nodes, feed, constants, shapes)


def test_queries_that_see_all_keys():
    constants = {"all": ints(5, 5), "now": np.array(6, np.int32)}
    made = node("GroupQueryAttention", "q k k - - all now", "y k1 v1", causal=0, **GROUPS)
    compare([made], {"q": floats(2, 6, 64), "k": floats(2, 6, 32)}, constants, {"y": [2, 6, 64]})


@pytest.mark.parametrize("added", [{}, {"rows": ints(2)}])
def test_what_grouped_heads_do_not_know_is_refused(added):
    """Norms of q and k, and how many rows of the queries are padding."""
    gains = "gain gain" if not added else "- -"
    made = node(
        "GroupQueryAttention", f"q - - old old all now - - - - - - - {gains} {' '.join(added)}", "y k1 v1", **GROUPS
    )
    constants = {"all": ints(5), "now": np.array(6, np.int32), "gain": floats(16), **added}
    model = make_model([made], {"q": [1, 3, 128], "old": [1, 2, 3, 16]}, {"y": [1, 3, 64]}, constants)
    with pytest.raises(OpspliceError, match="GroupQueryAttention, with these inputs and attributes"):
        frontends.load(model)


def test_operators_of_others_are_refused():
    """IREE's importer goes by names alone: a MatMul of a domain of somebody's own would be ONNX's."""
    for kind, domain, said in (
        ("MatMul", "acme", r"node '/mine' of .* is acme\.MatMul, which is not supported"),
        ("Nhwc", "com.microsoft", "is com.microsoft.Nhwc, which is not supported"),
        ("FusedGemm", "com.microsoft", "FusedGemm, with these inputs and attributes, which is not supported"),
    ):
        nodes = [node(kind, "x x", "y", name="/mine", domain=domain, activation="Elu")]
        model = make_model(nodes, {"x": [4, 4]}, {"y": [4, 4]}, domains={domain: 1})
        with pytest.raises(OpspliceError, match=said):
            frontends.load(model)


def test_integers_without_a_sign():
    """IREE takes those above the middle for negative ones."""
    kind, wide = TensorProto.UINT8, (TensorProto.UINT32, [9])
    nodes = [
        node("MaxPool", "x", "pooled", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Abs", "x", "size"),
        node("Div", "x y", "quotient"),
        node("Mod", "x y", "rest"),
        node("Abs", "a", "wide"),
        node("TopK", "x two", "most at"),
        node("Clip", "x low high", "clipped"),
    ]
    shapes = {name: (kind, [1, 2, 8, 8]) for name in ("size", "quotient", "rest", "clipped")} | {"wide": wide}
    shapes |= {"pooled": (kind, [1, 2, 4, 4]), "most": (kind, [1, 2, 8, 2]), "at": (TensorProto.INT64, [1, 2, 8, 2])}
    feed = {name: RANDOM.integers(1, 256, (1, 2, 8, 8), np.uint8) for name in "xy"}
    feed["x"] = RANDOM.permutation(128).astype(np.uint8).reshape(1, 2, 8, 8) * 2
    constants = {"two": np.array([2]), "low": np.uint8(30), "high": np.uint8(200)}
    compare(nodes, feed | {"a": RANDOM.integers(1, 1 << 32, 9, np.uint32)}, constants, shapes)
    widest = (TensorProto.UINT64, [9])
    model = make_model([node("Div", "a b", "wide")], {"a": widest, "b": widest}, {"wide": widest})
    with pytest.raises(OpspliceError, match=r"computes node 'Div of wide' \(Div\) wrongly"):
        frontends.load(model)


def test_a_model_that_says_no_version_of_the_operators():
    """As onnxruntime's optimisers leave one, and as onnxruntime takes it."""
    model = make_model([node("FastGelu", "x", "y", **MICROSOFT)], {"x": [2, 5]}, {"y": [2, 5]})
    check(model, {"x": floats(2, 5)})


@pytest.mark.parametrize("height", [4, "h"])
def test_groups_of_channels_with_a_scale_for_each_group(height):
    """As version 18 of ONNX's operators has it, which its checker refuses."""
    made = node("GroupNormalization", "x scale bias", "y", num_groups=2)
    weights = {"scale": floats(2), "bias": floats(2)}
    model = make_model([made], {"x": ["n", 4, height, 3]}, {"y": ["n", 4, height, 3]}, weights, opset=18)
    check(model, {"x": floats(2, 4, 4, 3)})


def test_names_that_operators_had_before_onnx_had_them():
    nodes = [
        node("ExpandDims", "x last", "wide", **MICROSOFT),
        node("Trilu", "x", "lower", upper=0, **MICROSOFT),
        node("GatherND", "x places", "chosen", **MICROSOFT),
        node("TransposeMatMul", "x x", "product", transA=1, alpha=0.5, **MICROSOFT),
    ]
    constants = {"last": np.array(-1, np.int32), "places": np.array([[0, 0], [1, 2]])}
    shapes = {"wide": [3, 4, 1], "lower": [3, 4], "chosen": [2], "product": [4, 4]}
    compare(nodes, {"x": floats(3, 4)}, constants, shapes)


def test_heads_whose_sums_have_a_sink():
    """A score of each head that takes its share and adds nothing, as gpt-oss has it; or one of zero for all."""
    constants = {"sink": floats(8), "all": ints(5, 5), "now": np.array(6, np.int32)}
    plain = {"num_heads": 8, "kv_num_heads": 2, **MICROSOFT}
    nodes = [
        node("GroupQueryAttention", "q k k - - all now - - - - sink", "y k1 v1", **plain),
        node("GroupQueryAttention", "q k k - - all now", "z k2 v2", smooth_softmax=1, local_window_size=3, **plain),
    ]
    shapes = {"y": [2, 6, 128], "z": [2, 6, 128]} | {name: [2, 2, 6, 16] for name in ("k1", "v1", "k2", "v2")}
    compare(nodes, {"q": floats(2, 6, 128), "k": floats(2, 6, 32)}, constants, shapes)


@pytest.mark.parametrize("kind", ["uint8", "int4", "uint4"])
def test_tables_whose_last_blocks_are_cut_short(kind):
    """Bytes of two numbers each, and numbers of four bits, along the last dim and along the first."""
    numbers, columns = RANDOM.integers(0, 256, (6, 20)).astype(np.uint8), 40
    halves = np.stack([numbers & 15, numbers >> 4], -1).reshape(6, columns)
    narrow = None if kind == "uint8" else np.dtype(getattr(ml_dtypes, kind))
    low = 8 if kind == "int4" else 0
    table = numbers if narrow is None else (halves.astype(np.int8) - low).astype(narrow)
    points = RANDOM.integers(0, 256, (6, 2)).astype(np.uint8) if narrow is None else table[:, :3]
    constants = {"t": table, "s": abs(floats(6, 3)), "z": points, "s1": abs(floats(1, columns)), "one": np.array(3)}
    own = {"block_size": 16, **MICROSOFT}
    nodes = [
        node("GatherBlockQuantized", "t i s", "y", gather_axis=0, quantize_axis=1, **own),
        node("GatherBlockQuantized", "t one s z", "w", gather_axis=0, quantize_axis=1, **own),
    ]
    if narrow is None:  # a table that is a weight, too
        constants |= {"t": table.reshape(6, 4, 5), "flat": np.array([0, -1])}
        nodes = [
            node("Reshape", "t flat", "table"),
            *(
                node(
                    each.op_type,
                    " ".join(["table", *each.input[1:]]),
                    each.output[0],
                    gather_axis=0,
                    quantize_axis=1,
                    **own,
                )
                for each in nodes
            ),
        ]
    shapes = {"y": [2, 3, columns], "w": [columns]}
    if narrow is not None:
        nodes.append(node("GatherBlockQuantized", "t i s1", "v", gather_axis=1, quantize_axis=0, **own))
        shapes["v"] = [6, 2, 3]
    else:
        del constants["s1"]
    compare(nodes, {"i": np.array([[0, 5, 3], [3, 1, 1]])}, constants, shapes)

"""Writes attention, ONNX's and onnxruntime's, and rotary embeddings as nodes of ONNX; docs/onnx.md lists them.

    Attention, MultiHeadAttention, GroupQueryAttention: q, k, v by heads -> scores + bias -> softmax -> sums of v

Values by heads are [batch, heads, length, size].
"""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import OF_NUMBERS, NodeWriter, attribute, input_name, wanted_result

_LENGTH = 2  # the dim of values by heads
_BY_HEADS = 4
_FILTER = -10000.0


def attention(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """Attention of com.microsoft, as BERT has it: one product makes q, k and v."""
    x, weight, bias, mask, past, added = (input_name(node, number) for number in range(6))
    shape, heads = on.shape(weight), attribute(node, "num_heads", 0)
    if shape is None or shape[1] is None or attribute(node, "do_rotary", 0) or input_name(node, 6):
        return None
    product = on.put("MatMul", x, weight)
    product = on.put("Add", product, bias) if bias else product
    sizes = attribute(node, "qkv_hidden_sizes", None) or [shape[1] // 3] * 3
    if wanted_result(node, 1) and sizes[1] != sizes[2]:
        return None  # k and v are one result
    q, k, v = (_by_heads(on, part, heads) for part in _parts(on, product, sizes))
    present = ""
    if past:
        both = (on.put("Gather", past, number, axis=0) for number in (0, 1))
        k, v = (on.put("Concat", old, new, axis=_LENGTH) for old, new in zip(both, (k, v), strict=True))
    if wanted_result(node, 1):
        axis = on.give(np.array([0]))
        present = on.put("Concat", on.put("Unsqueeze", k, axis), on.put("Unsqueeze", v, axis), axis=0)
    result = _with_mask(on, node, (q, k, v), added, mask, sizes[0] // heads)
    return None if result is None else [result, present]


def multi_head(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """MultiHeadAttention: q, k and v apart."""
    q, k, v, bias, mask, added, past_k, past_v = (input_name(node, number) for number in range(8))
    heads, shapes = attribute(node, "num_heads", 0), [shape for shape in map(on.shape, (q, k, v)) if shape]
    apart, widths = len(shapes) == 3 and not input_name(node, 8), [shape[-1] for shape in shapes]
    if not apart or len(shapes[0]) == _BY_HEADS or None in widths:
        return None  # q, k and v in one, and sizes that are not known
    sizes = [width for width in widths if width]
    if bias:
        if any(len(shape) == _BY_HEADS for shape in shapes):
            return None
        given = zip((q, k, v), _parts(on, bias, sizes), strict=True)
        q, k, v = (on.put("Add", each, part) for each, part in given)
    q, k, v = (
        each if len(shape) == _BY_HEADS else _by_heads(on, each, heads)
        for each, shape in zip((q, k, v), shapes, strict=True)
    )
    if past_k:
        k, v = (on.put("Concat", old, new, axis=_LENGTH) for old, new in ((past_k, k), (past_v, v)))
    result = _with_mask(on, node, (q, k, v), added, mask, sizes[0] // heads)
    return None if result is None else [result, k, v]


def group_query(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """GroupQueryAttention: several heads of q for each of k and v, which may be kept from call to call.

    What was kept lies in `past`, of which the first `lengths + 1 - new` elements count; results have room for the new
    ones behind all of it. A cache of a window keeps its size, and the elements of the last places that it has room for.
    """
    names = [input_name(node, number) for number in range(11)]
    q, k, v, past_k, past_v, lengths, whole, cos, sin, given, given_bias = names
    heads, groups = attribute(node, "num_heads", 0), attribute(node, "kv_num_heads", 0)
    shape, other = on.shape(q), any(node.input[12:])  # scales of what was kept, norms, and lengths of padded queries
    window, windowed = attribute(node, "local_window_size", -1), attribute(node, "sliding_window_cache", 0)
    unknown = ("qk_output", "k_quant_type", "v_quant_type")
    quantised = any(attribute(node, each, 0) not in (0, b"NONE") for each in unknown)
    if shape is None or shape[-1] is None or other or quantised or bool(k) != bool(v) or (windowed and given_bias):
        return None
    size = shape[-1] // (heads if k else heads + 2 * groups)
    if not k:
        q, k, v = _parts(on, q, [heads * size, groups * size, groups * size])
    q, k, v = (_by_heads(on, each, count) for each, count in ((q, heads), (k, groups), (v, groups)))
    new, row = on.size(q, _LENGTH), on.give(np.array([-1, 1]))
    total = on.put("Add", on.put("Cast", on.put("Reshape", lengths, row), to=TensorProto.INT64), 1)
    first = on.put("Equal", on.put("Cast", on.scalar(whole), to=7), new)
    kept = on.put("Where", first, 0, on.put("Sub", total, new))  # [batch, 1]
    places = on.put("Add", kept, on.count(new))  # [batch, new]
    if attribute(node, "do_rotary", 0):
        table = on.shape(cos)
        if table is None or table[-1] is None:
            return None
        angles, pairs = _angles(on, cos, sin, given or places, 1), bool(attribute(node, "rotary_interleaved", 0))
        q, k = (_turned(on, each, angles, pairs, size, 2 * table[-1]) for each in (q, k))
    there = kept
    if windowed:
        room = on.size(past_k, _LENGTH)
        there = _held(on, kept, room, window)
    if past_k:
        k, v = (_joined(on, old, each, there, shape[1] == 1) for old, each in ((past_k, k), (past_v, v)))
    presents = [k, v]
    if windowed:  # the elements of the last places
        gone = on.put("Sub", on.put("Add", there, on.put("Sub", total, kept)), _held(on, total, room, window))
        index = on.put("Min", on.put("Add", gone, on.count(room)), on.put("Sub", on.size(k, _LENGTH), 1))
        index = on.put("Unsqueeze", index, [1, 3])
        wide = on.put("Expand", index, on.put("Shape", past_k))
        presents = [on.put("GatherElements", each, wide, axis=_LENGTH) for each in (k, v)]
    keys, queries = on.places(k, _LENGTH), on.put("Unsqueeze", on.put("Add", there, on.count(new)), [1, 3])
    if attribute(node, "causal", 1):
        seen = on.put("LessOrEqual", keys, queries)
    else:
        seen = on.put("Less", keys, on.put("Unsqueeze", total, [2, 3]))
    if window > 0:
        seen = on.put("And", seen, on.put("Greater", keys, on.put("Sub", queries, window)))
    biases = [_bias(on, seen, q), given_bias]
    wide_k, wide_v = (_repeated(on, each, groups, heads // groups, size) for each in (k, v))
    sink = input_name(node, 11)
    if not sink and attribute(node, "smooth_softmax", 0) > 0:
        sink = on.number(0, node.input[0])
    return [_merged(on, _attended(on, node, q, wide_k, wide_v, biases, size, sink)), *presents]


def standard(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """ONNX's own Attention, whose function scales q and k apart, and adds all that leaves keys out."""
    q, k, v, mask, past_k, past_v, lengths = (input_name(node, number) for number in range(7))
    shape, other, by_heads = on.shape(q), on.shape(k), len(on.shape(q) or ()) == _BY_HEADS
    if not shape or not other or on.shape(v) is None or not on.element(q) or (mask and on.shape(mask) is None):
        return None
    heads, groups = (
        (shape[1], other[1]) if by_heads else (attribute(node, name, None) for name in ("q_num_heads", "kv_num_heads"))
    )
    sizes = [(on.shape(name) or [None])[-1] for name in (q, k, v)]
    if not heads or not groups or heads % groups or None in sizes:
        return None
    size, _, width = [
        int(each or 0) // (1 if by_heads else n) for each, n in zip(sizes, (heads, groups, groups), strict=True)
    ]
    if not by_heads:
        q, k, v = (_by_heads(on, each, count) for each, count in ((q, heads), (k, groups), (v, groups)))
    if past_k:
        k, v = (on.put("Concat", old, new, axis=_LENGTH) for old, new in ((past_k, k), (past_v, v)))
    wide_k, wide_v = (_repeated(on, each, groups, heads // groups, n) for each, n in ((k, size), (v, width)))
    scale = attribute(node, "scale", None)
    product = on.put("MatMul", q, on.put("Transpose", wide_k, perm=[0, 1, 3, 2]))
    product = on.put("Mul", product, on.number(1 / np.sqrt(size) if scale is None else scale, node.input[0]))
    capped = _capped(on, node, product)
    whole = _whole_mask(on, mask, k) if mask else ""
    seen = _seen(on, node, q, k, past_k, lengths)
    masked = capped
    if whole and on.element(mask) == TensorProto.BOOL:
        if None in (*(on.shape(mask) or ()), *shape, *other):  # IREE cannot tell how sizes of a choice go together
            masked = on.put("Add", masked, _bias(on, whole, node.input[0], -np.inf))
        else:
            seen = on.put("And", seen, whole) if seen else whole
    elif whole:
        masked = on.put("Add", masked, whole)
    if seen:
        masked = on.put("Where", seen, masked, on.number(-np.inf, node.input[0]))
    wide = attribute(node, "softmax_precision", 0) or on.element(node.input[0])
    logits = masked if wide == on.element(node.input[0]) else on.put("Cast", masked, to=wide)
    shares = on.put("Softmax", logits, axis=-1)
    if mask or lengths or _has_window(node):  # else each query sees a key
        largest = on.put("ReduceMax", logits, [-1], keepdims=1)
        kind = helper.tensor_dtype_to_np_dtype(wide)
        lowest, zero = (on.give(np.array(number, kind)) for number in (-np.inf, 0))
        shares = on.put("Where", on.put("Equal", largest, lowest, doc_string=OF_NUMBERS), zero, shares)
    if wide != on.element(node.input[0]):
        shares = on.put("Cast", shares, to=on.element(node.input[0]))
    result = on.put("MatMul", shares, wide_v)
    inner = (product, capped, masked, shares)[attribute(node, "qk_matmul_output_mode", 0)]
    return [result if by_heads else _merged(on, result), k, v, inner]


def rotary(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """RotaryEmbedding of com.microsoft: places come before the tables."""
    x, places, cos, sin = node.input
    shape, table, given = on.shape(x), on.shape(cos), on.shape(places)
    heads, part = attribute(node, "num_heads", 0), attribute(node, "rotary_embedding_dim", 0)
    if shape is None or table is None or given is None or attribute(node, "is_packed_batching", 0):
        return None
    by_heads, width, half = len(shape) == _BY_HEADS, shape[-1], table[-1]
    if width is None or half is None or attribute(node, "scale", 1.0) != 1 or (part and not heads):
        return None
    size = width if by_heads else width // heads if heads else 2 * half
    if len(given) == 1:  # where the first one is
        places = on.put("Unsqueeze", on.put("Add", places, on.places(x, -2)), [0])
    each = x if by_heads else on.put("Reshape", x, [0, 0, -1, size])
    angles = _angles(on, cos, sin, places, 1 if by_heads else 2)
    turned = _turned(on, each, angles, bool(attribute(node, "interleaved", 0)), size, 2 * half)
    return turned if by_heads else on.put("Reshape", turned, [0, 0, -1])


# ---- parts -----------------------------------------------------------------------------------------------------------


def _parts(on: NodeWriter, value: str, sizes: list[int]) -> list[str]:
    """A value cut along its last dim."""
    return on.put_all("Split", len(sizes), value, sizes, axis=-1)


def _by_heads(on: NodeWriter, value: str, heads: int) -> str:
    return on.put("Transpose", on.put("Reshape", value, [0, 0, heads, -1]), perm=[0, 2, 1, 3])


def _merged(on: NodeWriter, value: str) -> str:
    return on.put("Reshape", on.put("Transpose", value, perm=[0, 2, 1, 3]), [0, 0, -1])


def _repeated(on: NodeWriter, value: str, groups: int, times: int, size: int) -> str:
    """Each head several times."""
    if times == 1:
        return value
    apart = on.put("Unsqueeze", value, [2])
    wide = on.put("Expand", apart, [1, 1, times, 1, 1])
    return on.put("Reshape", wide, [0, groups * times, -1, size])


def _with_mask(
    on: NodeWriter, node: onnx.NodeProto, values: tuple[str, str, str], added: str, mask: str, size: int
) -> str | None:
    """The result of q, k and v by heads, None for a mask of another kind. added: to scores; size: of a head."""
    q, k, v = values
    batch = (on.shape(node.input[0]) or [None])[0]
    masked = _masked(on, mask, k, batch, attribute(node, "mask_filter_value", _FILTER)) if mask else ""
    if masked is None:
        return None
    causal = ""
    if attribute(node, "unidirectional", 0):
        # Of keys that are not those of the queries there may be another number.
        is_apart = node.op_type == "MultiHeadAttention" and not input_name(node, 6) and not _is_one_length(on, node)
        causal = _causal_apart(on, q, k) if is_apart else _causal(on, q, k)
    return _merged(on, _attended(on, node, q, k, v, [added, masked, causal], size))


def _attended(
    on: NodeWriter, node: onnx.NodeProto, q: str, k: str, v: str, biases: list[str], size: int, sink: str = ""
) -> str:
    """size: of a head. sink: a score of each head, or of all, that takes its share of the sums and adds nothing."""
    scale = attribute(node, "scale", 0.0) or 1 / np.sqrt(size)
    scores = on.put("MatMul", q, on.put("Transpose", k, perm=[0, 1, 3, 2]))
    scores = _capped(on, node, on.put("Mul", scores, on.number(scale, node.input[0])))
    for bias in filter(None, biases):
        scores = on.put("Add", scores, bias)
    if not sink:
        return on.put("MatMul", on.put("Softmax", scores, axis=-1), v)
    rows = on.put("Shape", on.put("Slice", scores, [0], [1], [3]))
    column = on.put("Expand", on.put("Reshape", sink, [1, -1, 1, 1]), rows)
    shares = on.put("Softmax", on.put("Concat", scores, column, axis=-1), axis=-1)
    return on.put("MatMul", on.put("Slice", shares, [0], [-1], [3]), v)


def _capped(on: NodeWriter, node: onnx.NodeProto, scores: str) -> str:
    """Scores within a limit, if the node has one."""
    if not (cap := attribute(node, "softcap", 0.0)):
        return scores
    limit = on.number(cap, node.input[0])
    return on.put("Mul", on.put("Tanh", on.put("Div", scores, limit)), limit)


def _has_window(node: onnx.NodeProto) -> bool:
    return any(attribute(node, f"{side}_window_size", -1) >= 0 for side in ("left", "right"))


def _seen(on: NodeWriter, node: onnx.NodeProto, q: str, k: str, past: str, lengths: str) -> str:
    """Which keys count for which queries by their places and by how many of each batch there are; "" for all."""
    keys = on.places(k, _LENGTH)
    queries = on.put("Unsqueeze", on.places(q, _LENGTH), [1])
    known = on.put("Unsqueeze", lengths, [1, 2, 3]) if lengths else ""
    if past:
        queries = on.put("Add", queries, on.size(past, _LENGTH))
    elif lengths:
        queries = on.put("Add", queries, on.put("Sub", known, on.size(q, _LENGTH)))
    parts = [on.put("Less", keys, known)] if lengths else []
    if attribute(node, "is_causal", 0):
        parts.append(on.put("LessOrEqual", keys, queries))
    if (left := attribute(node, "left_window_size", -1)) >= 0:
        parts.append(on.put("GreaterOrEqual", keys, on.put("Sub", queries, left)))
    if (right := attribute(node, "right_window_size", -1)) >= 0:
        parts.append(on.put("LessOrEqual", keys, on.put("Add", queries, right)))
    return functools.reduce(lambda one, other: on.put("And", one, other), parts) if parts else ""


def _whole_mask(on: NodeWriter, mask: str, k: str) -> str:
    """A mask with a column for each key: it may leave the last ones out, which then do not count."""
    given, keys = (on.shape(mask) or [None])[-1], (on.shape(k) or [0, 0, None])[_LENGTH] if on.shape(k) else None
    if given is not None and given == keys:
        return mask
    lowest = False if on.element(mask) == TensorProto.BOOL else -np.inf
    missing = on.put("Sub", on.size(k, _LENGTH), on.size(mask, -1))
    shape = on.put("Concat", on.put("Shape", mask, end=-1), on.put("Unsqueeze", missing, [0]), axis=0)
    return on.put("Concat", mask, on.put("Expand", on.number(lowest, mask), shape), axis=-1)


def _bias(on: NodeWriter, seen: str, like: str, masked: float | None = None) -> str:
    """What is added to scores: nothing to those that are seen."""
    lowest = on.lowest(like) if masked is None else on.number(masked, like)
    return on.put("Where", seen, on.number(0, like), lowest)


def _causal(on: NodeWriter, q: str, k: str) -> str:
    """Of each query the keys up to its own, the last query's the last."""
    before = on.put("Sub", on.size(k, _LENGTH), on.size(q, _LENGTH))
    queries = on.put("Unsqueeze", on.put("Add", on.places(q, _LENGTH), before), [1])
    return _bias(on, on.put("LessOrEqual", on.places(k, _LENGTH), queries), q)


def _is_one_length(on: NodeWriter, node: onnx.NodeProto) -> bool:
    """Whether there are as many queries as keys, in the first two inputs, for sure."""
    shapes = (on.shape(name) or [] for name in node.input[:2])
    one, other = (shape[_LENGTH if len(shape) == _BY_HEADS else 1] if shape else None for shape in shapes)
    return one is not None and one == other


def _causal_apart(on: NodeWriter, q: str, k: str) -> str:
    """Of each query the keys up to its own place, and of the last one all, as onnxruntime has it."""
    queries = on.put("Unsqueeze", on.places(q, _LENGTH), [1])
    is_last = on.put("Equal", queries, on.put("Sub", on.size(q, _LENGTH), 1))
    return _bias(on, on.put("Or", on.put("LessOrEqual", on.places(k, _LENGTH), queries), is_last), q)


def _masked(on: NodeWriter, mask: str, k: str, batch: int | None, lowest: float) -> str | None:
    """Of a mask by batch and key, by batch, query and key, or of how many keys of each batch are seen.

    What has two numbers for each batch says then where the first key lies. Others behind those are not read.
    """
    shape = on.shape(mask) or []
    rank = len(shape)
    if rank == 1:
        columns = on.put("Unsqueeze", on.put("Cast", mask, to=TensorProto.INT64), [1, 2, 3])
        ends, places = columns, on.places(k, _LENGTH)
        if batch is not None and shape[0] not in (None, batch):
            ends = on.put("Slice", columns, [0], [batch], [0])
        seen = on.put("Less", places, ends)
        if batch is not None and shape[0] == 2 * batch:
            starts = on.put("Slice", columns, [batch], [2 * batch], [0])
            seen = on.put("And", seen, on.put("GreaterOrEqual", places, starts))
        return _bias(on, seen, k, lowest)
    if rank not in (2, 3):
        return None
    axes = on.give(np.array([1, 2] if rank == 2 else [1]))
    return _bias(on, on.put("Unsqueeze", on.put("Cast", mask, to=TensorProto.BOOL), axes), k, lowest)


def _joined(on: NodeWriter, past: str, new: str, kept: str, single: bool) -> str:
    """What was kept, and what is new behind the part of it that counts.

    kept: how long that is, [batch, 1]. single: whether only one is new.
    """
    both = on.put("Concat", past, new, axis=_LENGTH)
    old, places = on.size(past, _LENGTH), on.places(both, _LENGTH)
    axes = on.give(np.array([1, 3]))
    if single:
        return on.put("Where", on.put("Unsqueeze", on.put("Equal", places, kept), axes), new, both)
    moved = on.put("Add", on.put("Sub", places, kept), old)  # where new ones lie in both
    last = on.put("Sub", on.size(both, _LENGTH), 1)
    index = on.put("Where", on.put("Less", places, kept), places, on.put("Min", moved, last))
    spread = on.put("Expand", on.put("Unsqueeze", index, axes), on.put("Shape", both))
    return on.put("GatherElements", both, spread, axis=_LENGTH)


def _held(on: NodeWriter, places: str, room: str, window: int) -> str:
    """How many of so many places a cache of a window holds: where it is full, all before the window leave at once."""
    freed = on.put("Add", on.put("Sub", room, window), 1)
    above = on.put("Max", on.put("Sub", places, room), 0)
    times = on.put("Div", on.put("Sub", on.put("Add", above, freed), 1), freed)
    return on.put("Sub", places, on.put("Mul", times, freed))


def _angles(on: NodeWriter, cos: str, sin: str, places: str, axis: int) -> tuple[str, str]:
    """The rows of both tables for places of a batch. axis: the dim of heads."""
    rows = (on.put("Gather", table, places) for table in (cos, sin))
    c, s = (on.put("Unsqueeze", each, [axis]) for each in rows)
    return c, s


def _turned(on: NodeWriter, x: str, angles: tuple[str, str], interleaved: bool, size: int, part: int) -> str:
    """Pairs of numbers turned by angles, neighbours or from both halves; what is behind `part` stays."""
    (cos, sin), rest = angles, ""
    if part < size:
        x, rest = _parts(on, x, [part, size - part])
    if interleaved:
        pairs = on.put("Reshape", x, [0, 0, 0, part // 2, 2])
        one, other = (on.put("Gather", pairs, number, axis=-1) for number in (0, 1))
    else:
        one, other = _parts(on, x, [part // 2, part // 2])
    left = on.put("Sub", on.put("Mul", one, cos), on.put("Mul", other, sin))
    right = on.put("Add", on.put("Mul", other, cos), on.put("Mul", one, sin))
    if interleaved:
        ends = (on.put("Unsqueeze", each, [4]) for each in (left, right))
        y = on.put("Reshape", on.put("Concat", *ends, axis=4), [0, 0, 0, part])
    else:
        y = on.put("Concat", left, right, axis=-1)
    return on.put("Concat", y, rest, axis=-1) if rest else y

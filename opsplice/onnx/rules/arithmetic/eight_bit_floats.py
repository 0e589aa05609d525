"""Rules that make floats of 8 bits, for which IREE lowers CastLike alone, of f32, and knows no limits.

What is too large becomes the largest one, unless a node says that it becomes NaN or infinity.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute

KINDS = (
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
)


def cast(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A cast to a type that the node says."""
    return _made(on, node.input[0], attribute(node, "to", 0), attribute(node, "saturate", 1))


def cast_like(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A cast for other types, too: at some without a sign, IREE's compiler ends the process."""
    x, like = node.input
    wanted = on.element(like)
    if wanted and wanted not in KINDS:
        return on.put("Cast", x, to=wanted)
    is_limited = attribute(node, "saturate", 1)
    return None if not is_limited and on.element(x) == TensorProto.FLOAT else _made(on, x, wanted, is_limited)


def quantized(on: NodeWriter, node: onnx.NodeProto, element: int, scale: str | None) -> str | None:
    """QuantizeLinear. scale: as many as the elements that are divided, or those that spread to them."""
    if scale is None:
        return None
    wide = [on.cast(each, TensorProto.FLOAT) for each in (node.input[0], scale)]
    return on.put("Cast", on.put("Div", *wide), to=element, saturate=attribute(node, "saturate", 1))


def _made(on: NodeWriter, x: str, wanted: int, is_limited: bool) -> str | None:
    if wanted not in KINDS or on.element(x) not in FLOATS:
        return None
    kind = helper.tensor_dtype_to_np_dtype(wanted)
    x = on.cast(x, TensorProto.FLOAT)
    if is_limited:
        most = float(ml_dtypes.finfo(kind).max)
        x = on.put("Clip", x, *(on.give(np.array(end, np.float32)) for end in (-most, most)))
    return on.put("CastLike", x, on.give(np.zeros(1, kind)), saturate=0)

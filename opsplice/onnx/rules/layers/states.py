"""Rules for layers of onnxruntime that keep a state from call to call."""

from __future__ import annotations

import numpy as np
import onnx

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name

_READ = {"activation", "dilation", "ndim"}
_WIDE = 3  # dims of a signal with channels


def causal_convolution(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """CausalConvWithState: of each channel alone, behind what is left of the last call, or zeros."""
    x, weight, bias, past = (input_name(node, number) for number in range(4))
    shape, kind = on.shape(weight), attribute(node, "activation", b"none")
    # Attributes but these are layouts of other kernels, and states of several places; -1 and 0 stand for none.
    other = any(attribute(node, each.name, 0) not in (0, -1) for each in node.attribute if each.name not in _READ)
    if shape is None or len(shape) != _WIDE or None in shape or other or attribute(node, "ndim", 1) != 1:
        return None
    channels, _, taps = (int(size or 0) for size in shape)
    step = attribute(node, "dilation", 1)
    kept = (taps - 1) * step
    whole = on.put("Concat", past, x, axis=2) if past else on.put("Pad", x, [0, 0, kept, 0, 0, 0])
    y = on.put("Conv", whole, weight, *([bias] if bias else []), group=channels, dilations=[step])
    if kind != b"none":
        y = on.put("Mul", y, on.put("Sigmoid", y))
    begin = on.put("Sub", on.put("Shape", whole, start=2), [kept])
    return [y, on.put("Slice", whole, begin, [np.iinfo(np.int64).max], [2])]

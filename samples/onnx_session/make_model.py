"""Writes model.onnx: a block of a transformer, its weights in a file of their own, as exporters write large models."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDE, INNER, HEADS, LONG = 64, 128, 4, 16


def write(folder: Path) -> Path:
    """The model in a folder: x of batch x 16 x 64 to y of the same shape."""
    random = np.random.default_rng(0)
    weights = {
        "gain": np.ones(WIDE, np.float32),
        "shift": np.zeros(WIDE, np.float32),
        "qkv": random.normal(size=(WIDE, 3 * WIDE)).astype(np.float32) / 8,
        "out": random.normal(size=(WIDE, WIDE)).astype(np.float32) / 8,
        "up": random.normal(size=(WIDE, INNER)).astype(np.float32) / 8,
        "up_bias": random.normal(size=INNER).astype(np.float32),
        "down": random.normal(size=(INNER, WIDE)).astype(np.float32) / 8,
        "scale": np.float32((WIDE // HEADS) ** -0.5),
        "split": np.array([0, LONG, HEADS, WIDE // HEADS]),
        "join": np.array([0, LONG, WIDE]),
    }

    def node(kind: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
        name = f"/block/{outputs.split()[0]}"
        return helper.make_node(kind, inputs.split(), outputs.split(), name=name, **attributes)

    nodes = [
        node("LayerNormalization", "x gain shift", "normed"),
        node("MatMul", "normed qkv", "mixed"),
        node("Split", "mixed", "q k v", axis=-1, num_outputs=3),
        *(node("Reshape", f"{each} split", f"{each}_apart") for each in "qkv"),
        node("Transpose", "q_apart", "q_heads", perm=[0, 2, 1, 3]),
        node("Transpose", "k_apart", "k_heads", perm=[0, 2, 3, 1]),
        node("Transpose", "v_apart", "v_heads", perm=[0, 2, 1, 3]),
        node("MatMul", "q_heads k_heads", "products"),
        node("Mul", "products scale", "scores"),
        node("Softmax", "scores", "probabilities", axis=-1),
        node("MatMul", "probabilities v_heads", "attended"),
        node("Transpose", "attended", "together", perm=[0, 2, 1, 3]),
        node("Reshape", "together join", "joined"),
        node("MatMul", "joined out", "projected"),
        node("Add", "x projected", "middle"),
        node("LayerNormalization", "middle gain shift", "normed_again"),
        node("MatMul", "normed_again up", "upwards"),
        node("Add", "upwards up_bias", "biased"),
        node("Gelu", "biased", "active"),
        node("MatMul", "active down", "downwards"),
        node("Add", "middle downwards", "y"),
    ]
    shape = ["batch", LONG, WIDE]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "block", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=1024)
    return folder / "model.onnx"


if __name__ == "__main__":
    print(f"wrote {write(Path())}")

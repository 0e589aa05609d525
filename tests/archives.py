"""Archives of one parameter of f32, in the formats that other tools write."""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path

import numpy as np


def irpa(name: str, array: np.ndarray) -> bytes:
    """As IREE's runtime writes it."""
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    index.add_buffer(name, array.astype("<f4"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.irpa"
        index.create_archive_file(str(path))
        return path.read_bytes()


def safetensors(name: str, array: np.ndarray) -> bytes:
    """https://github.com/huggingface/safetensors, "Format"."""
    data = array.astype("<f4").tobytes()
    header = {name: {"dtype": "F32", "shape": array.shape, "data_offsets": [0, len(data)]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def gguf(name: str, array: np.ndarray) -> bytes:
    """https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3; data begins at a multiple of 32."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + struct.pack("<Q", len(name)) + name.encode()
    head += struct.pack(f"<I{array.ndim}QIQ", array.ndim, *reversed(array.shape), 0, 0)
    return head + bytes(-len(head) % 32) + array.astype("<f4").tobytes()

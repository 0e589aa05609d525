"""The transformer block of this sample: its sizes, its arguments with reproducible values, and what it computes.

    python block.py in_out inputs/    # the arguments of jax.mlir as inputs/00.npy, ... (out_in: torch.mlir)

Needs numpy alone; knows no frontend, no compiler and no kernel.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

BATCH = 1
SEQUENCE = 128
WIDTH = 256
HEADS = 4
HIDDEN = 1024
EPSILON = 1e-5

# In order. Every weight is (in, out) here, as JAX takes it; PyTorch's `linear` takes (out, in).
SHAPES: dict[str, tuple[int, ...]] = {
    "x": (BATCH, SEQUENCE, WIDTH),
    "attention_norm_gain": (WIDTH,),
    "attention_norm_bias": (WIDTH,),
    "qkv_weight": (WIDTH, 3 * WIDTH),
    "qkv_bias": (3 * WIDTH,),
    "project_weight": (WIDTH, WIDTH),
    "project_bias": (WIDTH,),
    "mlp_norm_gain": (WIDTH,),
    "mlp_norm_bias": (WIDTH,),
    "up_weight": (WIDTH, HIDDEN),
    "up_bias": (HIDDEN,),
    "down_weight": (HIDDEN, WIDTH),
    "down_bias": (WIDTH,),
}
LAYOUTS = ("in_out", "out_in")


def arguments(layout: str, seed: int = 0) -> list[np.ndarray]:
    """The block's arguments in order, f32, with values of the size that a trained block has.

    layout: "in_out" for weights as jax.mlir takes them, "out_in" for torch.mlir; both hold the same block.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout '{layout}': use one of {', '.join(LAYOUTS)}")
    random = np.random.default_rng(seed)
    values = [_value(name, shape, random) for name, shape in SHAPES.items()]
    if layout == "in_out":
        return values
    return [np.ascontiguousarray(v.T) if v.ndim == 2 else v for v in values]


def reference(seed: int = 0) -> np.ndarray:
    """What the block makes of `arguments(..., seed)`, computed in f64: f64[BATCH, SEQUENCE, WIDTH]."""
    a = {name: value.astype(np.float64) for name, value in zip(SHAPES, arguments("in_out", seed), strict=True)}
    x = a["x"]
    qkv = _layer_norm(x, a["attention_norm_gain"], a["attention_norm_bias"]) @ a["qkv_weight"] + a["qkv_bias"]
    q, k, v = qkv.reshape(BATCH, SEQUENCE, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    mixed = _softmax(q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)) @ v
    x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ a["project_weight"] + a["project_bias"]
    hidden = _gelu(_layer_norm(x, a["mlp_norm_gain"], a["mlp_norm_bias"]) @ a["up_weight"] + a["up_bias"])
    return x + hidden @ a["down_weight"] + a["down_bias"]


def _layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt(np.square(centered).mean(axis=-1, keepdims=True) + EPSILON) * gain + bias


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _value(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    noise = random.standard_normal(shape)
    if name.endswith("_weight"):
        noise /= np.sqrt(shape[0])
    elif name.endswith("_gain"):
        noise = 1.0 + 0.1 * noise
    elif name.endswith("_bias"):
        noise *= 0.1
    return noise.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="write the block's arguments as .npy files")
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(arguments(options.layout)):
        np.save(options.folder / f"{number:02}.npy", value)


if __name__ == "__main__":
    main()

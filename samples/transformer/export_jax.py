"""Writes jax.mlir: the transformer block as StableHLO, from JAX.

    pip install jax==0.10.2 jaxlib==0.10.2 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
    python export_jax.py            # writes jax.mlir beside this file
    python export_jax.py --check    # compiles it with IREE and prints the largest difference from JAX

The result is kept in the sample, so neither JAX nor this script is needed to run it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import block
import check
import jax
import jax.numpy as jnp
import numpy as np

OUTPUT = Path(__file__).with_name("jax.mlir")


def layer_norm(x, gain, bias):
    centered = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centered), axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + block.EPSILON) * gain + bias


def attention(x, qkv_weight, qkv_bias, project_weight, project_bias):
    batch, sequence, width = x.shape
    qkv = x @ qkv_weight + qkv_bias
    qkv = qkv.reshape(batch, sequence, 3, block.HEADS, width // block.HEADS)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5)
    mixed = jax.nn.softmax(scores, axis=-1) @ v
    return mixed.swapaxes(1, 2).reshape(batch, sequence, width) @ project_weight + project_bias


def mlp(x, up_weight, up_bias, down_weight, down_bias):
    hidden = jax.nn.gelu(x @ up_weight + up_bias, approximate=True)
    return hidden @ down_weight + down_bias


def transformer_block(
    x,
    attention_norm_gain,
    attention_norm_bias,
    qkv_weight,
    qkv_bias,
    project_weight,
    project_bias,
    mlp_norm_gain,
    mlp_norm_bias,
    up_weight,
    up_bias,
    down_weight,
    down_bias,
):
    """x: f32[batch, sequence, width]; weights are (in, out). Returns the same shape as x."""
    normed = layer_norm(x, attention_norm_gain, attention_norm_bias)
    x = x + attention(normed, qkv_weight, qkv_bias, project_weight, project_bias)
    normed = layer_norm(x, mlp_norm_gain, mlp_norm_bias)
    return x + mlp(normed, up_weight, up_bias, down_weight, down_bias)


def main() -> None:
    parser = argparse.ArgumentParser(description="export the transformer block from JAX")
    parser.add_argument("--check", action="store_true", help="compare IREE's result of jax.mlir with JAX's")
    arguments = block.arguments("in_out")
    if parser.parse_args().check:
        check.compare(OUTPUT, "stablehlo", arguments, np.asarray(jax.jit(transformer_block)(*arguments)))
        return
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments]
    OUTPUT.write_text(jax.jit(transformer_block).lower(*shapes).as_text())


if __name__ == "__main__":
    main()

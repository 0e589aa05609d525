"""Writes torch.mlir: the transformer block in MLIR's torch dialect, from PyTorch.

    pip install torch==2.13.0 iree-turbine==3.9.0 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
    python export_torch.py            # writes torch.mlir beside this file
    python export_torch.py --check    # compiles it with IREE and prints the largest difference from PyTorch

The result is kept in the sample, so neither PyTorch nor this script is needed to run it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import block
import check
import torch
import torch.nn.functional as F  # noqa: N812 - the name that every PyTorch program gives it
from iree.turbine import aot

OUTPUT = Path(__file__).with_name("torch.mlir")


def layer_norm(x, gain, bias):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, block.EPSILON)


def attention(x, qkv_weight, qkv_bias, project_weight, project_bias):
    batch, sequence, width = x.shape
    qkv = F.linear(x, qkv_weight, qkv_bias)
    qkv = qkv.view(batch, sequence, 3, block.HEADS, width // block.HEADS)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5)
    mixed = torch.softmax(scores, dim=-1) @ v
    return F.linear(mixed.transpose(1, 2).reshape(batch, sequence, width), project_weight, project_bias)


def mlp(x, up_weight, up_bias, down_weight, down_bias):
    hidden = F.gelu(F.linear(x, up_weight, up_bias), approximate="tanh")
    return F.linear(hidden, down_weight, down_bias)


class TransformerBlock(torch.nn.Module):
    """x: f32[batch, sequence, width]; weights are (out, in). Returns the same shape as x."""

    def forward(
        self,
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
        normed = layer_norm(x, attention_norm_gain, attention_norm_bias)
        x = x + attention(normed, qkv_weight, qkv_bias, project_weight, project_bias)
        normed = layer_norm(x, mlp_norm_gain, mlp_norm_bias)
        return x + mlp(normed, up_weight, up_bias, down_weight, down_bias)


def main() -> None:
    parser = argparse.ArgumentParser(description="export the transformer block from PyTorch")
    parser.add_argument("--check", action="store_true", help="compare IREE's result of torch.mlir with PyTorch's")
    check_only = parser.parse_args().check
    arguments = block.arguments("out_in")
    tensors = tuple(torch.from_numpy(a) for a in arguments)
    if check_only:
        check.compare(OUTPUT, "torch", arguments, TransformerBlock()(*tensors).numpy())
        return
    aot.export(TransformerBlock(), args=tensors).save_mlir(OUTPUT)


if __name__ == "__main__":
    main()

"""Ops of `torch.ops.quantized_decomposed`, which quantised models are exported with: the numbers of eager mode."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401, declares the ops

import opsplice.torch

ops = torch.ops.quantized_decomposed
S8, U8 = (-128, 127, torch.int8), (0, 255, torch.uint8)


class Quantized(torch.nn.Module):
    """Scales that are known, that are tensors, for groups, and chosen from the numbers."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        chosen = ops.choose_qparams.tensor(x, 0, 255, 2**-12, torch.uint8)
        even = ops.choose_qparams_symmetric.tensor(x, -128, 127, 2**-12, torch.int8)
        middle = ops.choose_qparams_symmetric.tensor(x, 0, 255, 2**-12, torch.uint8)
        nothing = ops.choose_qparams.tensor(x * 0 - 1e-9, 0, 255, 2**-12, torch.uint8)
        limits = torch.tensor(-128), torch.tensor(127)
        words = ops.quantize_per_tensor(x, 0.05, 3, *S8), ops.quantize_per_tensor(x, 0.03, 0, *U8)
        found = ops.quantize_per_tensor.tensor(x, *chosen, *U8)
        limited = ops.quantize_per_tensor.tensor2(x, *even, *limits, torch.int8)
        scales, zeros = x.reshape(6, 2, 32).abs().amax(2) / 7, torch.full((6, 2), 0.25)
        return [
            ops.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 32),
            ops.quantize_per_channel_group(x, scales[:, :1], zeros[:, :1].long(), -8, 7, torch.int8, 128),
            *(*chosen, *even, *middle, *nothing, *words, found, limited),
            ops.dequantize_per_tensor(words[0], 0.05, 3, *S8),
            ops.dequantize_per_tensor(words[1], 0.03, 0, *U8),
            ops.dequantize_per_tensor.tensor(found, *chosen, *U8),
            ops.dequantize_per_tensor.tensor2(limited, *even, *limits, torch.int8),
            ops.dequantize_per_tensor(words[1], 0.5, 200, *U8, out_dtype=torch.float16),
        ]


class Bytes(torch.nn.Module):
    """Bytes without a sign, 128 and above among them."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        some = torch.clamp(torch.round(x * 100), 0, 255).to(torch.uint8)
        return [some, some.sum(), some.sum(1), some.sum(0, keepdim=True, dtype=torch.int32)]


def test_bytes_without_a_sign():
    model, x = Bytes().eval(), torch.rand(6, 64) * 3
    program = opsplice.torch.export(model, (x,))
    for got, wanted in zip(program.run("main", x.numpy()), model(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted.numpy())


def test_numbers_that_integers_stand_for():
    model, x = Quantized().eval(), torch.randn(6, 64) * 3
    x[0, :8] = torch.arange(8) * 0.05 + 0.025  # half way between two integers, but for roundings
    program = opsplice.torch.export(model, (x,))
    for got, wanted in zip(program.run("main", x.numpy()), model(x), strict=True):
        assert str(np.asarray(got).dtype) == str(wanted.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(np.asarray(got), wanted.numpy())


def test_training_for_quantized_numbers() -> None:
    """Gradients pass where no number is out of range."""
    scales, zeros = torch.tensor([0.05, 0.1, 0.2, 0.03]), torch.tensor([0, 3, -2, 1], dtype=torch.int32)
    scale, zero = torch.tensor([0.02]), torch.tensor([5], dtype=torch.int32)

    def faked(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
            torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127),
            torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -8, 7),
        ]

    gradients = []
    for function in (faked, torch.compile(faked, backend="opsplice")):
        x = torch.linspace(-2, 2, 404).view(4, 101).requires_grad_()
        results = function(x)
        sum((each * (number + 1)).sum() for number, each in enumerate(results)).backward()
        gradients.append([*results, x.grad])
    torch.testing.assert_close(*gradients)

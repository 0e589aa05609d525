"""Tensors of PyTorch as the parameters of a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from iree.compiler import ir

from opsplice.frontends.parameters import take_inputs


def array_of(tensor: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    """A tensor's own memory as an array, or a copy where it does not lie in order."""
    data = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return data.reshape(-1).view(torch.uint8).numpy().view(dtype).reshape(tuple(tensor.shape))


def name_of(index: int) -> str:
    """The parameter that an input becomes."""
    return f"input{index}"


def freeze(function: ir.Operation, indices: Sequence[int]) -> None:
    """Make parameters of inputs of a function in the Torch dialect."""
    take_inputs(function, {index: name_of(index) for index in indices}, _builtin, torch_tensor)


def torch_tensor(value: ir.Value, wanted: ir.Type) -> ir.Value:
    """A tensor as a value of the Torch dialect."""
    return ir.Operation.create("torch_c.from_builtin_tensor", [wanted], [value]).result


def _builtin(type_: ir.Type) -> ir.Type:
    """`tensor<2x3xf32>` of `!torch.vtensor<[2,3],f32>`."""
    sizes, element = str(type_).removeprefix("!torch.vtensor<[").removesuffix(">").split("],")
    return ir.Type.parse(f"tensor<{''.join(f'{size}x' for size in sizes.split(',') if size)}{element}>")

"""Calls of a compiled program with tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from opsplice.api import Program

Call = Callable[[Sequence[Any]], list[Any]]


def compiled_call(program: Program, device: str, plugins: Sequence[Any] = ()) -> Call:
    """A function from tensors and numbers to the program's results."""

    def call(arguments: Sequence[Any]) -> list[Any]:
        given = [_to_numpy(each) if isinstance(each, torch.Tensor) else each for each in arguments]
        results = program.run("main", *given, device=device, plugins=plugins)
        return [_to_torch(each) for each in (results if isinstance(results, list) else [results])]

    return call


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _to_torch(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)

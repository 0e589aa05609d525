"""Calls of a graph whose weights belong to its program: what the option `freeze` of the backend asks for.

What kernels need of weights alone, such as another order in memory, is then computed once. PyTorch counts how often a
tensor changed in place; after a change the weights are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from opsplice.common.errors import OpspliceError
from opsplice.runtime.weights import Arrays, Parameters
from opsplice.torch.calls.call import Call
from opsplice.torch.importing.tensor_parameters import array_of, name_of


def frozen_inputs(module: fx.GraphModule) -> tuple[int, ...]:
    """The numbers of the graph's inputs that are floats of the model, as it is being compiled, and stay as they are."""
    context = torch._guards.TracingContext.try_get()
    seen = context.fw_metadata if context is not None else None
    if seen is None:
        return ()
    inputs = module.graph.find_nodes(op="placeholder")
    changed = set(seen.mutated_inp_runtime_indices)
    return tuple(
        index for index in sorted(set(seen.static_input_indices) - changed) if _is_frozen(inputs[index].meta.get("val"))
    )


def _is_frozen(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.device.type != "cpu":
        return False
    return all(isinstance(size, int) for size in value.shape) and value.numel() > 0


class FrozenCall:
    """Calls of a program with all inputs of its graph, of which those that are frozen are handed over when they change.

    load: a call of the program with these parameters, and with the other inputs.
    """

    __slots__ = ("_call", "_held", "_indices", "_load", "_seen")

    def __init__(self, indices: Sequence[int], load: Callable[[Parameters], Call]) -> None:
        self._indices = frozenset(indices)
        self._load = load
        # No other tensor gets the memory of one that is held.
        self._held: list[torch.Tensor] = []
        self._seen: list[tuple[int, int]] = []
        self._call: Call | None = None

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Raises OpspliceError for a weight whose changes are not counted, and what the program's call raises."""
        try:
            seen = [(given[index].data_ptr(), given[index]._version) for index in self._indices]
        except RuntimeError:
            raise OpspliceError(
                "the changes of a weight are not counted: it was made in torch.inference_mode, and cannot be frozen",
                hint="make the model outside of torch.inference_mode, or leave the option freeze away",
            ) from None
        if self._call is None or seen != self._seen:
            self._call = None  # its memory goes before there is more
            self._call = self._load((Arrays({name_of(index): _memory(given[index]) for index in self._indices}),))
            self._held = [given[index] for index in self._indices]
            self._seen = seen
        return self._call([value for index, value in enumerate(given) if index not in self._indices])


def _memory(tensor: torch.Tensor) -> np.ndarray:
    return array_of(tensor, np.dtype(str(tensor.dtype).removeprefix("torch.")))

"""The weights of a program in the Torch dialect, which it does not hold: variables that begin as parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from iree.compiler import ir

from opsplice.runtime.weights import SCOPE


def parameter(name: str, type_: ir.RankedTensorType) -> dict[str, ir.Attribute]:
    """The attributes of a `util.global` that begins as the parameter of its name."""
    named = f"#flow.parameter.named<{json.dumps(SCOPE)}::{json.dumps(name)}> : {type_}"
    return {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "initial_value": ir.Attribute.parse(named),
    }


def array_of(tensor: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    """A tensor's own memory as an array, or a copy where it does not lie in order."""
    data = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return data.reshape(-1).view(torch.uint8).numpy().view(dtype).reshape(tuple(tensor.shape))


def name_of(index: int) -> str:
    """The parameter that an input becomes."""
    return f"input{index}"


def take_inputs(function: ir.Operation, indices: Sequence[int]) -> None:
    """Make parameters of inputs of a function in the Torch dialect.

    func.func @main(%weight, %x)  ->  util.global private @input0 = #flow.parameter.named<"model"::"input0">
                                      func.func @main(%x)
    """
    block = function.regions[0].blocks[0]
    module = function.parent.regions[0].blocks[0]
    with function.context, function.location:
        for index in indices:
            argument = block.arguments[index]
            tensor_type = _builtin(argument.type)
            with ir.InsertionPoint.at_block_begin(module):
                ir.Operation.create("util.global", attributes=parameter(name_of(index), tensor_type))
            with ir.InsertionPoint.at_block_begin(block):
                symbol = {"global": ir.FlatSymbolRefAttr.get(name_of(index))}
                loaded = ir.Operation.create("util.global.load", [tensor_type], [], symbol).result
                weight = ir.Operation.create("torch_c.from_builtin_tensor", [argument.type], [loaded]).result
            argument.replace_all_uses_with(weight)
        for index in reversed(indices):
            block.erase_argument(index)
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        left = ir.FunctionType.get([each.type for each in block.arguments], results)
        function.attributes["function_type"] = ir.TypeAttr.get(left)


def _builtin(type_: ir.Type) -> ir.Type:
    """`tensor<2x3xf32>` of `!torch.vtensor<[2,3],f32>`."""
    sizes, element = str(type_).removeprefix("!torch.vtensor<[").removesuffix(">").split("],")
    return ir.Type.parse(f"tensor<{''.join(f'{size}x' for size in sizes.split(',') if size)}{element}>")

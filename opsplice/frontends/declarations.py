"""Writes down what the functions of a Torch or ONNX module take and give.

    func.func @main(%x: !torch.vtensor<[?,8],f32>) -> !torch.vtensor<[?],f32>
    =>  the same, with iree.abi.declaration = "sync func @main(%input0: tensor<?x8xf32>) -> (%output0: tensor<?xf32>)"

IREE records this for functions on builtin tensors but not for these, and a compiled program without it cannot check its
inputs. Only a discardable attribute is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opsplice.matchers.dims.input_sizes import NOTE, Sizes

if TYPE_CHECKING:
    from iree.compiler import ir

_TENSOR = re.compile(r"!torch\.v?tensor<\[(?P<dims>[\d?,]*)\],(?P<element>[^,]+)>")

_NUMBERS = {"!torch.int": "i64", "!torch.float": "f64", "!torch.bool": "i1"}
_NOT_IN_A_NAME = re.compile(r"[^\w.$/-]")

# The attribute and its key as IREE's ABI passes write them (iree/compiler/Bindings/Native/Transforms).
_REFLECTION = "iree.reflection"
_DECLARATION = "iree.abi.declaration"


def declare_functions(module: ir.Module) -> None:
    """Adds declarations to the module's public functions on Torch values that have none."""
    for operation in module.body.operations:
        function = operation.operation
        if function.name != "func.func" or "sym_visibility" in function.attributes:
            continue
        if _REFLECTION in function.attributes:
            continue
        declare_function(function)


def declare_function(
    function: ir.Operation, inputs: Sequence[str] = (), outputs: Sequence[str] = (), sizes: Sizes | None = None
) -> None:
    """Adds a declaration to a function if it is one on Torch tensors and numbers.

    inputs, outputs: the names, if there are any. sizes: those that the inputs may have.
    """
    from iree.compiler import ir

    name = ir.StringAttr(function.attributes["sym_name"]).value
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    given, made = _builtin_types(signature.inputs), _builtin_types(signature.results)
    if given is None or made is None:
        return
    text = f"sync func @{name}({_listed('input', given, inputs)}) -> ({_listed('output', made, outputs)})"
    notes = {_DECLARATION: text} if sizes is None else {_DECLARATION: text, NOTE: sizes.note()}
    with function.context:
        function.attributes[_REFLECTION] = ir.DictAttr.get({key: ir.StringAttr.get(notes[key]) for key in notes})


def _builtin_types(types: Iterable[ir.Type]) -> list[str] | None:
    """The types as builtin ones; None unless all are numbers, or Torch tensors of known rank and element type."""
    found = [_builtin_type(str(one)) for one in types]
    return None if None in found else [text for text in found if text is not None]


def _builtin_type(text: str) -> str | None:
    tensor = _TENSOR.fullmatch(text)
    if tensor is None:
        return _NUMBERS.get(text)
    # Torch's signed integers are plain ones to IREE: si64 is i64.
    shape = "".join(f"{dim}x" for dim in tensor["dims"].split(",") if dim)
    return f"tensor<{shape}{tensor['element'].removeprefix('s')}>"


def _listed(prefix: str, types: list[str], names: Sequence[str]) -> str:
    names = [_NOT_IN_A_NAME.sub("_", name) for name in names] or [f"{prefix}{index}" for index in range(len(types))]
    return ", ".join(f"%{name}: {text}" for name, text in zip(names, types, strict=True))

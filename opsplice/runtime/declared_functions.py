"""Functions of a program as it declares them: inputs and results, their types and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opsplice.matchers.dims.input_sizes import NOTE as SIZES
from opsplice.matchers.dims.input_sizes import Sizes
from opsplice.runtime.value_text import ELEMENT_TYPES

# "sync func @main(%input0: tensor<?xf32>, %x: i32 {...}) -> (%output0: tensor<?xf32>)", as IREE's ABI wrapper writes it
# into `iree.abi.declaration` (compiler/src/iree/compiler/Bindings/Native/Transforms/WrapEntryPoints.cpp).
_DECLARATION = re.compile(r"(?:sync|async) func @.*?\((?P<inputs>.*)\) -> \((?P<outputs>.*)\)")


_NEXT_VALUE = re.compile(r", (?=%)")


_TENSOR = re.compile(r"tensor<(?P<dims>(?:(?:\d+|\?)x)*)(?P<element>[^,]+?)(?:,.*)?>")


# What IREE notes of functions that a program compiled with --iree-execution-model=async-external exports.
_WITH_FENCES = "coarse-fences"


@dataclass(frozen=True)
class ValueType:
    """What a function declares for one input or output.

    element: an MLIR element type ("f32"). shape: the dims of a tensor, None for a dynamic one; None for a scalar. Other
    types (`!hal.buffer_view`) have neither and accept anything.
    """

    name: str
    text: str
    element: str | None = None
    shape: tuple[int | None, ...] | None = None

    @property
    def is_scalar(self) -> bool:
        return self.element is not None and self.shape is None

    @property
    def dtype(self) -> np.dtype | None:
        """The numpy type of the elements, or None where there is none."""
        if self.element is None:
            return None
        return ELEMENT_TYPES["i64"] if self.element == "index" else ELEMENT_TYPES.get(self.element)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Function:
    """A function that a program exports; inputs and outputs are None when it does not declare them.

    takes_fences: whether its last arguments are a fence to wait for and one to signal, which it does not declare.
    sizes: which sizes its inputs may have, where that is noted.
    """

    name: str
    inputs: tuple[ValueType, ...] | None = None
    outputs: tuple[ValueType, ...] | None = None
    takes_fences: bool = False
    sizes: Sizes | None = None

    def __str__(self) -> str:
        if self.inputs is None or self.outputs is None:
            return self.name
        return f"{self.name}({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"


def declared_function(name: str, reflection: Mapping[str, str]) -> Function:
    """A function as its program declares it."""
    found = _DECLARATION.match(reflection.get("iree.abi.declaration", ""))
    takes_fences = reflection.get("iree.abi.model") == _WITH_FENCES
    if found is None:
        return Function(name, takes_fences=takes_fences)
    sizes = Sizes.read(reflection[SIZES]) if SIZES in reflection else None
    return Function(name, _value_types(found["inputs"]), _value_types(found["outputs"]), takes_fences, sizes)


def _value_types(text: str) -> tuple[ValueType, ...]:
    values = []
    # A name is any text; a comma in it is not followed by the next name's "%".
    for part in _NEXT_VALUE.split(text) if text else ():
        name, _, rest = part.removeprefix("%").partition(": ")
        # Attributes may follow the type.
        values.append(_value_type(name, rest.partition(" {")[0]))
    return tuple(values)


def _value_type(name: str, text: str) -> ValueType:
    tensor = _TENSOR.fullmatch(text)
    if tensor is None:
        is_number = text == "index" or text in ELEMENT_TYPES
        return ValueType(name, text, element=text if is_number else None)
    dims = tensor["dims"].split("x")[:-1]
    return ValueType(name, text, tensor["element"], tuple(None if dim == "?" else int(dim) for dim in dims))

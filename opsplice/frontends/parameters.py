"""Weights that a module does not hold: variables that begin as parameters, read when a program is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from iree.compiler import ir

from opsplice.runtime.weights import SCOPE


def variable(name: str, type_: ir.Type) -> dict[str, ir.Attribute]:
    """The attributes of a `util.global` that begins as the parameter of its name."""
    named = f"#flow.parameter.named<{json.dumps(SCOPE)}::{json.dumps(name)}> : {type_}"
    return {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "initial_value": ir.Attribute.parse(named),
    }


def take_inputs(
    function: ir.Operation,
    names: Mapping[int, str],
    type_of: Callable[[ir.Type], ir.Type] = lambda type_: type_,
    as_input: Callable[[ir.Value, ir.Type], ir.Value] = lambda value, _type: value,
) -> None:
    """Make parameters of inputs of a function, by their numbers.

        func.func @main(%w, %x)  ->  util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4x8xf32>
                                     func.func @main(%x)

    type_of: the tensor of an input's type. as_input: makes a value of the input's type from one of that.
    """
    block = function.regions[0].blocks[0]
    module = function.parent.regions[0].blocks[0]
    with function.context, function.location:
        for index, name in names.items():
            argument = block.arguments[index]
            tensor = type_of(argument.type)
            with ir.InsertionPoint.at_block_begin(module):
                ir.Operation.create("util.global", attributes=variable(name, tensor))
            with ir.InsertionPoint.at_block_begin(block):
                symbol = {"global": ir.FlatSymbolRefAttr.get(name)}
                read = ir.Operation.create("util.global.load", [tensor], [], symbol).result
                argument.replace_all_uses_with(as_input(read, argument.type))
        for index in sorted(names, reverse=True):
            block.erase_argument(index)
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        left = ir.FunctionType.get([each.type for each in block.arguments], results)
        function.attributes["function_type"] = ir.TypeAttr.get(left)
        if "arg_attrs" in function.attributes:
            notes = enumerate(ir.ArrayAttr(function.attributes["arg_attrs"]))
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([note for index, note in notes if index not in names])

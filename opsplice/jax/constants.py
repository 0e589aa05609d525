"""A module whose first inputs become parameters: weights that a program reads when it is loaded, not at each call."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.runtime.weights import SCOPE


def with_parameters(module: Any, names: Sequence[str]) -> bytes:
    """A module of JAX's as bytecode of IREE's, in which the first inputs of `main` are parameters of these names."""
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True  # JAX notes how arrays could be spread over devices
        ours = ir.Module.parse(text)
        if names:
            _replace_inputs(ours, names)
        buffer = io.BytesIO()
        ours.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _replace_inputs(module: ir.Module, names: Sequence[str]) -> None:
    (main,) = (op for op in module.body.operations if _name(op) == "main")
    block = main.regions[0].blocks[0]
    for name in names:
        argument = block.arguments[0]
        ir.InsertionPoint.at_block_begin(module.body).insert(_global(name, argument.type))
        at = ir.InsertionPoint.at_block_begin(block)
        read = {"global": ir.FlatSymbolRefAttr.get(name)}
        load = ir.Operation.create("util.global.load", results=[argument.type], attributes=read, ip=at)
        argument.replace_all_uses_with(load.results[0])
        block.erase_argument(0)
    declared = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    left = ir.FunctionType.get([each.type for each in block.arguments], declared.results)
    main.attributes["function_type"] = ir.TypeAttr.get(left)
    if "arg_attrs" in main.attributes:
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(list(ir.ArrayAttr(main.attributes["arg_attrs"]))[len(names) :])


def _global(name: str, kind: ir.Type) -> ir.Operation:
    value = f'#flow.parameter.named<"{SCOPE}"::"{name}"> : {kind}'
    properties = f'sym_name = "{name}", sym_visibility = "private", type = {kind}, initial_value = {value}'
    return ir.Operation.parse(f'"util.global"() <{{{properties}}}> : () -> ()')


def _name(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""

"""Branches and loops of PyTorch's in IREE's Torch dialect: `prim.If` and `prim.Loop` that call functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from iree.compiler import ir
from torch import fx

from opsplice.rewrites.ir import emit, stand_ins
from opsplice.rewrites.ir.placing import builtin_type, with_sizes
from opsplice.torch.importing.symbolic_sizes import SizeImporter


class NodeImporter(SizeImporter):
    """IREE's importer of nodes with `torch.cond`, and with loops that read what they do not change."""

    def _import_hop_cond(self, loc: ir.Location, node: fx.Node, _op: Any) -> None:
        predicate, *branches, operands = node.args
        given = [self._import_argument(loc, each) for each in operands]
        types = self._types(node)
        with loc, ir.InsertionPoint(self._b):
            chosen = self._truth(self._import_argument(loc, predicate))
            branching = ir.Operation.create("torch.prim.If", types, [chosen], regions=2)
            for region, branch in zip(branching.regions, branches, strict=True):
                with ir.InsertionPoint(region.blocks.append()):
                    results = self._called(node, branch, given)
                    ir.Operation.create("torch.prim.If.yield", [], results)
        self._bind(node, branching.results)

    def _import_hop_while_loop(self, loc: ir.Location, node: fx.Node, _op: Any) -> None:
        condition, body, carried, read = node.args
        state = [self._import_argument(loc, each) for each in carried]
        others = [self._import_argument(loc, each) for each in read]
        types = self._types(node)
        with loc, ir.InsertionPoint(self._b):
            state = [*map(_cast, state, types)]
            limit = self._limit(loc, node, [*state, *others])
            most = limit or self._import_argument(loc, torch.iinfo(torch.int64).max)
            goes = self._import_argument(loc, True) if limit else None

            def goes_on(values: Sequence[ir.Value]) -> ir.Value:
                return goes or self._truth(*self._called(node, condition, [*values, *others]))

            loop = ir.Operation.create("torch.prim.Loop", types, [most, goes_on(state), *state], regions=1)
            block = loop.regions[0].blocks.append(self._cc.torch_int_type, *types)
            with ir.InsertionPoint(block):
                number, *values = block.arguments
                values = [number, *map(_tied, values[1:], state[1:])] if goes else values
                after = [*map(_cast, self._called(node, body, [*values, *others]), types)]
                ir.Operation.create("torch.prim.Loop.condition", [], [goes_on(after), *after])
            made = [*map(_tied, loop.results, state)] if goes else loop.results
        self._bind(node, made)

    def _limit(self, loc: ir.Location, node: fx.Node, given: Sequence[ir.Value]) -> ir.Value | None:
        """How often a loop goes around that counts from 0 to a number or a size; None for another one."""
        condition, body, carried, _ = node.args
        asked, stepped = (getattr(node.graph.owning_module, each.target).graph for each in (condition, body))
        names, [count, *_] = list(asked.find_nodes(op="placeholder")), stepped.find_nodes(op="placeholder")
        question, after = asked.output_node().args[0], stepped.output_node().args[0][0]
        counts = type(carried[0]) is int and carried[0] == 0 and _computes(after, operator.add, count, 1)
        if not counts or not _computes(question, operator.lt, names[0]):
            return None
        limit = question.args[1]
        if isinstance(limit, int):
            return self._import_argument(loc, limit)
        if not _computes(limit, torch.ops.aten.sym_size.int) or limit.args[0] not in names:
            return None
        sized, dim = given[names.index(limit.args[0])], self._import_argument(loc, limit.args[1])
        return ir.Operation.create("torch.aten.size.int", [self._cc.torch_int_type], [sized, dim]).result

    def _import_hop_hints_wrapper(self, loc: ir.Location, node: fx.Node, _op: Any) -> None:
        """An operator that rules may take whole, with what stands for it elsewhere (`rewrites/ir/stand_ins.py`)."""
        body, operands, _ = node.args
        given = [self._import_argument(loc, each) for each in operands]
        with loc, ir.InsertionPoint(self._b):
            given = _of_equal_sizes(given, [each.meta["val"] for each in operands])
            word, number = ir.StringAttr.get, ir.IntegerType.get_signed(64)
            hints = {"name": "hints_wrapper"} | node.kwargs["hints"]
            forms: dict[str, ir.Attribute] = {
                name: word(form) if isinstance(form, str) else ir.IntegerAttr.get(number, form)
                for name, form in hints.items()
            }
            forms[stand_ins.MARK] = ir.UnitAttr.get()
            whole = ir.Operation.create("torch.operator", self._types(node), given, forms, regions=1)
            with ir.InsertionPoint(whole.regions[0].blocks.append()):
                ir.Operation.create("torch.operator_terminator", [], self._called(node, body, given))
        self._bind(node, whole.results)

    def _called(self, node: fx.Node, function: Any, given: Sequence[ir.Value]) -> list[ir.Value]:
        """The results of a function that a node names."""
        module = getattr(node.graph.owning_module, function.target)
        name = ir.FlatSymbolRefAttr.get(self.fx_importer._graph_module_to_func_name[id(module)])
        returned = module.graph.output_node().args[0]
        results = returned if isinstance(returned, (list, tuple)) else [returned]
        types = [self._cc.value_info_to_type(each.meta["val"]) for each in results]
        taken = [self._cc.value_info_to_type(each.meta["val"]) for each in module.graph.find_nodes(op="placeholder")]
        given = [*map(_cast, given, taken)]
        return list(ir.Operation.create("func.call", types, given, attributes={"callee": name}).results)

    def _types(self, node: fx.Node) -> list[ir.Type]:
        return [self._cc.value_info_to_type(value) for value in node.meta["val"]]

    def _truth(self, value: ir.Value) -> ir.Value:
        if value.type == self._cc.torch_bool_type:
            return value
        return ir.Operation.create("torch.aten.Bool.Tensor", [self._cc.torch_bool_type], [value]).result

    def _bind(self, node: fx.Node, made: Sequence[ir.Value]) -> None:
        self._multi_result_nodes.add(node)
        for number, value in enumerate(made):
            self.bind_node_value(node, value, number)


def _computes(value: Any, function: Any, *args: Any) -> bool:
    return isinstance(value, fx.Node) and value.target == function and value.args[: len(args)] == args


def _of_equal_sizes(given: Sequence[ir.Value], known: Sequence[torch.Tensor]) -> list[ir.Value]:
    """Tensors whose equal open sizes are those of the first that has them, so that patterns see that they are equal."""
    sizes: dict[str, ir.Value] = {}
    found = []
    for value, tensor in zip(given, known, strict=True):
        texts = [str(size) for size in tensor.shape if not isinstance(size, int)]
        kind = builtin_type(value)
        if texts and isinstance(kind, ir.RankedTensorType):
            own = emit.dynamic_dims(emit.value("torch_c.to_builtin_tensor", [value], kind))
            first = [sizes.setdefault(text, size) for text, size in zip(texts, own, strict=True)]
            value = value if first == own else with_sizes(value, first)
        found.append(value)
    return found


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A tensor as one of another type, where PyTorch knows more of its sizes at one place than at another."""
    if value.type == kind or not str(kind).startswith("!torch.vtensor"):
        return value
    return emit.value("torch.tensor_static_info_cast", [value], kind)


def _tied(value: ir.Value, first: ir.Value) -> ir.Value:
    """What a loop carries, with the sizes of what it begins with: IREE does not see that these are the same."""
    if value.type == first.type and "?" in str(value.type):
        begun = emit.value("torch_c.to_builtin_tensor", [first], builtin_type(first))
        return with_sizes(value, emit.dynamic_dims(begun))
    return value

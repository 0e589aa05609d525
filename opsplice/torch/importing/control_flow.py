"""Branches and loops of PyTorch's in IREE's Torch dialect: `prim.If` and `prim.Loop` that call functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from iree.compiler import ir
from iree.compiler.extras.fx_importer import GraphNodeImporter
from torch import fx


class NodeImporter(GraphNodeImporter):
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
        self._bind(node, branching)

    def _import_hop_while_loop(self, loc: ir.Location, node: fx.Node, _op: Any) -> None:
        condition, body, carried, read = node.args
        state = [self._import_argument(loc, each) for each in carried]
        others = [self._import_argument(loc, each) for each in read]
        types = self._types(node)
        with loc, ir.InsertionPoint(self._b):
            [begins] = self._called(node, condition, [*state, *others])
            most = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), torch.iinfo(torch.int64).max)
            steps = ir.Operation.create("torch.constant.int", [self._cc.torch_int_type], attributes={"value": most})
            operands = [steps.result, self._truth(begins), *state]
            loop = ir.Operation.create("torch.prim.Loop", types, operands, regions=1)
            block = loop.regions[0].blocks.append(self._cc.torch_int_type, *types)
            with ir.InsertionPoint(block):
                after = self._called(node, body, [*list(block.arguments)[1:], *others])
                [goes_on] = self._called(node, condition, [*after, *others])
                ir.Operation.create("torch.prim.Loop.condition", [], [self._truth(goes_on), *after])
        self._bind(node, loop)

    def _called(self, node: fx.Node, function: Any, given: Sequence[ir.Value]) -> list[ir.Value]:
        """The results of a function that a node names."""
        module = getattr(node.graph.owning_module, function.target)
        name = ir.FlatSymbolRefAttr.get(self.fx_importer._graph_module_to_func_name[id(module)])
        returned = module.graph.output_node().args[0]
        results = returned if isinstance(returned, (list, tuple)) else [returned]
        types = [self._cc.value_info_to_type(each.meta["val"]) for each in results]
        return list(ir.Operation.create("func.call", types, given, attributes={"callee": name}).results)

    def _types(self, node: fx.Node) -> list[ir.Type]:
        return [self._cc.value_info_to_type(value) for value in node.meta["val"]]

    def _truth(self, value: ir.Value) -> ir.Value:
        if value.type == self._cc.torch_bool_type:
            return value
        return ir.Operation.create("torch.aten.Bool.Tensor", [self._cc.torch_bool_type], [value]).result

    def _bind(self, node: fx.Node, made: ir.Operation) -> None:
        self._multi_result_nodes.add(node)
        for number, value in enumerate(made.results):
            self.bind_node_value(node, value, number)

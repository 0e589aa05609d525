"""An FX graph as MLIR bytecode whose ops stand at the lines of the user's Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from opsplice.rewrites.ir import emit
from opsplice.torch.importing.aliases import Memory, bases_of, order_of, view_module
from opsplice.torch.importing.complex_products import part_constants, write_parts
from opsplice.torch.importing.control_flow import NodeImporter
from opsplice.torch.importing.draws import refuse_draws, take_draws
from opsplice.torch.importing.graph_edits import (
    count_from_front,
    fill_empty,
    fill_equal,
    fix_sizes,
    leave_out_infinities,
    name_as_iree,
    part_zeros,
    through_one_dim,
    write_bytes,
    write_signs,
)
from opsplice.torch.importing.higher_order import functions, write_out, write_out_places
from opsplice.torch.importing.lines import locate
from opsplice.torch.importing.python_numbers import write_numbers
from opsplice.torch.importing.refusals import unimportable
from opsplice.torch.importing.symbolic_sizes import limits, read_from_tensors
from opsplice.torch.importing.tensor_parameters import freeze
from opsplice.torch.importing.unsigned_operands import widen_unsigned

aten = torch.ops.aten


@dataclass(frozen=True)
class Output:
    """One value that a graph returns: a `result` of the program, an `input` of the graph, a `view`, each by number, or
    a `constant`.

    What is an input already, or known before anything runs, is not a result: IREE would copy it, and has no None.
    """

    kind: Literal["result", "input", "view", "constant"]
    value: Any


@dataclass(frozen=True)
class ImportedGraph:
    """A graph as a program to be compiled.

    outputs: what the graph returns. dtypes: of the program's results, None for numbers. draws: what gives the program's
    last inputs, its random numbers, from the others. views: what gives the views, from inputs and results.
    """

    bytecode: bytes
    outputs: tuple[Output, ...]
    dtypes: tuple[torch.dtype | None, ...]
    draws: fx.GraphModule | None
    views: fx.GraphModule | None

    @property
    def is_empty(self) -> bool:
        """Whether the program computes nothing."""
        return not self.dtypes


def import_graph(
    module: fx.GraphModule, frozen: Sequence[int] = (), leaving: Mapping[int, Memory] = MappingProxyType({})
) -> ImportedGraph:
    """Bring a graph without mutation, as aot_autograd makes it, into IREE's Torch dialect.

    frozen: the inputs, by number, that become parameters of the program. leaving: the results that leave compiled code,
    by number, which lie in memory as in eager.

    Raises OpspliceError where random numbers depend on what the graph computes, where a result is a view that needs the
    strides of a tensor that the graph computes, and for what IREE's importer does not know.
    """
    from iree.compiler.extras.fx_importer import FxImporter

    graph = fx.Graph()
    returned = graph.output(graph.graph_copy(module.graph, {}))
    write_out(module, graph)
    draws = take_draws(module, graph)
    outputs, results, views = _outputs(graph, returned.args[0], leaving)
    made = view_module(module, graph, results, views) if views else None
    returned.args = (tuple(_in_order(graph, node, order) for node, order in results.items()),)
    graph.eliminate_dead_code()
    read_from_tensors(graph)
    prepare(module, graph)
    importer = FxImporter(graph_node_importer_cls=NodeImporter)
    try:
        importer._cc._symbolic_guards = limits(graph)
        with unset_fake_temporarily():  # it converts constants
            imported = fx.GraphModule(module, graph)
            function = importer.import_graph_module(imported, import_symbolic_shape_expressions=True)
    except Exception as error:  # it raises what Python raises
        raise unimportable(error) from error
    freeze(function, frozen)
    dtypes = tuple(getattr(node.meta.get("val"), "dtype", None) for node in results)
    return ImportedGraph(emit.bytecode(importer.module_op), tuple(outputs), dtypes, draws, made)


def _outputs(
    graph: fx.Graph, returned: Any, leaving: Mapping[int, Memory]
) -> tuple[list[Output], dict[fx.Node, list[int]], list[tuple[fx.Node, bool]]]:
    """What the graph returns; the nodes among it that a program has to compute, each once; and those that are views.

    The nodes come with their dims in the order in which the program gives them: for what leaves, that of memory.
    The views come with whether PyTorch makes them again.
    """
    inputs = {node: number for number, node in enumerate(graph.find_nodes(op="placeholder"))}
    values = returned if isinstance(returned, Sequence) else (returned,)
    nodes = {n: value for n, value in enumerate(values) if isinstance(value, fx.Node) and value not in inputs}
    tensors = {n: node for n, node in nodes.items() if isinstance(node.meta.get("val"), torch.Tensor)}  # and no numbers
    given = [(tensors[n], memory) for n, memory in leaving.items() if n in tensors]
    bases = bases_of(given)
    computed = {bases.get(node, node) for node, _ in given} - set(inputs)
    turned = {base: order for base in computed if (order := order_of(base)) and order != sorted(order)}
    results: dict[fx.Node, int] = {}
    views: dict[tuple[fx.Node, bool], int] = {}
    outputs = []
    for number, value in enumerate(values):
        if not isinstance(value, fx.Node):
            outputs.append(Output("constant", value))
        elif value in inputs:
            outputs.append(Output("input", inputs[value]))
        elif value in bases or value in turned:
            base = bases.get(value, value)
            if base not in inputs:
                results.setdefault(base, len(results))
            view = value, leaving.get(number) is Memory.READ
            outputs.append(Output("view", views.setdefault(view, len(views))))
        else:
            outputs.append(Output("result", results.setdefault(value, len(results))))
    return outputs, {node: turned.get(node, []) for node in results}, list(views)


def _in_order(graph: fx.Graph, node: fx.Node, order: list[int]) -> fx.Node:
    """A tensor with its dims in an order; as it is where there is none."""
    if not order:
        return node
    with graph.inserting_before(graph.output_node()):
        turned = graph.call_function(aten.permute.default, (node, order))
    turned.meta = {"val": node.meta["val"].permute(order), "stack_trace": node.meta.get("stack_trace")}
    return turned


def prepare(module: torch.nn.Module, graph: fx.Graph) -> None:
    """Change a graph of a module such that IREE's importer takes it as it is meant, with its ops at the user's lines.

    Raises UnsupportedError for random numbers that a branch or a loop draws.
    """
    fill_empty(graph)
    write_out_places(module, graph)
    graphs = [graph, *(function.graph for function in functions(module, graph))]
    refuse_draws(graphs[1:])
    name_as_iree(graphs)
    for each in graphs:
        leave_out_infinities(each)
        widen_unsigned(each)
        write_numbers(each)
        part_constants(module, each)
        write_parts(each)
        fix_sizes(each)
        through_one_dim(each)
        count_from_front(each)
        part_zeros(each)
        locate(each)
        fill_equal(each)
        write_bytes(each)
        write_signs(each)

"""Keeps what stands for an operator that kernels take whole inside of it; `rewrites/ir/stand_ins.py` puts it in.

h = Gather(x, n)               =>      y = GRU(x, w) {
z = Tanh(h)                              h = Gather(x, n)
y = GRU(x, w), says "z"                 z = Tanh(h)
                                         return z
                                       }

Until all types are known, the two stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from iree.compiler import ir
from onnx import helper

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.onnx.model_file import graphs, names_read, replace, subgraphs
from opsplice.rewrites.ir import emit, stand_ins
from opsplice.rewrites.ir.placing import builtin_type, with_sizes

_MARK, _NAME = "for which stand:", "stand_in"
_WITH_STATES, _FIRST_STATE = ("onnx.GRU", "onnx.LSTM"), 5


def named(values: Sequence[str]) -> str:
    """What a node says (`doc_string`) for whose results other values may stand."""
    return "\n".join([_MARK, *values])


def has_one(node: onnx.NodeProto) -> bool:
    """Whether other values may stand for the results of a node."""
    return node.doc_string.startswith(_MARK)


def enclose(graph: onnx.GraphProto) -> None:
    """Move the nodes that make what stands for others into these."""
    for each in graphs(graph):
        _enclose(each)


def _enclose(graph: onnx.GraphProto) -> None:
    kinds = {value.name: value for value in graph.value_info}
    gone: set[str] = set()
    for whole in [node for node in graph.node if has_one(node)]:
        names = whole.doc_string.split("\n")[1:]
        moved = _only_for(graph, set(names))
        inner = {output for node in moved for output in node.output}
        body = helper.make_graph(moved, _NAME, [], [kinds[name] for name in names])
        body.value_info.extend(value for name, value in kinds.items() if name in inner - set(names))
        whole.attribute.append(helper.make_attribute(_NAME, body))
        gone |= inner
    replace(graph.node, (node for node in graph.node if not gone & set(node.output)))


def _only_for(graph: onnx.GraphProto, wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes that nothing but some values, which nobody reads, needs."""
    found: list[onnx.NodeProto] = []
    read = {value.name for value in graph.output}
    for node in reversed(graph.node):
        held = {name for each in subgraphs(node) for name in names_read(each)}
        outputs = set(filter(None, node.output))
        if outputs & wanted and not outputs & read:
            found.append(node)
            wanted = wanted | {*filter(None, node.input), *held}
        else:
            read |= {*node.input, *held}
    return found[::-1]


def mark(module: ir.Module) -> None:
    """Mark operators with something in them that stands for them, and have their states' rows be those of the input."""
    for op in ops_in(module.operation, "torch.operator"):
        if op.attributes["name"].value not in _WITH_STATES:
            continue
        if len(op.regions):
            op.attributes[stand_ins.MARK] = ir.UnitAttr.get(module.context)
        with op.location, ir.InsertionPoint(op):
            for place in range(_FIRST_STATE, len(op.operands)):
                _tie_rows(op, place)


def _tie_rows(op: ir.Operation, place: int) -> None:
    """Kernels ask for as many rows in a state as in the input, which ONNX says and shapes do not."""
    given, state = (shape_of(op.operands[each]) for each in (0, place))
    if given is None or state is None or given[1] is not None or [*state].count(None) != 1 or state[1] is not None:
        return
    x = op.operands[0]
    sizes = emit.dynamic_dims(emit.value("torch_c.to_builtin_tensor", [x], builtin_type(x)))
    op.operands[place] = with_sizes(op.operands[place], [sizes[given[:1].count(None)]])

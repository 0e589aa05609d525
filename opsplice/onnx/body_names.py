"""Names in bodies that mean another value outside.

ONNX has one name for one value. onnxruntime also takes a body that gives a name from outside to a value of its own,
which the name means within. IREE's importer, and what is written otherwise here, mix up the two.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from opsplice.onnx.model_file import graphs, subgraphs


def part_names(graph: onnx.GraphProto) -> None:
    """Give values of bodies other names than those that are seen from outside."""
    taken = {name for each in graphs(graph) for name in _own(each)}
    pending: list[tuple[onnx.GraphProto, Mapping[str, str]]] = [(graph, {})]
    while pending:
        each, outside = pending.pop()
        names = dict(outside)
        for name in _own(each):
            names[name] = _fresh(name, taken) if name in outside else name
        _rename(each, names)
        pending += [(inner, names) for node in each.node for inner in subgraphs(node)]


def _own(graph: onnx.GraphProto) -> dict[str, None]:
    """The names that a graph gives to values, in order."""
    made = (name for node in graph.node for name in node.output)
    given = (value.name for field in (graph.input, graph.initializer) for value in field)
    return dict.fromkeys(name for name in (*given, *made) if name)


def _fresh(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}.{number}" in taken:
        number += 1
    taken.add(f"{name}.{number}")
    return f"{name}.{number}"


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for field in (graph.input, graph.output, graph.value_info, graph.initializer):
        for value in field:
            value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]

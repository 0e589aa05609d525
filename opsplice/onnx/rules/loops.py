"""Writes loops as IREE takes them, and refuses those that it cannot run; and branches, if it is known which is taken.

IREE wants a count and a condition, stacks no results, and runs every round that the count allows, whatever the
condition says. So a loop without a condition gets one, and the state of one with a condition stays as it is once that
is false. A loop that stacks results becomes its rounds one after the other, if they are few; else what it stacks is a
state, of which each round writes a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opsplice.common.errors import OpspliceError
from opsplice.onnx.model_file import STANDARD, Scope, graphs, names_read, replace, scopes, sizes_of, subgraphs
from opsplice.onnx.rules.loop_states import body_of, is_loop, sizes_of_type, type_of
from opsplice.onnx.rules.node_writer import NodeWriter, wrongly_computed

# The rounds of a loop that is written out, their nodes where there is another way, and the rounds of a loop whose
# condition may end it earlier.
MOST_WRITTEN = 256
_MOST_NODES = 256
MOST_RUN = 100_000

_Constants = Mapping[str, onnx.TensorProto]


def rewrite(graph: onnx.GraphProto) -> bool:
    """Rewrite the loops of a graph whose types and constants are inferred; whether there were any to rewrite."""
    changed = _put_taken_branches(graph)
    for each in graphs(graph):
        constants, nodes = _constants(graph), []
        for node in each.node:
            if _stacks_rows(node, constants):
                nodes += _write_rows(graph, node)
                changed = True
            rounds = _rounds(node, constants)
            ends = is_loop(node) and rounds is None and _may_end(node, constants) and _keeps_sizes(node)
            if not is_loop(node) or (node.input[1] and rounds is None and not ends):
                nodes.append(node)
                continue
            changed = True
            if not node.input[1]:
                node.input[1] = _given(graph, np.array(True), f"{node.name}.always")
            if ends:
                _keep_state(graph, node)
            nodes += [node] if rounds is None else _written_out(graph, node, rounds)
        replace(each.node, nodes)
    return changed


def _put_taken_branches(graph: onnx.GraphProto) -> bool:
    """Put the branch that is taken in place of an `If` whose condition is a constant; whether there were any.

    PyTorch writes such for scatter_reduce, with branches whose results have different ranks.
    """
    changed = False
    for scope in scopes(graph):
        nodes: list[onnx.NodeProto] = []
        untyped: set[str] = set()  # what ONNX has found of these holds for both branches, or for the other one
        for node in scope.graph.node:
            is_taken = node.op_type == "If" and node.domain in STANDARD and node.input[0] in scope.constants
            if is_taken or not untyped.isdisjoint(_read_by(node)):
                untyped.update(node.output)
            nodes += _taken_branch(scope, node) if is_taken else [node]
            changed |= is_taken
        if untyped:
            replace(scope.graph.node, nodes)
            replace(scope.graph.value_info, (each for each in scope.graph.value_info if each.name not in untyped))
    return changed


def _read_by(node: onnx.NodeProto) -> set[str]:
    return set(node.input).union(*map(names_read, subgraphs(node)))


def _taken_branch(scope: Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a branch as nodes of the graph around. Those of other branches may use the same names."""
    is_true = bool(_number(node.input[0], scope.constants))
    (branch,) = (each.g for each in node.attribute if each.name.startswith("then") == is_true)
    prefix = next(filter(None, node.output), node.name)
    names = _given_of(scope.graph, branch, prefix)
    names |= {output: f"{prefix}.{output}" for inner in branch.node for output in inner.output if output}
    results = [names.get(value.name, value.name) for value in branch.output]
    return [*(_renamed(inner, names) for inner in branch.node), *_as_results(node, results)]


def check(graph: onnx.GraphProto, name: str) -> None:
    """Raise OpspliceError for a loop of a model that IREE does not run."""
    for scope in scopes(graph):
        for node in scope.graph.node:
            if node.op_type == "Scan" and _is_open(node, [sizes_of_type(type_of(each, scope)) for each in node.input]):
                raise wrongly_computed(
                    node, "sizes of its inputs, or of values of its body, are open, and it stacks too few elements"
                )
    constants = _constants(graph)
    for each in graphs(graph):
        for node in filter(is_loop, each.node):
            count = _number(node.input[0], constants)
            where = f"the loop '{node.name}' of {name}"
            if _stacks(node):
                raise OpspliceError(
                    f"{where} stacks results, and its number of rounds or the size of what a round stacks is not known "
                    "before it runs: IREE has no such loops",
                    hint="give it a count and no condition, and stack what has a fixed size (--dim binds symbolic "
                    f"ones); where that is open, a constant count up to {MOST_WRITTEN} helps",
                )
            if not node.input[0] or ((count or 0) > MOST_RUN and not _goes_on(node, constants)):
                rounds = f"{count} rounds" if node.input[0] else "no limit"
                raise OpspliceError(
                    f"{where} has {rounds}, and IREE runs all rounds, whatever the condition says",
                    hint=f"give it a count (its first input) that is large enough, up to {MOST_RUN}",
                )
            if _may_end(node, constants):
                raise OpspliceError(
                    f"{where} has a condition that may end it, and a round may change a size of its state: IREE runs "
                    "all rounds, and what the last ones change cannot be left out",
                    hint="give it a count of rounds, and a condition that is always true",
                )


def _stacks(node: onnx.NodeProto) -> bool:
    return len(body_of(node).output) - 1 > len(node.input) - 2


def _rounds(node: onnx.NodeProto, constants: _Constants) -> int | None:
    """The number of rounds of a loop that is to be written out; None for other loops."""
    if not is_loop(node) or not _stacks(node) or not _goes_on(node, constants):
        return None
    count = _number(node.input[0], constants)
    return count if count is not None and 0 < count <= MOST_WRITTEN else None


def _stacks_rows(node: onnx.NodeProto, constants: _Constants) -> bool:
    """Whether what a loop stacks can be a state, of a size that is known before the first round, and should be."""
    if not is_loop(node) or not node.input[0] or not _stacks(node) or not _goes_on(node, constants):
        return False
    body, count = body_of(node), _number(node.input[0], constants)
    if count is not None and count * len(body.node) <= _MOST_NODES:
        return False
    rows = [sizes_of(value.type.tensor_type) for value in body.output[len(node.input) - 1 :]]
    return all(row is not None and None not in row for row in rows)


def _write_rows(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Have each round of a loop write a row of a state, in place of what it stacks. Returns what makes that state."""
    body, made = body_of(node), []
    place, count = f"{node.name}.place", f"{node.name}.count"
    of_one, of_two = (_given(graph, np.array(axes), f"{node.name}.axes{len(axes)}") for axes in ([0], [0, 1]))
    made.append(helper.make_node("Unsqueeze", [node.input[0], of_one], [count], name=node.name))
    body.node.append(helper.make_node("Unsqueeze", [body.input[0].name, of_two], [place], name=node.name))
    for value in body.output[len(node.input) - 1 :]:
        row, kind = sizes_of(value.type.tensor_type) or [], value.type.tensor_type.elem_type
        old, new, begin, size, given, wide = (
            f"{value.name}.{part}" for part in ("rows", "written", "none", "size", "sizes", "row")
        )
        nothing = numpy_helper.from_array(np.zeros(1, helper.tensor_dtype_to_np_dtype(kind)))
        _given(graph, np.array(row, np.int64), given)
        made += [
            helper.make_node("Concat", [count, given], [size], name=node.name, axis=0),
            helper.make_node("ConstantOfShape", [size], [begin], name=node.name, value=nothing),
        ]
        body.node.extend(
            [
                helper.make_node("Unsqueeze", [value.name, of_one], [wide], name=node.name),
                helper.make_node("ScatterND", [old, place, wide], [new], name=node.name),
            ]
        )
        form = helper.make_tensor_type_proto(kind, [None, *row])
        body.input.append(helper.make_value_info(old, form))
        value.CopyFrom(helper.make_value_info(new, form))
        node.input.append(begin)
    return made


def _goes_on(node: onnx.NodeProto, constants: _Constants) -> bool:
    """Whether the condition is true in all rounds."""
    body = body_of(node)
    made = {output: inner for inner in body.node for output in inner.output}
    value = body.output[0].name
    while value in made and made[value].op_type in ("Cast", "Identity"):
        value = made[value].input[0]
    if value in made and made[value].op_type == "Constant":
        return bool(numpy_helper.to_array(made[value].attribute[0].t))
    always = value == body.input[1].name or bool(_number(value, constants))
    return always and (not node.input[1] or bool(_number(node.input[1], constants)))


def _may_end(node: onnx.NodeProto, constants: _Constants) -> bool:
    """Whether the condition of a loop may become false, and its state is not yet kept then."""
    return not _stacks(node) and not _goes_on(node, constants) and node.output[-1] != f"{node.name}.ended"


def _keeps_sizes(node: onnx.NodeProto) -> bool:
    """Whether the state of a loop is known to have the same sizes before and behind a round."""
    body = body_of(node)
    kinds = ([value.type.tensor_type for value in values] for values in (body.input[2:], body.output[1:]))
    return all(new.HasField("shape") and old.shape == new.shape for old, new in zip(*kinds, strict=True))


def _keep_state(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Have the state of a loop stay as it is from the round on in which its condition is false."""
    body = body_of(node)
    going, still, ends = f"{node.name}.going", f"{node.name}.still", body.output[0].name
    for number, (old, new) in enumerate(zip(body.input[2:], body.output[1:], strict=True)):
        kept = f"{node.name}.kept{number}"
        body.node.append(helper.make_node("Where", [going, new.name, old.name], [kept], name=node.name))
        new.name = kept
    body.node.append(helper.make_node("And", [going, ends], [still], name=node.name))
    scalar: tuple[int, list[int]] = onnx.TensorProto.BOOL, []
    body.input.append(helper.make_tensor_value_info(going, *scalar))
    body.output.append(helper.make_tensor_value_info(still, *scalar))
    node.input.append(node.input[1])
    node.input[1] = _given(graph, np.array(True), f"{node.name}.always")
    node.output.append(f"{node.name}.ended")
    graph.value_info.append(helper.make_tensor_value_info(node.output[-1], *scalar))


def _constants(graph: onnx.GraphProto) -> _Constants:
    return {tensor.name: tensor for each in graphs(graph) for tensor in each.initializer}


def _number(name: str, constants: _Constants) -> int | None:
    return int(numpy_helper.to_array(constants[name]).reshape(())) if name in constants else None


def _given(graph: onnx.GraphProto, array: np.ndarray, name: str) -> str:
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _given_of(graph: onnx.GraphProto, body: onnx.GraphProto, prefix: str) -> dict[str, str]:
    """Give a graph the constants of a body, under names with a prefix. Returns these by those that they have there."""
    kept = {tensor.name: (numpy_helper.to_array(tensor), f"{prefix}.{tensor.name}") for tensor in body.initializer}
    return {name: _given(graph, array, new) for name, (array, new) in kept.items()}


def _as_results(node: onnx.NodeProto, values: Sequence[str]) -> list[onnx.NodeProto]:
    """Nodes that give values the names of a node's first results."""
    named = [(value, output) for value, output in zip(values, node.output, strict=False) if output]
    return [helper.make_node("Identity", [value], [output], name=node.name) for value, output in named]


def _written_out(graph: onnx.GraphProto, node: onnx.NodeProto, rounds: int) -> list[onnx.NodeProto]:
    """The rounds of a loop one after the other."""
    body, nodes = body_of(node), []
    state = list(node.input[2:])
    stacked: list[list[str]] = [[] for _ in body.output[len(state) + 1 :]]
    axis = _given(graph, np.array([0]), f"{node.name}.axis")
    shared = _given_of(graph, body, node.name)
    for number in range(rounds):
        count = _given(graph, np.array(number), f"{node.name}.round{number}")
        given = [value.name for value in body.input]
        names = {**shared, **dict(zip(given, [count, node.input[1], *state], strict=True))}
        for inner in body.node:
            names |= {output: f"{node.name}.{number}.{output}" for output in inner.output if output}
            nodes.append(_renamed(inner, names))
        ends = [names.get(value.name, value.name) for value in body.output[1:]]
        state = ends[: len(state)]
        for values, end in zip(stacked, ends[len(state) :], strict=True):
            values.append(f"{node.name}.{number}.{len(nodes)}")
            nodes.append(helper.make_node("Unsqueeze", [end, axis], [values[-1]], name=node.name))
    nodes += _as_results(node, state)
    for output, values in zip(node.output[len(state) :], stacked, strict=False):
        if output:
            nodes.append(helper.make_node("Concat", values, [output], name=node.name, axis=0))
    return nodes


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node on other values. No name of ONNX's means two things, so what it holds is renamed as it is."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [names.get(output, output) for output in copy.output]
    held = [each for inner in subgraphs(copy) for each in graphs(inner)]
    for each in (copy, *(inner for graph in held for inner in graph.node)):
        each.input[:] = [names.get(value, value) for value in each.input]
    for value in (output for graph in held for output in graph.output):
        value.name = names.get(value.name, value.name)
    return copy


def run_open_scans(graph: onnx.GraphProto) -> bool:
    """Have loops in place of scans of an open number of rounds, which go forwards; whether there were any."""
    changed = False
    for scope in scopes(graph):
        nodes: list[onnx.NodeProto] = []
        for node in scope.graph.node:
            is_scan = node.op_type == "Scan" and node.domain in STANDARD
            is_open = is_scan and _is_open(node, [sizes_of_type(type_of(each, scope)) for each in node.input])
            form = {each.name: helper.get_attribute_value(each) for each in node.attribute} if is_open else {}
            if not is_open or any(any(value) for name, value in form.items() if name.startswith("scan_")):
                nodes.append(node)
                continue
            nodes += _as_loop(scope.graph, node, form["num_scan_inputs"])
            changed = True
        replace(scope.graph.node, nodes)
    return changed


def _as_loop(graph: onnx.GraphProto, node: onnx.NodeProto, scanned: int) -> list[onnx.NodeProto]:
    """A scan as a loop, whose rounds take their rows themselves."""
    body, states = onnx.GraphProto(), len(node.input) - scanned
    body.CopyFrom(body_of(node))
    rows, number, goes, still = list(body.input[states:]), *(f"{node.name}.{part}" for part in ("round", "goes", "on"))
    given = zip(node.input[states:], rows, strict=True)
    takes = [helper.make_node("Gather", [whole, number], [row.name], name=node.name, axis=0) for whole, row in given]
    replace(body.node, [*takes, *body.node, helper.make_node("Identity", [goes], [still], name=node.name)])
    scalars = ((number, onnx.TensorProto.INT64), (goes, onnx.TensorProto.BOOL))
    replace(body.input, [*(helper.make_tensor_value_info(*each, []) for each in scalars), *body.input[:states]])
    replace(body.output, [helper.make_tensor_value_info(still, onnx.TensorProto.BOOL, []), *body.output])
    body.value_info.extend(rows)
    shape, count, first = (f"{node.name}.{part}" for part in ("sizes", "rounds", "first"))
    return [
        helper.make_node("Shape", [node.input[states]], [shape], name=node.name),
        helper.make_node("Gather", [shape, _given(graph, np.array(0), first)], [count], name=node.name),
        helper.make_node("Loop", [count, "", *node.input[:states]], node.output, name=node.name, body=body),
    ]


def _is_open(node: onnx.NodeProto, sizes: Sequence[list[int | None] | None]) -> bool:
    """Whether any size of a scan is open. sizes: of its inputs."""
    body = body_of(node)
    own = [sizes_of(value.type.tensor_type) for value in (*body.input, *body.output)]
    return any(None in (each or ()) for each in (*sizes, *own))


def scan(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """One that runs forwards along the first dims, over what is turned: IREE has all run so."""
    form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    scanned = form["num_scan_inputs"]
    if _is_open(node, [on.shape(name) for name in node.input]):
        return None  # they may be known later; `check` asks again
    states = len(node.input) - scanned
    counts = {"input": scanned, "output": len(node.output) - states}
    ways = {
        f"{side}_{what}": form.pop(f"scan_{side}_{what}", [0] * count)
        for side, count in counts.items()
        for what in ("directions", "axes")
    }
    if not any(map(any, ways.values())):
        return None

    def turned(name: str, is_backwards: int) -> str:
        return on.backwards(name, 0) if is_backwards else name

    def moved(name: str, of: str, axis: int, to_front: bool) -> str:
        rank = len(on.shape(of) or ())
        if axis and not rank:
            raise wrongly_computed(node, "it scans along the first dims")
        others = [each for each in range(rank) if each != axis % rank]
        order = [axis % rank, *others] if rank else []
        return on.put("Transpose", name, perm=order if to_front else np.argsort(order).tolist()) if axis else name

    inputs = [
        turned(moved(name, name, axis, True), way)
        for name, axis, way in zip(node.input[states:], ways["input_axes"], ways["input_directions"], strict=True)
    ]
    made = on.put_all("Scan", len(node.output), *node.input[:states], *inputs, **form)
    outputs = zip(made[states:], node.output[states:], ways["output_axes"], ways["output_directions"], strict=True)
    return [*made[:states], *(moved(turned(name, way), of, axis, False) for name, of, axis, way in outputs)]

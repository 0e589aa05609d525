"""The types of what loops carry from round to round: ONNX says nothing of them behind a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx
from onnx import helper

from opsplice.onnx.folded_sizes import SPREADING
from opsplice.onnx.model_file import STANDARD, Scope, graphs, replace, scopes, sizes_of, subgraphs

_ELEMENTWISE = {*SPREADING, "Identity", "Sigmoid", "Tanh"}


def is_loop(node: onnx.NodeProto) -> bool:
    return node.op_type == "Loop" and node.domain in STANDARD


def body_of(node: onnx.NodeProto) -> onnx.GraphProto:
    (body,) = subgraphs(node)
    return body


def type_states(model: onnx.ModelProto) -> bool:
    """Give the state of loops, in their bodies and as results, the type that it begins with, of which ONNX keeps none.

    Whether any got one. A size that a round makes another one, as of masks that are put below each other, is open. Not
    where a round gives the state another number of dims.
    """
    loops = [(scope, node) for scope in scopes(model.graph) for node in scope.graph.node if is_loop(node)]
    typed = [_type_state(model, scope, node) for scope, node in loops]
    return any(typed)


def _type_state(model: onnx.ModelProto, scope: Scope, node: onnx.NodeProto) -> bool:
    body, begins = body_of(node), [type_of(name, scope) for name in node.input[2:]]
    results = node.output[: len(begins)]
    given, made = body.input[2 : len(begins) + 2], body.output[1 : len(begins) + 1]
    known = [type_of(name, scope) if name else value.type for name, value in zip(results, given, strict=False)]
    known += [value.type for value in given]
    found = None if None in begins or _are_alike(begins, known) else _round(model, scope, body, begins)
    if found is None or _are_alike(found.kinds, known):
        return False
    replace(body.value_info, found.graph.value_info)
    for value, new in zip((*given, *made), (*found.before, *found.after), strict=True):
        value.type.CopyFrom(new.type)
    for name, kind in zip(results, found.kinds, strict=False):
        if name in scope.values:
            scope.values[name].type.CopyFrom(kind)
        elif name:
            scope.graph.value_info.append(helper.make_value_info(name, kind))
    return True


def _are_alike(kinds: Sequence[onnx.TypeProto | None], known: Sequence[onnx.TypeProto | None]) -> bool:
    pairs = zip([*kinds, *kinds], known, strict=True)
    return all(sizes_of_type(one) == sizes_of_type(other) for one, other in pairs)


@dataclasses.dataclass(frozen=True)
class _Round:
    """The body of a loop as a graph of its own, in which all values have types."""

    graph: onnx.GraphProto
    kinds: Sequence[onnx.TypeProto]  # of the state, in all rounds

    @property
    def before(self) -> Sequence[onnx.ValueInfoProto]:
        return self.graph.input[2 : len(self.kinds) + 2]

    @property
    def after(self) -> Sequence[onnx.ValueInfoProto]:
        return self.graph.output[1 : len(self.kinds) + 1]


def _round(
    model: onnx.ModelProto, scope: Scope, body: onnx.GraphProto, begins: Sequence[onnx.TypeProto]
) -> _Round | None:
    """A round whose state has types that it keeps; None if no sizes of what it begins with can be open for that."""
    kinds = begins
    while True:
        found = _Round(_typed(model, scope, body, kinds), kinds)
        states = zip(begins, kinds, found.before, found.after, strict=True)
        wider = [_kept(found.graph, *each) for each in states]
        if None in wider:
            return None
        if wider == kinds:
            return found
        kinds = wider


def _kept(
    body: onnx.GraphProto,
    begin: onnx.TypeProto,
    kind: onnx.TypeProto,
    before: onnx.ValueInfoProto,
    after: onnx.ValueInfoProto,
) -> onnx.TypeProto | None:
    """A type, with open sizes where a round makes another size of one; None if that leaves types that differ."""
    if _is_spread(body, before, after):
        after.type.CopyFrom(before.type)
    old, new, found = before.type.tensor_type, after.type.tensor_type, onnx.TypeProto()
    if old.elem_type != new.elem_type or not new.HasField("shape") or len(old.shape.dim) != len(new.shape.dim):
        return None
    found.CopyFrom(kind)
    dims = (each.tensor_type.shape.dim for each in (begin, found))
    for first, dim, one, other in zip(*dims, old.shape.dim, new.shape.dim, strict=True):
        if first.HasField("dim_value") and (other.HasField("dim_value") or not dim.HasField("dim_value")):
            if one != other:
                dim.Clear()
        elif one != other:
            return None
    return found


def _typed(
    model: onnx.ModelProto, scope: Scope, body: onnx.GraphProto, kinds: Sequence[onnx.TypeProto]
) -> onnx.GraphProto:
    """A body whose values have the types that follow from those of the state."""
    one = onnx.GraphProto()
    one.CopyFrom(body)
    del one.value_info[:]
    for value, kind in zip(one.input[2 : len(kinds) + 2], kinds, strict=True):
        value.type.CopyFrom(kind)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_param = f"{value.name}.{axis}"
    for value in one.output[1 : len(kinds) + 1]:
        value.type.tensor_type.ClearField("shape")
    own = {value.name for value in one.input} | {output for inner in one.node for output in inner.output}
    for name in {name for each in graphs(one) for inner in each.node for name in inner.input} - own:
        if name in scope.constants:
            one.initializer.append(scope.constants[name])
        elif name in scope.values:
            one.input.append(scope.values[name])
    alone = helper.make_model(one, opset_imports=model.opset_import, ir_version=model.ir_version)
    return onnx.shape_inference.infer_shapes(alone, data_prop=True).graph


def _is_spread(body: onnx.GraphProto, before: onnx.ValueInfoProto, after: onnx.ValueInfoProto) -> bool:
    """Whether a state is changed element by element, so that it keeps its open sizes: IREE takes such for equal."""
    kinds = {value.name: value.type.tensor_type for value in (*body.value_info, *body.input, *body.output)}
    makers = {output: node for node in body.node for output in node.output}
    wanted, sizes = before.type.tensor_type, sizes_of_type(before.type) or []

    def keeps(name: str) -> bool:
        found = sizes_of(kinds.get(name))
        if found is None or len(found) != len(sizes):
            return False
        if any(new not in (old, None) for old, new in zip(sizes, found, strict=True)):
            return False
        is_alike = name in makers and makers[name].op_type in _ELEMENTWISE
        return kinds[name].shape == wanted.shape or (is_alike and any(map(keeps, makers[name].input)))

    return wanted.elem_type == after.type.tensor_type.elem_type and keeps(after.name)


def type_of(name: str, scope: Scope) -> onnx.TypeProto | None:
    """The type of a value whose number of dims is known."""
    if name in scope.constants:
        tensor = scope.constants[name]
        return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    kind = scope.values[name].type if name in scope.values else None
    return kind if sizes_of_type(kind) is not None else None


def sizes_of_type(kind: onnx.TypeProto | None) -> list[int | None] | None:
    return sizes_of(kind.tensor_type if kind is not None else None)

"""Computes what a model says of its own sizes: shapes of values that are fixed, and whole numbers made from constants.

So it does single floats, of which exporters make whole numbers: `Cast(Ceil(16.0) * 2.0)`.

Values that have no elements are constants, too: IREE's compiler crashes where it reshapes some.

Sizes that inputs cannot but have are fixed, too.

Exporters write `Expand` and `Reshape` with shapes that the model computes from its inputs' sizes. Where these are
fixed, so are the shapes, and IREE needs to know it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opsplice.onnx.model_file import STANDARD, Scope, is_shaped, replace, scopes, sizes_of

_MOST_ELEMENTS = 256
_MOST_SHARED = 16
_WHOLE = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_AXES = 3  # which input of Slice
_BIAS = 2  # which input of Conv
_STATES = (5, 6)  # which inputs of GRU, LSTM and RNN
_OPEN = np.iinfo(np.int64).min  # stands for a size that is not known
# Operators whose results have elements of some operands as they are.
_MOVING = {
    "Concat": range(_MOST_ELEMENTS),
    "Where": range(1, 3),
    **dict.fromkeys(("Cast", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"), range(1)),
}
_PAIR = 2
# Operators whose operands are spread to one shape. IREE spreads only dims of which it knows that they are of size 1.
SPREADING = {
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
}  # fmt: skip


def fold(model: onnx.ModelProto) -> bool:
    """Replace nodes of an inferred model by constants; whether there were any."""
    return _folded(model, Scope.of(model.graph), {})


def _folded(model: onnx.ModelProto, scope: Scope, shapes: dict[str, onnx.TensorProto]) -> bool:
    graph, known, noted = scope.graph, dict(scope.constants), False
    kinds = {name: value.type.tensor_type for name, value in scope.values.items()}
    outputs = {value.name for value in graph.output}
    kept, made = [], []
    for node in graph.node:
        found = _without_elements(node, kinds)
        if found is None and not outputs & set(node.output):
            found = _value(model, node, known, kinds, shapes)
        if found is None:
            noted |= node.op_type == "Expand" and _note_sizes(node, kinds, shapes)
            kept.append(node)
        elif node.output[0] in outputs:
            made.append(numpy_helper.from_array(found, f"{node.output[0]}.nothing"))
            kept.append(helper.make_node("Identity", [made[-1].name], node.output, name=node.name))
        else:
            made.append(numpy_helper.from_array(found, node.output[0]))
            known[node.output[0]] = made[-1]
    graph.initializer.extend(made)
    replace(graph.node, kept)
    inner = [_folded(model, each, dict(shapes)) for each in Scope.of(graph, scope).inner()]
    return bool(made) or noted or any(inner)


def _note_sizes(
    node: onnx.NodeProto, kinds: dict[str, onnx.TypeProto.Tensor], shapes: dict[str, onnx.TensorProto]
) -> bool:
    """Note the sizes that Expand gives its result, of a shape that is known in part; whether there were any."""
    x, made = sizes_of(kinds.get(node.input[0])), kinds.get(node.output[0])
    if x is None or made is None or node.input[1] not in shapes:
        return False
    wanted = numpy_helper.to_array(shapes[node.input[1]]).tolist()
    changed = False
    for dim, given, size in zip(
        reversed(made.shape.dim), [*reversed(x), *[1] * len(wanted)], reversed(wanted), strict=False
    ):
        known = given if size == 1 or (size == _OPEN and given != 1) else None if size == _OPEN else size
        if known is not None and not dim.HasField("dim_value"):
            dim.dim_value = known
            changed = True
    return changed


def give_constants(model: onnx.ModelProto) -> bool:
    """Give branches and bodies of loops copies of small constants of the graphs around; whether there were any.

    ONNX finds the shapes that depend on constants only where these are in the same graph.
    """
    changed = False
    for number, scope in enumerate(scopes(model.graph)):
        own = {tensor.name for tensor in scope.graph.initializer}
        for node in scope.graph.node:
            for place, name in enumerate(node.input):
                tensor = scope.constants.get(name)
                if tensor is None or name in own or len(tensor.dims) > 1 or math.prod(tensor.dims) > _MOST_SHARED:
                    continue
                node.input[place] = f"{name}.in{number}"
                if node.input[place] not in own:
                    own.add(node.input[place])
                    scope.graph.initializer.append(tensor)
                    scope.graph.initializer[-1].name = node.input[place]
                changed = True
    return changed


def _without_elements(node: onnx.NodeProto, kinds: dict[str, onnx.TypeProto.Tensor]) -> np.ndarray | None:
    """The result of a node if it has no elements."""
    tensor = kinds.get(node.output[0]) if len(node.output) == 1 and node.op_type != "Identity" else None
    sizes = _fixed(tensor)
    if tensor is None or not tensor.elem_type or sizes is None or 0 not in sizes:
        return None
    element = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    # IREE reads constants without elements as signed.
    return None if np.issubdtype(element, np.unsignedinteger) else np.zeros(sizes, element)


def _value(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    known: dict[str, onnx.TensorProto],
    kinds: dict[str, onnx.TypeProto.Tensor],
    shapes: dict[str, onnx.TensorProto],
) -> np.ndarray | None:
    """The result of a node of known operands, also of the known sizes that it chooses of a shape.

    shapes: those with open sizes, to which this adds.
    """
    if node.domain not in STANDARD or len(node.output) != 1 or not _is_small(kinds.get(node.output[0])):
        return None
    if node.op_type == "Shape":
        if (every := sizes_of(kinds.get(node.input[0]))) is None:
            return None
        chosen = {each.name: each.i for each in node.attribute}
        part = every[chosen.get("start", 0) : chosen.get("end")]
        value = np.array([_OPEN if size is None else size for size in part], np.int64)
        return _kept(node, value, shapes)
    if node.op_type == "Size":
        sizes = _fixed(kinds.get(node.input[0]))
        return None if sizes is None else np.array(math.prod(sizes), np.int64)
    opened = [place for place, name in enumerate(node.input) if name in shapes]
    given = {name: shapes.get(name, known.get(name)) for name in node.input if name}
    if not node.input or None in given.values():
        return None
    if opened and (node.op_type not in _MOVING or not {*opened} <= {*_MOVING[node.op_type]}):
        found = _of_open(node, [numpy_helper.to_array(given[name]) for name in node.input])
        return None if found is None else _kept(node, found, shapes)
    if any(each.HasField("g") for each in node.attribute):
        return None
    from onnx.reference import ReferenceEvaluator  # it takes long to load

    graph = helper.make_graph([node], "one", [], [helper.make_value_info(node.output[0], onnx.TypeProto())])
    graph.initializer.extend(given.values())
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        (value,) = ReferenceEvaluator(alone).run(None, {})
    except Exception:  # whatever it cannot compute is left to the program
        return None
    value = np.asarray(value)
    return None if opened and value.dtype != np.int64 else _kept(node, value, shapes)


def _of_open(node: onnx.NodeProto, operands: list[np.ndarray]) -> np.ndarray | None:
    """The sum or product of two operands with sizes that are not known, or where they equal numbers that are none."""
    if len(operands) != _PAIR or any(operand.dtype != np.int64 for operand in operands):
        return None
    one, other = np.broadcast_arrays(*operands)
    is_open, is_number = (one == _OPEN) | (other == _OPEN), [(each < 0) & (each != _OPEN) for each in (one, other)]
    if node.op_type == "Equal":
        return None if (is_open & ~np.logical_or(*is_number)).any() else np.equal(one, other)
    combine = {"Add": np.add, "Mul": np.multiply}.get(node.op_type)
    return None if combine is None or np.any(is_number) else np.where(is_open, _OPEN, combine(one, other))


def _kept(node: onnx.NodeProto, value: np.ndarray, shapes: dict[str, onnx.TensorProto]) -> np.ndarray | None:
    """A value that is known; what is known in part is added to shapes."""
    if value.dtype != np.int64 or _OPEN not in value:
        return value
    shapes[node.output[0]] = numpy_helper.from_array(value, node.output[0])
    return None


def keep_whole_dims(model: onnx.ModelProto) -> bool:
    """Note the sizes of slices along dims that are not sliced, of which ONNX says nothing where a bound is not known.

    Whether there were any. The constants that say which dims those are have to be known (`fold`).
    """
    changed = False
    for scope, node in _nodes(model):
        values, known = scope.values, scope.constants
        axes = node.input[_AXES] if len(node.input) > _AXES else ""
        if node.op_type != "Slice" or node.domain not in STANDARD or axes not in known:
            continue
        given, made = (values.get(name) for name in (node.input[0], node.output[0]))
        sizes = _dims(given, known.get(node.input[0]))
        if made is None or not sizes or len(sizes) != len(made.type.tensor_type.shape.dim):
            continue
        sliced = {int(axis) % len(sizes) for axis in numpy_helper.to_array(known[axes]).reshape(-1)}
        for axis, (size, dim) in enumerate(zip(sizes, made.type.tensor_type.shape.dim, strict=True)):
            if axis not in sliced and size is not None and not dim.HasField("dim_value"):
                dim.dim_value = size
                changed = True
    return changed


def keep_counts(model: onnx.ModelProto) -> bool:
    """Note how many elements TopK takes along a dim of an open size, of which ONNX says nothing.

    Whether there were any.
    """
    changed = False
    for scope, node in _nodes(model):
        if node.op_type != "TopK" or node.domain not in STANDARD or node.input[1] not in scope.constants:
            continue
        count = numpy_helper.to_array(scope.constants[node.input[1]]).item()
        axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
        for value in filter(None, (scope.values.get(name) for name in node.output)):
            dims = value.type.tensor_type.shape.dim
            if dims and not dims[axis].HasField("dim_value"):
                dims[axis].dim_value = count
                changed = True
    return changed


def keep_elements(model: onnx.ModelProto) -> bool:
    """Note the one size of a reshape that ONNX does not know where all other open sizes are also those of its operand.

    Whether there were any. A size without a name is not known to be another one.
    """
    changed = False
    for scope, node in _nodes(model):
        if node.op_type != "Reshape" or node.domain not in STANDARD:
            continue
        one, other = (scope.values.get(name) for name in (node.input[0], node.output[0]))
        if one is None or other is None or not is_shaped(one):
            continue
        given, made = (value.type.tensor_type.shape.dim for value in (one, other))
        shared = [dim.dim_param or None for dim in given if not dim.HasField("dim_value")]
        others = []
        for dim in (dim for dim in made if not dim.HasField("dim_value")):
            if dim.dim_param in shared:
                shared.remove(dim.dim_param)
            else:
                others.append(dim)
        if shared or len(others) != 1:
            continue
        before, after = (
            math.prod(dim.dim_value for dim in dims if dim.HasField("dim_value")) for dims in (given, made)
        )
        if after and before % after == 0:
            others[0].dim_value = before // after
            changed = True
    return changed


def _nodes(model: onnx.ModelProto) -> Iterator[tuple[Scope, onnx.NodeProto]]:
    return ((scope, node) for scope in scopes(model.graph) for node in scope.graph.node)


def forced_sizes(model: onnx.ModelProto) -> dict[str, int]:
    """The sizes that symbolic dims of inputs have to have, as an operator takes them together with known sizes.

    Where IREE finds this out by itself, it makes some values of known size of others whose size it takes for open.
    """
    graph = model.graph
    kinds = {value.name: value.type.tensor_type.shape.dim for value in (*graph.value_info, *graph.output, *graph.input)}
    dims: dict[str, list[str | int]] = {
        name: [each.dim_value if each.HasField("dim_value") else each.dim_param for each in shape]
        for name, shape in kinds.items()
    }
    dims |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    named = {each for value in graph.input for each in dims[value.name] if each and isinstance(each, str)}
    found: dict[str, int] = {}
    for node in (each for each in graph.node if each.domain in STANDARD):
        for sizes in _equal_sizes(node, [dims.get(name, []) for name in node.input]):
            known = next((size for size in sizes if isinstance(size, int) and size > 1), None)
            if known is not None:
                found = {size: known for size in sizes if isinstance(size, str) and size in named} | found
    return found


def _equal_sizes(node: onnx.NodeProto, inputs: list[list[str | int]]) -> Iterator[Sequence[str | int]]:
    """What has to be one size, but for ones, at an operator whose operands have these sizes."""
    if node.op_type in SPREADING:
        yield from itertools.zip_longest(*map(reversed, inputs), fillvalue=1)
    elif node.op_type == "MatMul" and min(map(len, inputs)) > 1:
        yield inputs[0][-1], inputs[1][-2]
        yield from itertools.zip_longest(*(reversed(each[:-2]) for each in inputs), fillvalue=1)
    elif node.op_type == "Conv" and len(inputs) > _BIAS and inputs[1] and inputs[_BIAS]:
        yield inputs[1][0], inputs[_BIAS][0]
    elif node.op_type in ("GRU", "LSTM", "RNN"):  # the rows of the input and of states
        axis = 0 if any(each.name == "layout" and each.i for each in node.attribute) else 1
        yield [inputs[place][axis] for place in (0, *_STATES) if inputs[place : place + 1] and inputs[place]]
    elif node.op_type == "Concat":
        axis = helper.get_node_attr_value(node, "axis") % max(1, len(inputs[0]))
        yield from (each for place, each in enumerate(zip(*inputs, strict=False)) if place != axis)


def _dims(value: onnx.ValueInfoProto | None, constant: onnx.TensorProto | None) -> list[int | None] | None:
    """The sizes of a value, None for those that are open; None if their number is."""
    if constant is not None:
        return list(constant.dims)
    return None if value is None else sizes_of(value.type.tensor_type)


def _fixed(tensor: onnx.TypeProto.Tensor | None) -> list[int] | None:
    sizes = sizes_of(tensor)
    return None if sizes is None or None in sizes else [int(size or 0) for size in sizes]


def _is_small(tensor: onnx.TypeProto.Tensor | None) -> bool:
    """Whether it is a single float, or some whole numbers."""
    sizes = _fixed(tensor)
    if tensor is None or sizes is None:
        return False
    is_single_float = tensor.elem_type == TensorProto.FLOAT and not sizes
    return is_single_float or (tensor.elem_type in _WHOLE and math.prod(sizes) <= _MOST_ELEMENTS)

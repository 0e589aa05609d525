"""The nodes that a rule writes in the place of one of a graph, and what it asks about values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opsplice.common.errors import OpspliceError
from opsplice.onnx.model_file import Scope, sizes_of

# In older versions of ONNX's operators, ReduceMean and its kin have their axes as attributes.
AXES_ARE_INPUTS = 18
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
# What a comparison says (`doc_string`) whose operand, the first of Max and Min, is a number, or whose NaN is seen to.
OF_NUMBERS = "of numbers"

# A value that a loop changes: its name, its element type and its sizes.
State = tuple[str, int, Sequence[int | None]]
# What a node takes: a value by its name, or numbers, which become a constant.
Input = str | int | np.generic | Sequence[Any] | np.ndarray


class NodeWriter:
    """What a rule asks about a graph, and the nodes that it writes instead of one.

    weights: the model's large constants. version: that of ONNX's operators. around: the writer of the graph that holds
    this one in a node.
    """

    def __init__(
        self, scope: Scope, weights: dict[str, np.ndarray], version: int, around: NodeWriter | None = None
    ) -> None:
        self.weights, self.version, self.graph, self._around = weights, version, scope.graph, around
        self._scope = scope
        self.kinds = {name: value.type for name, value in scope.values.items()}
        self.constants = scope.constants
        self._makers = {name: node for node in scope.graph.node for name in node.output}
        self._main: onnx.GraphProto = scope.graph if around is None else around._main
        self.added: list[onnx.NodeProto] = []
        self._count = 0
        self._node = onnx.NodeProto()
        self._large: list[str] = []
        self._ends = (0, 0)

    def start(self, node: onnx.NodeProto) -> None:
        """Write in the place of another node from now on."""
        self.added, self._node, self._large = [], node, []
        self._ends = len(self.graph.initializer), len(self._main.input)

    def undo(self) -> None:
        """Forget what was written for the present node: names are used again in the next round."""
        del self.graph.initializer[self._ends[0] :]
        del self._main.input[self._ends[1] :]
        for name in self._large:
            del self.weights[name]
        self.added = []

    # What rules ask.

    def shape(self, name: str) -> list[int | None] | None:
        """The sizes of a value, None for those that are not fixed; None if not even their number is known."""
        if name in self.weights:
            return list(self.weights[name].shape)
        if name in self.constants:
            return list(self.constants[name].dims)
        return sizes_of(self.kinds[name].tensor_type) if name in self.kinds else None

    def element(self, name: str) -> int:
        """ONNX's number of a value's element type, 0 if that is not known."""
        if name in self.weights:
            return helper.np_dtype_to_tensor_dtype(self.weights[name].dtype)
        if name in self.constants:
            return self.constants[name].data_type
        return self.kinds[name].tensor_type.elem_type if name in self.kinds else 0

    def constant(self, name: str) -> np.ndarray | None:
        """The elements of a constant, also of a reshaped one, as where two nodes share a weight."""
        if name in self.weights:
            return self.weights[name]
        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        maker = self.producer(name)
        if maker is None or maker.op_type != "Reshape" or attribute(maker, "allowzero", 0):
            return None
        whole, shape = (self.constant(each) for each in maker.input)
        if whole is None or shape is None:
            return None
        return whole.reshape([size or whole.shape[at] for at, size in enumerate(shape.tolist())])

    def producer(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a value."""
        own = self._makers.get(name)
        return own if own is not None or self._around is None else self._around.producer(name)

    # What rules write.

    def put(self, kind: str, *inputs: Input, **attributes: Any) -> str:
        """A node of one result, whose name is returned."""
        return self.put_all(kind, 1, *inputs, **attributes)[0]

    def put_all(self, kind: str, count: int, *inputs: Input, **attributes: Any) -> list[str]:
        """A node of several results, whose names are returned."""
        names = [each if isinstance(each, str) else self.give(np.array(each)) for each in inputs]
        outputs = [self._fresh() for _ in range(count)]
        self.added.append(helper.make_node(kind, names, outputs, name=self._node.name, **attributes))
        return outputs

    def loop(
        self, rounds: str, state: Sequence[State], step: Callable[[NodeWriter, str, list[str]], list[str]]
    ) -> list[str]:
        """The state behind some rounds. step: writes a round, of its number and the state, and returns the new one."""
        body, name = onnx.GraphProto(name=self._fresh()), self._fresh()
        on = NodeWriter(Scope(body, self._scope.values, self.constants), self.weights, self.version, self)
        on.start(helper.make_node("Loop", self._node.input, [name], name=self._node.name))
        number, goes, *own = (f"{name}.{place}" for place in range(len(state) + 2))
        made = step(on, number, own)
        ends = [on.put("Identity", each) for each in (goes, *made)]
        body.node.extend(on.added)
        kinds: list[tuple[int, Sequence[int | None]]] = [(TensorProto.BOOL, []), *(each[1:] for each in state)]
        inputs = zip((number, goes, *own), [(TensorProto.INT64, []), *kinds], strict=True)
        body.input.extend(helper.make_tensor_value_info(each, *kind) for each, kind in inputs)
        outputs = zip(ends, kinds, strict=True)
        body.output.extend(helper.make_tensor_value_info(each, *kind) for each, kind in outputs)
        begins = [each for each, *_ in state]
        results = self.put_all("Loop", len(state), rounds, np.array(True), *begins, body=body)
        for each, kind in zip(results, kinds[1:], strict=True):  # of which ONNX says nothing
            self.graph.value_info.append(helper.make_tensor_value_info(each, *kind))
        return results

    def number(self, value: float, like: str) -> str:
        """A constant of the element type of another value, or of the node's first input if that is a new one."""
        kind = self.element(like) or self.element(self._node.input[0])
        return self.give(np.array(value, helper.tensor_dtype_to_np_dtype(kind)))

    def lowest(self, like: str) -> str:
        """The lowest number of the element type of another value."""
        kind = helper.tensor_dtype_to_np_dtype(self.element(like) or self.element(self._node.input[0]))
        return self.give(np.array(ml_dtypes.finfo(kind).min, kind))

    def mean(self, name: str, axes: Sequence[int] = (-1,)) -> str:
        """Means over the last dim, or others, which stay."""
        if self.version < AXES_ARE_INPUTS:
            return self.put("ReduceMean", name, axes=axes, keepdims=1)
        return self.put("ReduceMean", name, axes, keepdims=1)

    def largest(self, name: str, axes: np.ndarray) -> str:
        """The largest elements over some dims, which stay."""
        if self.version < AXES_ARE_INPUTS:
            return self.put("ReduceMax", name, axes=axes.tolist(), keepdims=1)
        return self.put("ReduceMax", name, axes, keepdims=1)

    def size(self, name: str, axis: int) -> str:
        """The size of a value along a dim, as a scalar."""
        return self.put("Gather", self.put("Shape", name), axis)

    def places(self, name: str, axis: int) -> str:
        """The numbers from 0 on, as many as a value has elements along a dim."""
        return self.count(self.size(name, axis))

    def count(self, size: str) -> str:
        """The numbers from 0 to below a scalar."""
        return self.put("Range", 0, size, 1)

    def give(self, array: np.ndarray, large: bool = False) -> str:
        """A new constant."""
        name = self._fresh()
        while name in self.weights:  # branches may use the same names
            name = self._fresh()
        if large:
            self.weights[name] = array
            self._large.append(name)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            self._main.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        else:
            self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def backwards(self, name: str, axis: int) -> str:
        """A value from its end along a dim."""
        return self.put("Slice", name, [-1], [np.iinfo(np.int64).min], [axis], [-1])

    def cast(self, name: str, element: int) -> str:
        """A value as elements of a type."""
        return name if self.element(name) == element else self.put("Cast", name, to=element)

    def scalar(self, name: str) -> str:
        """A value of one element, without dims."""
        return self.put("Reshape", name, np.array([], np.int64))

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._node.output[0]}.{self._node.op_type}.{self._count}"


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute."""
    return attributes(node).get(name, default)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The values of all attributes, by name."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def input_name(node: onnx.NodeProto, index: int) -> str:
    """The name of an input, "" for one that is left out."""
    return node.input[index] if index < len(node.input) else ""


def wanted_result(node: onnx.NodeProto, index: int) -> bool:
    """Whether a result has a name."""
    return index < len(node.output) and bool(node.output[index])


def wrongly_computed(node: onnx.NodeProto, how: str) -> OpspliceError:
    """The error for a node that has no correct form."""
    return _unsupported(f"IREE 3.13 computes {_named(node)} wrongly: {how}")


def not_compiled(node: onnx.NodeProto, why: str) -> OpspliceError:
    """The error for a node that has no form which compiles."""
    return _unsupported(f"IREE 3.13 does not compile {_named(node)}: {why}")


def _named(node: onnx.NodeProto) -> str:
    return f"node '{node.name}' ({node.op_type})"


def _unsupported(message: str) -> OpspliceError:
    return OpspliceError(message, hint="write it with other operators, or run that part elsewhere")

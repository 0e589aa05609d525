"""Recurrent layers, a step after the other: a few are written out, and others are rounds of a loop.

The products with the input are one product of all steps, and those with the state one for all gates. IREE makes eight
products in each round of a loop. An LSTM of many steps stays one node, with all of its inputs and results, as kernels
for whole layers take it, and so does a GRU whose reset gate multiplies what the state adds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from opsplice.onnx.enclosed_nodes import has_one, named
from opsplice.onnx.rules.node_writer import NodeWriter, attribute, attributes, input_name, wrongly_computed

# The steps of a layer, in all directions, that are written out.
MOST_WRITTEN = 128

_ACTIVATIONS = {"LSTM": [b"Sigmoid", b"Tanh", b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"], "RNN": [b"Tanh"]}
_SIMPLE = (b"Tanh", b"Relu", b"Sigmoid")
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_BIAS, _LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = 3, 4, 5, 6, 7
_RESULTS = {"LSTM": 3, "GRU": 2}
# Whether each direction goes backwards.
_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}

_State = tuple[str, str]  # h and c, "" where they are zero


def written_out(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """What an LSTM, GRU or RNN makes; None for those of many or of an open number of steps, or of special kinds."""
    kind, backwards = node.op_type, _DIRECTIONS[attribute(node, "direction", b"forward").decode()]
    shape, turned = on.shape(node.input[0]), attribute(node, "layout", 0)
    steps = shape[1 if turned else 0] if shape else None
    activations = attribute(node, "activations", []) or _ACTIVATIONS[kind] * len(backwards)
    special = attribute(node, "clip", None) is not None or attribute(node, "input_forget", 0)
    is_simple = kind == "RNN" and all(each in _SIMPLE for each in activations)
    is_usual = not special and (is_simple or activations == _ACTIVATIONS[kind] * len(backwards))
    lengths = input_name(node, _LENGTHS)
    if (known := on.constant(lengths)) is not None and (known == steps).all():
        lengths = ""
    is_short = steps is not None and 0 < steps * len(backwards) <= MOST_WRITTEN
    can_be_written = is_usual and shape and steps != 0 and attribute(node, "hidden_size", 0)
    stays = kind == "LSTM" or attribute(node, "linear_before_reset", 0)  # kernels take it in both directions
    if not can_be_written:
        if lengths:
            raise wrongly_computed(node, "it takes all steps, whatever the lengths of sequences (input sequence_lens)")
        return _forwards(on, node, 1 if turned else 0) if backwards == [True] else None
    if not is_short and stays and not lengths and not input_name(node, _PEEPHOLES):
        if backwards == [True]:
            return _forwards(on, node, 1 if turned else 0)
        return _whole(on, node) if not turned else None
    return _layer(on, node, backwards, steps if is_short else None, lengths)


def _layer(on: NodeWriter, node: onnx.NodeProto, backwards: list[bool], steps: int | None, lengths: str) -> list[str]:
    """All results, step by step. backwards: of each direction; steps: None for a loop."""
    turned = attribute(node, "layout", 0)
    layers = [_Direction(on, node, number, steps, each, lengths) for number, each in enumerate(backwards)]
    ends = [layer.run() for layer in layers]
    across = on.give(np.array([1]))
    whole = on.put("Concat", *(on.put("Unsqueeze", states, across) for states, _ in ends), axis=1)
    first = on.give(np.array([0]))
    lasts = ([on.put("Unsqueeze", last[i], first) for _, last in ends] for i in range(len(node.output) - 1))
    results = [whole, *(on.put("Concat", *each, axis=0) for each in lasts)]
    if not turned:
        return results
    return [on.put("Transpose", each, perm=[2, 0, 1, 3] if each == whole else [1, 0, 2]) for each in results]


def _forwards(on: NodeWriter, node: onnx.NodeProto, time: int) -> list[str]:
    """A layer that runs backwards, over what is turned: IREE lowers none of those."""
    form, x = attributes(node) | {"direction": "forward"}, on.backwards(node.input[0], time)
    states, *ends = on.put_all(node.op_type, len(node.output), x, *node.input[1:], **form)
    return [on.backwards(states, time), *ends]


def _whole(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """A layer with all that it can have: a bias, a state to start from, its direction, and all results.

    And, as IREE lowers no GRU of open steps, with what stands for it.
    """
    x, weights, of_state = node.input[:3]
    sizes, element, results = on.shape(of_state), on.element(x), _RESULTS[node.op_type]
    forms = {"hidden_size": attribute(node, "hidden_size", 0), "direction": attribute(node, "direction", b"forward")}
    if is_gru := node.op_type == "GRU":
        forms["linear_before_reset"] = 1
    given = [input_name(node, index) for index in (_BIAS, _HIDDEN, _CELL)[:results]]
    is_whole = all(given) and {each.name for each in node.attribute} == forms.keys() and has_one(node) == is_gru
    if is_whole and len(node.output) == results and all(node.output):
        return None
    if not sizes or None in sizes or not element:
        return None
    both, wide, size = (int(each or 0) for each in sizes)
    kind = helper.tensor_dtype_to_np_dtype(element)
    bias = given[0] or on.give(np.zeros((both, 2 * wide), kind))
    operands = [x, weights, of_state, bias, "", *(each or _no_state(on, x, both, size) for each in given[1:])]
    if is_gru:
        whole = helper.make_node("GRU", operands, ["all", "last"], **forms)
        forms["doc_string"] = named(_layer(on, whole, _DIRECTIONS[forms["direction"].decode()], None, ""))
    return on.put_all(node.op_type, results, *operands, **forms)


def _no_state(on: NodeWriter, x: str, directions: int, size: int) -> str:
    """Zeros, of as many rows as the input has, which may be open."""
    rows, kind = (on.shape(x) or [None, None])[1], helper.tensor_dtype_to_np_dtype(on.element(x))
    if rows is not None:
        return on.give(np.zeros((directions, rows, size), kind))
    sizes = on.put("Concat", [directions], on.put("Slice", on.put("Shape", x), [1], [2]), [size], axis=0)
    return on.put("Expand", np.zeros((), kind), sizes)


def dynamically_quantized(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """onnxruntime's DynamicQuantizeLSTM: an LSTM of the numbers that its weights stand for; inputs stay as they are."""
    weights = []
    for at, beside in ((1, 8), (2, 10)):
        numbers, scale, zero = (on.constant(input_name(node, index)) for index in (at, beside, beside + 1))
        if numbers is None or scale is None or zero is None:
            return None
        scale, zero = (each.astype(np.float32).reshape(len(each), 1, -1) for each in (scale, zero))
        if numbers.dtype == np.int8 and not zero.any():  # a step reads them all, so they stay bytes
            narrow = on.put("Cast", on.give(_turned(numbers), large=True), to=onnx.TensorProto.FLOAT)
            weights.append(on.put("Mul", narrow, on.give(_turned(scale))))
        else:
            weights.append(on.give(_turned((numbers.astype(np.float32) - zero) * scale), large=True))
    return on.put_all("LSTM", len(node.output), node.input[0], *weights, *node.input[3:8], **attributes(node))


def _turned(weights: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(weights.transpose(0, 2, 1))


class _Direction:
    """One direction of a layer."""

    def __init__(
        self, on: NodeWriter, node: onnx.NodeProto, number: int, steps: int | None, is_backwards: bool, lengths: str
    ) -> None:
        """steps: how many are written out, None for a loop."""
        self.on, self.node, self.number = on, node, number
        self.lengths = on.put("Unsqueeze", lengths, [1]) if lengths else ""
        self.size, self.kind = attribute(node, "hidden_size", 0), node.op_type
        self.steps, self.is_backwards = steps, is_backwards
        self.order = range(steps or 0)[:: -1 if is_backwards else 1]
        self._step: Callable[[str, _State], _State] = getattr(self, f"_{self.kind.lower()}")
        self.ends = [on.give(np.array([n * self.size])) for n in range(2 * _GATES[self.kind] + 1)]
        self.last, self.turned = on.give(np.array([-1])), attribute(node, "layout", 0)
        self.of_state = on.put("Transpose", self._own(2), perm=[1, 0])
        self.after_reset = ""
        gates, biases, holes = _GATES[self.kind], self._own(3), self._own(_PEEPHOLES)
        self.holes = [self._part(holes, gate) for gate in range(3)] if holes else ["", "", ""]
        own, other = (self._part(biases, *each) if biases else "" for each in ((0, gates), (gates, 2 * gates)))
        self.bias = other if attribute(node, "linear_before_reset", 0) else ""
        self.of_input = self._inputs(own if self.bias else self._plus(own, other))
        if self.kind == "GRU" and not attribute(node, "linear_before_reset", 0):
            self.after_reset, self.of_state = self._part(self.of_state, 2), self._part(self.of_state, 0, 2)

    def run(self) -> tuple[str, _State]:
        """The states of all steps, as [steps, batch, size], and the last."""
        on, step = self.on, self._step
        if self.steps is None:
            return self._in_rounds()
        state, states = (self._own(_HIDDEN), self._own(_CELL)), {}
        first = on.give(np.array([0]))
        for number in self.order:
            given = on.put("Gather", self.of_input, number, axis=0)
            state, shown = self._ended(number, state, step(given, state))
            states[number] = on.put("Unsqueeze", shown, first)
        return on.put("Concat", *(states[number] for number in sorted(states)), axis=0), state

    def _in_rounds(self) -> tuple[str, _State]:
        """The same of an open number of steps, each a round of a loop."""
        on, element = self.on, self.on.element(self.node.input[0])
        steps, *rows = (on.put("Slice", on.put("Shape", self.of_input), [axis], [axis + 1]) for axis in (0, 1))
        batch = (on.shape(self.node.input[0]) or [None, None])[0 if self.turned else 1]
        sizes = [on.put("Concat", *each, [self.size], axis=0) for each in (rows, (steps, *rows))]
        zero, shown = (on.put("Expand", on.number(0, self.node.input[0]), each) for each in sizes)
        starts = [self._own(index) or zero for index in (_HIDDEN, _CELL)[: 1 + (self.kind == "LSTM")]]
        last = on.put("Sub", on.scalar(steps), 1)

        def step(inner: NodeWriter, number: str, state: list[str]) -> list[str]:
            self.on, (*own, states) = inner, state
            place = inner.put("Sub", last, number) if self.is_backwards else number
            old = own[0], own[1] if len(own) > 1 else ""
            new, seen = self._ended(place, old, self._step(inner.put("Gather", self.of_input, place, axis=0), old))
            row = inner.put("Reshape", place, [1, 1])
            states = inner.put("ScatterND", states, row, inner.put("Unsqueeze", seen, [0]))
            return [*filter(None, new), states]

        kinds = [(each, element, [batch, self.size]) for each in starts]
        *ends, shown = on.loop(on.size(self.of_input, 0), [*kinds, (shown, element, [None, batch, self.size])], step)
        self.on = on
        return shown, (ends[0], ends[1] if len(ends) > 1 else "")

    def _ended(self, number: int | str, old: _State, new: _State) -> tuple[_State, str]:
        """The state behind a step, which stays where a sequence is shorter, and what the step shows: zeros there."""
        if not self.lengths:
            return new, new[0]
        on = self.on
        place = on.put("Cast", number, to=onnx.TensorProto.INT32) if isinstance(number, str) else np.int32(number)
        goes, zero = on.put("Less", place, self.lengths), on.number(0, self.node.input[0])
        h, c = (on.put("Where", goes, each, kept or zero) if each else "" for each, kept in zip(new, old, strict=True))
        return (h, c), on.put("Where", goes, new[0], zero)

    def _own(self, index: int) -> str:
        """This direction's part of an input; "" for one that is left out."""
        if not input_name(self.node, index):
            return ""
        axis = 1 if self.turned and index in (_HIDDEN, _CELL) else 0
        return self.on.put("Gather", self.node.input[index], self.number, axis=axis)

    def _inputs(self, bias: str) -> str:
        """What all steps take from the input: [steps, batch, gates]."""
        on, x = self.on, self.node.input[0]
        x = on.put("Transpose", x, perm=[1, 0, 2]) if self.turned else x
        return self._plus(on.put("MatMul", x, on.put("Transpose", self._own(1), perm=[1, 0])), bias)

    def _part(self, value: str, gate: int, end: int = 0) -> str:
        return self.on.put("Slice", value, self.ends[gate], self.ends[end or gate + 1], self.last)

    def _plus(self, value: str, other: str) -> str:
        return self.on.put("Add", value, other) if value and other else value or other

    def _times(self, value: str, other: str) -> str:
        return self.on.put("Mul", value, other) if value and other else ""

    def _from_state(self, h: str) -> str:
        return self._plus(self.on.put("MatMul", h, self.of_state) if h else "", self.bias)

    def _rnn(self, given: str, state: _State) -> _State:
        kinds = attribute(self.node, "activations", []) or [b"Tanh"] * (self.number + 1)
        return self.on.put(kinds[self.number].decode(), self._plus(self._from_state(state[0]), given)), ""

    def _lstm(self, given: str, state: _State) -> _State:
        on, (h, c) = self.on, state
        gates = self._plus(self._from_state(h), given)

        def gate(number: int, hole: str, cell: str) -> str:
            return on.put("Sigmoid", self._plus(self._part(gates, number), self._times(hole, cell)))

        of_input, of_output, of_cell = self.holes
        new = on.put("Mul", gate(0, of_input, c), on.put("Tanh", self._part(gates, 3)))
        c = self._plus(self._times(gate(2, of_cell, c), c), new)
        return on.put("Mul", gate(1, of_output, c), on.put("Tanh", c)), c

    def _gru(self, given: str, state: _State) -> _State:
        on, h = self.on, state[0]
        from_state = self._from_state(h)

        def of(gate: int) -> str:
            return self._plus(self._part(given, gate), self._part(from_state, gate) if from_state else "")

        update, reset = on.put("Sigmoid", of(0)), on.put("Sigmoid", of(1))
        if self.after_reset:
            old = on.put("MatMul", on.put("Mul", reset, h), self.after_reset) if h else ""
        else:
            old = self._times(reset, self._part(from_state, 2) if from_state else "")
        new = on.put("Tanh", self._plus(self._part(given, 2), old))
        less = on.put("Sub", new, on.put("Mul", update, new))
        return self._plus(less, self._times(update, h)), ""

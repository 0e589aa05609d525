"""Writes NonMaxSuppression as a loop that takes one box of each class in each round: IREE does not compile it.

alive = scores, -inf where they are not above the least
in each round, for each batch and class:
    best  = the box of the largest score; nothing is taken where that is -inf
    alive = -inf for it, and for boxes of which it covers too large a part
"""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, input_name

_NONE = -1  # in the place of a box
_Corners = list[str]  # two lower bounds and two upper ones


def suppressed(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """The batch, the class and the number of each box that stays, those of a class by their scores."""
    boxes, scores, most, overlap, least = (input_name(node, number) for number in range(5))
    if on.element(boxes) not in FLOATS or on.element(scores) not in FLOATS or on.shape(scores) is None:
        return None
    shape = on.put("Shape", scores)
    corners = [on.put("Expand", each, shape) for each in _corners(on, node, boxes)]
    lowest = on.number(-np.inf, scores)
    alive = on.put("Where", on.put("Greater", scores, on.scalar(least)), scores, lowest) if least else scores
    rounds = on.scalar(most) if most else on.give(np.array(0))
    rounds = on.put("Max", on.put("Min", rounds, on.size(scores, 2)), 0)
    each_round = on.put("Reshape", rounds, [1])
    groups = on.put("Slice", shape, [0], [2])
    none = helper.make_tensor("", TensorProto.INT64, [1], [_NONE])
    chosen = on.put("ConstantOfShape", on.put("Concat", groups, each_round, axis=0), value=none)
    limit = on.scalar(overlap) if overlap else on.number(0, boxes)
    numbers, sizes = on.count(rounds), on.shape(scores) or []
    state = (alive, on.element(scores), sizes), (chosen, TensorProto.INT64, [*sizes[:2], None])
    _, chosen = on.loop(rounds, state, functools.partial(_round, corners, lowest, limit, numbers))
    line = on.put("Reshape", chosen, [-1])
    places = on.put("Reshape", on.put("NonZero", on.put("Greater", line, _NONE)), [-1])
    classes = on.size(scores, 1)
    group = on.put("Div", places, rounds)
    parts = on.put("Div", group, classes), on.put("Mod", group, classes), on.put("Gather", line, places)
    return on.put("Concat", *(on.put("Unsqueeze", part, [1]) for part in parts), axis=1)


def _corners(on: NodeWriter, node: onnx.NodeProto, boxes: str) -> _Corners:
    """The bounds of boxes, each [batch, 1, boxes]."""
    apart = on.put_all("Split", 4, on.put("Transpose", boxes, perm=[0, 2, 1]), [1] * 4, axis=1)
    one, other = apart[:2], apart[2:]
    if attribute(node, "center_point_box", 0):
        halves = [on.put("Div", size, on.number(2, boxes)) for size in other]
        one, other = (
            [on.put(kind, middle, half) for middle, half in zip(one, halves, strict=True)] for kind in ("Sub", "Add")
        )
    pairs = list(zip(one, other, strict=True))
    return [on.put(kind, *pair) for kind in ("Min", "Max") for pair in pairs]


def _round(
    corners: _Corners, lowest: str, limit: str, numbers: str, on: NodeWriter, number: str, state: list[str]
) -> list[str]:
    """numbers: those of all rounds."""
    alive, chosen = state
    best = on.put("ArgMax", alive, axis=-1, keepdims=1)
    is_left = on.put("Greater", on.put("GatherElements", alive, best, axis=2), lowest)
    taken = on.put("Where", on.put("Equal", numbers, number), on.put("Where", is_left, best, _NONE), chosen)
    own = [on.put("GatherElements", each, best, axis=2) for each in corners]
    shared = _area(on, *(on.put(kind, each, mine) for kind, each, mine in _in_both(corners, own)))
    either = on.put("Sub", on.put("Add", _area(on, *corners), _area(on, *own)), shared)
    covered = on.put("Greater", on.put("Div", shared, either), limit)
    is_best = on.put("Equal", on.places(alive, 2), best)
    return [on.put("Where", on.put("Or", covered, is_best), lowest, alive), taken]


def _in_both(corners: _Corners, own: _Corners) -> list[tuple[str, str, str]]:
    """How the bounds of what two boxes share come from theirs."""
    return list(zip(("Max", "Max", "Min", "Min"), corners, own, strict=True))


def _area(on: NodeWriter, *corners: str) -> str:
    sides = (on.put("Max", on.put("Sub", corners[at + 2], corners[at]), on.number(0, corners[at])) for at in (0, 1))
    return on.put("Mul", *sides)

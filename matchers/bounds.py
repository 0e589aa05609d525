"""What a program says of sizes that are only known at run time: `util.assume.int %d<umin = 16, udiv = 16>`.

Such a size is tied to a tensor by `flow.tensor.tie_shape`, or by the import of an argument.
"""

from __future__ import annotations

import math
import re
from collections.abc import MutableMapping
from typing import Any

from iree.compiler import ir

from opsplice.matchers.conditions import Bounds
from opsplice.matchers.terms import DimSize

# Ops whose operands after the first are the sizes of the result's dynamic dims.
TYING_OPS = frozenset({"flow.tensor.tie_shape", "hal.tensor.import"})
ASSUMING_OP = "util.assume.int"
_FIELD = re.compile(r"\b(umin|umax|udiv) = (\d+)")


def bounds_of(size: DimSize, reads: MutableMapping[Any, None] | None = None) -> Bounds | None:
    """What is assumed of a size, None if nothing is. reads: takes the values whose defining ops were read."""
    value = size.value
    if not isinstance(value, ir.Value) or isinstance(value.owner, ir.Block):
        return None
    if reads is not None:
        reads[value] = None
    op = value.owner.operation
    if op.name not in TYING_OPS or not isinstance(value.type, ir.RankedTensorType):
        return None
    place = 1 + sum(value.type.is_dynamic_dim(axis) for axis in range(size.axis))
    dim = op.operands[place]
    if reads is not None:
        reads[dim] = None
    maker = None if isinstance(dim.owner, ir.Block) else dim.owner.operation
    if maker is None or maker.name != ASSUMING_OP:
        return None
    cases = ir.ArrayAttr(ir.ArrayAttr(maker.attributes["assumptions"])[ir.OpResult(dim).result_number])
    return _any_of([{name: int(number) for name, number in _FIELD.findall(str(case))} for case in cases])


def _any_of(cases: list[dict[str, int]]) -> Bounds | None:
    """What holds in each of the cases."""
    if not cases:
        return None
    high = None if any("umax" not in case for case in cases) else max(case["umax"] for case in cases)
    return Bounds(min(case.get("umin", 0) for case in cases), high, math.gcd(*(case.get("udiv", 1) for case in cases)))

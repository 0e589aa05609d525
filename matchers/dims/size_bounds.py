"""What a program says of sizes that are only known at run time: `util.assume.int %d<umin = 16, udiv = 16>`.

Such a size is tied to a tensor by `flow.tensor.tie_shape`, or by the import of an argument; or it is that of an empty
tensor which ops then write to, or of a splat or a reshape.
"""

from __future__ import annotations

import math
import re
from collections.abc import MutableMapping
from typing import Any

from iree.compiler import ir

from opsplice.matchers.terms.terms import DimSize
from opsplice.spec_lang.dims.judge import Bounds

# Ops whose operands are the sizes of the result's dynamic dims, after so many others.
SIZED_OPS = {
    "flow.tensor.tie_shape": 1,
    "hal.tensor.import": 1,
    "tensor.empty": 0,
    "tensor.splat": 1,
    "tensor.expand_shape": 1,
}
ASSUMING_OP = "util.assume.int"
_FIELD = re.compile(r"\b(umin|umax|udiv) = (\d+)")


def bounds_of(size: DimSize, reads: MutableMapping[Any, None] | None = None) -> Bounds | None:
    """What is assumed of a size, None if nothing is. reads: takes the values whose defining ops were read."""
    dim = _dim_of(size, {} if reads is None else reads)
    if dim is None:
        return None
    if reads is not None:
        reads[dim] = None
    maker = None if isinstance(dim.owner, ir.Block) else dim.owner.operation
    if maker is not None and maker.name == "arith.constant":
        return _exactly(ir.IntegerAttr(maker.attributes["value"]).value)
    if maker is None or maker.name != ASSUMING_OP:
        return None
    cases = ir.ArrayAttr(ir.ArrayAttr(maker.attributes["assumptions"])[ir.OpResult(dim).result_number])
    return _any_of([{name: int(number) for name, number in _FIELD.findall(str(case))} for case in cases])


def _dim_of(size: DimSize, reads: MutableMapping[Any, None]) -> ir.Value | None:
    """The value of type index that is the size of a tensor, or of the one that it is written to, or was cast from."""
    value = size.value
    while isinstance(value, ir.Value) and not isinstance(value.owner, ir.Block):
        reads[value] = None
        op, kind = value.owner.operation, value.type
        if not isinstance(kind, ir.RankedTensorType) or not kind.is_dynamic_dim(size.axis):
            return None
        if (found := size_operand(op, kind, size.axis)) is not None:
            return found
        if op.name == "tensor.cast":
            value = op.operands[0]
        elif op.name.startswith("linalg.") and len(op.results) == 1:
            value = op.operands[len(op.operands) - 1]
        else:
            return None
    return None


def size_operand(op: ir.Operation, kind: ir.RankedTensorType, axis: int) -> ir.Value | None:
    """The operand that is the size of a dynamic dim of an op's result, None for ops that are not told sizes so."""
    if op.name not in SIZED_OPS:
        return None
    return op.operands[SIZED_OPS[op.name] + sum(kind.is_dynamic_dim(before) for before in range(axis))]


def _any_of(cases: list[dict[str, int]]) -> Bounds | None:
    """What holds in each of the cases."""
    if not cases:
        return None
    high = None if any("umax" not in case for case in cases) else max(case["umax"] for case in cases)
    low = min(case.get("umin", 0) for case in cases)
    return _exactly(low) if low == high else Bounds(low, high, math.gcd(*(case.get("udiv", 1) for case in cases)))


def _exactly(number: int) -> Bounds:
    return Bounds(number, number, max(number, 1))

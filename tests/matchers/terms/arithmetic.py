"""What scalar terms come to, in numpy: each op rounds to the nearest number of its type.

Terms are those of `matchers.terms`; an `Access` is an array by the name of its value, a `Reduce` runs along the last
axis. Ops are the interpreter's, but where they leave something open, which falls out otherwise here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opsplice.interpreter import scalars
from opsplice.matchers.terms.terms import Access, Apply, Constant, Reduce

Array = np.ndarray[Any, Any]
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i1": np.bool_, "i32": np.int32}
# Casts of integers, by the type that they read their operand as: None for the one that it has.
_CASTS = {"arith.extsi": None, "arith.extui": "u", "arith.sitofp": None, "arith.uitofp": "u"}
_MAXIMUM, _MINIMUM = (scalars.FLOATS[f"arith.{name}"] for name in ("maximumf", "minimumf"))


def _either_zero(choose: scalars.Function) -> scalars.Function:
    return lambda x, y: np.where(x == y, x, choose(x, y))


_OPEN = {
    "arith.maxnumf": _either_zero(scalars.FLOATS["arith.maxnumf"]),
    "arith.minnumf": _either_zero(scalars.FLOATS["arith.minnumf"]),
    "math.clampf": lambda x, low, high: _MAXIMUM(_MINIMUM(x, high), low),
}


def evaluate(term: Any, values: Mapping[str, Array], kind: str) -> Array:
    """What a term comes to with values of one type for what it reads."""
    with np.errstate(all="ignore"):
        return _evaluate(term, values, kind)


def _evaluate(term: Any, values: Mapping[str, Array], kind: str) -> Array:
    if isinstance(term, Access):
        return values[term.value]
    if isinstance(term, Constant):
        return np.asarray(term.value, TYPES.get(term.type, TYPES[kind]))
    if isinstance(term, Reduce):
        body = _evaluate(term.body, values, kind)
        total = body[..., :1]
        for i in range(1, body.shape[-1]):
            total = _computed(term.combiner, [total, body[..., i : i + 1]], kind)
        return total
    assert isinstance(term, Apply)
    args = [_evaluate(arg, values, kind) for arg in term.args]
    if term.op == "arith.select":
        return np.where(*args)
    if term.op in ("arith.cmpf", "arith.cmpi"):
        table = scalars.FLOAT_PREDICATES if term.op == "arith.cmpf" else scalars.INTEGER_PREDICATES
        return np.asarray(table[int(dict(term.attributes)["predicate"])](*args))
    if term.op in _CASTS:
        read = args[0].view(f"u{args[0].itemsize}") if _CASTS[term.op] else args[0]
        return np.asarray(read.astype(TYPES[term.type]))
    return _computed(term.op, args, term.type if term.type in TYPES else kind)


def _computed(name: str, args: list[Array], kind: str) -> Array:
    if name in scalars.INTEGERS:
        return np.asarray(scalars.INTEGERS[name](*args)).astype(TYPES["i1" if args[0].dtype == np.bool_ else kind])
    function = _OPEN.get(name) or scalars.FLOATS[name]
    return np.asarray(function(*(arg.astype(np.float64) for arg in args))).astype(TYPES[kind])

"""What scalar terms come to, in numpy: each op rounds to the nearest number of its type.

Terms are those of `matchers.terms`; an `Access` is an array by the name of its value, a `Reduce` runs along the last
axis. What an op leaves open (which zero `maxnumf` gives) falls out otherwise than `maximumf` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opsplice.matchers.terms import Access, Apply, Constant, Reduce
from opsplice.spec_lang.ops import CMPF_PREDICATES, CMPI_PREDICATES

Array = np.ndarray[Any, Any]
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i1": np.bool_, "i32": np.int32}
_ORDERS = {
    "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip


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
            total = _op(term.combiner, kind)(total, body[..., i : i + 1])
        return total
    assert isinstance(term, Apply)
    args = [_evaluate(arg, values, kind) for arg in term.args]
    if term.op in ("arith.cmpf", "arith.cmpi"):
        return _compared(term.op, int(dict(term.attributes)["predicate"]), *args)
    return np.asarray(_op(term.op, kind)(*args))


def _op(name: str, kind: str) -> Callable[..., Array]:
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    return lambda *args: _IN_F64[name](*(np.asarray(a, np.float64) for a in args)).astype(TYPES[kind])


def _compared(op: str, number: int, left: Array, right: Array) -> Array:
    if op == "arith.cmpi":
        name = CMPI_PREDICATES[number]
        if name.startswith("u"):
            left, right = left.view(np.uint8), right.view(np.uint8)
        return _ORDERS[name[-2:]](left, right)
    name = CMPF_PREDICATES[number]
    unordered = np.isnan(left) | np.isnan(right)
    if name in ("ord", "uno"):
        return unordered == (name == "uno")
    if name == "one":
        return ~unordered & (left != right)
    if name == "une":
        return unordered | (left != right)
    return np.where(unordered, name.startswith("u"), _ORDERS[name[1:]](left, right))


def _extremum(compare: Callable[..., Array], low: bool) -> Callable[..., Array]:
    """The larger or the smaller one: NaN where one is, and zero is more than minus zero."""

    def compute(left: Array, right: Array) -> Array:
        left, right = np.broadcast_arrays(left, right)
        first = np.where(left == right, np.signbit(left) == low, compare(left, right))
        return np.where(np.isnan(left) | np.isnan(right), np.nan, np.where(first, left, right)).astype(left.dtype)

    return compute


def _numbers_first(plain: Callable[..., Array], swapped: bool) -> Callable[..., Array]:
    """The same, but a number where the other is NaN. swapped: which zero it gives is open."""

    def compute(left: Array, right: Array) -> Array:
        left, right = np.broadcast_arrays(left, right)
        either = np.where(left == right, left, plain(left, right)) if swapped else plain(left, right)
        return np.where(np.isnan(left), right, np.where(np.isnan(right), left, either))

    return compute


def _bits(compute: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: compute(*(np.asarray(a, np.int8).view(np.uint8) for a in args)).view(np.int8)


_MAXIMUM, _MINIMUM = _extremum(np.greater, low=False), _extremum(np.less, low=True)
_EXACT: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": _MAXIMUM,
    "arith.minimumf": _MINIMUM,
    "arith.maxnumf": _numbers_first(_MAXIMUM, swapped=True),
    "arith.minnumf": _numbers_first(_MINIMUM, swapped=True),
    "arith.maximumnumf": _numbers_first(_MAXIMUM, swapped=False),
    "arith.minimumnumf": _numbers_first(_MINIMUM, swapped=False),
    "math.clampf": lambda x, low, high: _MAXIMUM(_MINIMUM(x, high), low),
    "math.sqrt": np.sqrt,
    "arith.select": np.where,
    "math.absf": np.abs,
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": _bits(np.maximum),
    "arith.minui": _bits(np.minimum),
    "math.ipowi": lambda x, n: np.multiply.reduce([x] * int(n), dtype=np.int8),
}
# Exact enough there for what is rounded to f16 or f32.
_IN_F64: dict[str, Callable[..., Array]] = {
    "math.exp": np.exp,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.powf": lambda x, n: np.power(x, np.full_like(x, n)),  # numpy takes another way for one exponent
    "math.fpowi": lambda x, n: np.power(x, np.full_like(x, n)),
    "math.fma": lambda x, y, z: x * y + z,
}

"""Equal spellings of scalar ops, brought to one form on both sides, payload and pattern.

    fpowi(x, 2), ipowi(x, 2), powf(x, 2.0)   =>  mul(x, x)              exact
    fpowi(x, 3), ipowi(x, 3)                 =>  mul(mul(x, x), x)      the order in which IREE expands it
    select(cmpf gt a b, a, b)                =>  maximumf(a, b)         differs when a or b is NaN
    select(cmpf lt a b, a, b)                =>  minimumf(a, b)         differs when a or b is NaN
    select(cmpi sgt a b, a, b) and so on     =>  maxsi(a, b), ...       exact
    divf(1.0, sqrt(x))                       =>  rsqrt(x)               within an ulp

Each line of comparisons holds for ordered and unordered, strict and non-strict ones, and with the two sides swapped.

`matchers.views` takes two liberties more: a sum may be added up in any order, and a maximum may start at the lowest
finite number as well as at minus infinity, which differs when all inputs are minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opsplice.matchers.terms import Apply, Constant

# arith.cmpf predicates by number: oeq 1, ogt 2, oge 3, olt 4, ole 5, ueq 8, ugt 9, uge 10, ult 11, ule 12.
_FLOAT_GREATER, _FLOAT_LESS = frozenset(["2", "3", "9", "10"]), frozenset(["4", "5", "11", "12"])
# arith.cmpi predicates by number: slt 2, sle 3, sgt 4, sge 5, ult 6, ule 7, ugt 8, uge 9.
_EXTREMUM = {
    **{("arith.cmpf", p): ("arith.maximumf", "arith.minimumf") for p in _FLOAT_GREATER},
    **{("arith.cmpf", p): ("arith.minimumf", "arith.maximumf") for p in _FLOAT_LESS},
    **{("arith.cmpi", p): ("arith.maxsi", "arith.minsi") for p in ("4", "5")},
    **{("arith.cmpi", p): ("arith.minsi", "arith.maxsi") for p in ("2", "3")},
    **{("arith.cmpi", p): ("arith.maxui", "arith.minui") for p in ("8", "9")},
    **{("arith.cmpi", p): ("arith.minui", "arith.maxui") for p in ("6", "7")},
}
_POWERS = {"math.fpowi": "arith.mulf", "math.powf": "arith.mulf", "math.ipowi": "arith.muli"}

# What each op that some line above starts from may become: an index on the outermost op must look there too.
BECOMES = {
    **{power: (times,) for power, times in _POWERS.items()},
    "arith.select": tuple(dict.fromkeys(op for pair in _EXTREMUM.values() for op in pair)),
    "arith.divf": ("math.rsqrt",),
}


def canonical(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    """The one form of a scalar op whose arguments are canonical already.

    resolve: follows an argument through views to the op or constant that makes it.
    """
    if term.op in _POWERS:
        return _power(term, resolve)
    if term.op == "arith.select":
        return _extremum(term, resolve)
    if term.op == "arith.divf":
        return _reciprocal_root(term, resolve)
    return term


def _power(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    base, exponent = term.args
    known = _number(resolve(exponent))
    times = _POWERS[term.op]
    if known not in (2, 3) or (term.op == "math.powf" and known != 2):
        return term
    square = Apply(times, (base, base), (), term.type)
    return square if known == 2 else Apply(times, (square, base), (), term.type)


def _extremum(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    condition, yes, no = term.args
    condition = resolve(condition)
    if not isinstance(condition, Apply):
        return term
    found = _EXTREMUM.get((condition.op, dict(condition.attributes).get("predicate", "")))
    if found is None:
        return term
    if condition.args == (yes, no):
        return Apply(found[0], (yes, no), (), term.type)
    if condition.args == (no, yes):
        return Apply(found[1], (yes, no), (), term.type)
    return term


def _reciprocal_root(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    one, root = term.args
    root = resolve(root)
    if not isinstance(root, Apply) or root.op != "math.sqrt" or _number(resolve(one)) != 1:
        return term
    return Apply("math.rsqrt", root.args, (), term.type)


def _number(term: Any) -> int | float | None:
    return term.value if isinstance(term, Constant) else None

"""Equal spellings of scalar ops.

Those that have one form have it on both sides, payload and pattern (`canonical`):

    fpowi(x, 2), ipowi(x, 2), powf(x, 2.0)   =>  mul(x, x)              exact
    fpowi(x, 3), ipowi(x, 3)                 =>  mul(mul(x, x), x)      the order in which IREE expands it
    powf(x, 3.0)                             =>  mul(mul(x, x), x)      within two units in the last place
    powf(x, 0.5), powf(x, -0.5)              =>  sqrt(x), rsqrt(x)      within a unit in the last place; but -0, -inf
    select(cmpf gt a b, a, b)                =>  maximumf(a, b)         differs when a or b is NaN
    select(cmpf lt a b, a, b)                =>  minimumf(a, b)         differs when a or b is NaN
    select(cmpi sgt a b, a, b) and so on     =>  maxsi(a, b), ...       exact
    maxnumf, maximumnumf (min...)            =>  maximumf (minimumf)    differs when a or b is NaN
    divf(1.0, sqrt(x))                       =>  rsqrt(x)               within a unit in the last place
    clampf(x, low, high)                     =>  minimumf(maximumf(x, low), high)    exact
    select(c, a, b), c known                 =>  a or b                 exact
    maximumf(x, 0.0), x a sum of squares     =>  x                      exact

Each line of comparisons holds for ordered and unordered, strict and non-strict ones, and with the two sides swapped.

Others are read as what a pattern asks for, so that neither is hidden from patterns that ask for the other (`readings`):

    divf(x, c), c constant                   =   mulf(x, 1 / c)         within a unit in the last place
    divf(x, y)                               =   mulf(x, divf(1.0, y))  within a unit in the last place
    divf(x, sqrt(y))                         =   mulf(x, rsqrt(y))      within two units in the last place
    subf(x, y)                               =   addf(x, negf(y))       exact
    subf(x, c), c constant                   =   addf(x, -c)            exact
    negf(x)                                  =   mulf(x, -1.0)          exact
    negf(x)                                  =   subf(-0.0, x)          exact
    negf(x)                                  =   subf(0.0, x)           differs in the sign of a zero
    cmpf(x, y), cmpi(x, y)                   =   the one of y and x with the predicate turned    exact
    fma(a, b, c)                             =   addf(mulf(a, b), c)    one rounding more
    reduce addf (mulf(x, c)), c constant     =   mulf(reduce addf (x), c)    within the rounding of each step
    addf(x, 0.0)                             =   x                      differs in the sign of a zero
    subf(x, 0.0), mulf(x, 1.0), divf(x, 1.0) =   x                      exact
    select(x is NaN, 0.0, x)                 =   x                      differs where x is NaN
    select(all of x is -inf, 0.0, softmax(x))  =  softmax(x)            differs where all of a row is minus infinity

A chain of one op that is associative and commutative is one op of many operands (`ASSOCIATIVE`): exact for integers,
for bits and for maxima; within the rounding of each step for sums and products of floats.

`matchers.views` takes two liberties more: a sum may be added up in any order, and a maximum may start at the lowest
finite number as well as at minus infinity, which differs when all inputs are minus infinity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from opsplice.matchers import numbers
from opsplice.matchers.folding import FOLDED, fold
from opsplice.matchers.terms import Access, Apply, Constant, Reduce, Started

# arith.cmpf predicates by number: oeq 1, ogt 2, oge 3, olt 4, ole 5, ueq 8, ugt 9, uge 10, ult 11, ule 12.
_FLOAT_GREATER, _FLOAT_LESS = frozenset(["2", "3", "9", "10"]), frozenset(["4", "5", "11", "12"])
_ORDERED_EQUAL, _UNEQUAL = "1", frozenset(["13", "14"])  # oeq; une and uno
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
_ROOTS = {0.5: "math.sqrt", -0.5: "math.rsqrt"}
_NAN_BLIND = {
    "arith.maxnumf": "arith.maximumf",
    "arith.maximumnumf": "arith.maximumf",
    "arith.minnumf": "arith.minimumf",
    "arith.minimumnumf": "arith.minimumf",
}
_MAX_FOLD = 6
# What `through cast` looks through: other precisions of the same floats. Integers of other widths wrap round elsewhere.
WIDTHS = frozenset({"arith.extf", "arith.truncf"})
COMPARISONS = frozenset({"arith.cmpf", "arith.cmpi"})
# Comparisons by op and predicate, with what they are with the two sides swapped.
_TURNED = {
    **{("arith.cmpf", str(p)): str(p + 2) for p in (2, 3, 9, 10)},
    **{("arith.cmpf", str(p)): str(p - 2) for p in (4, 5, 11, 12)},
    **{("arith.cmpf", str(p)): str(p) for p in (1, 6, 7, 8, 13, 14)},
    **{("arith.cmpi", str(p)): str(p + 2) for p in (2, 3, 6, 7)},
    **{("arith.cmpi", str(p)): str(p - 2) for p in (4, 5, 8, 9)},
    **{("arith.cmpi", str(p)): str(p) for p in (0, 1)},
}
# Ops whose chains may be regrouped and reordered.
ASSOCIATIVE = frozenset(
    f"arith.{name}"
    for name in (
        *("addf", "mulf", "addi", "muli", "andi", "ori", "xori"),
        *("maximumf", "minimumf", "maxsi", "minsi", "maxui", "minui"),
    )
)

# What each op that some line above starts from may become: an index on the outermost op must look there too.
BECOMES = {
    **{power: (times,) for power, times in _POWERS.items()},
    "math.powf": ("arith.mulf", "math.sqrt", "math.rsqrt"),
    "math.clampf": ("arith.minimumf",),
    "arith.maximumf": (),
    **{name: (plain,) for name, plain in _NAN_BLIND.items()},
    "arith.select": tuple(dict.fromkeys(op for pair in _EXTREMUM.values() for op in pair)),
    "arith.divf": ("math.rsqrt",),
}

# The numbers that leave the other operand of an op as it is, or (of those that do not commute) the first.
NEUTRAL = {"arith.addf": 0, "arith.subf": 0, "arith.mulf": 1, "arith.divf": 1}

# What each op may be read as besides.
READ_AS = {
    "arith.divf": ("arith.mulf", "arith.negf"),
    "arith.mulf": ("arith.divf", "arith.negf"),
    "arith.addf": ("arith.subf", "math.fma"),
    "arith.subf": ("arith.addf", "arith.negf"),
    "arith.negf": ("arith.mulf", "arith.subf"),
    "math.rsqrt": ("arith.divf",),
    "math.fma": ("arith.addf",),
}


# Ops whose one form may be one of their own arguments, so that they may become anything.
MAY_VANISH = frozenset({"arith.select", "arith.maximumf", "math.clampf"})


@functools.lru_cache(maxsize=512)
def names_of(name: str) -> tuple[str, ...]:
    """An op's name and the names of what it may become or be read as."""
    forms = (name, *BECOMES.get(name, ()))
    return tuple(dict.fromkeys((*forms, *(other for form in forms for other in READ_AS.get(form, ())))))


def combiner(name: str) -> str:
    """The one name of an op that a reduction combines with."""
    return _NAN_BLIND.get(name, name)


def canonical(term: Apply, resolve: Callable[[Any], Any]) -> Any:
    """The one form of a scalar op whose arguments are canonical already: an op, or one of the arguments.

    resolve: follows an argument through views to the op or constant that makes it.
    """
    if term.op in _POWERS:
        return _power(term, resolve)
    if term.op == "arith.select":
        known = constant(term.args[0], resolve)
        return _extremum(term, resolve) if known is None else term.args[1 if known.value else 2]
    if term.op == "arith.maximumf":
        return _above_zero(term, resolve)
    if term.op == "arith.divf":
        return _reciprocal_root(term, resolve)
    if term.op in _NAN_BLIND:
        return Apply(_NAN_BLIND[term.op], term.args, (), term.type)
    if term.op == "math.clampf":
        x, low, high = term.args
        return Apply("arith.minimumf", (Apply("arith.maximumf", (x, low), (), term.type), high), (), term.type)
    return term


def readings(term: Apply, wanted: str, resolve: Callable[[Any], Any]) -> tuple[Apply, ...]:
    """A canonical scalar op as other ops of the name `wanted` that make the same; none if it cannot be read so.

    The ops are new at each call: keep them, as terms compare by identity.
    """
    if term.op == "arith.select":
        inner = _guarded(term, resolve)
        return (inner,) if isinstance(inner, Apply) and inner.op == wanted else ()
    if wanted not in READ_AS.get(term.op, ()):
        return ()

    def made(op: str, *args: Any) -> Apply:
        return canonical(Apply(op, args, (), term.type), resolve)

    def number(value: float) -> Constant:
        return Constant(value, term.type)

    def reciprocal(known: Constant) -> list[Constant]:
        """1 / c, but for one that the type holds as zero, as infinity, or with fewer bits than others."""
        inverse = 1 / known.value if known.value else math.inf
        return [number(inverse)] if numbers.is_normal(inverse, term.type) else []

    def as_product(x: Any, y: Any) -> list[Apply]:
        known, root = constant(y, resolve), resolve(y)
        if known is not None:
            return [made("arith.mulf", x, one) for one in reciprocal(known)]
        if isinstance(root, Apply) and root.op == "math.sqrt":
            return [made("arith.mulf", x, made("math.rsqrt", *root.args))]
        return [made("arith.mulf", x, made("arith.divf", number(1.0), y))]

    def as_quotient(x: Any, y: Any) -> list[Apply]:
        known, under = constant(y, resolve), resolve(y)
        if known is not None:
            return [made("arith.divf", x, one) for one in reciprocal(known)]
        if isinstance(under, Apply) and under.op == "math.rsqrt":
            return [Apply("arith.divf", (x, made("math.sqrt", *under.args)), (), term.type)]
        if isinstance(under, Apply) and under.op == "arith.divf" and _is(under.args[0], 1, resolve):
            return [made("arith.divf", x, under.args[1])]
        return []

    def negated(y: Any) -> Any | None:
        """What `y` is the negative of, where it is written as one."""
        known, under = constant(y, resolve), resolve(y)
        if known is not None:
            return number(-known.value)
        return under.args[0] if isinstance(under, Apply) and under.op == "arith.negf" else None

    args, found = term.args, []
    if (term.op, wanted) == ("arith.divf", "arith.mulf"):
        found = as_product(*args)
    elif (term.op, wanted) == ("arith.mulf", "arith.divf"):
        found = as_quotient(*args) + as_quotient(*reversed(args))
    elif wanted == "arith.divf":  # of a rsqrt, as Apply: the canonical form of this one is what it is read from
        found = [Apply(wanted, (number(1.0), made("math.sqrt", *args)), (), term.type)]
    elif (term.op, wanted) == ("arith.subf", "arith.addf"):
        other = negated(args[1])
        found = [made(wanted, args[0], made("arith.negf", args[1]) if other is None else other)]
    elif (term.op, wanted) == ("arith.addf", "arith.subf"):
        found = [
            made(wanted, x, other) for x, y in (args, reversed(args)) for other in [negated(y)] if other is not None
        ]
    elif (term.op, wanted) == ("arith.addf", "math.fma"):
        products = [(resolve(x), y) for x, y in (args, args[::-1])]
        found = [made(wanted, *x.args, y) for x, y in products if isinstance(x, Apply) and x.op == "arith.mulf"]
    elif term.op == "math.fma":
        found = [made(wanted, made("arith.mulf", *args[:2]), args[2])]
    elif term.op == "arith.negf":
        zeros = (number(0.0), number(-0.0))
        found = (
            [made(wanted, args[0], number(-1.0))] if wanted == "arith.mulf" else [made(wanted, z, *args) for z in zeros]
        )
    elif term.op == "arith.subf":  # as negf
        found = [made(wanted, args[1])] if _is(args[0], 0, resolve) else []
    else:  # a product or a quotient as negf
        sides = [args] if term.op == "arith.divf" else [args, args[::-1]]
        found = [made(wanted, x) for x, y in sides if _is(y, -1, resolve)]
    return tuple(found)


def unchanged(term: Apply, resolve: Callable[[Any], Any]) -> Any | None:
    """x, where a term is `addf(x, 0.0)`, `mulf(x, 1.0)` or the like; None for any other."""
    neutral = NEUTRAL.get(term.op)
    if neutral is None or isinstance(term, Started):
        return None
    sides = (term.args,) if term.op in ("arith.subf", "arith.divf") else (term.args, term.args[::-1])
    return next((x for x, number in sides if _is(number, neutral, resolve)), None)


def _guarded(term: Apply, resolve: Callable[[Any], Any]) -> Any | None:
    """What a select guards: x in `select(x is NaN, 0.0, x)`, a softmax in `select(all it reads is -inf, 0.0, it)`."""
    condition, yes, no = term.args
    condition = resolve(condition)
    if not _is(yes, 0, resolve):
        return None
    if isinstance(condition, Apply) and condition.op == "arith.cmpf" and condition.args == (no, no):
        return resolve(no) if _predicate(condition) in _UNEQUAL else None
    if not isinstance(condition, Reduce) or condition.combiner != "arith.andi":
        return None
    compared, inner = resolve(condition.body), resolve(no)
    if not isinstance(compared, Apply) or compared.op != "arith.cmpf" or _predicate(compared) != _ORDERED_EQUAL:
        return None
    read, asked = _softmax_input(inner, resolve), compared.args[0]
    same = isinstance(read, Access) and isinstance(asked, Access) and _is_among(read, asked, condition.loops)
    return inner if same and _is(compared.args[1], -math.inf, resolve) else None


def _is_among(element: Access, others: Access, loops: tuple[Any, ...]) -> bool:
    """Whether an element is one of those that an access comes to over loops, each of which runs along one dim."""
    if element.value != others.value:
        return False
    along = [there for here, there in zip(element.indices, others.indices, strict=True) if here != there]
    return len(set(along)) == len(along) and set(along) <= set(loops)


def _softmax_input(term: Any, resolve: Callable[[Any], Any]) -> Any | None:
    """x, where a term is `divf(exp(subf(x, reduce maximumf(...))), reduce addf(...))`."""
    for op, combiner_beside in (("arith.divf", "arith.addf"), ("math.exp", None), ("arith.subf", "arith.maximumf")):
        term = resolve(term)
        if not isinstance(term, Apply) or term.op != op:
            return None
        beside = None if combiner_beside is None else resolve(term.args[1])
        if combiner_beside is not None and not (isinstance(beside, Reduce) and beside.combiner == combiner_beside):
            return None
        term = term.args[0]
    return term


def _predicate(term: Apply) -> str:
    return dict(term.attributes).get("predicate", "")


def hoisted(total: Reduce, resolve: Callable[[Any], Any]) -> tuple[Apply, ...]:
    """A sum as a product of a sum and of the constant factors of what is summed; none if it has no such factor."""
    if total.combiner != "arith.addf":
        return ()
    body = resolve(total.body)
    if not isinstance(body, Apply) or body.op not in ("arith.mulf", "arith.divf"):
        return ()
    factor, rest = _split(body, resolve, 0)
    if factor == 1 or rest is None:
        return ()
    sum_of_rest = Reduce(total.combiner, total.loops, rest)
    return (Apply("arith.mulf", (sum_of_rest, Constant(factor, body.type)), (), body.type),)


def _split(term: Any, resolve: Callable[[Any], Any], depth: int) -> tuple[float, Any | None]:
    """A term as the product of a number and of the rest, which is None where there is none."""
    known = constant(term, resolve)
    if known is not None:
        return known.value, None
    under = resolve(term)
    if not isinstance(under, Apply) or under.op not in ("arith.mulf", "arith.divf") or depth > _MAX_FOLD:
        return 1, term
    if under.op == "arith.divf":
        divisor = constant(under.args[1], resolve)
        if divisor is None or divisor.value == 0:
            return 1, term
        factor, rest = _split(under.args[0], resolve, depth + 1)
        factor /= divisor.value
    else:
        (first, left), (second, right) = (_split(arg, resolve, depth + 1) for arg in under.args)
        if first == second == 1:
            return 1, term
        factor = first * second
        rest = Apply(under.op, (left, right), (), under.type) if left and right else left or right
    return (factor, rest) if numbers.is_normal(factor, under.type) else (1, term)


def constant(term: Any, resolve: Callable[[Any], Any], depth: int = 0) -> Constant | None:
    """The number that a term is, arithmetic on numbers included; None if it is not known to be one."""
    term = resolve(term)
    if isinstance(term, Constant):
        return term
    if not isinstance(term, Apply) or term.op not in FOLDED or depth > _MAX_FOLD:
        return None
    args = []
    for arg in term.args:
        known = constant(arg, resolve, depth + 1)
        if known is None:
            return None
        args.append(known)
    return fold(term, args)


def _is(term: Any, value: float, resolve: Callable[[Any], Any]) -> bool:
    known = constant(term, resolve)
    return known is not None and known.value == value


def _power(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    base, exponent = term.args
    known = _number(resolve(exponent))
    times = _POWERS[term.op]
    if term.op == "math.powf" and known in _ROOTS:
        return Apply(_ROOTS[known], (base,), (), term.type)
    if known not in (2, 3):
        return term
    square = Apply(times, (base, base), (), term.type)
    return square if known == 2 else Apply(times, (square, base), (), term.type)


def _extremum(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    condition, yes, no = term.args
    condition = resolve(condition)
    if not isinstance(condition, Apply):
        return term
    found = _EXTREMUM.get((condition.op, _predicate(condition)))
    if found is None:
        return term
    left, right = condition.args
    if _same(left, yes, resolve) and _same(right, no, resolve):
        return Apply(found[0], (yes, no), (), term.type)
    if _same(left, no, resolve) and _same(right, yes, resolve):
        return Apply(found[1], (yes, no), (), term.type)
    return term


def _same(left: Any, right: Any, resolve: Callable[[Any], Any]) -> bool:
    """Whether two terms are one element, or one number however each came to be."""
    if left == right or resolve(left) == resolve(right):
        return True
    known = constant(left, resolve)
    return known is not None and known == constant(right, resolve)


def turned(term: Apply, predicate: str) -> Apply | None:
    """A comparison as the one of a predicate with the two sides swapped, None if it is not that."""
    if _TURNED.get((term.op, _predicate(term))) != predicate:
        return None
    attributes = tuple((name, predicate if name == "predicate" else value) for name, value in term.attributes)
    return Apply(term.op, term.args[::-1], attributes, term.type)


def _above_zero(term: Apply, resolve: Callable[[Any], Any]) -> Any:
    for x, bound in (term.args, term.args[::-1]):
        if _is_zero(resolve(bound)) and _is_not_negative(x, resolve, 0):
            return x
    return term


def _is_zero(term: Any) -> bool:
    return isinstance(term, Constant) and term.value == 0


def _is_not_negative(term: Any, resolve: Callable[[Any], Any], depth: int) -> bool:
    """Whether a term is a sum, a mean or a product of squares."""
    term = resolve(term)
    if depth > _MAX_FOLD:
        return False
    if isinstance(term, Constant):
        return term.value > 0
    if isinstance(term, Reduce):
        return term.combiner == "arith.addf" and _is_not_negative(term.body, resolve, depth + 1)
    if not isinstance(term, Apply) or term.op not in ("arith.mulf", "arith.divf"):
        return False
    if term.op == "arith.mulf" and term.args[0] == term.args[1]:
        return True
    left, right = term.args
    positive = constant(right, resolve) if term.op == "arith.divf" else None
    if positive is not None:
        return positive.value > 0 and _is_not_negative(left, resolve, depth + 1)
    return term.op == "arith.mulf" and all(_is_not_negative(arg, resolve, depth + 1) for arg in term.args)


def _reciprocal_root(term: Apply, resolve: Callable[[Any], Any]) -> Apply:
    one, root = term.args
    root = resolve(root)
    if not isinstance(root, Apply) or root.op != "math.sqrt" or _number(resolve(one)) != 1:
        return term
    return Apply("math.rsqrt", root.args, (), term.type)


def _number(term: Any) -> int | float | None:
    return term.value if isinstance(term, Constant) else None

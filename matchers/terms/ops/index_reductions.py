"""Reductions that tell where the largest or smallest element is, `argmax` and `argmin`: by what their bodies compute.

Frontends write such a body in many ways. A body of comparisons, choices and logic alone depends on nothing but the
order of its arguments, so it is tried with each order that there is, and what comes out says what it computes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op, element_type, shape_of
from opsplice.matchers.terms.ops.combiners import is_neutral
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.matchers.terms.ops.structured_ops import Structured
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, Fresh, Index, Loop, Reduce, Term
from opsplice.spec_lang.syntax import vocabulary

ARG_COMPARE = "iree_linalg_ext.arg_compare"
# The op of a term whose operand is a reduction by `argmax` or `argmin`: where what it finds is.
POSITION = "position"
INTEGER_CASTS = frozenset(f"arith.{name}" for name in ("extsi", "extui", "index_cast", "index_castui", "trunci"))
# The reductions that find the elements themselves, of floats and of integers.
_EXTREMES = {"argmax": ("arith.maximumf", "arith.maxsi"), "argmin": ("arith.minimumf", "arith.minsi")}

_BEFORE, _AFTER = 3, 5  # two places along the dim, in the order in which a reduction comes to them
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}  # fmt: skip
_COMBINED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("maximumf", "maxnumf", "maximumnumf", "maxsi"), max),
    **dict.fromkeys(("minimumf", "minnumf", "minimumnumf", "minsi"), min),
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    **dict.fromkeys((name.removeprefix("arith.") for name in INTEGER_CASTS), lambda x: x),
    "select": lambda test, x, y: x if test else y,
}
_LOGIC = ("andi", "ori", "xori")


def extreme(name: str, element: str) -> str:
    """The reduction that finds the element itself of which `argmax` or `argmin` tells the place."""
    of_floats, of_integers = _EXTREMES[name]
    return of_floats if vocabulary.is_float(element) else of_integers


def starts(name: str, element: object, place: object) -> bool:
    """Whether an index reduction may start from an element and a place without changing what it finds."""
    if not isinstance(element, Constant) or not isinstance(place, Constant) or place.value != 0:
        return False
    combiner = extreme(name, element.type)
    neutral = vocabulary.identity(combiner, element.type)
    return neutral is not None and is_neutral(combiner, element, neutral)


def compared(
    op: ir.Operation,
    number: int,
    indices: tuple[Index, ...],
    fresh: Fresh,
    resolve: Callable[[Term], Term],
) -> Term | None:
    """Result `number` of an `arg_compare`: the largest or smallest element along a dim, or the place of it."""
    name, shape = of_comparison(op), shape_of(op.operands[0])
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    loop = UNIT if name is None or shape is None else fresh(shape[axis])
    outputs = [resolve(Access(each, indices)) for each in list(op.operands)[1:]]
    if name is None or not isinstance(loop, Loop) or not starts(name, *outputs):
        return None
    element, kind = Access(op.operands[0], (*indices[:axis], loop, *indices[axis:])), element_type(op.results[number])
    if number == 0:
        return Reduce(extreme(name, kind), (loop,), element)
    return Apply(POSITION, (Reduce(name, (loop,), element),), (), kind)


def uncast(term: Term, resolve: Callable[[Term], Term]) -> Term:
    """What makes an integer, in whatever width."""
    found = resolve(term)
    return uncast(found.args[0], resolve) if isinstance(found, Apply) and found.op in INTEGER_CASTS else found


def of_generic(op: Structured) -> str | None:
    """`argmax` or `argmin` where a structured op finds an element and, as its second result, the place of it.

    Its body must take a new element, and the element's place as the second input or by `linalg.index`.
    """
    if len(op.yielded) != 2 or op.inputs not in (1, 2):
        return None
    if element_type(op.yielded[1]) not in ("i32", "i64", "index"):
        return None
    arguments = {number: value for value, number in op.arguments.items()}
    new, best, at = arguments[0], arguments[op.inputs], arguments[op.inputs + 1]
    body = [scalar.op for scalar in op.scalars]

    def chosen(element: int, so_far: int) -> Any:
        known = {new: element, best: so_far, at: _BEFORE, **({arguments[1]: _AFTER} if op.inputs > 1 else {})}
        return _computed(body, known, op.yielded)

    return _of_table(chosen, lambda found: {_AFTER: True, _BEFORE: False}.get(found[1]), keeps=lambda found: found[0])


def of_comparison(op: ir.Operation) -> str | None:
    """`argmax` or `argmin` where an `arg_compare` is one from zero on; None for others."""
    if len(op.operands) != 3 or len(op.results) != 2:
        return None
    block = op.regions[0].blocks[0]
    *body, last = (each.operation for each in block.operations)
    new, best = block.arguments
    return _of_table(lambda x, y: _computed(body, {new: x, best: y}, last.operands), lambda found: found[0])


def _of_table(
    chosen: Callable[[int, int], Any],
    takes: Callable[[Any], bool | None],
    keeps: Callable[[Any], Any] | None = None,
) -> str | None:
    """Which reduction takes a new element in these orders, and of equal ones the first.

    takes: whether what came out is the new element's place. keeps: the element that came out.
    """
    for name, wanted in (("argmax", max), ("argmin", min)):
        pairs = ((1, 2), (2, 1), (1, 1))
        found = [chosen(*pair) for pair in pairs]
        if None in found:
            return None
        places = [takes(each) for each in found] == [wanted(x, y) != y for x, y in pairs]
        if places and (keeps is None or [keeps(each) for each in found] == [wanted(pair) for pair in pairs]):
            return name
    return None


def _computed(
    body: Iterable[ir.Operation], known: Mapping[ir.Value, Any], wanted: Iterable[ir.Value]
) -> tuple[Any, ...] | None:
    """What a body computes of numbers; None if it does more than compare and choose."""
    values: dict[ir.Value, Any] = dict(known)
    for op in body:
        made = _result(op, values)
        if made is None:
            return None
        values[op.results[0]] = made
    found = tuple(values.get(value) for value in wanted)
    return None if None in found else found


def _result(op: ir.Operation, values: Mapping[ir.Value, Any]) -> Any:
    """What one op makes of numbers, None where that is unknown."""
    if op.name == "arith.constant":
        constant = constant_of(op)
        return bool(constant.value) if constant is not None and constant.type == "i1" else None
    if op.name == "linalg.index":
        return _AFTER
    args = [_value(each, values) for each in op.operands]
    short = op.name.removeprefix("arith.")
    if None in args or short == op.name:
        return None
    if short in ("cmpf", "cmpi"):
        names = vocabulary.CMPF_PREDICATES if short == "cmpf" else vocabulary.CMPI_PREDICATES
        return _compared(short, names[ir.IntegerAttr(op.attributes["predicate"]).value], *args)
    if short in _LOGIC and element_type(op.results[0]) != "i1":
        return None
    return _COMBINED[short](*args) if short in _COMBINED else None


def _compared(op: str, predicate: str, x: Any, y: Any) -> bool | None:
    """A comparison of two numbers; None for one of numbers without a sign. No number here is NaN."""
    if op == "cmpi":
        return None if predicate.startswith("u") else _COMPARED[predicate.removeprefix("s")](x, y)
    if predicate in ("false", "uno", "true", "ord"):
        return predicate in ("true", "ord")
    return _COMPARED[predicate[1:]](x, y)


def _value(value: ir.Value, values: Mapping[ir.Value, Any]) -> Any:
    """A value of the body; of those from outside only constants that are true or false are known."""
    if value in values:
        return values[value]
    maker = defining_op(value)
    return None if maker is None or maker.name != "arith.constant" else _result(maker, {})

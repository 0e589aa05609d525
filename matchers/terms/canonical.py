"""Equal spellings of scalar ops, as the table in `matchers.terms.equalities` has them.

Some have one form on both sides, payload and pattern (`canonical`). Others are read as what a pattern asks for, so that
neither is hidden from patterns that ask for the other (`readings`). Some leave a value as it is (`unchanged`).

`views` takes two liberties more: a sum may be added up in any order, and a maximum may start at the lowest
finite number as well as at minus infinity, which differs when all inputs are minus infinity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from opsplice.matchers.terms import constants
from opsplice.matchers.terms.equalities import REDUCE, TABLE, Computed, Form, Node, Row, Shape, shape
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.ops.one_hots import SELECT, of_one_hot
from opsplice.matchers.terms.ops.parts_of_dims import cut_from
from opsplice.matchers.terms.scalar_folding import FOLDED, fold
from opsplice.matchers.terms.terms import Access, Apply, Constant, Reduce, Started, Term
from opsplice.spec_lang.syntax import vocabulary

# Follows a term through views to the op or constant that makes it; with `as_number` only one that may be a number.
Resolve = Callable[..., Any]
Bound = dict[str, Any]
# Makes an op of its name, operands, attributes and type.
Make = Callable[[str, tuple[Term, ...], tuple[tuple[str, str], ...], str], Apply]

_MAX_FOLD = 6
_SEVERAL = 2
# What `through cast` looks through: other precisions of the same floats. Integers of other widths wrap round elsewhere.
WIDTHS = frozenset({"arith.extf", "arith.truncf"})
WIDENINGS = frozenset({"arith.extf", "arith.extsi", "arith.extui"})
_PREDICATES = {"arith.cmpf": vocabulary.CMPF_PREDICATES, "arith.cmpi": vocabulary.CMPI_PREDICATES}
COMPARISONS = frozenset(_PREDICATES)


@dataclass(frozen=True)
class Rule:
    """A row of the table in one direction: what has the form `source` is `target`."""

    row: Row
    source: Node
    target: Shape

    def applied(self, term: Apply[object], resolve: Resolve, make: Make = Apply) -> Iterator[Any]:
        """What a term is by this rule, once for each way in which it has the form. make: see `readings`."""
        condition = _CONDITIONS.get(self.row.when)
        for bound in _bindings(self.source, term, {}, resolve):
            if condition is None or condition(bound, term, resolve):
                yield _made(self.target, bound, term.type, resolve, make)


def canonical(term: Apply[object], resolve: Resolve) -> Any:
    """The one form of a scalar op whose arguments are canonical already: an op, or one of the arguments.

    resolve: follows an argument through views to the op or constant that makes it.
    """
    for rule in _ONE.get(term.op, ()):
        found = next(rule.applied(term, resolve), None)
        if found is not None:
            return canonical(found, resolve) if isinstance(rule.target, Node) else found
    return term


def readings(term: Apply, wanted: str, resolve: Resolve, make: Make = Apply) -> tuple[Apply, ...]:
    """A canonical scalar op as ops of the name `wanted` that make the same, itself first; none if it is no such.

    make: gives the ops, the same one for the same operands, as terms compare by identity: what is read of a value that
    many ops share is read once.
    """
    found: list[Any] = [term]
    for rule in _READ.get(term.op, ()):
        if isinstance(rule.target, Node) and rule.target.op == wanted:
            found.extend(rule.applied(term, resolve, make))
    return tuple(each for each in dict.fromkeys(found) if isinstance(each, Apply) and each.op == wanted)


def unchanged(term: Apply, resolve: Resolve) -> Any | None:
    """x, where a term is `addf(x, 0.0)`, `mulf(x, 1.0)` or the like, or a slice of x; None for any other."""
    if term.op == TAKE:
        return cut_from(term)
    if isinstance(term, Started):
        return None
    return next((x for rule in _IDLE.get(term.op, ()) for x in rule.applied(term, resolve)), None)


@functools.lru_cache(maxsize=512)
def names_of(name: str) -> tuple[str, ...]:
    """An op's name and the names of what it may become or be read as."""
    forms = (name, *BECOMES.get(name, ()))
    return tuple(dict.fromkeys((*forms, *(other for form in forms for other in READ_AS.get(form, ())))))


def combiner(name: str) -> str:
    """The one name of what a reduction combines with, an op's full or short name, or a word of its own."""
    op = vocabulary.find(name)
    full = name if op is None else op.full_name
    return _RENAMED.get(full, full)


def turned(term: Apply, predicate: str) -> Apply | None:
    """A comparison as the one of a predicate with the two sides swapped, None if it is not that."""
    other = _TURNED.get((term.op, _predicate(term)))
    if other is None or other != _named(term.op, predicate):
        return None
    attributes = tuple((name, predicate if name == "predicate" else value) for name, value in term.attributes)
    return Apply(term.op, term.args[::-1], attributes, term.type)


def constant(term: object, resolve: Resolve) -> Constant | None:
    """The number that a term is, arithmetic on numbers included; None if it is not known to be one."""
    return _folded(term, resolve, 0)


def _folded(term: object, resolve: Resolve, depth: int) -> Constant | None:
    found = resolve(term, as_number=True)
    if not isinstance(found, Apply) or found.op not in FOLDED or depth > _MAX_FOLD:
        return found if isinstance(found, Constant) else None
    known: list[Constant] = []
    for arg in reversed(found.args):  # a second operand is more often a weight, or what is added to the first
        number = _folded(arg, resolve, depth + 1)
        if number is None:
            return None
        known.insert(0, number)
    return fold(found, known)


# ---- forms -------------------------------------------------------------------------------------------------------


def _bindings(wanted: Shape, term: object, bound: Bound, resolve: Resolve) -> Iterator[Bound]:
    """The ways in which a term has a form: what each name in it stands for."""
    if isinstance(wanted, Node):
        found = resolve(term)
        for operands in _operands(wanted, found):
            yield from _all_bindings(wanted.args, operands, bound, resolve)
        return
    if isinstance(wanted, str) and wanted != "c":
        if wanted not in bound or _same(bound[wanted], term, resolve):
            yield {**bound, wanted: bound.get(wanted, term)}
        return
    known = constant(term, resolve)
    if known is None:
        return
    if isinstance(wanted, str):
        yield {**bound, wanted: known}
    elif isinstance(wanted, Computed):
        yield {**bound, wanted.name: Constant(wanted.of(known.value), known.type)}
    elif _is(known, wanted):
        yield bound


def _all_bindings(
    wanted: tuple[Shape, ...], terms: tuple[Term, ...], bound: Bound, resolve: Resolve
) -> Iterator[Bound]:
    if not wanted:
        yield bound
        return
    for more in _bindings(wanted[0], terms[0], bound, resolve):
        yield from _all_bindings(wanted[1:], terms[1:], more, resolve)


def _operands(wanted: Node, found: object) -> Iterator[tuple[Term, ...]]:
    """The operands of a term that is the op of a form, in each order that makes the same."""
    if isinstance(found, Reduce) and wanted.op == REDUCE + found.combiner:
        yield (found.body,)
    if not isinstance(found, Apply) or found.op != wanted.op:
        return
    name = _predicate(found)
    if not wanted.predicates or name in wanted.predicates:
        yield found.args
    swapped = vocabulary.commutes(found.op) and found.args[0] is not found.args[1]
    if swapped or _TURNED.get((found.op, name)) in wanted.predicates:
        yield found.args[::-1]


def _made(wanted: Shape, bound: Bound, kind: str, resolve: Resolve, make: Make) -> Any:
    """The term of a form. Its outermost op stays what it is; those below have their one form."""
    if isinstance(wanted, Node):
        kind = "i1" if wanted.predicates or any(isinstance(arg, bool) for arg in wanted.args) else kind
        args = (_made(arg, bound, kind, resolve, make) for arg in wanted.args)
        kept = (canonical(a, resolve) if isinstance(w, Node) else a for w, a in zip(wanted.args, args, strict=True))
        attributes = tuple(("predicate", _numbered(wanted.op, name)) for name in wanted.predicates)
        return make(wanted.op, tuple(kept), attributes, kind)
    if isinstance(wanted, str):
        return bound[wanted]
    if isinstance(wanted, bool):
        return Constant(int(wanted), "i1")
    return Constant(wanted.of(bound[wanted.name].value) if isinstance(wanted, Computed) else wanted, kind)


def _same(left: Any, right: Any, resolve: Resolve) -> bool:
    """Whether two terms are one element, or one number however each came to be."""
    if left == right or resolve(left) == resolve(right):
        return True
    known = constant(left, resolve)
    return known is not None and known == constant(right, resolve)


def _is(known: Constant, wanted: float) -> bool:
    """Whether a constant is a number of a form, with its sign if that is zero."""
    if isinstance(wanted, bool):
        return known.type == "i1" and bool(known.value) is wanted
    return known.value == wanted and (wanted != 0 or constants.identical(known.value, wanted))


def _predicate(term: Apply) -> str:
    """The name of a comparison's predicate, "" for any other op."""
    return _named(term.op, dict(term.attributes).get("predicate", ""))


def _named(op: str, predicate: str) -> str:
    """The name of a predicate that the IR has as a number."""
    names = _PREDICATES.get(op, ())
    return names[int(predicate)] if predicate.isdigit() and int(predicate) < len(names) else ""


def _numbered(op: str, predicate: str) -> str:
    """A predicate as the IR has it."""
    return str(_PREDICATES[op].index(predicate))


# ---- conditions --------------------------------------------------------------------------------------------------


def _is_no_number(bound: Bound, _: Apply[object], resolve: Resolve) -> bool:
    return constant(bound["y"], resolve) is None


def _has_normal_reciprocal(bound: Bound, term: Apply[object], _: Resolve) -> bool:
    value = bound["c"].value
    return all(constants.is_normal(each, term.type) for each in (value, 1 / value if value else 0.0))


def _is_sum_of_squares(bound: Bound, _: Apply[object], resolve: Resolve) -> bool:
    return _is_not_negative(bound["x"], resolve, 0)


def _is_not_negative(term: object, resolve: Resolve, depth: int) -> bool:
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


_CONDITIONS: dict[str, Callable[[Bound, Apply[object], Resolve], bool]] = {
    "y is not a number": _is_no_number,
    "c and 1 / c are normal numbers": _has_normal_reciprocal,
    "x is a sum of squares": _is_sum_of_squares,
}

# ---- sums --------------------------------------------------------------------------------------------------------


def sum_as(total: Reduce, wanted: str, resolve: Resolve, expand: Callable[[Access], Any]) -> tuple[Apply, ...]:
    """A sum as an op of `SUMS_AS`; none if it is no such. expand: what makes an element, one level down."""
    return of_one_hot(total, resolve, expand) if wanted == SELECT else hoisted(total, resolve)


def hoisted(total: Reduce, resolve: Resolve) -> tuple[Apply, ...]:
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


def _split(term: Term, resolve: Resolve, depth: int) -> tuple[float, Term | None]:
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
    return (factor, rest) if constants.is_normal(factor, under.type) else (1, term)


# ---- the table ---------------------------------------------------------------------------------------------------


def _rules(*forms: Form) -> dict[str, tuple[Rule, ...]]:
    """The rules of some forms, by the op that they start from; sums are `hoisted`'s."""
    found: dict[str, tuple[Rule, ...]] = {}
    for row in (each for given in TABLE if given.form in forms for each in _apart(given)):
        sides = (shape(row.left), shape(row.right))
        for source, target in (sides, sides[::-1]) if row.form is Form.EITHER else (sides,):
            if isinstance(source, Node) and not source.op.startswith(REDUCE):
                found[source.op] = (*found.get(source.op, ()), Rule(row, source, target))
    return found


def _apart(row: Row) -> tuple[Row, ...]:
    """A row for each predicate where it says what each becomes."""
    return tuple(row.expanded()) if "predicate" in row.right else (row,)


def _targets(rules: dict[str, tuple[Rule, ...]]) -> dict[str, tuple[str, ...]]:
    """For each op the ops that rules make of it."""
    return {
        name: tuple(dict.fromkeys(rule.target.op for rule in group if isinstance(rule.target, Node)))
        for name, group in rules.items()
    }


_ONE, _READ, _IDLE = _rules(Form.ONE), _rules(Form.EITHER, Form.READ), _rules(Form.IDLE)
# What each op may become, and what it may be read as besides: an index on the outermost op must look there too.
BECOMES, READ_AS = _targets(_ONE), _targets(_READ)
# Ops that are the same op of other operands, too.
READ_ANEW = frozenset(name for name, others in READ_AS.items() if name in others)
# What a sum may be read as: the product of another sum with a constant factor, and what one-hot rows choose.
SUMS_AS = FACTORED, _ = ("arith.mulf", SELECT)
# Ops that are one of several operands, by the operand that decides which one, as a slice: `select(true, x, y)`.
DECIDING = {
    name: slice(number, number + 1)
    for name, rules in _ONE.items()
    for rule in rules
    for number, arg in enumerate(rule.source.args)
    if isinstance(arg, bool)
    and not isinstance(rule.target, Node)
    and sum(isinstance(a, str) for a in rule.source.args) >= _SEVERAL
}
# Ops that may leave an operand as it is.
NEUTRAL = frozenset((*_IDLE, TAKE))
# Ops that are another one, whatever their operands are.
_RENAMED = {
    name: rule.target.op
    for name, rules in _ONE.items()
    for rule in rules
    if isinstance(rule.target, Node) and rule.source.args == rule.target.args and not rule.row.when
}
_SWAPS = [(shape(row.left), shape(row.right)) for r in TABLE if r.form is Form.ORDER for row in r.expanded()]
# Comparisons by op and predicate, with what they are with the two sides swapped.
_TURNED = {
    (side.op, side.predicates[0]): other.predicates[0]
    for pair in _SWAPS
    for side, other in (pair, pair[::-1])
    if isinstance(side, Node) and isinstance(other, Node) and side.predicates
}
# Ops whose chains may be regrouped and reordered.
_CHAINS = [(side.op, side.args[0]) for side, _ in _SWAPS if isinstance(side, Node)]
ASSOCIATIVE = frozenset(op for op, inner in _CHAINS if isinstance(inner, Node) and inner.op == op)

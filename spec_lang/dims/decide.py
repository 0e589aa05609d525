"""What can be known of conditions on dims before there is a program: that they never hold, or that they follow.

Sound and incomplete: True is a proof, False means that none was found. Dims, and packs as the products of theirs, are
whole numbers from 0 up.

A condition is split into cases of linear constraints over products of dims. `%`, `floordiv` and `ceildiv` by a number
are quotients and remainders of their own; whatever else there is, is a number that nothing is known of. A case is
refuted by the divisibility of its equations or by eliminating its variables one after another (Fourier and Motzkin's
method, with bounds rounded to whole numbers).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from opsplice.spec_lang.dims.dim_conditions import NEGATED, divides_by_dim, key, names_in
from opsplice.spec_lang.syntax import tree

_MAX_CASES = 128
_MAX_PARTS = 256  # comparisons in one question
_MAX_CHOICES = 40  # one below the other
_MAX_TERMS = 48
_MAX_CONSTRAINTS = 160

# A product of variables, sorted; () is the number 1.
_Monomial = tuple[str, ...]
# A sum of products, each with its factor.
_Polynomial = dict[_Monomial, int]
# A condition with whether it is to hold, or a choice between lists of such constraints.
_Constraint = tuple[str, _Polynomial]  # "zero": it is 0; "least": it is at least 0
_Work = tuple[Any, bool] | list[list[_Constraint]]


class _TooLargeError(Exception):
    """There is more to do than it is worth."""


def impossible(conditions: Iterable[tree.Condition]) -> bool:
    """Whether it is proven that no sizes fulfil all the conditions together."""
    try:
        return _Refutation().run([(condition, True) for condition in conditions])
    except _TooLargeError:
        return False


def implied(condition: tree.Condition, by: Iterable[tree.Condition]) -> bool:
    """Whether it is proven that known sizes which fulfil `by` fulfil the condition.

    A condition that divides by a dim is never proven: it fails where that dim is 0.
    """
    if divides_by_dim(condition):
        return False
    try:
        return _Refutation().run([*((b, True) for b in by), (condition, False)])
    except _TooLargeError:
        return False


def pinned(condition: tree.Condition, holds: bool = True) -> frozenset[str]:
    """The dims that must be known for the condition to hold (or, with `holds` False, for it to be known not to)."""
    if isinstance(condition, tree.Comparison):
        return names_in(condition)
    if not isinstance(condition, tree.Logical):
        return frozenset()
    if condition.op == "not":
        return pinned(condition.operands[0], not holds)
    if condition.op == "may" and holds:
        return frozenset()
    parts = [pinned(part, holds) for part in condition.operands]
    every = (condition.op == "and") == holds
    return frozenset().union(*parts) if every else parts[0].intersection(*parts[1:])


# ---- from conditions to cases of constraints -------------------------------------------------------------------------


class _Refutation:
    """One attempt to show that conditions cannot hold together."""

    def __init__(self) -> None:
        self.cases = 0
        self.fresh = 0
        self.signed: set[str] = set()  # variables that may be negative
        self.known: dict[Any, _Polynomial] = {}  # quotients, remainders, opaque parts, by what they are of

    def run(self, work: list[_Work]) -> bool:
        return self._refuted(work, [], {}, 0)

    def _refuted(
        self, work: list[_Work], constraints: list[_Constraint], facts: Mapping[Any, bool], depth: int
    ) -> bool:
        """Whether all cases are contradictions. facts: which opaque conditions hold; depth: choices so far."""
        if depth > _MAX_CHOICES:
            raise _TooLargeError
        while work:
            if len(work) > _MAX_PARTS or len(constraints) > 2 * _MAX_PARTS:
                raise _TooLargeError
            item, *work = work
            if isinstance(item, list):
                if len(item) == 1:
                    constraints = [*constraints, *item[0]]
                    continue
                return all(self._refuted(work, [*constraints, *choice], facts, depth + 1) for choice in item)
            condition, holds = item
            if isinstance(condition, tree.Logical) and condition.op == "not":
                work = [(condition.operands[0], not holds), *work]
            elif isinstance(condition, tree.Logical) and condition.op != "may":
                if len(condition.operands) > _MAX_PARTS:
                    raise _TooLargeError
                parts: list[_Work] = [(part, holds) for part in condition.operands]
                if (condition.op == "or") == holds:
                    return all(self._refuted([part, *work], constraints, facts, depth + 1) for part in parts)
                work = [*parts, *work]
            elif isinstance(condition, tree.Comparison):
                work = [*self._comparison(condition, holds), *work]
            else:
                name = key(condition)
                if facts.get(name, holds) != holds:
                    return True
                facts = {**facts, name: holds}
                if isinstance(condition, tree.Logical) and not holds:  # that it holds says nothing of unknown sizes
                    work = [(condition.operands[0], False), *work]
        self.cases += 1
        if self.cases > _MAX_CASES:
            raise _TooLargeError
        return _contradictory(constraints, self.signed)

    def _comparison(self, comparison: tree.Comparison, holds: bool) -> list[_Work]:
        op = comparison.op if holds else NEGATED[comparison.op]
        more: list[_Work] = []
        left, right = self._value(comparison.left, more), self._value(comparison.right, more)
        above, below = _sum(left, right, -1), _sum(right, left, -1)
        one: _Polynomial = {(): -1}
        choices: dict[str, list[list[_Constraint]]] = {
            "==": [[("zero", above)]],
            "!=": [[("least", _sum(above, one))], [("least", _sum(below, one))]],
            "<": [[("least", _sum(below, one))]],
            "<=": [[("least", below)]],
            ">": [[("least", _sum(above, one))]],
            ">=": [[("least", above)]],
        }
        return [choices[op], *more]

    def _value(self, expr: Any, more: list[_Work]) -> _Polynomial:
        """An expression as a sum of products. What is to hold for the variables that it brings goes to `more`."""
        if isinstance(expr, tree.Literal) and isinstance(expr.value, int):
            return {(): expr.value} if expr.value else {}
        if isinstance(expr, tree.DimRef):
            return {(expr.name,): 1}
        if not isinstance(expr, tree.Arithmetic):
            return self._opaque(expr)
        left, right = self._value(expr.left, more), self._value(expr.right, more)
        if expr.op in ("+", "-"):
            return self._checked(_sum(left, right, 1 if expr.op == "+" else -1))
        if expr.op == "*":
            return self._checked(_product(left, right))
        if expr.op in ("min", "max"):
            return self._extremum(expr.op, left, right, more)
        divisor = right.get((), 0) if set(right) <= {()} else 0
        if divisor > 0 and expr.op in ("%", "floordiv", "ceildiv"):
            return self._divided(expr.op, left, divisor, more)
        return self._opaque(expr)

    def _checked(self, value: _Polynomial) -> _Polynomial:
        if len(value) > _MAX_TERMS or any(len(m) > _MAX_TERMS for m in value):
            raise _TooLargeError
        return value

    def _variable(self, *, signed: bool) -> str:
        self.fresh += 1
        name = f"#{self.fresh}"  # no dim has a name like this
        if signed:
            self.signed.add(name)
        return name

    def _opaque(self, expr: Any) -> _Polynomial:
        name = key(expr)
        if name not in self.known:
            self.known[name] = {(self._variable(signed=True),): 1}
        return self.known[name]

    def _extremum(self, op: str, left: _Polynomial, right: _Polynomial, more: list[_Work]) -> _Polynomial:
        value: _Polynomial = {(self._variable(signed=True),): 1}
        low, high = (left, right) if op == "min" else (right, left)
        is_left: list[_Constraint] = [("zero", _sum(value, left, -1)), ("least", _sum(high, low, -1))]
        is_right: list[_Constraint] = [("zero", _sum(value, right, -1)), ("least", _sum(low, high, -1))]
        more.append([is_left, is_right])
        return value

    def _divided(self, op: str, value: _Polynomial, divisor: int, more: list[_Work]) -> _Polynomial:
        """value = divisor * quotient + remainder, with 0 <= remainder < divisor."""
        if op == "ceildiv":  # -((-value) floordiv divisor)
            return _scaled(self._divided("floordiv", _scaled(value, -1), divisor, more), -1)
        name = (tuple(sorted(value.items())), divisor)
        if name not in self.known:
            # Neither may be negative where the value is a sum of dims, which is most of what is ever divided.
            positive = all(factor >= 0 and not self.signed.intersection(m) for m, factor in value.items())
            self.known[name] = {(self._variable(signed=not positive),): 1}
            self.known[(name, "rest")] = {(self._variable(signed=False),): 1}
        remainder = self.known[(name, "rest")]
        rebuilt = _sum(_scaled(self.known[name], divisor), remainder)
        more.append([[("zero", _sum(value, rebuilt, -1)), ("least", _sum({(): divisor - 1}, remainder, -1))]])
        return self.known[name] if op == "floordiv" else self.known[(name, "rest")]


def _sum(left: _Polynomial, right: _Polynomial, factor: int = 1) -> _Polynomial:
    """left + factor * right"""
    made = dict(left)
    for monomial, number in right.items():
        total = made.get(monomial, 0) + factor * number
        if total:
            made[monomial] = total
        else:
            made.pop(monomial, None)
    return made


def _scaled(value: _Polynomial, factor: int) -> _Polynomial:
    return {m: n * factor for m, n in value.items()}


def _product(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    made: _Polynomial = {}
    for monomial, number in left.items():
        for other, factor in right.items():
            made = _sum(made, {tuple(sorted(monomial + other)): number * factor})
    return made


# ---- from constraints to a contradiction -----------------------------------------------------------------------------


def _contradictory(constraints: list[_Constraint], signed: set[str]) -> bool:
    equations = [p for kind, p in constraints if kind == "zero"]
    bounds = [p for kind, p in constraints if kind == "least"]
    monomials = {m for p in (*equations, *bounds) for m in p if m}
    bounds += [{m: 1} for m in monomials if not signed.intersection(m)]
    while True:
        solved = _solved(equations, bounds)
        reduced = None if solved is None else _tightened(solved)
        if reduced is None:
            return True
        met = _met(reduced)
        if not met:
            return _empty(reduced)
        equations, bounds = met, reduced


def _met(bounds: list[_Polynomial]) -> list[_Polynomial]:
    """The equations that pairs of opposite bounds amount to and that take a variable out, so that this ends."""
    known = {_name(bound): bound.get((), 0) for bound in bounds}
    both = [b for b in bounds if known.get(_name(_scaled(b, -1))) == -b.get((), 0)]
    return [b for b in both if any(m and abs(n) == 1 for m, n in b.items())]


def _name(bound: _Polynomial) -> tuple[tuple[_Monomial, int], ...]:
    return tuple(sorted((m, n) for m, n in bound.items() if m))


def _solved(equations: list[_Polynomial], bounds: list[_Polynomial]) -> list[_Polynomial] | None:
    """The bounds with as many variables as possible taken out by equations; None for equations without a solution."""
    while equations:
        equations = [e for e in map(_primitive, equations) if e]
        if any(not _divisible(e) for e in equations):
            return None
        chosen = next(((e, m) for e in equations for m, n in e.items() if m and abs(n) == 1), None)
        if chosen is None:
            break
        equation, monomial = chosen
        equations = [_without(e, equation, monomial) for e in equations if e is not equation]
        bounds = [_without(b, equation, monomial) for b in bounds]
        if len(monomial) == 1 and set(equation) <= {(), monomial}:
            number = -equation[monomial] * equation.get((), 0)
            equations = [_with_number(e, monomial[0], number) for e in equations]
            bounds = [_with_number(b, monomial[0], number) for b in bounds]
    return [*bounds, *equations, *(_scaled(e, -1) for e in equations)]


def _without(value: _Polynomial, equation: _Polynomial, monomial: _Monomial) -> _Polynomial:
    """A sum with a product replaced by what an equation, where its factor is 1 or -1, says that it is."""
    return _sum(value, equation, -equation[monomial] * value[monomial]) if monomial in value else value


def _with_number(value: _Polynomial, variable: str, number: int) -> _Polynomial:
    """A sum with a variable replaced by a number within its products."""
    made: _Polynomial = {}
    for monomial, factor in value.items():
        rest = tuple(name for name in monomial if name != variable)
        made = _sum(made, {rest: 1}, factor * number ** (len(monomial) - len(rest)))
    return made


def _primitive(equation: _Polynomial) -> _Polynomial:
    divisor = math.gcd(*equation.values())
    return {m: n // divisor for m, n in equation.items()} if divisor > 1 else equation


def _divisible(equation: _Polynomial) -> bool:
    """Whether the factors' common divisor divides what they have to add up to."""
    divisor = math.gcd(*(n for m, n in equation.items() if m))
    constant = equation.get((), 0)
    return constant % divisor == 0 if divisor else constant == 0


def _empty(bounds: list[_Polynomial]) -> bool:
    """Whether no numbers fulfil the bounds, each of which is to be at least 0."""
    found = _tightened(bounds)
    while found is not None:
        monomials = {m for p in found for m in p if m}
        if not monomials:
            return False

        def cost(monomial: _Monomial, among: list[_Polynomial] = found) -> tuple[int, _Monomial]:
            signs = [p[monomial] > 0 for p in among if monomial in p]
            return sum(signs) * (len(signs) - sum(signs)), monomial

        best = min(monomials, key=cost)
        above = [p for p in found if p.get(best, 0) > 0]
        below = [p for p in found if p.get(best, 0) < 0]
        if len(found) + len(above) * len(below) > _MAX_CONSTRAINTS:
            raise _TooLargeError
        combined = [_sum(_scaled(a, -b[best]), b, a[best]) for a in above for b in below]
        found = _tightened([*(p for p in found if best not in p), *combined])
    return True


def _tightened(bounds: list[_Polynomial]) -> list[_Polynomial] | None:
    """Bounds for whole numbers: divided by their factors' common divisor, rounded. None if one cannot be fulfilled."""
    made: dict[tuple[tuple[_Monomial, int], ...], int] = {}
    for bound in bounds:
        constant = bound.get((), 0)
        factors = {m: n for m, n in bound.items() if m}
        if not factors:
            if constant < 0:
                return None
            continue
        divisor = math.gcd(*factors.values())
        name = tuple(sorted((m, n // divisor) for m, n in factors.items()))
        made[name] = min(made.get(name, constant // divisor), constant // divisor)
    return [{**dict(name), **({(): constant} if constant else {})} for name, constant in made.items()]

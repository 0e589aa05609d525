"""What a pattern gets wrong besides its types: names, constants, inputs that nothing uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opsplice.spec_lang.checking.conditions import (
    Names,
    check_arithmetic,
    check_condition,
    check_parameters,
)
from opsplice.spec_lang.checking.types.element_types import Report
from opsplice.spec_lang.checking.walks import children, expressions, forms, named_values, pattern_factors, reached
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import error, warning
from opsplice.spec_lang.syntax.tree import Dim, Expr, Span


def attribute_variables(pattern: tree.Pattern) -> dict[str, Span]:
    """The integers that a pattern binds with `{name = ?v}`, and where; without those that are parameters."""
    parameters = {p.name for p in pattern.parameters}
    return {name: span for name, span in _bound(expressions(pattern)).items() if name not in parameters}


def _bound(exprs: Iterable[Expr]) -> dict[str, Span]:
    attributes = (a for expr in exprs if isinstance(expr, tree.Call) for a in expr.attributes)
    return {name: a.span for a in attributes for name in a.variables}


def check_pattern_names(pattern: tree.Pattern, report: Report) -> None:
    dims = check_parameters(pattern, report)
    dims |= factors(pattern, dims)
    if vocabulary.is_word(pattern.name):
        report(error(pattern.name_span, f"{pattern.name} is the name of an op", "choose another name for the pattern"))
    taken = {p.name: p.span.first(p.name) for p in pattern.parameters}
    for let in pattern.body:
        span = let.span.first(let.names[0])
        for name in let.names:
            if name in dims:
                notes = [(dims[name].span, "which is here")]
                report(error(span, f"{name} has the name of a dim", "rename one", notes))
            elif name in taken:
                report(error(span, f"{name} is bound twice", "rename one", [(taken[name], "the first one is here")]))
            taken.setdefault(name, span)
    types = {parameter.name: str(parameter.type) for parameter in pattern.parameters}
    for name, span in _bound(expressions(pattern)).items():
        if types.get(name, "index") != "index":
            report(error(span, f"{name} is bound to an integer, which is an index", f"write {name}: index"))
    bound = attribute_variables(pattern)
    for name, span in bound.items():
        if name in dims or name in taken:
            report(error(span, f"{name} has the name of something else", "rename one"))
    names = Names({**dims, **dict.fromkeys(bound)}, [v.name for v in pattern.type_variables], taken, forms=True)
    check_condition(pattern.where, names, report)
    check_constants(pattern, dims, report)
    for expr in expressions(pattern):
        if isinstance(expr, tree.Rearrange) and expr.pieces:
            advice = "write it in a rule's arguments: replace p with kernel(pack[n k -> (n / 32) k 32](w))"
            report(error(expr.span, "a pattern does not look for what is packed", advice))


def check_constants(pattern: tree.Pattern, dims: Mapping[str, Dim], report: Report) -> None:
    """Judge the numbers of a pattern, which are made of these dims."""
    for expr in expressions(pattern):
        if isinstance(expr, tree.Constant):
            _check_constant(expr, Names(dims), report)


def factors(pattern: tree.Pattern, dims: Iterable[str]) -> dict[str, Dim]:
    """The names of strides and dilations, which are numbers of the pattern as its dims are."""
    return {f: Dim(pattern.span, symbol=f) for f in pattern_factors(pattern) if f not in dims}


def _check_constant(constant: tree.Constant, names: Names, report: Report) -> None:
    check_arithmetic(constant.value, names, report, exact=True)
    if constant.high is None:
        return
    check_arithmetic(constant.high, names, report, exact=True)
    low, high = constant.value, constant.high
    if isinstance(low, tree.Literal) and isinstance(high, tree.Literal) and low.value > high.value:
        report(error(constant.span, "this range is empty", f"write const({high.value}..{low.value})"))


def check_use(pattern: tree.Pattern, report: Report) -> None:
    """Judge the results, and warn of what leads to none of them."""
    values = named_values(pattern)
    for result in pattern.results:
        _check_result(result, pattern, values, report)
    asked = [*pattern.results, *(f.form for f in forms(pattern.where))]
    met = list(reached(asked, values))
    needed = {expr.name for expr in met if isinstance(expr, tree.Name)} | set(_bound(met))
    for parameter in pattern.parameters:
        if parameter.name not in needed and not parameter.name.startswith("_"):
            message = f"no result of {pattern.name} needs {parameter.name}"
            report(warning(parameter.span, message, "remove it, or begin its name with _", code="unused-input"))
    for let in pattern.body:
        if not any(name in needed or name.startswith("_") for name in let.names):
            message = f"no result of {pattern.name} needs {let.names[0]}"
            report(warning(let.span, message, "it is not looked for; remove it", code="unused-value"))


@dataclass(frozen=True)
class Certain:
    """The parameters that every match of a pattern binds, for patterns whose used ones are known already.

    patterns: those that may be used. by_name: what is known. said: whether a scalar that an alternative says is one.
    """

    patterns: Mapping[str, tree.Pattern]
    said: bool = True
    by_name: dict[str, set[str]] = field(default_factory=dict)

    def add(self, pattern: tree.Pattern) -> set[str]:
        """Those of one more pattern."""
        known: dict[str, frozenset[str]] = {}
        for let in pattern.body:
            known.update(dict.fromkeys(let.names, self._of(let.expr, known) | set(let.names)))
        bound = frozenset[str]().union(*(self._of(result, known) for result in pattern.results))
        found = self.by_name[pattern.name] = set(bound & {p.name for p in pattern.parameters})
        return found

    def _of(self, expr: Expr, known: dict[str, frozenset[str]]) -> frozenset[str]:
        """The names that every match of an expression binds: those of all alternatives, and not those of absent ops.

        known: those of the names bound further up.
        """
        if isinstance(expr, tree.Name):
            return known.get(expr.name, frozenset({expr.name}))
        parts = [self._of(child, known) for child in children(expr)]
        if isinstance(expr, tree.Alternatives):
            return frozenset.intersection(*parts)
        if isinstance(expr, tree.Setting) and not self.said:
            return parts[0] - parts[1]
        if isinstance(expr, tree.Call) and expr.optional:
            return parts[0] if parts else frozenset()
        if isinstance(expr, tree.Call) and not expr.quoted and expr.callee in self.by_name:
            given = zip(self.patterns[expr.callee].parameters, parts, strict=False)
            parts = [part for parameter, part in given if parameter.name in self.by_name[expr.callee]]
        return frozenset(_bound([expr])).union(*parts)


def _check_result(result: Expr, pattern: tree.Pattern, values: dict[str, Expr], report: Report) -> None:
    parameters = {p.name for p in pattern.parameters}
    for made in reached([result], values, into=_behind):
        if isinstance(made, tree.Constant):
            report(error(result.span, "an op must make a result, but this is a constant"))
        elif isinstance(made, tree.Call) and made.callee == vocabulary.BAND and not made.quoted:
            report(error(result.span, "a band alone is no computation", "look for the op that it is an operand of"))
        elif isinstance(made, tree.Wildcard):
            report(error(made.span, "an op must make a result, but this may be anything"))
        elif isinstance(made, tree.Uses) and made.kind != "accumulated":
            report(error(made.span, "a result is replaced, so a pattern cannot ask about its uses"))
        elif isinstance(made, tree.Name) and made.name in parameters:
            report(error(result.span, f"an op must make a result, but this is the parameter {made.name}"))


def _behind(expr: Expr) -> tuple[Expr, ...]:
    """What a result may be made by besides an expression itself: alternatives, and the operand of an optional op."""
    if isinstance(expr, tree.Alternatives):
        return expr.options
    if isinstance(expr, tree.Setting):
        return (expr.arg,)
    return expr.args[:1] if isinstance(expr, tree.Call) and expr.optional else ()

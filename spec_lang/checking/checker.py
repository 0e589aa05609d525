"""What a syntactically right spec gets wrong: names, ranks, types, dims, and arguments that do not fit.

All errors are found in one go; a declaration with a mistake in it causes no further errors where it is used.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from opsplice.spec_lang.checking.computed_arguments import with_launches, written_out
from opsplice.spec_lang.checking.kernels import check_builds, check_kernel
from opsplice.spec_lang.checking.op_parameters import instances
from opsplice.spec_lang.checking.patterns import Certain, check_pattern_names, check_use
from opsplice.spec_lang.checking.rules import check_phase, check_rule
from opsplice.spec_lang.checking.types.element_types import Report
from opsplice.spec_lang.checking.types.type_inference import Signature, infer
from opsplice.spec_lang.checking.walks import expressions
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, error
from opsplice.spec_lang.syntax.tree import Expr, Type

_Declared = TypeVar("_Declared", tree.Kernel, tree.Pattern)
_MAX_ERRORS = 100


@dataclass(frozen=True, eq=False)
class Checked:
    """The declarations of all files together, and what was found. Of a name that is declared twice the first counts.

    given: of each pattern, the parameters that every match binds to what the program has.
    """

    kernels: dict[str, tree.Kernel]
    patterns: dict[str, tree.Pattern]
    rules: tuple[tree.Rule, ...]
    types: dict[Expr, Type | None]
    diagnostics: tuple[Diagnostic, ...]
    given: dict[str, set[str]] = field(default_factory=dict)

    def type_of(self, expr: Expr) -> Type | None:
        """The type of an expression of these patterns, which is told by its identity: to compare two takes long."""
        return self._type_of.get(id(expr))

    @cached_property
    def _type_of(self) -> dict[int, Type | None]:
        return {id(expr): kind for expr, kind in self.types.items()}


class _Enough(Exception):  # noqa: N818
    """Raised to stop when a spec has more errors than anybody reads."""


def check(specs: Sequence[tree.Spec]) -> Checked:
    """Judge files that share their names, in the order in which their rules apply. Raises nothing.

    Stops looking after a hundred errors.
    """
    found: list[Diagnostic] = []
    errors = itertools.count(1)

    def report(diagnostic: Diagnostic) -> None:
        found.append(diagnostic)
        if diagnostic.severity == "error" and next(errors) >= _MAX_ERRORS:
            raise _Enough

    kernels = {k.name for s in specs for k in s.kernels}
    made: dict[str, tree.Kernel | tree.Pattern] = {p.name: p for s in specs[::-1] for p in s.patterns[::-1]}
    made |= {k.name: k for s in specs[::-1] for k in s.kernels[::-1]}
    own = (written_out(r, made.get(r.kernel.partition("<")[0])) for s in specs for r in s.rules)
    rules = sorted((with_launches(rule, kernels) for rule in own), key=lambda rule: -rule.priority)
    checked = Checked({}, {}, tuple(rules), {}, ())
    with contextlib.suppress(_Enough):
        _check_all(specs, checked, report)
    position = {id(spec.source): i for i, spec in enumerate(specs)}
    found.sort(key=lambda d: (position.get(id(d.span.source), 0), d.span.start))
    return replace(checked, diagnostics=tuple(found))


def _check_all(specs: Sequence[tree.Spec], checked: Checked, report: Report) -> None:
    kernels, patterns = checked.kernels, checked.patterns
    _collect("kernel", (k for s in specs for k in s.kernels), kernels, report)
    _collect("pattern", (p for s in specs for p in s.patterns), patterns, report)
    builds = {spec.source: spec.builds for spec in specs}
    for spec in specs:
        check_builds(spec, report)
    made = instances(patterns, checked.rules, report)
    for template in [p for p in patterns.values() if p.op_variables]:
        del patterns[template.name]
    patterns.update(made)
    for kernel in kernels.values():
        check_kernel(kernel, builds.get(kernel.span.source, {}), report)
    # Until a pattern is inferred, as one in a circle never is when it is first used, its results may be anything.
    signatures = {
        p.name: Signature(p.type_variables, p.parameters, (None,) * len(p.results)) for p in patterns.values()
    }
    bound, given = Certain(patterns), Certain(patterns, said=False, by_name=checked.given)
    for pattern in _callees_first(patterns, report):
        check_pattern_names(pattern, report)
        types, results = infer(pattern, signatures, report)
        checked.types.update(types)
        signatures[pattern.name] = Signature(pattern.type_variables, pattern.parameters, results)
        check_use(pattern, report)
        bound.add(pattern)
        given.add(pattern)
    for rule in checked.rules:
        check_rule(rule, kernels, patterns, signatures, bound.by_name, report)
    for run in (r for s in specs for r in s.runs):
        check_phase(run.phase, run.phase_span, report)
        if not run.passes.strip():
            report(error(run.passes_span, "no pass is named"))


# ---- names across declarations ---------------------------------------------------------------------------------------


def _collect(kind: str, declarations: Iterable[_Declared], found: dict[str, _Declared], report: Report) -> None:
    for declaration in declarations:
        first = found.setdefault(declaration.name, declaration)
        if first is not declaration:
            message = f"{kind} {declaration.name} is declared twice"
            report(error(declaration.name_span, message, "rename one", [(first.name_span, "the first one is here")]))


def _callees_first(patterns: dict[str, tree.Pattern], report: Report) -> list[tree.Pattern]:
    """All patterns, each after those it uses. Those that use themselves are reported and come first, in any order."""
    uses = {name: _used_patterns(pattern, patterns) for name, pattern in patterns.items()}
    circular: list[str] = []
    while True:
        try:
            order = list(TopologicalSorter(uses).static_order())
            break
        except CycleError as failure:
            cycle = failure.args[1][::-1]  # graphlib lists predecessors first
            _report_cycle([patterns[name] for name in cycle], report)
            circular += cycle[:-1]
            for name in cycle[:-1]:
                del uses[name]
            for callees in uses.values():
                callees.difference_update(cycle)
    return [patterns[name] for name in (*circular, *order)]


def _used_patterns(pattern: tree.Pattern, patterns: dict[str, tree.Pattern]) -> set[str]:
    calls = (e for e in expressions(pattern) if isinstance(e, tree.Call) and not e.quoted)
    return {call.callee for call in calls if call.callee in patterns and vocabulary.find(call.callee) is None}


def _report_cycle(cycle: list[tree.Pattern], report: Report) -> None:
    names = [pattern.name for pattern in cycle]
    path = f"{names[0]} uses itself" if len(names) == 2 else " uses ".join(names)
    report(error(cycle[0].name_span, f"patterns cannot be recursive: {path}"))

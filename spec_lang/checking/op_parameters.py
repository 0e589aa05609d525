"""Patterns with ops for parameters: `pattern gated<op act>(...) { mulf(act(x), y) }`, used as `gated<silu>(x, y)`.

Such a pattern is none yet. For each way in which it is used there is one, with the ops put in and a name that says
which they are: `gated<silu>`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.checking.types.element_types import Report
from opsplice.spec_lang.checking.walks import expressions
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax import vocabulary as known_ops
from opsplice.spec_lang.syntax.spec_errors import error

# More than this many are taken for a pattern that goes on using itself.
MAX_INSTANCES = 1000
_USE = re.compile(r"([A-Za-z_][\w.]*)<(.*)>\Z")


def instances(
    patterns: Mapping[str, tree.Pattern], rules: Iterable[tree.Rule], report: Report
) -> dict[str, tree.Pattern]:
    """The patterns that are none yet, with ops put in as they are used. patterns: all that are declared.

    Reports each use that comes to nothing.
    """
    made: dict[str, tree.Pattern] = {}
    pending = [use for p in patterns.values() if not p.op_variables for use in _uses(p)]
    pending += [(name, span) for rule in rules for name, span in _rule_uses(rule)]
    while pending:
        name, span = pending.pop()
        found = _USE.match(name)
        template = None if found is None else patterns.get(found[1])
        if found is None or name in made:
            continue
        if template is None:
            report(error(span, f"unknown pattern {found[1]}", did_you_mean(found[1], patterns)))
            continue
        given = [each.strip() for each in found[2].split(",")]
        if len(given) != len(template.op_variables):
            wanted = len(template.op_variables)
            report(error(span, f"{found[1]} takes {wanted or 'no'} op{'s' * (wanted != 1)}, found {len(given)}"))
            continue
        unknown = next((op for op in given if op not in patterns and known_ops.find(op) is None), None)
        if unknown is not None:
            advice = did_you_mean(unknown, [*known_ops.OPS, *patterns])
            report(error(span, f"unknown op or pattern {unknown}", advice))
            continue
        if len(made) >= MAX_INSTANCES:
            report(error(span, f"there are more than {MAX_INSTANCES} of these: does {found[1]} use itself?"))
            break
        ops = {variable.name: op for variable, op in zip(template.op_variables, given, strict=True)}
        made[name] = _with_ops(template, name, ops)
        pending += _uses(made[name])
    return made


def _rule_uses(rule: tree.Rule) -> Iterator[tuple[str, tree.Span]]:
    calls = [(part.callee, part.callee_span) for part in tree.parts(rule.args) if isinstance(part, tree.Call)]
    for name, span in ((rule.pattern, rule.pattern_span), (rule.kernel, rule.kernel_span), *calls):
        if "<" in name:
            yield name, span


def _uses(pattern: tree.Pattern) -> list[tuple[str, tree.Span]]:
    """What a pattern calls with ops in angle brackets."""
    calls = (e for e in expressions(pattern) if isinstance(e, tree.Call) and not e.quoted)
    return [(call.callee, call.callee_span) for call in calls if "<" in call.callee]


def _with_ops(template: tree.Pattern, name: str, ops: Mapping[str, str]) -> tree.Pattern:
    def callee(call: tree.Call) -> str:
        return re.sub(r"[A-Za-z_][\w.]*", lambda word: ops.get(word[0], word[0]), call.callee)

    return dataclasses.replace(with_callees(template, callee, name), name=name, op_variables=())


def with_callees(pattern: tree.Pattern, callee: Callable[[tree.Call], str], instance: str = "") -> tree.Pattern:
    """A pattern with other callees. instance: what tells its parts from those of the pattern, where both are used."""
    return rewritten(pattern, renaming(callee), instance)


def renaming(callee: Callable[[tree.Call], str]) -> Callable[[Any], Any]:
    """What gives calls of ops and patterns other callees, for `tree.rebuilt`."""

    def change(node: object) -> object:
        if isinstance(node, tree.Call) and not node.quoted:
            return dataclasses.replace(node, callee=callee(node))
        return node

    return change


def rewritten(pattern: tree.Pattern, change: Callable[[Any], Any], instance: str = "") -> tree.Pattern:
    """A pattern with each node of its body, results and condition as `change` gives it, the inner ones first."""

    def changed(part: Any) -> Any:
        return dataclasses.replace(part, instance=instance) if isinstance(part, tree.Span) else change(part)

    parts = {name: tree.rebuilt(getattr(pattern, name), changed) for name in ("body", "results", "where")}
    return dataclasses.replace(pattern, **parts)

"""The warnings of specs: all of them for `opsplice lint`, and those that every compile shows.

It does not import the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opsplice.matchers import shadow
from opsplice.report import SpecWarning
from opsplice.spec_lang import lint
from opsplice.spec_lang.diagnostics import Diagnostic, render
from opsplice.spec_lang.loader import LoadedSpec

# Comparing rules with each other takes the square of their number, which a compile should not wait for.
_MAX_COMPARED = 64


def findings(spec: LoadedSpec) -> tuple[Diagnostic, ...]:
    """Every warning of a loaded spec, in the order of its files."""
    linted = spec.paths[-1:]
    return _sorted(spec, [*spec.warnings, *lint.mistakes(spec), *lint.untidy(spec, linted), *shadow.judge(spec)])


def brief(specs: Iterable[object]) -> tuple[SpecWarning, ...]:
    """What a compile says of its specs: what in them never does anything."""
    found: list[SpecWarning] = []
    for spec in specs:
        if not isinstance(spec, LoadedSpec):
            continue
        unreachable = shadow.unreachable(spec, patterns=len(spec.rules) <= _MAX_COMPARED)
        diagnostics = _sorted(spec, [*spec.warnings, *lint.mistakes(spec), *unreachable])
        found += [SpecWarning(d.code or "", d.message, str(d.span), render(d)) for d in diagnostics]
    return tuple(found)


def _sorted(spec: LoadedSpec, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    position = {id(file.source): number for number, file in enumerate(spec.files)}
    return tuple(sorted(found, key=lambda d: (position.get(id(d.span.source), 0), d.span.start)))

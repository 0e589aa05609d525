"""Constants in patterns that no program can hold, since their type has no such number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from opsplice.matchers.terms import constants
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.linting import lint
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic


def misfits(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Warnings `never-matches`, for constants and ranges whose numbers name no dim."""
    for pattern in spec.patterns.values():
        choices = {v.name: tuple(c.name for c in v.choices) for v in pattern.type_variables}
        for constant in lint.constants(pattern, spec):
            kind = spec.types.get(constant)
            if not isinstance(kind, tree.ScalarType):
                continue
            elements = choices.get(kind.name, (kind.name,))
            if elements and not any(_may_hold(element, constant) for element in elements):
                written = constant.value.span.written
                if constant.high is None:
                    why = f"no {kind} is {written}"
                else:
                    why = f"no {kind} is from {written} to {constant.high.span.written}"
                yield lint.never_matches(pattern, why, constant.span)


def _may_hold(element: str, constant: tree.Constant) -> bool:
    low = judge.evaluate(constant.value, {})
    high = low if constant.high is None else judge.evaluate(constant.high, {})
    if low is None or high is None:  # it depends on dims, unless it is a number too large for all types
        return any(dim_conditions.numbers_in(end) for end in (constant.value, constant.high))
    if vocabulary.is_integer(element):
        return constant.high is not None or vocabulary.holds(element, low)
    if not vocabulary.is_float(element):
        return True
    held = (constants.rounded(low, element), constants.rounded(high, element))
    # Above and below what the type holds there is only infinity, which is a number of its own.
    return any(map(math.isfinite, held)) or held[0] != held[1] or math.isinf(low) or math.isinf(high)

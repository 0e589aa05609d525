"""The warnings of specs: all of them for `opsplice lint`, and those that every compile shows.

It does not import the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opsplice.matchers import shadow
from opsplice.report import SpecWarning
from opsplice.spec_lang import lint
from opsplice.spec_lang.diagnostics import Diagnostic, did_you_mean, render, warning
from opsplice.spec_lang.loader import LoadedSpec
from opsplice.targets import spirv_names

# The backends of clauses whose features are capabilities of SPIR-V.
_VULKAN = ("vulkan", "spirv", "wgsl")

# Comparing rules with each other takes the square of their number, which a compile should not wait for.
_MAX_COMPARED = 64


def findings(spec: LoadedSpec) -> tuple[Diagnostic, ...]:
    """Every warning of a loaded spec, in the order of its files."""
    linted = spec.paths[-1:]
    mistakes = [*lint.mistakes(spec), *_misspelt_features(spec)]
    return _sorted(spec, [*spec.warnings, *mistakes, *lint.untidy(spec, linted), *shadow.judge(spec)])


def brief(specs: Iterable[object]) -> tuple[SpecWarning, ...]:
    """What a compile says of its specs: what in them never does anything."""
    found: list[SpecWarning] = []
    for spec in specs:
        if not isinstance(spec, LoadedSpec):
            continue
        unreachable = shadow.unreachable(spec, patterns=len(spec.rules) <= _MAX_COMPARED)
        diagnostics = _sorted(spec, [*spec.warnings, *lint.mistakes(spec), *_misspelt_features(spec), *unreachable])
        found += [SpecWarning(d.code or "", d.message, str(d.span), render(d)) for d in diagnostics]
    return tuple(found)


def _misspelt_features(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Clauses for Vulkan that want what is nearly a capability's name: no device has it."""
    known = spirv_names.capabilities()
    clauses = [c for kernel in spec.kernels.values() for c in kernel.artifacts if c.backend in _VULKAN]
    for clause in clauses:
        for feature in clause.features:
            if feature not in known and (advice := did_you_mean(feature, known)):
                yield warning(clause.span, f"no device has the feature {feature}", advice, code="unknown-feature")


def _sorted(spec: LoadedSpec, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    position = {id(file.source): number for number, file in enumerate(spec.files)}
    return tuple(sorted(found, key=lambda d: (position.get(id(d.span.source), 0), d.span.start)))

"""The warnings of specs: all of them for `opsplice lint`, and those that every compile shows.

It imports the compiler only to read transform specs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from opsplice.common.errors import did_you_mean
from opsplice.compiling.spec_sources import SpecSource
from opsplice.matchers.overlap import shadow
from opsplice.matchers.overlap.impossible_constants import misfits
from opsplice.reports.report import SpecWarning
from opsplice.spec_lang.linting import lint, named_ops
from opsplice.spec_lang.loading.loader import LoadedSpec, load
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, SpecError, render, warning
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.build import llvm
from opsplice.targets.formats.spirv import spirv_names

# The backends of clauses whose features are capabilities of SPIR-V.
_VULKAN = ("vulkan", "spirv", "wgsl")

# Comparing rules with each other takes the square of their number, which a compile should not wait for.
_MAX_COMPARED = 64


def is_transform_spec(source: SpecSource) -> bool:
    return source.path.suffix in (".mlir", ".mlirbc")


def lint_source(source: SpecSource) -> tuple[Sequence[Diagnostic], Sequence[str]]:
    """Every error and warning of a spec, and what of a transform spec cannot be read. It imports the compiler for one.

    Raises OpspliceError for a file that cannot be read.
    """
    left_out: Sequence[str] = ()
    try:
        if is_transform_spec(source):
            from opsplice.compiling.spec_import import read_as_splice

            spec, left_out = read_as_splice(source.path)
        else:
            spec = load(source.path, source.library, source.others)
        return findings(spec), left_out
    except SpecError as failure:
        return failure.diagnostics, left_out


def findings(spec: LoadedSpec) -> tuple[Diagnostic, ...]:
    """Every warning of a loaded spec, in the order of its files."""
    linted = spec.paths[-1:]
    mistakes = _mistakes(spec)
    return _sorted(spec, [*spec.warnings, *mistakes, *lint.untidy(spec, linted), *shadow.judge(spec)])


def brief(specs: Iterable[object]) -> tuple[SpecWarning, ...]:
    """What a compile says of its specs: what in them never does anything. Who uses a library cannot mend it."""
    found: list[SpecWarning] = []
    for spec in specs:
        if not isinstance(spec, LoadedSpec) or all(file.source.path in spec.libraries for file in spec.files):
            continue
        unreachable = shadow.unreachable(spec, patterns=len(spec.rules) <= _MAX_COMPARED)
        mistakes = _mistakes(spec)
        own = [d for d in (*spec.warnings, *mistakes, *unreachable) if d.span.source.path not in spec.libraries]
        diagnostics = _sorted(spec, own)
        found += [SpecWarning(d.code or "", d.message, str(d.span), render(d)) for d in diagnostics]
    return tuple(found)


def _mistakes(spec: LoadedSpec) -> list[Diagnostic]:
    """What keeps a part of a spec from ever doing anything, or makes results wrong."""
    return [*lint.mistakes(spec), *named_ops.mistakes(spec), *misfits(spec), *_misspelt_features(spec)]


def _misspelt_features(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Clauses that want what is nearly the name of a CPU's feature, or of a capability for Vulkan: no device has it."""
    for clause in (clause for kernel in spec.kernels.values() for clause in kernel.artifacts):
        for feature in clause.features:
            known = _features_like(feature, clause)
            if feature not in known and (advice := did_you_mean(feature, known)):
                yield warning(clause.span, f"no device has the feature {feature}", advice, code="unknown-feature")


def _features_like(feature: str, clause: tree.ArtifactClause) -> Collection[str]:
    """The features that a clause could mean; LLVM, which knows those of CPUs, is asked where it is not a usual one."""
    if clause.backend in _VULKAN:
        return spirv_names.capabilities()
    if clause.backend != "cpu" or feature in archs.NAMED_FEATURES:
        return (feature,)
    arch = archs.of_triple(clause.arch or "")
    return frozenset().union(*map(llvm.known_features, archs.ARCHS if arch is None else (arch,)))


def _sorted(spec: LoadedSpec, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    position = {id(file.source): number for number, file in enumerate(spec.files)}
    return tuple(sorted(found, key=lambda d: (position.get(id(d.span.source), 0), d.span.start)))

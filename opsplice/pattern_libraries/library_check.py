"""What a library is tried for before it is published: its text, its code, its patterns, and its numbers.

    .splice files --> formatted? --> warnings? --> every kernel built for every target --> each pattern finds itself
                  --> the numbers of its kernels hold (`opsplice verify`)

A pattern is tried on itself written out as ops (`rewrites/reference`), or on the program that the author gives:
`examples/NAME.mlir` beside the specs. It builds and runs the library's code, and imports the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from opsplice import api, frontends
from opsplice.common.errors import OpspliceError, counted
from opsplice.common.store import Store
from opsplice.compiling.linting import findings
from opsplice.compiling.resolution import Artifacts
from opsplice.compiling.spec_sources import SpecSource
from opsplice.compiling.splice import Splicer, graphs_named
from opsplice.frontends import ModuleSource
from opsplice.matchers.explain.failure_words import sentence
from opsplice.matchers.explain.places import as_known
from opsplice.matchers.find import engine
from opsplice.matchers.search.matches import Found
from opsplice.measuring.cutting.records import Verdict
from opsplice.packaging import package_folder
from opsplice.pattern_libraries.finding import Finding
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.reports.render_verify import FOR_FINITE_NUMBERS, is_of_finite_numbers, outcome_text, whole_text
from opsplice.reports.report import Replacement
from opsplice.rewrites.reference import example_program
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading import loader
from opsplice.spec_lang.loading.libraries import Library
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import render
from opsplice.targets.artifacts import arch as archs

EXAMPLES = "examples"
# What artifacts are built for where a clause does not say for which chip.
_USUAL = {"cuda": ("cuda:sm_80",), "rocm": ("rocm:gfx942",), "metal": ("metal",), "cpu": archs.ARCHS}
# What a library declares and does not use is there for those who import it.
_FOR_OTHERS = ("unused-kernel", "unused-pattern")
# IREE makes f32 of f64, which is then no match of a pattern for f64.
_FLAGS = ("--iree-input-demote-f64-to-f32=false",)

Progress = Callable[[Any], None]


def reported(report: Progress, library: Library) -> None:
    """Report all that `check` finds, and what it is at."""
    for finding in check(library, report):
        report(finding)


def check(library: Library, on_progress: Progress = lambda _: None) -> Iterator[Finding]:
    """Try a library. Raises OpspliceError where it cannot even be read. on_progress: is told what is being done."""
    specs: dict[str, LoadedSpec] = {}
    said: set[str] = set()
    for part in library.parts():
        for finding in _text(library, part, specs):
            if finding.detail not in said or finding.outcome == "ok":
                yield finding
            said.add(finding.detail)
    if len(specs) < len(library.parts()):
        return
    imported = {path for spec in specs.values() for path in spec.paths[:-1]}
    tried: set[str] = set()
    for part, spec in specs.items():
        source = SpecSource(f"{library.name}:{part}", library.spec(part), library)
        if source.path not in imported:
            yield from _built(source, spec, on_progress)
            yield from _Trial(source, spec, library, tried, on_progress).findings()


def _text(library: Library, part: str, specs: dict[str, LoadedSpec]) -> Iterator[Finding]:
    path, name = library.spec(part), f"{part}.splice"
    try:
        text = loader.read(path).replace("\r\n", "\n")
        is_formatted = formatter.format(text, path) == text
        yield Finding("format", name, *(("ok", "") if is_formatted else ("failed", f"run: opsplice format {path}")))
        specs[part] = spec = loader.load(path, library)
    except OpspliceError as error:
        yield Finding("lint", name, "failed", str(error))
        return
    warnings = [d for d in findings(spec) if _is_in(d.span.source.path, library) and d.code not in _FOR_OTHERS]
    yield from (Finding("lint", name, "failed", render(warning)) for warning in warnings)
    if not warnings:
        yield Finding("lint", name, "ok")


def _is_in(path: Path | None, library: Library) -> bool:
    return path is not None and path.is_relative_to(library.folder)


# ---- code -----------------------------------------------------------------------------------------------------------


def _built(source: SpecSource, spec: LoadedSpec, on_progress: Progress) -> Iterator[Finding]:
    kernels = [kernel for kernel in spec.kernels.values() if _is_in(kernel.span.source.path, _library(source))]
    targets = list(dict.fromkeys(name for kernel in kernels for c in kernel.artifacts for name in _targets(c)))
    if not targets:
        return
    try:
        package = package_folder.build(source, targets, Artifacts(Store()), partial=True, on_progress=on_progress)
    except OpspliceError as error:
        yield Finding("build", source.given, "failed", str(error))
        return
    for kernel in kernels:
        names = dict.fromkeys(built.target for built in package.built if built.kernel == kernel.name)
        if names:
            yield Finding("build", kernel.name, "ok", f"for {', '.join(names)}")
        if any(clause.is_generated for clause in kernel.artifacts):
            yield Finding("build", kernel.name, "skipped", "its code is written for each match, when that is compiled")
    yield from (Finding("build", source.given, "skipped", reason) for reason in package.left_out)


def _library(source: SpecSource) -> Library:
    assert source.library is not None, "a library is checked"
    return source.library


def _targets(clause: tree.ArtifactClause) -> Sequence[str]:
    """What to build a clause for: what it names, or else what is usual."""
    backend = {"spirv": "vulkan", "wgsl": "vulkan"}.get(clause.backend, clause.backend)
    if clause.arch is None:
        return _USUAL.get(backend, (backend,))
    return (clause.arch if backend == "cpu" else f"{backend}:{clause.arch}",)


# ---- patterns and numbers -------------------------------------------------------------------------------------------


class _Trial:
    """The patterns that a library declares or has rules for, each on its example.

    tried: those of other specs of the library, by where they stand.
    """

    def __init__(
        self, source: SpecSource, spec: LoadedSpec, library: Library, tried: set[str], on_progress: Progress
    ) -> None:
        self.source = source
        self.on_progress = on_progress
        here = tuple(rule for rule in spec.rules if all(_runs_here(spec.kernels.get(name)) for name in rule.called))
        self.spec = replace(spec, rules=here)  # a kernel that programs for CPUs cannot do without is an error
        self.elsewhere = {rule.pattern for rule in spec.rules if rule not in here}
        used = {rule.pattern for rule in spec.rules if _is_in(rule.span.source.path, library)}
        own = [p for p in spec.patterns.values() if p.name in used or _is_in(p.span.source.path, library)]
        self.patterns = [p for p in own if f"{p.name} {p.name_span}" not in tried]
        tried |= {f"{p.name} {p.name_span}" for p in own}
        self.given = {p.name: file for p in self.patterns if (file := _example(library, p)).is_file()}

    def findings(self) -> Iterator[Finding]:
        texts: dict[str, str] = {}
        prefixes: dict[str, str] = {}
        numbers = example_program.of_numbers(self.spec.patterns)
        for number, pattern in enumerate(p for p in self.patterns if p.name not in self.given):
            try:
                made = example_program.programs(numbers[pattern.name], numbers, f"example{number}")
            except GapError as error:
                why = f"{error.gaps[0]}; give an example of your own: {EXAMPLES}/{_word(pattern)}.mlir"
                yield Finding("pattern", pattern.name, "skipped", why)
                continue
            prefixes[pattern.name] = f"example{number}_"
            texts |= {f"example{number}_{variant}": text for variant, text in enumerate(made)}
        if texts:
            yield from self._tried("\n".join(texts.values()), prefixes, texts)
        for name, file in self.given.items():
            yield from self._tried(file, {name: ""}, {})

    def _tried(self, model: Any, prefixes: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[Finding]:
        """prefixes: how the functions are called that a pattern is tried on. texts: functions to choose from."""
        self.on_progress(f"looking for {counted(len(prefixes), 'pattern')} in the examples")
        try:
            found, outcomes = self._found(frontends.load(model))
        except OpspliceError as error:
            yield Finding("pattern", ", ".join(prefixes), "failed", str(error))
            return
        chosen: dict[str, str] = {}
        for name, prefix in prefixes.items():
            mine = [o for o in outcomes if o.pattern == name and o.function.startswith(prefix)]
            best = min(mine, key=lambda o: o.outcome != "replaced", default=None)
            if best is None:
                misses = (m for m in found.near_misses if m.pattern == name and as_known(m.function).startswith(prefix))
                said = [f"; nearest: {sentence(m)}" for m in misses]
                what = self.given.get(name, "it written out as ops")
                yield Finding("pattern", name, "failed", f"it does not match {what}{''.join(said[:1])}")
                continue
            reason = f": {best.reason}" if best.reason else ""
            unused = "its kernel has no code for CPUs" if name in self.elsewhere else "no rule uses it"
            ends = {"replaced": f"replaced by {best.kernel}", "none": unused}
            yield Finding("pattern", name, "ok", ends.get(best.outcome, f"{best.outcome}{reason}"))
            if best.outcome != "replaced":
                continue
            others = {o.pattern for o in outcomes if o.function == best.function} & self.elsewhere
            if others:
                why = f"a kernel for {' and '.join(sorted(others))} has no code for CPUs, and would be needed"
                yield Finding("numbers", name, "skipped", why)
            else:
                chosen[best.function] = name
        if chosen:
            yield from self._verified("\n".join(texts[f] for f in chosen) if texts else model, chosen)

    def _found(self, source: ModuleSource) -> tuple[Found, list[Replacement]]:
        graphs = [g for p in self.patterns for g in graphs_named(self.spec, p.name)]
        results: list[tuple[Found, list[Replacement]]] = []

        def look(module: ir.Module) -> None:
            found = engine.find(module, graphs, near_misses=1)
            outcomes = Splicer(Store()).outcomes(module, self.spec, found)
            results.append((found, [each for of_match in outcomes.values() for each in of_match]))

        with Compilation(_FLAGS) as compilation:
            compilation.load(source)
            run(compilation, [Step("preprocessing", "find patterns", look)], to="preprocessing")
        return results[0]

    def _verified(self, model: Any, chosen: Mapping[str, str]) -> Iterator[Finding]:
        """Verify functions. chosen: the patterns that these are examples of."""
        try:
            found = api.verify(model, [self.source], _FLAGS, on_progress=self.on_progress)
        except OpspliceError as error:
            yield Finding("numbers", ", ".join(chosen.values()), "failed", str(error))
            return
        for function, name in chosen.items():
            verdicts = [each for each in found.verdicts if each.replacement.function == function]
            wholes = [each for each in found.whole if each.function in (function, "")]
            wrong = [_why_wrong(v) for v in verdicts if v.outcome == "failed"]
            wrong += [f"{whole.reason}: {whole_text(whole)}" for whole in wholes if whole.reason]
            said = wrong or [*map(outcome_text, verdicts), *map(whole_text, wholes)]
            if not said:
                yield Finding("numbers", name, "skipped", "; ".join(found.notes))
            else:
                yield Finding("numbers", name, "failed" if wrong else "ok", said[0])


def _runs_here(kernel: tree.Kernel | None) -> bool:
    """Whether a program for CPUs can have a kernel in it, or what is not a kernel."""
    return kernel is None or any(c.backend == "cpu" and not c.is_plugin for c in kernel.artifacts)


def _example(library: Library, pattern: tree.Pattern) -> Path:
    return library.folder / EXAMPLES / f"{_word(pattern)}.mlir"


def _word(pattern: tree.Pattern) -> str:
    return pattern.name.rpartition(".")[2]


def _why_wrong(verdict: Verdict) -> str:
    return f"{verdict.reason}; {FOR_FINITE_NUMBERS}" if is_of_finite_numbers(verdict) else verdict.reason

"""Specs applied to a module at one point of the pipeline: find, plan, edit, and report."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file
from opsplice.common.store import Store
from opsplice.compiling import outcomes, prebuilt, resolution
from opsplice.compiling.resolution import Artifacts
from opsplice.compiling.spec_files import Spec, TransformSpec
from opsplice.matchers.explain.places import as_known
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.kernel_layouts import layouts
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.matches import Found, Match
from opsplice.matchers.terms.views import Views
from opsplice.pipeline.compiler import Step
from opsplice.reports.report import ArtifactUse, Replacement, Report, UnmatchedRule
from opsplice.rewrites.apply import apply
from opsplice.rewrites.approaches import approach_table as approaches
from opsplice.rewrites.approaches import insertion, link_conflicts
from opsplice.rewrites.ir.executable_targets import ProgramTarget, parse_target, targets_of
from opsplice.rewrites.ir.symbols import Brought, symbols
from opsplice.rewrites.link import fallback, object_files
from opsplice.rewrites.plan import forbidden_passes
from opsplice.rewrites.plan import type_conversions as conversions
from opsplice.rewrites.plan.actions import Insertion, KernelCall, Written
from opsplice.rewrites.plan.generation import Generators
from opsplice.rewrites.plan.planner import Plan, Planner, Resolver
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.runtime import command_files
from opsplice.spec_lang.loading.libraries import Library
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu


@dataclass(frozen=True)
class Splicer:
    """Applies specs to a module that is at phase `input` or later, before dispatches are formed.

    targets: what the program is compiled for; None reads them from the module (from phase `preprocessing` on).
    conversions: the element types that the compiler converts once rules have applied.
    brought: the symbols that specs have brought into the module.
    no_code: whether sources that MLIR names are refused; a spec's own were taken out of it before.
    """

    store: Store
    targets: tuple[ProgramTarget, ...] | None = None
    conversions: conversions.Conversions = field(default_factory=dict)
    brought: Brought = field(default_factory=Brought)
    no_code: bool = False

    def apply(self, module: ir.Module, spec: Spec) -> tuple[Report, tuple[Step, ...]]:
        """Change the module as the spec says. Returns what was done, and edits that are to follow at later phases.

        Raises OpspliceError for an artifact that is missing or broken and for a transform spec that fails.
        """
        if isinstance(spec, TransformSpec):
            find = functools.partial(self._object, spec.path.parent, None)
            return self._transform(module, spec, find), ()
        run_passes(module, spec)
        own = symbols(module)
        reports = []
        calls: list[KernelCall] = []
        patterns = engine.ready(graphs_of(spec))
        beside = functools.partial(self._beside, spec)
        marked = False
        for number in itertools.count():
            views = Views()
            finder = engine.Finder(patterns, 0 if number else outcomes.NEAREST, views)
            chosen = self._plan(module, spec, finder.find(module), views=views)
            looked = frozenset() if number else outcomes.looked_at(spec, chosen)
            reports.append(outcomes.report(spec, finder.near_misses(looked), chosen, number, looked, views))
            actions = chosen.actions
            if any(map(fallback.is_split, actions)):
                actions, marked = fallback.split(module, actions), True
            apply(module, actions, chosen.annotations, spec.codes, beside, self.brought.digests)
            calls += [call for action in actions if isinstance(action, KernelCall) for call in action.launches]
            # Only what a rule wrote can match again; no rule is applied to what it wrote, so this comes to an end.
            if not any(isinstance(action, Insertion) for action in actions):
                break
        self.brought.add(symbols(module) - own)
        if marked or len(reports) > 1:
            insertion.forget_rules(module)
        later = [Step(each.phase, each.what, each.edit) for each in approaches.later(calls)]
        return outcomes.joined(reports), tuple(later)

    def preview(self, module: ir.Module, spec: Spec) -> Report:
        """What `apply` would do, with nothing built. A transform spec can only be interpreted, and passes only be run.

        What rules write is put in place, as they see it; calls of kernels are not.
        """
        if isinstance(spec, TransformSpec):
            return self._transform(module, spec, lambda _path, _target: None)
        run_passes(module, spec)
        own = symbols(module)
        patterns = engine.ready(graphs_of(spec))
        reports = []
        missing: dict[str, None] = {}
        resolve = functools.partial(resolution.named_if_there, missing)
        for number in itertools.count():
            views = Views()
            found = engine.find(module, patterns, outcomes.NEAREST, views)
            chosen = self._plan(module, spec, found.matches, resolve, views)
            told = chosen if number == 0 else _only_new(chosen)
            reports.append(outcomes.report(spec, found.near_misses, told, number))
            written = [action for action in chosen.actions if isinstance(action, Insertion)]
            if not written:
                break
            apply(module, written, chosen.annotations, spec.codes, brought=self.brought.digests)
        self.brought.add(symbols(module) - own)
        if len(reports) > 1:
            insertion.forget_rules(module)
        return dataclasses.replace(outcomes.joined(reports), warnings=tuple(missing))

    def planned(self, module: ir.Module, spec: LoadedSpec) -> Plan:
        """What rules that see the module as it is would do, with nothing built; the module is not changed."""
        found = engine.find(module, graphs_of(spec), near_misses=0)
        return self._plan(module, spec, found.matches, functools.partial(resolution.named_if_there, {}))

    def rule_by_rule(self, module: ir.Module, spec: LoadedSpec) -> Iterator[Plan]:
        """What each rule that replaces would do without the others, with its kernels built; nothing is changed."""
        found = engine.find(module, graphs_of(spec), near_misses=0)
        for rule in spec.rules:
            if rule.replaces:
                yield self._plan(module, dataclasses.replace(spec, rules=(rule,)), found.matches)

    def outcomes(self, module: ir.Module, spec: LoadedSpec, found: Found) -> dict[Match, list[Replacement]]:
        """What would become of each match; one that no rule asks for, or all if there is no plan, has action `none`."""
        reason = "no rule uses this pattern"
        try:
            chosen = self._plan(module, spec, found.matches, resolution.unread)
        except OpspliceError as error:
            chosen, reason = Plan((), (), ()), error.message
        return outcomes.by_match(found.matches, chosen, reason)

    def _plan(
        self,
        module: ir.Module,
        spec: LoadedSpec,
        matches: Sequence[Match],
        resolve: Resolver | None = None,
        views: Views | None = None,
    ) -> Plan:
        """resolve: what stands for artifacts where none are to be read or built. views: that found the matches."""
        targets = targets_of(module) if self.targets is None else self.targets
        obstacle = fallback.obstacle(module, targets)
        write = functools.partial(_written_out, spec)
        artifacts = Artifacts(self.store)
        inputs = (spec.rules, spec.given, spec.kernels, targets, resolve or artifacts.of_kernel, obstacle, write)
        if resolve is not None:
            chosen = Planner(matches, *inputs, read=False, codes=spec.codes, views=views or Views()).plan()
        else:
            generate = functools.partial(artifacts.generate, Generators(self.store))
            planner = Planner(matches, *inputs, True, artifacts.of_function, generate, spec.codes, views or Views())
            chosen = planner.plan()
            command_files.check(chosen.calls)
        conversions.check(chosen.calls, self.conversions)
        return chosen

    # ---- transform dialect ----------------------------------------------------------------------------------------

    def _transform(self, module: ir.Module, spec: TransformSpec, find: object_files.ObjectResolver) -> Report:
        others = bool(self.brought.digests)
        objects_used: dict[tuple[str, str], ArtifactUse] = {}

        def noted(path: str, text: str) -> Path | Artifact | None:
            if (found := find(path, text)) is not None:
                objects_used[path, text] = outcomes.object_use(path, parse_target(text), found)
            return found

        outcome = interpreter.apply(module, spec.path, noted, self.brought)
        if others:
            link_conflicts.check(module)
        where = str(spec.path)
        replacements = tuple(
            Replacement(
                rule=f"{spec.path.name}: {change.rule.rpartition(': ')[2]}",
                rule_location=where,
                pattern="",
                function=as_known(change.function),
                location=change.location,
                dims={},
                kernel=change.symbol,
                action=change.action,
                # Which function is in which of them nothing says.
                artifacts=tuple(objects_used.values()) if change.symbol else (),
            )
            for change in outcome.changes
        )
        rules = tuple(UnmatchedRule(p.rule, where, p.matcher) for p in outcome.unmatched)
        warnings: tuple[str, ...] = ()
        if outcome.otherwise:
            warnings = (f"{where} also changed the module in ways other than calls, which are not counted",)
        elif not replacements and not rules and not outcome.idle:
            warnings = (f"{where} changed nothing",)
        return Report(replacements, unmatched=rules, warnings=warnings)

    def _beside(self, spec: LoadedSpec, code: tree.Code, path: str, text: str) -> Path | Artifact | None:
        source = code.span.source.path
        return None if source is None else self._object(source.parent, spec.libraries.get(source), path, text)

    def _object(self, folder: Path, library: Library | None, path: str, text: str) -> Path | Artifact | None:
        """The file for an artifact that MLIR in a folder names; None leaves the name as it is."""
        beside = folder / path
        if library is not None and not library.holds(beside):
            raise OpspliceError(f"library {library.name} names a file outside of its folder {library.folder}: {path}")
        if not beside.exists():
            return None  # IREE looks for it along --iree-hal-executable-object-search-path
        check_file(beside)
        target = parse_target(text)
        if beside.suffix in (".o", ".bc") or target.backend != "llvm-cpu":
            return beside.resolve()
        if self.no_code or (library is not None and library.prebuilt_only):
            raise prebuilt.refusal(f"{beside} is a source", None if self.no_code else library)
        arch = target.arch or target.format.removeprefix("embedded-elf-")
        wanted = CpuTarget.of(arch, target.features)
        return cpu.resolve(ArtifactRequest(beside, ()), wanted, self.store)


def at_phase(spec: LoadedSpec, phase: str, default: str) -> LoadedSpec:
    """The part of a spec that applies at a phase. default: the phase of rules that name none."""
    rules = tuple(r for r in spec.rules if (r.phase or default) == phase)
    return dataclasses.replace(spec, rules=rules, runs=tuple(r for r in spec.runs if r.phase == phase))


def phases_of(spec: LoadedSpec, default: str) -> frozenset[str]:
    """The phases at which a spec has anything to do."""
    return frozenset({*(r.phase or default for r in spec.rules), *(r.phase for r in spec.runs)})


def run_passes(module: ir.Module, spec: LoadedSpec) -> None:
    """Raises OpspliceError for passes that IREE does not have, and for those that fail."""
    for run in spec.runs:
        forbidden_passes.check_passes(run.passes, str(run.passes_span))
        run_pipeline(module, run.passes, str(run.passes_span))


def run_pipeline(module: ir.Module, passes: str, where: str) -> None:
    """Raises OpspliceError, which says where the passes are asked for."""
    try:
        PassManager.parse(f"builtin.module({passes})", context=module.context).run(module.operation)
    except (ValueError, ir.MLIRError) as failure:
        told = [line for line in str(failure).splitlines() if "error:" in line] or str(failure).splitlines()
        message = told[0].rpartition("error:")[2].strip()
        raise OpspliceError(f'cannot run "{passes}"', details=f"{where}: {message}") from None


def _written_out(spec: LoadedSpec, match: Match, rule: tree.Rule, computed: tree.Computed | None = None) -> Written:
    from opsplice.rewrites.approaches import pattern_insertion  # few specs need it

    return pattern_insertion.write(match, rule, computed, patterns=spec.patterns)


def graphs_of(spec: LoadedSpec) -> tuple[Graph, ...]:
    """The compiled patterns that the rules of a spec use, in the order of the rules."""
    names = dict.fromkeys(rule.pattern for rule in spec.rules)
    return tuple(graph for name in names for graph in graphs_named(spec, name))


def graphs_named(spec: LoadedSpec, name: str) -> Sequence[Graph]:
    """The compiled pattern of a name, with what the kernels of a spec can take of it."""
    taken = [layouts(rule, spec.kernels) for rule in spec.rules if rule.pattern == name]
    strided = frozenset[str]().union(*(inputs for inputs, _ in taken))
    return compile_pattern(spec, name, strided, any(result for _, result in taken))


def _only_new(chosen: Plan) -> Plan:
    """Without the calls that were chosen before rules wrote anything, which are still to be made."""
    new = [
        isinstance(action, Insertion) or any(insertion.is_written(op) for op in action.match.ops)
        for action in chosen.actions
    ]
    return dataclasses.replace(chosen, actions=tuple(itertools.compress(chosen.actions, new)))

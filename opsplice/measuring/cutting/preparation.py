"""The programs that verifying and timing run: whole, with probes, and matches alone. It imports the compiler."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.common.store import Store
from opsplice.compiling import outcomes, program_cache
from opsplice.compiling.compilation import run_job
from opsplice.compiling.job import Job, Outcome
from opsplice.compiling.spec_files import Spec, TransformSpec, load_specs
from opsplice.compiling.splice import Splicer, at_phase, graphs_named
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.patterns.nodes import Number
from opsplice.matchers.patterns.walk import parts_of
from opsplice.matchers.search import uses
from opsplice.matchers.search.matches import Match
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting import probes
from opsplice.measuring.cutting.cuts import CutError, Cuts, finite_inputs
from opsplice.measuring.cutting.disturbing import backward, disturb
from opsplice.measuring.cutting.records import Place
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.verifying.verification import Prepared, Progress, of_text
from opsplice.pipeline.compiler import CompileError, Step
from opsplice.pipeline.flags import named_targets
from opsplice.pipeline.phases import PHASE
from opsplice.reports.report import Replacement, Report
from opsplice.rewrites.plan.actions import Action
from opsplice.rewrites.plan.planner import Plan
from opsplice.runtime.device_choice import device_of
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree

_SMALL = "func.func @f(%x: tensor<f32>) -> tensor<f32> { %r = arith.negf %x : tensor<f32>\n return %r : tensor<f32> }"
# Larger numbers in a rule's `when` are not sizes to try a kernel at.
_MOST_TRIED = 4096


class Preparation:
    """Compiles all that is run."""

    def __init__(self, job: Job, on_progress: Progress, probing: bool) -> None:
        self.job = job
        self.probing = probing
        self.on_progress = on_progress
        self.specs = load_specs(job.specs)
        self.places: list[Place] = []
        self.text = ""
        self.cuts: tuple[Any, ...] = ()
        self.noted: dict[ir.Value, int] = {}

    def all(self) -> Prepared:
        """The whole program twice, and the matches alone three times."""
        plain = dataclasses.replace(self.job, specs=())
        if not self.probing:  # the first compile of a process takes longer
            run_job(self.on_progress, dataclasses.replace(plain, source=ModuleSource(content=_SMALL)))
        look = [Step(PHASE, "cut out the matches", self._look)] if self.specs else []
        clock, before = time.process_time(), self._without_kernels(plain, look)
        between = time.process_time()
        after = run_job(self.on_progress, self.job, watch=self._probe if self.probing else None)
        seconds = (between - clock, time.process_time() - between)
        used = _used(after.report.replacements)
        places = tuple(
            dataclasses.replace(place, replacement=used.get(_key(place.replacement), place.replacement))
            for place in self.places
        )
        whole = (Runnable.of(self.job, before), Runnable.of(self.job, after))
        notes = self._notes(after.report)
        prepared = Prepared(after.report, places, *whole, self.text, self.cuts, notes=notes, seconds=seconds)
        return self._alone(prepared) if self.cuts else prepared

    def _without_kernels(self, plain: Job, look: Sequence[Step]) -> Outcome:
        try:
            return run_job(self.on_progress, plain, extra=look)
        except CompileError as failure:
            if not self.specs:
                raise
            hint = "kernels are compared with the program without them; `opsplice compile` with the spec may succeed"
            raise CompileError(f"without kernels, {failure.message}", hint=hint, details=failure.details) from None

    def _notes(self, report: Report) -> tuple[str, ...]:
        notes = [f"{s.path} is run as a whole only" for s in self.specs if isinstance(s, TransformSpec)]
        loaded = [spec for spec in self.specs if not isinstance(spec, TransformSpec)]
        matched = {each.rule_location for each in report.replacements}
        elsewhere = [r for spec in loaded for r in spec.rules if r.phase is not None and str(r.span) in matched]
        phases = sorted({r.phase for r in elsewhere if r.phase is not None} - {PHASE})
        return (*notes, *(f"matches of rules at phase {phase} are run in the whole program only" for phase in phases))

    def _alone(self, prepared: Prepared) -> Prepared:
        job = of_text(self.job, self.text)
        try:
            plain = self._kept(dataclasses.replace(job, specs=()))
            kernels = self._kept(job)
            on_host = device_of(named_targets(job.targets, job.flags)) is None
            step = Step(PHASE, "workgroups backwards", backward) if on_host else Step("stream", "disturb", disturb)
            disturbed = run_job(self.on_progress, job, extra=[step]) if self.probing else kernels
        except CompileError as failure:
            return dataclasses.replace(prepared, notes=(*prepared.notes, f"matches alone: {failure.message}"))
        replaced: dict[str, tuple[Replacement, ...]] = {}
        for each in kernels.report.replacements:
            replaced[each.function] = (*replaced.get(each.function, ()), each)
        alone = (Runnable.of(job, plain), Runnable.of(job, kernels), Runnable.of(job, disturbed))
        return dataclasses.replace(prepared, alone=alone, replaced=replaced)

    def _kept(self, job: Job) -> Outcome:
        """A compile whose time is not asked for: verifying and timing need the same."""
        return program_cache.cached(job, lambda: run_job(self.on_progress, job))

    # ---- looking at the module --------------------------------------------------------------------------------------

    def _look(self, module: ir.Module) -> None:
        """Cut out what specs would replace, and note what goes in and comes out when the program runs."""
        cuts, taken, roots = Cuts(module.context), set[ir.Value](), list[ir.Value]()
        for spec, told in planned(module, self.specs):
            for action, replacement in told:
                if not taken.isdisjoint(action.match.roots):
                    continue
                taken.update(action.match.roots)
                roots.append(action.match.roots[0])
                whens = [each.rule.when for each, _ in told if each.match is action.match]
                self.places.append(self._place(spec, action, replacement, cuts, _named(whens)))
        self.text, self.cuts = cuts.text(), tuple(cuts.known.values())
        last = {place.cut.digest if place.cut else None: number for number, place in enumerate(self.places)}
        for number, place in enumerate(self.places):
            # The most that a computation drifts is where the most came before it; noting all takes IREE long.
            if place.cut is None or last[place.cut.digest] == number:
                self.places[number] = dataclasses.replace(place, root=self._number(roots[number]))
        if self.probing:
            probes.place(module, list(self.noted.items()), len(self.noted))

    def _place(
        self, spec: LoadedSpec, action: Action, replacement: Replacement, cuts: Cuts, tried: tuple[int, ...]
    ) -> Place:
        try:
            cut, inputs = cuts.add(action, Views(), width_of(spec, action.match))
        except CutError as failure:
            return Place(replacement, None, f"it is not a function of its own: {failure}")
        # Of places that compute the same, the first is tried; noting inputs of the others is time for nothing.
        is_first = all(place.cut is None or place.cut.digest != cut.digest for place in self.places)
        noted = [self._number(value) for value in inputs] if is_first else []
        weights = frozenset(at for at, value in enumerate(inputs) if uses.is_weight(Views(), value))
        asked = finite_inputs(action)
        finite = frozenset(at for at, value in enumerate(inputs) if value in asked)
        cut = dataclasses.replace(cut, tried=tried, weights=weights, finite=finite)
        return Place(replacement, cut, "", tuple(number for number in noted if number is not None))

    def _number(self, value: ir.Value) -> int | None:
        """The number of the probe that notes a value, None where none can."""
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        return self.noted.setdefault(value, len(self.noted))

    def _probe(self, module: ir.Module, spec: Spec, splicer: Splicer) -> None:
        """Note what comes out of the same places in the program with its kernels."""
        if isinstance(spec, TransformSpec) or any(rule.phase not in (None, PHASE) for rule in spec.rules):
            return
        known, found = _grouped((p.key, p.root) for p in self.places), told_of(splicer.planned(module, spec))
        noted = []
        for key, actions in _grouped((Place(told, None).key, action) for action, told in found).items():
            if len(actions) == len(known.get(key, ())):  # places with one location and one size are told by their order
                noted += [(action.match.roots[0], number) for action, number in zip(actions, known[key], strict=True)]
        probes.place(module, [(value, number) for value, number in noted if number is not None], len(self.noted))


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """What each key has, in order."""
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def planned(module: ir.Module, specs: Sequence[Spec]) -> Iterator[tuple[LoadedSpec, list[tuple[Action, Replacement]]]]:
    """What the rules of each spec that see the module as it is would do, each with its line of a report."""
    for spec in specs:
        if not isinstance(spec, TransformSpec):
            here = at_phase(spec, PHASE, PHASE)
            yield here, told_of(Splicer(Store()).planned(module, here))


def told_of(chosen: Plan) -> list[tuple[Action, Replacement]]:
    """What a plan would do, each with its line of a report."""
    alone = dataclasses.replace(chosen, annotations=(), left=())
    told = outcomes.by_match([action.match for action in chosen.actions], alone, "")
    return [(action, told[action.match][0]) for action in chosen.actions]


def width_of(spec: LoadedSpec, match: Match) -> float:
    """How wide the widest range is that a match takes a constant from, as a part of the constant."""
    graphs = graphs_named(spec, match.pattern.name)
    numbers = [part for graph in graphs for part in parts_of(graph) if isinstance(part, Number)]
    used = _numbers_in(match)
    return max((_part(number.low, number.high, used) for number in numbers), default=0.0)


def _part(low: tree.DimExpr, high: tree.DimExpr | None, used: Sequence[float]) -> float:
    if not isinstance(low, tree.Literal) or not isinstance(high, tree.Literal):
        return 0.0
    most = max(abs(low.value), abs(high.value))
    if not math.isfinite(most) or not most or not any(low.value <= number <= high.value for number in used):
        return 0.0
    return (high.value - low.value) / most


def _numbers_in(match: Match) -> list[float]:
    """The constants that the ops of a match take, as patterns see them: divided by, and subtracted, too."""
    operands = (value for op in match.ops for each in ops_in(op) for value in each.operands)
    owners = [value.owner for value in operands if not isinstance(value.owner, ir.Block)]
    constants = [constant_of(owner) for owner in owners if owner.name == "arith.constant"]
    numbers = {float(constant.value) for constant in constants if constant is not None}
    return [each for number in numbers if number for each in (number, -number, 1 / number, -1 / number)]


def _key(replacement: Replacement) -> Any:
    return Place(replacement, None).key


def _named(conditions: Sequence[tree.Condition | None]) -> tuple[int, ...]:
    """The sizes around the numbers in some conditions."""
    numbers = {part.value for part in tree.parts(tuple(conditions)) if isinstance(part, tree.Literal)}
    return tuple(sorted({int(n) + more for n in numbers if 0 < n <= _MOST_TRIED for more in (0, 1)}))


def _used(replacements: Sequence[Replacement]) -> dict[Any, Replacement]:
    """What takes the place of each match, by the key of its place: several kernels as one where sizes choose."""
    at = _grouped(((r.function, r.location, r.pattern, r.round, str(r.dims)), r) for r in replacements)
    found: dict[Any, Replacement] = {}
    for several in at.values():
        kernels = " or ".join(dict.fromkeys(each.kernel for each in several))
        artifacts = tuple(dict.fromkeys(use for each in several for use in each.artifacts))
        joined = several[0].when and dataclasses.replace(several[0], kernel=kernels, artifacts=artifacts)
        found |= {_key(each): joined or each for each in several}
    return found

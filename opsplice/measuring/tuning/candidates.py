"""The computations of a model that rules can take, and which: each as a function of its own. Imports the compiler."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.compiling import prebuilt
from opsplice.compiling.job import Job
from opsplice.compiling.spec_files import TransformSpec, load_specs
from opsplice.compiling.splice import Splicer, at_phase
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting.cuts import CutError, Cuts, Piece
from opsplice.measuring.cutting.preparation import told_of, width_of
from opsplice.measuring.cutting.records import Cut
from opsplice.measuring.tuning.measurements import Candidate, Left, Task
from opsplice.measuring.verifying.verification import Progress
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.pipeline.phases import PHASE
from opsplice.reports.render import dims_text
from opsplice.reports.report import Replacement
from opsplice.rewrites.plan.actions import Action, KernelCall
from opsplice.spec_lang.formatting.formatter import rule_text
from opsplice.spec_lang.formatting.one_line import condition_text
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree

_OPEN = (
    "its sizes are open (?), and tuned rules are for fixed ones: export the model with fixed ones, "
    "or give --dim for a model in ONNX"
)
_NAME = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class _Place:
    """A rule's match. number: of the rule, in the order of all specs."""

    number: int
    spec: LoadedSpec
    action: Action
    told: Replacement

    @property
    def ops(self) -> frozenset[ir.Operation]:
        return frozenset(self.action.match.ops)

    @property
    def size(self) -> int:
        """Of the function that it would be, with the views around it."""
        return len(Piece.of(self.action).members)


@dataclass
class _Region:
    """The largest of matches that lie within each other, and all of them."""

    largest: _Place
    places: list[_Place] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """left: what cannot be measured."""

    tasks: tuple[Task, ...]
    left: tuple[Left, ...] = ()


def find(on_progress: Progress, job: Job) -> Found:
    """What there is to measure. The kernels are built. Raises OpspliceError as `compile` does."""
    specs = load_specs(job.specs)
    loaded = [prebuilt.only(spec, job.no_code) for spec in specs if not isinstance(spec, TransformSpec)]
    if len(loaded) < len(specs):
        raise OpspliceError("a transform-dialect spec has no rules to choose from", hint="opsplice import SPEC.mlir")
    found: list[Found] = []
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        step = Step(PHASE, "look for computations", lambda module: found.append(_look(module, loaded)))
        run(compilation, [step], to=PHASE, on_progress=on_progress)
    return found[0]


def _look(module: ir.Module, specs: list[LoadedSpec]) -> Found:
    regions: list[_Region] = []
    places = list(_places(module, specs))
    for place in sorted(places, key=lambda each: (-len(each.ops), -each.size, each.number)):
        around = [region for region in regions if place.ops <= region.largest.ops]
        for region in around:
            region.places.append(place)
        if not around:
            regions.append(_Region(place, [place]))
    cuts, left = Cuts(module.context), dict[tuple[str, str], list[str]]()
    standing = {str(r.span) for spec in specs for r in spec.rules if not (r.replaces or r.attributes)}
    made: dict[str, tuple[_Region, str, list[str]]] = {}
    for region in regions:
        told = region.largest.told
        what = f"{told.pattern.rpartition('.')[2]}({dims_text(told)})"
        if any(None in size if isinstance(size, list) else size is None for size in told.dims.values()):
            left.setdefault((_OPEN, what), []).append(told.location)
            continue
        try:
            cut = _cut(cuts, region)
        except CutError as failure:
            left.setdefault((str(failure), what), []).append(told.location)
            continue
        made.setdefault(cut.function, (region, what, []))[2].append(told.location)
    tasks = []
    functions = {symbol_of(op): op for op in ops_in(cuts.module.operation, "func.func")}
    for cut in cuts.known.values():
        region, what, where = made[cut.function]
        text = f"module {{\n{functions[cut.function].get_asm(use_local_scope=True)}\n}}"
        digest = hashlib.sha256(text.replace(f"@{cut.function}", "@match", 1).encode()).hexdigest()
        chosen = {place.number: place for place in sorted(region.places, key=lambda each: each.number)}
        candidates = tuple(_candidate(place) for place in chosen.values())
        others = frozenset({*standing, *(candidate.location for candidate in candidates)})
        tasks.append(Task(text, digest, cut, what, tuple(where), candidates, others))
    return Found(tuple(tasks), tuple(Left(what, tuple(places), why) for (why, what), places in left.items()))


def _cut(cuts: Cuts, region: _Region) -> Cut:
    """The function of a region, with its weights as constants where a rule asks for these. Raises CutError."""

    def of(place: _Place) -> Cut:
        return cuts.add(place.action, Views(), width_of(place.spec, place.action.match))[0]

    for place in region.places:
        if place.ops == region.largest.ops and Piece.of(place.action).weights:
            with contextlib.suppress(CutError):  # such as weights that are too large
                return of(place)
    return of(region.largest)


def _places(module: ir.Module, specs: list[LoadedSpec]) -> Iterable[_Place]:
    """All matches of all rules, each as if there were no other rule."""
    number = 0
    for spec in specs:
        for chosen in Splicer(Store()).rule_by_rule(module, at_phase(spec, PHASE, PHASE)):
            number += 1
            for action, told in told_of(chosen):
                yield _Place(number, spec, action, told)


def _candidate(place: _Place) -> Candidate:
    rule, action = place.action.rule, place.action
    raised = dataclasses.replace(rule, where=None, priority=rule.priority + 1)
    text = rule_text(raised)
    head = f"replace {rule.pattern}{f' at {rule.phase}' if rule.phase else ''} priority {raised.priority}"
    digests = {
        choice.artifact.digest
        for call in (action.launches if isinstance(action, KernelCall) else ())
        for choice in call.choices
        if choice.artifact is not None
    }
    types = [f"{name} in {{{kind}}}" for name, kind in action.match.types.items()]
    conditions = [*types, *(text for text in _asked(rule.where) if text not in types)]
    # A rule that passes a scalar takes every value of it, so its default must be asked for as any other value is.
    match = action.match
    defaults = {p.name: p.default for p in match.pattern.parameters if p.default and p.name not in match.inputs}
    usual = {name: default.value for name, default in defaults.items() if isinstance(default.value, int)}
    return Candidate(
        location=str(rule.span),
        pattern=rule.pattern,
        kernel=rule.kernel or "mlir",
        dims={**usual, **place.told.dims},
        digests=tuple(sorted(digests)),
        head=head,
        condition=" and ".join(filter(None, conditions)),
        tail=text[len(head) :],
        imports=_imports(place.spec, f"{head}{text}"),
    )


def _asked(where: tree.Condition | None) -> list[str]:
    """The conditions that all have to hold, as they are written after one another with `and`."""
    if isinstance(where, tree.Logical) and where.op == "and":
        return [text for each in where.operands for text in _asked(each)]
    text = "" if where is None else condition_text(where)
    return [f"({text})" if isinstance(where, tree.Logical) and where.op == "or" else text]


def _imports(spec: LoadedSpec, text: str) -> tuple[str, ...]:
    """The files of libraries that declare the names of a rule, as imports name them."""
    found = []
    for name in dict.fromkeys(_NAME.findall(text)):
        declared = spec.patterns.get(name) or spec.kernels.get(name)
        path = None if declared is None else declared.span.source.path
        if path is not None and path in spec.libraries:
            found.append(f"{spec.libraries[path].name}:{path.stem}")
    return tuple(dict.fromkeys(found))

"""What a program computes: its ops by the patterns that come with opsplice, what these cost, and what has a kernel.

    module --all patterns, the largest first--> matches, and ops that are in none --cuts--> functions --IREE--> times

A time is that of IREE's own code for the computation alone, so shares are of the sum of these: fusion is not seen.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.compiling import program_cache, spec_sources
from opsplice.compiling.compilation import run_job
from opsplice.compiling.job import Job
from opsplice.compiling.spec_files import load_specs
from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
from opsplice.matchers.explain.places import as_known
from opsplice.matchers.find import engine
from opsplice.matchers.ir.op_names import function_around, location_text, ops_in
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.search.matches import Match
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting import work
from opsplice.measuring.cutting.cuts import CutError, Cuts, Piece
from opsplice.measuring.cutting.preparation import planned
from opsplice.measuring.cutting.records import OPEN_SIZE, Cut
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.timing import benching
from opsplice.measuring.timing.repeated_sequences import Part, folded
from opsplice.measuring.timing.survey_model import Item, Survey
from opsplice.measuring.verifying.verification import Progress, of_text
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.pipeline.devices import target_step
from opsplice.pipeline.phases import PHASE
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.loader import load, load_text

_PATTERNS = 'import "opsplice"\n'
_SECONDS = 0.1
# The share below which a computation is told with others.
_LITTLE = 0.01
# Ops that only make room, or arrange what is there.
_IDLE = ("linalg.fill", "linalg.transpose", "linalg.broadcast", "linalg.copy")


@dataclass
class _Found:
    """A computation: what it is called, its sizes, where it stands, its function, and the types of what that reads."""

    name: str
    dims: str
    is_pattern: bool
    operations: int
    places: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    cut: Cut | None = None
    reads: str = ""


def survey(job: Job, on_progress: Progress, *, timed: bool = True) -> Survey:
    """What a model computes. Raises OpspliceError as `compile` does.

    job: its specs say what has a kernel; without any, the libraries that are installed do.
    """
    notes = list[str]()
    if not job.specs:
        job, notes = _with_libraries(job)
    surveyor = _Surveyor(job)
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        steps = [target_step(job.targets, job.flags)] if job.targets else []
        run(compilation, [*steps, Step(PHASE, "survey", surveyor.look)], to=PHASE, on_progress=on_progress)
    seconds, note = surveyor.seconds(on_progress) if timed else ({}, "")
    alike = Counter((found.name, found.dims) for found in surveyor.found.values())
    items = [
        Item(
            name=found.name,
            dims=found.dims + (f"; of {found.reads}" if alike[found.name, found.dims] > 1 and found.reads else ""),
            places=tuple(found.places),
            is_pattern=found.is_pattern,
            operations=found.operations,
            moved=0 if found.cut is None else found.cut.bytes_moved(found.cut.sizes()),
            seconds=None if found.cut is None else seconds.get(found.cut.function),
            kernels=tuple(dict.fromkeys(found.kernels)),
        )
        for found in surveyor.found.values()
    ]
    order = sorted(range(len(items)), key=lambda n: (-items[n].total, -items[n].operations * len(items[n].places)))
    if any("?" in item.dims for item in items):
        notes.append(f"open sizes (?) are taken as {OPEN_SIZE}")
    found = Survey(tuple(items[n] for n in order), "; ".join(filter(None, [note, *notes])))
    others = tuple(
        n
        for n, item in enumerate(found.items)
        if found.share(item) < _LITTLE and (item.seconds is not None or not found.seconds) and not job.verbose
    )
    layers = surveyor.layers({n: at for at, n in enumerate(order) if at not in others})
    return dataclasses.replace(found, layers=layers, others=others)


def _with_libraries(job: Job) -> tuple[Job, list[str]]:
    """A job with the libraries that are installed, and what is to be said of that."""
    sources, notes = list[spec_sources.SpecSource](), list[str]()
    for name in sorted(libraries.installed()):
        try:
            source = spec_sources.installed(name)
            if load(source.path, source.library).rules:
                sources.append(source)
        except OpspliceError as error:
            notes.append(f"{name} is left out: {error.message}")
    named = f"kernels are those of {', '.join(map(str, sources))}, installed here; --spec names others"
    none = "no library of kernels is installed; --spec names kernels"
    return dataclasses.replace(job, specs=tuple(sources)), [named if sources else none, *notes]


class _Surveyor:
    """One look at a module. found: computations by what tells them apart."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.found: dict[str, _Found] = {}
        self.text = ""
        self.standing: dict[str, list[tuple[int, int]]] = {}

    def layers(self, numbers: Mapping[int, int]) -> dict[str, tuple[Part, ...]]:
        """By function the computations in the order of the program. numbers: what to call them; others are left out."""
        told = {name: [numbers[n] for _, n in sorted(found) if n in numbers] for name, found in self.standing.items()}
        return {name: folded(found) for name, found in told.items() if found}

    def look(self, module: ir.Module) -> None:
        """Find what there is, and cut each computation out: what specs replace, then what patterns know of the rest."""
        cuts, taken = Cuts(module.context), set[ir.Operation]()
        order = {op: number for number, op in enumerate(ops_in(module.operation))}
        for match, kernel in self._replaced(module, taken):
            self._add(cuts, order, match, [kernel])
        for match in _largest(module, taken):
            self._add(cuts, order, match)
        for op in order:
            if op not in taken and _is_heavy(op):
                self._add(cuts, order, op)
        self.text = cuts.text()

    def _add(
        self, cuts: Cuts, order: Mapping[ir.Operation, int], what: Match | ir.Operation, kernels: Sequence[str] = ()
    ) -> None:
        if isinstance(what, Match):
            name, dims, location = what.pattern.name.rpartition(".")[2], _dims(what), what.location
            ops, roots = what.ops, what.roots
        else:
            name, dims, location = what.name, ", ".join(str(value.type) for value in what.results), location_text(what)
            ops, roots = (what,), tuple(what.results)
        cut, form, reads = None, "", ""
        try:
            cut, _ = cuts.add(Piece.of_ops(ops, roots), Views())
            function = ir.SymbolTable(cuts.module.operation)[cut.function]
            operations, form, reads = cut.operations(cut.sizes()), _form(function, cut), _reads(function)
        except CutError:
            operations = sum(work.operations(op, OPEN_SIZE) for op in ops)
        key = f"{name} {dims} {kernels} {form}"
        is_match = isinstance(what, Match)
        new = _Found(name, dims, is_match, operations, kernels=[*kernels], cut=cut, reads=reads)
        found = self.found.setdefault(key, new)
        found.places.append(location)
        root = roots[0].owner.operation
        self.standing.setdefault(as_known(function_around(root)), []).append((order[root], list(self.found).index(key)))

    def _replaced(self, module: ir.Module, taken: set[ir.Operation]) -> Iterator[tuple[Match, str]]:
        """What the job's specs replace, with the kernels; its ops, which may be of several, are then taken."""
        for _, told in planned(module, load_specs(self.job.specs)):
            for action, _ in told:
                taken |= {op for op in action.match.ops if _is_heavy(op)}
                yield action.match, action.rule.kernel.rpartition(".")[2] or "mlir"

    def seconds(self, on_progress: Progress) -> tuple[dict[str, float], str]:
        """What each function takes as IREE compiles it, and why that is not known."""
        cuts = tuple(found.cut for found in self.found.values() if found.cut is not None)
        if not cuts:
            return {}, ""
        job = dataclasses.replace(of_text(self.job, self.text), specs=())
        try:
            program = Runnable.of(job, program_cache.cached(job, lambda: run_job(on_progress, job)))
            given = (program, cuts, _SECONDS)
            return call_isolated(benching.medians, given, on_progress=on_progress, method=method()), ""
        except (OpspliceError, ChildCrashError) as failure:
            return {}, f"no times: {failure.message}"


def _form(function: ir.Operation, cut: Cut) -> str:
    """Its ops and types, whatever its constants hold: sizes may stand in several layouts, and layers have weights."""
    text: str = function.get_asm(use_local_scope=True, large_elements_limit=1)
    return text.replace(f"@{cut.function}", "", 1)


def _reads(function: ir.Operation) -> str:
    """The types of what it reads, by which layouts of the same sizes are told apart."""
    return " and ".join(str(value.type) for value in function.regions[0].blocks[0].arguments)


def _largest(module: ir.Module, taken: set[ir.Operation]) -> list[Match]:
    """Matches of more than one plain op, in the order of the program; their ops are then taken.

    Of those that have an op in common the largest is chosen.
    """
    spec = load_text(_PATTERNS)
    inputs = {name: frozenset(p.name for p in pattern.parameters) for name, pattern in spec.patterns.items()}
    graphs = [graph for name, strided in inputs.items() for graph in compile_pattern(spec, name, strided)]
    found = engine.find(module, graphs, near_misses=0).matches
    chosen: list[Match] = []
    for match in sorted(found, key=lambda m: -sum(map(_is_heavy, m.ops))):
        heavy = {op for op in match.ops if _is_heavy(op)}
        is_plain = len(heavy) == 1 and work.is_plain(next(iter(heavy)))
        if heavy and not is_plain and taken.isdisjoint(heavy):
            taken |= heavy
            chosen.append(match)
    order = {match: number for number, match in enumerate(found)}
    return sorted(chosen, key=order.__getitem__)


def _is_heavy(op: ir.Operation) -> bool:
    """Whether an op computes a tensor."""
    tensors = [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
    if not tensors or op.name in _IDLE or op.name == "arith.constant" or _is_copy(op):
        return False
    parent = op.parent
    inside = parent is not None and parent.operation.name.startswith(("linalg.", "tensor."))
    return not inside and op.name.startswith(("linalg.", "arith.", "math.", "iree_linalg_ext."))


def _is_copy(op: ir.Operation) -> bool:
    """Whether a loop nest only puts elements elsewhere."""
    return op.name == "linalg.generic" and len(list(op.regions[0].blocks[0].operations)) == 1


def _dims(match: Match) -> str:
    def text(size: Any) -> str:
        if isinstance(size, tuple):
            return "x".join(map(text, size)) or "()"
        return str(size) if isinstance(size, int) else "?"

    return ", ".join(f"{name} = {text(size)}" for name, size in match.dims.items())

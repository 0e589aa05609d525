"""Explaining: the patterns of specs against a module, in whole or at ops that are pointed at. It changes nothing."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.common.errors import OpspliceError, did_you_mean
from opsplice.compiling import spec_import, splice
from opsplice.compiling.job import Question
from opsplice.compiling.spec_files import Spec, TransformSpec
from opsplice.compiling.splice import Splicer
from opsplice.frontends.source import UNNAMED, ModuleSource
from opsplice.matchers.explain.diagnosis import Explainer, covers, ending_text
from opsplice.matchers.explain.near_miss import Attempt, Place
from opsplice.matchers.explain.places import place_of, remembering
from opsplice.matchers.explain.pointing import ops_at, parse_place
from opsplice.matchers.find import engine
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.patterns.walk import endings
from opsplice.matchers.search.matches import Match
from opsplice.reports.explanation import Explanation, PatternExplanation
from opsplice.spec_lang.loading.libraries import OWN
from opsplice.spec_lang.loading.loader import LoadedSpec, load
from opsplice.spec_lang.syntax import tree

MOST_MISSES = 5
MOST_POINTED = 50
_MOST_NAMES = 12


def check(specs: Sequence[Spec], question: Question) -> tuple[tuple[LoadedSpec, ...], tuple[str, ...]]:
    """The specs, if they can answer a question, and what could not be read of transform-dialect ones as patterns.

    Raises OpspliceError for what is wrong whatever the model is.
    """
    loaded: list[LoadedSpec] = []
    unread: tuple[str, ...] = ()
    for spec in specs:
        read, left_out = spec_import.read_as_splice(spec.path) if isinstance(spec, TransformSpec) else (spec, ())
        loaded.append(read)
        unread += left_out
    names = [name for spec in loaded for name in spec.patterns]
    if question.pattern is not None and question.pattern not in names:
        used = [rule.pattern for spec in loaded for rule in spec.rules]
        hint = did_you_mean(question.pattern, names) or _some(list(dict.fromkeys([*used, *names])))
        raise OpspliceError(f"there is no pattern '{question.pattern}'", hint=hint)
    if not names:
        raise OpspliceError("there is no pattern to explain", hint="write one into the spec: pattern p(...) { ... }")
    if question.at is not None:
        parse_place(question.at)
    return tuple(loaded), unread


def explain(
    module: ir.Module, parts: Sequence[Part], question: Question, source: ModuleSource, splicer: Splicer
) -> Explanation:
    """What becomes of each pattern that is asked about in a module, after the passes that the specs run there.

    Raises OpspliceError when no op is where the question points.
    """
    for part in parts:
        splice.run_passes(module, part.spec)
    pointed_at = [] if question.at is None else ops_at(module, parse_place(question.at))
    ops = pointed_at[:MOST_POINTED]
    with remembering():
        told = [p for part in parts for p in _Explaining(module, part, splicer).patterns(ops)]
    pointed = tuple(map(place_of, ops))
    return Explanation(tuple(told), pointed, _lines(source, told, pointed), len(pointed_at) - len(ops))


@dataclass(frozen=True)
class Part:
    """What of a spec applies at a phase, and those of its patterns that are to be explained there."""

    spec: LoadedSpec
    asked: tuple[tree.Pattern, ...]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"the patterns are: {', '.join(names[:_MOST_NAMES]) or 'none'}{more}"


def parts_at(specs: Sequence[LoadedSpec], phase: str, default: str, question: Question) -> tuple[Part, ...]:
    """The parts of specs to be explained at a phase. Patterns that no rule uses belong to the default phase."""
    parts = (_part(spec, phase, default, question.pattern) for spec in specs)
    return tuple(part for part in parts if part.asked)


def _part(spec: LoadedSpec, phase: str, default: str, name: str | None) -> Part:
    here = splice.at_phase(spec, phase, default)
    names = list(dict.fromkeys(rule.pattern for rule in here.rules))
    if phase == default:
        used = {rule.pattern for rule in spec.rules}
        unused = [n for n in spec.patterns if n not in used]
        names += unused if name is not None or not used else []
    return Part(here, tuple(spec.patterns[n] for n in names if name in (None, n)))


def joined(found: Sequence[Explanation]) -> Explanation:
    """What was found at several phases, as one; at ops that are pointed at, the pattern of which most holds first."""
    first, *others = found
    for other in others:
        pointed = tuple(dict.fromkeys((*first.pointed, *other.pointed)))
        lines = {**first.lines, **other.lines}
        unlooked = max(first.unlooked, other.unlooked)
        first = Explanation((*first.patterns, *other.patterns), pointed, lines, unlooked)
    if not first.pointed:
        return first
    ranked = sorted(first.patterns, key=lambda p: (not p.matches, *map(_most_held_first, p.misses[:1])))
    return dataclasses.replace(first, patterns=tuple(ranked))


class _Explaining:
    """One spec against a module."""

    def __init__(self, module: ir.Module, part: Part, splicer: Splicer) -> None:
        spec = part.spec
        self.module = module
        self.asked = part.asked
        self.explainer = Explainer(spec.patterns, lambda: _others(spec))
        # A match may lose its place to any rule, so the patterns of all rules are looked for.
        names = dict.fromkeys([*(p.name for p in self.asked), *(rule.pattern for rule in spec.rules)])
        self.graphs = {n: _graphs(spec, n) for n in names}
        self.found = engine.find(module, [g for graphs in self.graphs.values() for g in graphs], near_misses=0)
        self.outcomes = splicer.outcomes(module, spec, self.found)

    def patterns(self, ops: Sequence[ir.Operation]) -> list[PatternExplanation]:
        return [self._pattern(pattern, ops) for pattern in self.asked]

    def _pattern(self, pattern: tree.Pattern, ops: Sequence[ir.Operation]) -> PatternExplanation:
        matches = [m for m in self.found.matches if m.pattern.name == pattern.name]
        if ops:
            matches = [m for m in matches if any(covers(m, op) for op in ops)]
            left = [op for op in ops if not any(covers(m, op) for m in matches)]
            misses = sorted(self.explainer.at(self.graphs[pattern.name], left), key=_most_held_first)
            note = "" if misses or matches else "the selected ops produce no value"
        else:
            misses, note = self._misses(pattern.name, matches)
        return PatternExplanation(
            pattern=pattern.name,
            location=str(pattern.name_span),
            matches=tuple(r for m in matches for r in self.outcomes[m]),
            misses=tuple(misses if ops else misses[:MOST_MISSES]),
            note=note,
        )

    def _misses(self, name: str, matches: Sequence[Match]) -> tuple[list[Attempt], str]:
        misses = self.explainer.nearest(self.module, self.graphs[name], matches, MOST_MISSES)
        if misses or matches:
            return misses, ""
        last = " or ".join(dict.fromkeys(map(ending_text, self.graphs[name])))
        names = {getattr(node, "op", "") for graph in self.graphs[name] for node in endings(graph)}
        inner = (op for op in ops_in(self.module.operation, *names) if op.parent.operation.name == "linalg.generic")
        held = next(inner, None)
        if held is None:
            return [], f"the program has no op that the pattern can end with: {last}"
        return [], f"{last} stands in the body of a linalg.generic, at {place_of(held).location}, and is not its result"


def _most_held_first(miss: Attempt) -> tuple[float, ...]:
    return -miss.held, -miss.similarity, -miss.progress


def _others(spec: LoadedSpec) -> dict[str, tuple[Graph, ...]]:
    """The patterns that a spec declares and those of the library, compiled, by what the user calls them.

    Those of the library are for kernels that say how their buffers lie: in any layout.
    """
    own = {n: p for n, p in spec.patterns.items() if not _is_of_library(spec, p)}
    return {n: compile_pattern(spec, n) for n in own} | _library()


def _graphs(spec: LoadedSpec, name: str) -> Sequence[Graph]:
    """A pattern with what the rules' kernels can take of it. One of the library without a rule is for any layout."""
    pattern = spec.patterns[name]
    if _is_of_library(spec, pattern) and not any(rule.pattern == name for rule in spec.rules):
        return compile_pattern(spec, name, _tensors(pattern), True)
    return splice.graphs_named(spec, name)


def _is_of_library(spec: LoadedSpec, pattern: tree.Pattern) -> bool:
    path = pattern.name_span.source.path
    return path is not None and spec.libraries.get(path) is OWN


@functools.cache
def _library() -> dict[str, tuple[Graph, ...]]:
    specs = {f"{OWN.name}:{part}": load(OWN.spec(part), OWN) for part in OWN.parts()}
    return {
        f"{pattern.name} of {name}": compile_pattern(spec, pattern.name, _tensors(pattern), True)
        for name, spec in specs.items()
        for pattern in spec.patterns.values()
        if pattern.name_span.source.path == spec.paths[-1]  # not those that the file imports
    }


def _tensors(pattern: tree.Pattern) -> frozenset[str]:
    return frozenset(p.name for p in pattern.parameters if isinstance(p.type, tree.TensorType))


def _lines(source: ModuleSource, told: Sequence[PatternExplanation], pointed: Sequence[Place]) -> dict[str, str]:
    """The model's own text at each location that is named."""
    places = [*pointed, *(p for each in told for miss in each.misses for p in _places(miss))]
    found = {}
    for location in dict.fromkeys(p.location for p in places):
        file, _, line = location.rpartition(":")[0].rpartition(":")
        if line.isdigit() and file == (UNNAMED if source.path is None else source.name):
            text = source.line(int(line))
            if text is not None and text.strip():
                found[location] = text
    return found


def _places(miss: Attempt) -> list[Place]:
    return [miss.op, *filter(None, [miss.reason.at]), *(p.place for p in miss.parts if p.place is not None)]

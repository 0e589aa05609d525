"""What the rules of a spec do to each other: those that never get a match, and those that contend for the same ops.

Rules are tried in order and the first one that matches wins (`in_order`), so a rule behind one that takes all of its
matches never does anything, and one behind a smaller pattern that takes a part of its matches loses them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from opsplice.common.errors import OpspliceError
from opsplice.matchers.overlap import graph_facts, subsumption
from opsplice.matchers.overlap.subsumption import Cover
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.kernel_layouts import layouts
from opsplice.matchers.patterns.nodes import Condition, Graph
from opsplice.matchers.patterns.walk import nodes_of
from opsplice.spec_lang.dims import decide, dim_conditions
from opsplice.spec_lang.linting import lint
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, warning

_PLAIN = (tree.Comparison, tree.Logical, tree.Arithmetic, tree.DimRef, tree.Literal)
# How much is done for a spec, so that one with a hundred thousand rules is judged in seconds, though not wholly: pairs
# of rules that are looked at, those whose conditions are compared, and those that are looked at for contention.
_MAX_SEEN, _MAX_COMPARED, _MAX_PAIRS = 500_000, 2_000, 20_000
_MAX_EARLIER = 12  # more than this many earlier rules together are not asked whether they leave anything


def in_order(rules: Sequence[tree.Rule]) -> list[tree.Rule]:
    """The rules as they are tried. Those without a replacement take nothing from others."""
    return sorted((rule for rule in rules if rule.replaces), key=lambda rule: -rule.priority)


def unreachable(spec: LoadedSpec, *, patterns: bool = True) -> tuple[Diagnostic, ...]:
    """Warnings `unreachable-rule`. patterns: compare patterns with each other too, which takes longer."""
    return tuple(_judge(spec, patterns=patterns, contention=False))


def judge(spec: LoadedSpec) -> tuple[Diagnostic, ...]:
    """Warnings of rules that are unreachable or overlap, and of patterns that contradict those that they use."""
    return (*_impossible(spec), *_judge(spec, patterns=True, contention=True))


# ---- patterns that never match --------------------------------------------------------------------------------------


def _impossible(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Patterns whose conditions only contradict each other together with those of the patterns that they use."""
    sized = any(p.where is not None for p in spec.patterns.values())
    for pattern in spec.patterns.values():
        if not sized or decide.impossible(dim_conditions.conjuncts(pattern.where)):
            continue  # nothing to contradict, or said already
        graphs = _graphs(pattern, spec)
        if any(graph.conditions for graph in graphs) and all(
            decide.impossible(graph_facts.facts(graph)) for graph in graphs
        ):
            why = "its sizes contradict those of the patterns that it uses"
            yield lint.never_matches(pattern, why, pattern.name_span)


def _graphs(pattern: tree.Pattern, spec: LoadedSpec) -> tuple[Graph, ...]:
    try:
        graphs = compile_pattern(spec, pattern.name)
    except OpspliceError:
        return ()  # too deep: matching says so
    return graphs if all(map(graph_facts.is_understood, graphs)) else ()


# ---- rules against rules --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rule:
    """A rule with what it asks of its pattern's dims."""

    rule: tree.Rule
    pattern: tree.Pattern
    graphs: tuple[Graph, ...]
    demands: tuple[tree.Condition, ...]
    strided: frozenset[str]
    reordered: bool

    @property
    def text(self) -> str:
        return f"`{self.rule.title}`"


@dataclass
class _Budget:
    """How many pairs of rules may still be looked at, compared, and asked whether they contend."""

    seen: int = _MAX_SEEN
    compared: int = _MAX_COMPARED
    contending: int = _MAX_PAIRS


def _judge(spec: LoadedSpec, *, patterns: bool, contention: bool) -> Iterator[Diagnostic]:
    by_key: dict[str, list[_Rule]] = {}
    by_pattern: dict[str, list[_Rule]] = {}
    budget = _Budget()
    for rule in _prepared(spec, patterns):
        phase = rule.rule.phase
        same = [other for other in by_pattern.get(rule.pattern.name, []) if other.rule.phase == phase]
        keys = dict.fromkeys(graph_facts.key(node) for graph in rule.graphs for node in nodes_of(graph))
        found = (o for k in keys for o in by_key.get(k, ()) if o.pattern is not rule.pattern and o.rule.phase == phase)
        others = dict.fromkeys(found)
        budget.seen -= len(same) + len(others)
        if budget.seen < 0 or budget.compared < 0:
            return
        taken = _takers(rule, [*same, *others], spec, budget)
        if taken:
            yield _unreachable(rule, taken)
            continue  # what takes its matches takes those that it would take
        if contention:
            rivals = list(others)[: budget.contending]
            budget.contending -= len(rivals)
            yield from _overlapping(rule, rivals)
        by_pattern.setdefault(rule.pattern.name, []).append(rule)
        for name in dict.fromkeys(graph_facts.key(graph.results[0].node) for graph in rule.graphs):
            by_key.setdefault(name, []).append(rule)


def _prepared(spec: LoadedSpec, patterns: bool) -> Iterator[_Rule]:
    graphs: dict[str, tuple[Graph, ...]] = {}
    for rule in in_order(spec.rules):
        pattern = spec.patterns.get(rule.pattern)
        if pattern is None:
            continue
        if patterns and pattern.name not in graphs:
            graphs[pattern.name] = _graphs(pattern, spec)
        demands = tuple(lint.demands(rule, spec))
        any_layout = layouts(rule, spec.kernels)
        yield _Rule(rule, pattern, graphs.get(pattern.name, ()), demands, *any_layout)


def _takers(rule: _Rule, earlier: Sequence[_Rule], spec: LoadedSpec, budget: _Budget) -> list[_Rule]:
    """The earlier rules that together take every match of a rule, or none."""
    takes = [other for other in earlier if _layouts_covered(other, rule) and _targets_covered(other, rule, spec)]
    if rule.graphs:
        found = [_taken_graph(rule, graph, takes, budget) for graph in rule.graphs]
    else:
        own = [*dim_conditions.conjuncts(rule.pattern.where), *rule.demands]
        found = [_taken(own, [(other, other.demands) for other in takes], budget)]
    if not all(found):
        return []
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def _taken_graph(rule: _Rule, graph: Graph, earlier: Sequence[_Rule], budget: _Budget) -> list[_Rule]:
    own = [*graph_facts.facts(graph), *rule.demands]
    wanted: list[tuple[_Rule, Sequence[tree.Condition]]] = []
    for other in earlier:
        if other.pattern is rule.pattern:
            wanted.append((other, other.demands))
            continue
        for general in other.graphs:
            cover = subsumption.covers(general, graph)
            if cover is None:
                continue
            every = (*general.conditions, *other.demands)
            asked = tuple(filter(_is_plain, every))
            if len(asked) == len(every):
                wanted.append((other, [*cover.needs, *dim_conditions.substituted(asked, cover.sizes)]))
    return _taken(own, wanted, budget)


def _taken(
    own: Sequence[tree.Condition], wanted: Sequence[tuple[_Rule, Sequence[tree.Condition]]], budget: _Budget
) -> list[_Rule]:
    """The rules of which always one gets a match whose sizes fulfil `own`, or none."""
    pinned = frozenset().union(*map(decide.pinned, own))
    # A condition that needs a size which may only be known at run time can fail whatever the size is then.
    sure = [(rule, asked) for rule, asked in wanted if dim_conditions.names_in(tuple(asked)) <= pinned]
    sure = [(rule, asked) for rule, asked in sure if not any(map(dim_conditions.divides_by_dim, asked))]
    budget.compared -= len(sure)
    if not sure or decide.impossible(own):
        return []  # a rule that can never apply has a warning of its own
    for rule, asked in sure:
        if all(decide.implied(condition, own) for condition in asked):
            return [rule]
    if len(sure) < 2:
        return []
    several = sure[:_MAX_EARLIER]
    span = several[0][0].rule.span
    left = [tree.Logical(span, "not", (tree.Logical(span, "and", tuple(asked)),)) for rule, asked in several]
    return [rule for rule, _ in several] if decide.impossible([*own, *left]) else []


def _layouts_covered(earlier: _Rule, later: _Rule) -> bool:
    """Whether the earlier rule takes inputs and results that lie in memory as the later rule takes them."""
    if earlier.pattern is not later.pattern:
        return not (later.strided or later.reordered)
    return later.strided <= earlier.strided and later.reordered <= earlier.reordered


def _targets_covered(earlier: _Rule, later: _Rule, spec: LoadedSpec) -> bool:
    """Whether the earlier rule has code for every target that the later one has code for, or fails without it."""
    if not earlier.rule.keep:
        return True
    mine, others = spec.kernels.get(earlier.rule.kernel), spec.kernels.get(later.rule.kernel)
    if mine is None and earlier.rule.kernel == later.rule.kernel == "":
        return True  # MLIR is for every target
    if mine is None or others is None:
        return False

    def covered(clause: tree.ArtifactClause) -> bool:
        return any(
            own.backend == clause.backend
            and own.arch in (None, clause.arch)
            and set(own.features) <= set(clause.features)
            and set(map(str, own.limits)) <= set(map(str, clause.limits))
            for own in mine.artifacts
        )

    return all(map(covered, others.artifacts))


def _is_plain(condition: Condition) -> TypeGuard[tree.Condition]:
    """Whether a condition speaks of sizes alone."""
    return all(isinstance(part, _PLAIN) for part in tree.parts(condition))


def _unreachable(rule: _Rule, takers: Sequence[_Rule]) -> Diagnostic:
    if len(takers) == 1:
        (taker,) = takers
        same = taker.pattern is rule.pattern
        what = f"every {rule.rule.pattern}" if same and not taker.demands else "all that it could match"
        message = f"this rule is never reached: {taker.text} takes {what}"
    else:
        message = f"this rule is never reached: {len(takers)} earlier rules take all that it could match"
    notes = [(taker.rule.pattern_span, "which is here") for taker in takers]
    advice = "put the narrower rule first, or remove this one"
    return warning(rule.rule.pattern_span, message, advice, notes, code="unreachable-rule")


# ---- rules that contend ---------------------------------------------------------------------------------------------


def _overlapping(rule: _Rule, earlier: Sequence[_Rule]) -> Iterator[Diagnostic]:
    said: set[str] = set()
    for other in earlier:
        if other.pattern.name in said:
            continue
        found = next(filter(None, (_contention(other, rule, a, b) for a in other.graphs for b in rule.graphs)), None)
        if found is not None:
            said.add(other.pattern.name)
            message, advice = found
            notes = [(other.rule.pattern_span, "which is here")]
            yield warning(rule.rule.pattern_span, message, advice, notes, code="overlapping-rules")


def _contention(other: _Rule, rule: _Rule, first: Graph, second: Graph) -> tuple[str, str] | None:
    """How an earlier rule gets in the way of a later one, and what to do."""
    order = "put the rule with the larger pattern first"
    if subsumption.covers(first, second) is not None:
        return None  # the earlier one has a condition that leaves some: a narrower rule before a wider one
    whole = subsumption.covers(first, second, inner=True)
    if whole is not None and _possible(whole, other, rule, first, second):
        return f"{other.text} comes first, and matches where this pattern ends", order
    part = subsumption.covers_part(first, second)
    if part is not None and _possible(part, other, rule, first, second):
        return f"{other.text} comes first, and takes a part of what this pattern matches", order
    if subsumption.covers(second, first, inner=True) is not None:
        return None  # the larger pattern first
    both = subsumption.overlap(first, second)
    if both is not None and _possible(both, other, rule, first, second):
        message = f"{other.text} can match the same value, and comes first"
        return message, "if that is meant, allow overlapping-rules"
    return None


def _possible(cover: Cover, other: _Rule, rule: _Rule, first: Graph, second: Graph) -> bool:
    asked = tuple(filter(_is_plain, (*first.conditions, *other.demands)))
    known = [*graph_facts.facts(second), *rule.demands, *cover.needs]
    return not decide.impossible([*known, *dim_conditions.substituted(asked, cover.sizes)])

"""What is made from the fields of pattern graphs: a field that a node gets later is seen, or a test fails."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from opsplice.matchers.find.lookalikes import Traits
from opsplice.matchers.overlap.subsumption import covers
from opsplice.matchers.patterns import nodes, walk
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.terms.terms import Apply, LoopIndex, Reduce
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree

# The fields that the engine knows of. A new one is added here once two questions are answered. Does the search read
# more for it than views read? Then such graphs are not local (`lookalikes.Traits`). Does it need more than to be equal
# for one pattern to cover another (`subsumption._COMPARED`), or one rule to take the matches of another (`shadow`)?
FIELDS = {
    Apply: "op args attributes type",
    nodes.Product: "op args attributes type",
    Reduce: "combiner loops body",
    LoopIndex: "index",
    nodes.Input: "name labels",
    nodes.Number: "low high",
    nodes.Whole: "op operands attributes labels number count element rest regions body scalars",
    nodes.Choice: "options number",
    nodes.Setting: "node target value",
    nodes.Named: "name node",
    nodes.Accumulated: "node",
    nodes.Anything: "",
    nodes.Place: "label",
    nodes.Label: "id name pack windowed",
    nodes.Window: "terms merged",
    nodes.Result: "node labels element",
    nodes.Tie: "labels size pack node",
    nodes.Asked: "span kind name",
    nodes.Form: "span name form negated conditions",
    nodes.Within: "name condition",
    Graph: "pattern results ties conditions variables rearranged factors through spans size strided reordered",
    tree.Rule: "span pattern pattern_span kernel kernel_span args keep where phase phase_span priority code attributes "
    "when rest",
}


@dataclass(frozen=True, eq=False)
class MarkedApply(Apply):
    mark: Any = ""


@dataclass(frozen=True, eq=False)
class MarkedReduce(Reduce):
    mark: Any = ""


@dataclass(frozen=True, eq=False)
class MarkedWhole(nodes.Whole):
    mark: Any = ""


@dataclass(frozen=True)
class MarkedResult(nodes.Result):
    mark: Any = ""


MARKED = {Apply: MarkedApply, Reduce: MarkedReduce, nodes.Whole: MarkedWhole}
BODIES = {
    Apply: "{ exp(x) }",
    Reduce: "{ reduce addf[m n -> m](x) }",
    nodes.Whole: '{ "my.op"(x) : tensor<m x n x f32> }',
}


def graph_of(body: str) -> Graph:
    spec = load_text(f"pattern p(x: tensor<m x n x f32>) {body}")
    return compile_pattern(spec, "p")[0]


def marked(graph: Graph, mark: Any) -> Graph:
    """A graph whose outermost node has a field more."""
    (result,) = graph.results
    kind = MARKED[type(result.node)]
    node = kind(**vars(result.node), mark=mark)
    ties = tuple(dataclasses.replace(t, node=node) if t.node is result.node else t for t in graph.ties)
    return dataclasses.replace(graph, results=(dataclasses.replace(result, node=node),), ties=ties)


def test_every_field_is_known():
    kinds = {kind for kind in vars(nodes).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    kinds = {kind for kind in kinds if kind.__module__ == nodes.__name__ and not kind.__name__.startswith("_")}
    assert kinds | {tree.Rule, *walk.KINDS} == set(FIELDS)
    for kind, known in FIELDS.items():
        assert [field.name for field in dataclasses.fields(kind)] == known.split(), kind


@pytest.mark.parametrize("kind", BODIES)
def test_a_field_more_tells_patterns_apart(kind):
    plain = graph_of(BODIES[kind])
    one, same, other = (marked(plain, mark) for mark in ("one", "one", "other"))
    assert covers(plain, plain) is not None
    assert covers(one, same) is not None
    assert covers(one, other) is covers(one, plain) is covers(plain, one) is None
    assert Traits.of([plain, one]).local == {plain}


def test_a_field_more_of_a_graph_or_a_result_tells_patterns_apart():
    plain = graph_of(BODIES[Apply])
    strided = dataclasses.replace(plain, strided=frozenset("x"))
    (result,) = plain.results
    other = dataclasses.replace(plain, results=(MarkedResult(**vars(result), mark="one"),))
    for changed in (strided, other):
        assert covers(changed, plain) is covers(plain, changed) is None


def test_what_a_field_more_holds_is_walked():
    inner = graph_of(BODIES[Reduce]).results[0].node
    outer = marked(graph_of(BODIES[Apply]), (inner,))
    assert inner in walk.nodes_of(outer)
    assert inner in walk.children_of(outer.results[0].node)
    assert inner in walk.parts_of(outer)

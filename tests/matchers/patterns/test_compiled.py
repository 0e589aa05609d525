"""Graphs are made once for the files that they come from."""

from __future__ import annotations

from opsplice.compiling.splice import at_phase, graphs_of
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern, compile_patterns
from opsplice.spec_lang.loading.loader import load

SPEC = """kernel add(x: f32[m, n], y: f32[m, n]) -> f32[m, n] { cpu "add.c" }
pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { addf(x, y) }
replace p with add(x, y)
"""


def test_a_spec_that_is_read_again_has_the_same_graphs_until_its_text_changes(tmp_path):
    path = tmp_path / "s.splice"
    path.write_text(SPEC)
    first = load(path)
    again = at_phase(load(path), "preprocessing", "preprocessing")
    assert again is not first
    assert compile_patterns(again) == compile_patterns(first)
    assert engine.ready(graphs_of(again)) is engine.ready(graphs_of(first))
    path.write_text(SPEC.replace("addf", "mulf"))
    assert compile_patterns(load(path)) != compile_patterns(first)


def test_what_kernels_take_is_told_of_graphs_that_are_else_the_same(tmp_path):
    path = tmp_path / "s.splice"
    path.write_text(SPEC)
    spec = load(path)
    (plain,), (strided,) = compile_pattern(spec, "p"), compile_pattern(spec, "p", frozenset("x"), reordered=True)
    assert strided is not plain
    assert strided.results is plain.results
    assert (plain.strided, plain.reordered, strided.strided, strided.reordered) == (frozenset(), False, {"x"}, True)
    assert compile_pattern(spec, "p", frozenset("x"), reordered=True) == (strided,)

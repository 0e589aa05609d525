"""Reports of several graphs or programs: each with what was done to it, then the rules that matched in none."""

from __future__ import annotations

import pytest

from opsplice.reports.frontend_reports import FunctionReport, GraphReport, ProgramReport, TorchReport
from opsplice.reports.report import Replacement, Report, UnmatchedRule

DONE = Report((Replacement("replace a with k", "a.splice:1:1", "a", "main", "model.py:3", {}, "k", "static function"),))
LOST = (UnmatchedRule("replace a with k", "a.splice:1:1", "a"), UnmatchedRule("replace b with k", "a.splice:2:1", "b"))
MISSED = Report(unmatched=LOST)
GRAPHS = TorchReport((GraphReport(1, "forward", "0/0", {"add": 2}, DONE), GraphReport(2, "backward", "", {}, MISSED)))
PROGRAMS = FunctionReport((ProgramReport("f(float32[2])", DONE), ProgramReport("f(float32[3])", MISSED)))


@pytest.mark.parametrize(
    ("whole", "headings"),
    [
        (GRAPHS, ("graph 1 (forward, [0/0]): 2 ops", "graph 2 (backward): 0 ops")),
        (PROGRAMS, ("f(float32[2])", "f(float32[3])")),
    ],
)
def test_rules_that_matched_in_no_part_are_told_once(whole, headings):
    assert [each.pattern for each in whole.report.unmatched] == ["b"]
    text = str(whole)
    assert all(heading in text and heading in whole._repr_html_() for heading in headings)
    assert text.count("matched nothing") == 1
    assert "model.py:3" in text


def test_a_part_that_the_framework_runs_says_why():
    graph = GraphReport(3, "inference", "", {"sort": 1}, eager="no <code>")
    program = ProgramReport("f()", Report(), "no code")
    assert str(graph) == "graph 3 (inference): 1 ops, runs eagerly: no <code>"
    assert graph._repr_html_() == "<p>graph 3 (inference): 1 ops, runs eagerly: no &lt;code&gt;</p>"
    assert str(program) == "f()\n  run by JAX: no code"
    assert graph.to_json()["eager"] == "no <code>"
    assert program.to_json()["jax"] == "no code"


def test_nothing_was_compiled():
    assert str(TorchReport()) == TorchReport()._repr_html_() == "no graph was compiled so far"
    assert str(FunctionReport()) == "no program was compiled so far"

"""Reports and explanations point into this file."""

from __future__ import annotations

import json
import warnings

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice

RULES = """
pattern twice(x: tensor<...n x f32>) { tanh(tanh(x)) }
pattern never(x: tensor<...n x f32>) { sin(tanh(x)) }
annotate twice with {my.seen}
annotate never with {my.seen}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "rules.splice"
    path.write_text(RULES, encoding="utf-8")
    return path


def model(x):
    once = torch.tanh(x)
    torch._dynamo.graph_break()
    y = torch.cos(once)
    return torch.tanh(torch.tanh(y)) + 1


def test_a_report_has_each_graph_with_what_matched_at_which_line(spec):
    fast = torch.compile(model, backend="opsplice", options={"specs": spec})
    fast(torch.rand(4))
    with pytest.warns(
        UserWarning, match=r"rules.splice:5:1: `annotate never.*` matched nothing in any of the 2 graphs"
    ):
        fast(torch.rand(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(torch.rand(4))
    first, second = opsplice.torch.reports()
    assert not first.report.replacements
    (match,) = second.report.replacements
    assert match.location.endswith("test_reports.py:35")
    whole = opsplice.torch.report()
    assert [each.pattern for each in whole.report.unmatched] == ["never"]
    assert "test_reports.py:35" in str(whole)
    graphs = json.loads(json.dumps(whole.to_json()))["graphs"]
    assert [graph["part"] for graph in graphs] == ["inference", "inference"]
    assert graphs[1]["ops"]["aten.tanh.default"] == 2


def test_explain_points_into_python(spec):
    told = opsplice.torch.explain(model, (torch.rand(4),), specs=spec, pattern="never", at="test_reports.py:34")
    assert "test_reports.py:34" in {place.location.rpartition("/")[2] for place in told.pointed}
    assert [each.pattern for each in told.patterns] == ["never"]
    with pytest.raises(opsplice.OpspliceError, match=r"there is no op at test_reports.py:2\b"):
        opsplice.torch.explain(model, (torch.rand(4),), specs=spec, at="test_reports.py:2")

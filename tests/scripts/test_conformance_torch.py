"""A few of PyTorch's operators through the suite that `make conformance` runs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
pytest.importorskip("expecttest", reason="PyTorch's own tests need expecttest (make frontends)")

from opsplice.torch.decompositions import table
from scripts.conformance import Outcome, running, torch_ops

CASES = {case.name: case for case in torch_ops.cases()}


def run(name: str, variant: str) -> Outcome:
    return running.attempt(CASES[name], running.VARIANTS[variant])


def test_names_are_those_of_pytorch_each_once() -> None:
    assert len(CASES) == len(torch_ops.cases()) > 5000
    assert {"softmax f32", "nn.functional.linear bf16 backward", "sum f32", "max.reduction_with_dim f32"} <= set(CASES)


@pytest.mark.parametrize("name", ["log_softmax f32", "nn.functional.silu f32 backward"])
def test_samples_run_with_rules(name: str) -> None:
    outcome = run(name, "rules")
    assert outcome.word == "passes", outcome
    assert outcome.replaced


def test_wrong_numbers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    aten = table.aten
    monkeypatch.setitem(table._table(), aten.abs.default, aten.relu.default)
    outcome = run("abs f32", "plain")
    assert outcome.word == "wrong"
    assert "elements differ" in outcome.reason


@pytest.mark.parametrize("name", ["sparse.mm.reduce f32", "sparse.mm.reduce f32 backward"])
def test_sparse_tensors_are_given_and_compared(name: str) -> None:
    assert run(name, "plain") == Outcome("passes")


def test_an_operator_that_iree_does_not_lower_is_named() -> None:
    assert run("igamma f32", "plain") == Outcome("not compiled", "IREE does not lower torch.aten.igamma")

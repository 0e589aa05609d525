"""What cannot be compiled is said with the line of the user's Python; PyTorch runs it only where that is asked for."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice
from opsplice.torch.decompositions import table
from opsplice.torch.importing import refusals


def unknown_op(x):
    return torch.special.bessel_j0(x + 1)


def compiled(function, **options):
    return torch.compile(function, backend="opsplice", options=options)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unknown_op, r"test_refusals.py:19: IREE has no code for torch.aten.special_bessel_j0"),
        (lambda x: torch.linalg.eigvals(x.view(2, 2)), r"refusals.py:\d+: IREE has no code for torch.aten.linalg_eig"),
        (lambda x: x.to("meta") + 1, r"test_refusals.py:\d+: .* is on the device 'meta'"),
    ],
    ids=["op", "part of an op", "device"],
)
def test_errors_name_the_line_and_what_to_do(function, message):
    with pytest.raises(opsplice.OpspliceError, match=message) as caught:
        compiled(function)(torch.rand(4))
    assert "help: " in str(caught.value)


@pytest.fixture
def _without_polygamma(monkeypatch):
    """As if there were no formula for it."""
    kept = {op: body for op, body in table.table().items() if op is not torch.ops.aten.polygamma.default}
    monkeypatch.setattr(importlib.import_module("opsplice.torch.backend"), "table", lambda: kept)


@pytest.mark.usefixtures("_without_polygamma")
def test_gradients_that_do_not_compile_are_an_error_when_they_are_wanted(caplog):
    """Those of open sizes are compiled before; PyTorch would log what fails with all of its own calls, and go on."""

    def digamma(x):
        return torch.digamma(x).sum()

    x = torch.rand(4, requires_grad=True)
    total = torch.compile(digamma, backend="opsplice", dynamic=True)(x)
    torch.testing.assert_close(total, digamma(x), rtol=1e-5, atol=0)
    assert not [each for each in caplog.records if each.levelname == "WARNING"]
    with pytest.raises(
        opsplice.OpspliceError, match=r"test_refusals.py:\d+: IREE has no code for .*polygamma"
    ) as caught:
        total.backward()
    assert (
        caught.value.__context__ is None
    )  # it held what the compiler had made, on whose end Python ended with a crash


@pytest.mark.parametrize(
    ("details", "op"),
    [
        ("", "one of torch.aten.abs.default, torch.aten.add.Tensor"),
        ("torch.aten.abs number 1: error: not so\n", "torch.aten.abs"),
        ("error: failed to legalize operation 'torch.aten.add.Tensor'\n", "torch.aten.add.Tensor"),
    ],
)
def test_an_op_is_named_and_not_its_constants(details, op):
    graph = torch.fx.Graph()
    added = graph.call_function(torch.ops.aten.add.Tensor, (graph.placeholder("x"), 1))
    graph.output(graph.call_function(torch.ops.aten.abs.default, (added,)))
    details = f"{details}error: failed to legalize operation 'torch.constant.int': %0 = ..."
    error = opsplice.OpspliceError("it does not compile", details=details)
    said = refusals.uncompilable(error, torch.fx.GraphModule({}, graph))
    assert said.message == f"IREE has no code for {op}"


def test_a_fallback_is_said_and_reported():
    x = torch.rand(4)
    with pytest.warns(
        UserWarning, match=r"graph 1 \(inference, \[0/0\]\) runs with PyTorch: .* no code for torch.aten"
    ):
        assert torch.equal(compiled(unknown_op, fallback=True)(x), unknown_op(x))
    (report,) = opsplice.torch.reports()
    assert "IREE has no code" in report.eager
    assert "runs eagerly" in str(report)


def test_a_spec_that_is_not_there_is_an_error_even_with_a_fallback():
    with pytest.raises(opsplice.OpspliceError, match="no such file"):
        compiled(unknown_op, fallback=True, specs="nothing.splice")(torch.rand(4))


def test_a_long_compile_says_what_it_does_where_that_is_asked_for(monkeypatch, capfd):
    monkeypatch.setattr("opsplice.torch.progress.LONG", 0)
    x = torch.rand(4)
    compiled(torch.sin, progress=True, cache=False)(x)
    assert "opsplice: compiling graph 1 (inference, [0/0]), 1 ops: phase " in capfd.readouterr().err
    compiled(torch.cos, cache=False)(x)
    assert "opsplice" not in capfd.readouterr().err

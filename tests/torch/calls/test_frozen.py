"""The option `freeze`: weights that belong to the programs of inference, and are read again when they change."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import nn

import opsplice

WEIGHTS = """
pattern added(x: tensor<8xf32>, w: tensor<8xf32>) where weight(w) {
  y = addf(x, w)
  y
}
annotate added with {my.weight = 1}
"""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 8))
        self.shift = nn.Parameter(torch.rand(8))
        self.register_buffer("factor", torch.full((1,), 2.0))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return (x @ self.weight.exp()).sum(0) * self.factor + self.shift + self.calls


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    spec = tmp_path_factory.mktemp("frozen") / "weights.splice"
    spec.write_text(WEIGHTS, encoding="utf-8")
    model = Model().eval()
    return model, torch.compile(model, backend="opsplice", options={"specs": [spec], "freeze": True})


def check(model: Model, fast, x: torch.Tensor) -> None:
    with torch.no_grad():
        calls = model.calls.clone()
        given = fast(x)
        model.calls.copy_(calls)
        torch.testing.assert_close(given, model(x))


def changed_in_place(model: Model) -> None:
    model.weight.mul_(3)


def other_data(model: Model) -> None:
    model.shift.data = torch.rand(8)


def other_parameter(model: Model) -> None:
    model.weight = nn.Parameter(torch.rand(4, 8))


def loaded(model: Model) -> None:
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})


def not_in_order(model: Model) -> None:
    model.weight = nn.Parameter(torch.rand(8, 4).t())


@pytest.mark.parametrize("change", [None, changed_in_place, other_data, other_parameter, loaded, not_in_order])
def test_weights_are_those_of_the_call(compiled, change):
    model, fast = compiled
    check(model, fast, torch.ones(3, 4))
    if change is not None:
        with torch.no_grad():
            change(model)
    check(model, fast, torch.ones(3, 4))


def test_what_is_frozen_is_a_weight(compiled):
    model, fast = compiled
    opsplice.torch.reset()
    torch._dynamo.reset()
    check(model, fast, torch.ones(3, 4))
    (report,) = opsplice.torch.reports()
    assert [each.pattern for each in report.report.replacements] == ["added"]


def test_a_model_that_is_trained_keeps_its_weights_as_inputs(compiled):
    model, fast = compiled
    loss = fast(torch.ones(3, 4)).sum()
    loss.backward()
    torch.testing.assert_close(model.shift.grad, torch.ones(8))


def test_weights_whose_changes_are_not_counted_are_refused():
    with torch.inference_mode():
        model = nn.Linear(4, 4)
        fast = torch.compile(model, backend="opsplice", options={"freeze": True})
        with pytest.raises(Exception, match="changes of a weight are not counted"):
            fast(torch.ones(2, 4))

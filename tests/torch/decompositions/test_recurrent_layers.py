"""Recurrent layers of many steps: loops that compute what PyTorch computes."""

import numpy as np
import pytest
import torch
from torch import nn

import opsplice.torch
from opsplice.torch.decompositions import recurrent_layers
from opsplice.torch.decompositions.table import decomposed


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        options = {"batch_first": True}
        self.both = nn.LSTM(3, 4, num_layers=2, bidirectional=True, **options)
        self.projected = nn.LSTM(3, 6, proj_size=2, bias=False, **options)
        self.gru = nn.GRU(3, 4, bidirectional=True, **options)
        self.rnn, self.relu = nn.RNN(3, 4), nn.RNN(3, 4, bias=False, nonlinearity="relu", **options)

    def forward(self, x, start):
        turned, *last = self.rnn(x.transpose(0, 1), start)
        return self.both(x), self.projected(x), self.gru(x), self.relu(x), turned, last


def test_loops_compute_what_pytorch_computes(monkeypatch):
    monkeypatch.setattr(recurrent_layers, "MOST_WRITTEN", 0)
    torch.manual_seed(0)
    model, given = Layers().eval(), (torch.randn(2, 5, 3), torch.randn(1, 2, 4))
    program = opsplice.torch.export(model, given)
    with torch.no_grad():
        wanted, _ = torch.utils._pytree.tree_flatten(model(*given))
    for found, each in zip(program.run("main", *(each.numpy() for each in given)), wanted, strict=True):
        np.testing.assert_allclose(found, each.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_only_layers_of_few_steps_are_written_out(kind, monkeypatch):
    def products(steps):
        graph = decomposed(torch.export.export(layer, (torch.randn(steps, 2, 3),))).graph
        return sum("mm" in str(node.target) for node in graph.nodes)

    monkeypatch.setattr(recurrent_layers, "MOST_WRITTEN", 12)
    layer = kind(3, 4, bidirectional=True)
    assert products(6) == 2 + 12
    assert products(7) == 2

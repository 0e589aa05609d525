"""Recurrent layers against PyTorch in f64: as loops, and taken whole by the library's kernels."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree

import opsplice.torch
from opsplice.torch.decompositions.table import decomposed


class Layers(nn.Module):
    """All forms of layers, some with a state to start from. k, n: the sizes of inputs and states."""

    def __init__(self, k, n):
        super().__init__()
        options = {"batch_first": True}
        self.both = nn.LSTM(k, n, num_layers=2, bidirectional=True, **options)
        self.bare = nn.LSTM(k, n, bias=False)
        self.projected = nn.LSTM(k, n, proj_size=2, bias=False, bidirectional=True, **options)
        self.gru, self.started = nn.GRU(k, n, bidirectional=True, **options), nn.GRU(k, n)
        self.rnn, self.relu = nn.RNN(k, n), nn.RNN(k, n, bias=False, nonlinearity="relu", **options)

    def forward(self, x, start):
        steps = x.transpose(0, 1)
        ends = self.bare(steps, (start, start.cos())), self.started(steps, start), self.rnn(steps, start)
        return self.both(x), self.projected(x), self.gru(x), self.relu(x), ends


def check(program, model, *given, tolerance=1e-5):
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        wanted, _ = _pytree.tree_flatten(exact(*(each.double() for each in given)))
    for found, each in zip(program.run("main", *(each.numpy() for each in given)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found, np.float64), each.numpy(), rtol=tolerance, atol=tolerance)


def inputs(batch, steps, k, n):
    return torch.randn(batch, steps, k), torch.randn(1, batch, n)


OPEN = {"x": {0: "batch"}, "start": {1: "batch"}}


def test_loops_compute_what_pytorch_computes():
    model = Layers(3, 4).eval()
    program = opsplice.torch.export(model, inputs(2, 5, 3, 4), dynamic=OPEN)
    for batch in (1, 3):
        check(program, model, *inputs(batch, 5, 3, 4))


@pytest.mark.parametrize("dynamic", [None, OPEN])
def test_kernels_take_layers_whole(dynamic):
    """Those of LSTM without a projection, and of GRU, also of an open batch."""
    model, given = Layers(3, 16).eval(), inputs(7, 5, 3, 16)
    program = opsplice.torch.export(model, given, dynamic=dynamic, specs=["opsplice_kernels"])
    taken = sorted(each.kernel for each in program.report.replacements if each.kernel.endswith("_steps"))
    assert taken == ["gru_steps"] * 2 + ["lstm_steps"] * 3, program.report
    for batch in (1, 3, 7) if dynamic else (7,):
        check(program, model, *inputs(batch, 5, 3, 16))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float16, 1e-2)], ids=str)
def test_loops_of_other_elements(dtype, tolerance):
    model = nn.LSTM(3, 4, bidirectional=True).to(dtype).eval()
    x = torch.randn(5, 2, 3, dtype=dtype)
    check(opsplice.torch.export(model, (x,)), model, x, tolerance=tolerance)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_programs_do_not_grow_with_the_steps(kind):
    def size(steps):
        program = decomposed(torch.export.export(kind(3, 4, bidirectional=True), (torch.randn(steps, 2, 3),)))
        return sum(
            len(each.graph.nodes) for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)
        )

    assert size(3) == size(40)


def test_dropout_between_layers_is_drawn_in_training():
    layer, x = nn.LSTM(3, 4, num_layers=2, dropout=0.5), torch.randn(6, 2, 3)
    drawn = {str(node.target) for node in decomposed(torch.export.export(layer, (x,))).graph.nodes}
    assert any("rand" in name or "bernoulli" in name for name in drawn), drawn

"""Tables whose rows may not be longer than a number: those that a call reads are shortened in the model."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import opsplice  # noqa: E402, F401  # its backend


class Tables(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(12, 4, max_norm=1.5, padding_idx=0)
        self.bags = torch.nn.EmbeddingBag(12, 4, max_norm=2.0, norm_type=1.0, mode="sum")

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        return self.rows(places).mean(1) * self.bags(places)


def test_rows_that_are_read_are_shortened() -> None:
    models = [Tables()]
    models.append(copy.deepcopy(models[0]))
    fast = torch.compile(models[0], backend="opsplice", dynamic=True, fullgraph=True)
    optimizers = [torch.optim.SGD(each.parameters(), 0.5) for each in models]
    for sizes in ((3, 2), (5, 4)):
        places = torch.randint(0, 12, sizes)
        for call, optimizer in zip((fast, models[1]), optimizers, strict=True):
            optimizer.zero_grad()
            call(places).square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(*(list(each.parameters()) for each in models), rtol=1e-4, atol=1e-5)

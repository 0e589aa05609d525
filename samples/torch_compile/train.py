"""Train the block with PyTorch alone and with the backend, and compare."""

from __future__ import annotations

from pathlib import Path

import model
import torch

import opsplice

SPEC = Path(__file__).parent.parent / "transformer" / "transformer.splice"


def train(compiled: bool) -> list[float]:
    """The losses of ten steps."""
    torch.manual_seed(0)
    block = model.Block()
    run = torch.compile(block, backend="opsplice", options={"specs": [SPEC]}) if compiled else block
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        digits = torch.randint(0, 10, (32, 16))
        loss = torch.nn.functional.cross_entropy(run(digits), digits.mode().values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    eager, ours = train(compiled=False), train(compiled=True)
    print("losses with PyTorch: ", " ".join(f"{loss:.4f}" for loss in eager))
    print("losses with opsplice:", " ".join(f"{loss:.4f}" for loss in ours))
    print()
    print(opsplice.torch.report())


if __name__ == "__main__":
    main()

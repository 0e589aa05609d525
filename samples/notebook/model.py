"""A transformer's feed-forward block in PyTorch."""

import torch
from torch import nn


class Block(nn.Module):
    """Layer norm, two linear layers with gelu in between, and a softmax over the result."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        x = nn.functional.gelu(self.up(x))
        x = self.down(x)
        return torch.softmax(x, dim=-1)

"""A transformer block that tells which digit a row repeats most."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Attention and a feed-forward layer over 16 digits, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 64)
        self.norm = nn.LayerNorm(64)
        self.qkv = nn.Linear(64, 192)
        self.up = nn.Linear(64, 128)
        self.down = nn.Linear(128, 64)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(64, 10)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        x = self.embed(digits)
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        x = x + nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + self.drop(self.down(nn.functional.gelu(self.up(x), approximate="tanh")))
        return self.head(x.mean(1))

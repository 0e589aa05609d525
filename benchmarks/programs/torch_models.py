"""Models of PyTorch with random weights that no kernel was written for, two layers each where layers repeat.

Each is a module with its arguments. Its result is one tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]
# What configurations of transformers have in common here.
_WORDS = 1000
_PICTURE = (1, 3, 224, 224)


class _First(nn.Module):
    """A model of transformers, without what it gives besides the last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.model(*given, return_dict=True).last_hidden_state


def _of(name: str, given: torch.Tensor, **config: Any) -> Made:
    """name: of the family in transformers. config: its sizes."""
    made = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**config))
    if getattr(made.config, "use_cache", False):
        made.config.use_cache = False
    for part in made.modules():
        if isinstance(part, nn.BatchNorm2d):  # with what it begins with, many layers make nothing but zeros
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 1.5)
    return _First(made), (given,)


def _words(count: int, rows: int = 1) -> torch.Tensor:
    return torch.randint(0, _WORDS, (rows, count))


def _decoder(name: str, words: int, wide: int, inner: int, heads: int, shared: int, **more: Any) -> Made:
    sizes = {"hidden_size": wide, "intermediate_size": inner, "num_attention_heads": heads, "vocab_size": _WORDS}
    return _of(name, _words(words), num_hidden_layers=2, num_key_value_heads=shared, **sizes, **more)


def _encoder(name: str, given: torch.Tensor, wide: int, heads: int, **more: Any) -> Made:
    sizes = {"hidden_size": wide, "intermediate_size": 4 * wide, "num_attention_heads": heads}
    return _of(name, given, num_hidden_layers=2, **sizes, **more)


def _mlp(rows: int) -> Made:
    parts = (nn.Linear(377, 513), nn.ReLU(), nn.Linear(513, 251), nn.GELU(), nn.Linear(251, 77), nn.Tanh())
    return nn.Sequential(*parts), (torch.randn(rows, 377),)


class _Recurrent(nn.Module):
    def __init__(self, kind: str, *sizes: int, **more: Any) -> None:
        super().__init__()
        self.inner = getattr(nn, kind)(*sizes, batch_first=True, **more)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


MODELS: dict[str, Callable[[], Made]] = {
    "GPT-2, 93 words": lambda: _of("GPT2", _words(93), n_layer=2, n_embd=640, n_head=10, vocab_size=_WORDS),
    "DistilBERT, 2 x 61 words": lambda: _of("DistilBert", _words(61, 2), n_layers=2, vocab_size=_WORDS),
    "ALBERT, 100 words": lambda: _encoder("Albert", _words(100), 768, 12, vocab_size=_WORDS),
    "Qwen 3, 45 words": lambda: _decoder("Qwen3", 45, 896, 2432, 14, 2, head_dim=64),
    "Mistral, 70 words": lambda: _decoder("Mistral", 70, 1024, 3584, 16, 4),
    "Gemma 2, 50 words": lambda: _decoder("Gemma2", 50, 768, 3072, 4, 2, head_dim=256),
    "Phi, 64 words": lambda: _decoder("Phi", 64, 960, 2560, 12, 12),
    "CLIP's text, 77 words": lambda: _encoder("CLIPText", _words(77), 512, 8, vocab_size=_WORDS, eos_token_id=2),
    "ViT, 224x224": lambda: _encoder("ViT", torch.randn(_PICTURE), 384, 6),
    "wav2vec 2, 1 s": lambda: _encoder("Wav2Vec2", torch.randn(1, 16000), 384, 6, conv_dim=(128,) * 7),
    "EfficientNet B0": lambda: _of(
        "EfficientNet", torch.randn(_PICTURE), width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280
    ),
    "ConvNeXt, 5 blocks": lambda: _of("ConvNext", torch.randn(_PICTURE), depths=[1, 1, 2, 1]),
    "RegNet Y, 7 blocks": lambda: _of(
        "RegNet", torch.randn(_PICTURE), hidden_sizes=[64, 128, 288, 672], depths=[1, 2, 3, 1], groups_width=16
    ),
    "LSTM in both directions, 150 steps": lambda: (
        _Recurrent("LSTM", 120, 96, bidirectional=True),
        (torch.randn(4, 150, 120),),
    ),
    "LSTM of 2 layers, 128 steps": lambda: (_Recurrent("LSTM", 256, 256, num_layers=2), (torch.randn(1, 128, 256),)),
    "GRU, 200 steps": lambda: (_Recurrent("GRU", 96, 160), (torch.randn(1, 200, 96),)),
    "MLP of odd sizes, 1 row": lambda: _mlp(1),
    "MLP of odd sizes, 17 rows": lambda: _mlp(17),
}

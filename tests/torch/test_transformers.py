"""Models of transformers by their own classes: exported, run, and matched, with masks and without patches of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
pytest.importorskip("transformers", reason="transformers is not installed (make frontends)")

import torch
import transformers
from torch.export import Dim

import opsplice

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, Any]]:
    config = transformers.BertConfig(**SMALL, vocab_size=99, max_position_embeddings=64)
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 10:] = 0
    sizes = {0: Dim("batch", max=8), 1: Dim("length", max=64)}
    inputs = {"input_ids": torch.randint(0, 99, (2, 16)), "attention_mask": mask}
    return transformers.BertModel(config), inputs, {"input_ids": sizes, "attention_mask": sizes}


def whisper() -> tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, Any]]:
    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        vocab_size=99,
        num_mel_bins=16,
        max_source_positions=20,
        max_target_positions=32,
        **{f"{name}_token_id": number for number, name in enumerate(("pad", "bos", "eos", "decoder_start"))},
        use_cache=False,
    )
    inputs = {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": torch.randint(0, 99, (2, 7))}
    return transformers.WhisperForConditionalGeneration(config), inputs, {"decoder_input_ids": {1: "tokens"}}


@pytest.mark.parametrize(
    ("make", "patterns"),
    [
        (bert, {"layernorm_rows": 5, "linear_nk": 13, "softmax_rows": 2}),
        (whisper, {"layernorm_rows": 7, "linear_nk": 13, "softmax_rows": 3}),
    ],
)
def test_numbers_and_matches(samples: Path, make: Any, patterns: dict[str, int]) -> None:
    torch.manual_seed(0)
    model, inputs, dynamic = make()
    spec = samples / "transformer" / "transformer.splice"
    program = opsplice.torch.export(model.eval(), (), inputs, dynamic=dynamic, specs=[spec])
    assert Counter(each.pattern for each in program.report.replacements) == patterns
    with torch.no_grad():
        expected = [each for each in model(**inputs).values() if isinstance(each, torch.Tensor)]
    for result, wanted in zip(program.run("main", *(each.numpy() for each in inputs.values())), expected, strict=True):
        np.testing.assert_allclose(result, wanted.numpy(), atol=1e-5)

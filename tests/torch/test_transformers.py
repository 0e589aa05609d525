"""Models of transformers by their own classes, with masks and without patches of them: exported, and compiled."""

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


def gpt2() -> tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, Any]]:
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64, use_cache=False, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config), {"input_ids": torch.randint(0, 99, (2, 16))}, {}


def vit() -> tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, Any]]:
    config = transformers.ViTConfig(**SMALL, image_size=16, patch_size=4)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 16, 16)}, {}


@pytest.mark.parametrize(
    ("make", "patterns"),
    [
        (bert, {"layernorm_rows": 5, "linear_nk": 13, "softmax_rows": 2}),
        (whisper, {"layernorm_rows": 7, "linear_nk": 13, "softmax_rows": 3}),
        (gpt2, {"layernorm_rows": 5, "linear_kn": 6, "linear_gelu_kn": 2, "softmax_rows": 2}),
        (vit, {"layernorm_rows": 5, "linear_nk": 13, "softmax_rows": 2}),
    ],
)
def test_numbers_and_matches(samples: Path, make: Any, patterns: dict[str, int]) -> None:
    torch.manual_seed(0)
    model, inputs, dynamic = make()
    spec = samples / "transformer" / "transformer.splice"
    program = opsplice.torch.export(model.eval(), (), inputs, dynamic=dynamic or None, specs=[spec])
    assert Counter(each.pattern for each in program.report.replacements) == patterns
    with torch.no_grad():
        expected = [each for each in model(**inputs).values() if isinstance(each, torch.Tensor)]
    results = program.run("main", *(each.numpy() for each in inputs.values()))
    for result, wanted in zip(results if isinstance(results, list) else [results], expected, strict=True):
        np.testing.assert_allclose(result, wanted.numpy(), atol=1e-5)


TINY = SMALL | {"num_hidden_layers": 1, "vocab_size": 99, "max_position_embeddings": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def mixtral() -> tuple[torch.nn.Module, dict[str, Any]]:
    config = transformers.MixtralConfig(**TINY, **TOKENS, num_key_value_heads=2, num_local_experts=4)
    tokens = torch.randint(3, 99, (2, 8))
    return transformers.MixtralForCausalLM(config), {"input_ids": tokens, "labels": tokens, "use_cache": False}


def clip() -> tuple[torch.nn.Module, dict[str, Any]]:
    config = transformers.CLIPConfig(
        text_config=TINY | TOKENS,
        vision_config=SMALL | {"num_hidden_layers": 1, "image_size": 16, "patch_size": 8},
        projection_dim=16,
    )
    inputs = {"input_ids": torch.randint(3, 99, (2, 9)), "pixel_values": torch.randn(2, 3, 16, 16)}
    return transformers.CLIPModel(config), {**inputs, "return_loss": True}


@pytest.mark.parametrize("make", [mixtral, clip])
def test_a_step_of_training_is_that_of_eager(make: Any) -> None:
    model, inputs = make()
    fast = torch.compile(model.train(), backend="opsplice")
    losses, gradients = [], []
    for each in (model, fast):
        model.zero_grad()
        loss = each(**inputs).loss
        loss.backward()
        losses.append(loss.detach())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_gives_the_tokens_of_eager(cache: str) -> None:
    config = transformers.LlamaConfig(**TINY, **TOKENS, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval()
    wanted = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "cache_implementation": cache}
    prompt = torch.randint(3, 99, (2, 8))
    expected = model.generate(prompt, **wanted)
    model.forward = torch.compile(model.forward, backend="opsplice")
    assert torch.equal(model.generate(prompt, **wanted), expected)
    assert opsplice.torch.reports()


def test_a_prompt_of_any_length() -> None:
    config = transformers.LlamaConfig(**TINY, **TOKENS, num_key_value_heads=2, use_cache=False)
    model = transformers.LlamaForCausalLM(config).eval()
    fast = torch.compile(model, backend="opsplice", dynamic=True, options={"specs": ["opsplice_kernels"]})
    with torch.no_grad():
        for sizes in ((2, 9), (3, 12)):
            prompt = torch.randint(3, 99, sizes)
            torch.testing.assert_close(fast(prompt).logits, model(prompt).logits)
    (report,) = opsplice.torch.reports()
    assert "banded_attention" in [each.pattern for each in report.report.replacements], report

"""Exports a small llama to llama.vmfb and llama.irpa: a function for the prompt, and one for each token after it."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.export import Dim
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import opsplice

HERE = Path(__file__).parent
SPECS = [HERE / "llama.splice", HERE.parent / "transformer" / "transformer.splice"]

Cache = list[tuple[torch.Tensor, torch.Tensor]]


def make_model() -> LlamaForCausalLM:
    """A llama of 2 layers with random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        max_position_embeddings=128,
    )
    return LlamaForCausalLM(config).eval()


class Prefill(torch.nn.Module):
    """The prompt: the logits of the token that follows, and what the layers keep."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, Cache]:
        return answer(self.model(tokens, use_cache=True))


class Decode(torch.nn.Module):
    """One more token, after what the layers have kept."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        return answer(self.model(token, past_key_values=DynamicCache(cache), use_cache=True))


def answer(output: object) -> tuple[torch.Tensor, Cache]:
    """Transformers' output as tensors in tuples."""
    return output.logits[:, -1], [(layer.keys, layer.values) for layer in output.past_key_values.layers]


def export(model: LlamaForCausalLM) -> opsplice.Program:
    """Both functions in one program, with the weights once."""
    prompt = torch.zeros(1, 8, dtype=torch.int64)
    prefill, decode = Prefill(model).eval(), Decode(model).eval()
    _, cache = prefill(prompt)
    grows = {2: Dim.AUTO}
    functions = {
        "prefill": (prefill, (prompt,), {}, {"tokens": {1: Dim("length", min=2, max=128)}}),
        "decode": (decode, (prompt[:, :1], cache), {}, {"cache": [(grows, grows) for _ in cache]}),
    }
    return opsplice.torch.export(functions, specs=SPECS, flags=["--iree-llvmcpu-target-cpu=host"])


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    model = make_model()
    program = export(model)
    print(program.report)
    print("wrote", program.save(folder / "llama.vmfb"), "and llama.irpa")
    tokens = model.generate(torch.tensor([[3, 14, 15, 92, 65]]), max_new_tokens=12, do_sample=False, pad_token_id=0)
    print("PyTorch writes", *tokens[0, 5:].tolist())

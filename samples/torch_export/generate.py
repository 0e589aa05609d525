"""Generates tokens with llama.vmfb: numpy and opsplice, no PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import opsplice


def generate(program: opsplice.Program, prompt: list[int], count: int) -> list[int]:
    """The tokens that follow, each the likeliest."""
    logits, *cache = program.run("prefill", np.array([prompt]))
    tokens = [int(logits.argmax())]
    while len(tokens) < count:
        logits, *cache = program.run("decode", np.array([[tokens[-1]]]), *cache)
        tokens.append(int(logits.argmax()))
    return tokens


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    program = opsplice.load(folder / "llama.vmfb")
    print("opsplice writes", *generate(program, [3, 14, 15, 92, 65], 12))
    assert "torch" not in sys.modules

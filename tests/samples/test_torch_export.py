"""The sample of torch.export: what the program writes without PyTorch is what the model writes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
pytest.importorskip("transformers", reason="transformers is not installed (make frontends)")

import torch


def test_a_llama_writes_the_same_tokens_without_pytorch(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = samples / "torch_export"
    monkeypatch.syspath_prepend(str(sample))
    import export

    model = export.make_model()
    program = export.export(model)
    program.save(tmp_path / "llama.vmfb")
    found = Counter((each.pattern, each.function) for each in program.report.replacements)
    assert found["rmsnorm", "prefill"] == found["rmsnorm", "decode"] == 5
    assert found["softmax_rows", "prefill"] == found["softmax_rows", "decode"] == 2

    expected = model.generate(torch.tensor([[3, 14, 15, 92, 65]]), max_new_tokens=12, do_sample=False, pad_token_id=0)
    done = subprocess.run(
        [sys.executable, sample / "generate.py", tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["opsplice", "writes", *map(str, expected[0, 5:].tolist())]
    assert f"opsplice writes {' '.join(done.stdout.split()[2:])}" in (sample / "README.md").read_text(encoding="utf-8")

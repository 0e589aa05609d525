"""What the first call of a BERT through torch.compile takes in a new process, with an empty cache and with a full one.

    python -m benchmarks.warm_start [LAYERS WIDTH]

Processor time of the process (and of compilers that inductor starts), without loading PyTorch and making the model.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SPEC = Path(__file__).parent.parent / "samples" / "transformer" / "transformer.splice"
OPTIONS = {"specs": [str(SPEC)], "flags": ["--iree-llvmcpu-target-cpu=host"]}


def main() -> None:
    layers, width = (*sys.argv[1:3], "4", "256")[:2]
    print(f"load {os.getloadavg()[0]:.1f}; BERT of {layers} layers, {width} wide; seconds of processor time")
    print(f"{'':24}{'first call':>12}{'of that, the backend':>24}")
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("opsplice", "inductor"):
            for cache in ("empty", "full"):
                environment = {**os.environ, "OPSPLICE_CACHE": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
                command = [sys.executable, "-m", "benchmarks.warm_start", "--start", backend, layers, width]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                own = f"{found['own']:24.2f}" if "own" in found else ""
                print(f"{f'{backend}, {cache} cache':24}{found['all']:12.2f}{own}", flush=True)


def start(backend: str, layers: int, width: int) -> None:
    """The first call in this process, as JSON."""
    import torch
    from transformers import BertConfig, BertModel

    import opsplice

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        attn_implementation="eager",
    )
    model, ids = BertModel(config).eval(), torch.randint(0, 1000, (1, 128))
    with torch.no_grad():
        wanted = model(ids).last_hidden_state
        torch.compile(torch.nn.ReLU(), backend="eager")(wanted)  # loads dynamo
        own = 0.0
        if backend == "opsplice":
            module = importlib.import_module("opsplice.torch.backend")
            compile_ = module._compile

            def timed(*arguments):
                nonlocal own
                before = spent()
                compiled = compile_(*arguments)
                own += spent() - before
                return compiled

            vars(module)["_compile"] = timed
        before = spent()
        options = {"options": OPTIONS} if backend == "opsplice" else {}
        found = torch.compile(model, backend=backend, **options)(ids).last_hidden_state
        total = spent() - before
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    print(json.dumps({"all": total, **({"own": own} if backend == "opsplice" else {})}))
    if backend == "opsplice":
        assert opsplice.torch.report().report.replacements


def spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:
        start(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()

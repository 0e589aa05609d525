"""No spec written: what is in a model, what the standard kernels take of it, whether the numbers hold, what it brings.

    python samples/measured/demo.py

The models are the transformer blocks of samples/transformer, with weights from a seed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from opsplice import cli

TRANSFORMER = Path(__file__).parents[1] / "transformer"
sys.path.insert(0, str(TRANSFORMER))
KERNELS = "--spec=opsplice_kernels"
# How each framework's dialect writes a constant.
CONSTANTS = {
    "torch.mlir": "%{name} = torch.vtensor.literal(dense<{bits}> : tensor<{sizes}xf32>) : {kind}\n",
    "jax.mlir": "%{name} = stablehlo.constant dense<{bits}> : {kind}\n",
}
LAYOUTS = {"jax.mlir": "in_out", "torch.mlir": "out_in"}


def main() -> int:
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="opsplice-demo-"))
    os.chdir(folder)  # places of the model are then short
    codes = []
    for name in CONSTANTS:
        Path(name).write_text(with_weights(name))
        codes.append(shown("survey", name, KERNELS))
        page = f"{Path(name).stem}.html"
        codes.append(shown("bench", name, KERNELS, "--verify", "--seconds=0.3", f"--html={page}"))
    print(f"\nin {time.monotonic() - start:.0f} s; the pages are in {folder}")
    return max(codes)


def shown(*command: str) -> int:
    """Run a command of opsplice after saying which."""
    print(f"\n$ opsplice {' '.join(command)}", flush=True)
    return cli.main(command)


def with_weights(name: str) -> str:
    """A block with all its arguments but the first as constants."""
    import block

    text = (TRANSFORMER / name).read_text()
    found = re.search(r"@main\((?P<arguments>.*?)\) -> .*?\{\n", text)
    assert found is not None, "the models have one function"
    first, *others = re.findall(r"%(arg\d+): (\S+?)(?:, |$)", found["arguments"])
    values = block.arguments(LAYOUTS[name])[1:]
    constants = "".join(
        CONSTANTS[name].format(name=each, kind=kind, bits=bits(value), sizes="x".join(map(str, value.shape)))
        for (each, kind), value in zip(others, values, strict=True)
    )
    head = found[0].replace(found["arguments"], f"%{first[0]}: {first[1]}")
    return text.replace(found[0], head + constants)


def bits(value: np.ndarray) -> str:
    """Numbers as MLIR writes them in short."""
    return f'"0x{value.astype("<f4").tobytes().hex()}"'


if __name__ == "__main__":
    sys.exit(main())

"""No spec written: what is in a model, what the standard kernels take of it, whether the numbers hold, what it brings.

    python samples/measured/demo.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from opsplice import cli

SAMPLES = Path(__file__).parents[1]
MODELS = (SAMPLES / "transformer" / "torch.mlir", SAMPLES / "transformer" / "jax.mlir")
KERNELS = "--spec=opsplice_kernels"


def main() -> int:
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="opsplice-demo-"))
    codes = []
    for model in MODELS:
        page = folder / f"{model.stem}.html"
        codes.append(shown("survey", str(model), KERNELS))
        codes.append(shown("bench", str(model), KERNELS, "--verify", "--seconds=0.3", f"--html={page}"))
    print(f"\nin {time.monotonic() - start:.0f} s; the pages are in {folder}")
    return max(codes)


def shown(*command: str) -> int:
    """Run a command of opsplice after saying which."""
    print(f"\n$ opsplice {' '.join(command)}", flush=True)
    return cli.main(command)


if __name__ == "__main__":
    sys.exit(main())

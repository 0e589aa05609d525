"""How long the command line takes to do nothing: `opsplice --help`, against starting Python.

python -m benchmarks.starting
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import header, paired


def main() -> None:
    ours, python = [sys.executable, "-m", "opsplice", "--help"], [sys.executable, "-c", "pass"]
    print(header("starting", "opsplice", "Python"))
    result = paired(
        lambda: subprocess.run(ours, check=True, capture_output=True),
        lambda: subprocess.run(python, check=True, capture_output=True),
        20,
    )
    print(result.row("opsplice --help", 1e-3, "ms"))


if __name__ == "__main__":
    main()

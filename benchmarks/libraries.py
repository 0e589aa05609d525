"""What a library's name costs beside the path of its file: `--spec=acme` among 300 installed packages.

python -m benchmarks.libraries
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import opsplice
from benchmarks.timing import Paired, header, paired
from tests.packages import install

SAMPLE = Path(__file__).parent.parent / "samples" / "library"
_PACKAGES = 300
_ROUNDS = 15


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="opsplice-benchmark-") as name:
        site = Path(name)
        for number in range(_PACKAGES):
            install(site, f"other{number}", {})
        specs = install(site, "tiny_layers", {})
        shutil.copytree(SAMPLE / "tiny_layers/src/tiny_layers/specs", specs, dirs_exist_ok=True)
        model, file = str(SAMPLE / "use" / "model.mlir"), str(specs / "tiny_layers.splice")
        print(header(f"processor time of a library by its name, among {_PACKAGES} packages", "by name", "by path"))
        command = [sys.executable, "-m", "opsplice", "match", model]
        environ = {**os.environ, "PYTHONPATH": name}

        def run(spec: str) -> None:
            subprocess.run([*command, f"--spec={spec}"], check=True, capture_output=True, env=environ)

        _show("match, as commands", paired(lambda: run("tiny_layers"), lambda: run(file), _ROUNDS, clock=_children))
        sys.path.insert(0, name)
        both = (lambda: opsplice.compile(model, "tiny_layers"), lambda: opsplice.compile(model, file))
        _show("compile, in one warm process", paired(*both, _ROUNDS, clock=time.process_time))


def _children() -> float:
    """Processor time of all processes that have ended, which other work on the machine changes little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _show(title: str, result: Paired) -> None:
    more = sorted(a - b for a, b in zip(result.ours, result.theirs, strict=True))
    print(result.row(title, 1e-3, "ms"), f"{more[len(more) // 2] * 1e3:+.1f} ms")


if __name__ == "__main__":
    main()

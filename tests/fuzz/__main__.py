"""`make fuzz`: inputs for each target for a minute, and what came of them.

    python -m tests.fuzz [--seconds 60] [TARGET ...]

Each target runs in a process of its own. An input that was not handled goes to build/fuzz/TARGET, one for each kind of
failure; once that is mended, to tests/fuzz/found/TARGET or into a test of the reader. Exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from tests.fuzz.targets import BUILD, ROOT, TARGETS


def main() -> int:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: {' '.join(names)}")
    options = parser.parse_args()
    if unknown := sorted(set(options.targets) - set(names)):
        parser.error(f"there is no target {', '.join(unknown)}; there are {' '.join(names)}")
    print(f"{'target':12} {'inputs':>9} {'refused':>9} {'failures':>9}", flush=True)
    return max([_run(name, options.seconds) for name in options.targets or names])


def _run(name: str, seconds: int) -> int:
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    with (folder / "log.txt").open("w") as log:
        command = [sys.executable, "-m", "tests.fuzz.campaign", name, str(seconds)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # what has threads does not fork
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        status = subprocess.run(command, cwd=ROOT, env=environment, **streams).returncode
    told = json.loads(result.read_text()) if result.exists() else {"inputs": 0, "refused": 0, "failures": {}}
    print(f"{name:12} {told['inputs']:9} {told['refused']:9} {len(told['failures']):9}", flush=True)
    for failure, file in told["failures"].items():
        print(f"    {failure}: {file}")
    if status:
        print(f"    its process ended with status {status}; its last input and its log are in {folder}")
    return int(status != 0 or bool(told["failures"]))


if __name__ == "__main__":
    sys.exit(main())

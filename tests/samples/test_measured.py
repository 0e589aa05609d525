"""samples/measured, which `make demo` runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_demo_ends_well_and_shows_what_is_replaced_and_that_its_numbers_hold(samples: Path) -> None:
    command = [sys.executable, samples / "measured" / "demo.py", "int8", "--seconds", "0.02"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"matches: [1-9]\d* verified", done.stdout), done.stdout
    assert "FAILED" not in done.stdout
    page = Path(done.stdout.split()[-1]).read_text()
    assert "byte_linear" in page, done.stdout

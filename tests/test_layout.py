"""How large modules and folders are: a module does one job, and a folder is read at a glance."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES = 450
MOST_MODULES = 15


def _modules() -> list[Path]:
    """The modules that git knows, without those of the tests."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the code is not in a git repository")
    return [
        Path(name) for name in listed.stdout.splitlines() if not name.startswith("tests/") and (ROOT / name).exists()
    ]


def test_no_module_is_longer_than_one_job() -> None:
    lengths = {str(module): len((ROOT / module).read_text().splitlines()) for module in _modules()}
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}


def test_no_folder_has_more_modules_than_one_sees() -> None:
    counts = Counter(str(module.parent) for module in _modules() if module.name not in ("__init__.py", "__main__.py"))
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}

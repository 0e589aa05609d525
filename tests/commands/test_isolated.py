"""Work of commands in child processes is named by text, which no type checker reads."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import opsplice.commands
from opsplice.commands.shared import isolated

FOLDER = Path(opsplice.commands.__path__[0])
NAMED = sorted({name for file in FOLDER.rglob("*.py") for name in re.findall(r'"([\w.]+:\w+)"', file.read_text())})


def test_there_is_work_for_children() -> None:
    assert len(NAMED) > 8


@pytest.mark.parametrize("work", NAMED)
def test_each_function_is_where_its_name_says(work: str) -> None:
    module, _, name = work.partition(":")
    assert callable(getattr(import_module(module), name))


def test_what_a_child_makes_comes_back() -> None:
    assert isolated.call("os.path:join", "a", "b") == "a/b"

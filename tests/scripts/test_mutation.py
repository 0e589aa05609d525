"""Tests of `make mutation`: what it changes is there."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.mutation import mutations

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_each_module_of_the_makefile_has_something_to_change():
    (names,) = re.findall(r"^MUTATED \?= (.+)$", MAKEFILE.read_text(), re.MULTILINE)
    assert all(mutations(name) for name in names.split())

"""The library as a package: its name and its text."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import opsplice
from opsplice.spec_lang.formatting import formatter

PROJECT = Path(__file__).parents[2] / "kernels"
PACKAGE = PROJECT / "opsplice_kernels"
SPECS = sorted(PACKAGE.glob("*.splice"))


def test_the_package_names_its_folder():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["opsplice.libraries"] == {PACKAGE.name: PACKAGE.name}
    main = (PACKAGE / f"{PACKAGE.name}.splice").read_text()
    assert all(f'import "{spec.name}"' in main for spec in SPECS if spec.stem not in (PACKAGE.name, "gpu"))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_specs_are_formatted_and_have_no_warnings(spec):
    text = spec.read_text()
    assert formatter.format(text, spec) == text
    assert not opsplice.lint(spec)

"""What the documentation shows of `opsplice explain` is what it prints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.command_line import opsplice

ROOT = Path(__file__).parents[2]


def explain(folder: Path, *arguments: str) -> str:
    return opsplice("explain", "model.mlir", *arguments, cwd=folder, env={"COLUMNS": "100"}, check=True).stdout


def block(text: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    (tmp_path / "model.mlir").write_text(block(text, "mlir"))
    (tmp_path / "rules.splice").write_text(block(text, "splice"))
    assert block(text, "console") == explain(tmp_path, "--spec=rules.splice")


def test_the_kinds_of_the_documentation_are_all() -> None:
    from opsplice.matchers.search.failures import Kind

    table = (ROOT / "docs" / "explain.md").read_text().partition("| kind |")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [kind for row in rows for kind in re.findall(r"`([a-z ]+)`", row)]
    assert sorted(named) == sorted(k for k in Kind if k is not Kind.OTHER)


def test_the_example_of_the_readme(samples: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(samples / "mul_abs_negate", tmp_path / "sample"))
    spec = folder / "replace.splice"
    spec.write_text(spec.read_text().replace("mulf", "divf"))
    command = "$ opsplice explain model.mlir --spec=replace.splice --at=model.mlir:6\n"
    shown = (ROOT / "README.md").read_text().partition(command)[2].partition("```")[0]
    assert shown == explain(folder, "--spec=replace.splice", "--at=model.mlir:6")

"""How the code lies: a module does one job, a folder is read at a glance, and imports run one way."""

from __future__ import annotations

import re
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


# Names that stand twice: a command or a benchmark and what it is about, and what several frontends or targets have.
SAME_NAMES = {
    *("doctor", "equalities", "export", "keys", "libraries", "lint", "match", "packages", "views"),
    *("backend", "call", "explaining", "importing", "quantized"),
}


def test_no_two_modules_have_one_name() -> None:
    counts = Counter(module.stem for module in _modules() if module.parts[0] != "samples")
    assert {name for name, count in counts.items() if count > 1} - {"__init__", "__main__"} == SAME_NAMES


# What each package may import of the others; all may import `opsplice.common`.
COMMON = "opsplice/common"
IMPORTS = {
    COMMON: set[str](),
    "spec_lang": {"spec_lang"},
    "matchers": {"matchers", "spec_lang"},
    "targets": {"targets"},
    "rewrites": {"rewrites", "matchers", "spec_lang", "targets"},
}
IMPORTED = re.compile(r"^ *(?:from|import) opsplice(?:\.| import )(\w+)", re.MULTILINE)


def _package(module: Path) -> str:
    return COMMON if str(module.parent) == COMMON else module.parts[0]


def test_imports_run_one_way() -> None:
    against = {
        f"{module}: opsplice.{name}"
        for module in _modules()
        for name in IMPORTED.findall((ROOT / module).read_text())
        if name not in IMPORTS.get(_package(module), {name}) | {"common"}
    }
    assert against == set()


@pytest.mark.parametrize(("below", "above"), [("matchers/terms", "matchers.search"), ("opsplice/reports", "commands")])
def test_what_others_build_on_does_not_know_them(below: str, above: str) -> None:
    modules = [module for module in _modules() if str(module).startswith(f"{below}/")]
    assert [str(each) for each in modules if f"from opsplice.{above}" in (ROOT / each).read_text()] == []


@pytest.mark.parametrize("module", ["matchers/terms/terms.py", "matchers/patterns/nodes.py"])
def test_terms_and_nodes_say_what_they_are_made_of(module: str) -> None:
    assert re.findall(r".*(?:[:[|,] ?|-> )Any\b.*", (ROOT / module).read_text()) == []

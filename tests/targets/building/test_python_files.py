"""Files of Python that users write: what they import from their own folder, and what that leaves alone."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import pytest

from opsplice.targets.build.python_files import load


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "main.py"


IMPORTS = {
    "a module": "import helper\nfound = helper.value",
    "another name": "import helper as h\nfound = h.value",
    "a name of it": "from helper import value as found",
    "all names of it": "from helper import *\nfound = value",
    "a module of a package": "import pack.inner\nfound = pack.inner.value",
    "a module of a package by another name": "import pack.inner as p\nfound = p.value",
    "from a package": "from pack import inner\nfound = inner.value",
    "what imports in its own turn": "from chain import found",
    "in a package, relatively and beside": "from pack.chain import found",
    "where it is called": "def f():\n  import helper\n  return helper.value\nfound = f()",
    "with the function": "found = __import__('helper', fromlist=['value']).value",
}


@pytest.mark.parametrize("case", IMPORTS)
def test_what_stands_beside_a_file_is_imported(case: str, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        main=IMPORTS[case],
        helper="value = 7",
        chain="import helper\nfound = helper.value",
        pack__in____init__="",
        pack__in__inner="value = 7",
        pack__in__chain="from .inner import value\nimport helper\nfound = helper.value + value - 7",
    )
    known, paths = set(sys.modules), list(sys.path)
    assert load("opsplice_test_main", path).found == 7
    assert sys.path == paths
    assert {n for n in set(sys.modules) - known if not n.startswith("opsplice_")} == set()
    assert not list(tmp_path.rglob("*.pyc"))


def test_modules_of_one_name_in_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazily = "def found():\n  import helper\n  return helper.value"
    own = written(tmp_path / "process", main=lazily, helper="value = 'of the process'")
    first = written(tmp_path / "first", main=lazily, helper="value = 'first'")
    second = written(tmp_path / "second", main=lazily, helper="value = 'second'")
    monkeypatch.syspath_prepend(str(own.parent))
    modules = load("opsplice_test_first", first), load("opsplice_test_second", second)
    import helper  # type: ignore[import-not-found]

    assert helper.value == "of the process"
    assert [module.found() for module in modules] == ["first", "second"]
    del sys.modules["helper"]


def test_a_file_that_imports_what_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("import colorsys\nfound = colorsys.rgb_to_hsv")
    assert callable(load("opsplice_test_main", tmp_path / "colorsys.py").found)


def test_a_file_that_is_loaded_again_imports_anew(tmp_path: Path) -> None:
    path = written(tmp_path, main="from helper import value", helper="value = 1")
    assert load("opsplice_test_main", path).value == 1
    (tmp_path / "helper.py").write_text("value = 2")
    assert load("opsplice_test_main", path).value == 2


def test_what_is_nowhere_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, main="import helper", helper="import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        load("opsplice_test_failing", path)
    assert "opsplice_test_failing" not in sys.modules
    assert builtins.__import__ is __import__

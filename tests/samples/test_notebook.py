"""The notebook runs, and shows what is checked in; with OPSPLICE_NOTEBOOK=write what it shows is written into it."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")


def shown(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a notebook shows of a cell: the value of its last line, where it is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return []
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    texts = {"text/html": value._repr_html_(), "text/plain": str(value)}
    data = {kind: text.splitlines(keepends=True) for kind, text in texts.items()}
    return [{"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}]


def test_the_notebook_shows_what_is_checked_in(
    samples: Path, monkeypatch: pytest.MonkeyPatch, entered: Callable[[Path], None]
) -> None:
    path = samples / "notebook" / "report.ipynb"
    monkeypatch.chdir(path.parent)
    entered(path.parent)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    writes = os.environ.get("OPSPLICE_NOTEBOOK") == "write"
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = shown("".join(cell["source"]), names)
        if writes:
            cell["outputs"] = outputs
        assert cell["outputs"] == outputs
    if writes:
        path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    report = "".join(notebook["cells"][3]["outputs"][0]["data"]["text/html"])
    assert "model.py:18" in report
    assert "linear_bias_nk from linear.c" in report
    assert path.stat().st_size < 100_000

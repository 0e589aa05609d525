"""Specs applied to a module: what a compile's report says of rules that match nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opsplice
from opsplice.common.store import Store
from opsplice.compiling import outcomes
from opsplice.compiling.splice import Splicer
from opsplice.spec_lang.loading.loader import load_text

MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.absf %x : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
COUNT = outcomes.MOST_NEAR + 1
# Each comes near at the `exp`: it holds, and what it is made of does not.
FEW, RULES = (
    "\n".join(
        f"pattern p{i}(x: tensor<n x f32>) {{ exp(absf(addf(x, {i + 1}.0))) }}\nannotate p{i} with {{found = {i}}}"
        for i in range(count)
    )
    for count in (COUNT - 1, COUNT)
)
MATCHING = "pattern matching(x: tensor<n x f32>) { exp(absf(x)) }\nannotate matching with {found = -1}\n"


@pytest.fixture(scope="module")
def context() -> Any:
    from iree.compiler.api import Session

    return Session().context


def looked(context: Any, spec: str, *, preview: bool = False) -> list[tuple[bool, int]]:
    """For each rule that matches nothing, whether near misses were looked for, and how many there are."""
    from iree.compiler import ir

    module = ir.Module.parse(MODEL, context=context)
    splicer = Splicer(Store(), targets=())
    report = splicer.preview(module, load_text(spec)) if preview else splicer.apply(module, load_text(spec))[0]
    return [(rule.looked, len(rule.nearest)) for rule in report.unmatched]


def test_near_misses_of_few_rules_are_looked_for_where_others_match(context: Any) -> None:
    assert looked(context, MATCHING + FEW) == [(True, 1)] * (COUNT - 1)
    assert looked(context, MATCHING + RULES) == [(False, 0)] * COUNT


def test_near_misses_of_all_rules_are_looked_for_where_none_matches(context: Any) -> None:
    assert looked(context, RULES) == [(True, 1)] * COUNT


def test_near_misses_of_rules_of_libraries_are_looked_for_only_where_none_matches(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_library", lambda _spec, _rule: "some_library")
    assert looked(context, MATCHING + FEW) == [(False, 0)] * (COUNT - 1)
    assert looked(context, FEW) == [(True, 1)] * (COUNT - 1)


def test_a_preview_looks_for_near_misses_of_all_rules(context: Any) -> None:
    assert looked(context, MATCHING + RULES, preview=True) == [(True, 1)] * COUNT


def test_a_match_does_without_files_that_are_not_there(tmp_path: Path) -> None:
    spec = """
kernel k(x: f32[n]) -> f32[n] { cpu "to_be_written.c" }
pattern p(x: tensor<n x f32>) { exp(absf(x)) }
replace p with k(x)
"""
    (tmp_path / "k.splice").write_text(spec)
    report = opsplice.match(MODEL, [tmp_path / "k.splice"])
    assert [each.kernel for each in report.replacements] == ["k"]
    (warning,) = report.warnings
    assert warning.startswith(f"there is no file {tmp_path / 'to_be_written.c'} yet, which the kernel at ")
    survey = opsplice.survey(MODEL, [tmp_path / "k.splice"], timed=False)
    assert [each.kernels for each in survey.items] == [("k",)]

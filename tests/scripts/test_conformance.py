"""The frame of `make conformance`: each end of a case is a row, whatever happens to the process that runs it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from opsplice.spec_lang.loading import loader
from scripts.conformance import Case, Outcome, WrongError, __main__, check_close, results, running

SUITE = "tests.scripts.ending_cases"


def run(names: list[str], variants: tuple[str, ...] = ("plain",)) -> dict[running.Task, Outcome]:
    found: dict[running.Task, Outcome] = {}
    tasks = [(name, variant) for name in names for variant in variants]
    running.run_tasks(SUITE, tasks, found.__setitem__, jobs=1, seconds=1)
    assert list(found) == sorted(tasks, key=lambda task: task[1])
    return found


def test_every_end_of_a_case_is_an_outcome_and_the_next_one_runs() -> None:
    names = ["passes", "prepared", "wrong", "illegal", "bug", "dies", "skipped", "sleeps", "unchanged", "passes"]
    found = run(list(dict.fromkeys(names)))
    assert {name: (outcome.word, outcome.reason) for (name, _), outcome in found.items()} == {
        "passes": ("passes", ""),
        "prepared": ("passes", ""),
        "wrong": ("wrong", "2 instead of 1"),
        "illegal": ("not compiled", "IREE does not lower torch.aten.x"),
        "bug": ("failed", "KeyError: 'x'"),
        "dies": ("crashed", "the isolated process died of SIGABRT"),
        "skipped": ("skipped", "not today"),
        "unchanged": ("as plain", ""),
        "sleeps": ("too long", "it takes longer than 1 s"),
    }


@pytest.mark.parametrize("end", ["crash", "bug"])
def test_what_fails_while_cases_are_prepared_costs_only_that(end: str) -> None:
    found = run([f"{end} while preparing", "passes"])
    assert {outcome.word for outcome in found.values()} == {"passes"}


def test_a_page_has_the_counts_and_what_does_not_pass_and_a_break_by_rules_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(running.SUITES, "ends", SUITE)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(__main__, "PAGE", tmp_path / "conformance.md")
    cases = {"passes": ("passes", "as plain"), "illegal": ("not compiled", "not compiled"), "w": ("passes", "wrong")}
    monkeypatch.setattr(__main__, "case_names", lambda _suite: tuple(cases))
    asked: list[running.Task] = []

    def run_tasks(_suite: str, tasks: list[running.Task], on_outcome, **_options: int) -> None:
        asked.extend(tasks)
        for name, variant in tasks:
            word = cases[name][variant == "rules"]
            fails = word not in ("passes", "as plain")
            on_outcome((name, variant), Outcome(word, "because [x]" * fails, 2 * (fails and variant == "rules")))

    monkeypatch.setattr(__main__, "run_tasks", run_tasks)
    assert __main__.main(["ends"]) == 1
    said = capsys.readouterr().out
    assert "ends: w passes without the rules, and with them: wrong: because [x]" in said
    page = (tmp_path / "conformance.md").read_text()
    assert "| IREE alone | 3 | 2 | 0 | 1 |  |\n| with rules | 3 | 1 | 1 | 1 | 2 |" in page
    assert "### Wrong numbers\n\n- `w` (with rules)" in page
    assert "### Not compiled\n\n- because \\[x\\]: `illegal`\n<!-- end -->" in page
    assert f"Run on {date.today()} with numpy {np.__version__}" in page
    assert "| [Every end](#every-end) | 3 | 2 | 3 | 1 | 2 |\n\nOther projects" in page

    # What was run is not run again, and another suite's section stays.
    assert len(asked) == 6
    (tmp_path / "conformance.md").write_text(page + "\n<!-- gone -->\nold\n<!-- end -->\n")
    assert __main__.main(["ends"]) == 1
    assert len(asked) == 6
    assert (tmp_path / "conformance.md").read_text() == page
    assert __main__.main(["ends", "--only=^w$", "--fresh"]) == 1
    assert len(asked) == 8
    assert (tmp_path / "conformance.md").read_text() == page
    assert __main__.main(["ends", "--only=^passes$", "--page"]) == 0
    assert len(asked) == 10
    page = (tmp_path / "conformance.md").read_text()
    assert " 2 of 3 cases were run on IREE alone. 2 of 3 cases were run with rules.\n\n|  | cases | pass |" in page

    # Of what was run, what failed is run again, here on IREE alone.
    cases["illegal"] = ("passes", "as plain")
    assert __main__.main(["ends", "--variant=plain"]) == 1
    assert asked[10:] == [("illegal", "plain")]
    assert __main__.main(["ends", "--failed", "--only=^w$", "--variant=rules"]) == 1
    assert asked[11:] == [("w", "rules")]
    # What failed and was not run again is still known.
    capsys.readouterr()
    assert __main__.main(["ends", "--failed", "--only=^passes$", "--page"]) == 0
    assert len(asked) == 12
    page = (tmp_path / "conformance.md").read_text()
    assert "### Wrong numbers\n\n- `w` (with rules)" in page


def test_results_of_other_versions_and_a_torn_line_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    kept = results.Results("s", ("numpy",))
    kept.add(("a", "plain"), Outcome("wrong", "why", 1))
    with kept.path.open("a") as file:
        file.write('["b", "pl')
    again = results.Results("s", ("numpy",))
    assert again.outcomes == {("a", "plain"): Outcome("wrong", "why", 1)}
    again.add(("b", "plain"), Outcome("passes"))
    assert len(results.Results("s", ("numpy",)).outcomes) == 2
    kept.path.write_text(kept.path.read_text().replace(kept.day, "1999-12-31"))
    assert results.Results("s", ("numpy",)).day == "1999-12-31"
    monkeypatch.setattr(results.metadata, "version", lambda _name: "0.0")
    both = {("a", "plain"): Outcome("wrong", "why", 1), ("b", "plain"): Outcome("passes")}
    assert results.Results("s", ("numpy",), again=[("b", "plain"), ("c", "plain")]).outcomes == both
    assert results.Results("s", ("numpy",), again=list(both)).outcomes == {("b", "plain"): Outcome("passes")}
    assert results.Results("s", ("numpy",)).outcomes == {("b", "plain"): Outcome("passes")}
    monkeypatch.setattr(results.metadata, "version", lambda _name: "1.0")
    assert results.Results("s", ("numpy",)).outcomes == {}


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (np.float32([1, 2]), np.float32([1, 3]), "1 of 2 elements differ, such as 2.0 instead of 3.0"),
        (np.float32([1, np.nan]), np.float32([1, 0]), "1 of 2 elements differ, such as nan instead of 0.0"),
        (np.float32([1]), np.float64([1]), "float32[1] instead of float64[1]"),
        (np.float32([[1]]), np.float32([1]), "float32[1, 1] instead of float32[1]"),
        (np.array([True]), np.array([False]), "1 of 1 elements differ, such as True instead of False"),
    ],
)
def test_what_differs_is_said(found: np.ndarray, wanted: np.ndarray, said: str) -> None:
    with pytest.raises(WrongError) as failure:
        check_close(found, wanted, 1e-5, 1e-5)
    assert str(failure.value) == said
    check_close(wanted, wanted, 0, 0)


def test_an_exception_around_one_of_ours_has_its_reason() -> None:
    from opsplice.common.errors import OpspliceError

    def run(_specs: object) -> int:
        try:
            raise OpspliceError("m does not compile", details="a.py:1:1: error: bad tensor<2x!t<x>> here\nmore")
        except OpspliceError as error:
            raise RuntimeError("wrapped") from error

    assert running.attempt(Case("x", run), ()) == Outcome("not compiled", "bad tensor here")


def test_the_rules_say_what_the_library_has() -> None:
    for path in running.VARIANTS["rules"]:
        assert not loader.load(str(path)).warnings

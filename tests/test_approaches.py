"""The README's table of approaches is one that tests can make."""

from __future__ import annotations

from pathlib import Path

from tests.approaches import APPROACHES, BACKENDS, WORDS, Cells, _read


def test_the_strongest_word_counts_and_a_failure_empties_the_cell():
    cells = Cells()
    for word in ("builds", "runs", "refused"):
        cells.add("static dispatch", "CPU", word, outcome="passed")
    assert cells.word("static dispatch", "CPU") == "runs"
    cells.add("static dispatch", "CPU", "runs", outcome="failed")
    assert cells.word("static dispatch", "CPU") == ""


def test_what_is_written_is_read_and_compared():
    cells = Cells()
    cells.add("command", "CUDA", "refused", outcome="passed")
    readme = cells.written_into("before\n<!-- approaches -->\nold\n<!-- end -->\nafter\n")
    assert readme.startswith("before\n<!-- approaches -->\n|  | CPU |")
    assert readme.endswith("|\n<!-- end -->\nafter\n")
    assert cells.contradictions(readme) == []
    cells.add("command", "CUDA", "builds", outcome="passed")
    assert cells.contradictions(readme) == ["command on CUDA is 'refused', and the tests show 'builds' (make table)"]


def test_what_could_not_run_here_keeps_what_the_readme_says():
    cells = Cells()
    cells.add("command", "CUDA", "runs", outcome="passed")
    readme = cells.written_into("<!-- approaches -->\n<!-- end -->\n")
    without = Cells()
    without.add("command", "CUDA", "builds", outcome="passed")
    assert without.contradictions(readme) == ["command on CUDA is 'runs', and the tests show 'builds' (make table)"]
    without.add("command", "CUDA", "runs", outcome="skipped")
    assert without.contradictions(readme) == []
    assert without.written_into(readme) == readme
    without.add("command", "CUDA", "builds", outcome="failed")
    assert without.word("command", "CUDA", "runs") == ""


def test_the_readme_has_the_whole_table():
    said = _read((Path(__file__).parent.parent / "README.md").read_text())
    assert set(said) == {(approach, backend) for approach in APPROACHES for backend in BACKENDS}
    assert set(said.values()) <= {"", *WORDS}

"""The README's table of approaches is one that tests can make."""

from __future__ import annotations

from pathlib import Path

from tests.approaches import APPROACHES, BACKENDS, WORDS, Cells, _read


def test_the_strongest_word_counts_and_a_failure_empties_the_cell():
    cells = Cells()
    for word in ("builds", "runs", "refused"):
        cells.add("static dispatch", "CPU", word, passed=True)
    assert cells.word("static dispatch", "CPU") == "runs"
    cells.add("static dispatch", "CPU", "runs", passed=False)
    assert cells.word("static dispatch", "CPU") == ""


def test_what_is_written_is_read_and_compared():
    cells = Cells()
    cells.add("command", "CUDA", "refused", passed=True)
    readme = cells.written_into("before\n<!-- approaches -->\nold\n<!-- end -->\nafter\n")
    assert readme.startswith("before\n<!-- approaches -->\n|  | CPU |")
    assert readme.endswith("|\n<!-- end -->\nafter\n")
    assert cells.contradictions(readme) == []
    cells.add("command", "CUDA", "builds", passed=True)
    assert cells.contradictions(readme) == ["command on CUDA is 'refused', and the tests show 'builds' (make table)"]


def test_the_readme_has_the_whole_table():
    said = _read((Path(__file__).parent.parent / "README.md").read_text())
    assert set(said) == {(approach, backend) for approach in APPROACHES for backend in BACKENDS}
    assert set(said.values()) <= {"", *WORDS}

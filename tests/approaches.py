"""The table of approaches and backends in the README, as the tests that ran show it.

A test says with `@pytest.mark.cell("static dispatch", "CUDA", "builds")` what its passing shows. Where a cell has tests
of several kinds, all must pass, and the strongest word counts. A cell without a test is empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

APPROACHES = (
    "static function",
    "dynamic function",
    "static dispatch",
    "dynamic dispatch",
    "command",
    "inline IR",
)
BACKENDS = ("CPU", "CUDA", "ROCm", "SPIR-V", "Metal", "WGSL")
# From the weakest to the strongest.
WORDS = ("refused", "builds", "runs")
_TABLE = re.compile(r"(<!-- approaches -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass
class Cells:
    """What tests have shown: for each approach and backend the words of those that passed, and whether one failed."""

    shown: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)

    def add(self, approach: str, backend: str, word: str, *, passed: bool) -> None:
        assert approach in APPROACHES, approach
        assert backend in BACKENDS, backend
        assert word in WORDS, word
        if passed:
            self.shown.setdefault((approach, backend), set()).add(word)
        else:
            self.failed.add((approach, backend))

    def word(self, approach: str, backend: str) -> str:
        cell = (approach, backend)
        return "" if cell in self.failed else max(self.shown.get(cell, {""}), key=("", *WORDS).index)

    def text(self) -> str:
        rows = [("", *BACKENDS), ("---",) * (len(BACKENDS) + 1)]
        rows += [(approach, *(self.word(approach, backend) for backend in BACKENDS)) for approach in APPROACHES]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def written_into(self, readme: str) -> str:
        """The README with the table that these cells make."""
        return _TABLE.sub(lambda found: f"{found[1]}{self.text()}{found[3]}", readme)

    def contradictions(self, readme: str) -> list[str]:
        """What the README says of cells that were tested, and the tests do not show."""
        said = _read(readme)
        lines = []
        for approach, backend in sorted({*self.shown, *self.failed}):
            word, there = self.word(approach, backend), said.get((approach, backend), "")
            if word != there:
                lines.append(f"{approach} on {backend} is '{there}', and the tests show '{word}' (make table)")
        return lines


def _read(readme: str) -> dict[tuple[str, str], str]:
    found = _TABLE.search(readme)
    if found is None:
        return {}
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[2].splitlines()]
    if len(rows) < 3:
        return {}
    return {(row[0], name): word for row in rows[2:] for name, word in zip(rows[0][1:], row[1:], strict=True)}

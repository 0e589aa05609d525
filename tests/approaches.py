"""The table of approaches and backends in the README, as the tests that ran show it.

A test says with `@pytest.mark.cell("static dispatch", "CUDA", "builds")` what its passing shows. Where a cell has tests
of several kinds, all must pass, and the strongest word counts. A cell without a test is empty. Where a test was
skipped, because its device is not here, the README keeps what it says if that is the test's word.
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
    """What tests have shown: for each approach and backend the words of those that passed, and whether one failed.

    skipped: the words of tests that could not run here.
    """

    shown: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    skipped: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)

    def add(self, approach: str, backend: str, word: str, *, outcome: str) -> None:
        """outcome: "passed", "failed" or "skipped", as pytest says."""
        assert approach in APPROACHES, approach
        assert backend in BACKENDS, backend
        assert word in WORDS, word
        if outcome == "failed":
            self.failed.add((approach, backend))
        else:
            words = self.shown if outcome == "passed" else self.skipped
            words.setdefault((approach, backend), set()).add(word)

    def word(self, approach: str, backend: str, said: str = "") -> str:
        """said: what the README says there."""
        cell = (approach, backend)
        if cell in self.failed:
            return ""
        kept = {said} & self.skipped.get(cell, set())
        return max({"", *self.shown.get(cell, ()), *kept}, key=("", *WORDS).index)

    def text(self, said: dict[tuple[str, str], str]) -> str:
        rows = [("", *BACKENDS), ("---",) * (len(BACKENDS) + 1)]
        for approach in APPROACHES:
            words = (self.word(approach, backend, said.get((approach, backend), "")) for backend in BACKENDS)
            rows.append((approach, *words))
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def written_into(self, readme: str) -> str:
        """The README with the table that these cells make."""
        text = self.text(_read(readme))
        return _TABLE.sub(lambda found: f"{found[1]}{text}{found[3]}", readme)

    def contradictions(self, readme: str) -> list[str]:
        """What the README says of cells that were tested, and the tests do not show."""
        said = _read(readme)
        lines = []
        for approach, backend in sorted({*self.shown, *self.failed}):
            there = said.get((approach, backend), "")
            word = self.word(approach, backend, there)
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

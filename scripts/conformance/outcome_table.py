"""What docs/conformance.md says of a suite: how many cases pass, and what does not, by reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.conformance import Outcome
from scripts.conformance.results import versions
from scripts.conformance.running import Task

Outcomes = Mapping[Task, Outcome]

HEAD = """# Conformance

After this page you know which tests of other projects pass through opsplice, with kernels and without.

```
make conformance                        # all suites; it writes this page
make conformance SUITES="torch onnx"
```
"""
_EXPLAINED = """Other projects wrote these tests. Each case runs on IREE alone, and with
[rules](../scripts/conformance/rules.splice) that call kernels in plain C for patterns of `opsplice:nn`. Results are
compared with the framework's own. "Replaced" counts the cases in which a rule replaced something. A program that no
rule matches is the same with the rules, and is not run again. A case that passes on IREE alone and not with the rules
makes the run fail.
"""
_ROWS = {"plain": "IREE alone", "rules": "with rules"}
_COLUMNS = {
    "passes": "pass",
    "wrong": "wrong numbers",
    "not compiled": "not compiled",
    "crashed": "compiler crashed",
    "too long": "too long",
    "failed": "other exception",
}


def worse(outcomes: Outcomes) -> dict[str, Outcome]:
    """The cases that pass on IREE alone and not with the rules."""
    return {
        name: outcome
        for (name, variant), outcome in outcomes.items()
        if variant == "rules" and outcome.word != "passes" and outcomes[name, "plain"].word == "passes"
    }


def summary(outcomes: Outcomes) -> str:
    """The table of counts, in Markdown."""
    shown = [word for word in _COLUMNS if any(outcome.word == word for outcome in outcomes.values())]
    heads = ["", "cases", *(_COLUMNS[word] for word in shown), "replaced"]
    rows = []
    for variant, title in _ROWS.items():
        ended = [o for (_, of), o in outcomes.items() if of == variant and o.word != "skipped"]
        counts = [len(ended), *(sum(o.word == word for o in ended) for word in shown)]
        replaced = sum(o.replaced > 0 for o in ended) if variant == "rules" else ""
        rows.append([title, *counts, replaced])
    return "\n".join(_row(cells) for cells in [heads, ["---"] * len(heads), *rows])


def failures(outcomes: Outcomes) -> str:
    """What does not pass, grouped by how it ended and why."""
    parts = []
    for word, title in (*_COLUMNS.items(), ("skipped", "not run")):
        of_word = {task: o for task, o in outcomes.items() if o.word == word}
        if word == "passes" or not of_word:
            continue
        parts += ["", f"### {title.capitalize()}", "", *_by_reason(of_word, outcomes)]
    return "\n".join(parts)


def _by_reason(of_word: Outcomes, outcomes: Outcomes) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (name, variant), outcome in of_word.items():
        other = outcomes.get((name, "rules" if variant == "plain" else "plain"))
        same = other is None or other.word == outcome.word
        if same and variant == "rules":
            continue  # said of IREE alone
        # Numbers that are wrong differ from case to case.
        reason = "" if outcome.word == "wrong" else outcome.reason
        groups[reason, "" if same else f" ({_ROWS[variant]})"].append(name)
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [f"- {f'{_escaped(reason)}: ' if reason else ''}{_names(names)}{only}" for (reason, only), names in ranked]


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def section(suite: str, module: Any, names: Sequence[str], outcomes: Outcomes, day: str) -> str:
    """What the page says of a suite with cases of these names, of those that ran to their end from a day on."""
    outcomes = {task: outcomes[task] for variant in _ROWS for name in names if (task := (name, variant)) in outcomes}
    used = ", ".join(f"{name} {version}" for name, version in versions(module.PACKAGES).items())
    ran = {title: sum(of == variant for _, of in outcomes) for variant, title in _ROWS.items()}
    part = "".join(
        f" {count} of {len(names)} cases were run {'on ' * (title == _ROWS['plain'])}{title}."
        for title, count in ran.items()
        if count < len(names)
    )
    parts = [
        f"## {module.TITLE}",
        "",
        module.ABOUT,
        "",
        f"Run on {day} with {used}.{part}",
        "",
        summary(outcomes),
        failures(outcomes),
    ]
    return f"<!-- {suite} -->\n" + "\n".join(parts).rstrip() + "\n<!-- end -->\n"


def written_into(page: str, suite: str, text: str, suites: Iterable[str]) -> str:
    """The page with a suite's section made anew, the sections in the order of the suites."""
    sections = {name: match[0] for name in suites if (match := _section_of(name).search(page))} | {suite: text}
    kept = [sections[name] for name in suites if name in sections]
    return "\n".join([HEAD, _results(kept), _EXPLAINED, *kept])


def _results(sections: Iterable[str]) -> str:
    """A row for each suite, of what its section counts."""
    heads = ["tests", "cases", "pass on IREE alone", "cases with rules", "pass with rules", "replaced"]
    rows = []
    for text in sections:
        title = re.findall(r"^## (.*)$", text, re.MULTILINE)[0]
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        names, _, *counts = (_cells(line) for line in text.splitlines() if line.startswith("|"))
        plain, ruled = (dict(zip(names, cells, strict=True)) for cells in counts)
        cells = [plain["cases"], plain["pass"], ruled["cases"], ruled["pass"], ruled["replaced"]]
        rows.append([f"[{title}](#{anchor})", *cells])
    return "\n".join(_row(cells) for cells in [heads, ["---"] * len(heads), *rows]) + "\n"


def _section_of(suite: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {suite} -->\n.*?\n<!-- end -->\n", re.DOTALL)


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>`|\\\[\]])", r"\\\1", text)

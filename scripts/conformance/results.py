"""The outcomes of a suite, kept in a file while it runs, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable
from datetime import date
from importlib import metadata
from pathlib import Path

from opsplice.common.store import key_of
from scripts.conformance import Outcome
from scripts.conformance.running import Task

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "conformance"
IREE = ("iree-base-compiler",)


def versions(packages: Iterable[str]) -> dict[str, str]:
    return {name: metadata.version(name) for name in (*packages, *IREE)}


class Results:
    """Outcomes by task. What other versions, or other code, left in the file does not count.

    again: tasks of which what did not pass is to run again; all else counts, whatever code it ran with. day: when the
    first of them was found.
    """

    def __init__(
        self, suite: str, packages: Iterable[str], *, fresh: bool = False, again: Collection[Task] | None = None
    ) -> None:
        self.path = FOLDER / f"{suite}.jsonl"
        self.outcomes: dict[Task, Outcome] = {}
        self.day = date.today().isoformat()
        self._key = _key(packages)
        if fresh or not self._read(again):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"key": self._key, "day": self.day}) + "\n", encoding="utf-8")

    def _read(self, again: Collection[Task] | None) -> bool:
        if not self.path.is_file():
            return False
        head, *lines = self.path.read_text(encoding="utf-8").split("\n")
        known = json.loads(head)
        if known.get("key") != self._key and again is None:
            return False
        self.day = known["day"]
        # The last line is empty, or what a run that was killed had begun to write.
        for line in lines[:-1]:
            name, variant, outcome = json.loads(line)
            self.outcomes[name, variant] = Outcome(**outcome)
        for task in again or ():
            if task in self.outcomes and self.outcomes[task].word not in ("passes", "skipped", "as plain"):
                del self.outcomes[task]
        kept = [json.dumps([*task, dataclasses.asdict(outcome)]) for task, outcome in self.outcomes.items()]
        head = json.dumps({"key": self._key, "day": self.day})
        self.path.write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
        return True

    def resolved(self) -> dict[Task, Outcome]:
        """The outcomes, those of programs that no rule changed taken from the same program without rules."""
        as_plain = {
            task: self.outcomes.get((task[0], "plain")) for task, o in self.outcomes.items() if o.word == "as plain"
        }
        return {task: o for task, o in (self.outcomes | as_plain).items() if o is not None}

    def add(self, task: Task, outcome: Outcome) -> None:
        self.outcomes[task] = outcome
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*task, dataclasses.asdict(outcome)]) + "\n")


def _key(packages: Iterable[str]) -> str:
    folders = ("opsplice", "spec_lang", "matchers", "rewrites", "targets", "scripts/conformance")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    sources = [path.read_bytes() for path in files if path.is_file() and path.suffix in (".py", ".splice", ".c", ".ll")]
    return key_of(json.dumps(versions(packages)), *sources)

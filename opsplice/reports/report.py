"""What was replaced, what was left, and why: plain data that pickles and turns into JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["replaced", "annotated", "taken", "kept", "lost", "none"]

# A dim's size: a number, None when only known at run time, a list for a pack.
DimSize = int | list[int | None] | None


@dataclass(frozen=True)
class PackageUse:
    """What a kernel came with: an installed library, or a package of a registry.

    digest: of the package's index; key: the id of the key that signed it. "" where there is none.
    """

    name: str
    version: str = ""
    digest: str = ""
    key: str = ""


@dataclass(frozen=True)
class ArtifactUse:
    """The file that a kernel's code comes from, for one target of the program.

    source: the file that the spec names; path: what is linked; built: False if it was in the store already. What a
    plugin has at run time, and what the compiler makes, has no path. package: None for a spec that is in no package.
    """

    target: str
    source: str
    path: str
    form: str
    digest: str
    toolchain: str | None = None
    built: bool = False
    notes: tuple[str, ...] = ()
    package: PackageUse | None = None


@dataclass(frozen=True)
class Replacement:
    """One match and what took its place.

    rule: as the spec writes it; location: of the match's last op in the model; dims: the pattern's;
    action: the approach (`static function`, `dynamic function`), `inline` for MLIR, `annotate`, `transform dialect` for
    a call, `other` for what else a transform spec's action does, or `keep` when a match is left to the compiler.
    reason: why it is kept, "" otherwise; lost: it is kept because another rule has its place.
    round: 0 for what the program had; 1 for what a rule wrote in its place, and so on.
    views: what the kernel reads and writes through views of the program, in words.
    when: what the program asks of sizes when it runs, before it calls the kernel; "" if it always does.
    """

    rule: str
    rule_location: str
    pattern: str
    function: str
    location: str
    dims: Mapping[str, DimSize]
    kernel: str
    action: str
    reason: str = ""
    lost: bool = False
    round: int = 0
    artifacts: tuple[ArtifactUse, ...] = ()
    views: tuple[str, ...] = ()
    when: str = ""

    @property
    def outcome(self) -> Outcome:
        """In a word: `taken` by another action of a transform spec, `kept` as the compiler's own code, `lost` to
        another rule, `none` if no rule asks for it.
        """
        if self.lost:
            return "lost"
        outcomes: dict[str, Outcome] = {"keep": "kept", "annotate": "annotated", "other": "taken", "none": "none"}
        return outcomes.get(self.action, "replaced")

    def to_json(self) -> dict[str, Any]:
        found = {**dataclasses.asdict(self), "outcome": self.outcome}
        del found["lost"]
        if not self.reason:
            del found["reason"]
        return found


@dataclass(frozen=True)
class Miss:
    """Where a pattern came nearest: `wanted` at `spec_location` of the spec, `found` at `at` of the model.

    location: of the op in the model that was taken for the pattern's last one. kind: as in `matchers.match.Kind`.
    progress: which part of the pattern's ops held.
    """

    function: str
    location: str
    wanted: str
    found: str
    spec_location: str
    at: str = ""
    kind: str = ""
    progress: float = 0.0


@dataclass(frozen=True)
class UnmatchedRule:
    """A rule that replaced nothing, and its nearest misses, the nearest first.

    library: the one that it is of, "" for a rule in a file of the user's. looked: whether near misses were looked for,
    which a compile does for the first rules that match nothing.
    """

    rule: str
    rule_location: str
    pattern: str
    nearest: tuple[Miss, ...] = ()
    library: str = ""
    looked: bool = True


@dataclass(frozen=True)
class SpecWarning:
    """What cannot be meant in a spec, whatever the program. text: as a terminal shows it, several lines."""

    code: str
    message: str
    location: str
    text: str


@dataclass(frozen=True)
class Report:
    """What the specs did to a program, in the order of the specs and of the program."""

    replacements: tuple[Replacement, ...] = ()
    kept: tuple[Replacement, ...] = ()
    unmatched: tuple[UnmatchedRule, ...] = ()
    warnings: tuple[str, ...] = ()
    spec_warnings: tuple[SpecWarning, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked of the files that were taken, each once."""
        used = [artifact for replacement in self.replacements for artifact in replacement.artifacts]
        found = [(artifact.source.rpartition("/")[2], note) for artifact in used for note in artifact.notes]
        return tuple(dict.fromkeys(note if name in note else f"{name}: {note}" for name, note in found))

    def __str__(self) -> str:
        """What a terminal shows."""
        from opsplice.reports.render import report_text, without_flags

        return without_flags(report_text(self, verbose=False, color=False))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from opsplice.reports.render_html import report_html

        return report_html(self)

    def __add__(self, other: Report) -> Report:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))
        return Report(*(left + right for left, right in pairs))

    def to_json(self) -> dict[str, Any]:
        """`matches`, each with its `outcome`, and a `reason` if it is not replaced; and what `match` says besides."""
        return {
            "matches": [r.to_json() for r in (*self.replacements, *self.kept)],
            "unmatched_rules": [dataclasses.asdict(u) for u in self.unmatched],
            "warnings": list(self.warnings),
            "spec_warnings": [
                {"code": w.code, "message": w.message, "at": w.location, "text": w.text} for w in self.spec_warnings
            ],
        }

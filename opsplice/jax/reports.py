"""What the specs did to the programs of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsplice.reports.report import Report


@dataclass(frozen=True)
class ProgramReport:
    """One program. signature: the shapes that it is for. jax: why JAX runs it and not IREE; "" where IREE does."""

    signature: str
    report: Report
    jax: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"signature": self.signature, "jax": self.jax, **self.report.to_json()}

    def __str__(self) -> str:
        if self.jax:
            return f"{self.signature}\n  run by JAX: {self.jax}"
        return f"{self.signature}\n{self.report}"


@dataclass(frozen=True)
class FunctionReport:
    """The programs of a function, one for each set of shapes that it was called with."""

    programs: tuple[ProgramReport, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"programs": [program.to_json() for program in self.programs]}

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.programs)) or "no program was compiled so far"

"""What specs did to what a framework hands over in parts: graphs of torch.compile, programs of a JAX function."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from opsplice.reports.render import short_location, unmatched_lines
from opsplice.reports.report import Report


class _Part:
    """A part that IREE runs as its report says, or that the framework runs, as the heading says."""

    report: Report
    eager: str

    @property
    def heading(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.heading if self.eager else f"{self.heading}\n{self.report}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        heading = f"<p>{escape(self.heading)}</p>"
        return heading if self.eager else f"{heading}\n{self.report._repr_html_()}"


@dataclass(frozen=True)
class GraphReport(_Part):
    """A graph of torch.compile, and what the specs did to it.

    number: counts graphs in this process, from 1. part: `forward`, `backward`, or `inference` where nothing asks for
    gradients. compile_id: as torch's own logs name it. ops: how many there are of each. seconds: what compiling took.
    eager: why PyTorch runs it and not IREE; "" where IREE does.
    """

    number: int
    part: str
    compile_id: str
    ops: Mapping[str, int]
    report: Report = field(default_factory=Report)
    seconds: float = 0.0
    eager: str = ""

    @property
    def name(self) -> str:
        """`graph 3 (forward, [0/1])`."""
        where = f", [{self.compile_id}]" if self.compile_id else ""
        return f"graph {self.number} ({self.part}{where})"

    @property
    def heading(self) -> str:
        return f"{self.name}: {sum(self.ops.values())} ops" + f", runs eagerly: {self.eager}" * bool(self.eager)

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("number", "report")}
        return {"graph": self.number, **values, "ops": dict(self.ops), **self.report.to_json()}


@dataclass(frozen=True)
class ProgramReport(_Part):
    """A program of a JAX function. signature: the shapes that it is for. eager: why JAX runs it and not IREE; "" where
    IREE does.
    """

    signature: str
    report: Report
    eager: str = ""

    @property
    def heading(self) -> str:
        return self.signature + f"\n  run by JAX: {self.eager}" * bool(self.eager)

    def to_json(self) -> dict[str, Any]:
        return {"signature": self.signature, "jax": self.eager, **self.report.to_json()}


class _Whole:
    """All parts, in the order in which they were compiled: the only field."""

    @property
    def _kind(self) -> str:
        return dataclasses.fields(self)[0].name  # type: ignore[arg-type]

    @property
    def _parts(self) -> tuple[Any, ...]:
        parts: tuple[Any, ...] = getattr(self, self._kind)
        return parts

    @property
    def report(self) -> Report:
        """All parts as one; a rule is unmatched where it matched in none."""
        whole = sum((part.report for part in self._parts), Report())
        matched = {each.rule_location for each in (*whole.replacements, *whole.kept)}
        unmatched = {each.rule_location: each for each in whole.unmatched if each.rule_location not in matched}
        return dataclasses.replace(whole, unmatched=tuple(unmatched.values()))

    def to_json(self) -> dict[str, Any]:
        return {self._kind: [part.to_json() for part in self._parts]}

    def __str__(self) -> str:
        """Each part with what was done to it, then the rules that matched in none, with where they came near."""
        if not self._parts:
            return f"no {self._kind.removesuffix('s')} was compiled so far"
        done = (dataclasses.replace(p, report=dataclasses.replace(p.report, unmatched=())) for p in self._parts)
        return "\n\n".join(filter(None, [*map(str, done), "\n".join(unmatched_lines(self.report, near=True))]))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return "\n".join(part._repr_html_() for part in self._parts) or str(self)


@dataclass(frozen=True)
class TorchReport(_Whole):
    """The graphs of torch.compile."""

    graphs: tuple[GraphReport, ...] = ()


@dataclass(frozen=True)
class FunctionReport(_Whole):
    """The programs of a JAX function, one for each set of shapes that it was called with."""

    programs: tuple[ProgramReport, ...] = ()


@dataclass
class Log:
    """The graphs of this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    graphs: list[GraphReport] = field(default_factory=list)
    count: int = 0
    warned: set[str] = field(default_factory=set)

    def next_number(self) -> int:
        with self.lock:
            self.count += 1
            return self.count

    def add(self, graph: GraphReport) -> None:
        with self.lock:
            self.graphs.append(graph)

    def warn_unmatched(self) -> None:
        """Warn, once for each, of the user's rules that matched in none of the graphs so far."""
        whole = report().report
        lost = [each for each in whole.unmatched if not each.library or not whole.replacements]
        with self.lock:
            new = [each for each in lost if each.rule_location not in self.warned]
            self.warned |= {each.rule_location for each in new}
            count = len(self.graphs)
        for rule in new:
            graphs = "the graph" if count == 1 else f"any of the {count} graphs"
            warnings.warn(
                f"{short_location(rule.rule_location)}: `{rule.rule}` matched nothing in {graphs}: "
                "opsplice.torch.report() says where it came near",
                stacklevel=2,
            )


log = Log()


def reports() -> Sequence[GraphReport]:
    """A report for each graph that was compiled in this process since `reset`."""
    with log.lock:
        return tuple(log.graphs)


def report() -> TorchReport:
    """What the specs did to all graphs that were compiled in this process since `reset`, to be printed."""
    return TorchReport(tuple(reports()))


def reset() -> None:
    """Forget the reports so far, as `torch._dynamo.reset()` forgets the graphs."""
    with log.lock:
        log.graphs.clear()
        log.count = 0
        log.warned.clear()

"""What was done to the graphs that torch.compile handed over."""

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


@dataclass(frozen=True)
class GraphReport:
    """One graph, and what the specs did to it.

    number: counts graphs in this process, from 1. part: `forward`, `backward`, or `inference` where nothing asks for
    gradients. compile_id: as torch's own logs name it. ops: how many there are of each. seconds: what compiling took.
    eager: why PyTorch runs it and not IREE; "" where IREE does.
    """

    number: int
    part: str
    compile_id: str
    ops: Mapping[str, int]
    report: Report
    seconds: float = 0.0
    eager: str = ""

    @property
    def name(self) -> str:
        """`graph 3 (forward, [0/1])`."""
        where = f", [{self.compile_id}]" if self.compile_id else ""
        return f"graph {self.number} ({self.part}{where})"

    def to_json(self) -> dict[str, Any]:
        return {
            "graph": self.number,
            "part": self.part,
            "compile_id": self.compile_id,
            "ops": dict(self.ops),
            "seconds": self.seconds,
            "eager": self.eager,
            **self.report.to_json(),
        }

    def __str__(self) -> str:
        return self._head if self.eager else f"{self._head}\n{self.report}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        head = f"<p>{escape(self._head)}</p>"
        return head if self.eager else f"{head}\n{self.report._repr_html_()}"

    @property
    def _head(self) -> str:
        return f"{self.name}: {sum(self.ops.values())} ops" + f", runs eagerly: {self.eager}" * bool(self.eager)


@dataclass(frozen=True)
class TorchReport:
    """The graphs, in the order in which they were compiled."""

    graphs: tuple[GraphReport, ...] = ()

    @property
    def report(self) -> Report:
        """All graphs as one; a rule is unmatched where it matched in none."""
        whole = sum((graph.report for graph in self.graphs), Report())
        matched = {each.rule_location for each in (*whole.replacements, *whole.kept)}
        unmatched = {each.rule_location: each for each in whole.unmatched if each.rule_location not in matched}
        return Report(whole.replacements, whole.kept, tuple(unmatched.values()), whole.warnings, whole.spec_warnings)

    def to_json(self) -> dict[str, Any]:
        return {"graphs": [graph.to_json() for graph in self.graphs]}

    def __str__(self) -> str:
        """Each graph with what was done to it, then the rules that matched in none, with where they came near."""
        if not self.graphs:
            return "no graph was compiled"
        done = (dataclasses.replace(g, report=dataclasses.replace(g.report, unmatched=())) for g in self.graphs)
        return "\n\n".join(filter(None, [*map(str, done), "\n".join(unmatched_lines(self.report, near=True))]))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return "\n".join(graph._repr_html_() for graph in self.graphs) or "no graph was compiled"


@dataclass
class _Log:
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


log = _Log()


def warn_unmatched() -> None:
    """Warn, once for each, of the user's rules that matched in none of the graphs so far."""
    whole = report().report
    lost = [each for each in whole.unmatched if not each.library or not whole.replacements]
    with log.lock:
        new = [each for each in lost if each.rule_location not in log.warned]
        log.warned |= {each.rule_location for each in new}
        count = len(log.graphs)
    for rule in new:
        graphs = "the graph" if count == 1 else f"any of the {count} graphs"
        warnings.warn(
            f"{short_location(rule.rule_location)}: `{rule.rule}` matched nothing in {graphs}: "
            "opsplice.torch.report() says where it came near",
            stacklevel=2,
        )


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

"""`opsplice doctor`: what this machine can build and run, and how to get the rest."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence

from opsplice.commands.shared.answer import Answer
from opsplice.reports.render import colored, style
from opsplice.targets import doctor


def run(_options: argparse.Namespace) -> Answer:
    checks = doctor.probe()
    return Answer({"checks": [dataclasses.asdict(c) for c in checks]}, _lines(checks))


def _lines(checks: Sequence[doctor.Check]) -> Iterator[str]:
    color = colored(sys.stdout)
    width = max(len(c.name) for c in checks)
    for check in checks:
        mark = style("ok", "green", color) if check.ok else style("--", "yellow", color)
        yield f"{mark}  {check.name:<{width}}  {check.detail}"
        if not check.ok and check.how_to_get:
            yield f"    {'':<{width}}  {style(f'to get it: {check.how_to_get}', 'dim', color)}"

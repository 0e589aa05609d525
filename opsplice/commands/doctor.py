"""`opsplice doctor`: what this machine can build and run, and how to get the rest."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from opsplice.reports.render import colored, style
from opsplice.targets import doctor


def run(options: argparse.Namespace) -> int:
    checks = doctor.probe()
    if options.json:
        print(json.dumps({"checks": [dataclasses.asdict(c) for c in checks]}, indent=2))
        return 0
    color = colored(sys.stdout)
    width = max(len(c.name) for c in checks)
    for check in checks:
        mark = style("ok", "green", color) if check.ok else style("--", "yellow", color)
        print(f"{mark}  {check.name:<{width}}  {check.detail}")
        if not check.ok and check.how_to_get:
            print(f"    {'':<{width}}  {style(f'to get it: {check.how_to_get}', 'dim', color)}")
    return 0

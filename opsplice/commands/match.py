"""`opsplice match`: what specs would replace, and what came near."""

from __future__ import annotations

import argparse
import json
import sys

from opsplice.api import check_matched
from opsplice.commands.jobs import preview_job
from opsplice.reports.render import colored, columns, report_text


def run(options: argparse.Namespace) -> int:
    report = preview_job(options)
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        width = columns(sys.stdout)
        print(report_text(report, verbose=options.verbose, color=colored(sys.stdout), width=width, near=True))
    if options.require_match:
        check_matched(report)
    return 0

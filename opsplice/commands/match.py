"""`opsplice match`: what specs would replace, and what came near."""

from __future__ import annotations

import argparse
import sys

from opsplice.api import check_matched
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import look
from opsplice.reports.render import colored, columns, report_text


def run(options: argparse.Namespace) -> int:
    report = look(options, "preview")
    color, width = colored(sys.stdout), columns(sys.stdout)
    text = report_text(report, verbose=options.verbose, color=color, width=width, near=True)
    code = Answer(report.to_json(), [text]).show(options.json)
    if options.require_match:
        check_matched(report)
    return code

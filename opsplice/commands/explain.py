"""`opsplice explain`: why patterns match, and where and why they do not."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from opsplice.commands.jobs import explain_job
from opsplice.reports.render import colored
from opsplice.reports.render_explain import explanation_text


def run(options: argparse.Namespace) -> int:
    explanation = explain_job(options)
    if options.json:
        print(json.dumps(explanation.to_json(), indent=2))
        return 0
    width = shutil.get_terminal_size((100, 24)).columns
    print(explanation_text(explanation, width=width, color=colored(sys.stdout), verbose=options.verbose))
    return 0

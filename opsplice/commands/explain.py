"""`opsplice explain`: why patterns match, and where and why they do not."""

from __future__ import annotations

import argparse
import shutil
import sys

from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import look
from opsplice.compiling.job import Question
from opsplice.reports.render import colored
from opsplice.reports.render_explain import explanation_text


def run(options: argparse.Namespace) -> Answer:
    explanation = look(options, "explained", Question(options.pattern, options.at))
    width = shutil.get_terminal_size((100, 24)).columns
    text = explanation_text(explanation, width=width, color=colored(sys.stdout), verbose=options.verbose)
    return Answer(explanation.to_json() if options.json else None, [text])

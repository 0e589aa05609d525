"""`opsplice survey`: what a model computes, what that costs, and what there are kernels for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import job_here
from opsplice.common.files import check_folder, write_file
from opsplice.reports.render import Status, colored, columns


def run(options: argparse.Namespace) -> Answer:
    from opsplice.measuring.timing.surveying import survey
    from opsplice.reports.render_survey import survey_page, survey_text

    if options.html:
        check_folder(Path(options.html))
    job = job_here(options)
    with Status() as status:
        found = survey(job, status.show, timed=not options.no_time)
    notes = []
    if options.html:
        write_file(Path(options.html), survey_page(str(options.model), found).encode())
        notes.append(f"wrote {options.html}")
    return Answer(found.to_json(), [survey_text(found, color=colored(sys.stdout), width=columns(sys.stdout))], notes)

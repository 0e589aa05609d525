"""`opsplice tune`: the fastest of a spec's kernels and IREE's own code for each size here, as a spec."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from opsplice.commands.shared.answer import Answer, to_stdout
from opsplice.commands.shared.isolated import on_model
from opsplice.commands.shared.jobs import job_here
from opsplice.reports.render import Status, colored


def run(options: argparse.Namespace) -> Answer:
    from opsplice.measuring.tuning import tuning
    from opsplice.measuring.tuning.database import Database, default_path
    from opsplice.reports.render_tuning import tuning_text

    is_stdout = to_stdout(options, "the spec")
    database = Database(Path(options.database or default_path()))
    job = job_here(options)
    tuning.check(job)
    found = on_model(options, job.source, "opsplice.measuring.tuning.candidates:find", job)
    with Status() as status:
        how = {"seconds": options.seconds, "dask": options.dask, "again": options.again}
        tuned = tuning.tune(job, found, database, status.show, **how)
    text = tuning_text(tuned, color=colored(sys.stderr if is_stdout else sys.stdout))
    if is_stdout:
        return Answer(None, [tuned.text(os.curdir).rstrip()], [text])
    tuned.save(options.output)
    use = f"use it with --spec={options.output}, as in: opsplice run {options.model} --spec={options.output}"
    notes = [f"wrote {options.output}; measurements are in {database.path}", *([use] if tuned.choices else [])]
    return Answer(tuned.to_json(), [text], notes)

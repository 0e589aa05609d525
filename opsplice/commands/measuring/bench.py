"""`opsplice bench`: what kernels bring, match by match and for the whole program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opsplice.commands.measuring.verify import inputs_of, prepared_job, verified
from opsplice.commands.shared.answer import Answer
from opsplice.common.files import check_folder, write_file
from opsplice.reports.render import Status, colored, columns


def run(options: argparse.Namespace) -> Answer:
    from opsplice.measuring.timing import benching, peers
    from opsplice.measuring.timing.surveying import survey
    from opsplice.measuring.verifying.verification import Options
    from opsplice.reports.measured_page import page
    from opsplice.reports.render_bench import bench_text
    from opsplice.reports.render_verify import verification_text

    peers.check(options.against, options.model)
    if options.html:
        check_folder(Path(options.html))
    inputs = inputs_of(options)
    found = verified(options, Options(options.function, inputs)) if options.verify else None
    job, prepared = prepared_job(options, probing=False)
    with Status() as status:
        timed = benching.bench(
            prepared,
            status.show,
            seconds=options.seconds,
            function=options.function,
            inputs=inputs,
            against=options.against,
            model=options.model,
        )
    lines, told = [bench_text(timed, color=colored(sys.stdout), width=columns(sys.stdout))], timed.to_json()
    if found is not None:
        lines.append(verification_text(found, color=colored(sys.stdout), width=columns(sys.stdout)))
        told["verify"] = found.to_json()
    notes = []
    if options.html:
        with Status() as status:
            layers = survey(job, status.show)
        write_file(Path(options.html), page(str(options.model), timed, found, layers).encode())
        notes.append(f"wrote {options.html}")
    return Answer(told, lines, notes, code=0 if found is None or found.ok else 1)

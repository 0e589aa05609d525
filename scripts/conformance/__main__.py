"""Runs suites of other projects' tests through opsplice, and writes docs/conformance.md.

`python -m scripts.conformance torch onnx --jobs 2`. A run that was stopped goes on where it was, unless --fresh is
given. With --only nothing is written: what was run is printed. The exit code is 1 where the rules break a case that
passes without them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence

from opsplice.reports.render import Status
from scripts.conformance import Outcome, outcome_table
from scripts.conformance.results import ROOT, Results
from scripts.conformance.running import SUITES, VARIANTS, Task, case_names, run_tasks, suite_module

PAGE = ROOT / "docs" / "conformance.md"
# Where stderr is not a terminal.
_SECONDS_BETWEEN_LINES = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all if left out")
    parser.add_argument("--only", metavar="REGEX", help="the cases in whose names this is found; write no page")
    parser.add_argument("--page", action="store_true", help="with --only: write the page, with all that was run so far")
    parser.add_argument("--variant", choices=VARIANTS, help="plain: on IREE alone; rules: with rules; both if left out")
    parser.add_argument(
        "--failed", action="store_true", help="run again what did not pass, and keep all else, of other code, too"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what a run before this one found")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run cases (1)")
    parser.add_argument("--seconds", type=int, default=120, help="how long a case may take (120)")
    options = parser.parse_args(arguments)
    if unknown := [suite for suite in options.suites if suite not in SUITES]:
        parser.error(f"there is no suite {unknown[0]}; there are {', '.join(SUITES)}")
    return max([_run(suite, options) for suite in options.suites or SUITES])


def _run(suite: str, options: argparse.Namespace) -> int:
    module = suite_module(suite)
    every = case_names(suite)
    names = [name for name in every if not options.only or re.search(options.only, name)]
    variants = [options.variant] if options.variant else list(VARIANTS)
    wanted = [(name, variant) for name in names for variant in variants]
    results = Results(suite, module.PACKAGES, fresh=options.fresh, again=wanted if options.failed else None)
    left = [task for task in wanted if task not in results.outcomes]
    with Status() as status:
        progress = _Progress(suite, len(left), status)

        def add(task: Task, outcome: Outcome) -> None:
            results.add(task, outcome)
            progress.step()

        run_tasks(suite, left, add, jobs=options.jobs, seconds=options.seconds)
    every_outcome = results.resolved()
    outcomes = {task: every_outcome[task] for name in names for v in VARIANTS if (task := (name, v)) in every_outcome}
    print(f"{suite}: {module.TITLE}\n{outcome_table.summary(outcomes)}\n", flush=True)
    if options.only and not options.page:
        print(outcome_table.failures(outcomes).strip())
    else:
        before = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        text = outcome_table.section(suite, module, every, every_outcome, results.day)
        PAGE.write_text(outcome_table.written_into(before, suite, text, SUITES), encoding="utf-8")
    worse = outcome_table.worse(outcomes)
    for name, outcome in worse.items():
        print(f"{suite}: {name} passes without the rules, and with them: {outcome.word}: {outcome.reason}")
    return int(bool(worse))


class _Progress:
    """How many are done, and how long the rest will take."""

    def __init__(self, suite: str, count: int, status: Status) -> None:
        self.suite, self.count, self.status = suite, count, status
        self.done = 0
        self.start = self.told = time.monotonic()

    def step(self) -> None:
        self.done += 1
        now = time.monotonic()
        left = (now - self.start) / self.done * (self.count - self.done)
        line = f"{self.suite}: {self.done} of {self.count}, about {left / 60:.0f} min left"
        self.status.show(line)
        if not sys.stderr.isatty() and now - self.told > _SECONDS_BETWEEN_LINES:
            self.told = now
            print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

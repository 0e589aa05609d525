"""`opsplice verify`: whether the numbers of replacements hold, match by match and for the whole program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.isolated import on_model
from opsplice.commands.shared.jobs import job_here
from opsplice.common.errors import OpspliceError
from opsplice.reports.render import Status, colored, columns, short_location

if TYPE_CHECKING:
    from opsplice.compiling.job import Job
    from opsplice.measuring.cutting.records import Verification
    from opsplice.measuring.verifying.verification import Options, Prepared


def run(options: argparse.Namespace) -> Answer:
    from opsplice.measuring.verifying.trials import KINDS
    from opsplice.measuring.verifying.verification import Options
    from opsplice.reports.render_verify import verification_text

    inputs, kinds = inputs_of(options), tuple(options.trials) or KINDS
    found = verified(options, Options(options.function, inputs, kinds, options.tolerance, cache=not options.again))
    width = columns(sys.stdout)
    text = verification_text(found, color=colored(sys.stdout), verbose=options.verbose, width=width)
    return Answer(found.to_json(), [text], code=0 if found.ok else 1)


def verified(options: argparse.Namespace, how: Options) -> Verification:
    """What verifying finds."""
    from opsplice.measuring.verifying.verification import verify

    job, prepared = prepared_job(options)
    with Status() as status:
        return verify(job, prepared, how, status.show)


def failed_rules(options: argparse.Namespace) -> dict[str, str]:
    """The rules that give wrong numbers, by where they stand, and what is wrong. Raises OpspliceError if the
    program is wrong, and no match alone.
    """
    from opsplice.measuring.verifying.verification import Options

    found = verified(options, Options())
    told = [(v.replacement, v.reason) for v in found.failed]
    rules = {r.rule_location: f"`{r.rule}` at {short_location(r.location)}: {reason}" for r, reason in told}
    if not rules and not found.ok:
        raise OpspliceError("the program gives wrong numbers", details=str(found))
    return rules


def prepared_job(options: argparse.Namespace, *, probing: bool = True) -> tuple[Job, Prepared]:
    """All programs, compiled in a child process, with the weights of the model, which stay in this one."""
    job = job_here(options)
    work = "opsplice.measuring.verifying.verification:prepare"
    prepared: Prepared = on_model(options, job.source, work, job, probing)
    return job, prepared.with_weights(job.source.parameters)


def inputs_of(options: argparse.Namespace) -> tuple[Any, ...] | None:
    """The inputs that the options give, None where they give none."""
    from opsplice.runtime import value_text as values

    given = tuple(value for text in options.input for value in values.parse_input(text))
    if options.inputs is None:
        return given or None
    if given:
        raise OpspliceError("--input and --inputs both give the inputs", hint="use one of them")
    return archive(Path(options.inputs.removeprefix("@")))


def archive(path: Path) -> tuple[Any, ...]:
    """The arrays of an .npz file, in its order."""
    import numpy as np

    from opsplice.common.files import check_file

    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return tuple(arrays[name] for name in arrays.files)
    except (ValueError, OSError, AttributeError, TypeError) as error:
        is_array = path.suffix == ".npy"
        hint = "give an array alone with --input=@x.npy" if is_array else "write it with numpy.savez(path, x, y)"
        details = "" if is_array else str(error)
        raise OpspliceError(f"{path} is not an .npz file of arrays", details=details, hint=hint) from None

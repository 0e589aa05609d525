"""The command line: arguments in, a command's module imported and run, errors shown, exit codes.

    0  done        1  an error, or a check that failed        2  wrong usage        130  interrupted

Only the command that runs is imported, so that `opsplice --help` is quick and the commands that compile can fork before
anything heavy is loaded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

from opsplice import streams
from opsplice.commands.arguments import command_line
from opsplice.common.errors import OpspliceError, failure_outside

# The modules of commands that have another name, or are in a folder.
_MODULES = {"import": "import_spec", "fmt": "format"}
_MODULES |= {name: f"measuring.{name}" for name in ("bench", "survey", "tune", "verify")}
_TIME_LIMIT = "OPSPLICE_BUILD_TIMEOUT"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if argv is None:
        streams.prepare()
    options: argparse.Namespace | None = None
    try:
        try:
            given = list(sys.argv[1:] if argv is None else argv)
            if not given:
                streams.say(command_line.parser().format_help().rstrip())
                return 2
            options = _options(given)
            with _time_limit(getattr(options, "build_timeout", None)):
                name = _MODULES.get(options.command, options.command)
                answer = import_module(f"opsplice.commands.{name}").run(options)
                return int(answer if isinstance(answer, int) else answer.show(options.json))
        finally:
            sys.stdout.flush()
    except OpspliceError as error:
        return _fail(error, options)
    except KeyboardInterrupt:
        streams.say("interrupted")
        return 130
    except BrokenPipeError:  # of stdout, to which nothing more is said
        return 0
    except Exception as error:
        if (outside := failure_outside(error)) is None:
            raise
        return _fail(outside, options)


def _options(argv: list[str]) -> argparse.Namespace:
    ours, flags = _split(argv)
    options = command_line.parser().parse_args(ours)
    options.flags = flags
    if flags and not options.takes_flags:
        _usage_error(f"opsplice {options.command} takes no compiler flags: {flags[0]}")
    return options


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Have compilers of kernels take no longer than an option says, also in child processes."""
    before = os.environ.get(_TIME_LIMIT)
    if seconds is not None:
        os.environ[_TIME_LIMIT] = str(seconds)
    try:
        yield
    finally:
        if seconds is not None:
            os.environ.pop(_TIME_LIMIT)
            os.environ.update({} if before is None else {_TIME_LIMIT: before})


def _split(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Our own arguments, and the flags for IREE's compiler."""
    ours = [a for a in argv if not a.startswith(("--iree-", "--mlir-"))]
    return ours, tuple(a for a in argv if a.startswith(("--iree-", "--mlir-")))


def _fail(error: OpspliceError, options: argparse.Namespace | None) -> int:
    if getattr(options, "json", False) and streams.takes_output():
        import json

        print(json.dumps({"error": error.message, "details": error.details, "hint": error.hint}, indent=2))
        return 1
    from opsplice.reports.render import error_text

    streams.say(error_text(error))
    return 1


def _usage_error(message: str) -> NoReturn:
    streams.say(f"error: {message}")
    raise SystemExit(2)

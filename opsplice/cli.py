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

from opsplice import arguments
from opsplice.errors import OpspliceError

# Commands whose names are words of Python.
_MODULES = {"import": "import_spec"}
_TIME_LIMIT = "OPSPLICE_BUILD_TIMEOUT"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    ours, flags = _split(list(sys.argv[1:] if argv is None else argv))
    parser = arguments.parser()
    if not ours:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(ours)
    options.flags = flags
    if flags and not options.takes_flags:
        _usage_error(f"opsplice {options.command} takes no compiler flags: {flags[0]}")
    try:
        with _time_limit(getattr(options, "build_timeout", None)):
            return import_module(f"opsplice.commands.{_MODULES.get(options.command, options.command)}").run(options)
    except OpspliceError as error:
        return _fail(error, options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`opsplice ... | head`): say nothing more to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@contextmanager
def _time_limit(seconds: str | None) -> Iterator[None]:
    """Have compilers of kernels take no longer than an option says, also in child processes."""
    before = os.environ.get(_TIME_LIMIT)
    if seconds is not None:
        os.environ[_TIME_LIMIT] = seconds
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


def _fail(error: OpspliceError, options: argparse.Namespace) -> int:
    if getattr(options, "json", False):
        import json

        print(json.dumps({"error": error.message, "details": error.details, "hint": error.hint}, indent=2))
        return 1
    from opsplice.render import error_text

    print(error_text(error), file=sys.stderr)
    return 1


def _usage_error(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)

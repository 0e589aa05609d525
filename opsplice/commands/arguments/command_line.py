"""The arguments of the command line, and what `--help` says of them."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from typing import NoReturn

from opsplice import __version__, streams
from opsplice.commands.arguments.command_table import GROUPS
from opsplice.commands.arguments.reading import EXIT_CODES, add_commands, grouped

_START = f"""\
A first look:
  opsplice doctor                        what this machine can build and run
  opsplice capture model.mlir            the ops of a model
  opsplice capture model.mlir --at model.mlir:12 -o first.splice
                                         a pattern, a kernel and a rule for one
  opsplice match model.mlir --spec=first.splice
                                         what would be replaced
  opsplice compile model.mlir --spec=first.splice -o model.vmfb

Each command says more with --help, as `opsplice capture --help`.
{EXIT_CODES}
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        streams.say(f"{self.format_usage()}{self.prog}: error: {message}")
        raise SystemExit(2)


def not_known(command: str, argument: str) -> str:
    """What is wrong with an argument that a command does not take, and what may be meant."""
    import difflib  # only what ends in an error needs it

    told = f"opsplice {command} takes no {argument}"
    name, _, value = argument.partition("=")
    known = re.findall(r"--[a-z][a-z-]*", _help_of(command))
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"{told}\nhelp: did you mean {nearest[0]}{'=' * bool(value)}{value}?" if nearest else told


def _help_of(command: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        parser().parse_args([command, "--help"])
    return text.getvalue()


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. It sets `command`, and `takes_flags` for those that take the compiler's flags."""
    parser = _Parser(
        prog="opsplice",
        description="Find computations in MLIR programs by pattern and splice in your own kernels.",
        epilog=_START,
        formatter_class=grouped(GROUPS[""]),
    )
    parser.add_argument("--version", action="version", version=f"opsplice {__version__}")
    add_commands(parser)
    return parser

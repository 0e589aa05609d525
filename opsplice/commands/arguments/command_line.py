"""The arguments of the command line, and what `--help` says of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from opsplice import __version__, streams
from opsplice.commands.arguments.command_table import GROUPS
from opsplice.commands.arguments.parsers import EXIT_CODES, add_commands, grouped
from opsplice.common.errors import did_you_mean

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
    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.given = list(args or [])
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown[0])
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong. What is missing may only be misspelled, so an unknown option is told first."""
        names = [argument.partition("=")[0] for argument in self.given]
        known = tuple(self._option_string_actions)
        for argument, name in zip(self.given, names, strict=True):
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                self._refuse(argument)
        streams.say(f"error: {self.prog}: {message}\nhelp: `{self.prog} --help` lists what it takes")
        raise SystemExit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Say that there is no such command, and what may be meant, not all that there are."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = did_you_mean(value, action.choices)
            streams.say(f"error: {self.prog} has no {action.metavar} '{value}'")
            streams.say(f"help: {near or f'`{self.prog} --help` lists what there is'}")
            raise SystemExit(2)
        super()._check_value(action, value)

    def _refuse(self, argument: str) -> NoReturn:
        """Say that there is no such argument, and what may be meant."""
        import difflib  # only what ends in an error needs it

        name, _, value = argument.partition("=")
        nearest = difflib.get_close_matches(name, self._option_string_actions, n=1)
        streams.say(f"error: {self.prog} takes no {argument}")
        if nearest:
            streams.say(f"help: did you mean {nearest[0]}{'=' * bool(value)}{value}?")
        raise SystemExit(2)


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

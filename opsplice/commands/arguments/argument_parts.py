"""What the arguments of several commands share: how a command is added, options that many have, types of values."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"

CPUS = "cpu (this machine's, the default), x86_64, aarch64, riscv64"
EXIT_CODES = "Exit codes: 0 done, 1 an error, 2 wrong usage, 130 interrupted."
_EPILOG = f"""\
Any --iree-... or --mlir-... flag goes to IREE's compiler, as with iree-compile
(write --flag=value).
{EXIT_CODES}
"""


def grouped(groups: Mapping[str, Sequence[str]]) -> type[argparse.HelpFormatter]:
    """How help lists commands under titles. groups: the names of the commands under each title, every command once."""

    class Formatter(argparse.RawDescriptionHelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            if not isinstance(action, argparse._SubParsersAction):
                return super()._format_action(action)
            listed = {each.dest: each for each in action._get_subactions()}
            text = ""
            for title, names in groups.items():
                lines = "".join(super(Formatter, self)._format_action(listed[name]) for name in names)
                text += f"\n{' ' * self._current_indent}{title}\n{textwrap.indent(lines, '  ')}"
            return text

    return Formatter


def add_command(
    commands: Commands, name: str, about: str, *, flags: bool, more: str = "", aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        aliases=aliases,
        help=about,
        description="\n".join(textwrap.wrap(f"{about[0].upper()}{about[1:]}.", 80)) + more,
        epilog=_EPILOG if flags else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(takes_flags=flags)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout, errors too")


def add_building(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--build-timeout", metavar="SECONDS", help="the longest that the compiler of a kernel may take (default: 600)"
    )


def add_trust(parser: argparse._ActionsContainer) -> None:
    default = "~/.config/opsplice/trust.toml"
    about = f"the trust file, which says what keys may publish (default: OPSPLICE_TRUST or {default})"
    parser.add_argument("--trust", type=Path, metavar="FILE", help=about)


def add_mirror(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--mirror",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder to look for packages in before their registry (default: OPSPLICE_MIRROR)",
    )


def add_unsigned(parser: argparse._ActionsContainer) -> None:
    about = "take packages that no trusted key signed; a lock remembers it"
    parser.add_argument("--allow-unsigned", action="store_true", help=about)


def add_dims(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dim",
        type=_dim,
        action=_Bound,
        default={},
        metavar="NAME=SIZE",
        help="the size of a symbolic dim of a model in ONNX, as batch=8; the others stay dynamic",
    )


class _Bound(argparse.Action):
    """An option with a name and a value, which may be given several times."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        name, size = values
        bound = getattr(namespace, self.dest)
        if bound.get(name, size) != size:
            parser.error(f"--dim {name} is {bound[name]} and {size}")
        setattr(namespace, self.dest, {**bound, name: size})


def _dim(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no dim with a size: write it as batch=8")
    return name, int(size)


class Joined(argparse.Action):
    """An option with a list, which may be given several times."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *values))


def targets(text: str) -> tuple[str, ...]:
    found = names(text)
    if not found or len(found) < len(text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' lacks a name: write names with commas between, x86_64,aarch64")
    return found


def names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))

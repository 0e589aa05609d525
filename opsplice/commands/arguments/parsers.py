"""From lines of the table of commands to argparse: what each line stands for."""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opsplice.commands.arguments import command_table as table

EXIT_CODES = "Exit codes: 0 done, 1 an error, 2 wrong usage, 130 interrupted."
_EPILOG = f"""\
Any --iree-... or --mlir-... flag goes to IREE's compiler, as with iree-compile
(write --flag=value).
{EXIT_CODES}
"""
_OPTION = re.compile(r"(?P<flags>(?:-\w )?--[\w-]+)(?:=(?P<value>\S*?))?(?: \[(?P<default>.*)\])?(?P<required>!)?")
_ARGUMENT = re.compile(r"(?P<open>\[)?(?P<name>\w+)(?:=(?P<shown>[^\].]+(?:\.[^\].]+)*))?\]?(?P<several>\.\.\.)?")
_NUMBERS = frozenset({"--build-timeout", "--seconds", "--tolerance"})
_PATHS = frozenset({"--lock", "--trust", "--mirror"})
_DESTINATIONS = {"--command": "command_files"}


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add all commands of the table, with their actions below them."""
    commands = parser.add_subparsers(title="commands", dest="command", metavar="command", required=True)
    below: dict[str, Any] = {}
    whole = re.sub(r"\n  @model(!?)", lambda found: table.MODEL.format(must=found[1]), table.COMMANDS)
    for block in whole.strip().split("\n\n"):
        heading, *lines = _lines(block.format(**table.TEXTS))
        called, _, about = heading.partition(": ")
        name, takes_flags = called.removesuffix(" [flags]"), called.endswith(" [flags]")
        above, _, own = name.rpartition(" ")
        more = "".join(f"\n\n{textwrap.fill(line[2:], 80)}" for line in lines if line.startswith("= "))
        made = (below[above] if above else commands).add_parser(
            own,
            aliases=table.SHORT.get(name, ()),
            help=about,
            description=textwrap.fill(f"{about[0].upper()}{about[1:]}.", 80) + more,
            epilog=_EPILOG if takes_flags else None,
            formatter_class=grouped(table.GROUPS.get(name, {})),
        )
        made.set_defaults(takes_flags=takes_flags)
        if f"\n\n{name} " in table.COMMANDS and not lines:
            below[name] = made.add_subparsers(title="actions", dest="action", metavar="action", required=True)
            continue
        for line in (*lines, "--json"):
            if line == "@packages":
                group = made.add_argument_group(table.PACKAGES_TITLE)
                for flag in table.PACKAGES:
                    _add(group, flag)
            elif not line.startswith("= "):
                _add(made, line)


def grouped(groups: Mapping[str, Sequence[str]]) -> type[argparse.HelpFormatter]:
    """How help lists commands under titles. groups: the names of the commands under each title, every command once."""

    class Formatter(argparse.RawDescriptionHelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            if not groups or not isinstance(action, argparse._SubParsersAction):
                return super()._format_action(action)
            listed = {each.dest: each for each in action._get_subactions()}
            text = ""
            for title, names in groups.items():
                lines = "".join(super(Formatter, self)._format_action(listed[name]) for name in names)
                text += f"\n{' ' * self._current_indent}{title}\n{textwrap.indent(lines, '  ')}"
            return text

    return Formatter


def _lines(block: str) -> Iterator[str]:
    """The lines of a block, each with those that continue it: they stand further in."""
    return (" ".join(line.split("\n      ")).strip() for line in re.split(r"\n  (?! )", block.rstrip()))


def _add(parser: argparse._ActionsContainer, line: str) -> None:
    left, _, about = _said(line).partition("  ")
    if not left.startswith("-"):
        found = _matched(_ARGUMENT, left)
        count = {(False, True): "+", (True, False): "?", (True, True): "*"}
        nargs = count.get((bool(found["open"]), bool(found["several"])))
        parser.add_argument(found["name"], help=about, nargs=nargs, metavar=found["shown"])
        return
    found = _matched(_OPTION, left)
    flags = found["flags"].split(" ")
    options: dict[str, Any] = {"help": about}
    if found["value"] is None:
        parser.add_argument(*flags, action="store_true", **options)
        return
    options |= _value(flags[-1], found["value"])
    if found["default"] is not None:
        options["default"] = found["default"]
    if found["required"]:
        options["required"] = True
    parser.add_argument(*flags, dest=_DESTINATIONS.get(flags[-1], flags[-1][2:].replace("-", "_")), **options)


def _said(line: str) -> str:
    """A line with its words: those of an option that has none are in `SHARED`."""
    if not line.startswith("-") or "  " in line:
        return line
    flag, required = line.removesuffix("!"), "!" * line.endswith("!")
    shared = next(each for each in _lines(f"\n{table.SHARED}") if re.match(rf"{flag}[= ]", each))
    return shared.replace("  ", f"{required}  ", 1)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    assert found is not None, f"the table has an argument that is none: {text}"
    return found


def _value(flag: str, value: str) -> dict[str, Any]:
    """How an option with a value is read. value: what the table has behind `=`."""
    if flag == "--dim":
        return {"type": _dim, "action": _Bound, "default": {}, "metavar": value}
    if "|" in value:
        choices = value.split("|")
        return {"choices": choices, "default": choices[0]}
    if value == "TARGET,...":
        return {"type": _targets, "action": _Joined, "default": (), "metavar": value}
    if value.endswith(",..."):
        return {"type": _names, "action": "extend", "default": [], "metavar": value}
    if flag in _NUMBERS:
        return {"type": _positive, "metavar": value}
    kind = {"type": Path} if flag in _PATHS else {}
    if value.endswith("..."):
        return {**kind, "action": "append", "default": [], "metavar": value.removesuffix("...")}
    return {**kind, "metavar": value}


class _Bound(argparse.Action):
    """An option with a name and a value, which may be given several times."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        name, size = values
        bound = getattr(namespace, self.dest)
        if bound.get(name, size) != size:
            parser.error(f"--dim {name} is {bound[name]} and {size}")
        setattr(namespace, self.dest, {**bound, name: size})


class _Joined(argparse.Action):
    """An option with a list, which may be given several times."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *values))


def _dim(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a dim with a size: write it as batch=8")
    return name, int(size)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def _targets(text: str) -> tuple[str, ...]:
    found = _names(text)
    if not found or len(found) < len(text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' lacks a name: write names with commas between, x86_64,aarch64")
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))

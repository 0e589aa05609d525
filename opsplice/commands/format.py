"""`opsplice format`: format .splice files in place."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opsplice.commands.shared.answer import Answer
from opsplice.common.errors import counted
from opsplice.common.files import write_file
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading import loader


def run(options: argparse.Namespace) -> Answer | int:
    if options.files == ["-"]:
        text = _lines(loader.decoded(sys.stdin.buffer.read(loader.MAX_BYTES + 1), "stdin"))
        formatted = formatter.format(text)
        if not options.check:
            sys.stdout.write(formatted)
        return int(options.check and formatted != text)
    # All are read before any is written, so an error leaves every file as it was.
    changed = {path: new for path, old, new in map(_formatted, options.files) if new != old}
    if not options.check:
        for path, text in changed.items():
            write_file(path, text.encode())
    lines = [f"{'would reformat' if options.check else 'reformatted'} {path}" for path in changed]
    lines = lines or [f"{counted(len(options.files), 'file')} formatted already"]
    return Answer({"changed": [str(p) for p in changed]}, lines, code=int(options.check and bool(changed)))


def _formatted(name: str) -> tuple[Path, str, str]:
    path = Path(name)
    text = _lines(loader.read(path))
    return path, text, formatter.format(text, path)


def _lines(text: str) -> str:
    """Text with the line ends that the formatter writes, as they are no reason to change a file."""
    return text.replace("\r\n", "\n")

"""`opsplice kernel provider`: folders of kernels to one module, which any host of IREE can load before a program."""

from __future__ import annotations

import argparse
import sys

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.common.errors import counted
from opsplice.reports.render import noted


def run(options: argparse.Namespace) -> Answer:
    work = "opsplice.plugins:provide"
    made = isolated.call(work, options.folders, options.output, plugins=options.plugin, flags=options.flags)
    found = [{"name": name, "format": form, "file": str(file)} for (name, form), file in made.kernels.items()]
    said = [*(noted(note, sys.stderr) for note in made.notes), f"wrote {made.path}: {counted(len(found), 'kernel')}"]
    return Answer({"output": str(made.path), "kernels": found, "notes": list(made.notes)}, notes=said)

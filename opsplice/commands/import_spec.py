"""`opsplice import`: a transform-dialect spec as a .splice file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer, to_stdout
from opsplice.common.errors import counted
from opsplice.common.files import write_file
from opsplice.compiling.spec_files import check_output


def run(options: argparse.Namespace) -> Answer:
    is_stdout = to_stdout(options, "the spec")
    output = Path(options.output)
    if not is_stdout:
        check_output(output, [options.spec])
    found = isolated.call("opsplice.compiling.spec_import:import_file", Path(options.spec), partial=options.partial)
    notes = [f"left out: {line}" for line in found.left_out]
    if is_stdout:
        sys.stdout.write(found.text)
    else:
        write_file(output, found.text.encode())
        notes.append(f"wrote {output}: {counted(found.patterns, 'pattern')} and {counted(found.rules, 'rule')}")
    return Answer({"output": str(output), "rules": found.rules, "left_out": list(found.left_out)}, notes=notes)

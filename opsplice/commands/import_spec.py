"""`opsplice import`: a transform-dialect spec as a .splice file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.commands import isolated
from opsplice.compiling.spec_files import check_output
from opsplice.errors import OpspliceError
from opsplice.files import check_folder, write_file

if TYPE_CHECKING:
    from opsplice.rewrites.transform_dialect.importing.importer import Imported


def run(options: argparse.Namespace) -> int:
    to_stdout = options.output == "-"
    output = Path(options.output)
    if to_stdout and options.json:
        raise OpspliceError("--json and -o - both want stdout", hint="write the spec to a file")
    if not to_stdout:
        check_folder(output)
        check_output(output, [options.spec])
    found = isolated.call(_import, Path(options.spec), options.partial)
    if to_stdout:
        sys.stdout.write(found.text)
    else:
        write_file(output, found.text.encode())
    if options.json:
        print(json.dumps({"output": str(output), "rules": found.rules, "left_out": list(found.left_out)}, indent=2))
        return 0
    for line in found.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not to_stdout:
        print(f"wrote {output}: {_count(found.patterns, 'pattern')} and {_count(found.rules, 'rule')}", file=sys.stderr)
    return 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _import(path: Path, partial: bool) -> Imported:
    """Runs in the child: only there is the compiler imported."""
    from opsplice.compiling.spec_import import import_file

    return import_file(path, partial=partial)

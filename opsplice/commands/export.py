"""`opsplice export`: a .splice file as a transform-dialect spec."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.api import export
from opsplice.commands import isolated
from opsplice.commands.jobs import resolve_specs
from opsplice.compiling.spec_files import check_output
from opsplice.errors import OpspliceError
from opsplice.files import check_folder, check_name, write_file

if TYPE_CHECKING:
    from opsplice.compiling.spec_export import Exported


def run(options: argparse.Namespace) -> int:
    to_stdout = options.output == "-"
    output = Path(options.output)
    if to_stdout and options.json:
        raise OpspliceError("--json and -o - both want stdout", hint="write the spec to a file")
    if to_stdout and options.objects == "copy":
        raise OpspliceError("--objects=copy and -o - do not go together", hint="write the spec to a file")
    resolve_specs(options)
    if not to_stdout:
        check_folder(output)
        check_name(output)
        check_output(output, options.spec)
    exported = isolated.call(_export, options, f"{output.stem}.objects")
    if to_stdout:
        sys.stdout.write(exported.text)
    else:
        for name, content in exported.files.items():
            _write_beside(output, name, content)
        write_file(output, exported.text.encode())
    if options.json:
        found = {
            "output": str(output),
            "rules": exported.rules,
            "left_out": exported.left_out,
            "files": [str(output.parent / name) for name in exported.files],
            "notes": exported.notes,
        }
        print(json.dumps(found, indent=2))
        return 0
    for rule in exported.rules:
        for note in rule["notes"]:
            print(f"`{rule['rule']}` is {note}", file=sys.stderr)
    for rule in exported.left_out:
        for construct in rule["constructs"]:
            print(f"left out of `{rule['rule']}`: {construct['location']}: {construct['what']}", file=sys.stderr)
    if not to_stdout:
        matchers = sum(len(rule["matchers"]) for rule in exported.rules)
        count = len(exported.rules)
        print(f"wrote {output}: {count} rule{'s' * (count != 1)}, {matchers} matchers", file=sys.stderr)
    for note in exported.notes:
        print(f"note: {note}", file=sys.stderr)
    if exported.files:
        print(f"compile with --iree-hal-executable-object-search-path={output.parent}", file=sys.stderr)
    return 0


def _export(options: argparse.Namespace, folder: str) -> Exported:
    """Runs in the child: only there is the compiler imported."""
    return export(
        options.spec[0],
        options.flags,
        targets=options.target,
        objects=options.objects,
        folder=folder,
        partial=options.partial,
        no_code=options.no_code,
    )


def _write_beside(output: Path, name: str, content: bytes) -> None:
    path = output.parent / name
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise OpspliceError(f"cannot make the folder {path.parent}: {error.strerror}") from None
    write_file(path, content)

"""`opsplice export`: a .splice file as a transform-dialect spec."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer, to_stdout
from opsplice.commands.shared.jobs import resolve_specs
from opsplice.common.errors import OpspliceError, counted
from opsplice.common.files import check_name, write_files
from opsplice.compiling.spec_files import check_output

if TYPE_CHECKING:
    from opsplice.compiling.spec_export import Exported


def run(options: argparse.Namespace) -> Answer:
    is_stdout = to_stdout(options, "the spec")
    output = Path(options.output)
    if is_stdout and options.objects == "copy":
        raise OpspliceError("--objects=copy and -o - do not go together", hint="write the spec to a file")
    resolve_specs(options)
    if not is_stdout:
        check_name(output)
        check_output(output, options.spec)
    exported = isolated.call(
        "opsplice.api:export",
        options.spec[0],
        options.flags,
        targets=options.target,
        objects=options.objects,
        folder=f"{output.stem}.objects",
        partial=options.partial,
        no_code=options.no_code,
    )
    if is_stdout:
        sys.stdout.write(exported.text)
    else:
        write_files(output.parent, {**exported.files, output.name: exported.text.encode()})
    found = {
        "output": str(output),
        "rules": exported.rules,
        "left_out": exported.left_out,
        "files": [str(output.parent / name) for name in exported.files],
        "notes": exported.notes,
    }
    return Answer(found, notes=_notes(exported, output))


def _notes(exported: Exported, output: Path) -> Iterator[str]:
    yield from (f"`{rule['rule']}` is {note}" for rule in exported.rules for note in rule["notes"])
    for rule in exported.left_out:
        yield from (f"left out of `{rule['rule']}`: {each['location']}: {each['what']}" for each in rule["constructs"])
    if str(output) != "-":
        matchers = sum(len(rule["matchers"]) for rule in exported.rules)
        yield f"wrote {output}: {counted(len(exported.rules), 'rule')}, {matchers} matchers"
    yield from (f"note: {note}" for note in exported.notes)
    if exported.files:
        yield f"compile with --iree-hal-executable-object-search-path={output.parent}"

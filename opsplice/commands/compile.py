"""`opsplice compile`: a model and specs to a .vmfb."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from opsplice.api import check_matched
from opsplice.commands.jobs import compile_job, resolve_specs
from opsplice.compiling.spec_files import check_output
from opsplice.errors import OpspliceError
from opsplice.files import check_folder
from opsplice.runtime import weights as parameters
from opsplice.runtime.providers import write_folder


def run(options: argparse.Namespace) -> int:
    if options.output == "-" and options.json:
        raise OpspliceError("--json and -o - both want stdout", hint="write the program to a file")
    if options.output != "-":
        check_folder(Path(options.output))
        resolve_specs(options)
        check_output(Path(options.output), options.spec, [options.model])
    outcome = compile_job(options)
    if options.require_match:
        check_matched(outcome.report)
    kernels = _write_kernels(options, outcome.provided)
    if options.output == "-":
        if outcome.parameters:
            raise OpspliceError("the program's weights go into a file of their own", hint="write -o model.vmfb")
        sys.stdout.buffer.write(outcome.vmfb)
        return 0
    path, *weights = parameters.save(Path(options.output), outcome.vmfb, outcome.parameters)
    if options.json:
        found = {
            **outcome.report.to_json(),
            "compiler_warnings": list(outcome.warnings),
            "output": str(path),
            "bytes": len(outcome.vmfb),
            "parameters": list(map(str, weights)),
            "kernels": [str(k) for k in kernels],
        }
        print(json.dumps(found, indent=2))
        return 0
    print(f"wrote {path} ({_size(len(outcome.vmfb))})", file=sys.stderr)
    for archive in weights:
        print(f"wrote {archive} ({_size(archive.stat().st_size)})", file=sys.stderr)
    for kernel in kernels:
        print(f"wrote {kernel}", file=sys.stderr)
    return 0


def _write_kernels(options: argparse.Namespace, kernels: Mapping[tuple[str, str], bytes]) -> list[Path]:
    """Write what the program is to be given when it is loaded."""
    if not kernels:
        return []
    if options.output == "-" and options.save_kernels is None:
        raise OpspliceError(
            "some kernels are not in the program, and need a folder",
            hint="name one: --save-kernels FOLDER",
        )
    folder = Path(options.save_kernels or Path(options.output).with_suffix(".kernels"))
    return write_folder(folder, kernels)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"

"""`opsplice compile`: a model and specs to a .vmfb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from opsplice.api import check_matched
from opsplice.commands.shared.answer import Answer, to_stdout
from opsplice.commands.shared.jobs import compile_job, resolve_specs
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_files import check_output
from opsplice.runtime import weights as parameters
from opsplice.runtime.providers import write_folder
from opsplice.targets.registry.places.transfer_progress import size


def run(options: argparse.Namespace) -> Answer | int:
    is_stdout = to_stdout(options, "the program")
    if not is_stdout:
        resolve_specs(options)
        check_output(Path(options.output), options.spec, [options.model])
    warnings = _verified(options) if options.verify or options.verify_or_fail else []
    outcome = compile_job(options)
    if options.require_match:
        check_matched(outcome.report)
    kernels = _write_kernels(options, outcome.provided)
    if is_stdout:
        if outcome.parameters:
            raise OpspliceError("the program's weights go into a file of their own", hint="write -o model.vmfb")
        sys.stdout.buffer.write(outcome.vmfb)
        return 0
    path, *weights = parameters.save(Path(options.output), outcome.vmfb, outcome.parameters)
    found = {
        **outcome.report.to_json(),
        "left_alone": warnings,
        "compiler_warnings": list(outcome.warnings),
        "output": str(path),
        "bytes": len(outcome.vmfb),
        "parameters": list(map(str, weights)),
        "kernels": [str(k) for k in kernels],
    }
    sizes = [f"wrote {file} ({size(file.stat().st_size)})" for file in (path, *weights)]
    return Answer(found, notes=[*sizes, *(f"wrote {kernel}" for kernel in kernels)])


def _verified(options: argparse.Namespace) -> list[str]:
    """Have rules left alone that give wrong numbers. Returns what is wrong with each."""
    from opsplice.commands.measuring.verify import failed_rules

    failed = failed_rules(options)
    if failed and options.verify_or_fail:
        hint = "`opsplice verify` shows every match; --verify leaves such rules alone"
        raise OpspliceError("some rules give wrong numbers", details="\n".join(failed.values()), hint=hint)
    options.without = frozenset(failed)
    for what in failed.values():
        print(f"warning: left alone because it fails `opsplice verify`: {what}", file=sys.stderr)
    return list(failed.values())


def _write_kernels(options: argparse.Namespace, kernels: Mapping[tuple[str, str], bytes]) -> list[Path]:
    """Write what the program is to be given when it is loaded."""
    if not kernels:
        return []
    if options.output == "-" and options.save_kernels is None:
        raise OpspliceError(
            "some kernels are stored outside of the program and need a folder",
            hint="name one: --save-kernels FOLDER",
        )
    folder = Path(options.save_kernels or Path(options.output).with_suffix(".kernels"))
    return write_folder(folder, kernels)

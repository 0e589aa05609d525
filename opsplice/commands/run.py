"""`opsplice run`: run a .vmfb, or compile a model with specs and run it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from opsplice.api import check_matched
from opsplice.commands import stdout
from opsplice.commands.jobs import compile_job
from opsplice.errors import OpspliceError
from opsplice.parameters import read_archives
from opsplice.providers import Provider, split_plugins


def run(options: argparse.Namespace) -> int:
    # What is wrong with the inputs and plugins is said before anything is compiled.
    from opsplice import values
    from opsplice.host_commands import Commands, named_files

    inputs = [value for text in options.input for value in values.parse_input(text)]
    plugins, functions = split_plugins(options.plugin)
    if plugins:
        from opsplice.devices import read_plugins

        read_plugins(plugins, options.device)
    report = None
    commands = named_files(options.command_files)
    archives = read_archives(options.parameters)
    sources: list[Path | Mapping[tuple[str, str], bytes]] = [Path(each) for each in options.provider]
    vmfb: bytes | Path = Path(options.model)
    if Path(options.model).suffix == ".vmfb":
        given = {"--spec": options.spec, "--target": options.target, "--require-match": options.require_match}
        given["--no-code"] = options.no_code
        unused = [*(option for option, value in given.items() if value), *options.flags]
        if unused:
            raise OpspliceError(f"{options.model} is compiled already: {' and '.join(unused)} would do nothing for it")
    else:
        options.flags = _for_this_cpu(options.flags, options.target)
        outcome = compile_job(options)
        report = outcome.report
        if options.require_match:
            check_matched(report)
        vmfb = outcome.vmfb
        commands = {**outcome.commands, **commands}
        if outcome.provided and not sources:
            sources = [outcome.provided]

    from opsplice.runtime import load_program

    provider = Provider(sources, functions) if sources else None
    with stdout.kept_free():
        known = Commands(commands) if commands else None
        program = load_program(vmfb, options.device, plugins, provider, known, archives)
        results = program.call(options.function, *inputs)
    saved = _save(options.output, results)
    if options.json:
        found = {"results": [values.format_value(r, limit=2**62) for r in results], "saved": saved}
        print(json.dumps({**(report.to_json() if report else {}), **found}, indent=2))
        return 0
    for number, result in enumerate(results):
        print(f"result[{number}]: {values.format_value(result)}")
    for path in saved:
        print(f"saved {path}")
    return 0


def _for_this_cpu(flags: tuple[str, ...], archs: tuple[str, ...]) -> tuple[str, ...]:
    """The flags, with this machine's CPU where none is named: what is compiled here runs here and is then gone."""
    if archs or any(f.startswith(("--iree-llvmcpu-target", "--iree-hal-target")) for f in flags):
        return flags
    return (*flags, "--iree-llvmcpu-target-cpu=host")


def _save(output: str | None, results: list) -> list[str]:
    from opsplice import values

    if output is None:
        return []
    return [str(p) for p in values.save_values(results, output.removeprefix("@"))]

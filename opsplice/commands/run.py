"""`opsplice run`: run a .vmfb, or compile a model with specs and run it."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice.api import check_matched
from opsplice.commands.shared import stdout
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import compile_job
from opsplice.common.errors import OpspliceError
from opsplice.compiling.job import plugin_builder
from opsplice.pipeline.flags import for_this_cpu, named_targets
from opsplice.runtime.providers import Provider, split_plugins
from opsplice.runtime.weights import Parameters, found_beside, joined, read_archives

if TYPE_CHECKING:
    from opsplice.compiling.spec_sources import SpecSource
    from opsplice.isolation.isolate import ChildCrashError
    from opsplice.runtime.value_text import Value


def run(options: argparse.Namespace) -> Answer:
    # What is wrong with the inputs and plugins is said before anything is compiled.
    from opsplice.runtime import value_text as values
    from opsplice.runtime.host_commands import named_files

    inputs = [value for text in options.input for value in values.parse_input(text)]
    plugins, functions = split_plugins(options.plugin)
    if plugins:
        from opsplice.runtime.runtime_devices import DEFAULT, read_plugins

        read_plugins(plugins, options.device or DEFAULT)
    report = None
    commands = named_files(options.command_files)
    weights = read_archives(options.parameters)
    sources: list[Path | Mapping[tuple[str, str], bytes]] = [Path(each) for each in options.provider]
    vmfb: bytes | Path = Path(options.model)
    if Path(options.model).suffix == ".vmfb":
        given = {"--spec": options.spec, "--target": options.target, "--require-match": options.require_match}
        given |= {"--no-code": options.no_code, "--dim": options.dim}
        unused = [*(option for option, value in given.items() if value), *options.flags]
        if unused:
            raise OpspliceError(f"{options.model} is compiled already, so {' and '.join(unused)} would have no effect")
        weights = joined(weights, found_beside(Path(options.model)))
    else:
        _settle_device(options)
        options.flags = for_this_cpu(options.flags, options.target)
        outcome = compile_job(options)
        report = outcome.report
        if options.require_match:
            check_matched(report)
        vmfb = outcome.vmfb
        weights = joined(weights, outcome.parameters)
        commands = {**outcome.commands, **commands}
        if outcome.provided and not sources:
            sources = [outcome.provided]

    provider = Provider(sources, functions) if sources else None
    specs = tuple(options.spec) if report is not None else ()
    call = (options, vmfb, inputs, plugins, provider, commands, weights, specs)
    with stdout.kept_free():
        results, saved = _apart(not options.no_isolate, *call)
    found = {**(report.to_json() if report else {}), "results": results, "saved": saved}
    lines = [f"result[{number}]: {result}" for number, result in enumerate(results)]
    return Answer(found, [*lines, *(f"saved {path}" for path in saved)])


def _settle_device(options: argparse.Namespace) -> None:
    """Let the target choose the device, or the device the target. Raises OpspliceError if there is no such device."""
    from opsplice.runtime import device_choice, runtime_devices

    named = named_targets(options.target, options.flags)
    if options.device is None:
        options.device = device_choice.device_of(named)
    elif not runtime_devices.takes_plugins(options.device):
        runtime_devices.open_device(options.device)
        if not named and not _names_devices(options.model):
            options.target = device_choice.targets_for(options.device)


def _names_devices(model: str) -> bool:
    """Whether a module says itself for which devices it is, which a model in a frontend's format never does."""
    from opsplice.frontends.importing import FORMATS

    path = Path(model)
    return path.suffix.lower() not in FORMATS and path.is_file() and b"hal.device.targets" in path.read_bytes()


def _apart(isolate: bool, *call: Any) -> tuple[list[str], list[str]]:
    """The results as text, and the files that they are in, of a run in a child process: kernels may crash."""
    if not isolate:
        return _results(None, *call)
    from opsplice.isolation.isolate import ChildCrashError, call_isolated, method

    try:
        return call_isolated(_results, call, method=method(), capture_stderr=False)
    except ChildCrashError as crash:
        raise OpspliceError(
            f"the program {_end(crash)}",
            hint="a kernel of it writes where it must not, or its file is damaged; "
            "with --no-isolate it runs in this process, as for a debugger",
        ) from None


def _end(crash: ChildCrashError) -> str:
    if crash.signal == signal.SIGKILL:
        return "was killed: most likely the machine ran out of memory"
    return f"crashed ({crash.end})" if crash.signal else f"ended the process with {crash.end}"


def _results(
    _report: Any,
    options: argparse.Namespace,
    vmfb: bytes | Path,
    inputs: Sequence[Value],
    plugins: Sequence[Path],
    provider: Provider | None,
    commands: dict[str, Path],
    weights: Parameters,
    specs: Sequence[SpecSource],
) -> tuple[list[str], list[str]]:
    """specs: those that the program was compiled with."""
    from opsplice.runtime import value_text as values
    from opsplice.runtime.host_commands import Commands
    from opsplice.runtime.loaded_program import load_program

    known = Commands(commands) if commands else None
    program = load_program(vmfb, options.device, plugins, provider, known, weights, plugin_builder(specs))
    results = program.call(options.function, *inputs)
    text = values.format_value if options.json else values.brief_value
    saved = [] if options.output is None else values.save_values(results, options.output.removeprefix("@"))
    return [text(each) for each in results], list(map(str, saved))

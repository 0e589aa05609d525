"""`opsplice kernel provider`: folders of kernels to one module, which any host of IREE can load before a program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.errors import OpspliceError, counted
from opsplice.files import check_folder, write_file
from opsplice.reports.render import noted
from opsplice.runtime.providers import Key, linked, read_folder, read_kernel, registry_source
from opsplice.targets.link import function_link
from opsplice.targets.registry.store import Store


def run(options: argparse.Namespace) -> Answer:
    output = Path(options.output)
    check_folder(output)
    kernels: dict[Key, Path] = {}
    for folder in reversed(options.folders):
        kernels.update(read_folder(Path(folder)))
    if not kernels:
        raise OpspliceError(
            f"there are no kernels in {', '.join(options.folders)}", hint="they are files ending in .bin"
        )
    functions = [function_link.read(Path(path), Store()) for path in options.plugin]
    given = {key: read_kernel(key, path) for key, path in sorted(kernels.items())}
    code = {key: linked(key, data, functions, kernels[key]) for key, data in given.items()}
    changed = {key: data for key, data in code.items() if data != given[key]}
    notes = [note for (name, form), data in changed.items() for note in function_link.unchecked(data, form, name)]
    path = write_file(output, isolated.call("opsplice.commands.kernels.provider:compiled", code, options.flags))
    found = [{"name": name, "format": form, "file": str(kernels[name, form])} for name, form in code]
    said = [*(noted(note, sys.stderr) for note in notes), f"wrote {path}: {counted(len(code), 'kernel')}"]
    return Answer({"output": str(path), "kernels": found, "notes": notes}, notes=said)


def compiled(code: dict[Key, bytes], flags: tuple[str, ...]) -> bytes:
    """The module of kernels, made in the child: only there is the compiler imported."""
    from opsplice.frontends import ModuleSource
    from opsplice.pipeline.compiler import compile_module

    return compile_module(ModuleSource(content=registry_source(code)), flags=flags).vmfb

"""`opsplice kernel plugin`, `fat` and `list`: kernels that programs get at run time. Other actions: `_ELSEWHERE`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from opsplice.commands.shared.answer import Answer
from opsplice.compiling.spec_files import check_output
from opsplice.compiling.spec_sources import is_package
from opsplice.errors import OpspliceError, counted
from opsplice.files import check_folder, write_file
from opsplice.targets.formats import fatelf
from opsplice.targets.link import function_link
from opsplice.targets.plugins import plugin_build, plugin_file
from opsplice.targets.plugins.plugin_source import QUERY
from opsplice.targets.registry.store import Store

# The modules of the other actions, none of which another action imports.
_REGISTRY = ("build", "push", "pull", "show", "mirror", "gc")
_KEYS = ("keygen", "sign", "verify", "trust", "lock", "audit")
_ELSEWHERE = {
    "provider": "provider",
    **dict.fromkeys(_REGISTRY, "packages"),
    **dict.fromkeys(_KEYS, "keys"),
}


def run(options: argparse.Namespace) -> Answer:
    if options.action in _ELSEWHERE:
        return _elsewhere(_ELSEWHERE[options.action], options)
    return {"plugin": _plugin, "fat": _fat, "list": _list}[options.action](options)


def _elsewhere(module: str, options: argparse.Namespace) -> Answer:
    answer: Answer = import_module(f"opsplice.commands.kernels.{module}").run(options)
    return answer


def _plugin(options: argparse.Namespace) -> Answer:
    from opsplice.compiling import plugin_kernels

    output = Path(options.output)
    check_folder(output)
    if options.spec is None:
        return _nothing(output)
    check_output(output, [options.spec])
    built = plugin_kernels.build(options.spec, output.suffix, options.kernel, options.target, options.features)
    write_file(output, built.data)
    functions = [str(function) for function in built.functions]
    of_cpu = output.suffix in (".so", ".sos")
    archs = [str(part.library.arch) for part in plugin_file.read(output).parts] if of_cpu else []
    found = {"output": str(output), "archs": archs, "functions": functions, "toolchain": built.toolchain}
    wrote = f"wrote {output}: {counted(len(functions), 'function')}, built by {built.toolchain}"
    return Answer(found, [*functions, wrote])


def _nothing(output: Path) -> Answer:
    """A plugin with no functions: IREE loads programs that can do without theirs only with some plugin."""
    if output.suffix != ".sos":
        raise OpspliceError(
            "there is no spec to build a plugin from", hint="name one; only an empty plugin needs none: -o none.sos"
        )
    write_file(output, plugin_build.nothing(Store()).read_bytes())
    return Answer({"output": str(output), "functions": []}, [f"wrote {output}: 0 functions"])


def _fat(options: argparse.Namespace) -> Answer:
    output = Path(options.output)
    check_folder(output)
    if output.suffix != ".sos":
        raise OpspliceError(f"{output} does not end in .sos", hint="IREE recognises embedded plugins by this ending")
    plugins = [plugin_file.read(Path(name)) for name in options.files]
    for plugin in plugins:
        for part in plugin.parts:
            plugin_file.check_standalone(part, plugin.path)
    parts = [part for plugin in plugins for part in plugin.parts]
    names = [str(plugin.path) for plugin in plugins for _ in plugin.parts]
    write_file(output, fatelf.write([part.data for part in parts], names))
    archs = [_machine(part) for part in parts]
    return Answer({"output": str(output), "archs": archs}, [f"wrote {output}: {', '.join(archs)}"])


def _list(options: argparse.Namespace) -> Answer:
    place = options.place
    if place is None or is_package(place) or Path(place).is_dir():
        return _elsewhere("packages", options)
    if Path(place).suffix in function_link.SUFFIXES:
        file = function_link.read(Path(place), Store())
        functions = file.functions()
        lines = [f"  {name}{kind}" for name, kind in sorted(functions.items())]
        found = {"file": str(file.path), "format": file.form, "functions": functions}
        return Answer(found, [f"functions on elements for {file.form}, {len(file.code)} bytes", *lines])
    plugin = plugin_file.read(Path(place))
    parts = [
        {
            "arch": part.library.arch,
            "machine": part.library.machine,
            "bytes": len(part.data),
            "exports": None if part.library.exports is None else sorted(part.library.exports),
            "functions": None if part.provides is None else sorted(part.provides),
        }
        for part in plugin.parts
    ]
    answer = {"file": str(plugin.path), "fat": plugin.fat, "parts": parts}
    return Answer(answer, (line for part in plugin.parts for line in _part(part)))


def _part(part: plugin_file.Part) -> Iterator[str]:
    yield f"{_machine(part)}, {len(part.data)} bytes"
    if part.provides is not None:
        yield from (f"  {name}" for name in sorted(part.provides))
    elif part.library.exports is None:
        yield "  stripped: it does not say what it exports"
    else:
        note = "" if QUERY in part.library.exports else f" (no {QUERY}: it is not a plugin)"
        yield f"  what programs can import of it is not said in the file; it exports{note}"
        yield from (f"    {name}" for name in sorted(part.library.exports))


def _machine(part: plugin_file.Part) -> str:
    return part.library.arch or f"ELF machine {part.library.machine}"

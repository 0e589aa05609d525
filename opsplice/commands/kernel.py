"""`opsplice kernel plugin`, `fat` and `list`: kernels that programs get at run time. Other actions: `_ELSEWHERE`."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from opsplice.compiling.spec_files import check_output
from opsplice.compiling.spec_sources import is_package
from opsplice.errors import OpspliceError
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
    "provider": "kernel_provider",
    **dict.fromkeys(_REGISTRY, "kernel_registry"),
    **dict.fromkeys(_KEYS, "kernel_keys"),
}


def run(options: argparse.Namespace) -> int:
    if options.action in _ELSEWHERE:
        return int(import_module(f"opsplice.commands.{_ELSEWHERE[options.action]}").run(options))
    return {"plugin": _plugin, "fat": _fat, "list": _list}[options.action](options)


def _plugin(options: argparse.Namespace) -> int:
    from opsplice.compiling import plugin_kernels

    output = Path(options.output)
    check_folder(output)
    if options.spec is None:
        return _nothing(output)
    check_output(output, [options.spec])
    built = plugin_kernels.build(options.spec, output.suffix, options.kernel, options.target, options.features)
    write_file(output, built.data)
    functions = [str(function) for function in built.functions]
    if options.json:
        of_cpu = output.suffix in (".so", ".sos")
        archs = [str(part.library.arch) for part in plugin_file.read(output).parts] if of_cpu else []
        found = {"output": str(output), "archs": archs, "functions": functions, "toolchain": built.toolchain}
        print(json.dumps(found, indent=2))
        return 0
    for function in functions:
        print(function)
    print(f"wrote {output}: {_count(len(functions), 'function')}, built by {built.toolchain}")
    return 0


def _nothing(output: Path) -> int:
    """A plugin with no functions: IREE loads programs that can do without theirs only with some plugin."""
    if output.suffix != ".sos":
        raise OpspliceError(
            "there is no spec to build a plugin from", hint="name one; only an empty plugin needs none: -o none.sos"
        )
    write_file(output, plugin_build.nothing(Store()).read_bytes())
    print(f"wrote {output}: 0 functions")
    return 0


def _fat(options: argparse.Namespace) -> int:
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
    if options.json:
        print(json.dumps({"output": str(output), "archs": archs}, indent=2))
        return 0
    print(f"wrote {output}: {', '.join(archs)}")
    return 0


def _list(options: argparse.Namespace) -> int:
    place = options.place
    if place is None or is_package(place) or Path(place).is_dir():
        return int(import_module("opsplice.commands.kernel_registry").run(options))
    if Path(place).suffix in function_link.SUFFIXES:
        return _list_functions(options)
    plugin = plugin_file.read(Path(options.place))
    if options.json:
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
        print(json.dumps({"file": str(plugin.path), "fat": plugin.fat, "parts": parts}, indent=2))
        return 0
    for part in plugin.parts:
        print(f"{_machine(part)}, {len(part.data)} bytes")
        if part.provides is not None:
            for name in sorted(part.provides):
                print(f"  {name}")
        elif part.library.exports is None:
            print("  stripped: it does not say what it exports")
        else:
            note = "" if QUERY in part.library.exports else f" (no {QUERY}: it is no plugin)"
            print(f"  what programs can import of it is not said in the file; it exports{note}")
            for name in sorted(part.library.exports):
                print(f"    {name}")
    return 0


def _list_functions(options: argparse.Namespace) -> int:
    file = function_link.read(Path(options.place), Store())
    if options.json:
        print(json.dumps({"file": str(file.path), "format": file.form, "functions": file.functions()}, indent=2))
        return 0
    print(f"functions on elements for {file.form}, {len(file.code)} bytes")
    for name, kind in sorted(file.functions().items()):
        print(f"  {name}{kind}")
    return 0


def _machine(part: plugin_file.Part) -> str:
    return part.library.arch or f"ELF machine {part.library.machine}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"

"""`opsplice kernel plugin`, `fat` and `list`: kernels that programs get at run time. Other actions: `_ELSEWHERE`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from opsplice import plugins
from opsplice.commands.shared.answer import Answer
from opsplice.common.errors import counted
from opsplice.common.store import Store
from opsplice.compiling.spec_sources import is_package
from opsplice.targets.link import function_link
from opsplice.targets.plugins import plugin_file
from opsplice.targets.plugins.plugin_source import QUERY

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
    spec, targets = options.spec, options.target
    made = plugins.build(spec, options.output, kernels=options.kernel, targets=targets, features=options.features)
    functions = list(made.functions)
    wrote = f"wrote {made.path}: {counted(len(functions), 'function')}"
    if spec is None:
        return Answer({"output": str(made.path), "functions": functions}, [wrote])
    found = {"output": str(made.path), "archs": list(made.archs), "functions": functions, "toolchain": made.toolchain}
    return Answer(found, [*functions, f"{wrote}, built by {made.toolchain}"])


def _fat(options: argparse.Namespace) -> Answer:
    archs = plugins.join(options.files, options.output)
    wrote = f"wrote {Path(options.output)}: {', '.join(archs)}"
    return Answer({"output": str(Path(options.output)), "archs": list(archs)}, [wrote])


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
    yield f"{part.machine}, {len(part.data)} bytes"
    if part.provides is not None:
        yield from (f"  {name}" for name in sorted(part.provides))
    elif part.library.exports is None:
        yield "  stripped: it does not say what it exports"
    else:
        note = "" if QUERY in part.library.exports else f" (no {QUERY}: it is not a plugin)"
        yield f"  what programs can import of it is not said in the file; it exports{note}"
        yield from (f"    {name}" for name in sorted(part.library.exports))

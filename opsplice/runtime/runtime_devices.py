"""Devices of IREE's runtime, and the plugins that they find a program's imported functions in.

IREE takes plugins through a flag of the process, which only grows, and a driver has those that the flag names when it
is made. So each list of plugins gets drivers of its own here, and the drivers without plugins are made before the flag
is set. What an earlier list left in the flag comes after the asked ones in IREE's search; where that could fill in for
what the asked ones lack, it is an error.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError, did_you_mean, nearest
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.plugins import call_types, plugin_file
from opsplice.targets.plugins.plugin_file import PluginFile

# What IREE's binding raises for a status that is not OK (runtime/bindings/python/status_utils.cc).
FAILURES = (ValueError, RuntimeError, IndexError)

# The device that programs run on where neither they nor the user name another.
DEFAULT = "local-task"
# The drivers that run code of this machine's CPU, and so can have plugins.
_LOCAL = ("local-sync", "local-task")

_STATUS = re.compile(
    r"(?:\S+\.c:\d+|<vm>:0): (?P<code>[A-Z_]{3,})(?:; (?P<message>.*?))?(?:; while |;?\s*\n\[|$)", re.DOTALL
)


@dataclass(frozen=True, eq=False)
class Device:
    """An open device. hal: as IREE's runtime has it. on_host: whether it is this machine's CPU."""

    hal: Any
    on_host: bool = True


_lock = threading.Lock()
_Key = tuple[tuple[int, ...], ...]
# The devices of this machine's CPU, by name and plugins.
_devices: dict[tuple[str, _Key], Device] = {}
# Results that are in the memory of a device may outlive this module when Python ends, and have to go before the device.
# The names of `sys` are let go of behind those of all other modules.
vars(sys)["opsplice devices"] = _devices
# Devices of GPUs close with their last program: an open one may cost as much as one that runs. Mesa's for the CPU waits
# for work in a loop of its own, which keeps a core busy.
_others: weakref.WeakValueDictionary[str, Device] = weakref.WeakValueDictionary()
_flagged: list[PluginFile] = []
# How often the process was forked: a forked child has none of the threads that its parent's devices work with.
generation = 0
# The system libraries that were loaded from each path, in order, by what their files were then.
_loaded: dict[Path, list[tuple[int, ...]]] = {}


def takes_plugins(uri: str) -> bool:
    """Whether a device runs code of this machine's CPU."""
    return driver_of(uri) in _LOCAL


def read_plugins(paths: Any, uri: str) -> tuple[PluginFile, ...]:
    """The plugins at paths (or at one) for a device.

    Raises OpspliceError for a device that takes none, and for a plugin that cannot be loaded on this machine.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if paths and not takes_plugins(uri):
        from opsplice.targets.link import function_link  # what only few programs need takes long to load

        hint = f"libraries are for the devices {', '.join(_LOCAL)}; functions on elements for others end in "
        raise OpspliceError(
            f"device '{uri}' loads no library as a plugin", hint=hint + " ".join(function_link.SUFFIXES)
        )
    plugins = tuple(plugin_file.read(Path(path)) for path in paths)
    for plugin in plugins:
        plugin_file.check_loadable(plugin)
    return plugins


def provided(plugins: Sequence[PluginFile]) -> frozenset[str] | None:
    """The functions that plugins have; None if one of them does not say."""
    found: set[str] = set()
    for plugin in plugins:
        part = plugin.for_arch(archs.host_arch())
        if part is None or part.provides is None:
            return None
        found |= part.provides
    return frozenset(found)


def open_device(uri: str, plugins: Sequence[PluginFile] = (), imports: Collection[str] | None = None) -> Device:
    """The device of a name, with plugins, of which later ones shadow earlier ones. Opened once for each list.

    It is open while what is returned here is held; those of this machine's CPU stay open.

    imports: what the program imports, None if that is not known. Raises OpspliceError for a device that is not there or
    has no plugins, a plugin that IREE does not load, and plugins that IREE cannot tell from earlier ones any more.
    """
    _check_driver(uri)
    import iree.runtime

    try:
        key = (uri, tuple(plugin.identity for plugin in plugins))
        with _lock:
            if not takes_plugins(uri):
                device = _others.get(uri) or Device(iree.runtime.get_device(uri, cache=False), on_host=False)
                _others[uri] = device
                return device
            if key not in _devices:
                if plugins:
                    _announce(plugins, imports)
                _devices[key] = Device(_new(uri))
            return _devices[key]
    except FAILURES as error:
        listed = "\n".join(str(plugin.path) for plugin in _flagged) if plugins else ""
        raise OpspliceError(
            f"cannot open the device '{uri}'{' with these plugins' if plugins else ''}",
            details="\n".join(filter(None, [status(error), listed])),
            hint="IREE keeps plugins, broken ones too, for as long as a process lives" if plugins else None,
        ) from None


def note_lost(device: Device, reason: str) -> bool:
    """Whether the status of a failure says that a device is lost: nothing runs on it any more.

    The next program opens the device again.
    """
    if "DEVICE_LOST" not in reason:
        return False
    with _lock:
        for uri in [uri for uri, other in _others.items() if other is device]:
            del _others[uri]
    return True


def limit_threads(count: int) -> None:
    """Have the devices `local-task` that are opened from now on work with at most so many threads."""
    import iree.runtime

    iree.runtime.flags.parse_flags(f"--task_topology_max_group_count={count}")


# Freed memory that the next call takes: new memory is filled with zeros, which takes a loop over elements half as long
# again. Up to 256 MiB in 64 pieces are kept.
_ALLOCATORS = ["caching:*=256mib;256mib;64"]


def _new(uri: str) -> Any:
    """A device of a driver of its own; of the package's public calls each gives the driver that was made first."""
    from iree.runtime._binding import create_hal_driver

    return create_hal_driver(driver_of(uri)).create_device_by_uri(uri, allocators=_ALLOCATORS)


def _forget() -> None:
    """Have a forked child open devices of its own."""
    global generation, _lock
    generation += 1
    _lock = threading.Lock()  # a thread of the parent may have held the other
    lost = [*_devices.values(), *_others.values()]
    if lost:
        from iree.runtime._binding import disable_leak_checker

        disable_leak_checker()
    for device in lost:
        # To close one is to wait for its threads for ever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(device.hal))
    _devices.clear()
    _others.clear()


os.register_at_fork(after_in_child=_forget)


def _announce(plugins: Sequence[PluginFile], imports: Collection[str] | None) -> None:
    """Have drivers that are made from now on find these plugins before any others."""
    import iree.runtime

    if [p.identity for p in plugins] == [p.identity for p in _flagged]:
        return
    if _flagged:
        _check_shadowed(plugins, imports)
    else:
        for name in _LOCAL:
            iree.runtime.get_driver(name)
    paths = [str(p.path.resolve()) if p.embedded else _load(p) for p in plugins]
    flags = [f"--executable_plugin={p.flag(path)}" for p, path in zip(plugins, paths, strict=True)]
    iree.runtime.flags.parse_flags(*flags)
    _flagged.extend(plugins)


def _load(plugin: PluginFile) -> str:
    """The path by which IREE loads a system library. Raises OpspliceError if the system cannot load it.

    IREE would find that out when it calls it, and crash. The system knows libraries by their paths, so that one which
    was built anew needs another spelling of its path; one that was written over is the old one to it.
    """
    versions = _loaded.setdefault(plugin.path.resolve(), [])
    if plugin.identity not in versions:
        if any(known[:2] == plugin.identity[:2] for known in versions):
            raise OpspliceError(
                f"{plugin.path} was overwritten while this process has it loaded",
                hint="run the program in a process of its own, or put a new file in its place",
            )
        versions.append(plugin.identity)
    folder, name = os.path.split(plugin.path.resolve())
    path = folder + "/." * versions.index(plugin.identity) + "/" + name
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise OpspliceError(
            f"the system cannot load {plugin.path}",
            details=str(error),
            hint="link it with the libraries that it needs; -Wl,-z,defs shows them at the link",
        ) from None
    return path


def _check_shadowed(plugins: Sequence[PluginFile], imports: Collection[str] | None) -> None:
    """Raise OpspliceError if earlier plugins of the process could be taken for these."""
    known, before = provided(plugins), provided(_flagged)
    if imports is not None and known is not None:
        lacking = set(imports) - known
        if not lacking or (before is not None and before.isdisjoint(lacking)):
            return
    earlier = ", ".join(dict.fromkeys(str(plugin.path) for plugin in _flagged))
    raise OpspliceError(
        f"this process has loaded other plugins already: {earlier}",
        hint="run the program in a process of its own",
        details="IREE keeps plugins for as long as a process lives, and would take from them what these do not have.",
    )


def _check_driver(uri: str) -> None:
    import iree.runtime

    drivers = sorted(iree.runtime.query_available_drivers())
    if driver_of(uri) in drivers:
        return
    near = did_you_mean(driver_of(uri), drivers)
    hint = " ".join(filter(None, [near, f"the drivers are {', '.join(drivers)}"]))
    raise OpspliceError(f"there is no device '{uri}'", hint=hint)


def driver_of(uri: str) -> str:
    """The driver of a device."""
    return uri.partition("://")[0]


def status(error: Exception) -> str:
    """IREE's own words, without the C file in front and the call stack behind."""
    found = _STATUS.search(str(error))
    if found is None:
        return str(error).strip()
    return (found["message"] or found["code"].replace("_", " ").lower()).strip()


# ---- imports -----------------------------------------------------------------------------------------------------


def check_imports(name: str, imports: Collection[str], types: Mapping[str, str], plugins: Sequence[PluginFile]) -> None:
    """Raise OpspliceError if a program imports what its plugins are known not to have, or to have for other arguments.

    name: of the program. types: what it calls functions with (`call_types`), as far as that is known.
    """
    _check_types(name, types, plugins)
    known = provided(plugins)
    if known is not None and (missing := sorted(set(imports) - known)):
        raise missing_imports(name, missing, plugins)


def _check_types(name: str, types: Mapping[str, str], plugins: Sequence[PluginFile]) -> None:
    host = archs.host_arch()
    parts = [(plugin, part) for plugin in plugins if (part := plugin.for_arch(host)) is not None]
    for symbol, word in types.items():
        # Of plugins that do not say what they have only IREE knows whether it comes to the function in them.
        having = [(plugin, part) for plugin, part in parts if part.provides is None or symbol in part.provides]
        if not having:
            continue
        plugin, part = having[-1]
        found = part.types.get(symbol, word)
        if found != word:
            raise OpspliceError(
                f"{plugin.path} has '{symbol}' for other arguments than {name} calls it with",
                details=f"in the plugin: {symbol}{call_types.told(found)}\n"
                f"in the program: {symbol}{call_types.told(word)}",
                hint="build both from the same spec: opsplice kernel plugin SPEC -o kernels.so",
            )


def missing_imports(name: str, missing: Sequence[str], plugins: Sequence[PluginFile]) -> OpspliceError:
    """The error for a program with functions that no plugin has, or may have."""
    listed = ", ".join(f"'{symbol}'" for symbol in missing)
    build = "opsplice kernel plugin SPEC -o kernels.so builds one"
    if not plugins:
        return OpspliceError(
            f"{name} imports {listed} from a plugin, and none is given",
            hint=f"--plugin=FILE, in Python plugins=[...]; {build}",
        )
    lines, names = [], set[str]()
    for plugin in plugins:
        has = provided([plugin])
        names |= has or set()
        lines.append(f"{plugin.path} has {', '.join(sorted(has)) if has else 'what it does not say'}")
    near = list(filter(None, (nearest(symbol, names) for symbol in missing)))
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return OpspliceError(
        f"{name} imports {listed}, which no plugin has", details="\n".join(lines), hint=f"{hint}{build}"
    )

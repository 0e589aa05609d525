"""Reads plugins of IREE's CPU runtime, and says before IREE does why one cannot be loaded here.

A plugin is a shared library of the system, or an embedded ELF, several of which may be in a FatELF. It must not know
programs or the runtime.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file, check_name, read_file
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.formats import elf, fatelf
from opsplice.targets.formats.elf import Library
from opsplice.targets.plugins.plugin_source import IMPORT_PREFIX, QUERY, TYPES_PREFIX

_EMBEDDED_PREFIX = "embedded:"
_EMBEDDED_SUFFIX = ".sos"


@dataclass(frozen=True)
class Part:
    """A library for one architecture."""

    data: bytes
    library: Library

    @property
    def machine(self) -> str:
        """What it is for: an architecture, or ELF's number of one that is not known."""
        return self.library.arch or f"ELF machine {self.library.machine}"

    @property
    def provides(self) -> frozenset[str] | None:
        """The functions that programs can import of it; None where the file does not say, as one that is not ours."""
        names = self.library.exports or frozenset()
        found = frozenset(n.removeprefix(IMPORT_PREFIX) for n in names if n.startswith(IMPORT_PREFIX))
        return found - {""} if found else None

    @property
    def types(self) -> dict[str, str]:
        """What functions are called with (`call_types.py`), by name; those of files that do not say are not there."""
        names = (n.removeprefix(TYPES_PREFIX) for n in self.library.exports or () if n.startswith(TYPES_PREFIX))
        return {symbol: word for word, _, symbol in (name.partition("_") for name in names)}


@dataclass(frozen=True)
class PluginFile:
    """A plugin as it lies on disk. embedded: IREE's own loader is to load it; identity: changes when the file does."""

    path: Path
    parts: tuple[Part, ...]
    fat: bool
    embedded: bool
    identity: tuple[int, ...]

    def for_arch(self, arch: str | None) -> Part | None:
        """The part for an architecture: the first, as IREE takes it."""
        return next((part for part in self.parts if part.library.arch == arch and arch is not None), None)

    def flag(self, path: str) -> str:
        """How IREE's flag --executable_plugin names it. path: of the file, absolute."""
        return f"{_EMBEDDED_PREFIX}{path}" if self.embedded and not path.endswith(_EMBEDDED_SUFFIX) else path


def read(path: Path) -> PluginFile:
    """Reads a plugin's file. Raises OpspliceError when it is not there, or no library, or damaged.

    path: as IREE takes it: `embedded:` before it has IREE's own loader load a file whatever its name.
    """
    text = str(path)
    embedded = text.startswith(_EMBEDDED_PREFIX) or text.endswith(_EMBEDDED_SUFFIX)
    path = Path(text.removeprefix(_EMBEDDED_PREFIX))
    check_file(path)
    check_name(path.absolute())
    status = path.stat()
    return _read(path, embedded, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))


@functools.lru_cache(maxsize=16)
def _read(path: Path, embedded: bool, identity: tuple[int, ...]) -> PluginFile:
    """Kept while the file stays the same: a program may be run often."""
    data = read_file(path)
    fat = fatelf.is_fat(data)
    contents = [part.data for part in fatelf.read(data, str(path))] if fat else [data]
    parts = tuple(Part(content, elf.read_library(content, str(path))) for content in contents)
    return PluginFile(path, parts, fat, embedded or fat, identity)


def check_loadable(plugin: PluginFile) -> Part:
    """The part that is loaded on this machine. Raises OpspliceError when there is none, or it is not a plugin."""
    host = archs.host_arch()
    part = plugin.for_arch(host)
    if part is None:
        found = ", ".join(p.library.arch or f"ELF machine {p.library.machine}" for p in plugin.parts)
        raise OpspliceError(
            f"{plugin.path} is for {found}, and this machine is {host or 'of another architecture'}",
            hint=f"build it for {host or 'this machine'}: opsplice kernel plugin --arch={host or 'ARCH'} ...",
        )
    if part.library.exports is not None and QUERY not in part.library.exports:
        raise OpspliceError(
            f"{plugin.path} is not a plugin: it does not export {QUERY}",
            hint="opsplice kernel plugin makes a plugin of plain C functions",
        )
    if plugin.embedded:
        check_standalone(part, plugin.path)
    return part


def check_standalone(part: Part, path: Path) -> None:
    """Raise OpspliceError unless IREE's own loader can load a library, which links it to nothing."""
    if part.library.imports:
        listed = sorted(part.library.imports)
        raise OpspliceError(
            f"{path} is a library of a system, and cannot be loaded as embedded ELF",
            hint="opsplice kernel plugin -o kernels.sos builds one that can; or give it as a system library, .so",
            details=f"it wants {', '.join(listed[:8])}{', ...' if len(listed) > 8 else ''}",
        )
    elf.check_constructors(part.library, str(path))

"""What a backend is: a kind of device by all its names, what its code is built of, and what that code is called with.

`table.py` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opsplice.errors import OpspliceError
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest
from opsplice.targets.registry.store import Store

Threads = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """How a program calls a whole dispatch.

    kernel: its name, for errors. buffers: for each whether the kernel writes it. words: for each word of 32 bits what
    it is of, and the element type. workgroup: how many threads the kernel says that a workgroup has.
    """

    kernel: str
    buffers: tuple[bool, ...]
    words: tuple[tuple[str, str], ...]
    workgroup: Threads | None

    def threads(self, said: Threads | None = None) -> Threads:
        """How many threads a workgroup has. said: by the file, where the kernel does not. Raises OpspliceError."""
        found = self.workgroup or said
        if found is None:
            raise OpspliceError(
                f"nothing says how many threads a workgroup of kernel {self.kernel} has",
                hint="write it into the kernel, such as `workgroup (128)`: IREE's runtime would launch it with none",
            )
        return found


@dataclass(frozen=True)
class Entry:
    """What a file says of a dispatch: the threads of a workgroup, the numbers of the words that it takes as floats, and
    the bytes that a workgroup shares.
    """

    threads: Threads
    floats: frozenset[int] = frozenset()
    shared: int = 0


class Backend(Protocol):
    """A kind of device.

    name: in `--target` and in clauses, where `clauses` are others for the same. iree, format, device: IREE's names of
    what makes code for it, of that code, and of the device; aliases: more of these. chip_flag: what chooses a chip.
    chips: what the name of a chip that code is built for looks like, "" where there are none; usual_chip: one of them.
    """

    name: str
    iree: str
    device: str
    format: str = ""
    clauses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    chip_flag: str | None = None
    chips: str = ""
    usual_chip: str = ""

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        """The checked artifact of a file. arch, features: of the target, as IREE writes them. Raises OpspliceError."""
        ...

    def entry(self, code: Artifact, name: str, launch: Launch) -> Entry:
        """What an artifact says of its dispatch. name: how errors call the file.

        Raises OpspliceError where the dispatch cannot be launched so.
        """
        ...

"""What a backend is: a kind of device by all its names, what its code is built of, and what that code is called with.

`backend_table.py` lists them.
"""

from __future__ import annotations

from typing import Protocol

from opsplice.common.store import Entry as Stored
from opsplice.common.store import Store
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, Form
from opsplice.targets.formats.entries import Entry, Limits

LLVM_IR = (".ll", ".bc")
MLIR = (".mlir",)


class Backend(Protocol):
    """A kind of device.

    name: in `--target` and in clauses, where `clauses` are others for the same; title: in sentences. iree, format,
    device: IREE's names of what makes code for it, of that code, and of the device; aliases: more of these. limits:
    what its runtime takes. kinds: of files that its kernels can be; instead: what to say of others. functions: the
    kinds of files with functions on elements; linked: what the functions are called that IREE links with these by
    itself, as a pattern. chip_flag: what chooses a chip. chips: what the name of a chip that code is built for looks
    like, "" where there are none; usual_chip: one of them.
    """

    name: str
    iree: str
    device: str
    format: str = ""
    clauses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    title: str = ""
    limits: Limits = Limits()
    kinds: tuple[str, ...] = ()
    instead: str = ""
    functions: tuple[str, ...] = ()
    linked: str = ""
    chip_flag: str | None = None
    chips: str = ""
    usual_chip: str = ""

    def chip_here(self) -> str:
        """The chip that is meant where none is named, "" for IREE's own choice."""
        return ""

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        """The checked artifact of a file. arch, features: of the target, as IREE writes them. Raises OpspliceError."""
        ...

    def entry(self, code: Artifact, name: str) -> Entry:
        """What an artifact says of its dispatch. name: how errors call the file.

        Raises OpspliceError where it holds none.
        """
        ...


def artifact_of(entry: Stored, form: Form, arch: archs.Arch | None = None) -> Artifact:
    """What the store has as an artifact.

    Its builder noted `toolchain`, perhaps `notes`, `entry`, `signatures` and `harmless`.
    """
    return Artifact(
        path=entry.path,
        form=form,
        digest=entry.digest,
        arch=arch,
        toolchain=entry.notes["toolchain"],
        built=entry.built,
        notes=tuple(entry.notes.get("notes", ())),
        entry=entry.notes.get("entry", ""),
        signatures=entry.notes.get("signatures", {}),
        harmless=tuple(entry.notes.get("harmless", ())),
    )

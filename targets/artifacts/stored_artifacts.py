"""What the store has, as the artifact that a backend promised."""

from __future__ import annotations

from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import Artifact, Form
from opsplice.targets.registry.store import Entry


def artifact_of(entry: Entry, form: Form, arch: archs.Arch | None = None) -> Artifact:
    """An entry as an artifact. Its builder noted `toolchain`, perhaps `notes`, `entry`, `signatures` and `harmless`."""
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

"""A transform spec read as a `.splice` file.

It imports the compiler; import it only when there is something to import.
"""

from __future__ import annotations

from pathlib import Path

from opsplice.common.errors import OpspliceError, counted
from opsplice.pipeline.session import Session
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.rewrites.transform_dialect.importing.importer import Imported, import_spec
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text


def import_file(path: Path, *, partial: bool = False) -> Imported:
    """Read a transform spec. partial: leave out what cannot be read instead of raising.

    Raises OpspliceError for a file that is not a transform spec, and for what cannot be read, all at once.
    """
    with Session() as session, session.context as context:  # it knows all of IREE's dialects
        found = import_spec(interpreter.parse(context, path))
    if found.left_out and not partial:
        raise OpspliceError(
            f"{counted(len(found.left_out), 'thing')} in {path} cannot be written in a .splice file",
            details="\n".join(found.left_out),
            hint="--partial imports the rest",
        )
    if not found.text:
        reasons = found.left_out or ("@__transform_main matches nothing, sets no attributes and runs no passes",)
        raise OpspliceError(f"nothing of {path} can be imported", details="\n".join(reasons))
    return found


def read_as_splice(path: Path) -> tuple[LoadedSpec, tuple[str, ...]]:
    """A transform spec as one of our own, as far as it can be read, and what could not be. Raises as `import_file`."""
    found = import_file(path, partial=True)
    return load_text(found.text, Path(f"{path}, read as .splice")), found.left_out

"""A new library, as a Python package that works: the one in the folder `template`, by another name."""

from __future__ import annotations

import re
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import write_files
from opsplice.spec_lang.loading.libraries import OWN

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_TEMPLATE = Path(__file__).with_name("template")
# What the template is called, as a library and as a project.
_LIBRARY, _PROJECT = "acme_kernels", "acme-kernels"


def create(name: str, folder: Path | None = None) -> list[Path]:
    """Write a new library into a folder, by default one of its name here. Returns the files.

    Raises OpspliceError for a name that is none of a Python package, and for a folder that has something in it.
    """
    if _NAME.match(name) is None or name == OWN.name:
        raise OpspliceError(
            f"a library cannot be called '{name}'", hint="use lowercase letters, digits and _, such as acme_kernels"
        )

    def renamed(text: str) -> str:
        return text.replace(_LIBRARY, name).replace(_PROJECT, name.replace("_", "-"))

    paths = [path for path in sorted(_TEMPLATE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    files = {renamed(str(path.relative_to(_TEMPLATE))): renamed(path.read_text()).encode() for path in paths}
    return write_files(Path(name) if folder is None else folder, files, new="name a new folder: --folder FOLDER")

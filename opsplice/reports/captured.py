"""A capture as data: what is asked for, and what comes back. Light, for it crosses to and from child processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.spec_lang.syntax import vocabulary

# Where the program can be read: the phases at which rules apply.
PHASES = ("input", "preprocessing")
DEFAULT_NAME = "captured"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERS = frozenset(["const", "inf", "nan"])
_WORDS = _NUMBERS | {"broadcast", "contract", "import", "kernel", "pattern", "reduce", "replace", "stack", "take"}


@dataclass(frozen=True)
class CaptureJob:
    """What to capture. See `opsplice.capture` for the fields. file: what the spec calls the kernel's C file."""

    source: ModuleSource
    at: tuple[str, ...]
    to: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    name: str = DEFAULT_NAME
    file: str = f"{DEFAULT_NAME}.c"
    phase: str = "preprocessing"
    concrete: bool = False
    element_variable: bool = False
    packs: bool = False
    flags: tuple[str, ...] = ()
    verbose: bool = False


@dataclass(frozen=True)
class Op:
    """An op that can be pointed at. handle: `linalg.generic#3`; values: the names of what it makes.

    does: the ops in the body of a `linalg.generic`, `reduce` before them where it reduces, `rearranges`
    where there are none; "" for any other op.
    """

    handle: str
    values: tuple[str, ...]
    type: str
    function: str
    location: str
    does: str = ""


@dataclass(frozen=True)
class Capture:
    """A captured pattern, with a kernel's declaration, a rule, and the kernel in C.

    spec: the text of a `.splice` file, which names `file`. code: the text of that file, "" where there is no kernel.
    location, function: of the op that was captured. inputs: for each parameter where its value comes from.
    matches: the locations of all places where the pattern holds in the program, this one among them.
    reference: whether the C computes what the pattern says, in plain loops; otherwise it only has the prototype.
    notes: what the user should know.
    """

    name: str
    spec: str = field(repr=False)
    code: str = field(repr=False)
    file: str
    function: str
    location: str
    inputs: Mapping[str, str]
    matches: tuple[str, ...]
    reference: bool
    notes: tuple[str, ...] = ()

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the spec to a file and the C beside it, unless there is such a file already; return what was written.

        Raises OpspliceError when that fails.
        """
        from opsplice.common.files import check_folder, write_file

        path = Path(path)
        check_folder(path)
        code = path.parent / self.file
        # The code first: a spec without its kernel is of no use.
        written = [write_file(code, self.code.encode())] if self.code and not code.exists() else []
        return (write_file(path, self.spec.encode()), *written)


def check_name(name: str) -> str:
    """The name, if a pattern can have it. Raises OpspliceError otherwise."""
    if _NAME.fullmatch(name) is None or name in _WORDS:
        raise OpspliceError(
            f"'{name}' cannot be a pattern's name", hint="use letters, digits and _, and no keyword of the language"
        )
    if vocabulary.is_word(name):
        raise OpspliceError(f"'{name}' is the name of an op", hint=f"choose another, such as {name}_pattern")
    return name


def name_for(path: Path) -> str:
    """A pattern's name after the file that it goes to."""
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"
    return f"{name}_pattern" if name in _WORDS or vocabulary.is_word(name) else name

"""What the result of compiling a source file depends on: its bytes and those of the files that it includes.

Found by reading, without running a compiler, so that a build that was done before costs no process. Reading takes in
too much rather than too little (every quoted name that is a file counts), and the compiler's own list of what it
included is checked against it after each build, so that nothing slips through. It must not know the store.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsplice.common import files
from opsplice.common.errors import OpspliceError
from opsplice.common.files import LARGEST, LARGEST_TEXT, read_file
from opsplice.targets.artifacts.artifact import ArtifactRequest

# Every text between quotes, escaped ones too, or angle brackets: #include, #embed, .incbin, and names that macros pass
# on. The look-ahead lets candidates overlap, so that a stray bracket hides none.
_QUOTED = re.compile(r'(?=["<]([^<>"\n\0]{1,255}?)\\?[">])')

# Flags whose value is a folder to search, joined or as the next word.
_FOLDER_FLAGS = ("-I", "-iquote", "-isystem", "-idirafter")


@dataclass(frozen=True)
class Inputs:
    """The files that a build reads.

    files:  resolved paths.
    digest: SHA-256 over their names, as written, and contents, in hex.
    """

    files: frozenset[Path]
    digest: str


def quoted_names(text: str) -> frozenset[str]:
    """The names that C, C++, assembly and GLSL may include: all between quotes or angle brackets."""
    return frozenset(_QUOTED.findall(text))


def read_inputs(
    source: Path,
    flags: Sequence[str],
    headers: Path | None = None,
    names: Callable[[str], Collection[str]] = quoted_names,
) -> Inputs:
    """The inputs of compiling `source` with `flags` (paths in which start at the source's folder).

    headers: a folder that is searched as well.
    names:   the names of files that a text may include, in its language.
    Raises OpspliceError when a file cannot be read.
    """
    folder = source.parent
    searched = [*_search_folders(folder, flags), folder, *([headers] if headers else [])]
    digest = hashlib.sha256()
    # Flags may name files as well (`-include x.h`, `-DHEADER="x.h"`, `-fprofile-use=x`).
    waiting = [("", source), *_named_by_flags(folder, flags)]
    seen: set[Path] = set()
    while waiting:
        name, path = waiting.pop()
        path = path.resolve()
        # Each name counts, also of a file that was read: a new file that takes a name over must change the digest.
        data = read_file(path, LARGEST if name else LARGEST_TEXT)
        _update(digest, name.encode("utf-8", "surrogateescape"), hashlib.sha256(data).digest())
        if path in seen:
            continue
        seen.add(path)
        text = data.decode("utf-8", "surrogateescape")
        waiting += _existing(sorted(names(text)), [path.parent, *searched])
    return Inputs(frozenset(seen), digest.hexdigest())


def check_complete(inputs: Inputs, included: Iterable[Path], source: Path) -> None:
    """Raises OpspliceError when the compiler included a file that `inputs` misses: a change of it would go unseen."""
    missed = sorted(str(path) for path in set(included) - inputs.files)
    if missed:
        raise OpspliceError(
            f"{source.name} includes {missed[0]} under a name that is put together by macros",
            hint=f'include it by its plain name, #include "{Path(missed[0]).name}", so that a change of it is noticed',
        )


def _search_folders(folder: Path, flags: Sequence[str]) -> list[Path]:
    found = []
    for index, flag in enumerate(flags):
        for prefix in _FOLDER_FLAGS:
            if flag == prefix and index + 1 < len(flags):
                found.append(folder / flags[index + 1])
            elif flag.startswith(prefix) and flag != prefix:
                found.append(folder / flag.removeprefix(prefix))
    return found


def _named_by_flags(folder: Path, flags: Sequence[str]) -> list[tuple[str, Path]]:
    folders = [folder, *_search_folders(folder, flags)]
    found = []
    for flag in flags:
        names = {flag, flag.partition("=")[2], flag.partition("=")[2].strip('"'), *_QUOTED.findall(flag)}
        found += _existing(sorted(names), folders)
    return found


def _existing(names: Iterable[str], folders: Sequence[Path]) -> list[tuple[str, Path]]:
    found = []
    for name in names:
        for folder in folders:
            path = os.path.join(folder, name)
            if name and os.path.isfile(path):
                found.append((name, Path(path)))
            elif name and os.path.exists(path) and not os.path.isdir(path):
                files.check_file(Path(path))
    return found


def check_file(path: Path, accepted: Collection[str]) -> None:
    """Raises OpspliceError unless `path` is a file of a size to read. accepted: the kinds of file to list."""
    files.check_file(path, hint=f"accepted: {' '.join(accepted)}")


def _update(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def through_c(library: Path) -> str:
    """How a kernel gets at what a shared library has."""
    return f'a function in C calls what a library has: cpu "k.c" as plugin links "{library.name}"'


def check_kind(path: Path, device: str, accepted: Collection[str], more: str = "") -> None:
    """Raises OpspliceError for a file of a kind that a kernel for a device cannot be."""
    if path.suffix not in accepted:
        message = f"{path.name} is not a kind of file that a {device} kernel can be"
        raise OpspliceError(message, hint=f"accepted: {' '.join(accepted)}{more}")


def check_request(
    request: ArtifactRequest,
    device: str,
    accepted: Collection[str],
    forms: Collection[str] = (),
    *,
    how: str = "remove the form",
    compiled: Collection[str] = (),
    more: str = "",
) -> None:
    """Raises OpspliceError for a file of a kind that a kernel for a device cannot be, or that is asked to be another.

    forms: what it may be taken as, else it is said `how`. compiled: the kinds of sources, whose compilers take flags.
    more: what else there is to say of the kinds that are accepted.
    """
    check_file(request.path, accepted)
    check_kind(request.path, device, accepted, more)
    name, suffix = request.path.name, request.path.suffix
    if request.form not in (None, *forms):
        raise OpspliceError(f"{name} cannot be taken as {request.form} for a {device} kernel", hint=how)
    if request.flags and suffix not in compiled:
        sources = f" ({' '.join(compiled)})" if compiled else ""
        raise OpspliceError(
            f"flags do nothing for {name}", hint=f"flags go to compilers of sources{sources}; remove them"
        )

"""A spec and all that it imports, read, merged and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from opsplice.errors import OpspliceError
from opsplice.files import check_file, read_file
from opsplice.spec_lang import tree
from opsplice.spec_lang.checker import check
from opsplice.spec_lang.diagnostics import Diagnostic, SpecError, did_you_mean, error
from opsplice.spec_lang.parser import parse

MAX_BYTES = 16 << 20
# `import "opsplice:nn"` is a file of this folder, which comes with the package.
LIBRARY = Path(__file__).parent / "library"
_LIBRARY_PREFIX = "opsplice:"
MAX_IMPORT_DEPTH = 64


@dataclass(frozen=True)
class LoadedSpec:
    """A spec that is free of errors, with everything that it imports.

    paths: the files, imported ones first. rules: in the order in which they apply: by priority, imported ones first.
    runs: passes to run. codes: raw MLIR that rules refer to. files: the trees, as `paths`.
    types: of each expression in each pattern; None where a quoted op leaves it open.
    """

    paths: tuple[Path, ...]
    kernels: Mapping[str, tree.Kernel]
    patterns: Mapping[str, tree.Pattern]
    rules: tuple[tree.Rule, ...]
    types: Mapping[tree.Expr, tree.Type | None]
    runs: tuple[tree.Run, ...]
    codes: tuple[tree.Code, ...]
    warnings: tuple[Diagnostic, ...]
    files: tuple[tree.Spec, ...] = ()


def libraries() -> list[str]:
    """What specs import that comes with opsplice: `opsplice:nn`."""
    return sorted(f"{_LIBRARY_PREFIX}{path.stem}" for path in LIBRARY.glob("*.splice"))


def library_of(path: Path | None) -> str:
    """What specs import to have what a file declares, "" for a file of the user."""
    return "" if path is None or path.parent != LIBRARY else f"{_LIBRARY_PREFIX}{path.stem}"


def load(path: str | os.PathLike[str]) -> LoadedSpec:
    """Read a `.splice` file. Raises SpecError for what is wrong in it, OpspliceError when it cannot be read."""
    path = Path(path)
    return _load(read(path), path)


def load_text(text: str, path: Path | None = None) -> LoadedSpec:
    """Like `load`, for text at hand.

    path: where it came from; imports are relative to its folder, or to the current one without it.
    """
    return _load(text, path)


def _load(text: str, path: Path | None) -> LoadedSpec:
    files = _Files()
    files.add(text, path)
    if files.errors:  # what an unread file declares would only be reported as unknown
        raise SpecError(files.errors)
    checked = check(files.specs)
    if any(d.severity == "error" for d in checked.diagnostics):
        raise SpecError(checked.diagnostics)
    return LoadedSpec(
        paths=tuple(s.source.path for s in files.specs if s.source.path is not None),
        kernels=MappingProxyType(checked.kernels),
        patterns=MappingProxyType(checked.patterns),
        rules=checked.rules,
        types=MappingProxyType(checked.types),
        runs=tuple(r for s in files.specs for r in s.runs),
        codes=tuple(c for s in files.specs for c in s.codes),
        warnings=checked.diagnostics,
        files=tuple(files.specs),
    )


class _Files:
    """The specs of a load, each after those it imports, and what went wrong in reading them."""

    def __init__(self) -> None:
        self.specs: list[tree.Spec] = []
        self.errors: list[Diagnostic] = []
        self._open: list[Path] = []
        self._done: set[Path] = set()

    def add(self, text: str, path: Path | None) -> None:
        spec = parse(text, path)
        if path is not None:
            self._open.append(path.resolve())
        for import_ in spec.imports:
            if import_.path.startswith(_LIBRARY_PREFIX):
                self._import_library(import_)
            else:
                self._import(import_, (path.parent if path is not None else Path()) / import_.path)
        if path is not None:
            self._done.add(self._open.pop())
        self.specs.append(spec)

    def _import_library(self, import_: tree.Import) -> None:
        name = import_.path.removeprefix(_LIBRARY_PREFIX)
        if import_.path in libraries():
            self._import(import_, LIBRARY / f"{name}.splice")
            return
        hint = did_you_mean(import_.path, libraries()) or f"there is {', '.join(libraries())}"
        self.errors.append(error(import_.path_span, f"opsplice brings no library '{name}'", hint))

    def _import(self, import_: tree.Import, path: Path) -> None:
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError) as failure:  # links in a circle, NUL, what no encoding has
            self.errors.append(error(import_.path_span, f"this cannot be the name of a file: {failure}"))
            return
        if len(self._open) >= MAX_IMPORT_DEPTH:
            message = f"imports nest more than {MAX_IMPORT_DEPTH} deep"
            self.errors.append(error(import_.path_span, message, "import the file where its names are used"))
            return
        if resolved in self._open:
            chain = [p.name for p in (*self._open[self._open.index(resolved) :], resolved)]
            self.errors.append(error(import_.path_span, f"these files import each other: {' -> '.join(chain)}"))
            return
        if resolved in self._done:
            return
        try:
            self.add(read(path), path)
        except SpecError as failure:
            self._done.add(resolved)
            self.errors += failure.diagnostics
        except OpspliceError as failure:
            self.errors.append(error(import_.path_span, failure.message, failure.hint))


def read(path: Path) -> str:
    """The text of a spec. Raises OpspliceError for what is no text, no file, or too large."""
    check_file(path, MAX_BYTES, hint="name a .splice file")
    return decoded(read_file(path, MAX_BYTES), str(path))


def decoded(data: bytes, name: str) -> str:
    """The bytes of a spec as text, without a byte order mark. Raises OpspliceError for what is no text or too large."""
    if len(data) > MAX_BYTES:
        raise OpspliceError(f"{name} is larger than {MAX_BYTES >> 20} MiB, which no spec needs to be")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise OpspliceError(f"{name} is not UTF-8 text (line {line})", hint="save it as UTF-8") from None

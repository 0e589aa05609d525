"""A spec and all that it imports, read, merged and checked."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file, read_file
from opsplice.spec_lang.checking.checker import Checked, check
from opsplice.spec_lang.loading import qualified_names, stored_trees
from opsplice.spec_lang.loading.libraries import Library, find, reference
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import parse
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, SpecError, error

MAX_BYTES = 16 << 20
MAX_IMPORT_DEPTH = 64


@dataclass(frozen=True)
class LoadedSpec:
    """A spec that is free of errors, with everything that it imports.

    paths: the files, imported ones first. rules: in the order in which they apply: by priority, imported ones first.
    runs: passes to run. codes: raw MLIR that rules refer to. files: the trees, as `paths`.
    checked: what the checker says of all files, the same object each time that they are loaded. libraries: of the files
    that belong to one, by path. targets: the files that are imported, as absolute paths.
    """

    paths: tuple[Path, ...]
    kernels: Mapping[str, tree.Kernel]
    rules: tuple[tree.Rule, ...]
    checked: Checked
    runs: tuple[tree.Run, ...]
    codes: tuple[tree.Code, ...]
    warnings: tuple[Diagnostic, ...]
    files: tuple[tree.Spec, ...] = ()
    libraries: Mapping[Path, Library] = field(default_factory=dict)
    targets: Mapping[tuple[Path | None, str], Path] = field(default_factory=dict)

    def target(self, import_: tree.Import) -> Path:
        """The file that one of `files` imports, as an absolute path."""
        return self.targets[_written(import_)]

    @property
    def patterns(self) -> Mapping[str, tree.Pattern]:
        """The patterns by name."""
        return self.checked.patterns

    @property
    def given(self) -> Mapping[str, Collection[str]]:
        """The parameters that every match of a pattern binds to what the program has."""
        return self.checked.given

    @property
    def types(self) -> Mapping[tree.Expr, tree.Type | None]:
        """The type of each expression in each pattern; None where a quoted op leaves it open."""
        return self.checked.types


def load(
    path: str | os.PathLike[str], library: Library | None = None, others: Mapping[str, Library] | None = None
) -> LoadedSpec:
    """Read a `.splice` file.

    library: the one that it is a file of. others: libraries that are not installed, and that it may import, by name.
    Raises SpecError for what is wrong in it, OpspliceError when it cannot be read.
    """
    path = Path(path)
    return _load(read(path), path, library, others or {})


def load_text(text: str, path: Path | None = None) -> LoadedSpec:
    """Like `load`, for text at hand.

    path: where it came from; imports are relative to its folder, or to the current one without it.
    """
    return _load(text, path, None, {})


def _load(text: str, path: Path | None, library: Library | None, others: Mapping[str, Library]) -> LoadedSpec:
    files = _Files(others)
    files.add(text, path, library)
    if files.errors:  # what an unread file declares would only be reported as unknown
        raise SpecError(files.errors)
    specs, checked = _judged(tuple(files.read()))
    return LoadedSpec(
        paths=tuple(s.source.path for s in specs if s.source.path is not None),
        kernels=MappingProxyType(checked.kernels),
        rules=checked.rules,
        checked=checked,
        runs=tuple(r for s in specs for r in s.runs),
        codes=tuple(c for s in specs for c in s.codes),
        warnings=checked.diagnostics,
        files=specs,
        libraries=files.libraries,
        targets=files.targets,
    )


@dataclass(frozen=True)
class _File:
    """A file of a load, as `names.File` has it."""

    text: str
    path: Path | None
    library: str
    imports: tuple[int, ...]


# A process that compiles again and again, as frontends do, reads the same specs each time. Trees are never changed.
# So does a process that compiles what another has compiled: there trees of files come from the cache.
@functools.lru_cache(maxsize=256)
def _parsed(text: str, path: Path | None) -> tree.Spec:
    return parse(text) if path is None else stored_trees.stored((text, str(path)), lambda: parse(text, path))


@functools.lru_cache(maxsize=256)
def _outline(text: str, path: Path | None) -> tree.Spec:
    """A file without its patterns and rules, which are most of it: what the loader asks of a file alone."""

    def make() -> tree.Spec:
        spec = _parsed(text, path)
        return replace(spec, items=tuple(item for item in spec.items if not isinstance(item, tree.Pattern | tree.Rule)))

    return make() if path is None else stored_trees.stored(("outline", text, str(path)), make)


@functools.lru_cache(maxsize=16)
def _judged(files: tuple[_File, ...]) -> tuple[tuple[tree.Spec, ...], Checked]:
    """Raises SpecError for what is wrong in files that can be read."""
    if any(file.path is None for file in files):
        return _judge(files)
    parts = [repr((file.text, str(file.path), file.library, file.imports)) for file in files]
    return stored_trees.stored(parts, lambda: _judge(files))


def _judge(files: Sequence[_File]) -> tuple[tuple[tree.Spec, ...], Checked]:
    read = [qualified_names.File(_parsed(file.text, file.path), file.library, file.imports) for file in files]
    specs, errors = qualified_names.resolved(read)
    if errors:
        raise SpecError(errors)
    checked = check(specs)
    if any(d.severity == "error" for d in checked.diagnostics):
        raise SpecError(checked.diagnostics)
    return tuple(specs), checked


class _Files:
    """The specs of a load, each after those it imports, and what went wrong in reading them."""

    def __init__(self, others: Mapping[str, Library]) -> None:
        self.specs: list[tree.Spec] = []
        self.errors: list[Diagnostic] = []
        self.libraries: dict[Path, Library] = {}
        self.targets: dict[tuple[Path | None, str], Path] = {}
        self._others = others
        self._open: list[Path] = []
        self._done: set[Path] = set()

    def add(self, text: str, path: Path | None, library: Library | None) -> None:
        spec = _outline(text, path)
        if path is not None:
            self._open.append(path.resolve())
            if library is not None:
                self.libraries[path] = library
                self._check_inside(spec, library)
        for import_ in spec.imports:
            self._import(import_, path.parent if path is not None else Path(), library)
        if path is not None:
            self._done.add(self._open.pop())
        self.specs.append(spec)

    def read(self) -> list[_File]:
        """The files, with the libraries that they belong to and what they import."""
        paths = [spec.source.path for spec in self.specs]
        numbers = {path.resolve(): number for number, path in enumerate(paths) if path is not None}
        return [
            _File(
                spec.source.text,
                path,
                self.libraries[path].name if path in self.libraries else "",
                tuple(numbers[self.targets[_written(each)]] for each in spec.imports),
            )
            for spec, path in zip(self.specs, paths, strict=True)
        ]

    def _check_inside(self, spec: tree.Spec, library: Library) -> None:
        """A library is one folder: what it names outside of it is on no other machine, or none of its business."""
        clauses = (clause for kernel in spec.kernels for clause in kernel.artifacts)
        outside = (clause.path_span for clause in clauses if not all(map(library.holds, clause.files)))
        problem = _outside(library)
        self.errors += [error(span, problem.message, problem.hint) for span in outside]

    def _import(self, import_: tree.Import, folder: Path, library: Library | None) -> None:
        try:
            path, library = self._named(import_, folder, library)
            resolved = self.targets[_written(import_)] = path.resolve()
            if len(self._open) >= MAX_IMPORT_DEPTH:
                hint = "import the file where its names are used"
                raise OpspliceError(f"imports nest more than {MAX_IMPORT_DEPTH} deep", hint=hint)
            if resolved in self._open:
                chain = [p.name for p in (*self._open[self._open.index(resolved) :], resolved)]
                raise OpspliceError(f"these files import each other: {' -> '.join(chain)}")
            if resolved not in self._done:
                self.add(read(path), path, library)
        except SpecError as failure:
            self._done.add(resolved)
            self.errors += failure.diagnostics
        except OpspliceError as failure:
            self.errors.append(error(import_.path_span, failure.message, failure.hint))

    def _named(self, import_: tree.Import, folder: Path, library: Library | None) -> tuple[Path, Library | None]:
        """The file that is imported, and the library that it belongs to."""
        path = folder / import_.path
        try:
            path.resolve()
        except (OSError, RuntimeError, ValueError) as failure:  # links in a circle, NUL, what no encoding has
            raise OpspliceError(f"this cannot be the name of a file: {failure}") from None
        named = reference(import_.path, folder)
        if named is None:
            if library is not None and not library.holds(path):
                raise _outside(library)
            return path, library
        try:
            library = library if library and library.name == named.library else find(named.library, self._others)
            return library.spec(named.part), library
        except OpspliceError as failure:
            message, hint = failure.message, failure.hint
            if os.path.isdir(path):
                message, hint = f"{path} is a folder, and {message}", f"name a .splice file; or {hint}"
            elif os.path.isfile(f"{path}.splice"):
                hint = f'did you mean "{import_.path}.splice"?'
            raise OpspliceError(message, hint=hint) from None


def _written(import_: tree.Import) -> tuple[Path | None, str]:
    """What an import is known by, whichever process has read it."""
    return import_.path_span.source.path, import_.path


def _outside(library: Library) -> OpspliceError:
    message = f"library {library.name} names a file outside of its folder {library.folder}"
    return OpspliceError(message, hint="a library has all its files in its folder")


def read(path: Path) -> str:
    """The text of a spec. Raises OpspliceError for what is not text, no file, or too large."""
    check_file(path, MAX_BYTES, hint="name a .splice file")
    return decoded(read_file(path, MAX_BYTES), str(path))


def decoded(data: bytes, name: str) -> str:
    """The bytes of a spec as text without a byte order mark. Raises OpspliceError for what is not text or too large."""
    if len(data) > MAX_BYTES:
        raise OpspliceError(f"{name} is larger than {MAX_BYTES >> 20} MiB, which no spec needs to be")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise OpspliceError(f"{name} is not UTF-8 text (line {line})", hint="save it as UTF-8") from None

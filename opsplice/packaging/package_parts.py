"""A folder of specs with prebuilt files, read as a package: which files are for which target, what it says of itself.

No artifact is opened, and IREE's compiler is not imported.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.compiling import prebuilt
from opsplice.compiling.spec_sources import SpecSource
from opsplice.spec_lang.formatting import one_line
from opsplice.spec_lang.loading import loader
from opsplice.spec_lang.loading.libraries import reference
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.backends.backend_table import name_of
from opsplice.targets.registry.package import ANY, About, Part

# A file beside another, with an ending.
_FILE = re.compile(r"(?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*\.\w+", re.ASCII)


@dataclass(frozen=True)
class Contents:
    """What there is to publish.

    main: the path of the main spec. parts: for each target and what a device has to have besides. kernels: their
    signatures. runs_code: whether there is code that runs on the host.
    """

    main: str
    parts: tuple[Part, ...]
    kernels: tuple[str, ...]
    runs_code: bool

    def about(self, name: str, version: str, licence: str = "") -> About:
        iree = metadata.version("iree-base-compiler")
        return About(name, version, self.main, licence, iree, self.kernels, self.runs_code)


def read(source: SpecSource) -> Contents:
    """The package of a spec with prebuilt files and what it imports from its folder.

    Specs and code that runs on the host go with every target. Raises SpecError for errors in the specs, OpspliceError
    for clauses that name sources and for files outside the folder.
    """
    root = folder_of(source)
    common: dict[str, Path] = {}
    special: dict[tuple[str, tuple[str, ...]], dict[str, Path]] = {}
    specs = own_files(load(source), root)
    for spec in specs:
        common[inside(path_of(spec), root, source.given)] = path_of(spec)
    clauses = [clause for spec in specs for kernel in spec.kernels for clause in kernel.artifacts]
    for clause in clauses:
        # Also where no artifact is carried, for programs of that target can take the clause.
        files = special.setdefault((_target(clause), tuple(sorted(conditions_of(clause)))), {})
        if clause.is_plugin:
            continue
        if runs_on_host(clause):
            common.update({inside(file, root, str(clause.span)): file for file in with_imports(clause.file)})
            continue
        if not prebuilt.is_prebuilt(clause):
            raise OpspliceError(
                f"{clause.path} is a source, but a package holds built artifacts",
                hint="push the spec with --target=x86_64,..., or what `opsplice kernel build -o FOLDER` writes",
                details=f"named by the clause at {clause.span}",
            )
        files.update({inside(file, root, str(clause.span)): file for file in clause.files})
    if not special:
        special[ANY, ()] = {}
    return Contents(
        inside(source.path, root, source.given),
        tuple(Part(target, wanted, {**common, **files}) for (target, wanted), files in special.items()),
        tuple(one_line.signature(kernel) for spec in specs for kernel in spec.kernels),
        any(map(runs_on_host, clauses)),
    )


def folder_of(source: SpecSource) -> Path:
    """The folder that becomes the package: the library's, or the one that the spec is in."""
    return source.path.parent if source.library is None else source.library.folder


def load(source: SpecSource) -> LoadedSpec:
    """Read a spec. Raises OpspliceError for what is not a `.splice` file, SpecError for errors in it."""
    if source.path.suffix != ".splice":
        hint = "opsplice import makes one of a transform spec"
        raise OpspliceError(f"{source} is not a .splice file, so no package can be made of it", hint=hint)
    return loader.load(source.path, source.library, source.others)


def own_files(loaded: LoadedSpec, root: Path) -> list[tree.Spec]:
    """The files of a spec that are in a folder, the spec first.

    Raises OpspliceError if one of them imports a file outside the folder by its path.
    """
    own = [file for file in reversed(loaded.files) if path_of(file).resolve().is_relative_to(root.resolve())]
    for file in own:
        for import_ in file.imports:
            folder = path_of(file).parent
            if reference(import_.path, folder) is None:
                inside(folder / import_.path, root, str(import_.path_span))
    return own


def path_of(spec: tree.Spec) -> Path:
    """Where a spec came from. Packages are made of files."""
    assert spec.source.path is not None, "a package is made of files"
    return spec.source.path


def inside(path: Path, root: Path, where: str) -> str:
    """The path of a file in the package of a folder. Raises OpspliceError for one outside, or a link."""
    named, folder = os.path.relpath(path, root), root.resolve()
    resolved = path.resolve()
    if not resolved.is_relative_to(folder):
        raise OpspliceError(
            f"{path} is outside the folder of the spec, so the package would lack it",
            hint=f"put the file into {folder}, or import it as a library",
            details=f"named at {where}",
        )
    if resolved != folder / named:
        raise OpspliceError(
            f"{path} is a link, or is behind one; packages hold no links", hint=f"name {resolved} itself"
        )
    return Path(named).as_posix()


def conditions_of(clause: tree.ArtifactClause) -> tuple[str, ...]:
    """What a device has to have for a clause, each as one word: `avx512f`, `subgroup>=32`."""
    return (*clause.features, *(str(limit).replace(" ", "") for limit in clause.limits))


def runs_on_host(clause: tree.ArtifactClause) -> bool:
    """Whether the file is carried as it is because the host runs it: a command or a generator."""
    return clause.is_command or clause.is_generated


def with_imports(path: Path) -> list[Path]:
    """A file, and of a file of Python those beside it that it imports or names in a text, as far as one can see."""
    found, waiting = [path], [path] if path.suffix == ".py" else []
    while waiting:
        file = waiting.pop()
        try:
            body = ast.parse(read_file(file), filename=str(file))
        except (SyntaxError, ValueError) as error:
            raise OpspliceError(f"{file} is not valid Python: {getattr(error, 'msg', error)}") from None
        here = [path.parent / name for name in sorted(_texts(body)) if (path.parent / name).is_file()]
        for name in sorted(set(_imported(body))):
            package = path.parent / name
            here += [module] if (module := path.parent / f"{name}.py").is_file() else []
            here += sorted(package.rglob("*.py")) if (package / "__init__.py").is_file() else []
        new = [each for each in dict.fromkeys(here) if each not in found]
        found += new
        waiting += [each for each in new if each.suffix == ".py"]
    return found


def _texts(module: ast.Module) -> set[str]:
    """The texts in a file that could be names of files."""
    texts = (node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return set(filter(_FILE.fullmatch, texts))


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def _target(clause: tree.ArtifactClause) -> str:
    """The target of a package that a prebuilt file is for."""
    if clause.backend == "cpu":
        return ANY if clause.arch is None else archs.normalize(clause.arch)
    name = name_of(clause.backend)
    return name if clause.arch is None else f"{name}:{clause.arch}"

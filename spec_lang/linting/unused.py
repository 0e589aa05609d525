"""Declarations, imports, variables and files that nothing uses or that are not there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from opsplice.common.files import is_file
from opsplice.common.reaching import reachable
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, warning

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def unused_declarations(spec: LoadedSpec, files: Sequence[tree.Spec]) -> Iterator[Diagnostic]:
    """Kernels and patterns that are named nowhere. A file without rules is there for others to import."""
    used = {name for file in spec.files for item in file.items for name in named(item)}
    for file in files:
        for item in file.items if file.rules else ():
            if not isinstance(item, (tree.Kernel, tree.Pattern)) or item.name.startswith("_"):
                continue
            kind = "kernel" if isinstance(item, tree.Kernel) else "pattern"
            if item.name not in used:
                message = f"nothing uses {kind} {item.name}"
                yield warning(item.name_span, message, "remove it, or begin its name with _", code=f"unused-{kind}")


def unused_imports(spec: LoadedSpec, files: Sequence[tree.Spec]) -> Iterator[Diagnostic]:
    if not any(file.imports for file in files):
        return
    by_path = {file.source.path.resolve(): file for file in spec.files if file.source.path is not None}
    used: dict[int, set[str]] = {}
    for file in spec.files:
        used[id(file)] = {name for item in file.items for name in named(item)}
    for file in files:
        for import_ in file.imports:
            reached = _reached(import_, spec, by_path)
            inside = [item for r in reached for item in r.items]
            if any(not isinstance(i, (tree.Import, tree.Kernel, tree.Pattern)) for i in inside):
                continue  # its rules apply
            own = {id(r) for r in reached}
            names = {i.name for i in inside if isinstance(i, (tree.Kernel, tree.Pattern))}
            if not any(names & words for other, words in used.items() if other not in own):
                message = f"nothing uses what {import_.path} declares"
                yield warning(import_.path_span, message, "remove the import", code="unused-import")


def _reached(import_: tree.Import, spec: LoadedSpec, by_path: Mapping[Path, tree.Spec]) -> list[tree.Spec]:
    """What is imported, with all that it imports."""
    paths = reachable([spec.target(import_)], lambda at: [spec.target(each) for each in by_path[at].imports])
    return [by_path[path] for path in paths]


def unused_variables(file: tree.Spec) -> Iterator[Diagnostic]:
    both: list[tree.Kernel | tree.Pattern] = [*file.kernels, *file.patterns]
    for declared in both:
        names = _types_in(declared) if declared.type_variables else set()
        for variable in declared.type_variables:
            if variable.name not in names:
                message = f"nothing in {declared.name} is of type {variable.name}"
                yield warning(variable.span, message, "remove it", code="unused-type-variable")


def named(item: object) -> Iterator[str]:
    """The kernels and patterns that a declaration names, besides itself."""
    if isinstance(item, tree.Rule):
        yield from _NAME.findall(f"{item.pattern} {item.kernel}")
    if isinstance(item, (tree.Rule, tree.Pattern)):
        for part in tree.parts(item.args if isinstance(item, tree.Rule) else item):
            if isinstance(part, tree.Call) and not part.quoted:
                yield from _NAME.findall(part.callee)


def _types_in(declared: tree.Kernel | tree.Pattern) -> set[str]:
    """The names that stand where a type variable can."""
    found: set[str] = set()
    for part in tree.parts(declared):
        if isinstance(part, tree.ScalarType):
            found.add(part.name)
        elif isinstance(part, tree.Membership):
            found.add(part.variable)
        elif isinstance(part, tree.Property):
            found.add(part.name)
    if isinstance(declared, tree.Kernel) and declared.symbol is not None:
        found.update(_WORD.findall(declared.symbol))
    return found


def missing_files(spec: LoadedSpec, files: Sequence[tree.Spec]) -> Iterator[Diagnostic]:
    """The files of kernels that rules name."""
    for name in dict.fromkeys(name for file in files for rule in file.rules for name in named(rule)):
        kernel = spec.kernels.get(name)
        for clause in kernel.artifacts if kernel is not None else ():
            # A plugin's code need not be here, where the program is compiled.
            if not clause.is_plugin and not is_file(clause.file):
                yield warning(clause.path_span, f"there is no file {clause.file}", code="missing-file")

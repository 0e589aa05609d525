"""Which file a kernel's clause stands for: artifacts from the store, generated ones, commands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import is_file, read_file
from opsplice.common.store import Store
from opsplice.rewrites.approaches.command import COMPILED
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan.generation import Generators, Request, told
from opsplice.runtime.tvm_functions import SUFFIX
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, Form
from opsplice.targets.artifacts.source_inputs import check_kind
from opsplice.targets.backends import cpu_dispatch, device_functions
from opsplice.targets.backends.backend_table import named
from opsplice.targets.build.python_files import module_of


@dataclass(frozen=True)
class Artifacts:
    """Finds the artifacts of clauses, and builds what has to be built, in a store."""

    store: Store

    def of_kernel(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        """The artifact of a kernel's clause for a target. Raises OpspliceError when it is missing or broken."""
        if clause.is_command:
            return _command(clause)
        return self._resolved(clause, symbol, target, _artifact)

    def of_function(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        """As `of_kernel`, for a function that is called for each element."""
        return self._resolved(clause, symbol, target, _function_artifact)

    def generate(
        self, generators: Generators, clause: tree.ArtifactClause, request: Request, target: ProgramTarget
    ) -> Artifact:
        """The artifact of a clause that is generated, made by the user's file and then built as any file is."""
        try:
            made = generators.make(clause.file, request)
        except OpspliceError as error:
            raise _needed_by(clause, error) from None
        flags = (*made.flags, *clause.words)
        try:
            built = _artifact(ArtifactRequest(made.path, (request.name,), flags=flags), target, self.store)
        except OpspliceError as error:
            # Nobody knows it by its name in the store.
            error.message = error.message.replace(made.path.name, f"what {clause.file.name} made")
            what = f"{made.path} is what {clause.file} made for {told(request)}"
            raise _needed_by(clause, error.noting(what)) from None
        return replace(built, shared=made.shared)

    def _resolved(
        self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget, find: Callable[..., Artifact]
    ) -> Artifact:
        request = ArtifactRequest(
            path=clause.file,
            symbols=(symbol,),
            form="library" if _is_library(clause) else _FORMS[clause.form],
            flags=clause.words,
            links=clause.linked,
        )
        try:
            return find(request, target, self.store)
        except OpspliceError as error:
            raise _needed_by(clause, error) from None


def _needed_by(clause: tree.ArtifactClause, error: OpspliceError) -> OpspliceError:
    return error.noting(f"needed by the kernel at {clause.span}")


def _artifact(request: ArtifactRequest, target: ProgramTarget, store: Store) -> Artifact:
    """The artifact for any kind of target."""
    backend = named(target.backend)
    if backend is None:
        raise OpspliceError(f"no kernels can be built for {target.backend}")
    return backend.build(request, target.arch, target.features, store)


def _is_library(clause: tree.ArtifactClause) -> bool:
    """Whether a clause names an executable of IREE's for a CPU."""
    return clause.form == "dispatch" and clause.path.endswith(cpu_dispatch.SUFFIX)


def _function_artifact(request: ArtifactRequest, target: ProgramTarget, store: Store) -> Artifact:
    if target.is_cpu:
        return _artifact(request, target, store)
    return device_functions.resolve(request, target.backend, store)


# A dispatch of a CPU is linked as an object is, and so is what a provider is to have.
_FORMS: dict[str | None, Form | None] = {
    None: None,
    "object": "object",
    "bitcode": "bitcode",
    "dispatch": None,
    "provided": None,
    "generated": None,
}


def _command(clause: tree.ArtifactClause) -> Artifact:
    """A file of Python, or a module that IREE has compiled, which stays where it is."""
    path = clause.file
    if path.suffix not in (".py", SUFFIX, COMPILED):
        raise OpspliceError(
            f"{path} is not a command: that is a Python file, a library with TVM's interface ({SUFFIX}), or a module "
            f"that IREE has compiled ({COMPILED})",
            details=f"needed by the kernel at {clause.span}",
        )
    if clause.is_recorded and path.suffix != COMPILED:
        raise OpspliceError(
            f"{path} records no commands: only a module that IREE has compiled ({COMPILED}) can",
            hint="write `as command` for a function of Python",
            details=f"needed by the kernel at {clause.span}",
        )
    named_only(clause, "", None)
    digest = hashlib.sha256(read_file(path)).hexdigest()
    return Artifact(path=path, form="object", digest=digest, arch=None, toolchain=None, built=False)


def commands_of(specs: Iterable[LoadedSpec]) -> dict[str, Path]:
    """The files of the commands that kernels are, by the module that each becomes.

    Raises OpspliceError for two files that would be one module.
    """
    found: dict[str, tree.ArtifactClause] = {}
    for clause in (c for spec in specs for kernel in spec.kernels.values() for c in kernel.artifacts if c.is_command):
        first = found.setdefault(module_of(clause.path), clause)
        if first.file.resolve() != clause.file.resolve():
            raise OpspliceError(
                f"two files of commands are called {module_of(clause.path)}, and a program knows them by that name",
                hint="rename one of them",
                details=f"{first.file}: the clause at {first.span}\n{clause.file}: the clause at {clause.span}",
            )
    return {name: clause.file for name, clause in found.items()}


def named_only(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget | None) -> Artifact:
    """The file of a clause, unread. Raises OpspliceError where it is not there, or of a kind that is not taken."""
    path = clause.file
    try:
        if not path.is_file():
            raise OpspliceError(f"no such file: {path}")
        backend = None if target is None else named(target.backend)
        if backend is not None and backend.kinds and not (clause.is_command or clause.is_plugin or clause.is_generated):
            check_kind(path, backend.title, dict.fromkeys((*backend.kinds, *backend.functions)), backend.instead)
    except OpspliceError as error:
        raise _needed_by(clause, error) from None
    return unread(clause, symbol, target)


def named_if_there(
    missing: dict[str, None], clause: tree.ArtifactClause, symbol: str, target: ProgramTarget | None
) -> Artifact:
    """As `named_only`, but a file that is not there yet is added to `missing`, in words."""
    if is_file(clause.file):
        return named_only(clause, symbol, target)
    missing[f"there is no file {clause.file} yet, which the kernel at {clause.span} needs"] = None
    return unread(clause, symbol, target)


def unread(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget | None) -> Artifact:
    """The file of a clause whether it is there or not: what would match does not depend on that."""
    return Artifact(path=clause.file, form="object", digest="", arch=None, toolchain=None, built=False)

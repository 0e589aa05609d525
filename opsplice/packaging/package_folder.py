"""A spec and targets to a package: specs whose clauses name prebuilt files, and these files.

    LoadedSpec --clauses that can be taken--> artifacts --clauses rewritten--> texts of specs, and the files beside them

What comes out is a plain folder, which compiles with `--no-code` to the same programs as the spec. The same spec and
targets give the same bytes. It must not know registries.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.common.files import read_file, write_files
from opsplice.compiling.plugin_kernels import functions_of, types_of
from opsplice.compiling.resolution import Artifacts
from opsplice.compiling.spec_sources import SpecSource
from opsplice.packaging.package_parts import (
    conditions_of,
    folder_of,
    inside,
    load,
    own_files,
    path_of,
    runs_on_host,
    with_imports,
)
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan import c_types
from opsplice.rewrites.plan.clause_choice import newness, of_backend, runs_on
from opsplice.spec_lang.formatting import formatter, one_line
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.backends.backend_table import gpus
from opsplice.targets.build import llvm
from opsplice.targets.formats import llvm_types
from opsplice.targets.plugins.plugin_source import Function

_HEX = 8  # digits of a digest in a file's name


@dataclass(frozen=True)
class Target:
    """What artifacts are built for. name: as users write it, `x86_64` or `cuda:sm_80`."""

    name: str
    program: ProgramTarget

    @property
    def folder(self) -> str:
        return self.name.replace(":", "-")


@dataclass(frozen=True)
class Built:
    """An artifact of a package.

    path: in the package. kernel: who calls it. conditions: what a device has to have besides. clause: where it comes
    from. toolchain: what built it; None for a file that was built before. notes: what could not be checked. flags: of
    its compiler, as the spec has them.
    """

    path: str
    size: int
    target: str
    kernel: str
    conditions: tuple[str, ...]
    clause: str
    toolchain: str | None
    notes: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageFolder:
    """What the folder of a package holds, before it is written.

    main:     the path of the main spec. files: the bytes of all files, by their path.
    built:    the artifacts among them, in the order of the spec and of the targets; a file may be several's.
    left_out: what could not be built here, each with its reason (`partial`). unserved: kernels without code for a
              target, in words.
    """

    main: str
    files: Mapping[str, bytes] = field(repr=False)
    built: tuple[Built, ...]
    left_out: tuple[str, ...]
    unserved: tuple[str, ...]

    @property
    def lacking(self) -> tuple[str, ...]:
        """All that the package lacks."""
        return (*self.left_out, *self.unserved)

    def write(self, folder: Path) -> None:
        """Write the files to a folder, which is new or empty. Raises OpspliceError."""
        write_files(folder, self.files, new="name a new folder, or remove this one")


def build(
    source: SpecSource,
    targets: Sequence[str],
    artifacts: Artifacts,
    *,
    partial: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> PackageFolder:
    """Build all that a spec and what it imports from its own folder names, for each target that it fits.

    partial: leave out what no compiler here makes, and say so. on_progress: is told which kernel is built.
    Raises SpecError for errors in the spec, OpspliceError for what cannot be built, for files outside the spec's
    folder, and for a target that nothing is for.
    """
    root = folder_of(source)
    chosen = {target.name: target for target in map(parse_target, targets)}
    builder = _Builder(root, tuple(chosen.values()), artifacts, partial, on_progress)
    for file in own_files(load(source), root):
        builder.add_spec(file)
    return builder.finished(source)


def parse_target(text: str) -> Target:
    """A target of a package from its name. Raises OpspliceError for what is none, or says too little or too much."""
    name, _, chip = text.strip().partition(":")
    gpu = gpus().get(name)
    if gpu is not None:
        if not re.fullmatch(gpu.chips, chip):
            hint = f"write such as {name}:{gpu.usual_chip}" if gpu.usual_chip else f"write {name}"
            raise OpspliceError(f"{text} does not say what {name} code is to be built for", hint=hint)
        return Target(f"{name}:{chip}" if chip else name, ProgramTarget("", gpu.iree, gpu.format, chip))
    if "+" in name:
        hint = "name the architecture alone, and the features in the spec: cpu x86_64 when avx512f ..."
        raise OpspliceError(f"packages are built for architectures, but {text} names features", hint=hint)
    arch = archs.host_arch() if name == "cpu" else archs.normalize(name)
    if arch is None:
        raise OpspliceError("this machine's architecture is not known", hint=f"name one: {', '.join(archs.ARCHS)}")
    return Target(arch, ProgramTarget("", "llvm-cpu", archs.iree_key(arch), arch))


class _Builder:
    def __init__(
        self,
        root: Path,
        targets: Sequence[Target],
        artifacts: Artifacts,
        partial: bool,
        on_progress: Callable[[str], None],
    ) -> None:
        self.root = root
        self.on_progress = on_progress
        self.targets = targets
        self.artifacts = artifacts
        self.partial = partial
        self.files: dict[str, bytes] = {}
        self.built: list[Built] = []
        self.left_out: list[str] = []
        self.unserved: list[str] = []
        self.served: set[str] = set()

    def finished(self, source: SpecSource) -> PackageFolder:
        if idle := [target.name for target in self.targets if target.name not in self.served]:
            hint = "add clauses for it to the kernels, or leave it out of --target"
            raise OpspliceError(f"no kernel of {source} has code for {idle[0]}", hint=hint)
        main = inside(source.path, self.root, source.given)
        told = tuple(self.left_out), tuple(self.unserved)
        return PackageFolder(main, dict(sorted(self.files.items())), tuple(self.built), *told)

    def add_spec(self, spec: tree.Spec) -> None:
        """Add a file with its clauses rewritten, and the files that these name."""
        text, path = spec.source.text, path_of(spec)
        edits = [edit for kernel in spec.kernels for edit in self._clauses(kernel)]
        edits += [(builds.span, "") for builds in spec.builds.values()]
        for span, written in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
            text = text[: span.start] + written + text[span.end :]
        self.files[inside(path, self.root, str(path))] = formatter.format(text, path).encode()

    def _clauses(self, kernel: tree.Kernel) -> Iterator[tuple[tree.Span, str]]:
        """What takes the place of each clause.

        Of clauses for CUDA the newest comes first: what is built for one architecture from several of them is told
        apart by that alone.
        """
        ordered = sorted(kernel.artifacts, key=newness, reverse=True)
        texts: dict[tree.ArtifactClause, dict[str, None]] = {clause: {} for clause in ordered}
        unserved = []
        for target in self.targets:
            served = False
            for clause in _reachable(ordered, target):
                if (text := self._clause(kernel, clause, target)) is not None:
                    texts[clause][text] = None
                    served = True
            if served:
                self.served.add(target.name)
            else:
                unserved.append(target.name)
        if unserved:
            self.unserved.append(f"kernel {kernel.name} has no code for {', '.join(unserved)}")
        if not any(texts.values()):
            wanted = ", ".join(dict.fromkeys(clause.backend for clause in kernel.artifacts))
            raise OpspliceError(
                f"kernel {kernel.name} at {kernel.span} would have no code in the package",
                hint=f"its clauses are for {wanted}: name such a target as well",
                details="\n".join([*self.left_out, *self.unserved]),
            )
        written: dict[tree.Span, list[str]] = {}  # several clauses are one in the file where `builds` stand for them
        for slot, clause in zip(kernel.artifacts, ordered, strict=True):
            written.setdefault(slot.span, []).extend(texts[clause])
        for span, lines in written.items():
            yield span, "\n".join(lines)

    def _clause(self, kernel: tree.Kernel, clause: tree.ArtifactClause, target: Target) -> str | None:
        """A clause for a target, as text; None if it was left out."""
        if clause.is_plugin:
            return one_line.clause_text(replace(clause, path="", flags=None, links=()))
        if runs_on_host(clause):
            for path in with_imports(clause.file):
                self.files[inside(path, self.root, str(clause.span))] = read_file(path)
            own = inside(clause.file, self.root, str(clause.span))
            return one_line.clause_text(replace(clause, path=self._from(clause, own)))
        self.on_progress(f"building {kernel.name} for {target.name}")
        try:
            artifact = self._artifact(kernel, clause, target)
        except MissingToolError as error:
            if not self.partial:
                raise
            self.left_out.append(f"{clause.span}: kernel {kernel.name} for {target.name}: {error.message}")
            return None
        stored = self._add(kernel, clause, target, artifact)
        backend = "cpu" if target.program.is_cpu else target.name.partition(":")[0]
        written = replace(clause, backend=backend, arch=target.program.arch or None, flags=None, links=())
        return one_line.clause_text(replace(written, path=self._from(clause, stored)))

    def _add(self, kernel: tree.Kernel, clause: tree.ArtifactClause, target: Target, artifact: Artifact) -> str:
        """Add an artifact, and return its path in the package."""
        data = artifact.path.read_bytes()
        stem = re.sub(r"[^A-Za-z0-9_]", "_", clause.file.stem)
        path = f"{target.folder}/{stem}-{hashlib.sha256(data).hexdigest()[:_HEX]}{artifact.path.suffix}"
        if self.files.setdefault(path, data) != data:
            raise OpspliceError(
                f"two files of the package would have the name {path}", hint="rename one of their sources"
            )
        conditions, where = conditions_of(clause), str(clause.span)
        made = (artifact.toolchain, artifact.notes, clause.words)
        self.built.append(Built(path, len(data), target.name, kernel.name, conditions, where, *made))
        return path

    def _from(self, clause: tree.ArtifactClause, path: str) -> str:
        """A path in the package as the clause's own file writes it."""
        source = clause.span.source.path
        assert source is not None, "a package is made of files"
        return "../" * inside(source, self.root, str(source)).count("/") + path

    def _artifact(self, kernel: tree.Kernel, clause: tree.ArtifactClause, target: Target) -> Artifact:
        """The one file with all functions that a kernel stands for, its types compared with the signature's."""
        resolve = self.artifacts.of_function if kernel.is_scalar else self.artifacts.of_kernel
        program = target.program
        if program.is_cpu:
            program = replace(program, features=archs.feature_string(clause.features))
        found: dict[str, Artifact] = {}
        for (function, needed), types in zip(functions_of(kernel), types_of(kernel), strict=True):
            if not needed and function.symbol != (kernel.symbol or kernel.name):
                raise OpspliceError(
                    f"kernel {kernel.name} has a function for each type, but does not list the types",
                    hint=f"list them: <{kernel.type_variables[0].name} in {{f32, f64}}>",
                    details=f"the kernel at {kernel.span}",
                )
            if function.symbol not in found:
                found[function.symbol] = resolve(clause, function.symbol, program)
            if needed and program.is_cpu:
                _check_types(kernel, function, types, clause, found[function.symbol])
        first, *others = found.values()
        if any(other.digest != first.digest for other in others):
            raise OpspliceError(
                f"{clause.path} would become a different file for each of {', '.join(found)}",
                hint="write a kernel for each",
                details=f"needed by the kernel at {clause.span}",
            )
        return first


def _check_types(
    kernel: tree.Kernel, function: Function, types: Mapping[str, str], clause: tree.ArtifactClause, artifact: Artifact
) -> None:
    """Raise OpspliceError for a function of C with other types than the kernel's: its object does not say them."""
    made = kernel.results[0].type
    result = types.get(made.name, made.name) if isinstance(made, tree.ScalarType) else "void"
    parameters = [llvm_types.ADDRESS if a.pointer else a.element for a in function.arguments]
    c_types.check_function(function.symbol, result, parameters, kernel, clause, artifact)


def _reachable(ordered: Iterable[tree.ArtifactClause], target: Target) -> Iterator[tree.ArtifactClause]:
    """The clauses that a program for a target can take, whatever its device has besides."""
    for clause in of_backend(ordered, target.program):
        if runs_on(clause.arch, target.program) and not _unknown_features(clause, target):
            yield clause
            if not conditions_of(clause):
                return


def _unknown_features(clause: tree.ArtifactClause, target: Target) -> bool:
    """Whether a clause wants what no CPU of an architecture has: `cpu when avx2` is none for aarch64."""
    if not target.program.is_cpu or not clause.features:
        return False
    known = llvm.known_features(archs.normalize(target.program.arch))
    return bool(known) and not known.issuperset(clause.features)

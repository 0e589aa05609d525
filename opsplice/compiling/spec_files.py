"""Specs as they are given: `.splice` files of our language, `.mlir` files of the transform dialect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import LARGEST_TEXT, check_file, check_name
from opsplice.compiling.spec_sources import SpecPath, SpecSource, resolve
from opsplice.spec_lang.loading.loader import LoadedSpec, load


@dataclass(frozen=True)
class TransformSpec:
    """A transform-dialect spec; it is read when it is applied, in the context of the program."""

    path: Path


Spec = LoadedSpec | TransformSpec


def load_specs(specs: Iterable[SpecPath | SpecSource]) -> tuple[Spec, ...]:
    """Read specs in the order given.

    Raises OpspliceError for one that is not there or of another kind, SpecError for errors in a `.splice` file.
    """
    return tuple(_load(source) for source in resolve(specs))


def load_splice(spec: SpecPath | SpecSource, hint: str) -> LoadedSpec:
    """Read a spec in our own language. hint: why it has to be one.

    Raises OpspliceError for a transform-dialect one, and what `load_specs` raises.
    """
    (source,) = resolve(spec)
    if source.path.suffix != ".splice":
        raise OpspliceError(f"{source} is not a .splice file", hint=hint)
    return load(source.path, source.library, source.others)


def check_output(output: Path, specs: Iterable[SpecPath | SpecSource], others: Iterable[str] = ()) -> None:
    """Raise OpspliceError if writing `output` would destroy a spec, a file that one names, or one of `others`.

    Raises what `load_specs` raises where something is there to be written over.
    """
    if not output.exists():
        return
    sources = resolve(specs)
    read = [*map(Path, others), *(source.path for source in sources)]
    for spec in load_specs(sources):
        if isinstance(spec, LoadedSpec):
            read += spec.paths
            read += [file for kernel in spec.kernels.values() for clause in kernel.artifacts for file in clause.files]
    found = next((path for path in read if path.exists() and path.samefile(output)), None)
    if found is not None:
        raise OpspliceError(f"{output} is an input, and would be overwritten", hint="write to another file: -o FILE")


def _load(source: SpecSource) -> Spec:
    path = source.path
    if path.suffix == ".splice":
        return load(path, source.library, source.others)
    if path.suffix in (".mlir", ".mlirbc"):
        check_file(path, LARGEST_TEXT, hint="a transform-dialect spec is an .mlir file")
        check_name(path)
        return TransformSpec(path)
    raise OpspliceError(
        f"{path} is not a spec", hint="a spec is a .splice file, or a .mlir file with a transform-dialect spec"
    )

"""Specs as they are given: `.splice` files of our language, `.mlir` files of the transform dialect."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opsplice.errors import OpspliceError
from opsplice.files import LARGEST_TEXT, check_file, check_name
from opsplice.spec_lang.loader import LoadedSpec, load


@dataclass(frozen=True)
class TransformSpec:
    """A transform-dialect spec; it is read when it is applied, in the context of the program."""

    path: Path


Spec = LoadedSpec | TransformSpec


def load_specs(paths: Iterable[str | os.PathLike[str]]) -> tuple[Spec, ...]:
    """Read specs in the order given.

    Raises OpspliceError for a file that is not there or of another kind, SpecError for errors in a `.splice` file.
    """
    return tuple(_load(Path(p)) for p in paths)


def check_output(output: Path, specs: Iterable[str | os.PathLike[str]], others: Iterable[str] = ()) -> None:
    """Raise OpspliceError if writing `output` would destroy a spec, a file that one names, or one of `others`.

    Raises what `load_specs` raises where something is there to be written over.
    """
    if not output.exists():
        return
    specs = list(specs)
    read = [Path(path) for path in (*others, *specs)]
    for spec in load_specs(specs):
        if isinstance(spec, LoadedSpec):
            read += spec.paths
            read += [clause.file for kernel in spec.kernels.values() for clause in kernel.artifacts if clause.path]
    found = next((path for path in read if path.exists() and path.samefile(output)), None)
    if found is not None:
        raise OpspliceError(
            f"{output} is what is read: it would be written over", hint="write to another file: -o FILE"
        )


def _load(path: Path) -> Spec:
    if path.suffix == ".splice":
        return load(path)
    if path.suffix in (".mlir", ".mlirbc"):
        check_file(path, LARGEST_TEXT, hint="a transform-dialect spec is an .mlir file")
        check_name(path)
        return TransformSpec(path)
    raise OpspliceError(
        f"{path} is no spec", hint="a spec is a .splice file, or a .mlir file with a transform-dialect spec"
    )

"""Compiled programs and their reports on disk, by all that they are made from.

    model, specs' names, flags, versions, CPU --> what the compile read    (a list of questions)
    the same, and the answers of today        --> program and report

What a compile reads is known once its specs are: files, what these include, libraries by name, compilers. That list is
kept by what is known without reading any of it. Its questions are asked anew each time, and the answers are part of the
program's key, so that no change goes unseen; they are asked before a compile and after it, and a program is kept only
if nothing changed meanwhile. Programs are data, read with care: tables and bytes, hashed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from opsplice import __version__
from opsplice.common import cache, data_tables
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store, key_of
from opsplice.compiling.job import Job, Outcome
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.libraries import Library
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts import arch, source_inputs
from opsplice.targets.build import shaders, toolchains

# Part of every key. Raise it when the same inputs come to be kept in another way.
_WRITER = "program 2"

# The oldest programs go when all of them take more.
LARGEST = 4 << 30

# The folder of a file that generates code is part of what is read, unless it is larger.
_MOST_FILES = 1000

_WORDS = re.compile(r"[^\s,;={}()\"']+")

# What is asked: a kind, and what it is asked of.
Question = tuple[str, ...]

# The libraries that are not installed as packages, by name.
Others = Mapping[str, Library]


class UnknownInputsError(Exception):
    """What a compile reads is not known."""


def store() -> Store:
    """Where programs are."""
    return Store(cache.folder() / "programs")


def cached(job: Job, compile_: Callable[[], Outcome]) -> Outcome:
    """The outcome of a job: kept from an earlier compile, or compiled and kept.

    What is damaged, and what cannot be kept, is compiled, and the latter said among the warnings.
    """
    if job.verbose or any("print" in flag or "dump" in flag for flag in job.flags):
        return compile_()
    known = _key_of_job(job)
    others = {name: library for spec in job.specs for name, library in spec.others.items()}
    programs = store()
    cache.check(programs.root.parent)
    if (found := _found(programs, known, others)) is not None:
        return found
    try:
        questions = _questions(job)
        key = _answered(known, questions, others)
        outcome = compile_()
        after = (_key_of_job(job), _questions(job), _answered(known, questions, others))
        if after != (known, questions, key):
            return _not_kept(outcome, "what it is made from changed meanwhile")
    except UnknownInputsError as reason:
        return _not_kept(compile_(), str(reason))
    try:
        cache.make(programs.root.parent)
        programs.put(key, ".program", _packed(outcome))
        programs.put(known, ".questions", json.dumps(questions).encode())
        programs.bound(LARGEST)
    except OpspliceError as error:
        return _not_kept(outcome, error.message)
    return outcome


def _not_kept(outcome: Outcome, reason: str) -> Outcome:
    warning = f"warning: the program is not kept in the cache: {reason}"
    return dataclasses.replace(outcome, warnings=(*outcome.warnings, warning))


def _found(programs: Store, known: str, others: Others) -> Outcome | None:
    """The program that is kept for a job; None where there is none, or something else is in its place."""
    try:
        if (entry := programs.find(known, ".questions")) is None:
            return None
        key = _answered(known, json.loads(entry.path.read_bytes()), others)
        entry = programs.find(key, ".program")
        return None if entry is None else _unpacked(entry.path.read_bytes())
    except (UnknownInputsError, OSError, ValueError, KeyError, TypeError):
        return None


# ---- the key ---------------------------------------------------------------------------------------------------------


def _key_of_job(job: Job) -> str:
    """What is known of a compile before anything is read but the model."""
    specs = [
        [spec.given, os.path.abspath(spec.path), repr(spec.library), *map(repr, spec.others.items())]
        for spec in job.specs
    ]
    versions = [__version__, *(metadata.version(f"iree-base-{part}") for part in ("compiler", "runtime")), sys.version]
    said = [job.source.name, job.flags, job.targets, job.no_code, specs, versions, arch.host_identity()]
    return key_of(_WRITER, _own_code(), json.dumps(said), job.source.read())


@functools.cache
def _own_code() -> str:
    """The digest of this package's files."""
    parts = ("opsplice", *(f"opsplice.{part}" for part in ("matchers", "rewrites", "spec_lang", "targets")))
    found = (importlib.util.find_spec(part) for part in parts)
    folders = [folder for spec in found if spec is not None for folder in spec.submodule_search_locations or ()]
    return key_of(*(part for folder in folders for part in _contents(Path(folder))))


def _contents(folder: Path, most: int | None = None) -> Iterator[bytes | str]:
    """The names and contents of the files in a folder, but for what Python keeps there."""
    paths = (path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts and path.is_file())
    for number, path in enumerate(paths):
        if number == most:
            raise UnknownInputsError(f"{folder}, where code is generated, has more than {most} files")
        yield str(path.relative_to(folder))
        yield path.read_bytes()


def _questions(job: Job) -> list[Question]:
    """What a compile reads, and what that depends on. Raises what `load_specs` raises, and UnknownInputsError."""
    from opsplice.compiling.spec_files import (  # the parser, which a program that is kept does without
        TransformSpec,
        load_specs,
    )

    asked: list[Question] = []
    if b"executable.object" in job.source.read():
        raise UnknownInputsError("the model names files of objects")
    for flag in job.flags:
        # A list of files, or passes with files among their options.
        for value in _WORDS.findall(flag.partition("=")[2]):
            if os.sep in value and os.path.isdir(value):
                raise UnknownInputsError(f"the files in the folder of {flag} are unknown")
            if os.path.isfile(value):
                asked.append(("file", os.path.abspath(value)))
    for spec in load_specs(job.specs):
        if isinstance(spec, TransformSpec):
            asked.append(("source", os.path.abspath(spec.path)))
        else:
            asked += [question for file in spec.files for question in _asked_of(file)]
    return list(dict.fromkeys(asked))


def _asked_of(file: tree.Spec) -> Iterator[Question]:
    from opsplice.compiling import prebuilt  # it loads the parser

    assert file.source.path is not None
    path = os.path.abspath(file.source.path)
    # MLIR names the files of objects between quotes.
    yield ("source" if "mlir" in file.source.text else "file", path)
    for import_ in file.imports:
        yield ("import", import_.path, os.path.dirname(path))
    for clause in (clause for kernel in file.kernels for clause in kernel.artifacts if clause.path):
        code = os.path.abspath(clause.file)
        yield from (("file", os.path.abspath(linked)) for linked in clause.linked)
        if clause.is_generated:
            yield ("folder", os.path.dirname(code))
        if clause.is_command or clause.path.endswith(prebuilt.SUFFIXES):
            yield ("file", code)
        else:
            yield ("source", code, *clause.words)
            yield ("compilers",)


def _answered(known: str, questions: Iterable[Sequence[str]], others: Others) -> str:
    """The key of a program: what is known of it, and the answers."""
    answers = (_ANSWERS[kind](others, *of) for kind, *of in questions)
    return key_of(known, *(part for pair in zip(map(json.dumps, questions), answers, strict=True) for part in pair))


def _file(_others: Others, path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _source(_others: Others, path: str, *flags: str) -> str:
    def names(text: str) -> frozenset[str]:
        return source_inputs.quoted_names(text) | shaders.slang_names(text)

    try:
        return source_inputs.read_inputs(Path(path), flags, names=names).digest
    except OpspliceError as error:
        return f"unreadable: {error}"


def _import(others: Others, text: str, folder: str) -> str:
    named = libraries.reference(text, Path(folder))
    if named is None:
        return os.path.realpath(os.path.join(folder, text))
    try:
        return os.path.realpath(libraries.find(named.library, others).spec(named.part))
    except OpspliceError as error:
        return f"none: {error}"


def _compilers(_others: Others) -> str:
    try:
        found = [toolchain.identity for toolchain in toolchains.find_all()]
    except OpspliceError as error:
        found = [str(error)]
    return key_of(os.environ.get("PATH", ""), *found)


_ANSWERS: dict[str, Callable[..., str]] = {
    "file": _file,
    "source": _source,
    "folder": lambda _, path: key_of(*_contents(Path(path), _MOST_FILES)),
    "import": _import,
    "compilers": _compilers,
}

# ---- what is kept ----------------------------------------------------------------------------------------------------


def _packed(outcome: Outcome) -> bytes:
    """A length, that many bytes of a table, the program, and the kernels that are not in it."""
    provided = {key: len(code) for key, code in outcome.provided.items()}
    told = (outcome.report, outcome.warnings, len(outcome.vmfb), provided, dict(outcome.commands))
    head = data_tables.packed(told)
    return b"".join([len(head).to_bytes(8, "little"), head, outcome.vmfb, *outcome.provided.values()])


def _unpacked(data: bytes) -> Outcome:
    """Raises ValueError or TypeError for other bytes than those that were packed."""
    file = io.BytesIO(data)
    head = file.read(int.from_bytes(file.read(8), "little"))
    report, warnings, size, provided, commands = data_tables.unpacked(head)
    vmfb = file.read(size)
    return Outcome(vmfb, report, warnings, {key: file.read(length) for key, length in provided.items()}, commands)

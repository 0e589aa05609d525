"""What IREE's phases make of a module, kept between runs: a compile then costs a tenth of its time.

A phase is a function of the module before it, the files of machine code that this names, the flags, the version of
IREE and, where constants are computed, this CPU. All of these are the key, so a phase runs again as soon as anything
before it changes, be it an edit of ours. Warnings are kept with what a phase makes, and given again. What prints or
writes files is always run. With OPSPLICE_FRESH=1 nothing from earlier runs is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import time
import zlib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import iree.compiler
import pytest
from iree.compiler import ir

from opsplice.common import store
from opsplice.common.files import write_file
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline import flags as process
from opsplice.pipeline.bytecode import parse_bytecode
from opsplice.pipeline.compiler import Compilation
from opsplice.pipeline.phases import PHASES, START
from opsplice.rewrites.ir import emit
from opsplice.targets.artifacts import arch

# Where a compile's time goes, by the phase at their end. Those before are short, and load the dialects of frameworks.
KEPT = PHASES[PHASES.index("global-optimization") : -1]

# Flags that make a compile more than a function: they have files read or written, tools called, or something printed.
_EFFECTS = re.compile("dump|print|path|file|timing|statistic|trace|linker|link-embedded|ptxas|crash|verif|^--mlir-")
# The end of the path of a store, as long as that of `kept.folder`, so that bytecode with one may get the other.
_ANY_STORE = b"/any-store-folder/store/"
# A file of machine code that is named where its bytes are not given.
_FILE = re.compile(rb'executable\.object<\{path = "([^"]*)"\}')
_DAY = 24 * 3600  # seconds
# The ops that hold data.
_WITH_DATA = ("util.global", "arith.constant", "flow.tensor.constant", "util.buffer.constant", "vm.rodata")

_PACKAGE = str(Path(iree.compiler.__file__).parent)

# Part of the folder's name. Raise it when phases come to be kept in another way.
_WRITER = "phases 2"

# Where they are kept; None: every phase runs.
FOLDER: Path | None = None
VARIABLE = "OPSPLICE_TESTS_PHASES"
# Names the folder of this run's temporary files.
TEMPORARY = "OPSPLICE_TESTS_TEMPORARY"


def keep(patch: pytest.MonkeyPatch, base: Path, temporary: Path) -> None:
    """Have compiles of this process take from a folder below a base what phases made, and leave there what they make.

    The folder's name says which IREE made them, and on which CPU. temporary: where tests have their files. Zygotes read
    both in variables.
    """
    versions = [metadata.version(name) for name in ("iree-base-compiler", "iree-base-runtime")]
    folder = base / f"phases-{store.key_of(_WRITER, *versions, arch.host_identity())[:16]}"
    _forget(folder)
    patch.setattr("tests.kept_phases.FOLDER", folder)
    patch.setenv(VARIABLE, str(folder))
    patch.setenv(TEMPORARY, str(temporary))
    take_from_folder(patch)


def take_from_folder(patch: pytest.MonkeyPatch) -> None:
    """Have compiles of this process look into FOLDER, as it is when they run."""
    init, run_to, drain = Compilation.__init__, Compilation.run_to, Compilation._drain

    @functools.wraps(init)
    def made(self: Any, flags: Any = (), **options: Any) -> None:
        init(self, flags, **options)
        self._is_function = not (self._verbose or any(map(_EFFECTS.search, flags)))
        self._told = []
        self._settings = ""

    @functools.wraps(drain)
    def drained(self: Any) -> Any:
        self._told += self._reported
        return drain(self)

    @functools.wraps(run_to)
    def kept(self: Any, phase: str) -> None:
        if FOLDER is None or phase not in KEPT or self.phase == phase or not self._is_function:
            return run_to(self, phase)
        before = emit.bytecode(self.module.operation)
        files = [Path(os.fsdecode(name)) for name in _FILE.findall(before)]
        if not all(path.is_absolute() and path.is_file() for path in files):
            return run_to(self, phase)
        settings = self._settings or _settings(self)
        if self.phase != START:  # the first phases may set one more flag
            self._settings = settings
        key = store.key_of(_stored(before), *(path.read_bytes() for path in files), "", self.phase, phase, settings)
        path = FOLDER / key[:2] / key
        if (after := _read(path)) is not None and _replaced(self, after.module):
            self._reported += after.told
            self._drain()
            self.phase = phase
            return None
        self._told.clear()
        run_to(self, phase)
        has_resources = _has_resources(self.module)
        after = _After(self._told, (_text if has_resources else emit.bytecode)(self.module.operation))
        _write(path, after)
        if has_resources:
            _replaced(self, after.module)  # as when it is found: resources get other names where they are read
        return None

    patch.setattr(Compilation, "__init__", made)
    patch.setattr(Compilation, "run_to", kept)
    patch.setattr(Compilation, "_drain", drained)


@dataclass(frozen=True)
class _After:
    """What a phase leaves. told: the compiler's warnings, as it gives them."""

    told: list[tuple[int, bytes]]
    module: bytes


def _settings(compilation: Compilation) -> str:
    """A key of the flags that a compile has."""
    return store.key_of(*filter(_is_setting, compilation._session.get_flags()), "", *(process._process_flags or ()))


def _is_setting(flag: str) -> bool:
    """Whether a flag is not of what IREE's package brings along, which its version says, wherever that is installed."""
    return not flag.startswith("--iree-rocm-bc-dir=") or _PACKAGE not in flag


def _has_resources(module: ir.Module) -> bool:
    """Whether data of a module stands in its context, under a name."""
    ops = ops_in(module.operation, *_WITH_DATA)
    return any(_is_resource(op, name) for op in ops for name in ("initial_value", "value") if name in op.attributes)


def _is_resource(op: ir.Operation, name: str) -> bool:
    try:
        value = op.attributes[name]
    except TypeError:  # the bindings have no type for numbers that stand in the text and are complex
        return False
    return type(value) is ir.Attribute and "dense_resource<" in str(value)


def _text(op: ir.Operation) -> bytes:
    """An op that has resources: bytecode has parts as text, which lose those whose names are taken where it is read."""
    text = op.get_asm(enable_debug_info=True, print_generic_op_form=True)
    assert isinstance(text, str)
    return text.encode()


def _replaced(compilation: Compilation, written: bytes) -> bool:
    """Whether the module, which the compiler holds, is now the one that was written."""
    after = parse_bytecode(written, compilation.context)
    if isinstance(after, list):
        return False
    module = compilation.module
    for op in list(module.body):
        op.operation.erase()
    attributes = module.operation.attributes
    for name in list(attributes):
        del attributes[name]
    for name in after.operation.attributes:
        attributes[name] = after.operation.attributes[name]
    for op in list(after.body):
        op.operation.detach_from_parent()
        module.body.append(op)
    return True


def _stored(content: bytes) -> bytes:
    """With names for this run's folders that are those of any run: the bytes of the files that it names count."""
    for own, any_run in _names().items():
        content = content.replace(own, any_run)
    return content


def _restored(content: bytes) -> bytes:
    for own, any_run in _names().items():
        content = content.replace(any_run, own)
    return content


def _names() -> dict[bytes, bytes]:
    """This run's folders, each with a name of the same length that stands for it where phases are kept.

    The name of the kernels' store says what code built them, that of temporary files which run it is.
    """
    temporary = os.fsencode(os.environ.get(TEMPORARY, "") + "/")
    return {_store(): _ANY_STORE, temporary: re.sub(rb"\d", b"0", temporary)}


def _store() -> bytes:
    """The end of the path of this process's store; that of any where its name is no longer or shorter."""
    end = os.fsencode(f"/{Path(os.environ['OPSPLICE_CACHE']).parent.name}/store/")
    return end if len(end) == len(_ANY_STORE) else _ANY_STORE


def _write(path: Path, after: _After) -> None:
    told = json.dumps([[severity, text.decode("utf-8", "surrogateescape")] for severity, text in after.told]).encode()
    packed = zlib.compress(_stored(len(told).to_bytes(8, "little") + told + after.module), 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, hashlib.sha256(packed).digest() + packed)


def _read(path: Path) -> _After | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        return None
    os.utime(path)
    content = _restored(zlib.decompress(data[32:]))
    start = 8 + int.from_bytes(content[:8], "little")
    told = [(severity, text.encode("utf-8", "surrogateescape")) for severity, text in json.loads(content[8:start])]
    return _After(told, content[start:])


def _forget(folder: Path) -> None:
    """Remove what no run has used for a week; once a day, as there are many files."""
    stamp, now = folder / "looked-through", time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < _DAY:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    for path in folder.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # the other worker looks, too
            if now - path.stat().st_mtime > 7 * _DAY:
                path.unlink()

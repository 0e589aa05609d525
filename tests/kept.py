"""What tests keep between runs, in the user's cache: the kernels' store, and what plain programs compile to.

A plain program (no spec) is known by its text, the flags, the version of IREE, this CPU, and the code that drives the
compiler. With OPSPLICE_FRESH=1 nothing from earlier runs is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from opsplice import api
from opsplice.common import store
from opsplice.common.files import write_file
from opsplice.compiling import compilation
from opsplice.compiling.job import Job, Outcome
from opsplice.pipeline import phases
from opsplice.pipeline.compiler import Compilation
from opsplice.reports.report import Report
from opsplice.targets.artifacts import arch

ROOT = Path(__file__).parent.parent
# The phase at whose end code has been made: the part of a compile that costs.
CODE = phases.phase_index("hal")

# What decides how a program without a spec is compiled, and what kernels are.
_MADE_BY = (
    "targets/**/*",
    "opsplice/compiling/compilation.py",
    "opsplice/pipeline/*.py",
    "rewrites/link/mathematics.py",
    "rewrites/ir/*.py",
    "rewrites/memory/*.py",
    "rewrites/numbers/*.py",
)
# What decides how tests build a kernel as a C function.
_KERNELS_MADE_BY = (
    "targets/artifacts/*.py",
    "targets/build/*",
    "opsplice/common/store.py",
    "tests/kernels/emulated.py",
)


def base(temporary: Path) -> Path:
    """Where to keep things; a private folder if they are to be fresh."""
    if os.environ.get("OPSPLICE_FRESH"):
        return temporary / "kept"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opsplice-tests"


def folder(temporary: Path) -> Path:
    """Where to keep what our code makes. The name says which code."""
    return base(temporary) / _name(*_MADE_BY)


def keep_kernels(patch: pytest.MonkeyPatch, temporary: Path) -> None:
    """Have tests of kernels as C functions keep them where changes of other code do not build them again."""
    patch.setattr("tests.kernels.emulated.FOLDER", base(temporary) / f"kernels-{_name(*_KERNELS_MADE_BY)}")


def _name(*patterns: str) -> str:
    return store.key_of(*(path.read_bytes() for path in _sources(*patterns)))[:16]


def _sources(*patterns: str) -> Iterable[Path]:
    found = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    return [path for path in found if path.is_file() and path.suffix != ".pyc"]


class Compiles:
    """How often code was made in this process; compiles of child processes are theirs."""

    count = 0

    @classmethod
    def taken(cls) -> int:
        """The count since the last call."""
        count, cls.count = cls.count, 0
        return count


def count_compiles(patch: pytest.MonkeyPatch) -> None:
    run_to = Compilation.run_to

    @functools.wraps(run_to)
    def counted(self: Compilation, phase: str) -> None:
        if phases.phase_index(self.phase) < CODE <= phases.phase_index(phase):
            Compiles.count += 1
        run_to(self, phase)

    patch.setattr(Compilation, "run_to", counted)


def compile_in_one_thread(patch: pytest.MonkeyPatch) -> None:
    """Tests keep all cores busy as it is, and threads cost a compile a tenth of its time. Programs are the same."""
    init = Compilation.__init__

    @functools.wraps(init)
    def made(self: Compilation, *arguments: Any, **options: Any) -> None:
        from iree.compiler import ir

        init(self, *arguments, **options)
        ir.Context.enable_multithreading(self.context, False)

    @functools.wraps(Compilation.verify)
    def verify(self: Compilation, culprit: str) -> None:
        verify_in_threads(self, culprit)
        self.context.enable_multithreading(False)

    verify_in_threads = Compilation.verify
    patch.setattr(Compilation, "__init__", made)
    patch.setattr(Compilation, "verify", verify)


def compile_by_inductor_plainly(patch: pytest.MonkeyPatch, temporary: Path) -> None:
    """For the one small kernel of PyTorch's own, trials of vectors, headers and workers take most of a minute."""
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(base(temporary) / "inductor"))
    patch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")
    patch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")


def keep_plain_programs(patch: pytest.MonkeyPatch, programs: Path) -> None:
    run_job = compilation.run_job

    @functools.wraps(run_job)
    def kept(on_progress: Any, job: Job, *watching: Any, **edits: Any) -> Outcome:
        if watching or edits or job.specs or job.verbose or on_progress is not api._silent:
            return run_job(on_progress, job, *watching, **edits)
        versions = [metadata.version(name) for name in ("iree-base-compiler", "iree-base-runtime")]
        key = store.key_of(
            str(job.source.name), job.source.read(), *job.flags, "", *job.targets, "", *versions, arch.host_identity()
        )
        path = programs / key
        if (found := _read(path)) is not None:
            return found
        outcome = run_job(on_progress, job)
        warnings = json.dumps(outcome.warnings).encode()
        programs.mkdir(parents=True, exist_ok=True)
        content = len(warnings).to_bytes(8, "little") + warnings + outcome.vmfb
        write_file(path, hashlib.sha256(content).digest() + content)
        return outcome

    patch.setattr(compilation, "run_job", kept)


def _read(path: Path) -> Outcome | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, content = data[:32], data[32:]
    if hashlib.sha256(content).digest() != digest:
        return None
    start = 8 + int.from_bytes(content[:8], "little")
    return Outcome(content[start:], Report(), tuple(json.loads(content[8:start])))

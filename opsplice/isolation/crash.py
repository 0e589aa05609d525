"""Turns the death of an isolated compile into an error that says where it died and how to reproduce it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.frontends.source import ModuleSource
from opsplice.isolation.isolate import ChildCrashError

_OUTPUT_LINES = 12
_LINE_WIDTH = 200


class CompilerCrashError(OpspliceError):
    """The compiler died; `hint` says how to reproduce that."""


def compiler_crash(
    crash: ChildCrashError, source: ModuleSource, flags: Sequence[str], command: str | None = None
) -> CompilerCrashError:
    """The error for a compile that died in its child process.

    Writes a folder with the module, the flags and the compiler's last words, kept for the bug report. command is what
    the user would type to have the crash in the open (`opsplice compile ... --no-isolate`).
    """
    where = f" in {crash.last_event}" if crash.last_event is not None else ""
    if crash.signal == signal.SIGKILL:
        return CompilerCrashError(
            f"the compiler was killed{where}: most likely the machine ran out of memory",
            hint="free memory, or compile a smaller module",
        )
    try:
        kept = f"the module, the flags and the compiler's output are kept in {_write_reproducer(crash, source, flags)}"
    except OSError as error:
        kept = f"there was no room to keep the module for a bug report ({(error.strerror or str(error)).lower()})"
    # LLVM's fatal errors exit; a bad flag value is often behind them.
    how = f"crashed{where} ({crash.end})" if crash.signal else f"gave up{where} (exit {crash.end})"
    reproduce = f"reproduce with `{command}`; " if command else ""
    return CompilerCrashError(
        f"the compiler {how}",
        details="\n".join([*filter(None, [_last_words(crash.output)]), *getattr(crash.last_event, "notes", ())]),
        hint=f"{reproduce}{kept}",
    )


def _write_reproducer(crash: ChildCrashError, source: ModuleSource, flags: Sequence[str]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="opsplice-crash-"))
    name = "module.mlirbc" if source.is_bytecode else "module.mlir"
    try:
        (folder / name).write_bytes(source.read())
        (folder / "flags.txt").write_text("".join(f"{flag}\n" for flag in flags))
        (folder / "stderr.txt").write_text(crash.output)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _last_words(output: str) -> str:
    """The output's distinct lines, the last dozen of them, cut to a readable width."""
    lines = [line[:_LINE_WIDTH] for line in dict.fromkeys(output.strip().splitlines())]
    return "\n".join(lines[-_OUTPUT_LINES:])

"""Work of commands in a child process, whose crash is an error message: only there is the compiler imported."""

from __future__ import annotations

import argparse
import gc
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from opsplice.commands.shared import stdout
from opsplice.common.errors import OpspliceError
from opsplice.reports.render import Status

if TYPE_CHECKING:
    from opsplice.frontends import ModuleSource


def call(
    work: str,
    *args: Any,
    crashed: str = "IREE's compiler crashed",
    hint: str = "try a part of the spec alone",
    on_progress: Callable[[Any], None] | None = None,
    **keywords: Any,
) -> Any:
    """What a function gives, in a child process. work: `package.module:function`; the values pickle.

    crashed, hint: what to say when the process ends: the compiler or the runtime crashed. on_progress: is given what
    the function reports, which then takes a callback for that before the other values.
    Raises what the function raises, and OpspliceError for a crash.
    """
    from opsplice.isolation.isolate import ChildCrashError, call_isolated, method

    try:
        if on_progress is not None:
            return call_isolated(_work, (work, args), on_progress=on_progress, method=method())
        return call_isolated(_quiet, (work, args, keywords), method=method())
    except ChildCrashError as crash:
        first = "\n".join(line[:200] for line in crash.output.splitlines()[:12])
        raise OpspliceError(crashed, details=first, hint=hint) from None


def on_model(options: argparse.Namespace, source: ModuleSource, work: str, *args: Any) -> Any:
    """What a function that reports progress makes of a model, in a child process unless --no-isolate is given.

    work: as for `call`; the function takes the progress's callback before the other values.
    """
    with Status() as status, stdout.kept_free():
        if options.no_isolate:
            return _work(status.show, work, args)
        from opsplice.isolation.crash import compiler_crash
        from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
        from opsplice.pipeline.flags import asks_to_print

        try:
            return call_isolated(
                _work,
                (work, args),
                on_progress=status.show,
                method=method(),
                capture_stderr=not (options.verbose or asks_to_print(options.flags)),
            )
        except ChildCrashError as crash:
            command = shlex.join(["opsplice", *sys.argv[1:], "--no-isolate"])
            raise compiler_crash(crash, source, options.flags, command) from None


def _work(report: Any, work: str, args: tuple[Any, ...]) -> Any:
    # Loading the compiler makes so many objects that collecting garbage meanwhile takes longer than matching.
    gc.set_threshold(100_000)
    return _function(work)(report, *args)


def _quiet(_report: Any, work: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return _function(work)(*args, **keywords)


def _function(work: str) -> Any:
    module, _, name = work.partition(":")
    return getattr(import_module(module), name)

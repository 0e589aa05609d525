"""Work of a command that needs IREE but no model: done in a child process, whose crash is an error message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from opsplice.errors import OpspliceError

Result = TypeVar("Result")


def call(
    function: Callable[..., Result],
    *args: Any,
    crashed: str = "IREE's compiler crashed",
    hint: str = "try a part of the spec alone",
) -> Result:
    """function(*args), in a child process; a module-level function, and values that pickle.

    crashed, hint: what to say when the process ends: the compiler or the runtime crashed.
    Raises what the function raises, and OpspliceError for a crash.
    """
    from opsplice.isolation.isolate import ChildCrashError, call_isolated, method

    try:
        result: Result = call_isolated(_work, (function, args), method=method())
        return result
    except ChildCrashError as crash:
        first = "\n".join(line[:200] for line in crash.output.splitlines()[:12])
        raise OpspliceError(crashed, details=first, hint=hint) from None


def _work(_report: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*args)

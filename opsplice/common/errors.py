"""The one exception that users see.

Raise `OpspliceError` (or a subclass beside the code that raises it) for a mistake of the user's or a failure of the
outside world. Anything else that escapes is our bug.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

# A name in a damaged file may be as long as the file.
_LONGEST_SENTENCE = 2000
# No name that somebody typed is longer. Comparing takes microseconds each, and an error should not take seconds.
_LONGEST_NAME, _MOST_CANDIDATES = 400, 2000
_MOST_LISTED = 12

# How the system's loader says that a library does not fit into memory.
_NO_MEMORY = ("Cannot allocate memory", "failed to map segment", "cannot allocate memory")

# How IREE's Python bindings say that a string is not UTF-8.
_NOT_UTF8 = "conversion error"


class OpspliceError(Exception):
    """A failure that the user can act on.

    message: what went wrong, one sentence, lower case start, no full stop.
    hint:    what to do about it, or None.
    details: further lines shown as they are (a compiler's own output, a rendered source excerpt), or "".
    The middle of a message or a hint that nobody would read to its end is left out.
    """

    def __init__(self, message: str, *, hint: str | None = None, details: str = "") -> None:
        self.message = _readable(message)
        super().__init__(self.message)
        self.hint = hint and _readable(hint)
        self.details = details

    def noting(self, *lines: str) -> OpspliceError:
        """The same error, with further lines of details."""
        self.details = "\n".join(filter(None, [self.details, *lines]))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (isolated compiles), so all three fields must survive pickling.
        return (_rebuild, (type(self), self.message, self.hint, self.details))

    def __str__(self) -> str:
        lines = [self.message]
        if self.details:
            lines.append(self.details.rstrip())
        if self.hint:
            lines.append(f"help: {self.hint}")
        return "\n".join(lines)


class MissingToolError(OpspliceError):
    """No compiler here makes what is asked for. The hint says how to get one."""


def unforeseen(message: str) -> OpspliceError:
    """The error where IREE has made what it was not seen to make, which no user can mend."""
    return OpspliceError(message, hint="this is a bug in opsplice, or IREE is not of version 3.13: please report it")


def _readable(text: str) -> str:
    if len(text) <= _LONGEST_SENTENCE:
        return text
    half = _LONGEST_SENTENCE // 2
    return f"{text[:half]} ... {text[-half:]}"


def counted(number: int, what: str) -> str:
    """A number of things: `1 file`, `2 files`, `2 matches`."""
    plural = "es" if what.endswith(("ch", "ss")) else "s"
    return f"{number} {what}{plural * (number != 1)}"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt name most likely means, or None."""
    import difflib

    if len(name) > _LONGEST_NAME:
        return None
    close = difflib.get_close_matches(name, itertools.islice(candidates, _MOST_CANDIDATES), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint with the nearest name, or None when nothing is near."""
    close = nearest(name, candidates)
    return f"did you mean {close}?" if close else None


def one_of(name: str, candidates: Iterable[str]) -> str | None:
    """A hint with the nearest name, else with all of them; None where there is none."""
    there = list(dict.fromkeys(candidates))
    return did_you_mean(name, there) or (f"there are {', '.join(there[:_MOST_LISTED])}" if there else None)


def printable(text: str, instead: str = "") -> str:
    """A text of a stranger's, without what commands terminals. instead: what takes its place; `{}` is its number."""
    return "".join(letter if letter.isprintable() else instead.format(ord(letter)) for letter in text)


def failure_outside(error: BaseException) -> OpspliceError | None:
    """What is not a bug of ours, as an error: a system that lacks memory, room or rights, and names that are not UTF-8.

    None for any other exception.
    """
    if isinstance(error, MemoryError):
        return OpspliceError("there is not enough memory", hint="give the process more, or compile a part of the model")
    if isinstance(error, OSError):
        where = f" ({error.filename!s})" if error.filename is not None else ""
        return OpspliceError(f"the system refuses: {(error.strerror or str(error)).lower()}{where}")
    if isinstance(error, UnicodeDecodeError) or (isinstance(error, RuntimeError) and _NOT_UTF8 in str(error)):
        return OpspliceError(
            "a name or a text in the model or in a spec is not UTF-8",
            hint="MLIR takes any bytes in names, locations and attributes, and Python reads them as UTF-8: rename it",
        )
    if isinstance(error, ImportError) and any(sign in str(error) for sign in _NO_MEMORY):
        return OpspliceError("there is not enough memory to load IREE", details=str(error))
    return None


def _rebuild(kind: type[OpspliceError], message: str, hint: str | None, details: str) -> OpspliceError:
    return kind(message, hint=hint, details=details)

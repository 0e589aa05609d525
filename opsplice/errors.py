"""The one exception that users see.

Every layer may import this module; it imports none of them. Raise `OpspliceError` (or a subclass beside the code that
raises it) for a mistake of the user's or a failure of the outside world. Anything else that escapes is our bug.
"""

from __future__ import annotations

# A name in a damaged file may be as long as the file.
_LONGEST_SENTENCE = 2000


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

    def __reduce__(self):
        # Errors cross process borders (isolated compiles), so all three fields must survive pickling.
        return (_rebuild, (type(self), self.message, self.hint, self.details))

    def __str__(self) -> str:
        lines = [self.message]
        if self.details:
            lines.append(self.details.rstrip())
        if self.hint:
            lines.append(f"help: {self.hint}")
        return "\n".join(lines)


def _readable(text: str) -> str:
    if len(text) <= _LONGEST_SENTENCE:
        return text
    half = _LONGEST_SENTENCE // 2
    return f"{text[:half]} ... {text[-half:]}"


def _rebuild(kind: type[OpspliceError], message: str, hint: str | None, details: str) -> OpspliceError:
    return kind(message, hint=hint, details=details)

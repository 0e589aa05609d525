"""What of a transform spec cannot be said in our language."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import location_text


class UnreadableError(Exception):
    """Raised inside the importer: an op of the spec cannot be read. The message names it with its place."""

    def __init__(self, op: ir.Operation, why: str) -> None:
        super().__init__(f"{location_text(op)}: {op.name}: {why}")

"""`transform.include`: the ops of a sequence that another includes are put in its place, before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError

INCLUDE = "transform.include"
_WHY = "opsplice.why"
_MOST = 10_000  # ops that are put in, for a spec of a few lines can come to any number of them
_SUPPRESS = 2  # of FailurePropagationMode


def expand(symbols: Mapping[str, ir.Operation]) -> None:
    """Put the ops of included sequences in the place of the ops that include them, as far as that says the same.

    symbols: the symbols at the top of a spec, by name.
    """
    expander = _Expander(symbols)
    for name in symbols:
        expander.expand(name)


def check(sequence: ir.Operation) -> None:
    """Raises UnreadableError for an op that still includes another sequence. Call it after `expand`."""
    for op in ops_in(sequence, INCLUDE):
        raise UnreadableError(op, _why(op))


def _why(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes[_WHY]).value)


class _Expander:
    def __init__(self, symbols: Mapping[str, ir.Operation]) -> None:
        self.symbols = symbols
        self.done: set[str] = set()
        self.count = 0

    def expand(self, name: str) -> None:
        """Put in what a sequence includes. None includes itself: a spec in which one does is not parsed."""
        if name in self.done or self.symbols[name].name != "transform.named_sequence":
            return
        self.done.add(name)
        for op in ops_in(self.symbols[name], INCLUDE):
            target = ir.SymbolRefAttr(op.attributes["target"]).value[-1]
            if target in self.symbols:
                self.expand(target)
            why = self._obstacle(op, target)
            if why is None:
                self._put_in(op, self.symbols[target])
            else:
                op.attributes[_WHY] = ir.StringAttr.get(why)

    def _obstacle(self, op: ir.Operation, target: str) -> str | None:
        """Why a sequence cannot be put in the place of an op."""
        sequence = self.symbols.get(target)
        if sequence is None or not len(sequence.regions) or not len(sequence.regions[0].blocks):
            return f"there is no sequence @{target} with a body"
        if ir.IntegerAttr(op.attributes["failure_propagation_mode"]).value == _SUPPRESS:
            return "with failures(suppress), so that it goes on where a check fails"
        nested = ops_in(sequence, INCLUDE)
        if nested:
            return f"of @{target}, which includes another {_why(nested[0])}"
        if self.count > _MOST:
            return f"where more than {_MOST} ops come of all that is included"
        return None

    def _put_in(self, op: ir.Operation, sequence: ir.Operation) -> None:
        block = sequence.regions[0].blocks[0]
        values = dict(zip(block.arguments, op.operands, strict=True))
        *body, last = [each.operation for each in block.operations]
        for each in body:
            with ir.InsertionPoint(op):
                self.count += len(ops_in(emit.copy(each, values)))
        emit.replace(op, *map(values.__getitem__, last.operands))

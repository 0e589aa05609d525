"""Elementwise ops that read many values of open sizes are done in several dispatches.

    %r = addf(addf(addf(%a, %b), %c), ...)     =>     %m = util.optimization_barrier (addf(addf(%a, %b), %c))
                                                      %r = addf(%m, ...)

IREE 3.13 makes one dispatch of elementwise ops that read each other, up to 32 values. A dispatch takes 64 numbers of 32
bits. Where sizes are open, two of these say where each value lies in its memory: a program with a sum of 36 values did
not load.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import VIEWS, is_elementwise, maker_name, seen_through
from opsplice.rewrites.memory.aligned_buffers import open_dims
from opsplice.rewrites.memory.crossed_reads import NEW, put_into_memory

# How many values a dispatch may read and write. Sizes of dims need some of its numbers, too.
_MOST = 24


@dataclasses.dataclass(eq=False)
class _Dispatch:
    """What elementwise ops read that may become one dispatch, and what others read of them."""

    reads: set[ir.Value]
    writes: set[ir.Value]
    into: _Dispatch | None = None  # which one it became part of

    def whole(self) -> _Dispatch:
        found = self
        while found.into is not None:
            found = found.into
        return found

    def width_with(self, other: _Dispatch) -> int:
        return len(self.reads | other.reads) + len(self.writes | other.writes)

    def take(self, other: _Dispatch) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        other.into = self


def part(module: ir.Module) -> None:
    """Change a module at `crossed_reads.PHASE` such that no dispatch of elementwise ops reads too many values."""
    members: dict[ir.Value, _Dispatch] = {}
    for op in ops_in(module.operation):
        if is_elementwise(op) and any(open_dims(each.type) for each in op.results):
            _place(op, members)


def _place(op: ir.Operation, members: dict[ir.Value, _Dispatch]) -> None:
    """Find the dispatch of an op: that of what it reads, as far as one takes it all, and memory for the rest."""
    mine = _Dispatch(set(), {each for each in op.results if _is_read_by_others(each)})
    makers: defaultdict[_Dispatch, list[int]] = defaultdict(list)
    for number, operand in enumerate(op.operands):
        root = seen_through(operand)
        if root in members:
            makers[members[root].whole()].append(number)
        elif isinstance(operand.type, ir.RankedTensorType) and maker_name(root) not in NEW:
            mine.reads.add(root)
    for maker, numbers in sorted(makers.items(), key=lambda item: len(item[0].reads)):
        if mine.width_with(maker) <= _MOST:
            mine.take(maker)
        else:
            maker.writes.update(seen_through(op.operands[number]) for number in numbers)
            put_into_memory(op, numbers)
            mine.reads.update(op.operands[number] for number in numbers)
    members.update(dict.fromkeys(op.results, mine))


def _is_read_by_others(value: ir.Value) -> bool:
    """Whether an op reads a value, or a view of it, that is no elementwise one."""
    users = [use.owner.operation for use in value.uses]
    return any(
        _is_read_by_others(each.results[0]) if each.name in VIEWS else not is_elementwise(each) for each in users
    )

"""Keeps what a program overwrites while somebody may still read it: an input, or what an op of any order reads.

    %s = flow.dispatch @sum(%x)                            %s = flow.dispatch @sum(%x)
    %r = flow.dispatch @scatter(%u, %x) -> %x      =>      %r = flow.dispatch @scatter(%u, %x) -> %x
                                                           util.optimization_barrier %x

IREE 3.13 copies what a dispatch overwrites, and then drops the copy where no later op reads the value. For an input
that is its caller's memory: arrays reach programs without copies. For any other value the order of the ops is not kept:
`iree-stream-schedule-concurrency` looks at what ops give to each other, and may place `@scatter` before `@sum`. It
drops the copy, too, where the op that overwrites a value reads it by another operand. So something reads such a value
afterwards. An op whose result is what overwrites the value stands before it in any order.
Where the value is a reshape, the same holds for what it is a reshape of: IREE may copy one of the two and overwrite the
other.

    %u = flow.dispatch @add_one(%x)                        %u = flow.dispatch @add_one(%x)
    %r = flow.tensor.update %u, %x[1]              =>      %o = util.optimization_barrier %u
                                                           %r = flow.tensor.update %o, %x[1]

It also lets `@add_one` write straight into `%x`, which it still reads, and copies a slice of `%x` onto itself where the
two overlap. So a result gets memory of its own where its op reads what it is written into.

    %s:2 = flow.dispatch @tables()                         %s:2 = flow.dispatch @tables()
    %r = flow.tensor.update %u, %s#1[1]            =>      %o = util.optimization_barrier %s#1
                                                           %r = flow.tensor.update %u, %o[1]

A dispatch that is given no tensor is done again where a result is to be copied, as before something writes into it. The
copy is then its first result, whichever it was of, and nothing of it is read where the other one is exported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import held_in, last_op, ops_in
from opsplice.matchers.ir.tensor_values import maker_name
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import SAME_BYTES, Dispatch, segments

# When it is known what is written in place.
PHASE = "flow"

_READING = ("flow.tensor.slice", "hal.tensor.export", "tensor.dim")
_SIZES = ("tensor.dim", "flow.tensor.dim")  # they read no memory
_IMPORT, _BARRIER = "hal.tensor.import", "util.optimization_barrier"
_SAME_MEMORY = SAME_BYTES | {_BARRIER}
# Which of their groups of operands is overwritten.
_IN_PLACE = {"flow.tensor.store": 1, "flow.tensor.update": 0}
WRITING = ("flow.dispatch", *_IN_PLACE)
_MAKERS = ("flow.dispatch", "flow.tensor.slice", "flow.tensor.update")


def keep(module: ir.Module) -> None:
    """Keep each value that may be overwritten too early from being so. The module must be at `PHASE`."""
    with module.context:
        found = ops_in(module.operation, _IMPORT, *WRITING)
        for op in found:
            if op.name == "flow.dispatch" and not _memories(op):
                _do_once(op)
        for op in found:
            if op.name == _IMPORT and _may_be_written(op.results[0]):
                for end in ops_in(op.parent, "util.return"):
                    _read_before(end, op.results[0])
        writing = [op for op in found if op.name != _IMPORT]
        written: dict[ir.Block, list[_Write]] = {}
        for op in writing:
            written.setdefault(op.block, []).extend(_writes(op))
        for block, writes in written.items():
            end = last_op(block)
            for value in dict.fromkeys(same for each in _in_danger(block, writes) for same in _same_memory(each)):
                _read_before(end, value)
        for op in writing:
            if op.name == "flow.tensor.update":
                _part(op)


def _do_once(dispatch: ir.Operation) -> None:
    """See that no op is done again in the place of copies of its results."""
    for result in dispatch.results:
        if _may_be_written(result):
            emit.put_behind(result, lambda each: emit.value(_BARRIER, [each], each.type))


def _part(update: ir.Operation) -> None:
    """Give what is made of a value memory of its own where it is written into the same value."""
    target, new = segments(update)[0][0], segments(update)[3][0]
    if _is_made_of(new, memory_of(target)):
        with update.location, ir.InsertionPoint(update):
            update.operands[list(update.operands).index(new)] = emit.value(_BARRIER, [new], new.type)


def _is_made_of(value: ir.Value, memory: ir.Value) -> bool:
    """Whether an op reads this memory that makes a value or a part of it, and may place it where it is written to."""

    def read(made: ir.Value) -> list[ir.Value]:
        return _memories(made.owner.operation) if maker_name(made) in _MAKERS else []

    def placed(made: ir.Value) -> list[ir.Value]:
        is_update = maker_name(made) == "flow.tensor.update"
        return [each for each in read(made) if is_update or maker_name(each) == "flow.tensor.slice"]

    return any(memory in read(made) for made in reachable([memory_of(value)], placed))


def _memories(op: ir.Operation) -> list[ir.Value]:
    """What holds each of the tensors that an op is given."""
    return [memory_of(each) for each in op.operands if isinstance(each.type, ir.RankedTensorType)]


def _read_before(end: ir.Operation, value: ir.Value) -> None:
    with end.location, ir.InsertionPoint(end):
        emit.op(_BARRIER, [value], [value.type])


def _may_be_written(value: ir.Value) -> bool:
    """Whether a value, or one with the same bytes, is given to anything but what only reads it."""
    for user in users(value):
        if user.name == "flow.dispatch":
            if any(memory_of(each) == memory_of(value) for each in overwritten(user)):
                return True
        elif user.name not in _READING:
            return True
    return False


@dataclasses.dataclass(frozen=True)
class _Write:
    """An op that overwrites a value, and the other ops of its block that read it. itself: whether it reads it, too."""

    op: ir.Operation
    value: ir.Value
    readers: tuple[ir.Operation, ...]
    itself: bool


def _writes(op: ir.Operation) -> Iterator[_Write]:
    for value in overwritten(op):
        memory = memory_of(value)
        found = [held_in(op.block, user) for user in users(memory) if user.name not in _SIZES]
        readers = tuple({user for user in found if user is not None and user != op})
        itself = _memories(op).count(memory) > 1
        if readers or itself or maker_name(memory) == _IMPORT:
            yield _Write(op, value, readers, itself)


def overwritten(op: ir.Operation) -> list[ir.Value]:
    """What an op, one of `WRITING`, writes its results over."""
    if op.name in _IN_PLACE:
        return segments(op)[_IN_PLACE[op.name]]
    dispatch = Dispatch(op)
    return [dispatch.arguments[n] for n in dispatch.tied if n >= 0]


def _in_danger(block: ir.Block, writes: list[_Write]) -> list[ir.Value]:
    """Inputs that are overwritten, and values that an op reads of which what overwrites them does not depend."""
    late = {each.value: None for each in writes if each.itself or maker_name(memory_of(each.value)) == _IMPORT}
    numbers = {op: 1 << n for n, op in enumerate({reader for write in writes for reader in write.readers})}
    if not numbers:
        return list(late)
    before: dict[ir.Operation, int] = {}  # of each op, the readers that stand before it in any order
    for each in block.operations:
        op = each.operation
        found = 0
        for part in [op, *ops_in(op)] if len(op.regions) else [op]:
            for operand in part.operands:
                maker = held_in(block, operand.owner) if isinstance(operand, ir.OpResult) else None
                if maker is not None and maker != op:
                    found |= before[maker] | numbers.get(maker, 0)
        before[op] = found
    late |= {w.value: None for w in writes if any(not before[w.op] & numbers[reader] for reader in w.readers)}
    return list(late)


def users(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that use a value, or one with the same bytes."""
    for use in value.uses:
        user = use.owner.operation
        if user.name in _SAME_MEMORY:
            yield from users(user.results[0])
        else:
            yield user


def memory_of(value: ir.Value) -> ir.Value:
    """The first value with the same bytes."""
    *_, first = _same_memory(value)
    return first


def _same_memory(value: ir.Value) -> Iterator[ir.Value]:
    """A value, what it is a reshape of, and so on."""
    yield value
    while isinstance(value, ir.OpResult) and value.owner.operation.name in _SAME_MEMORY:
        value = value.owner.operation.operands[0]
        yield value

"""Gives each value that a loop or a branch hands on memory of its own where something else still has the one it is in.

    scf.for iter_args(%h = %zeros, %c = %zeros)     =>     %own = (a copy of %zeros)
                                                           scf.for iter_args(%h = %own, %c = %zeros)

IREE 3.13 overwrites what a block is given, even where one value is given to it twice, or is read later: a loop that
makes no turn then gives two results that are one. Nothing is copied in a function that overwrites nothing, nor what has
open sizes that are not known here: those of results of `scf.while`, `scf.if` and blocks.

    scf.for iter_args(%h = %first)     =>     %o = util.optimization_barrier %first
                                              scf.for iter_args(%h = %o)

IREE may put several values of open sizes into one piece of memory, and hands on where each begins there. It rounds that
up, has no bounds of what is rounded up where the sizes may be of any number, and takes it for the 0 of what lies alone
in its memory and is handed on to the same place: a loop then read another value than it was given. What is behind a
barrier begins at 0.

    %t = stream.resource.dealloca origin await(%s) => %given     =>     %t is %s

IREE 3.13 gives back what a block was given once nothing reads it there: a constant, where a loop that begins with it
makes no turn, or an input; the next call then reads what is no longer there. It also does not see what lies in the same
memory behind a barrier. Who refers to memory last gives it back anyway.

    util.global.store %b, @a     =>     %o = util.optimization_barrier %b
                                        util.global.store %o, @a

It also takes a global that is only ever given what another one holds for that other one, whenever that was: after
`a, b = b, a` or `before = now` the two are one. So is one that is given a constant, or what is computed from constants:
it would have been that from the start.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import around, ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.uses import is_weight
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import open_dims, segments
from opsplice.rewrites.memory.kept_values import WRITING, memory_of, overwritten, users

# When no global is taken for another yet.
GLOBALS_PHASE = "preprocessing"
# When it is said where memory is given back.
MEMORY_PHASE = "stream"

_LOOPS = ("scf.for", "scf.while")
_JUMPS = ("cf.br", "cf.cond_br")
_GIVING = (*_LOOPS, *_JUMPS, "scf.yield", "scf.condition")
# Which of their groups of operands are the sizes of the result.
_SIZES = {"flow.dispatch": 3, "flow.tensor.reshape": 2, "flow.tensor.update": 1}


def part(module: ir.Module) -> None:
    """Copy what is handed on and still read elsewhere. The module must be at `kept_values.PHASE`, its values kept."""
    with module.context:
        for function in ops_in(module.operation, "util.func"):
            giving = ops_in(function, *_GIVING)
            if any(overwritten(op) for op in ops_in(function, *WRITING)):
                for op in giving:
                    _part(op)
            for op in giving:
                _begin_at_zero(op)


def part_globals(module: ir.Module) -> None:
    """Keep globals apart that are given what others hold, or constants. The module must be at `GLOBALS_PHASE`."""
    with module.context:
        views = Views()
        for op in ops_in(module.operation, "util.global.store"):
            with op.location, ir.InsertionPoint(op):
                op.operands[0] = _apart(op, op.operands[0], views)


def keep_memory(module: ir.Module) -> None:
    """Do not give back memory of unknown owners. The module must be at `MEMORY_PHASE`."""
    with module.context:
        for op in ops_in(module.operation, "stream.resource.dealloca"):
            if "prefer_origin" in op.attributes:
                time = op.results[0].type
                awaited = [value for value in op.operands if value.type == time]
                with op.location, ir.InsertionPoint(op):
                    emit.replace(op, awaited[0] if awaited else emit.value("stream.timepoint.immediate", [], time))


def _apart(store: ir.Operation, value: ir.Value, views: Views) -> ir.Value:
    """What a store is to be given for a value."""
    starts = any(each.name == "util.initializer" for each in around(store))
    is_constant = not starts and isinstance(value.type, ir.RankedTensorType) and is_weight(views, value)
    if is_constant and value.type.rank and (sizes := _sizes(value)) is not None:
        # Behind a barrier alone IREE finds no memory for it where a result is what the global held before.
        return _copied(value, sizes)
    maker = defining_op(memory_of(value))
    is_held = maker is not None and maker.name == "util.global.load"
    return emit.value("util.optimization_barrier", [value], value.type) if is_constant or is_held else value


def _part(op: ir.Operation) -> None:
    given: set[ir.Value] = set()
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and value.type.rank:
            memory, sizes = memory_of(value), _sizes(value)
            if sizes is not None and (memory in given or _is_used_after(op, memory)):
                with op.location, ir.InsertionPoint(op):
                    op.operands[n] = _copied(value, sizes)
            given.add(memory)


def _begin_at_zero(op: ir.Operation) -> None:
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and open_dims(value.type):
            with op.location, ir.InsertionPoint(op):
                op.operands[n] = emit.value("util.optimization_barrier", [value], value.type)


def _copied(value: ir.Value, open_sizes: Sequence[ir.Value]) -> ir.Value:
    """The same in memory of its own. IREE drops copies of whole values, so this one is written into a longer one."""
    kind = ir.RankedTensorType(value.type)
    rest = iter(open_sizes)
    sizes = [next(rest) if kind.is_dynamic_dim(n) else emit.index(size) for n, size in enumerate(kind.shape)]
    length = emit.plus(sizes[0], emit.index(1))
    shape = [length if kind.is_dynamic_dim(0) else kind.shape[0] + 1, *kind.shape[1:]]
    longer = emit.tensor_type(shape, kind.element_type)
    longer_sizes = [length, *open_sizes[1:]] if kind.is_dynamic_dim(0) else list(open_sizes)
    start = [emit.index(0)] * kind.rank
    empty = emit.value("flow.tensor.empty", longer_sizes, longer)
    groups = [[empty], longer_sizes, start, [value], open_sizes]
    written = emit.grouped("flow.tensor.update", groups, [longer]).results[0]
    filled = emit.value("util.optimization_barrier", [written], longer)
    groups = [[filled], longer_sizes, start, sizes, open_sizes]
    return emit.grouped("flow.tensor.slice", groups, [kind]).results[0]


def _sizes(value: ir.Value) -> list[ir.Value] | None:
    """The open sizes of a value, None where they are not known: the op that makes it has them."""
    if not (count := open_dims(value.type)):
        return []
    if isinstance(value, ir.BlockArgument):
        loop = value.owner.owner.operation
        return _sizes(loop.operands[value.arg_number + 2]) if loop.name == "scf.for" else None
    maker = value.owner.operation
    if maker.name == "scf.for":
        return _sizes(maker.operands[value.result_number + 3])  # no turn changes them
    if maker.name == "hal.tensor.import":
        return list(maker.operands)[1 : 1 + count]
    if maker.name not in _SIZES:
        return None
    skipped = sum(open_dims(each.type) for each in list(maker.results)[: value.result_number])
    return segments(maker)[_SIZES[maker.name]][skipped : skipped + count]


def _is_used_after(op: ir.Operation, memory: ir.Value) -> bool:
    """Whether anything may read this memory once an op has given it away."""
    block = memory.owner if isinstance(memory, ir.BlockArgument) else memory.owner.operation.block
    makers = list(around(block.owner.operation))
    again = op.name in _JUMPS and op.block != block  # it may be given away more than once
    again |= any(each.name in _LOOPS and each not in makers for each in itertools.islice(around(op), 1, None))
    return again or any(user != op and _may_follow(user, op) for user in users(memory))


def _may_follow(user: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op may run after another one. Of two branches of an `scf.if` only one runs."""
    holders = {each.block: each for each in itertools.takewhile(lambda o: o.parent is not None, around(op))}
    each = next(each for each in around(user) if each.block in holders)
    other = holders[each.block]
    if each == other:
        return bool(each == op or each.name != "scf.if")
    return bool(other.is_before_in_block(each))

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
barrier begins at 0. To IREE the size of what a global holds is open, too, and so is that of all that is handed on to
the same place.

    %t = stream.resource.dealloca origin await(%s) => %given     =>     %t is %s

IREE 3.13 gives back what a block was given once nothing reads it there: a constant, where a loop that begins with it
makes no turn, or an input; the next call then reads what is no longer there. It also does not see what lies in the same
memory behind a barrier. Who refers to memory last gives it back anyway.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

from opsplice.matchers.ir.op_names import around, global_of, ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import open_dims
from opsplice.rewrites.memory.global_values import mutable_globals
from opsplice.rewrites.memory.kept_values import WRITING, memory_of, overwritten, users
from opsplice.rewrites.memory.own_memory import copied, open_sizes

# When it is said where memory is given back.
MEMORY_PHASE = "stream"

_LOOPS = ("scf.for", "scf.while")
_JUMPS = ("cf.br", "cf.cond_br")
_GIVING = (*_LOOPS, *_JUMPS, "scf.yield", "scf.condition")


def part(module: ir.Module) -> None:
    """Copy what is handed on and still read elsewhere. The module must be at `kept_values.PHASE`, its values kept."""
    with module.context:
        mutable = mutable_globals(module)
        for function in ops_in(module.operation, "util.func"):
            giving = ops_in(function, *_GIVING)
            if any(overwritten(op) for op in ops_in(function, *WRITING)):
                for op in giving:
                    _part(op)
            loads = any(global_of(op) in mutable for op in ops_in(function, "util.global.load"))
            for op in giving:
                _begin_at_zero(op, closed_too=loads)


def keep_memory(module: ir.Module) -> None:
    """Do not give back memory of unknown owners. The module must be at `MEMORY_PHASE`."""
    with module.context:
        for op in ops_in(module.operation, "stream.resource.dealloca"):
            if "prefer_origin" in op.attributes:
                time = op.results[0].type
                awaited = [value for value in op.operands if value.type == time]
                with op.location, ir.InsertionPoint(op):
                    emit.replace(op, awaited[0] if awaited else emit.value("stream.timepoint.immediate", [], time))


def _part(op: ir.Operation) -> None:
    given: set[ir.Value] = set()
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and value.type.rank:
            memory, sizes = memory_of(value), open_sizes(value)
            if sizes is not None and (memory in given or _is_used_after(op, memory)):
                with op.location, ir.InsertionPoint(op):
                    op.operands[n] = copied(value, sizes)
            given.add(memory)


def _begin_at_zero(op: ir.Operation, *, closed_too: bool) -> None:
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and (closed_too or open_dims(value.type)):
            with op.location, ir.InsertionPoint(op):
                op.operands[n] = emit.value("util.optimization_barrier", [value], value.type)


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

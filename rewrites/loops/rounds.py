"""Loops of a known number of rounds do several rounds at a time, and what is the same in each but once.

    %r = scf.for %i = 0 to 33 step 1                   %r = scf.for %i = 0 to 33 step 3
        iter_args(%a = %x) {                               iter_args(%a = %x) {
      %s = flow.dispatch @step(%a, %i)        =>         %j, %k = arith.addi ...
      scf.yield %s                                       %s = flow.dispatch @step(%a, %i)
    }                                                    %t = flow.dispatch @step(%s, %j)
                                                         %u = flow.dispatch @step(%t, %k)
                                                         scf.yield %u
                                                       }

Rounds that are left over are done before the loop.

IREE 3.13 hands what a round does to the device apart from other rounds, with memory of its own, which takes some
microseconds, where a small dispatch takes less than one. It parts commands, too, where numbers are computed between
them: so these come first. The code of dispatches is there once, however many commands call it.

A round that reads a number of a tensor waits for the device, and stays alone: IREE has no valid code for some of those.

What is the same in each round, such as a packed weight, is computed once before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit

# When dispatches are apart from the loop that calls them.
PHASE = "flow"

_READING = "flow.tensor.load"
# Ops that do nothing but compute numbers, by how their names begin; and those that may only be where there is a round.
_NUMBERS = ("arith.", "index.", "math.", "util.align", "util.optimization_barrier")
_DIVISIONS = ("arith.floordiv", *(f"arith.{kind}{sign}i" for kind in ("div", "ceildiv", "rem") for sign in "su"))
# Ops that make values of others, and do nothing else.
_OF_VALUES = ("flow.dispatch", "flow.tensor.bitcast", "flow.tensor.reshape", "flow.tensor.slice")
# How many commands a round may come to have. More take longer to compile, and gain little.
_MOST = 32


def join(module: ir.Module) -> None:
    """Have loops do less: see above. Only innermost ones do several rounds. The module must be at `PHASE`."""
    with module.context:
        loops = list(ops_in(module.operation, "scf.for"))
        for loop in reversed(loops):  # from inner ones to those around them
            _move_out(loop)
        for loop in loops:
            lower, upper, step = map(_number, list(loop.operands)[:3])
            body = [op.operation for op in loop.regions[0].blocks[0].operations][:-1]
            is_plain = not any(op.name == _READING or list(op.regions) for op in body)
            if lower is not None and upper is not None and step is not None and is_plain:
                _join(loop, body, range(lower, upper, step))


def _move_out(loop: ir.Operation) -> None:
    """Compute before a loop what is the same in each round. IREE does not compile each loop of another kind from which
    what it hands on is moved."""
    block = loop.regions[0].blocks[0]
    for op in [each.operation for each in block.operations]:
        is_number = op.name.startswith(_NUMBERS) and not op.name.startswith(_DIVISIONS)
        if (is_number or op.name in _OF_VALUES) and not any(_is_made_in(block, value) for value in op.operands):
            op.move_before(loop)


def _is_made_in(block: ir.Block, value: ir.Value) -> bool:
    maker = defining_op(value)
    return bool(value.owner == block if maker is None else maker.block == block)


def _number(value: ir.Value) -> int | None:
    maker = defining_op(value)
    if maker is None or maker.name != "arith.constant":
        return None
    known: int = ir.IntegerAttr(maker.attributes["value"]).value
    return known


def _join(loop: ir.Operation, body: Sequence[ir.Operation], rounds: range) -> None:
    block, commands = loop.regions[0].blocks[0], sum(not op.name.startswith(_NUMBERS) for op in body)
    if len(rounds) < 2 or not 1 <= commands <= _MOST // 2:
        return
    times = -(-len(rounds) // (_MOST // commands))  # of the loop that is left
    together = len(rounds) // times
    before = len(rounds) if times == 1 else len(rounds) - times * together
    with loop.location, ir.InsertionPoint(loop):
        states = _done(block, body, loop.operands[0], list(loop.operands)[3:], rounds[:before])
        if times == 1:
            emit.replace(loop, *states)
            return
        loop.operands[0] = emit.constant(rounds[before], block.arguments[0].type)
        loop.operands[2] = emit.constant(rounds.step * together, block.arguments[0].type)
        for number, state in enumerate(states):
            loop.operands[3 + number] = state
    end = last_op(block)
    with loop.location, ir.InsertionPoint(end):
        first, *given = block.arguments
        states = _done(block, body, first, given, range(0, rounds.step * together, rounds.step))
        for number, state in enumerate(states):
            end.operands[number] = state
        for op in reversed(body):
            op.erase()


def _done(
    block: ir.Block, body: Sequence[ir.Operation], start: ir.Value, given: list[ir.Value], steps: range
) -> list[ir.Value]:
    """What rounds make of the values that the first one is given. Numbers are computed before all commands."""
    counted, *states = block.arguments
    known = []
    for step in steps:
        here = emit.value("arith.addi", [start, emit.constant(step - steps.start, counted.type)], counted.type)
        known.append({counted: here})
    waiting, later = set(states), []
    for op in body:
        if op.name.startswith(_NUMBERS) and not waiting.intersection(op.operands):
            for values in known:
                emit.copy(op, values)
        else:
            waiting.update(op.results)
            later.append(op)
    for values in known:
        values.update(zip(states, given, strict=True))
        for op in later:
            emit.copy(op, values)
        given = [values.get(value, value) for value in last_op(block).operands]
    return given

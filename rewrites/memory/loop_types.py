"""Loops that begin with as many values as they end with, of the same types in the same order.

    %r:2 = scf.while (%a = %x) {                       %e = flow.tensor.empty
      ...                                              %r:2 = scf.while (%b = %e, %a = %x) {
      scf.condition(%go) %y, %z              =>          util.optimization_barrier %b
    } do {                                               ...
    ^bb0(%c, %d):                                        scf.condition(%go) %y, %z
      scf.yield %d                                     } do {
    }                                                  ^bb0(%c, %d):
                                                         scf.yield %c, %d
                                                       }

IREE 3.13 drops what no round reads, such as the last loss, from what a loop begins with. It then does not compile what
it made, or ends the process. The barrier keeps what is new from being taken away again.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.rewrites.ir import emit

# When loops are as they stay.
PHASE = "flow"


def align(module: ir.Module) -> None:
    """Change a module at `PHASE` such that each `scf.while` has one list of types."""
    with module.context:
        for loop in ops_in(module.operation, "scf.while"):
            if _types(loop.operands) != _types(loop.results):
                _align(loop)


def _types(values: Sequence[ir.Value]) -> list[ir.Type]:
    return [value.type for value in values]


def _align(loop: ir.Operation) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    inits, given = list(loop.operands), _types(loop.results)
    order, left = _order(_types(inits), given)
    with loop.location, ir.InsertionPoint(loop):
        begun = [_anything(kind) if n is None else inits[n] for n, kind in zip(order, given, strict=True)]
        begun += [inits[n] for n in left]
        new = emit.op("scf.while", begun, _types(begun), regions=2)
    before.append_to(new.regions[0])
    after.append_to(new.regions[1])
    with loop.location:
        old = list(before.arguments)
        for number, value in zip((*order, *left), begun, strict=True):
            argument = before.add_argument(value.type, loop.location)
            if number is None:
                _hidden(argument)
            else:
                old[number].replace_all_uses_with(argument)
        for _ in old:
            before.erase_argument(0)
        _end(before, [*last_op(before).operands, *map(_hidden, list(before.arguments)[len(order) :])])
        for number in left:
            _hidden(after.add_argument(inits[number].type, loop.location))
        ends, handed = list(last_op(after).operands), list(after.arguments)
        _end(after, [handed[at] if n is None else ends[n] for at, n in enumerate((*order, *left))])
    emit.replace(loop, *list(new.results)[: len(given)])


def _order(inits: Sequence[ir.Type], given: Sequence[ir.Type]) -> tuple[list[int | None], list[int]]:
    """For each type that is given the number of an init of this type, if one is left; and the inits left over."""
    left = list(range(len(inits)))
    order: list[int | None] = []
    for kind in given:
        own = next((n for n in left if inits[n] == kind), None)
        order.append(own)
        if own is not None:
            left.remove(own)
    return order, left


def _anything(kind: ir.Type) -> ir.Value:
    """A value that nothing reads."""
    if isinstance(kind, ir.RankedTensorType):
        open_sizes = [emit.index(0) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
        return emit.value("flow.tensor.empty", open_sizes, kind)
    return emit.constant(0, kind)


def _hidden(argument: ir.BlockArgument) -> ir.Value:
    """An argument of a block as IREE neither drops it nor knows what it is, as that a condition is true in the body."""
    begin = ir.InsertionPoint.at_block_begin(argument.owner)
    return emit.op("util.optimization_barrier", [argument], [argument.type], at=begin).result


def _end(block: ir.Block, operands: Sequence[ir.Value]) -> None:
    """Have the last op of a block take these operands."""
    last = last_op(block)
    emit.op(last.name, operands, at=ir.InsertionPoint(last))
    last.erase()

"""Sorts and the first elements of rows leave equal elements in their order, and know where NaN goes.

    iree_linalg_ext.sort { (%a, %b): yield less(%a, %b) }    =>    yield less(%a, %b) or not less(%b, %a)

IREE 3.13 exchanges neighbours unless the first is less than the second, so also if they are equal: `jnp.argsort` gives
the indices of equal elements in any order. If a sort only compares two floats, NaN is the largest one, as in PyTorch.

    iree_linalg_ext.topk { (%a, %b): yield %a > %b : f32 }    =>    yield ordered(%a) > ordered(%b) : i32

`ordered` makes integers of the floats' bits, in JAX's order: -0 before 0, and NaN at the ends. IREE takes NaN for equal
to all, and gives elements the indices of others. The values that the op begins with go behind all elements. NaN of
16 bits is at the beginning, whatever its sign.

    iree_linalg_ext.topk { (%a, %b): yield before(%a, %b) }    =>    yield before(%a, %b) and not before(%b, %a)

IREE asks of integers whether they are greater or equal, and then takes the last of equal elements for the first.

    iree_linalg_ext.sort outs(%x, %n)    =>    iree_linalg_ext.sort outs(util.optimization_barrier %x, ...)

IREE sorts in place, and lets sorts share what they overwrite, such as the numbers 0, 1, 2, ... that become their
indices: all but one gave wrong ones. What others read, too, is overwritten in memory of its own.

    %sorted, %places = iree_linalg_ext.sort ...    =>    util.optimization_barrier %sorted

Where nothing reads what is sorted but its places alone, IREE has it on the stack, and no code if it does not fit there.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit

_SORT = "iree_linalg_ext.sort"
# IREE computes with narrow floats as wider ones: the sign of NaN is lost.
_HALF = 16
# Predicates of `arith.cmpf`: those that hold of a smaller and a larger number, and of these the other way round.
_RISING, _FALLING = (4, 5, 11, 12), (2, 3, 9, 10)


@emit.of_each(_SORT, "iree_linalg_ext.topk")
def mend(op: ir.Operation) -> None:
    """Change a sort, or what takes the first elements, where inputs are converted."""
    body, is_sort = op.regions[0].blocks[0], op.name == _SORT
    last = last_op(body)
    if is_sort:
        _part(op)
        _keep_results(op)
    with ir.InsertionPoint(last):
        pair = _compared(last.operands[0], body)
        if pair is None:
            last.operands[0] = _unless_exchanged("arith.ori" if is_sort else "arith.andi", body)
        elif is_sort:
            last.operands[0] = _with_nan(*pair)
        else:
            last.operands[0] = emit.compared("<", *map(_ordered, pair))
            _begin_with_least(op, is_falling=pair[1] == body.arguments[0])


def _compared(holds: ir.Value, body: ir.Block) -> tuple[ir.Value, ir.Value] | None:
    """The two arguments of a body that are in order if the first is the smaller one, where that is all it asks."""
    op = defining_op(holds)
    if op is None or op.name != "arith.cmpf" or any(each not in list(body.arguments) for each in op.operands):
        return None
    left, right = op.operands
    asked = ir.IntegerAttr(op.attributes["predicate"]).value
    return (left, right) if asked in _RISING else (right, left) if asked in _FALLING else None


def _with_nan(small: ir.Value, large: ir.Value) -> ir.Value:
    """Whether two floats need not be exchanged, of which the second should be the larger one."""
    is_nan = emit.compared("!=", large, large)
    return emit.value("arith.ori", [emit.compared("<=", small, large), is_nan], is_nan.type)


def _unless_exchanged(joined_by: str, body: ir.Block) -> ir.Value:
    """Whether a body's arguments are in order, joined with whether they would not be if they were exchanged."""
    ops, arguments = list(body.operations)[:-1], list(body.arguments)
    (precedes,) = last_op(body).operands
    firsts, seconds = arguments[::2], arguments[1::2]
    values: dict[ir.Value, ir.Value] = dict(zip([*firsts, *seconds], [*seconds, *firsts], strict=True))
    for op in ops:
        emit.copy(op.operation, values)
    follows = values.get(precedes, precedes)
    not_ = emit.value("arith.xori", [follows, emit.constant(1, follows.type)], follows.type)
    return emit.value(joined_by, [precedes, not_], follows.type)


def _ordered(x: ir.Value) -> ir.Value:
    """An integer for a float: they are in the same order."""
    word = ir.IntegerType.get_signless(x.type.width)
    bits = emit.value("arith.bitcast", [x], word)
    is_negative = emit.compared("<", bits, emit.constant(0, word))
    most = emit.constant((1 << word.width - 1) - 1, word)
    other = emit.value("arith.xori", [bits, most], word)
    ordered = emit.value("arith.select", [is_negative, other, bits], word)
    if word.width > _HALF:
        return ordered
    return emit.value("arith.select", [emit.compared("!=", x, x), most, ordered], word)


def _begin_with_least(op: ir.Operation, *, is_falling: bool) -> None:
    """Have the values that an op begins with, all infinite, be those NaN that come behind all elements."""
    at = len(op.operands) - 2  # in front of their indices
    filled = defining_op(op.operands[at])
    if filled is None or filled.name != "linalg.fill":
        return
    kind = filled.operands[0].type
    if kind.width <= _HALF:
        return
    with ir.InsertionPoint(filled):
        word = ir.IntegerType.get_signless(kind.width)
        bits = emit.constant(-1 if is_falling else (1 << word.width - 1) - 1, word)
        least = emit.value("arith.bitcast", [bits], kind)
        made = filled.clone().operation
        made.operands[0] = least
    op.operands[at] = made.results[0]


def _part(sort: ir.Operation) -> None:
    """Give a sort memory of its own for what others read, too: it is sorted in place."""
    for number, value in enumerate(sort.operands):
        maker = defining_op(value)
        if maker is not None and len(maker.results) == 1 and any(use.owner != sort for use in value.uses):
            sort.operands[number] = emit.held(value)


def _keep_results(sort: ir.Operation) -> None:
    """Have memory for each result, read or not."""
    with ir.InsertionPoint.after(sort):
        for result in sort.results:
            if not any(result.uses):
                emit.held(result)

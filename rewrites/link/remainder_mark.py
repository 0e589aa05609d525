"""A mark that becomes vectors with the code around it: remainders, by a number that says which function is meant.

    %0 = arith.remf %x, 3.1258e18                        =>       %r = f(%x, %y), lane by lane
    %r = arith.remf %0, %y

Compilers take every op on elements apart into vectors that they know of, and those of `arith` survive with their
operands until code is made. IREE fuses a matmul only with such ops, and gives loops of others little to do at a time.
There is one for functions whose types are all f32, or all f64.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from iree.compiler import ir

from opsplice.common.errors import OpspliceError, unforeseen
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.rewrites.ir import emit

# The bits of large numbers, to be followed by those that tell them apart.
_EXPONENT = {"f32": 0x5E000000, "f64": 0x4BC0000000000000}
# A remainder and a constant, in the dialects that code is made of.
_DIALECTS = {"spirv.FRem": "spirv.Constant", "llvm.frem": "llvm.mlir.constant"}

# A vector of a tile, which is an array of vectors, is put in and taken out.
_PUT, _TAKE = "llvm.insertvalue", "llvm.extractvalue"

# Writes a call of the function of a name at the current point: on operands, with a result of a type.
Caller = Callable[[str, Sequence[ir.Value], ir.Type], ir.Value]


def leave(name: str, operands: Sequence[ir.Value], result: ir.Type) -> ir.Value | None:
    """Write a mark at the current point, or None where there is none for these types. name: which function is meant."""
    base = next((i for i, value in enumerate(operands) if not _is_constant(value)), None)
    if base is None or str(result) not in _EXPONENT or any(value.type != result for value in operands):
        return None
    held = emit.value("arith.remf", [operands[base], emit.constant(_number(name, base, str(result)), result)], result)
    for operand in (*operands[:base], *operands[base + 1 :]):
        held = emit.value("arith.remf", [held, operand], result)
    return held


def replace(below: ir.Operation, functions: Mapping[str, int], call: Caller) -> None:
    """Put calls in the place of the marks below an op. functions: by name how many operands there are.

    Raises OpspliceError for a mark that is no longer one.
    """
    numbers = {
        (element, _number(name, base, element)): (name, base)
        for name, count in functions.items()
        for base in range(count)
        for element in _EXPONENT
    }
    found = [(op, numbers.get(_divisor(op) or ("", 0.0))) for op in ops_in(below, *_DIALECTS)]
    heads = {op: known for op, known in found if known is not None}
    _check_all(below, set(numbers), heads)
    for op, (name, base) in heads.items():
        chains = _chains(op, functions[name] - 1)
        if not chains:
            raise _lost(name)
        for chain in chains:
            others = [each.operands[1] for each in chain[1:]]
            end = chain[-1]
            with ir.InsertionPoint(end), end.location:
                made = call(name, [*others[:base], op.operands[0], *others[base:]], end.results[0].type)
            end.results[0].replace_all_uses_with(made)
            for each in reversed(chain):
                if next(iter(each.results[0].uses), None) is None:
                    each.erase()


def _chains(first: ir.Operation, count: int) -> list[list[ir.Operation]]:
    """A remainder and so many further ones, in each way: calls with the same first operands share their beginning."""
    if count == 0:
        return [[first]]
    users = dict.fromkeys(_remainders_of(first.results[0], first.name))
    return [[first, *rest] for user in users for rest in _chains(user, count - 1)]


def _remainders_of(value: ir.Value, name: str) -> Iterator[ir.Operation]:
    """The remainders of a value by others, also where it is put into a tile and taken out of it in between."""
    for user in [use.owner.operation for use in value.uses]:
        if user.name == name and user.operands[0] == value:
            yield user
        elif user.name == _PUT and user.operands[1] == value:
            for taken in _taken_from(user.results[0], user.attributes["position"]):
                yield from _remainders_of(taken, name)


def _taken_from(tile: ir.Value, position: ir.Attribute) -> Iterator[ir.Value]:
    """Where the part of a tile at a position is taken out again."""
    for user in [use.owner.operation for use in tile.uses]:
        if user.name == _TAKE and user.attributes["position"] == position:
            yield user.results[0]
        elif user.name == _PUT and user.operands[0] == tile and user.attributes["position"] != position:
            yield from _taken_from(user.results[0], position)


def _check_all(below: ir.Operation, numbers: Collection[tuple[str, float]], heads: Collection[ir.Operation]) -> None:
    """Raise OpspliceError if a number that says which function is meant is used elsewhere than in a known mark."""
    for constant in ops_in(below, *_DIALECTS.values()):
        if _number_of(constant) not in numbers:
            continue
        pending = [constant.results[0]]
        while pending:
            for user in [use.owner.operation for use in pending.pop().uses]:
                if user.name == _TAKE:
                    pending += user.results
                elif user not in heads:
                    raise _lost(user.name)


def _lost(what: str) -> OpspliceError:
    return unforeseen(f"a call of a function on elements was lost while code was made: {what}")


def _divisor(op: ir.Operation) -> tuple[str, float] | None:
    """The constant that a remainder is by, in each lane: its element type and itself."""
    maker = defining_op(op.operands[1])
    while maker is not None and maker.name == _TAKE:
        maker = defining_op(maker.operands[0])
    return None if maker is None or maker.name != _DIALECTS[op.name] else _number_of(maker)


def _number_of(constant: ir.Operation) -> tuple[str, float] | None:
    """What a constant is in all of its lanes, with the element type."""
    found = constant_of(constant)
    return None if found is None else (found.type, found.value)


def _is_constant(value: ir.Value) -> bool:
    maker = defining_op(value)
    return maker is not None and maker.name == "arith.constant"


def _number(name: str, base: int, element: str) -> float:
    """What stands for a function in its marks, and for which operand comes first. No program has it by chance."""
    digest = hashlib.sha256(f"{name} {base}".encode()).digest()
    if element == "f32":
        return float(struct.unpack(">f", (_EXPONENT[element] | int.from_bytes(digest[:4]) >> 9).to_bytes(4))[0])
    return float(struct.unpack(">d", (_EXPONENT[element] | int.from_bytes(digest[:8]) >> 12).to_bytes(8))[0])

"""linalg: every op with indexing maps and a body, whatever its name, and softmax.

The parallel loops run at once, as axes of arrays; the others run one after the other, in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

# The public module `dialects.linalg` takes longer to load than a small compile.
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.interpreter.arithmetic import wide
from opsplice.interpreter.handlers import HANDLERS, Machine, handles, integer
from opsplice.interpreter.problems import EvaluationError, unknown, wrong

Expression = Callable[[Sequence[Any]], Any]

# Ops on two numbers that many can be combined by in any order.
_IN_ANY_ORDER = {f"arith.{most}{kind}" for most in ("max", "min") for kind in ("imumf", "numf", "si", "ui")}
_IN_ANY_ORDER |= {"arith.addi", "arith.muli", "arith.andi", "arith.ori", "arith.xori"}

_BINARY: tuple[tuple[type, Callable[[Any, Any], Any]], ...] = (
    (ir.AffineAddExpr, lambda x, y: x + y),
    (ir.AffineMulExpr, lambda x, y: x * y),
    (ir.AffineModExpr, lambda x, y: x % y),
    (ir.AffineFloorDivExpr, lambda x, y: x // y),
    (ir.AffineCeilDivExpr, lambda x, y: -(-x // y)),
)


def expression(affine: ir.AffineExpr, dims: int = 0) -> Expression:
    """An affine expression as a function of the loops, or of the operands of a map with so many dims."""
    if isinstance(affine, ir.AffineDimExpr):
        position = ir.AffineDimExpr(affine).position
        return lambda loops: loops[position]
    if isinstance(affine, ir.AffineSymbolExpr):  # behind the dims, as operands are
        symbol = ir.AffineSymbolExpr(affine).position
        return lambda loops: loops[dims + symbol]
    if isinstance(affine, ir.AffineConstantExpr):
        value = ir.AffineConstantExpr(affine).value
        return lambda loops: np.asarray(value)
    for kind, combine in _BINARY:
        if isinstance(affine, kind):
            both = kind(affine)
            return _combined(combine, expression(both.lhs, dims), expression(both.rhs, dims))
    raise EvaluationError(f"the interpreter does not know the affine expression '{affine}'")


def _combined(combine: Callable[[Any, Any], Any], left: Expression, right: Expression) -> Expression:
    return lambda loops: combine(left(loops), right(loops))


def plain_dims(indexing: ir.AffineMap) -> list[int | None]:
    """For each result of a map the loop that it is, or None."""
    return [
        ir.AffineDimExpr(result).position if isinstance(result, ir.AffineDimExpr) else None
        for result in indexing.results
    ]


def loops_of(op: ir.Operation) -> list[list[int]]:
    """For each operand of an op the loops that are its dims. Raises EvaluationError where one is none."""
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    found = [[loop for loop in plain_dims(each) if loop is not None] for each in maps]
    if any(len(loops) != len(each.results) for loops, each in zip(found, maps, strict=True)):
        raise unknown(op, "with indices that are not loops")
    return found


def over(array: np.ndarray, own: Sequence[int], loops: Sequence[int]) -> np.ndarray:
    """An array whose dims are some loops, with its dims in the order of all loops; the others have the size 1."""
    missing = tuple(number for number, loop in enumerate(loops) if loop not in own)
    return np.expand_dims(np.transpose(array, np.argsort(own)), missing)


def at(op: ir.Operation, array: np.ndarray, indices: Sequence[Any]) -> np.ndarray:
    """The elements at indices that broadcast. Raises EvaluationError where one is outside."""
    for axis, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
        if np.size(index) and not (np.min(index) >= 0 and np.max(index) < size):
            raise wrong(op, f"goes outside axis {axis} of size {size}")
    return np.asarray(array[tuple(indices)])


def extents(op: ir.Operation, maps: Sequence[ir.AffineMap], operands: Sequence[np.ndarray]) -> list[int]:
    """How often each loop runs, from the shapes of the operands."""
    found: dict[int, int] = {}
    for indexing, operand in zip(maps, operands, strict=True):
        for loop, size in zip(plain_dims(indexing), np.shape(operand), strict=True):
            if loop is not None and found.setdefault(loop, size) != size:
                raise wrong(op, f"has a loop of both {found[loop]} and {size} turns")
    if len(found) < maps[0].n_dims:
        raise unknown(op, "with a loop that no operand has as a dim")
    return [found[loop] for loop in range(maps[0].n_dims)]


@handles("linalg.")
def _generic(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Any op with indexing maps and a body."""
    attributes = None if len(op.regions) != 1 else get_indexing_maps(op)
    if attributes is None:
        raise unknown(op)
    maps = [ir.AffineMapAttr(each).value for each in attributes]
    turns = extents(op, maps, operands)
    inputs = len(maps) - len(op.results)
    if machine.floats is not None and (summed := _sum_of_products(op, maps, operands, turns)) is not None:
        return [summed]
    if (combined := _combined_by_halves(machine, op, maps, operands)) is not None:
        return combined
    reads = [[expression(result) for result in indexing.results] for indexing in maps]
    outs = [np.array(operand) for operand in operands[inputs:]]
    parallel = _parallel(op, maps[inputs:])
    others = [loop for loop in range(len(turns)) if loop not in parallel]
    axes = np.ogrid[tuple(slice(0, turns[loop]) for loop in parallel)] if parallel else []
    loops: list[Any] = [None] * len(turns)
    for loop, axis in zip(parallel, axes, strict=True):
        loops[loop] = axis
    whole = tuple(turns[loop] for loop in parallel)
    machine.indices.append(loops)
    for turn in itertools.product(*(range(turns[loop]) for loop in others)) if math.prod(whole) else ():
        for loop, index in zip(others, turn, strict=True):
            loops[loop] = np.asarray(index)
        places = [[read(loops) for read in each] for each in reads]
        elements = [at(op, array, place) for array, place in zip([*operands[:inputs], *outs], places, strict=True)]
        made = machine.run_body(op, elements)
        for out, place, value in zip(outs, places[inputs:], made, strict=True):
            out[tuple(place)] = value
    machine.indices.pop()
    return outs


def _combined_by_halves(
    machine: Machine, op: ir.Operation, maps: Sequence[ir.AffineMap], operands: Sequence[np.ndarray]
) -> list[Any] | None:
    """A reduction by one op in few steps, each of which combines many pairs; None for another op."""
    block = op.regions[0].blocks[0]
    combining, *rest = [each.operation for each in block.operations]
    if len(maps) != 2 or len(rest) != 1 or combining.name not in _IN_ANY_ORDER:
        return None
    if set(combining.operands) != set(block.arguments) or [*rest[0].operands] != [*combining.results]:
        return None
    own, kept = plain_dims(maps[0]), plain_dims(maps[1])
    if len(own) > maps[0].n_dims or {*own} != {*range(maps[0].n_dims)} or None in kept or len({*kept}) < len(kept):
        return None
    array, result = operands
    others = [loop for loop in own if loop not in kept]
    axes = [own.index(loop) for loop in (*kept, *others)]
    left = array.transpose(axes).reshape(*result.shape, math.prod(array.shape[own.index(loop)] for loop in others))
    while (half := left.shape[-1] // 2) > 0:
        (made,) = machine.run_body(op, [left[..., :half], left[..., half : 2 * half]])
        left = np.concatenate([made, left[..., 2 * half :]], axis=-1)
    return machine.run_body(op, [left[..., 0], result]) if left.shape[-1] else [np.array(result)]


def _sum_of_products(
    op: ir.Operation, maps: Sequence[ir.AffineMap], operands: Sequence[np.ndarray], turns: Sequence[int]
) -> np.ndarray | None:
    """A contraction or a convolution at once, in any order of its sums; None for another op."""
    body = [each.operation for each in op.regions[0].blocks[0].operations]
    arguments = list(op.regions[0].blocks[0].arguments)
    if len(operands) != 3 or len(body) < 3:
        return None
    *casts, product, total, end = body
    if (product.name, total.name) != ("arith.mulf", "arith.addf"):
        return None
    sources = {c.results[0]: c.operands[0] for c in casts if c.name in ("arith.extf", "arith.truncf")}
    factors = [sources.get(value, value) for value in product.operands]
    added = [value for value in total.operands if value != product.results[0]]
    if len(sources) < len(casts) or set(factors) != set(arguments[:2]) or added != arguments[2:]:
        return None
    if list(end.operands) != [total.results[0]] or None in plain_dims(maps[2]) or not math.prod(turns):
        return None
    left, right = _over_loops(operands[0], maps[0], turns), _over_loops(operands[1], maps[1], turns)
    kept = plain_dims(maps[2])
    if left is None or right is None or not {*kept} <= {*left[1], *right[1]}:
        return None
    if not {*range(len(turns))} - {*kept} <= {*left[1]} & {*right[1]}:
        return None  # what is summed before it is multiplied comes to other infinities
    factored: list[Any] = [*left, *right, kept]
    return np.asarray(np.einsum(*factored, optimize=True) + operands[2])


def _over_loops(array: np.ndarray, indexing: ir.AffineMap, turns: Sequence[int]) -> tuple[np.ndarray, list[int]] | None:
    """An operand with an axis for each loop that it is read by, and these loops; None where an index is not linear."""
    steps: dict[int, int] = {}
    offset = 0
    for axis, result in enumerate(indexing.results):
        read = expression(result)
        rest = int(read([0] * len(turns)))
        factors = [int(read([int(n == loop) for n in range(len(turns))])) - rest for loop in range(len(turns))]
        last = rest + sum(factor * (turn - 1) for factor, turn in zip(factors, turns, strict=True))
        if not _is_linear(result) or min(factors) < 0 or rest < 0 or last >= array.shape[axis]:
            return None
        offset += rest * array.strides[axis]
        for loop, factor in enumerate(factors):
            if factor:
                steps[loop] = steps.get(loop, 0) + factor * array.strides[axis]
    loops = sorted(steps)
    shape, strides = [turns[loop] for loop in loops], [steps[loop] for loop in loops]
    start = np.ndarray((1,), array.dtype, array, offset) if array.flags.c_contiguous else None
    return None if start is None else (np.lib.stride_tricks.as_strided(start, shape, strides), loops)


def _is_linear(affine: ir.AffineExpr) -> bool:
    if isinstance(affine, ir.AffineAddExpr):
        both = ir.AffineAddExpr(affine)
        return _is_linear(both.lhs) and _is_linear(both.rhs)
    if isinstance(affine, ir.AffineMulExpr):
        both = ir.AffineMulExpr(affine)
        return _is_linear(both.lhs) and isinstance(both.rhs, ir.AffineConstantExpr)
    return isinstance(affine, (ir.AffineDimExpr, ir.AffineConstantExpr))


def _parallel(op: ir.Operation, outputs: Sequence[ir.AffineMap]) -> list[int]:
    """The loops that can run at once: those of which each turn writes elsewhere, in every output."""
    own = [{loop for loop in plain_dims(indexing) if loop is not None} for indexing in outputs]
    shared = set.intersection(*own) if own else set()
    if "iterator_types" in op.attributes:
        shared -= {i for i, kind in enumerate(op.attributes["iterator_types"]) if "parallel" not in str(kind)}
    return sorted(shared)


@handles("affine.apply")
def _apply(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    applied = ir.AffineMapAttr(op.attributes["map"]).value
    return [np.asarray(expression(result, applied.n_dims)(operands)) for result in applied.results]


HANDLERS["linalg.index"] = lambda machine, op, _: machine.indices[-1][integer(op, "dim")]
HANDLERS["linalg.softmax"] = lambda machine, op, given: machine.rounded(
    softmax(wide(given[0]), integer(op, "dimension")), op.results[0].type
)


def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(scores - np.max(scores, axis=axis, keepdims=True))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))


@handles("iree_linalg_ext.scan")
def _scan(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Sums, or what the body says, of all elements up to each along a dim: with it, or from a start and without it."""
    array, _, start = operands
    axis, with_itself = integer(op, "dimension"), ir.BoolAttr(op.attributes["inclusive"]).value
    elements = list(np.moveaxis(array, axis, 0))
    made = elements[:1] if with_itself else [start][: len(elements)]
    for element in elements[1:] if with_itself else elements[:-1]:
        made.append(machine.run_body(op, [made[-1], element])[0])
    return [np.stack(made, axis), made[-1]] if made else [array, start]

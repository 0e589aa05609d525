"""A sum over several dims of a product is done in two steps where a factor has some of these dims, and lacks others.

    %p = linalg.generic [(i, j) -> (i, j), (i, j) -> (j)] { mulf }
    %s = linalg.generic [(i, j) -> (i, j), (i, j) -> ()] ["reduction", "reduction"] ins(%p) { addf }

        =>

    %r = linalg.generic [(i, j) -> (i, j), (i, j) -> (i)] ["parallel", "reduction"] ins(%p) { addf }
    %s = linalg.generic [(i) -> (i), (i) -> ()] ["reduction"] ins(%r) { addf }

IREE 3.13 does not compile the first form: `'vector.contract' op invalid accumulator/result vector shape`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps
from iree.compiler.dialects import linalg

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit

# When transposes are parts of the ops that read them, and no dispatch is formed yet.
PHASE = "global-optimization"

_SUMS = ("arith.addf", "arith.addi")
_PRODUCTS = ("arith.mulf", "arith.muli")

_SEVERAL = 2
_Loops = frozenset[int]


def split(module: ir.Module) -> None:
    """Change a module at `PHASE` such that IREE compiles its sums of products."""
    for op in list(ops_in(module.operation, "linalg.generic")):
        if _is_sum(op) and any(_has_some(factor, _summed(op)) for factor in _factors(op)):
            _split(op)


def _is_sum(op: ir.Operation) -> bool:
    if len(op.results) != 1 or len(_summed(op)) < _SEVERAL:  # IREE leaves ops without results, too
        return False
    made = _yielded(op)
    return made is not None and made.name in _SUMS


def _summed(op: ir.Operation) -> list[int]:
    return [loop for loop, kind in enumerate(op.attributes["iterator_types"]) if "reduction" in str(kind)]


def _has_some(factor: _Loops, summed: Sequence[int]) -> bool:
    return 0 < len(factor & set(summed)) < len(summed)


def _factors(op: ir.Operation) -> Iterator[_Loops]:
    """The loops of a sum that each factor of the product that it sums depends on, if it sums one."""
    made = _yielded(op)
    assert made is not None
    for term in made.operands:
        producer = defining_op(term)
        if term.owner == op.regions[0].blocks[0]:
            yield from _factors_of_input(op, ir.BlockArgument(term).arg_number)
        elif producer is not None and producer.name in _PRODUCTS:
            yield from _read(op, producer)


def _factors_of_input(op: ir.Operation, number: int) -> Iterator[_Loops]:
    producer = _elementwise(op.operands[number])
    product = _yielded(producer) if producer is not None else None
    if producer is not None and product is not None and product.name in _PRODUCTS:
        loops = _maps(op)[number]
        for dims in _read(producer, product):
            yield frozenset().union(*(loops[dim] for dim in dims))


def _read(op: ir.Operation, product: ir.Operation) -> Iterator[_Loops]:
    """The loops that each factor of a product in an op's body depends on."""
    for factor in product.operands:
        read = _elements(factor, op.regions[0].blocks[0])
        yield frozenset().union(*(_dependence(op.operands[number], _maps(op)[number]) for number in read))


def _elements(value: ir.Value, body: ir.Block) -> set[int]:
    """The operands of an op whose elements a value in its body is computed from."""

    def read(value: ir.Value) -> Sequence[ir.Value]:
        producer = defining_op(value)
        return () if producer is None else list(producer.operands)

    return {ir.BlockArgument(each).arg_number for each in reachable([value], read) if each.owner == body}


def _dependence(value: ir.Value, read: Sequence[_Loops]) -> _Loops:
    """The loops that a value depends on which is read so, through broadcasts."""
    producer = _elementwise(value)
    if producer is not None and _yielded(producer) is None and len(producer.operands) == 2:
        kept = [frozenset[int]().union(*(read[dim] for dim in dims)) for dims in _maps(producer)[0]]
        return _dependence(producer.operands[0], kept)
    return frozenset().union(*read)


def _elementwise(value: ir.Value) -> ir.Operation | None:
    """The op that computes a value element by element, in order, if such a one does."""
    op = defining_op(value)
    if op is None or op.name != "linalg.generic" or _summed(op):
        return None
    made = ir.AffineMapAttr(list(get_indexing_maps(op))[-1]).value
    return op if made == ir.AffineMap.get_identity(made.n_dims, op.context) else None


def _yielded(op: ir.Operation) -> ir.Operation | None:
    """What computes the first value that the body of an op yields, None for what goes through as it is."""
    return defining_op(last_op(op.regions[0].blocks[0]).operands[0])


def _maps(op: ir.Operation) -> list[list[_Loops]]:
    """For each operand the loops that each of its dims is read by: one, or any where that is not a loop itself."""
    maps = [ir.AffineMapAttr(each).value for each in get_indexing_maps(op)]
    every = frozenset(range(maps[0].n_dims))
    return [[frozenset([e.position]) if isinstance(e, ir.AffineDimExpr) else every for e in m.results] for m in maps]


def _split(op: ir.Operation) -> None:
    """Sum over the innermost dim first, and then over the others."""
    maps = [ir.AffineMapAttr(each).value for each in get_indexing_maps(op)]
    *outer, inner = _summed(op)
    rank, kind = maps[0].n_dims, ir.RankedTensorType(op.results[0].type)
    kept = [loop for loop in range(rank) if loop != inner]
    made = _yielded(op)
    assert made is not None
    with ir.InsertionPoint(op), op.location:
        rows = linalg.fill(emit.constant(0, kind.element_type), outs=[_rows(op, kept, kind.element_type)])
        by_rows = ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(loop) for loop in kept])
        partial = emit.nest(list(op.operands)[:-1], [*maps[:-1], by_rows], rows, summed=[inner])
        read = [ir.AffineDimExpr.get(kept.index(ir.AffineDimExpr(expr).position)) for expr in maps[-1].results]
        each = ir.AffineMap.get_identity(len(kept))
        sums = [kept.index(loop) for loop in outer]
        total = op.operands[len(op.operands) - 1]
        whole = emit.nest([partial.results[0]], [each, ir.AffineMap.get(len(kept), 0, read)], total, summed=sums)
        body = whole.regions[0].blocks.append(kind.element_type, kind.element_type, arg_locs=[op.location] * 2)
        with ir.InsertionPoint(body):
            emit.op("linalg.yield", [emit.value(made.name, list(body.arguments), kind.element_type)])
    op.regions[0].blocks[0].append_to(partial.regions[0])
    emit.replace(op, whole.results[0])


def _rows(op: ir.Operation, loops: Sequence[int], element: ir.Type) -> ir.Value:
    """An empty tensor with a dim for each of some loops of an op."""
    read = {loops: (op.operands[n], dim) for n, dims in enumerate(_maps(op)) for dim, loops in enumerate(dims)}
    places = [read[frozenset([loop])] for loop in loops]
    shape = [ir.RankedTensorType(value.type).shape[dim] for value, dim in places]
    dynamic = [emit.dim(*place) for place, size in zip(places, shape, strict=True) if size < 0]
    return emit.value("tensor.empty", dynamic, ir.RankedTensorType.get(shape, element))

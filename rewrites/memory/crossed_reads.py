"""An elementwise op that reads one reduction at two places gets it from memory.

    %s = linalg.softmax %x
    %r = linalg.generic [(i, j) -> (i, j), (i, j) -> (j, i)] ins(%s, %s)

        =>

    %m = util.optimization_barrier %s
    %r = linalg.generic [...] ins(%m, %m)

IREE 3.13 would compute both in one dispatch, tile by tile, and hold only the tile that one of the reads asks for: the
result of `s + s.T` is then wrong, and so is that of `n[:, None] + n[None, :]` after `n = (x * x).sum(1)`.

So does one that skips elements, as a pool of windows of one element with strides: `[(i) -> (i * 2), (i) -> (i)]`. In
one dispatch with what computes them, IREE would store none of the others, which something else may read. With a
reduction it does not compile: "restricted to workgroup distributed contexts". So an op that reads what is made between
skipped elements gets reductions from memory, too.

An op that also reads what it adds to, or writes rows into, gets that twice.

    %u = tensor.extract_slice %x
    %r = iree_linalg_ext.scatter ins(%u, %i) outs(%x)

        =>

    %m = util.optimization_barrier %x
    %r = iree_linalg_ext.scatter ins(%u, %i) outs(%m)

So does one that writes rows into a slice: IREE would copy it to the stack, and has no code if it is large or open.

What is written into a part of a value, and is made of the same value, is computed before.

    %s = tensor.extract_slice %x                   %m = util.optimization_barrier %s
    %r = tensor.insert_slice %s into %x     =>     %r = tensor.insert_slice %m into %x

In one dispatch IREE would have one buffer for both, and read rows of `%x` that it has overwritten already.
With two, `kept_values` sees to it that they are not the same memory.

So is what is padded, or written into a part itself, where it is then written into a tensor of more dims: IREE would
write it there at once, with a place for too few dims: "expected 4 offset values, got 3". Gradients of convolutions of
one dim have it.

A single element that is cut from a tensor and becomes a tensor of more dims is cut from memory: IREE would cut the
tensor of more dims, and does not compile it ("expected rank to be smaller or equal to the other rank").

    %s = tensor.extract_slice %x : tensor<3xf32> to tensor<f32>
    %e = tensor.expand_shape %s [] output_shape [1, 1]

So is a single element of numbers that are made wider. IREE would have what reads it make them wider, and its compiler
does not end.

What an elementwise op makes of several values is cut from memory where the part is open, and a kernel takes some of
its dims as one.

    %w = linalg.generic ins(%x, %y)                %m = util.optimization_barrier %w
    %s = tensor.extract_slice %w             =>    %s = tensor.extract_slice %m
    %r = tensor.collapse_shape %s                  %r = tensor.collapse_shape %s

IREE would cut `%x` and `%y`, and compute what is merged in one dispatch, which copies one of the two first. It does not
compile that either: so it is with the places of tokens that ONNX's OPT has for each mask.

IREE merges dims itself, too. So what an elementwise op makes of several values is cut from memory where a part is
shorter by an open size, but for the first dim: as in Pegasus-X, which cuts off what it added to come to whole blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import defining_op, indexing_maps, is_elementwise, maker_name, seen_through
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import segments
from opsplice.rewrites.memory.kept_values import memory_of

# When transposes are parts of the ops that read them, and no dispatch is formed yet.
PHASE = "global-optimization"

_MERGING = "tensor.collapse_shape"
_RESHAPES = (_MERGING, "tensor.expand_shape")
_NO_REDUCTIONS = ("linalg.fill", "linalg.yield", "linalg.index")
_INSERTION = "tensor.insert_slice"
_SLICE = "tensor.extract_slice"
# Where what is computed ends, and reshapes for kernels follow.
_END = "iree_tensor_ext.compute_barrier.end"
_ONE_INPUT = 2  # with the result
# What they give is read by nobody else.
NEW = ("tensor.empty", "linalg.fill", "arith.constant")

# A mark on the barriers that stand between dispatches until these are formed.
_APART = "opsplice.apart"

# For each dim of a reduction's result, the dims (of a value, or loops of an op) that say where it is read.
_Place = tuple[frozenset[int], ...]
_Places = dict[ir.Value, _Place]


def separate(module: ir.Module) -> None:
    """Change a module at `PHASE` such that no dispatch computes what it reads in part, or a reduction that it reads at
    two places, and none reads what it writes into."""
    found: dict[ir.Value, _Places] = {}
    spaced = set[ir.Value]()
    for op in _tensor_ops(module.operation):
        if op.name in _RESHAPES:
            if op.name == _MERGING and maker_name(op.operands[0]) == _END:
                _cut_from_memory(op)
            elif _outgrows_slice(op):
                put_into_memory(op, [0])
            found[op.results[0]] = _moved(found.get(op.operands[0], {}), _regrouped(op))
            spaced.update(op.results if op.operands[0] in spaced else ())
        elif op.name == _SLICE:
            maker = defining_op(op.operands[0])
            if _is_widened(op) or (maker is not None and _joins(maker) and _cuts_inside(op, maker)):
                put_into_memory(op, [0])
        elif op.name == _INSERTION:
            if _is_computed_from(op.operands[0], seen_through(op.operands[1])) or _gains_dims(op):
                put_into_memory(op, [0])
        elif is_elementwise(op):
            found |= _read(op, found, spaced)
        else:
            _part_from_inputs(op)
            found |= {value: {value: _whole(value)} for value in op.results if isinstance(value.type, ir.ShapedType)}


def join(module: ir.Module) -> None:
    """Take the barriers out where dispatches are formed: what overwrites a value is to be seen to do so.

    One stays where a dispatch is given both sides of it: IREE would make one of them.
    """
    with module.context:
        for op in ops_in(module.operation, "util.optimization_barrier"):
            if _APART in op.attributes and not any(_takes_both(use.owner, op.results[0]) for use in op.results[0].uses):
                emit.replace(op, op.operands[0])


def _takes_both(user: ir.Operation, apart: ir.Value) -> bool:
    """Whether an op is given a value and another one in the same memory."""
    others = (each for each in user.operands if each != apart and isinstance(each.type, ir.ShapedType))
    return any(memory_of(each) == memory_of(apart) for each in others)


def _tensor_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops that reduce, map or reshape tensors, in program order."""
    for region in op.regions:
        for block in region.blocks:
            for each in list(block.operations):
                inner = each.operation
                if inner.name in (*_RESHAPES, _SLICE, _INSERTION) or _computes(inner):
                    yield inner
                else:
                    yield from _tensor_ops(inner)


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith(("linalg.", "iree_linalg_ext.")) and op.name not in _NO_REDUCTIONS


def _read(op: ir.Operation, found: dict[ir.Value, _Places], spaced: set[ir.Value]) -> dict[ir.Value, _Places]:
    """What the results of an elementwise op are read from, and where. Its crossed operands are put into memory.

    spaced: what is made of elements between which others are skipped; results that are become part of it.
    """
    maps = indexing_maps(op)
    inputs = range(len(maps) - len(op.results))
    reads: dict[ir.Value, dict[_Place, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number in inputs:
        for root, place in _moved(found.get(op.operands[number], {}), _loops(maps[number])).items():
            reads[root][place].append(number)
    crossed = {number for places in reads.values() if len(places) > 1 for each in places.values() for number in each}
    skipping = {number for number in inputs if _skips(maps[number], op.operands[number])}
    crossed |= {number for number in skipping if _is_made(op.operands[number])}
    if skipping or not spaced.isdisjoint(op.operands):
        crossed |= {number for places in reads.values() for each in places.values() for number in each}
        spaced.update(op.results)
    put_into_memory(op, sorted(crossed))
    places = {root: next(iter(places)) for root, places in reads.items() if len(places) == 1}
    kept = {root: place for root, place in places.items() if not crossed.issuperset(reads[root][place])}
    results = zip(op.results, maps[len(inputs) :], strict=True)
    return {result: _moved(kept, _positions(output)) for result, output in results}


def _skips(read: ir.AffineMap, value: ir.Value) -> bool:
    """Whether elements may be left out between those that are read."""
    sizes = ir.ShapedType(value.type).shape if read.results else []
    return any(size != 1 and not isinstance(at, ir.AffineDimExpr) for at, size in zip(read.results, sizes, strict=True))


def _is_made(value: ir.Value) -> bool:
    """Whether an op computes a value that one dispatch may do with what reads it."""
    op = defining_op(seen_through(value))
    return op is not None and _computes(op)


def _part_from_inputs(op: ir.Operation) -> None:
    """Put what an op writes into into memory where its inputs are computed from the same value."""
    first = len(op.operands) - len(op.results)  # each result has an operand that it is written into
    read, written = list(op.operands)[:first], list(op.operands)[first:]
    for number, value in enumerate(written, first):
        whole = seen_through(value)
        is_read = maker_name(whole) not in NEW and any(_is_computed_from(each, whole) for each in read)
        if is_read or (whole != value and _is_sliced(value) and op.name.startswith("iree_linalg_ext.")):
            put_into_memory(op, [number])


def _is_sliced(value: ir.Value) -> bool:
    """Whether a value is a part of another one."""
    maker = defining_op(value)
    while maker is not None and maker.name in _RESHAPES:
        maker = defining_op(maker.operands[0])
    return maker is not None and maker.name == _SLICE


def _cut_from_memory(merged: ir.Operation) -> None:
    """Put what open parts are cut from into memory, where elementwise ops lie on both sides of a part."""

    def read(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        if op is None or op.name == _SLICE or not is_elementwise(op):
            return []
        return [each for each in op.operands if isinstance(each.type, ir.ShapedType)]

    for value in list(reachable([*merged.operands[0].owner.operands][:1], read)):
        op = defining_op(value)
        maker = defining_op(op.operands[0]) if op is not None and op.name == _SLICE else None
        if op is not None and maker is not None and _joins(maker) and not ir.ShapedType(value.type).has_static_shape:
            put_into_memory(op, [0])


def _joins(op: ir.Operation) -> bool:
    """Whether an op makes its elements of several values."""
    return is_elementwise(op) and len(indexing_maps(op)) > _ONE_INPUT


def _cuts_inside(cut: ir.Operation, maker: ir.Operation) -> bool:
    """Whether a part of what an op makes has another open size than that, in a dim behind the first one."""
    room = defining_op(maker.operands[len(maker.operands) - 1])
    kind, whole = (ir.RankedTensorType(value.type) for value in (cut.results[0], cut.operands[0]))
    if room is None or kind.rank != whole.rank:
        return False
    open_dims = [dim for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
    sizes = zip(open_dims, segments(cut)[2], strict=True)
    return any(dim and size not in list(room.operands) for dim, size in sizes)


def _is_widened(cut: ir.Operation) -> bool:
    """Whether a single element is cut from numbers that are made wider."""
    maker = defining_op(seen_through(cut.operands[0]))
    if ir.RankedTensorType(cut.results[0].type).rank or maker is None or not is_elementwise(maker):
        return False
    kinds = [value.type.element_type for value in maker.operands if isinstance(value.type, ir.RankedTensorType)]
    widths = [kind.width for kind in kinds if isinstance(kind, ir.IntegerType | ir.FloatType)]
    return len(widths) == len(kinds) and min(widths) < widths[-1]


def _outgrows_slice(reshape: ir.Operation) -> bool:
    """Whether a single element of a tensor becomes a tensor of more dims."""
    maker = defining_op(reshape.operands[0])
    if maker is None or maker.name != _SLICE:
        return False
    whole, element, made = (
        ir.RankedTensorType(each.type).rank for each in (maker.operands[0], reshape.operands[0], reshape.results[0])
    )
    return bool(element == 0 and made > whole)


def _gains_dims(insertion: ir.Operation) -> bool:
    """Whether what is written into a tensor of more dims is a tensor with something written into a part of it."""
    part, whole = (ir.RankedTensorType(operand.type).rank for operand in list(insertion.operands)[:2])
    return part < whole and maker_name(seen_through(insertion.operands[0])) in (_INSERTION, "tensor.pad")


def _is_computed_from(value: ir.Value, whole: ir.Value) -> bool:
    """Whether views and elementwise ops alone lie between two values: one dispatch may do it all."""

    def read(each: ir.Value) -> list[ir.Value]:
        op = defining_op(each)
        if op is None or not _computes(op) or not is_elementwise(op):
            return []
        return [seen_through(operand) for inner in ops_in(op) for operand in inner.operands]

    return whole in reachable([seen_through(value)], read)


def put_into_memory(op: ir.Operation, numbers: Sequence[int]) -> None:
    """Have an op read some of its operands, by their numbers, from memory, so that no dispatch computes both."""
    held: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(op), op.location:
        for number in numbers:
            value = op.operands[number]
            if value not in held:
                held[value] = emit.held(value, **{_APART: ir.UnitAttr.get()})
            op.operands[number] = held[value]


def _whole(value: ir.Value) -> _Place:
    return tuple(frozenset([dim]) for dim in range(ir.ShapedType(value.type).rank))


def _moved(places: _Places, onto: Sequence[frozenset[int]]) -> _Places:
    """Places by dims of a value as places by what stands for each of these. Many reductions are read at one place."""
    moved = {
        place: tuple(frozenset().union(*(onto[d] for d in dims)) for dims in place) for place in set(places.values())
    }
    return {root: moved[place] for root, place in places.items()}


def _loops(read: ir.AffineMap) -> list[frozenset[int]]:
    return [frozenset([expr.position] if isinstance(expr, ir.AffineDimExpr) else ()) for expr in read.results]


def _positions(output: ir.AffineMap) -> list[frozenset[int]]:
    """For each loop, the dims of the result that it stands for."""
    at = _loops(output)
    return [frozenset(dim for dim, loops in enumerate(at) if loop in loops) for loop in range(output.n_dims)]


def _regrouped(reshape: ir.Operation) -> list[frozenset[int]]:
    groups = [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(each)] for each in reshape.attributes["reassociation"]]
    if reshape.name == "tensor.expand_shape":
        return [frozenset(group) for group in groups]
    of_dim = {dim: frozenset([number]) for number, group in enumerate(groups) for dim in group}
    # A tensor of one element that becomes a scalar has no groups.
    return [of_dim.get(dim, frozenset()) for dim in range(ir.ShapedType(reshape.operands[0].type).rank)]

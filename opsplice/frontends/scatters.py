"""Scatters of StableHLO that IREE 3.13 does not take, in the form that it takes.

    x.at[i, 1:3].add(y)    a window of 2 rows in dim 1, at one index

        =>  x.at[j, k].add(z)    each row of each window has an index; the dims that have one are the first of x and y

It takes others: those in which no dim that has an index has a window, too, and these dims are the first ones, or one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from iree.compiler import ir

from opsplice.rewrites.ir import emit

_SCATTER = "stablehlo.scatter"
_WIDEST = 32


@dataclass(frozen=True)
class _Form:
    """The dimension numbers of a scatter, of which each is a list of dims."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    input_batching_dims: tuple[int, ...]
    scatter_indices_batching_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int

    @classmethod
    def of(cls, attribute: ir.Attribute) -> _Form:
        found = {name: tuple(map(int, re.findall(r"\d+", dims))) for name, dims in _LIST.findall(str(attribute))}
        (at,) = re.findall(r"index_vector_dim = (\d+)", str(attribute)) or ["0"]
        return cls(index_vector_dim=int(at), **{each.name: found.get(each.name, ()) for each in fields(cls)[:-1]})

    def is_taken(self) -> bool:
        indexed = self.scatter_dims_to_operand_dims
        if not indexed or not set(indexed) <= set(self.inserted_window_dims):
            return False
        return len(indexed) == 1 or indexed == tuple(range(len(indexed)))


_LIST = re.compile(r"(\w+) = \[([\d, ]*)\]")


def part_windows(op: ir.Operation) -> None:
    """Change a scatter that IREE does not take. One of open sizes stays."""
    form = _Form.of(op.attributes["scatter_dimension_numbers"])
    if not form.is_taken() and all(ir.ShapedType(each.type).has_static_shape for each in op.operands):
        _write(op, form)


def _write(op: ir.Operation, form: _Form) -> None:
    count = len(op.results)
    inputs, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    # A number without dims is as good as one in a row of its own.
    is_number = not _sizes(inputs[0])
    inputs = [_reshape(each, [1]) for each in inputs] if is_number else inputs
    sizes, made = _sizes(inputs[0]), _sizes(updates[0])
    alone = {0} if is_number else {*form.inserted_window_dims, *form.input_batching_dims}
    windowed = [dim for dim in range(len(sizes)) if dim not in alone]
    window = dict.fromkeys(alone, 1) | {
        dim: made[at] for dim, at in zip(windowed, form.update_window_dims, strict=True)
    }
    columns = _columns(indices, form)
    whole = ir.RankedTensorType.get([], ir.IntegerType.get_signless(_WIDEST))
    zero = _splat(next((each.type for each in columns.values()), whole), 0, [math.prod(_batch(indices, form))])
    columns |= {dim: zero for dim, size in enumerate(sizes) if dim not in columns and window[dim] < size}
    columns = columns or {0: zero}
    indexed = sorted(columns)
    order = [*indexed, *(dim for dim in range(len(sizes)) if dim not in indexed)]
    places = _places(columns, sizes, window)
    # Windows become indices: their dims come behind those of the indices, and are one with them.
    batch = [dim for dim in range(len(made)) if dim not in form.update_window_dims]
    ways = [*batch, *(form.update_window_dims[windowed.index(dim)] for dim in order if dim in windowed)]
    rest = [sizes[dim] for dim in order[len(indexed) :]]
    spread = [_reshape(_transpose(each, ways), [_sizes(places)[0], *rest]) for each in updates]
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(1, len(rest) + 1))}, "
        f"inserted_window_dims = {list(range(len(indexed)))}, "
        f"scatter_dims_to_operand_dims = {list(range(len(indexed)))}, index_vector_dim = 1>"
    )
    kept = {name: op.attributes[name] for name in op.attributes if name == "unique_indices"}
    turned = [_transpose(each, order) for each in inputs]
    new = emit.op(
        _SCATTER,
        [*turned, places, *spread],
        [each.type for each in turned],
        {"scatter_dimension_numbers": ir.Attribute.parse(numbers)} | kept,
        regions=1,
    )
    op.regions[0].blocks[0].append_to(new.regions[0])
    back = [order.index(dim) for dim in range(len(order))]
    results = zip(op.results, new.results, strict=True)
    emit.replace(op, *(_reshape(_transpose(each, back), _sizes(old)) for old, each in results))


def _batch(indices: ir.Value, form: _Form) -> list[int]:
    return [size for dim, size in enumerate(_sizes(indices)) if dim != form.index_vector_dim]


def _columns(indices: ir.Value, form: _Form) -> dict[int, ir.Value]:
    """The index that each window has in each dim of the input that has one, those of batches among them."""
    kind = ir.RankedTensorType(indices.type).element_type
    assert isinstance(kind, ir.IntegerType)
    if kind.is_unsigned:
        signed = ir.IntegerType.get_signless(max(kind.width, _WIDEST))
        indices = emit.value("stablehlo.convert", [indices], ir.RankedTensorType.get(_sizes(indices), signed))
    batch = _batch(indices, form)
    others = [dim for dim in range(len(_sizes(indices))) if dim != form.index_vector_dim]
    count = math.prod(batch)
    if form.index_vector_dim < len(_sizes(indices)):
        indices = _transpose(indices, [*others, form.index_vector_dim])
    indices = _reshape(indices, [count, len(form.scatter_dims_to_operand_dims)])
    columns = {
        dim: _reshape(_slice(indices, number), [count]) for number, dim in enumerate(form.scatter_dims_to_operand_dims)
    }
    for dim, place in zip(form.input_batching_dims, form.scatter_indices_batching_dims, strict=True):
        columns[dim] = _reshape(_iota(_with_sizes(indices.type, batch), others.index(place)), [count])
    return columns


def _places(columns: Mapping[int, ir.Value], sizes: Sequence[int], window: Mapping[int, int]) -> ir.Value:
    """The indices of all elements of windows in the dims that have one; of windows that lie outside, -1."""
    indexed = sorted(columns)
    (count,) = _sizes(columns[indexed[0]])
    shape = [count, *(window[dim] for dim in indexed)]
    kind = _with_sizes(columns[indexed[0]].type, shape)
    made = []
    inside: ir.Value | None = None
    for number, dim in enumerate(indexed):
        spread = _broadcast(columns[dim], kind)
        made.append(emit.value("stablehlo.add", [spread, _iota(kind, number + 1)], kind))
        if window[dim] > 1:
            is_in = [
                _compare(spread, _splat(kind, bound, shape), direction)
                for bound, direction in ((0, "GE"), (sizes[dim] - window[dim], "LE"))
            ]
            for each in is_in:
                inside = each if inside is None else emit.value("stablehlo.and", [inside, each], each.type)
    if inside is not None:
        outside = _splat(kind, -1, shape)
        made = [emit.value("stablehlo.select", [inside, each, outside], kind) for each in made]
    flat = [_reshape(each, [math.prod(shape), 1]) for each in made]
    whole = _with_sizes(kind, [math.prod(shape), len(flat)])
    return emit.value("stablehlo.concatenate", flat, whole, dimension=_number(1))


# ---- ops -------------------------------------------------------------------------------------------------------------


def _sizes(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _with_sizes(kind: ir.Type, sizes: Sequence[int]) -> ir.Type:
    return ir.RankedTensorType.get(list(sizes), ir.RankedTensorType(kind).element_type)


def _number(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


def _transpose(value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == list(range(len(order))):
        return value
    kind = _with_sizes(value.type, [_sizes(value)[dim] for dim in order])
    return emit.value("stablehlo.transpose", [value], kind, permutation=ir.DenseI64ArrayAttr.get(list(order)))


def _reshape(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    if _sizes(value) == list(sizes):
        return value
    return emit.value("stablehlo.reshape", [value], _with_sizes(value.type, sizes))


def _slice(value: ir.Value, column: int) -> ir.Value:
    rows = _sizes(value)[0]
    bounds = {"start_indices": [0, column], "limit_indices": [rows, column + 1], "strides": [1, 1]}
    arrays = {name: ir.DenseI64ArrayAttr.get(numbers) for name, numbers in bounds.items()}
    return emit.value("stablehlo.slice", [value], _with_sizes(value.type, [rows, 1]), **arrays)


def _iota(kind: ir.Type, dim: int) -> ir.Value:
    return emit.value("stablehlo.iota", [], kind, iota_dimension=_number(dim))


def _broadcast(column: ir.Value, kind: ir.Type) -> ir.Value:
    dims = ir.DenseI64ArrayAttr.get([0])
    return emit.value("stablehlo.broadcast_in_dim", [column], kind, broadcast_dimensions=dims)


def _splat(kind: ir.Type, number: int, sizes: Sequence[int]) -> ir.Value:
    kind = _with_sizes(kind, sizes)
    element = ir.IntegerAttr.get(ir.RankedTensorType(kind).element_type, number)
    return emit.value("stablehlo.constant", [], kind, value=ir.DenseElementsAttr.get_splat(kind, element))


def _compare(one: ir.Value, other: ir.Value, direction: str) -> ir.Value:
    kind = ir.RankedTensorType.get(_sizes(one), ir.IntegerType.get_signless(1))
    how = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    return emit.value("stablehlo.compare", [one, other], kind, comparison_direction=how)

"""Tensors by their places in memory (`as_strided`), read and written, and results that lie there as eager's do.

IREE's importer takes no open sizes there and writes nothing. The memory of a tensor is its elements in the order of its
strides; each element of the result reads one of them, or is a view of them where it reads all.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import guard_or_true, statically_known_true, sym_or
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Ops whose results PyTorch does not know before they run.
_UNKNOWN = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def as_in_eager(op: OpOverload, body: Callable[..., Any]) -> Callable[..., Any]:
    """The formula of an op, with results whose dims lie in memory in the order in which the op's own do.

    By that PyTorch tells whether `reshape` is a view, which sees what is written later, or a copy. An op that is made
    of others has their order; `torch.export` calls the formula where that is asked for its results.
    """
    if op._can_decompose() or op.is_view or _UNKNOWN.intersection(op.tags):
        return body

    @functools.wraps(body)
    def formula(*args: Any, **options: Any) -> Any:
        found = body(*args, **options)
        if found is NotImplemented:
            return found
        results, form = pytree.tree_flatten(found)
        with disable_proxy_modes_tracing():  # nor are sizes that are compared a part of the graph
            orders = list(map(_other_order, results, pytree.tree_leaves(op(*args, **options))))
        made = (each if order is None else _in_order(each, order) for each, order in zip(results, orders, strict=True))
        return pytree.tree_unflatten(made, form)

    return formula


def _other_order(found: Any, wanted: Any) -> list[int] | None:
    """The order in which the dims of a tensor are to lie, None where they do."""
    if not isinstance(found, Tensor) or found.dim() < 2 or found.is_complex():
        return None
    order = order_in_memory(wanted.shape, wanted.stride())
    return None if order == order_in_memory(found.shape, found.stride()) else order


def order_in_memory(size: Sequence[int], stride: Sequence[int]) -> list[int] | None:
    """The dims of a tensor from the outermost in memory to the innermost; None where it is not known to be dense."""
    left, behind = set(range(len(size))), 1
    order: list[int] = []
    while left:
        inner = [dim for dim in left if statically_known_true(sym_or(size[dim] == 1, stride[dim] == behind))]
        if not inner:
            return None
        left.remove(max(inner))
        order.insert(0, max(inner))
        behind = behind * size[max(inner)]
    return order


def read(tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    memory = _memory(tensor)
    first = _first(tensor, offset)
    if memory is None or _leaves(memory, size, stride, first):
        return NotImplemented
    order = _order(memory, size, stride, first)
    if order is not None:
        return memory.view([size[dim] for dim in order]).permute(_inverse(order))
    return memory[_places(memory, size, stride, first)]


def laid_out(tensor: Tensor, strides: Sequence[int]) -> Tensor:
    """A copy whose dims lie in memory in the order of some strides."""
    return _in_order(tensor, sorted(range(tensor.dim()), key=lambda dim: strides[dim], reverse=True))


def _in_order(tensor: Tensor, order: Sequence[int]) -> Tensor:
    copy = tensor.permute(order).clone(memory_format=torch.contiguous_format)
    return copy.permute(_inverse(order))


def write(
    tensor: Tensor, values: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    memory, own = _memory(tensor), order_in_memory(tensor.shape, tensor.stride())
    first = _first(tensor, offset)
    if memory is None or own is None or _leaves(memory, size, stride, first):
        return NotImplemented
    order = _order(memory, size, stride, first)
    if order is not None:
        written = values.expand(size).permute(order).reshape(-1)
    else:
        places = _places(memory, size, stride, first).reshape(-1)
        written = aten.index_put(memory, [places], values.expand(size).reshape(-1))
    return written.view([tensor.shape[dim] for dim in own]).permute(_inverse(own))


def room(size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    """A tensor without numbers: IREE has one of elements in order alone."""
    order = order_in_memory(size, stride)
    return NotImplemented if order is None else room_in_order(size, order, **options)


def room_like(tensor: Tensor, size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    return room(size, stride, **{"dtype": tensor.dtype, "device": tensor.device, **options})


def room_in_order(size: Sequence[int], order: Sequence[int], **options: Any) -> Tensor:
    kind = {name: options.get(name) for name in ("dtype", "device")}
    return torch.empty([size[dim] for dim in order], **kind).permute(_inverse(order))


def _memory(tensor: Tensor) -> Tensor | None:
    """The elements in the order of the strides; None where others lie between them."""
    for dim, stride in reversed(list(enumerate(tensor.stride()))):
        if _is(stride, 0):
            tensor = tensor.select(dim, 0)
    order = order_in_memory(tensor.shape, tensor.stride())
    return None if order is None else tensor.permute(order).reshape(-1)


def _first(tensor: Tensor, offset: int | None) -> int:
    return 0 if offset is None else offset - tensor.storage_offset()


def _leaves(memory: Tensor, size: Sequence[int], stride: Sequence[int], first: int) -> bool:
    """Whether places are outside of the memory, as those before a slice are."""
    last = first + sum((each - 1) * step for each, step in zip(size, stride, strict=True))
    return not (guard_or_true(first >= 0) and guard_or_true(last < memory.shape[0]))


def _order(memory: Tensor, size: Sequence[int], stride: Sequence[int], first: int) -> list[int] | None:
    """The dims in the order of memory, where their places are those of all the memory, each once."""
    is_whole = _is(first, 0) and _is(math.prod(size) - memory.shape[0], 0)
    return order_in_memory(size, stride) if is_whole else None


def _places(memory: Tensor, size: Sequence[int], stride: Sequence[int], first: int) -> Tensor:
    place = torch.full([1] * len(size), first, dtype=torch.int64, device=memory.device)
    for dim, (each, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(each, device=memory.device) * step
        place = place + along.view([-1 if other == dim else 1 for other in range(len(size))])
    return place


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _is(number: int, wanted: int) -> bool:
    return statically_known_true(number == wanted)

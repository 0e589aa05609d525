"""Ops that PyTorch cannot take apart, in ops that IREE takes. Each has the signature of the op that it is for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm
from torch.utils import _pytree as pytree

from opsplice.torch.decompositions.elementwise import BYTES, is_whole

aten = torch.ops.aten

# ---- shapes ----------------------------------------------------------------------------------------------------------


def kept_where_open(tensor: Tensor, dim: int) -> Tensor:
    """IREE takes an open size for 1. PyTorch has made sure that it is another."""
    return aten.alias(tensor) if tensor.dim() and not isinstance(tensor.shape[dim], int) else NotImplemented


def squeeze(tensor: Tensor, dims: Sequence[int]) -> Tensor:
    for dim in sorted((dim % max(tensor.dim(), 1) for dim in dims), reverse=True):
        tensor = aten.squeeze.dim(tensor, dim)
    return tensor


def view(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """IREE takes -1 for the size itself where it does not see that an open dim is split or stays."""
    others = -math.prod(sizes) if -1 in sizes else 1
    left = math.prod(tensor.shape) // others if not isinstance(others, int) or others else 0
    shape = [left if isinstance(size, int) and size == -1 else size for size in sizes]
    return aten.view(tensor, shape) if len(sizes) > 1 and _fixed(shape) != _fixed(sizes) else NotImplemented


def _fixed(sizes: Sequence[int]) -> list[int | None]:
    """None for open sizes. PyTorch has come to know some that were open when a trace began."""
    return [size.node.maybe_as_int() if isinstance(size, torch.SymInt) else size for size in sizes]


def pad(tensor: Tensor, amounts: Sequence[int], value: float = 0) -> Tensor:
    """IREE takes no negative amounts, which cut off, as the gradients of padding do."""
    if all(amount >= 0 for amount in amounts):
        return NotImplemented
    for number, amount in enumerate(amounts):
        if amount < 0:
            dim = tensor.dim() - 1 - number // 2
            tensor = tensor.narrow(dim, 0 if number % 2 else -amount, tensor.shape[dim] + amount)
    return aten.constant_pad_nd(tensor, [max(amount, 0) for amount in amounts], value)


def in_order(start: float, end: float, step: float = 1, *, dtype: torch.dtype | None = None, **form: Any) -> Any:
    """IREE crashes on ranges of bytes, as in `torch.eye`, and takes none of one float; of an open size f32 alone."""
    if isinstance(start, float) and 0 < (end - start) / step <= 1:
        return torch.full((1,), start, dtype=dtype or torch.get_default_dtype(), device=form.get("device"))
    is_byte, is_other = dtype in BYTES, dtype in (torch.float64, torch.float16, torch.bfloat16)
    if is_byte or (is_other and isinstance(end, torch.SymInt) and not isinstance(start + step, float)):
        kind = torch.int32 if is_byte else torch.int64
        return torch.arange(start, end, step, dtype=kind, device=form.get("device")).to(dtype)
    return NotImplemented


def with_truth(op: Callable[..., Tensor], place: int) -> Callable[..., Tensor]:
    """An op that puts a number among truths, where it is one itself: IREE keeps its lowest bit."""

    def formula(*args: Any, **form: Any) -> Tensor:
        kind = form.get("dtype") or getattr(args[0], "dtype", None)
        if kind != torch.bool or args[place] in (0, 1):
            return NotImplemented
        return op(*args[:place], True, *args[place + 1 :], **form)

    return formula


def zero_tensor(size: Sequence[int], **options: Any) -> Tensor:
    return torch.zeros(size, dtype=options.get("dtype"), device=options.get("device"))


# ---- random numbers --------------------------------------------------------------------------------------------------


def dropout(tensor: Tensor, chance: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Drawn as eager draws it, so that a seed drops the same."""
    if train is False or chance == 0:
        return tensor.clone(), torch.ones_like(tensor, dtype=torch.bool)
    if chance == 1:
        return torch.zeros_like(tensor), torch.zeros_like(tensor, dtype=torch.bool)
    kept = aten.bernoulli.p(torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device), 1 - chance)
    return tensor * (kept / (1 - chance)), kept.to(torch.bool)


def like(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What draws values in the shape of a tensor, as what draws them in new memory: it then needs no numbers of it."""

    def drawn(tensor: Tensor, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        if options.get("memory_format") not in (None, torch.preserve_format):
            return NotImplemented
        return draw(_room_like(tensor, dtype), *args)

    return drawn


def between(room: Tensor, low: int, high: int) -> Tensor:
    """Whole numbers in a range. PyTorch has an op for it, but writes no code for its name: `aten.random.from`."""
    return aten.random.to(room, high - low) + low


def _room_like(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory in the order in which a tensor's dims lie in its own: in that order eager draws."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(tensor)
    return torch.empty_permuted(tensor.shape, order, dtype=dtype or tensor.dtype, device=tensor.device)


def bernoulli(chances: Tensor, *, generator: Any = None) -> Tensor:
    return (torch.rand(chances.shape, dtype=chances.dtype, device=chances.device) < chances).to(chances.dtype)


# ---- order and places ------------------------------------------------------------------------------------------------


def counted_from_front(scatter: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A scatter along a dim that is counted from the first: IREE ends the process at one counted from the last."""

    def scattered(tensor: Tensor, dim: int, *args: Any, **options: Any) -> Tensor:
        if not tensor.dim():
            return of_scalars(scatter)(tensor, dim, *args, **options)
        if dim >= 0:
            return NotImplemented
        return scatter(tensor, dim + tensor.dim(), *args, **options)

    return scattered


def scatter_small(
    tensor: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Of truths and of bytes: IREE takes both for numbers with a sign, and adds the bits of truths.

    A mean of integers is rounded down: IREE rounds it towards 0.
    """
    if reduce == "mean" and not tensor.is_floating_point():
        total = torch.scatter_reduce(tensor, dim, index, source, "sum", include_self=include_self)
        count = torch.full_like(tensor, int(include_self), dtype=torch.int64)
        count = count.scatter_add(dim, index, torch.ones_like(source, dtype=torch.int64)).clamp(min=1)
        return torch.div(total, count, rounding_mode="floor").to(tensor.dtype)
    if tensor.dtype not in (torch.bool, torch.uint8):
        return NotImplemented
    wide, source = tensor.int(), source.int()
    return aten.scatter_reduce.two(wide, dim, index, source, reduce, include_self=include_self).to(tensor.dtype)


def scatter_added(tensor: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return torch.scatter_reduce(tensor, dim, index, source, "sum") if tensor.dtype == torch.bool else NotImplemented


def scatter_reduced(tensor: Tensor, dim: int, index: Tensor, source: Tensor | float, *, reduce: str) -> Tensor:
    """The older form of `scatter_reduce`."""
    source = source if isinstance(source, Tensor) else tensor.new_full(index.shape, source)
    return torch.scatter_reduce(tensor, dim, index.long(), source, {"add": "sum", "multiply": "prod"}[reduce])


def gather(tensor: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """IREE takes no scalar, whose element is the only one that indices can mean."""
    return NotImplemented if tensor.dim() else tensor.expand(index.shape).clone()


def sort(tensor: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return aten.sort.stable(tensor, stable=False, dim=dim, descending=descending)


def stable_sort(tensor: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    if not tensor.dim():
        return tensor.clone(), torch.zeros_like(tensor, dtype=torch.int64)
    # IREE compares them with signs: true is less than false to it. Of halves there are no kernels.
    wider = {
        torch.bool: torch.int16,
        torch.uint8: torch.int16,
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
    }
    if tensor.dtype not in wider:
        return NotImplemented
    values, indices = aten.sort.stable(tensor.to(wider[tensor.dtype]), **options)
    return values.to(tensor.dtype), indices


def topk(
    tensor: Tensor, count: int, dim: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[Tensor, Tensor]:
    values, indices = sort(tensor, dim, largest)
    return (values.narrow(dim, 0, count), indices.narrow(dim, 0, count)) if tensor.dim() else (values, indices)


def parts(tensor: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """IREE takes known sizes."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    return [tensor.narrow(dim, sum(sizes[:number]), size) for number, size in enumerate(sizes)]


def kth_value(tensor: Tensor, number: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    at = torch.full((1,), number - 1)
    values, indices = (each.index_select(dim, at) for each in sort(tensor, dim))
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def median(tensor: Tensor, dim: int = 0, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """NaN, and the place of the first one, where there is one."""
    if not tensor.dim():
        return sort(tensor)
    found = kth_value(tensor, (tensor.shape[dim] + 1) // 2, dim, keepdim)
    if not tensor.is_floating_point():
        return found
    is_nan, (values, indices) = torch.isnan(tensor), found
    has_nan, first = is_nan.any(dim, keepdim), is_nan.int().argmax(dim, keepdim)
    return torch.where(has_nan, torch.nan, values), torch.where(has_nan, first, indices)


def median_of_all(tensor: Tensor) -> Tensor:
    return median(tensor.flatten())[0]


def median_of_numbers(tensor: Tensor, dim: int = 0, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median of what is not NaN, NaN where all is."""
    if not (tensor.dim() and tensor.is_floating_point()):
        return median(tensor, dim, keepdim)
    values, indices = sort(tensor, dim)
    count = (~torch.isnan(tensor)).sum(dim, keepdim=True)
    return _taken(values, indices, ((count - 1) // 2).clamp(min=0), dim, keepdim)


def median_of_all_numbers(tensor: Tensor) -> Tensor:
    return median_of_numbers(tensor.flatten())[0]


def mode(tensor: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The number that is there most often, the smallest of several, and its last place."""
    if not tensor.dim():
        return sort(tensor)
    values, indices = sort(tensor, dim)
    places, before = _places(values, dim), values.narrow(dim, 0, values.shape[dim] - 1)
    is_new = values.narrow(dim, 1, values.shape[dim] - 1) != before
    is_new = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool), is_new], dim)
    first = torch.cummax(torch.where(is_new, places, 0), dim)[0]
    return _taken(values, indices, (places - first).argmax(dim, keepdim=True), dim, keepdim)


def _taken(values: Tensor, indices: Tensor, at: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    taken = values.gather(dim, at), indices.gather(dim, at)
    return taken if keepdim else (taken[0].squeeze(dim), taken[1].squeeze(dim))


def of_scalars(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op over a dim that also takes a scalar, which IREE does not take there, as what it does with one element."""

    def formula(tensor: Tensor, *args: Any, **options: Any) -> Any:
        if tensor.dim():
            return NotImplemented
        given = [each.reshape(1) if isinstance(each, Tensor) else each for each in (tensor, *args)]
        return pytree.tree_map(lambda result: result.reshape(()), op(*given, **options))

    return formula


def running(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A running sum or product of numbers that are of the type of the result, and of scalars: IREE takes no others."""

    def formula(tensor: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        is_float = tensor.is_floating_point() or tensor.is_complex()
        kind = dtype or (tensor.dtype if is_float else torch.int64)
        if tensor.dim() and dtype is None and kind == tensor.dtype:
            return NotImplemented
        return op(tensor.to(kind), dim).to(kind) if tensor.dim() else tensor.to(kind, copy=True)

    return formula


def of_bytes(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Whether any byte, or all, are not 0: for bytes PyTorch answers with a byte."""

    def formula(tensor: Tensor, *args: Any, **options: Any) -> Tensor:
        return op(tensor != 0, *args, **options).to(tensor.dtype) if tensor.dtype == torch.uint8 else NotImplemented

    return formula


def running_log_sum(tensor: Tensor, dim: int) -> Tensor:
    """IREE sums what the numbers are logarithms of, which overflows."""

    def join(later: Tensors, earlier: Tensors) -> Tensors:
        high, low = torch.maximum(later[0], earlier[0]), torch.minimum(later[0], earlier[0])
        return (torch.where(torch.isinf(high) | torch.isinf(low), high, high + torch.log1p(torch.exp(low - high))),)

    return joined_so_far(join, (tensor,), (-torch.inf,), dim)[0]


def running_extreme(exceeds: Callable[..., Tensor], least: float) -> Callable[..., tuple[Tensor, ...]]:
    """The running maximum or minimum, and its place: the last of equal ones or of NaN, as PyTorch counts."""

    def join(later: Tensors, earlier: Tensors) -> Tensors:
        kept = exceeds(earlier[0], later[0]) | (torch.isnan(earlier[0]) & ~torch.isnan(later[0]))
        return torch.where(kept, earlier[0], later[0]), torch.where(kept, earlier[1], later[1])

    def formula(tensor: Tensor, dim: int) -> tuple[Tensor, ...]:
        if not tensor.dim():
            return tensor.clone(), torch.zeros((), dtype=torch.int64, device=tensor.device)
        if tensor.dtype in (torch.bool, *BYTES):
            values, places = formula(tensor.int(), dim)
            return values.to(tensor.dtype), places
        limits = torch.finfo(tensor.dtype) if tensor.is_floating_point() else torch.iinfo(tensor.dtype)
        none = least if tensor.is_floating_point() else limits.min if least < 0 else limits.max
        return tuple(joined_so_far(join, (tensor, _places(tensor, dim).expand(tensor.shape)), (none, 0), dim))

    return formula


def _places(tensor: Tensor, dim: int) -> Tensor:
    """The places along a dim, which broadcast to the tensor."""
    shape = [-1 if n == dim % tensor.dim() else 1 for n in range(tensor.dim())]
    return torch.arange(tensor.shape[dim], device=tensor.device).view(shape)


Tensors = Sequence[Tensor]


def joined_so_far(
    join: Callable[[Tensors, Tensors], Tensors], tensors: Tensors, neutral: Sequence[float], dim: int
) -> Tensors:
    """For each place along a dim what joins all up to it, in as many steps as its size has bits."""
    size, step = tensors[0].shape[dim] if tensors[0].dim() else 1, 1
    tensors = [each.clone() for each in tensors]  # of one place, too, a result shares no memory with what it is of
    if not isinstance(size, int):
        return _running_in_a_loop(join, tensors, neutral, dim)
    while step < size:
        earlier = [
            torch.cat([torch.full_like(each.narrow(dim, 0, step), none), each.narrow(dim, 0, size - step)], dim)
            for each, none in zip(tensors, neutral, strict=True)
        ]
        tensors, step = join(tensors, earlier), 2 * step
    return tensors


def _running_in_a_loop(
    join: Callable[[Tensors, Tensors], Tensors], tensors: Tensors, neutral: Sequence[float], dim: int
) -> Tensors:
    """The same along a dim of an open size, which says how many steps there are."""

    def is_left(step: Tensor, *tensors: Tensor) -> Tensor:
        return step < tensors[0].shape[dim]

    def stepped(step: Tensor, *tensors: Tensor) -> Tensors:
        places = torch.arange(tensors[0].shape[dim], device=step.device) - step
        is_there = (places >= 0).view([-1 if n == dim % tensors[0].dim() else 1 for n in range(tensors[0].dim())])
        taken = [each.index_select(dim, places.clamp(min=0)) for each in tensors]
        earlier = [torch.where(is_there, each, none) for each, none in zip(taken, neutral, strict=True)]
        return step * 2, *join(tensors, earlier)

    first = torch.ones((), dtype=torch.int64, device=tensors[0].device)
    given = [each.clone(memory_format=torch.contiguous_format) for each in tensors]
    return while_loop_op(is_left, stepped, (first, *given), ())[1:]


# ---- numbers ---------------------------------------------------------------------------------------------------------


def nothing(*_given: Any, **_options: Any) -> None:
    """What says of a tensor what PyTorch has seen, which complex numbers in parts are no more, or raises errors."""


def multiply_add(left: Tensor, right: Tensor, added: Tensor) -> Tensor:
    return left * right + added


def log10(tensor: Tensor) -> Tensor:
    return torch.log(tensor if tensor.is_floating_point() else tensor.float()) * 0.4342944819032518


def histogram(tensor: Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Tensor:
    """How many numbers there are in each of some equal ranges; between the extremes where no range is given."""
    flat = tensor.flatten()
    least, most = (flat.min(), flat.max()) if low == high else (flat.new_full((), low), flat.new_full((), high))
    alike = (least == most).to(flat.dtype)
    least, most = least - alike, most + alike
    place = ((flat - least) / (most - least) * bins).long().clamp(max=bins - 1)
    counted = (flat >= least) & (flat <= most) & (place == torch.arange(bins, device=tensor.device).unsqueeze(1))
    return counted.sum(1).to(tensor.dtype)


def of_tensors(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An op on integers for which IREE wants tensors alone: a number becomes one, of the result's type.

    It is filled, and no constant: torch.export would not find that among the program's.
    """

    def formula(left: Tensor | int, right: Tensor | int) -> Tensor:
        tensor = left if isinstance(left, Tensor) else right
        assert isinstance(tensor, Tensor)
        kind = torch.result_type(left, right)
        whole = (x.to(kind) if isinstance(x, Tensor) else tensor.new_full((), x, dtype=kind) for x in (left, right))
        return op(*whole)

    return formula


def product(left: Tensor | float, right: Tensor | float) -> Tensor:
    """IREE's compiler crashes on a product of a tensor of 8-bit integers and a number."""
    tensor, number = (left, right) if isinstance(left, Tensor) else (right, left)
    assert isinstance(tensor, Tensor)
    if tensor.dtype not in BYTES or not is_whole(number):
        return NotImplemented
    return torch.mul(tensor, tensor.new_full((), number))


def converted(tensor: Tensor, *, dtype: torch.dtype | None = None, **form: Any) -> Tensor:
    """IREE's importer converts floats to bytes with a sign first, which 128 and above do not fit into.

    Numbers that are too large for `float8_e4m3fn` become its largest ones, as PyTorch has it.
    """
    if dtype == torch.float8_e4m3fn:
        most = torch.finfo(dtype).max
        return torch.ops.prims.convert_element_type(torch.clamp(tensor.to(torch.float32), -most, most), dtype)
    if dtype != torch.uint8 or not tensor.is_floating_point():
        return NotImplemented
    return tensor.to(torch.int32, **form).to(dtype)


def total(tensor: Tensor, *dims: Any, dtype: torch.dtype | None = None) -> Tensor:
    """IREE's importer adds bytes without a sign as if they had one."""
    if tensor.dtype != torch.uint8:
        return NotImplemented
    return torch.sum(tensor.to(torch.int64), *dims, dtype=dtype)


def mean_as(tensor: Tensor, *dims: Any, dtype: torch.dtype | None = None) -> Tensor:
    """In the type that is asked for: IREE has no mean of truths."""
    return NotImplemented if dtype in (None, tensor.dtype) else torch.mean(tensor.to(dtype), *dims)


def weight_norm_backward(
    gradient: Tensor, direction: Tensor, size: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    others = [each for each in range(direction.dim()) if each != dim % direction.dim()]
    of_size = (gradient * direction).sum(others, keepdim=True) / norms
    return (gradient - direction * of_size / norms) * size / norms, of_size

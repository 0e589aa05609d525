"""Numbers that integers stand for, as `torch.ops.quantized_decomposed` has them: (integer - zero point) * scale.

IREE's importer takes these ops where there are scales for channels, groups or tokens. Of those with one scale it
refuses some, whose scale is a tensor, and leaves f64 in the others that it cannot compile. Each function here has the
order of arguments of the ops that it is for.

It has no code for the ops that round to such numbers in training either, which are at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor


def choose_range(x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The scale (f64[1]) and the zero point (i64[1]) with which integers reach from the least number to the largest,
    and to 0. The scale is at least eps."""
    least, largest = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = ((largest - least) / float(quant_max - quant_min)).clamp(min=eps)
    return _range(scale, (quant_min - torch.round(least / scale)).clamp(quant_min, quant_max))


def choose_symmetric_range(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The same with the zero point in the middle."""
    scale = (x.abs().amax() / (float(quant_max - quant_min) / 2)).clamp(min=eps)
    return _range(scale, torch.full_like(scale, 128 if dtype == torch.uint8 else 0))


def _range(scale: Tensor, zero_point: Tensor) -> tuple[Tensor, Tensor]:
    return scale.reshape(1).to(torch.float64), zero_point.reshape(1).to(torch.int64)


def quantize(
    x: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    quant_min: int | Tensor,
    quant_max: int | Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Integers for numbers, with one scale; it and the rest may be tensors of one element."""
    whole = torch.round(x.to(torch.float32) * _as(torch.float32, 1.0 / scale))
    if not _is_zero(zero_point):
        whole = whole + _as(torch.float32, zero_point)
    return torch.clamp(whole, _as(torch.float32, quant_min), _as(torch.float32, quant_max)).to(dtype)


def quantize_groups(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
) -> Tensor:
    """Integers for the numbers of rows, with a scale for each group of neighbours. Zero points may be floats."""
    groups = x.reshape(-1, min(group_size, x.shape[-1])) * (1.0 / scales.reshape(-1, 1))
    whole = torch.round(groups + zero_points.reshape(-1, 1).to(groups.dtype))
    return torch.clamp(whole, quant_min, quant_max).to(dtype).reshape(x.shape)


def dequantize(
    x: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    quant_min: int | Tensor,
    quant_max: int | Tensor,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The numbers that integers stand for. The difference from the zero point is exact in i32, as it is in floats."""
    kind = out_dtype or torch.float32
    whole = x.to(torch.int32)
    if not _is_zero(zero_point):
        whole = whole - _as(torch.int32, zero_point)
    return whole.to(kind) * _as(kind, scale)


def _as(kind: torch.dtype, value: float | Tensor) -> float | Tensor:
    return value.reshape(()).to(kind) if isinstance(value, Tensor) else value


def _is_zero(value: int | Tensor) -> bool:
    return not isinstance(value, Tensor) and value == 0


def rounded_to_range(tensor: Tensor, scale: float, zero: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    """What quantized numbers stand for, as training for them has it, and where none was out of range."""
    return _rounded(tensor, tensor.new_full((), scale, dtype=torch.float32), zero, low, high)


def rounded_to_ranges(
    tensor: Tensor, scales: Tensor, zeros: Tensor, dim: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """The same with a scale for each place of a dim."""
    shape = [-1 if each == dim else 1 for each in range(tensor.dim())]
    return _rounded(tensor, scales.view(shape), zeros.view(shape), low, high)


def rounded_if_enabled(
    tensor: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """The same where a flag says so."""
    result, inside = _rounded(tensor, scale, zero, low, high)
    return torch.where(enabled != 0, result, tensor), inside | (enabled == 0)


def _rounded(tensor: Tensor, scale: Tensor, zero: Tensor | int, low: int, high: int) -> tuple[Tensor, Tensor]:
    number = torch.round(tensor * torch.reciprocal(scale)) + zero
    result = (torch.clamp(number, low, high) - zero) * scale
    return result.to(tensor.dtype), (number >= low) & (number <= high)

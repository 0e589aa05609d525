"""Ops on complex numbers by their real and imaginary parts, where IREE takes no complex ones.

Each function has the signature of the op that it is for, and takes no part in what has no complex numbers.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch

from opsplice.rewrites.numbers import complex_functions
from opsplice.torch.decompositions import formulas
from opsplice.torch.decompositions.elementwise import hypotenuse

aten = torch.ops.aten

Formula = Callable[..., torch.Tensor]
# What is real, and what is imaginary.
Parts = tuple[torch.Tensor, torch.Tensor]


def conjugate(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):  # what PyTorch's gradients of products with numbers make
        return torch.full((), complex(tensor).conjugate(), dtype=torch.complex128)
    if tensor.is_conj():  # an input, which is written out in the graph: its parts would be conjugates again
        return NotImplemented
    return torch.complex(tensor.real, -tensor.imag) if tensor.is_complex() else tensor.clone()


def magnitude(tensor: torch.Tensor) -> torch.Tensor:
    return hypotenuse(tensor.real, tensor.imag) if tensor.is_complex() else NotImplemented


def angle(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return torch.atan2(tensor.imag, tensor.real)
    wide = tensor if tensor.is_floating_point() else tensor.float()
    return torch.where(torch.isnan(wide), wide, torch.where(wide < 0, math.pi, 0.0).to(wide.dtype))


def of_size_and_angle(size: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


def placed(op: Formula, *values: int) -> Formula:
    """What moves numbers, or writes them into a tensor, by what it does with parts of the arguments at some places."""

    def formula(*args: Any, **options: Any) -> torch.Tensor:
        if not any(_is_complex(args[place]) for place in values if place < len(args)):
            return NotImplemented
        real, imaginary = (
            [part(arg) if place in values else arg for place, arg in enumerate(args)] for part in (_real, _imaginary)
        )
        return torch.complex(op(*real, **options), op(*imaginary, **options))

    return formula


def of_truths(op: Formula) -> Formula:
    """What asks of numbers whether they are 0."""

    def formula(*args: Any, **options: Any) -> torch.Tensor:
        if not any(map(_is_complex, args)):
            return NotImplemented
        return op(*(torch.ne(arg, 0) if _is_complex(arg) else arg for arg in args), **options)

    return formula


def copied(tensor: torch.Tensor, source: torch.Tensor, _later: bool = False) -> torch.Tensor:
    return source.to(tensor.dtype).expand_as(tensor).clone() if tensor.is_complex() else NotImplemented


def filled(size: Any, number: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    kind = dtype or (torch.complex64 if isinstance(number, complex) else torch.float32)
    if not kind.is_complex:
        return NotImplemented
    parts = (complex(number).real, complex(number).imag)
    return torch.complex(*(torch.full(size, part, dtype=kind.to_real()) for part in parts))


def number(value: Any, **options: Any) -> torch.Tensor:
    """IREE takes none of bytes either."""
    is_byte = options.get("dtype") == torch.uint8
    return torch.full((), value, dtype=torch.uint8) if is_byte else filled((), value, **options)


def filled_like(tensor: torch.Tensor, number: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    kind = dtype or tensor.dtype
    return filled(tensor.shape, number, dtype=kind) if kind.is_complex else NotImplemented


def converted(tensor: torch.Tensor, *, dtype: torch.dtype | None = None, **form: Any) -> torch.Tensor:
    """A complex number has a real one, which is its real part, and a truth: whether any part is not 0."""
    if dtype is None or dtype == tensor.dtype or not (dtype.is_complex or tensor.is_complex()):
        return NotImplemented
    if not dtype.is_complex:
        return torch.ne(tensor, 0) if dtype == torch.bool else tensor.real.to(dtype)
    real = (tensor.real if tensor.is_complex() else tensor).to(dtype.to_real())
    return torch.complex(real, tensor.imag.to(real.dtype) if tensor.is_complex() else torch.zeros_like(real))


def product(left: Any, right: Any) -> torch.Tensor:
    """With a complex number, or of a complex tensor and real numbers."""
    if not isinstance(left, torch.Tensor) or (_is_complex(right) and isinstance(right, torch.Tensor)):
        left, right = right, left
    if not (_is_complex(left) or _is_complex(right)):
        return NotImplemented
    if not _is_complex(right):
        return torch.complex(left.real * right, left.imag * right)
    if isinstance(right, torch.Tensor):
        return NotImplemented
    real, imaginary = left.real, left.imag if left.is_complex() else torch.zeros_like(left)
    return torch.complex(real * right.real - imaginary * right.imag, real * right.imag + imaginary * right.real)


def quotient(left: Any, right: Any) -> torch.Tensor:
    if not _is_complex(right):
        return torch.complex(left.real / right, left.imag / right) if _is_complex(left) else NotImplemented
    if not isinstance(right, torch.Tensor):
        return torch.mul(left, 1 / right)
    parts = (part(each) for each in (left, right) for part in (_real, _imaginary))
    return torch.complex(*complex_functions.quotient(torch, *parts))


def linear(op: Formula) -> Formula:
    """A sum, whose parts are the sums of the parts."""

    def formula(*args: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
        if dtype is not None and dtype.is_complex:
            return formula(args[0].to(dtype), *args[1:], **options)
        if not any(map(_is_complex, args)) or not isinstance(args[0], torch.Tensor):
            return NotImplemented
        return torch.complex(op(*map(_real, args), **options), op(*map(_imaginary, args), **options))

    return formula


def power_of_two(tensor: torch.Tensor) -> torch.Tensor:
    return torch.exp(tensor * math.log(2)) if tensor.is_complex() else NotImplemented


def times_power_of_two(tensor: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    return tensor * torch.exp2(power) if _is_complex(tensor) or _is_complex(power) else NotImplemented


def self_gated(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * torch.sigmoid(tensor) if tensor.is_complex() else NotImplemented


def of_size(tensor: torch.Tensor, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """A norm, which is that of the sizes."""
    if not tensor.is_complex():
        return NotImplemented
    return torch.linalg.vector_norm(tensor.abs(), *args, dtype=dtype and dtype.to_real(), **options)


def variance(tensor: torch.Tensor, dim: Any = None, **options: Any) -> torch.Tensor:
    if not tensor.is_complex():
        return NotImplemented
    return torch.var(tensor.real, dim, **options) + torch.var(tensor.imag, dim, **options)


def deviation(tensor: torch.Tensor, dim: Any = None, **options: Any) -> torch.Tensor:
    return torch.sqrt(variance(tensor, dim, **options)) if tensor.is_complex() else NotImplemented


def variance_and_mean(tensor: torch.Tensor, dim: Any = None, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not tensor.is_complex():
        return NotImplemented
    return variance(tensor, dim, **options), tensor.mean(dim, keepdim=options.get("keepdim", False))


def running_sum(tensor: torch.Tensor, dim: int, **options: Any) -> torch.Tensor:
    return function(lambda _on, *parts: tuple(torch.cumsum(part, dim) for part in parts))(tensor)


def product_over(tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False, **options: Any) -> torch.Tensor:
    """By halves: IREE's compiler ends the process on a loop over complex numbers."""
    if not tensor.is_complex():
        return NotImplemented
    tensor, dim = (tensor.flatten(), 0) if dim is None else (tensor, dim)
    while (size := tensor.shape[dim]) > 1:
        paired = tensor.narrow(dim, 0, size // 2) * tensor.narrow(dim, size // 2, size // 2)
        tensor = torch.cat([paired, tensor.narrow(dim, size - size % 2, size % 2)], dim) if size % 2 else paired
    return tensor.clone() if keepdim else tensor.squeeze(dim).clone()


def running(joined: Formula, neutral: tuple[float, float]) -> Formula:
    """For each place along a dim what joins all numbers up to it. neutral: the parts of what changes no number."""

    def join(later: formulas.Tensors, earlier: formulas.Tensors) -> formulas.Tensors:
        found = joined(torch.complex(*later), torch.complex(*earlier))
        return found.real, found.imag

    def formula(tensor: torch.Tensor, dim: int, **options: Any) -> torch.Tensor:
        if not tensor.is_complex():
            return NotImplemented
        return torch.complex(*formulas.joined_so_far(join, (tensor.real, tensor.imag), neutral, dim))

    return formula


def log_of_sum(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """log(e to the left + e to the right), from the one with the larger real part."""
    if not _is_complex(left):
        return NotImplemented
    is_left = left.real >= right.real
    large, small = torch.where(is_left, left, right), torch.where(is_left, right, left)
    found = large + torch.log1p(torch.exp(small - large))
    is_endless = torch.isinf(large.real) & (large == small)
    return torch.where(is_endless, large, found)


def power(base: Any, exponent: Any) -> torch.Tensor:
    """Products for small whole exponents."""
    if not (_is_complex(base) or _is_complex(exponent)):
        return NotImplemented
    if isinstance(exponent, (int, float)) and exponent in range(-_MOST_PRODUCTS, _MOST_PRODUCTS + 1):
        made = torch.ones_like(base)
        for _ in range(abs(int(exponent))):
            made = made * base
        return made if exponent >= 0 else torch.reciprocal(made)
    kind = torch.result_type(base, exponent)
    of_zero = (exponent == 0).to(kind) if isinstance(exponent, torch.Tensor) else float(exponent == 0)
    if not isinstance(base, torch.Tensor):
        return torch.exp(exponent * cmath.log(base)) if base else of_zero
    return torch.where(base == 0, of_zero, torch.exp(exponent * torch.log(base.to(kind))))


# Of exponents, up to which powers are products.
_MOST_PRODUCTS = 8


def equal(left: torch.Tensor, right: Any) -> torch.Tensor:
    if not (_is_complex(left) or _is_complex(right)):
        return NotImplemented
    return (_real(left) == _real(right)) & (_imaginary(left) == _imaginary(right))


def any_part(op: Callable[[torch.Tensor], torch.Tensor]) -> Formula:
    """Whether a question of floats holds for the real or the imaginary part."""

    def formula(tensor: torch.Tensor) -> torch.Tensor:
        return op(tensor.real) | op(tensor.imag) if tensor.is_complex() else NotImplemented

    return formula


def different(left: torch.Tensor, right: Any) -> torch.Tensor:
    return ~torch.eq(left, right) if _is_complex(left) or _is_complex(right) else NotImplemented


# ---- functions -------------------------------------------------------------------------------------------------------


def function(parts: Callable[..., Parts]) -> Formula:
    """A function of a complex number by what it makes of its real and its imaginary part, as in `complex_functions`."""

    def formula(tensor: torch.Tensor) -> torch.Tensor:
        return torch.complex(*parts(torch, tensor.real, tensor.imag)) if tensor.is_complex() else NotImplemented

    return formula


def logarithm_to(base: float) -> Callable[..., Parts]:
    def parts(on: Any, real: torch.Tensor, imaginary: torch.Tensor) -> Parts:
        size, turn = complex_functions.logarithm(on, real, imaginary)
        return size / math.log(base), turn / math.log(base)

    return parts


# ---- parts -----------------------------------------------------------------------------------------------------------


def _is_complex(value: Any) -> bool:
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


def _real(arg: Any) -> Any:
    return arg.real if _is_complex(arg) else arg


def _imaginary(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        return arg.imag if arg.is_complex() else torch.zeros_like(arg)
    is_number = isinstance(arg, (int, float, complex)) and not isinstance(arg, bool)
    return arg.imag if is_number else arg


# ---- the ops ---------------------------------------------------------------------------------------------------------

# The ops of which complex numbers are all that IREE lacks. Of the others `table.OWN` has more formulas.
ALONE: dict[Any, Formula] = {
    **{
        op: function(parts)
        for op, parts in {
            aten.acos.default: complex_functions.inverse_cosine,
            aten.acosh.default: complex_functions.inverse_hyperbolic_cosine,
            aten.asin.default: complex_functions.inverse_sine,
            aten.asinh.default: complex_functions.inverse_hyperbolic_sine,
            aten.atan.default: complex_functions.inverse_tangent,
            aten.atanh.default: complex_functions.inverse_hyperbolic_tangent,
            aten.cos.default: complex_functions.cosine,
            aten.cosh.default: complex_functions.hyperbolic_cosine,
            aten.exp.default: complex_functions.exponential,
            aten.expm1.default: complex_functions.exponential_less_one,
            aten.log.default: complex_functions.logarithm,
            aten.log1p.default: complex_functions.logarithm_of_more,
            aten.log2.default: logarithm_to(2),
            aten.rsqrt.default: complex_functions.inverse_root,
            aten.sigmoid.default: complex_functions.logistic,
            aten.sin.default: complex_functions.sine,
            aten.sinh.default: complex_functions.hyperbolic_sine,
            aten.sqrt.default: complex_functions.root,
            aten.tan.default: complex_functions.tangent,
            aten.tanh.default: complex_functions.hyperbolic_tangent,
        }.items()
    },
    aten._conj.default: conjugate,
    aten._conj_physical.default: conjugate,
    aten.conj_physical.default: conjugate,
    aten.add.Scalar: linear(torch.add),
    aten.angle.default: angle,
    aten.copy.default: copied,
    aten.exp2.default: power_of_two,
    aten.isinf.default: any_part(torch.isinf),
    aten.isnan.default: any_part(torch.isnan),
    aten.ldexp.Tensor: times_power_of_two,
    aten.logaddexp.default: log_of_sum,
    aten.ne.Tensor: different,
    aten.polar.default: of_size_and_angle,
    aten.prod.default: product_over,
    aten.prod.dim_int: product_over,
    aten.scalar_tensor.default: number,
    aten.silu.default: self_gated,
    aten.slice_scatter.default: placed(aten.slice_scatter.default, 0, 1),
    aten.std.correction: deviation,
    aten.sub.Scalar: linear(torch.sub),
    aten.var.correction: variance,
    **{
        op.default: of_truths(op.default)
        for op in (aten.logical_and, aten.logical_not, aten.logical_or, aten.logical_xor)
    },
}

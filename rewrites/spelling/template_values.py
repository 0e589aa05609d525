"""Values of a template while it is spelled: tensors, views of tensors, and elementwise ops without a place yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opsplice.rewrites.spelling.dim_bounds import Axis

Size = int | Axis


@dataclass(frozen=True)
class Tensor:
    """A value of the template. A scalar's dims are None."""

    name: str
    element: str
    dims: tuple[Size, ...] | None

    @property
    def type(self) -> str:
        if self.dims is None:
            return self.element
        sizes = [str(d) if isinstance(d, int) else "?" for d in self.dims]
        return f"tensor<{'x'.join([*sizes, self.element])}>"


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor under a view: its axis number i is the result's axis `axes[i]`."""

    tensor: Tensor
    axes: tuple[int, ...]
    dims: tuple[Size, ...]

    @property
    def element(self) -> str:
        return self.tensor.element

    @property
    def plain(self) -> bool:
        return self.axes == tuple(range(len(self.dims)))


@dataclass(frozen=True, eq=False)
class Apply:
    """An elementwise op that has not been given a place yet."""

    op: str
    args: tuple[Lazy, ...]
    attributes: str
    element: str
    dims: tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Number:
    """A constant scalar; element: "" until it meets what it is combined with."""

    value: int | float
    element: str = ""
    dims: tuple[Size, ...] = ()


Lazy = Leaf | Apply | Number


def moved(value: Lazy, axes: tuple[int, ...], dims: tuple[Size, ...]) -> Lazy:
    """A value under a view: its axis i becomes axis `axes[i]` of the result, whose sizes are `dims`."""
    if isinstance(value, Leaf):
        return Leaf(value.tensor, tuple(axes[a] for a in value.axes), dims)
    if isinstance(value, Number):
        return value
    args = tuple(moved(a, axes, dims) if a.dims else a for a in value.args)
    return replace(value, args=args, dims=dims)

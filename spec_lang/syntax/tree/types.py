"""Types of values: dims, element types, tensors and buffers, and what is declared to have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsplice.spec_lang.syntax.tree.spans import Span

if TYPE_CHECKING:
    from opsplice.spec_lang.syntax.tree.dim_expressions import Arithmetic, Literal


@dataclass(frozen=True)
class Dim:
    """One dim of a shape: a symbol `n`, a size `64`, a pack `...m` (any number of dims) or `?` (any size).

    Of a kernel's result it may be arithmetic, `ceildiv(k, 64)`. Exactly one field after `span` is set, or none for `?`.
    """

    span: Span
    symbol: str | None = None
    size: int | None = None
    pack: str | None = None
    sum: Arithmetic | None = None

    @property
    def name(self) -> str | None:
        """The name that the dim binds, if any."""
        return self.symbol or self.pack

    def __str__(self) -> str:
        if self.pack is not None:
            return f"...{self.pack}"
        if self.size is not None:
            return str(self.size)
        if self.sum is not None:
            return self.sum.span.written
        return self.symbol or "?"


@dataclass(frozen=True)
class ScalarType:
    """An element type, `f32`, or a type variable, `T`; as a type it is a scalar's, which has no dims."""

    span: Span
    name: str
    strided = optional = copied = zeroed = scratch = finite = any_layout = False
    lies = ()

    @property
    def dims(self) -> tuple[Dim, ...]:
        return ()

    @property
    def element(self) -> ScalarType:
        return self

    @property
    def buffer(self) -> str:
        """The type as kernels write it."""
        return self.name

    def __str__(self) -> str:
        return self.name


# What may stand behind the type of a buffer.
BUFFER_WORDS = ("strided", "copied", "zeroed", "scratch", "optional", "finite")


@dataclass(frozen=True)
class TensorType:
    """`tensor<m x n x f32>` in a pattern; `f32[m, n]` in a kernel, where it is a buffer.

    A buffer is dense and row-major, or `strided`: then the kernel is told the stride of each dim. lies: the dims of a
    dense one in the order of memory, where that is not their own. One that is `copied` is dense, and the program makes
    a copy where a match has it in another layout. One that is `optional` is a null
    pointer where a match has none. A result that is `zeroed` is full of zeros when the kernel starts, and one that is
    `scratch` is the kernel's own memory, which replaces nothing. One that is
    `finite` is to hold neither infinities nor NaN.
    """

    span: Span
    dims: tuple[Dim, ...]
    element: ScalarType
    strided: bool = False
    optional: bool = False
    copied: bool = False
    zeroed: bool = False
    scratch: bool = False
    finite: bool = False
    lies: tuple[Dim, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Its dims in the order of memory."""
        names = list(map(str, self.dims))
        return tuple(names.index(str(dim)) for dim in self.lies) or tuple(range(len(names)))

    @property
    def in_memory(self) -> tuple[Dim, ...]:
        return tuple(self.dims[at] for at in self.order)

    @property
    def any_layout(self) -> bool:
        """Whether a match may have it in another layout than that of its dims."""
        return self.strided or self.copied or bool(self.lies)

    @property
    def buffer(self) -> str:
        """The type as kernels write it, without its layout."""
        return f"{self.element}[{', '.join(map(str, self.dims))}]"

    def __str__(self) -> str:
        return "tensor<" + " x ".join([*map(str, self.dims), self.element.name]) + ">"


Type = ScalarType | TensorType


@dataclass(frozen=True)
class TypeVariable:
    """`T` or `T in {f32, f16}` in angle brackets; no choices means any element type."""

    span: Span
    name: str
    choices: tuple[ScalarType, ...] = ()


@dataclass(frozen=True)
class OpVariable:
    """`op act` in the angle brackets of a pattern: an op, or a pattern, that is said where the pattern is used."""

    span: Span
    name: str


@dataclass(frozen=True)
class Parameter:
    """default: what a scalar of a pattern is at a match that has none."""

    span: Span
    name: str
    type: Type
    default: Literal | None = None

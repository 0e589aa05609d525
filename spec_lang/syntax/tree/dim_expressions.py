"""Arithmetic on dims, and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opsplice.spec_lang.syntax.tree.spans import Span
from opsplice.spec_lang.syntax.tree.traversal import parts
from opsplice.spec_lang.syntax.tree.types import ScalarType

if TYPE_CHECKING:
    from opsplice.spec_lang.syntax.tree.pattern_expressions import Expr


@dataclass(frozen=True)
class Literal:
    """A number. An int stays an int; `0.5`, `1e-5`, `inf` and `-inf` are floats."""

    span: Span
    value: int | float


@dataclass(frozen=True)
class DimRef:
    span: Span
    name: str


@dataclass(frozen=True)
class Arithmetic:
    """`left op right` with op in + - * / %, or op in ceildiv floordiv min max, written as a function.

    `/` is exact division and only allowed inside `const(...)`; grids and conditions take ceildiv or floordiv.
    """

    span: Span
    op: str
    left: DimExpr
    right: DimExpr


@dataclass(frozen=True)
class Property:
    """A number that is not a dim: the width of a type variable's element type, the dims of a pack, or a stride.

    As in `bits(T)`, `rank(m)` of a pack `...m`, and `stride(q, d)` of a strided buffer `along` a dim.
    """

    span: Span
    kind: str
    name: str
    along: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.name}{self.along and f', {self.along}'})"


DimExpr = Literal | DimRef | Arithmetic | Property


@dataclass(frozen=True)
class Comparison:
    """`left op right` with op in == != < <= > >=."""

    span: Span
    op: str
    left: DimExpr
    right: DimExpr


@dataclass(frozen=True)
class Dynamic:
    """`dynamic(n)`: whether a size is known only when the program runs."""

    span: Span
    size: DimExpr


@dataclass(frozen=True)
class Logical:
    """`a and b`, `a or b`, `not a`, and `may(a)`, which is true unless a is known to be false; op in and or not may."""

    span: Span
    op: str
    operands: tuple[Condition, ...]


# What is asked of the op that makes a match's first result, as `inside("scf.for")`: what the string is, and an example.
OF_THE_ROOT = {
    "inside": ("the full name of an op", "scf.for"),
    "lacks": ("an attribute's name", "lowering_config"),
    "contracts": ("the sizes of dims by their kind", "m 32, n ?"),
}


@dataclass(frozen=True)
class Predicate:
    """What is asked of a value, as `weight(w)`, `only(e)` or `has(x)`, or of the op at the root: see `OF_THE_ROOT`.

    value: the name of a parameter or of a part of the pattern, or what is asked of the root.
    """

    span: Span
    name: str
    value: str


@dataclass(frozen=True)
class Membership:
    """`T in {f32, f16}`: a type variable is one of these."""

    span: Span
    variable: str
    choices: tuple[ScalarType, ...]


@dataclass(frozen=True)
class Is:
    """`x is softmax(_)` or `x is not softmax(_)`: what makes an input, beyond the pattern itself.

    form: a call, or (in brackets) alternatives of calls.
    """

    span: Span
    value: str
    form: Expr
    negated: bool


Condition = Comparison | Dynamic | Logical | Predicate | Membership | Is


def affirmed(conditions: object) -> Iterator[Any]:
    """The parts of conditions, but for those of what is denied."""
    denials = tuple(part for part in parts(conditions) if isinstance(part, Logical) and part.op == "not")
    denied = set(map(id, parts(denials)))
    return (part for part in parts(conditions) if id(part) not in denied)

"""Expressions of patterns, of which a pattern's body is made."""

from __future__ import annotations

from dataclasses import dataclass

from opsplice.spec_lang.syntax.tree.dim_expressions import DimExpr, Literal
from opsplice.spec_lang.syntax.tree.spans import Span
from opsplice.spec_lang.syntax.tree.types import Type


@dataclass(frozen=True)
class Name:
    """A parameter or a name bound earlier in the body."""

    span: Span
    name: str


@dataclass(frozen=True)
class Constant:
    """A constant scalar or splat: a bare number `0.5`, `const(n)`, `const(1 / n)`, or a range `const(0.79..0.80)`.

    `high` is None unless it is a range, whose ends are both included.
    """

    span: Span
    value: DimExpr
    high: DimExpr | None = None


@dataclass(frozen=True)
class Wildcard:
    """`_`: any value, which is not looked at and given no name."""

    span: Span


@dataclass(frozen=True)
class Alternatives:
    """`a | b`: one of these, the first that holds."""

    span: Span
    options: tuple[Expr, ...]


@dataclass(frozen=True)
class Uses:
    """What is asked of a value besides how it is made. kind in only shared accumulated.

    `only(e)`: nothing else uses it. `shared(e)`: something else does. `accumulated(e)`: the op of a contraction or
    reduction may start from anything, where it would have to start from the combiner's neutral value.
    """

    span: Span
    kind: str
    arg: Expr


@dataclass(frozen=True)
class Setting:
    """`e with activation = 1`: e, and where that holds, the scalar is this number."""

    span: Span
    arg: Expr
    name: Name
    value: Literal


@dataclass(frozen=True)
class MlirText:
    """`mlir "..."`: an attribute as MLIR writes it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bound:
    """`?v` among the numbers of an attribute: any integer, which v then is. `?`: any, or one known at run time only."""

    name: str | None

    def __str__(self) -> str:
        return f"?{self.name or ''}"


AttributeValue = str | int | float | bool | tuple[int | float | Bound, ...] | Bound | MlirText


@dataclass(frozen=True)
class Attribute:
    """What is asked of an attribute of an op; just one of the fields after `name` is set, or none for `{name}`.

    value: `name = value`: a string, a number, a bool, a list of numbers, `mlir "..."`, or (`bare`) a word such as an
    enum case.
    choices: `name in {1, 2}`. absent: `!name`.
    """

    span: Span
    name: str
    value: AttributeValue | None = None
    bare: bool = False
    choices: tuple[AttributeValue, ...] = ()
    absent: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """The names that it binds to integers: `name = ?v`, `name = [0, ?v]`."""
        return tuple(item.name for item in self.items if isinstance(item, Bound) and item.name is not None)

    @property
    def items(self) -> tuple[object, ...]:
        """The numbers of a list, or the only value."""
        return self.value if isinstance(self.value, tuple) else (self.value,)


@dataclass(frozen=True)
class Call:
    """`callee(args) {attributes} : type`.

    callee: an elementwise op by its arith or math name (`mulf`, `math.exp`), another pattern's name (`gated<silu>` with
    ops put in), or, when `quoted`,
    any op's full name (`"torch.aten.gelu"`), in which `*` stands for any letters.
    optional: `mulf?(x, s)`, there or only its first operand. rest: `"op"(x, ...)`, any further operands.
    regions: `"op"(x) {...}`, the op may have regions, whatever they hold. body: `"op"(x) mlir { ... }`, what its one
    region holds.
    """

    span: Span
    callee: str
    callee_span: Span
    args: tuple[Expr, ...]
    quoted: bool = False
    attributes: tuple[Attribute, ...] = ()
    type: Type | None = None
    optional: bool = False
    rest: bool = False
    regions: bool = False
    body: Code | None = None


@dataclass(frozen=True)
class Code:
    """`mlir { ... }`: MLIR as it is written between the braces, which are part of the span."""

    span: Span
    text: str


@dataclass(frozen=True)
class Window:
    """`(2*y + d*i)`: a dim that is read at a sum of labels, each times a number or the name of one.

    terms: the factor, 1 where none is written, and the label of each part.
    """

    span: Span
    terms: tuple[tuple[int | str, str], ...]

    def __str__(self) -> str:
        return f"({' + '.join(label if factor == 1 else f'{factor}*{label}' for factor, label in self.terms)})"


@dataclass(frozen=True)
class Subscripts:
    """`mk, kn -> mn`: one tuple of labels per operand, and the result's. A pack keeps its dots: "...m"."""

    span: Span
    operands: tuple[tuple[str | Window, ...], ...]
    result: tuple[str, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(label for labels in self.operands for label in labels if isinstance(label, Window))


@dataclass(frozen=True)
class Contract:
    """`contract[mk, kn -> mn](a, b)`: the sum over the labels that the result lacks of the product of the operands.

    kind in contract take stack. `take[v n, m -> m n](w, i)`: the elements of the first operand where each label that
    the result lacks is what the other operands say, in their order. `stack[h, h -> p h](a, b)`: both, along a new dim.
    """

    span: Span
    subscripts: Subscripts
    args: tuple[Expr, ...]
    type: Type | None = None
    kind: str = "contract"


@dataclass(frozen=True)
class Reduce:
    """`reduce addf[mn -> m](x)`: combine over the labels that the result lacks.

    type: of `reduce argmax[mn -> m](x) : i32`, which tells places and not elements.
    """

    span: Span
    combiner: str
    combiner_span: Span
    subscripts: Subscripts
    arg: Expr
    type: Type | None = None


@dataclass(frozen=True)
class Rearrange:
    """`broadcast[n -> mn](x)` (new labels repeat), `transpose[mn -> nm](x)`, `pack[n k -> (n / 32) k 32](w)`.

    kind in broadcast transpose pack. pieces: the labels that `pack` splits, each with the size of a piece; the pieces
    are the last dims, in this order, the last of each filled up with zeros.
    """

    span: Span
    kind: str
    subscripts: Subscripts
    arg: Expr
    pieces: tuple[tuple[str, int], ...] = ()


Expr = Name | Constant | Wildcard | Alternatives | Setting | Uses | Call | Contract | Reduce | Rearrange


@dataclass(frozen=True)
class Let:
    """`name = expr`, or `a, b = p(x)` for a pattern with several results."""

    span: Span
    names: tuple[str, ...]
    expr: Expr

"""The nodes of pattern graphs: terms of `matchers.terms` over labels, and what only patterns have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from opsplice.matchers.terms.terms import UNIT, Apply, Constant, Index, LoopIndex, Reduce
from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True, eq=False)
class Label:
    """An index of a pattern, each made only once. A pack stands for any number of indices.

    windowed: whether it is one of the places in a window, such as a filter's row. Then it has a dim of its own in every
    tensor, even of size one: that makes a convolution of what would else be a product of matrices.
    """

    id: int
    name: str
    pack: bool = False
    windowed: bool = False


@dataclass(frozen=True)
class Window:
    """A sum of labels, each times a number or the graph's name of one, in the place of a label.

    merged: whether it is labels that are one dim, as a channel of a group is one, and no place of a filter.
    """

    terms: tuple[tuple[int | str, Label], ...]
    merged: bool = False
    pack = False
    windowed = False

    @property
    def name(self) -> str:
        return "(" + " + ".join(label.name for _, label in self.terms) + ")"


def labels_in(label: Label | Window) -> tuple[Label, ...]:
    """The labels of a sum, or the only one."""
    return tuple(each for _, each in label.terms) if isinstance(label, Window) else (label,)


def is_place(label: Label | Window) -> bool:
    """Whether it is where an image is read in windows, such as its rows."""
    return isinstance(label, Window) and not label.merged


@dataclass(frozen=True)
class Input:
    """The element of a parameter at some labels; a scalar parameter has none."""

    name: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Number:
    """A constant, or a range of constants with `high`."""

    low: tree.DimExpr
    high: tree.DimExpr | None = None


@dataclass(frozen=True, eq=False)
class Whole:
    """The element at `labels` of result `number` of the `count` that an op makes of whole tensors.

    op: its full name, in which `*` stands for any letters. rest: it may have further operands. regions: and regions.
    body: what the op has to hold in its one region. scalars: what integers of its attributes are besides, by name.
    element: the element type or type variable that the pattern writes for it, or "".
    """

    op: str
    operands: tuple[Result, ...]
    attributes: tuple[tree.Attribute, ...]
    labels: tuple[Label, ...]
    number: int = 0
    count: int = 1
    element: str = ""
    rest: bool = False
    regions: bool = False
    body: tree.Code | None = None
    scalars: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True, eq=False)
class Product(Apply["Node"]):
    """What a contraction of two values multiplies, where they are read at other labels.

    Where these labels are of size one, both may be one element of a program: a sum of squares, as in a norm over an
    only row, is not a contraction of two values.
    """


@dataclass(frozen=True)
class Place:
    """An index as a number: the place along a label's dim."""

    label: Label


@dataclass(frozen=True)
class Anything:
    """Any element at all."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several nodes, the first that holds: the same one for all that have the same number."""

    options: tuple[Node, ...]
    number: int


@dataclass(frozen=True, eq=False)
class Setting:
    """A node with which a scalar, `target`, is a number."""

    node: Node
    target: Node
    value: Constant


@dataclass(frozen=True, eq=False)
class Named:
    """A node that a condition asks about by name."""

    name: str
    node: Node


@dataclass(frozen=True)
class Result:
    """A node together with the labels of the tensor that it is the element of: one pack where the rank is unknown.

    element: the type variable that the tensor's element type is one for, "" where the ops that make it say it.
    """

    node: Node
    labels: tuple[Label, ...]
    element: str = ""


@dataclass(frozen=True, eq=False)
class Accumulated:
    """A reduction that may start from anything."""

    node: Reduce[Node, Label]


_Own: TypeAlias = Input | Number | Whole | Place | Anything | Choice | Setting | Named | Accumulated
Node: TypeAlias = _Own | Apply["Node"] | Reduce["Node", Label] | LoopIndex[Label]


@dataclass(frozen=True, eq=False)
class Asked:
    """A condition on the node of a `Named`: kind in weight only shared."""

    span: tree.Span
    kind: str
    name: str


@dataclass(frozen=True, eq=False)
class Form:
    """The condition that the value of a `Named` is made, or is not, as `form` says.

    conditions: those of the patterns that the form uses.
    """

    span: tree.Span
    name: str
    form: Result
    negated: bool
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, eq=False)
class Within:
    """A condition of a pattern that only an alternative uses: it asks nothing where the `Named` of that was not met."""

    name: str
    condition: Condition


# What a pattern asks besides: what the spec writes, and where that asks about nodes, what the graph has for it.
Condition = tree.Condition | Asked | Form | Within
# What a search can fail at: a node, or a condition of the pattern.
Wanted = Node | Condition


@dataclass(frozen=True, eq=False)
class Tie:
    """What a written type says: the sizes of `labels` are `size`, a dim's or a pack's name, or a number."""

    labels: tuple[Label, ...]
    size: str | int
    pack: bool
    node: Node


@dataclass(frozen=True, eq=False)
class Graph:
    """A pattern, compiled.

    conditions: the pattern's own and those of the patterns that it uses. variables: the choices of each type variable,
    none for any type. Names that belong to a used pattern have dots in them: `softmax.0.n`.
    rearranged: whether the first result is a transpose or a broadcast of what an op makes, so a view in a program.
    factors: the names of the numbers that labels are multiplied with in windows.
    through: what is looked through, of the pattern and those that it uses.
    spans: where in the spec each node was written, by the node's id. size: how many nodes there are besides inputs.
    strided: the inputs that may lie in memory in any way, because the kernels that take them are told strides;
    reordered: whether so may the only result, so that its dims come in any order.
    """

    pattern: tree.Pattern
    results: tuple[Result, ...]
    ties: tuple[Tie, ...]
    conditions: tuple[Condition, ...]
    variables: Mapping[str, tuple[str, ...]]
    rearranged: bool
    factors: tuple[str, ...]
    through: frozenset[str]
    spans: Mapping[int, tree.Span]
    size: int
    strided: frozenset[str] = frozenset()
    reordered: bool = False

    @property
    def may_lack_dims(self) -> bool:
        """Whether a program may lack dims of the pattern, which are of size one then."""
        return "ones" in self.through

    def lacked(self, labels: Sequence[Label], indices: Sequence[object]) -> int:
        """How many of the dims of labels a program may lack, and lacks where it has these indices."""
        return max(0, len(labels) - len(indices)) if self.may_lack_dims else 0

    def with_ones(self, labels: Sequence[Label], indices: tuple[Index, ...]) -> tuple[Index, ...]:
        """Indices, and behind them those of the dims of labels that a program may lack, and lacks."""
        return (*indices, *[UNIT] * self.lacked(labels, indices))

"""Why a path of a search ended, as values, and who is told. Their words stand in `matchers.explain.failure_words`."""

# Many reasons are of one kind, and are numbered to tell them apart.
# ruff: noqa: PIE796

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import Wanted
from opsplice.matchers.terms.terms import Term


class Kind(StrEnum):
    """What kept a pattern from matching. The values are part of the JSON that `opsplice explain` prints."""

    OP = "op"  # another op, or none
    OPERANDS = "operands"  # another number of operands
    RESULT = "result"  # another result of an op that has several
    ATTRIBUTE = "attribute"
    CONSTANT = "constant"  # another number, or none
    TYPE = "element type"
    RANK = "rank"
    SIZE = "size"  # another size than the number that the pattern writes
    SAME_SIZE = "same size"  # one dim of the pattern would have two sizes
    DIMS = "dims"  # a dim in another place
    REDUCTION = "reduction"  # other dims are reduced, or the same reduction done twice
    START = "start"  # a reduction starts from another value than the neutral one
    SAME_VALUE = "same value"  # one name of the pattern would be two values
    NO_VALUE = "no value"  # no tensor or scalar of the program holds what an input asks for
    REGION = "region"
    EFFECTS = "effects"
    USE = "use"  # it is used elsewhere, or is not
    CONDITION = "condition"
    ORDER = "order"  # an input is made from a result
    VIEW = "view"  # the op only rearranges what another op makes
    STEPS = "steps"  # the search was given up
    OTHER = "other"


class Why(Enum):
    """What was wanted and not found. Behind each its kind; the comment says what `Failure.operands` are."""

    kind: Kind

    def __new__(cls, kind: Kind) -> Why:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.kind = kind
        return member

    OP = Kind.OP  # the term that is there
    INSIDE_FUSED = Kind.NO_VALUE
    NO_SCALAR = Kind.NO_VALUE  # the term that is there
    SCALAR_FOR_TENSOR = Kind.NO_VALUE  # its type
    NO_TENSOR = Kind.NO_VALUE  # the type of the value
    NO_RESULT_NEAR = Kind.NO_VALUE  # the number of the result, the terms of those beside result 1
    NO_STRIDES = Kind.DIMS
    OTHER_PLACES = Kind.DIMS
    SIZE = Kind.SIZE  # the size that is written, the one that is there
    ATTRIBUTE = Kind.ATTRIBUTE  # its name, the value that is written, the one that is there or None
    NAMED_ATTRIBUTE = Kind.ATTRIBUTE  # what is written, the attribute that is there or None
    INTEGER = Kind.ATTRIBUTE  # the attribute's name, the number that is bound, the one that is there
    RESULT = Kind.RESULT  # the number of the result, and how many there are
    OPERANDS = Kind.OPERANDS  # how many there are
    REGION = Kind.REGION
    BODY = Kind.REGION  # the op, and the code that its region should be
    EFFECTS = Kind.EFFECTS
    TWICE = Kind.OTHER
    START = Kind.START  # the number that the reduction starts from, None where it is not a number
    REDUCED_DIMS = Kind.REDUCTION  # over how many dims the program reduces
    REDUCED_AGAIN = Kind.REDUCTION
    REDUCED_MORE = Kind.REDUCTION
    ALTERNATIVE = Kind.OTHER
    SAME_VALUE = Kind.SAME_VALUE
    TYPE = Kind.TYPE  # the type or the types that are wanted, the one that is there
    RANK = Kind.RANK  # the labels, the rank that is there
    DIM = Kind.DIMS  # the label
    TURNED = Kind.DIMS  # the labels of the result in the pattern's order, and in the program's
    REDUCED_DIM = Kind.DIMS  # the label, whether a dim of size one is there
    WINDOW = Kind.OTHER  # the window
    STEP = Kind.OTHER  # the factor that is written, the one that is there
    SAME_SIZE = Kind.SAME_SIZE  # the dim, its size so far, the other size
    CONSTANT = Kind.CONSTANT  # the term that is there
    RUN_TIME_CONSTANT = Kind.CONSTANT  # the number that is there, where the one that is wanted is not known
    CONDITION = Kind.CONDITION  # what there is, as the condition asks of it
    USE = Kind.USE  # the same
    ORDER = Kind.ORDER
    VIEW = Kind.VIEW
    STEPS = Kind.STEPS


@dataclass(frozen=True)
class Failure:
    """Where a path ended. held: how many ops of the pattern held on it, and how much was bound; at: a payload op."""

    node: Wanted | None
    why: Why
    operands: tuple[Any, ...]
    held: tuple[int, int]
    at: ir.Operation | None

    @property
    def kind(self) -> Kind:
        return self.why.kind


class Listener:
    """What a search tells while it goes on. This one does not listen."""

    def resolved(self, term: Term, found: Term) -> None:
        """A term was followed through views."""

    def met(self, term: Term) -> None:
        """A term is to be an input."""

    def failed(self, failure: Failure) -> None:
        """A path ended further along than those before it."""


QUIET = Listener()

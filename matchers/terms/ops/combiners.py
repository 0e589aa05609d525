"""What a structured op combines with: the op that a comparison and a choice are, and what it starts from."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op, element_type
from opsplice.matchers.terms import constants
from opsplice.matchers.terms.canonical import canonical
from opsplice.matchers.terms.ops.structured_ops import attributes_of
from opsplice.matchers.terms.terms import Access, Apply, Constant

_MAXIMA = frozenset({"arith.maximumf"})


def chosen(select: ir.Operation) -> tuple[str, list[ir.Value]]:
    """The op that a comparison of two values and a choice between them are, such as a maximum, and the values."""
    compared = defining_op(select.operands[0])
    if compared is None or compared.name not in ("arith.cmpf", "arith.cmpi"):
        return select.name, []
    sides = {value: Access(value, ()) for value in (*compared.operands, *list(select.operands)[1:])}
    test = Apply(compared.name, tuple(sides[v] for v in compared.operands), attributes_of(compared), "i1")
    kind = element_type(select.results[0])
    made = canonical(
        Apply(select.name, (test, *(sides[v] for v in list(select.operands)[1:])), (), kind), lambda term, **_: term
    )
    found = isinstance(made, Apply) and made.op != select.name and len(sides) == 2
    return (made.op, list(sides)) if found else (select.name, [])


def is_neutral(combiner: str, known: Constant, neutral: int | float) -> bool:
    value = -known.value if known.type == "i1" else known.value  # all ones is -1, and a bool that is true 1
    # Some frontends start a maximum at the lowest finite number of its type: the same for all inputs but -inf.
    return value == neutral or (combiner in _MAXIMA and value == constants.lowest(known.type))

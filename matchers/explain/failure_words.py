"""Failures of a search in words: what was wanted, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from opsplice.common.errors import counted
from opsplice.matchers.ir.op_names import short, user_text
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Asked, Form, Label, Node, Number, Whole
from opsplice.matchers.patterns.walk import heads
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import Sizes
from opsplice.matchers.terms import bodies, constants
from opsplice.matchers.terms.attributes import attribute_text
from opsplice.matchers.terms.ops.index_reductions import POSITION
from opsplice.matchers.terms.terms import Access, Apply, Constant, DimSize, Reduce, Term
from opsplice.spec_lang.checking.contraction_query import written
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree


class Failed(Protocol):
    """What a failure, a stop and a near miss have in common."""

    @property
    def node(self) -> Any: ...
    @property
    def why(self) -> Why: ...
    @property
    def operands(self) -> tuple[Any, ...]: ...


def words(failed: Failed) -> tuple[str, str]:
    """What was wanted, and what was found."""
    return _WORDS[failed.why](failed.node, *failed.operands)


def sentence(failed: Failed) -> str:
    """Both, in a few words."""
    wanted, found = words(failed)
    return f"wanted {wanted}, found {found}"


def term_text(term: Term) -> str:
    """What makes a term."""
    if isinstance(term, Constant):
        return f"the constant {constants.text(term.value, term.type)}"
    if isinstance(term, (Apply, Reduce)):
        return _op_or_reduction(term)
    if isinstance(term, Access):
        op = defining_op(term.value)
        return op.name if op is not None else f"an argument of {term.value.owner.owner.operation.name}"
    return "an index or a size"


def own_name(name: str) -> str:
    """A dim as its own pattern calls it."""
    return name.rpartition(".")[2]


def is_dynamic(size: Any) -> bool:
    """Whether a size, or one of a pack's, is known at run time only."""
    return any(isinstance(s, DimSize) for s in (size if isinstance(size, tuple) else (size,)))


def _size(size: Sizes) -> str:
    if isinstance(size, tuple):
        return " x ".join(map(_size, size)) or "nothing"
    return str(size) if isinstance(size, int) else "a dynamic size"


def _number(node: Number) -> str:
    low = node.low.span.written
    return f"the constant {low if node.high is None else f'{low}..{node.high.span.written}'}"


def op_text(node: Whole | Number | Reduce[Node, Label] | Apply[Node]) -> str:
    if isinstance(node, Number):
        return _number(node)
    return str(node.op) if isinstance(node, Whole) else _op_or_reduction(node)


def _op_or_reduction(each: Reduce[Any, Any] | Apply[Any]) -> str:
    """Of a term or a node; the place that a reduction finds is named by that."""
    if isinstance(each, Apply) and each.op == POSITION and isinstance(each.args[0], Reduce):
        each = each.args[0]
    return f"a reduction by {short(each.combiner)}" if isinstance(each, Reduce) else short(each.op)


def _rank(labels: tuple[Label, ...]) -> str:
    packs = any(label.pack for label in labels)
    return f"rank {len(labels) - 1} or more" if packs else f"rank {len(labels)}"


def _type(_node: Any, wanted: str | tuple[str, ...], found: str) -> tuple[str, str]:
    kinds = f"element type {wanted}" if isinstance(wanted, str) else f"an element type in {{{', '.join(wanted)}}}"
    return kinds, found


def _same_size(_node: Any, name: str, known: Sizes, size: Sizes) -> tuple[str, str]:
    found = "another size that is dynamic" if known == size or is_dynamic(size) else _size(size)
    return f"{own_name(name)} = {_size(known)}", found


def as_written(node: Number, found: Constant) -> str:
    """A program's constant as the spec would write it: of a number that is taken away the pattern has the negative."""
    low = node.low
    is_negative = isinstance(low, tree.Literal) and low.value and low.span.written.startswith("-") != (low.value < 0)
    return constants.text(-found.value if is_negative else found.value, found.type)


def _constant(node: Number, found: Term) -> tuple[str, str]:
    return _number(node), as_written(node, found) if isinstance(found, Constant) else term_text(found)


def _run_time_constant(node: Number, found: Any) -> tuple[str, str]:
    is_open = dim_conditions.numbers_in(node.low)  # else it is too large
    return f"{_number(node)}{', which is dynamic' if is_open else ''}", str(found)


def _named_attribute(_node: Whole, wanted: tree.Attribute, found: Any) -> tuple[str, str]:
    given = "none" if found is None else str(found)
    if wanted.variables:
        what = f"{len(wanted.value)} integers" if isinstance(wanted.value, tuple) else "an integer"
        return f"{what} {wanted.name}", given
    if wanted.absent:
        return f"no {wanted.name}", given
    if wanted.choices:
        return f"{wanted.name} in {{{', '.join(map(attribute_text, wanted.choices))}}}", given
    named = f"an attribute {wanted.name}" if wanted.value is None else f"{wanted.name} = {attribute_text(wanted.value)}"
    return named, given


def _start(node: Reduce[Node, Label], start: Constant | None) -> tuple[str, str]:
    which = "another value" if start is None else constants.text(start.value, start.type)
    return f"{op_text(node)} alone", f"one that starts at {which}"


def _no_result_near(node: Node, number: int, beside: tuple[Term, ...]) -> tuple[str, str]:
    ends = dict.fromkeys(op_text(head) for head in heads(node) if isinstance(head, (Whole, Number, Reduce, Apply)))
    made = f", which ends with {' or '.join(ends)}," if ends else ""
    found = f", but one by {' and '.join(map(term_text, beside))}" if beside else ""
    return f"result {number + 1} of the pattern{made} near result 1", f"no such tensor made from the same inputs{found}"


def _condition(condition: Any, found: Any) -> tuple[str, str]:
    return condition.span.written, _met(condition, found)


def _met(condition: Any, found: Any) -> str:
    """What there is where a condition does not hold."""
    if isinstance(condition, tree.Membership):
        return str(found)
    if isinstance(condition, Asked):
        if condition.kind == "weight":
            return "a value that is computed or given at run time"
        return "no other use of it" if found is None else f"the value is also used by {user_text(found)}"
    if isinstance(condition, tree.Predicate) and condition.name == "contracts":
        return "no contraction" if found is None else written(found)
    if isinstance(condition, Form):
        return "a value inside a fused op" if found is None else term_text(found)
    names = sorted(dim_conditions.numbers_in(condition))
    known = [f"{own_name(n)} = {judge.shown(found[n]) if n in found else 'unknown'}" for n in names]
    return ", ".join(known) or "that it does not hold"


def condition_text(condition: Any, found: str, dims: Any) -> str:
    """What a condition that does not hold meets: "k = 100, not a multiple of 64"."""
    names = dim_conditions.numbers_in(condition) if isinstance(condition, (tree.Comparison, tree.Logical)) else set()
    if any(is_dynamic(dims.get(n)) for n in names):
        which = ", ".join(sorted(n for n in names if is_dynamic(dims.get(n))))
        return f"{found}: {which} is only known at run time"
    if not isinstance(condition, tree.Comparison) or len(names) != 1 or not isinstance(condition.right, tree.Literal):
        return found
    left, op, right = condition.left, condition.op, condition.right.value
    if isinstance(left, tree.DimRef):
        said = {"<=": "more than", "<": "not less than", ">=": "less than", ">": "not more than", "==": "not"}
        return f"{found}, {said[op]} {right}" if op in said else found
    if isinstance(left, tree.Arithmetic) and (left.op, op, right) == ("%", "==", 0):
        return f"{found}, not a multiple of {left.right.span.written}"
    return found


_WORDS: dict[Why, Callable[..., tuple[str, str]]] = {
    Why.OP: lambda node, term: (op_text(node), term_text(term)),
    Why.INSIDE_FUSED: lambda node: (
        f"a tensor for {node.name}",
        "a value inside a fused op, which no tensor holds",
    ),
    Why.NO_SCALAR: lambda node, term: (f"a scalar for {node.name}", term_text(term)),
    Why.SCALAR_FOR_TENSOR: lambda node, kind: (f"a tensor for {node.name}", f"a scalar of type {kind}"),
    Why.NO_TENSOR: lambda _, kind: ("a tensor", f"a value of type {kind}"),
    Why.NO_RESULT_NEAR: _no_result_near,
    Why.NO_STRIDES: lambda node: (
        f"a stride for each dim of {node.name}",
        "an element whose place is not a sum of indices times strides",
    ),
    Why.OTHER_PLACES: lambda node: (
        f"{node.name} to be what it is before",
        "another value, or its dims in another order",
    ),
    Why.SIZE: lambda _, wanted, found: (f"a dim of size {wanted}", _size(found)),
    Why.ATTRIBUTE: lambda _, name, wanted, found: (
        f"{name} = {wanted}",
        f"{name} = {'nothing' if found is None else found}",
    ),
    Why.NAMED_ATTRIBUTE: _named_attribute,
    Why.INTEGER: lambda _, name, known, found: (f"{name} = {known}", str(found)),
    Why.RESULT: lambda node, number, count: (f"result {node.number} of {node.count}", f"result {number} of {count}"),
    Why.OPERANDS: lambda node, count: (f"{len(node.operands)}{' or more' * node.rest} operands", str(count)),
    Why.REGION: lambda node: (f"{node.op} without a region", "a region, which the pattern does not show"),
    Why.BODY: lambda _, op, code: bodies.difference(op, code) or ("another body", "the same"),
    Why.EFFECTS: lambda node: (
        f"{node.op} without side effects, as it is inside the pattern",
        "one that has some",
    ),
    Why.TWICE: lambda _: ("a contraction of two values", "one value twice"),
    Why.START: _start,
    Why.REDUCED_DIMS: lambda node, found: (
        f"a reduction over {counted(len(node.loops), 'dim')}",
        f"one over {counted(found, 'dim')}",
    ),
    Why.ALTERNATIVE: lambda _: ("the same alternative for all its uses", "another one"),
    Why.REDUCED_AGAIN: lambda _: ("one reduction for all its uses", "another"),
    Why.REDUCED_MORE: lambda node: (f"a reduction over {' '.join(label.name for label in node.loops)}", "more dims"),
    Why.SAME_VALUE: lambda node: (f"the same value for {node.name} as before", "another value"),
    Why.TYPE: _type,
    Why.RANK: lambda _, labels, rank: (_rank(labels), f"rank {rank}"),
    Why.DIM: lambda _, label: (f"dim {label.name} here", "another dim or order of dims"),
    Why.TURNED: lambda _, wanted, found: (
        f"the dims of the result as {' '.join(label.name for label in wanted)}",
        " ".join(label.name for label in found) or "other dims",
    ),
    Why.REDUCED_DIM: lambda _, label, is_single: (
        f"the reduced dim {label.name} here",
        "a dim of size 1" if is_single else "another dim",
    ),
    Why.WINDOW: lambda _, window: (f"{window.name} here", "other dims"),
    Why.STEP: lambda _, wanted, found: (f"a stride or dilation of {wanted}", str(found)),
    Why.SAME_SIZE: _same_size,
    Why.CONSTANT: _constant,
    Why.RUN_TIME_CONSTANT: _run_time_constant,
    Why.CONDITION: _condition,
    Why.USE: _condition,
    Why.ORDER: lambda _: ("inputs that need no result", "one made from a result"),
    Why.VIEW: lambda _: ("an op that computes", "one that only passes on or rearranges"),
    Why.STEPS: lambda _: ("a decision", "one too large to decide"),
}

"""Where a value comes from and who else uses it: what conditions such as `weight(w)` and `only(e)` ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.ir.effects import has_effects
from opsplice.matchers.ir.op_names import around, global_of, symbol_of
from opsplice.matchers.ir.tensor_values import rests_on
from opsplice.matchers.search.matches import Binding, Match
from opsplice.matchers.terms import contraction_kinds
from opsplice.matchers.terms.terms import Access, Constant
from opsplice.matchers.terms.views import Users, Views
from opsplice.spec_lang.syntax import tree

_CONSTANTS = frozenset(
    {
        "arith.constant",
        "flow.tensor.constant",
        "stablehlo.constant",
        "tosa.const",
        "torch.vtensor.literal",
        "ml_program.global_load_const",
    }
)
_LOADS = frozenset({"util.global.load", "ml_program.global_load"})
# The dialects whose ops compute the same from the same, and the ops of these that do not.
_COMPUTING = (
    *("arith.", "math.", "linalg.", "tensor.", "flow.tensor.", "stablehlo.", "chlo.", "tosa."),
    *("iree_linalg_ext.dequantize_affine", "iree_linalg_ext.quantize_affine"),
    *("torch_c.from_builtin_tensor", "torch_c.to_builtin_tensor", "torch.constant.", "torch.prim.List"),
    *("torch.aten.cat", "torch.aten.permute", "torch.aten.slice.Tensor", "torch.aten.split_with_sizes"),
    *("torch.aten.stack", "torch.aten.transpose.int", "torch.aten.unsqueeze", "torch.aten.view"),
)
_VARYING = frozenset({"stablehlo.custom_call", "stablehlo.rng", "stablehlo.rng_bit_generator", "tosa.custom"})
# The operators of ONNX that draw numbers.
_DRAWING = frozenset(
    {"onnx.Bernoulli", "onnx.Dropout", "onnx.Multinomial", "onnx.RandomNormal", "onnx.RandomNormalLike"}
    | {"onnx.RandomUniform", "onnx.RandomUniformLike"}
)
# How many values are looked at behind one to tell whether what uses it goes with a match.
_MOST_USERS = 16
# Ops that only ask for a value's size.
_SIZE_OPS = frozenset({"tensor.dim", "tensor.rank", "shape.shape_of"})


def is_weight(views: Views, value: ir.Value) -> bool:
    """Whether a value is a constant, loaded from a global that never changes (a parameter), or made of such alone."""
    return rests_on(value, _sources, views.weights, _taken_inside)


def weights_of(value: ir.Value) -> set[ir.Value] | None:
    """The constants and parameters that a value is computed from; None where it is computed from others, too."""
    found, seen, pending = set[ir.Value](), set[ir.Value](), [value]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        sources = _sources(each)
        inside = None if sources is None else _taken_inside(each)
        if sources is None or inside is None:
            return None
        if each.owner.operation.name in (*_CONSTANTS, *_LOADS):
            found.add(each)
        pending.extend((*sources, *inside))
    return found


def _sources(value: ir.Value) -> Sequence[ir.Value] | None:
    """What an op computes a value from, by its operands: nothing for a constant, None where it may differ from call to
    call."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name in _CONSTANTS or (op.name in _LOADS and not _is_mutable(op)):
        return ()
    if op.name == "torch.operator":
        name = ir.StringAttr(op.attributes["name"]).value
        return list(op.operands) if name.startswith("onnx.") and name not in _DRAWING and not len(op.regions) else None
    return list(op.operands) if op.name.startswith(_COMPUTING) and op.name not in _VARYING else None


def _taken_inside(value: ir.Value) -> Sequence[ir.Value] | None:
    """What the op that makes a value takes besides its operands, None where it has effects. It has sources."""
    op = value.owner.operation
    if op.name in _CONSTANTS or not op.name.startswith(_COMPUTING):
        return ()
    return None if has_effects(op) else list(taken_by(op)) if len(op.regions) else ()


def _is_made_in(value: ir.Value, op: ir.Operation) -> bool:
    owner = value.owner
    return op in around(owner.owner.operation if isinstance(owner, ir.Block) else owner.operation)


def users_of(value: ir.Value) -> Iterator[ir.Operation]:
    """The op of each use of a value, as a rule the last ones first. Asking for a size is no use."""
    return (user for use in value.uses if (user := use.owner.operation).name not in _SIZE_OPS)


def count_of(value: ir.Value) -> int:
    """How often a value is used. Asking for a size is no use."""
    return sum(1 for _ in users_of(value))


def comes_after(op: ir.Operation, root: ir.Operation) -> bool:
    """Whether an op is in the block of another one and behind it."""
    return bool(op.block == root.block and op != root and root.is_before_in_block(op))


def user_outside(
    views: Views,
    value: ir.Value,
    ops: Collection[ir.Operation],
    inputs: Mapping[str, Binding],
    roots: Collection[ir.Value],
) -> ir.Operation | None:
    """An op that uses a value and stays where the ops of a match are replaced, or None. Asking for a size is no use.

    An op that only these ops use goes with them, unless the replacement takes what it makes: the comparison of a
    maximum that is written as a choice, or what `_` stands for. One behind the roots is none of these: all ops of a
    match are before one of its roots.
    """
    views.reads.setdefault(value)
    ends = [root.owner.operation for root in roots]
    taken = {each for bound in inputs.values() for each in (bound.value, *(held for held, _ in bound.places))}
    pending: list[tuple[ir.Value, ir.Operation | None]] = [(value, None)]
    seen = {value}
    while pending:
        each, first = pending.pop()
        views.reads[Users(each)] = None
        for user in users_of(each):
            if all(comes_after(user, end) for end in ends):
                return first or user
        for user in users_of(each):
            if any(holder in ops for holder in around(user)):
                continue
            made = list(user.results)
            stays = not any(map(count_of, made)) or bool(taken.intersection(made)) or has_effects(user)
            if stays or len(seen) > _MOST_USERS:
                return first or user
            views.reads.update(dict.fromkeys(made))
            pending += [(result, first or user) for result in made if result not in seen]
            seen.update(made)
    return None


def read_by(op: ir.Operation) -> Iterator[ir.Value]:
    """The values that an op, or one inside it, takes."""
    yield from op.operands
    for region in op.regions:
        for block in region:
            for each in block:
                yield from read_by(each.operation)


def taken_by(op: ir.Operation) -> Iterator[ir.Value]:
    """The values that an op, or one inside it, takes from outside."""
    return (read for read in read_by(op) if not _is_made_in(read, op))


def is_used_by(value: ir.Value, ops: Collection[ir.Operation]) -> bool:
    return any(use.owner.operation in ops for use in value.uses)


def results_with(inner: ir.Value) -> list[ir.Value]:
    """The results of a structured op that are a scalar of its body, as it is."""
    return [use.owner.operation.parent.operation.results[use.operand_number] for use in inner.uses if _is_yield(use)]


def results_from(inner: ir.Value) -> list[ir.Value]:
    """The results of a structured op that are made from a scalar of its body, by further ops of the body."""
    seen: dict[ir.Operation, None] = {}
    pending = [inner]
    while pending:
        users = [use.owner.operation for use in pending.pop().uses if not _is_yield(use)]
        pending.extend(made for op in users if op not in seen for made in op.results)
        seen.update(dict.fromkeys(users))
    return [result for op in seen for made in op.results for result in results_with(made)]


def _is_yield(use: ir.OpOperand) -> bool:
    return bool(use.owner.operation.name == "linalg.yield")


def is_left_out(match: Match, condition: Any) -> bool:
    """Whether a condition of a rule asks about an input of an alternative that was not taken."""
    if not isinstance(condition, tree.Predicate) or condition.name in ("has", *tree.OF_THE_ROOT):
        return False
    return condition.value not in match.inputs


def judge(views: Views, match: Match, condition: Any) -> bool | None:
    """What a condition of a rule asks of a match, besides its sizes; one that is not left out."""
    if isinstance(condition, tree.Membership):
        return match.types.get(condition.variable, condition.variable) in {c.name for c in condition.choices}
    if not isinstance(condition, tree.Predicate):
        return None
    if condition.name in tree.OF_THE_ROOT:
        return holds_at(match.roots[0].owner.operation, condition)
    if condition.name == "has":
        return condition.value in match.inputs
    bound = match.inputs[condition.value]
    if bound.value is None:
        return condition.name != "shared"  # a number of the program's
    if condition.name == "weight":
        return is_constant(views, bound.value)
    user = user_outside(views, bound.value, match.ops, match.inputs, match.roots)
    return (user is None) == (condition.name == "only")


def is_constant(views: Views, value: ir.Value) -> bool:
    """Whether a value is a weight, a view of one, or computed from weights alone."""
    made = views.resolve(views.whole(value))
    return isinstance(made, Constant) or is_weight(views, made.value if isinstance(made, Access) else value)


def _lies_inside(op: ir.Operation, name: str) -> bool:
    _, *holders = around(op)
    return any(holder.name == name for holder in holders)


# Whether each condition of `tree.OF_THE_ROOT` holds at an op.
HOLDS_AT: Mapping[str, Callable[[ir.Operation, str], bool]] = {
    "inside": _lies_inside,
    "lacks": lambda op, name: name not in op.attributes,
    "contracts": contraction_kinds.holds,
}


def holds_at(op: ir.Operation, condition: tree.Predicate) -> bool:
    return HOLDS_AT[condition.name](op, condition.value)


def _is_mutable(load: ir.Operation) -> bool:
    name = global_of(load)
    *_, top = around(load)
    for op in top.regions[0].blocks[0].operations:
        held = op.operation
        if symbol_of(held) == name:
            return "is_mutable" in held.attributes
    return True

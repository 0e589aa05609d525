"""What takes the place of matches, in program order, whatever it is; and the removal of what is then dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, reduce
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent, Total
from opsplice.matchers.ir.effects import has_effects
from opsplice.matchers.ir.tensor_values import defining_op, element_type, is_builtin, shape_of
from opsplice.matchers.search.matches import Binding, Match, Size, flat
from opsplice.matchers.search.uses import read_by
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.symbols import symbols
from opsplice.rewrites.layouts.dense_copies import dense_copy
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, GivenSize, Output, Scalar, SumSize
from opsplice.spec_lang.dims import dim_conditions


class Placer:
    """Puts new values in the place of matches of one module, which is otherwise unchanged since they were found."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self._symbols = dict.fromkeys(symbols(module), 0)  # each with the number of the last one that was made from it
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._dead: dict[ir.Operation, None] = {}
        self._varying: set[ir.Operation] = set()
        self._constant: set[ir.Operation] = set()

    def place(
        self,
        match: Match,
        make: Callable[[], Sequence[ir.Value]],
        *,
        whole: bool = False,
        outputs: Sequence[Output] = (),
        views: Iterable[ir.Operation] = (),
    ) -> None:
        """Replace a match by the values that `make` builds, one for each root, at its anchor (`anchor_of`).

        outputs: what they replace, where that may be views of the roots. views: ops that may be dead then, too.
        """
        anchor = anchor_of(match, whole=whole)
        replaced = [(o.root, o.sizes) for o in outputs] or list(zip(match.roots, match.root_sizes, strict=True))
        with ir.InsertionPoint(anchor), anchor.location:
            orders = [output.copy for output in outputs] or [None] * len(replaced)
            ordered = [
                new if at is None else dense_copy(new, at, self.amount) for new, at in zip(make(), orders, strict=True)
            ]
            results = zip(ordered, replaced, strict=True)
            made = [self._as_typed(new, root, sizes) for new, (root, sizes) in results]
        for (root, _), new in zip(replaced, made, strict=True):
            # Ops of the match keep the old value: one that lives on for its other uses comes before the replacement.
            root.replace_all_uses_except(new, list(match.ops))
            self._replaced[root] = new
        self._dead.update(dict.fromkeys((*match.ops, *views)))

    def current(self, value: ir.Value) -> ir.Value:
        """A payload value as it is now: what an earlier replacement put in its place, if any. On builtin types."""
        while value in self._replaced:
            value = self._replaced[value]
        return to_builtin(value)

    def bound(self, binding: Binding) -> ir.Value:
        """The value of an input as it is now, and a scalar as wide as the program has it."""
        value = self.current(binding.value)
        return emit.value(binding.widened, [value], bound_type(binding)) if binding.widened else value

    def given(self, argument: Buffer | Scalar) -> ir.Value:
        """What is passed for an argument: its value as it is now, or a dense copy of what lies in it."""
        value = self.current(argument.value)
        layout = argument.copy if isinstance(argument, Buffer) else None
        return value if layout is None else dense_copy(value, layout, self.amount)

    def unfolded(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Operands from which IREE computes nothing when it compiles, as it does what comes from constants alone: on
        this machine, where a kernel may be unable to run.
        """
        first, rest = list(operands[:1]), operands[1:]
        if first and not any(map(self._varies, operands)):
            first = [emit.value("util.optimization_barrier", first, first[0].type)]
        return [*first, *rest]

    def _varies(self, value: ir.Value) -> bool:
        """Whether a value is made from an argument of its function or of a loop, and not from constants alone."""
        first = defining_op(value)
        seen: set[ir.Operation] = set()
        pending = [value]
        while pending:
            maker = defining_op(pending.pop())
            if maker is None or maker in self._varying or maker.name == "flow.dispatch":
                if first is not None:
                    self._varying.add(first)
                return True
            if maker not in seen and maker not in self._constant:
                seen.add(maker)
                pending.extend(maker.operands)
        self._constant.update(seen)
        return False

    def size(self, size: Size | tuple[Size, ...]) -> int | ir.Value:
        """A dim as a number or, when some of it is dynamic, as a value of type index. A pack is the product."""
        parts = size if isinstance(size, tuple) else (size,)
        known, values = 1, []
        for part in parts:
            if isinstance(part, int):
                known *= part
            else:
                values.append(self.axis(part))
        if not values:
            return known
        if known != 1:
            values.append(emit.index(known))
        return reduce(emit.times, values)

    def amount(self, amount: Extent) -> ir.Value:
        """An offset, a stride or a size as a value of type index."""
        factors = [self._factor(atom) for atom, power in amount.atoms for _ in range(power)]
        return reduce(emit.times, factors if factors and amount.factor == 1 else [emit.index(amount.factor), *factors])

    def _factor(self, atom: Any) -> ir.Value:
        index = ir.IndexType.get()
        if isinstance(atom, Total):
            return reduce(emit.plus, map(self.amount, atom.terms))
        size = self.axis(atom) if isinstance(atom, DimSize) else self.current(atom)
        return size if size.type == index else emit.value("arith.index_cast", [size], index)

    def axes(self, sizes: tuple[Size, ...]) -> list[ir.Value]:
        """The dynamic ones of some sizes."""
        return [self.axis(s) for s in sizes if isinstance(s, DimSize)]

    def axis(self, size: DimSize) -> ir.Value:
        if isinstance(size, SumSize):
            return self._sum(size)
        if isinstance(size, GivenSize):
            return size.value
        value: Any = size.value
        return emit.value("tensor.dim", [self.current(value), emit.index(size.axis)], ir.IndexType.get())

    def _sum(self, size: SumSize) -> ir.Value:
        sizes = {name: self.size(of) for name, of in size.dims if name in dim_conditions.names_in(size.sum)}
        values = {name: emit.size(known) for name, known in sizes.items()}
        made = workgroups.arithmetic(size.sum, values)
        if size.wanted is not None:
            wanted = self.axis(size.wanted)
            message = f"kernel {size.kernel} makes {size.sum.span.written} elements along a dim, and there are others"
            emit.op("cf.assert", [emit.compared("==", made, wanted)], attributes={"msg": emit.text(message)})
            return wanted
        return emit.value("arith.maxsi", [made, emit.index(0)], ir.IndexType.get())

    def fitted(self, value: ir.Value, kind: ir.Type, sizes: tuple[Size, ...]) -> ir.Value:
        """A tensor as one of another type: sizes more or less known, or other dims for the same elements.

        sizes: those of the wanted type, axis by axis.
        """
        if value.type == kind:
            return value
        if not isinstance(value.type, ir.RankedTensorType):
            return emit.value("tensor.from_elements", [value], kind)
        if not has_other_axes(value.type, sizes):
            return emit.value("tensor.cast", [value], kind)
        return emit.reshape(value, kind, self.open_sizes(kind, sizes))

    def open_sizes(self, kind: ir.RankedTensorType, sizes: Sequence[Size]) -> list[ir.Value]:
        """The sizes, out of all those of a tensor, that its type does not say."""
        return [emit.size(self.size(size)) for axis, size in enumerate(sizes) if kind.is_dynamic_dim(axis)]

    def _as_typed(self, value: ir.Value, root: ir.Value, sizes: tuple[Size, ...]) -> ir.Value:
        """A new value with the type of what it replaces."""
        fitted = self.fitted(value, builtin_type(root), sizes)
        return fitted if is_builtin(root) else emit.value("torch_c.from_builtin_tensor", [fitted], root.type)

    def unused_symbol(self, wanted: str, other: str = "") -> str:
        """A symbol that the module does not have yet, and not `other`; numbered from where the last one stopped."""
        name = wanted
        while name in self._symbols or name == other:
            self._symbols[wanted] = self._symbols.get(wanted, 0) + 1
            name = f"{wanted}_{self._symbols[wanted]}"
        self._symbols[name] = 0
        return name

    def sweep(self) -> None:
        """Erase the matched ops that nothing uses any more, users before producers."""
        pending = dict(self._dead)
        while pending:
            op, _ = pending.popitem()
            if any(next(iter(result.uses), None) is not None for result in op.results):
                continue
            del self._dead[op]
            makers = [maker for maker in map(defining_op, op.operands) if maker in self._dead]
            op.erase()
            pending.update(dict.fromkeys(makers))


def anchor_of(match: Match, *, whole: bool = False) -> ir.Operation:
    """The op that what replaces a match stands before: that of the first root where all is there that it needs.

    These are the match's inputs and sizes, and with `whole` what any op of the match uses. An op with effects stays
    where it is, so then it is the last root. All roots are in one block.
    """
    roots = list(dict.fromkeys(root.owner.operation for root in match.roots))
    if len(roots) == 1:
        return roots[0]
    roots.sort(key=cmp_to_key(_compared))
    if any(map(has_effects, roots)):
        return roots[-1]
    makers = [maker for maker in map(defining_op, needs(match, whole=whole)) if maker is not None]
    late = [maker for maker in makers if maker.block == roots[0].block and not maker.is_before_in_block(roots[0])]
    return next((op for op in roots if all(maker.is_before_in_block(op) for maker in late)), roots[-1])


def _compared(op: ir.Operation, other: ir.Operation) -> int:
    return -1 if op.is_before_in_block(other) else 1


def needs(match: Match, *, whole: bool = False) -> list[ir.Value]:
    """The values that what replaces a match is made from, and with `whole` those that the match is made from."""
    sizes = flat(size for group in (match.dims.values(), *match.root_sizes, *match.shapes.values()) for size in group)
    needed = [bound.value for bound in match.inputs.values() if bound.value is not None]
    needed += [size.value for size in sizes if isinstance(size, DimSize) and isinstance(size.value, ir.Value)]
    if whole:
        members = set(match.ops)
        used = (value for op in match.ops for value in read_by(op))
        needed += [value for value in used if (maker := defining_op(value)) is not None and maker not in members]
    return needed


def to_builtin(value: ir.Value) -> ir.Value:
    """The value as a builtin tensor, where it is one of a frontend's own."""
    if is_builtin(value):
        return value
    return emit.value("torch_c.to_builtin_tensor", [value], builtin_type(value))


def builtin_type(value: ir.Value) -> ir.Type:
    """The builtin type for a value of a frontend's own tensor type."""
    if is_builtin(value):
        return value.type
    shape = shape_of(value)
    assert shape is not None, "only tensors are matched"
    return emit.tensor_type(shape, ir.Type.parse(element_type(value)))


def with_sizes(value: ir.Value, sizes: Sequence[ir.Value]) -> ir.Value:
    """A tensor whose open sizes are these."""
    kind = builtin_type(value)
    made = emit.value("torch_c.to_builtin_tensor", [value], kind)
    tied = emit.value("flow.tensor.tie_shape", [made, *sizes], kind)
    return emit.value("torch_c.from_builtin_tensor", [tied], value.type)


def bound_type(binding: Binding) -> ir.Type:
    """The builtin type of the value of an input, as wide as the program has it."""
    kind = builtin_type(binding.value)
    if not binding.widened:
        return kind
    element = ir.Type.parse(binding.element)
    return ir.RankedTensorType.get(kind.shape, element) if isinstance(kind, ir.RankedTensorType) else element


def result_type(output: Output) -> ir.Type:
    """The builtin type of what a kernel makes."""
    if output.root is not None:
        return builtin_type(output.root)
    return emit.tensor_type(output.sizes, ir.Type.parse(output.element))


def has_other_dims(kind: ir.RankedTensorType, sizes: tuple[Size, ...]) -> bool:
    """Whether a tensor has other dims than some sizes say, those of size one apart, as far as sizes are known."""
    return _differ([s for s in _known(kind) if s != 1], [s for s in sizes if s != 1])


def has_other_axes(kind: ir.RankedTensorType, sizes: tuple[Size, ...]) -> bool:
    """Whether a tensor has another size than some sizes say, axis by axis, as far as sizes are known."""
    return _differ(_known(kind), sizes)


def _known(kind: ir.RankedTensorType) -> list[int | None]:
    return [None if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank)]


def _differ(own: Sequence[int | None], wanted: Sequence[Size]) -> bool:
    pairs = zip(own, wanted, strict=False)
    return len(own) != len(wanted) or any(a != b and a is not None and isinstance(b, int) for a, b in pairs)

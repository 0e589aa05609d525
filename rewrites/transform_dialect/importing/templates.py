"""The template of a matcher, read as a pattern: ops on tensors and `linalg` ops as expressions, sizes as dims.

Every dim is a symbol, one for all axes that the ops make equal; where the template gives it a size, that is a condition
`d0 == 64`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.ir import effects
from opsplice.matchers.terms import constants as numbers
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.template import WORD, Axes, Input, Label, Parts, Template, Value
from opsplice.spec_lang.linting.named_ops import unmatchable
from opsplice.spec_lang.syntax import vocabulary

NAME_ONLY = "match.operation_name_only"
_ORDINARY = frozenset({"fastmath", "overflowFlags", "operandSegmentSizes", "predicate", "roundingmode", "isExact"})


def read_template(block: ir.Block, from_neutral: bool = False, scalars: Set[int] = frozenset()) -> Template:
    """Read the block of a `cast_compatible_dag_from_root`.

    from_neutral: reductions that start from an argument are those that start from their op's neutral value.
    scalars: the arguments, tensors of rank 0, that the pattern has as scalars.
    Raises UnreadableError for an op that cannot be read.
    """
    return _Reader(block, from_neutral, scalars).read()


class _Reader:
    """Expressions are kept as parts, strings and axis classes, until all classes are known."""

    def __init__(self, block: ir.Block, from_neutral: bool, scalars: Set[int]) -> None:
        self.block = block
        self.from_neutral = from_neutral
        self.scalars = scalars
        self.axes = Axes()
        self.values: dict[ir.Value, Value | None] = {}
        self.inputs: list[Input] = []
        self.lets: list[tuple[str, Parts]] = []
        self.loops: dict[ir.Operation, list[int]] = {}
        self.starts: dict[int, float | int | None] = {}

    def read(self) -> Template:
        for position, argument in enumerate(self.block.arguments):
            self._input(position, argument)
        *inner, _ = self.block.operations
        root = inner[-1].operation
        check_root(root, root.name)
        for each in inner:
            self._read(each.operation, root)
        result = self.values[root.results[0]]
        if result is None or result.scalar:
            raise UnreadableError(root, "the root computes nothing that a pattern can say")
        inputs = self._used(result.parts)
        for axis in (axis for each in inputs for axis in each.dims or ()):
            self.axes.name(axis)  # they are numbered as they are read
        return Template(
            inputs=inputs,
            lets=self.lets,
            result=result.parts,
            result_dims=result.axes,
            result_element=result.element,
            axes=self.axes,
            values={v: known for v, known in self.values.items() if known is not None},
            starts=self.starts,
            op=root,
        )

    def _input(self, position: int, argument: ir.Value) -> None:
        kind = argument.type
        name = f"x{position}"
        if isinstance(kind, ir.IndexType):
            self.values[argument] = None
            return
        if isinstance(kind, ir.RankedTensorType) and position not in self.scalars:
            axes = self._fresh(kind)
            self.inputs.append(Input(name, str(kind.element_type), axes, position))
            self.values[argument] = Value((name,), axes, str(kind.element_type))
            return
        if not isinstance(kind, (ir.RankedTensorType, ir.FloatType, ir.IntegerType)):
            raise UnreadableError(self.block.owner, f"an argument of type {kind}")
        element = str(kind.element_type) if isinstance(kind, ir.RankedTensorType) else str(kind)
        self.inputs.append(Input(name, element, None, position))
        self.values[argument] = Value((name,), (), element, scalar=True)

    def _used(self, result: Parts) -> list[Input]:
        """The inputs that the pattern speaks of: what ops write to is none."""
        text = " ".join(str(p) for parts in (result, *(p for _, p in self.lets)) for p in parts if isinstance(p, str))
        words = set(WORD.findall(text))
        return [each for each in self.inputs if each.name in words]

    def _fresh(self, kind: ir.RankedTensorType) -> tuple[int, ...]:
        return tuple(self.axes.new(None if kind.is_dynamic_dim(i) else kind.get_dim_size(i)) for i in range(kind.rank))

    # ---- ops ------------------------------------------------------------------------------------------------------

    def _read(self, op: ir.Operation, root: ir.Operation) -> None:
        value = self._value(op)
        for result in op.results:
            self.values[result] = value
        if value is None or value.scalar or op == root:
            return
        uses = sum(1 for _ in op.results[0].uses)
        if uses > 1:
            name = f"v{len(self.lets)}"
            self.lets.append((name, value.parts))
            self.values[op.results[0]] = Value((name,), value.axes, value.element)

    def _value(self, op: ir.Operation) -> Value | None:
        name = op.name
        if name in ("tensor.empty", "tensor.dim"):
            return None
        if NAME_ONLY in op.attributes:
            return self._named(op)
        if len(op.results) != 1:
            return self._quoted(op)
        if name == "arith.constant":
            return self._constant(op)
        if name == "tensor.splat":
            return self._spread(op, op.operands[0])
        if name == "linalg.fill":
            made = self._spread(op, op.operands[0])
            self._write(op, made.axes)
            return made
        if name.startswith("linalg.") and get_indexing_maps(op) is not None:
            return _Structured(self, op).value()
        known = vocabulary.find(name)
        if known is not None:
            return self.elementwise(op, known, [self.operand(op, v) for v in op.operands])
        return self._quoted(op)

    def _write(self, op: ir.Operation, axes: Sequence[int]) -> None:
        """What an op writes to has the dims of its result."""
        target = self.values.get(list(op.operands)[-1])
        for left, right in zip(axes, () if target is None else target.axes, strict=False):
            self.axes.join(left, right)

    def operand(self, op: ir.Operation, value: ir.Value) -> Value:
        found = self.values.get(value)
        if found is None:
            raise UnreadableError(op, "an operand that a pattern has no words for")
        return found

    def _constant(self, op: ir.Operation) -> Value | None:
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr):
            if not attribute.is_splat:
                raise UnreadableError(op, "a constant of several numbers")
            attribute = attribute.get_splat_value()
        kind = op.results[0].type
        axes = self._fresh(kind) if isinstance(kind, ir.RankedTensorType) else ()
        if isinstance(attribute, ir.FloatAttr):
            if math.isnan(attribute.value):
                raise UnreadableError(op, "a constant that is not a number")
            return Value((_number(attribute.value),), axes, str(attribute.type), True, attribute.value)
        if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
            number = int(attribute.value)
            element = "i1" if isinstance(attribute, ir.BoolAttr) else str(attribute.type)
            return Value((str(number),), axes, element, True, number)
        raise UnreadableError(op, "a constant of another kind than a number")

    def _spread(self, op: ir.Operation, scalar: ir.Value) -> Value:
        source = self.operand(op, scalar)
        return Value(source.parts, self._fresh(op.results[0].type), source.element, True, source.number)

    def elementwise(self, op: ir.Operation, known: vocabulary.Op, args: Sequence[Value]) -> Value:
        """An elementwise op of our table, on tensors or, in a body, on views of them."""
        axes: tuple[int, ...] | None = None
        for arg in args:
            if not arg.axes:
                continue
            if axes is None:
                axes = arg.axes
            for left, right in zip(axes, arg.axes, strict=True):
                self.axes.join(left, right)
        element = _element(op.results[0].type)
        return Value(
            (*_called(known.name, args), *_attributes(op, known), *_ascribed(known, element)), axes or (), element
        )

    def _named(self, op: ir.Operation) -> Value:
        """An op that is compared by its name alone: whatever its operands are, and what it makes of them."""
        kind = op.results[0].type
        element = _element(kind)
        axes = self._fresh(kind) if isinstance(kind, ir.RankedTensorType) else ()
        known = vocabulary.find(op.name)
        if known is not None and not known.is_cast and not known.predicates:
            return Value((f"{known.name}({', '.join('_' for _ in op.operands)})",), axes, element)
        return Value((f'"{op.name}"(...) {{...}}', *type_parts(axes, element)), axes, element)

    def _quoted(self, op: ir.Operation) -> Value:
        kinds = [value.type for value in op.results]
        if not all(isinstance(kind, ir.RankedTensorType) for kind in kinds):
            raise UnreadableError(op, "an op whose result is no tensor")
        if effects.has_own_region(op):
            raise UnreadableError(op, "an op with a body that its name does not tell")
        made = [Value((), self._fresh(kind), str(kind.element_type)) for kind in kinds]
        maps = _maps_of(op)
        # What a structured op writes to are operands too, and no part of what it computes.
        writes = len(made) if maps or op.name.startswith("linalg.") else 0
        if writes > 1 and all(isinstance(v.owner, ir.Block) for v in list(op.operands)[-writes:]):
            writes = 0  # but they say of which types its results are
        args = [self.operand(op, v) for v in list(op.operands)[: len(op.operands) - writes]]
        for value, operand in zip(maps, [*args, *made], strict=False):
            for axis, position in zip(operand.axes, _positions(op, value), strict=True):
                self.axes.join(self._loops(op)[position], axis)
        attributes = [f"{a} = {attribute_text(op.attributes[a])}" for a in op.attributes]
        words = [*attributes, *["..."] * bool(len(op.regions))]
        braces = f" {{{', '.join(words)}}}" if words else ""
        called = (*_called(f'"{op.name}"', args, rest=bool(writes)), braces)
        first = made[0]
        if len(made) == 1:
            return Value((*called, *type_parts(first.axes, first.element)), first.axes, first.element)
        names = [f"r{len(self.lets)}_{number}" for number in range(len(made))]
        self.lets.append((", ".join(names), called))
        return Value((names[0],), first.axes, first.element)

    def _loops(self, op: ir.Operation) -> list[int]:
        if op not in self.loops:
            self.loops[op] = [self.axes.new(None) for _ in range(_maps_of(op)[0].n_dims)]
        return self.loops[op]


class _Structured:
    """A linalg op with maps and a body."""

    def __init__(self, reader: _Reader, op: ir.Operation) -> None:
        self.reader = reader
        self.op = op
        self.maps = [ir.AffineMapAttr(m).value for m in get_indexing_maps(op)]
        self.block = op.regions[0].blocks[0]
        self.count = len(self.maps) - 1
        self.loops = [reader.axes.new(None) for _ in range(self.maps[0].n_dims)]
        self.reads = [[terms_of(op, e) for e in m.results] for m in self.maps]
        self.out = _positions(op, self.maps[-1])

    def _positions(self, number: int) -> list[int]:
        return _positions(self.op, self.maps[number])

    def value(self) -> Value:
        operands = [self.reader.operand(self.op, v) for v in list(self.op.operands)[: self.count]]
        for operand, reads in zip(operands, self.reads, strict=False):
            for axis, terms in zip(operand.axes, reads, strict=bool(operand.axes)):
                if _is_loop(terms):
                    self.reader.axes.join(self.loops[terms[0][1]], axis)
        for axis, loop in zip(self.reader._fresh(self.op.results[0].type), self.out, strict=True):
            self.reader.axes.join(self.loops[loop], axis)
        self.reader._write(self.op, [self.loops[loop] for loop in self.out])
        if len(set(self.out)) != len(self.out):
            raise UnreadableError(self.op, "a result that uses one loop twice")
        last = self.block.operations[len(self.block.operations) - 1].operation
        yielded = last.operands[0]
        if set(self.out) == set(range(len(self.loops))):
            return self._scalar(yielded, operands, self.out)
        return self._reduced(yielded, operands)

    def _scalar(self, value: ir.Value, operands: Sequence[Value], order: Sequence[int]) -> Value:
        """A scalar of the body, seen with the loops in an order."""
        if isinstance(value.owner, ir.Block):
            if value.owner != self.block:
                return self.reader.operand(self.op, value)
            number = ir.BlockArgument(value).arg_number
            if number >= self.count:
                raise UnreadableError(self.op, "a body that reads what the result starts from")
            return self._viewed(operands[number], self._positions(number), order)
        op = value.owner.operation
        if op.block != self.block:
            return self.reader.operand(self.op, value)
        if op.name == "arith.constant":
            found = self.reader._constant(op)
            assert found is not None, "a constant in a body is a number"
            return found
        known = vocabulary.find(op.name)
        if known is None:
            raise UnreadableError(op, "an op in a body that is not elementwise")
        return self.reader.elementwise(op, known, [self._scalar(v, operands, order) for v in op.operands])

    def _viewed(self, value: Value, positions: Sequence[int], order: Sequence[int]) -> Value:
        axes = tuple(self.loops[i] for i in order)
        if value.scalar or list(positions) == list(order):
            return Value(value.parts, axes if not value.scalar else (), value.element, value.scalar, value.number)
        kind = "transpose" if len(positions) == len(order) else "broadcast"
        labels = (*self._labels(positions), " -> ", *self._labels(order))
        return Value((f"{kind}[", *labels, "](", *value.parts, ")"), axes, value.element)

    def _labels(self, positions: Sequence[int]) -> list[str | int | Label]:
        found: list[str | int | Label] = []
        for loop in positions:
            found += [Label(tuple(self.loops), loop), " "]
        return found[:-1]

    def _read_labels(self, number: int) -> list[str | int | Label]:
        """Where an operand is read: loops, and sums of them in brackets."""
        found: list[str | int | Label] = []
        for terms in self.reads[number]:
            if _is_loop(terms):
                found += [Label(tuple(self.loops), terms[0][1]), " "]
                continue
            for at, (factor, loop) in enumerate(terms):
                found += [" + " if at else "(", *[f"{factor}*"] * (factor != 1), Label(tuple(self.loops), loop)]
            found.append(") ")
        return [*found[:-1], ")"] if found and found[-1] == ") " else found[:-1]

    def _reduced(self, yielded: ir.Value, operands: Sequence[Value]) -> Value:
        combiner = None if isinstance(yielded.owner, ir.Block) else yielded.owner.operation
        running = self.block.arguments[self.count]
        known = None if combiner is None else vocabulary.find(combiner.name)
        sides = [] if combiner is None else [v for v in combiner.operands if v != running]
        element = _element(self.op.results[0].type)
        if combiner is None or known is None or known.name not in vocabulary.COMBINERS or len(sides) != 1:
            raise UnreadableError(self.op, "a reduction that does not combine with one op")
        start = self.op.operands[self.count]
        neutral = vocabulary.identity(known.name, element)
        given = self.reader.operand(self.op, start)
        made = self._combined(sides[0], known, operands, element)
        if isinstance(start.owner, ir.Block) and not given.scalar:  # it may be anything
            self.reader.starts[ir.BlockArgument(start).arg_number] = neutral
            if not self.reader.from_neutral:
                return Value(("accumulated(", *made.parts, ")"), made.axes, made.element)
        elif not given.scalar or not _is_number(given.number, neutral, element):
            raise UnreadableError(self.op, "a reduction that starts from another value than its op's neutral one")
        return made

    def _combined(self, folded: ir.Value, known: vocabulary.Op, operands: Sequence[Value], element: str) -> Value:
        """A scalar of the body, combined over the loops that the result lacks."""
        axes = tuple(self.loops[i] for i in self.out)
        product = self._product(folded, known.name, element)
        if product is not None:
            left, right = product
            labels = (*self._read_labels(left), ", ", *self._read_labels(right))
            args = (*operands[left].parts, ", ", *operands[right].parts)
            parts: Parts = ("contract[", *labels, " -> ", *self._labels(self.out), "](", *args, ")")
            windows = any(len(terms) > 1 for reads in self.reads for terms in reads)
            if operands[left].element != element or windows:
                parts = (*parts, *type_parts(axes, element))
            return Value(parts, axes, element)
        order = list(range(len(self.loops)))
        inner = self._scalar(folded, operands, order)
        labels = (*self._labels(order), " -> ", *self._labels(self.out))
        return Value((f"reduce {known.name}[", *labels, "](", *inner.parts, ")"), axes, element)

    def _product(self, value: ir.Value, combiner: str, element: str) -> tuple[int, int] | None:
        """The operands that a contraction multiplies; None if it is none, or repeats them along further loops."""
        if combiner not in ("addf", "addi") or isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name not in ("arith.mulf", "arith.muli"):
            return None
        numbers, kinds = [], set()
        for factor in op.operands:
            if not isinstance(factor.owner, ir.Block) and factor.owner.operation.name in ("arith.extf", "arith.extsi"):
                factor = factor.owner.operation.operands[0]
            kinds.add(str(factor.type))
            if not isinstance(factor.owner, ir.Block) or factor.owner != self.block:
                return None
            numbers.append(ir.BlockArgument(factor).arg_number)
        if max(numbers) >= self.count or len(kinds) != 1:  # a contraction has operands of one type
            return None
        left, right = numbers
        read = {loop for reads in (self.reads[left], self.reads[right]) for terms in reads for _, loop in terms}
        covered = read == set(range(len(self.loops)))
        return (left, right) if covered else None


# ---- pieces ------------------------------------------------------------------------------------------------------


def check_root(op: ir.Operation, *names: str) -> None:
    """Raises UnreadableError for ops that no pattern has as its root. op: where they are asked for."""
    why = next(filter(None, (unmatchable(name, is_end=True) for name in names)), None)
    if why is not None:
        raise UnreadableError(op, f"no pattern finds it: {why}")


def _element(kind: ir.Type) -> str:
    return str(kind.element_type) if isinstance(kind, ir.ShapedType) else str(kind)


def type_parts(axes: Sequence[int], element: str) -> Parts:
    """`: tensor<d0 x d1 x f32>`."""
    return (" : tensor<", *(part for axis in axes for part in (axis, " x ")), f"{element}>")


def _maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of an op by name that has one for each operand."""
    if "indexing_maps" not in op.attributes:
        return []
    maps = [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(op.attributes["indexing_maps"])]
    return maps if len(maps) == len(op.operands) else []


def _positions(op: ir.Operation, affine_map: ir.AffineMap) -> list[int]:
    if not all(isinstance(e, ir.AffineDimExpr) for e in affine_map.results):
        raise UnreadableError(op, "an indexing map that is more than a choice of loops")
    return [e.position for e in affine_map.results]


def _is_loop(terms: Sequence[tuple[int, int]]) -> bool:
    return len(terms) == 1 and terms[0][0] == 1


def terms_of(op: ir.Operation, read: ir.AffineExpr) -> list[tuple[int, int]]:
    """Where an operand is read along a dim: the sum of factors times loops."""
    if isinstance(read, ir.AffineAddExpr):
        return [*terms_of(op, read.lhs), *terms_of(op, read.rhs)]
    if isinstance(read, ir.AffineDimExpr):
        return [(1, read.position)]
    if isinstance(read, ir.AffineMulExpr) and isinstance(read.lhs, ir.AffineDimExpr):
        factor = read.rhs
        if isinstance(factor, ir.AffineConstantExpr):
            return [(factor.value, read.lhs.position)]
    raise UnreadableError(op, "an indexing map that is more than sums of loops")


def _called(name: str, args: Sequence[Value], rest: bool = False) -> Parts:
    parts: list[str | int | Label] = [f"{name}("]
    for number, arg in enumerate(args):
        parts += [", "] * (number > 0)
        parts += arg.parts
    return (*parts, ", ..." if args else "...", ")") if rest else (*parts, ")")


def _ascribed(known: vocabulary.Op, element: str) -> Parts:
    return (f" : {element}",) if known.is_cast else ()


def _attributes(op: ir.Operation, known: vocabulary.Op) -> Parts:
    """Attributes of an elementwise op; those that say how and not what, at other than their default, cannot be said."""
    found = []
    for name in op.attributes:
        if name == "predicate":
            found.append(f"predicate = {known.predicates[ir.IntegerAttr(op.attributes[name]).value]}")
        elif name not in _ORDINARY:
            found.append(f"{name} = {attribute_text(op.attributes[name])}")
    return (f" {{{', '.join(found)}}}",) if found else ()


def attribute_text(value: ir.Attribute, exactly: bool = False) -> str:
    """An attribute as `.splice` files write it. exactly: with its type, as MLIR writes it."""
    if not exactly and isinstance(value, ir.BoolAttr):
        return "true" if value.value else "false"
    if not exactly and isinstance(value, ir.IntegerAttr):
        return str(value.value)
    if not exactly and isinstance(value, ir.StringAttr):
        return quoted(value.value)
    return f"mlir {quoted(str(value))}"


def quoted(text: str) -> str:
    """A string as `.splice` files write it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _is_number(found: float | int | None, wanted: float | int | None, element: str) -> bool:
    """Whether a value is known to be a number; integers by their bits, for all ones are -1 or 1 in i1."""
    if found is None or wanted is None or vocabulary.is_float(element):
        return found == wanted
    return numbers.same(wanted, found, element)


def _number(value: float) -> str:
    return repr(float(value))

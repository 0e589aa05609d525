"""The template of a matcher, read as a pattern: ops on tensors and `linalg` ops as expressions, sizes as dims.

Every dim is a symbol, one for all axes that the ops make equal; where the template gives it a size, that is a condition
`d0 == 64`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.spec_lang import ops

_NAME_ONLY = "match.operation_name_only"
_ORDINARY = frozenset({"fastmath", "overflowFlags", "operandSegmentSizes", "predicate", "roundingmode", "isExact"})


@dataclass(frozen=True)
class Input:
    """A parameter of the pattern. dims: the axis classes of a tensor, None for a scalar. position: among arguments."""

    name: str
    element: str
    dims: tuple[int, ...] | None
    position: int


@dataclass(eq=False)
class Template:
    """A pattern in the making. lets: name and expression; result: the root's expression, dims and element type."""

    inputs: list[Input]
    lets: list[tuple[str, str]]
    result: str
    result_dims: tuple[int, ...]
    result_element: str
    axes: Axes
    values: dict[ir.Value, Value]

    def dim(self, axis: int) -> str:
        """The name of an axis class."""
        return self.axes.name(axis)


class Axes:
    """Classes of axes that are of one size."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sizes: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def new(self, size: int | None) -> int:
        self._parents.append(len(self._parents))
        if size is not None:
            self._sizes[len(self._parents) - 1] = size
        return len(self._parents) - 1

    def root(self, axis: int) -> int:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def join(self, left: int, right: int) -> None:
        left, right = self.root(left), self.root(right)
        if left == right:
            return
        self._parents[right] = left
        if right in self._sizes:
            self._sizes.setdefault(left, self._sizes[right])

    def size(self, axis: int) -> int | None:
        return self._sizes.get(self.root(axis))

    def name(self, axis: int) -> str:
        root = self.root(axis)
        return self._names.setdefault(root, f"d{len(self._names)}")


@dataclass(frozen=True)
class Value:
    """A value of the template as an expression.

    scalar: whether it is a number or a scalar, maybe spread to a tensor. number: its value, if it is known.
    """

    parts: tuple[object, ...]
    axes: tuple[int, ...]
    element: str
    scalar: bool = False
    number: float | int | None = None


def read_template(block: ir.Block) -> Template:
    """Read the block of a `cast_compatible_dag_from_root`. Raises UnreadableError for an op that cannot be."""
    return _Reader(block).read()


class _Reader:
    """Expressions are kept as parts, strings and axis classes, until all classes are known."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.axes = Axes()
        self.values: dict[ir.Value, Value | None] = {}
        self.inputs: list[Input] = []
        self.lets: list[tuple[str, tuple[object, ...]]] = []

    def read(self) -> Template:
        for position, argument in enumerate(self.block.arguments):
            self._input(position, argument)
        *inner, _ = self.block.operations
        root = inner[-1].operation
        for each in inner:
            self._read(each.operation, root)
        result = self.values[root.results[0]]
        if result is None or result.scalar:
            raise UnreadableError(root, "the root computes nothing that a pattern can say")
        return Template(
            inputs=self.inputs,
            lets=[(name, self._text(parts)) for name, parts in self.lets],
            result=self._text(result.parts),
            result_dims=result.axes,
            result_element=result.element,
            axes=self.axes,
            values={v: known for v, known in self.values.items() if known is not None},
        )

    def _input(self, position: int, argument: ir.Value) -> None:
        kind = argument.type
        name = f"x{position}"
        if isinstance(kind, ir.IndexType):
            self.values[argument] = None
            return
        if isinstance(kind, ir.RankedTensorType) and kind.rank:
            axes = self._fresh(kind)
            self.inputs.append(Input(name, str(kind.element_type), axes, position))
            self.values[argument] = Value((name,), axes, str(kind.element_type))
            return
        element = str(kind.element_type) if isinstance(kind, ir.RankedTensorType) else str(kind)
        self.inputs.append(Input(name, element, None, position))
        self.values[argument] = Value((name,), (), element, scalar=True)

    def _fresh(self, kind: ir.RankedTensorType) -> tuple[int, ...]:
        return tuple(self.axes.new(None if kind.is_dynamic_dim(i) else kind.get_dim_size(i)) for i in range(kind.rank))

    def _text(self, parts: Sequence[object]) -> str:
        return "".join(self.axes.name(p) if isinstance(p, int) else str(p) for p in parts)

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
        if _NAME_ONLY in op.attributes:
            raise UnreadableError(op, "an op that is compared by its name alone")
        if len(op.results) != 1:
            raise UnreadableError(op, "an op with several results")
        if name == "arith.constant":
            return self._constant(op)
        if name == "tensor.splat":
            return self._spread(op, op.operands[0])
        if name == "linalg.fill":
            return self._spread(op, op.operands[0])
        if name.startswith("linalg.") and get_indexing_maps(op) is not None:
            return _Structured(self, op).value()
        known = ops.find(name)
        if known is not None:
            return self.elementwise(op, known, [self.operand(op, v) for v in op.operands])
        return self._quoted(op)

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
            return Value((_number(attribute.value),), axes, str(attribute.type), True, attribute.value)
        if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
            number = int(attribute.value)
            element = "i1" if isinstance(attribute, ir.BoolAttr) else str(attribute.type)
            return Value((str(number),), axes, element, True, number)
        raise UnreadableError(op, "a constant of another kind than a number")

    def _spread(self, op: ir.Operation, scalar: ir.Value) -> Value:
        source = self.operand(op, scalar)
        return Value(source.parts, self._fresh(op.results[0].type), source.element, True, source.number)

    def elementwise(self, op: ir.Operation, known: ops.Op, args: Sequence[Value]) -> Value:
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

    def _quoted(self, op: ir.Operation) -> Value:
        kind = op.results[0].type
        if not isinstance(kind, ir.RankedTensorType) or len(op.regions):
            raise UnreadableError(op, "an op with a body, or whose result is no tensor")
        args = [self.operand(op, v) for v in op.operands]
        axes = self._fresh(kind)
        written: list[object] = []
        for axis in axes:
            written += [axis, " x "]
        attributes = [f"{a} = {_attribute(op, a)}" for a in op.attributes]
        braces = f" {{{', '.join(attributes)}}}" if attributes else ""
        element = str(kind.element_type)
        return Value((*_called(f'"{op.name}"', args), f"{braces} : tensor<", *written, f"{element}>"), axes, element)


class _Structured:
    """A linalg op with maps and a body."""

    def __init__(self, reader: _Reader, op: ir.Operation) -> None:
        self.reader = reader
        self.op = op
        self.maps = [ir.AffineMapAttr(m).value for m in get_indexing_maps(op)]
        self.block = op.regions[0].blocks[0]
        self.count = len(self.maps) - 1
        self.loops = [reader.axes.new(None) for _ in range(self.maps[0].n_dims)]
        self.positions = [self._positions(m) for m in self.maps]
        self.out = self.positions[-1]

    def _positions(self, affine_map: ir.AffineMap) -> list[int]:
        if not all(isinstance(e, ir.AffineDimExpr) for e in affine_map.results):
            raise UnreadableError(self.op, "an indexing map that is more than a choice of loops")
        return [e.position for e in affine_map.results]

    def value(self) -> Value:
        operands = [self.reader.operand(self.op, v) for v in list(self.op.operands)[: self.count]]
        for operand, positions in zip(operands, self.positions, strict=False):
            for axis, loop in zip(operand.axes, positions, strict=True):
                self.reader.axes.join(self.loops[loop], axis)
        for axis, loop in zip(self.reader._fresh(self.op.results[0].type), self.out, strict=True):
            self.reader.axes.join(self.loops[loop], axis)
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
            return self._viewed(operands[number], self.positions[number], order)
        op = value.owner.operation
        if op.block != self.block:
            return self.reader.operand(self.op, value)
        if op.name == "arith.constant":
            found = self.reader._constant(op)
            assert found is not None, "a constant in a body is a number"
            return found
        known = ops.find(op.name)
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

    def _labels(self, positions: Sequence[int]) -> list[object]:
        found: list[object] = []
        for loop in positions:
            found += [self.loops[loop], " "]
        return found[:-1]

    def _reduced(self, yielded: ir.Value, operands: Sequence[Value]) -> Value:
        combiner = None if isinstance(yielded.owner, ir.Block) else yielded.owner.operation
        running = self.block.arguments[self.count]
        known = None if combiner is None else ops.find(combiner.name)
        sides = [] if combiner is None else [v for v in combiner.operands if v != running]
        element = _element(self.op.results[0].type)
        if combiner is None or known is None or known.name not in ops.COMBINERS or len(sides) != 1:
            raise UnreadableError(self.op, "a reduction that does not combine with one op")
        start = self.reader.operand(self.op, self.op.operands[self.count])
        if not start.scalar or start.number != ops.identity(known.name, element):
            raise UnreadableError(self.op, "a reduction that starts from another value than its op's neutral one")
        axes = tuple(self.loops[i] for i in self.out)
        product = self._product(sides[0], known.name, element)
        if product is not None:
            left, right = product
            labels = (*self._labels(self.positions[left]), ", ", *self._labels(self.positions[right]))
            args = (*operands[left].parts, ", ", *operands[right].parts)
            parts: tuple[object, ...] = ("contract[", *labels, " -> ", *self._labels(self.out), "](", *args, ")")
            if operands[left].element != element:
                written = [part for axis in axes for part in (axis, " x ")]
                parts = (*parts, " : tensor<", *written, f"{element}>")
            return Value(parts, axes, element)
        order = list(range(len(self.loops)))
        inner = self._scalar(sides[0], operands, order)
        labels = (*self._labels(order), " -> ", *self._labels(self.out))
        return Value((f"reduce {known.name}[", *labels, "](", *inner.parts, ")"), axes, element)

    def _product(self, value: ir.Value, combiner: str, element: str) -> tuple[int, int] | None:
        """The operands that a contraction multiplies; None if it is none, or repeats them along further loops."""
        if combiner not in ("addf", "addi") or isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name not in ("arith.mulf", "arith.muli"):
            return None
        numbers = []
        for factor in op.operands:
            if not isinstance(factor.owner, ir.Block) and factor.owner.operation.name in ("arith.extf", "arith.extsi"):
                factor = factor.owner.operation.operands[0]
            if not isinstance(factor.owner, ir.Block) or factor.owner != self.block:
                return None
            numbers.append(ir.BlockArgument(factor).arg_number)
        if max(numbers) >= self.count:
            return None
        left, right = numbers
        covered = {*self.positions[left], *self.positions[right]} == set(range(len(self.loops)))
        return (left, right) if covered else None


# ---- pieces ------------------------------------------------------------------------------------------------------


def _element(kind: ir.Type) -> str:
    return str(kind.element_type) if isinstance(kind, ir.ShapedType) else str(kind)


def _called(name: str, args: Sequence[Value]) -> tuple[object, ...]:
    parts: list[object] = [f"{name}("]
    for number, arg in enumerate(args):
        parts += [", "] * (number > 0)
        parts += arg.parts
    return (*parts, ")")


def _ascribed(known: ops.Op, element: str) -> tuple[object, ...]:
    return (f" : {element}",) if known.is_cast else ()


def _attributes(op: ir.Operation, known: ops.Op) -> tuple[object, ...]:
    """Attributes of an elementwise op; those that say how and not what, at other than their default, cannot be said."""
    found = []
    for name in op.attributes:
        if name == "predicate":
            found.append(f"predicate = {known.predicates[ir.IntegerAttr(op.attributes[name]).value]}")
        elif name not in _ORDINARY:
            found.append(f"{name} = {_attribute(op, name)}")
    return (f" {{{', '.join(found)}}}",) if found else ()


def _attribute(op: ir.Operation, name: str) -> str:
    value = op.attributes[name]
    if isinstance(value, ir.BoolAttr):
        return "true" if value.value else "false"
    if isinstance(value, ir.IntegerAttr):
        return str(value.value)
    if isinstance(value, ir.StringAttr):
        return '"' + value.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise UnreadableError(op, f"the attribute {name}, which is no number, truth value or string")


def _number(value: float) -> str:
    return repr(float(value))

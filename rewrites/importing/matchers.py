"""A matcher of a transform spec: the pattern that its template or its op makes, and its checks as conditions."""

from __future__ import annotations

from collections.abc import Set

from iree.compiler import ir

from opsplice.rewrites.importing.contention import Shape, template_node
from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.rewrites.importing.handles import ANY, Asked, Handle, NamedOp, Value, block_of, follow
from opsplice.rewrites.importing.structured import MATCHERS, Place, Structured
from opsplice.rewrites.importing.templates import Axes, Input, Parts, Template, check_root, read_template, type_parts
from opsplice.spec_lang.decide import COMPARISONS

_DAG = "transform.iree.match.cast_compatible_dag_from_root"
_NAME = "transform.match.operation_name"
_REGIONS = "transform.iree.match.regions"
_UNTUNED = "transform.iree.match.has_no_lowering_config"
_IDLE = frozenset(
    {
        "transform.print",
        "transform.debug.emit_remark_at",
        "transform.yield",
    }
)


class Matcher:
    """A matcher. Raises UnreadableError from all of its methods for what patterns have no words for."""

    def __init__(self, sequence: ir.Operation, from_neutral: bool = False, scalars: Set[int] = frozenset()) -> None:
        """from_neutral, scalars: as for `read_template`."""
        self.from_neutral = from_neutral
        self.scalars = scalars
        self.sequence = sequence
        self.block = block_of(sequence)
        self.handles: dict[ir.Value, Handle] = {}
        # The sizes of a structured op that a parameter stands for.
        self.sizes: dict[ir.Value, tuple[Place, ...]] = {}
        self.conditions: list[str] = []
        self.structured: Structured | None = None  # holds the module of its template

    def read(self) -> tuple[Template, list[str]]:
        """The pattern, and the conditions for its dims."""
        ops = [op.operation for op in self.block.operations]
        roots = [op for op in ops if op.name == _DAG or op.name in MATCHERS]
        if len(roots) > 1:
            raise UnreadableError(roots[1], "a second template in a matcher")
        if not roots:
            return self._by_name(ops)
        template = read_template(self._template(roots[0]), self.from_neutral, self.scalars)
        template.source = self.structured
        if self.structured is not None:
            template = self.structured.opened(template)
        for op in ops:
            if op is not roots[0] and not self._navigates(op):
                self._check(op, template)
        return template, self.conditions

    @property
    def root(self) -> Handle:
        """The op that is matched. Call it after `read`."""
        return self.handles[self.block.arguments[0]]

    def yielded(self) -> list[Handle | None]:
        """What the results of the matcher stand for."""
        return [self.handles.get(v) for v in self.block.operations[len(self.block.operations) - 1].operands]

    def shape(self) -> Shape:
        """Where it may hold. Call it after `read`."""
        if isinstance(self.root, NamedOp):
            return Shape(names=self.root.names)
        return Shape(template_node(self.root), structured=self.structured is not None)

    def _navigates(self, op: ir.Operation) -> bool:
        if op.name == "transform.get_result":
            raise UnreadableError(op, "the interpreter takes no such op in a matcher; actions may have it")
        return op.name in _IDLE or follow(op, self.handles)

    def _template(self, op: ir.Operation) -> ir.Block:
        if op.operands[0] != self.block.arguments[0]:
            raise UnreadableError(op, "a template of another op than the one that is matched")
        if op.name == _DAG:
            body = op.regions[0].blocks[0]
            self.handles[op.results[0]] = tuple(body.arguments)
        else:
            self.structured = MATCHERS[op.name](op)
            body = self.structured.block
            self.sizes.update(zip(op.results, self.structured.dims, strict=True))
        root = [each.operation for each in body.operations][-2]
        self.handles[op.operands[0]] = root
        if op.name == _DAG:
            self.handles[op.results[1]] = (root.results[0],)
        return body

    # ---- checks of a template --------------------------------------------------------------------------------------

    def _check(self, op: ir.Operation, template: Template) -> None:
        if op.name == "transform.iree.match.dims_equal":
            self._equal(op, template)
        elif op.name == "transform.match.param.cmpi":
            self._compared(op, template)
        elif op.name == "transform.iree.match.cast_compatible_type":
            self._typed(op, template)
        elif op.name == _NAME:
            self._named(op)
        elif op.name == _UNTUNED:
            self._untuned(op)
        else:
            self._bounded(op, lambda value, axis: self._dim(op, template, value, axis))

    def _named(self, op: ir.Operation) -> None:
        root = self.handles.get(op.operands[0])
        # A contraction is one under any name: patterns say what is computed.
        if self.structured is None and not (isinstance(root, ir.Operation) and root.name in _names(op)):
            raise UnreadableError(op, "a name that is not that of the template's op")

    def _untuned(self, op: ir.Operation) -> None:
        if self.handles.get(op.operands[0]) != self.root:
            raise UnreadableError(op, "a check of another op than the one that is matched")
        self.conditions.append('lacks("lowering_config")')

    def _equal(self, op: ir.Operation, template: Template) -> None:
        places = self.sizes.get(op.operands[0])
        expected = list(ir.DenseI64ArrayAttr(op.attributes["expected_values"]))
        if places is None or len(places) != len(expected):
            raise UnreadableError(op, "sizes of other dims than the indexing maps have")
        for place, size in zip(places, expected, strict=True):
            if size != -1:
                self._size_is(op, template, place, "==", size)

    def _compared(self, op: ir.Operation, template: Template) -> None:
        places, constant = self.sizes.get(op.operands[0]), self.handles.get(op.operands[1])
        if places is None or len(places) != 1 or not isinstance(constant, ir.IntegerAttr):
            raise UnreadableError(op, "a comparison of other than one size and a number")
        comparison = list(COMPARISONS)[ir.IntegerAttr(op.attributes["predicate"]).value]
        self._size_is(op, template, places[0], comparison, constant.value)

    def _size_is(self, op: ir.Operation, template: Template, place: Place, comparison: str, size: int) -> None:
        if isinstance(place, int):  # a stride or dilation, which the maps say
            if not COMPARISONS[comparison](place, size):
                raise UnreadableError(op, f"it never holds: the indexing maps say {place}")
            return
        argument, axis = place
        shape = template.result_dims
        if argument >= 0:
            shape = next((i.dims or () for i in template.inputs if i.position == argument), ())
        self._is(template, shape[axis], comparison, size)

    def _is(self, template: Template, axis: int, comparison: str, size: int) -> None:
        """A condition on a dim; of one that no input has, the result's type says what it is."""
        known = {template.axes.root(a) for each in template.inputs for a in each.dims or ()}
        if comparison == "==" and template.axes.root(axis) not in known:
            template.axes.fix(axis, size)
            return
        self.conditions.append(f"{template.dim(axis)} {comparison} {size}")

    def _typed(self, op: ir.Operation, template: Template) -> None:
        value = self._one(op)
        found = template.values.get(value) if isinstance(value, ir.Value) else None
        kind = ir.TypeAttr(op.attributes["target_type"]).value
        if found is None or not isinstance(kind, ir.RankedTensorType):
            raise UnreadableError(op, "a type of what is no tensor in the template")
        if found.element != str(kind.element_type) or len(found.axes) != kind.rank:
            raise UnreadableError(op, "it never holds: the template has another type there")
        for number, axis in enumerate(found.axes):
            if not kind.is_dynamic_dim(number):
                self._is(template, axis, "==", kind.get_dim_size(number))

    def _dim(self, op: ir.Operation, template: Template, value: Value, axis: int) -> str:
        found = template.values.get(value) if isinstance(value, ir.Value) else None
        if found is None or axis >= len(found.axes):
            raise UnreadableError(op, "a check of what is neither the result nor an operand in the template")
        return template.dim(found.axes[axis])

    # ---- checks of dims --------------------------------------------------------------------------------------------

    def _bounded(self, op: ir.Operation, dim_of: object) -> None:
        assert callable(dim_of)
        if op.name not in ("transform.iree.match.dim_bounds", "transform.iree.match.dim_is_multiple_of"):
            raise UnreadableError(op, "a check that patterns have no words for")
        dim = dim_of(self._one(op), ir.IntegerAttr(op.attributes["dim"]).value)
        if op.name == "transform.iree.match.dim_is_multiple_of":
            self.conditions.append(f"{dim} % {ir.IntegerAttr(op.attributes['size']).value} == 0")
        for name, comparison in (("lower_bound", ">="), ("upper_bound", "<=")):
            if name in op.attributes:
                self.conditions.append(f"{dim} {comparison} {ir.IntegerAttr(op.attributes[name]).value}")

    def _one(self, op: ir.Operation) -> Value:
        values = self.handles.get(op.operands[0])
        if not isinstance(values, tuple) or len(values) != 1:
            raise UnreadableError(op, "a check of a handle that stands for nothing known")
        found: Value = values[0]
        return found

    # ---- an op by its name -----------------------------------------------------------------------------------------

    def _by_name(self, ops: list[ir.Operation]) -> tuple[Template, list[str]]:
        root = self.block.arguments[0]
        named = [op for op in ops if op.name == _NAME and op.operands[0] == root]
        if not named:
            strange = next((op for op in ops if op.name.startswith("transform.iree.match.")), self.sequence)
            raise UnreadableError(strange, "a matcher with neither a template that can be read nor the name of an op")
        found = self.handles[root] = NamedOp(_names(named[0]), named[0])
        for op in named[1:]:
            found.names = _both(found.names, op)
        names: list[str] = []

        def dim_of(value: Value, axis: int) -> str:
            assert isinstance(value, Asked), "an op by name has no other values"
            if axis not in value.axes:
                value.axes[axis] = f"d{len(names)}"
                names.append(value.axes[axis])
            return value.axes[axis]

        for op in ops:
            of = self.handles.get(op.operands[0]) if len(op.operands) else None
            if op in named or self._navigates(op):
                continue
            if op.name == _NAME and isinstance(of, NamedOp):
                of.names = _both(of.names, op)
                continue
            if op.name == "transform.iree.match.cast_compatible_type":
                value = self._one(op)
                assert isinstance(value, Asked), "an op by name has no other values"
                value.kind = ir.TypeAttr(op.attributes["target_type"]).value
            elif op.name == _UNTUNED and isinstance(of, NamedOp):
                of.absent.append("lowering_config")
            elif op.name == _REGIONS and isinstance(of, NamedOp):
                of.body = _body_text(op)
            else:
                self._bounded(op, dim_of)
        return named_template(found), self.conditions


def _names(op: ir.Operation) -> tuple[str, ...]:
    return tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["op_names"]))


def _both(known: tuple[str, ...], op: ir.Operation) -> tuple[str, ...]:
    """The names that an op may have that is asked for its name once more."""
    found = tuple(name for name in _names(op) if name in known or known == (ANY,))
    if not found:
        raise UnreadableError(op, "it never holds: the op has another name")
    return found


def _body_text(op: ir.Operation) -> str:
    """What the one region of the op in a check of regions holds."""
    inner = op.regions[0].blocks[0].operations[0].operation if len(op.regions[0].blocks) else op
    if inner is op or len(inner.regions) != 1 or len(inner.regions[0].blocks) != 1:
        raise UnreadableError(op, "a check of regions that is no body of one block")
    lines = inner.get_asm(use_local_scope=True).splitlines()
    if not any(line.lstrip().startswith("^") for line in lines):
        lines = inner.get_asm(use_local_scope=True, print_generic_op_form=True).splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("^"))
    end = max(number for number, line in enumerate(lines) if line.lstrip().startswith("}"))
    return "\n".join(lines[start:end])


def named_template(named: NamedOp) -> Template:
    """The pattern of an op by its name. Raises UnreadableError for what patterns have no words for."""
    return _NamedTemplate(named).template()


class _NamedTemplate:
    """Ops by their names as a pattern in the making."""

    def __init__(self, root: NamedOp) -> None:
        self.root = root
        self.axes = Axes()
        self.known: dict[str, int] = {}
        self.inputs: list[Input] = []

    def template(self) -> Template:
        check_root(self.root.op, *self.root.names)
        called = self._called(self.root)
        self.inputs.sort(key=lambda each: each.position)
        return Template(self.inputs, [], called, (), "", self.axes, {}, {}, self.root.op)

    def _called(self, named: NamedOp, kind: Parts = ()) -> Parts:
        """A call of the op, with alternatives for its names. kind: the type that is written for it."""
        operands: dict[int, Parts] = {
            number: self._operand(asked) for (is_result, number), asked in named.values.items() if not is_result
        }
        words = [operands.get(number, ("_",)) for number in range(max(operands, default=-1) + 1)]
        given: Parts = tuple(part for word in words for part in (*word, ", "))
        asked = [f"!{name}" for name in dict.fromkeys(named.absent)]
        attributes = (
            f" {{{', '.join([*asked, '...'])}}}" if named.body is None else f" {{{', '.join(asked)}}}" * bool(asked)
        )
        body = "" if named.body is None else f" mlir {{\n{named.body}\n}}"
        found: Parts = ()
        for number, name in enumerate(named.names):
            found += (" | " * (number > 0), f'"{name}"(', *given, f"...){attributes}{body}", *kind)
        return found

    def _operand(self, asked: Asked) -> Parts:
        kind = asked.kind
        is_tensor = kind is None or isinstance(kind, ir.RankedTensorType)
        element = f"T{asked.position}" if kind is None else str(getattr(kind, "element_type", kind))
        dims = self._dims(asked) if is_tensor else None
        if asked.producer is None:
            name = f"x{asked.position}"
            unknown = kind is None
            self.inputs.append(Input(name, element, dims, asked.position, unknown, unknown))
            return (name,)
        if kind is None and asked.axes:
            raise UnreadableError(asked.producer.op, "a check of a dim of what an op makes whose type is not asked for")
        written = () if kind is None else type_parts(dims, element) if dims is not None else (f" : {element}",)
        return ("(", *self._called(asked.producer, written), ")")

    def _dims(self, asked: Asked) -> tuple[int, ...]:
        kind = asked.kind
        if isinstance(kind, ir.RankedTensorType):
            sizes = [None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]
        else:
            sizes = [None] * (max(asked.axes, default=-1) + 1)
        if max(asked.axes, default=-1) >= len(sizes):
            raise UnreadableError(self.root.op, "it never holds: a check of a dim that the type does not have")
        return tuple(self.axes.named(asked.axes.get(i), size, self.known) for i, size in enumerate(sizes))

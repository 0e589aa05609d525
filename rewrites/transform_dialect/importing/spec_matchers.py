"""A matcher of a transform spec: the pattern that its template or its op makes, and its checks as conditions."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.rewrites.transform_dialect.importing.by_name import (
    CONTRACTION,
    NAME,
    UNTUNED,
    ByName,
    names_of,
    navigates,
)
from opsplice.rewrites.transform_dialect.importing.contention import Shape
from opsplice.rewrites.transform_dialect.importing.handles import Handle, NamedOp, asked_of_dim, block_of, value_of
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.structured_matchers import MATCHERS, Place, Structured
from opsplice.rewrites.transform_dialect.importing.template import Draft, Reading, Template
from opsplice.spec_lang.dims.dim_conditions import COMPARISONS

_DAG = "transform.iree.match.cast_compatible_dag_from_root"


class Matcher:
    """A matcher. Raises UnreadableError from all of its methods for what patterns have no words for."""

    def __init__(self, sequence: ir.Operation, reading: Reading = Reading()) -> None:  # noqa: B008
        self.reading = reading
        self.sequence = sequence
        self.block = block_of(sequence)
        self.handles: dict[ir.Value, Handle] = {}
        # The sizes of a structured op that a parameter stands for.
        self.sizes: dict[ir.Value, tuple[Place, ...]] = {}
        self.conditions: list[str] = []
        self.structured: Structured | None = None  # holds the module of its template

    def read(self) -> Draft:
        ops = [op.operation for op in self.block.operations]
        roots = [op for op in ops if op.name == _DAG or (op.name in MATCHERS and not _is_any(op))]
        if len(roots) > 1:
            raise UnreadableError(roots[1], "a second template in a matcher")
        if not roots:
            return ByName(self.sequence, self.handles).read()
        template = self._template(roots[0])
        for op in ops:
            if op is not roots[0] and not navigates(op, self.handles):
                self._check(op, template)
        return template.draft(self.conditions)

    @property
    def root(self) -> Handle:
        """The op that is matched. Call it after `read`."""
        return self.handles[self.block.arguments[0]]

    def yielded(self) -> list[Handle | None]:
        """What the results of the matcher stand for."""
        return [self.handles.get(v) for v in last_op(self.block).operands]

    def shape(self) -> Shape:
        """Where it may hold. Call it after `read`."""
        if isinstance(self.root, NamedOp):
            return Shape(names=self.root.names)
        return Shape(self.root, structured=self.structured is not None, source=self.structured)

    def _template(self, op: ir.Operation) -> Template:
        if op.operands[0] != self.block.arguments[0]:
            raise UnreadableError(op, "a template of another op than the one that is matched")
        if op.name != _DAG:
            self.structured = found = MATCHERS[op.name](op)
            self.sizes.update(zip(op.results, found.dims, strict=True))
            self.handles[op.operands[0]] = found.roots[0].owner.operation
            return Template(
                found.block, found.roots, self.reading, by_name=found.by_name, any_type=frozenset(found.any_type)
            )
        body = op.regions[0].blocks[0]
        root = [each.operation for each in body.operations][-2]
        self.handles[op.operands[0]] = root
        self.handles[op.results[0]] = tuple(body.arguments)
        self.handles[op.results[1]] = (root.results[0],)
        return Template(body, (root.results[0],), self.reading)

    # ---- checks of a template --------------------------------------------------------------------------------------

    def _check(self, op: ir.Operation, template: Template) -> None:
        if op.name == "transform.iree.match.dims_equal":
            self._equal(op, template)
        elif op.name == "transform.match.param.cmpi":
            self._compared(op, template)
        elif op.name == "transform.iree.match.cast_compatible_type":
            self._typed(op, template)
        elif op.name == NAME:
            self._named(op)
        elif op.name == UNTUNED:
            self._untuned(op)
        else:
            self.conditions += asked_of_dim(op, lambda axis: self._dim(op, template, axis))

    def _named(self, op: ir.Operation) -> None:
        root = self.handles.get(op.operands[0])
        # A contraction is one under any name: patterns say what is computed.
        if self.structured is None and not (isinstance(root, ir.Operation) and root.name in names_of(op)):
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
        value = template.arguments[argument] if argument >= 0 else template.root.results[0]
        self._is(template, value, axis, comparison, size)

    def _is(self, template: Template, value: ir.Value, axis: int, comparison: str, size: int) -> None:
        """A condition on a dim; of one that no input has, the result's type says what it is."""
        if comparison == "==" and not template.is_of_input(value, axis):
            template.fix(value, axis, size)
            return
        self.conditions.append(f"{template.dim(value, axis)} {comparison} {size}")

    def _typed(self, op: ir.Operation, template: Template) -> None:
        value, kind = self._value(op), ir.TypeAttr(op.attributes["target_type"]).value
        if not isinstance(kind, ir.RankedTensorType):
            raise UnreadableError(op, "a type of what is not a tensor in the template")
        if str(value.type.element_type) != str(kind.element_type) or value.type.rank != kind.rank:
            raise UnreadableError(op, "it never holds: the template has another type there")
        for axis in range(kind.rank):
            if not kind.is_dynamic_dim(axis):
                self._is(template, value, axis, "==", kind.get_dim_size(axis))

    def _dim(self, op: ir.Operation, template: Template, axis: int) -> str:
        value = self._value(op)
        if axis >= value.type.rank:
            raise UnreadableError(op, "it never holds: a check of a dim that the template does not have there")
        return template.dim(value, axis)

    def _value(self, op: ir.Operation) -> ir.Value:
        value = value_of(op, self.handles)
        if not isinstance(value, ir.Value) or not isinstance(value.type, ir.RankedTensorType):
            raise UnreadableError(op, "a check of what is not a tensor in the template")
        return value


def _is_any(op: ir.Operation) -> bool:
    """Whether a matcher takes contractions whose operands lie in any way, which no template says."""
    return op.name == CONTRACTION and "indexing_maps" not in op.attributes

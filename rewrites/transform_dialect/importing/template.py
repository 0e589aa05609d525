"""The template of a matcher as a pattern: its computation lifted as captures are, its sizes as conditions on dims.

Every dim is a symbol, one for all axes that the ops make equal; where the template gives it a size, that is a condition
`n == 64`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.capture import pattern_text
from opsplice.matchers.capture.equal_axes import join_alike
from opsplice.matchers.capture.expressions import Captured, Contraction, Reduction, walk
from opsplice.matchers.capture.lift import lift
from opsplice.matchers.capture.naming import name as name_parts
from opsplice.matchers.capture.shared_parts import shared
from opsplice.matchers.capture.slices import Slice
from opsplice.matchers.ir.tensor_values import defining_op, element_type, shape_of
from opsplice.matchers.terms.terms import Index, Loop
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.transform_dialect.importing.handles import NAME_ONLY
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.spec_lang.linting.named_ops import unmatchable
from opsplice.spec_lang.syntax import vocabulary


@dataclass(frozen=True)
class Input:
    """A parameter of the pattern. dims: the names of a tensor's, None for a scalar. position: among arguments.

    variable: whether the element type is a type variable; open: whether any number of dims follows.
    """

    name: str
    element: str
    dims: tuple[str, ...] | None
    position: int
    variable: bool = False
    open: bool = False


@dataclass(frozen=True)
class Draft:
    """A pattern but for its name.

    body: its lets and what it ends with, as text. result_dims: names, "" for a dim without one. sizes: of dims that are
    known. arguments: the names of the dims of all arguments. starts: for arguments that reductions start from, by
    position, the neutral value of their op. op: the root, for messages. conditions: those besides the sizes.
    """

    inputs: Sequence[Input]
    body: str
    op: ir.Operation
    conditions: tuple[str, ...] = ()
    result_dims: tuple[str, ...] = ()
    result_element: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    arguments: Sequence[tuple[str, ...]] = ()
    starts: Mapping[int, float | int | None] = field(default_factory=dict)

    def of_result(self, number: int) -> Draft:
        """The same of another result of its root than the first."""
        names = [f"r{each}" for each in range(number + 1)]
        return dataclasses.replace(self, body=f"{', '.join(names)} = {self.body}\n{names[number]}")

    def text(self) -> str:
        """Its declaration, with `NAME` for its name. Raises UnreadableError for a condition on a dim of no input."""
        parameters = []
        for each in self.inputs:
            pack = [f"...r{each.position}"] * each.open
            shape = None if each.dims is None else " x ".join([*each.dims, *pack, each.element])
            parameters.append(f"{each.name}: {each.element if shape is None else f'tensor<{shape}>'}")
        dims = dict.fromkeys(dim for each in self.inputs for dim in each.dims or ())
        sizes = [each for each in self.conditions if not each.startswith(("lacks(", "bits(", "contracts("))]
        if any(each.split()[0] not in dims for each in sizes):
            raise UnreadableError(self.op, "a check of a dim that no input of the pattern has")
        where = [*self.conditions, *(f"{dim} == {self.sizes[dim]}" for dim in dims if dim in self.sizes)]
        variables = [each.element for each in self.inputs if each.variable]
        head = f"NAME<{', '.join(variables)}>" if variables else "NAME"
        joined = f" where {' and '.join(dict.fromkeys(where))}" if where else ""
        return f"pattern {head}({', '.join(parameters)}){joined} {{\n{self.body}\n}}"


@dataclass(frozen=True)
class Reading:
    """How a template is read.

    from_neutral: reductions that start from an argument are those that start from their op's neutral value. scalars:
    the arguments, tensors of rank 0, that the pattern has as scalars.
    """

    from_neutral: bool = False
    scalars: Set[int] = frozenset()


class Template:
    """The computation of a block that ends with `roots`, each another spelling of it.

    by_name: whether the root is looked for by its name. any_type: the arguments of which the element type is not looked
    at. Raises UnreadableError for what cannot be read.
    """

    def __init__(
        self,
        block: ir.Block,
        roots: Sequence[ir.Value],
        reading: Reading,
        *,
        by_name: bool = False,
        any_type: Set[int] = frozenset(),
    ) -> None:
        self.block = block
        self.root = roots[0].owner.operation
        self.reading = reading
        self.any_type = any_type
        self.views = Views()
        self.arguments = list(block.arguments)
        self.ops = [op.operation for op in block.operations]
        check_root(self.root, self.root.name)
        for value in self.arguments:
            if not isinstance(value.type, (ir.RankedTensorType, ir.FloatType, ir.IntegerType, ir.IndexType)):
                raise UnreadableError(block.owner, f"an argument of type {value.type}")
        self.captured = self._lifted(roots, by_name=by_name)
        self.names = name_parts(self.captured)
        self.axes = self.captured.axes.copy()  # those of the names, which learn no more of sizes

    def _is_tensor(self, position: int) -> bool:
        return isinstance(self.arguments[position].type, ir.RankedTensorType) and position not in self.reading.scalars

    def _slice(self, roots: Sequence[ir.Value], *, by_name: bool) -> Slice:
        bare = frozenset(v for op in self.ops for v in op.results if NAME_ONLY in op.attributes)
        return Slice(
            roots=tuple(roots),
            ops=frozenset(self.ops),
            inputs=frozenset(self.arguments),
            named=bare | frozenset(self.root.results if by_name else ()),
            bare=bare,
            tensors=frozenset(v for n, v in enumerate(self.arguments) if shape_of(v) == () and self._is_tensor(n)),
            is_template=True,
        )

    def _lifted(self, roots: Sequence[ir.Value], *, by_name: bool) -> Captured:
        with _without_ones([*self.arguments, *(value for op in self.ops for value in op.results)]) as ones:
            try:  # the hash of an op changes with its types, so that sets of ops are made here
                found = shared(lift(self.views, self._slice(roots, by_name=by_name), splitting=False))
            except OpspliceError as error:
                raise UnreadableError(self.root, str(error.message)) from None
            for stop in found.stops:
                raise UnreadableError(defining_op(stop.value) or self.root, stop.reason)
            for op in self.ops:
                join_alike(op, self.views.whole, found.axes)
            for number, (value, axis) in enumerate(ones):
                found.axes.join(self._loop(value, axis), Loop(-1 - number, 1))
        inputs = sorted(found.inputs, key=lambda each: self.arguments.index(each.value))
        return dataclasses.replace(found, inputs=tuple(inputs))

    # ---- dims -----------------------------------------------------------------------------------------------------

    def _loop(self, value: ir.Value, axis: int) -> Loop:
        found: Index = self.views.whole(value).indices[axis]
        assert isinstance(found, Loop), "no dim of a template is known to be of size one"
        return found

    def dim(self, value: ir.Value, axis: int) -> str:
        """The name of a dim, "" for one without."""
        dim = self.axes.dim(self._loop(value, axis))
        return self.names.dims.get(dim) or self.names.made.get(dim) or ""

    def is_of_input(self, value: ir.Value, axis: int) -> bool:
        return self.axes.dim(self._loop(value, axis)) in self.names.dims

    def fix(self, value: ir.Value, axis: int, size: int) -> None:
        """Give a dim that no input has a size."""
        loop = self._loop(value, axis)
        self.captured.axes.join(Loop(-loop.id, size), loop)

    # ---- text -----------------------------------------------------------------------------------------------------

    def draft(self, conditions: Sequence[str]) -> Draft:
        options = pattern_text.Options("NAME", from_neutral=self.reading.from_neutral, of_template=True)
        made = {self.captured.axes.dim(dim): name for dim, name in self.names.made.items()}
        names = dataclasses.replace(self.names, made=made)
        written = pattern_text.write(self.captured, names, options)
        result, *_ = self.captured.results
        lines = [*written.lets, " | ".join(written.results)]
        return Draft(
            inputs=[self._input(each.value, self.names.inputs[each]) for each in self.captured.inputs],
            body="\n".join(lines),
            op=self.root,
            conditions=tuple(conditions),
            result_dims=self._dims(self.root.results[0]),
            result_element=result.element,
            sizes={name: dim.size for dim, name in (*names.dims.items(), *names.made.items()) if dim.size},
            arguments=[self._dims(value) for value in self.arguments],
            starts={
                self.arguments.index(part.start): (
                    vocabulary.identity(part.combiner, part.element) if isinstance(part, Reduction) else 0
                )
                for part in walk(self.captured.results)
                if isinstance(part, (Contraction, Reduction)) and part.start is not None
            },
        )

    def _input(self, value: ir.Value, name: str) -> Input:
        position = self.arguments.index(value)
        element = f"T{position}" if position in self.any_type else element_type(value)
        dims = self._dims(value) if self._is_tensor(position) else None
        return Input(name, element, dims, position, variable=position in self.any_type)

    def _dims(self, value: ir.Value) -> tuple[str, ...]:
        return tuple(self.dim(value, axis) for axis in range(len(shape_of(value) or ())))


@contextmanager
def _without_ones(values: Sequence[ir.Value]) -> Iterator[list[tuple[ir.Value, int]]]:
    """Values with dims of unknown size for those of size one, which terms have no axes for; gives where these are."""
    kinds = {value: value.type for value in values if 1 in (shape_of(value) or ())}
    dynamic, anywhere = ir.ShapedType.get_dynamic_size(), ir.Location.unknown()
    for value, kind in kinds.items():
        shape = [dynamic if size == 1 else size for size in kind.shape]
        value.set_type(ir.RankedTensorType.get(shape, kind.element_type, kind.encoding, anywhere))
    try:
        yield [(value, axis) for value, kind in kinds.items() for axis, size in enumerate(kind.shape) if size == 1]
    finally:
        for value, kind in kinds.items():
            value.set_type(kind)


def check_root(op: ir.Operation, *names: str) -> None:
    """Raises UnreadableError for ops that no pattern has as its root. op: where they are asked for."""
    why = next(filter(None, (unmatchable(name, is_end=True) for name in names)), None)
    if why is not None:
        raise UnreadableError(op, f"no pattern finds it: {why}")

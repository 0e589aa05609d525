"""Lifts a slice of a program: from what each element is (`matchers.terms`) to expressions on whole tensors.

Each tensor that the program makes is lifted once, under axes of its own; where it is read under other indices it is
broadcast or transposed. Views of all kinds vanish on the way. What no expression says (a window, an index as a
number for anything but a mask, a reshape between two computations) ends the slice: the nearest tensor below it becomes
an input.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import field

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.capture.equal_axes import join_alike
from opsplice.matchers.capture.expressions import (
    Arrange,
    Axes,
    Band,
    Captured,
    Contraction,
    Elementwise,
    Input,
    Label,
    Number,
    Opaque,
    Part,
    Reduction,
    Stack,
    Stop,
    Taken,
    walk,
)
from opsplice.matchers.capture.opaque_ops import body_of, nameable, results_written, unreadable, written
from opsplice.matchers.capture.slice_terms import SliceTerms
from opsplice.matchers.capture.slices import Slice
from opsplice.matchers.ir.op_names import location_text
from opsplice.matchers.ir.tensor_values import defining_op, element_type, shape_of
from opsplice.matchers.search.whole_dims import AgainError, CannotSayError, Splits, Wholes, is_simple, loops
from opsplice.matchers.terms import constants
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.ops.parts_of_dims import STACK
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Apply,
    Constant,
    DimSize,
    Loop,
    LoopIndex,
    Reduce,
    Started,
    Sum,
    Term,
)
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import vocabulary

_PRODUCTS = {"arith.addf": ("arith.mulf", "arith.extf"), "arith.addi": ("arith.muli", "arith.extsi")}
_MAX_CUTS = 10_000
_LEAST_MEAN = 2


def lift(views: Views, part: Slice, *, splitting: bool = True) -> Captured:
    """Lift a slice. Raises OpspliceError where not even its last op can be said.

    splitting: whether a dim of a whole tensor may be several where the program reads it so.
    """
    cuts: dict[ir.Value, str] = {}
    named = set(part.named)
    splits: Splits | None = {} if splitting else None
    for _ in range(_MAX_CUTS):
        try:
            return _Lifter(SliceTerms(views, part, cuts, named, Wholes(views, splits))).run()
        except AgainError:
            continue
    raise OpspliceError("this part of the program is too large to capture", hint="say where it starts, with --inputs")


@dataclasses.dataclass(eq=False)
class _Lifter:
    """kept: terms, so that ids stay their own. sizes: numbers that are sizes, and where they are read."""

    terms: SliceTerms
    axes: Axes = field(default_factory=Axes)
    inputs: dict[ir.Value, Input] = field(default_factory=dict)
    wholes: dict[ir.Value, Part] = field(default_factory=dict)
    parts: dict[tuple[int, tuple[Loop, ...]], Part] = field(default_factory=dict)
    kept: list[Term] = field(default_factory=list)
    sizes: list[tuple[Number, ir.Value]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.views, self.tensors, self.slice = self.terms.views, self.terms.tensors, self.terms.slice
        self.cuts, self.named = self.terms.cuts, self.terms.named

    def run(self) -> Captured:
        results = tuple(self._root(value) for value in self.slice.roots)
        self._check_sizes(results)
        inputs = dict.fromkeys(part for part in walk(results) if isinstance(part, Input))
        stops = tuple(Stop(value, reason) for value, reason in self.cuts.items() if value in self.inputs)
        return Captured(results, tuple(inputs), self.axes, stops, is_split=bool(self.tensors.splits))

    # ---- whole values ---------------------------------------------------------------------------------------------

    def _root(self, value: ir.Value) -> Part:
        try:
            found = self._whole(value)
        except CannotSayError as reason:
            op = value.owner.operation
            raise OpspliceError(
                f"no pattern can describe this computation: {reason}",
                details=f"  {location_text(op)}",
                hint="point at an op below or above it",
            ) from None
        if isinstance(found, (Input, Number)):
            raise OpspliceError(f"nothing is computed at {location_text(value.owner.operation)}")
        return found

    def _whole(self, value: ir.Value) -> Part:
        """A value that the slice makes, under all of its axes."""
        if value not in self.wholes:
            self.wholes[value] = self._made(value)
        return self.wholes[value]

    def _made(self, value: ir.Value) -> Part:
        access = self.tensors.whole(value)
        frame = loops(access.indices)
        if value in self.named:
            return self._opaque(value, frame)
        try:
            step = self.views.expand(access)
            if step is None:
                raise CannotSayError(unreadable(value.owner.operation))
            return self._at(step.term, frame)
        except CannotSayError as reason:
            if not nameable(value, with_body=value in self.slice.roots):
                raise
            # One op gives all of its results.
            self.named.update(each for each in value.owner.operation.results if each in (value, *self.slice.roots))
            raise AgainError from reason

    def _input(self, value: ir.Value) -> Input:
        if value not in self.inputs:
            shape = shape_of(value)
            if shape is None:
                raise CannotSayError(f"it takes a value of type {value.type}")
            axes = loops(self.tensors.whole(value).indices)
            scalar = not shape and value not in self.slice.tensors
            self.inputs[value] = Input(value=value, axes=axes, element=element_type(value), scalar=scalar)
        return self.inputs[value]

    def _opaque(self, value: ir.Value, frame: tuple[Loop, ...]) -> Part:
        op = value.owner.operation
        number, count = ir.OpResult(value).result_number, len(op.results)
        made = Opaque(op=op, name=op.name, number=number, count=count, element=element_type(value), axes=frame)
        if value in self.slice.bare:
            return dataclasses.replace(made, rest=True)
        taken, rest = self._taken(op)
        args = tuple(map(self._operand, taken))
        meaning = None if self.slice.is_template else self._meaning(value, frame)
        body = body_of(op) or ""
        if body:
            join_alike(op, self.tensors.whole, self.axes)
        return dataclasses.replace(made, args=args, attributes=written(op), meaning=meaning, body=body, rest=rest)

    def _taken(self, op: ir.Operation) -> tuple[list[ir.Value], bool]:
        """The operands that an op by its name is looked for with, and whether it may have further ones.

        What a template's op writes to may be anything, but several results have their types from arguments.
        """
        operands = list(op.operands)
        count = results_written(op) if self.slice.is_template else 0
        if count > 1 and all(isinstance(value.owner, ir.Block) for value in operands[-count:]):
            count = 0
        return operands[: len(operands) - count], bool(count)

    def _meaning(self, value: ir.Value, frame: tuple[Loop, ...]) -> Part | None:
        """What an op by name computes from the same inputs, None if that cannot be said."""
        step = self.views.expand(self.tensors.whole(value))
        if step is None or self.tensors.fixed:
            return None
        cuts, named, inputs, self.tensors.fixed = dict(self.cuts), set(self.named), set(self.inputs), True
        try:
            found = self._at(step.term, frame)
        except (CannotSayError, AgainError):
            found = None
        finally:
            self.tensors.fixed = False
        is_known = self.cuts == cuts and self.named == named and set(self.inputs) == inputs
        self.cuts.clear()
        self.cuts.update(cuts)
        self.named.intersection_update(named)
        return found if is_known else None

    def _operand(self, value: ir.Value) -> Part:
        if shape_of(value) is None:
            raise CannotSayError(f"it takes a value of type {value.type}")
        access = self.tensors.whole(value)
        op = defining_op(value)
        if op is not None and op.name == "tensor.empty":  # only its shape counts, as that of a window
            return Opaque(op=op, name=op.name, element=element_type(value), axes=loops(access.indices))
        return self._at(access, loops(access.indices))

    # ---- terms ----------------------------------------------------------------------------------------------------

    def _at(self, term: Term, frame: tuple[Loop, ...]) -> Part:
        """A term as a part with the axes `frame`."""
        key = (id(term), frame)
        if key not in self.parts:
            self.kept.append(term)
            self.parts[key] = self._lifted(term, frame)
        return self.parts[key]

    def _lifted(self, term: Term, frame: tuple[Loop, ...]) -> Part:
        if isinstance(term, Access):
            return self._access(term, frame)
        if isinstance(term, Constant):
            return self._number(term)
        if isinstance(term, Started) and self._is_open(term.args[0]):
            return self._open(term, frame)
        band = self.terms.band(term, frame) if isinstance(term, Apply) else None
        if band is not None:
            return self._band(band, frame)
        if isinstance(term, (Apply, Reduce)):
            own = self._own(term, frame)
            if own != frame:
                return _under(self._at(term, own), own, frame)
            return self._apply(term, frame) if isinstance(term, Apply) else self._reduce(term, frame)
        if isinstance(term, DimSize):
            return self.terms.size(term, "index")
        raise CannotSayError("it uses an index as a number")

    def _own(self, term: Term, frame: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """The axes of a frame that a term depends on."""
        free = self.terms.axes(term)
        return tuple(axis for axis in frame if axis in free)

    def _number(self, term: Constant) -> Number:
        if isinstance(term.value, float) and math.isnan(term.value):
            raise CannotSayError("it holds the constant NaN")
        return Number(value=term.value, element=term.type)

    def _access(self, access: Access, frame: tuple[Loop, ...]) -> Part:
        value = access.value
        known = self.terms.constant(access)
        if known is not None:
            return self._number(known)
        size = self.terms.size_read(access)
        if size is not None:
            self.sizes.append((size, value))
            return size
        if self.terms.is_input(value):
            return self._arranged(self._input(value), access, frame)
        # The value could be an input only where its own indices can be said.
        can_start = is_simple(access.indices) and value not in self.slice.roots
        try:
            step = self.views.expand(access)
            if step is not None and isinstance(step.term, Access):
                return self._at(step.term, frame)
            return self._arranged(self._whole(value), access, frame)
        except CannotSayError as reason:
            if not can_start or value in self.cuts:
                raise
            raise self._cut(value, reason) from reason

    def _cut(self, value: ir.Value, reason: CannotSayError | str) -> AgainError:
        """Make a value an input, which the slice is then lifted with from the beginning."""
        self.cuts[value] = str(reason)
        return AgainError()

    def _arranged(self, part: Part, access: Access, frame: tuple[Loop, ...]) -> Part:
        """A whole value read at the indices of an access, under the axes `frame`."""
        if not is_simple(access.indices):
            self.tensors.refuse(access.indices)
        self.tensors.check_alike(self.tensors.whole(access.value).indices, access.indices)
        names = loops(access.indices)
        for axis, name in zip(part.axes, names, strict=True):
            self.axes.join(axis, name)
        return _under(part, names, frame)

    def _apply(self, term: Apply, frame: tuple[Loop, ...]) -> Part:
        if term.op == TAKE:
            return self._taken_at(term, frame)
        if term.op == STACK:
            return self._stack(term, frame)
        known = vocabulary.find(term.op)
        if known is None or known.full_name != term.op:
            raise CannotSayError(f"{term.op} is not an op of the language")
        # What a sum starts from is written behind it.
        given = reversed(term.args) if isinstance(term, Started) else term.args
        args = tuple(self._argument(arg, frame) for arg in given)
        if term.op in ("arith.divf", "arith.mulf"):
            args = tuple(_size_of_sum(term.op, number, args) for number in range(2))
        return Elementwise(op=term.op, args=args, attributes=term.attributes, element=term.type, axes=frame)

    def _band(self, term: Apply, frame: tuple[Loop, ...]) -> Part:
        *said, start, row, column = term.args
        axes = loops(tuple(each.index for each in (row, column) if isinstance(each, LoopIndex)))
        numbers = tuple(self._at(each, ()) for each in (*said, start) if each is not start or isinstance(each, Access))
        return _under(Band(args=numbers, element=numbers[2].element, axes=axes), axes, frame)

    def _taken_at(self, term: Term, frame: tuple[Loop, ...]) -> Part:
        """Elements at computed indices. The labels of the dims that these are in say their order."""
        found: dict[Loop, Term] = {}
        while isinstance(term, Apply) and term.op == TAKE:
            every, index = term.args
            assert isinstance(every, Reduce), "the elements of which one is taken"
            found[every.loops[0]] = index
            term = every.body
        inner = self.terms.order(term, (*self._own(term, frame), *found))
        source = self._at(term, inner)
        at = [found[label] for label in inner if label in found]
        orders = [self.terms.order(index, self._own(index, frame)) for index in at]
        args = (source, *(self._at(index, order) for index, order in zip(at, orders, strict=True)))
        return Taken(args=args, labels=(inner, *orders), element=source.element, axes=frame)

    def _stack(self, term: Apply, frame: tuple[Loop, ...]) -> Part:
        place, *parts = term.args
        assert isinstance(place, LoopIndex), "the number of a part"
        if place.index not in frame:
            self.tensors.refuse((place.index,))
        own = tuple(axis for axis in frame if axis != place.index)
        args = tuple(_under(self._at(part, at), at, own) for part in parts for at in (self._own(part, own),))
        return Stack(args=args, labels=(own,) * len(args), element=term.type, axes=frame)

    def _is_open(self, start: Term) -> bool:
        """Whether what a reduction of a template starts from is an argument, which stands for any value."""
        return self.slice.is_template and isinstance(start, Access) and isinstance(start.value.owner, ir.Block)

    def _open(self, term: Started, frame: tuple[Loop, ...]) -> Part:
        start, total = term.args
        assert isinstance(start, Access), "an argument, as `_is_open` says"
        own = self._own(total, frame)
        made = self._at(total, own)
        if not isinstance(made, (Reduction, Contraction)):
            raise CannotSayError("a value added to something that is not a reduction")
        return _under(dataclasses.replace(made, start=start.value), own, frame)

    def _argument(self, arg: Term, frame: tuple[Loop, ...]) -> Part:
        """An operand: under the whole frame, or a scalar."""
        at = self._own(arg, frame)
        part = self._at(arg, at)
        is_scalar = not at and not (isinstance(part, Input) and not part.scalar)
        return part if is_scalar else _under(part, at, frame)

    def _reduce(self, term: Reduce, frame: tuple[Loop, ...]) -> Part:
        term = self.tensors.reduction(term)
        if not all(loop in self.terms.axes(term.body) for loop in term.loops):
            raise CannotSayError("it sums over a dim of none of its inputs")
        product = self._product(term, frame)
        if product is not None:
            return product
        window = self.terms.window(term.body)
        if window is not None and self.tensors.fixed:
            labels: tuple[Label, ...] = tuple(i for i in window.indices if isinstance(i, (Loop, Sum)))
            arg = self._tensor(window)
        else:
            labels = inner = self.terms.order(term.body, (*frame, *term.loops))
            arg = self._at(term.body, inner)
        element = self.terms.element_type(term.body)
        return Reduction(combiner=term.combiner, args=(arg,), labels=(labels,), element=element, axes=frame)

    def _product(self, term: Reduce, frame: tuple[Loop, ...]) -> Contraction | None:
        """A sum of products over different axes, as a contraction; None for other reductions."""
        times, widen = _PRODUCTS.get(term.combiner, ("", ""))
        body = self.terms.maker(term.body)
        if not isinstance(body, Apply) or body.op != times:
            return None
        factors: list[tuple[Term, str]] = []
        for arg in body.args:
            seen = self.terms.maker(arg)
            wide = isinstance(seen, Apply) and seen.op == widen
            factors.append((seen.args[0], widen) if isinstance(seen, Apply) and wide else (arg, ""))
        if len({self.terms.element_type(factor) for factor, _ in factors}) > 1:
            factors = [(arg, "") for arg in body.args]  # a contraction has operands of one type
        needs = [self.terms.axes(factor) for factor, _ in factors]
        if not all(needs) or all(need == needs[0] for need in needs):
            return None
        args: list[Part] = []
        labels: list[tuple[Label, ...]] = []
        for (factor, _), need in zip(factors, needs, strict=True):
            window = self.terms.window(factor)
            order = self.terms.order(factor, tuple(axis for axis in (*frame, *term.loops) if axis in need))
            args.append(self._at(factor, order) if window is None else self._tensor(window))
            labels.append(order if window is None else tuple(i for i in window.indices if isinstance(i, (Loop, Sum))))
        widened = tuple(w for _, w in factors)
        return Contraction(args=tuple(args), labels=tuple(labels), widened=widened, element=body.type, axes=frame)

    def _tensor(self, access: Access) -> Part:
        """The whole tensor that an access reads in windows."""
        self.tensors.check_alike(self.tensors.whole(access.value).indices, access.indices)
        if self.terms.is_input(access.value):
            part: Part = self._input(access.value)
        else:
            try:
                part = self._whole(access.value)
            except CannotSayError as reason:
                raise self._cut(access.value, reason) from reason
        for axis, label in zip(part.axes, (i for i in access.indices if i != UNIT), strict=True):
            if isinstance(label, Loop):
                self.axes.join(axis, label)
        return part

    # ---- sizes as numbers -----------------------------------------------------------------------------------------

    def _check_sizes(self, results: tuple[Part, ...]) -> None:
        """A size that is read at run time must be that of an input's dim, or the number itself is an input."""
        known = {self.axes.dim(a) for part in walk(results) if isinstance(part, Input) for a in part.axes}
        for number, value in self.sizes:
            if any(self.axes.dim(axis) not in known for axis in number.of):
                raise self._cut(value, "it is the size of a dim that none of the inputs has")


# ---- pieces ------------------------------------------------------------------------------------------------------


def _under(part: Part, labels: tuple[Loop, ...], frame: tuple[Loop, ...]) -> Part:
    """A part whose axes are called `labels`, under the axes `frame`."""
    if labels == frame:
        return part
    kind = "transpose" if len(labels) == len(frame) else "broadcast"
    return Arrange(kind=kind, args=(part,), labels=(labels,), element=part.element, axes=frame)


def _size_of_sum(op: str, position: int, args: tuple[Part, ...]) -> Part:
    """An operand; where a sum is divided by the size of what it was taken over, a number that knows that it is one.

    So is the reciprocal that a sum is multiplied by.
    """
    number, total = args[position], args[1 - position]
    while isinstance(total, Arrange):
        (total,) = total.args
    if not isinstance(number, Number) or not isinstance(total, Reduction) or total.combiner != "arith.addf":
        return number
    count = math.prod(loop.size or 0 for loop in total.summed)
    if count < _LEAST_MEAN or (op == "arith.divf" and position == 0):
        return number
    wanted = count if op == "arith.divf" else 1 / count
    is_size = constants.same(wanted, number.value, number.element)
    return dataclasses.replace(number, of=total.summed) if is_size else number

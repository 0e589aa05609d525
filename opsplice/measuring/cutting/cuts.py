"""Matches cut out of a program: each as a function of its own that computes what the match does.

    %t = linalg.transpose %w              func.func @match_0(%x, %w, %out {iree.abi.output = 0}) {
    %m = linalg.matmul(%x, %t)      =>      %t = linalg.transpose %w
    %r = linalg.generic(%m, %b)             ...
                                          }

A function starts at the values that the kernel's buffers lie in, so that a strided kernel meets the same layouts there.
Its results go into buffers that the caller gives, whose surroundings the caller can watch.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.matchers.dims.equal_sizes import Classes
from opsplice.matchers.dims.extents import Extent, Total
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search import uses
from opsplice.matchers.search.matches import Match, flat
from opsplice.matchers.terms.ops.reshape_ops import before_reshapes
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting.records import Cut, Part, SymbolicSize
from opsplice.measuring.cutting.work import Work, elements, has_root
from opsplice.measuring.verifying.trials import normal
from opsplice.rewrites.ir import emit
from opsplice.rewrites.plan.actions import Action, Buffer, Insertion, KernelCall, Scalar
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.spec_lang.syntax import tree, vocabulary

# What no match accounts for and every function may have for itself.
_FREE = ("arith.constant", "tensor.empty", "linalg.fill", "tensor.dim", "tensor.from_elements", "util.assume.int")
# What makes sizes that are not sizes of the program's values.
_NUMBERS = ("arith.constant", "arith.index_cast")
# How many numbers a function may hold.
_MOST_WEIGHTS = 1 << 24
# The ops that may make a weight of others, and how many numbers, such as shifts, are kept as they are.
_MAKING, _MOST_KEPT = ("arith.", "linalg.", "tensor."), 16
# The whole numbers of weights: those of four bits, with a sign and without, and some that are clamped to these.
_WHOLE = (-8, 24)
# What the functions are called, with a number.
FUNCTION = "match_"


class CutError(Exception):
    """A match that is not a function of its own; the message says why."""


@dataclass(frozen=True)
class Piece:
    """What is cut out: the values that it starts from and makes, and the ops between. label: what makes it another
    computation than one with the same ops. match: where it is from, None for an op by itself. weights: the inputs that
    a rule wants to be constants: they are in the function, with other numbers. looked_into: those of them whose ops the
    pattern has a condition on.
    """

    inputs: tuple[ir.Value, ...]
    roots: tuple[ir.Value, ...]
    members: frozenset[ir.Operation]
    label: str
    match: Match | None = None
    weights: frozenset[ir.Value] = frozenset()
    looked_into: frozenset[ir.Value] = frozenset()

    @classmethod
    def of(cls, what: Action | Match | ir.Operation) -> Piece:
        """Of a match that is replaced, with the views around it; of a match alone; of an op."""
        if isinstance(what, Match):
            values = [bound.value for bound in what.inputs.values()]
            return cls(_inputs(values), what.roots, frozenset(what.ops) | _reshapes(values), what.pattern.name, what)
        if isinstance(what, (KernelCall, Insertion)):
            label = f"{what.rule.span} {what.rule.title}"
            weights = _inputs_asked(what.match, what.rule, _is_weight)
            seen = weights & _inputs_asked(what.match, what.rule, lambda part: isinstance(part, tree.Is))
            alone = dataclasses.replace(cls.of(what.match), label=label, weights=weights, looked_into=seen)
            alone = dataclasses.replace(alone, inputs=tuple(v for v in alone.inputs if v not in weights))
            if isinstance(what, Insertion) or weights or not _is_direct(what):
                return alone
            values = [a.value for a in what.arguments if isinstance(a, (Buffer, Scalar))]
            views = {view for buffer in what.strided for view in buffer.views}
            roots = tuple(output.root for output in what.made)
            members = alone.members | views | _reshapes(values)
            return dataclasses.replace(alone, inputs=_inputs(values), roots=roots, members=members)
        return cls.of_ops([what], tuple(what.results))

    @classmethod
    def of_ops(cls, ops: Sequence[ir.Operation], roots: tuple[ir.Value, ...]) -> Piece:
        """Of ops by themselves, which are given what they read of the others."""
        own = dict.fromkeys(inner for op in ops for inner in ops_in(op))
        read = [value for op in own for value in op.operands]
        return cls(_values(v for v in read if _is_given(v, own)), roots, frozenset(ops), "")


def _is_direct(call: KernelCall) -> bool:
    """Whether a kernel is given values of the program, and makes some, with nothing computed in between."""
    given = [a.value for a in call.arguments if isinstance(a, (Buffer, Scalar))]
    made = [output.root for output in call.made]
    return all(isinstance(value, ir.Value) for value in (*filter(None, given), *made))


def _inputs_asked(match: Match, rule: tree.Rule, is_asked: Callable[[Any], bool]) -> frozenset[ir.Value]:
    """The inputs of a match of which its rule or its pattern asks something, and not that it be otherwise."""
    asked = [part.value for part in tree.affirmed((rule.where, match.pattern.where)) if is_asked(part)]
    return frozenset(_inputs(match.inputs[name].value for name in asked if name in match.inputs))


def finite_inputs(what: Action) -> frozenset[ir.Value]:
    """The values that a kernel wants to be finite, and those that these are computed from."""
    if not isinstance(what, KernelCall):
        return frozenset()
    given = zip(what.kernel.parameters, what.rule.args, strict=True)
    asked = {parameter.name: argument for parameter, argument in given if parameter.type.finite}
    named = {part.name for part in tree.parts(tuple(asked.values())) if isinstance(part, tree.Name)}
    values = [each.value for each in what.arguments if isinstance(each, Buffer) and each.name in asked]
    values += [bound.value for name, bound in what.match.inputs.items() if name in named]
    return frozenset(_inputs(value for value in values if isinstance(value, ir.Value)))


def _is_weight(part: Any) -> bool:
    return isinstance(part, tree.Predicate) and part.name == "weight"


def _weight(kind: ir.Type, is_positive: bool = False) -> ir.Value:
    """A constant of a type, with the same numbers each time. Raises CutError where it cannot be written."""
    dtype = ELEMENT_TYPES.get(str(kind.element_type))
    if not kind.has_static_shape or dtype is None or vocabulary.bits(str(kind.element_type)) != 8 * dtype.itemsize:
        raise CutError(f"it has weights of type {kind}")
    if elements(kind) > _MOST_WEIGHTS:
        raise CutError("its weights are too large to be tried alone")
    generator = np.random.default_rng(elements(kind))
    whole = np.issubdtype(dtype, np.integer)
    made = generator.integers(*_WHOLE, kind.shape) if whole else normal(generator, kind.shape, is_positive)
    bits = np.ascontiguousarray(made.astype(dtype)).view(f"u{dtype.itemsize}")
    numbers = ir.DenseElementsAttr.get(bits, type=kind)
    return emit.value("arith.constant", [], kind, value=numbers)


def _values(values: Iterable[ir.Value | None]) -> tuple[ir.Value, ...]:
    return tuple(dict.fromkeys(value for value in values if value is not None))


def _inputs(values: Iterable[ir.Value | None]) -> tuple[ir.Value, ...]:
    """What a function is given for some values: what they are reshaped from, where a match may have its dims alone."""
    return _values(value if value is None else _unshaped(value) for value in values)


def _reshapes(values: Iterable[ir.Value | None]) -> frozenset[ir.Operation]:
    """The ops between what a function is given for some values and these."""
    found: set[ir.Operation] = set()
    for value in filter(None, values):
        first = _unshaped(value)
        while value != first and (op := defining_op(value)) is not None:
            found.add(op)
            value = op.operands[0]
    return frozenset(found)


def _unshaped(value: ir.Value) -> ir.Value:
    """What a value of known sizes is reshaped from, itself where it is not."""
    first = before_reshapes(value)
    known = all(isinstance(v.type, ir.RankedTensorType) and v.type.has_static_shape for v in (value, first))
    return first if known else value


def _is_given(value: ir.Value, own: Container[ir.Operation]) -> bool:
    """Whether an op by itself is given a value, that is, nothing that every function may have."""
    if isinstance(value.owner, ir.Block):
        return value.owner.owner.operation not in own and not isinstance(value.type, ir.IndexType)
    maker = value.owner.operation
    return maker not in own and maker.name not in _FREE and not _is_small(maker)


@dataclass
class _Cutter:
    """One match on its way into a function. copies: the values of the function by those of the program.

    beside: how many ops may go with it that are not its own, such as those of weights that a match looks through.
    ones: open sizes of the program that are 1 in the function. given: the symbols that are
    sizes of the program's inputs.
    """

    piece: Piece
    views: Views
    name: str = ""
    copies: dict[Any, ir.Value] = field(default_factory=dict)
    beside: int = 4
    ones: set[Any] = field(default_factory=set)
    given: dict[str, tuple[int, int]] = field(default_factory=dict)

    def function(self, name: str) -> ir.Operation:
        """The function without its body, at the current insertion point. Raises CutError."""
        inputs, roots = self.piece.inputs, self.piece.roots
        for value in (*inputs, *roots):
            if not isinstance(value.type, (ir.RankedTensorType, ir.FloatType, ir.IntegerType)):
                raise CutError(f"it has a value of type {value.type}")
        kinds = [value.type for value in (*inputs, *roots)]
        results = [root.type for root in roots]
        attributes = {
            "sym_name": emit.text(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, results)),
            "arg_attrs": ir.ArrayAttr.get([*([ir.DictAttr.get({})] * len(inputs)), *map(_output, range(len(roots)))]),
        }
        self.name = f"@{name}"
        function: ir.Operation = emit.op("func.func", attributes=attributes, regions=1).operation
        function.regions[0].blocks.append(*kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
        return function

    def fill(self, function: ir.Operation) -> None:
        """Write the body of the function. Raises CutError."""
        (block,) = function.regions[0].blocks
        self.copies = dict(zip(self.piece.inputs, block.arguments, strict=False))
        members, roots = self.piece.members, self.piece.roots
        with ir.InsertionPoint(block):
            for weight in self.piece.weights:
                if weight in self.piece.looked_into:
                    self._make(weight)
                else:
                    self.copies[weight] = _weight(weight.type, has_root(weight))
            for root in roots:
                self._copy(root, members)
            emit.op("func.return", [self.copies[root] for root in roots])

    def _copy(self, value: ir.Value, members: frozenset[ir.Operation]) -> None:
        """Copy what makes a value, unless it is there. Recursion is as deep as the match."""
        if value in self.copies:
            return
        op = defining_op(value)
        if isinstance(value.type, ir.IndexType) and (op is None or op.name not in _NUMBERS):
            self.copies[value] = self._computed(self.views.extent(value))
            return
        is_own = op is not None and (op in members or op.name in _FREE or _is_small(op))
        if not is_own and op is not None and op.name.startswith(("linalg.", "tensor.")) and self.beside:
            self.beside, is_own = self.beside - 1, True
        if op is None or not is_own:
            raise CutError(f"it reads {value.type} from {op.name if op else 'an argument'}, which is not an input")
        for operand in uses.taken_by(op):
            self._copy(operand, members)
        emit.copy(op, self.copies)

    def _make(self, weight: ir.Value) -> None:
        """Copy the ops that make a weight, with other numbers where these are many. Recursion is as deep as the ops."""
        if weight in self.copies:
            return
        op = defining_op(weight)
        if op is None or not op.name.startswith(_MAKING) or (op.name == "arith.constant" and _is_large(weight.type)):
            self.copies[weight] = _weight(weight.type, has_root(weight))
            return
        for operand in uses.taken_by(op):
            self._make(operand)
        emit.copy(op, self.copies)

    def _computed(self, wanted: Extent) -> ir.Value:
        """A size of the program, computed from those of the inputs. Raises CutError if these do not say it."""
        found = self._read(wanted)
        if found is not None:
            return found
        ordered = sorted(wanted.atoms, key=lambda each: _size_key(each[0]))
        sizes = [self._atom(a) for a, power in ordered for _ in range(power)]
        factors = [size for size in sizes if size is not None]
        if wanted.factor != 1 or not factors:
            factors.insert(0, emit.index(wanted.factor))
        return functools.reduce(emit.times, factors)

    def _read(self, wanted: Extent) -> ir.Value | None:
        """A size that an input has."""
        sizes = (emit.dim(copy, axis) for extent, copy, axis in self._extents() if extent == wanted)
        return next(sizes, None)

    def _extents(self) -> Iterator[tuple[Extent, ir.Value, int]]:
        """The open sizes of the inputs, each with its place."""
        for given, copy in list(self.copies.items()):
            if isinstance(given.type, ir.RankedTensorType) and isinstance(copy.owner, ir.Block):
                for axis in range(given.type.rank):
                    if given.type.is_dynamic_dim(axis):
                        yield self.views.extent(DimSize(given, axis)), copy, axis

    def _atom(self, atom: Any) -> ir.Value | None:
        """A size that the program computes from no other, None for 1. Of those that inputs have in a product only, the
        last one is the product, and the others are 1.
        """
        if atom in self.ones:
            return None
        found = self._read(Extent.of(atom))
        if found is not None:
            return found
        if isinstance(atom, Total):
            return functools.reduce(emit.plus, map(self._computed, sorted(atom.terms, key=str)))
        for extent, copy, axis in self._extents():
            others = {each for each, _ in extent.atoms if each != atom and each not in self.ones}
            if extent.factor != 1 or (atom, 1) not in extent.atoms:
                continue
            if not others:
                return emit.dim(copy, axis)
            if all(self._read(Extent.of(each)) is None for each in others):
                self.ones.add(atom)  # what is asked for first, such as the size of a batch
                return None
        raise CutError("the size of a value is computed elsewhere in the program")

    def parts(self) -> tuple[Part, ...]:
        """What the function takes."""
        classes = Classes(self._equal())
        return tuple(self._part(value, classes) for value in self.piece.inputs)

    def results(self) -> tuple[Part, ...]:
        classes = Classes(self._equal())
        return tuple(self._part(value, classes) for value in self.piece.roots)

    def _part(self, value: ir.Value, classes: Classes) -> Part:
        if not isinstance(value.type, ir.RankedTensorType):
            return Part(str(value.type), None)
        kind = value.type
        sizes: list[int | SymbolicSize] = []
        for axis in range(kind.rank):
            if not kind.is_dynamic_dim(axis):
                sizes.append(kind.get_dim_size(axis))
                continue
            extent = self.views.extent(DimSize(value, axis))
            known = [(atom, power) for atom, power in extent.atoms if atom not in self.ones]
            atoms = sorted((self._symbol(atom, classes), power) for atom, power in known)
            sizes.append(SymbolicSize(extent.factor, tuple(atoms)) if atoms else extent.factor)
        return Part(str(kind.element_type), tuple(sizes))

    def _symbol(self, atom: Any, classes: Classes) -> str:
        symbol = str(classes.first(_size_key(atom)))
        maker = defining_op(atom) if isinstance(atom, ir.Value) else None
        if maker is not None and maker.name == "hal.buffer_view.dim" and isinstance(maker.operands[0].owner, ir.Block):
            axis = ir.IntegerAttr(maker.attributes["index"]).value
            self.given[symbol] = ir.BlockArgument(maker.operands[0]).arg_number, axis
        return symbol

    def _equal(self) -> Iterator[tuple[str, str]]:
        """The sizes that the pattern says are one, as far as each is an atom."""
        match = self.piece.match
        if match is None:
            return
        for name, bound in match.inputs.items():
            sizes = flat(s for s in match.shapes.get(name, ()) for s in (s if isinstance(s, tuple) else (s,)))
            kind = None if bound.value is None else bound.value.type
            if not isinstance(kind, ir.RankedTensorType) or kind.rank != len(sizes):
                continue
            yield from self._alike(bound.value, sizes)
        for root, sizes in zip(match.roots, match.root_sizes, strict=True):
            if isinstance(root.type, ir.RankedTensorType) and root.type.rank == len(sizes):
                yield from self._alike(root, sizes)
        named: dict[str, list[Any]] = {}
        for parameter in match.pattern.parameters:
            dims = parameter.type.dims if isinstance(parameter.type, tree.TensorType) else ()
            for dim, size in zip(dims, match.shapes.get(parameter.name, ()), strict=False):
                known = named.setdefault(dim.name or "", own := [*flat((size,))])
                if dim.name and len(known) == len(own):
                    for pair in zip(known, own, strict=True):
                        yield from self._same(*pair)

    def _alike(self, value: ir.Value, sizes: Sequence[Any]) -> Iterator[tuple[str, str]]:
        for axis, size in enumerate(sizes):
            yield from self._same(DimSize(value, axis), size)

    def _same(self, one: Any, other: Any) -> Iterator[tuple[str, str]]:
        if isinstance(one, DimSize) and isinstance(other, DimSize):
            left, right = self.views.extent(one).atom, self.views.extent(other).atom
            if left is not None and right is not None:
                yield _size_key(left), _size_key(right)


def _output(number: int) -> ir.Attribute:
    return ir.DictAttr.get({"iree.abi.output": ir.IntegerAttr.get(ir.IndexType.get(), number)})


def _is_large(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and elements(kind) > _MOST_KEPT


def _is_small(op: ir.Operation) -> bool:
    """Whether an op computes a number."""
    return op.name.startswith(("arith.", "math.")) and not isinstance(op.results[0].type, ir.ShapedType)


class Cuts:
    """A module of cut-out matches, each a function `@match_N`."""

    def __init__(self, context: ir.Context) -> None:
        emit.load_dialects(context)
        self.context = context
        with ir.Location.unknown(context):
            self.module = ir.Module.create()
        self.known: dict[str, Cut] = {}

    def add(
        self, what: Piece | Action | Match | ir.Operation, views: Views, width: float = 0.0
    ) -> tuple[Cut, list[ir.Value]]:
        """A piece as a function, and the values that it is given in the program. Raises CutError.

        The same computation by the same rule is one function. what: a match that is replaced, one alone, or an op.
        width: of the ranges of its pattern.
        """
        cutter = _Cutter(what if isinstance(what, Piece) else Piece.of(what), views)
        with self.context, ir.Location.unknown(), ir.InsertionPoint(self.module.body):
            function = cutter.function(f"{FUNCTION}{len(self.known)}")
            try:
                cutter.fill(function)
                if not function.verify():
                    raise CutError("MLIR refuses it as a function of its own")
            except (CutError, ir.MLIRError) as failure:
                function.erase()
                raise CutError(str(failure)) from None
        text = function.get_asm(use_local_scope=True).replace(cutter.name, "@match", 1)
        digest = hashlib.sha256(f"{cutter.piece.label}\n{text}".encode()).hexdigest()
        if digest in self.known:
            function.erase()
            return self.known[digest], [*cutter.piece.inputs]
        inputs, results = cutter.parts(), cutter.results()
        work = Work.of(function, inputs)
        names = cutter.name[1:], inputs, results, work.longest_sum, digest
        made = Cut(
            *names,
            work.operations,
            width,
            sparse=work.sparse,
            positive=work.positive,
            given=cutter.given,
            held=work.held,
        )
        self.known[digest] = made
        return made, [*cutter.piece.inputs]

    def text(self) -> str:
        """All functions as MLIR."""
        return str(self.module)


def _size_key(atom: Any) -> str:
    """A name for what a size is read from, the same for the same value."""
    if isinstance(atom, Total):
        terms = ((t.factor, sorted((_size_key(each), power) for each, power in t.atoms)) for t in atom.terms)
        return " + ".join(sorted(map(str, terms)))
    value, axis = (atom.value, atom.axis) if isinstance(atom, DimSize) else (atom, "")
    owner = value.owner
    if isinstance(owner, ir.Block):
        return f"argument {ir.BlockArgument(value).arg_number} {axis}"
    return f"{value.get_name()} {axis}"

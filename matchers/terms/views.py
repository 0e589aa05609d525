"""Canonical views: what a payload op computes, as a term.

`Views.expand(access)` reads one level of the program: the term that makes the element of a value at given indices, or
None where the value is opaque (an argument, an op that this module does not know). Named linalg ops, `linalg.generic`
under any loop order, elementwise ops on tensors, broadcasts, transposes and reshapes all come to the same terms (see
`matchers.terms`). It reads the program and changes nothing; it knows nothing of patterns.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.dims.size_reader import SizeReader
from opsplice.matchers.ir.tensor_values import defining_op, element_type, shape_of
from opsplice.matchers.terms.attributes import rounds_to_nearest
from opsplice.matchers.terms.canonical import (
    BECOMES,
    NEUTRAL,
    READ_ANEW,
    READ_AS,
    SUMS_AS,
    canonical,
    constant,
    readings,
    sum_as,
    unchanged,
)
from opsplice.matchers.terms.loop_bodies import Body
from opsplice.matchers.terms.ops.bands import BAND, bands
from opsplice.matchers.terms.ops.composite_ops import attention, dequantized, quantized, softmax
from opsplice.matchers.terms.ops.constant_ops import FRONTEND_CONSTANTS, constant_of, may_be_number
from opsplice.matchers.terms.ops.index_reductions import ARG_COMPARE, compared
from opsplice.matchers.terms.ops.parts_of_dims import OF_PARTS, joints, part_read, sizes_along
from opsplice.matchers.terms.ops.reshape_ops import regrouped, reshaped
from opsplice.matchers.terms.ops.structured_ops import Structured, attributes_of, loops_of_output
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Apply,
    Constant,
    DimSize,
    Index,
    Loop,
    LoopIndex,
    Part,
    Parts,
    Reduce,
    Sized,
    Term,
    flatten,
    mentions,
    moved,
    replaced,
    split,
)

# A program that nests deeper in ops with other forms than this keeps the form that it has.
_MAX_LOOKS = 16
_K = TypeVar("_K")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Users:
    """The ops that use a value, in place of the one that makes it."""

    value: ir.Value


# What was read, in order, as a dict: one that is added to another brings its hashes along.
Reads = dict[ir.Value | Users, None]


@dataclass(frozen=True)
class Step:
    """One level of expansion: the term, and the payload ops that were read."""

    term: Term
    ops: tuple[ir.Operation, ...] = ()


@dataclass(frozen=True)
class Origin:
    """The op that makes a term as its result `number`; args: for one in a body the terms of its operands."""

    term: Term
    op: ir.Operation
    number: int
    args: tuple[Term, ...]


class Views:
    """Views of one module. Terms are memoised, so an op is read once for each way that it is looked at.

    reads: the values whose defining ops or users were read, in order of the first look at each, since it was last
    cleared: what is found from terms depends on nothing else but on which operands of these ops may be numbers, and
    which are put together from others. Every read of an op must be noted there.
    """

    def __init__(self) -> None:
        self.reads: Reads = {}
        self.weights: dict[ir.Value, bool] = {}  # see `uses.is_weight`
        self.numbers: dict[ir.Value, bool] = {}  # see `may_be_number`
        self.apart: dict[ir.Value, bool] = {}  # see `is_apart`
        self._steps: dict[Access, tuple[Step | None, Reads]] = {}
        self._readings: dict[tuple[Term, str], tuple[tuple[Apply, ...], Reads]] = {}
        self._others: dict[tuple[Hashable, ...], Apply] = {}
        self._unchanged: dict[Apply, tuple[Term | None, Reads]] = {}
        self._wholes: dict[ir.Value, Access] = {}
        self._roots: dict[ir.Value, Access] = {}
        self._root_loops: dict[tuple[int, int | Extent], Index] = {}
        self._sizes = SizeReader()
        self._below: dict[tuple[Term, Hashable], tuple[Any, Reads]] = {}
        self._split: dict[tuple[Access, Loop, tuple[Sized, ...]], Access] = {}
        self._finer: dict[tuple[Reduce, Loop, tuple[Sized, ...]], Reduce | None] = {}
        self._merged: dict[Reduce, Reduce | None] = {}
        self._extents: dict[DimSize | ir.Value, tuple[Extent, Reads]] = {}
        self._inner: dict[Term, ir.Value] = {}
        self._origins: dict[int, Origin] = {}  # by identity: equal constants are made by many ops
        self._structured: dict[ir.Operation, Structured | None] = {}
        self._elements: dict[ir.Value, str] = {}
        self._loops = self._looking = 0

    # ---- entry points ---------------------------------------------------------------------------------------------

    def whole(self, value: ir.Value) -> Access:
        """The access to a value with a loop of its own for each dim."""
        if value not in self._wholes:
            self._wholes[value] = Access(value, tuple(self.fresh(size) for size in sizes_along(value)))
        return self._wholes[value]

    def root(self, value: ir.Value) -> Access:
        """The access to the result that a search starts at. Dims of equal sizes have the same loops at every root, axis
        by axis, so that what one search reads is known to those for other results that are made of it."""
        if value not in self._roots:
            self._roots[value] = Access(value, tuple(itertools.starmap(self._of_root, enumerate(sizes_along(value)))))
        return self._roots[value]

    def _of_root(self, axis: int, size: int | DimSize) -> Index:
        key = axis, self._sizes.noting({}).of(size) if isinstance(size, DimSize) else size
        if key not in self._root_loops:
            self._root_loops[key] = self.fresh(None if isinstance(size, DimSize) else size)
        return self._root_loops[key]

    def split(self, access: Access, index: Loop, parts: Parts) -> Access:
        """An access with several loops in place of one of its loops."""
        key = (access, index, parts.sizes)
        if key not in self._split:
            whole = flatten(tuple(map(self.fresh, parts.dims)), parts.sizes)
            self._split[key] = Access(access.value, tuple(replaced(i, index, whole) for i in access.indices))
        return self._split[key]

    def split_reduction(self, term: Reduce, loop: Loop, parts: Parts) -> Reduce | None:
        """A reduction over several loops in place of one; None where its body does more than read at that loop."""
        key = (term, loop, parts.sizes)
        if key not in self._finer:
            finer = tuple(map(self.fresh, parts.dims))
            runs = (each for own in term.loops for each in (finer if own == loop else (own,)) if isinstance(each, Loop))
            self._finer[key] = self._reduced_anew(term, tuple(runs), {loop: flatten(finer, parts.sizes)})
        return self._finer[key]

    def merge_reduction(self, term: Reduce) -> Reduce | None:
        """A reduction over one loop in place of several of known sizes; None where its body does more than read."""
        sizes = tuple(loop.size or 0 for loop in term.loops)
        if term not in self._merged:
            whole = UNIT if 0 in sizes else self.fresh(math.prod(sizes))
            places = dict(zip(term.loops, split(whole, sizes), strict=True))
            self._merged[term] = self._reduced_anew(term, (whole,), places) if isinstance(whole, Loop) else None
        return self._merged[term]

    def _reduced_anew(self, term: Reduce, loops: tuple[Loop, ...], places: dict[Loop, Index]) -> Reduce | None:
        body: Term | None = term.body
        for loop, place in places.items():
            body = None if body is None else self._at_other(body, loop, place)
        return None if body is None else self._alike(term, dataclasses.replace(term, loops=loops, body=body))

    def _at_other(self, term: Term, loop: Loop, other: Index) -> Term | None:
        """A term with another index in place of a loop."""
        if isinstance(term, Access):
            indices = tuple(replaced(index, loop, other) for index in term.indices)
            return None if any(mentions(index, loop) for index in indices) else Access(term.value, indices)
        if isinstance(term, Apply):
            args = tuple(made for arg in term.args if (made := self._at_other(arg, loop, other)) is not None)
            return None if len(args) < len(term.args) else self._alike(term, dataclasses.replace(term, args=args))
        if isinstance(term, Reduce):
            body = self._at_other(term.body, loop, other)
            return None if body is None else self._alike(term, dataclasses.replace(term, body=body))
        return None if isinstance(term, LoopIndex) and mentions(term.index, loop) else term

    def _alike(self, term: Term, made: Reduce | Apply) -> Any:
        """A term that is made from the same scalar of a body as another."""
        if term in self._inner:
            self._inner[made] = self._inner[term]
        return made

    def remembered(self, term: Term, how: Hashable, read: Callable[[], Any]) -> Any:
        """What one function reads below a term. how: what else that depends on, which no other function uses."""
        return self._kept(self._below, (term, how), read, *((term.value,) if isinstance(term, Access) else ()))

    def expand(self, access: Access) -> Step | None:
        """One level down, or None if the value is opaque."""
        known = self._steps.get(access)
        if known is None:
            return self._kept(self._steps, access, lambda: self._read(access), access.value)
        self.reads.update(known[1])
        return known[0]

    def _kept(self, table: dict[_K, tuple[_T, Reads]], key: _K, read: Callable[[], _T], *first: ir.Value) -> _T:
        """What `read` gives, from a table where it is there; either way what was read for it counts as read."""
        known = table.get(key)
        if known is None:
            outer, self.reads = self.reads, dict.fromkeys(first)
            try:
                known = table[key] = read(), self.reads
            finally:
                self.reads = outer
        self.reads.update(known[1])
        return known[0]

    def forget(self) -> None:
        """Drop what is memoised, to bound memory: terms that are held elsewhere stay good."""
        tables: tuple[dict[Any, Any], ...] = (
            *(self._steps, self._readings, self._others, self._unchanged, self._wholes, self._roots, self._split),
            *(self._below, self._extents, self._inner, self._origins, self._structured, self._elements, self.reads),
        )
        for table in tables:
            table.clear()

    def __len__(self) -> int:
        return len(self._steps)

    def resolve(self, term: Term, *, as_number: bool = False) -> Term:
        """Follow accesses down to the op, constant or opaque value that makes the element.

        as_number: where that cannot be a number nothing is read.
        """
        if as_number and isinstance(term, Access) and not may_be_number(term.value, self.numbers):
            return term
        while isinstance(term, Access):
            step = self.expand(term)
            if step is None:
                return term
            term = step.term
        return term

    def readings(self, term: Term, wanted: str) -> tuple[Apply, ...]:
        """The term as ops of the name `wanted`: itself if it is one, else its other spellings; () if there are none."""
        if isinstance(term, Apply) and term.op == wanted and wanted not in READ_ANEW:
            return (term,)
        if wanted == BAND:
            return self._kept(self._readings, (term, wanted), lambda: bands(term, self.resolve))
        if isinstance(term, Reduce) and wanted == term.combiner:
            return self._kept(self._readings, (term, wanted), lambda: self._in_parts(term))
        if isinstance(term, Apply) and wanted in READ_AS.get(term.op, ()):
            return self._kept(self._readings, (term, wanted), lambda: readings(term, wanted, self.resolve, self._other))
        if isinstance(term, Reduce) and wanted in SUMS_AS:
            return self._kept(self._readings, (term, wanted), lambda: sum_as(term, wanted, self.resolve, self.expand))
        return ()

    def _other(self, op: str, args: tuple[Term, ...], attributes: tuple[tuple[str, str], ...], kind: str) -> Apply:
        """The op of another spelling: one for all that are spelled the same, of what the same ops make."""
        key = (op, *(self.origin(arg) or arg for arg in args), attributes, kind)
        return self._others.setdefault(key, Apply(op, args, attributes, kind))

    def _in_parts(self, term: Reduce) -> tuple[Apply, ...]:
        """A reduction over what tensors are put together along, as those over each of them; none if it is no such."""
        for loop in term.loops:
            start, made = Extent(0), None
            for size in joints(term.body, loop, self.expand, self._note, self.apart):
                part = self.fresh(size)
                body = self._at_other(term.body, loop, moved(part, 1, start if start.atoms else start.factor))
                if body is None:
                    return ()
                loops = tuple(each for own in term.loops if isinstance(each := part if own == loop else own, Loop))
                summed: Term = Reduce(term.combiner, loops, body) if loops else body
                made = summed if made is None else Apply(term.combiner, (made, summed), (), self._element_of(body))
                start += self.extent(size)
            if isinstance(made, Apply):
                return (made,)
        return ()

    def _element_of(self, term: Term) -> str:
        return element_type(term.value) if isinstance(term, Access) else getattr(term, "type", "")

    def unchanged(self, term: Term) -> Term | None:
        """What a term is by another name: x of `addf(x, 0.0)` and the like, or of a slice. None for other terms."""
        if not isinstance(term, Apply) or term.op not in NEUTRAL:
            return None
        return self._kept(self._unchanged, term, lambda: unchanged(term, self.resolve))

    def constant(self, term: Term) -> Constant | None:
        """The number that a term is, arithmetic on numbers included; None if it is not known to be one."""
        return constant(term, self.resolve)

    def extent(self, size: int | Extent | DimSize | ir.Value) -> Extent:
        """A number, how large a dim is that is known at run time only, or a whole number that the program computes."""
        if isinstance(size, (int, Extent)):
            return Extent(size) if isinstance(size, int) else size
        return self._kept(self._extents, size, lambda: self.sizes().of(size))

    def sizes(self) -> SizeReader:
        """What reads sizes, which counts as read."""
        return self._sizes.noting(self.reads)

    def inner(self, term: Term) -> ir.Value | None:
        """The scalar that a term was read from in the body of an op with several results; None for other terms."""
        return self._inner.get(term)

    def note(self, term: Term, op: ir.Operation, number: int, args: tuple[Term, ...]) -> None:
        """Keep which op in the body of a structured op has made a term as its result `number`, and of what."""
        self._origins.setdefault(id(term), Origin(term, op, number, args))

    def element_type(self, value: ir.Value) -> str:
        """The element type of a value, which takes long to ask for."""
        if value not in self._elements:
            self._elements[value] = element_type(value)
        return self._elements[value]

    def origin(self, term: Term) -> Origin | None:
        """Which op in a body has made a term, and of what."""
        return self._origins.get(id(term))

    def maker(self, term: Term) -> ir.Operation | None:
        """The op in a body that has made a term."""
        known = self.origin(term)
        return None if known is None else known.op

    def elements(self, op: ir.Operation, indices: tuple[Index, ...]) -> tuple[Access, ...]:
        """What an op on tensors, element by element, makes its element at some indices of."""
        # A scalar operand of a tensor op (arith.select's condition) is read without indices.
        return tuple(Access(v, indices if isinstance(v.type, ir.RankedTensorType) else ()) for v in op.operands)

    # ---- reading ops ----------------------------------------------------------------------------------------------

    def fresh(self, size: int | DimSize | None) -> Index:
        """A new index for a dim of `size`, of one that is known at run time only, or of the size that a tensor has."""
        if size == 1:
            return UNIT
        self._loops += 1
        return Loop(self._loops, None, size) if isinstance(size, DimSize) else Loop(self._loops, size)

    def _read(self, access: Access) -> Step | None:
        value: ir.Value = access.value
        op = defining_op(value)
        if op is None or (shape_of(value) is None and op.name not in FRONTEND_CONSTANTS):
            return None
        name = op.name
        if name == "arith.constant" or name in FRONTEND_CONSTANTS:
            number = constant_of(op, FRONTEND_CONSTANTS.get(name, "value"))
            return None if number is None else Step(number)
        if name.startswith(("arith.", "math.")) and len(op.results) == 1:
            return None if not rounds_to_nearest(op) else Step(self._elementwise(op, access.indices), (op,))
        if name.startswith("linalg."):
            return self._linalg(op, value, access.indices)
        if name == "iree_linalg_ext.attention":
            made = attention(op, access.indices, self.fresh)
            return None if made is None else Step(made, (op,))
        if name == ARG_COMPARE:
            made = compared(op, value.result_number, access.indices, self.fresh, self.resolve)
            return None if made is None else Step(made, (op,))
        if name in ("iree_linalg_ext.quantize_affine", "iree_linalg_ext.dequantize_affine"):
            made = (quantized if name.endswith(".quantize_affine") else dequantized)(op, access.indices)
            return None if made is None else Step(made, (op,))
        if name in ("tensor.expand_shape", "tensor.collapse_shape"):
            return Step(regrouped(op, access.indices, self.extent), (op,))
        if name == "tensor.reshape":
            source = reshaped(op, access.indices, self.extent)
            return None if source is None else Step(source, (op,))
        if name in ("tensor.cast", "flow.tensor.tie_shape"):
            return Step(Access(op.operands[0], access.indices), (op,))
        if name == "tensor.dim":
            axis = defining_op(op.operands[1])
            self.reads[op.operands[1]] = None
            if axis is None or axis.name != "arith.constant":
                return None
            return Step(DimSize(op.operands[0], ir.IntegerAttr(axis.attributes["value"]).value), (op,))
        if name in OF_PARTS:
            made, also = part_read(op, access.indices, self.fresh, self._note, self.extent, self.expand)
            return None if made is None else Step(made, (op, *also))
        if name == "tensor.splat" or (name in ("tensor.extract", "tensor.from_elements") and len(op.operands) == 1):
            return Step(Access(op.operands[0], ()), (op,))
        return None

    def _note(self, value: ir.Value) -> None:
        self.reads[value] = None

    def _elementwise(self, op: ir.Operation, indices: tuple[Index, ...]) -> Term:
        args = self.elements(op, indices)
        return self.canonical(Apply(op.name, args, attributes_of(op), element_type(op.results[0])))

    def canonical(self, term: Apply) -> Term:
        """The one form of a term, where there is one."""
        if term.op not in BECOMES or self._looking >= _MAX_LOOKS:
            return term
        self._looking += 1  # other forms look at their operands, and these at theirs
        try:
            form: Term = canonical(term, self.resolve)
            return form
        finally:
            self._looking -= 1

    # ---- linalg ---------------------------------------------------------------------------------------------------

    def _linalg(self, op: ir.Operation, value: ir.Value, indices: tuple[Index, ...]) -> Step | None:
        if op.name == "linalg.softmax":
            return Step(softmax(op, indices, self.fresh), (op,))
        structured = self.structured(op)
        if structured is None:
            return None
        number = value.result_number
        loops = loops_of_output(structured.operands[structured.inputs + number].map, indices)
        if loops is None:
            return None
        reduction = self._reduction_loops(structured, loops)
        body = Body(self, structured, loops)
        if len(structured.yielded) > 1:
            self._inner.update((term, made) for made, term in body.terms.items() if isinstance(term, Apply))
        term = body.reduced(number, reduction) if reduction else body.read(structured.yielded[number])
        return None if term is None else Step(term, (op,))

    def structured(self, op: ir.Operation) -> Structured | None:
        """A structured op, None for another."""
        if op not in self._structured:
            self._structured[op] = Structured.of(op)
        return self._structured[op]

    def _reduction_loops(self, op: Structured, loops: dict[int, Index]) -> tuple[Loop, ...]:
        """Give every loop that the result does not fix a fresh index; return those that really run."""
        fresh: list[Loop] = []
        for dim in (each for each in range(op.dims) if each not in loops):
            index = loops[dim] = self.fresh(op.sizes.get(dim))
            if isinstance(index, Loop):
                fresh.append(index)
        return tuple(fresh)


# ---- pieces ------------------------------------------------------------------------------------------------------


def is_view(step: Step) -> bool:
    """Whether an expansion only chose other indices: a broadcast, transpose, reshape or cast of one value."""
    return isinstance(step.term, (Access, Part))

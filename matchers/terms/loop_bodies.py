"""The body of a structured op as terms: what it makes of elements, and what it comes to where loops reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import element_type
from opsplice.matchers.terms.attributes import rounds_to_nearest
from opsplice.matchers.terms.canonical import combiner
from opsplice.matchers.terms.ops.combiners import chosen, is_neutral
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.matchers.terms.ops.index_reads import EXTRACT, taken
from opsplice.matchers.terms.ops.index_reductions import POSITION, of_generic, starts, uncast
from opsplice.matchers.terms.ops.structured_ops import Scalar, Structured
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, Index, Loop, LoopIndex, Reduce, Started, Term
from opsplice.spec_lang.syntax.vocabulary import identity

if TYPE_CHECKING:
    from opsplice.matchers.terms.views import Views


class Body:
    """The body of a structured op, read with its loops set to indices."""

    def __init__(self, views: Views, structured: Structured, loops: dict[int, Index]) -> None:
        self.views = views
        self.structured = structured
        self.loops = loops
        self.terms: dict[ir.Value, Term | None] = {}
        for each in structured.scalars:  # in order, so that what the body shares is one term
            self._read_op(each)

    def read(self, value: ir.Value) -> Term | None:
        """The term of a scalar of the body, or of one captured from outside; None if that cannot be told."""
        if value in self.terms:
            return self.terms[value]
        number = self.structured.arguments.get(value)
        if number is not None:
            return self._argument(number)
        return None if value in self.structured.inside else Access(value, ())

    def _read_op(self, op: Scalar) -> None:
        args: list[Term | None] = []
        if op.name == "arith.constant":
            self.terms[op.results[0]] = constant_of(op.op)
        elif op.name == "linalg.index":
            self.terms[op.results[0]] = LoopIndex(self.loops[ir.IntegerAttr(op.op.attributes["dim"]).value])
        elif op.name == EXTRACT:
            source, *at = op.operands
            args = [self.read(v) for v in at]
            known = tuple(a for a in args if a is not None)
            if len(known) == len(at):
                self.terms[op.results[0]] = taken(source, known, self.views.fresh, self.views.resolve)
        elif op.name.startswith(("arith.", "math.", "complex.create")):
            args = [self.read(v) for v in op.operands]
            if None not in args and op.rounds_to_nearest:
                known = tuple(a for a in args if a is not None)
                for number, value in enumerate(op.results):
                    which = (("result", str(number)),) if len(op.results) > 1 else ()
                    term = Apply(op.name, known, op.attributes + which, op.types[number])
                    self.terms[value] = self.views.canonical(term)
        for number, value in enumerate(op.results):
            made = self.terms.get(value)
            if made is not None:
                self.views.note(made, op.op, number, tuple(a for a in args if a is not None))

    def _argument(self, number: int) -> Term | None:
        if number >= self.structured.inputs and not self._visited_once(number):
            return None  # a running value: neither what it starts from nor what it ends at
        return self.structured.operands[number].at(self.loops)

    def _visited_once(self, number: int) -> bool:
        """Whether the loops come to each element of an operand only once."""
        fixed = {each for each in self.structured.operands[number].map if isinstance(each, int)}
        return all(index == UNIT or dim in fixed for dim, index in self.loops.items())

    # ---- reductions -----------------------------------------------------------------------------------------------

    def reduced(self, number: int, reduction: tuple[Loop, ...]) -> Term | None:
        """What result `number` comes to over loops that reduce."""
        placed = of_generic(self.structured) if number else None
        return self._combined(number, reduction) if placed is None else self._placed(placed, reduction)

    def _combined(self, number: int, reduction: tuple[Loop, ...]) -> Term | None:
        """`combine(accumulator, contribution)` as a Reduce, joined with an initial value that is not the identity."""
        structured = self.structured
        combine = structured.yielded_op(number)
        if combine is None or not rounds_to_nearest(combine):
            return None
        op, operands = chosen(combine) if combine.name == "arith.select" else (combine.name, list(combine.operands))
        accumulator = structured.accumulator(number)
        sides = [v for v in operands if v != accumulator]
        if len(operands) != 2 or len(sides) != 1:
            return None
        kind = element_type(combine.results[0])
        neutral = identity(op, kind)
        contribution = self.read(sides[0])
        if neutral is None or contribution is None:
            return None
        name = combiner(op)
        total = Reduce(name, reduction, contribution)
        start = structured.operands[structured.inputs + number].at(self.loops)
        known = self.views.resolve(start)
        if isinstance(known, Constant) and is_neutral(name, known, neutral):
            return total
        return Started(name, (start, total), (), kind)

    def _placed(self, name: str, reduction: tuple[Loop, ...]) -> Term | None:
        """Where an index reduction finds what it looks for, counted from zero along its only dim."""
        structured, resolve = self.structured, self.views.resolve
        element, *place = (operand.at(self.loops) for operand in structured.operands[: structured.inputs])
        outputs = [resolve(each.at(self.loops)) for each in structured.operands[structured.inputs :]]
        read = [scalar.results[0] for scalar in structured.scalars if scalar.name == "linalg.index"]
        places = {*(uncast(each, resolve) for each in place), *map(self.terms.get, read)}
        if len(reduction) != 1 or places != {LoopIndex(reduction[0])} or not starts(name, *outputs):
            return None
        return Apply(POSITION, (Reduce(name, reduction, element),), (), element_type(structured.yielded[1]))

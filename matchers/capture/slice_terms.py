"""Terms of a slice: what makes them, up to its inputs, which axes they depend on, and what they are read from."""

from __future__ import annotations

from dataclasses import dataclass, field

from iree.compiler import ir

from opsplice.matchers.capture.expressions import Number, loops_of
from opsplice.matchers.capture.slices import Slice
from opsplice.matchers.dims.extents import is_size_cast
from opsplice.matchers.ir.tensor_values import element_type
from opsplice.matchers.search.whole_dims import Wholes, is_simple, is_window, loops
from opsplice.matchers.terms.ops.bands import bands
from opsplice.matchers.terms.terms import Access, Apply, Constant, DimSize, Loop, LoopIndex, Reduce, Sum, Term
from opsplice.matchers.terms.views import Views


@dataclass(eq=False)
class SliceTerms:
    """Questions about the terms of a slice. `cuts` and `named` grow while it is lifted."""

    views: Views
    slice: Slice
    cuts: dict[ir.Value, str]
    named: set[ir.Value]
    tensors: Wholes
    kept: list[Term] = field(default_factory=list, init=False)  # so that ids stay their own
    known: dict[int, frozenset[Loop]] = field(default_factory=dict, init=False)

    def is_input(self, value: ir.Value) -> bool:
        return value not in self.slice.roots and (value in self.cuts or self.slice.starts_at(value))

    def constant(self, access: Access) -> Constant | None:
        """The constant that an element is, wherever it is made."""
        found = self.views.resolve(access)
        return found if isinstance(found, Constant) and access.value not in self.slice.inputs else None

    def window(self, term: Term) -> Access | None:
        """The tensor that a factor is an element of, where that is read at sums of loops as by a convolution."""
        found = term
        while isinstance(found, Access) and not self.is_input(found.value) and self.constant(found) is None:
            step = self.views.expand(found)
            if step is None or not isinstance(step.term, Access) or not is_window(step.term.indices):
                break
            found = step.term
        return (
            found if isinstance(found, Access) and is_window(found.indices) and not is_simple(found.indices) else None
        )

    def size(self, term: DimSize, element: str) -> Number:
        index = self.views.whole(term.value).indices[term.axis]
        if not isinstance(index, Loop):
            return Number(value=1, element=element)
        return Number(value=index.size or 0, element=element, of=(index,))

    def size_read(self, access: Access) -> Number | None:
        """A dim's size that is read at run time, wherever it is cast to the element type."""
        found: Term = access
        while isinstance(found, (Access, Apply)):
            if isinstance(found, Access):
                if found.value in self.cuts or found.value in self.slice.inputs:
                    return None
                step = self.views.expand(found)
                if step is None:
                    return None
                found = step.term
            elif is_size_cast(found):
                found = found.args[0]
            else:
                return None
        return self.size(found, element_type(access.value)) if isinstance(found, DimSize) else None

    def maker(self, term: Term) -> Term:
        """The term that makes an element, through views and values of the slice, but not into its inputs."""
        while isinstance(term, Access) and not self.is_input(term.value) and self.constant(term) is None:
            step = self.views.expand(term) if term.value not in self.named else None
            if step is None:
                return term
            term = step.term
        return term

    def band(self, term: Apply, frame: tuple[Loop, ...]) -> Apply | None:
        """A term as a band of two axes of a frame, the row before the column if either can be; None if it is none."""
        found: dict[bool, Apply] = {}
        for each in bands(term, self._number_or_maker):
            row, column = (part.index for part in each.args[-2:] if isinstance(part, LoopIndex))
            if row in frame and column in frame:
                found.setdefault(frame.index(row) < frame.index(column), each)
        return found.get(True, found.get(False))

    def _number_or_maker(self, term: Term) -> Term:
        return (self.constant(term) if isinstance(term, Access) else None) or self.maker(term)

    def _deepest(self, access: Access) -> Access:
        """The access furthest up through views whose indices are plain."""
        found = access
        while not self.is_input(access.value):
            step = self.views.expand(access)
            if step is None or not isinstance(step.term, Access):
                break
            access = step.term
            if is_simple(access.indices):
                found = access
        return found

    def axes(self, term: Term) -> frozenset[Loop]:
        """The axes that a term depends on."""
        key = id(term)
        if key not in self.known:
            self.kept.append(term)
            self.known[key] = self._needs(term)
        return self.known[key]

    def _needs(self, term: Term) -> frozenset[Loop]:
        if isinstance(term, Apply):
            return frozenset().union(*map(self.axes, term.args))
        if isinstance(term, Reduce):
            term = self.tensors.reduction(term)
            return self.axes(term.body) - set(term.loops)
        if isinstance(term, LoopIndex):
            return frozenset(loops((term.index,)))
        if not isinstance(term, Access) or self.constant(term) is not None or self.size_read(term) is not None:
            return frozenset()
        found = self._deepest(term)
        if not is_simple(found.indices):
            window = self.window(term)
            if window is None:
                self.tensors.refuse(found.indices)
            return frozenset(loops_of(i for i in window.indices if isinstance(i, (Loop, Sum))))
        return frozenset(loops(found.indices))

    def order(self, term: Term, axes: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """The axes in the order in which the first tensor that has them all does, to save a transpose."""
        pending = [term]
        while pending:
            each = pending.pop()
            if isinstance(each, Apply):
                pending += reversed(each.args)
            elif isinstance(each, Access):
                labels = loops(self._deepest(each).indices)
                if set(labels) == set(axes):
                    return labels
        return axes

    def element_type(self, term: Term) -> str:
        if isinstance(term, Access):
            return element_type(term.value)
        if isinstance(term, Reduce):
            return self.element_type(term.body)
        return term.type if isinstance(term, (Apply, Constant)) else "index"

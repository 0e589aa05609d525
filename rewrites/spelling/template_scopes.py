"""What names mean inside a pattern that is written out as ops: values, types of elements, sizes of dims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from opsplice.rewrites.spelling.axis_labels import Label, expanded, plain
from opsplice.rewrites.spelling.dim_bounds import Extent
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.template_values import Lazy, Size
from opsplice.spec_lang.checking.walks import reached
from opsplice.spec_lang.dims.pack_places import places
from opsplice.spec_lang.syntax import tree


@dataclass(eq=False)
class Scope:
    """What names mean inside one pattern.

    lets: what was not needed so far; an alternative that is not taken may be all that needs it.
    """

    pattern: tree.Pattern
    elements: Mapping[str, str]
    values: dict[str, Lazy] = field(default_factory=dict)
    dims: dict[str, Extent] = field(default_factory=dict)
    lets: dict[str, tree.Expr] = field(default_factory=dict)

    @cached_property
    def shared(self) -> frozenset[str]:
        """The names with several uses in a pattern that has more than elementwise ops: programs keep such values."""
        found = list(reached([*(let.expr for let in self.pattern.body), *self.pattern.results]))
        counts = Counter(e.name for e in found if isinstance(e, tree.Name))
        kinds = tree.Contract, tree.Reduce
        whole = any(isinstance(e, kinds) or (isinstance(e, tree.Call) and e.quoted) for e in found)
        return frozenset(name for name, count in counts.items() if count > 1) if whole else frozenset()

    def element(self, kind: tree.ScalarType) -> str:
        """The element type that a name of the pattern stands for here."""
        return self.elements.get(kind.name, kind.name)

    def bind(self, kind: tree.TensorType, sizes: tuple[Size, ...]) -> None:
        """Learn dims from the sizes of an argument."""
        at = places((dim.pack is not None for dim in kind.dims), len(sizes))
        for dim, place in zip(kind.dims, at, strict=True):
            if dim.name is not None:
                self.dims.setdefault(dim.name, sizes[place] if dim.pack is not None else sizes[place.start])

    def written_dims(self, kind: tree.TensorType) -> tuple[Size, ...]:
        """The sizes of a type that is written in the pattern."""
        sizes: list[Size] = []
        for dim in kind.dims:
            extent: Extent | None = dim.size if dim.size is not None else self.dims.get(dim.name or "")
            if extent is None:
                raise GapError.at(dim.span, f"the dim `{dim}`", "no input has it, and a template needs its size")
            sizes.extend(extent if isinstance(extent, tuple) else (extent,))
        return tuple(sizes)

    def axes(
        self, subscripts: tree.Subscripts, values: Sequence[Lazy]
    ) -> tuple[dict[Label, Size], list[list[Label]], list[Label]]:
        """The sizes of all labels, and the labels of each operand and of the result, one for each axis.

        Labels that only the result has are dims of the pattern.
        """
        sizes: dict[str, tuple[Size, ...]] = {}
        operands = plain(subscripts)
        for labels, value in zip(operands, values, strict=True):
            at = places((label.startswith("...") for label in labels), len(value.dims))
            for label, place in zip(labels, at, strict=True):
                sizes.setdefault(label, value.dims[place])
        for label in subscripts.result:
            if label not in sizes:
                extent = self.dims.get(label.removeprefix("..."))
                if extent is None:
                    raise GapError.at(subscripts.span, f"the dim `{label}`", "no input has it")
                sizes[label] = extent if isinstance(extent, tuple) else (extent,)
        known = {(label, i): size for label, each in sizes.items() for i, size in enumerate(each)}
        return known, [expanded(labels, sizes) for labels in operands], expanded(subscripts.result, sizes)


def defaults(pattern: tree.Pattern) -> dict[str, int]:
    """The integers that scalars are where no alternative says another."""
    given = {p.name: p.default.value for p in pattern.parameters if p.default is not None}
    return {name: value for name, value in given.items() if isinstance(value, int)}

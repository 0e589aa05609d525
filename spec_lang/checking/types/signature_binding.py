"""What the dims, packs and type variables of a signature stand for where it is used.

A signature is a kernel's, a pattern's, or the subscripts of one op (whose labels are dims that nobody else sees).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opsplice.common.errors import counted
from opsplice.spec_lang.syntax.tree import Dim, ScalarType, TensorType, Type, TypeVariable

# What stands between the element types of a result that may have several.
_OR = " | "


def merge(left: Dim, right: Dim) -> Dim | None:
    """The dim that both are, `?` giving way to anything, or None when they may differ."""
    if str(left) == str(right) or str(right) == "?":
        return left
    return right if str(left) == "?" else None


def merge_dims(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...] | None:
    if len(left) != len(right):
        return None
    merged = [merge(a, b) for a, b in zip(left, right, strict=True)]
    return None if None in merged else tuple(m for m in merged if m is not None)


def either_dims(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The dims of what is one of two values: of any size where one of them is. None if they differ."""
    merged = merge_dims(left, right)
    if merged is None:
        return None
    return tuple(a if str(a) == "?" else b if str(b) == "?" else c for a, b, c in zip(left, right, merged, strict=True))


def possible_elements(element: str, variables: Iterable[TypeVariable]) -> frozenset[str] | None:
    """The element types that a name may stand for, or None when it may be any."""
    found: frozenset[str] = frozenset()
    for each in element.split(_OR):
        variable = next((variable for variable in variables if variable.name == each), None)
        if variable is not None and not variable.choices:
            return None
        found |= {each} if variable is None else {choice.name for choice in variable.choices}
    return found


def either(left: Type, right: Type) -> Type | None:
    """What is of one type or the other, as only results are: nothing is computed from those."""
    dims = either_dims(left.dims, right.dims)
    if dims is None or not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return None
    elements = dict.fromkeys([*left.element.name.split(_OR), *right.element.name.split(_OR)])
    return TensorType(left.span, dims, ScalarType(left.span, _OR.join(elements)))


class Binding:
    """Collects, argument by argument, what the names of `wanted` types stand for. The methods give a reason, or None.

    exact: `?` is no proof that two sizes are equal, which a kernel has to rely on and a pattern merely tests. Of
    element types it is enough that some fit: a kernel is called for the matches that have those.
    """

    def __init__(
        self,
        wanted_variables: Sequence[TypeVariable] = (),
        found_variables: Sequence[TypeVariable] = (),
        *,
        exact: bool = False,
    ) -> None:
        self.dims: dict[str, Dim] = {}
        self.packs: dict[str, tuple[Dim, ...]] = {}
        self.elements: dict[str, str] = {}
        self._wanted = {v.name: v for v in wanted_variables}
        self._found = tuple(found_variables)
        self._exact = exact
        self._open: set[str] = set()

    def match(self, wanted: Type, found: Type) -> str | None:
        return self.match_dims(wanted.dims, found.dims) or self.match_element(wanted.element.name, found.element.name)

    def match_element(self, wanted: str, found: str) -> str | None:
        if wanted not in self._wanted:
            possible = possible_elements(found, self._found)
            fits = possible == frozenset({wanted}) or (self._exact and (possible is None or wanted in possible))
            return None if fits else f"{wanted} is wanted, found {_describe(found, possible)}"
        bound = self.elements.setdefault(wanted, found)
        if bound != found and not (self._exact and self._may_agree(bound, found)):
            return f"{wanted} would be both {bound} and {found}"
        choices = possible_elements(wanted, self._wanted.values())
        possible = possible_elements(found, self._found)
        if choices is None or (possible is not None and possible <= choices):
            return None
        if self._exact and (possible is None or possible & choices):
            return None
        return f"{wanted} is one of {', '.join(sorted(choices))}, found {_describe(found, possible)}"

    def _may_agree(self, left: str, right: str) -> bool:
        """Whether two names may stand for one type: a scalar's type variable may be that of the tensors."""
        first, second = (possible_elements(name, self._found) for name in (left, right))
        return first is None or second is None or bool(first & second)

    def settle(self, wanted: Type, found: Type | None) -> None:
        """Take what a type variable is from a result, where no argument says it. found: None where it may be any."""
        name = wanted.element.name
        if found is None:
            self._open.add(name)
        elif name in self._wanted:
            self.elements.setdefault(name, found.element.name)

    def elements_of(self, wanted: str) -> frozenset[str] | None:
        """The element types that a type or a variable may be: any for None, and none where nothing says it."""
        choices = possible_elements(wanted, self._wanted.values())
        if wanted not in self._wanted or wanted in self._open:
            return choices
        if wanted not in self.elements:
            return frozenset()
        found = possible_elements(self.elements[wanted], self._found)
        return found if choices is None else choices if found is None else choices & found

    def match_dims(self, wanted: Sequence[Dim], found: Sequence[Dim]) -> str | None:
        pack = next((i for i, d in enumerate(wanted) if d.pack is not None), None)
        if pack is None:
            if any(d.pack is not None for d in found):
                return f"{counted(len(wanted), 'dim')} wanted, found {_list(found)}, whose rank is open"
            if len(wanted) != len(found):
                return f"{counted(len(wanted), 'dim')} wanted, found {counted(len(found), 'dim')}"
            return self._match_each(wanted, found)
        behind = len(wanted) - pack - 1
        if len(found) < pack + behind:
            return f"at least {counted(len(wanted) - 1, 'dim')} wanted, found {counted(len(found), 'dim')}"
        end = len(found) - behind
        split = [*found[:pack], *found[end:]]
        if any(d.pack is not None for d in split):
            return f"nothing says how many dims {next(d for d in split if d.pack)} has"
        return (
            self._match_each(wanted[:pack], found[:pack])
            or self._match_pack(wanted[pack], tuple(found[pack:end]))
            or self._match_each(wanted[pack + 1 :], found[end:])
        )

    def _match_pack(self, wanted: Dim, found: tuple[Dim, ...]) -> str | None:
        assert wanted.pack is not None
        bound = self.packs.setdefault(wanted.pack, found)
        if bound is found:
            return None
        merged = merge_dims(bound, found)
        if merged is None or (self._exact and any(str(d) == "?" for d in (*bound, *found))):
            return f"{wanted} would be both {_list(bound)} and {_list(found)}"
        self.packs[wanted.pack] = merged
        return None

    def _match_each(self, wanted: Sequence[Dim], found: Sequence[Dim]) -> str | None:
        reasons = (self._match_dim(w, f) for w, f in zip(wanted, found, strict=True))
        return next((reason for reason in reasons if reason), None)

    def _match_dim(self, wanted: Dim, found: Dim) -> str | None:
        if wanted.size is not None:
            fits = found.size == wanted.size or (str(found) == "?" and not self._exact)
            return None if fits else f"size {wanted} is wanted, found {found}"
        if wanted.symbol is None:
            return None
        bound = self.dims.setdefault(wanted.symbol, found)
        if bound is found:
            return None
        merged = merge(bound, found)
        if self._exact and str(bound) == "?" and str(found) == "?":
            return f"{wanted} would be two unnamed sizes; name them alike"
        if merged is None or (self._exact and "?" in (str(bound), str(found))):
            return f"{wanted} would be both {bound} and {found}"
        self.dims[wanted.symbol] = merged
        return None

    def apply(self, wanted: Type) -> Type | None:
        """The type with names replaced by what they stand for.

        Unbound dims are `?`. None when a pack or the element type is unbound.
        """
        element = wanted.element
        if element.name in self._wanted and element.name not in self.elements:
            return None
        actual = ScalarType(element.span, self.elements.get(element.name, element.name))
        if not isinstance(wanted, TensorType):
            return actual
        dims = self.apply_dims(wanted.dims)
        return None if dims is None else TensorType(wanted.span, dims, actual)

    def apply_dims(self, wanted: Sequence[Dim]) -> tuple[Dim, ...] | None:
        applied: list[Dim] = []
        for dim in wanted:
            if dim.pack is not None:
                if dim.pack not in self.packs:
                    return None
                applied += self.packs[dim.pack]
            elif dim.symbol is not None:
                applied.append(self.dims.get(dim.symbol, Dim(dim.span)))
            else:
                applied.append(dim)
        return tuple(applied)


def _describe(found: str, possible: frozenset[str] | None) -> str:
    if possible is None:
        return f"{found}, which may be any type"
    return found if possible == {found} else f"{found}, which may be {' or '.join(sorted(possible))}"


def _list(dims: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, dims))})"

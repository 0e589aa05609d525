"""A pattern spelled out as ops on tensors, in one of the spellings that programs have.

`spell` gives the text of a region's body over typed arguments: the template that a matcher looks for, and the program
on which the replacement is made. Sizes that the pattern leaves open are dynamic; a pack is given a rank, and a type
variable a type.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iree.compiler import ir

from opsplice.matchers import conditions
from opsplice.rewrites.export import bounds
from opsplice.rewrites.export.bounds import Axis, Extent
from opsplice.rewrites.export.gaps import Gap, GapError
from opsplice.rewrites.export.spellings import Spelling
from opsplice.spec_lang import ops, tree

# In the text of a template, where a matcher is to compare an op by its name alone.
NAME_ONLY = "{NAME_ONLY}"

_NAMED = {
    ("mk", "kn", "mn"): "linalg.matmul",
    ("bmk", "bkn", "bmn"): "linalg.batch_matmul",
    ("mk", "k", "m"): "linalg.matvec",
    ("k", "kn", "n"): "linalg.vecmat",
    ("bmk", "bk", "bm"): "linalg.batch_matvec",
    ("k", "k", ""): "linalg.dot",
}
_PRODUCTS = {True: ("mulf", "addf", "extf"), False: ("muli", "addi", "extsi")}
# What Torch writes for maxima and minima of floats: the predicates ugt and ult.
_CHOICES = {"arith.maximumf": "9 : i64", "arith.minimumf": "11 : i64"}
_Size = int | Axis


@dataclass(frozen=True)
class Instance:
    """What a template is made for: the rank of each pack, the type of each type variable, and dims of known size."""

    packs: Mapping[str, int]
    types: Mapping[str, str]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Template:
    """A pattern spelled out.

    arguments: the name and the type of each argument, the pattern's parameters first; then sizes that ops need.
    lines:     the ops, one a line, the root last; NAME_ONLY stands where a matcher compares names alone.
    root, kind: the root's value and its type.
    scopes:    each condition of the pattern and those that it uses, with what its dims are.
    inside:    constants inside of bodies. IREE moves them out, and compares those outside only where they fill a tensor
               of the template too; so no program has a template with such constants.
    """

    arguments: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    root: str
    kind: str
    scopes: tuple[tuple[tree.Condition, Mapping[str, Extent]], ...]
    dims: Mapping[str, Extent]
    inside: tuple[str, ...] = ()


def spell(
    pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], instance: Instance, spelling: Spelling
) -> Template:
    """Spell a checked pattern out, in a context with its dialects loaded. Raises GapError for what cannot be."""
    first = _Speller(patterns, instance, spelling, frozenset())
    template = first.spell(pattern)
    if not template.inside:
        return template
    return _Speller(patterns, instance, spelling, frozenset(first.fills)).spell(pattern)


# ---- values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tensor:
    """A value of the template. A scalar's dims are None."""

    name: str
    element: str
    dims: tuple[_Size, ...] | None

    @property
    def type(self) -> str:
        if self.dims is None:
            return self.element
        sizes = [str(d) if isinstance(d, int) else "?" for d in self.dims]
        return f"tensor<{'x'.join([*sizes, self.element])}>"


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A tensor under a view: its axis number i is the result's axis `axes[i]`."""

    tensor: _Tensor
    axes: tuple[int, ...]
    dims: tuple[_Size, ...]

    @property
    def element(self) -> str:
        return self.tensor.element

    @property
    def plain(self) -> bool:
        return self.axes == tuple(range(len(self.dims)))


@dataclass(frozen=True, eq=False)
class _Apply:
    """An elementwise op that has not been given a place yet."""

    op: str
    args: tuple[_Lazy, ...]
    attributes: str
    element: str
    dims: tuple[_Size, ...]


@dataclass(frozen=True, eq=False)
class _Number:
    """A constant scalar; element: "" until it meets what it is combined with."""

    value: int | float
    element: str = ""
    dims: tuple[_Size, ...] = ()


_Lazy = _Leaf | _Apply | _Number


@dataclass(eq=False)
class _Scope:
    """What names mean inside one pattern. shared: the names that a fused generic must not take in."""

    pattern: tree.Pattern
    values: dict[str, _Lazy]
    elements: Mapping[str, str]
    dims: dict[str, Extent]
    shared: frozenset[str]


@dataclass(eq=False)
class _Body:
    """The inside of a generic while it is written."""

    leaves: list[_Leaf] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    done: dict[tuple[_Apply, tuple[int, ...]], str] = field(default_factory=dict)


# ---- the speller -------------------------------------------------------------------------------------------------


class _Speller:
    def __init__(
        self, patterns: Mapping[str, tree.Pattern], instance: Instance, spelling: Spelling, outside: frozenset[str]
    ) -> None:
        """outside: the constants that fill tensors of the template, so that bodies may take them from outside."""
        self.patterns = patterns
        self.outside = {number: f"%constant.{i}" for i, number in enumerate(sorted(outside))}
        self.fills: dict[str, None] = {}
        self.inside: dict[str, None] = {}
        self.instance = instance
        self.spelling = spelling
        self.lines: list[str] = []
        self.names = (f"%{i}" for i in itertools.count())
        self.extra: list[tuple[str, str]] = []
        self.arguments: list[_Tensor] = []
        self.sizes: dict[Axis, str] = {}
        self.scopes: list[tuple[tree.Condition, Mapping[str, Extent]]] = []
        self.gaps: dict[Gap, None] = {}

    def spell(self, pattern: tree.Pattern) -> Template:
        if len(pattern.results) != 1:
            why = "a matcher yields the results of one op, at which it starts; look for one of them"
            raise GapError.at(pattern.span, f"pattern '{pattern.name}' has several results", why)
        scope = _Scope(pattern, {}, self.instance.types, {}, _shared(pattern))
        for number, parameter in enumerate(pattern.parameters):
            scope.values[parameter.name] = self._parameter(number, parameter, scope)
        self._enter(scope)
        root = self._materialise(self._value(pattern.results[0], scope), pattern.results[0].span)
        if self.gaps:
            raise GapError(*self.gaps, *self._conditions_gaps())
        if not self.lines:
            raise GapError.at(pattern.span, f"pattern '{pattern.name}'", "it has no op to look for")
        named = [(t.name, t.type) for t in self.arguments]
        constants = [f"{name} = arith.constant {number}" for number, name in self.outside.items()]
        return Template(
            arguments=(*named, *self.extra),
            lines=(*constants, *self.lines),
            root=root.name,
            kind=root.type,
            scopes=tuple(self.scopes),
            dims=scope.dims,
            inside=tuple(self.inside),
        )

    def _conditions_gaps(self) -> list[Gap]:
        """What of the conditions has no counterpart either, so that all is said at once."""
        found: list[Gap] = []
        for where, dims in self.scopes:
            try:
                bounds.alternatives(where, dims)
            except GapError as error:
                found.extend(error.gaps)
        return found

    # ---- scopes and parameters ------------------------------------------------------------------------------------

    def _parameter(self, number: int, parameter: tree.Parameter, scope: _Scope) -> _Lazy:
        kind = parameter.type
        if isinstance(kind, tree.ScalarType):
            # A scalar is an operand of rank 0 in a generic, and fills a tensor where ops are on tensors.
            of_tensors = self.spelling.elementwise == "tensor"
            scalar = _Tensor(f"%{parameter.name}", self._element(kind, scope), None if of_tensors else ())
            self.arguments.append(scalar)
            return _Leaf(scalar, (), ())
        sizes: list[_Size] = []
        for dim in kind.dims:
            extent = self._extent(dim, number, len(sizes), scope)
            sizes.extend(extent if isinstance(extent, tuple) else (extent,))
        tensor = _Tensor(f"%{parameter.name}", self._element(kind.element, scope), tuple(sizes))
        self.arguments.append(tensor)
        return _Leaf(tensor, tuple(range(len(sizes))), tuple(sizes))

    def _extent(self, dim: tree.Dim, argument: int, axis: int, scope: _Scope) -> Extent:
        extent: Extent
        if dim.pack is not None:
            extent = tuple(Axis(argument, axis + i) for i in range(self.instance.packs[dim.pack]))
            scope.dims.setdefault(dim.pack, extent)
            return extent
        if dim.size is not None:
            return dim.size
        extent = self.instance.sizes.get(dim.symbol or "", Axis(argument, axis))
        if dim.symbol is not None:
            scope.dims.setdefault(dim.symbol, extent)
        return extent

    def _enter(self, scope: _Scope) -> None:
        if scope.pattern.where is not None:
            self.scopes.append((scope.pattern.where, scope.dims))
        for let in scope.pattern.body:
            if len(let.names) != 1:
                raise GapError.at(let.span, "a part with several results", "a matcher follows one result of each op")
            value = self._value(let.expr, scope)
            if self.spelling.elementwise == "fused" and let.names[0] in scope.shared and isinstance(value, _Apply):
                value = self._leaf(self._materialise(value, let.span))
            scope.values[let.names[0]] = value

    def _inlined(self, expr: tree.Call, scope: _Scope) -> _Lazy:
        pattern = self.patterns[expr.callee]
        if len(pattern.results) != 1:
            raise GapError.at(expr.span, f"pattern '{pattern.name}' has several results", "use a pattern that has one")
        given = [self._value(a, scope) for a in expr.args]
        elements: dict[str, str] = {}
        inner = _Scope(pattern, {}, elements, {}, _shared(pattern))
        own = {v.name for v in pattern.type_variables}
        for parameter, value in zip(pattern.parameters, given, strict=True):
            kind = parameter.type
            element = kind.element.name if isinstance(kind, tree.TensorType) else kind.name
            if element in own and value.element:
                elements[element] = value.element
            inner.values[parameter.name] = value
            if isinstance(kind, tree.TensorType):
                self._bind_dims(kind, value.dims, inner)
        self._enter(inner)
        return self._value(pattern.results[0], inner)

    def _bind_dims(self, kind: tree.TensorType, sizes: tuple[_Size, ...], scope: _Scope) -> None:
        at = next((i for i, d in enumerate(kind.dims) if d.pack is not None), None)
        spare = len(sizes) - len(kind.dims) + 1
        position = 0
        for number, dim in enumerate(kind.dims):
            width = spare if number == at else 1
            found = sizes[position : position + width]
            if dim.name is not None:
                scope.dims.setdefault(dim.name, found if number == at else found[0])
            position += width

    def _element(self, kind: tree.ScalarType, scope: _Scope) -> str:
        return scope.elements.get(kind.name, kind.name)

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _value(self, expr: tree.Expr, scope: _Scope) -> _Lazy:
        if isinstance(expr, tree.Name):
            return scope.values[expr.name]
        if isinstance(expr, tree.Constant):
            return self._number(expr, scope)
        if isinstance(expr, tree.Call):
            if not expr.quoted and expr.callee in self.patterns:
                return self._inlined(expr, scope)
            known = None if expr.quoted else ops.find(expr.callee)
            return self._elementwise(known, expr, scope) if known is not None else self._quoted(expr, scope)
        if isinstance(expr, tree.Contract):
            return self._contract(expr, scope)
        if isinstance(expr, tree.Reduce):
            return self._reduce(expr, scope)
        if isinstance(expr, tree.Rearrange):
            return self._rearranged(expr, scope)
        what = f"`{_written(expr)}`"
        raise GapError.at(expr.span, what, "a template of ops has no such part")

    def _number(self, expr: tree.Constant, scope: _Scope) -> _Number:
        if expr.high is not None:
            why = "a matcher compares constants exactly; write one number"
            self.gaps[Gap(expr.span, f"the range `{_written(expr)}`", why)] = None
            return _Number(0)
        sizes = {n: _known(e) for n, e in scope.dims.items()}
        value = conditions.evaluate(expr.value, sizes)
        if value is None:
            names = ", ".join(sorted(n for n in conditions.names_in(expr.value) if sizes.get(n) is None))
            why = f"a matcher compares constants exactly, and {names} may be any; give it a size, as in `{names} == 64`"
            self.gaps[Gap(expr.span, f"the constant `{conditions.text(expr.value)}`", why)] = None
            return _Number(0)
        return _Number(value)

    def _elementwise(self, op: ops.Op, expr: tree.Call, scope: _Scope) -> _Lazy:
        args = [self._value(a, scope) for a in expr.args]
        letters: dict[str, str] = {}
        for letter, arg in zip(op.operands, args, strict=True):
            if arg.element:
                letters.setdefault(letter, arg.element)
        args = [
            replace(a, element=letters.get(letter, "")) if isinstance(a, _Number) and not a.element else a
            for letter, a in zip(op.operands, args, strict=True)
        ]
        if not all(a.element for a in args):
            raise GapError.at(expr.span, f"`{op.name}` of constants alone", "the compiler folds it; write the result")
        element = "i1" if op.result == "B" else letters.get(op.result, "")
        if not element:
            kind = expr.type
            if kind is None:
                raise GapError.at(expr.span, f"`{op.name}`", "its type is not written")
            element = self._element(kind.element if isinstance(kind, tree.TensorType) else kind, scope)
        dims = max((a.dims for a in args), key=len)
        made = _Apply(op.full_name, tuple(args), _scalar_attributes(op, expr), element, dims)
        return made if self.spelling.elementwise == "fused" else self._leaf(self._materialise(made, expr.span))

    def _quoted(self, expr: tree.Call, scope: _Scope) -> _Lazy:
        args = [self._materialise(self._value(a, scope), a.span) for a in expr.args]
        kind = expr.type
        what = f'"{expr.callee}"'
        if kind is None:
            raise GapError.at(expr.span, what, "the type of its result is not written, and a template needs it")
        element = self._element(kind.element if isinstance(kind, tree.TensorType) else kind, scope)
        dims = None if isinstance(kind, tree.ScalarType) else self._written_dims(kind, scope)
        result = _Tensor(next(self.names), element, dims)
        attributes = ", ".join(f"{a.name} = {_attribute(a)}" for a in expr.attributes)
        operands = ", ".join(a.name for a in args)
        types = ", ".join(a.type for a in args)
        self.lines.append(f'{result.name} = "{expr.callee}"({operands}) {{{attributes}}} : ({types}) -> {result.type}')
        return self._leaf(result)

    def _written_dims(self, kind: tree.TensorType, scope: _Scope) -> tuple[_Size, ...]:
        sizes: list[_Size] = []
        for dim in kind.dims:
            extent: Extent | None = dim.size if dim.size is not None else scope.dims.get(dim.name or "")
            if extent is None:
                raise GapError.at(dim.span, f"the dim `{dim}`", "no input has it, and a template needs its size")
            sizes.extend(extent if isinstance(extent, tuple) else (extent,))
        return tuple(sizes)

    def _rearranged(self, expr: tree.Rearrange, scope: _Scope) -> _Lazy:
        value = self._value(expr.arg, scope)
        sizes = self._label_sizes(expr.subscripts, [value], scope)
        labels = _expanded(expr.subscripts.operands[0], sizes)
        result = _expanded(expr.subscripts.result, sizes)
        dims = tuple(sizes[label][0] if len(sizes[label]) == 1 else sizes[label][i] for label, i in result)
        viewed = _moved(value, tuple(result.index(label) for label in labels), dims)
        if self.spelling.views == "maps":
            return viewed
        return self._leaf(self._materialise(viewed, expr.span))

    def _label_sizes(
        self, subscripts: tree.Subscripts, values: Sequence[_Lazy], scope: _Scope
    ) -> dict[str, tuple[_Size, ...]]:
        """The sizes of each label; a pack's are several. Labels that only the result has are dims of the pattern."""
        sizes: dict[str, tuple[_Size, ...]] = {}
        for labels, value in zip(subscripts.operands, values, strict=True):
            spare = len(value.dims) - len(labels) + 1
            position = 0
            for label in labels:
                width = spare if label.startswith("...") else 1
                sizes.setdefault(label, value.dims[position : position + width])
                position += width
        for label in subscripts.result:
            if label not in sizes:
                extent = scope.dims.get(label.removeprefix("..."))
                if extent is None:
                    raise GapError.at(subscripts.span, f"the dim `{label}`", "no input has it")
                sizes[label] = extent if isinstance(extent, tuple) else (extent,)
        return sizes

    # ---- reductions -----------------------------------------------------------------------------------------------

    def _reduce(self, expr: tree.Reduce, scope: _Scope) -> _Lazy:
        value = self._value(expr.arg, scope)
        if not isinstance(value, _Leaf):
            value = self._leaf(self._materialise(value, expr.arg.span))
        sizes = self._label_sizes(expr.subscripts, [value], scope)
        labels = _expanded(expr.subscripts.operands[0], sizes)
        result = _expanded(expr.subscripts.result, sizes)
        if len(labels) == len(result):
            return _moved(value, tuple(result.index(la) for la in labels), tuple(_size(sizes, la) for la in result))
        combiner = ops.find(expr.combiner)
        assert combiner is not None, "the checker lets only known combiners pass"
        neutral = ops.identity(expr.combiner, value.element)
        assert neutral is not None, "the checker lets only combiners of these elements pass"
        start = self._filled(neutral, value.element, tuple(_size(sizes, la) for la in result))
        running, new = ("%out.0", "%in.0") if self.spelling.accumulator else ("%in.0", "%out.0")
        kind = value.element
        body = [f'%made.0 = "{combiner.full_name}"({running}, {new}) : ({kind}, {kind}) -> {kind}']
        maps = [[labels.index(labels[a]) for a in value.axes], [labels.index(la) for la in result]]
        iterators = ["parallel" if la in result else "reduction" for la in labels]
        return self._leaf(self._generic([value.tensor], start, maps, iterators, ["%in.0"], body, "%made.0"))

    def _contract(self, expr: tree.Contract, scope: _Scope) -> _Lazy:
        values = [self._value(a, scope) for a in expr.args]
        sizes = self._label_sizes(expr.subscripts, values, scope)
        operands = [_expanded(o, sizes) for o in expr.subscripts.operands]
        result = _expanded(expr.subscripts.result, sizes)
        element = values[0].element
        if expr.type is not None:
            kind = expr.type
            element = self._element(kind.element if isinstance(kind, tree.TensorType) else kind, scope)
        summed = list(dict.fromkeys(la for o in operands for la in o if la not in result))
        if not summed:
            raise GapError.at(expr.span, "a contraction that sums nothing", "write it with mulf and broadcast")
        letters = _letters(operands, result) if self.spelling.named else None
        named = None if letters is None else _NAMED.get(letters)
        dims = tuple(_size(sizes, la) for la in result)
        zero = self._filled(0.0 if ops.is_float(element) else 0, element, dims)
        if named is not None:
            return self._leaf(self._named(named, [self._materialise(v, expr.span) for v in values], zero))
        leaves = [v if isinstance(v, _Leaf) else self._leaf(self._materialise(v, expr.span)) for v in values]
        loops = [*result, *summed]
        maps = [
            [loops.index(labels[axis]) for axis in leaf.axes] for leaf, labels in zip(leaves, operands, strict=True)
        ]
        maps.append([loops.index(la) for la in result])
        iterators = ["parallel"] * len(result) + ["reduction"] * len(summed)
        names = [f"%in.{i}" for i in range(len(leaves))]
        body, product = self._product(names, [leaf.element for leaf in leaves], element)
        return self._leaf(self._generic([leaf.tensor for leaf in leaves], zero, maps, iterators, names, body, product))

    def _named(self, op: str, args: Sequence[_Tensor], start: _Tensor) -> _Tensor:
        result = replace(start, name=next(self.names))
        operands = ", ".join(a.name for a in args)
        types = ", ".join(a.type for a in args)
        self.lines.append(
            f"{result.name} = {op} ins({operands} : {types}) outs({start.name} : {start.type}) -> {result.type}"
        )
        return result

    def _product(self, names: Sequence[str], elements: Sequence[str], element: str) -> tuple[list[str], str]:
        """The lines of a contraction's body, and the value that it yields."""
        times, plus, extend = _PRODUCTS[ops.is_float(element)]
        lines, factors = [], []
        for i, (name, kind) in enumerate(zip(names, elements, strict=True)):
            factors.append(name if kind == element else f"%wide.{i}")
            if kind != element:
                lines.append(f'%wide.{i} = "arith.{extend}"({name}) : ({kind}) -> {element}')
        product = factors[0]
        for i, factor in enumerate(factors[1:]):
            lines.append(f'%product.{i} = "arith.{times}"({product}, {factor}) : ({element}, {element}) -> {element}')
            product = f"%product.{i}"
        first, second = ("%out.0", product) if self.spelling.accumulator or self.spelling.named else (product, "%out.0")
        lines.append(f'%sum.0 = "arith.{plus}"({first}, {second}) : ({element}, {element}) -> {element}')
        return lines, "%sum.0"

    # ---- ops ------------------------------------------------------------------------------------------------------

    def _leaf(self, tensor: _Tensor) -> _Leaf:
        dims = tensor.dims or ()
        return _Leaf(tensor, tuple(range(len(dims))), dims)

    def _materialise(self, value: _Lazy, span: tree.Span) -> _Tensor:
        """A value as a tensor of its own."""
        if isinstance(value, _Leaf):
            return value.tensor if value.plain else self._viewed(value)
        if isinstance(value, _Number):
            raise GapError.at(span, "a constant where a tensor is wanted", "a template has no op that makes it")
        if self.spelling.elementwise == "tensor":
            return self._on_tensors(value, span)
        body = _Body()
        yielded = self._into(value, tuple(range(len(value.dims))), body)
        maps = [[*leaf.axes] for leaf in body.leaves]
        maps.append(list(range(len(value.dims))))
        out = self._empty(value.element, value.dims)
        names = [f"%in.{i}" for i in range(len(body.leaves))]
        tensors = [leaf.tensor for leaf in body.leaves]
        return self._generic(tensors, out, maps, ["parallel"] * len(value.dims), names, body.lines, yielded)

    def _into(self, value: _Lazy, axes: tuple[int, ...], body: _Body) -> str:
        """Write a value into a generic's body; axes: where each of its axes is among the generic's loops."""
        if isinstance(value, _Leaf):
            leaf = _Leaf(value.tensor, tuple(axes[a] for a in value.axes), value.dims)
            for number, other in enumerate(body.leaves):
                if other.tensor == leaf.tensor and other.axes == leaf.axes:
                    return f"%in.{number}"
            body.leaves.append(leaf)
            return f"%in.{len(body.leaves) - 1}"
        if isinstance(value, _Number):
            text = number_text(value.value, value.element)
            if text in self.outside:
                return self.outside[text]
            self.inside[text] = None
            name = f"%body.{len(body.lines)}"
            body.lines.append(f"{name} = arith.constant {text}")
            return name
        key = (value, axes)
        if key not in body.done:
            args = [self._into(a, axes if a.dims else (), body) for a in value.args]
            name = f"%body.{len(body.lines)}"
            if self.spelling.extrema == "select" and value.op in _CHOICES:
                less = f'%less.{len(body.lines)} = "arith.cmpf"({", ".join(args)}) {{predicate = {_CHOICES[value.op]}}}'
                body.lines.append(f"{less} : ({value.element}, {value.element}) -> i1")
                chosen = f'{name} = "arith.select"(%less.{len(body.lines) - 1}, {", ".join(args)})'
                body.lines.append(f"{chosen} : (i1, {value.element}, {value.element}) -> {value.element}")
                body.done[key] = name
                return name
            types = ", ".join(a.element for a in value.args)
            body.lines.append(
                f'{name} = "{value.op}"({", ".join(args)}) {value.attributes} : ({types}) -> {value.element}'
            )
            body.done[key] = name
        return body.done[key]

    def _on_tensors(self, value: _Apply, span: tree.Span) -> _Tensor:
        args = []
        for arg in value.args:
            if isinstance(arg, _Number) and not value.dims:
                args.append(self._scalar(arg))
            elif isinstance(arg, _Number) or (isinstance(arg, _Leaf) and not arg.dims and value.dims):
                args.append(self._spread(arg, value.dims, span))
            else:
                args.append(self._materialise(arg, span))
        scalar = all(a.dims is None for a in args)
        result = _Tensor(next(self.names), value.element, None if scalar else value.dims)
        operands = ", ".join(a.name for a in args)
        types = ", ".join(a.type for a in args)
        self.lines.append(f'{result.name} = "{value.op}"({operands}) {value.attributes} : ({types}) -> {result.type}')
        return result

    def _spread(self, value: _Number | _Leaf, dims: tuple[_Size, ...], span: tree.Span) -> _Tensor:
        """A scalar as a tensor."""
        if self.spelling.constants == "dense" and isinstance(value, _Number):
            if not all(isinstance(d, int) for d in dims):
                raise GapError.at(span, "a dense constant of dynamic shape", "there is none")
            result = _Tensor(next(self.names), value.element, dims)
            number = number_text(value.value, value.element).partition(" : ")[0]
            self.lines.append(f"{result.name} = arith.constant dense<{number}> : {result.type}")
            return result
        scalar = self._scalar(value) if isinstance(value, _Number) else value.tensor
        if scalar.dims is not None:
            raise GapError.at(span, "a tensor of rank 0 that is spread by itself", "write a broadcast")
        if self.spelling.constants != "splat":
            return self._fill(scalar, dims)
        result = _Tensor(next(self.names), value.element, dims)
        sizes = ", ".join(self._size_argument(d) for d in dims if isinstance(d, Axis))
        self.lines.append(f"{result.name} = tensor.splat {scalar.name}{f'[{sizes}]' if sizes else ''} : {result.type}")
        return result

    def _size_argument(self, axis: Axis) -> str:
        """A size that an op needs, as an argument of the template: programs have many ways to make it."""
        name = f"%size.{len(self.extra)}"
        self.extra.append((name, "index"))
        return name

    def _viewed(self, leaf: _Leaf) -> _Tensor:
        """A broadcast or transpose as an op."""
        if self.spelling.transposes == "linalg.transpose" and len(leaf.axes) == len(leaf.dims):
            order = [leaf.axes.index(i) for i in range(len(leaf.dims))]
            out = self._empty(leaf.element, leaf.dims)
            result = replace(out, name=next(self.names))
            self.lines.append(
                f"{result.name} = linalg.transpose ins({leaf.tensor.name} : {leaf.tensor.type}) "
                f"outs({out.name} : {out.type}) permutation = {order}"
            )
            return result
        out = self._empty(leaf.element, leaf.dims)
        maps = [[*leaf.axes], list(range(len(leaf.dims)))]
        return self._generic([leaf.tensor], out, maps, ["parallel"] * len(leaf.dims), ["%in.0"], [], "%in.0")

    def _generic(
        self,
        inputs: Sequence[_Tensor],
        out: _Tensor,
        maps: Sequence[Sequence[int]],
        iterators: Sequence[str],
        names: Sequence[str],
        body: Sequence[str],
        yielded: str,
    ) -> _Tensor:
        """A linalg.generic. maps: the loop of each axis, for each input and then for the result."""
        loops = ", ".join(f"d{i}" for i in range(len(iterators)))
        written = ", ".join(f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in m)})>" for m in maps)
        kinds = ", ".join(f'"{i}"' for i in iterators)
        given = f"ins({', '.join(t.name for t in inputs)} : {', '.join(t.type for t in inputs)})" if inputs else ""
        arguments = [f"{n}: {t.element}" for n, t in zip(names, inputs, strict=True)]
        result = replace(out, name=next(self.names))
        self.lines.append(
            f"{result.name} = linalg.generic {{indexing_maps = [{written}], iterator_types = [{kinds}]}} "
            f"{given} outs({out.name} : {out.type}) {{"
        )
        self.lines.append(f"^bb0({', '.join([*arguments, f'%out.0: {out.element}'])}):")
        self.lines.extend(f"  {line}" for line in body)
        self.lines.append(f"  linalg.yield {yielded} : {out.element}")
        self.lines.append(f"}} -> {result.type}")
        return result

    def _filled(self, value: int | float, element: str, dims: tuple[_Size, ...]) -> _Tensor:
        return self._fill(self._scalar(_Number(value, element)), dims)

    def _scalar(self, number: _Number) -> _Tensor:
        text = number_text(number.value, number.element)
        self.fills[text] = None
        if text in self.outside:
            return _Tensor(self.outside[text], number.element, None)
        result = _Tensor(next(self.names), number.element, None)
        self.lines.append(f"{result.name} = arith.constant {text}")
        return result

    def _fill(self, scalar: _Tensor, dims: tuple[_Size, ...]) -> _Tensor:
        out = self._empty(scalar.element, dims)
        result = replace(out, name=next(self.names))
        self.lines.append(
            f"{result.name} = linalg.fill ins({scalar.name} : {scalar.element}) outs({out.name} : {out.type}) "
            f"-> {result.type}"
        )
        return result

    def _empty(self, element: str, dims: tuple[_Size, ...]) -> _Tensor:
        out = _Tensor(next(self.names), element, dims)
        sizes = ", ".join(self._size(d) for d in dims if isinstance(d, Axis))
        self.lines.append(f"{out.name} = tensor.empty({sizes}) {NAME_ONLY} : {out.type}")
        return out

    def _size(self, axis: Axis) -> str:
        """The size of an argument's dim. A matcher never looks at it."""
        if axis not in self.sizes:
            at, name = next(self.names), next(self.names)
            tensor = self.arguments[axis.argument]
            self.lines.append(f"{at} = arith.constant {axis.axis} : index")
            self.lines.append(f"{name} = tensor.dim {tensor.name}, {at} : {tensor.type}")
            self.sizes[axis] = name
        return self.sizes[axis]


# ---- pieces ------------------------------------------------------------------------------------------------------


def number_text(value: int | float, element: str) -> str:
    """A constant with its type, as MLIR writes it. Needs a current context."""
    kind = ir.Type.parse(element)
    if isinstance(kind, (ir.IntegerType, ir.IndexType)):
        return str(ir.IntegerAttr.get(kind, int(value)))
    return str(ir.FloatAttr.get(kind, float(value), loc=ir.Location.unknown()))


def _moved(value: _Lazy, axes: tuple[int, ...], dims: tuple[_Size, ...]) -> _Lazy:
    """A value under a view: its axis i becomes axis `axes[i]` of the result, whose sizes are `dims`."""
    if isinstance(value, _Leaf):
        return _Leaf(value.tensor, tuple(axes[a] for a in value.axes), dims)
    if isinstance(value, _Number):
        return value
    args = tuple(_moved(a, axes, dims) if a.dims else a for a in value.args)
    return replace(value, args=args, dims=dims)


def _expanded(labels: Sequence[str], sizes: Mapping[str, Sequence[Any]]) -> list[tuple[str, int]]:
    """Labels one for each axis: a pack becomes as many as it has dims."""
    return [(label, i) for label in labels for i in range(len(sizes[label]))]


def _size(sizes: Mapping[str, tuple[_Size, ...]], label: tuple[str, int]) -> _Size:
    return sizes[label[0]][label[1]]


def _letters(operands: Sequence[Sequence[Any]], result: Sequence[Any]) -> tuple[str, str, str] | None:
    """Subscripts in the letters of `_NAMED`; None if there are not two operands."""
    if len(operands) != 2:
        return None
    left, right = operands
    names: dict[Any, str] = {}
    for label in dict.fromkeys([*left, *right]):
        places = (label in left, label in right, label in result)
        letter = {(True, True, True): "b", (True, False, True): "m", (False, True, True): "n"}.get(places, "k")
        if letter in names.values():
            return None
        names[label] = letter

    def spelled(labels: Sequence[Any]) -> str:
        return "".join(names[label] for label in labels)

    return spelled(left), spelled(right), spelled(result)


def _known(extent: Extent) -> int | tuple[int | None, ...] | None:
    if isinstance(extent, tuple):
        return tuple(e if isinstance(e, int) else None for e in extent)
    return extent if isinstance(extent, int) else None


def _shared(pattern: tree.Pattern) -> frozenset[str]:
    """The names with several uses in a pattern that has more than elementwise ops: programs keep such values."""
    counts: dict[str, int] = {}
    whole = False

    def visit(expr: Any) -> None:
        nonlocal whole
        if isinstance(expr, tree.Name):
            counts[expr.name] = counts.get(expr.name, 0) + 1
        whole = whole or isinstance(expr, (tree.Contract, tree.Reduce)) or getattr(expr, "quoted", False)
        for part in (*getattr(expr, "args", ()), *([expr.arg] if hasattr(expr, "arg") else [])):
            visit(part)

    for expr in (*(let.expr for let in pattern.body), *pattern.results):
        visit(expr)
    return frozenset(name for name, count in counts.items() if count > 1) if whole else frozenset()


def _scalar_attributes(op: ops.Op, expr: tree.Call) -> str:
    """What an elementwise op says besides its operands, as MLIR writes it."""
    found = []
    for attribute in expr.attributes:
        if attribute.name == "predicate" and str(attribute.value) in op.predicates:
            found.append(f"predicate = {op.predicates.index(str(attribute.value))} : i64")
        else:
            found.append(f"{attribute.name} = {_attribute(attribute)}")
    return f"{{{', '.join(found)}}}"


def _attribute(attribute: tree.Attribute) -> str:
    value = getattr(attribute, "value", None)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{value} : f64"
    if isinstance(value, str) and not attribute.bare:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise GapError.at(
        attribute.span, f"the attribute `{attribute.name}`", "a template needs its type, which is not written"
    )


def _written(expr: Any) -> str:
    text = expr.span.source.text[expr.span.start : expr.span.end]
    return text if len(text) <= 40 else text[:37] + "..."

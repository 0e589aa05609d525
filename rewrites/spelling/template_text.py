"""Ops of a template as text: each value is given an op, or several, in the spelling that is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from opsplice.rewrites.approaches.annotation import attribute_of
from opsplice.rewrites.ir import emit
from opsplice.rewrites.spelling.dim_bounds import Axis
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import NAME_ONLY
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.spelling.template_values import Apply, Lazy, Leaf, Number, Size, Tensor
from opsplice.spec_lang.syntax import tree, vocabulary

_PRODUCTS = {True: ("mulf", "addf", "extf"), False: ("muli", "addi", "extsi")}
# What Torch writes for maxima and minima of floats: the predicates ugt and ult.
_CHOICES = {"arith.maximumf": "9 : i64", "arith.minimumf": "11 : i64"}


@dataclass(eq=False)
class _Body:
    """The inside of a generic while it is written."""

    leaves: list[Leaf] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    done: dict[tuple[Apply, tuple[int, ...]], str] = field(default_factory=dict)


class Writer:
    """The lines of a template.

    arguments: the pattern's parameters; extra: sizes that ops need, as further arguments. fills: the constants that
    fill tensors. inside: the constants inside of bodies.
    """

    def __init__(self, spelling: Spelling, outside: frozenset[str]) -> None:
        """outside: the constants that fill tensors of the template, so that bodies may take them from outside."""
        self.spelling = spelling
        self.outside = {number: f"%constant.{i}" for i, number in enumerate(sorted(outside))}
        self.lines: list[str] = []
        self.arguments: list[Tensor] = []
        self.extra: list[tuple[str, str]] = []
        self.fills: dict[str, None] = {}
        self.inside: dict[str, None] = {}
        self._names = (f"%{i}" for i in itertools.count())
        self._sizes: dict[Axis, str] = {}

    def name(self) -> str:
        """A name that no value has yet."""
        return next(self._names)

    def all_lines(self) -> tuple[str, ...]:
        """The lines, with the constants that bodies share before them."""
        return (*(f"{name} = arith.constant {number}" for number, name in self.outside.items()), *self.lines)

    def leaf(self, tensor: Tensor) -> Leaf:
        dims = tensor.dims or ()
        return Leaf(tensor, tuple(range(len(dims))), dims)

    def settled(self, value: Lazy, span: tree.Span) -> Leaf:
        """A value that has an op of its own."""
        return self.leaf(self.materialise(value, span))

    def materialise(self, value: Lazy, span: tree.Span) -> Tensor:
        """A value as a tensor of its own."""
        if isinstance(value, Leaf) and value.plain:
            return value.tensor
        if isinstance(value, Number):
            raise GapError.at(span, "a constant where a tensor is wanted", "a template has no op that makes it")
        if isinstance(value, Apply) and self.spelling.elementwise == "tensor":
            return self._on_tensors(value, span)
        loops, body = tuple(range(len(value.dims))), _Body()
        yielded = self._into(value, loops, body)
        out = self.empty(value.element, value.dims)
        is_order = isinstance(value, Leaf) and len(value.axes) == len(loops)
        if isinstance(value, Leaf) and is_order and self.spelling.transposes == "linalg.transpose":
            order = [value.axes.index(i) for i in loops]
            return self._written_to(out, "linalg.transpose", [value.tensor], f" permutation = {order}")
        return self.generic([(leaf.tensor, leaf.axes) for leaf in body.leaves], out, loops, body.lines, yielded)

    def _into(self, value: Lazy, axes: tuple[int, ...], body: _Body) -> str:
        """Write a value into a generic's body; axes: where each of its axes is among the generic's loops."""
        if isinstance(value, Leaf):
            leaf = Leaf(value.tensor, tuple(axes[a] for a in value.axes), value.dims)
            for number, other in enumerate(body.leaves):
                if other.tensor == leaf.tensor and other.axes == leaf.axes:
                    return f"%in.{number}"
            body.leaves.append(leaf)
            return f"%in.{len(body.leaves) - 1}"
        if isinstance(value, Number):
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
            op, types, attributes = value.op, [a.element for a in value.args], value.attributes
            if self.spelling.extrema == "select" and op in _CHOICES:
                less, predicate = f"%less.{len(body.lines)}", f"{{predicate = {_CHOICES[op]}}}"
                body.lines.append(op_text(less, "arith.cmpf", args, types, "i1", predicate))
                op, args, types, attributes = "arith.select", [less, *args], ["i1", *types], "{}"
            body.lines.append(op_text(name, op, args, types, value.element, attributes))
            body.done[key] = name
        return body.done[key]

    def _on_tensors(self, value: Apply, span: tree.Span) -> Tensor:
        args = []
        for arg in value.args:
            if isinstance(arg, Number) and not value.dims:
                args.append(self.scalar(arg))
            elif isinstance(arg, Number) or (isinstance(arg, Leaf) and not arg.dims and value.dims):
                args.append(self._spread(arg, value.dims, span))
            else:
                args.append(self.materialise(arg, span))
        scalar = all(a.dims is None for a in args)
        result = Tensor(self.name(), value.element, None if scalar else value.dims)
        return self.call(result, value.op, args, value.attributes)

    def call(self, result: Tensor, op: str, args: Sequence[Tensor], attributes: str) -> Tensor:
        """What an op, by its name, makes of its operands."""
        names, types = [a.name for a in args], [a.type for a in args]
        self.lines.append(op_text(result.name, op, names, types, result.type, attributes))
        return result

    def _spread(self, value: Number | Leaf, dims: tuple[Size, ...], span: tree.Span) -> Tensor:
        """A scalar as a tensor."""
        if self.spelling.constants == "dense" and isinstance(value, Number):
            if not all(isinstance(d, int) for d in dims):
                raise GapError.at(span, "a dense constant of dynamic shape", "there is none")
            result = Tensor(self.name(), value.element, dims)
            number = number_text(value.value, value.element).partition(" : ")[0]
            self.lines.append(f"{result.name} = arith.constant dense<{number}> : {result.type}")
            return result
        scalar = self.scalar(value) if isinstance(value, Number) else value.tensor
        if scalar.dims is not None:
            raise GapError.at(span, "a tensor of rank 0 that is spread by itself", "write a broadcast")
        if self.spelling.constants != "splat":
            return self.fill(scalar, dims)
        result = Tensor(self.name(), value.element, dims)
        sizes = ", ".join(self._size_argument(d) for d in dims if isinstance(d, Axis))
        self.lines.append(f"{result.name} = tensor.splat {scalar.name}{f'[{sizes}]' if sizes else ''} : {result.type}")
        return result

    def _size_argument(self, axis: Axis) -> str:
        """A size that an op needs, as an argument of the template: programs have many ways to make it."""
        name = f"%size.{len(self.extra)}"
        self.extra.append((name, "index"))
        return name

    def generic(
        self,
        inputs: Sequence[tuple[Tensor, Sequence[int]]],
        out: Tensor,
        kept: Sequence[int],
        body: Sequence[str],
        yielded: str,
    ) -> Tensor:
        """A linalg.generic: each input, `%in.0` and so on in its body, with the loops of its axes, and the result's."""
        maps = [*(loops for _, loops in inputs), kept]
        every = range(1 + max((loop for loops in maps for loop in loops), default=-1))
        loops = ", ".join(f"d{i}" for i in every)
        written = ", ".join(f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in m)})>" for m in maps)
        kinds = ", ".join('"parallel"' if i in kept else '"reduction"' for i in every)
        arguments = [f"%in.{i}: {tensor.element}" for i, (tensor, _) in enumerate(inputs)]
        op = f"linalg.generic {{indexing_maps = [{written}], iterator_types = [{kinds}]}}"
        result = self._written_to(out, op, [tensor for tensor, _ in inputs], " {")
        self.lines.append(f"^bb0({', '.join([*arguments, f'%out.0: {out.element}'])}):")
        self.lines.extend(f"  {line}" for line in body)
        self.lines.append(f"  linalg.yield {yielded} : {out.element}")
        self.lines.append(f"}} -> {result.type}")
        return result

    def reduce(self, value: Tensor, out: Tensor, axes: Sequence[int], line: str) -> Tensor:
        """A linalg.reduce over some axes of a tensor."""
        result = self._written_to(out, "linalg.reduce", [value], f" dimensions = {list(axes)}")
        self.lines.append(f"  (%in.0: {value.element}, %out.0: {out.element}) {{")
        self.lines += [f"    {line}", f"    linalg.yield %made.0 : {out.element}", "  }"]
        return result

    def packed(self, value: Tensor, outer: tuple[Size, ...], order: Sequence[int], pieces: Mapping[int, int]) -> Tensor:
        """A linalg.pack. outer: how many pieces there are, in the order of these axes; pieces: the sizes by axis."""
        out = self.empty(value.element, (*outer, *pieces.values()))
        zero = self.scalar(Number(0.0 if vocabulary.is_float(value.element) else 0, value.element))
        result = replace(out, name=self.name())
        self.lines.append(
            f"{result.name} = linalg.pack {value.name} padding_value({zero.name} : {value.element}) "
            f"outer_dims_perm = {list(order)} inner_dims_pos = {list(pieces)} inner_tiles = {list(pieces.values())} "
            f"into {out.name} : {value.type} -> {result.type}"
        )
        return result

    def filled(self, value: int | float, element: str, dims: tuple[Size, ...]) -> Tensor:
        return self.fill(self.scalar(Number(value, element)), dims)

    def scalar(self, number: Number) -> Tensor:
        text = number_text(number.value, number.element)
        self.fills[text] = None
        if text in self.outside:
            return Tensor(self.outside[text], number.element, None)
        result = Tensor(self.name(), number.element, None)
        self.lines.append(f"{result.name} = arith.constant {text}")
        return result

    def fill(self, scalar: Tensor, dims: tuple[Size, ...]) -> Tensor:
        return self.named("linalg.fill", [scalar], self.empty(scalar.element, dims))

    def empty(self, element: str, dims: tuple[Size, ...]) -> Tensor:
        out = Tensor(self.name(), element, dims)
        sizes = ", ".join(self._size(d) for d in dims if isinstance(d, Axis))
        self.lines.append(f"{out.name} = tensor.empty({sizes}) {NAME_ONLY} : {out.type}")
        return out

    def _size(self, axis: Axis) -> str:
        """The size of an argument's dim. A matcher never looks at it."""
        if axis not in self._sizes:
            at, name = self.name(), self.name()
            tensor = self.arguments[axis.argument]
            self.lines.append(f"{at} = arith.constant {axis.axis} : index")
            self.lines.append(f"{name} = tensor.dim {tensor.name}, {at} : {tensor.type}")
            self._sizes[axis] = name
        return self._sizes[axis]

    def named(self, op: str, args: Sequence[Tensor], start: Tensor) -> Tensor:
        return self._written_to(start, op, args, f" -> {start.type}")

    def _written_to(self, out: Tensor, op: str, args: Sequence[Tensor], rest: str) -> Tensor:
        """What an op makes of its operands in the place of a tensor."""
        result = replace(out, name=self.name())
        given = f"ins({', '.join(a.name for a in args)} : {', '.join(a.type for a in args)}) " if args else ""
        self.lines.append(f"{result.name} = {op} {given}outs({out.name} : {out.type}){rest}")
        return result


def number_text(value: int | float, element: str) -> str:
    """A constant with its type, as MLIR writes it. Needs a current context."""
    return str(emit.number(value, ir.Type.parse(element)))


def op_text(name: str, op: str, args: Sequence[str], types: Sequence[str], made: str, attributes: str = "{}") -> str:
    """An op with one result, in the form that all ops have."""
    return f'{name} = "{op}"({", ".join(args)}) {attributes} : ({", ".join(types)}) -> {made}'


def product_body(elements: Sequence[str], element: str, *, running_first: bool) -> list[str]:
    """The lines of a contraction's body, the last of which is `%made.0`."""
    times, plus, extend = _PRODUCTS[vocabulary.is_float(element)]
    lines, factors = [], []
    for i, kind in enumerate(elements):
        factors.append(f"%in.{i}" if kind == element else f"%wide.{i}")
        if kind != element:
            lines.append(op_text(f"%wide.{i}", f"arith.{extend}", [f"%in.{i}"], [kind], element))
    product = factors[0]
    for i, factor in enumerate(factors[1:]):
        lines.append(op_text(f"%product.{i}", f"arith.{times}", [product, factor], [element] * 2, element))
        product = f"%product.{i}"
    return [*lines, combined(f"arith.{plus}", product, element, running_first=running_first)]


def combined(op: str, new: str, element: str, *, running_first: bool) -> str:
    """The line `%made.0` of a reduction's body: its running value with a new one."""
    args = ["%out.0", new] if running_first else [new, "%out.0"]
    return op_text("%made.0", op, args, [element] * 2, element)


def scalar_attributes(op: vocabulary.Op, expr: tree.Call) -> str:
    """What an elementwise op says besides its operands, as MLIR writes it."""
    found = []
    for attribute in expr.attributes:
        if attribute.name == "predicate" and str(attribute.value) in op.predicates:
            found.append(f"predicate = {op.predicates.index(str(attribute.value))} : i64")
        else:
            found.append(f"{attribute.name} = {attribute_text(attribute)}")
    return f"{{{', '.join(found)}}}"


def attribute_text(attribute: tree.Attribute) -> str:
    """An attribute as MLIR writes it. Needs a current context."""
    value = attribute.value
    is_word = isinstance(value, str) and not isinstance(value, tree.MlirText) and attribute.bare
    if value is None or isinstance(value, tuple) or is_word:
        why = "a template needs its type, which is not written"
        raise GapError.at(attribute.span, f"the attribute `{attribute.name}`", why)
    return str(attribute_of(attribute))

"""A captured computation in plain C loops, with the prototype that its kernel is called by: right, not fast.

Each part is computed where the loops that it depends on are open, and kept there, so nothing is summed up more often
than its place asks for. What cannot be written so comes as a prototype that does not compile until somebody writes the
body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsplice.matchers.capture.expressions import (
    Arrange,
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
    Taken,
    walk,
)
from opsplice.matchers.capture.naming import Names, free_name
from opsplice.matchers.capture.pattern_text import VARIABLE_CHOICES, Options, base_name, number_text
from opsplice.matchers.terms.ops.bands import HIGHEST, LOWEST
from opsplice.matchers.terms.terms import Loop
from opsplice.rewrites.reference import c_operators as c
from opsplice.spec_lang.syntax import vocabulary

_WIDTH = 118
_SHORT = 70


@dataclass(frozen=True)
class Reference:
    """The text of a C file. complete: whether it computes; bitcode: whether it must be linked as bitcode."""

    text: str
    complete: bool
    bitcode: bool


def reference(captured: Captured, names: Names, options: Options) -> Reference:
    """The C file for the kernel of a captured computation."""
    needs = c.Needs()
    symbols = _symbols(captured, options).items()
    try:
        functions = [_Function(captured, names, options, elements, needs).text(name) for name, elements in symbols]
    except c.NoCodeError as reason:
        return _stub(captured, names, options, str(reason))
    comment = f"// What the pattern {options.name} says, in plain loops: right, not fast. Put your own in its place."
    return Reference("\n\n".join([_head(comment), *needs.helpers.values(), *functions]) + "\n", True, needs.bitcode)


def _symbols(captured: Captured, options: Options) -> dict[str, dict[str, str]]:
    """The functions of the file: for each its element types, where they are others than the computation's."""
    symbol = f"{options.name}_kernel"
    if not options.element_variable:
        return {symbol: {}}
    own = captured.results[0].element
    return {f"{symbol}_{kind}": {own: kind} for kind in VARIABLE_CHOICES}


def _head(comment: str) -> str:
    includes = "\n".join(f"#include <{name}.h>" for name in ("math", "stdbool", "stddef", "stdint"))
    return f"{comment}\n\n{includes}"


def _stub(captured: Captured, names: Names, options: Options, reason: str) -> Reference:
    comment = f"// The kernel of the pattern {options.name}. TODO: write it; {reason}."
    bodies = []
    for name, elements in _symbols(captured, options).items():
        head = _Function(captured, names, options, elements, c.Needs()).prototype(name)
        bodies.append(f'{head} {{\n#error "{name} is not written yet"\n}}')
    return Reference("\n\n".join([_head(comment), *bodies]) + "\n", False, False)


@dataclass
class _Scope:
    """An open loop (or the function itself), and what is in it so far."""

    index: str
    lines: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _Function:
    captured: Captured
    names: Names
    options: Options
    elements: dict[str, str]
    needs: c.Needs
    scopes: list[_Scope] = field(default_factory=list)
    made: dict[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)  # in which scope each variable is

    def __post_init__(self) -> None:
        count = len(self.captured.results)
        taken = {*self.names.inputs.values(), *self.names.dims.values()}
        self.outs = [free_name("out" if count == 1 else f"out{i}", taken) for i in range(count)]
        self.taken = taken | set(self.outs) | c.RESERVED
        self.shared = _shared(self.captured.results)

    # ---- the function ---------------------------------------------------------------------------------------------

    def prototype(self, symbol: str) -> str:
        """The function's head: parameters, results, and a size for each dim in the order of the signature."""
        words = []
        for given in self.captured.inputs:
            kind, name = c.type_of(self._element(given)), self.names.inputs[given]
            words.append(f"{kind} {name}" if given.scalar else f"const {kind} *restrict {name}")
        for part, out in zip(self.captured.results, self.outs, strict=True):
            words.append(f"{c.type_of(self._element(part))} *restrict {out}")
        named = [self._size(a) for p in (*self.captured.inputs, *self.captured.results) for a in p.axes]
        words += [f"size_t {name}" for name in dict.fromkeys(named) if not name.isdigit()]
        flat = f"void {symbol}({', '.join(words)})"
        if len(flat) + 2 <= _WIDTH:
            return flat
        return f"void {symbol}(\n" + ",\n".join(f"    {word}" for word in words) + ")"

    def text(self, symbol: str) -> str:
        """The whole function. Raises NoCodeError for what cannot be written in plain C."""
        self.scopes = [_Scope("")]
        for part, out in zip(self.captured.results, self.outs, strict=True):
            self._result(part, out)
        body = "\n".join(f"  {line}" for line in self.scopes[0].lines)
        return f"{self.prototype(symbol)} {{\n{body}\n}}"

    def _result(self, part: Part, out: str) -> None:
        at = tuple(self._open() for _ in part.axes)
        value = self._value(part, at)
        self.scopes[-1].lines.append(f"{out}[{self._offset(part.axes, at)}] = {value};")
        for axis in reversed(part.axes):
            self._close(axis)

    # ---- loops ----------------------------------------------------------------------------------------------------

    def _open(self) -> str:
        index = free_name("i", self.taken)
        self.taken.add(index)
        self.scopes.append(_Scope(index))
        return index

    def _close(self, axis: Loop) -> None:
        scope = self.scopes.pop()
        i = scope.index
        head = f"for (size_t {i} = 0; {i} < {self._size(axis)}; {i}++)"
        if len(scope.lines) == 1 and len(scope.lines[0]) <= _SHORT:
            self.scopes[-1].lines.append(f"{head} {scope.lines[0]}")
            return
        self.scopes[-1].lines += [f"{head} {{", *(f"  {line}" for line in scope.lines), "}"]

    def _size(self, axis: Loop) -> str:
        dim = self.captured.axes.dim(axis)
        named = self.names.dims.get(dim, self.names.made.get(dim))
        if dim.size is not None and dim != self.captured.pack and (self.options.concrete or named is None):
            return str(dim.size)
        if named is None:
            raise c.NoCodeError("the size of a dim is not known")
        return named

    def _offset(self, axes: tuple[Loop, ...], at: tuple[str, ...]) -> str:
        """Where an element of a dense row-major buffer is."""
        text = at[0] if at else "0"
        for axis, index in zip(axes[1:], at[1:], strict=True):
            left = f"({text})" if " " in text else text
            text = f"{left} * {self._size(axis)} + {index}"
        return text

    def _depth(self, at: tuple[str, ...]) -> int:
        """The outermost scope in which all indices are known."""
        used = set(re.findall(r"\w+", " ".join(at)))
        known = self.places | {scope.index: number for number, scope in enumerate(self.scopes)}
        return max((known[name] for name in used if name in known), default=0)

    # ---- values ---------------------------------------------------------------------------------------------------

    def _element(self, part: Part) -> str:
        return self.elements.get(part.element, part.element)

    def _value(self, part: Part, at: tuple[str, ...]) -> str:
        """An expression for the element of a part at some indices."""
        if isinstance(part, Input):
            name = self.names.inputs[part]
            return name if part.scalar else f"{name}[{self._offset(part.axes, at)}]"
        if isinstance(part, Number):
            return self._number(part)
        if isinstance(part, Arrange):
            return self._value(part.args[0], tuple(at[part.axes.index(label)] for label in part.labels[0]))
        key = (id(part), at)
        if key not in self.made:
            depth = self._depth(at)
            inside, self.scopes = self.scopes, self.scopes[: depth + 1]
            text = self._computed(part, at)
            keep = depth < len(inside) - 1 or id(part) in self.shared or len(text) > _SHORT
            if keep and not isinstance(part, (Reduction, Contraction)):
                text = self._variable(part, text)
            self.scopes = inside
            if not keep:
                return text
            self.made[key] = text
        return self.made[key]

    def _variable(self, part: Part, text: str) -> str:
        name = self._fresh(part)
        self.scopes[-1].lines.append(f"const {c.type_of(self._element(part))} {name} = {text};")
        return name

    def _fresh(self, part: Part) -> str:
        name = free_name(base_name(part), self.taken)
        self.taken.add(name)
        self.places[name] = len(self.scopes) - 1
        return name

    def _number(self, part: Number) -> str:
        element = self._element(part)
        sizes = [self.names.dims.get(self.captured.axes.dim(axis)) for axis in part.of]
        if part.of and None not in sizes and not (self.options.concrete and part.value):
            product = " * ".join(f"({c.type_of(element)}){size}" for size in sizes)
            return f"({c.literal(1.0, element)} / ({product}))" if 0 < part.value < 1 else f"({product})"
        return c.literal(part.value, element, number_text(part.value, element))

    def _computed(self, part: Part, at: tuple[str, ...]) -> str:
        if isinstance(part, Elementwise):
            args = [self._value(arg, at if arg.axes else ()) for arg in part.args]
            kinds = [self._element(arg) for arg in part.args]
            return c.apply(part.op, args, kinds, self._element(part), dict(part.attributes), self.needs)
        if isinstance(part, Reduction):
            return self._summed(part, at, part.combiner, ("",))
        if isinstance(part, Contraction):
            combiner = "arith.addf" if vocabulary.is_float(part.element) else "arith.addi"
            return self._summed(part, at, combiner, part.widened)
        if isinstance(part, Band):
            return self._banded(part, *at)
        if isinstance(part, Stack):
            return self._stacked(part, dict(zip(part.axes, at, strict=True)))
        if isinstance(part, Taken):
            return self._read(part, dict(zip(part.axes, at, strict=True)))
        assert isinstance(part, Opaque), "inputs, numbers and arrangements are not computations"
        if part.meaning is not None:
            return self._value(part.meaning, at)
        raise c.NoCodeError(f"{part.name} is only known by its name")

    def _banded(self, part: Band, row: str, column: str) -> str:
        low, high, inside, outside, *start = (self._value(arg, ()) for arg in part.args)
        difference = " - ".join(f"(int64_t){index}" for index in (column, row, *start))
        is_open = [isinstance(arg, Number) and arg.value in (LOWEST, HIGHEST) for arg in part.args[:2]]
        asked = [f"{low} <= {difference}"] * (not is_open[0]) + [f"{difference} <= {high}"] * (not is_open[1])
        return f"(({' && '.join(asked)}) ? {inside} : {outside})"

    def _stacked(self, part: Stack, indices: Mapping[Loop, str]) -> str:
        values = [self._value(arg, tuple(_index(each, indices) for each in part.labels[0])) for arg in part.args]
        text = values.pop()
        for number, value in reversed([*enumerate(values)]):
            text = f"({indices[part.along]} == {number} ? {value} : {text})"
        return text

    def _read(self, part: Taken, indices: dict[Loop, str]) -> str:
        """An element of the first argument, at indices that the others are."""
        source, *at = part.args
        for label, arg, labels in zip(part.summed, at, part.labels[1:], strict=True):
            value = self._value(arg, tuple(_index(each, indices) for each in labels))
            indices[label] = value if value.isalnum() else self._variable(arg, value)
        return self._value(source, tuple(_index(each, indices) for each in part.labels[0]))

    def _summed(self, part: Part, at: tuple[str, ...], combiner: str, widened: Sequence[str]) -> str:
        """A variable with the product of the arguments, widened, combined over the labels that the part lacks."""
        element = self._element(part)
        start = vocabulary.identity(combiner, element)
        assert start is not None, "only what combines is lifted"
        total = self._fresh(part)
        self.scopes[-1].lines.append(f"{c.type_of(element)} {total} = {c.literal(start, element)};")
        indices = dict(zip(part.axes, at, strict=True))
        for loop in part.summed:
            indices[loop] = self._open()
        product = ""
        for arg, labels, widen in zip(part.args, part.labels, widened, strict=True):
            value = self._value(arg, tuple(_index(label, indices) for label in labels))
            if widen:
                value = c.apply(widen, [value], [self._element(arg)], element, {}, self.needs)
            times = "arith.mulf" if vocabulary.is_float(element) else "arith.muli"
            product = value if not product else c.apply(times, [product, value], [element] * 2, element, {}, self.needs)
        combined = c.apply(combiner, [total, product], [element, element], element, {}, self.needs)
        self.scopes[-1].lines.append(f"{total} = {combined};")
        for loop in reversed(part.summed):
            self._close(loop)
        return total


def _index(label: Label, indices: Mapping[Loop, str]) -> str:
    if isinstance(label, Loop):
        return indices[label]
    terms = ((factor, indices[loop]) for factor, loop in label.terms if isinstance(loop, Loop))
    return " + ".join(index if factor == 1 else f"{index} * {factor}" for factor, index in terms)


def _shared(results: tuple[Part, ...]) -> set[int]:
    """What is used more than once."""
    seen: set[int] = set()
    twice: set[int] = set()
    for part in walk(results):
        for arg in part.args:
            (twice if id(arg) in seen else seen).add(id(arg))
    return twice

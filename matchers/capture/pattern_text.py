"""A captured computation as text of the language: a pattern, a kernel's declaration and a rule.

The text is what a person would write: names for what is used twice or is long, dims by name, one letter for the labels.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.matchers.capture.expressions import (
    Arrange,
    Band,
    Captured,
    Contraction,
    Elementwise,
    Input,
    Number,
    Opaque,
    Part,
    Reduction,
    Stack,
    Taken,
    walk,
)
from opsplice.matchers.capture.naming import Labels, Names, free_name
from opsplice.matchers.ir.op_names import short
from opsplice.matchers.terms import constants
from opsplice.matchers.terms.terms import Loop, Sum
from opsplice.spec_lang.formatting.one_line import quote
from opsplice.spec_lang.syntax import vocabulary

VARIABLE = "T"
VARIABLE_CHOICES = ("f32", "f64")
_LONG = 56
# What a part is called where it needs a name.
_LET_NAMES = {
    "maximumf": "peak", "maxnumf": "peak", "maxsi": "peak", "minimumf": "least", "minsi": "least", "exp": "e",
    "rsqrt": "scale", "sqrt": "root", "subf": "diff", "addf": "sum", "mulf": "prod", "divf": "ratio", "erf": "erf_x",
    "tanh": "tanh_x", "negf": "neg", "absf": "size", "select": "chosen", "cmpf": "test", "cmpi": "test",
}  # fmt: skip

_NAMES_OF: dict[type[Part], str] = {Contraction: "product", Taken: "rows", Band: "mask", Stack: "both"}


@dataclass(frozen=True)
class Options:
    """How to write a capture.

    name: the pattern's. concrete: sizes as they are, rather than names. element_variable: a type variable for the
    element type of the results. from_neutral: where a template's reductions may start from anything, they start from
    the neutral value of their op. of_template: types say the sizes of dims that no input has, and regions may be any.
    """

    name: str
    concrete: bool = False
    element_variable: bool = False
    from_neutral: bool = False
    of_template: bool = False


@dataclass(frozen=True)
class Signature:
    """The kernel that would take the pattern's place, as text: its parameters and results with their types.

    problem: why no kernel can be declared, "" if one can.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class Written:
    """A pattern as unformatted text, its lets and its results alone, and the signature of its kernel."""

    pattern: str
    lets: tuple[str, ...]
    results: tuple[str, ...]
    signature: Signature


def write(captured: Captured, names: Names, options: Options) -> Written:
    """Write a captured computation. Raises OpspliceError where the options do not fit it."""
    return _Writer(captured, names, options).write()


class _Writer:
    def __init__(self, captured: Captured, names: Names, options: Options) -> None:
        self.captured = captured
        self.names = names
        self.options = options
        self.variable = self._variable() if options.element_variable else None
        self.uses = _occurrences(captured.results)
        self.lets: list[str] = []
        self.let_names: dict[int, str] = {}
        self.opaque_names: dict[Any, list[str]] = {}
        self.results = {id(part) for part in captured.results}

    def write(self) -> Written:
        results = [self._text(part) for part in self.captured.results]
        parameters = [f"{self.names.inputs[p]}: {self._type(p)}" for p in self.captured.inputs]
        variables = f"<{VARIABLE} in {{{', '.join(VARIABLE_CHOICES)}}}>" if self.variable else ""
        lines = [
            f"pattern {self.options.name}{variables}({', '.join(parameters)}) {{",
            *self.lets,
            ", ".join(results),
            "}",
        ]
        return Written("\n".join(lines), tuple(self.lets), tuple(results), self._signature())

    def _variable(self) -> str:
        """The element type that the variable stands for."""
        element = self.captured.results[0].element
        if element not in VARIABLE_CHOICES:
            choices = " or ".join(VARIABLE_CHOICES)
            raise OpspliceError(f"a type variable stands for {choices}, and this makes {element}")
        parts = list(walk(self.captured.results))
        for part in parts:
            known = vocabulary.find(part.op) if isinstance(part, Elementwise) else None
            mixed = isinstance(part, Contraction) and any(part.widened)
            if mixed or (known is not None and known.is_cast and vocabulary.is_float(part.element)):
                message = "the computation converts between element types, which fixes them"
                raise OpspliceError(message, hint="capture it without --element-variable")
        return element

    # ---- types ----------------------------------------------------------------------------------------------------

    def _element(self, element: str) -> str:
        return VARIABLE if element == self.variable else element

    def _dim(self, axis: Loop, *, sized: bool = False, unknown: str = "?") -> str:
        dim = self.captured.axes.dim(axis)
        named = self.names.dims.get(dim)
        if dim == self.captured.pack:
            return f"...{named}"
        if named is None and not unknown:
            named = self.names.made.get(dim, None if dim.size is None else str(dim.size))
        if dim.size is not None and (self.options.concrete or (sized and named is None)):
            return str(dim.size)
        return named if named is not None else unknown

    def _type(self, part: Part) -> str:
        element = self._element(part.element)
        if isinstance(part, Input) and part.scalar:
            return element
        sized = self.options.of_template or (isinstance(part, Opaque) and not part.args)
        return f"tensor<{' x '.join([*(self._dim(axis, sized=sized) for axis in part.axes), element])}>"

    def _signature(self) -> Signature:
        parameters, results = [], []
        problem = ""
        for part in (*self.captured.inputs, *self.captured.results):
            scalar = isinstance(part, Input) and part.scalar
            if part.element not in vocabulary.KERNEL_ELEMENTS and not (scalar and part.element == "index"):
                problem = problem or f"kernels take no {part.element}"
            dims = [self._dim(axis, unknown="") for axis in part.axes]
            element = self._element(part.element)
            written = element if scalar else f"{element}[{', '.join(dims)}]"
            if isinstance(part, Input):
                parameters.append((self.names.inputs[part], written))
            else:
                results.append(written)
        return Signature(f"{self.options.name}_kernel", tuple(parameters), tuple(results), problem)

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _text(self, part: Part) -> str:
        """An expression, or the name that it was given above."""
        if isinstance(part, Input):
            return self.names.inputs[part]
        if isinstance(part, Number):
            return self._number(part)
        if id(part) in self.let_names:
            return self.let_names[id(part)]
        if isinstance(part, Opaque) and part.count > 1:
            return self._one_of_several(part)
        text = self._expression(part)
        is_result = id(part) in self.results
        shared = self.uses[id(part)] > 1
        if isinstance(part, Arrange) or (not shared and (is_result or len(text) <= _LONG)):
            return text
        name = free_name(base_name(part), self._taken())
        self.lets.append(f"{name} = {text}")
        self.let_names[id(part)] = name
        return name

    def _taken(self) -> set[str]:
        own = {*self.let_names.values(), *(n for known in self.opaque_names.values() for n in known)}
        return {
            *own,
            *self.names.inputs.values(),
            *self.names.dims.values(),
            self.options.name,
            VARIABLE,
            *vocabulary.OPS,
        }

    def _expression(self, part: Part) -> str:
        args = ", ".join(self._text(arg) for arg in part.args)
        if isinstance(part, Elementwise):
            return self._call(part, args)
        if isinstance(part, Opaque):
            return f"{self._named(part, args)} : {self._type(part)}"
        if isinstance(part, Band):
            return f"{vocabulary.BAND}({args}) : {self._type(part)}"
        windows = isinstance(part, Contraction) and any(isinstance(i, Sum) for each in part.labels for i in each)
        labels = Labels(self.captured, self.names, windows=windows)
        subscripts = f"[{', '.join(map(labels.text, part.labels))} -> {labels.text(part.axes)}]"
        if isinstance(part, Contraction):
            wide = f" : {self._element(part.element)}" if any(part.widened) else ""
            kind = f" : {self._type(part)}" if windows and self.options.of_template else wide
            return self._started(part, f"contract{subscripts}({args}){kind}")
        if isinstance(part, (Stack, Taken)):
            return f"{'stack' if isinstance(part, Stack) else 'take'}{subscripts}({args})"
        assert isinstance(part, (Arrange, Reduction))
        head = part.kind if isinstance(part, Arrange) else f"reduce {short(part.combiner)}"
        text = f"{head}{subscripts}({args})"
        return self._started(part, text) if isinstance(part, Reduction) else text

    def _started(self, part: Contraction | Reduction, text: str) -> str:
        return text if part.start is None or self.options.from_neutral else f"accumulated({text})"

    def _call(self, part: Elementwise, args: str) -> str:
        known = vocabulary.find(part.op)
        assert known is not None, "only ops of the language are lifted"
        attributes = []
        for name, value in part.attributes:
            predicate = name == "predicate" and known.predicates
            attributes.append(f"{name} = {known.predicates[int(value)]}" if predicate else f"{name} = {quote(value)}")
        text = f"{known.name}({args})"
        if attributes:
            text += f" {{{', '.join(attributes)}}}"
        if known.is_cast or all(isinstance(arg, Number) for arg in part.args):
            text += f" : {self._element(part.element)}"
        return text

    def _one_of_several(self, part: Opaque) -> str:
        if part.op not in self.opaque_names:
            used = {p.number for p in walk(self.captured.results) if isinstance(p, Opaque) and p.op == part.op}
            args = ", ".join(self._text(arg) for arg in part.args)
            names: list[str] = self.opaque_names.setdefault(part.op, [])
            for number in range(part.count):
                names.append(free_name("made" if number in used else "_made", self._taken()))
            self.lets.append(f"{', '.join(names)} = {self._named(part, args)}")
        return self.opaque_names[part.op][part.number]

    def _named(self, part: Opaque, args: str) -> str:
        """An op by its name, without its type."""
        asked = [f"{name} = {value}" for name, value in part.attributes]
        is_open = self.options.of_template and len(part.op.regions) and not part.body
        if is_open or (part.rest and not part.args):
            asked.append("...")
        given = f"{args}, ..." if part.rest and args else "..." if part.rest else args
        said = f"{quote(part.name)}({given})" + f" {{{', '.join(asked)}}}" * bool(asked)
        return f"{said} mlir {{\n{part.body}\n}}" if part.body else said

    def _number(self, part: Number) -> str:
        named = [self.names.dims.get(self.captured.axes.dim(axis)) for axis in part.of]
        dynamic = part.of and part.value == 0
        if part.of and None not in named and (dynamic or not self.options.concrete):
            product = " * ".join(name for name in named if name is not None)
            if 0 < part.value < 1:
                return f"const(1 / {f'({product})' if len(named) > 1 else product})"
            return product if len(named) == 1 else f"const({product})"
        return number_text(part.value, part.element)


def _occurrences(results: tuple[Part, ...]) -> Counter[int]:
    """How often each part would be written if what is used twice had a name."""
    order = list(walk(results))
    uses = Counter(id(part) for part in results)
    for part in reversed(order):
        inlined = isinstance(part, Arrange)
        for arg in part.args:
            uses[id(arg)] += uses[id(part)] if inlined else 1
    return uses


def number_text(value: int | float, element: str) -> str:
    """The shortest number that is the value when rounded to the element type."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = (float(f"{value:.{digits}g}") for digits in range(1, 18))
    return repr(next((number for number in short if constants.rounded(number, element) == value), value))


def base_name(part: Part) -> str:
    if isinstance(part, Reduction):
        names = _LET_NAMES | {"addf": "total", "addi": "total", "mulf": "product"}
        return names.get(short(part.combiner), "t")
    for kind, name in _NAMES_OF.items():
        if isinstance(part, kind):
            return name
    if isinstance(part, Elementwise):
        if any(isinstance(arg, Number) and arg.of for arg in part.args):
            return "mean"
        return _LET_NAMES.get(short(part.op), "t")
    return "made"

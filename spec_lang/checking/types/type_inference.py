"""The type of each value in a pattern, from the parameters up, and everything that does not fit together.

Elementwise ops take operands of one shape; scalars and constants alone spread by themselves. Nothing here knows of
kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opsplice.common.errors import counted, did_you_mean, one_of
from opsplice.spec_lang.checking.types.contraction_types import contracted_element
from opsplice.spec_lang.checking.types.element_types import Report, check_element
from opsplice.spec_lang.checking.types.inferred_values import Misfit, Number, Value, miscounted, show
from opsplice.spec_lang.checking.types.operand_types import (
    ascribed,
    cast_element,
    check_kind,
    check_mixed,
    check_operand,
    common_dims,
    numbers_of_band,
)
from opsplice.spec_lang.checking.types.other_names import hint_for
from opsplice.spec_lang.checking.types.signature_binding import Binding, either, either_dims, possible_elements
from opsplice.spec_lang.checking.types.subscript_labels import (
    bind_labels,
    bind_new_labels,
    bind_stacked,
    check_labels,
    in_pieces,
    labelled_dims,
    relabelled,
)
from opsplice.spec_lang.checking.walks import forms
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import error
from opsplice.spec_lang.syntax.tree import Expr, ScalarType, Span, TensorType, Type


@dataclass(frozen=True)
class Signature:
    """A pattern as others use it; a result's type is None where it is not known."""

    variables: tuple[tree.TypeVariable, ...]
    parameters: tuple[tree.Parameter, ...]
    results: tuple[Type | None, ...]


def infer(
    pattern: tree.Pattern, signatures: Mapping[str, Signature], report: Report
) -> tuple[dict[Expr, Type | None], tuple[Type | None, ...]]:
    """The type of every expression of a pattern, and those of its results.

    signatures: the patterns that it may use. report: takes what does not fit.
    A type is None where a quoted op without a type, an unused constant or an error leaves it open.
    """
    inference = _Inference(pattern, signatures, report)
    for let in pattern.body:
        inference.let(let)
    for asked in forms(pattern.where):
        inference.value(asked.form)
    results = tuple(inference.result(r) for r in pattern.results)
    return inference.types, results


class _Inference:
    def __init__(self, pattern: tree.Pattern, signatures: Mapping[str, Signature], report: Report) -> None:
        self.report = report
        self.signatures = signatures
        self.variables = pattern.type_variables
        self.parameters = frozenset(p.name for p in pattern.parameters)
        self.casts = "cast" in pattern.through
        self.values: dict[str, Value] = {p.name: self._known(p.type) for p in pattern.parameters}
        self.later = {name for let in pattern.body for name in let.names}
        self.dims = {d.name: d for p in pattern.parameters for d in p.type.dims if d.name is not None}
        self.types: dict[Expr, Type | None] = {}
        self.found: dict[int, Value] = {}  # by identity: to compare expressions takes as long as they are
        self.ends = frozenset(map(id, pattern.results))

    def fail(self, span: Span, message: str, help: str | None = None) -> None:  # noqa: A002
        self.report(error(span, message, help))

    def _known(self, declared: Type) -> Type | None:
        """The type, unless it is misspelt, which causes no further errors."""
        possible = possible_elements(declared.element.name, self.variables)
        return declared if possible is None or all(map(vocabulary.is_element, possible)) else None

    # ---- statements ----

    def let(self, let: tree.Let) -> None:
        if len(let.names) == 1:
            self.values[let.names[0]] = self.value(let.expr)
            return
        made: tuple[Value, ...] | None = None
        if isinstance(let.expr, tree.Call) and let.expr.quoted:
            self.quoted(let.expr)
            if let.expr.type is not None:
                self.fail(let.expr.type.span, "one type cannot stand for several results", "leave it out")
        elif isinstance(let.expr, tree.Call) and let.expr.callee in self.signatures:
            signature = self.signatures[let.expr.callee]
            try:
                made = self.use(let.expr, signature)
            except Misfit as misfit:
                self.report(misfit.diagnostic)
                made = (None,) * len(signature.results)
        else:
            self.value(let.expr)
            made = (None,)
        if made is not None and len(made) != len(let.names):
            self.fail(let.span, f"{len(let.names)} names are bound to {counted(len(made), 'result')}")
            made = None
        self.types[let.expr] = None
        self.values.update(zip(let.names, made or (None,) * len(let.names), strict=True))

    def result(self, expr: Expr) -> Type | None:
        return None if isinstance(value := self.value(expr), Number) else value

    # ---- expressions ----

    def value(self, expr: Expr) -> Value:
        try:
            value = self._value(expr)
        except Misfit as misfit:
            self.report(misfit.diagnostic)
            value = None
        self.found[id(expr)] = value
        self.types[expr] = None if isinstance(value, Number) else value
        return value

    def _value(self, expr: Expr) -> Value:
        match expr:
            case tree.Name():
                return self.name(expr)
            case tree.Constant():
                return Number(expr)
            case tree.Wildcard():
                return None
            case tree.Alternatives():
                return self.alternatives(expr)
            case tree.Uses():
                return self.value(expr.arg)
            case tree.Setting():
                self._check_setting(expr)
                return self.value(expr.arg)
            case tree.Call(optional=True):
                return self.optional(expr)
            case tree.Call():
                return self.call(expr)
            case tree.Contract():
                return self.contract(expr)
            case tree.Reduce():
                return self.reduce(expr)
            case tree.Rearrange():
                return self.rearrange(expr)

    def name(self, name: tree.Name) -> Value:
        if name.name in self.values:
            return self.values[name.name]
        if name.name == "nan":
            self.fail(name.span, "no value equals nan", "test with isnan(x)")
        elif name.name in self.later:
            self.fail(name.span, f"{name.name} is bound further down", "move that line up")
        else:
            self.fail(name.span, f"unknown name {name.name}", one_of(name.name, [*self.values, *self.dims]))
        return None

    def alternatives(self, expr: tree.Alternatives) -> Value:
        values = [self.value(option) for option in expr.options]
        known = [(o, v) for o, v in zip(expr.options, values, strict=True) if isinstance(v, (ScalarType, TensorType))]
        if not known:
            return next((v for v in values if v is not None), None)
        first, made = known[0]
        for option, other in known[1:]:
            merged = self._merged(made, other) or (either(made, other) if id(expr) in self.ends else None)
            if merged is None:
                message = f"the alternatives differ: {show(first)} is {made}, {show(option)} is {other}"
                raise Misfit(option.span, message, "each of them stands for the same value")
            made = merged
        for option, value in zip(expr.options, values, strict=True):
            if isinstance(value, Number):
                self._settle(option, value, made.element.name)
        return made

    def _check_setting(self, expr: tree.Setting) -> None:
        kind, name = self.value(expr.name), expr.name.name
        if kind is None:
            return
        if not isinstance(kind, ScalarType) or name not in self.parameters or not vocabulary.is_element(kind.name):
            advice = f"declare it as a parameter of one type, such as {name}: i32 = 0"
            self.fail(expr.name.span, f"an alternative says what a scalar is, and {name} is none", advice)
        elif isinstance(expr.value.value, float) and not vocabulary.is_float(kind.name):
            self.fail(expr.value.span, f"{expr.value.value} is not an integer, and {name}: {kind} is")
        elif not vocabulary.holds(kind.name, expr.value.value):
            self.fail(expr.value.span, f"{name}: {kind} cannot hold {expr.value.value}")

    def _merged(self, left: Type, right: Type) -> Type | None:
        """What two types have in common, or None if they differ. A scalar goes with a tensor that it spreads over."""
        if left.element.name != right.element.name:
            return None
        if not isinstance(left, TensorType) or not isinstance(right, TensorType):
            return left if isinstance(left, TensorType) else right
        dims = either_dims(left.dims, right.dims)
        return None if dims is None else TensorType(left.span, dims, left.element)

    def optional(self, call: tree.Call) -> Value:
        """An op that is there, or just its first operand."""
        value = self.call(call)
        if not call.args:
            raise Misfit(call.span, f"{call.callee} has no operand to stand for it where it is absent")
        # The op's own operand, which was looked at with it: to look again doubles the work at each depth.
        first = call.args[0]
        bare = self.found[id(first)] if id(first) in self.found else self.value(first)
        if not isinstance(value, (ScalarType, TensorType)) or not isinstance(bare, (ScalarType, TensorType)):
            return None
        merged = self._merged(value, bare)
        if merged is None:
            message = f"{call.callee}? makes {value}, and without it this is {bare}"
            casts = value.element.name != bare.element.name
            advice = "to look through casts, write `through cast` on the pattern" if casts else None
            self.fail(call.span, message, advice)
        return merged

    def call(self, call: tree.Call) -> Value:
        if call.quoted:
            return self.quoted(call)
        op = vocabulary.find(call.callee)
        if op is not None:
            return self.elementwise(call, op)
        if call.callee in self.signatures:
            made = self.use(call, self.signatures[call.callee])
            if len(made) == 1:
                return made[0]
            advice = f"bind them all: {', '.join(f'r{i}' for i in range(len(made)))} = {call.callee}(...)"
            raise Misfit(call.span, f"{call.callee} has {len(made)} results", advice)
        if call.callee == vocabulary.BAND:
            return self.band(call)
        for arg in call.args:
            self.value(arg)
        if "<" in call.callee:
            return None  # reported where ops were put in
        advice = hint_for(call.callee, [*vocabulary.OPS, *self.signatures])
        raise Misfit(call.callee_span, f"unknown op or pattern {call.callee}", advice)

    def band(self, call: tree.Call) -> Type | None:
        values = [self.value(arg) for arg in call.args]
        self.check_type(call.type)
        for arg, number, element in numbers_of_band(call, values):
            self._settle(arg, number, element)
        return call.type

    def quoted(self, call: tree.Call) -> Type | None:
        for arg in call.args:
            self.value(arg)
        if "." not in call.callee:
            self.fail(call.callee_span, "an op in quotes needs its full name", f'such as "linalg.{call.callee}"')
        self.check_type(call.type)
        return call.type

    # ---- elementwise ----

    def elementwise(self, call: tree.Call, op: vocabulary.Op) -> Type | None:
        values = [self.value(arg) for arg in call.args]
        self.check_type(call.type)
        self._check_predicate(call, op)
        for attribute in call.attributes:
            if attribute.value is None:
                advice = f'ask it of the op in quotes: "{op.full_name}"(...)'
                self.fail(attribute.span, f"{call.callee} takes attributes only as name = value", advice)
        if len(values) != op.arity:
            raise Misfit(call.span, f"{call.callee} takes {counted(op.arity, 'value')}, found {len(values)}")
        elements: dict[str, str] = {}
        operands = list(zip(call.args, op.operands, values, strict=True))
        # Scalars come last: a tensor's element type is that of the result where the two may differ.
        ordered = sorted(operands, key=lambda operand: isinstance(operand[2], ScalarType))
        for arg, letter, value in ordered:
            check_operand(call, op, arg, letter, value, elements, self.variables, self.casts)
        for arg, letter, value in operands:
            if isinstance(value, Number) and letter in elements:
                self._settle(arg, value, elements[letter])
        shaped = [(arg, v) for arg, v in zip(call.args, values, strict=True) if isinstance(v, (ScalarType, TensorType))]
        dims = common_dims(call, shaped)
        element = self._result_element(call, op, elements, any(v is None for v in values))
        if element is None:
            return None
        if any(v is None for v in values) and not dims:
            return call.type if isinstance(call.type, TensorType) else None
        scalar = not any(isinstance(v, TensorType) for _, v in shaped)
        made = ScalarType(call.span, element) if scalar else TensorType(call.span, dims, ScalarType(call.span, element))
        check_mixed(call, op, element, values)
        return self._ascribed(call.type, made)

    def _check_predicate(self, call: tree.Call, op: vocabulary.Op) -> None:
        if not op.predicates:
            return
        given = next((a for a in call.attributes if a.name == "predicate"), None)
        choices = f"the predicates of {op.name} are {' '.join(op.predicates)}"
        if given is None:
            example = "ogt" if op.name == "cmpf" else "sgt"
            self.fail(call.span, f"{op.name} needs a predicate", f"write {{predicate = {example}}} after it; {choices}")
        elif str(given.value).lower() not in op.predicates:  # `true` and `false` are bools to the parser
            self.fail(given.span, f"{op.name} has no predicate {given.value}", choices)

    def _settle(self, expr: Expr, number: Number, element: str) -> None:
        """Give a constant the element type of what it meets."""
        settled = ScalarType(expr.span, element)
        self.types[expr] = settled
        if self.types.get(number.constant) is None:
            self.types[number.constant] = settled
        possible = possible_elements(element, self.variables)
        literal = _float_literal(number.constant)
        if literal is not None and possible is not None and not all(map(vocabulary.is_float, possible)):
            self.fail(expr.span, f"{literal} is not an integer, and the other operand is of type {element}")

    def _result_element(
        self, call: tree.Call, op: vocabulary.Op, elements: dict[str, str], unknown: bool
    ) -> str | None:
        if op.result == "B":
            return "i1"
        if op.is_cast:
            return cast_element(call, op, elements, self.variables)
        if op.result in elements:
            return elements[op.result]
        if call.type is not None:
            return call.type.element.name
        if not unknown:
            advice = f"write it: {call.callee}(...) : f32"
            self.fail(call.span, f"{call.callee} has only constants as operands, so its type is unknown", advice)
        return None

    # ---- subscripts ----

    def contract(self, expr: tree.Contract) -> Type | None:
        values = [self.value(arg) for arg in expr.args]
        self.check_type(expr.type)
        element = contracted_element(expr, values, self.variables)
        binding = bind_labels(expr.subscripts, expr.args, values, self.dims)
        if expr.kind == "stack":
            bind_stacked(expr, binding, self.dims)
        else:
            check_labels(expr.subscripts, expr.kind)
        dims = binding.apply_dims(labelled_dims(expr.subscripts.result, expr.subscripts.span))
        if element is None or dims is None:
            return expr.type if isinstance(expr.type, TensorType) else None
        return self._ascribed(expr.type, TensorType(expr.span, dims, ScalarType(expr.span, element)))

    def reduce(self, expr: tree.Reduce) -> Type | None:
        value = self.value(expr.arg)
        self.check_type(expr.type)
        op = vocabulary.find(expr.combiner)
        places = expr.combiner in vocabulary.POSITIONS
        if not places and (op is None or op.name not in vocabulary.COMBINERS):
            known = (*vocabulary.COMBINERS, *vocabulary.POSITIONS)
            advice = did_you_mean(expr.combiner, known) or f"the ops that can are {' '.join(known)}"
            raise Misfit(expr.combiner_span, f"{expr.combiner} cannot reduce", advice)
        binding = bind_labels(expr.subscripts, (expr.arg,), [value], self.dims)
        check_labels(expr.subscripts, "reduce")
        if set(expr.subscripts.operands[0]) == set(expr.subscripts.result):
            raise Misfit(expr.subscripts.span, "no label is left out, so nothing is reduced")
        index = self._index_type(expr) if places else None
        if not isinstance(value, TensorType):
            return None
        if op is not None:
            found = f"{show(expr.arg)} is {value}"
            check_kind(expr.arg.span, expr.combiner, op, op.operands[0], value.element.name, found, self.variables)
        made = relabelled(expr, binding, value, index)
        return None if made is None else self._ascribed(expr.type, made)

    def _index_type(self, expr: tree.Reduce) -> ScalarType:
        """The type of the places that an index reduction tells, which is written behind it."""
        reduced = set(expr.subscripts.operands[0]) - set(expr.subscripts.result)
        if len(reduced) != 1 or any(isinstance(label, tree.Window) or label.startswith("...") for label in reduced):
            raise Misfit(expr.subscripts.span, f"{expr.combiner} tells a place along one dim", "leave out one label")
        if expr.type is None:
            advice = f"write it behind: reduce {expr.combiner}[...](x) : i32, or a type variable's name"
            raise Misfit(expr.span, f"{expr.combiner} needs the type of the places that it tells", advice)
        possible = possible_elements(expr.type.element.name, self.variables)
        if possible is not None and not all(map(vocabulary.is_integer, possible)):
            raise Misfit(expr.type.span, f"places are integers, and {expr.type.element.name} may be something else")
        return expr.type.element

    def rearrange(self, expr: tree.Rearrange) -> Type | None:
        value = self.value(expr.arg)
        binding = bind_labels(expr.subscripts, (expr.arg,), [value], self.dims)
        if expr.subscripts.windows:
            raise Misfit(expr.subscripts.span, f"{expr.kind} reads no sums of labels", "only contract and reduce do")
        before, after = [str(label) for label in expr.subscripts.operands[0]], list(expr.subscripts.result)
        if expr.kind != "broadcast":
            if sorted(before) != sorted(after):
                message = f"{expr.kind} keeps all labels and adds none"
                raise Misfit(expr.subscripts.span, message, "see broadcast and reduce")
        else:
            bind_new_labels(expr, binding, self.dims)
        if expr.pieces:
            return in_pieces(expr, binding, value) if isinstance(value, TensorType) else None
        return relabelled(expr, binding, value) if isinstance(value, (ScalarType, TensorType)) else None

    # ---- patterns in patterns ----

    def use(self, call: tree.Call, used: Signature) -> tuple[Type | None, ...]:
        """The types of a used pattern's results."""
        values = [self.value(arg) for arg in call.args]
        self.check_type(call.type)
        if call.attributes:
            self.fail(call.attributes[0].span, "a pattern takes no attributes", "they belong to ops")
        if len(values) != len(used.parameters):
            raise miscounted(call, used.parameters)
        binding = Binding(used.variables, self.variables)
        pairs = list(zip(call.args, used.parameters, values, strict=True))
        for arg, parameter, value in pairs:
            if isinstance(value, (ScalarType, TensorType)):
                reason = binding.match(parameter.type, value)
                if reason:
                    message = f"{show(arg)} is {value}, which does not fit {parameter.name}: {parameter.type}: {reason}"
                    raise Misfit(arg.span, message)
        for arg, parameter, value in pairs:
            if isinstance(value, Number):
                if parameter.type.dims:
                    message = f"{call.callee} takes a {parameter.type} as {parameter.name}, not a constant"
                    raise Misfit(arg.span, message)
                wanted = binding.apply(parameter.type)
                if wanted is not None:
                    self._settle(arg, value, wanted.element.name)
        made = [None if result is None else binding.apply(result) for result in used.results]
        if call.type is not None and len(made) == 1:
            made = [call.type if made[0] is None else self._ascribed(call.type, made[0])]
        return tuple(made)

    # ---- types that are written ----

    def _ascribed(self, written: Type | None, made: Type) -> Type:
        return made if written is None else ascribed(written, made, self.variables, self.casts)

    def check_type(self, written: Type | None) -> None:
        """A type in a body names known elements and the parameters' dims."""
        if written is None:
            return
        check_element(written.element, self.variables, self.report)
        for dim in written.dims:
            if dim.name is not None and dim.name not in self.dims:
                advice = did_you_mean(dim.name, self.dims) or "write ? for a size that the parameters do not have"
                self.fail(dim.span, f"no parameter has a dim {dim.name}", advice)


def _float_literal(constant: tree.Constant) -> float | None:
    """A literal that is not an integer anywhere in a constant."""
    numbers = (part.value for part in tree.parts(constant) if isinstance(part, tree.Literal))
    return next((number for number in numbers if isinstance(number, float)), None)

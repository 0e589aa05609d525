"""The type of each value in a pattern, from the parameters up, and everything that does not fit together.

Elementwise ops take operands of one shape; scalars and constants alone spread by themselves. Nothing here knows of
kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opsplice.errors import counted
from opsplice.spec_lang.checking.signature_binding import Binding, dims_of, element_of, merge_dims, possible_elements
from opsplice.spec_lang.checking.walks import forms
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, did_you_mean, error
from opsplice.spec_lang.syntax.tree import Dim, Expr, ScalarType, Span, TensorType, Type

Report = Callable[[Diagnostic], None]


@dataclass(frozen=True)
class Signature:
    """A pattern as others use it; a result's type is None where it is not known."""

    variables: tuple[tree.TypeVariable, ...]
    parameters: tuple[tree.Parameter, ...]
    results: tuple[Type | None, ...]


@dataclass(frozen=True)
class _Number:
    """A constant, whose element type is its user's."""

    constant: tree.Constant


_Value = ScalarType | TensorType | _Number | None

_SMALL = 24
_ELEMENT_KINDS: dict[str, tuple[str, Callable[[str], bool]]] = {
    **dict.fromkeys("FGH", ("floats", vocabulary.is_float)),
    **dict.fromkeys("IJ", ("integers", vocabulary.is_integer)),
    "B": ("i1", lambda element: element == "i1"),
    **dict.fromkeys("AZ", ("floats and integers", vocabulary.is_element)),
}


class _Misfit(Exception):  # noqa: N818
    """What keeps an expression from having a type."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:  # noqa: A002
        self.diagnostic = error(span, message, help)


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
        self.casts = "cast" in pattern.through
        self.values: dict[str, _Value] = {p.name: self._known(p.type) for p in pattern.parameters}
        self.later = {name for let in pattern.body for name in let.names}
        self.dims = {d.name: d for p in pattern.parameters for d in dims_of(p.type) if d.name is not None}
        self.types: dict[Expr, Type | None] = {}
        # What each expression was found to be, by its identity: to compare expressions takes as long as they are.
        self.found: dict[int, _Value] = {}

    def fail(self, span: Span, message: str, help: str | None = None) -> None:  # noqa: A002
        self.report(error(span, message, help))

    def _known(self, declared: Type) -> Type | None:
        """The type, unless it is misspelt, which causes no further errors."""
        possible = possible_elements(element_of(declared).name, self.variables)
        return declared if possible is None or all(map(vocabulary.is_element, possible)) else None

    # ---- statements ----

    def let(self, let: tree.Let) -> None:
        if len(let.names) == 1:
            self.values[let.names[0]] = self.value(let.expr)
            return
        made: tuple[_Value, ...] | None = None
        if isinstance(let.expr, tree.Call) and let.expr.quoted:
            self.quoted(let.expr)
            if let.expr.type is not None:
                self.fail(let.expr.type.span, "one type cannot stand for several results", "leave it out")
        elif isinstance(let.expr, tree.Call) and let.expr.callee in self.signatures:
            signature = self.signatures[let.expr.callee]
            try:
                made = self.use(let.expr, signature)
            except _Misfit as misfit:
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
        value = self.value(expr)
        return None if isinstance(value, _Number) else value

    # ---- expressions ----

    def value(self, expr: Expr) -> _Value:
        try:
            value = self._value(expr)
        except _Misfit as misfit:
            self.report(misfit.diagnostic)
            value = None
        self.found[id(expr)] = value
        self.types[expr] = None if isinstance(value, _Number) else value
        return value

    def _value(self, expr: Expr) -> _Value:
        match expr:
            case tree.Name():
                return self.name(expr)
            case tree.Constant():
                return _Number(expr)
            case tree.Wildcard():
                return None
            case tree.Alternatives():
                return self.alternatives(expr)
            case tree.Uses():
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

    def name(self, name: tree.Name) -> _Value:
        if name.name in self.values:
            return self.values[name.name]
        if name.name == "nan":
            self.fail(name.span, "no value equals nan", "test with isnan(x)")
        elif name.name in self.later:
            self.fail(name.span, f"{name.name} is bound further down", "move that line up")
        else:
            self.fail(name.span, f"unknown name {name.name}", did_you_mean(name.name, [*self.values, *self.dims]))
        return None

    def alternatives(self, expr: tree.Alternatives) -> _Value:
        values = [self.value(option) for option in expr.options]
        known = [(o, v) for o, v in zip(expr.options, values, strict=True) if isinstance(v, (ScalarType, TensorType))]
        if not known:
            return next((v for v in values if v is not None), None)
        first, made = known[0]
        for option, other in known[1:]:
            merged = self._merged(made, other)
            if merged is None:
                message = f"the alternatives differ: {_show(first)} is {made}, {_show(option)} is {other}"
                raise _Misfit(option.span, message, "each of them stands for the same value")
            made = merged
        for option, value in zip(expr.options, values, strict=True):
            if isinstance(value, _Number):
                self._settle(option, value, element_of(made).name)
        return made

    def _merged(self, left: Type, right: Type) -> Type | None:
        """What two types have in common, or None if they differ. A scalar goes with a tensor that it spreads over."""
        if element_of(left).name != element_of(right).name:
            return None
        if not isinstance(left, TensorType) or not isinstance(right, TensorType):
            return left if isinstance(left, TensorType) else right
        dims = merge_dims(left.dims, right.dims)
        return None if dims is None else TensorType(left.span, dims, left.element)

    def optional(self, call: tree.Call) -> _Value:
        """An op that is there, or just its first operand."""
        value = self.call(call)
        if not call.args:
            raise _Misfit(call.span, f"{call.callee} has no operand to stand for it where it is absent")
        # The op's own operand, which was looked at with it: to look again doubles the work at each depth.
        first = call.args[0]
        bare = self.found[id(first)] if id(first) in self.found else self.value(first)
        if not isinstance(value, (ScalarType, TensorType)) or not isinstance(bare, (ScalarType, TensorType)):
            return None
        merged = self._merged(value, bare)
        if merged is None:
            message = f"{call.callee}? makes {value}, and without it this is {bare}"
            casts = element_of(value).name != element_of(bare).name
            advice = "to look through casts, write `through cast` on the pattern" if casts else None
            self.fail(call.span, message, advice)
        return merged

    def call(self, call: tree.Call) -> _Value:
        if call.quoted:
            return self.quoted(call)
        op = vocabulary.find(call.callee)
        if op is not None:
            return self.elementwise(call, op)
        if call.callee in self.signatures:
            made = self.use(call, self.signatures[call.callee])
            if len(made) == 1:
                return made[0]
            names = ", ".join(f"r{i}" for i in range(len(made)))
            raise _Misfit(
                call.span, f"{call.callee} has {len(made)} results", f"bind them all: {names} = {call.callee}(...)"
            )
        for arg in call.args:
            self.value(arg)
        if "<" in call.callee:
            return None  # reported where ops were put in
        raise _Misfit(
            call.callee_span,
            f"unknown op or pattern {call.callee}",
            did_you_mean(call.callee, [*vocabulary.OPS, *self.signatures])
            or f'any op can be named in quotes: "dialect.{call.callee.rpartition(".")[2]}"(...)',
        )

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
            raise _Misfit(call.span, f"{call.callee} takes {counted(op.arity, 'value')}, found {len(values)}")
        elements: dict[str, str] = {}
        operands = list(zip(call.args, op.operands, values, strict=True))
        # Scalars come last: a tensor's element type is that of the result where the two may differ.
        ordered = sorted(operands, key=lambda operand: isinstance(operand[2], ScalarType))
        for arg, letter, value in ordered:
            self._check_operand(call, op, arg, letter, value, elements)
        for arg, letter, value in operands:
            if isinstance(value, _Number) and letter in elements:
                self._settle(arg, value, elements[letter])
        shaped = [(arg, v) for arg, v in zip(call.args, values, strict=True) if isinstance(v, (ScalarType, TensorType))]
        dims = self._common_dims(call, shaped)
        element = self._result_element(call, op, elements, any(v is None for v in values))
        if element is None:
            return None
        if any(v is None for v in values) and not dims:
            return call.type if isinstance(call.type, TensorType) else None
        scalar = not any(isinstance(v, TensorType) for _, v in shaped)
        made = ScalarType(call.span, element) if scalar else TensorType(call.span, dims, ScalarType(call.span, element))
        return self._ascribed(call.type, made)

    def _check_operand(
        self, call: tree.Call, op: vocabulary.Op, arg: Expr, letter: str, value: _Value, elements: dict[str, str]
    ) -> None:
        if value is None or isinstance(value, _Number):
            return
        element = element_of(value).name
        self._check_kind(arg.span, call.callee, op, letter, element, f"{_show(arg)} is {value}")
        known = elements.setdefault(letter, element)
        if known == element or (self.casts and isinstance(value, ScalarType) and self._are_floats(known, element)):
            return
        found = f"{call.callee} takes one element type, found {known} and {element}"
        raise _Misfit(call.span, found, self._cast_advice(value, known, element))

    def _are_floats(self, *elements: str) -> bool:
        possible = [possible_elements(element, self.variables) for element in elements]
        return all(choices is None or all(map(vocabulary.is_float, choices)) for choices in possible)

    def _cast_advice(self, value: _Value, known: str, element: str) -> str:
        if self._are_floats(known, element):
            other = "; a scalar may be of another float type in a pattern with `through cast`"
            return (
                f"convert one of them, for example with extf(x) : f32{other if isinstance(value, ScalarType) else ''}"
            )
        wider = max((known, element), key=lambda e: vocabulary.bits(e) or 0)
        if vocabulary.is_integer(known) and vocabulary.is_integer(element) and "index" not in (known, element):
            return f"convert one of them, for example with extsi(x) : {wider}"
        return "convert one of them"

    def _check_kind(self, span: Span, callee: str, op: vocabulary.Op, letter: str, element: str, found: str) -> None:
        kind, works = _ELEMENT_KINDS[letter]
        possible = possible_elements(element, self.variables)
        without_index = op.is_cast and op.name not in ("index_cast", "index_castui")
        if possible is None or all(works(e) and not (without_index and e == "index") for e in possible):
            return
        twin = vocabulary.INTEGER_TWINS.get(op.name) if kind == "floats" else vocabulary.FLOAT_TWINS.get(op.name)
        other = "integers" if kind == "floats" else "floats"
        twin_works = vocabulary.is_integer if other == "integers" else vocabulary.is_float
        advice = f"for {other} write {twin}" if twin and all(map(twin_works, possible)) else None
        raise _Misfit(span, f"{callee} works on {kind}, but {found}", advice)

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

    def _settle(self, expr: Expr, number: _Number, element: str) -> None:
        """Give a constant the element type of what it meets."""
        settled = ScalarType(expr.span, element)
        self.types[expr] = settled
        if self.types.get(number.constant) is None:
            self.types[number.constant] = settled
        possible = possible_elements(element, self.variables)
        literal = _float_literal(number.constant)
        if literal is not None and possible is not None and not all(map(vocabulary.is_float, possible)):
            self.fail(expr.span, f"{literal} is not an integer, and the other operand is of type {element}")

    def _common_dims(self, call: tree.Call, shaped: list[tuple[Expr, Type]]) -> tuple[Dim, ...]:
        ranked = [(arg, dims_of(t), t) for arg, t in shaped if dims_of(t)]
        if not ranked:
            return ()
        first, dims, first_type = ranked[0]
        for arg, others, arg_type in ranked[1:]:
            merged = merge_dims(dims, others)
            if merged is None:
                message = (
                    f"the operands have different shapes: {_show(first)} is {first_type}, {_show(arg)} is {arg_type}"
                )
                raise _Misfit(call.span, message, _advise_shapes(first, dims, arg, others))
            dims = merged
        return dims

    def _result_element(
        self, call: tree.Call, op: vocabulary.Op, elements: dict[str, str], unknown: bool
    ) -> str | None:
        if op.result == "B":
            return "i1"
        if op.is_cast:
            return self._cast_element(call, op, elements)
        if op.result in elements:
            return elements[op.result]
        if call.type is not None:
            return element_of(call.type).name
        if not unknown:
            advice = f"write it: {call.callee}(...) : f32"
            self.fail(call.span, f"{call.callee} has only constants as operands, so its type is unknown", advice)
        return None

    def _cast_element(self, call: tree.Call, op: vocabulary.Op, elements: dict[str, str]) -> str | None:
        if call.type is None:
            example = {"I": "i32", "J": "i32", "G": "f32", "F": "f32"}.get(op.result, "i32")
            if op.width == "narrower":
                example = "i8" if op.result == "J" else "f16"
            advice = f"write it after the op: {call.callee}(x) : {example}"
            raise _Misfit(call.span, f"{call.callee} needs the type that it converts to", advice)
        target, source = element_of(call.type).name, elements.get(op.operands[0])
        self._check_kind(call.type.span, call.callee, op, op.result, target, f"this is {target}")
        if source is not None and not self._width_fits(op, source, target):
            wanted = "a type of equal width" if op.width == "equal" else f"a {op.width} type"
            if op.width is None:
                wanted = "index to an integer or back"
            raise _Misfit(call.type.span, f"{call.callee} converts to {wanted}, and {source} to {target} is not that")
        return target

    def _width_fits(self, op: vocabulary.Op, source: str, target: str) -> bool:
        if op.name in ("index_cast", "index_castui"):
            return (source == "index") != (target == "index")
        before, after = vocabulary.bits(source), vocabulary.bits(target)
        if op.width is None or before is None or after is None:
            return True
        return {"wider": after > before, "narrower": after < before, "equal": after == before}[op.width]

    # ---- subscripts ----

    def contract(self, expr: tree.Contract) -> Type | None:
        values = [self.value(arg) for arg in expr.args]
        self.check_type(expr.type)
        if len(expr.args) < 2:
            raise _Misfit(expr.span, "contract takes two operands", "for one operand write reduce addf[...](x)")
        binding = self._bind_labels(expr.subscripts, expr.args, values)
        self._check_labels(expr.subscripts, "contract")
        elements = {element_of(v).name for v in values if isinstance(v, (ScalarType, TensorType))}
        if not elements:
            return expr.type if isinstance(expr.type, TensorType) else None
        if len(elements) > 1 and expr.type is None:
            advice = "write the type that it makes: contract[...](a, b) : f32"
            raise _Misfit(expr.span, f"the operands are of types {' and '.join(sorted(elements))}", advice)
        element = element_of(expr.type).name if expr.type else elements.pop()
        dims = binding.apply_dims(_labels(expr.subscripts.result, expr.subscripts.span))
        if dims is None:
            return expr.type if isinstance(expr.type, TensorType) else None
        return self._ascribed(expr.type, TensorType(expr.span, dims, ScalarType(expr.span, element)))

    def reduce(self, expr: tree.Reduce) -> Type | None:
        value = self.value(expr.arg)
        op = vocabulary.find(expr.combiner)
        if op is None or op.name not in vocabulary.COMBINERS:
            near = did_you_mean(expr.combiner, vocabulary.COMBINERS)
            raise _Misfit(
                expr.combiner_span,
                f"{expr.combiner} cannot reduce",
                near or f"the ops that can are {' '.join(vocabulary.COMBINERS)}",
            )
        binding = self._bind_labels(expr.subscripts, (expr.arg,), [value])
        self._check_labels(expr.subscripts, "reduce")
        if set(expr.subscripts.operands[0]) == set(expr.subscripts.result):
            raise _Misfit(expr.subscripts.span, "no label is left out, so nothing is reduced")
        if not isinstance(value, TensorType):
            return None
        element = value.element.name
        found = f"{_show(expr.arg)} is {value}"
        self._check_kind(expr.arg.span, expr.combiner, op, op.operands[0], element, found)
        return self._relabelled(expr, binding, value)

    def rearrange(self, expr: tree.Rearrange) -> Type | None:
        value = self.value(expr.arg)
        binding = self._bind_labels(expr.subscripts, (expr.arg,), [value])
        if expr.subscripts.windows:
            raise _Misfit(expr.subscripts.span, f"{expr.kind} reads no sums of labels", "only contract and reduce do")
        before, after = [str(label) for label in expr.subscripts.operands[0]], list(expr.subscripts.result)
        if expr.kind != "broadcast":
            if sorted(before) != sorted(after):
                message = f"{expr.kind} keeps all labels and adds none"
                raise _Misfit(expr.subscripts.span, message, "see broadcast and reduce")
        else:
            self._bind_new_labels(expr, binding)
        if expr.pieces:
            return self._in_pieces(expr, binding, value) if isinstance(value, TensorType) else None
        return self._relabelled(expr, binding, value) if isinstance(value, (ScalarType, TensorType)) else None

    def _in_pieces(self, expr: tree.Rearrange, binding: Binding, value: TensorType) -> Type | None:
        """The type of what is packed. How many pieces a dim of unknown size has is a size of its own."""
        for label, size in expr.pieces:
            dim = binding.dims[label]
            known = None if dim.size is None else -(-dim.size // size)
            symbol = f"({dim} / {size})" if dim.symbol is not None else None
            binding.dims[label] = Dim(dim.span, symbol=symbol if known is None else None, size=known)
        outer = binding.apply_dims(_labels(expr.subscripts.result, expr.subscripts.span))
        inner = tuple(Dim(expr.subscripts.span, size=size) for _, size in expr.pieces)
        return None if outer is None else TensorType(expr.span, (*outer, *inner), value.element)

    def _bind_new_labels(self, expr: tree.Rearrange, binding: Binding) -> None:
        """A label that broadcast adds is the pattern's dim of that name, or of any size."""
        before, after = [str(label) for label in expr.subscripts.operands[0]], expr.subscripts.result
        lost = [label for label in before if label not in after]
        if lost:
            raise _Misfit(
                expr.subscripts.span, f"broadcast must keep every label, but the result lacks {lost[0]}", "see reduce"
            )
        added = [label for label in after if label not in before]
        if not added:
            raise _Misfit(expr.subscripts.span, "no label is added, so nothing is repeated", "see transpose")
        for label in added:
            name = label.removeprefix("...")
            known = self.dims.get(name)
            if label.startswith("..."):
                if known is None or known.pack is None:
                    raise _Misfit(
                        expr.subscripts.span, f"nothing says how many dims {label} has", "name a parameter's pack"
                    )
                binding.packs[name] = (known,)
            else:
                binding.dims[name] = known if known is not None and known.symbol else Dim(expr.subscripts.span)

    def _bind_labels(self, subscripts: tree.Subscripts, args: tuple[Expr, ...], values: list[_Value]) -> Binding:
        if len(subscripts.operands) != len(args):
            message = f"the subscripts are for {counted(len(subscripts.operands), 'value')}, found {len(args)}"
            raise _Misfit(subscripts.span, message)
        for labels in (*subscripts.operands, subscripts.result):
            shown = " ".join(map(str, labels))
            twice = next((label for label in labels if labels.count(label) > 1), None)
            if twice is not None:
                raise _Misfit(subscripts.span, f"label {twice} appears twice in [{shown}]")
            if sum(str(label).startswith("...") for label in labels) > 1:
                raise _Misfit(subscripts.span, f"there are two packs in [{shown}]", "one at most can be told apart")
        binding = Binding()
        for labels, arg, value in zip(subscripts.operands, args, values, strict=True):
            if isinstance(value, _Number):
                raise _Misfit(arg.span, "a constant has no dims to label")
            if value is None:
                continue
            reason = binding.match_dims(_labels(labels, subscripts.span), dims_of(value))
            if reason:
                shown = " ".join(map(str, labels))
                message = f"[{shown}] does not fit {_show(arg)}, which is {value}: {reason}"
                raise _Misfit(arg.span, message)
        for window in subscripts.windows:
            for _, label in window.terms:
                known = self.dims.get(label)
                named = known is not None and known.symbol is not None
                binding.dims.setdefault(label, known if known is not None and named else Dim(window.span))
        return binding

    def _check_labels(self, subscripts: tree.Subscripts, what: str) -> None:
        known = {label for labels in subscripts.operands for label in labels}
        known |= {label for window in subscripts.windows for _, label in window.terms}
        new = next((label for label in subscripts.result if label not in known), None)
        if new is not None:
            raise _Misfit(subscripts.span, f"label {new} is in no operand", f"{what} adds no dims; see broadcast")

    def _relabelled(self, expr: tree.Reduce | tree.Rearrange, binding: Binding, value: Type) -> Type | None:
        dims = binding.apply_dims(_labels(expr.subscripts.result, expr.subscripts.span))
        return None if dims is None else TensorType(expr.span, dims, ScalarType(expr.span, element_of(value).name))

    # ---- patterns in patterns ----

    def use(self, call: tree.Call, used: Signature) -> tuple[Type | None, ...]:
        """The types of a used pattern's results."""
        values = [self.value(arg) for arg in call.args]
        self.check_type(call.type)
        if call.attributes:
            self.fail(call.attributes[0].span, "a pattern takes no attributes", "they belong to ops")
        if len(values) != len(used.parameters):
            raise _Misfit(
                call.span, f"{call.callee} takes {counted(len(used.parameters), 'value')}, found {len(values)}"
            )
        binding = Binding(used.variables, self.variables)
        pairs = list(zip(call.args, used.parameters, values, strict=True))
        for arg, parameter, value in pairs:
            if isinstance(value, (ScalarType, TensorType)):
                reason = binding.match(parameter.type, value)
                if reason:
                    message = (
                        f"{_show(arg)} is {value}, which does not fit {parameter.name}: {parameter.type}: {reason}"
                    )
                    raise _Misfit(arg.span, message)
        for arg, parameter, value in pairs:
            if isinstance(value, _Number):
                if dims_of(parameter.type):
                    raise _Misfit(
                        arg.span, f"{call.callee} takes a {parameter.type} as {parameter.name}, not a constant"
                    )
                wanted = binding.apply(parameter.type)
                if wanted is not None:
                    self._settle(arg, value, element_of(wanted).name)
        made = [None if result is None else binding.apply(result) for result in used.results]
        if call.type is not None and len(made) == 1:
            made[0] = call.type if made[0] is None else self._ascribed(call.type, made[0])
        return tuple(made)

    # ---- types that are written ----

    def _ascribed(self, written: Type | None, made: Type) -> Type | None:
        """The type that was inferred, with the sizes that a written one adds."""
        if written is None:
            return made
        element, wanted = element_of(made), element_of(written).name
        if element.name != wanted:
            raise _Misfit(written.span, f"this makes {element.name}, not {wanted}")
        if not isinstance(written, TensorType):
            return made
        dims = merge_dims(dims_of(made), written.dims)
        if dims is None:
            raise _Misfit(written.span, f"this makes {made}, not {written}")
        return TensorType(made.span, dims, element)

    def check_type(self, written: Type | None) -> None:
        """A type in a body names known elements and the parameters' dims."""
        if written is None:
            return
        check_element(element_of(written), self.variables, self.report)
        for dim in dims_of(written):
            if dim.name is not None and dim.name not in self.dims:
                advice = did_you_mean(dim.name, self.dims) or "write ? for a size that the parameters do not have"
                self.fail(dim.span, f"no parameter has a dim {dim.name}", advice)


# What people write who come from other languages.
_ELEMENT_ALIASES = {
    "float": "f32", "double": "f64", "half": "f16", "bool": "i1", "int": "i32", "long": "i64", "float32": "f32",
    "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int32": "i32", "int64": "i64",
}  # fmt: skip


def check_element(element: ScalarType, variables: tuple[tree.TypeVariable, ...], report: Report) -> bool:
    """Report an element type that is neither MLIR's nor a type variable."""
    name = element.name
    if vocabulary.is_element(name) or any(v.name == name for v in variables):
        return True
    prefix, _, last = name.rpartition("x")
    if prefix and vocabulary.is_element(last):
        apart = " x ".join([*prefix.split("x"), last])
        report(error(element.span, f"unknown element type {name}", f"write dims apart: tensor<{apart}>"))
        return False
    known = [v.name for v in variables]
    near = _ELEMENT_ALIASES.get(name)
    advice = f"did you mean {near}?" if near else did_you_mean(name, [*known, *vocabulary.COMMON_ELEMENTS])
    if advice is None and name.isupper():
        advice = f"a type variable is declared after the name: <{name}>"
    report(
        error(
            element.span, f"unknown element type {name}", advice or f"there are {' '.join(vocabulary.COMMON_ELEMENTS)}"
        )
    )
    return False


def _labels(labels: tuple[str | tree.Window, ...], span: Span) -> tuple[Dim, ...]:
    return tuple(_label(label, span) for label in labels)


def _label(label: str | tree.Window, span: Span) -> Dim:
    if isinstance(label, tree.Window):
        return Dim(span)  # of any size: what is read lies within it
    return Dim(span, pack=label[3:]) if label.startswith("...") else Dim(span, symbol=label)


def _float_literal(constant: tree.Constant) -> float | None:
    """A literal that is no integer anywhere in a constant."""
    numbers = (part.value for part in tree.parts(constant) if isinstance(part, tree.Literal))
    return next((number for number in numbers if isinstance(number, float)), None)


def _advise_shapes(left: Expr, left_dims: tuple[Dim, ...], right: Expr, right_dims: tuple[Dim, ...]) -> str:
    """broadcast where one shape lacks dims of the other, else one symbol for both sizes."""
    if len(left_dims) == len(right_dims):
        return "sizes that are equal have one symbol"
    narrow, small, large = (
        (left, left_dims, right_dims) if len(left_dims) < len(right_dims) else (right, right_dims, left_dims)
    )
    names = [str(d) for d in large]
    if all(d.name for d in (*small, *large)) and all(str(d) in names for d in small):
        before = " ".join(map(str, small))
        return f"repeat the smaller one: broadcast[{before} -> {' '.join(names)}]({_show(narrow)})"
    return "repeat the smaller one with broadcast[m -> m n](...)"


def _show(expr: Expr) -> str:
    """An operand in a message: its text when that is short."""
    text = expr.span.written
    return text if len(text) <= _SMALL else f"{text[: _SMALL - 3]}..."

"""One choice of a pattern's alternatives written out as ops on tensors, in one of the spellings that programs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from opsplice.rewrites.spelling import dim_bounds
from opsplice.rewrites.spelling.axis_labels import Label, named_contraction
from opsplice.rewrites.spelling.dim_bounds import Axis, Extent
from opsplice.rewrites.spelling.not_exportable import LACKS, Gap, GapError, check_call, gathered, written_text
from opsplice.rewrites.spelling.spelled_template import Choices, Instance, Template
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.spelling.template_scopes import Scope, defaults
from opsplice.rewrites.spelling.template_text import Writer, attribute_text, combined, product_body, scalar_attributes
from opsplice.rewrites.spelling.template_values import Apply, Lazy, Leaf, Number, Size, Tensor, moved
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree, vocabulary


@dataclass(eq=False)
class Speller:
    """gaps: what has no counterpart, so far. accumulated: reductions that may start from anything."""

    patterns: Mapping[str, tree.Pattern]
    instance: Instance
    spelling: Spelling
    writer: Writer
    choices: Choices
    settings: dict[str, int] = field(default_factory=dict)
    scopes: list[tuple[tree.Condition, Mapping[str, Extent]]] = field(default_factory=list)
    gaps: dict[Gap, None] = field(default_factory=dict)
    accumulated: set[tree.Expr] = field(default_factory=set)

    def spell(self, pattern: tree.Pattern, parameters: Sequence[tree.Parameter]) -> Template:
        """parameters: those of the pattern that are arguments."""
        if len(pattern.results) != 1:
            why = "a matcher yields the results of one op, at which it starts; look for one of them"
            raise GapError.at(pattern.span, f"pattern '{pattern.name}' has several results", why)
        scope = Scope(pattern, self.instance.types)
        for number, parameter in enumerate(parameters):
            scope.values[parameter.name] = self._parameter(number, parameter, scope)
        for parameter in pattern.parameters:
            scope.values.setdefault(parameter.name, Leaf(Tensor(f"%{parameter.name}", "", None), (), ()))
        self._enter(scope)
        root = self.writer.materialise(self._value(pattern.results[0], scope), pattern.results[0].span)
        scope.dims.update(defaults(pattern) | self.settings)
        if self.gaps:
            gathered((partial(dim_bounds.alternatives, *each) for each in self.scopes), self.gaps)
        named = [(t.name, t.type) for t in self.writer.arguments]
        return Template(
            arguments=(*named, *self.writer.extra),
            lines=self.writer.all_lines(),
            root=root.name,
            kind=root.type,
            scopes=tuple(self.scopes),
            dims=scope.dims,
            inside=tuple(self.writer.inside),
            sizes=root.dims or (),
            settings=self.settings,
            choices=tuple(self.choices.taken),
        )

    # ---- scopes and parameters ------------------------------------------------------------------------------------

    def _parameter(self, number: int, parameter: tree.Parameter, scope: Scope) -> Lazy:
        kind = parameter.type
        if isinstance(kind, tree.ScalarType):
            # A scalar is an operand of rank 0 in a generic, and fills a tensor where ops are on tensors.
            of_tensors = self.spelling.elementwise == "tensor"
            scalar = Tensor(f"%{parameter.name}", scope.element(kind), None if of_tensors else ())
            self.writer.arguments.append(scalar)
            return Leaf(scalar, (), ())
        sizes: list[Size] = []
        for dim in kind.dims:
            extent = self._extent(dim, number, len(sizes), scope)
            sizes.extend(extent if isinstance(extent, tuple) else (extent,))
        tensor = Tensor(f"%{parameter.name}", scope.element(kind.element), tuple(sizes))
        self.writer.arguments.append(tensor)
        return Leaf(tensor, tuple(range(len(sizes))), tuple(sizes))

    def _extent(self, dim: tree.Dim, argument: int, axis: int, scope: Scope) -> Extent:
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

    def _enter(self, scope: Scope) -> None:
        for variable in scope.pattern.type_variables:
            bits = vocabulary.bits(scope.elements.get(variable.name, ""))
            if bits is not None:
                scope.dims[f"bits({variable.name})"] = bits
        ranks = {f"rank({name})": len(extent) for name, extent in scope.dims.items() if isinstance(extent, tuple)}
        scope.dims.update(ranks)
        if scope.pattern.where is not None:
            self.scopes.append((scope.pattern.where, scope.dims))
        for let in scope.pattern.body:
            if len(let.names) != 1:
                raise GapError.at(let.span, "a part with several results", "a matcher follows one result of each op")
            scope.lets[let.names[0]] = let.expr

    def _inlined(self, expr: tree.Call, scope: Scope) -> Lazy:
        pattern = self.patterns[expr.callee]
        if len(pattern.results) != 1:
            raise GapError.at(expr.span, f"pattern '{pattern.name}' has several results", "use a pattern that has one")
        given = [self._value(a, scope) for a in expr.args]
        elements: dict[str, str] = {}
        inner = Scope(pattern, elements)
        own = {v.name for v in pattern.type_variables}
        for parameter, value in zip(pattern.parameters, given, strict=True):
            kind = parameter.type
            element = kind.element.name
            if element in own and value.element:
                elements[element] = value.element
            inner.values[parameter.name] = value
            if isinstance(kind, tree.TensorType) and value.element:
                inner.bind(kind, value.dims)
        self._enter(inner)
        return self._value(pattern.results[0], inner)

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _value(self, expr: tree.Expr, scope: Scope) -> Lazy:
        if isinstance(expr, tree.Name):
            return self._named(expr.name, scope)
        if isinstance(expr, tree.Constant):
            return self._number(expr, scope)
        if isinstance(expr, tree.Call):
            check_call(expr)
            if expr.optional and self.choices.next(2):
                return self._value(expr.args[0], scope)
            if not expr.quoted and expr.callee in self.patterns:
                return self._inlined(expr, scope)
            known = None if expr.quoted else vocabulary.find(expr.callee)
            return self._elementwise(known, expr, scope) if known is not None else self._quoted(expr, scope)
        if isinstance(expr, tree.Contract) and expr.kind == "contract":
            return self._contract(expr, scope)
        if isinstance(expr, tree.Reduce):
            return self._reduce(expr, scope)
        if isinstance(expr, tree.Rearrange):
            return self._rearranged(expr, scope)
        if isinstance(expr, tree.Uses) and expr.kind == "accumulated":
            self.accumulated.add(expr.arg)
            return self._value(expr.arg, scope)
        if isinstance(expr, tree.Setting):
            scalar = scope.values[expr.name.name]
            assert isinstance(scalar, Leaf), "the checker lets only scalars of the pattern be set"
            if isinstance(expr.value.value, int):
                self.settings[scalar.tensor.name.removeprefix("%")] = expr.value.value
            return self._value(expr.arg, scope)
        if isinstance(expr, tree.Alternatives):
            return self._value(expr.options[self.choices.next(len(expr.options))], scope)
        why = LACKS.get(expr.kind, "") if isinstance(expr, tree.Contract) else ""
        raise GapError.at(expr.span, f"`{written_text(expr)}`", why or "a template of ops has no such part")

    def _named(self, name: str, scope: Scope) -> Lazy:
        if name in scope.lets:
            expr = scope.lets.pop(name)
            value = self._value(expr, scope)
            if self.spelling.elementwise == "fused" and name in scope.shared and isinstance(value, Apply):
                value = self.writer.settled(value, expr.span)
            scope.values[name] = value
        return scope.values[name]

    def _number(self, expr: tree.Constant, scope: Scope) -> Number:
        if expr.high is not None:
            why = "a matcher compares constants exactly; write one number"
            self.gaps[Gap(expr.span, f"the range `{written_text(expr)}`", why)] = None
            return Number(0)
        sizes = {name: dim_bounds.number_of(extent) for name, extent in scope.dims.items()}
        value = judge.evaluate(expr.value, sizes)
        if value is None:
            names = sorted(n for n in dim_conditions.numbers_in(expr.value) if sizes.get(n) is None)
            some = f"{', '.join(names)} may be any; give it a size, as in `{names[0]} == 64`" if names else ""
            why = f"a matcher compares constants exactly, and {some or 'it has none'}"
            self.gaps[Gap(expr.span, f"the constant `{expr.value.span.written}`", why)] = None
            return Number(0)
        return Number(value)

    def _elementwise(self, op: vocabulary.Op, expr: tree.Call, scope: Scope) -> Lazy:
        args = [self._value(a, scope) for a in expr.args]
        letters: dict[str, str] = {}
        for letter, arg in sorted(zip(op.operands, args, strict=True), key=lambda pair: not pair[1].dims):
            if arg.element and letters.setdefault(letter, arg.element) != arg.element and arg.dims:
                why = f"its operands are {letters[letter]} and {arg.element}, and ops take one type; write a cast"
                raise GapError.at(expr.span, f"`{written_text(expr)}`", why)
        if op.name == "fpowi":
            letters.setdefault("I", "i32")  # what frontends write
        operands = zip(args, op.operands, expr.args, strict=True)
        args = [self._fitted(arg, letters.get(letter, ""), written) for arg, letter, written in operands]
        if not all(a.element for a in args):
            raise GapError.at(expr.span, f"`{op.name}` of constants alone", "the compiler folds it; write the result")
        element = "i1" if op.result == "B" else letters.get(op.result, "")
        if not element:
            if expr.type is None:
                raise GapError.at(expr.span, f"`{op.name}`", "its type is not written")
            element = scope.element(expr.type.element)
        if op.width is not None and args[0].element == element:
            return args[0]  # a type variable is what it is cast to
        dims = max((a.dims for a in args), key=len)
        made = Apply(op.full_name, tuple(args), scalar_attributes(op, expr), element, dims)
        return made if self.spelling.elementwise == "fused" else self.writer.settled(made, expr.span)

    def _fitted(self, value: Lazy, element: str, written: tree.Expr) -> Lazy:
        """A value in the type of what it is combined with: scalars may have another of floats (`through cast`)."""
        if isinstance(value, Number) and not value.element:
            value = replace(value, element=element)
        if isinstance(value, Number) and value.element and not vocabulary.holds(value.element, value.value):
            what = f"the constant `{written_text(written)}`"
            raise GapError.at(written.span, what, f"{value.element} cannot hold it")
        if value.element == element or not (vocabulary.is_float(value.element) and vocabulary.is_float(element)):
            return value
        narrower = (vocabulary.bits(element) or 0) < (vocabulary.bits(value.element) or 0)
        made = Apply("arith.truncf" if narrower else "arith.extf", (value,), "{}", element, value.dims)
        return made if self.spelling.elementwise == "fused" else self.writer.settled(made, written.span)

    def _quoted(self, expr: tree.Call, scope: Scope) -> Lazy:
        args = [self.writer.materialise(self._value(a, scope), a.span) for a in expr.args]
        kind = expr.type
        what = f'"{expr.callee}"'
        if kind is None:
            raise GapError.at(expr.span, what, "the type of its result is not written, and a template needs it")
        element = scope.element(kind.element)
        dims = None if isinstance(kind, tree.ScalarType) else scope.written_dims(kind)
        result = Tensor(self.writer.name(), element, dims)
        attributes = ", ".join(f"{a.name} = {attribute_text(a)}" for a in expr.attributes)
        return self.writer.leaf(self.writer.call(result, expr.callee, args, f"{{{attributes}}}"))

    def _rearranged(self, expr: tree.Rearrange, scope: Scope) -> Lazy:
        value = self._value(expr.arg, scope)
        if isinstance(value, Leaf) and not value.element:
            return value  # what the match lacks, which an alternative without it leaves alone
        sizes, (labels,), result = scope.axes(expr.subscripts, [value])
        dims = tuple(sizes[label] for label in result)
        if expr.pieces:
            return self._packed(expr, value, labels, dict(zip(result, dims, strict=True)))
        viewed = moved(value, tuple(result.index(label) for label in labels), dims)
        if self.spelling.views == "maps":
            return viewed
        return self.writer.settled(viewed, expr.span)

    def _packed(self, expr: tree.Rearrange, value: Lazy, labels: Sequence[Label], result: Mapping[Label, Size]) -> Lazy:
        """Some dims in pieces, the last of which is filled up with zeros. IREE folds this for constants.

        result: the labels of the result with their sizes.
        """
        tensor, pieces = self.writer.materialise(value, expr.arg.span), dict(expr.pieces)
        dims: list[Size] = []
        for label, size in result.items():
            piece = pieces.get(label[0], 1)
            if piece > 1 and not isinstance(size, int):
                raise GapError.at(expr.span, f"`{written_text(expr)}`", f"{label[0]} is known at run time only")
            dims.append(-(-size // piece) if isinstance(size, int) else size)
        split = {labels.index((label, 0)): piece for label, piece in expr.pieces}
        order = [labels.index(label) for label in result]
        return self.writer.leaf(self.writer.packed(tensor, tuple(dims), order, split))

    # ---- reductions -----------------------------------------------------------------------------------------------

    def _reduce(self, expr: tree.Reduce, scope: Scope) -> Lazy:
        value = self._value(expr.arg, scope)
        sizes, (labels,), result = scope.axes(expr.subscripts, [value])
        dims = tuple(sizes[label] for label in result)
        (value,) = self._with_loops([value], [labels], result, expr.arg.span)
        if len(labels) == len(result):
            return moved(value, tuple(result.index(label) for label in labels), dims)
        if expr.combiner in vocabulary.POSITIONS:
            raise GapError.at(expr.span, f"`reduce {expr.combiner}`", "frontends write its body in many ways")
        combiner = vocabulary.find(expr.combiner)
        assert combiner is not None, "the checker lets only known combiners pass"
        neutral = vocabulary.identity(expr.combiner, value.element)
        assert neutral is not None, "the checker lets only combiners of these elements pass"
        start = self._start(expr, neutral, value.element, dims)
        line = combined(combiner.full_name, "%in.0", value.element, running_first=self.spelling.accumulator)
        kept = [la for la in labels if la in result]
        if self.spelling.reductions == "linalg.reduce" and value.plain and kept == list(result):
            summed = [axis for axis, la in enumerate(labels) if la not in result]
            return self.writer.leaf(self.writer.reduce(value.tensor, start, summed, line))
        return self._summed([value], [labels], labels, result, start, [line])

    def _summed(
        self,
        leaves: Sequence[Leaf],
        operands: Sequence[Sequence[Label]],
        loops: Sequence[Label],
        result: Sequence[Label],
        start: Tensor,
        body: Sequence[str],
    ) -> Leaf:
        """A generic over some loops, in which operands are read under their labels."""
        read = [
            (leaf.tensor, [loops.index(labels[axis]) for axis in leaf.axes])
            for leaf, labels in zip(leaves, operands, strict=True)
        ]
        kept = [loops.index(label) for label in result]
        return self.writer.leaf(self.writer.generic(read, start, kept, body, "%made.0"))

    def _start(self, expr: tree.Expr, neutral: float, element: str, dims: tuple[Size, ...]) -> Tensor:
        """What a reduction starts from: its neutral value, or for one that is accumulated an argument."""
        if expr not in self.accumulated:
            return self.writer.filled(neutral, element, dims)
        start = Tensor(f"%start{len(self.writer.extra)}", element, dims)
        self.writer.extra.append((start.name, start.type))
        return start

    def _with_loops(
        self, values: Sequence[Lazy], operands: Sequence[Sequence[Label]], result: Sequence[Label], span: tree.Span
    ) -> list[Leaf]:
        """Operands of a reduction as tensors under views, one of which has each loop that is summed as an axis.

        A loop that no operand has is none: what is only repeated along it is written out.
        """
        leaves = [v if isinstance(v, Leaf) else self.writer.settled(v, span) for v in values]
        covered = {labels[axis] for leaf, labels in zip(leaves, operands, strict=True) for axis in leaf.axes}
        made = []
        for leaf, labels in zip(leaves, operands, strict=True):
            missing = set(labels) - covered - set(result)
            made.append(self.writer.settled(leaf, span) if missing else leaf)
            covered |= missing
        return made

    def _contract(self, expr: tree.Contract, scope: Scope) -> Lazy:
        values = [self._value(a, scope) for a in expr.args]
        sizes, operands, result = scope.axes(expr.subscripts, values)
        element = values[0].element
        if expr.type is not None:
            element = scope.element(expr.type.element)
        summed = list(dict.fromkeys(la for o in operands for la in o if la not in result))
        if not summed:
            raise GapError.at(expr.span, "a contraction that sums nothing", "write it with mulf and broadcast")
        named = named_contraction(operands, result) if self.spelling.named else None
        dims = tuple(sizes[label] for label in result)
        zero = self._start(expr, 0.0 if vocabulary.is_float(element) else 0, element, dims)
        if named is not None:
            return self.writer.leaf(
                self.writer.named(named, [self.writer.materialise(v, expr.span) for v in values], zero)
            )
        leaves = self._with_loops(values, operands, result, expr.span)
        running_first = self.spelling.accumulator or self.spelling.named
        body = product_body([leaf.element for leaf in leaves], element, running_first=running_first)
        return self._summed(leaves, operands, [*result, *summed], result, zero, body)

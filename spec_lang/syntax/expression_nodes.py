"""From grammar rules to nodes of the tree: expressions, and what is declared with types."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, cast

from lark import Token

from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.condition_nodes import ConditionNodes
from opsplice.spec_lang.syntax.tree import Span

_USES = ("only", "shared", "accumulated")


def _factors(subscripts: tree.Subscripts) -> Iterator[str]:
    """The names of strides and dilations."""
    return (factor for window in subscripts.windows for factor, _ in window.terms if isinstance(factor, str))


class ExpressionNodes(ConditionNodes):
    """One method per grammar rule, called with the rule's children: tokens and finished nodes, None where absent."""

    # ---- expressions ----

    def name(self, parts: list[Any]) -> tree.Name | tree.Constant | tree.Wildcard:
        token = parts[0]
        span = Span(self.source, token.start_pos, token.end_pos)
        if token == "_" and token not in self.names:
            return tree.Wildcard(span)
        if token in self.dims | self.numbers and token not in self.names:
            return tree.Constant(span, tree.DimRef(span, str(token)))
        return tree.Name(span, str(token))

    def number_constant(self, parts: list[Any]) -> tree.Constant:
        return tree.Constant(parts[0].span, parts[0])

    def range_constant(self, parts: list[Any]) -> tree.Constant:
        low, high = parts[2], parts[4]
        self._numbers(low, *([] if high is None else [high]))
        return self._nest(tree.Constant(self._span(parts[0], parts[-1]), low, high), low, high)

    def alternatives(self, parts: list[Any]) -> tree.Alternatives:
        options: list[tree.Expr] = []
        for part in parts[::2]:
            options += part.options if isinstance(part, tree.Alternatives) else (part,)
        return self._nest(tree.Alternatives(self._span(parts[0], parts[-1]), tuple(options)), *options)

    def setting(self, parts: list[Any]) -> tree.Setting:
        arg, _, word, _, value = parts
        name = tree.Name(self._span(word, word), str(word))
        return self._nest(tree.Setting(self._span(arg, value), arg, name, value), arg)

    def call(self, parts: list[Any]) -> tree.Call | tree.Uses:
        callee, given, optional, _, args, close, attributes, body, type_ = parts
        callee = self._with_ops(callee, given)
        if callee in _USES:
            return self._uses(callee, optional, args or (), (attributes and attributes[1]) or body, type_, close)
        span = self._span(callee, type_ or body or (attributes and attributes[1]) or close)
        made = self._called(span, callee, args or (), attributes[0] if attributes else (), type_, optional is not None)
        rest = attributes[2] if attributes else None
        if rest is not None and not made.quoted:
            self._fail(rest, "only an op in quotes may have regions that are not looked at", '"dialect.op"(x) {...}')
        if body is not None and not made.quoted:
            self._fail(body, "only an op in quotes is asked for its body", '"dialect.op"(x) mlir { ... }')
        if body is not None and rest is not None:
            self._fail(rest, "the body is either written or not looked at", "remove the dots or the MLIR")
        return self._nest(dataclasses.replace(made, regions=rest is not None, body=body), *made.args)

    def _called(
        self,
        span: Span,
        callee: Token,
        args: tuple[Any, ...],
        attributes: tuple[tree.Attribute, ...] = (),
        type_: tree.Type | None = None,
        optional: bool = False,
    ) -> tree.Call:
        quoted = callee.type == "STRING"
        name = self._string(callee) if quoted else str(callee)
        rest = bool(args) and isinstance(args[-1], Token)
        args = args[:-1] if rest else args
        self._no_rest(args if quoted or not rest else (*args, callee))
        made = tree.Call(span, name, self._span(callee, callee), args, quoted, attributes, type_, optional, rest)
        return self._nest(made, *args)

    def _no_rest(self, args: tuple[Any, ...]) -> None:
        token = next((a for a in args if isinstance(a, Token)), None)
        if token is not None:
            message = "only an op in quotes takes any further operands, as its last ones"
            self._fail(token, message, '"dialect.op"(x, ...)')

    def _uses(
        self, word: Token, optional: Token | None, args: tuple[Any, ...], attributes: Any, type_: Any, close: Token
    ) -> tree.Uses:
        extra = optional or attributes or type_
        if extra is not None:
            self._fail(extra, f"{word}(...) is about a value; this does not belong to it")
        self._no_rest(args)
        if len(args) != 1:
            self._fail(self._span(word, close), f"{word} takes 1 value, found {len(args)}")
        starts = isinstance(args[0], tree.Reduce) or (isinstance(args[0], tree.Contract) and args[0].kind == "contract")
        if word == "accumulated" and not starts:
            self._fail(args[0].span, "only a contract or a reduce starts from something")
        return self._nest(tree.Uses(self._span(word, close), str(word), args[0]), args[0])

    def contract(self, parts: list[Any]) -> tree.Contract:
        word, subscripts, _, args, close, type_ = parts
        args = args or ()
        self._no_rest(args)
        self.numbers |= set(_factors(subscripts))
        return self._nest(tree.Contract(self._span(word, type_ or close), subscripts, args, type_, str(word)), *args)

    def reduce(self, parts: list[Any]) -> tree.Reduce:
        word, combiner, subscripts, _, arg, _, close, type_ = parts
        span, name = self._span(word, type_ or close), self._span(combiner, combiner)
        windows = {label for window in subscripts.windows for _, label in window.terms}
        self.numbers |= {*_factors(subscripts), *windows.difference(subscripts.result)}
        return self._nest(tree.Reduce(span, str(combiner), name, subscripts, arg, type_), arg)

    def rearrange(self, parts: list[Any]) -> tree.Rearrange:
        word, subscripts, _, arg, _, close = parts
        return self._nest(tree.Rearrange(self._span(word, close), str(word), subscripts, arg), arg)

    def pack(self, parts: list[Any]) -> tree.Rearrange:
        word, open_, words, _, written, last, _, arg, _, close = parts
        for window in (label for label in words if isinstance(label, tree.Window)):
            self._fail(window, "pack reads no sums of labels", "only contract and reduce do")
        behind = next((n for n, part in enumerate(written) if isinstance(part, int)), len(written))
        outer, inner = written[:behind], written[behind:]
        pieces = tuple(part for part in outer if isinstance(part, tuple))
        span = self._span(open_, last)
        if list(inner) != [size for _, size in pieces] or not pieces:
            self._fail(
                span,
                "the dims of pieces come last, in the order of what is split into them",
                "such as pack[n k -> (n / 32) k 32](w), with transpose around it for another order",
            )
        result = tuple(part[0] if isinstance(part, tuple) else part for part in outer)
        known = {*self.dims, *result}
        subscripts = tree.Subscripts(span, (self._labels(words, known),), tuple(map(str, result)))
        return self._nest(tree.Rearrange(self._span(word, close), "pack", subscripts, arg, pieces), arg)

    def pieces(self, parts: list[Any]) -> tuple[Any, ...]:
        """Labels, (label, size) for one that is split, and sizes."""
        return tuple(self._piece(p) if isinstance(p, Token) and p.type == "INT" else p for p in parts)

    def piece(self, parts: list[Any]) -> tuple[str, int]:
        _, label, _, size, _ = parts
        return str(label), self._piece(size)

    def _piece(self, token: Token) -> int:
        size = self._integer(token)
        if not 0 < size < 1 << 31:
            self._fail(token, "a piece has a size, 1 or more")
        return size

    def ascription(self, parts: list[Any]) -> tree.Type:
        if isinstance(parts[1], tree.TensorType):
            self._want_brackets(parts[1], "pattern")
        return cast("tree.Type", parts[1])

    def attributes(self, parts: list[Any]) -> tuple[tuple[tree.Attribute, ...], Token, Token | None]:
        """(attributes, the closing brace, the `...` among them)"""
        rest = next((p for p in parts if isinstance(p, Token) and p.type == "REST"), None)
        return tuple(p for p in parts if isinstance(p, tree.Attribute)), parts[-1], rest

    def attribute(self, parts: list[Any]) -> tree.Attribute:
        name, _, (span, value, bare) = parts
        return tree.Attribute(Span(self.source, name.start_pos, span.end), str(name), value, bare)

    def attribute_variable(self, parts: list[Any]) -> tree.Attribute:
        name, _, _, variable = parts
        return tree.Attribute(self._span(name, variable), str(name), tree.Bound(self._declared(variable)))

    def attribute_choice(self, parts: list[Any]) -> tree.Attribute:
        span, choices = self._span(parts[0], parts[-1]), tuple(p[1] for p in parts if isinstance(p, tuple))
        if any(isinstance(item, tree.Bound) for value in choices if isinstance(value, tuple) for item in value):
            self._fail(span, "a choice of values binds no name", "write name = [0, ?v]")
        return tree.Attribute(span, str(parts[0]), choices=choices)

    def attribute_item(self, parts: list[Any]) -> tree.Bound:
        return tree.Bound(None if parts[-1] is None else self._declared(parts[-1]))

    def attribute_present(self, parts: list[Any]) -> tree.Attribute:
        return tree.Attribute(self._span(parts[0], parts[0]), str(parts[0]))

    def attribute_absent(self, parts: list[Any]) -> tree.Attribute:
        return tree.Attribute(self._span(parts[0], parts[1]), str(parts[1]), absent=True)

    def attribute_value(self, parts: list[Any]) -> tuple[Span, tree.AttributeValue, bool]:
        """(span, value, whether it is a bare word)"""
        span, value = self._span(parts[0], parts[-1]), parts[0]
        if isinstance(value, tree.Literal):
            return span, value.value, False
        if value.type == "STRING":
            return span, self._string(value), False
        if value == "mlir":
            return span, tree.MlirText(self._string(parts[1])), False
        if value.type == "NAME":
            return (span, value == "true", False) if value in ("true", "false") else (span, str(value), True)
        items = (p.value if isinstance(p, tree.Literal) else p for p in parts)
        return span, tuple(item for item in items if isinstance(item, (int, float, tree.Bound))), False

    def subscripts(self, parts: list[Any]) -> tree.Subscripts:
        groups = [p for p in parts if isinstance(p, tuple)]
        windows = [word for words in groups for word in words if isinstance(word, tree.Window)]
        known = self.dims | {label for window in windows for _, label in window.terms}
        *operands, result = (self._labels(words, known) for words in groups)
        if any(isinstance(label, tree.Window) for label in result):
            self._fail(parts[-1], "a sum of labels says where an operand is read", "the result has plain labels")
        return tree.Subscripts(self._span(parts[0], parts[-1]), tuple(operands), result)

    def labels(self, words: list[Any]) -> tuple[Any, ...]:
        return tuple(words)

    def _labels(self, words: tuple[Any, ...], known: set[str]) -> tuple[Any, ...]:
        """A word that is not known is one label for each letter."""
        found: list[str | tree.Window] = []
        for word in words:
            if isinstance(word, tree.Window):
                found.append(word)
                continue
            whole = self.whole or word.type == "PACK" or len(word) == 1 or word in known or not word.isalpha()
            found += [str(word)] if whole else list(word)
        return tuple(found)

    def window(self, parts: list[Any]) -> tree.Window:
        return tree.Window(self._span(parts[0], parts[-1]), tuple(p for p in parts if isinstance(p, tuple)))

    def stride(self, parts: list[Any]) -> tuple[int | str, str]:
        factor, _, label = parts
        if factor is None:
            return 1, str(label)
        if factor.type != "INT":
            return str(factor), str(label)
        if not 0 < int(factor) < 1 << 31:
            self._fail(factor, "a stride is a whole number, 1 or more")
        return int(factor), str(label)

    # ---- parameters ----

    def variables(self, parts: list[Any]) -> tuple[tree.TypeVariable | tree.OpVariable, ...]:
        return tuple(parts[1:-1:2])

    def op_variable(self, parts: list[Any]) -> tree.OpVariable:
        return tree.OpVariable(self._span(parts[0], parts[1]), self._declared(parts[1]))

    def _of_types(self, variables: tuple[Any, ...]) -> tuple[tree.TypeVariable, ...]:
        """The variables of a kernel."""
        for variable in variables:
            if isinstance(variable, tree.OpVariable):
                self._fail(variable.span, "only patterns have op variables")
        return variables

    def variable(self, parts: list[Any]) -> tree.TypeVariable:
        choices = tuple(p for p in parts if isinstance(p, tree.ScalarType))
        return tree.TypeVariable(self._span(parts[0], parts[-1] or parts[0]), str(parts[0]), choices)

    def parameter(self, parts: list[Any]) -> list[tree.Parameter]:
        """`x, y: f32` are two, each with a type of its own."""
        *names, _, type_, _, default = parts
        *others, last = names[::2]
        spans = [*(self._span(name, name) for name in others), self._span(last, default or type_)]
        types = [*(tree.rebuilt(type_, lambda part: part) for _ in others), type_]
        return [
            tree.Parameter(span, self._declared(name), kind, default)
            for span, name, kind in zip(spans, names[::2], types, strict=True)
        ]

    def parameters(self, parts: list[Any]) -> tuple[tree.Parameter, ...]:
        return tuple(itertools.chain.from_iterable(parts[::2]))

    # ---- patterns in conditions ----

    def is_(self, parts: list[Any]) -> tree.Is:
        value, _, negated, form = parts
        return self._nest(tree.Is(self._span(value, form), str(value), form, negated is not None), form)

    def plain_form(self, parts: list[Any]) -> tree.Call:
        callee, given, _, args, close = parts
        callee = self._with_ops(callee, given)
        return self._called(self._span(callee, close), callee, args or ())

    def given(self, parts: list[Any]) -> tuple[str, Token]:
        """The ops between angle brackets, and where they end."""
        return ", ".join(map(str, parts[1:-1:2])), parts[-1]

    def used(self, parts: list[Any]) -> Token:
        return self._with_ops(*parts)

    def _with_ops(self, callee: Token, given: tuple[str, Token] | None) -> Token:
        """A name with the ops in its angle brackets, as one."""
        if given is None:
            return callee
        if callee.type == "STRING":
            self._fail(callee, "only patterns take ops in angle brackets")
        ops, close = given
        return Token("NAME", f"{callee}<{ops}>", callee.start_pos, end_pos=close.end_pos)

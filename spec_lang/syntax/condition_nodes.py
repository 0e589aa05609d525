"""From grammar rules to nodes of the tree: types, dims, arithmetic and conditions."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, NoReturn, TypeVar, cast

from lark import Token

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import SpecError, error
from opsplice.spec_lang.syntax.tree import Source, Span

Nested = TypeVar("Nested", bound="tree.Expr | tree.Condition | tree.DimExpr")

# The checker, the formatter and the matchers walk trees by recursion; Python's own limit is a thousand frames.
MAX_DEPTH = 100
_MAX_DIGITS = 20
RESERVED = frozenset(
    {"and", "or", "not", "is", "in", "true", "false", "inf", "nan", "const", "contract", "reduce", "broadcast"}
    | {"transpose", "pack", "take", "stack", "only", "shared", "accumulated", "through", "with"}
)
_DIM_FUNCTIONS = ("ceildiv", "floordiv", "min", "max")
_PROPERTIES = ("bits", "rank")
_PREDICATES = ("has", "weight", "only", "shared", *tree.OF_THE_ROOT)
# Digits of a number that is not zero, before its exponent.
_NOT_ZERO = re.compile(r"[0.]*[1-9]")
_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t"}


class ConditionNodes:
    """One method per grammar rule, called with the rule's children: tokens and finished nodes, None where absent."""

    def begin(self, source: Source, codes: dict[int, int] | None = None) -> None:
        """codes: where each block of MLIR opens and closes."""
        self.source = source
        self.codes = codes or {}
        self.dims: set[str] = set()
        self.numbers: set[str] = set()  # the dims that only sums of labels name
        self.names: set[str] = set()
        self.whole = False  # whether a word among labels is never split into letters
        self.depths: dict[int, int] = {}

    # ---- helpers ----

    def _span(self, first: Any, last: Any) -> Span:
        start = first.start_pos if isinstance(first, Token) else first.span.start
        end = last.end_pos if isinstance(last, Token) else (last if isinstance(last, Span) else last.span).end
        assert start is not None, "the lexer keeps positions"
        assert end is not None
        return Span(self.source, start, end)

    def _fail(self, where: Any, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
        span = where if isinstance(where, Span) else self._span(where, where)
        raise SpecError([error(span, message, help)])

    def _nest(self, node: Nested, *children: Any) -> Nested:
        """Remember how deep a node is; nodes without an entry are leaves."""
        depths = self.depths
        depth = 1 + max((depths.get(id(child), 0) for child in children), default=0)
        if depth > MAX_DEPTH:
            self._fail(node.span, f"this nests more than {MAX_DEPTH} deep", "bind inner parts to names")
        depths[id(node)] = depth
        return node

    def _declared(self, token: Token) -> str:
        if token in RESERVED:
            self._fail(token, f"{token} is a word of the language", "choose another name")
        return str(token)

    def _string(self, token: Token) -> str:
        text = token[1:-1]
        if "\\" not in text:
            return text
        pieces, position = [], 0
        while position < len(text):
            character = text[position]
            if character == "\\":
                position += 1
                if text[position] not in _ESCAPES:
                    self._fail(token, f"unknown escape \\{text[position]}", 'write \\\\, \\", \\n or \\t')
                character = _ESCAPES[text[position]]
            pieces.append(character)
            position += 1
        return "".join(pieces)

    def _integer(self, token: Token) -> int:
        if len(token) > _MAX_DIGITS or int(token) >= 1 << 64:
            self._fail(token, "no integer type holds a number this large")
        return int(token)

    def listed(self, parts: list[Any]) -> tuple[Any, ...]:
        """The elements of a list, without the commas."""
        return tuple(parts[::2])

    args = results = values = listed

    # ---- types ----

    def scalar(self, parts: list[Any]) -> tree.ScalarType:
        return tree.ScalarType(self._span(parts[0], parts[0]), str(parts[0]))

    def buffer(self, parts: list[Any]) -> tree.TensorType:
        dims = tuple(p for p in parts if isinstance(p, tree.Dim))
        words: dict[str, bool] = {}
        lies, *rest = parts[parts.index("]") + 1 :]
        for word in rest:
            if word in words:
                self._fail(word, f"`{word}` stands here twice")
            words[str(word)] = True
        if len(words.keys() & {"strided", "copied"}) > 1:
            self._fail(parts[-1], "a buffer is strided or copied, not both")
        last = next(part for part in reversed(parts) if part is not None)
        return tree.TensorType(
            self._span(parts[0], last[-1] if last is lies else last),
            dims,
            self.scalar(parts),
            **words,
            lies=tuple(dim for dim in lies or () if isinstance(dim, tree.Dim)),
        )

    def lies(self, parts: list[Any]) -> list[Any]:
        """The dims of a buffer in the order of memory, between brackets."""
        return parts

    def tensor(self, parts: list[Any]) -> tree.TensorType:
        return tree.TensorType(self._span(parts[0], parts[-1]), tuple(parts[2:-2]), self.scalar(parts[-2:]))

    def dim(self, parts: list[Any]) -> tree.Dim:
        size = parts[0]
        if isinstance(size, Token):
            return self._dim(size)
        if isinstance(size, tree.DimRef):
            return tree.Dim(size.span, symbol=size.name)
        if isinstance(size, tree.Literal) and isinstance(size.value, int):
            return tree.Dim(size.span, size=size.value)
        if not isinstance(size, tree.Arithmetic):
            self._fail(size, "a size is a whole number or made of dims")
        return tree.Dim(size.span, sum=size)

    def tensor_dim(self, parts: list[Any]) -> tree.Dim:
        return self._dim(parts[0])

    def _dim(self, token: Token) -> tree.Dim:
        if token.type == "SIZED":  # `4x` or `?x`, in one word
            assert token.end_pos is not None
            token = Token("INT" if token[0] != "?" else "QMARK", token[:-1], token.start_pos, end_pos=token.end_pos - 1)
        span = self._span(token, token)
        if token.type == "NAME":
            return tree.Dim(span, symbol=str(token))
        if token.type == "INT":
            return tree.Dim(span, size=self._integer(token))
        if token.type == "PACK":
            return tree.Dim(span, pack=str(token[3:]))
        return tree.Dim(span)

    # ---- conditions and arithmetic ----

    def where(self, parts: list[Any]) -> tree.Condition:
        return cast("tree.Condition", parts[1])

    when = where

    def logical(self, parts: list[Any]) -> tree.Logical:
        """`a and b and c` is one node with three operands."""
        operands = tuple(parts[::2])
        return self._nest(tree.Logical(self._span(parts[0], parts[-1]), str(parts[1]), operands), *operands)

    def inverse(self, parts: list[Any]) -> tree.Logical:
        return self._nest(tree.Logical(self._span(parts[0], parts[1]), "not", (parts[1],)), parts[1])

    def comparison(self, parts: list[Any]) -> tree.Condition:
        left, op, right = parts
        asked = next((p for p in (left, right) if isinstance(p, (tree.Predicate, tree.Dynamic, tree.Logical))), None)
        if op is None:
            if asked is None:
                self._fail(left, "this is not a condition", "compare it with something: n % 8 == 0")
            return asked
        self._numbers(left, right)
        return self._nest(tree.Comparison(self._span(left, right), str(op), left, right), left, right)

    def arithmetic(self, parts: list[Any]) -> tree.Arithmetic:
        left, op, right = parts
        self._numbers(left, right)
        return self._nest(tree.Arithmetic(self._span(left, right), str(op), left, right), left, right)

    def parenthesised(self, parts: list[Any]) -> Any:
        """What is in brackets; conditions, which messages print, with them."""
        open_, inner, close = parts
        if not isinstance(inner, (tree.Logical, tree.Comparison, tree.Arithmetic)):
            return inner
        outer = dataclasses.replace(inner, span=self._span(open_, close))
        self.depths[id(outer)] = self.depths.pop(id(inner), 0)
        return outer

    def membership(self, parts: list[Any]) -> tree.Condition:
        """`T in {f32, f16}`; `n in {64, 128}` is `n == 64 or n == 128`."""
        asked, span, choices = parts[0], self._span(parts[0], parts[-1]), parts[3:-1:2]
        kinds = [each for each in choices if isinstance(each, tree.ScalarType)]
        if len(kinds) == len(choices) and isinstance(asked, tree.DimRef):
            return tree.Membership(span, asked.name, tuple(kinds))
        if kinds:
            self._fail(kinds[0], "a type variable is one of types, and a number one of numbers")
        self._numbers(asked)
        equal = tuple(self._nest(tree.Comparison(span, "==", asked, each), asked) for each in choices)
        return self._nest(tree.Logical(span, "or", equal), *equal) if len(equal) > 1 else equal[0]

    def function(self, parts: list[Any]) -> tree.DimExpr | tree.Condition:
        name, args, span = parts[0], parts[2:-1:2], self._span(parts[0], parts[-1])
        if name in _PREDICATES:
            (value,) = self._arguments(name, span, args, 1)
            return tree.Predicate(span, str(name), self._asked(name, value))
        if name == "stride":
            buffer, dim = self._arguments(name, span, args, 2)
            return tree.Property(span, str(name), self._asked(name, buffer), self._asked(name, dim))
        if name in _PROPERTIES:
            (value,) = self._arguments(name, span, args, 1)
            return tree.Property(span, str(name), self._asked(name, value))
        if name == "dynamic":
            (value,) = self._arguments(name, span, args, 1)
            self._numbers(value)
            return self._nest(tree.Dynamic(span, value), value)
        if name == "may":
            (value,) = self._arguments(name, span, args, 1)
            if not isinstance(value, tree.Condition):
                self._fail(value, "may takes a condition on sizes", "such as may(n > 4)")
            return self._nest(tree.Logical(span, "may", (value,)), value)
        if name not in _DIM_FUNCTIONS:
            functions = (*_DIM_FUNCTIONS, "dynamic", "may", *_PROPERTIES, "stride", *_PREDICATES)
            known = f"there are {', '.join(functions)}"
            self._fail(name, f"unknown function {name}", did_you_mean(str(name), functions) or known)
        self._numbers(*self._arguments(name, span, args, 2))
        return self._nest(tree.Arithmetic(span, str(name), *args), *args)

    def _numbers(self, *values: Any) -> None:
        for value in values:
            if not isinstance(value, tree.DimExpr):
                self._fail(value, "a number or a dim is wanted here")

    def _arguments(self, name: Token, span: Span, args: list[Any], count: int) -> list[Any]:
        if len(args) != count:
            self._fail(span, f"{name} takes {'1 value' if count == 1 else f'{count} values'}, found {len(args)}")
        return args

    def _asked(self, function: Token, value: Any) -> str:
        """What a predicate or a property is asked of: a name, or for those of the root a string."""
        if function in tree.OF_THE_ROOT:
            if isinstance(value, Token):
                return self._string(value)
            what, example = tree.OF_THE_ROOT[str(function)]
            self._fail(value, f"{function} takes {what}, in quotes", f'such as {function}("{example}")')
        if not isinstance(value, tree.DimRef):
            self._fail(value, f"{function} takes a name")
        return value.name

    def dim_name(self, parts: list[Any]) -> tree.DimRef:
        return tree.DimRef(self._span(parts[0], parts[0]), str(parts[0]))

    def number(self, parts: list[Any]) -> tree.Literal:
        minus, token = parts
        span = self._span(minus or token, token)
        value: int | float = self._integer(token) if token.type == "INT" else float(token)
        if value == math.inf and token != "inf":
            self._fail(span, "no float type holds a number this large", "write inf if that is what you mean")
        if value == 0 and _NOT_ZERO.match(token):
            self._fail(span, "no float type holds a number this small", "write 0.0 if that is what you mean")
        if minus and value == 0 and isinstance(value, int):
            self._fail(span, "an integer has one zero, without a sign", "write 0, or -0.0 for the float")
        return tree.Literal(span, -value if minus else value)

    def _want_brackets(self, written: tree.TensorType, kind: str) -> None:
        """Kernels write f32[n] and patterns tensor<n x f32>: memory is not the same thing as a value."""
        bracketed = written.element.span.start == written.span.start
        if kind == "kernel" and not bracketed:
            self._fail(written.span, f"a kernel's buffer is written {written.buffer}")
        if kind == "pattern" and bracketed:
            self._fail(written.span, f"a pattern's tensor is written {written}")

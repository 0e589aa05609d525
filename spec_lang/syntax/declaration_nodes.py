"""From grammar rules to nodes of the tree: kernels, patterns and rules."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any, NoReturn, cast

from lark import Token

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.condition_nodes import RESERVED
from opsplice.spec_lang.syntax.expression_nodes import ExpressionNodes
from opsplice.spec_lang.syntax.tree import Span

_TAKEN = re.compile(r"[^\s,()]+(?:\s*\([^()]*\))?")
_QUOTING = "what stands between quotes is one word, as in a shell: -DNAME='two words'"
THROUGH = ("cast", "reshape", "ones")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Nodes(ExpressionNodes):
    """The transformer of the grammar: one method for each of its rules."""

    # ---- files ----

    def start(self, items: list[Any]) -> tree.Spec:
        return tree.Spec(self.source, tuple(items))

    def import_(self, parts: list[Any]) -> tree.Import:
        return tree.Import(self._span(parts[0], parts[1]), self._string(parts[1]), self._span(parts[1], parts[1]))

    # ---- kernels ----

    def kernel(self, parts: list[Any]) -> tree.Kernel:
        word, name, variables, _, parameters, *_ = parts
        single = not isinstance(parts[7], Token)
        results, where, clauses = ((parts[7],), parts[8], parts[10]) if single else (parts[8], parts[10], parts[12])
        found, artifacts = clauses
        symbol, symbol_span = found.get("symbol", (None, None))
        workgroup, workgroup_span = found.get("workgroup", ((), None))
        return tree.Kernel(
            self._span(word, parts[-1]),
            str(name),
            self._span(name, name),
            self._of_types(variables or ()),
            self._written_for("kernel", parameters or ()),
            self._results(results, {v.name for v in variables or ()}, {p.name for p in parameters or ()}),
            grid=found.get("grid", ()),
            symbol=symbol,
            artifacts=artifacts,
            where=where,
            symbol_span=symbol_span,
            workgroup=workgroup,
            workgroup_span=workgroup_span,
        )

    def result(self, parts: list[Any]) -> tuple[Token | None, Any]:
        return parts[0], parts[2]

    def _results(
        self, results: tuple[tuple[Token | None, tree.Type], ...], variables: set[str], parameters: set[str]
    ) -> tuple[tree.KernelResult, ...]:
        """A bare name is a type, or else the parameter that is overwritten."""
        made = []
        for position, (name, written) in enumerate(results):
            fallback = "out" if len(results) == 1 else f"out{position}"
            span = self._span(name or written, written)
            if isinstance(written, tree.TensorType):
                self._want_brackets(written, "kernel")
                made.append(tree.KernelResult(span, str(name or fallback), type=written))
            elif name is None and written.name not in parameters and _is_type(written.name, variables):
                made.append(tree.KernelResult(span, fallback, type=written))
            elif name is None:
                made.append(tree.KernelResult(span, written.name, alias=written.name))
            else:
                self._fail(written.span, "a result is a buffer", f"for one with a single value write {written}[]")
        return tuple(made)

    def _written_for(self, kind: str, parameters: tuple[tree.Parameter, ...]) -> tuple[tree.Parameter, ...]:
        for parameter in parameters:
            if isinstance(parameter.type, tree.TensorType):
                self._want_brackets(parameter.type, kind)
        return parameters

    def clauses(self, clauses: list[Any]) -> tuple[dict[str, Any], tuple[tree.ArtifactClause, ...]]:
        """What a kernel's body says once, by its word, and its artifacts."""
        once: dict[str, Any] = {}
        for kind, span, value in clauses:
            if kind in once:
                self._fail(span, f"a kernel has one {kind}")
            if kind != "artifact":
                once[kind] = value
        return once, tuple(value for kind, _, value in clauses if kind == "artifact")

    def grid(self, parts: list[Any]) -> tuple[Any, ...]:
        self._numbers(*parts[2:-1:2])
        return "grid", self._span(parts[0], parts[0]), tuple(parts[2:-1:2])

    def workgroup(self, parts: list[Any]) -> tuple[Any, ...]:
        span = self._span(parts[0], parts[-1])
        return "workgroup", self._span(parts[0], parts[0]), (tuple(map(self._integer, parts[2:-1:2])), span)

    def symbol(self, parts: list[Any]) -> tuple[Any, ...]:
        return "symbol", self._span(parts[0], parts[0]), (self._string(parts[1]), self._span(parts[1], parts[1]))

    def artifact(self, parts: list[Any]) -> tuple[Any, ...]:
        backend, arch, features, path, *modifiers = parts
        made = self._artifact(backend, arch, features, path, modifiers)
        return "artifact", made.span, made

    def unfiled(self, parts: list[Any]) -> tuple[Any, ...]:
        backend, arch, features, *modifier = parts
        made = self._artifact(backend, arch, features, None, [tuple(modifier)])
        if not made.is_plugin:
            self._fail(backend, "the code is in a file, whose name stands here; only what is `as plugin` may have none")
        return "artifact", made.span, made

    def _artifact(
        self,
        backend: Token,
        arch: Token | None,
        needed: tuple[str | tree.Limit, ...] | None,
        path: Token | None,
        modifiers: list[Any],
    ) -> tree.ArtifactClause:
        found: dict[str, str] = {}
        for word, value in modifiers:
            if str(word) in found:
                self._fail(word, f"there is a second {word} here")
            found[str(word)] = self._string(value) if value.type == "STRING" else str(value)
            if str(word) in ("flags", "links"):
                try:
                    shlex.split(found[str(word)])
                except ValueError as problem:
                    self._fail(value, f"the {word} are not words of a command line: {str(problem).lower()}", _QUOTING)
        if path is not None and not self._string(path):
            self._fail(path, "the name of a file stands here, and this is empty", "`as plugin` may have no name at all")
        span = self._span(backend, modifiers[-1][1] if modifiers else path or backend)
        return tree.ArtifactClause(
            span,
            str(backend),
            "" if path is None else self._string(path),
            span if path is None else self._span(path, path),
            arch=None if arch is None else str(arch),
            features=tuple(each for each in needed or () if isinstance(each, str)),
            limits=tuple(each for each in needed or () if not isinstance(each, str)),
            form=found.get("as"),
            flags=found.get("flags"),
            links=tuple(shlex.split(found.get("links", ""))),
            shared=int(found.get("shared", 0)),
            threads=int(found.get("threads", 0)),
            takes=tuple(" ".join(each.split()) for each in _TAKEN.findall(found.get("takes", ""))),
        )

    def builds(self, parts: list[Any]) -> tree.Builds:
        word, name, _, *clauses, close = parts
        return tree.Builds(self._span(word, close), str(name), self._span(name, name), tuple(clauses))

    def build(self, parts: list[Any]) -> tree.ArtifactClause:
        backend, arch, features, file, *modifiers = parts
        clause = self._artifact(backend, arch, features, None, modifiers)
        return clause if modifiers else replace(clause, span=self._span(backend, file))

    def features(self, parts: list[Any]) -> tuple[str | tree.Limit, ...]:
        return tuple(parts[1::2])

    def needed(self, parts: list[Any]) -> str | tree.Limit:
        name, *comparison = parts
        if comparison[0] is None:
            return str(name)
        op, value = comparison
        return tree.Limit(self._span(name, value), str(name), str(op), self._integer(value))

    def modifier(self, parts: list[Any]) -> tuple[Token, Token]:
        return parts[0], parts[1]

    # ---- patterns ----

    def head(self, parts: list[Any]) -> tuple[Any, ...]:
        word, name, variables, _, parameters, *_ = parts
        parameters = self._written_for("pattern", parameters or ())
        self.whole = False
        self.names, self.numbers = {p.name for p in parameters}, set()
        self.dims = {d.name for p in parameters for d in p.type.dims if d.name is not None}
        self._declared(name)
        return word, name, variables or (), parameters

    def pattern(self, parts: list[Any]) -> tree.Pattern:
        (word, name, variables, parameters), through, where, _, *statements, close = parts
        for early in statements[:-1]:
            if not isinstance(early, tree.Let):
                self._fail_early_result(early)
        if isinstance(statements[-1], tree.Let):
            self._fail(close, "the pattern ends without a result", "write what it makes as the last line")
        return tree.Pattern(
            self._span(word, close),
            str(name),
            self._span(name, name),
            tuple(v for v in variables if isinstance(v, tree.TypeVariable)),
            parameters,
            where,
            tuple(statements[:-1]),
            statements[-1],
            through or (),
            tuple(v for v in variables if isinstance(v, tree.OpVariable)),
        )

    def through(self, parts: list[Any]) -> tuple[str, ...]:
        for token in parts[1::2]:
            if token not in THROUGH:
                known = f"a pattern looks through {' and '.join(THROUGH)}"
                self._fail(token, f"unknown kind of op {token}", did_you_mean(str(token), THROUGH) or known)
        return tuple(map(str, parts[1::2]))

    def _fail_early_result(self, values: tuple[tree.Expr, ...]) -> NoReturn:
        first = values[0]
        if isinstance(first, tree.Name) and first.name in ("let", "val", "var", "return", "yield"):
            self._fail(first.span, f"unknown word {first.name}", "write name = value, and results alone at the end")
        self._fail(
            self._span(values[0], values[-1]),
            "this value is not used",
            "bind it with name = ...; the last line alone holds results, and arithmetic is written as ops: subf(x, y)",
        )

    def statement(self, parts: list[Any]) -> Any:
        left, equals, right = parts
        if equals is None:
            return left
        if len(right) != 1:
            self._fail(self._span(right[0], right[-1]), "one value is bound at a time")
        names = []
        for target in left:
            text = self.source.text[target.span.start : target.span.end]
            if _IDENTIFIER.fullmatch(text) is None:
                self._fail(target.span, "only a name can stand left of =")
            if text in RESERVED:
                self._fail(target.span, f"{text} is a word of the language", "choose another name")
            names.append(text)
        self.names.update(names)
        return tree.Let(self._span(left[0], right[0]), tuple(names), right[0])

    # ---- rules ----

    def rule(self, parts: list[Any]) -> tree.Rule:
        *head, when, _, kernel = parts[:8]
        keep = parts[-1]
        if isinstance(kernel, tree.Code):
            made = self._rule(head, keep or kernel, kernel.span, code=kernel)
        else:
            (args, rest), close = parts[9] or ((), None), parts[10]
            span = self._span(kernel, kernel)
            made = self._rule(head, keep or close, span, kernel=str(kernel), args=args, rest=rest)
        return replace(made, keep=keep is not None, when=when)

    def annotation(self, parts: list[Any]) -> tree.Rule:
        *head, word, (attributes, close, rest) = parts
        if rest is not None:
            self._fail(rest, "an annotation sets the attributes that it names", "annotate p with {my.tag = 1}")
        for attribute in attributes:
            if attribute.absent or attribute.variables or attribute.choices:
                advice = "write name = value, or the name alone for a unit"
                self._fail(attribute.span, "what is set has one value", advice)
        return self._rule(head, close, self._span(word, close), attributes=attributes)

    def kept(self, parts: list[Any]) -> tree.Rule:
        _, pattern, at, priority, where = parts
        end = where or (priority or at or (None, pattern))[1]
        return self._rule(parts, end, self._span(pattern, pattern), keep=True)

    def _rule(self, head: list[Any], end: Any, kernel_span: Span, *, kernel: str = "", **more: Any) -> tree.Rule:
        word, pattern, at, priority, where = head
        phase, phase_span = at or (None, None)
        rank, _ = priority or (0, None)
        return tree.Rule(
            self._span(word, end),
            str(pattern),
            self._span(pattern, pattern),
            kernel,
            kernel_span,
            where=where,
            phase=phase,
            phase_span=phase_span,
            priority=rank,
            **more,
        )

    def at(self, parts: list[Any]) -> tuple[str, Span]:
        return "".join(map(str, parts[1:])), self._span(parts[1], parts[-1])

    def priority(self, parts: list[Any]) -> tuple[int, Span]:
        value = self._integer(parts[2])
        return -value if parts[1] is not None else value, self._span(parts[0], parts[2])

    def run(self, parts: list[Any]) -> tree.Run:
        word, passes, (phase, phase_span) = parts
        span = Span(self.source, word.start_pos, phase_span.end)
        return tree.Run(span, self._string(passes), self._span(passes, passes), phase, phase_span)

    def code(self, parts: list[Any]) -> tree.Code:
        word, open_, close = parts
        return tree.Code(self._span(word, close), self.source.text[open_.end_pos : close.start_pos])

    def replacement(self, parts: list[Any]) -> Token:
        """The arguments that follow have labels of a pattern that may stand in another file: words are whole."""
        self.dims, self.numbers, self.names, self.whole = set(), set(), set(), True
        return cast("Token", parts[0])

    def rule_args(self, parts: list[Any]) -> tuple[tuple[tree.Argument, ...], Span | None]:
        """The arguments, and where `...` stands for further ones."""
        *args, last = parts[::2]
        for token in (part for part in args if isinstance(part, Token)):
            self._fail(token, "these are the last arguments", "write ... behind all others")
        if not isinstance(last, Token):
            return tuple(map(tree.argument, (*args, last))), None
        return tuple(map(tree.argument, args)), self._span(last, last)


def _is_type(name: str, variables: set[str]) -> bool:
    return name in variables or vocabulary.is_element(name)

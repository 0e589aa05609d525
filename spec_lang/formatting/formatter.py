"""The one layout of a spec: two-space indent, 100 columns, comments kept.

Prints the tree and puts each comment back at the line, or the element of a list, that it stood at. Comments in other
places, such as inside a type, move to the line before.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opsplice.spec_lang.checking.walks import children
from opsplice.spec_lang.formatting import one_line
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import blank_codes, parse
from opsplice.spec_lang.syntax.tree import Span

WIDTH = 100
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_BLANK_LINE = re.compile(r"\n[ \t\r\f]*\n")


def format(text: str, path: Path | None = None) -> str:  # noqa: A001
    """The text in its canonical layout, which formatting again leaves as it is; its tree is that of the input.

    path: where the text came from, for messages. Raises SpecError when it does not parse.
    """
    return _Formatter(parse(text, path)).run()


def rule_text(rule: tree.Rule) -> str:
    """A rule as `format` writes it, by the names that its tree has."""
    return _Formatter(tree.Spec(rule.span.source, (rule,)))._rule(rule)


@dataclass
class _Comment:
    start: int
    end: int
    text: str
    printed: bool = False


@dataclass(frozen=True)
class _Line:
    """Something with a line of its own: where it stood, and how it is laid out now."""

    start: int
    end: int
    layout: Callable[[], str]


class _Formatter:
    def __init__(self, spec: tree.Spec) -> None:
        self.spec = spec
        self.text = spec.source.text
        readable, _ = blank_codes(self.text)
        found = (m for m in _COMMENT_OR_STRING.finditer(readable) if m[0].startswith("//"))
        self.comments = [_Comment(m.start(), m.end(), m[0].rstrip()) for m in found]
        self.starts = [comment.start for comment in self.comments]

    def run(self) -> str:
        out: list[str] = []
        end = 0
        before: type | None = None
        for item in self.spec.items:
            kept = before is type(item) and before in (tree.Import, tree.Rule, tree.Run)
            end = self._put(out, self._item(item), 0, end, forced_blank=not kept and before is not None)
            before = type(item)
        blank = before in (tree.Kernel, tree.Builds, tree.Pattern, tree.Code)
        self._put_comments(out, end, len(self.text), 0, len(self.text), forced_blank=blank)
        return "\n".join(out) + "\n" if out else ""

    # ---- lines and comments ----

    def _put(self, out: list[str], line: _Line, indent: int, last_end: int, *, forced_blank: bool = False) -> int:
        """Print a line with the comments before and behind it; return where it ended in the source."""
        text = line.layout()
        anchored = self._put_comments(out, last_end, line.end, indent, line.start, forced_blank=forced_blank)
        blank = self._blank_between(anchored, line.start) or (forced_blank and anchored == last_end)
        if out and blank:
            out.append("")
        out += [(" " * indent + text) if i == 0 else text for i, text in enumerate(text.split("\n"))]
        return self._put_trailing(out, line.end)

    def _put_comments(
        self, out: list[str], low: int, high: int, indent: int, start: int, *, forced_blank: bool = False
    ) -> int:
        """Print what is left of the comments in a range, each on its line; return where the last one ended.

        start: where the line that they precede begins; those that stood within it move up, without blank lines.
        """
        for comment in self._take(low, high):
            if out and (forced_blank or self._blank_between(low, min(comment.start, start))):
                out.append("")
            out.append(" " * indent + comment.text)
            low, forced_blank = comment.end, False
        return low

    def _put_trailing(self, out: list[str], end: int) -> int:
        """Print a comment that stood behind something on its line."""
        comment = self._trailing(end, self._line_end(end))
        if comment is None:
            return end
        out[-1] += f"  {comment.text}"
        return comment.end

    def _trailing(self, end: int, high: int) -> _Comment | None:
        comment = next(iter(self._left(end, high)), None)
        if comment is None or self.text[end : comment.start].strip(" \t,)"):
            return None
        comment.printed = True
        return comment

    def _left(self, low: int, high: int) -> list[_Comment]:
        """The comments that begin in [low, high) and are not printed yet."""
        return [
            c for c in self.comments[bisect_left(self.starts, low) : bisect_left(self.starts, high)] if not c.printed
        ]

    def _take(self, low: int, high: int) -> list[_Comment]:
        taken = self._left(low, high)
        for comment in taken:
            comment.printed = True
        return taken

    def _has_comments(self, low: int, high: int) -> bool:
        return bool(self._left(low, high))

    def _blank_between(self, low: int, high: int) -> bool:
        return _BLANK_LINE.search(self.text, low, max(low, high)) is not None

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return end if end >= 0 else len(self.text)

    def _find(self, character: str, start: int) -> int:
        """The next place of a character outside comments."""
        pattern = re.compile(rf"//[^\n]*|{re.escape(character)}")
        return next(m.start() for m in pattern.finditer(self.text, start) if m[0] == character)

    # ---- declarations ----

    def _item(self, item: tree.Item) -> _Line:
        match item:
            case tree.Import():
                layout = partial("import {}".format, one_line.quote(item.path))
            case tree.Kernel():
                layout = partial(self._kernel, item)
            case tree.Builds():
                layout = partial(self._builds, item)
            case tree.Pattern():
                layout = partial(self._pattern, item)
            case tree.Rule():
                layout = partial(self._rule, item)
            case tree.Run():
                layout = partial("run {} at {}".format, one_line.quote(item.passes), item.phase)
            case tree.Code():
                layout = partial(one_line.code_text, item)
        return _Line(item.span.start, item.span.end, layout)

    def _kernel(self, kernel: tree.Kernel) -> str:
        head = f"kernel {kernel.name}{one_line.variables_text(kernel.type_variables)}("
        parameters = one_line.parameters(kernel, one_line.type_text)
        results = [(r.span, one_line.result_text(r)) for r in kernel.results]
        where = f" where {one_line.condition_text(kernel.where)}" if kernel.where else ""
        open_, close = self._parameter_brackets(kernel)
        end = kernel.results[-1].span.end
        made = one_line.joined(results)
        if len(results) > 1:
            results_open, results_close = self._find("(", close), self._find(")", end)
            made = f"({made})"
            if self._has_comments(results_open, results_close):
                made = f"({self._broken(results, results_open, results_close)})"
        given = one_line.joined(parameters)
        opening = made.partition("\n")[0]
        if self._has_comments(open_, close) or len(f"{head}{given}) -> {opening}{where} {{") > WIDTH:
            given = self._broken(parameters, open_, close)
            if len(results) > 1 and made == opening and len(f") -> {made}{where} {{") > WIDTH:
                made = f"({self._broken(results, results_open, results_close)})"
        brace = self._find("{", kernel.where.span.end if kernel.where else end)
        return self._block(f"{head}{given}) -> {made}{where} {{", brace, self._clauses(kernel), kernel.span.end)

    def _parameter_brackets(self, declared: tree.Kernel | tree.Pattern) -> tuple[int, int]:
        variables: list[tree.TypeVariable | tree.OpVariable] = list(declared.type_variables)
        if isinstance(declared, tree.Pattern):
            variables += declared.op_variables
        parameters = declared.parameters
        open_ = self._find("(", max((v.span.end for v in variables), default=declared.name_span.end))
        return open_, self._find(")", parameters[-1].span.end if parameters else open_)

    def _clauses(self, kernel: tree.Kernel) -> list[_Line]:
        lines = []
        if kernel.grid:
            start = self.text.rfind("grid", kernel.span.start, kernel.grid[0].span.start)
            grid = f"grid ({', '.join(one_line.arithmetic_text(size) for size in kernel.grid)})"
            lines.append(_Line(start, kernel.grid[-1].span.end, partial(str, grid)))
        if kernel.workgroup_span is not None:
            span = kernel.workgroup_span
            workgroup = f"workgroup ({', '.join(map(str, kernel.workgroup))})"
            lines.append(_Line(span.start, span.end, partial(str, workgroup)))
        if kernel.symbol is not None and kernel.symbol_span is not None:
            start = self.text.rfind("symbol", kernel.span.start, kernel.symbol_span.start)
            symbol = f"symbol {one_line.quote(kernel.symbol)}"
            lines.append(_Line(start, kernel.symbol_span.end, partial(str, symbol)))
        for clause in kernel.artifacts:
            lines.append(_Line(clause.span.start, clause.span.end, partial(one_line.clause_text, clause)))
        return sorted(lines, key=lambda line: line.start)

    def _builds(self, builds: tree.Builds) -> str:
        lines = [_Line(c.span.start, c.span.end, partial(one_line.clause_text, c, "file")) for c in builds.clauses]
        return self._block(f"builds {builds.name} {{", self._find("{", builds.name_span.end), lines, builds.span.end)

    def _pattern(self, pattern: tree.Pattern) -> str:
        head = f"pattern {pattern.name}{one_line.variables_text(pattern.type_variables, pattern.op_variables)}("
        parameters = one_line.parameters(pattern, str)
        open_, close = self._parameter_brackets(pattern)
        through = f" through {', '.join(pattern.through)}" if pattern.through else ""
        tail = f"){through}{f' where {one_line.condition_text(pattern.where)}' if pattern.where else ''} {{"
        given = one_line.joined(parameters)
        if self._has_comments(open_, close) or len(head + given + tail) > WIDTH:
            given = self._broken(parameters, open_, close)
        brace = self._find("{", pattern.where.span.end if pattern.where else close)
        lines = [_Line(let.span.start, let.span.end, partial(self._let, let)) for let in pattern.body]
        start, end = pattern.results[0].span.start, pattern.results[-1].span.end
        lines.append(_Line(start, end, partial(self._values, pattern.results)))
        return self._block(head + given + tail, brace, lines, pattern.span.end)

    def _block(self, header: str, brace: int, lines: Sequence[_Line], end: int) -> str:
        """A header that ends in {, indented lines, and }."""
        out = [header]
        last_end = self._put_trailing(out, brace + 1)
        body: list[str] = []
        for line in lines:
            last_end = self._put(body, line, one_line.INDENT, last_end)
        self._put_comments(body, last_end, end - 1, one_line.INDENT, end)
        if not body and out == [header]:
            return f"{header}}}"
        return "\n".join([*out, *body, "}"])

    def _rule(self, rule: tree.Rule) -> str:
        at = f" at {rule.phase}" if rule.phase else ""
        priority = f" priority {rule.priority}" if rule.priority else ""
        where = f" where {one_line.condition_text(rule.where)}" if rule.where else ""
        if not (rule.replaces or rule.attributes):
            return f"keep {rule.pattern}{at}{priority}{where}"
        when = f" when {one_line.condition_text(rule.when)}" if rule.when else ""
        subject = f"{rule.pattern}{at}{priority}{where}{when} with "
        if rule.attributes:
            return f"annotate {subject}{{{', '.join(map(one_line.attribute_text, rule.attributes))}}}"
        if rule.code is not None:
            return f"replace {subject}{one_line.code_text(rule.code)}{' otherwise keep' if rule.keep else ''}"
        head = f"replace {subject}{rule.kernel}("
        args = [(a.span, one_line.argument_text(a)) for a in rule.args]
        args += [(rule.rest, "...")] if rule.rest is not None else []
        tail = f"){' otherwise keep' if rule.keep else ''}"
        given = one_line.joined(args)
        open_ = self._find("(", rule.kernel_span.end)
        close = self._find(")", args[-1][0].end if args else open_)
        if self._has_comments(open_, close) or len(head + given + tail) > WIDTH:
            items = [(a.span, partial(self._laid_argument, a)) for a in rule.args]
            items += [(span, partial(str, text)) for span, text in args[len(rule.args) :]]
            lines = self._elements(items, one_line.INDENT, open_, close)
            given = "\n" + "\n".join(lines) + "\n" if lines else ""
        return head + given + tail

    def _laid_argument(self, arg: tree.Argument) -> str:
        if isinstance(arg, tree.Computed):
            return self._expr(arg.expr, one_line.INDENT, one_line.INDENT, 1)
        return one_line.argument_text(arg)

    # ---- bodies ----

    def _let(self, let: tree.Let) -> str:
        target = f"{', '.join(let.names)} = "
        return target + self._expr(let.expr, one_line.INDENT, one_line.INDENT + len(target))

    def _values(self, values: Sequence[tree.Expr]) -> str:
        first, end = values[0].span.end, values[-1].span.end
        commented = self._has_comments(first, end)
        texts = [self._expr(value, one_line.INDENT, one_line.INDENT, 1) for value in values]
        flat = ", ".join(texts)
        if len(texts) == 1 or (not commented and "\n" not in flat and one_line.INDENT + len(flat) <= WIDTH):
            return flat
        items = [(v.span, partial(str, text)) for v, text in zip(values, texts, strict=True)]
        return "\n".join(self._elements(items, one_line.INDENT, first, end, last_comma=False)).lstrip()

    def _expr(self, expr: tree.Expr, indent: int, column: int, reserve: int = 0) -> str:
        """An expression that starts at a column; what it breaks into stands deeper than indent."""
        if isinstance(expr, tree.Alternatives):
            return self._alternatives(expr, indent, column, reserve)
        if isinstance(expr, tree.Setting):
            return self._setting(expr, indent, column, reserve)
        flat = one_line.flat_text(expr).replace("\n", "\n" + " " * indent)
        open_ = self._open_bracket(expr)
        if open_ is None:
            return flat
        args = children(expr)
        close = self._find(")", args[-1].span.end if args else open_)
        commented = self._has_comments(open_, close)
        if not commented and (not args or column + len(flat.partition("\n")[0]) + reserve <= WIDTH):
            return flat
        deeper = indent + one_line.INDENT
        items = [(arg.span, partial(self._expr, arg, deeper, deeper, 1)) for arg in args]
        rest = isinstance(expr, tree.Call) and expr.rest
        lines = self._elements(items, deeper, open_, close)
        if rest:
            lines.append(f"{' ' * deeper}...,")
        tail = one_line.tail_text(expr).replace("\n", "\n" + " " * indent)
        return f"{one_line.head_text(expr)}(\n" + "\n".join(lines) + f"\n{' ' * indent}){tail}"

    def _setting(self, expr: tree.Setting, indent: int, column: int, reserve: int) -> str:
        said = one_line.tail_text(expr)
        open_, close = ("(", ")") if isinstance(expr.arg, tree.Alternatives) else ("", "")
        written = self._expr(expr.arg, indent, column + len(open_), reserve + len(said) + len(close))
        return f"{open_}{written}{close}{said}"

    def _alternatives(self, expr: tree.Alternatives, indent: int, column: int, reserve: int) -> str:
        """`a | b`, each on a line of its own where they do not fit on one, or a comment stands between them."""
        fits = column + len(one_line.flat_text(expr)) + reserve <= WIDTH
        texts: list[str] = []
        comments: list[list[_Comment]] = []
        position = expr.span.start
        for option in expr.options:
            comments.append(self._take(position, option.span.start) if texts else [])
            texts.append(self._expr(option, indent, indent + 2 if texts and not fits else column, reserve))
            position = option.span.end
        if fits and not any(comments) and not any("\n" in text for text in texts):
            return " | ".join(texts)
        out = [texts[0]]
        for above, text in zip(comments[1:], texts[1:], strict=True):
            out += [" " * indent + c.text for c in above]
            out.append(f"{' ' * indent}| {text}")
        return "\n".join(out)

    def _open_bracket(self, expr: tree.Expr) -> int | None:
        """Where the arguments of an expression begin, if it has any to break."""
        if isinstance(expr, tree.Call):
            return self._find("(", expr.callee_span.end)
        if isinstance(expr, tree.Uses):
            return self._find("(", expr.span.start)
        if isinstance(expr, (tree.Contract, tree.Reduce, tree.Rearrange)):
            return self._find("(", expr.subscripts.span.end)
        return None

    def _broken(self, items: Iterable[tuple[Span, str]], open_: int, close: int) -> str:
        """A declaration's list between brackets, one element a line."""
        lines = self._elements([(span, partial(str, text)) for span, text in items], one_line.INDENT, open_, close)
        return "\n" + "\n".join(lines) + "\n" if lines else ""

    def _elements(
        self,
        items: Sequence[tuple[Span, Callable[[], str]]],
        indent: int,
        open_: int,
        close: int,
        *,
        last_comma: bool = True,
    ) -> list[str]:
        """The lines of a list's elements with the comments between open_ and close, all indented."""
        out: list[str] = []
        position = open_
        opening = self._trailing(open_ + 1, min(close, self._line_end(open_))) if items and last_comma else None
        if opening is not None:
            out.append(" " * indent + opening.text)
        for number, (span, layout) in enumerate(items):
            text = layout()
            out += [" " * indent + c.text for c in self._take(position, span.end)]
            comma = "," if last_comma or number < len(items) - 1 else ""
            out += (" " * indent + text + comma).split("\n")
            position = span.end
            trailing = self._trailing(span.end, min(close, self._line_end(span.end)))
            if trailing is not None:
                out[-1] += f"  {trailing.text}"
                position = trailing.end
        out += [" " * indent + c.text for c in self._take(position, close)]
        return out

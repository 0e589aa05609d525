"""The one layout of a spec: two-space indent, 100 columns, comments kept.

Prints the tree and puts each comment back at the line, or the element of a list, that it stood at. Comments in other
places, such as inside a type, move to the line before.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opsplice.spec_lang.checking.walks import children
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import blank_codes, parse
from opsplice.spec_lang.syntax.tree import Span

WIDTH = 100
_INDENT = 2
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_BLANK_LINE = re.compile(r"\n[ \t\r\f]*\n")
_LABEL_WORD = re.compile(r"\([^)]*\)|\.\.\.[A-Za-z0-9_]+|[A-Za-z0-9_]+|,|->")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_ATOM = 3


def format(text: str, path: Path | None = None) -> str:  # noqa: A001
    """The text in its canonical layout, which formatting again leaves as it is; its tree is that of the input.

    path: where the text came from, for messages. Raises SpecError when it does not parse.
    """
    return _Formatter(parse(text, path)).run()


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
                layout = partial("import {}".format, _quote(item.path))
            case tree.Kernel():
                layout = partial(self._kernel, item)
            case tree.Builds():
                layout = partial(self._builds, item)
            case tree.Pattern():
                layout = partial(self._pattern, item)
            case tree.Rule():
                layout = partial(self._rule, item)
            case tree.Run():
                layout = partial("run {} at {}".format, _quote(item.passes), item.phase)
            case tree.Code():
                layout = partial(_code, item)
        return _Line(item.span.start, item.span.end, layout)

    def _kernel(self, kernel: tree.Kernel) -> str:
        head = f"kernel {kernel.name}{_variables(kernel.type_variables)}("
        parameters = [(p.span, f"{p.name}: {_kernel_type(p.type)}") for p in kernel.parameters]
        results = [(r.span, _result(r)) for r in kernel.results]
        where = f" where {_condition(kernel.where)}" if kernel.where else ""
        open_, close = self._parameter_brackets(kernel)
        end = kernel.results[-1].span.end
        made = _joined(results)
        if len(results) > 1:
            results_open, results_close = self._find("(", close), self._find(")", end)
            made = f"({made})"
            if self._has_comments(results_open, results_close):
                made = f"({self._broken(results, results_open, results_close)})"
        given = _joined(parameters)
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
            grid = f"grid ({', '.join(_arithmetic(size) for size in kernel.grid)})"
            lines.append(_Line(start, kernel.grid[-1].span.end, partial(str, grid)))
        if kernel.workgroup_span is not None:
            span = kernel.workgroup_span
            workgroup = f"workgroup ({', '.join(map(str, kernel.workgroup))})"
            lines.append(_Line(span.start, span.end, partial(str, workgroup)))
        if kernel.symbol is not None and kernel.symbol_span is not None:
            start = self.text.rfind("symbol", kernel.span.start, kernel.symbol_span.start)
            symbol = f"symbol {_quote(kernel.symbol)}"
            lines.append(_Line(start, kernel.symbol_span.end, partial(str, symbol)))
        for clause in kernel.artifacts:
            lines.append(_Line(clause.span.start, clause.span.end, partial(clause_text, clause)))
        return sorted(lines, key=lambda line: line.start)

    def _builds(self, builds: tree.Builds) -> str:
        lines = [_Line(c.span.start, c.span.end, partial(clause_text, c, "file")) for c in builds.clauses]
        return self._block(f"builds {builds.name} {{", self._find("{", builds.name_span.end), lines, builds.span.end)

    def _pattern(self, pattern: tree.Pattern) -> str:
        head = f"pattern {pattern.name}{_variables(pattern.type_variables, pattern.op_variables)}("
        parameters = [(p.span, f"{p.name}: {p.type}{_default(p)}") for p in pattern.parameters]
        open_, close = self._parameter_brackets(pattern)
        through = f" through {', '.join(pattern.through)}" if pattern.through else ""
        tail = f"){through}{f' where {_condition(pattern.where)}' if pattern.where else ''} {{"
        given = _joined(parameters)
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
            last_end = self._put(body, line, _INDENT, last_end)
        self._put_comments(body, last_end, end - 1, _INDENT, end)
        if not body and out == [header]:
            return f"{header}}}"
        return "\n".join([*out, *body, "}"])

    def _rule(self, rule: tree.Rule) -> str:
        at = f" at {rule.phase}" if rule.phase else ""
        priority = f" priority {rule.priority}" if rule.priority else ""
        where = f" where {_condition(rule.where)}" if rule.where else ""
        if not (rule.replaces or rule.attributes):
            return f"keep {rule.pattern}{at}{priority}{where}"
        subject = f"{rule.pattern}{at}{priority}{where} with "
        if rule.attributes:
            return f"annotate {subject}{{{', '.join(map(_attribute, rule.attributes))}}}"
        if rule.code is not None:
            return f"replace {subject}{_code(rule.code)}{' otherwise keep' if rule.keep else ''}"
        head = f"replace {subject}{rule.kernel}("
        args = [(a.span, _argument(a)) for a in rule.args]
        tail = f"){' otherwise keep' if rule.keep else ''}"
        given = _joined(args)
        open_ = self._find("(", rule.kernel_span.end)
        close = self._find(")", rule.args[-1].span.end if args else open_)
        if self._has_comments(open_, close) or len(head + given + tail) > WIDTH:
            items = [(a.span, partial(self._argument, a)) for a in rule.args]
            lines = self._elements(items, _INDENT, open_, close)
            given = "\n" + "\n".join(lines) + "\n" if lines else ""
        return head + given + tail

    def _argument(self, arg: tree.Argument) -> str:
        if isinstance(arg, tree.Computed):
            return self._expr(arg.expr, _INDENT, _INDENT, 1)
        return _argument(arg)

    # ---- bodies ----

    def _let(self, let: tree.Let) -> str:
        target = f"{', '.join(let.names)} = "
        return target + self._expr(let.expr, _INDENT, _INDENT + len(target))

    def _values(self, values: Sequence[tree.Expr]) -> str:
        first, end = values[0].span.end, values[-1].span.end
        commented = self._has_comments(first, end)
        texts = [self._expr(value, _INDENT, _INDENT, 1) for value in values]
        flat = ", ".join(texts)
        if len(texts) == 1 or (not commented and "\n" not in flat and _INDENT + len(flat) <= WIDTH):
            return flat
        items = [(v.span, partial(str, text)) for v, text in zip(values, texts, strict=True)]
        return "\n".join(self._elements(items, _INDENT, first, end, last_comma=False)).lstrip()

    def _expr(self, expr: tree.Expr, indent: int, column: int, reserve: int = 0) -> str:
        """An expression that starts at a column; what it breaks into stands deeper than indent."""
        if isinstance(expr, tree.Alternatives):
            return self._alternatives(expr, indent, column, reserve)
        flat = _flat(expr).replace("\n", "\n" + " " * indent)
        open_ = self._open_bracket(expr)
        if open_ is None:
            return flat
        args = children(expr)
        close = self._find(")", args[-1].span.end if args else open_)
        commented = self._has_comments(open_, close)
        if not commented and (not args or column + len(flat.partition("\n")[0]) + reserve <= WIDTH):
            return flat
        deeper = indent + _INDENT
        items = [(arg.span, partial(self._expr, arg, deeper, deeper, 1)) for arg in args]
        rest = isinstance(expr, tree.Call) and expr.rest
        lines = self._elements(items, deeper, open_, close)
        if rest:
            lines.append(f"{' ' * deeper}...,")
        tail = _tail(expr).replace("\n", "\n" + " " * indent)
        return f"{_head(expr)}(\n" + "\n".join(lines) + f"\n{' ' * indent}){tail}"

    def _alternatives(self, expr: tree.Alternatives, indent: int, column: int, reserve: int) -> str:
        """`a | b`, each on a line of its own where they do not fit on one, or a comment stands between them."""
        fits = column + len(_flat(expr)) + reserve <= WIDTH
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
        lines = self._elements([(span, partial(str, text)) for span, text in items], _INDENT, open_, close)
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


def _code(code: tree.Code) -> str:
    """MLIR stays as it is written, but for its margin."""
    lines = code.text.expandtabs(4).rstrip().split("\n")
    if len(lines) == 1:
        return f"mlir {{ {code.text.strip()} }}" if code.text.strip() else "mlir {}"
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    body = [lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]
    while body and not body[0]:
        del body[0]
    return "\n".join(["mlir {", *(" " * _INDENT * bool(line) + line for line in body), "}"])


def _argument(arg: tree.Argument) -> str:
    if isinstance(arg, tree.Computed):
        return _flat(arg.expr)
    return arg.name if isinstance(arg, tree.Name) else _squeezed(arg.span)


# ---- what never breaks -----------------------------------------------------------------------------------------------


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _joined(items: Iterable[tuple[Span, str]]) -> str:
    return ", ".join(text for _, text in items)


def _squeezed(span: Span) -> str:
    """The source text of something without blanks in it, such as a number."""
    return "".join(span.text.split())


def _variables(variables: tuple[tree.TypeVariable, ...], ops: tuple[tree.OpVariable, ...] = ()) -> str:
    if not variables and not ops:
        return ""
    written = [v.name + (f" in {{{', '.join(map(str, v.choices))}}}" if v.choices else "") for v in variables]
    return f"<{', '.join([*written, *(f'op {o.name}' for o in ops)])}>"


def _kernel_type(written: tree.Type) -> str:
    if isinstance(written, tree.ScalarType):
        return str(written)
    words = " strided" * written.strided + " copied" * written.copied + " optional" * written.optional
    return f"{written.element}[{', '.join(map(str, written.dims))}]{words}"


def _default(parameter: tree.Parameter) -> str:
    return "" if parameter.default is None else f" = {_squeezed(parameter.default.span)}"


def _result(result: tree.KernelResult) -> str:
    if result.type is None:
        return result.name
    named = result.span.start != result.type.span.start
    return f"{result.name}: {_kernel_type(result.type)}" if named else _kernel_type(result.type)


def signature(kernel: tree.Kernel) -> str:
    """What a kernel takes and makes, on one line: `scale<T in {f32, f64}>(x: T[n], gain: T) -> T[n]`."""
    taken = ", ".join(f"{p.name}: {_kernel_type(p.type)}" for p in kernel.parameters)
    made = ", ".join(map(_result, kernel.results))
    made = made if len(kernel.results) == 1 else f"({made})"
    return f"{kernel.name}{_variables(kernel.type_variables)}({taken}) -> {made}"


def clause_text(clause: tree.ArtifactClause, file: str = "") -> str:
    """A clause of a kernel as it is written. file: what stands for the path, "" for the path itself."""
    words = [clause.backend]
    if clause.arch is not None:
        words.append(clause.arch)
    if needed := [*clause.features, *map(str, clause.limits)]:
        words.append(f"when {' and '.join(needed)}")
    if file or clause.path:
        words.append(file or _quote(clause.path))
    if clause.form is not None:
        words.append(f"as {clause.form}")
    if clause.flags is not None:
        words.append(f"flags {_quote(clause.flags)}")
    if clause.links:
        words.append(f"links {_quote(shlex.join(clause.links))}")
    if clause.shared:
        words.append(f"shared {clause.shared}")
    return " ".join(words)


def _condition(condition: tree.Condition) -> str:
    match condition:
        case tree.Comparison():
            return f"{_arithmetic(condition.left)} {condition.op} {_arithmetic(condition.right)}"
        case tree.Predicate():
            quoted = condition.name in tree.OF_THE_ROOT
            return f"{condition.name}({_quote(condition.value) if quoted else condition.value})"
        case tree.Membership():
            return f"{condition.variable} in {{{', '.join(map(str, condition.choices))}}}"
        case tree.Is():
            form, call = _flat(condition.form), condition.form
            plain = isinstance(call, tree.Call) and not (_tail(call) or call.optional)
            return f"{condition.value} is {'not ' * condition.negated}{form if plain else f'({form})'}"
    if condition.op == "not":
        (operand,) = condition.operands
        bare = not isinstance(operand, tree.Logical) or operand.op == "not"
        return f"not {_condition(operand)}" if bare else f"not ({_condition(operand)})"
    parts = []
    for operand in condition.operands:
        bare = not isinstance(operand, tree.Logical) or operand.op == "not"
        bare = bare or (condition.op == "or" and isinstance(operand, tree.Logical) and operand.op == "and")
        parts.append(_condition(operand) if bare else f"({_condition(operand)})")
    return f" {condition.op} ".join(parts)


def _arithmetic(value: tree.DimExpr) -> str:
    if isinstance(value, tree.Literal):
        return _squeezed(value.span)
    if isinstance(value, tree.DimRef):
        return value.name
    if isinstance(value, tree.Property):
        return str(value)
    if value.op not in _PRECEDENCE:
        return f"{value.op}({_arithmetic(value.left)}, {_arithmetic(value.right)})"
    own = _PRECEDENCE[value.op]
    left, right = _arithmetic(value.left), _arithmetic(value.right)
    if _precedence(value.left) < own:
        left = f"({left})"
    if _precedence(value.right) <= own:
        right = f"({right})"
    return f"{left} {value.op} {right}"


def _precedence(value: tree.DimExpr) -> int:
    return _PRECEDENCE.get(value.op, _ATOM) if isinstance(value, tree.Arithmetic) else _ATOM


def _flat(expr: tree.Expr) -> str:
    if isinstance(expr, tree.Name):
        return expr.name
    if isinstance(expr, tree.Constant):
        return _constant(expr)
    if isinstance(expr, tree.Wildcard):
        return "_"
    args = [_flat(child) for child in children(expr)]
    if isinstance(expr, tree.Alternatives):
        return " | ".join(args)
    if isinstance(expr, tree.Call) and expr.rest:
        args.append("...")
    return f"{_head(expr)}({', '.join(args)}){_tail(expr)}"


def _constant(constant: tree.Constant) -> str:
    if not constant.span.source.text.startswith("const(", constant.span.start) and constant.high is None:
        written = _squeezed(constant.span)
        if not written.startswith("const("):
            return written
    high = f"..{_arithmetic(constant.high)}" if constant.high is not None else ""
    return f"const({_arithmetic(constant.value)}{high})"


def _head(expr: tree.Expr) -> str:
    """What stands before an expression's arguments."""
    match expr:
        case tree.Call():
            return (_quote(expr.callee) if expr.quoted else expr.callee) + "?" * expr.optional
        case tree.Uses():
            return expr.kind
        case tree.Contract():
            return f"contract{_subscripts(expr.subscripts)}"
        case tree.Reduce():
            return f"reduce {expr.combiner}{_subscripts(expr.subscripts)}"
        case tree.Rearrange():
            return f"{expr.kind}{_subscripts(expr.subscripts)}"
    raise AssertionError(f"{expr} has no arguments")


def _tail(expr: tree.Expr) -> str:
    """What stands behind an expression's arguments."""
    attributes = getattr(expr, "attributes", ())
    type_ = getattr(expr, "type", None)
    words = [*map(_attribute, attributes), *["..."] * getattr(expr, "regions", False)]
    written = f" {{{', '.join(words)}}}" if words else ""
    body = getattr(expr, "body", None)
    written += f" {_code(body)}" if body is not None else ""
    return written + (f" : {type_}" if type_ is not None else "")


def _attribute(attribute: tree.Attribute) -> str:
    if attribute.absent:
        return f"!{attribute.name}"
    if attribute.variable is not None:
        return f"{attribute.name} = ?{attribute.variable}"
    if attribute.choices:
        return f"{attribute.name} in {{{', '.join(_attribute_value(c, attribute.bare) for c in attribute.choices)}}}"
    if attribute.value is None:
        return attribute.name
    if isinstance(attribute.value, (str, tuple, tree.MlirText)):
        return f"{attribute.name} = {_attribute_value(attribute.value, attribute.bare)}"
    return f"{attribute.name} = {_squeezed(attribute.span).partition('=')[2]}"


def _attribute_value(value: tree.AttributeValue, bare: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, tree.MlirText):
        return f"mlir {_quote(value.text)}"
    if isinstance(value, str):
        return value if bare else _quote(value)
    return str(value)


def _subscripts(subscripts: tree.Subscripts) -> str:
    """The labels as they were written, `mk` or `m k`: which of the two it is makes no difference to the tree."""
    span = subscripts.span
    words = _LABEL_WORD.findall(span.text)
    words = [re.sub(r"\s*([+/])\s*", r" \1 ", re.sub(r"\s*([()*])\s*", r"\1", word)) for word in words]
    operands, _, result = " ".join(words).partition("->")
    return f"[{operands.replace(' ,', ',').strip()} -> {result.strip()}]"

"""Parts of a spec as text on one line: types, signatures, clauses, conditions and expressions."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterable

from opsplice.spec_lang.checking.walks import children
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.tree import Span

INDENT = 2


_LABEL_WORD = re.compile(r"\([^)]*\)|\.\.\.[A-Za-z0-9_]+|[A-Za-z0-9_]+|,|->")


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


_ATOM = 3


def code_text(code: tree.Code) -> str:
    """MLIR stays as it is written, but for its margin."""
    lines = code.text.expandtabs(4).rstrip().split("\n")
    if len(lines) == 1:
        return f"mlir {{ {code.text.strip()} }}" if code.text.strip() else "mlir {}"
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    body = [lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]
    while body and not body[0]:
        del body[0]
    return "\n".join(["mlir {", *(" " * INDENT * bool(line) + line for line in body), "}"])


def argument_text(arg: tree.Argument) -> str:
    if isinstance(arg, tree.Computed):
        return flat_text(arg.expr)
    return arg.name if isinstance(arg, tree.Name) else _squeezed(arg.span)


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def joined(items: Iterable[tuple[Span, str]]) -> str:
    return ", ".join(text for _, text in items)


def _squeezed(span: Span) -> str:
    """The source text of something without blanks in it, such as a number."""
    return "".join(span.text.split())


def variables_text(variables: tuple[tree.TypeVariable, ...], ops: tuple[tree.OpVariable, ...] = ()) -> str:
    if not variables and not ops:
        return ""
    written = [v.name + (f" in {{{', '.join(map(str, v.choices))}}}" if v.choices else "") for v in variables]
    return f"<{', '.join([*written, *(f'op {o.name}' for o in ops)])}>"


def type_text(written: tree.Type) -> str:
    order = [f"as [{', '.join(map(str, written.lies))}]"] if written.lies else []
    return " ".join([written.buffer, *order, *(word for word in tree.BUFFER_WORDS if getattr(written, word))])


def parameters(declared: tree.Kernel | tree.Pattern, text: Callable[[tree.Type], str]) -> list[tuple[Span, str]]:
    """Parameters, those that share a type as one: `x, y: f32[n]`. text: of a type."""
    found = []
    for _, shared in itertools.groupby(declared.parameters, lambda parameter: parameter.type.span.start):
        group = list(shared)
        span = Span(group[0].span.source, group[0].span.start, group[-1].span.end)
        default = "" if group[0].default is None else f" = {_squeezed(group[0].default.span)}"
        found.append((span, f"{', '.join(each.name for each in group)}: {text(group[0].type)}{default}"))
    return found


def result_text(result: tree.KernelResult) -> str:
    if result.type is None:
        return result.name
    named = result.span.start != result.type.span.start
    return f"{result.name}: {type_text(result.type)}" if named else type_text(result.type)


def signature(kernel: tree.Kernel) -> str:
    """What a kernel takes and makes, on one line: `scale<T in {f32, f64}>(x: T[n], gain: T) -> T[n]`."""
    taken = ", ".join(f"{p.name}: {type_text(p.type)}" for p in kernel.parameters)
    made = ", ".join(map(result_text, kernel.results))
    made = made if len(kernel.results) == 1 else f"({made})"
    return f"{kernel.name}{variables_text(kernel.type_variables)}({taken}) -> {made}"


def clause_text(clause: tree.ArtifactClause, file: str = "") -> str:
    """A clause of a kernel as it is written. file: what stands for the path, "" for the path itself."""
    needed = " and ".join([*clause.features, *map(str, clause.limits)])
    path = file or (quote(clause.path) if clause.path else "")
    modifiers = {
        "when": needed,
        "": path,
        "as": clause.form,
        "flags": None if clause.flags is None else quote(clause.flags),
        "links": quote(shlex.join(clause.links)) if clause.links else None,
        "shared": clause.shared,
        "threads": clause.threads,
        "takes": quote(", ".join(clause.takes)) if clause.takes else None,
    }
    written = (f"{word} {value}".lstrip() for word, value in modifiers.items() if value)
    return " ".join([clause.backend, *filter(None, (clause.arch,)), *written])


def condition_text(condition: tree.Condition) -> str:
    match condition:
        case tree.Comparison():
            return f"{arithmetic_text(condition.left)} {condition.op} {arithmetic_text(condition.right)}"
        case tree.Dynamic():
            return f"dynamic({arithmetic_text(condition.size)})"
        case tree.Predicate():
            quoted = condition.name in tree.OF_THE_ROOT
            return f"{condition.name}({quote(condition.value) if quoted else condition.value})"
        case tree.Membership():
            return f"{condition.variable} in {{{', '.join(map(str, condition.choices))}}}"
        case tree.Is():
            form, call = flat_text(condition.form), condition.form
            plain = isinstance(call, tree.Call) and not (tail_text(call) or call.optional)
            return f"{condition.value} is {'not ' * condition.negated}{form if plain else f'({form})'}"
    if (numbers := dim_conditions.listed(condition)) is not None:
        left, choices = numbers
        return f"{arithmetic_text(left)} in {{{', '.join(map(arithmetic_text, choices))}}}"
    if condition.op == "not":
        return f"not {_operand_text(condition, condition.operands[0])}"
    if condition.op == "may":
        return f"may({condition_text(condition.operands[0])})"
    return f" {condition.op} ".join(_operand_text(condition, operand) for operand in condition.operands)


def _operand_text(outer: tree.Logical, operand: tree.Condition) -> str:
    text = condition_text(operand)
    is_bare = not isinstance(operand, tree.Logical) or operand.op in ("not", "may")
    is_bare = is_bare or (isinstance(operand, tree.Logical) and (outer.op, operand.op) == ("or", "and"))
    is_bare = is_bare or dim_conditions.listed(operand) is not None
    return text if is_bare else f"({text})"


def arithmetic_text(value: tree.DimExpr) -> str:
    if isinstance(value, tree.Literal):
        return _squeezed(value.span)
    if isinstance(value, tree.DimRef):
        return value.name
    if isinstance(value, tree.Property):
        return str(value)
    if value.op not in _PRECEDENCE:
        return f"{value.op}({arithmetic_text(value.left)}, {arithmetic_text(value.right)})"
    own = _PRECEDENCE[value.op]
    left, right = arithmetic_text(value.left), arithmetic_text(value.right)
    if _precedence(value.left) < own:
        left = f"({left})"
    if _precedence(value.right) <= own:
        right = f"({right})"
    return f"{left} {value.op} {right}"


def _precedence(value: tree.DimExpr) -> int:
    return _PRECEDENCE.get(value.op, _ATOM) if isinstance(value, tree.Arithmetic) else _ATOM


def flat_text(expr: tree.Expr) -> str:
    if isinstance(expr, tree.Name):
        return expr.name
    if isinstance(expr, tree.Constant):
        return constant_text(expr)
    if isinstance(expr, tree.Wildcard):
        return "_"
    args = [flat_text(child) for child in children(expr)]
    if isinstance(expr, tree.Alternatives):
        return " | ".join(args)
    if isinstance(expr, tree.Setting):
        return (f"({args[0]})" if isinstance(expr.arg, tree.Alternatives) else args[0]) + tail_text(expr)
    if isinstance(expr, tree.Call) and expr.rest:
        args.append("...")
    return f"{head_text(expr)}({', '.join(args)}){tail_text(expr)}"


def constant_text(constant: tree.Constant) -> str:
    if not constant.span.source.text.startswith("const(", constant.span.start) and constant.high is None:
        written = _squeezed(constant.span)
        if not written.startswith("const("):
            return written
    high = f"..{arithmetic_text(constant.high)}" if constant.high is not None else ""
    return f"const({arithmetic_text(constant.value)}{high})"


def head_text(expr: tree.Expr) -> str:
    """What stands before an expression's arguments."""
    match expr:
        case tree.Call():
            return (quote(expr.callee) if expr.quoted else expr.callee) + "?" * expr.optional
        case tree.Uses():
            return expr.kind
        case tree.Contract():
            return f"{expr.kind}{_subscripts(expr.subscripts)}"
        case tree.Reduce():
            return f"reduce {expr.combiner}{_subscripts(expr.subscripts)}"
        case tree.Rearrange():
            return f"{expr.kind}{_subscripts(expr.subscripts)}"
    raise AssertionError(f"{expr} has no arguments")


def tail_text(expr: tree.Expr) -> str:
    """What stands behind an expression's arguments."""
    if isinstance(expr, tree.Setting):
        return f" with {expr.name.name} = {_squeezed(expr.value.span)}"
    attributes = getattr(expr, "attributes", ())
    type_ = getattr(expr, "type", None)
    words = [*map(attribute_text, attributes), *["..."] * getattr(expr, "regions", False)]
    written = f" {{{', '.join(words)}}}" if words else ""
    body = getattr(expr, "body", None)
    written += f" {code_text(body)}" if body is not None else ""
    return written + (f" : {type_}" if type_ is not None else "")


def attribute_text(attribute: tree.Attribute) -> str:
    if attribute.absent:
        return f"!{attribute.name}"
    if attribute.choices:
        return f"{attribute.name} in {{{', '.join(_attribute_value(c, attribute.bare) for c in attribute.choices)}}}"
    if attribute.value is None:
        return attribute.name
    if isinstance(attribute.value, (str, tuple, tree.Bound, tree.MlirText)):
        return f"{attribute.name} = {_attribute_value(attribute.value, attribute.bare)}"
    return f"{attribute.name} = {_squeezed(attribute.span).partition('=')[2]}"


def _attribute_value(value: tree.AttributeValue, bare: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, tree.MlirText):
        return f"mlir {quote(value.text)}"
    if isinstance(value, str):
        return value if bare else quote(value)
    return str(value)


def _subscripts(subscripts: tree.Subscripts) -> str:
    """The labels as they were written, `mk` or `m k`: which of the two it is makes no difference to the tree."""
    span = subscripts.span
    words = _LABEL_WORD.findall(span.text)
    words = [re.sub(r"\s*([+/])\s*", r" \1 ", re.sub(r"\s*([()*])\s*", r"\1", word)) for word in words]
    operands, _, result = " ".join(words).partition("->")
    return f"[{operands.replace(' ,', ',').strip()} -> {result.strip()}]"

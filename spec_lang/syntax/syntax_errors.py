"""Syntax errors in human words: what stood there, what was expected, what is probably meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import lark
from lark.parsers.lalr_analysis import Shift

from opsplice.common.errors import nearest
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, error
from opsplice.spec_lang.syntax.tree import BUFFER_WORDS, Source, Span

_KEYWORDS = (
    "import", "kernel", "builds", "file", "pattern", "replace", "annotate", "run", "mlir", "at", "priority", "where",
    "with", "otherwise",
    "keep", "grid", "workgroup", "symbol", "when", "as", "flags", "and", "or", "not", "in", "is", "const", "inf",
    "contract", "take", "stack", "reduce", "broadcast", "transpose", "pack", "tensor", "strided", "copied", "zeroed",
    "scratch", "optional", "finite", "through", "op", "links", "shared", "takes",
    "threads", "x",
)  # fmt: skip
_SIGNS = {
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}", "LESSTHAN": "<", "MORETHAN": ">",
    "COMMA": ",", "COLON": ":", "EQUAL": "=", "ARROW": "->", "RANGE": "..", "QMARK": "?",
    "VBAR": "|", "BANG": "!", "REST": "...", "PACKED": "pack",
    "PLUS": "+", "MINUS": "-", "STAR": "*", "SLASH": "/", "PERCENT": "%",
}  # fmt: skip
_KINDS = {
    "NAME": "a name",
    "QUALIFIED": "a name",
    "FEATURE": "a feature of the processor or a number of the device",
    "PACK": "a pack of dims, such as ...m",
    "STRING": "a string",
    "COMPARE": "a comparison, such as ==",
    "INT": "a number",
    "FLOAT": "a number",
    "SIZED": "a size",
    "$END": "the end of the file",
}
WORDS = {**{k.upper(): f"'{k}'" for k in _KEYWORDS}, **{k: f"'{v}'" for k, v in _SIGNS.items()}, **_KINDS}

# Sets of terminals that mean one thing to a reader, the larger ones first.
_GROUPS = (
    ({"NAME", "QUALIFIED", "STRING", "CONST", "REDUCE", "CONTRACT", "TAKE", "STACK", "BROADCAST", "TRANSPOSE", "PACKED",
      "INT", "FLOAT", "INF", "MINUS", "LPAR"}, "a value"),
    ({"NAME", "INT", "FLOAT", "INF", "MINUS"}, "a number or a dim"),
    ({"NAME", "INT", "PACK", "QMARK", "SIZED"}, "a dim"),
    ({"NAME", "INT", "PACK", "QMARK"}, "a dim"),
    ({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}, "an operator"),
    ({"NAME", "TENSOR"}, "a type"),
    ({"INT", "FLOAT", "INF"}, "a number"),
)  # fmt: skip
# Ops that say in brackets what labels their operands and results have.
_LABELLED = ("broadcast", "contract", "pack", "reduce", "stack", "take", "transpose")
_MAX_EXPECTED = 6
_NEAR = 200  # a search back from the end of a text takes the square of its length
_OPS_FOR = {"+": "addf(x, y)", "-": "subf(x, y)", "*": "mulf(x, y)", "/": "divf(x, y)", "%": "remf(x, y)"}
# What a condition asks for, `x is f(_)`, and what may be meant to belong to it.
_FORM = re.compile(r'\bis\s+(?:not\s+)?["\w.*]+\s*\([^{}]*\)\s*(?:(?P<brace>\{[^{}]*\}?)\s*)?$')
# What stands before the second of two types behind an op, which begins like a pattern with ops in <...>.
_SECOND_TYPE = re.compile(r">\s*,\s*tensor\s*<\s*\w+\s*$")
_CLOSERS = {")": "(", "]": "[", "}": "{"}
_SKIPPED_OR_BRACKET = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|[()\[\]{}]')
_WORD = re.compile(r"[A-Za-z0-9_.]+|->|[=!<>]=|[^\s]")


def explain(failure: lark.UnexpectedInput, source: Source, text: str) -> Diagnostic:
    """The diagnostic for what lark stumbled over. text: what it read, that of the source with blanks for some of it."""
    start, end = _place(failure, source.text)
    found = source.text[start:end]
    accepted = {terminal for terminal in _row(failure.state) if _accepts(failure.state, terminal)}
    expected = _expected(accepted)
    if _is_at_end(failure):
        found = ""
        message = f"the file ends here; {expected}" if expected else "the file ends here, within a declaration"
    elif found == '"':
        end = source.text.find("\n", start)
        span = Span(source, start, end if end >= 0 else len(source.text))
        return error(span, "this string is not closed on its line", 'end it with "')
    else:
        shown = found if found.isprintable() else _code_point(found)
        message = f"{expected}, found '{shown}'" if expected else f"'{shown}' does not fit here"
    span = Span(source, start, end)
    return error(span, message, _advice(found, accepted, source.text[:start]), _unclosed(source, text, start, found))


def _row(state: Any) -> list[str]:
    """The terminals that lark's table has anything to do for where it stopped."""
    row = state.parse_conf.states[state.position]
    return [name for name in row if name.isupper()]


def _accepts(state: Any, terminal: str) -> bool:
    """Whether a terminal can really come next: reduce as the LALR table says until it is shifted or refused."""
    table, stack = state.parse_conf.states, list(state.state_stack)
    while terminal in table[stack[-1]]:
        action, argument = table[stack[-1]][terminal]
        if action is Shift:
            return True
        del stack[len(stack) - len(argument.expansion) :]
        stack.append(table[stack[-1]][argument.origin.name][1])
    return False


def _place(failure: lark.UnexpectedInput, text: str) -> tuple[int, int]:
    if _is_at_end(failure):
        end = len(text.rstrip())
        return max(end - 1, 0), max(end, 1)
    position = failure.pos_in_stream
    assert position is not None
    word = _WORD.match(text, position)
    return position, word.end() if word else position + 1


def _is_at_end(failure: lark.UnexpectedInput) -> bool:
    return isinstance(failure, lark.UnexpectedToken) and failure.token.type == "$END"


def _expected(accepted: set[str]) -> str | None:
    phrases: list[str] = []
    rest = set(accepted)
    for terminals, phrase in _GROUPS:
        if terminals <= rest:
            rest -= terminals
            phrases.append(phrase)
    phrases += [WORDS[name] for name in WORDS if name in rest]
    phrases = list(dict.fromkeys(phrases))
    if not phrases or len(phrases) > _MAX_EXPECTED:
        return None
    if len(phrases) == 1:
        return f"expected {phrases[0]}"
    return f"expected {', '.join(phrases[:-1])} or {phrases[-1]}"


def _advice(found: str, accepted: set[str], before: str) -> str | None:
    """What to do about it, for the slips that people make."""
    words = [word for word in _KEYWORDS if word.upper() in accepted and word != "x"]
    previous = re.search(r"([A-Za-z_][A-Za-z0-9_]*)\s*$", before[-_NEAR:])
    if not found.isascii():
        return f"{_code_point(found)}, is none of the plain letters and signs that stand outside of texts and comments"
    if found == "'":
        return "texts stand in double quotes"
    if found == ";":
        return "line ends and commas are all the separators there are: leave the semicolon out"
    if found == "/" and {"RSQB", "PACK"} <= accepted:
        return "a size that is computed stands in brackets: (m / 8)"
    if found == "," and {"X", "MORETHAN"} <= accepted:
        return "the dims of a tensor are joined by x: tensor<m x n x f32>"
    if found == "#" or before.endswith("/") or (found == "/" and "SLASH" not in accepted and "EQUAL" not in accepted):
        return "comments start with //"
    if (form := _FORM.search(before[-_NEAR:])) is not None and (found in ("|", "{") or form["brace"]):
        return 'put alternatives, attributes and regions in brackets: x is ("dialect.op"(_) {...}), x is (f(_) | g(_))'
    if found == "%" and "PERCENT" not in accepted:
        return "values are named without %"
    if found == "x" and accepted == {"COMMA", "MORETHAN"} and _SECOND_TYPE.search(before[-_NEAR:]):
        return "an op with several results has no type behind it: leave the types out"
    if found in _OPS_FOR and "PLUS" not in accepted and {"COMMA", "VBAR"} & accepted:
        return f"values take ops, not operators: {_OPS_FOR[found]}"
    if found == "=" and previous and previous[1] in _KEYWORDS:
        return f"{previous[1]} is a word of the language; choose another name"
    if found == "=" and "COMPARE" in accepted:
        return "compare with =="
    if found in ("==", "!=", "<", "<=", ">", ">=") and "AND" in accepted:
        return "comparisons do not chain: write 1 <= n and n <= 64"
    if found.startswith(".") and "STRING" in accepted and "INT" not in accepted:
        return "names of files stand in quotes"
    if found.startswith("."):
        return "a number has a digit on each side of its point: 0.5, 1.0"
    if found in ("{", "where") and "ARROW" in accepted:
        return "say what the kernel makes: -> f32[n], or -> x for a parameter that it overwrites"
    if found == "-" and {"STRING", "WHEN"} <= accepted and previous:
        return "did you mean x86_64?" if previous[1] == "x86" else "names of architectures have no dash"
    if accepted == {"LPAR"} and previous and previous[1] in ("grid", "workgroup"):
        return f"sizes stand in brackets: {previous[1]} ({found})"
    if found.isalnum() and {"RSQB", "COMMA", "PLUS"} <= accepted:
        return "the dims of a buffer are separated by commas: f32[m, n]"
    if found == "(" and accepted == {"LSQB"}:
        return "say which labels go in and which remain: [m n -> m]"
    if found == "[" and previous and "LPAR" in accepted:
        close = nearest(previous[1], _LABELLED)
        return f"did you mean {close}?" if close else f"labels are for {', '.join(_LABELLED[:-1])} and {_LABELLED[-1]}"
    if found == "(" and "STRING" in accepted and previous:
        close = nearest(previous[1], ("grid", "symbol"))
        return f"did you mean {close}?" if close else None
    words += BUFFER_WORDS if before.rstrip().endswith("]") and "COMMA" in accepted else ()
    close = nearest(found, words) if found.isalpha() else None
    if close is None and {"KERNEL", "PATTERN"} <= accepted:
        return f"a declaration begins with {', '.join(words[:-1])} or {words[-1]}"
    return f"did you mean {close}?" if close else None


def _code_point(character: str) -> str:
    """A character as Unicode names it, for those that cannot be told from others, or not be seen."""
    name = unicodedata.name(character, "a character without a name").lower()
    return f"U+{ord(character):04X}, {name}"


def _unclosed(source: Source, text: str, position: int, found: str) -> list[tuple[Span, str]]:
    """The bracket that was still open, where that is likely to be the trouble. found: what came, "" for nothing."""
    opened = list(open_brackets(text[: position if found else len(text)]))
    if not opened or _CLOSERS.get(found) == opened[-1][1]:
        return []
    start, bracket = opened[-1]
    on_this_line = source.line_column(start)[0] == source.line_column(position)[0]
    if (bracket == "{" and found) or (on_this_line and found not in ("", "{", *_CLOSERS)):
        return []
    return [(Span(source, start, start + 1), f"this {bracket} is not closed")]


def open_brackets(text: str) -> Iterator[tuple[int, str]]:
    """The brackets that are not closed in a text, with their places."""
    opened: list[tuple[int, str]] = []
    for match in _SKIPPED_OR_BRACKET.finditer(text):
        character = match[0]
        if character in "([{":
            opened.append((match.start(), character))
        elif opened and _CLOSERS.get(character) == opened[-1][1]:
            opened.pop()
    yield from opened

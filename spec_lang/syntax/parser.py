"""Text to tree: lark runs the grammar, the builder makes the nodes of `tree` as it goes.

Nothing is judged here beyond syntax; names, ranks and types are the checker's. The builder keeps the dims that a
pattern's parameters declare while it reads the body, because `n` and `mn` there mean what the parameters say they mean.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import threading
from pathlib import Path
from typing import Any, cast

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from opsplice.common.store import key_of, recalled
from opsplice.spec_lang import garbage
from opsplice.spec_lang.syntax import syntax_errors, tree
from opsplice.spec_lang.syntax.declaration_nodes import Nodes
from opsplice.spec_lang.syntax.spec_errors import MAX_SHOWN, Diagnostic, SpecError
from opsplice.spec_lang.syntax.tree import Source

_NO_SOURCE = Source("")
_GRAMMAR = Path(__file__).with_name("grammar.lark")
_LARGEST = 8 << 20
_OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "contextual",
    "keep_all_tokens": True,
    "maybe_placeholders": True,
}


def parse(text: str, path: Path | None = None) -> tree.Spec:
    """The tree of a spec.

    path: where the text came from, for messages; nothing is read from it.
    Raises SpecError with the first syntax error of each declaration.
    """
    source = Source(text, path)
    readable, codes = blank_codes(text)
    found: list[Diagnostic] = []
    with _lock, garbage.kept():  # trees have no cycles, and scanning them as they grow doubles the time
        parser, builder = _shared_parser()
        try:
            while True:
                builder.begin(source, codes)
                try:
                    spec = cast("tree.Spec", parser.parse(readable))  # the transformer makes it, as the parser goes
                    break
                except lark.UnexpectedInput as failure:
                    found.append(syntax_errors.explain(failure, source, readable))
                except SpecError as failure:
                    found += failure.diagnostics
                before, readable = readable, _without_declaration(readable, found[-1].span.start)
                if readable == before or len(found) >= MAX_SHOWN:
                    break
        finally:
            builder.begin(_NO_SOURCE)
    if found:
        raise SpecError(found)
    return spec


_DECLARATION = re.compile(r"^(?:import|kernel|builds|pattern|replace|annotate|keep|run|mlir)\b", re.MULTILINE)


def _without_declaration(text: str, position: int) -> str:
    """The text with blanks for the declaration that has an error, found at a position; all else keeps its place.

    A declaration whose bracket is not closed has the error that is found in the next one.
    """
    starts = [each.start() for each in _DECLARATION.finditer(text) if each.start() <= position] or [0]
    opened = next(syntax_errors.open_brackets(text[: starts[-1]]), None)
    start = starts[-1] if opened is None else max((at for at in starts if at <= opened[0]), default=0)
    after = _DECLARATION.search(text, max(start, position) + 1 if opened is None else start + 1)
    end = len(text) if after is None else after.start()
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


_CODE = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\bmlir\s*(\{)')
_MLIR_BRACE = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[{}]')


def blank_codes(text: str) -> tuple[str, dict[int, int]]:
    """The text with blanks for what stands in the braces of `mlir { ... }`, and where these open and close.

    Everything keeps its place. A block that is not closed is left as it is.
    """
    codes: dict[int, int] = {}
    if "mlir" not in text:
        return text, codes
    closings = _closings(text)
    pieces, position = [], 0
    while (found := _CODE.search(text, position)) is not None:
        close = closings.get(found.start(1)) if found[1] else None
        pieces.append(text[position : found.end()])
        position = found.end()
        if close is not None:
            codes[found.start(1)] = close
            pieces.append(re.sub(r"[^\n]", " ", text[position:close]))
            position = close
    return "".join([*pieces, text[position:]]), codes


def _closings(text: str) -> dict[int, int]:
    """Where each brace closes, by where it opens, in MLIR as in a spec; none for one that does not."""
    open_: list[int] = []
    found: dict[int, int] = {}
    for brace in _MLIR_BRACE.finditer(text):
        if brace[0] == "{":
            open_.append(brace.start())
        elif brace[0] == "}" and open_:
            found[open_.pop()] = brace.start()
    return found


# ---- the one parser of the process -----------------------------------------------------------------------------------

_lock = threading.Lock()
_shared: tuple[Lark, Nodes] | None = None


def _shared_parser() -> tuple[Lark, Nodes]:
    global _shared
    if _shared is None:
        builder = Nodes()
        _shared = (_load_parser(builder), builder)
    return _shared


def _load_parser(builder: Nodes) -> Lark:
    """The parser with its tables from the user's cache, which is ten times faster than making them."""
    grammar = _GRAMMAR.read_text(encoding="utf-8")

    def read(data: bytes) -> Lark:
        tables = json.loads(data, object_pairs_hook=_with_numbers)
        return cast("Lark", Lark._load_from_dict(**tables, transformer=builder))  # type: ignore[no-untyped-call]

    def write(parser: Lark) -> bytes:
        data, memo = parser.memo_serialize([TerminalDef, Rule])
        data["options"] = {name: value for name, value in data["options"].items() if name != "transformer"}
        return json.dumps({"data": data, "memo": memo}).encode()

    key = key_of(grammar, repr(_OPTIONS), lark.__version__, sys.version)
    make = functools.partial(Lark, grammar, transformer=builder, **_OPTIONS)
    return recalled("grammar", key, _LARGEST, read=read, make=make, write=write)


def _with_numbers(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """JSON has no numbers as keys; the tables have no names that look like numbers."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}

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
from opsplice.spec_lang.syntax.spec_errors import SpecError
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
    Raises SpecError, with one diagnostic, on the first syntax error.
    """
    source = Source(text, path)
    readable, codes = blank_codes(text)
    with _lock, garbage.kept():  # trees have no cycles, and scanning them as they grow doubles the time
        parser, builder = _shared_parser()
        builder.begin(source, codes)
        try:
            return cast("tree.Spec", parser.parse(readable))  # the transformer makes it, as the parser goes
        except lark.UnexpectedInput as failure:
            raise SpecError([syntax_errors.explain(failure, source)]) from None
        finally:
            builder.begin(_NO_SOURCE)


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

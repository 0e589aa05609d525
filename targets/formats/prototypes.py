"""The types of the functions that a C compiler found in a source, out of what it lists: objects do not say them.

Clang lists LLVM IR as text, of any version; gcc declarations for Go (`-fdump-go-spec`). Functions come out as LLVM
writes them, `void (ptr, i64)`. It must not know how a compiler is run.
"""

from __future__ import annotations

import re

_DEFINITION = re.compile(r'^define (?P<before>[^@\n]*)@(?P<name>"[^"]*"|[\w.$-]+)\(', re.MULTILINE)
# A struct that is passed by its address counts as what it is.
_BY_VALUE = re.compile(r"\b(?:byval|sret|byref|inalloca)\(")
_TYPE = re.compile(r"\.\.\.|%[\w.$]+|\w+|[<\[{].*[>\]}]")

_DECLARATION = re.compile(
    r'^(?:// )?func _\S+ \((?P<given>.*)\) (?P<result>[^()]*?) ?__asm__\("(?P<name>[^"]*)"\)$', re.M
)
_GO = {"": "void", "float32": "float", "float64": "double", "bool": "i1", "INVALID-float-16": "half"}
_GO |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def of_ir(text: str) -> dict[str, str]:
    """The functions that LLVM IR defines."""
    found = {}
    for match in _DEFINITION.finditer(text):
        name = match["name"].strip('"').removeprefix("\\01")
        given = ", ".join(map(_kind, parts(text, match.end())[0]))
        found[name] = f"{_kind(match['before'], last=True)} ({given})"
    return found


def of_go(text: str) -> dict[str, str]:
    """The functions that declarations for Go are of."""
    found = {}
    for match in _DECLARATION.finditer(text):
        given = ", ".join(map(_go, parts(match["given"] + ")", 0)[0]))
        found[match["name"].removeprefix("*")] = f"{_go(match['result'])} ({given})"
    return found


def _go(kind: str) -> str:
    return "ptr" if kind.startswith(("*", "func")) else _GO.get(kind, kind)


def _kind(text: str, *, last: bool = False) -> str:
    """The type among the words of a parameter, where it comes first, or of what is before a name, where it is last."""
    if _BY_VALUE.search(text):
        return "struct"
    if "*" in text:
        return "ptr"  # as versions before 15 write addresses
    found = _TYPE.findall(text)
    return found[-1 if last else 0] if found else text


def parts(text: str, start: int) -> tuple[list[str], int]:
    """What stands between commas, from a place to the bracket that closes what it is in; and where to read on."""
    found, depth, at = list[str](), 0, start
    for place in range(start, len(text)):
        letter = text[place]
        if letter in ",)" and not depth:
            found.append(text[at:place].strip())
            at = place + 1
            if letter == ")":
                return list(filter(None, found)), at
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>" and depth:
            depth -= 1
    return list(filter(None, found)), len(text)

"""C++ names as users write them, `ns::scale<float, 64>`, found among the names that compilers make of them.

Format: the Itanium C++ ABI, "Mangling". Only as much of it as the names of functions and their template arguments take.
"""

from __future__ import annotations

import re

# What C++ calls the elements of buffers, which type variables in a symbol become.
_ELEMENTS = {"f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "i64": "long", "i32": "int"}
_ELEMENTS |= {"i16": "short", "i8": "signed char", "i1": "bool"}
_TYPES = {"double": "d", "float": "f", "_Float16": "DF16_", "__bf16": "u6__bf16|DF16b", "long": "l", "int": "i"}
_TYPES |= {"short": "s", "signed char": "a", "char": "c", "bool": "b", "unsigned": "j", "unsigned int": "j"}
_TYPES |= {"unsigned long": "m", "long long": "x", "unsigned long long": "y", "unsigned short": "t"}
_TYPES |= {"unsigned char": "h", "size_t": "m", "int64_t": "l", "uint32_t": "j", "int32_t": "i", "int8_t": "a"}
_TYPES |= {"uint8_t": "h"}
_PARTS = re.compile(r"(?P<name>[^<>]+)(<(?P<arguments>.*)>)?")


def in_cpp(symbol: str) -> str:
    """A symbol with C++'s names of elements among its template arguments: `scale<f32>` is `scale<float>`."""
    name, bracket, arguments = symbol.partition("<")
    return name + bracket + re.sub(r"\w+", lambda word: _ELEMENTS.get(word[0], word[0]), arguments)


def pattern(symbol: str) -> re.Pattern[str] | None:
    """What mangled names of a function begin with; None for what is not a name of C++."""
    found = _PARTS.fullmatch(in_cpp(symbol))
    if found is None:
        return None
    scopes = "".join(f"{len(part)}{re.escape(part)}" for part in found["name"].split("::"))
    arguments = "" if found["arguments"] is None else f"I{''.join(map(_argument, found['arguments'].split(',')))}E"
    # What is not said of a template may be anything.
    arguments = arguments or "(?:I.*E)?"
    return re.compile(f"_ZN{scopes}{arguments}E" if "::" in found["name"] else f"_ZL?{scopes}{arguments}")


def _argument(written: str) -> str:
    """A template argument. Of a number the type is not known."""
    text = written.strip()
    if text in _TYPES:
        return f"(?:{_TYPES[text]})"
    if text in ("true", "false"):
        return f"Lb{int(text == 'true')}E"
    if re.fullmatch(r"-?\d+", text):
        return f"L[a-z]{text.replace('-', 'n')}E"
    return f"{len(text)}{re.escape(text)}" if re.fullmatch(r"\w+", text) else ".+"

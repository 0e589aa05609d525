"""Functions of PTX texts put where another text declares them, as a linker would do it for a driver that has none.

    .extern .func (.param .b32 r) gelu (.param .b32 x);
    => .visible .func (.param .b32 r) gelu(.param .b32 x) { ... }

Format: NVIDIA, "PTX ISA" (module directives, .func, linking directives). Texts are joined: a name that two of them
define is an error. It must not know what the functions are for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import CudaTarget
from opsplice.targets.formats import ptx
from opsplice.targets.link.function_choice import choose

_DIRECTIVE = re.compile(r"^[ \t]*\.(?:version|target|address_size)\b[^\n]*\n?", re.MULTILINE)
_VERSION = re.compile(r"^([ \t]*\.version\s+)\d+\.\d+", re.MULTILINE)
_FUNC = re.compile(
    r"(?:\.(?P<linkage>extern|visible|weak)\s++)?\.func\s*+(?:\((?P<result>[^()]*+)\)\s*+)?(?P<name>[\w$%]++)\s*+"
    r"(?:\((?P<parameters>[^()]*+)\)\s*+)?(?P<end>[;{]|\.noreturn\s*+[;{])"
)
_PARAMETER = re.compile(r"\.param\s++(?:\.align\s++\d++\s++)?\.(\w++)")
# What is defined outside of bodies, besides functions: the last word of it is its name, its extents left out.
_OTHERS = re.compile(r"\.(?:entry|global|const)\b([^;{(=]*+)")
_EXTENT = re.compile(r"\[[^\[\]]*+\]")
# What the names of CUDA's own functions begin with, which the compiler links where it makes all of the code.
_LIBDEVICE = "__nv_"


@dataclass(frozen=True)
class Library:
    """A text whose functions others may call. name: how errors call it."""

    name: str
    text: str

    def functions(self) -> dict[str, str]:
        """The types of its functions by name, as `(b32) -> b32`. Raises OpspliceError for what is not PTX."""
        self.module  # noqa: B018 - read for its errors
        return {found["name"]: _kind(found) for found in self._found if _has_body(found)}

    @cached_property
    def module(self) -> ptx.PtxModule:
        return ptx.reflect(self.text, self.name)

    @cached_property
    def plain(self) -> str:
        return ptx.without_comments(self.text, self.name)

    @cached_property
    def _found(self) -> list[re.Match[str]]:
        return list(_FUNC.finditer(self.plain))

    def defined(self) -> set[str]:
        others = (_EXTENT.sub(" ", found[1]).split()[-1:] for found in _OTHERS.finditer(self.plain))
        return set(self.functions()).union(*others)

    def declared(self, symbols: Collection[str]) -> list[re.Match[str]]:
        """The declarations of functions, in order."""
        symbols = frozenset(symbols)
        return [found for found in self._found if not _has_body(found) and found["name"] in symbols]


def imports(text: str, name: str) -> dict[str, str]:
    """The types of the functions that a text calls and nothing defines, by name. Raises OpspliceError for no PTX."""
    library = Library(name, text)
    return {found["name"]: _kind(found) for found in library.declared(library.module.externs)}


def link(text: str, name: str, libraries: Sequence[Library]) -> str:
    """A text with what it calls and lacks from libraries, of which the last one that has a function is taken.

    Raises OpspliceError for a function that no library has, or has with other types, for a library that is for newer
    GPUs, and for one that needs what nothing defines, or defines what is there already.
    """
    whole = Library(name, text)
    wanted = imports(text, name)
    used = [library for library, _ in choose(wanted, name, libraries, "a .ptx with functions, or a .ll")]
    version = whole.module.version
    known = whole.defined()
    for library in used:
        ptx.check_target(library.module, library.name, CudaTarget(whole.module.sm))
        missing = sorted(set(library.module.externs) - set(wanted))
        if missing:
            hint = "define it in the same file"
            if any(symbol.startswith(_LIBDEVICE) for symbol in missing):
                hint = "libdevice is not linked into plugins: PTX that nvcc makes (-ptx -rdc=true) has its code in it"
            raise OpspliceError(f"{library.name} calls {', '.join(missing)}, which nothing defines", hint=hint)
        if twice := sorted(known & library.defined()):
            raise OpspliceError(
                f"{library.name} defines {', '.join(twice)}, which is there already",
                hint="give functions names of their own",
            )
        known |= library.defined()
        version = max(version, library.module.version)
    return _joined(whole, used, version, list(wanted))


def _joined(whole: Library, used: Sequence[Library], version: tuple[int, int], wanted: Sequence[str]) -> str:
    text = _cut(whole.plain, whole.declared(wanted))
    bodies = "\n".join(_DIRECTIVE.sub("", _without(library, wanted)) for library in used)
    text = _VERSION.sub(lambda found: f"{found[1]}{version[0]}.{version[1]}", text, count=1)
    heads = list(_DIRECTIVE.finditer(text))
    end = heads[-1].end() if heads else 0
    return f"{text[:end]}\n{bodies}\n{text[end:]}"


def _without(library: Library, symbols: Sequence[str]) -> str:
    """A library's text without declarations of functions that come from elsewhere."""
    return _cut(library.plain, [found for found in library.declared(symbols) if found["linkage"] == "extern"])


def _cut(text: str, left_out: Sequence[re.Match[str]]) -> str:
    """A text without parts of it, which are in order."""
    starts = [0, *(found.end() for found in left_out)]
    ends = [*(found.start() for found in left_out), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _has_body(found: re.Match[str]) -> bool:
    return found["end"].endswith("{")


def _kind(found: re.Match[str]) -> str:
    """How wide the parameters and the result of a function are: `(b32, b64) -> b32`."""
    parameters, results = (
        [_width(each) for each in _PARAMETER.findall(found[n] or "")] for n in ("parameters", "result")
    )
    return f"({', '.join(parameters)}) -> {', '.join(results) or '()'}"


def _width(kind: str) -> str:
    return f"b{digits}" if (digits := kind.lstrip("bfsu")).isdigit() else kind

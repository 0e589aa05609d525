"""Reads PTX text: the entries that IREE's CUDA runtime can launch, and what they take.

Format: NVIDIA, "PTX ISA" (module directives, kernel entries, performance-tuning directives). Only what lies outside of
the bodies is read. Any text is safe to read: each pass goes over it once, and nothing is taken as given.

It must not know where a file came from, who calls its entries or how it is assembled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import CudaTarget
from opsplice.targets.formats.entries import Entry, Parameter, Threads, damaged, find, kind_of, listed

# What the driver defines when it loads a module: PTX Writer's Guide to Interoperability, "System Calls".
_SYSTEM_CALLS = frozenset({"vprintf", "malloc", "free", "__assertfail"})

# Bytes of one element: PTX ISA, "Fundamental Types", "Packed Data Types" and "Opaque types" (addresses).
_SIZES = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64", "texref", "samplerref", "surfref"), 8),
    "b128": 16,
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_POINTER_TYPES = frozenset({"u64", "s64", "b64", "b8"})

# The last minor version of each major one that is past: PTX ISA, "Release Notes". Those to come have no numbers yet.
_LAST_MINOR = {1: 5, 2: 3, 3: 2, 4: 3, 5: 0, 6: 5, 7: 8, 8: 8}
_FURTHEST = 19

# No compiler comes near it; kernels of the largest libraries are a tenth.
_LONGEST_TEXT = 1 << 26
# Above what a kernel can take (32764 bytes), so that a larger product of extents need not be computed exactly.
_LARGEST_PARAMETER = 1 << 16

# Of a workgroup, on every GPU since compute capability 2.0.
_MOST_THREADS = 1024

_damaged = partial(damaged, "damaged PTX")
_HOW_TO_DECLARE = 'it has none at all: declare the kernel extern "C" __global__ void (LLVM IR: define ptx_kernel void)'

NAME = r"(?:[A-Za-z]|[_$%](?=[\w$]))[\w$]*+"
# Strings come first, so that what looks like a comment inside one is none.
COMMENT_OR_STRING = re.compile(r'"[^"\n]*+"|//[^\n]*+|/\*(?s:.*?\*/)|(?P<open>/\*)')
_PRAGMA = re.compile(r'\.pragma[\s",]*+;')
_MARK = re.compile(
    r"[{}]|\.(?P<module>version|target|address_size)\b|(?:\.(?P<linkage>extern|visible|weak)\s++)?\.(?P<kind>entry|func)\b"
    rf"|\.extern\s++\.shared\b(?:\s++\.\w++(?:\s++\d++)?+)*+\s++(?P<dynamic>{NAME})"
)
_VERSION = re.compile(r"\s*+(\d{1,4})\.(\d{1,4})\b")
_TARGET = re.compile(r"\s*+(\w++(?:\s*+,\s*+\w++)*+)")
_SM = re.compile(r"sm_(\d{1,4})([af]?)")
_FUNCTION = re.compile(rf"\s*+(?:\.attribute\s*+\([^{{}}]*?\)\)?\s*+)?(?:\([^()]*+\)\s*+)?({NAME})")
_ENTRY = re.compile(rf"\s*+({NAME})\s*+(?:\(([^(){{}}]*+)\))?([^{{}};]*+)(?=([{{;]))")
_PARAMETER = re.compile(
    rf"\s*+\.param\b\s*+(?P<words>(?:\.\w++\s*+(?:\d++\s*+)?+)*+)(?P<name>{NAME})\s*+(?P<extents>(?:\[\s*+\d{{1,9}}\s*+\]\s*+)*+)"
)
_THREADS = re.compile(r"\.(max|req)ntid\s++(\d{1,9})(?:\s*+,\s*+(\d{1,9}))?(?:\s*+,\s*+(\d{1,9}))?")
_OTHER = re.compile(rf"(?:\.(?:visible|weak)\s++)?\.entry\s++({NAME})")
_END = re.compile(r"[{};]")


@dataclass(frozen=True)
class PtxModule:
    """What the driver sees of a module before it compiles it.

    version: of PTX, (8, 0) for `.version 8.0`.
    sm:      the compute capability that it needs, 90 for `sm_90a`.
    target:  the whole name, `sm_90a`.
    entries: those with a body, in the text's order.
    externs: functions that are called but defined neither here nor by the driver.
    dynamic_shared: whether it uses shared memory whose size is chosen at the launch (`extern __shared__`).
    """

    version: tuple[int, int]
    sm: int
    target: str
    entries: tuple[Entry, ...]
    externs: tuple[str, ...]
    dynamic_shared: bool = False


def decode(data: bytes, name: str) -> str:
    """The text of a file's bytes, up to the zeros that some tools put behind it.

    Bytes that are not UTF-8 (in names of source files) come back with `surrogateescape`.
    Raises OpspliceError for a binary file, calling it by its own name.
    """
    data = data.rstrip(b"\0")
    what = kind_of(data.strip(), "a binary file" if b"\0" in data else "")
    if what:
        raise OpspliceError(f"{name} is {what}, not PTX text", hint="nvcc -ptx makes PTX")
    return data.decode("utf-8", "surrogateescape")


def reflect(text: str, name: str) -> PtxModule:
    """What is in a module's text; one pass over it.

    name: how errors call the file. Raises OpspliceError when the text is not PTX, or cut off, or of a form that PTX
    does not have.
    """
    text = without_comments(text, name)
    version: tuple[int, int] | None = None
    target: tuple[int, str] | None = None
    entries: list[Entry] = []
    declared: Counter[str] = Counter()
    defined: set[str] = set()
    dynamic: set[str] = set()
    depth = place = 0
    while (mark := _MARK.search(text, place)) is not None:
        place = mark.end()
        if version is None and mark["module"] != "version":
            raise _not_ptx(name)
        if mark.group() in "{}":
            depth += 1 if mark.group() == "{" else -1
            if depth < 0:
                raise _damaged(name, "a brace closes what none opened")
        elif depth:
            continue
        elif mark["dynamic"]:
            dynamic.add(mark["dynamic"])
        elif mark["module"] == "version":
            if text[: mark.start()].strip():
                raise _not_ptx(name)
            version = _read_version(text, place, name)
        elif mark["module"] == "target":
            target = max(target or (0, ""), _read_target(text, place, name))
        elif mark["kind"] == "entry":
            entry, has_body, place = _read_entry(text, place, name)
            if has_body:
                entries.append(entry)
        elif mark["kind"] == "func":
            function, has_body, place = _read_function(text, place, name)
            if has_body:
                defined.add(function)
            elif mark["linkage"] == "extern":
                declared[function] += 1
    if version is None:
        raise _not_ptx(name)
    if depth:
        raise _damaged(name, "a body does not end")
    if target is None:
        raise _damaged(name, "it has no .target")
    # A file declares it for all of its entries.
    named = Counter(each for each in re.findall(NAME, text) if each in dynamic) if dynamic else Counter()
    used = any(count > 1 for count in named.values())
    return PtxModule(version, *target, tuple(entries), _unresolved(text, declared, defined), used)


def find_entry(module: PtxModule, name: str, entry: str) -> Entry:
    """The entry called `entry`. Raises OpspliceError, with what there is, when there is none."""
    return find(module.entries, name, entry, "entry", _HOW_TO_DECLARE)


def check_target(module: PtxModule, name: str, target: CudaTarget, *, built_by: str | None = None) -> None:
    """Raises OpspliceError, naming both sides, when the GPU or the driver of `target` is too old for the module.

    PTX for an older GPU runs on each newer one; `sm_90a` runs on just that GPU, `sm_100f` on later ones of its family
    too (PTX ISA, .target). built_by: what built it; None for a prebuilt file. Only advice depends on it.
    """
    asked = f"{name} is for {module.target}, but the target is sm_{target.sm}"
    if module.target.endswith("a") and module.sm != target.sm:
        raise OpspliceError(
            f"{asked}; code for {module.target} runs on just that GPU",
            hint=f"build it for sm_{min(module.sm, target.sm)}, without the 'a'",
        )
    if module.target.endswith("f") and module.sm // 10 != target.sm // 10:
        raise OpspliceError(
            f"{asked}, which is of another family",
            hint=f"build it for sm_{min(module.sm, target.sm)}, without the 'f'",
        )
    if module.sm > target.sm:
        remedy = "remove the flags that choose the GPU" if built_by else f"build it for sm_{target.sm} or older"
        raise OpspliceError(f"{asked}, which is older", hint=remedy)
    if target.ptx is not None and module.version > target.ptx:
        found, newest = (".".join(map(str, version)) for version in (module.version, target.ptx))
        if built_by:
            remedy = f"{built_by} makes no older one: install an older one, a newer driver, or use clang or a .ll file"
        else:
            remedy = "build it with an older compiler, or install a newer driver"
        raise OpspliceError(f"{name} is PTX {found}, but the driver of the target reads PTX {newest}", hint=remedy)


def check_externs(module: PtxModule, name: str) -> None:
    """Raises OpspliceError when the module calls functions that nothing defines: it would not load."""
    if module.externs:
        verb = "is" if len(module.externs) == 1 else "are"
        raise OpspliceError(
            f"{name} calls {listed(module.externs)}, which {verb} defined neither in it nor by the driver",
            hint="a kernel is linked with nothing: put all that it calls into its file (nvcc without -rdc=true; "
            "mathematics through nvcc or NVRTC, which bring it along)",
        )


def without_comments(text: str, name: str) -> str:
    """The text without comments, pragmas (which end in a semicolon anywhere) and what is inside of strings."""
    if len(text) > _LONGEST_TEXT:
        raise OpspliceError(f"{name} is too long to be read ({len(text)} characters)", hint="give one kernel per file")

    def replace(found: re.Match[str]) -> str:
        if found["open"]:
            raise _damaged(name, "a comment does not end")
        return '""' if found.group().startswith('"') else " "

    return _PRAGMA.sub(" ", COMMENT_OR_STRING.sub(replace, text))


def with_one_entry(text: str, entry: str) -> str:
    """A module without its other entries, whose functions the driver drops. text: of a module that `reflect` takes."""
    masked = text
    for unread in (COMMENT_OR_STRING, _PRAGMA):
        masked = unread.sub(lambda found: " " * len(found.group()), masked)
    kept, start = [], 0
    for begin, end in _others(masked, entry):
        kept.append(text[start:begin])
        start = end
    return "".join([*kept, text[start:]])


def _others(masked: str, entry: str) -> Iterator[tuple[int, int]]:
    """Where the other entries begin and end."""
    for found in _OTHER.finditer(masked):
        if found[1] != entry:
            yield found.start(), end_of(masked, found.end())


def end_of(masked: str, place: int) -> int:
    """Where an entry ends, or its declaration. place: behind its name. masked: the text without comments."""
    depth = 0
    for mark in _END.finditer(masked, place):
        depth += {"{": 1, "}": -1, ";": 0}[mark.group()]
        if depth == 0:
            return mark.end()
    return len(masked)


def _read_version(text: str, place: int, name: str) -> tuple[int, int]:
    found = _VERSION.match(text, place)
    if found is None:
        raise _damaged(name, "its .version is not a version")
    major, minor = int(found[1]), int(found[2])
    if not 1 <= major <= _FURTHEST or minor > _LAST_MINOR.get(major, minor):
        raise _damaged(name, f"there is no PTX {major}.{minor}")
    return major, minor


def _read_target(text: str, place: int, name: str) -> tuple[int, str]:
    """The capability, as a number and as it is written; other words of the line (`debug`) say nothing here."""
    found = _TARGET.match(text, place)
    for word in found[1].split(",") if found else ():
        if (capability := _SM.fullmatch(word.strip())) is not None:
            return int(capability[1]), word.strip()
    raise _damaged(name, "its .target names no sm_")


def _read_entry(text: str, place: int, name: str) -> tuple[Entry, bool, int]:
    """The entry after `.entry`, whether a body follows, and where to read on."""
    found = _ENTRY.match(text, place)
    if found is None:
        raise _damaged(name, "an .entry is not complete")
    symbol, listed, directives, after = found.groups()
    listed = (listed or "").strip()
    parameters = tuple(_read_parameter(item, symbol, name) for item in listed.split(",")) if listed else ()
    sizes: Threads | None = None
    if bound := _THREADS.search(directives):
        x, y, z = (int(size or 1) for size in bound.groups()[1:])
        sizes = (x, y, z)
    exact = bound is not None and bound[1] == "req"
    entry = Entry(
        symbol,
        name,
        parameters,
        threads=sizes if exact else None,
        most_threads=_MOST_THREADS if sizes is None else math.prod(sizes),
    )
    return entry, after == "{", found.end()


def _read_parameter(item: str, entry: str, name: str) -> Parameter:
    found = _PARAMETER.fullmatch(item)
    words = re.findall(r"\w+", found["words"]) if found else []
    types = [word for word in words if word in _SIZES]
    if found is None or len(types) != 1:
        shown = " ".join(item.split())[:60]
        raise _damaged(name, f"a parameter of '{entry}' cannot be read: '{shown}'")
    element = size = _SIZES[types[0]]
    for factor in (*(_VECTORS.get(word, 1) for word in words), *map(int, re.findall(r"\d+", found["extents"]))):
        size = min(size * factor, _LARGEST_PARAMETER)
    told = types[0] if size == element else f"{types[0]}[{size // element}]"
    return Parameter(told, size, size == 8 and types[0] in _POINTER_TYPES)


def _read_function(text: str, place: int, name: str) -> tuple[str, bool, int]:
    """The name of the function after `.func`, whether it has a body, and where to read on."""
    found = _FUNCTION.match(text, place)
    end = re.compile(r"[{;]").search(text, found.end()) if found else None
    if found is None or end is None:
        raise _damaged(name, "a .func is not complete")
    return found[1], end.group() == "{", end.start()


def _unresolved(text: str, declared: Counter[str], defined: Collection[str]) -> tuple[str, ...]:
    """Declared functions that occur anywhere else; the driver minds no others."""
    candidates = set(declared) - set(defined) - _SYSTEM_CALLS
    if not candidates:
        return ()
    occurrences = Counter(word.group() for word in re.finditer(NAME, text) if word.group() in candidates)
    return tuple(function for function in declared if occurrences[function] > declared[function])


def _not_ptx(name: str) -> OpspliceError:
    return OpspliceError(f"{name} is not PTX text: it does not begin with .version", hint="nvcc -ptx makes PTX")

"""Reads PTX text and says whether IREE's CUDA runtime can launch an entry of it.

Format: NVIDIA, "PTX ISA" (module directives, kernel entries, performance-tuning directives). Only what lies outside of
the bodies is read. Any text is safe to read: each pass goes over it once, and nothing is taken as given.

It must not know where a file came from, who calls its entries or how it is assembled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from opsplice.errors import OpspliceError
from opsplice.targets.artifacts.artifact import CudaTarget
from opsplice.targets.formats.entries import listed, missing

# CUDA programming guide, "Technical specifications per compute capability"; the same for all since 2.0.
MAX_THREADS = 1024
MAX_THREADS_PER_DIM = (1024, 1024, 64)

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

_FOREIGN = {
    b"\x7fELF": "a cubin or another ELF file",
    b"\x50\xed\x55\xba": "a fatbin",
    b"BC\xc0\xde": "LLVM bitcode",
}

# No compiler comes near it; kernels of the largest libraries are a tenth.
_LONGEST_TEXT = 1 << 26
# Above what a kernel can take (32764 bytes), so that a larger product of extents need not be computed exactly.
_LARGEST_PARAMETER = 1 << 16

_HOW_TO_DECLARE = 'it has none at all: declare the kernel extern "C" __global__ void (LLVM IR: define ptx_kernel void)'

_NAME = r"(?:[A-Za-z]|[_$%](?=[\w$]))[\w$]*+"
# Strings come first, so that what looks like a comment inside one is none.
_COMMENT_OR_STRING = re.compile(r'"[^"\n]*+"|//[^\n]*+|/\*(?s:.*?\*/)|(?P<open>/\*)')
_PRAGMA = re.compile(r'\.pragma[\s",]*+;')
_MARK = re.compile(
    r"[{}]|\.(?P<module>version|target|address_size)\b|(?:\.(?P<linkage>extern|visible|weak)\s++)?\.(?P<kind>entry|func)\b"
    r"|(?P<dynamic>\.extern\s++\.shared\b)"
)
_VERSION = re.compile(r"\s*+(\d{1,4})\.(\d{1,4})\b")
_TARGET = re.compile(r"\s*+(\w++(?:\s*+,\s*+\w++)*+)")
_SM = re.compile(r"sm_(\d{1,4})([af]?)")
_FUNCTION = re.compile(rf"\s*+(?:\.attribute\s*+\([^{{}}]*?\)\)?\s*+)?(?:\([^()]*+\)\s*+)?({_NAME})")
_ENTRY = re.compile(rf"\s*+({_NAME})\s*+(?:\(([^(){{}}]*+)\))?([^{{}};]*+)(?=([{{;]))")
_PARAMETER = re.compile(
    rf"\s*+\.param\b\s*+(?P<words>(?:\.\w++\s*+(?:\d++\s*+)?+)*+)(?P<name>{_NAME})\s*+(?P<extents>(?:\[\s*+\d{{1,9}}\s*+\]\s*+)*+)"
)
_THREADS = re.compile(r"\.(max|req)ntid\s++(\d{1,9})(?:\s*+,\s*+(\d{1,9}))?(?:\s*+,\s*+(\d{1,9}))?")


@dataclass(frozen=True)
class PtxParameter:
    """A parameter of an entry.

    type: PTX's name of it without the dot, such as `u64`; `b8` for a struct, which is an array of bytes.
    size: bytes of the whole, an array's elements together.
    """

    type: str
    size: int


@dataclass(frozen=True)
class PtxEntry:
    """An entry point (`__global__` function).

    max_threads: the sizes of a block in .maxntid or .reqntid; None where it has neither.
    exact:       whether they are .reqntid's: a block must have just these sizes. Those of .maxntid only bound how many
                 threads there are together.
    """

    name: str
    parameters: tuple[PtxParameter, ...]
    max_threads: tuple[int, int, int] | None
    exact: bool = False


@dataclass(frozen=True)
class PtxModule:
    """What the driver sees of a module before it compiles it.

    version: of PTX, (8, 0) for `.version 8.0`.
    sm:      the compute capability that it needs, 90 for `sm_90a`.
    target:  the whole name, `sm_90a`.
    entries: those with a body, in the text's order.
    externs: functions that are called but defined neither here nor by the driver.
    dynamic_shared: whether it has shared memory whose size is chosen at the launch (`extern __shared__`).
    """

    version: tuple[int, int]
    sm: int
    target: str
    entries: tuple[PtxEntry, ...]
    externs: tuple[str, ...]
    dynamic_shared: bool = False


def decode(data: bytes, name: str) -> str:
    """The text of a file's bytes, up to the zeros that some tools put behind it.

    Bytes that are not UTF-8 (in names of source files) come back with `surrogateescape`.
    Raises OpspliceError for a binary file, calling it by its own name.
    """
    data = data.rstrip(b"\0")
    what = next((text for magic, text in _FOREIGN.items() if data.startswith(magic)), None)
    if what is None and b"\0" in data:
        what = "a binary file"
    if what is None and not data.strip():
        what = "empty"
    if what is not None:
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
    entries: list[PtxEntry] = []
    declared: Counter[str] = Counter()
    defined: set[str] = set()
    dynamic_shared = False
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
            dynamic_shared = True
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
    return PtxModule(version, *target, tuple(entries), _unresolved(text, declared, defined), dynamic_shared)


def check(
    module: PtxModule,
    name: str,
    entry: str,
    *,
    buffers: int,
    constants: int,
    workgroup: tuple[int, int, int] | None,
) -> None:
    """Raises OpspliceError unless IREE can launch `entry`: one 64-bit pointer per buffer, then 32-bit constants.

    IREE's runtime passes what the caller has without a look at the module, so a difference would be memory read at
    random. name: how errors call the file. workgroup: threads of a block in x, y, z; None where it is not known.
    """
    found = find_entry(module, name, entry)
    check_externs(module, name)
    _check_parameters(found, name, buffers, constants)
    if workgroup is not None:
        _check_workgroup(found, name, workgroup)


def find_entry(module: PtxModule, name: str, entry: str) -> PtxEntry:
    """The entry called `entry`. Raises OpspliceError, with what there is, when there is none."""
    for candidate in module.entries:
        if candidate.name == entry:
            return candidate
    names = [candidate.name for candidate in module.entries]
    message = f"{name} has no entry '{entry}'"
    mangled = re.compile(rf"_Z\w*(?<!\d){len(entry)}{re.escape(entry)}")
    if any(mangled.match(candidate) for candidate in names):
        raise OpspliceError(message, hint=f"it has '{entry}' as C++: declare it extern \"C\"")
    raise missing(message, entry, names, none=_HOW_TO_DECLARE)


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


def _check_parameters(entry: PtxEntry, name: str, buffers: int, constants: int) -> None:
    takes = ", ".join(_in_words(parameter) for parameter in entry.parameters) or "nothing"
    count = len(entry.parameters)
    sides = (
        f"'{entry.name}' in {name} takes {_count(count, 'parameter')} ({takes}), but is passed "
        f"{_count(buffers, 'pointer')} and {_count(constants, '32-bit word')}"
    )
    if count != buffers + constants:
        raise OpspliceError(f"{sides}: {buffers + constants} in all", hint=_advice(entry.parameters[buffers:]))
    for position, parameter in enumerate(entry.parameters):
        if position < buffers:
            fits = parameter.size == 8 and parameter.type in _POINTER_TYPES
            wanted = "a 64-bit pointer"
        else:
            fits = parameter.size == 4
            wanted = "a 32-bit word"
        if not fits:
            raise OpspliceError(
                f"{sides}: parameter {position + 1} is {_in_words(parameter)}, not {wanted}",
                hint=_advice(entry.parameters[position:]),
            )


def _advice(parameters: Collection[PtxParameter]) -> str:
    """What to do about parameters of which the first, or their number, is wrong."""
    order = "pointers come first, then 32-bit words: scalars, then sizes of dims"
    if any(parameter.size == 8 and parameter.type != "b8" for parameter in parameters):
        return f"{order}; a 64-bit scalar is two words, its low one first"
    if any(parameter.size < 4 for parameter in parameters):
        return f"{order}; a scalar of 8 or 16 bits is widened to a word"
    return order


def _check_workgroup(entry: PtxEntry, name: str, workgroup: tuple[int, int, int]) -> None:
    asked = f"a workgroup of {_by(workgroup)} ({_count(math.prod(workgroup), 'thread')})"
    hint = "change the rule's workgroup, or the kernel's __launch_bounds__"
    if min(workgroup) < 1:
        raise OpspliceError(f"{asked} for '{entry.name}' in {name} has no threads", hint="each size is at least 1")
    if math.prod(workgroup) > MAX_THREADS:
        raise OpspliceError(f"{asked} for '{entry.name}' in {name} is over the {MAX_THREADS} that CUDA allows")
    if any(size > most for size, most in zip(workgroup, MAX_THREADS_PER_DIM, strict=True)):
        raise OpspliceError(
            f"{asked} for '{entry.name}' in {name} is over the {_by(MAX_THREADS_PER_DIM)} that CUDA allows per dim"
        )
    if entry.max_threads is None:
        return
    if entry.exact and workgroup != entry.max_threads:
        raise OpspliceError(
            f"'{entry.name}' in {name} requires workgroups of {_by(entry.max_threads)} (.reqntid), but it is "
            f"launched with {asked}",
            hint=hint,
        )
    most = math.prod(entry.max_threads)
    if math.prod(workgroup) > most:
        raise OpspliceError(
            f"'{entry.name}' in {name} allows {_count(most, 'thread')} at most (.maxntid {_by(entry.max_threads)}), "
            f"but it is launched with {asked}",
            hint=hint,
        )


def without_comments(text: str, name: str) -> str:
    """The text without comments, pragmas (which end in a semicolon anywhere) and what is inside of strings."""
    if len(text) > _LONGEST_TEXT:
        raise OpspliceError(f"{name} is too long to be read ({len(text)} characters)", hint="give one kernel per file")

    def replace(found: re.Match[str]) -> str:
        if found["open"]:
            raise _damaged(name, "a comment does not end")
        return '""' if found.group().startswith('"') else " "

    return _PRAGMA.sub(" ", _COMMENT_OR_STRING.sub(replace, text))


def _read_version(text: str, place: int, name: str) -> tuple[int, int]:
    found = _VERSION.match(text, place)
    if found is None:
        raise _damaged(name, "its .version is no version")
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


def _read_entry(text: str, place: int, name: str) -> tuple[PtxEntry, bool, int]:
    """The entry after `.entry`, whether a body follows, and where to read on."""
    found = _ENTRY.match(text, place)
    if found is None:
        raise _damaged(name, "an .entry is not complete")
    symbol, listed, directives, after = found.groups()
    listed = (listed or "").strip()
    parameters = tuple(_read_parameter(item, symbol, name) for item in listed.split(",")) if listed else ()
    threads = _THREADS.search(directives)
    if threads is None:
        return PtxEntry(symbol, parameters, None), after == "{", found.end()
    x, y, z = (int(size or 1) for size in threads.groups()[1:])
    return PtxEntry(symbol, parameters, (x, y, z), threads[1] == "req"), after == "{", found.end()


def _read_parameter(item: str, entry: str, name: str) -> PtxParameter:
    found = _PARAMETER.fullmatch(item)
    words = re.findall(r"\w+", found["words"]) if found else []
    types = [word for word in words if word in _SIZES]
    if found is None or len(types) != 1:
        shown = " ".join(item.split())[:60]
        raise _damaged(name, f"a parameter of '{entry}' cannot be read: '{shown}'")
    size = _SIZES[types[0]]
    for factor in (*(_VECTORS.get(word, 1) for word in words), *map(int, re.findall(r"\d+", found["extents"]))):
        size = min(size * factor, _LARGEST_PARAMETER)
    return PtxParameter(types[0], size)


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
    occurrences = Counter(word.group() for word in re.finditer(_NAME, text) if word.group() in candidates)
    return tuple(function for function in declared if occurrences[function] > declared[function])


def _in_words(parameter: PtxParameter) -> str:
    """`u64`, or `b8[16]` for more than one element."""
    count = parameter.size // _SIZES[parameter.type]
    return parameter.type if count == 1 else f"{parameter.type}[{count}]"


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _not_ptx(name: str) -> OpspliceError:
    return OpspliceError(f"{name} is not PTX text: it does not begin with .version", hint="nvcc -ptx makes PTX")


def _damaged(name: str, what: str) -> OpspliceError:
    return OpspliceError(f"{name} is damaged PTX: {what}", hint="build or copy it again")

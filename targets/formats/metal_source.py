"""Reads Metal shaders as text: the kernels that IREE's Metal runtime can launch, and what they take.

Format: Apple, "Metal Shading Language Specification": a kernel is a function with the attribute `kernel`, whose
parameters say by attributes what they are. The interface is the one of IREE's own kernels, as its compiler writes them
(IREE 3.13, `--iree-hal-dump-executable-binaries-to`): an argument buffer at `[[buffer(0)]]`, a struct with a pointer
for each binding, `[[id(0)]]`, `[[id(1)]]`, ...; the constants at `[[buffer(3)]]`, 32-bit words.

There is no compiler of Metal here to ask, so this reads what is written plainly; what hides behind macros, templates
or typedefs it leaves unchecked, and says so. It must not know where a file came from or who calls its kernels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.entries import Entry, Limits, Slot, find
from opsplice.targets.formats.prototypes import parts

BINDINGS_AT, CONSTANTS_AT = 0, 3
# IREE, runtime/src/iree/hal/drivers/metal: IREE_HAL_METAL_MAX_DESCRIPTOR_SET_BINDING_COUNT and ..._PUSH_CONSTANT_COUNT.
LIMITS = Limits(buffers=16, words=64)

_SLOT = "the buffer [[id({})]]"
_HOW = (
    f"a struct at [[buffer({BINDINGS_AT})]] has the buffers, struct Buffers {{ device float* x [[id(0)]]; ... }}, and "
    f"the parameter is constant Buffers& buffers [[buffer({BINDINGS_AT})]]; "
    f"one at [[buffer({CONSTANTS_AT})]] has the words"
)

_COMMENT = re.compile(r'//[^\n]*+|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*+"?)', re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*+#[ \t]*+include[ \t]*+"([^"\n]*+)"', re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"?')
_BRANCH = re.compile(r"^[ \t]*+#[ \t]*+(?:if|ifdef|ifndef|define)\b", re.MULTILINE)
_FUNCTION = re.compile(r"\bvoid\s++(\w++)\s*+\(")
_STRUCT = re.compile(r"\bstruct\s++(\w++)\s*+\{([^{}]*+)\}")
_ATTRIBUTES = re.compile(r"\[\[([^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+)\]\]")
_NUMBERED = re.compile(r"\b(buffer|texture|sampler|threadgroup|id)\s*+\(\s*+(\d{1,9})\s*+\)")
_MOST_THREADS = re.compile(r"\bmax_total_threads_per_threadgroup\s*+\(\s*+(\d{1,9})\s*+\)")
# Members of one or more words: `uint m, n`, `float scale[2]`.
_WORD = re.compile(r"\w++(?:\s*+\[\s*+(\d{1,9})\s*+\])?$")
_WORDS = re.compile(r"(?:const\s+)?(?:unsigned\s+int|float|u?int|u?int32_t|unsigned)\s++(?=\w)")
# The attributes and words before a function's name.
_LONGEST_HEAD = 400


def reflect(text: str, name: str) -> tuple[Entry, ...]:
    """The kernels of a file.

    Raises OpspliceError for one that includes another, as the text is compiled when it is loaded, and for one in which
    brackets are not closed.
    """
    text = _COMMENT.sub(lambda found: found[1] or " ", text)
    bare = _STRING.sub("", text)
    # Branches of the preprocessor may have a bracket each.
    if not _BRANCH.search(bare) and (open_ := next((a for a, b in ("{}", "()") if bare.count(a) > bare.count(b)), "")):
        raise OpspliceError(f"{name} is cut off: a '{open_}' is not closed", hint="copy it again")
    if included := _INCLUDE.search(text):
        raise OpspliceError(
            f'{name} includes "{included[1]}", which is not there when the program is loaded',
            hint="Metal compiles the text then: put all that it needs into this file",
        )
    structs = dict(_STRUCT.findall(text))
    entries, place = [], 0
    while (found := _FUNCTION.search(text, place)) is not None:
        before, place = _before(text, found.start()), found.end()
        if re.search(r"\bkernel\b", before):
            parameters, place = parts(text, place)
            entries.append(_entry(found[1], parameters, before, structs, name))
    return tuple(entries)


def find_entry(entries: Sequence[Entry], name: str, entry: str) -> Entry:
    """The kernel called `entry`. Raises OpspliceError, with what there is, when there is none."""
    return find(entries, name, entry, "kernel", f"it has none; one begins: kernel void {entry}(")


def unchecked(entry: Entry) -> tuple[str, ...]:
    """What could not be read of a kernel, for the user's eyes."""
    notes = []
    if not entry.refusals and entry.buffers is None:
        notes.append(f"the argument buffer of '{entry.name}' was not found, and not checked")
    if entry.words is None:
        notes.append(f"the words that '{entry.name}' takes were not counted")
    return tuple(notes)


# ---- reading -------------------------------------------------------------------------------------------------------


def _before(text: str, start: int) -> str:
    """What stands before a declaration and belongs to it."""
    first = max(0, start - _LONGEST_HEAD)
    return text[max(first, *(text.rfind(end, first, start) + 1 for end in ";}")) : start]


def _entry(symbol: str, declared_as: list[str], before: str, structs: dict[str, str], name: str) -> Entry:
    parameters = [(_ATTRIBUTES.sub(" ", each).strip(), _numbered(each)) for each in declared_as]
    at = {numbers["buffer"]: declared for declared, numbers in parameters if "buffer" in numbers}
    known = {("buffer", BINDINGS_AT), ("buffer", CONSTANTS_AT)}
    others = [f"{kind}({n})" for _, numbers in parameters for kind, n in numbers.items() if (kind, n) not in known]
    limit = _MOST_THREADS.search(before)
    bindings = structs.get(_struct_of(at.get(BINDINGS_AT, "")))
    refusals = [(f"takes [[{each}]], and IREE's runtime gives it nothing there", _HOW) for each in others]
    if _is_plain(at.get(BINDINGS_AT, "")):
        place = f"[[buffer({BINDINGS_AT})]]"
        refusals.insert(0, (f"takes a plain pointer at {place}, where IREE passes all buffers in one struct", _HOW))
    if BINDINGS_AT not in at:
        refusals.append(("has no argument buffer, and so no result", _HOW))
    return Entry(
        symbol,
        name,
        buffers=None if bindings is None else _pointers(bindings),
        words=_count(at.get(CONSTANTS_AT), structs),
        most_threads=int(limit[1]) if limit else None,
        refusals=tuple(refusals),
        slot=_SLOT,
        how=_HOW,
    )


def _numbered(parameter: str) -> dict[str, int]:
    """The attributes with a number: `[[buffer(0)]]`."""
    inside = " ".join(_ATTRIBUTES.findall(parameter))
    return {kind: int(number) for kind, number in _NUMBERED.findall(inside)}


def _struct_of(declared: str) -> str:
    """The type that a parameter refers or points to: `Buffers` of `constant Buffers& buffers`."""
    found = re.search(r"\b(\w++)\s*+(?:const\s*+)?[&*]", declared)
    return found[1] if found else ""


def _is_plain(declared: str) -> bool:
    return (
        re.search(r"\b(?:float|half|bfloat|u?int|u?char|u?short|u?long|bool|void|u?int\d+_t)\d?\s*\*", declared)
        is not None
    )


def _pointers(members: str) -> dict[int, Slot]:
    """For each pointer in an argument buffer's struct, by its number, whether what it points to can be written to."""
    found: dict[int, Slot] = {}
    following = 0
    for member in members.split(";"):
        if not member.strip():
            continue
        number = _numbered(member).get("id", following)
        declared = _ATTRIBUTES.sub(" ", member).partition("*")[0]
        is_read = re.search(r"\b(?:const|constant)\b", declared) is not None
        found[number] = Slot(_SLOT.format(number), "reads" if is_read else "may write")
        following = number + 1
    return found


def _count(declared: str | None, structs: dict[str, str]) -> int | None:
    """How many words a parameter for constants takes; 0 where there is none, None where its type was not found."""
    if declared is None:
        return 0
    members = structs.get(_struct_of(declared))
    if members is None:
        # A pointer to words may be used for any number of them.
        return None
    words = 0
    for member in filter(None, map(str.strip, members.split(";"))):
        declared = _ATTRIBUTES.sub(" ", member).strip()
        kind = _WORDS.match(declared)
        names = [_WORD.match(name.strip()) for name in declared[kind.end() :].split(",")] if kind else [None]
        for name in names:
            if name is None:
                return None
            words += int(name[1] or 1)
    return words

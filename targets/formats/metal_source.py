"""Reads Metal shaders as text and says whether IREE's Metal runtime can launch a kernel of one.

Format: Apple, "Metal Shading Language Specification": a kernel is a function with the attribute `kernel`, whose
parameters say by attributes what they are. The interface is the one of IREE's own kernels, as its compiler writes them
(IREE 3.13, `--iree-hal-dump-executable-binaries-to`): an argument buffer at `[[buffer(0)]]`, a struct with a pointer
for each binding, `[[id(0)]]`, `[[id(1)]]`, ...; the constants at `[[buffer(3)]]`, 32-bit words.

There is no compiler of Metal here to ask, so this reads what is written plainly; what hides behind macros, templates
or typedefs it leaves unchecked, and says so. It must not know where a file came from or who calls its kernels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from opsplice.errors import OpspliceError
from opsplice.targets.formats.entries import missing

BINDINGS_AT, CONSTANTS_AT = 0, 3
# IREE, runtime/src/iree/hal/drivers/metal: IREE_HAL_METAL_MAX_DESCRIPTOR_SET_BINDING_COUNT and ..._PUSH_CONSTANT_COUNT.
MOST_BUFFERS, MOST_CONSTANTS = 16, 64

_COMMENT = re.compile(r'//[^\n]*+|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*+"?)', re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*+#[ \t]*+include[ \t]*+"([^"\n]*+)"', re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"?')
_BRANCH = re.compile(r"^[ \t]*+#[ \t]*+(?:if|ifdef|ifndef|define)\b", re.MULTILINE)
_FUNCTION = re.compile(r"\bvoid\s++(\w++)\s*+\(")
_STRUCT = re.compile(r"\bstruct\s++(\w++)\s*+\{([^{}]*+)\}")
_ATTRIBUTES = re.compile(r"\[\[([^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+)\]\]")
_NUMBERED = re.compile(r"\b(buffer|texture|sampler|threadgroup|id)\s*+\(\s*+(\d{1,9})\s*+\)")
_MOST_THREADS = re.compile(r"\bmax_total_threads_per_threadgroup\s*+\(\s*+(\d{1,9})\s*+\)")
# A member of one or more words: `uint n`, `float scale[2]`.
_WORDS = re.compile(
    r"(?:const\s+)?(?:unsigned\s+int|float|u?int|u?int32_t|unsigned)\s++\w++(?:\s*+\[\s*+(\d{1,9})\s*+\])?$"
)
# The attributes and words before a function's name.
_LONGEST_HEAD = 400


@dataclass(frozen=True)
class MetalEntry:
    """A kernel.

    buffers:     for each number of a binding in the argument buffer whether the kernel can write to it; None where the
                 struct was not found.
    takes_buffers: whether it has an argument buffer.
    constants:   how many words it takes; None where that was not found.
    others:      attributes of parameters that the runtime gives nothing for, such as `texture(0)`.
    plain:       whether what stands at the argument buffer's place is a plain pointer.
    max_threads: how many threads a threadgroup can have at most; None where it does not say.
    """

    name: str
    buffers: dict[int, bool] | None
    takes_buffers: bool
    constants: int | None
    others: tuple[str, ...]
    plain: bool
    max_threads: int | None


@dataclass(frozen=True)
class MetalModule:
    """A file of Metal shaders."""

    entries: tuple[MetalEntry, ...]


def reflect(text: str, name: str) -> MetalModule:
    """What a file says.

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
            parameters, place = _parameters(text, place)
            entries.append(_entry(found[1], parameters, before, structs))
    return MetalModule(tuple(entries))


def find_entry(module: MetalModule, name: str, entry: str) -> MetalEntry:
    """The kernel called `entry`. Raises OpspliceError, with what there is, when there is none."""
    for candidate in module.entries:
        if candidate.name == entry:
            return candidate
    names = [candidate.name for candidate in module.entries]
    how = f"it has none; one begins: kernel void {entry}("
    raise missing(f"{name} has no kernel '{entry}'", entry, names, none=how)


def check(
    module: MetalModule,
    name: str,
    entry: str,
    *,
    buffers: Sequence[bool],
    constants: int,
    workgroup: tuple[int, int, int],
) -> None:
    """Raises OpspliceError unless IREE can launch `entry` as the kernel's signature says.

    name: how errors call the file. buffers: for each binding whether the kernel writes it. workgroup: threads in x, y
    and z.
    """
    fewer_words = "put scalars into a buffer, or give dims as numbers in the signature"
    fewer_buffers = "pass fewer tensors, such as several joined into one, or split the kernel"
    for count, most, things, hint in (
        (len(buffers), MOST_BUFFERS, "buffers", fewer_buffers),
        (constants, MOST_CONSTANTS, "32-bit words", fewer_words),
    ):
        if count > most:
            raise OpspliceError(
                f"'{entry}' would be passed {count} {things}, and IREE's Metal runtime takes {most}", hint=hint
            )
    found = find_entry(module, name, entry)
    what = f"'{entry}' in {name}"
    if found.plain:
        raise OpspliceError(
            f"{what} takes a plain pointer at [[buffer({BINDINGS_AT})]], where IREE passes all buffers in one struct",
            hint=_how(buffers),
        )
    if found.others:
        raise OpspliceError(
            f"{what} takes [[{found.others[0]}]], and IREE's runtime gives it nothing there",
            hint=f"a struct at [[buffer({BINDINGS_AT})]] has the buffers, one at [[buffer({CONSTANTS_AT})]] the words",
        )
    if not found.takes_buffers:
        raise OpspliceError(f"{what} has no argument buffer, and so no result", hint=_how(buffers))
    if found.buffers is not None:
        _check_buffers(found.buffers, what, buffers)
    if found.constants is not None and found.constants > constants:
        raise OpspliceError(
            f"{what} takes {found.constants} 32-bit words, but is passed {constants}",
            hint="they are the scalars (one of 64 bits is two words), then the sizes of dims",
        )
    threads = math.prod(workgroup)
    if min(workgroup) < 1 or (found.max_threads is not None and threads > found.max_threads):
        raise OpspliceError(
            f"{what} allows 1 to {found.max_threads or 'the most'} threads, but it is launched with {threads}",
            hint="change the rule's workgroup, or max_total_threads_per_threadgroup",
        )


def unchecked(entry: MetalEntry) -> tuple[str, ...]:
    """What could not be read of a kernel, for the user's eyes."""
    notes = []
    if entry.takes_buffers and not entry.plain and entry.buffers is None:
        notes.append(f"the argument buffer of '{entry.name}' was not found, and not checked")
    if entry.constants is None:
        notes.append(f"the words that '{entry.name}' takes were not counted")
    return tuple(notes)


def _check_buffers(found: dict[int, bool], what: str, buffers: Sequence[bool]) -> None:
    if found and max(found) >= len(buffers):
        raise OpspliceError(
            f"{what} has a buffer [[id({max(found)})]], but is passed {len(buffers)}", hint=_how(buffers)
        )
    for number, is_written in enumerate(buffers):
        if is_written and number not in found:
            raise OpspliceError(f"{what} has no buffer [[id({number})]], which is a result", hint=_how(buffers))
        if is_written and not found[number]:
            raise OpspliceError(
                f"{what} only reads the buffer [[id({number})]], which is a result", hint="declare it without const"
            )


def _how(buffers: Sequence[bool]) -> str:
    fields = (f"device {'' if w else 'const '}float* b{n} [[id({n})]];" for n, w in enumerate(buffers))
    return f"struct Buffers {{ {' '.join(fields)} }}; and the parameter: constant Buffers& buffers [[buffer(0)]]"


# ---- reading -------------------------------------------------------------------------------------------------------


def _before(text: str, start: int) -> str:
    """What stands before a declaration and belongs to it."""
    first = max(0, start - _LONGEST_HEAD)
    return text[max(first, *(text.rfind(end, first, start) + 1 for end in ";}")) : start]


def _entry(name: str, declared_as: list[str], before: str, structs: dict[str, str]) -> MetalEntry:
    parameters = [(_ATTRIBUTES.sub(" ", each).strip(), _numbered(each)) for each in declared_as]
    at = {numbers["buffer"]: declared for declared, numbers in parameters if "buffer" in numbers}
    known = {("buffer", BINDINGS_AT), ("buffer", CONSTANTS_AT)}
    others = [f"{kind}({n})" for _, numbers in parameters for kind, n in numbers.items() if (kind, n) not in known]
    limit = _MOST_THREADS.search(before)
    bindings = structs.get(_struct_of(at.get(BINDINGS_AT, "")))
    return MetalEntry(
        name=name,
        buffers=None if bindings is None else _pointers(bindings),
        takes_buffers=BINDINGS_AT in at,
        constants=_count(at.get(CONSTANTS_AT), structs),
        others=tuple(others),
        plain=_is_plain(at.get(BINDINGS_AT, "")),
        max_threads=int(limit[1]) if limit else None,
    )


def _parameters(text: str, start: int) -> tuple[list[str], int]:
    """What stands between a parenthesis, which `start` is behind, and the one that closes it, split at commas.

    And where that ends.
    """
    found, depth, begin = [], 0, start
    for at in range(start, len(text)):
        if text[at] in "([<{":
            depth += 1
        elif text[at] in ")]>}" and depth:
            depth -= 1
        elif text[at] == ")" or (text[at] == "," and not depth):
            found.append(text[begin:at])
            begin = at + 1
            if text[at] == ")":
                return found, begin
    return found, len(text)


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


def _pointers(members: str) -> dict[int, bool]:
    """For each pointer in an argument buffer's struct, by its number, whether what it points to can be written to."""
    found: dict[int, bool] = {}
    following = 0
    for member in members.split(";"):
        if not member.strip():
            continue
        number = _numbered(member).get("id", following)
        declared = _ATTRIBUTES.sub(" ", member).partition("*")[0]
        found[number] = re.search(r"\b(?:const|constant)\b", declared) is None
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
        found = _WORDS.match(_ATTRIBUTES.sub(" ", member).strip())
        if found is None:
            return None
        words += int(found[1] or 1)
    return words

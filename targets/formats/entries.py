"""What a file says of a dispatch, whatever its format, and whether a call is what that takes.

A reader of a format makes an `Entry` of what it finds. `check` compares it with a `Launch`: IREE's runtime passes what
the caller has without a look at the file, so a difference would be memory read at random.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.mangled import pattern

Threads = tuple[int, int, int]
Access = Literal["reads", "may write", "writes"]

_LISTED = 8
_ORDER = (
    "pointers come first, then 32-bit words: scalars, then sizes of dims (a clause for cuda may say otherwise: takes)"
)


@dataclass(frozen=True)
class Launch:
    """How a program calls a whole dispatch.

    kernel: its name, for errors. buffers: for each whether the kernel writes it. words: for each word of 32 bits what
    it is of, and the element type. workgroup: how many threads the kernel says that a workgroup has. shared: the bytes
    that a workgroup is given to share.
    """

    kernel: str
    buffers: tuple[bool, ...]
    words: tuple[tuple[str, str], ...]
    workgroup: Threads | None
    shared: int = 0


@dataclass(frozen=True)
class Limits:
    """What a runtime takes at most, whatever the device: buffers, words, and threads of a workgroup in each dim."""

    buffers: int | None = None
    words: int | None = None
    threads: Threads | None = None


@dataclass(frozen=True)
class Parameter:
    """What an entry takes at a place. told: in the words of its file. is_pointer: whether it can hold an address."""

    told: str
    size: int
    is_pointer: bool

    def fits(self, is_buffer: bool) -> bool:
        """Whether it takes a pointer, or a word of 32 bits."""
        return self.is_pointer if is_buffer else self.size == 4

    @property
    def advice(self) -> str:
        """What to do where it is not what is passed."""
        if self.size == 8 and not self.told.startswith("b8"):
            return f"{_ORDER}; a 64-bit scalar is two words, its low one first"
        return f"{_ORDER}; a scalar of 8 or 16 bits is widened to a word" if self.size < 4 else _ORDER


@dataclass(frozen=True)
class Slot:
    """A buffer that an entry knows by a number. told: in the words of its file."""

    told: str
    access: Access


@dataclass(frozen=True)
class Entry:
    """A dispatch that a file holds.

    file: how errors call what holds it. A format passes buffers and words either in the order of `parameters`, or
    `buffers` by numbers and `words` of its own; None where that could not be read. floats: the numbers of the words
    that it takes as floats. threads: what a workgroup must have; most_threads: together, at most. shared: bytes that a
    workgroup shares; is_given: whether it shares what a launch gives it besides, None where it does
    not say. refusals: why nothing can call it, each with what to do. slot: what its format calls a buffer of a
    number; how: what it expects, as advice.
    """

    name: str
    file: str
    parameters: tuple[Parameter, ...] | None = None
    buffers: Mapping[int, Slot] | None = None
    words: int | None = None
    floats: frozenset[int] = frozenset()
    threads: Threads | None = None
    most_threads: int | None = None
    shared: int = 0
    is_given: bool | None = None
    refusals: tuple[tuple[str, str], ...] = ()
    slot: str = "binding {}"
    how: str = "bindings number the kernel's buffer parameters, then its results, from 0 on"

    @property
    def told(self) -> str:
        """How errors call it."""
        return f"entry '{self.name}' of {self.file}"


def check(launch: Launch, entry: Entry, limits: Limits) -> Threads:
    """How many threads a workgroup has. Raises OpspliceError unless the entry can be called so."""
    _check_limits(launch, limits)
    if entry.is_given is not None and entry.is_given != bool(launch.shared):
        message = "shares memory whose size is chosen at the launch, and the clause says none"
        unused = f"shares no memory of the launch, and the clause gives it {launch.shared} bytes"
        how = "write how many bytes behind the file, such as shared 16384, or a size into the source"
        hint = how if entry.is_given else "leave out `shared`, or declare the memory as extern __shared__ in the source"
        raise OpspliceError(f"{entry.told} {message if entry.is_given else unused}", hint=hint)
    for message, hint in entry.refusals:
        raise OpspliceError(f"{entry.told} {message}", hint=hint)
    floats = entry.floats
    if entry.parameters is not None:
        _check_parameters(launch, entry.told, entry.parameters)
        words = entry.parameters[len(launch.buffers) :]
        floats = frozenset(number for number, each in enumerate(words) if each.told == "f32")
    if entry.buffers is not None:
        _check_buffers(launch.buffers, entry, entry.buffers)
    if entry.words is not None and entry.words > len(launch.words):
        raise OpspliceError(
            f"{entry.told} takes {_count(entry.words, '32-bit word')}, but is passed {len(launch.words)}",
            hint="they are the scalars (one of 64 bits is two words), then the sizes of dims",
        )
    _check_floats(launch.words, entry.told, floats)
    return _threads(launch, entry, limits)


def _check_limits(launch: Launch, limits: Limits) -> None:
    fewer_words = "put scalars into a buffer, or give dims as numbers in the signature"
    fewer_buffers = "pass fewer tensors, such as several joined into one, or split the kernel"
    for count, most, what, hint in (
        (len(launch.buffers), limits.buffers, "buffer", fewer_buffers),
        (len(launch.words), limits.words, "32-bit word", fewer_words),
    ):
        if most is not None and count > most:
            told = f"kernel {launch.kernel} is passed {_count(count, what)}, and such devices take {most}"
            raise OpspliceError(told, hint=hint)


def _check_parameters(launch: Launch, told: str, parameters: Sequence[Parameter]) -> None:
    buffers, words = len(launch.buffers), len(launch.words)
    takes = ", ".join(parameter.told for parameter in parameters) or "nothing"
    sides = (
        f"{told} takes {_count(len(parameters), 'parameter')} ({takes}), but is passed "
        f"{_count(buffers, 'pointer')} and {_count(words, '32-bit word')}"
    )
    wrong = [n for n, each in enumerate(parameters) if not each.fits(n < buffers)]
    hint = parameters[wrong[0]].advice if wrong else _ORDER
    if len(parameters) != buffers + words:
        raise OpspliceError(f"{sides}: {buffers + words} in all", hint=hint)
    if wrong:
        wanted = "a 64-bit pointer" if wrong[0] < buffers else "a 32-bit word"
        raise OpspliceError(
            f"{sides}: parameter {wrong[0] + 1} is {parameters[wrong[0]].told}, not {wanted}", hint=hint
        )


def _check_buffers(passed: Sequence[bool], entry: Entry, buffers: Mapping[int, Slot]) -> None:
    """A buffer that is only read may be absent: compilers of shaders drop what is not used."""
    for number, slot in sorted(buffers.items()):
        if number >= len(passed):
            raise OpspliceError(
                f"{entry.told} uses {slot.told}, but is passed {_count(len(passed), 'buffer')}", hint=entry.how
            )
        if slot.access == "writes" and not passed[number]:
            raise OpspliceError(
                f"{entry.told} writes {slot.told}, which the kernel's signature only reads",
                hint="write a result's buffer, or make this parameter one that the kernel writes in place",
            )
    for number in (number for number, is_written in enumerate(passed) if is_written):
        if number not in buffers:
            used = ", ".join(map(str, sorted(buffers))) or "none"
            raise OpspliceError(
                f"{entry.told} does not use {entry.slot.format(number)}, which is a result (it uses {used})",
                hint=entry.how,
            )
        if buffers[number].access == "reads":
            raise OpspliceError(
                f"{entry.told} only reads {buffers[number].told}, which is a result",
                hint="store the result there, and declare it without `const` or `readonly`",
            )


def _check_floats(words: Sequence[tuple[str, str]], told: str, floats: Collection[int]) -> None:
    """Raises OpspliceError for a word that code takes as a float and is none. Floats may be taken as their bits."""
    for number in sorted(floats):
        if number < len(words) and words[number][1] != "f32":
            name, element = words[number]
            listed = ", ".join(f"{n} ({e})" for n, e in words)
            raise OpspliceError(
                f"{told} takes a float where {name} is passed, which is {element}",
                hint=f"the words are, in order: {listed}",
            )


def _threads(launch: Launch, entry: Entry, limits: Limits) -> Threads:
    found = launch.workgroup or entry.threads
    if found is None:
        raise OpspliceError(
            f"nothing says how many threads a workgroup of kernel {launch.kernel} has",
            hint="write it into the kernel, such as `workgroup (128)`: IREE's runtime would launch it with none",
        )
    if entry.threads not in (None, found):
        assert entry.threads is not None, "it is another"
        raise OpspliceError(
            f"{entry.told} has workgroups of {by(entry.threads)}, but kernel {launch.kernel} says {by(found)}",
            hint="make them the same: the kernel's count of workgroups depends on it",
        )
    count, most = math.prod(found), entry.most_threads
    if min(found) < 1 or (most is not None and count > most):
        raise OpspliceError(
            f"{entry.told} takes workgroups of 1 to {most or 'some'} threads, but is launched with {by(found)}",
            hint="change the kernel's workgroup, or the bound in its code (__launch_bounds__)",
        )
    if limits.threads is not None and any(map(int.__gt__, found, limits.threads)):
        raise OpspliceError(f"a workgroup of {by(found)} is over the {by(limits.threads)} that such devices allow")
    return found


def by(sizes: Sequence[int]) -> str:
    """Sizes as `16x16x1`."""
    return "x".join(map(str, sizes))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# ---- names -----------------------------------------------------------------------------------------------------------


def find(entries: Sequence[Entry], file: str, name: str, what: str, none: str) -> Entry:
    """The entry of a name, or of the one function of C++ that is called so.

    what: the format's word for an entry. none: what to do where there is none.

    Raises OpspliceError, with what there is.
    """
    mangled = pattern(name)
    found = [entry for entry in entries if entry.name == name]
    found = found or [entry for entry in entries if mangled is not None and mangled.match(entry.name)]
    if len(found) > 1:
        hint = f'name its template arguments, such as {name}<float>, or declare it extern "C"'
        raise OpspliceError(
            f"{file} has several of {what} '{name}': {listed([each.name for each in found])}", hint=hint
        )
    if not found:
        raise missing(f"{file} has no {what} '{name}'", name, [entry.name for entry in entries], none=none)
    return found[0]


def listed(names: Collection[str]) -> str:
    """Some names, and whether there are more."""
    shown = [f"'{name}'" for name in list(names)[:_LISTED]]
    return ", ".join(shown) + (", ..." if len(names) > _LISTED else "")


def missing(message: str, wanted: str, names: Collection[str], *, none: str = "it has none") -> OpspliceError:
    """The error for a name that a file lacks, with those that it has. none: what to do where it has no entries."""
    if not names:
        return OpspliceError(message, hint=none)
    nearest = difflib.get_close_matches(wanted, list(names)[:1000], n=1)
    found = f"it has {listed(names)}"
    return OpspliceError(message, hint=f"did you mean '{nearest[0]}'? {found}" if nearest else found)


# What files begin with that are not what is wanted.
_KINDS = {
    b"\x7fELF": "an ELF file, such as an object or a cubin",
    b"BC\xc0\xde": "LLVM bitcode, whose names end in .bc",
    b"\xde\xc0\x17\x0b": "LLVM bitcode, whose names end in .bc",
    b"!<arch>\n": "an archive of objects, not one object",
    b"\xcf\xfa\xed\xfe": "a Mach-O file",
    b"MZ": "a Windows program",
    b"\x64\x86": "a COFF object",
    b"\x50\xed\x55\xba": "a fatbin",
    b"; SPIR-V": "SPIR-V assembly, not the binary",
    b"#version": "GLSL source",
    b"DXBC": "a Direct3D shader",
}


def kind_of(data: bytes, other: str) -> str:
    """What a file of a wrong kind is, by what it begins with. other: what to say of one that begins as none known."""
    return next((text for magic, text in _KINDS.items() if data.startswith(magic)), other) if data else "empty"


def damaged(kind: str, file: str, what: str) -> OpspliceError:
    """The error for a file that is not whole. kind: what it is, in words."""
    return OpspliceError(f"{file} is {kind}: {what}", hint="build or copy it again")

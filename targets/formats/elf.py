"""Reads ELF64 objects and says whether IREE's linker will take them; and what linked libraries export.

Format: System V gABI (ELF-64 object file format), x86-64 / AArch64 / RISC-V psABI for relocation numbers. Any bytes are
safe to read: every offset and count is checked against the file's size before it is used.

It must not know where a file came from or where it goes.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import Form
from opsplice.targets.formats.entries import damaged, kind_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What IREE 3.13 links beside a dispatch. Bitcode joins the module before its own small runtime library is linked in;
# an object comes after that, so it gets nothing. Found by linking one function after the other, on all architectures.
# Not among these is its `__truncdfhf2`: it rounds twice, and makes 0 of halves below 2^-14.
LINKED_INTO_BITCODE = _words(
    """
    ceilf exp expf floor floorf fma fmaf fmodf frexpf ldexpf log memcpy memmove memset powf rintf round roundf scalbnf
    __extendhfdf2 __extendhfsf2 __gnu_f2h_ieee __gnu_h2f_ieee __truncsfhf2
    """
)

# C's functions of f64; those of f32 have an `f` behind, those of long doubles an `l`.
MATHEMATICS = _words(
    """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nearbyint
    nextafter pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc
    """
)

# The linker defines it itself.
_LINKER_DEFINED = frozenset({"_GLOBAL_OFFSET_TABLE_"})

# Relocations that hold an absolute address, which position-independent code must not have in read-only sections.
# Each is refused by the linker with "recompile with -fPIC".
_ABSOLUTE_RELOCATIONS: dict[archs.Arch, frozenset[int]] = {
    "x86_64": frozenset({1, 10, 11, 12, 14}),  # R_X86_64_64, _32, _32S, _16, _8
    "aarch64": frozenset({257, 258, 259, *range(263, 273)}),  # R_AARCH64_ABS64/32/16, MOVW_UABS_*, MOVW_SABS_*
    "riscv64": frozenset({1, 2, 26, 27, 28}),  # R_RISCV_32, _64, _HI20, _LO12_I, _LO12_S
}

_damaged = partial(damaged, "a damaged ELF object")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_ET_REL, _ET_DYN = 1, 3
_SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_NOTE, _SHT_DYNSYM = 2, 3, 4, 7, 11
_SHT_INIT_ARRAY, _SHT_PREINIT_ARRAY = 14, 16
_SHF_WRITE, _SHF_ALLOC, _SHF_TLS = 0x1, 0x2, 0x400
_SHN_UNDEF = 0
_STB_LOCAL, _STB_WEAK = 0, 2
_STT_NOTYPE, _STT_OBJECT, _STT_FUNC, _STT_SECTION, _STT_FILE, _STT_TLS, _STT_GNU_IFUNC = 0, 1, 2, 3, 4, 6, 10

# Sections of pointers to what runs at loading, where their kind does not say it.
_CONSTRUCTORS = (b".ctors", b".init_array", b".preinit_array")

# No compiler writes longer names; the bounds keep a hostile file from costing more than its size.
_LONGEST_NAME = 1 << 12
_LONGEST_NAMES_TOGETHER = 1 << 26
# As much of a section's name as is ever looked at.
_LONGEST_LABEL = 16


@dataclass(frozen=True)
class ObjectFile:
    """What a linker would see of an object or a bitcode module.

    arch:      None when the file does not say, or says one that IREE's CPU backend does not have.
    machine:   e_machine of an ELF header; None for bitcode.
    functions: global functions (and untyped labels) defined here, hidden ones included.
    data:      global variables defined here.
    local:     names defined here that no other file can see (`static` in C).
    weak:      those of an object's functions and data that may give way to other files' of the same name.
    undefined: names that other files have to define; weak ones, which may stay open, are left out.
    tls:       whether there are thread-local variables.
    constructors: whether functions are to run when it is loaded, as they do that set variables of C++.
    ifuncs:    whether functions are chosen when it is loaded (`ifunc`, `target_clones`).
    absolute:  whether read-only sections hold absolute addresses (code built without -fPIC).
    """

    arch: archs.Arch | None
    machine: int | None
    functions: frozenset[str]
    data: frozenset[str]
    local: frozenset[str]
    undefined: frozenset[str]
    tls: bool
    constructors: bool
    ifuncs: bool
    absolute: bool
    weak: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Library:
    """What a loader would see of a linked library.

    arch:    None for a machine that IREE's CPU backend does not have.
    machine: e_machine of the ELF header.
    exports: the functions that others can find in it, C++ names as they are; None if it was stripped of its sections.
    imports: what it wants of other libraries, weak names too.
    constructors: whether functions are to run when it is loaded.
    """

    arch: archs.Arch | None
    machine: int
    exports: frozenset[str] | None
    imports: frozenset[str] = frozenset()
    constructors: bool = False


@dataclass(frozen=True)
class _Section:
    name: bytes
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int


def read_object(data: bytes, name: str) -> ObjectFile:
    """Reads the bytes of an ELF64 little-endian relocatable object.

    name: how errors call the file. Raises OpspliceError for anything else than such an object, or a damaged one.
    """
    machine, sections = _read_layout(data, name)
    found = archs.of_elf_machine(machine)
    symbols = list(_symbols(data, sections, name))
    named = [each for each in symbols if each[0] and each[2] not in (_STT_SECTION, _STT_FILE)]
    others = [each for each in named if each[1] != _STB_LOCAL]
    defined = [each for each in others if each[3] != _SHN_UNDEF]
    undefined = {symbol for symbol, binding, _, at in others if at == _SHN_UNDEF and binding != _STB_WEAK}
    tls = any(section.flags & _SHF_TLS for section in sections) or any(kind == _STT_TLS for _, _, kind, _ in symbols)
    return ObjectFile(
        arch=found,
        machine=machine,
        functions=frozenset(symbol for symbol, _, kind, _ in defined if kind != _STT_OBJECT),
        data=frozenset(symbol for symbol, _, kind, _ in defined if kind == _STT_OBJECT),
        local=frozenset(symbol for symbol, binding, _, _ in named if binding == _STB_LOCAL),
        undefined=frozenset(undefined - _LINKER_DEFINED),
        tls=tls,
        constructors=any(map(_has_constructors, sections)),
        ifuncs=any(kind == _STT_GNU_IFUNC for _, _, kind, _ in symbols),
        absolute=found is not None and _has_absolute(data, sections, _ABSOLUTE_RELOCATIONS[found], name),
        weak=frozenset(symbol for symbol, binding, _, _ in defined if binding == _STB_WEAK),
    )


def read_notes(data: bytes, name: str, needed: str) -> tuple[int, tuple[bytes, ...]]:
    """e_machine of an ELF64 shared library, and the contents of its sections of notes.

    name: how errors call the file; needed: what they say to do for another. Raises OpspliceError for anything else than
    such a library, or a damaged one.
    """
    machine, sections = _read_layout(data, name, _ET_DYN, needed)
    notes = [section for section in sections if section.kind == _SHT_NOTE]
    if sum(section.size for section in notes) > len(data):
        raise _damaged(name, "its notes overlap")
    return machine, tuple(_content(data, section, name) for section in notes)


def read_library(data: bytes, name: str) -> Library:
    """Reads the bytes of an ELF64 little-endian shared library.

    name: how errors call the file. Raises OpspliceError for anything else than such a library, or a damaged one.
    """
    machine, sections = _read_layout(data, name, _ET_DYN)
    arch = archs.of_elf_machine(machine)
    constructors = any(map(_has_constructors, sections))
    if not any(section.kind == _SHT_DYNSYM for section in sections):
        return Library(arch, machine, None, constructors=constructors)
    exports: set[str] = set()
    imports: set[str] = set()
    for symbol, binding, kind, section_index in _symbols(data, sections, name, _SHT_DYNSYM):
        if not symbol or binding == _STB_LOCAL:
            continue
        if section_index == _SHN_UNDEF:
            imports.add(symbol)
        elif kind in (_STT_NOTYPE, _STT_FUNC):
            exports.add(symbol)
    return Library(arch, machine, frozenset(exports), frozenset(imports), constructors)


def check_arch(code: ObjectFile, name: str, arch: archs.Arch) -> None:
    """Raises OpspliceError unless the ELF object `code` is for `arch`, naming both."""
    if code.arch != arch:
        found = code.arch or f"another architecture (ELF machine {code.machine})"
        raise OpspliceError(
            f"{name} is an object for {found}, but the target is {arch}",
            hint=f"build it for {arch}, or give the source, which is built for each target",
        )


def check_links(
    code: ObjectFile,
    name: str,
    symbols: Collection[str],
    form: Form,
    *,
    may_be_bitcode: bool = True,
    hint: str | None = None,
) -> None:
    """Raises OpspliceError unless `code` defines the functions `symbols` and IREE's linker will take it.

    name: how errors call the file.
    may_be_bitcode: whether it could be bitcode as well; only advice depends on it. hint: what to do about names that it
    lacks, where that is not what it is for a CPU.
    """
    if code.ifuncs:
        raise OpspliceError(
            f"{name} has functions that are chosen at load time (ifunc, target_clones), which kernels cannot have",
            hint="name the CPU's features in the kernel's clauses instead: cpu x86_64 when avx2 \"k_avx2.c\"",
        )
    for symbol in symbols:
        _check_defined(code, name, symbol)
    if code.tls:
        raise OpspliceError(
            f"{name} has thread-local variables, which a kernel cannot have",
            hint="kernels run on IREE's worker threads: pass state in through buffers, or make it 'static const'",
        )
    check_constructors(code, name)
    provided = LINKED_INTO_BITCODE if form == "bitcode" else frozenset()
    if missing := sorted(code.undefined - provided):
        listed = ", ".join(f"'{symbol}'" for symbol in missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise OpspliceError(
            f"{name} needs {listed}, which {'is' if len(missing) == 1 else 'are'} not there at the link",
            hint=hint or _advice(missing, form, may_be_bitcode=may_be_bitcode),
        )
    if code.absolute:
        raise OpspliceError(f"{name} is not position independent", hint="build it with -fPIC")


def check_constructors(code: ObjectFile | Library, name: str) -> None:
    """Raise OpspliceError if functions are to run when `code` is loaded: IREE's loader has none of a system's."""
    if code.constructors:
        raise OpspliceError(
            f"{name} has code that is to run when it is loaded (variables that are computed, constructors), "
            "which a kernel cannot have",
            hint="give variables values that are known when it is compiled (constexpr in C++), "
            "or compute them in the kernel",
        )


def _has_constructors(section: _Section) -> bool:
    known = section.kind in (_SHT_INIT_ARRAY, _SHT_PREINIT_ARRAY) or section.name.startswith(_CONSTRUCTORS)
    return known and section.size > 0


def _check_defined(code: ObjectFile, name: str, symbol: str) -> None:
    if symbol in code.functions:
        return
    if symbol in code.data:
        raise OpspliceError(f"'{symbol}' in {name} is a variable, not a function", hint="name the kernel's function")
    message = f"{name} does not define the function '{symbol}'"
    if symbol in code.local:
        raise OpspliceError(message, hint=f"'{symbol}' is there but private to the file: remove its 'static'")
    mangled = f"{len(symbol)}{symbol}"
    if any(other.startswith("_Z") and mangled in other for other in code.functions | code.local):
        raise OpspliceError(message, hint=f"it defines '{symbol}' as C++: declare it extern \"C\"")
    nearest = difflib.get_close_matches(symbol, sorted(code.functions), n=1)
    if nearest:
        raise OpspliceError(message, hint=f"did you mean '{nearest[0]}'?")
    defined = ", ".join(sorted(code.functions)[:8]) or "no function at all"
    raise OpspliceError(
        message, hint=f"it defines {defined}; C functions must not be 'static', C++ ones must be extern \"C\""
    )


def _advice(missing: Sequence[str], form: Form, *, may_be_bitcode: bool) -> str:
    """What to do about functions that will not link: what helps with all of them, else with the first."""
    first = missing[0]
    if first.startswith(("__stack_chk", "__fortify", "__asan", "__ubsan", "__tsan", "__msan")):
        return "build it without run-time checks: -fno-stack-protector -U_FORTIFY_SOURCE -fno-sanitize=all"
    is_mathematics = not MATHEMATICS.isdisjoint((first, first.removesuffix("f"), first.removesuffix("l")))
    if not may_be_bitcode and (LINKED_INTO_BITCODE.issuperset(missing) or is_mathematics):
        return (
            "write it in the kernel; a plugin that is a system library (.so) may use the compiler's and C's libraries"
        )
    if form == "object" and LINKED_INTO_BITCODE.issuperset(missing):
        return "build it 'as bitcode', with which these functions are linked, or write them in the kernel"
    if is_mathematics:
        return "write it in the kernel: of C's mathematics there are the functions of f32 and f64, and not all"
    if first.startswith("__"):
        return (
            "it is a helper of the compiler's own library for what the CPU cannot do by itself: use other types, "
            "or allow the CPU feature that does it"
        )
    return "a kernel has no C library and no other files beside it: put all that it uses into this file"


def _read_layout(data: bytes, name: str, wanted: int = _ET_REL, needed: str = "") -> tuple[int, list[_Section]]:
    """e_machine and the section headers, whose contents lie inside the file.

    wanted: the e_type that it is to have. needed: what to do for another.
    """
    needed = needed or _NEEDED[wanted]
    _check_kind(data, name, needed)
    if len(data) < _HEADER.size:
        raise _damaged(name, "the header is cut off")
    header = _HEADER.unpack_from(data)
    kind, machine, table, entry_size, count = header[1], header[2], header[6], header[11], header[12]
    if kind != wanted:
        raise OpspliceError(f"{name} is {_KINDS.get(kind, 'an ELF file of another kind')}", hint=needed)
    if table == 0:
        return machine, []
    if entry_size != _SECTION.size or table + entry_size > len(data):
        raise _damaged(name, "the section table is not inside the file")
    if count == 0:
        # From 0xff00 sections on, the count is the size field of the first one (gABI, e_shnum).
        count = _SECTION.unpack_from(data, table)[5]
    if count > (len(data) - table) // entry_size:
        raise _damaged(name, "the section table is not inside the file")
    rows = [_SECTION.unpack_from(data, table + index * entry_size) for index in range(count)]
    # The names matter for few sections, so that a file whose names are missing is none that is damaged.
    names_at = rows[header[13]][4] if header[13] < count else len(data)
    sections = []
    for fields in rows:
        label = data[names_at + fields[0] : names_at + fields[0] + _LONGEST_LABEL].partition(b"\0")[0]
        sections.append(_Section(label, fields[1], fields[2], fields[4], fields[5], fields[6], fields[7], fields[9]))
    return machine, sections


_KINDS = {
    _ET_REL: "an object, not a linked library",
    2: "a linked program, not an object or a library",
    _ET_DYN: "a linked program or library, not an object",
}
_NEEDED = {
    _ET_REL: "kernels need an ELF object: compile with -c, without linking",
    _ET_DYN: "it has to be a shared library: link it with -shared",
}


def _check_kind(data: bytes, name: str, needed: str) -> None:
    """Refuses what is not ELF64 little-endian, calling it by its own name."""
    if data[:4] == b"\x7fELF":
        if data[4:6] == b"\x02\x01":
            return
        raise OpspliceError(f"{name} is not a 64-bit little-endian ELF object", hint="build it for a 64-bit target")
    raise OpspliceError(f"{name} is {kind_of(data, 'not an ELF object')}", hint=needed)


def _symbols(
    data: bytes, sections: list[_Section], name: str, of: int = _SHT_SYMTAB
) -> Iterator[tuple[str, int, int, int]]:
    """(name, binding, type, section index) of each symbol in the table of a kind."""
    tables = [section for section in sections if section.kind == of]
    if not tables:
        return
    if len(tables) > 1:  # gABI: an object has at most one
        raise _damaged(name, "it has several symbol tables")
    (table,) = tables
    if table.link >= len(sections) or sections[table.link].kind != _SHT_STRTAB:
        raise _damaged(name, "the symbol table has no names")
    names = _content(data, sections[table.link], name)
    entries = _content(data, table, name)
    if table.entry_size != _SYMBOL.size or len(entries) % _SYMBOL.size:
        raise _damaged(name, "the symbol table's size is wrong")
    budget = _LONGEST_NAMES_TOGETHER
    for name_offset, info, _, section_index, _, _ in _SYMBOL.iter_unpack(entries):
        end = names.find(b"\0", name_offset, name_offset + _LONGEST_NAME)
        if end < 0:
            raise _damaged(name, "a symbol's name is not inside the file")
        budget -= end - name_offset
        if budget < 0:
            raise _damaged(name, "its symbols' names are too long")
        yield names[name_offset:end].decode("utf-8", "replace"), info >> 4, info & 0xF, section_index


def _has_absolute(data: bytes, sections: list[_Section], kinds: frozenset[int], name: str) -> bool:
    tables = [section for section in sections if section.kind == _SHT_RELA and section.info < len(sections)]
    if sum(table.size for table in tables) > len(data):
        raise _damaged(name, "its relocation tables overlap")
    for table in tables:
        patched = sections[table.info]
        if patched.flags & (_SHF_ALLOC | _SHF_WRITE) != _SHF_ALLOC:
            continue
        entries = _content(data, table, name)
        if len(entries) % _RELOCATION.size:
            raise _damaged(name, "a relocation table's size is wrong")
        if any(info & 0xFFFFFFFF in kinds for _, info, _ in _RELOCATION.iter_unpack(entries)):
            return True
    return False


def _content(data: bytes, section: _Section, name: str) -> bytes:
    if section.offset + section.size > len(data):
        raise _damaged(name, "a section is not inside the file")
    return data[section.offset : section.offset + section.size]

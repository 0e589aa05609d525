"""SPIR-V's words as instructions, and its module-level declarations as tables: names, decorations, types, constants.

Format: the SPIR-V specification 1.6, sections 2.3 (layout), 3.32 (instructions). Any bytes are safe to read: every word
count is checked against the file's size, and nothing is computed that could grow beyond it. It must not know what a
kernel is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats import entries

damaged = partial(entries.damaged, "a damaged SPIR-V module")
MAGIC = 0x07230203
_HEADER_WORDS = 5

# No shader comes near; the bound keeps a hostile file from costing more than seconds.
_LARGEST_FILE = 1 << 24
# Sizes stop growing here, so that nested arrays cannot make numbers of any length.
_LARGEST_SIZE = 1 << 32
# Arrays of arrays of matrices deeper than this have no size here.
_DEEPEST_NESTING = 16


class Op:
    """Opcodes of declarations."""

    SOURCE_CONTINUED, SOURCE, SOURCE_EXTENSION, NAME = 2, 3, 4, 5
    EXTENSION, EXT_INST_IMPORT = 10, 11
    ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 15, 16, 17
    TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_MATRIX = 20, 21, 22, 23, 24
    TYPE_IMAGE, TYPE_SAMPLER, TYPE_SAMPLED_IMAGE = 25, 26, 27
    TYPE_ARRAY, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER = 28, 29, 30, 32
    CONSTANT, CONSTANT_COMPOSITE = 43, 44
    SPEC_CONSTANT, SPEC_CONSTANT_COMPOSITE, SPEC_CONSTANT_OP = 50, 51, 52
    FUNCTION, FUNCTION_END, VARIABLE = 54, 56, 59
    DECORATE, MEMBER_DECORATE, DECORATION_GROUP = 71, 72, 73
    EXECUTION_MODE_ID = 331
    TYPE_UNTYPED_POINTER, UNTYPED_VARIABLE = 4417, 4418


class Decoration:
    """Decorations that say where a variable is bound and how its memory is laid out."""

    BLOCK, BUFFER_BLOCK, ROW_MAJOR, ARRAY_STRIDE, MATRIX_STRIDE, BUILT_IN = 2, 3, 4, 6, 7, 11
    NON_WRITABLE, BINDING, DESCRIPTOR_SET, OFFSET = 24, 33, 34, 35


class StorageClass:
    UNIFORM_CONSTANT, UNIFORM, WORKGROUP, PUSH_CONSTANT, STORAGE_BUFFER = 0, 2, 4, 9, 12


_BUILT_IN_WORKGROUP_SIZE = 25
# OpIAdd, OpISub, OpIMul, OpUDiv, OpUMod, OpShiftRightLogical and OpShiftLeftLogical.
_COMPUTED = {128: int.__add__, 130: int.__sub__, 132: int.__mul__, 134: int.__floordiv__, 137: int.__mod__}
_COMPUTED |= {194: int.__rshift__, 196: int.__lshift__}
_DIVISIONS, _SHIFTS = (134, 137), (194, 196)
IGNORED = (0, 8, 317)  # OpNop, OpLine, OpNoLine

Instruction = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Type:
    """A type: its opcode, its operands after the id, and the bytes it takes in a buffer (None: it cannot lie there)."""

    opcode: int
    operands: tuple[int, ...]
    size: int | None


@dataclass(frozen=True)
class Variable:
    """A global variable. pointee: the id of the type it points to, or None where the pointer is untyped and bare."""

    storage_class: int
    pointee: int | None


@dataclass
class Declarations:
    """What a module declares outside functions, by id. Filled in the module's order by `read_declarations`."""

    capabilities: list[int] = field(default_factory=list)
    imports: dict[int, str] = field(default_factory=dict)
    entries: list[tuple[int, int, str]] = field(default_factory=list)  # execution model, function, name
    modes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)  # (function, mode) -> operands
    names: dict[int, str] = field(default_factory=dict)
    decorations: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)  # (id, decoration) -> literals
    members: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)  # (id, member, decoration)
    types: dict[int, Type] = field(default_factory=dict)
    constants: dict[int, int | None] = field(default_factory=dict)
    composites: dict[int, tuple[int, ...]] = field(default_factory=dict)
    variables: dict[int, Variable] = field(default_factory=dict)

    @property
    def workgroup_size(self) -> int | None:
        """The id of the constant that overrides every entry's local size, where there is one."""
        for (target, decoration), literals in self.decorations.items():
            if decoration == Decoration.BUILT_IN and literals[:1] == (_BUILT_IN_WORKGROUP_SIZE,):
                return target
        return None


def read_instructions(data: bytes, name: str) -> tuple[tuple[int, int], list[Instruction]]:
    """The version and the instructions, (opcode, operands), of a binary in either byte order.

    name: how errors call the file. Raises OpspliceError for anything else than SPIR-V, or a damaged one.
    """
    words = _words(data, name)
    version = words[1]
    if version & 0xFF0000FF:
        raise damaged(name, f"its version is {version:#x}")
    instructions = []
    place = _HEADER_WORDS
    while place < len(words):
        count = words[place] >> 16
        if count == 0 or place + count > len(words):
            raise damaged(name, f"the instruction at word {place} is not inside the file")
        instructions.append((words[place] & 0xFFFF, words[place + 1 : place + count]))
        place += count
    return (version >> 16, version >> 8 & 0xFF), instructions


def little_endian(data: bytes) -> bytes:
    """A module in the order that drivers take, whichever it has; what is not a module as it is."""
    if data[:4] != struct.pack(">I", MAGIC) or len(data) % 4:
        return data
    count = len(data) // 4
    return struct.pack(f"<{count}I", *struct.unpack(f">{count}I", data))


def without_sources(data: bytes, name: str) -> bytes:
    """The same module without the instructions that say what language it came from, little-endian.

    Validators refuse languages that are newer than they are, though the words mean nothing. Raises as above.
    """
    words = _words(data, name)
    kept = list(words[:_HEADER_WORDS])
    for opcode, operands in read_instructions(data, name)[1]:
        if opcode not in (Op.SOURCE, Op.SOURCE_CONTINUED, Op.SOURCE_EXTENSION):
            kept += [len(operands) + 1 << 16 | opcode, *operands]
    return struct.pack(f"<{len(kept)}I", *kept)


def read_declarations(instructions: Sequence[Instruction], name: str) -> tuple[Declarations, int]:
    """The module's declarations, and the index of its first function.

    Raises OpspliceError when an instruction lacks operands.
    """
    found = Declarations()
    for index, (opcode, operands) in enumerate(instructions):
        if opcode == Op.FUNCTION:
            return found, index
        try:
            _declare(found, opcode, operands, name)
        except IndexError:
            raise damaged(name, f"an instruction (opcode {opcode}) lacks operands") from None
    return found, len(instructions)


def functions(instructions: Sequence[Instruction], name: str) -> Iterator[list[Instruction]]:
    """The functions behind a module's declarations, each from OpFunction to OpFunctionEnd.

    Raises OpspliceError where one has no end, or something stands between them.
    """
    body: list[Instruction] = []
    for each in instructions:
        if not body and each[0] in IGNORED:
            continue
        if (each[0] == Op.FUNCTION) == bool(body):
            raise damaged(name, "a function has no end" if body else "an instruction stands between functions")
        body.append(each)
        if each[0] == Op.FUNCTION_END:
            yield body
            body = []
    if body:
        raise damaged(name, "a function has no end")


def _words(data: bytes, name: str) -> tuple[int, ...]:
    _check_kind(data, name)
    order = "<" if data[:4] == struct.pack("<I", MAGIC) else ">"
    if len(data) % 4 or len(data) < 4 * _HEADER_WORDS:
        raise damaged(name, f"its size, {len(data)} bytes, is cut off")
    return struct.unpack(f"{order}{len(data) // 4}I", data)


def _check_kind(data: bytes, name: str) -> None:
    if data[:4] in (struct.pack("<I", MAGIC), struct.pack(">I", MAGIC)):
        if len(data) > _LARGEST_FILE:
            raise OpspliceError(
                f"{name} has {len(data)} bytes, more than the {_LARGEST_FILE} that a kernel may have",
                hint="strip what the kernel does not use",
            )
        return
    what = entries.kind_of(data, "not a SPIR-V module")
    raise OpspliceError(f"{name} is {what}", hint="build a SPIR-V binary, as with glslangValidator -V")


def _string(operands: Sequence[int], name: str) -> str:
    """A literal string; in every byte order its first byte is the lowest of a word."""
    raw = struct.pack(f"<{len(operands)}I", *operands)
    end = raw.find(b"\0")
    if end < 0:
        raise damaged(name, "a string has no end")
    return raw[:end].decode("utf-8", "replace")


def _declare(found: Declarations, opcode: int, operands: tuple[int, ...], name: str) -> None:
    if opcode == Op.CAPABILITY:
        found.capabilities.append(operands[0])
    elif opcode == Op.EXT_INST_IMPORT:
        found.imports[operands[0]] = _string(operands[1:], name)
    elif opcode == Op.ENTRY_POINT:
        found.entries.append((operands[0], operands[1], _string(operands[2:], name)))
    elif opcode in (Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID):
        found.modes[operands[0], operands[1]] = operands[2:]
    elif opcode == Op.NAME:
        found.names[operands[0]] = _string(operands[1:], name)
    elif opcode == Op.DECORATE:
        found.decorations[operands[0], operands[1]] = operands[2:]
    elif opcode == Op.MEMBER_DECORATE:
        found.members[operands[0], operands[1], operands[2]] = operands[3:]
    elif opcode == Op.DECORATION_GROUP:
        raise OpspliceError(
            f"{name} uses decoration groups, which SPIR-V has deprecated", hint="spirv-opt --flatten-decorations"
        )
    elif opcode == Op.VARIABLE:
        pointer = found.types.get(operands[0])
        pointee = pointer.operands[1] if pointer and pointer.opcode == Op.TYPE_POINTER else None
        found.variables[operands[1]] = Variable(operands[2], pointee)
    elif opcode == Op.UNTYPED_VARIABLE:
        found.variables[operands[1]] = Variable(operands[2], operands[3] if len(operands) > 3 else None)
    elif Op.TYPE_BOOL <= opcode <= Op.TYPE_POINTER or opcode == Op.TYPE_UNTYPED_POINTER:
        rest = operands[1:]
        found.types[operands[0]] = Type(opcode, rest, _size(found, operands[0], opcode, rest))
    elif Op.CONSTANT <= opcode <= Op.SPEC_CONSTANT_OP:
        _declare_constant(found, opcode, operands)


def _declare_constant(found: Declarations, opcode: int, operands: tuple[int, ...]) -> None:
    target = operands[1]
    if opcode in (Op.CONSTANT, Op.SPEC_CONSTANT):
        # Low word first; what is wanted here (sizes) is never negative.
        found.constants[target] = operands[2] | (operands[3] << 32 if len(operands) > 3 else 0)
    elif opcode in (Op.CONSTANT_COMPOSITE, Op.SPEC_CONSTANT_COMPOSITE):
        found.composites[target] = operands[2:]
    elif opcode == Op.SPEC_CONSTANT_OP:
        found.constants[target] = _compute(found, operands[2], operands[3:])


def _compute(found: Declarations, opcode: int, operands: tuple[int, ...]) -> int | None:
    """An expression of specialization constants at their defaults, as 32 bits without sign; None where not known."""
    if opcode == 81:  # OpCompositeExtract
        parts = found.composites.get(operands[0], ())
        return found.constants.get(parts[operands[1]]) if len(operands) == 2 and operands[1] < len(parts) else None
    known = [value for operand in operands if (value := found.constants.get(operand)) is not None]
    if len(operands) != 2 or len(known) != 2 or opcode not in _COMPUTED:
        return None
    left, right = known
    if (opcode in _DIVISIONS and not right) or (opcode in _SHIFTS and right >= 32):
        return None
    return _COMPUTED[opcode](left, right) & 0xFFFFFFFF


def _size(found: Declarations, target: int, opcode: int, operands: tuple[int, ...]) -> int | None:
    """The bytes of a type in a buffer, with a struct's offsets and an array's stride; types it holds come before it."""
    if opcode in (Op.TYPE_INT, Op.TYPE_FLOAT):
        return min(operands[0], _LARGEST_SIZE) // 8
    if opcode == Op.TYPE_POINTER:
        return 8
    if opcode in (Op.TYPE_VECTOR, Op.TYPE_MATRIX):
        # A matrix's stride is the member's that holds it; this is the size for tightly packed columns.
        part = _size_of(found, operands[0])
        return None if part is None else min(part * operands[1], _LARGEST_SIZE)
    if opcode == Op.TYPE_ARRAY:
        return _array_size(found, target, operands, _size_of(found, operands[0]))
    if opcode == Op.TYPE_STRUCT:
        return _struct_size(found, target, operands)
    return None


def _size_of(found: Declarations, target: int) -> int | None:
    declared = found.types.get(target)
    return declared.size if declared else None


def _array_size(found: Declarations, target: int, operands: tuple[int, ...], element: int | None) -> int | None:
    length = found.constants.get(operands[1])
    stride = found.decorations.get((target, Decoration.ARRAY_STRIDE), (element,))[0]
    if not length or element is None or stride is None:
        return None
    return min((length - 1) * stride + element, _LARGEST_SIZE)


def _struct_size(found: Declarations, target: int, members: tuple[int, ...]) -> int | None:
    end = 0
    for index, member in enumerate(members):
        offset = found.members.get((target, index, Decoration.OFFSET))
        size = _member_size(found, target, index, member)
        if offset is None or size is None:
            return None
        end = max(end, offset[0] + size)
    return min(end, _LARGEST_SIZE)


def _member_size(found: Declarations, struct_id: int, index: int, member: int) -> int | None:
    """As `_size_of`, with the matrix stride that the member gives to the matrices in it."""
    stride = found.members.get((struct_id, index, Decoration.MATRIX_STRIDE))
    if stride is None:
        return _size_of(found, member)
    arrays: list[tuple[int, tuple[int, ...]]] = []
    whole = _size_of(found, member)
    inner = found.types.get(member)
    while inner is not None and inner.opcode == Op.TYPE_ARRAY:
        if len(arrays) == _DEEPEST_NESTING:
            return None
        arrays.append((member, inner.operands))
        member = inner.operands[0]
        inner = found.types.get(member)
    if inner is None or inner.opcode != Op.TYPE_MATRIX:
        return whole
    column = found.types.get(inner.operands[0])
    if column is None or column.size is None or column.opcode != Op.TYPE_VECTOR or not column.operands[1]:
        return None
    rows, columns = column.operands[1], inner.operands[1]
    if not columns:
        return None
    row_major = (struct_id, index, Decoration.ROW_MAJOR) in found.members
    strides, last = (rows, columns) if row_major else (columns, rows)
    size: int | None = min((strides - 1) * stride[0] + last * (column.size // rows), _LARGEST_SIZE)
    for target, operands in reversed(arrays):
        size = _array_size(found, target, operands, size)
    return size

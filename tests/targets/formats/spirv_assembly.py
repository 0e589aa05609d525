"""Assembles small SPIR-V modules by hand, so that tests of their reader need no tools."""

import struct
from collections.abc import Sequence

MAGIC = 0x07230203

CAPABILITY, EXTENSION, EXT_INST_IMPORT, MEMORY_MODEL, ENTRY_POINT, MODE, MODE_ID = 17, 10, 11, 14, 15, 16, 331
NAME, DECORATE, MEMBER_DECORATE = 5, 71, 72
VOID, BOOL, INT, FLOAT, VECTOR, MATRIX, ARRAY, RUNTIME_ARRAY, STRUCT, POINTER, FUNCTION_TYPE = (
    *(19, 20, 21, 22, 23, 24),
    *(28, 29, 30, 32, 33),
)
CONSTANT, COMPOSITE, SPEC_CONSTANT, SPEC_COMPOSITE, SPEC_OP, VARIABLE = 43, 44, 50, 51, 52, 59
FUNCTION, PARAMETER, FUNCTION_END, CALL, LABEL, RETURN = 54, 55, 56, 57, 248, 253
CHAIN, LOAD, STORE, EXT_INST = 65, 61, 62, 12
BLOCK, BUFFER_BLOCK, ROW_MAJOR, ARRAY_STRIDE, MATRIX_STRIDE, BUILT_IN = 2, 3, 4, 6, 7, 11
NON_WRITABLE, NON_READABLE, BINDING, SET, OFFSET = 24, 25, 33, 34, 35
UNIFORM, PUSH_CONSTANT, STORAGE_BUFFER, LOCAL = 2, 9, 12, 7


def text(value: str) -> tuple[int, ...]:
    data = value.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def op(opcode: int, *operands) -> tuple[int, ...]:
    """One instruction; strings among the operands are packed."""
    words: list[int] = []
    for operand in operands:
        words += text(operand) if isinstance(operand, str) else [operand]
    return (len(words) + 1 << 16 | opcode, *words)


def binary(*instructions: Sequence[int], version: int = 0x10300, order: str = "<") -> bytes:
    words = [MAGIC, version, 0, 1000, 0]
    for instruction in instructions:
        words += instruction
    return struct.pack(f"{order}{len(words)}I", *words)


# Ids of the modules that `kernel` makes.
T_VOID, T_FN, T_FLOAT, T_UINT, T_ARRAY, T_BLOCK, T_BLOCK_PTR, T_FLOAT_PTR = 1, 2, 3, 4, 5, 6, 7, 8
ZERO, ONE_F, MAIN, PUSH_BLOCK, PUSH_PTR, PUSH, PUSH_FLOAT_PTR = 9, 10, 11, 12, 13, 14, 15
FIRST_BUFFER = 100


def buffer(index: int) -> int:
    """The id of the variable of the buffer that was given as the `index`-th."""
    return FIRST_BUFFER + index


def store(index: int, fresh: int) -> list[tuple[int, ...]]:
    """Instructions that store to a buffer; `fresh` is an id of their own."""
    return [op(CHAIN, T_FLOAT_PTR, fresh, buffer(index), ZERO, ZERO), op(STORE, fresh, ONE_F)]


def load(index: int, fresh: int) -> list[tuple[int, ...]]:
    return [op(CHAIN, T_FLOAT_PTR, fresh, buffer(index), ZERO, ZERO), op(LOAD, T_FLOAT, fresh + 1, fresh)]


def kernel(
    body,
    *,
    buffers=((0, 0), (0, 1)),
    name="scale",
    local=(64, 1, 1),
    push=(),
    decorations=(),
    declarations=(),
    functions=(),
    entries=(),
    capabilities=(1,),
    block=BLOCK,
    storage=STORAGE_BUFFER,
    version=0x10300,
    order="<",
) -> bytes:
    """A module with one compute entry point and storage buffers of floats at the given (set, binding).

    push: types of the members of a push-constant block, 4 bytes apart, which the entry point then loads.
    """
    head = [op(CAPABILITY, number) for number in capabilities]
    head += [op(EXT_INST_IMPORT, 20, "GLSL.std.450"), op(MEMORY_MODEL, 0, 1)]
    head += [op(ENTRY_POINT, 5, MAIN, name), *entries]
    if local is not None:
        head.append(op(MODE, MAIN, 17, *local))
    head += [op(DECORATE, T_ARRAY, ARRAY_STRIDE, 4), op(DECORATE, T_BLOCK, block)]
    head.append(op(MEMBER_DECORATE, T_BLOCK, 0, OFFSET, 0))
    for index, (in_set, number) in enumerate(buffers):
        head += [op(DECORATE, buffer(index), SET, in_set), op(DECORATE, buffer(index), BINDING, number)]
    head += [op(MEMBER_DECORATE, PUSH_BLOCK, index, OFFSET, 4 * index) for index in range(len(push))]
    head += decorations
    types = [op(VOID, T_VOID), op(FUNCTION_TYPE, T_FN, T_VOID), op(FLOAT, T_FLOAT, 32), op(INT, T_UINT, 32, 0)]
    types += [op(RUNTIME_ARRAY, T_ARRAY, T_FLOAT), op(STRUCT, T_BLOCK, T_ARRAY), op(POINTER, T_BLOCK_PTR, storage, 6)]
    types += [op(POINTER, T_FLOAT_PTR, storage, T_FLOAT), op(CONSTANT, T_UINT, ZERO, 0)]
    types.append(op(CONSTANT, T_FLOAT, ONE_F, 0x3F800000))
    types += declarations
    types += [op(VARIABLE, T_BLOCK_PTR, buffer(index), storage) for index in range(len(buffers))]
    if push:
        types += [op(STRUCT, PUSH_BLOCK, *push), op(POINTER, PUSH_PTR, PUSH_CONSTANT, PUSH_BLOCK)]
        types += [op(VARIABLE, PUSH_PTR, PUSH, PUSH_CONSTANT), op(POINTER, PUSH_FLOAT_PTR, PUSH_CONSTANT, T_FLOAT)]
        body = [*body, op(CHAIN, PUSH_FLOAT_PTR, 900, PUSH, ZERO), op(LOAD, T_FLOAT, 901, 900)]
    main = [op(FUNCTION, T_VOID, MAIN, 0, T_FN), op(LABEL, 800), *body, op(RETURN), op(FUNCTION_END)]
    return binary(*head, *types, *main, *functions, version=version, order=order)

"""Shaders whose workgroups come in the opposite order.

    %g = OpLoad %gl_WorkGroupID     =>    %last = OpISub (OpLoad %gl_NumWorkGroups) 1
                                          OpStore %turned (OpISub %last (OpLoad %gl_WorkGroupID))
                                          ...
                                          %g = OpLoad %turned

The numbers of invocations move with those of their workgroups: id + (turned - workgroup) * size.
Format: the SPIR-V specification 1.6, sections 3.21 (built-ins) and 3.32 (instructions).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence

from opsplice.targets.formats.spirv import spirv_reader
from opsplice.targets.formats.spirv.spirv_reader import Declarations, Decoration, Instruction, Op

_COUNT, _WORKGROUP, _INVOCATION = 24, 26, 28  # gl_NumWorkGroups, gl_WorkGroupID, gl_GlobalInvocationID
_LOCAL_SIZE, _LOCAL_SIZE_ID = 17, 38
_INPUT, _PRIVATE = 1, 6
_LOAD, _STORE, _ACCESS_CHAINS, _LABEL = 61, 62, (65, 66), 248
_ADD, _SUBTRACT, _MULTIPLY = 128, 130, 132
_ARRAY_LENGTH = 68


def asks_for_lengths(data: bytes) -> bool:
    """Whether a shader asks how long its buffers are."""
    return any(opcode == _ARRAY_LENGTH for opcode, _ in spirv_reader.read_instructions(data, "a shader")[1])


def turned(data: bytes) -> bytes:
    """A shader with its workgroups in the opposite order; the same bytes where it does not ask for their numbers, has
    several entry points or no known size.
    """
    version, instructions = spirv_reader.read_instructions(data, "a shader")
    declared, first = spirv_reader.read_declarations(instructions, "a shader")
    turning = _Turning(declared, struct.unpack_from("<I", data, 12)[0])
    if not turning.places or turning.size is None or len(declared.entries) != 1:
        return data
    lists_all = version >= (1, 4)
    words = [*struct.unpack_from("<5I", data)]
    words[3] = 0  # the bound is known at the end
    head = [turning.entry(each, lists_all) for each in instructions[:first]]
    body = [*turning.functions(instructions[first:])]
    at = next(n for n, (opcode, _) in enumerate(head) if Op.TYPE_BOOL - 1 <= opcode <= 39)
    decorated = turning.decorations()
    for opcode, operands in (*head[:at], *decorated, *head[at:], *turning.declarations, *body):
        words += [len(operands) + 1 << 16 | opcode, *operands]
    words[3] = turning.bound
    return struct.pack(f"<{len(words)}I", *words)


class _Turning:
    """What one module needs. places: the variables that are turned, by their built-in. size: of a workgroup."""

    def __init__(self, declared: Declarations, bound: int) -> None:
        self.declared, self.bound = declared, bound
        found = {
            literals[0]: target
            for (target, decoration), literals in declared.decorations.items()
            if decoration == Decoration.BUILT_IN and target in declared.variables
        }
        self.places = {kind: found[kind] for kind in (_WORKGROUP, _INVOCATION) if kind in found}
        self.inputs = dict(found)
        self.size = self._size()
        self.declarations: list[Instruction] = []
        self.added: list[int] = []
        if self.places and self.size is not None:
            self._declare()

    def _size(self) -> tuple[int, ...] | None:
        declared, numbers = self.declared, list[int | None]()
        for (_, mode), size in declared.modes.items():
            if mode == _LOCAL_SIZE:
                numbers = [*size]
            elif mode == _LOCAL_SIZE_ID:
                numbers = [declared.constants.get(each) for each in size]
        if declared.workgroup_size is not None:
            numbers = [declared.constants.get(part) for part in declared.composites.get(declared.workgroup_size, ())]
        known = tuple(number for number in numbers if number)
        return known if len(known) == 3 else None

    def _declare(self) -> None:
        some = next(iter(self.places.values()))
        kind = self.declared.variables[some].pointee
        assert kind is not None
        self.vector, (self.scalar, _) = kind, self.declared.types[kind].operands
        self.pointer = self._type(Op.TYPE_POINTER, _INPUT, kind)
        for needed in (_COUNT, _WORKGROUP):
            if needed not in self.inputs:
                self.inputs[needed] = self._add(Op.VARIABLE, self.pointer, _INPUT)
                self.added.append(self.inputs[needed])
        self.to_vector = self._type(Op.TYPE_POINTER, _PRIVATE, self.vector)
        self.to_scalar = self._type(Op.TYPE_POINTER, _PRIVATE, self.scalar)
        self.turned = {place: self._add(Op.VARIABLE, self.to_vector, _PRIVATE) for place in self.places.values()}
        one = self._add(Op.CONSTANT, self.scalar, 1)
        self.ones = self._add(Op.CONSTANT_COMPOSITE, self.vector, one, one, one)
        sizes = [self._add(Op.CONSTANT, self.scalar, each) for each in self.size or ()]
        self.sizes = self._add(Op.CONSTANT_COMPOSITE, self.vector, *sizes)

    def _new(self) -> int:
        self.bound += 1
        return self.bound - 1

    def _type(self, opcode: int, *operands: int) -> int:
        """A type, which is declared unless it is there."""
        for at, each in self.declared.types.items():
            if each.opcode == opcode and each.operands == operands:
                return at
        self.declarations.append((opcode, (made := self._new(), *operands)))
        return made

    def _add(self, opcode: int, kind: int, *operands: int) -> int:
        """Declare a variable or a constant."""
        self.declarations.append((opcode, (kind, made := self._new(), *operands)))
        return made

    def entry(self, instruction: Instruction, lists_all: bool) -> Instruction:
        """An instruction before the functions; entry points list the variables that they use."""
        opcode, operands = instruction
        if opcode != Op.ENTRY_POINT:
            return instruction
        return opcode, (*operands, *self.added, *(self.turned.values() if lists_all else ()))

    def decorations(self) -> Iterator[Instruction]:
        for kind, target in self.inputs.items():
            if target in self.added:
                yield Op.DECORATE, (target, Decoration.BUILT_IN, kind)

    def functions(self, instructions: Sequence[Instruction]) -> Iterator[Instruction]:
        """The functions, with the turned numbers made where an entry point begins."""
        starts = {function for _, function, _ in self.declared.entries}
        is_begun = True
        for opcode, operands in instructions:
            if opcode == Op.FUNCTION:
                is_begun = operands[1] not in starts
            elif not is_begun and opcode not in (_LABEL, Op.VARIABLE, 55, *spirv_reader.IGNORED):
                is_begun = True
                yield from self._made()
            yield self._replaced(opcode, operands)

    def _replaced(self, opcode: int, operands: tuple[int, ...]) -> Instruction:
        if opcode == _LOAD and operands[2] in self.turned:
            return opcode, (*operands[:2], self.turned[operands[2]], *operands[3:])
        if opcode in _ACCESS_CHAINS and operands[2] in self.turned:
            return opcode, (self.to_scalar, operands[1], self.turned[operands[2]], *operands[3:])
        return opcode, operands

    def _made(self) -> Iterator[Instruction]:
        vector = self.vector
        ids = (self._new() for _ in itertools.count())
        count, last, group, other = (next(ids) for _ in range(4))
        yield _LOAD, (vector, count, self.inputs[_COUNT])
        yield _SUBTRACT, (vector, last, count, self.ones)
        yield _LOAD, (vector, group, self.inputs[_WORKGROUP])
        yield _SUBTRACT, (vector, other, last, group)
        if _WORKGROUP in self.places:
            yield _STORE, (self.turned[self.places[_WORKGROUP]], other)
        if _INVOCATION in self.places:
            by, threads, before, after = (next(ids) for _ in range(4))
            yield _SUBTRACT, (vector, by, other, group)
            yield _MULTIPLY, (vector, threads, by, self.sizes)
            yield _LOAD, (vector, before, self.places[_INVOCATION])
            yield _ADD, (vector, after, before, threads)
            yield _STORE, (self.turned[self.places[_INVOCATION]], after)

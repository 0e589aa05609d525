"""Which global variables an entry point of a SPIR-V module touches, and which of them it writes.

Pointers are followed backwards, from the instructions that load and store through them to the variables they start at,
through access chains, copies, choices, calls, and local variables that hold a pointer (not arrays of pointers). The
functions are taken as they stand, without asking which branch runs. It must not know what the variables are bound to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opsplice.common.errors import OpspliceError
from opsplice.common.reaching import reachable
from opsplice.targets.formats.spirv.spirv_reader import Declarations, Instruction, Op, damaged, functions

# Where the pointer is that an instruction derives its result from, its result being a pointer too.
_CHAINS = {60: 2, 65: 2, 66: 2, 67: 2, 70: 2, 83: 2, 124: 2, 4419: 3, 4420: 3, 4423: 3, 4424: 3, 5398: 2}
# Where the pointer is that an instruction reads or only asks about: loads, array lengths, matrix loads.
_READS = {61: 2, 63: 1, 64: 1, 68: 2, 227: 2, 4425: 3, 4457: 2, 5359: 2}
# Where the pointer is that an instruction writes through: stores, copies, atomics, matrix stores.
_WRITES = dict.fromkeys((62, 63, 64, 228, 319, 4458, 5360), 0)
_WRITES |= dict.fromkeys((*range(229, 243), 318, 5614, 5615, 6035), 2)
# GLSL.std.450's functions that write their second result through a pointer: Modf, Frexp.
_GLSL = "GLSL.std.450"
_GLSL_WRITES = (35, 51)

_OP_EXT_INST, _OP_PARAMETER, _OP_CALL, _OP_LOAD, _OP_STORE = 12, 55, 57, 61, 62
_OP_SELECT, _OP_PHI, _OP_RETURN_VALUE = 169, 245, 254
_FIRST_EXTENSION = 4096

# Many entry points that share much code would cost their product.
_MOST_STEPS = 4_000_000


@dataclass(frozen=True)
class Access:
    """Ids of global variables.

    used:    touched at all.
    written: written through.
    unclear: given to an instruction of an extension that is not known here, which may write.
    """

    used: frozenset[int]
    written: frozenset[int]
    unclear: frozenset[int]


@dataclass
class _Function:
    parameters: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)  # pointer -> what it derives from
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    unclear: list[int] = field(default_factory=list)
    calls: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)  # result, function, arguments

    @property
    def steps(self) -> int:
        pointers = len(self.returned) + len(self.reads) + len(self.writes) + len(self.unclear)
        return 1 + pointers + len(self.sources) + sum(1 + len(arguments) for _, _, arguments in self.calls)


class Accesses:
    """The functions of a module, read once; `of` asks about one entry point.

    Raises OpspliceError when an instruction lacks operands, or when the entry points together cost too much.
    """

    def __init__(self, instructions: Sequence[Instruction], declared: Declarations, name: str) -> None:
        self._globals = declared.variables
        self._name = name
        self._steps = 0
        self._glsl = {target for target, text in declared.imports.items() if text == _GLSL}
        self._pointer_types = {
            target
            for target, kind in declared.types.items()
            if kind.opcode in (Op.TYPE_POINTER, Op.TYPE_UNTYPED_POINTER)
        }
        self._functions: dict[int, _Function] = {}
        for body in functions(instructions, name):
            current, pointers, opcode = _Function(), set[int](), Op.FUNCTION
            try:
                self._functions[body[0][1][1]] = current
                for opcode, operands in body[1:-1]:
                    self._read(current, pointers, opcode, operands)
            except IndexError:
                raise damaged(name, f"an instruction (opcode {opcode}) lacks operands") from None

    def _read(self, current: _Function, pointers: set[int], opcode: int, operands: tuple[int, ...]) -> None:
        """One instruction of a function. pointers: ids of the pointers that the function has made so far."""
        if opcode in _CHAINS:
            current.sources.append((operands[1], operands[_CHAINS[opcode]]))
            pointers.add(operands[1])
            return
        if opcode in _READS:
            current.reads.append(operands[_READS[opcode]])
        if opcode in _WRITES:
            current.writes.append(operands[_WRITES[opcode]])
        if opcode == _OP_STORE and (operands[1] in pointers or operands[1] in self._globals):
            # A pointer that is kept in a variable: what is loaded from there later derives from it.
            current.sources.append((operands[0], operands[1]))
        elif opcode in (_OP_LOAD, _OP_SELECT, _OP_PHI, _OP_PARAMETER, _OP_CALL):
            self._read_pointer(current, pointers, opcode, operands)
        elif opcode == _OP_RETURN_VALUE:
            current.returned.append(operands[0])
        elif opcode == _OP_EXT_INST and operands[2] in self._glsl and operands[3] in _GLSL_WRITES:
            current.writes.append(operands[5])
        elif opcode >= _FIRST_EXTENSION and opcode not in _READS and opcode not in _WRITES:
            current.unclear += [word for word in operands if word in pointers or word in self._globals]

    def _read_pointer(self, current: _Function, pointers: set[int], opcode: int, operands: tuple[int, ...]) -> None:
        """An instruction whose result may be a pointer."""
        kind, result = operands[0], operands[1]
        if opcode == _OP_PARAMETER:
            current.parameters.append(result)
        elif opcode == _OP_CALL:
            current.calls.append((result, operands[2], operands[3:]))
        if kind not in self._pointer_types:
            return
        pointers.add(result)
        if opcode == _OP_LOAD:
            current.sources.append((result, operands[2]))
        elif opcode == _OP_SELECT:
            current.sources += [(result, operands[3]), (result, operands[4])]
        elif opcode == _OP_PHI:
            current.sources += [(result, value) for value in operands[2::2]]

    def of(self, entry: int) -> Access:
        """What the function with the id `entry`, and those that it calls, touch."""
        functions = self._reached(entry)
        reached = functions.values()
        self._steps += sum(function.steps for function in reached)
        if self._steps > _MOST_STEPS:
            raise OpspliceError(
                f"{self._name} has too many entry points for its size", hint="put the kernels into several modules"
            )
        sources = self._sources(functions)
        touched = [pointer for function in reached for pointer in (*function.reads, *function.unclear)]
        written = self._roots([pointer for function in reached for pointer in function.writes], sources)
        unclear = self._roots([pointer for function in reached for pointer in function.unclear], sources)
        return Access(self._roots(touched, sources) | written, written, unclear)

    def _reached(self, entry: int) -> dict[int, _Function]:
        def called(target: int) -> list[int]:
            if target not in self._functions:
                raise damaged(self._name, "it lacks a function that an entry point needs")
            return [each for _, each, _ in self._functions[target].calls]

        reached = list(reachable([entry], called))  # all of them, before any is taken: one may be missing
        return {target: self._functions[target] for target in reached}

    def _sources(self, reached: dict[int, _Function]) -> dict[int, list[int]]:
        sources: dict[int, list[int]] = {}
        for target, function in reached.items():
            # What a call gives is what its function returns, kept once under the function's own id.
            sources.setdefault(target, []).extend(function.returned)
            for pointer, source in function.sources:
                sources.setdefault(pointer, []).append(source)
            for result, called, arguments in function.calls:
                for parameter, argument in zip(reached[called].parameters, arguments, strict=False):
                    sources.setdefault(parameter, []).append(argument)
                sources.setdefault(result, []).append(called)
        return sources

    def _roots(self, pointers: Iterable[int], sources: dict[int, list[int]]) -> frozenset[int]:
        return frozenset(self._globals.keys() & set(reachable(pointers, lambda at: sources.get(at, []))))

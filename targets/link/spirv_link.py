"""Functions of SPIR-V modules put where another module imports them: the linker that drivers of Vulkan do not have.

    OpDecorate %3 LinkageAttributes "gelu" Import        =>
    %3 = OpFunction %float None %f                       =>      %3 = OpFunction %float None %f
         OpFunctionEnd                                                ... the body, with ids of its own
                                                                     OpFunctionEnd

Format: the SPIR-V specification 1.6, sections 2.4 (the order of a module), 2.13 (linkage), 2.8 (types that a module may
declare once only) and 3.32 (instructions). A library's functions go by the names that it exports, or else by those for
debugging. What they need is declared again: types, constants, extended instructions. It must not know what the
functions are for.
"""

from __future__ import annotations

import collections
import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from opsplice.common.errors import OpspliceError
from opsplice.common.reaching import reachable
from opsplice.targets.formats.spirv import spirv_reader
from opsplice.targets.formats.spirv.spirv_reader import IGNORED, Instruction, Op
from opsplice.targets.link.function_choice import choose

_LINKAGE_ATTRIBUTES, _EXPORT, _IMPORT = 41, 0, 1
_LINKAGE, _ADDRESSES, _KERNEL = 5, 4, 6
_MEMORY_MODEL, _CALL, _TYPE_FUNCTION = 14, 57, 33

# The order of a module's parts, by the instructions in them; then come declarations, then functions.
_PARTS: tuple[tuple[int, ...], ...] = (
    (17,), (10,), (11,), (_MEMORY_MODEL,), (15,), (16, 331), (7, 3, 4, 2), (5, 6), (330,),
    (71, 72, 73, 74, 75, 332, 5632, 5633),
)  # fmt: skip
_DECLARATIONS, _FUNCTIONS = len(_PARTS), len(_PARTS) + 1
_PART_OF = {opcode: number for number, opcodes in enumerate(_PARTS) for opcode in opcodes}

# What the operands of instructions are: r a result, i an id, l a word that says itself; the last part is for the rest.
_DECLARED = {
    1: ("ir", ""), 19: ("r", ""), 20: ("r", ""), 21: ("r", "l"), 22: ("r", "l"), 23: ("ri", "l"), 24: ("ri", "l"),
    28: ("rii", ""), 30: ("r", "i"), 32: ("rl", "i"), _TYPE_FUNCTION: ("r", "i"), 41: ("ir", ""), 42: ("ir", ""),
    43: ("ir", "l"), 44: ("ir", "i"), 46: ("ir", ""),
}  # fmt: skip
_BODY = {
    1: ("ir", ""), 12: ("iril", "i"), Op.FUNCTION: ("irl", "i"), 55: ("ir", ""), Op.FUNCTION_END: ("", ""),
    _CALL: ("ir", "i"), Op.VARIABLE: ("irl", "i"), 61: ("iri", "l"), 62: ("ii", "l"), 65: ("ir", "i"), 66: ("ir", "i"),
    77: ("ir", "i"), 78: ("ir", "i"), 79: ("irii", "l"), 80: ("ir", "i"), 81: ("iri", "l"), 82: ("irii", "l"),
    83: ("ir", "i"), 84: ("ir", "i"), 245: ("ir", "i"), 246: ("ii", "l"), 247: ("i", "l"), 248: ("r", ""),
    249: ("i", ""), 250: ("iii", "l"), 251: ("ii", "li"), 253: ("", ""), 254: ("i", ""), 255: ("", ""),
    # Conversions, arithmetic, comparisons and bits.
    **dict.fromkeys((*range(109, 117), 118, 119, *range(124, 153), *range(154, 192), *range(194, 206)), ("ir", "i")),
}  # fmt: skip
# A module declares such a type once.
_ONCE = frozenset({19, 20, 21, 22, 23, 24, 32, _TYPE_FUNCTION})
_WHAT = {
    Op.VARIABLE: "a variable outside of functions", 48: "a specialization constant", 49: "a specialization constant",
    50: "a specialization constant", 51: "a specialization constant", 52: "a specialization constant", 252: "a discard",
    Op.TYPE_IMAGE: "images", Op.TYPE_RUNTIME_ARRAY: "arrays of no known size", 224: "a barrier", 225: "a barrier",
}  # fmt: skip
_DEEPEST = 64
_FORMATS = {16: "f16", 32: "f32", 64: "f64"}


@dataclass(frozen=True)
class _Function:
    """A function of a module: its id, and its instructions from OpFunction to OpFunctionEnd."""

    id: int
    instructions: tuple[Instruction, ...]

    @property
    def kind(self) -> int:
        """The id of its type."""
        return self.instructions[0][1][3]

    def calls(self) -> Iterator[int]:
        for opcode, operands in self.instructions:
            if opcode == _CALL:
                yield operands[2]


@dataclass
class _Module:
    """A module in its parts, in the order of `_PARTS`, and what they say. name: how errors call it."""

    name: str
    header: tuple[int, ...]
    parts: list[list[Instruction]]
    functions: dict[int, _Function]
    imports: dict[str, int] = field(default_factory=dict)
    exports: dict[str, int] = field(default_factory=dict)

    def declared(self) -> Iterator[tuple[int, Instruction]]:
        """What is declared outside of functions, by its id, in order; with the names of instruction sets."""
        for opcode, operands in self.parts[_PART_OF[Op.EXT_INST_IMPORT]]:
            yield operands[0], (opcode, operands)
        for opcode, operands in self.parts[_DECLARATIONS]:
            yield operands[0] if Op.TYPE_BOOL - 1 <= opcode < 40 else operands[1], (opcode, operands)

    def types(self, functions: Mapping[str, int]) -> dict[str, str]:
        """The types of functions by name, as MLIR writes them, as far as functions on elements have such."""
        declared = dict(self.declared())

        @functools.cache
        def text(kind: int, *, inside: bool = True) -> str:
            opcode, operands = declared.get(kind, (0, ()))
            if opcode == _TYPE_FUNCTION and not inside and len(operands) > 1:
                return f"({', '.join(map(text, operands[2:]))}) -> {text(operands[1])}"
            if opcode == Op.TYPE_FLOAT and len(operands) == 2:  # a third says that it is not IEEE's
                return _FORMATS.get(operands[1], f"f{operands[1]}")
            width = operands[1] if len(operands) > 1 else 0
            known = {0: "?", Op.TYPE_INT: f"i{width}", Op.TYPE_BOOL: "i1", 19: "()"}
            return known.get(opcode, f"a type of opcode {opcode}")

        return {symbol: text(self.functions[at].kind, inside=False) for symbol, at in functions.items()}


@dataclass(frozen=True)
class Library:
    """A module whose functions others may import. name: how errors call it. prefix: what their names begin with."""

    name: str
    data: bytes
    prefix: str = ""

    def functions(self) -> dict[str, str]:
        """The types of its functions by name, as `(f32) -> f32`. Raises OpspliceError for what is no such module."""
        return self.module.types(self.module.exports)

    @cached_property
    def module(self) -> _Module:
        module = _read(self.data, self.name)
        return replace(module, exports={f"{self.prefix}{symbol}": at for symbol, at in module.exports.items()})


def as_library(data: bytes, name: str) -> bytes:
    """A module that says that it is one of functions, and so needs no entry point."""
    module = _read(data, name)
    capabilities = module.parts[_PART_OF[Op.CAPABILITY]]
    if (Op.CAPABILITY, (_LINKAGE,)) not in capabilities:
        capabilities.append((Op.CAPABILITY, (_LINKAGE,)))
    return _Linker(module).written()


def imports(data: bytes, name: str) -> dict[str, str]:
    """The types of the functions that a module imports, by name. Raises OpspliceError for what is not SPIR-V."""
    module = _read(data, name)
    return module.types(module.imports)


def check(library: Library, symbols: Sequence[str]) -> None:
    """Raise OpspliceError for functions of a library that read or do what functions on elements cannot."""
    module = library.module
    imports = {symbol: module.exports[symbol] for symbol in symbols}
    functions = {at: module.functions[at] for at in imports.values()}
    alone = _Module(library.name, module.header, [[] for _ in module.parts], functions, imports)
    _Linker(alone).add(module, symbols)


def link(data: bytes, name: str, libraries: Sequence[Library], partly: bool = False) -> bytes:
    """A module with what it imports from libraries, of which the last one that has a function is taken.

    partly: leave imports that no library has.
    Raises OpspliceError for other imports that no library has, for those that one has with another type, and for
    functions that read or do what functions on elements cannot.
    """
    module = _read(data, name)
    imports = module.types(module.imports)
    if partly:
        there = set().union(*(library.functions() for library in libraries))
        imports = {symbol: kind for symbol, kind in imports.items() if symbol in there}
    linker = _Linker(module)
    for library, symbols in choose(imports, name, libraries, "a .spv with functions, or a .wgsl"):
        linker.add(library.module, symbols)
    return linker.written()


class _Linker:
    def __init__(self, module: _Module) -> None:
        self.module = module
        self.bound = module.header[3]
        self.types = {(opcode, operands[1:]): at for at, (opcode, operands) in module.declared() if opcode in _ONCE}
        self.sets = {operands[1:]: at for at, (opcode, operands) in module.declared() if opcode == Op.EXT_INST_IMPORT}

    def add(self, library: _Module, symbols: Sequence[str]) -> None:
        """Put functions of a library in the place of imports, which have their types."""
        try:
            self._add(library, symbols)
        except (IndexError, KeyError) as error:
            why = f"a function refers to what is not there ({error})"
            raise spirv_reader.damaged(self.module.name, why) from None

    def _add(self, library: _Module, symbols: Sequence[str]) -> None:
        wanted = {symbol: library.exports[symbol] for symbol in symbols}
        functions = _with_called(library, list(wanted.values()))
        ids = {wanted[symbol]: self.module.imports[symbol] for symbol in wanted}
        ids |= {function.id: self._fresh() for function in functions if function.id not in ids}
        needed = _needed(library, functions)
        for at, instruction in library.declared():
            if at in needed:
                self._declare(at, instruction, ids, library)
        for symbol in wanted:
            del self.module.functions[self.module.imports.pop(symbol)]
        for function in functions:
            self.module.functions[ids[function.id]] = self._copied(function, ids, library)
        self._add_heads(library, ids)

    def written(self) -> bytes:
        parts = [list(part) for part in self.module.parts]
        open_ = self.module.imports.values()
        parts[_PART_OF[Op.DECORATE]] = [
            each
            for each in parts[_PART_OF[Op.DECORATE]]
            if each[1][1:2] != (_LINKAGE_ATTRIBUTES,) or each[1][0] in open_
        ]
        parts[_FUNCTIONS] = [each for function in self.module.functions.values() for each in function.instructions]
        words = [*self.module.header[:3], self.bound, 0]
        for opcode, operands in (each for part in parts for each in part):
            words += [len(operands) + 1 << 16 | opcode, *operands]
        return struct.pack(f"<{len(words)}I", *words)

    def _fresh(self) -> int:
        self.bound += 1
        return self.bound - 1

    def _declare(self, at: int, instruction: Instruction, ids: dict[int, int], library: _Module) -> None:
        opcode, operands = instruction
        if opcode == Op.EXT_INST_IMPORT:
            known = self.sets.get(operands[1:])
            if known is None:
                known = self.sets[operands[1:]] = self._fresh()
                self.module.parts[_PART_OF[opcode]].append((opcode, (known, *operands[1:])))
            ids[at] = known
            return
        if opcode not in _DECLARED:
            raise _unfit(library, opcode)
        ids[at] = -1
        others = tuple(_mapped(_DECLARED, instruction, ids))
        if opcode == Op.TYPE_INT:
            others = (*others[:2], 0)  # MLIR's integers have no sign, and instructions do not look for one
        key = opcode, others[1:]
        if opcode in _ONCE and key in self.types:
            ids[at] = self.types[key]
            return
        ids[at] = self._fresh()
        self.module.parts[_DECLARATIONS].append((opcode, tuple(ids[at] if word == -1 else word for word in others)))
        if opcode in _ONCE:
            self.types[key] = ids[at]

    def _copied(self, function: _Function, ids: dict[int, int], library: _Module) -> _Function:
        for opcode, operands in function.instructions:
            if opcode not in _BODY and opcode not in IGNORED:
                raise _unfit(library, opcode)
            place = _BODY.get(opcode, ("", ""))[0].find("r")
            if place >= 0 and opcode != Op.FUNCTION:
                ids[operands[place]] = self._fresh()
        copied = [
            (each[0], tuple(_mapped(_BODY, each, ids))) for each in function.instructions if each[0] not in IGNORED
        ]
        return _Function(ids[function.id], tuple(copied))

    def _add_heads(self, library: _Module, ids: Mapping[int, int]) -> None:
        """What the library says of itself and of what was taken from it: capabilities, extensions and decorations."""
        for opcode in (Op.CAPABILITY, Op.EXTENSION):
            part = self.module.parts[_PART_OF[opcode]]
            part += [each for each in library.parts[_PART_OF[opcode]] if each not in part and each[1] != (_LINKAGE,)]
        for opcode, operands in library.parts[_PART_OF[Op.DECORATE]]:
            if opcode in (Op.DECORATE, Op.MEMBER_DECORATE) and operands[0] in ids:
                decoration = operands[1] if opcode == Op.DECORATE else operands[2]
                if decoration != _LINKAGE_ATTRIBUTES:
                    self.module.parts[_PART_OF[opcode]].append((opcode, (ids[operands[0]], *operands[1:])))


def _with_kinds(kinds: Mapping[int, tuple[str, str]], instruction: Instruction) -> Iterator[tuple[str, int]]:
    """The operands of an instruction, each with what it is; none of one that is not known."""
    opcode, operands = instruction
    if opcode not in kinds:
        return
    first, rest = kinds[opcode]
    for place, word in enumerate(operands):
        beyond = place - len(first)
        yield first[place] if beyond < 0 else (rest or "l")[beyond % max(len(rest), 1)], word


def _mapped(kinds: Mapping[int, tuple[str, str]], instruction: Instruction, ids: Mapping[int, int]) -> Iterator[int]:
    """The operands of an instruction, with other ids."""
    for kind, word in _with_kinds(kinds, instruction):
        yield word if kind == "l" else ids[word]


def _ids_in(kinds: Mapping[int, tuple[str, str]], instruction: Instruction) -> Iterator[int]:
    """The ids that an instruction names."""
    return (word for kind, word in _with_kinds(kinds, instruction) if kind != "l")


def _with_called(library: _Module, wanted: Sequence[int]) -> list[_Function]:
    """Functions and those that they call, each once. Raises OpspliceError for one that comes to call itself."""
    found: dict[int, _Function] = {}

    def visit(at: int, around: tuple[int, ...]) -> None:
        if at in around:
            raise OpspliceError(f"a function of {library.name} calls itself", hint="no shader may")
        if len(around) > _DEEPEST:
            raise OpspliceError(f"functions of {library.name} call each other more than {_DEEPEST} deep")
        if at not in found:
            function = library.functions[at]
            for called in function.calls():
                visit(called, (*around, at))
            found[at] = function

    for at in wanted:
        visit(at, ())
    return list(found.values())


def _needed(library: _Module, functions: Sequence[_Function]) -> set[int]:
    """The ids of what functions use that is declared outside of them, and what that uses in turn."""
    declared = dict(library.declared())
    used = [at for function in functions for each in function.instructions for at in _ids_in(_BODY, each)]
    return declared.keys() & set(reachable(used, lambda at: _ids_in(_DECLARED, declared[at]) if at in declared else ()))


def _unfit(library: _Module, opcode: int) -> OpspliceError:
    return OpspliceError(
        f"a function of {library.name} has {_WHAT.get(opcode, f'an instruction of opcode {opcode}')}",
        hint="a function on elements works on its arguments alone, with arithmetic, variables and control flow",
    )


def _read(data: bytes, name: str) -> _Module:
    """Raises OpspliceError for what is not SPIR-V, is damaged, or is for OpenCL."""
    _, instructions = spirv_reader.read_instructions(data, name)
    declarations, first = spirv_reader.read_declarations(instructions, name)
    if {_ADDRESSES, _KERNEL} & set(declarations.capabilities):
        raise OpspliceError(f"{name} is for OpenCL", hint="build it for Vulkan, as with naga or glslang")
    parts: list[list[Instruction]] = [[] for _ in range(_FUNCTIONS + 1)]
    for opcode, operands in instructions[:first]:
        if opcode not in IGNORED:
            parts[_PART_OF.get(opcode, _DECLARATIONS)].append((opcode, operands))
    try:
        bodies = spirv_reader.functions(instructions[first:], name)
        functions = {body[0][1][1]: _Function(body[0][1][1], tuple(body)) for body in bodies}
        words = struct.unpack_from("<5I" if data[:4] == struct.pack("<I", spirv_reader.MAGIC) else ">5I", data)
        module = _Module(name, words, parts, functions)
        for function in functions.values():
            function.kind  # noqa: B018 - read for its errors, as what is declared
        collections.deque(module.declared(), maxlen=0)
        entries = {function for _, function, _ in declarations.entries}
        for at, symbol in declarations.names.items():
            if at in functions and at not in entries:
                module.exports.setdefault(symbol, at)
        for opcode, operands in parts[_PART_OF[Op.DECORATE]]:
            if opcode == Op.DECORATE and operands[1] == _LINKAGE_ATTRIBUTES and operands[0] in functions:
                symbol, kind = _text(operands[2:-1]), operands[-1]
                (module.imports if kind == _IMPORT else module.exports)[symbol] = operands[0]
    except IndexError:
        raise spirv_reader.damaged(name, "an instruction lacks operands") from None
    for symbol, at in module.imports.items():
        if module.exports.get(symbol) == at:
            del module.exports[symbol]
    return module


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).partition(b"\0")[0].decode("utf-8", "replace")

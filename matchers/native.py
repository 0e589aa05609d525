"""Reading a program in machine code: `native.ll`, made runnable once in a process, and the memory that it works on.

MLIR's Python bindings take about a microsecond for each thing asked of an op; MLIR's C functions, which the compiler's
library exports for these bindings, take a few nanoseconds. So the loops that meet every op are in LLVM's language.

Source of the C functions' signatures: mlir-c/IR.h and mlir-c/Dialect/Linalg.h of LLVM. Their handles are structures of
one pointer, which C passes as that pointer.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from iree.compiler import _mlir_libs, ir

# Traits of an op's name: the low bits of what `native.ll` asks for when it meets the name for the first time.
BARE = 1 << 0  # its attributes do not count
MAPS = 1 << 1  # of its attributes only the indexing maps count
BODY = 1 << 2  # what its body holds counts
FLAT = 1 << 3  # with regions it cannot be told how it looks
OPAQUE = 1 << 4  # of what it is made from nothing counts
WANTED = 1 << 5  # patterns can start there, or at what ends with it
CLOSED = 1 << 6  # its regions hold no places
ENDING = 1 << 7  # it ends with the op whose result its body yields

_NAMES, _SLOTS = 1 << 13, 1 << 17
MOST_STATES = _SLOTS // 2
MOST_WORDS = 1 << 21
_STEP_WORDS, _VALUES, _PLACES = 1 << 16, 1 << 13, 1 << 22
_POINTER = ctypes.c_void_p
_WORD = ctypes.sizeof(ctypes.c_int64)
_Ask = ctypes.PYFUNCTYPE(ctypes.c_int64, _POINTER)
_VALUE, _OPERATION = b"iree.compiler.ir.Value._CAPIPtr", b"iree.compiler.ir.Operation._CAPIPtr"


class _List(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("room", ctypes.c_int64), ("words", _POINTER)]


class _Recall(ctypes.Structure):
    """`%recall` of native.ll."""

    _fields_ = [
        ("ask", _POINTER),
        ("names", _POINTER),
        ("slots", _POINTER),
        ("entries", _List),
        ("asked", _POINTER),
        ("found", _POINTER),
        ("states", ctypes.c_int64),
        ("most_states", ctypes.c_int64),
        ("step", _List),
        ("uses", _List),
        ("inside", _List),
        ("values", _List),
        ("found_last", ctypes.c_int64),
    ]


class _Text(ctypes.Structure):
    """`MlirStringRef`."""

    _fields_ = [("start", _POINTER), ("length", ctypes.c_size_t)]


class States:
    """What was found at places that look alike, as states that looks at the values around a place lead through.

    traits: gives those of an op's name. The memory is taken from the system as it is used.
    """

    def __init__(self, traits: Callable[[str], int]) -> None:
        known = 0

        def ask(name: int) -> int:
            nonlocal known
            known += 1
            if known > _NAMES // 2:  # names are asked for again rather than that their table gets full
                ctypes.memset(names, 0, ctypes.sizeof(names))
                known = 1
            return traits(_name(name))

        self._code = _code()
        self._ask = _Ask(ask)
        sizes = [2 * _NAMES, _SLOTS, MOST_WORDS, MOST_STATES, MOST_STATES, _STEP_WORDS, _VALUES, _VALUES, _VALUES]
        self._memory = mmap.mmap(-1, sum(sizes) * _WORD)
        parts = []
        start = 0
        for size in sizes:
            parts.append((ctypes.c_int64 * size).from_buffer(self._memory, start * _WORD))
            start += size
        names, slots, entries, asked, self._found, step, uses, inside, self._values = parts
        self._asked = asked
        self._recall = _Recall(
            ctypes.cast(self._ask, _POINTER),
            ctypes.addressof(names),
            ctypes.addressof(slots),
            _List(0, MOST_WORDS, ctypes.addressof(entries)),
            ctypes.addressof(asked),
            ctypes.addressof(self._found),
            1,
            MOST_STATES,
            *(_List(0, len(words), ctypes.addressof(words)) for words in (step, uses, inside, self._values)),
        )
        self._at = ctypes.addressof(self._recall)

    @property
    def is_nearly_full(self) -> bool:
        recall = self._recall
        return bool(recall.states > MOST_STATES * 0.9 or recall.entries.count > MOST_WORDS * 0.9)

    def pick(self, op: ir.Operation) -> Any:
        """The addresses of the results of wanted ops in an op, in the order of the program, as an array."""
        room = _PLACES
        while True:
            memory = mmap.mmap(-1, room * _WORD)
            words = (ctypes.c_int64 * room).from_buffer(memory)
            places = _List(0, room, ctypes.addressof(words))
            self._code.pick(self._at, _address(op._CAPIPtr, _OPERATION), ctypes.addressof(places))
            if places.count <= room:
                return (ctypes.c_int64 * places.count).from_buffer(memory)
            room = places.count

    def skip(self, places: Any, start: int) -> int:
        """The first place from `start` on that something has to be done at; the number of places if there is none."""
        return int(self._code.skip(self._at, ctypes.addressof(places), start, len(places)))

    @property
    def found(self) -> int:
        """What `keep` was told of places that look as the one that `skip` came to, 0 if it looks new."""
        return int(self._recall.found_last)

    def values(self) -> list[int]:
        """The addresses of the values around the place that `skip` came to, or that was learned since, by number."""
        return self._values[: self._recall.values.count]

    def start(self, place: int) -> None:
        """Begin to learn how a place looks, from state 0."""
        self._code.start(self._at, place)

    def learn(self, state: int, value: int) -> int:
        """The state that a look at a value around the place leads to; negative if it cannot be told or kept."""
        return int(self._code.learn(self._at, state, value))

    def is_open(self, state: int) -> bool:
        """Whether a state neither asks for another look nor knows what is found there."""
        return not self._asked[state] and not self._found[state]

    def keep(self, state: int, found: int) -> None:
        """Say what is found in a state, negative if nothing has to be done at places that lead there."""
        self._found[state] = found


def address_of(value: ir.Value) -> int:
    return _address(value._CAPIPtr, _VALUE)


def value_at(address: int) -> ir.Value:
    """The value of a module that is alive."""
    return ir.Value._CAPICreate(ctypes.pythonapi.PyCapsule_New(address, _VALUE, None)).maybe_downcast()


def _address(capsule: Any, name: bytes) -> int:
    return int(ctypes.pythonapi.PyCapsule_GetPointer(capsule, name))


def _name(identifier: int) -> str:
    text = _library().mlirIdentifierStr(identifier)
    return ctypes.string_at(text.start, text.length).decode()


# ---- once in a process -----------------------------------------------------------------------------------------------


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiler's library, which the bindings have loaded; and the types of the functions called from here."""
    folder = Path(str(_mlir_libs.__file__)).parent
    library = ctypes.CDLL(str(next(folder.glob("libIREECompiler.*"))))
    library.mlirIdentifierStr.argtypes, library.mlirIdentifierStr.restype = [_POINTER], _Text
    capsules = ctypes.pythonapi
    capsules.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsules.PyCapsule_GetPointer.restype = _POINTER
    capsules.PyCapsule_New.argtypes, capsules.PyCapsule_New.restype = (
        [_POINTER, ctypes.c_char_p, _POINTER],
        ctypes.py_object,
    )
    return library


class _Code:
    """The functions of native.ll. They keep Python's lock: they are short, and ask Python for traits of names."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # takes longer to load than most of opsplice

        library = _library()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = (resources.files("opsplice.matchers") / "native.ll").read_text(encoding="utf-8")
        module = llvm.parse_assembly(text)
        for declared in module.functions:
            if declared.is_declaration:
                address = ctypes.cast(getattr(library, declared.name), _POINTER).value
                llvm.add_symbol(declared.name, address)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        self._engine = engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()

        def function(name: str, result: Any, *parameters: Any) -> Any:
            return ctypes.PYFUNCTYPE(result, *parameters)(engine.get_function_address(name))

        number = ctypes.c_int64
        self.pick = function("pick", None, _POINTER, _POINTER, _POINTER)
        self.skip = function("skip", number, _POINTER, _POINTER, number, number)
        self.start = function("start", None, _POINTER, _POINTER)
        self.learn = function("learn", number, _POINTER, number, _POINTER)


_code = functools.cache(_Code)

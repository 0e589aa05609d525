"""Functions linked into SPIR-V modules: what is written, what is refused, and that no file does harm. That drivers run
it is tested in tests/rewrites/approaches/test_functions_from_plugins.py."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import SpirvTarget
from opsplice.targets.build import spirv_val
from opsplice.targets.formats.spirv.spirv_reader import read_instructions
from opsplice.targets.link import function_link
from opsplice.targets.link.spirv_link import Library, imports, link
from tests.effort import examples
from tests.targets.formats import spirv_assembly as spv

RETURN_VALUE, NEGATE, ADD = 254, 127, 129
LINKAGE, IMPORT, EXPORT = 41, 1, 0


def program(result: int = 2, *more: tuple[int, ...]) -> bytes:
    """An entry that calls the imported f(float), of id 5."""
    return spv.binary(
        spv.op(spv.CAPABILITY, 1),
        spv.op(spv.MEMORY_MODEL, 0, 1),
        spv.op(spv.ENTRY_POINT, 5, 9, "main"),
        spv.op(spv.MODE, 9, 17, 1, 1, 1),
        spv.op(spv.NAME, 5, "f"),
        spv.op(spv.DECORATE, 5, LINKAGE, "f", IMPORT),
        spv.op(spv.FLOAT, 2, 32),
        spv.op(spv.FUNCTION_TYPE, 3, 2, 2),
        spv.op(spv.VOID, 6),
        spv.op(spv.FUNCTION_TYPE, 7, 6),
        spv.op(spv.CONSTANT, 2, 8, 0x3F800000),
        *more,
        spv.op(spv.FUNCTION, result, 5, 0, 3),
        spv.op(spv.PARAMETER, 2, 4),
        spv.op(spv.FUNCTION_END),
        spv.op(spv.FUNCTION, 6, 9, 0, 7),
        spv.op(spv.LABEL, 10),
        spv.op(spv.CALL, 2, 11, 5, 8),
        spv.op(spv.RETURN),
        spv.op(spv.FUNCTION_END),
    )


# float g(float x) { return -x; }  float f(float x) { return g(x) + 1.5; }, with ids that the program has for others.
LIBRARY = (
    spv.op(spv.CAPABILITY, 1),
    spv.op(spv.CAPABILITY, 5),
    spv.op(spv.MEMORY_MODEL, 0, 1),
    spv.op(spv.NAME, 9, "f"),
    spv.op(spv.NAME, 5, "g"),
    spv.op(spv.DECORATE, 11, 0),  # RelaxedPrecision
    spv.op(spv.FLOAT, 7, 32),
    spv.op(spv.FUNCTION_TYPE, 8, 7, 7),
    spv.op(spv.CONSTANT, 7, 4, 0x3FC00000),
    spv.op(spv.FUNCTION, 7, 5, 0, 8),
    spv.op(spv.PARAMETER, 7, 1),
    spv.op(spv.LABEL, 2),
    spv.op(NEGATE, 7, 3, 1),
    spv.op(RETURN_VALUE, 3),
    spv.op(spv.FUNCTION_END),
    spv.op(spv.FUNCTION, 7, 9, 0, 8),
    spv.op(spv.PARAMETER, 7, 12),
    spv.op(spv.LABEL, 13),
    spv.op(spv.CALL, 7, 11, 5, 12),
    spv.op(ADD, 7, 14, 11, 4),
    spv.op(RETURN_VALUE, 14),
    spv.op(spv.FUNCTION_END),
)


def library(*instructions: tuple[int, ...], name: str = "k.spv") -> Library:
    return Library(name, spv.binary(*(instructions or LIBRARY)))


def instructions_of(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    return read_instructions(data, "linked")[1]


def test_what_is_there_and_what_is_wanted():
    assert imports(program(), "p.spv") == {"f": "(f32) -> f32"}
    assert library().functions() == {"f": "(f32) -> f32", "g": "(f32) -> f32"}


def test_a_function_and_what_it_calls(tmp_path):
    linked = link(program(), "p.spv", [library()])
    assert imports(linked, "linked") == {}
    found = instructions_of(linked)
    assert [op for op, _ in found].count(spv.FUNCTION) == 3
    assert [operands[1] for op, operands in found if op == spv.FUNCTION].count(5) == 1  # in the place of the import
    for once in (spv.FLOAT, spv.MEMORY_MODEL, spv.ENTRY_POINT):
        assert [op for op, _ in found].count(once) == 1
    assert [operands for op, operands in found if op == spv.FUNCTION_TYPE] == [(3, 2, 2), (7, 6)]
    assert [operands for op, operands in found if op == spv.CAPABILITY] == [(1,)]  # without Linkage
    (decorated,) = [operands for op, operands in found if op == spv.DECORATE]
    assert decorated[1:] == (0,)
    assert decorated[0] in [operands[1] for op, operands in found if op == spv.CALL]
    path = tmp_path / "linked.spv"
    path.write_bytes(linked)
    if (program_path := spirv_val.find()) is not None:
        assert spirv_val.validate(program_path, path, path.name, SpirvTarget()) == ()


def test_names_that_are_exported_come_before_those_for_debugging():
    named = spv.op(spv.DECORATE, 5, LINKAGE, "f", EXPORT)
    at = next(i for i, each in enumerate(LIBRARY) if each[0] & 0xFFFF == spv.FLOAT)
    linked = link(program(), "p.spv", [library(*LIBRARY[:at], named, *LIBRARY[at:])])
    assert [op for op, _ in instructions_of(linked)].count(NEGATE) == 1
    assert [op for op, _ in instructions_of(linked)].count(ADD) == 0  # g is f now


def test_both_byte_orders():
    other = Library("k.spv", spv.binary(*LIBRARY, order=">"))
    assert link(program(), "p.spv", [other]) == link(program(), "p.spv", [library()])


def replaced(place: int, *instructions: tuple[int, ...]) -> Library:
    return library(*LIBRARY[:place], *instructions, *LIBRARY[place + 1 :])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            replaced(3, spv.op(spv.NAME, 9, "h")),
            r"p\.spv imports the function 'f' : \(f32\) -> f32, which no plugin has",
        ),
        (replaced(6, spv.op(spv.FLOAT, 7, 64)), r"f of k\.spv is \(f64\) -> f64, and p\.spv imports \(f32\) -> f32"),
        (replaced(1, spv.op(spv.CAPABILITY, 6)), r"k\.spv is for OpenCL"),
        (replaced(18, spv.op(spv.CALL, 7, 11, 9, 12)), "calls itself"),
        (replaced(18, spv.op(224, 4, 4, 4), spv.op(NEGATE, 7, 11, 12)), "has a barrier"),
        (replaced(18, spv.op(87, 7, 11, 12, 12)), "has an instruction of opcode 87"),
        (replaced(8, spv.op(spv.SPEC_CONSTANT, 7, 4, 0)), "has a specialization constant"),
        (replaced(8, spv.op(spv.VARIABLE, 7, 4, 6)), "has a variable outside of functions"),
        (replaced(19, spv.op(ADD, 7, 14, 11, 99)), "is a damaged SPIR-V module"),
        (library(*LIBRARY[:-1]), "a function has no end"),
    ],
)
def test_libraries_that_cannot_be_linked(changed, message):
    with pytest.raises(OpspliceError, match=message):
        link(program(), "p.spv", [changed])


def test_what_there_is_instead_is_said():
    with pytest.raises(OpspliceError) as error:
        link(program(), "p.spv", [replaced(3, spv.op(spv.NAME, 9, "h"))])
    assert error.value.details == "k.spv has g, h"
    with pytest.raises(OpspliceError) as error:
        link(program(), "p.spv", [])
    assert "--plugin" in error.value.hint


@settings(max_examples=examples(75, 15000), deadline=None)
@given(st.data())
def test_no_library_does_harm(data):
    words = list(struct.unpack(f"<{len(library().data) // 4}I", library().data))
    for _ in range(data.draw(st.integers(1, 4))):
        words[data.draw(st.integers(5, len(words) - 1))] = data.draw(st.integers(0, 30) | st.integers(0, 2**32 - 1))
    end = data.draw(st.integers(5, len(words)))
    with contextlib.suppress(OpspliceError):
        link(program(), "p.spv", [Library("k.spv", struct.pack(f"<{end}I", *words[:end]))])


@pytest.mark.skipif(spirv_val.find() is None, reason=f"spirv-val is not installed ({spirv_val.HOW_TO_GET})")
def test_files_are_validated(tmp_path):
    path = tmp_path / "k.spv"
    path.write_bytes(library().data)
    assert function_link.read(path, Store()).functions() == {"f": "(f32) -> f32", "g": "(f32) -> f32"}
    path.write_bytes(replaced(12, spv.op(NEGATE, 7, 3, 7)).data)  # of a type
    with pytest.raises(OpspliceError, match=r"k\.spv is not valid SPIR-V"):
        function_link.read(path, Store())

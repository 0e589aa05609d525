"""Reading ELF objects: what is found in good ones, and that no bytes at all break the reader."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.formats import elf as objects
from tests.effort import examples

GLOBAL, LOCAL, WEAK = 1, 0, 2
FUNCTION, OBJECT, TLS = 2, 1, 6
TEXT, UNDEFINED = 1, 0


def elf(
    symbols, *, machine=62, relocations=(), text_flags=0x6, count=None, kind=1, ident=b"\x7fELF\x02\x01\x01", text=""
):
    """An object with one section of code, called `text`; symbols are (name, binding, type, section).

    relocations: types of those in the code.
    """
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in symbols)
    label, names = len(names), names + text.encode() + b"\0"
    table, offset = bytearray(24), 1
    for name, binding, symbol_kind, section in symbols:
        table += struct.pack("<IBBHQQ", offset, binding << 4 | symbol_kind, 2, section, 0, 0)
        offset += len(name) + 1
    relocated = b"".join(struct.pack("<QQq", 0, relocation, 0) for relocation in relocations)
    bodies = [(1, text_flags, b"\xc3", 0, 0, 0), (3, 0, names, 0, 0, 0)]
    bodies += [(2, 0, bytes(table), 2, 1, 24), (4, 0, relocated, 3, 1, 24)]
    content, headers = b"", [bytes(64)]
    for section_kind, flags, body, link, info, size in bodies:
        place = 64 + len(content)
        name = label if section_kind == 1 else 0
        headers.append(struct.pack("<IIQQQQIIQQ", name, section_kind, flags, 0, place, len(body), link, info, 1, size))
        content += body
    count = len(headers) if count is None else count
    fields = (ident.ljust(16, b"\0"), kind, machine, 1, 0, 0, 64 + len(content), 0, 64, 0, 0, 64, count, 2)
    return struct.pack("<16sHHIQQQIHHHHHH", *fields) + content + b"".join(headers)


KERNEL = ("scale", GLOBAL, FUNCTION, TEXT)


def read(data: bytes) -> objects.ObjectFile:
    return objects.read_object(data, "k.o")


def check(*symbols, wanted="scale", form="object", **layout):
    objects.check_links(read(elf(symbols, **layout)), "k.o", [wanted], form)


def problem(*symbols, **layout) -> OpspliceError:
    with pytest.raises(OpspliceError) as caught:
        check(*symbols, **layout)
    return caught.value


def test_symbols_are_sorted_by_what_a_linker_does_with_them():
    code = read(
        elf(
            [
                ("helper", LOCAL, FUNCTION, TEXT),
                KERNEL,
                ("table", GLOBAL, OBJECT, TEXT),
                ("expf", GLOBAL, 0, UNDEFINED),
                ("hook", WEAK, 0, UNDEFINED),
                ("_GLOBAL_OFFSET_TABLE_", GLOBAL, 0, UNDEFINED),
            ]
        )
    )
    assert code.arch == "x86_64"
    assert code.functions == {"scale"}
    assert code.data == {"table"}
    assert code.local == {"helper"}
    assert code.undefined == {"expf"}
    assert not code.tls
    assert not code.absolute


@pytest.mark.parametrize("section", [".ctors.65535", ".init_array.101", ".preinit_array"])
def test_what_runs_at_loading_is_found_by_its_section(section):
    assert not read(elf([KERNEL], text=".text.scale")).constructors
    assert "has code that is to run when it is loaded" in problem(KERNEL, text=section).message


def test_good_object_passes():
    check(KERNEL, ("hook", WEAK, 0, UNDEFINED))


def test_wrong_architecture_names_both():
    code = read(elf([KERNEL], machine=183))
    with pytest.raises(OpspliceError, match=r"object for aarch64, but the target is x86_64"):
        objects.check_arch(code, "k.o", CpuTarget.of("x86_64").arch)


def test_foreign_architecture_is_named_by_its_number():
    with pytest.raises(OpspliceError, match="ELF machine 20"):
        objects.check_arch(read(elf([KERNEL], machine=20)), "k.o", "x86_64")


def test_absent_symbol_suggests_the_nearest():
    assert "did you mean 'scale'?" in problem(KERNEL, wanted="scales").hint


def test_absent_symbol_lists_what_is_there():
    error = problem(KERNEL, wanted="matmul")
    assert "does not define the function 'matmul'" in error.message
    assert "it defines scale" in error.hint


def test_static_function_is_told_apart():
    assert "remove its 'static'" in problem(("scale", LOCAL, FUNCTION, TEXT)).hint


def test_mangled_function_is_told_apart():
    assert 'extern "C"' in problem(("_Z5scalePKfPfm", GLOBAL, FUNCTION, TEXT)).hint


def test_variable_is_no_kernel():
    assert "is a variable" in problem(("scale", GLOBAL, OBJECT, TEXT)).message


def test_mathematics_in_an_object_points_to_bitcode():
    error = problem(KERNEL, ("expf", GLOBAL, 0, UNDEFINED))
    assert "'expf'" in error.message
    assert "as bitcode" in error.hint


@pytest.mark.parametrize("name", ["expf", "tanhf", "__extendhfsf2"])
def test_where_nothing_is_bitcode_none_is_advised(name):
    code = read(elf([KERNEL, (name, GLOBAL, 0, UNDEFINED)]))
    with pytest.raises(OpspliceError, match=name) as caught:
        objects.check_links(code, "k.o", [], "object", may_be_bitcode=False)
    assert "bitcode" not in caught.value.hint
    assert "system library (.so)" in caught.value.hint


def test_mathematics_that_bitcode_lacks_too_says_to_write_it():
    assert "write it in the kernel" in problem(KERNEL, ("tanl", GLOBAL, 0, UNDEFINED), form="bitcode").hint


def test_bitcode_may_call_what_iree_links():
    check(KERNEL, ("expf", GLOBAL, 0, UNDEFINED), ("memcpy", GLOBAL, 0, UNDEFINED), form="bitcode")


def test_bitcode_may_not_call_the_c_library():
    assert "no C library" in problem(KERNEL, ("printf", GLOBAL, 0, UNDEFINED), form="bitcode").hint


def test_stack_protector_names_its_flag():
    assert "-fno-stack-protector" in problem(KERNEL, ("__stack_chk_fail", GLOBAL, 0, UNDEFINED)).hint


def test_thread_local_variables_are_refused():
    assert "thread-local" in problem(KERNEL, ("count", LOCAL, TLS, TEXT)).message


@pytest.mark.parametrize(("machine", "relocation"), [(62, 11), (62, 1), (183, 264), (243, 26)])
def test_absolute_addresses_in_code_ask_for_fpic(machine, relocation):
    assert "-fPIC" in problem(KERNEL, machine=machine, relocations=[relocation]).hint


def test_absolute_addresses_in_writable_data_are_fine():
    check(KERNEL, relocations=[1], text_flags=0x3)


def test_relative_addresses_in_code_are_fine():
    check(KERNEL, relocations=[2, 4])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"hello world", "is not an ELF object"),
        (b"BC\xc0\xde" + bytes(60), "names end in .bc"),
        (b"!<arch>\n" + bytes(60), "an archive"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "Mach-O"),
        (elf([KERNEL], ident=b"\x7fELF\x01\x01\x01"), "not a 64-bit little-endian"),
        (elf([KERNEL], ident=b"\x7fELF\x02\x02\x01"), "not a 64-bit little-endian"),
        (elf([KERNEL], kind=3), "linked program or library"),
        (elf([KERNEL], count=65535), "section table is not inside"),
        (elf([KERNEL])[:-1], "section table is not inside"),
        (elf([KERNEL])[:40], "header is cut off"),
    ],
)
def test_other_files_are_called_by_their_names(data, said):
    with pytest.raises(OpspliceError, match=said):
        read(data)


def test_object_without_sections_defines_nothing():
    data = bytearray(elf([KERNEL]))
    data[40:48] = bytes(8)
    assert read(bytes(data)).functions == frozenset()


def read_or_refuse(data: bytes) -> bool:
    """Whether the reader gave a result or an error that names the file; any other exception passes."""
    try:
        return isinstance(read(data), objects.ObjectFile)
    except OpspliceError as error:
        return error.message.startswith("k.o ")


@settings(max_examples=examples(75, 15000), deadline=1000)
@given(data=st.data())
def test_no_bytes_break_the_reader(data):
    """Whole objects with bytes overwritten, cut off or blown up give a result or our error, soon."""
    good = elf([KERNEL, ("expf", GLOBAL, 0, UNDEFINED)], relocations=[2, 11])
    broken = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 6))):
        if broken:
            place = data.draw(st.integers(0, len(broken) - 1))
            value = data.draw(st.sampled_from([b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 8, b"\x01"]))
            broken[place : place + len(value)] = value
    assert read_or_refuse(bytes(broken))


@settings(max_examples=examples(25, 5000), deadline=1000)
@given(tail=st.binary(max_size=400))
def test_no_tail_after_the_magic_breaks_the_reader(tail):
    assert read_or_refuse(b"\x7fELF\x02\x01\x01" + tail)


def test_a_name_without_an_end_costs_no_time():
    names = b"x" * 1_000_000
    symbols = struct.pack("<IBBHQQ", 0, 0x12, 0, 1, 0, 0) * 20_000
    place = 64
    headers = [bytes(64)]
    headers.append(struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, place, len(names), 0, 0, 1, 0))
    headers.append(struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, place + len(names), len(symbols), 1, 0, 8, 24))
    start = place + len(names) + len(symbols)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), 1, 62, 1, 0, 0, start, 0, 64, 0, 0, 64, 3, 0
    )
    with pytest.raises(OpspliceError, match="symbol's name"):
        read(head + names + symbols + b"".join(headers))

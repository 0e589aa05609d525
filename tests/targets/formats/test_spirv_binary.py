"""Reading SPIR-V: what a module offers, which kernels fit it, and that no bytes at all break the reader."""

import shutil
import struct
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.spirv import spirv_reader
from opsplice.targets.formats.spirv.spirv_binary import LIMITS, SpirvModule, choose_entry, find_entry, reflect
from tests.effort import examples
from tests.targets.formats import spirv_assembly as asm
from tests.targets.formats.spirv_assembly import (
    T_FLOAT,
    T_FLOAT_PTR,
    T_FN,
    T_UINT,
    T_VOID,
    buffer,
    kernel,
    load,
    op,
    store,
)
from tests.targets.link.launching import launch

SCALE = [*load(0, 200), *store(1, 210)]


def read(data: bytes) -> SpirvModule:
    return reflect(data, "k.spv")


def judge(data: bytes, *, entry="scale", buffers=(False, True), words=0, workgroup=None) -> None:
    launch(find_entry(read(data), "k.spv", entry), buffers, words, workgroup, LIMITS)


def problem(data: bytes, **options) -> OpspliceError:
    with pytest.raises(OpspliceError) as caught:
        judge(data, **options)
    return caught.value


def only_entry(data: bytes):
    (entry,) = read(data).entries
    return entry


def written(entry) -> set[int]:
    """The bindings that an entry point writes."""
    return {number for number, slot in entry.buffers.items() if slot.access == "writes"}


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_module_is_read_in_either_byte_order(order):
    module = read(kernel(SCALE, push=(T_FLOAT, T_UINT), order=order, capabilities=(1, 9, 99999)))
    assert module.version == (1, 3)
    assert module.capabilities == {"Shader", "Float16", "capability 99999"}
    assert [(b.set, b.number, b.kind, b.writable) for b in module.bindings] == [
        (0, 0, "storage", True),
        (0, 1, "storage", True),
    ]
    (entry,) = module.entries
    assert (entry.name, entry.threads, entry.words) == ("scale", (64, 1, 1), 2)
    assert set(entry.buffers) == {0, 1}
    assert written(entry) == {1}


def test_names_are_read():
    data = kernel(SCALE, entries=[op(asm.EXTENSION, "SPV_KHR_16bit_storage"), op(asm.NAME, buffer(1), "result")])
    module = read(data)
    assert [binding.label for binding in module.bindings] == ["", "result"]


def test_a_block_gives_its_name_to_a_variable_without_one():
    data = kernel(SCALE, entries=[op(asm.NAME, buffer(1), ""), op(asm.NAME, asm.T_BLOCK, "Out")])
    assert {binding.label for binding in read(data).bindings} == {"Out"}


def test_only_compute_entry_points_are_kernels():
    data = kernel(SCALE, entries=[op(asm.ENTRY_POINT, 0, 30, "vertex"), op(asm.ENTRY_POINT, 6, 30, "opencl")])
    assert [entry.name for entry in read(data).entries] == ["scale"]


@pytest.mark.parametrize("where", ["variable", "members"])
def test_what_is_not_writable_is_found_on_variables_and_members(where):
    decoration = {
        "variable": op(asm.DECORATE, buffer(0), asm.NON_WRITABLE),
        "members": op(asm.MEMBER_DECORATE, asm.T_BLOCK, 0, asm.NON_WRITABLE),
    }[where]
    module = read(kernel(SCALE, decorations=[decoration]))
    assert not module.bindings[0].writable


def test_old_storage_buffers_are_uniform_buffer_blocks():
    data = kernel(SCALE, block=asm.BUFFER_BLOCK, storage=asm.UNIFORM)
    assert {binding.kind for binding in read(data).bindings} == {"storage"}
    assert {binding.kind for binding in read(kernel(SCALE, storage=asm.UNIFORM)).bindings} == {"uniform"}


def test_arrays_of_buffers_and_images_are_called_what_they_are():
    declarations = [
        op(asm.CONSTANT, T_UINT, 300, 4),
        op(asm.ARRAY, 301, asm.T_BLOCK, 300),
        op(asm.POINTER, 302, asm.STORAGE_BUFFER, 301),
        op(asm.VARIABLE, 302, 303, asm.STORAGE_BUFFER),
        op(25, 304, T_FLOAT, 1, 0, 0, 0, 2, 1),
        op(asm.POINTER, 305, 0, 304),
        op(asm.VARIABLE, 305, 306, 0),
    ]
    bound = [(303, 5), (306, 6)]
    decorations = [op(asm.DECORATE, target, asm.SET, 0) for target, _ in bound]
    decorations += [op(asm.DECORATE, target, asm.BINDING, number) for target, number in bound]
    module = read(kernel(SCALE, declarations=declarations, decorations=decorations))
    assert [binding.kind for binding in module.bindings] == ["storage", "storage", "array of storage", "image"]
    judge(kernel(SCALE, declarations=declarations, decorations=decorations))


def test_local_sizes_come_from_ids_and_specialization_constants():
    declarations = [op(asm.SPEC_CONSTANT, T_UINT, 300, 32), op(asm.CONSTANT, T_UINT, 301, 2)]
    declarations.append(op(asm.SPEC_OP, T_UINT, 302, 132, 300, 301))
    by_id = [op(asm.MODE_ID, asm.MAIN, 38, 302, 301, 300)]
    assert only_entry(kernel(SCALE, local=None, declarations=declarations, entries=by_id)).threads == (64, 2, 32)
    declarations.append(op(asm.SPEC_COMPOSITE, 1, 303, 302, 301, 301))
    built_in = [op(asm.DECORATE, 303, asm.BUILT_IN, 25)]
    data = kernel(SCALE, local=(1, 1, 1), declarations=declarations, decorations=built_in)
    assert only_entry(data).threads == (64, 2, 2)


@pytest.mark.parametrize(
    ("opcode", "result"), [(128, 14), (130, 10), (132, 24), (134, 6), (137, 0), (194, 3), (196, 48), (135, None)]
)
def test_expressions_of_specialization_constants_are_computed(opcode, result):
    declarations = [op(asm.SPEC_CONSTANT, T_UINT, 300, 12), op(asm.CONSTANT, T_UINT, 301, 2)]
    declarations.append(op(asm.SPEC_OP, T_UINT, 302, opcode, 300, 301))
    entries = [op(asm.MODE_ID, asm.MAIN, 38, 302, 301, 301)]
    found = only_entry(kernel(SCALE, local=None, declarations=declarations, entries=entries)).threads
    assert found == (None if result is None else (result, 2, 2))


@pytest.mark.parametrize(
    ("declarations", "decorations", "size"),
    [
        ([op(asm.VECTOR, 300, T_FLOAT, 3)], [], 12),
        ([op(asm.INT, 300, 64, 0)], [], 8),
        (
            [op(asm.CONSTANT, T_UINT, 301, 3), op(asm.ARRAY, 300, T_FLOAT, 301)],
            [op(asm.DECORATE, 300, asm.ARRAY_STRIDE, 16)],
            36,
        ),
        (
            [op(asm.VECTOR, 301, T_FLOAT, 3), op(asm.MATRIX, 300, 301, 2)],
            [op(asm.MEMBER_DECORATE, asm.PUSH_BLOCK, 0, asm.MATRIX_STRIDE, 16)],
            28,
        ),
        (
            [op(asm.VECTOR, 301, T_FLOAT, 3), op(asm.MATRIX, 300, 301, 2)],
            [
                op(asm.MEMBER_DECORATE, asm.PUSH_BLOCK, 0, asm.MATRIX_STRIDE, 16),
                op(asm.MEMBER_DECORATE, asm.PUSH_BLOCK, 0, asm.ROW_MAJOR),
            ],
            40,
        ),
        (
            [
                *(op(asm.VECTOR, 301, T_FLOAT, 2), op(asm.MATRIX, 302, 301, 2), op(asm.CONSTANT, T_UINT, 303, 2)),
                op(asm.ARRAY, 300, 302, 303),
            ],
            [
                op(asm.MEMBER_DECORATE, asm.PUSH_BLOCK, 0, asm.MATRIX_STRIDE, 8),
                op(asm.DECORATE, 300, asm.ARRAY_STRIDE, 16),
            ],
            32,
        ),
        (
            [op(asm.STRUCT, 300, T_FLOAT, T_FLOAT)],
            [op(asm.MEMBER_DECORATE, 300, 0, asm.OFFSET, 0), op(asm.MEMBER_DECORATE, 300, 1, asm.OFFSET, 8)],
            12,
        ),
    ],
)
def test_push_constants_end_where_their_last_member_does(declarations, decorations, size):
    data = kernel(SCALE, push=(300,), declarations=declarations, decorations=decorations)
    assert only_entry(data).words == size // 4


def test_push_constants_without_a_layout_are_refused():
    with pytest.raises(OpspliceError, match=r"k\.spv does not say how its push constants lie in memory"):
        read(kernel(SCALE, push=(300,), declarations=[op(asm.BOOL, 300)]))


def test_push_constants_that_an_entry_does_not_use_are_not_its_own():
    block = [op(asm.STRUCT, 300, T_FLOAT), op(asm.POINTER, 301, asm.PUSH_CONSTANT, 300)]
    block.append(op(asm.VARIABLE, 301, 302, asm.PUSH_CONSTANT))
    module = read(kernel(SCALE, declarations=block, decorations=[op(asm.MEMBER_DECORATE, 300, 0, asm.OFFSET, 0)]))
    assert module.entries[0].words == 0


def test_a_resource_without_a_binding_is_refused():
    stray = [op(asm.VARIABLE, asm.T_BLOCK_PTR, 300, asm.STORAGE_BUFFER)]
    with pytest.raises(OpspliceError, match=r"k\.spv declares 'stray' without a set and a binding"):
        read(kernel(SCALE, declarations=stray, entries=[op(asm.NAME, 300, "stray")]))


def test_decoration_groups_are_refused():
    with pytest.raises(OpspliceError, match="decoration groups"):
        read(kernel(SCALE, decorations=[op(73, 300)]))


FLOAT_POINTER_FN, PARAMETER = 310, 320


def called_function(body, *, target=330):
    """A function of one pointer to a float."""
    head = [op(asm.FUNCTION, T_VOID, target, 0, FLOAT_POINTER_FN), op(asm.PARAMETER, T_FLOAT_PTR, PARAMETER)]
    return [*head, op(asm.LABEL, target + 1), *body, op(asm.RETURN), op(asm.FUNCTION_END)]


def call(index, fresh, *, target=330):
    chain = op(asm.CHAIN, T_FLOAT_PTR, fresh, buffer(index), asm.ZERO, asm.ZERO)
    return [chain, op(asm.CALL, T_VOID, fresh + 1, target, fresh)]


def test_stores_in_called_functions_count():
    writes = called_function([op(asm.STORE, PARAMETER, asm.ONE_F)])
    entry = only_entry(kernel([*load(0, 200), *call(1, 210)], functions=writes))
    assert written(entry) == {1}
    assert set(entry.buffers) == {0, 1}


def test_what_another_entry_point_calls_does_not_count():
    second = 340
    functions = called_function([op(asm.STORE, PARAMETER, asm.ONE_F)])
    functions += [op(asm.FUNCTION, T_VOID, second, 0, T_FN), op(asm.LABEL, 341), *call(0, 350)]
    functions += [op(asm.RETURN), op(asm.FUNCTION_END)]
    entries = [op(asm.ENTRY_POINT, 5, second, "other"), op(asm.MODE, second, 17, 8, 4, 1)]
    scale, other = read(kernel(call(1, 210), functions=functions, entries=entries)).entries
    assert (set(scale.buffers), set(other.buffers)) == ({1}, {0})
    assert (written(scale), written(other)) == ({1}, {0})
    assert other.threads == (8, 4, 1)


def test_functions_that_call_each_other_end():
    functions = called_function([op(asm.CALL, T_VOID, 332, 330, PARAMETER), op(asm.STORE, PARAMETER, asm.ONE_F)])
    assert written(only_entry(kernel(call(1, 210), functions=functions))) == {1}


def test_a_chosen_pointer_may_be_either():
    both = [op(asm.CHAIN, T_FLOAT_PTR, 200 + i, buffer(i), asm.ZERO, asm.ZERO) for i in (0, 1)]
    select = [*both, op(169, T_FLOAT_PTR, 210, 400, 200, 201), op(asm.STORE, 210, asm.ONE_F)]
    phi = [*both, op(245, T_FLOAT_PTR, 210, 200, 800, 201, 801), op(asm.STORE, 210, asm.ONE_F)]
    for body in (select, phi):
        assert written(only_entry(kernel(body))) == {0, 1}


def test_a_pointer_kept_in_a_local_variable_is_followed():
    declarations = [op(asm.POINTER, 300, asm.LOCAL, T_FLOAT_PTR)]
    body = [op(asm.VARIABLE, 300, 301, asm.LOCAL), op(asm.CHAIN, T_FLOAT_PTR, 302, buffer(1), asm.ZERO, asm.ZERO)]
    body += [op(asm.STORE, 301, 302), op(asm.LOAD, T_FLOAT_PTR, 303, 301), op(asm.STORE, 303, asm.ONE_F)]
    assert written(only_entry(kernel(body, declarations=declarations))) == {1}


def test_a_value_kept_in_a_local_variable_writes_nothing_else():
    declarations = [op(asm.POINTER, 300, asm.LOCAL, T_FLOAT)]
    body = [op(asm.VARIABLE, 300, 301, asm.LOCAL), *load(0, 310), op(asm.STORE, 301, 311), *store(1, 320)]
    assert written(only_entry(kernel(body, declarations=declarations))) == {1}


@pytest.mark.parametrize(
    "write",
    [
        op(234, T_FLOAT, 211, 210, 1, 0, asm.ONE_F),  # OpAtomicIAdd
        op(228, 210, 1, 0, asm.ONE_F),  # OpAtomicStore
        op(6035, T_FLOAT, 211, 210, 1, 0, asm.ONE_F),  # OpAtomicFAddEXT
        op(63, 210, 200),  # OpCopyMemory
        op(4458, 210, 400, 401),  # OpCooperativeMatrixStoreKHR
        op(asm.EXT_INST, T_FLOAT, 211, 20, 35, 201, 210),  # Modf
    ],
)
def test_every_way_to_write_counts(write):
    chain = op(asm.CHAIN, T_FLOAT_PTR, 210, buffer(1), asm.ZERO, asm.ZERO)
    assert written(only_entry(kernel([*load(0, 200), chain, write]))) == {1}


def test_asking_for_a_length_uses_but_does_not_write():
    entry = only_entry(kernel([op(68, T_UINT, 200, buffer(0), 0), *store(1, 210)]))
    assert set(entry.buffers) == {0, 1}
    assert written(entry) == {1}


def test_an_unknown_instruction_may_be_what_writes():
    data = kernel([*load(0, 200), op(6999, buffer(1), 401)])
    assert only_entry(data).buffers[1].access == "may write"
    judge(data)


def test_a_kernel_that_fits_passes():
    judge(kernel(SCALE, push=(T_FLOAT, T_UINT)), words=2, workgroup=(64, 1, 1))


def test_an_unknown_entry_names_the_nearest_and_all():
    error = problem(kernel(SCALE), entry="scales")
    assert error.message == "k.spv has no compute entry point 'scales'"
    assert error.hint == "did you mean 'scale'? it has 'scale'"
    assert problem(kernel(SCALE), entry="matmul").hint == "it has 'scale'"


def test_a_module_without_kernels_says_so():
    data = asm.binary(op(asm.CAPABILITY, 1))
    assert "no entry point" in problem(data).hint


def test_main_stands_for_the_kernel_only_where_it_is_alone():
    assert choose_entry(read(kernel(SCALE, name="main")), "k.spv", "scale") == "main"
    assert choose_entry(read(kernel(SCALE)), "k.spv", "scale") == "scale"
    two = kernel(SCALE, name="main", entries=[op(asm.ENTRY_POINT, 5, asm.MAIN, "other")])
    with pytest.raises(OpspliceError, match="no compute entry point 'scale'"):
        choose_entry(read(two), "k.spv", "scale")


def test_another_set_is_refused():
    error = problem(kernel(SCALE, buffers=((0, 0), (1, 1))))
    assert error.message == "entry 'scale' of k.spv uses binding 1 of set 1, but a kernel's buffers are in set 0"
    assert "set = 0" in error.hint


def test_a_surplus_binding_is_refused():
    error = problem(kernel(SCALE, buffers=((0, 0), (0, 2)), entries=[op(asm.NAME, buffer(1), "out")]))
    assert error.message == "entry 'scale' of k.spv uses binding 2 ('out'), but is passed 2 buffers"


def test_a_surplus_binding_that_is_not_used_is_fine():
    judge(kernel(SCALE, buffers=((0, 0), (0, 1), (0, 2), (3, 0))))


def test_an_input_that_the_shader_does_not_use_is_fine():
    judge(kernel(store(0, 200), buffers=((0, 1),)))
    judge(kernel(store(1, 200)))


def test_a_result_that_the_shader_lacks_is_refused():
    error = problem(kernel(load(0, 200)), buffers=(False, True))
    assert error.message == "entry 'scale' of k.spv does not use binding 1, which is a result (it uses 0)"
    assert (
        "does not use binding 0, which is a result (it uses none)"
        in problem(kernel([], buffers=()), buffers=(True,)).message
    )


def test_another_kind_of_resource_is_refused():
    error = problem(kernel(SCALE, storage=asm.UNIFORM))
    assert "has a uniform buffer at binding 0, but the kernel passes a storage buffer" in error.message


def test_writing_what_is_only_read_is_refused():
    error = problem(kernel([*store(0, 200), *store(1, 210)]))
    assert error.message == "entry 'scale' of k.spv writes binding 0, which the kernel's signature only reads"
    judge(kernel([*store(0, 200), *store(1, 210)]), buffers=(True, True))


def test_a_result_that_is_not_writable_is_refused():
    data = kernel(SCALE, decorations=[op(asm.DECORATE, buffer(1), asm.NON_WRITABLE)])
    error = problem(data)
    assert error.message == "entry 'scale' of k.spv only reads binding 1, which is a result"
    assert "readonly" in error.hint


def test_a_result_that_is_only_read_is_refused():
    error = problem(kernel([*load(0, 200), *load(1, 210)]))
    assert error.message == "entry 'scale' of k.spv only reads binding 1, which is a result"


def test_push_constants_that_are_not_given_are_refused():
    error = problem(kernel(SCALE, push=(T_FLOAT, T_UINT)), words=1)
    assert error.message == "entry 'scale' of k.spv takes 2 32-bit words, but is passed 1"
    judge(kernel(SCALE, push=(T_FLOAT,)), words=2)


def test_more_push_constants_than_vulkan_promises_are_refused():
    error = problem(kernel(SCALE, push=(T_FLOAT,) * 33), words=33)
    assert error.message == "kernel k is passed 33 32-bit words, and such devices take 32"
    assert "k.spv takes 33 32-bit words" in problem(kernel(SCALE, push=(T_FLOAT,) * 33), words=32).message
    judge(kernel(SCALE, push=(T_FLOAT,) * 32), words=32)


def test_another_local_size_is_refused():
    error = problem(kernel(SCALE), workgroup=(32, 2, 1))
    assert error.message == "entry 'scale' of k.spv has workgroups of 64x1x1, but kernel k says 32x2x1"


def test_a_local_size_that_cannot_be_read_is_refused():
    assert "does not say its local size" in problem(kernel(SCALE, local=None)).message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "k.spv is empty"),
        (b"hello world", "not a SPIR-V module"),
        (b"; SPIR-V\n; Version: 1.3", "SPIR-V assembly, not the binary"),
        (b"#version 450", "GLSL source"),
        (b"\x7fELF" + bytes(60), "an ELF file"),
        (kernel(SCALE)[:-2], "is cut off"),
        (kernel(SCALE)[:16], "is cut off"),
        (kernel(SCALE)[:-8], "a function has no end"),
        (asm.binary(op(asm.ENTRY_POINT, 5, 30, "scale")), "lacks a function that an entry point needs"),
        (kernel(SCALE, version=0x10301), "its version is 0x10301"),
        (asm.binary((0,)), "word 5 is not inside the file"),
        (asm.binary(op(asm.NAME, 1, 0x61616161)), "a string has no end"),
        (asm.binary(op(asm.CAPABILITY)), "lacks operands"),
        (kernel([op(asm.STORE)]), "lacks operands"),
        (struct.pack("<I", 0x07230203) + bytes(1 << 24), "more than the 16777216"),
    ],
)
def test_other_files_are_called_by_their_names(data, said):
    with pytest.raises(OpspliceError, match=said):
        read(data)


def test_a_cut_off_module_is_never_taken_for_a_whole_one():
    whole = kernel(call(1, 210), functions=called_function([op(asm.STORE, PARAMETER, asm.ONE_F)]))
    judge(whole)
    for size in range(len(whole)):
        with pytest.raises(OpspliceError, match=r"k\.spv"):
            judge(whole[:size])


def test_sources_can_be_left_out():
    data = kernel(SCALE, entries=[op(3, 11, 100), op(4, "GL_x"), op(2, "more")])
    kept = spirv_reader.without_sources(data, "k.spv")
    assert kept == kernel(SCALE)


def read_or_refuse(data: bytes) -> bool:
    """Whether the reader gave a result or an error that names the file; any other exception passes."""
    try:
        module = read(data)
    except OpspliceError as error:
        return error.message.startswith("k.spv ")
    for entry in module.entries:
        try:
            launch(find_entry(module, "k.spv", entry.name), (False, True), 2, None)
        except OpspliceError:
            continue
    return True


RICH = kernel(
    [*SCALE, *call(1, 230), op(asm.EXT_INST, T_FLOAT, 240, 20, 35, 201, 210)],
    push=(300, T_UINT),
    declarations=[
        *(op(asm.SPEC_CONSTANT, T_UINT, 303, 2), op(asm.SPEC_OP, T_UINT, 304, 128, 303, 303)),
        *(op(asm.VECTOR, 301, T_FLOAT, 2), op(asm.MATRIX, 302, 301, 2), op(asm.ARRAY, 300, 302, 304)),
        op(asm.SPEC_COMPOSITE, 1, 305, 304, 303, 303),
    ],
    decorations=[
        op(asm.MEMBER_DECORATE, asm.PUSH_BLOCK, 0, asm.MATRIX_STRIDE, 8),
        op(asm.DECORATE, 300, asm.ARRAY_STRIDE, 16),
        op(asm.DECORATE, 305, asm.BUILT_IN, 25),
        op(asm.MEMBER_DECORATE, asm.T_BLOCK, 0, asm.NON_READABLE),
    ],
    entries=[op(asm.NAME, buffer(0), "input"), op(asm.ENTRY_POINT, 5, 330, "other")],
    functions=called_function([op(asm.STORE, PARAMETER, asm.ONE_F)]),
)


def test_the_module_that_is_broken_below_is_whole():
    entry, other = read(RICH).entries
    assert entry.threads == (4, 2, 2)
    assert entry.words == 16
    assert other.name == "other"


@settings(max_examples=examples(100, 20000), deadline=1000)
@given(data=st.data())
def test_no_bytes_break_the_reader(data):
    """Whole modules with words overwritten, bits flipped or the end cut off give a result or our error, soon."""
    broken = bytearray(RICH)
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(1, len(broken) // 4 - 1)) * 4
        value = data.draw(st.sampled_from([b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x01\0\0\0", None]))
        if value is None:
            broken[place + data.draw(st.integers(0, 3))] ^= 1 << data.draw(st.integers(0, 7))
        else:
            broken[place : place + 4] = value
    if data.draw(st.booleans()):
        broken = broken[: data.draw(st.integers(0, len(broken)))]
    assert read_or_refuse(bytes(broken))


@settings(max_examples=examples(50, 10000), deadline=1000)
@given(
    words=st.lists(
        st.one_of(
            st.integers(0, 0xFFFFFFFF),
            st.builds(lambda count, opcode: count << 16 | opcode, st.integers(1, 6), st.integers(0, 80)),
            st.integers(0, 12),
        ),
        max_size=60,
    )
)
def test_no_words_after_the_header_break_the_reader(words):
    assert read_or_refuse(asm.binary(words))


@settings(max_examples=examples(25, 5000), deadline=1000)
@given(tail=st.binary(max_size=200))
def test_no_bytes_at_all_break_the_reader(tail):
    assert read_or_refuse(tail)


@pytest.mark.usefixtures("must_end")
def test_sizes_that_multiply_cost_no_time():
    declarations = [op(asm.CONSTANT, T_UINT, 999, 0xFFFFFFFF), op(asm.ARRAY, 1000, T_FLOAT, 999)]
    declarations += [op(asm.ARRAY, 1001 + index, 1000 + index, 999) for index in range(20_000)]
    assert only_entry(kernel(SCALE, push=(21_000,), declarations=declarations)).words == 1 << 30


@pytest.mark.usefixtures("must_end")
def test_many_entry_points_over_much_code_are_refused_soon():
    entries = [op(asm.ENTRY_POINT, 5, asm.MAIN, f"e{index}") for index in range(5_000)]
    body = [instruction for index in range(5_000) for instruction in store(1, 2_000 + index)]
    with pytest.raises(OpspliceError, match="too many entry points"):
        read(kernel(body, entries=entries))


def test_what_is_assembled_here_is_spirv(tmp_path):
    tool = shutil.which("spirv-val")
    if tool is None:
        pytest.skip("spirv-val is not installed (apt-get install spirv-tools)")
    path = tmp_path / "k.spv"
    path.write_bytes(kernel(SCALE, push=(T_FLOAT, T_UINT), decorations=[op(asm.DECORATE, asm.PUSH_BLOCK, asm.BLOCK)]))
    done = subprocess.run([tool, "--target-env", "vulkan1.1", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

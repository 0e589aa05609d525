"""Code for AMD's GPUs: bitcode through llvmlite, code objects by their metadata. Nothing is run."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import ArtifactRequest, RocmTarget
from opsplice.targets.backends import rocm
from opsplice.targets.formats import hsaco
from tests.effort import examples
from tests.targets.link.launching import launch

GFX942 = RocmTarget("gfx942")
FUNCTION = """
declare float @__ocml_exp_f32(float)
define float @scale(float %x) {
  %y = call float @__ocml_exp_f32(float %x)
  ret float %y
}
"""


def pack(value) -> bytes:
    """MessagePack, in the forms that compilers write."""
    if isinstance(value, dict):
        return struct.pack(">BH", 0xDE, len(value)) + b"".join(pack(key) + pack(item) for key, item in value.items())
    if isinstance(value, list):
        return struct.pack(">BH", 0xDC, len(value)) + b"".join(map(pack, value))
    if isinstance(value, str):
        return struct.pack(">BB", 0xD9, len(value)) + value.encode()
    return struct.pack(">BI", 0xCE, value)


def library(metadata, *, machine=224, kind=3, owner=b"AMDGPU\0", note=32) -> bytes:
    """A shared library with one section, the note that holds `metadata`."""
    packed = metadata if isinstance(metadata, bytes) else pack(metadata)
    content = struct.pack("<III", len(owner), len(packed), note) + owner.ljust(8, b"\0") + packed
    place = 64 + len(content)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01\x40".ljust(16, b"\0"),
        kind,
        machine,
        1,
        0,
        0,
        place,
        0,
        64,
        0,
        0,
        64,
        2,
        0,
    )
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 2, 0, 64, len(content), 0, 0, 4, 0)
    return head + content + bytes(64) + section


def argument(size, kind="by_value"):
    return {".offset": 0, ".size": size, ".value_kind": kind}


POINTER, WORD, HIDDEN = argument(8, "global_buffer"), argument(4), argument(8, "hidden_heap_v1")
SCALE = {".name": "scale", ".args": [POINTER, POINTER, WORD, HIDDEN], ".max_flat_workgroup_size": 256}
TARGET = "amdgcn-amd-amdhsa--gfx942"
GOOD = {"amdhsa.kernels": [SCALE], "amdhsa.target": TARGET, "amdhsa.version": [1, 2]}


def ask(path, *symbols, **options):
    return ArtifactRequest(path, symbols or ("scale",), **options)


@pytest.fixture
def write(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def refused(write, store):
    def refused(content, name, *symbols, target=GFX942, **options):
        with pytest.raises(OpspliceError) as caught:
            rocm.resolve(ask(write(content, name), *symbols, **options), target, store)
        return caught.value

    return refused


def problem(kernel=SCALE, *, entry="scale", buffers=2, constants=1, workgroup=(64, 1, 1)) -> OpspliceError:
    module = hsaco.reflect(library({**GOOD, "amdhsa.kernels": [kernel]}), "k.hsaco")
    with pytest.raises(OpspliceError) as caught:
        launch(hsaco.find_entry(module, "k.hsaco", entry), buffers, constants, workgroup)
    return caught.value


def test_ir_becomes_bitcode(write, store):
    artifact = rocm.resolve(ask(write(FUNCTION, "k.ll")), GFX942, store)
    assert (artifact.form, artifact.path.suffix, artifact.entry) == ("bitcode", ".bc", "")
    module = binding.parse_bitcode(artifact.path.read_bytes())
    assert module.triple.startswith("amdgcn")
    assert not rocm.resolve(ask(write(FUNCTION, "k.ll")), GFX942, store).built
    again = rocm.resolve(ask(write(artifact.path.read_bytes(), "k.bc")), GFX942, store)
    assert (again.digest, again.toolchain) == (artifact.digest, None)


def test_bitcode_is_checked(refused):
    assert "does not define the function 'scales'" in refused(FUNCTION, "k.ll", "scales").message
    assert "needs 'expf', which is not there" in refused(FUNCTION.replace("__ocml_exp_f32", "expf"), "k.ll").message
    assert "k.ll is not valid LLVM IR" in refused("define nonsense", "k.ll").message
    assert "does not know gfx1, which k.ll" in refused(FUNCTION, "k.ll", target=RocmTarget("gfx1")).message
    assert "k.bc is not LLVM bitcode" in refused("text", "k.bc").message


def test_bitcode_for_another_processor_is_refused(write, store, refused):
    module = binding.parse_assembly('target triple = "x86_64-none-elf"' + FUNCTION)
    error = refused(module.as_bitcode(), "k.bc")
    assert error.message == "k.bc is bitcode for x86_64-none-elf, but the target is amdgcn-amd-amdhsa"
    artifact = rocm.resolve(ask(write(str(module), "k.ll")), GFX942, store)
    assert artifact.notes == ("k.ll was made for x86_64-none-elf and is compiled for amdgcn-amd-amdhsa",)


def test_other_files_and_requests_are_refused(refused):
    assert "k.cu is not a kind of file" in refused("", "k.cu").message
    assert "flags do nothing for k.ll" in refused(FUNCTION, "k.ll", flags=("-O1",)).message
    assert "k.ll cannot be taken as hsaco" in refused(FUNCTION, "k.ll", form="hsaco").message


def test_a_code_object_is_taken_as_it_is(write, store):
    data = library(GOOD)
    artifact = rocm.resolve(ask(write(data, "k.hsaco")), GFX942, store)
    assert artifact.path.read_bytes() == data
    assert (artifact.form, artifact.entry) == ("hsaco", "scale")


def test_a_code_object_for_another_gpu_is_refused_naming_both(refused):
    error = refused(library(GOOD), "k.hsaco", target=RocmTarget("gfx90a"))
    assert error.message == "k.hsaco is for gfx942, but the target is gfx90a"
    module = hsaco.reflect(library({**GOOD, "amdhsa.target": f"{TARGET}:xnack+"}), "k.hsaco")
    assert (module.target, module.chip) == ("gfx942:xnack+", "gfx942")
    hsaco.check_target(module, "k.hsaco", "gfx942:xnack+")


def test_an_absent_kernel_names_what_is_there(refused):
    error = refused(library(GOOD), "k.hsaco", "scales")
    assert error.message == "k.hsaco has no kernel 'scales'"
    assert error.hint == "did you mean 'scale'? it has 'scale'"


def test_what_llvm_and_irees_linker_make(code_object):
    found = hsaco.reflect(code_object, "k.hsaco")
    (entry,) = found.entries
    assert (found.target, entry.name, entry.most_threads, entry.threads) == ("gfx942", "scale", 256, None)
    assert [(each.size, each.is_pointer) for each in entry.parameters] == [(8, True), (8, True), (4, False)]
    launch(entry, 2, 1, (64, 4, 1))


def test_mismatches_name_both_sides():
    assert "takes 3 parameters (a pointer, a pointer, 4 bytes), but is passed 3" in problem(buffers=3).message
    assert "but is passed 2 pointers and 2 32-bit words" in problem(constants=2).message
    wide = {**SCALE, ".args": [POINTER, POINTER, argument(8)]}
    assert "(a pointer, a pointer, 8 bytes)" in problem(wide).message
    assert "two words" in problem(wide).hint
    many = problem(workgroup=(32, 16, 1)).message
    assert many == "entry 'scale' of k.hsaco takes workgroups of 1 to 256 threads, but is launched with 32x16x1"
    fixed = {**SCALE, ".reqd_workgroup_size": [64, 1, 1]}
    assert "has workgroups of 64x1x1, but kernel k says 32x1x1" in problem(fixed, workgroup=(32, 1, 1)).message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "k.hsaco is empty"),
        (b"\x7fELF\x02\x01\x01", "the header is cut off"),
        (library(GOOD, kind=1), "not a linked library"),
        (library(GOOD, machine=62), r"another processor than AMD's GPUs \(ELF machine 62\)"),
        (library(GOOD, note=1), "it has no metadata"),
        (library(GOOD, owner=b"OTHER\0"), "it has no metadata"),
        (library(b"\xc1"), "its metadata is not MessagePack"),
        (library(b"\x91" * 1000), "its metadata is not MessagePack"),
        (library(b"\xdd\xff\xff\xff\xff"), "its metadata is not MessagePack"),
        (library(b"\x01"), "its metadata is not a map"),
        (library({}), "does not say which GPU"),
        (library({"amdhsa.target": "x86_64"}), "does not say which GPU"),
        (library({"amdhsa.target": TARGET}), "does not list its kernels"),
        (library({**GOOD, "amdhsa.kernels": [1]}), "a kernel has no name"),
        (library({**GOOD, "amdhsa.kernels": [{**SCALE, ".args": [1]}]}), "the parameters of 'scale'"),
        (library({**GOOD, "amdhsa.kernels": [{**SCALE, ".reqd_workgroup_size": [1]}]}), "the workgroup of 'scale'"),
    ],
)
def test_files_that_are_no_code_object_are_told(data, said):
    with pytest.raises(OpspliceError, match=said):
        hsaco.reflect(data, "k.hsaco")


def read_or_refuse(data: bytes) -> bool:
    """Whether the reader gave a result or an error that names the file; any other exception passes."""
    try:
        return isinstance(hsaco.reflect(data, "k.hsaco"), hsaco.HsacoModule)
    except OpspliceError as error:
        return error.message.startswith("k.hsaco ")


@settings(max_examples=examples(50, 10000), deadline=1000)
@given(data=st.data())
def test_no_bytes_break_the_reader(data):
    """Whole code objects with bytes overwritten or cut off give a result or our error, soon."""
    good = library(GOOD)
    broken = bytearray(good[: data.draw(st.one_of(st.just(len(good)), st.integers(0, len(good))))])
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(good)))
        value = data.draw(st.sampled_from([b"\0", b"\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\x00\xff", b"\x91", b"\xc0"]))
        broken[place : place + len(value)] = value
    assert read_or_refuse(bytes(broken))


@pytest.mark.parametrize("data", [b"", b"hello", b"MZ"])
def test_what_is_no_code_object_at_all(data):
    with pytest.raises(OpspliceError, match=r"k\.hsaco is") as error:
        hsaco.reflect(data, "k.hsaco")
    assert "hipcc --genco" in error.value.hint

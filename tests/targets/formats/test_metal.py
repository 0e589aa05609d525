"""Shaders for Metal: what is read from their text, what is refused, and how one takes another's place."""

from __future__ import annotations

import struct

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import ArtifactRequest
from opsplice.targets.backends import metal
from opsplice.targets.formats import metal_executable, metal_source
from tests.targets.link.launching import launch

SHADER = """
#include <metal_stdlib>
using namespace metal;
/* kernel void none() {} */ // kernel void nor_this(
struct Buffers {
  device const float* x [[id(0)]];
  device float* out [[id(1)]];
};
struct Words { float scale; uint n; };
static void helper(device float* at) { *at = 0; }

[[max_total_threads_per_threadgroup(128)]]
kernel void scale(constant Buffers& buffers [[buffer(0)]], constant Words& words [[buffer(3)]],
                  uint3 at [[thread_position_in_grid]]) {
  if (at.x < words.n) buffers.out[at.x] = buffers.x[at.x] * words.scale;
}
"""


def checked(text=SHADER, **changed):
    call = {"buffers": (False, True), "words": 2, "workgroup": (64, 1, 1)} | changed
    entry = metal_source.find_entry(metal_source.reflect(text, "k.metal"), "k.metal", "scale")
    launch(entry, **call, limits=metal_source.LIMITS)


def test_what_a_shader_says():
    (entry,) = metal_source.reflect(SHADER, "k.metal")
    assert entry.name == "scale"
    assert {number: slot.access for number, slot in entry.buffers.items()} == {0: "reads", 1: "may write"}
    assert (entry.words, entry.most_threads, entry.refusals) == (2, 128, ())
    assert metal_source.unchecked(entry) == ()


@pytest.mark.parametrize(
    "text",
    [
        SHADER.replace("kernel void scale", "[[kernel]] void scale"),
        SHADER.replace("device const float*", "const device float*"),
        SHADER.replace(" [[id(0)]]", "").replace(" [[id(1)]]", ""),
        SHADER.replace("constant Buffers& buffers", "constant Buffers *buffers"),
        SHADER.replace("float scale; uint n;", "uint words[2];"),
        SHADER.replace("float scale; uint n;", "uint m, n;"),
        SHADER.replace("float scale; uint n;", "uint32_t n;"),
    ],
)
def test_other_spellings(text):
    checked(text)


def test_all_words_of_one_declaration_are_counted():
    (entry,) = metal_source.reflect(SHADER.replace("uint n;", "uint b, m[2], n;"), "k.metal")
    assert entry.words == 5


REFUSED = {
    "a result that is only read": (
        {"text": SHADER.replace("device float* out", "device const float* out")},
        r"entry 'scale' of k\.metal only reads the buffer \[\[id\(1\)\]\], which is a result",
    ),
    "a result that is not there": (
        {"buffers": (False, False, True)},
        r"does not use the buffer \[\[id\(2\)\]\]",
    ),
    "a buffer more": ({"buffers": (True,)}, r"uses the buffer \[\[id\(1\)\]\], but is passed 1 buffer"),
    "a word more": ({"words": 1}, "takes 2 32-bit words, but is passed 1"),
    "plain pointers": (
        {"text": "kernel void scale(device float* x [[buffer(0)]]) {}"},
        r"takes a plain pointer at \[\[buffer\(0\)\]\]",
    ),
    "no buffers": ({"text": "kernel void scale() {}"}, "has no argument buffer"),
    "another place": (
        {"text": SHADER.replace("[[buffer(3)]]", "[[buffer(1)]]")},
        r"takes \[\[buffer\(1\)\]\], and IREE's runtime gives it nothing there",
    ),
    "memory of the launch": (
        {"text": SHADER.replace("uint3 at", "threadgroup float* tile [[threadgroup(0)]], uint3 at")},
        r"takes \[\[threadgroup\(0\)\]\]",
    ),
    "more threads than it takes": (
        {"workgroup": (16, 16, 1)},
        "takes workgroups of 1 to 128 threads, but",
    ),
    "another name": ({"text": SHADER.replace("void scale(", "void scales(")}, "has no kernel 'scale'"),
    "too many buffers": ({"buffers": (True,) * 17}, "kernel k is passed 17 buffers, and such devices take 16"),
    "too many words": ({"words": 65}, "kernel k is passed 65 32-bit words, and such devices take 64"),
    "files that are not there later": ({"text": '#include "k.h"\n' + SHADER}, r'includes "k\.h", which is not there'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_launched(case):
    changed, message = REFUSED[case]
    with pytest.raises(OpspliceError, match=message):
        checked(**changed)


def test_the_nearest_name_is_told():
    with pytest.raises(OpspliceError) as error:
        checked(SHADER.replace("void scale(", "void scales("))
    assert error.value.hint.startswith("did you mean 'scales'? it has 'scales'")


def test_what_could_not_be_read_is_told(tmp_path, store):
    path = tmp_path / "k.metal"
    path.write_text(SHADER.replace("struct Buffers", "struct Others").replace("uint n;", "half4 n;"))
    artifact = metal.resolve(ArtifactRequest(path, ("scale",)), store)
    assert artifact.notes == (
        "the argument buffer of 'scale' was not found, and not checked",
        "the words that 'scale' takes were not counted",
    )
    assert (artifact.form, artifact.entry, artifact.path.read_text()) == ("metal", "scale", path.read_text())


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("k.metallib", b"MTLB", {}, r"k\.metallib is not a kind of file that a Metal kernel can be"),
        ("k.metal", b"kernel \xff", {}, r"k\.metal is not text in UTF-8"),
        ("k.metal", SHADER.encode(), {"flags": ("-O3",)}, r"flags do nothing for k\.metal"),
        ("k.metal", SHADER.encode(), {"form": "object"}, r"k\.metal cannot be taken as object"),
    ],
)
def test_files_that_are_none(tmp_path, store, name, content, options, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(OpspliceError, match=message):
        metal.resolve(ArtifactRequest(path, ("scale",), **options), store)


@pytest.mark.parametrize("size", [0, 15, 63, 100])
def test_executables_that_are_none(size):
    header = struct.pack("<4sIQ", b"MTL1", 0, max(0, size - 64)) + bytes(48)
    kernel = metal_executable.Kernel("", "k", (1, 1, 1))
    for data in (b"\xff" * size, (header + b"\xff" * 200)[:size]):
        with pytest.raises(OpspliceError, match="this executable for Metal is of a format that is not known"):
            metal_executable.replace(data, kernel)


@pytest.mark.parametrize(("end", "bracket"), [(-3, "{"), (SHADER.rindex("("), None), (SHADER.rindex("(") + 1, "[({]")])
def test_text_that_is_cut_off(end, bracket):
    with pytest.raises(OpspliceError, match=rf"is cut off: a '{bracket or '{'}' is not closed"):
        checked(SHADER[:end])


def test_brackets_in_branches_of_the_preprocessor():
    checked(SHADER + "#if 0\nvoid f() {\n#else\nvoid f() {\n#endif\n}\n" + 'constant char text[] = "{";\n')


def test_advice_for_too_many_buffers_is_about_buffers():
    with pytest.raises(OpspliceError) as error:
        checked(buffers=(True,) * 17)
    assert error.value.hint.startswith("pass fewer tensors")

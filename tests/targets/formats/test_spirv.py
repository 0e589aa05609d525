"""From a shader's file to a checked SPIR-V module: what is built, what is reused, what is refused."""

import os
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget, SpirvTarget
from opsplice.targets.backends import cpu, spirv
from opsplice.targets.build import programs, shaders, spirv_val
from opsplice.targets.formats.spirv.spirv_binary import find_entry, reflect
from tests.environment import under
from tests.targets.formats import spirv_assembly as asm
from tests.targets.formats.spirv_assembly import kernel, load, op
from tests.targets.formats.spirv_assembly import store as stores
from tests.targets.link.launching import launch

V13 = SpirvTarget()
SCALE = kernel([*load(0, 200), *stores(1, 210)])
NO_TOOLS = {"PATH": ""}

GLSL = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
layout(push_constant) uniform P { float factor; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) b[i] = a[i] * factor;
}
"""
SLANG = """
[[vk::binding(0, 0)]] StructuredBuffer<float> a;
[[vk::binding(1, 0)]] RWStructuredBuffer<float> b;
struct P { float factor; uint n; };
[[vk::push_constant]] ConstantBuffer<P> p;
[shader("compute")] [numthreads(64, 1, 1)]
void scale(uint3 id : SV_DispatchThreadID) { if (id.x < p.n) b[id.x] = a[id.x] * p.factor; }
[shader("compute")] [numthreads(32, 2, 1)]
void add(uint3 id : SV_DispatchThreadID) { if (id.x < p.n) b[id.x] += a[id.x]; }
"""
FAKE_NAGA = """#!{python}
import shutil, sys
if sys.argv[1] == "--version":
    print("naga 29.0.1")
elif "bad" in open(sys.argv[1]).read():
    sys.exit("error: expected global item, found 'bad'")
else:
    shutil.copy({module!r}, sys.argv[2])
"""


def ask(path, symbol="scale", **options):
    return ArtifactRequest(path, (symbol,), **options)


def needed(name: str) -> shaders.ShaderCompiler:
    """A compiler; skips the test where it is absent."""
    found = shaders.find(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({shaders.HOW_TO_GET[name]})")
    return found


def fits(artifact, entry, **options):
    """Checks a built module against the signature of the shaders above."""
    module = reflect(artifact.path.read_bytes(), "k.spv")
    launch(
        find_entry(module, "k.spv", entry), **{"buffers": (False, True), "words": 2, "workgroup": (64, 1, 1)} | options
    )


@pytest.fixture
def prebuilt(tmp_path) -> Path:
    path = tmp_path / "k.spv"
    path.write_bytes(SCALE)
    return path


@pytest.fixture
def comp(tmp_path) -> Path:
    path = tmp_path / "k.comp"
    path.write_text(GLSL)
    return path


@pytest.fixture
def slang(tmp_path) -> Path:
    path = tmp_path / "k.slang"
    path.write_text(SLANG)
    return path


@pytest.fixture
def counted(monkeypatch):
    """The compiles that were really run."""
    runs = []
    original = shaders.ShaderCompiler.compile

    def count(self, source, *rest):
        runs.append(source.name)
        return original(self, source, *rest)

    monkeypatch.setattr(shaders.ShaderCompiler, "compile", count)
    return runs


@pytest.fixture
def only(monkeypatch):
    """Makes one compiler of a language the only one, for the test."""

    def choose(name):
        needed(name)
        for other in shaders._FINDERS:
            if other != name:
                monkeypatch.setitem(shaders._FINDERS, other, lambda: None)

    return choose


@pytest.fixture
def naga(tmp_path, monkeypatch):
    """Stands in for naga, which turns every file into one module."""
    module = tmp_path / "made"
    module.write_bytes(SCALE)
    program = tmp_path / "bin" / "naga"
    program.parent.mkdir()
    program.write_text(FAKE_NAGA.format(python=sys.executable, module=str(module)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(program.parent)}


@pytest.mark.parametrize("name", ["glslang", "glslc"])
@pytest.mark.parametrize("suffix", [".comp", ".glsl"])
def test_glsl_is_built_by_each_compiler(comp, store, only, name, suffix):
    only(name)
    artifact = spirv.resolve(ask(comp.rename(comp.with_suffix(suffix))), V13, store)
    assert artifact.built
    assert (artifact.form, artifact.arch, artifact.entry) == ("spirv", None, "main")
    assert artifact.toolchain.startswith(f"{name} ")
    assert artifact.path.is_relative_to(store.root)
    assert artifact.path.suffix == ".spv"
    fits(artifact, "main")


def test_slang_has_entry_points_by_name(slang, store):
    needed("slangc")
    artifact = spirv.resolve(ask(slang), V13, store)
    assert artifact.entry == "scale"
    assert artifact.toolchain.startswith("slangc ")
    fits(artifact, "scale")
    fits(artifact, "add", buffers=(False, True), workgroup=(32, 2, 1))
    assert spirv.resolve(ask(slang, "add"), V13, store).entry == "add"


def test_wgsl_is_converted(tmp_path, store, naga):
    source = tmp_path / "k.wgsl"
    source.write_text("fn scale() {}")
    artifact = under(naga, spirv.resolve, ask(source), V13, store)
    assert artifact.entry == "scale"
    assert artifact.toolchain == "naga 29.0.1"
    source.write_text("bad")
    with pytest.raises(OpspliceError, match=r"naga cannot compile k\.wgsl") as caught:
        under(naga, spirv.resolve, ask(source), V13, store)
    assert "expected global item" in caught.value.details


WGSL = """
struct Words { n: u32, gain: f32 }
var<immediate> words: Words;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn scale(@builtin(global_invocation_id) thread: vec3<u32>) {
  if (thread.x < words.n) { y[thread.x] = words.gain * x[thread.x]; }
}
"""


def test_wgsl_is_built(tmp_path, store):
    compiler = needed("naga")
    source = tmp_path / "k.wgsl"
    source.write_text(WGSL)
    artifact = spirv.resolve(ask(source), V13, store)
    (entry,) = reflect(artifact.path.read_bytes(), "k.spv").entries
    assert (entry.name, entry.threads) == ("scale", (64, 1, 1))
    assert artifact.toolchain == compiler.version() != "naga (unknown version)"
    source.write_text(WGSL.replace("words.gain", "words.scale"))
    with pytest.raises(OpspliceError, match=r"naga cannot compile k\.wgsl") as caught:
        spirv.resolve(ask(source), V13, store)
    assert "invalid field accessor `scale`" in caught.value.details
    assert "k.wgsl:8:49" in caught.value.details
    source.write_text(f"fn f() {{ {'x = x; ' * 9000} }}")
    with pytest.raises(OpspliceError, match=r"naga cannot compile k\.wgsl") as caught:
        spirv.resolve(ask(source), V13, store)
    assert len(caught.value.details) < 5000  # it shows the line
    source.write_text(WGSL.replace("immediate", "push_constant"))
    with pytest.raises(OpspliceError, match=r"naga cannot compile k\.wgsl") as caught:
        spirv.resolve(ask(source), V13, store)
    assert caught.value.hint.endswith("var<immediate> words: Words;")


def test_flags_of_naga_that_do_nothing(tmp_path, store):
    if len(needed("naga").command) == 1:
        pytest.skip("the program naga has flags; the npm package naga-wasm has none")
    source = tmp_path / "k.wgsl"
    source.write_text(WGSL)
    with pytest.raises(OpspliceError) as caught:
        spirv.resolve(ask(source, flags=("--keep-coordinate-space",)), V13, store)
    assert caught.value.details == "flags do nothing here: --keep-coordinate-space"


@pytest.mark.parametrize("version", [(1, 0), (1, 3), (1, 4), (1, 5), (1, 6)])
@pytest.mark.parametrize("name", ["glslang", "glslc", "slangc"])
def test_modules_are_built_for_the_targets_version(comp, slang, store, only, version, name):
    only(name)
    source = slang if name == "slangc" else comp
    artifact = spirv.resolve(ask(source), SpirvTarget(version), store)
    assert reflect(artifact.path.read_bytes(), "k.spv").version == version


@pytest.mark.parametrize(
    ("suffix", "language", "names", "remedy"),
    [
        (".comp", "GLSL", "glslang or glslc", "apt-get install glslang-tools"),
        (".slang", "Slang", "slangc", "pip install --no-deps slangtorch"),
        (".wgsl", "WGSL", "naga", "npm install --global naga-wasm@30.1.0"),
    ],
)
def test_without_a_compiler_the_remedy_is_named(tmp_path, store, monkeypatch, suffix, language, names, remedy):
    monkeypatch.setattr(programs, "package_folder", lambda name: None)
    source = tmp_path / f"k{suffix}"
    source.write_text("")
    with pytest.raises(OpspliceError) as caught:
        under(NO_TOOLS, spirv.resolve, ask(source), V13, store)
    assert caught.value.message == (
        f"k{suffix} is {language}, which no compiler here makes into SPIR-V; that needs {names}"
    )
    assert caught.value.hint.startswith(remedy)


def test_the_wheels_slangc_is_found_without_importing_it(tmp_path, monkeypatch):
    program = tmp_path / "slangtorch" / "bin" / "slangc"
    program.parent.mkdir(parents=True)
    (tmp_path / "slangtorch" / "__init__.py").write_text("raise ImportError('torch')")
    program.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert under(NO_TOOLS, shaders.find, "slangc") is None
    program.chmod(0o755)
    assert under(NO_TOOLS, shaders.find, "slangc").command == (str(program),)


def test_the_second_time_nothing_is_built(comp, store, counted):
    needed("glslang")
    first = spirv.resolve(ask(comp), V13, store)
    second = spirv.resolve(ask(comp), V13, Store(store.root))
    assert counted == ["k.comp"]
    assert (first.built, second.built) == (True, False)
    assert (second.path, second.digest, second.entry) == (first.path, first.digest, first.entry)
    assert (second.toolchain, second.notes) == (first.toolchain, first.notes)


def test_whatever_can_change_the_result_builds_anew(comp, store, counted):
    needed("glslang")
    spirv.resolve(ask(comp), V13, store)
    spirv.resolve(ask(comp, flags=("-DN=1",)), V13, store)
    spirv.resolve(ask(comp), SpirvTarget((1, 5)), store)
    spirv.resolve(ask(comp), SpirvTarget(capabilities=frozenset()), store)
    comp.write_text(GLSL.replace("* factor", "+ factor"))
    spirv.resolve(ask(comp), V13, store)
    assert len(counted) == 5


def test_glsl_includes_are_found_and_count(comp, store, counted):
    needed("glslang")
    (comp.parent / "in c").mkdir()
    (comp.parent / "in c" / "top.glsl").write_text('#include "deep.glsl"\n')
    (comp.parent / "in c" / "deep.glsl").write_text("#define FACTOR 2.0\n")
    extension = "#extension GL_GOOGLE_include_directive : require\n"
    text = GLSL.replace("450\n", f'450\n{extension}#include "in c/top.glsl"\n').replace("* factor", "* factor * FACTOR")
    comp.write_text(text)
    before = spirv.resolve(ask(comp), V13, store)
    (comp.parent / "in c" / "deep.glsl").write_text("#define FACTOR 3.0\n")
    after = spirv.resolve(ask(comp), V13, store)
    assert after.built
    assert after.digest != before.digest
    assert len(counted) == 2


@pytest.mark.parametrize("line", ["import my_helper;", 'import "my-helper";', '#include "my-helper.slang"'])
def test_slang_imports_are_found_and_count(slang, store, counted, line):
    needed("slangc")
    helper = slang.parent / "my-helper.slang"
    helper.write_text("public float twice(float x) { return x * 2; }\n")
    slang.write_text(line + SLANG.replace("* p.factor", "* twice(p.factor)"))
    before = spirv.resolve(ask(slang), V13, store)
    helper.write_text("public float twice(float x) { return x + x + x; }\n")
    assert spirv.resolve(ask(slang), V13, store).digest != before.digest
    assert len(counted) == 2


def test_slang_modules_in_folders_and_parts_are_found(slang, store):
    needed("slangc")
    (slang.parent / "lib").mkdir()
    (slang.parent / "lib" / "scaling.slang").write_text("module scaling;\n__include part;\n")
    part = slang.parent / "lib" / "part.slang"
    part.write_text("implementing scaling;\npublic float twice(float x) { return x * 2; }\n")
    slang.write_text("import lib.scaling;" + SLANG.replace("* p.factor", "* twice(p.factor)"))
    before = spirv.resolve(ask(slang), V13, store)
    part.write_text("implementing scaling;\npublic float twice(float x) { return x * 4; }\n")
    assert spirv.resolve(ask(slang), V13, store).digest != before.digest


def test_flags_reach_the_compiler_and_start_at_the_source(comp, store):
    needed("glslang")
    (comp.parent / "inc").mkdir()
    (comp.parent / "inc" / "size.glsl").write_text("layout(local_size_x = SIZE) in;\n")
    extension = "#extension GL_GOOGLE_include_directive : require\n"
    comp.write_text(GLSL.replace("layout(local_size_x = 64) in;", f'{extension}#include "size.glsl"'))
    artifact = spirv.resolve(ask(comp, flags=("-Iinc", "-DSIZE=16", "-g")), V13, store)
    fits(artifact, "main", workgroup=(16, 1, 1))


def test_a_compilers_words_are_shown(comp, slang, store):
    needed("glslang")
    comp.write_text(GLSL.replace("if (i < n)", "if (i < m)"))
    with pytest.raises(OpspliceError, match=r"glslang cannot compile k\.comp") as caught:
        spirv.resolve(ask(comp), V13, store)
    assert "'m' : undeclared identifier" in caught.value.details
    needed("slangc")
    slang.write_text(SLANG.replace("p.n", "p.m"))
    with pytest.raises(OpspliceError, match=r"slangc cannot compile k\.slang") as caught:
        spirv.resolve(ask(slang), V13, store)
    assert "'m'" in caught.value.details


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (GLSL.replace("#version 450\n", ""), "#version 450"),
        (GLSL.replace("450\n", '450\n#include "x.glsl"\n'), "GL_GOOGLE_include_directive : require"),
        (GLSL.replace("= a[i]", "= subgroupAdd(a[i])"), "#extension GL_KHR_shader_subgroup_arithmetic : require"),
    ],
)
def test_usual_mistakes_have_a_hint(comp, store, text, hint):
    needed("glslang")
    comp.write_text(text)
    with pytest.raises(OpspliceError, match="cannot compile") as caught:
        spirv.resolve(ask(comp), V13, store)
    assert hint in (caught.value.hint or "")


def test_a_compiler_that_makes_nothing_is_told(comp, store, monkeypatch):
    monkeypatch.setitem(shaders._FINDERS, "glslang", lambda: shaders.ShaderCompiler("glslang", ("/bin/true",)))
    with pytest.raises(OpspliceError, match=r"glslang made no module from k\.comp"):
        spirv.resolve(ask(comp), V13, store)


def test_a_compiler_that_fails_silently_is_told(comp, store, monkeypatch):
    monkeypatch.setitem(shaders._FINDERS, "glslang", lambda: shaders.ShaderCompiler("glslang", ("/bin/false",)))
    with pytest.raises(OpspliceError, match=r"glslang cannot compile k\.comp") as caught:
        spirv.resolve(ask(comp), V13, store)
    assert caught.value.details == "it ended with status 1 and said nothing"


def test_an_include_whose_changes_would_go_unseen_is_refused(slang, store):
    needed("slangc")
    (slang.parent / "hidden.slangh").write_text("#define K 1\n")
    slang.write_text("#define TEXT(x) #x\n#include TEXT(hidden.slangh)\n" + SLANG)
    with pytest.raises(OpspliceError, match=r"k\.slang includes .*hidden\.slangh under a name that is put together"):
        spirv.resolve(ask(slang), V13, store)


def test_prebuilt_modules_are_copied_and_outlive_their_original(prebuilt, store):
    artifact = spirv.resolve(ask(prebuilt), V13, store)
    prebuilt.unlink()
    assert artifact.path.read_bytes() == SCALE
    assert artifact.toolchain is None
    assert artifact.entry == "scale"


def test_a_module_in_the_other_byte_order_is_turned_round(prebuilt, store):
    words = len(SCALE) // 4
    prebuilt.write_bytes(struct.pack(f">{words}I", *struct.unpack(f"<{words}I", SCALE)))
    assert spirv.resolve(ask(prebuilt), V13, store).path.read_bytes() == SCALE
    prebuilt.write_bytes(prebuilt.read_bytes()[:-1])
    with pytest.raises(OpspliceError, match=r"k\.spv is a damaged SPIR-V module: its size, \d+ bytes, is cut off"):
        spirv.resolve(ask(prebuilt), V13, store)


def test_a_newer_module_than_the_target_takes_is_refused(tmp_path, store):
    path = tmp_path / "k.spv"
    path.write_bytes(kernel([], version=0x10500))
    with pytest.raises(OpspliceError) as caught:
        under(NO_TOOLS, spirv.resolve, ask(path), V13, store)
    assert caught.value.message == "k.spv is SPIR-V 1.5, but the target takes 1.3 at most"
    assert "--target-env spirv1.3" in caught.value.hint
    assert under(NO_TOOLS, spirv.resolve, ask(path), SpirvTarget((1, 5)), store).built


def test_a_source_that_comes_out_newer_is_refused(comp, store):
    needed("glslang")
    with pytest.raises(OpspliceError, match=r"k\.comp is SPIR-V 1\.6, but the target takes 1\.3") as caught:
        spirv.resolve(ask(comp, flags=("--target-env", "spirv1.6")), V13, store)
    assert "flags" in caught.value.hint


def test_capabilities_that_the_target_lacks_are_refused(tmp_path, store):
    path = tmp_path / "k.spv"
    path.write_bytes(kernel([], capabilities=(1, 9, 10)))
    with pytest.raises(OpspliceError) as caught:
        under(NO_TOOLS, spirv.resolve, ask(path), SpirvTarget(capabilities=frozenset({"Float16", "Int64"})), store)
    assert caught.value.message == "k.spv needs Float64, which the target lacks"
    assert "the target has Float16, Int64" in caught.value.hint
    for target in (V13, SpirvTarget(capabilities=frozenset({"Float16", "Float64"}))):
        assert under(NO_TOOLS, spirv.resolve, ask(path), target, store).built


def test_a_missing_entry_is_refused_each_time(prebuilt, store):
    for _ in range(2):
        with pytest.raises(OpspliceError, match=r"k\.spv has no compute entry point 'scales'") as caught:
            spirv.resolve(ask(prebuilt, "scales"), V13, store)
        assert "did you mean 'scale'?" in caught.value.hint


def test_one_main_is_not_several_kernels(tmp_path, store):
    path = tmp_path / "k.spv"
    path.write_bytes(kernel([*load(0, 200), *stores(1, 210)], name="main"))
    assert spirv.resolve(ask(path), V13, store).entry == "main"
    with pytest.raises(OpspliceError, match=r"one entry point, 'main', for several kernels: scale, add"):
        spirv.resolve(ArtifactRequest(path, ("scale", "add")), V13, store)


def test_no_symbol_is_no_entry(prebuilt, store):
    assert spirv.resolve(ArtifactRequest(prebuilt, ()), V13, store).entry == ""


def test_without_the_validator_a_note_says_so(prebuilt, store):
    (note,) = under(NO_TOOLS, spirv.resolve, ask(prebuilt), V13, store).notes
    assert note == "k.spv was not validated: spirv-val is not here (apt-get install spirv-tools)"


def validator() -> str:
    found = spirv_val.find()
    if found is None:
        pytest.skip(f"spirv-val is not installed ({spirv_val.HOW_TO_GET})")
    return found


def test_a_module_that_was_not_validated_is_looked_at_again(prebuilt, store):
    validator()
    assert under(NO_TOOLS, spirv.resolve, ask(prebuilt), V13, store).notes
    artifact = spirv.resolve(ask(prebuilt), V13, store)
    assert artifact.built
    assert artifact.notes == ()


def test_a_module_that_is_not_valid_is_refused(tmp_path, store):
    validator()
    path = tmp_path / "k.spv"
    path.write_bytes(kernel([op(asm.STORE, 777, asm.ONE_F), *stores(1, 210)]))
    with pytest.raises(OpspliceError, match=r"k\.spv is not valid SPIR-V for vulkan1\.1") as caught:
        spirv.resolve(ask(path), V13, store)
    assert "777" in caught.value.details


def test_what_a_validator_is_too_old_for_is_a_note(tmp_path, store):
    validator()
    path = tmp_path / "k.spv"
    path.write_bytes(kernel([*load(0, 200), *stores(1, 210)], capabilities=(1, 60_000)))
    (note,) = spirv.resolve(ask(path), V13, store).notes
    assert "does not know what it uses" in note
    assert "60000" in note


def test_a_layout_that_needs_a_feature_is_a_note(comp, store):
    validator()
    needed("glslang")
    text = GLSL.replace("450\n", "450\n#extension GL_EXT_scalar_block_layout : require\n")
    text = text.replace("0) readonly", "0, scalar) readonly").replace("float a[]", "vec3 a[]").replace("a[i]", "a[i].z")
    comp.write_text(text)
    (note,) = spirv.resolve(ask(comp), V13, store).notes
    assert "scalarBlockLayout" in note


def test_a_language_that_the_validator_does_not_know_is_no_matter(slang, store):
    validator()
    needed("slangc")
    assert spirv.resolve(ask(slang), V13, store).notes == ()


def test_half_a_module_is_refused_and_not_kept(prebuilt, store):
    for size in (0, 3, 20, 64, len(SCALE) - 4, len(SCALE) - 1):
        prebuilt.write_bytes(SCALE[:size])
        with pytest.raises(OpspliceError, match=r"k\.spv"):
            under(NO_TOOLS, spirv.resolve, ask(prebuilt), V13, store)
    prebuilt.write_bytes(SCALE)
    assert under(NO_TOOLS, spirv.resolve, ask(prebuilt), V13, store).built


def test_what_would_have_no_effect_is_refused(prebuilt, store):
    with pytest.raises(OpspliceError, match=r"flags do nothing for k\.spv"):
        spirv.resolve(ask(prebuilt, flags=("-O",)), V13, store)
    with pytest.raises(OpspliceError, match=r"k\.spv cannot be taken as bitcode"):
        spirv.resolve(ask(prebuilt, form="bitcode"), V13, store)
    assert spirv.resolve(ask(prebuilt, form="spirv"), V13, store).built


def test_a_cpu_takes_no_spirv(kernel, store):
    with pytest.raises(OpspliceError, match=r"kernel\.c cannot be taken as spirv for a CPU"):
        cpu.resolve(ask(kernel, form="spirv"), CpuTarget("x86_64"), store)


def test_unknown_kinds_of_files_list_the_known_ones(tmp_path, store):
    path = tmp_path / "kernel.c"
    path.write_text("")
    with pytest.raises(OpspliceError, match=r"kernel\.c is not a kind of file that a Vulkan kernel") as caught:
        spirv.resolve(ask(path), V13, store)
    assert caught.value.hint == "accepted: .comp .glsl .slang .wgsl .spv"


def test_an_absent_file_names_its_neighbours(prebuilt, store):
    with pytest.raises(OpspliceError, match="no such file") as caught:
        spirv.resolve(ask(prebuilt.with_name("kk.spv")), V13, store)
    assert "did you mean k.spv?" in caught.value.hint


def test_a_binding_that_a_compiler_keeps_unused_is_not_used(comp, store):
    needed("glslang")
    comp.write_text(GLSL.replace("void main", "layout(set = 0, binding = 7) buffer C { float c[]; };\nvoid main"))
    artifact = spirv.resolve(ask(comp), V13, store)
    assert 7 not in reflect(artifact.path.read_bytes(), "k.spv").entries[0].buffers
    fits(artifact, "main")


def test_real_modules_that_do_not_fit_are_told(comp, store):
    needed("glslang")
    artifact = spirv.resolve(ask(comp), V13, store)
    with pytest.raises(OpspliceError, match=r"only reads binding 0 \('A'\), which is a result"):
        fits(artifact, "main", buffers=(True, True))
    with pytest.raises(OpspliceError, match=r"writes binding 1 \('B'\), which the kernel's signature only reads"):
        fits(artifact, "main", buffers=(True, False))
    with pytest.raises(OpspliceError, match="takes 2 32-bit words, but is passed 1"):
        fits(artifact, "main", words=1)


def test_local_sizes_by_specialization_constants_are_read(comp, store):
    needed("glslang")
    comp.write_text(GLSL.replace("local_size_x = 64", "local_size_x_id = 0, local_size_y = 2"))
    artifact = spirv.resolve(ask(comp), V13, store)
    fits(artifact, "main", workgroup=(1, 2, 1))


def test_atomics_and_functions_of_real_shaders_write(comp, store):
    needed("glslang")
    text = GLSL.replace("writeonly buffer B { float b[]; }", "buffer B { uint b[]; }")
    text = text.replace("void main", "void put(uint i, float x) { atomicAdd(b[i], uint(x)); }\nvoid main")
    comp.write_text(text.replace("b[i] = a[i] * factor", "put(i, a[i] * factor)"))
    artifact = spirv.resolve(ask(comp), V13, store)
    assert reflect(artifact.path.read_bytes(), "k.spv").entries[0].buffers[1].access == "writes"


def test_real_push_constants_are_measured(comp, store):
    needed("glslang")
    block = "layout(push_constant) uniform P { float factor; uint n; mat3x2 m[2]; vec3 v; };"
    comp.write_text(GLSL.replace("layout(push_constant) uniform P { float factor; uint n; };", block))
    artifact = spirv.resolve(ask(comp), V13, store)
    # std430: m at 8, 2 x 3 columns of 8 bytes; v at 64.
    (entry,) = reflect(artifact.path.read_bytes(), "k.spv").entries
    assert entry.words == 19


def test_old_modules_from_elsewhere_are_read(comp, tmp_path):
    glslang = needed("glslang")
    output = tmp_path / "out.spv"
    command = [*glslang.command, "-V", "--target-env", "spirv1.0", "--quiet", str(comp), "-o", str(output)]
    subprocess.run(command, check=True, env=os.environ)
    module = reflect(output.read_bytes(), "out.spv")
    assert module.version == (1, 0)
    assert [binding.kind for binding in module.bindings] == ["storage", "storage"]
    assert [binding.writable for binding in module.bindings] == [False, True]


def test_disassembly_and_reassembly_change_nothing(comp, store, tmp_path):
    needed("glslang")
    tools = [shutil.which("spirv-dis"), shutil.which("spirv-as")]
    if None in tools:
        pytest.skip("spirv-dis and spirv-as are not installed (apt-get install spirv-tools)")
    artifact = spirv.resolve(ask(comp), V13, store)
    listing, again = tmp_path / "k.spvasm", tmp_path / "again.spv"
    subprocess.run([tools[0], str(artifact.path), "-o", str(listing)], check=True)
    subprocess.run([tools[1], "--target-env", "spv1.3", str(listing), "-o", str(again)], check=True)
    assert reflect(again.read_bytes(), "k") == reflect(artifact.path.read_bytes(), "k")
    with pytest.raises(OpspliceError, match="SPIR-V assembly, not the binary"):
        reflect(listing.read_bytes(), "k")

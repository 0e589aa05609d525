"""Whole dispatches for GPUs that are not here: what is in the compiled program, and what is refused before."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.build import shaders
from tests.rewrites.conftest import write_spec

PROGRAM = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %x : tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}
"""
SPEC = """
kernel scale(x: f32[n]{more}) -> f32[n] {{
  grid (ceildiv(n, 64))
  {workgroup}
  {clause}
}}
pattern p(x: tensor<n x f32>) {{ negf(absf(x)) }}
replace p with scale(x{argument})
"""
PTX = """
define ptx_kernel void @scale(ptr %in, ptr %out, i32 %n) {
  %id = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %at = getelementptr float, ptr %out, i32 %id
  store float 0x40091EB860000000, ptr %at
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""
GLSL = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 1) writeonly buffer Out { float result[]; };
void main() { result[gl_GlobalInvocationID.x] = 1; }
"""


@pytest.fixture
def glslang() -> None:
    if shaders.find("glslang") is None:
        pytest.skip(f"glslang is not installed ({shaders.HOW_TO_GET['glslang']})")


@pytest.fixture
def compiled(tmp_path) -> Callable[..., opsplice.Program]:
    def build(clause, target, files, *, workgroup="workgroup (64)", more="", argument="") -> opsplice.Program:
        text = SPEC.format(clause=clause, workgroup=workgroup, more=more, argument=argument)
        return opsplice.compile(PROGRAM, [write_spec(tmp_path, text, files)], targets=[target])

    return build


@pytest.mark.cell("static dispatch", "CUDA", "builds")
def test_ptx_in_the_program(compiled):
    program = compiled('cuda "scale.ll"', "cuda:sm_80", {"scale.ll": PTX})
    (replacement,) = program.report.replacements
    assert replacement.action == "static dispatch"
    ptx = Path(replacement.artifacts[0].path).read_bytes()
    assert b".entry scale(" in ptx
    assert ptx in program.vmfb


@pytest.mark.cell("static dispatch", "ROCm", "builds")
def test_a_code_object_in_the_program(compiled, code_object):
    program = compiled('rocm "scale.hsaco"', "rocm:gfx942", {"scale.hsaco": code_object})
    assert code_object in program.vmfb


def test_the_newest_ptx_that_the_target_takes(compiled):
    clauses = 'cuda sm_90 "none.ptx"\n  cuda sm_80 "new.ll"\n  cuda "old.ll"\n  cuda sm_70 "older.ll"'
    program = compiled(clauses, "cuda:sm_86", dict.fromkeys(("new.ll", "old.ll", "older.ll"), PTX))
    (replacement,) = program.report.replacements
    assert replacement.artifacts[0].source.endswith("new.ll")


@pytest.mark.parametrize(
    ("target", "taken"),
    # What IREE knows: of llvmpipe 8 threads in a subgroup, of rdna3 32 or 64, of valhall1 16 and 512 in a workgroup, of
    # devices of the profile that they take 128 in a workgroup at least.
    [
        ("llvmpipe", "small.comp"),
        ("rdna3", "wide.comp"),
        ("valhall1", "small.comp"),
        ("adreno", "widest.comp"),
        ("vp_android_baseline_2022", "any.comp"),
    ],
)
def test_the_clause_that_a_device_has_the_numbers_for(compiled, glslang, target, taken):
    clauses = 'vulkan when subgroup == 64 "widest.comp"\n  vulkan when subgroup >= 32 and memory > 1000 "wide.comp"\n'
    clauses += '  vulkan when threads <= 1024 "small.comp"\n  vulkan when threads >= 128 "any.comp"'
    names = ("widest.comp", "wide.comp", "small.comp", "any.comp")
    program = compiled(clauses, f"vulkan:{target}", dict.fromkeys(names, GLSL))
    (replacement,) = program.report.replacements
    assert replacement.artifacts[0].source.endswith(taken)


def test_no_clause_that_a_device_has_the_numbers_for(compiled):
    with pytest.raises(OpspliceError, match="has no artifact for vulkan-spirv") as error:
        compiled('vulkan when subgroup >= 32 "k.spv"', "vulkan:llvmpipe", {})
    assert error.value.details.endswith("wants subgroup >= 32, and of the target subgroup is 8")
    for wanted, known in (("subgroup >= 1", "subgroup is not known"), ("memory < 99999", "memory is at least 16384")):
        with pytest.raises(OpspliceError) as error:
            compiled(f'vulkan when {wanted} "k.spv"', "vulkan", {})
        assert error.value.details.endswith(f"wants {wanted}, and of the target {known}")
    with pytest.raises(OpspliceError) as error:
        compiled('vulkan when subgroup >= 8 and Float99 "k.spv"', "vulkan:llvmpipe", {})
    assert error.value.details.endswith("wants Float99, which the target lacks")
    with pytest.raises(OpspliceError) as error:
        compiled('cuda sm_90 "k.ptx"', "cuda:sm_80", {})
    assert error.value.details.endswith("is for sm_90, and the target is sm_80")


def test_more_threads_than_the_device_takes(compiled, glslang):
    glsl, workgroup = GLSL.replace("64", "1024"), "workgroup (1024)"
    with pytest.raises(OpspliceError, match="has workgroups of 1024 threads, and vulkan-spirv valhall1 takes 512"):
        compiled('vulkan "k.comp"', "vulkan:valhall1", {"k.comp": glsl}, workgroup=workgroup)


# A SPIR-V module of one entry point, `scale`, that does nothing: OpCapability Shader, OpMemoryModel, OpEntryPoint,
# OpExecutionMode LocalSize 64 1 1, and a function that returns.
MINIMAL = struct.pack(
    "<35I",
    *(0x07230203, 0x00010000, 0, 6, 0),
    *(0x00020011, 1),
    *(0x0003000E, 0, 1),
    *(0x0005000F, 5, 4, 0x6C616373, 0x00000065),
    *(0x00060010, 4, 17, 64, 1, 1),
    *(0x00020013, 2),
    *(0x00030021, 3, 2),
    *(0x00050036, 2, 4, 0, 3),
    *(0x000200F8, 5),
    *(0x000100FD,),
    *(0x00010038,),
)

REFUSED = {
    "another count of parameters": (
        {"more": ", s: f32", "argument": ", 2.0"},
        "entry 'scale' of scale.ll takes 3 parameters .* but is passed 2 pointers and 2 32-bit words",
    ),
    "a word more": ({"more": ", s: f64", "argument": ", 2.0"}, "but is passed 2 pointers and 3 32-bit words"),
    "no size of workgroups": ({"workgroup": ""}, "nothing says how many threads a workgroup of kernel scale has"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_the_signature(compiled, case):
    changed, message = REFUSED[case]
    with pytest.raises(OpspliceError, match=message) as error:
        compiled('cuda "scale.ll"', "cuda:sm_80", {"scale.ll": PTX}, **changed)
    assert "needed by the kernel at" in error.value.details


def test_a_grid_that_the_device_does_not_take(tmp_path):
    text = SPEC.format(clause='cuda "scale.ll"', workgroup="workgroup (64)", more="", argument="")
    text = text.replace("grid (ceildiv(n, 64))", "grid (1, n * 70000)")
    spec = write_spec(tmp_path, text, {"scale.ll": PTX})
    with pytest.raises(OpspliceError, match="has 350000 workgroups in dim 1 of its grid, and cuda takes 65535"):
        opsplice.compile(PROGRAM.replace("?", "5"), [spec], targets=["cuda:sm_80"])


def test_more_constants_than_vulkan_takes(compiled):
    more = "".join(f", s{i}: f64" for i in range(16))
    with pytest.raises(OpspliceError, match="kernel scale is passed 33 32-bit words, and such devices take 32"):
        compiled('vulkan "k.spv"', "vulkan:llvmpipe", {"k.spv": MINIMAL}, more=more, argument=", 1.0" * 16)


def test_shared_memory_chosen_at_the_launch(compiled):
    ptx = (
        ".version 7.0\n.target sm_70\n.address_size 64\n.extern .shared .align 4 .b8 tile[];\n"
        ".visible .entry other() { .reg .u64 %t; mov.u64 %t, tile; ret; }\n"
        ".visible .entry scale(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n"
    )
    assert b".entry other" not in compiled('cuda "scale.ptx"', "cuda:sm_80", {"scale.ptx": ptx}).vmfb
    unused, ptx = ptx, ptx.replace("u32 n) {", "u32 n) { .reg .u64 %t; mov.u64 %t, tile;")
    with pytest.raises(
        OpspliceError, match="shares memory whose size is chosen at the launch, and the clause says none"
    ):
        compiled('cuda "scale.ptx"', "cuda:sm_80", {"scale.ptx": ptx})
    for size in (54321, 98765):
        program = compiled(f'cuda "scale.ptx" shared {size}', "cuda:sm_80", {"scale.ptx": ptx})
        assert size.to_bytes(4, "little") in program.vmfb
    fixed = {"scale.ptx": unused}
    with pytest.raises(OpspliceError, match="shares no memory of the launch, and the clause gives it 64 bytes"):
        compiled('cuda "scale.ptx" shared 64', "cuda:sm_80", fixed)


@pytest.mark.parametrize(
    ("clause", "target", "device", "hint"),
    [('cuda "k.cubin"', "cuda:sm_80", "CUDA", "no cubin or fatbin"), ('cpu "k.txt"', "cpu", "CPU", "accepted: .c")],
)
def test_what_only_matches_looks_at_kinds_of_files(tmp_path, clause, target, device, hint):
    spec = "kernel k(x: f32[n]) -> f32[n] { workgroup (32) CLAUSE }\n".replace("CLAUSE", clause)
    spec += "pattern p(x: tensor<n x f32>) { absf(x) }\nreplace p with k(x)\n"
    model = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n%0 = math.absf %x : tensor<4xf32>\n"
    path = write_spec(tmp_path, spec, {clause.split('"')[1]: ""})
    with pytest.raises(OpspliceError, match=f"is not a kind of file that a {device} kernel can be") as error:
        opsplice.match(model + "return %0 : tensor<4xf32>\n}", [path], targets=[target])
    assert hint in error.value.hint


def test_bitcode_is_no_dispatch_for_rocm(compiled):
    code = 'target triple = "amdgcn-amd-amdhsa"\ndefine void @scale(ptr %a, ptr %b, i32 %n) {\n  ret void\n}\n'
    with pytest.raises(OpspliceError, match=r"scale\.ll is not a code object"):
        compiled('rocm "scale.ll"', "rocm:gfx942", {"scale.ll": code})


def test_wgsl_without_a_converter(compiled, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OpspliceError) as error:
        compiled('wgsl "k.wgsl"', "vulkan:llvmpipe", {"k.wgsl": "@compute @workgroup_size(64) fn scale() {}"})
    assert "naga" in f"{error.value.message} {error.value.hint}"


@pytest.mark.parametrize(
    "clause", ['cuda "k.ptx"', 'rocm "k.hsaco"', 'vulkan "k.spv"', 'metal "k.metal"', 'wgsl "k.wgsl"']
)
def test_plugins_are_for_cpus(tmp_path, clause):
    text = SPEC.format(clause=f"{clause} as plugin", workgroup="", more="", argument="")
    with pytest.raises(OpspliceError) as error:
        opsplice.compile(PROGRAM, [write_spec(tmp_path, text, {})])
    assert "`as plugin` is for cpu" in error.value.details


def test_a_plain_function_is_for_cpus(tmp_path):
    text = SPEC.format(clause='cuda "k.cu" as object', workgroup="", more="", argument="")
    with pytest.raises(OpspliceError) as error:
        opsplice.compile(PROGRAM, [write_spec(tmp_path, text, {})])
    assert "`as object` is for cpu" in error.value.details


# ---- MLIR in the place of a match, whatever the target ---------------------------------------------------------------

INLINE = """
pattern p(x: tensor<n x f32>) { negf(absf(x)) }
replace p with mlir {
  %c = arith.constant 3.14159274 : f32
  %e = tensor.empty(%n) : $x
  %cs = linalg.fill ins(%c : f32) outs(%e : $x) -> $x
  %r = arith.mulf %x, %cs : $x
  yield %r
}
"""


@pytest.mark.parametrize(
    ("target", "constant"),
    [
        pytest.param("cuda:sm_80", b"0f40490FDB", marks=pytest.mark.cell("inline IR", "CUDA", "builds")),
        pytest.param("rocm:gfx942", bytes.fromhex("db0f4940"), marks=pytest.mark.cell("inline IR", "ROCm", "builds")),
        pytest.param("metal", b"3.14159", marks=pytest.mark.cell("inline IR", "Metal", "builds")),
    ],
)
def test_inserted_mlir_is_in_the_code(tmp_path, target, constant):
    plain = opsplice.compile(PROGRAM, targets=[target])
    program = opsplice.compile(PROGRAM, [write_spec(tmp_path, INLINE, {})], targets=[target])
    assert [r.action for r in program.report.replacements] == ["inline"]
    assert constant in program.vmfb
    assert constant not in plain.vmfb


@pytest.mark.cell("inline IR", "SPIR-V", "runs")
def test_inserted_mlir_on_vulkan(tmp_path, vulkan):
    program = opsplice.compile(PROGRAM, [write_spec(tmp_path, INLINE, {})], targets=["vulkan:llvmpipe"])
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(program.run("main", x, device="vulkan"), x * np.float32(np.pi))


@pytest.mark.parametrize(
    ("clauses", "target", "chosen"),
    [
        (("sm_80", "sm_90a", "sm_90"), "cuda:sm_90a", "sm_90a"),
        (("sm_80", "sm_90a", "sm_90"), "cuda:sm_90", "sm_90"),
        (("sm_80", "sm_90a"), "cuda:sm_100", "sm_80"),
        (("sm_80",), "cuda:sm_90a", "sm_80"),
    ],
)
def test_clauses_for_one_architecture_only(tmp_path, clauses, target, chosen):
    pytest.importorskip("llvmlite")
    text = "\n".join(f'cuda {arch} "{arch}.ll"' for arch in clauses)
    spec = SPEC.format(more="", argument="", workgroup="workgroup (64)", clause=text)
    path = write_spec(tmp_path, spec, {f"{arch}.ll": PTX for arch in clauses})
    (replacement,) = opsplice.compile(PROGRAM, [path], targets=[target]).report.replacements
    assert [Path(use.source).stem for use in replacement.artifacts] == [chosen]


# ---- types of words, and memory that a workgroup shares -----------------------------------------------------------

WORDS_PTX = """
.version 7.6
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 out, {words}) {{ ret; }}
"""
WORDS_GLSL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) writeonly buffer Out {{ float result[]; }};
layout(push_constant) uniform Words {{ {words} }};
void main() {{ result[gl_GlobalInvocationID.x] = x[gl_GlobalInvocationID.x] + float(a) + float(b); }}
"""


TAKEN = """.version 7.6
.target sm_80
.address_size 64
.visible .entry scale({parameters}) {{
  .reg .b64 %rd<4>; .reg .f32 %f<2>;
  ld.param.u64 %rd1, [size];
  ret;
}}
"""


@pytest.mark.parametrize(
    ("parameters", "takes", "said"),
    [
        (".param .u64 x, .param .u64 out, .param .u64 size", "x, out, n", None),
        (".param .u64 size, .param .u64 out, .param .u64 x, .param .u64 s", "n, out, x, 0", None),
        (".param .u64 size, .param .u64 out, .param .u64 x, .param .u32 s", "n, out, x, -1", None),
        (".param .u64 size, .param .u64 out, .param .u64 x, .param .u32 s", "n, out, x, 0.5", "is called 0.5"),
        (".param .u64 size, .param .u64 out, .param .u64 x", "", "parameter 3 is u64, not a 32-bit word"),
        (".param .u64 size, .param .u64 out", "n, size", "nothing that kernel scale is passed is called size"),
        (".param .u64 size, .param .u64 out", "n", "takes 2 parameters (u64, u64), and gets 1: n"),
    ],
)
def test_parameters_in_an_order_and_widths_of_their_own(compiled, parameters, takes, said):
    clause = f'cuda "scale.ptx" takes "{takes}"' if takes else 'cuda "scale.ptx"'
    files = {"scale.ptx": TAKEN.format(parameters=parameters)}
    if said is None:
        program = compiled(clause, "cuda:sm_80", files)
        assert b".entry scale(.param .u64 scale_buffer_0, .param .u64 scale_buffer_1, .param .u32 scale_word_0)" in (
            program.vmfb
        )
        assert b"ld.param.u32 %opsplice_0, [scale_word_0]; cvt.s64.s32 %rd1, %opsplice_0;" in program.vmfb
        return
    with pytest.raises(OpspliceError) as error:
        compiled(clause, "cuda:sm_80", files)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("suffix", "words", "wrong"),
    [
        (".ptx", ".param .f32 s, .param .u32 n", None),
        (".ptx", ".param .b32 s, .param .s32 n", None),
        (".ptx", ".param .u32 s, .param .f32 n", "entry 'scale' of scale.ptx takes a float where n is passed"),
        (".comp", "float a; uint b;", None),
        (".comp", "uint a; int b;", None),
        (".comp", "uint a; float b;", "entry 'main' of scale.comp takes a float where n is passed"),
        (
            ".comp",
            "vec2 v; };\n#define a v.x\n#define b v.y\nstruct Unused { int u;",
            "where n is passed",
        ),
    ],
)
def test_floats_where_the_kernel_has_none(tmp_path, suffix, words, wrong):
    needs_glsl(suffix)
    backend, template = ("cuda", WORDS_PTX) if suffix == ".ptx" else ("vulkan", WORDS_GLSL)
    clause = f'{backend} "scale{suffix}"'
    spec = SPEC.format(more=", s: f32", argument=", 2.0", workgroup="workgroup (64)", clause=clause)
    path = write_spec(tmp_path, spec, {f"scale{suffix}": template.format(words=words)})
    target = ["cuda:sm_80" if backend == "cuda" else "vulkan:llvmpipe"]
    if wrong is None:
        assert len(opsplice.compile(PROGRAM, [path], targets=target).report.replacements) == 1
        return
    with pytest.raises(OpspliceError) as error:
        opsplice.compile(PROGRAM, [path], targets=target)
    assert wrong in error.value.message
    assert error.value.hint == "the words are, in order: s (f32), n (i32)"


@pytest.mark.parametrize(("count", "target", "fits"), [(4096, "vulkan", True), (4097, "vulkan", False),
                                                       (8192, "vulkan:llvmpipe", True), (20000, "vulkan:ada", True),
                                                       (40000, "vulkan:llvmpipe", False)])  # fmt: skip
def test_memory_that_a_workgroup_shares(tmp_path, count, target, fits):
    needs_glsl(".comp")
    code = f"""#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) writeonly buffer Out {{ float result[]; }};
shared float held[{count}];
shared float unused[90000];
void main() {{
  uint i = gl_GlobalInvocationID.x;
  held[gl_LocalInvocationID.x] = x[i];
  barrier();
  result[i] = held[63 - gl_LocalInvocationID.x];
}}
"""
    spec = SPEC.format(more="", argument="", workgroup="workgroup (64)", clause='vulkan "scale.comp"')
    path = write_spec(tmp_path, spec, {"scale.comp": code})
    if fits:
        assert len(opsplice.compile(PROGRAM, [path], targets=[target]).report.replacements) == 1
        return
    with pytest.raises(OpspliceError, match=f"shares {4 * count} bytes in a workgroup") as error:
        opsplice.compile(PROGRAM, [path], targets=[target])
    assert "when memory >=" in error.value.hint


def needs_glsl(suffix: str) -> None:
    if suffix == ".comp" and not any(map(shaders.find, shaders.COMPILERS["GLSL"])):
        pytest.skip("no compiler of GLSL")

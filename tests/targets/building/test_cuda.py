"""From a kernel's file to checked PTX: what is built, what is reused, what is refused."""

import os
import re
import stat
import sys
from types import SimpleNamespace

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget, CudaTarget
from opsplice.targets.backends import cpu, cuda
from opsplice.targets.build import cuda_compilers, llvm, ptxas, toolchains
from opsplice.targets.formats import ptx
from tests.environment import under
from tests.targets.link.launching import launch

SM80 = CudaTarget(80)
# On the edge of what all compilers here know: clang 14 ends at sm_86, CUDA 13 begins at sm_75.
CU = """
extern "C" __global__ void __launch_bounds__(128)
scale(const float *__restrict__ in, float *out, float factor, unsigned n) {
  __shared__ float row[128];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  row[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = sqrtf(fmaxf(row[127 - threadIdx.x], 0.0f)) * factor;
}
"""
IR = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @scale(ptr %in, ptr %out, float %factor, i32 %n) "nvvm.maxntid"="64" "target-cpu"="sm_52" {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %do, label %done
do:
  %from = getelementptr float, ptr %in, i32 %i
  %x = load float, ptr %from
  %y = fmul float %x, %factor
  %to = getelementptr float, ptr %out, i32 %i
  store float %y, ptr %to
  br label %done
done:
  ret void
}
"""
PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 a, .param .u64 b, .param .f32 f, .param .u32 n) { ret; }
"""


def ask(path, *symbols, **options):
    return ArtifactRequest(path, symbols or ("scale",), **options)


@pytest.fixture
def write(tmp_path):
    def write(text, name="k.ptx"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def refused(write, store):
    """The error for a prebuilt text (or another file by its name) on a target."""

    def refused(text, target=SM80, name="k.ptx", *symbols, **options):
        with pytest.raises(OpspliceError) as caught:
            under({}, cuda.resolve, ask(write(text, name), *symbols, **options), target, store)
        return caught.value

    return refused


@pytest.fixture(params=cuda_compilers.NAMES)
def chosen(request) -> dict[str, str]:
    """An environment that chooses each compiler in turn; skips those that this machine lacks."""
    if cuda_compilers.find(request.param) is None:
        pytest.skip(f"{request.param} is not here ({cuda_compilers.HOW_TO_GET[request.param]})")
    return {"OPSPLICE_CUDA_CC": request.param}


@pytest.fixture
def anyone() -> dict[str, str]:
    """An environment that chooses some compiler of CUDA sources."""
    for name in ("zig", "clang", "nvcc", "nvrtc"):
        if cuda_compilers.find(name) is not None:
            return {"OPSPLICE_CUDA_CC": name}
    pytest.skip(f"no compiler of CUDA sources here ({cuda_compilers.HOW_TO_GET['zig']})")


@pytest.fixture
def assembler():
    found = ptxas.find()
    if found is None:
        pytest.skip(f"ptxas is not here ({ptxas.HOW_TO_GET})")
    return found


@pytest.fixture
def no_assembler(monkeypatch):
    monkeypatch.setattr(ptxas, "find", lambda: None)


@pytest.fixture
def counted(monkeypatch):
    """The compiles that were really run."""
    runs = []
    original = cuda_compilers.CudaCompiler.compile

    def run(self, source, output, target, *more):
        runs.append(source.name)
        return original(self, source, output, target, *more)

    monkeypatch.setattr(cuda_compilers.CudaCompiler, "compile", run)
    return runs


def launchable(artifact, target):
    """Whether the artifact is what IREE can launch with two pointers and two words, for the target."""
    module = ptx.reflect(artifact.path.read_text(), "built")
    launch(ptx.find_entry(module, "built", artifact.entry), 2, 2, (64, 1, 1))
    return (artifact.form, artifact.entry, module.sm) == ("ptx", "scale", target.sm)


TEMPLATE = """#include "factor.h"
namespace lib {
template <typename T, int N, bool TWICE> __global__ void scale(const T *x, T *out, unsigned n) {
  unsigned i = blockIdx.x * N + threadIdx.x;
  if (i < n) out[i] = TWICE ? x[i] * FACTOR : x[i];
}
}
"""


def test_each_compiler_builds_instances_of_templates(write, store, chosen):
    write("#define FACTOR 2\n", "factor.h")
    source = write(TEMPLATE, "k.cu")
    artifact = under(chosen, cuda.resolve, ask(source, "lib::scale<f32, 64, true>"), SM80, store)
    assert artifact.entry == "_ZN3lib5scaleIfLi64ELb1EEEvPKT_PS1_j"
    assert under(chosen, cuda.resolve, ask(source, "lib::scale<f64, 64, true>"), SM80, store).entry.startswith(
        "_ZN3lib5scaleId"
    )
    write("#define FACTOR 3\n", "factor.h")
    assert under(chosen, cuda.resolve, ask(source, "lib::scale<f32, 64, true>"), SM80, store).digest != artifact.digest


def test_each_compiler_builds(write, store, chosen):
    artifact = under(chosen, cuda.resolve, ask(write(CU, "k.cu")), SM80, store)
    assert launchable(artifact, SM80)
    assert artifact.built
    assert artifact.arch is None
    assert artifact.toolchain.startswith(chosen["OPSPLICE_CUDA_CC"])
    assert artifact.path.is_relative_to(store.root)
    module = ptx.reflect(artifact.path.read_text(), "k.cu")
    with pytest.raises(OpspliceError, match="takes workgroups of 1 to 128 threads"):
        launch(ptx.find_entry(module, "k.cu", "scale"), 2, 2, (256, 1, 1))


def test_a_symbol_with_other_template_arguments(write, store, anyone):
    write("#define FACTOR 2\n", "factor.h")
    with pytest.raises(OpspliceError, match=r"cannot compile k\.cu") as caught:
        under(anyone, cuda.resolve, ask(write(TEMPLATE, "k.cu"), "lib::scale<f32, 64>"), SM80, store)
    assert caught.value.hint == "write the kernel's symbol with all template arguments, as the file declares them"


def test_each_compiler_tells_what_is_wrong(write, store, chosen):
    with pytest.raises(OpspliceError, match=r"cannot compile k\.cu") as caught:
        under(chosen, cuda.resolve, ask(write('extern "C" __global__ void scale( { nonsense\n', "k.cu")), SM80, store)
    assert "error" in caught.value.details


def test_each_compiler_builds_anew_after_a_change_of_a_header(write, store, chosen, counted):
    write("#define FACTOR 2.0f\n", "deep.h")
    write('#include "deep.h"\n', "top.h")
    source = write('#include "top.h"\nextern "C" __global__ void scale(float *x) { *x *= FACTOR; }\n', "k.cu")
    first = under(chosen, cuda.resolve, ask(source), SM80, store)
    again = under(chosen, cuda.resolve, ask(source), SM80, Store(store.root))
    write("#define FACTOR 3.0f\n", "deep.h")
    changed = under(chosen, cuda.resolve, ask(source), SM80, store)
    assert (first.built, again.built, changed.built) == (True, False, True)
    assert changed.digest != first.digest
    assert len(counted) == 2


def test_each_compiler_refuses_a_header_whose_changes_would_go_unseen(write, store, chosen):
    write("#define FACTOR 2.0f\n", "hidden.h")
    text = '#define TEXT(x) #x\n#include TEXT(hidden.h)\nextern "C" __global__ void scale(float *x) { *x *= FACTOR; }\n'
    with pytest.raises(OpspliceError, match=r"k\.cu includes .*hidden\.h under a name that is put together"):
        under(chosen, cuda.resolve, ask(write(text, "k.cu")), SM80, store)


def test_each_compiler_takes_flags(write, tmp_path, store, chosen):
    (tmp_path / "inc").mkdir()
    write("#define FACTOR 2.0f\n", "inc/factor.h")
    text = '#include <factor.h>\nextern "C" __global__ void NAME(float *x) { *x *= FACTOR; }\n'
    request = ask(write(text, "k.cu"), flags=("-Iinc", "-DNAME=scale"))
    assert under(chosen, cuda.resolve, request, SM80, store).entry == "scale"


def test_what_a_clang_without_an_sdk_lacks_is_told(write, store):
    if cuda_compilers.find("zig") is None:
        pytest.skip("zig is not here (pip install ziglang)")
    text = 'extern "C" __global__ void scale(float *x) { *x = expf(*x); }\n'
    with pytest.raises(OpspliceError, match=r"zig cannot compile k\.cu") as caught:
        under({"OPSPLICE_CUDA_CC": "zig"}, cuda.resolve, ask(write(text, "k.cu")), SM80, store)
    assert "opsplice[cuda]" in caught.value.hint


def test_ir_is_built_without_a_compiler(write, store):
    environ = {"OPSPLICE_CUDA_CC": "/no/such/compiler"}
    for target in (CudaTarget(52), SM80, CudaTarget(90, (7, 8)), CudaTarget(120)):
        artifact = under(environ, cuda.resolve, ask(write(IR, "k.ll")), target, store)
        assert launchable(artifact, target)
        assert artifact.toolchain == llvm.version()
    assert not cuda.resolve(ask(write(IR, "k.ll")), SM80, store).built


def test_ir_for_a_gpu_that_llvm_does_not_know_is_refused(refused):
    error = refused(IR, CudaTarget(999), "k.ll")
    assert "does not know sm_999, which k.ll is to be compiled for" in error.message


def test_ir_that_is_no_kernel_is_refused(refused):
    assert "ptx_kernel" in refused("define void @scale() {\n ret void\n}\n", name="k.ll").hint
    assert "k.ll:2:2" in refused("define void @scale() {\n nonsense\n}\n", name="k.ll").details


def test_ir_for_another_processor_is_noted(write, store):
    artifact = cuda.resolve(ask(write('target triple = "x86_64-none-elf"\n' + IR, "k.ll")), SM80, store)
    assert artifact.notes[0] == "k.ll was made for x86_64-none-elf and is compiled for nvptx64-nvidia-cuda"


def test_prebuilt_files_are_copied_and_outlive_their_original(write, store):
    path = write(PTX.encode() + b"\0")
    artifact = cuda.resolve(ask(path), CudaTarget(90, (8, 0)), store)
    path.unlink()
    assert artifact.path.read_text() == PTX
    assert (artifact.toolchain, artifact.entry) == (None, "scale")


def test_a_newer_gpu_is_refused_naming_both(refused):
    error = refused(PTX.replace("sm_80", "sm_90"))
    assert error.message == "k.ptx is for sm_90, but the target is sm_80, which is older"


def test_code_for_one_gpu_is_taken_for_that_one_only(refused, write, store):
    text = PTX.replace("sm_80", "sm_90a").replace("7.0", "8.0")
    assert "sm_100; code for sm_90a runs on just that GPU" in refused(text, CudaTarget(100)).message
    assert cuda.resolve(ask(write(text)), CudaTarget(90), store).built


def test_a_newer_ptx_version_is_refused_naming_both(refused):
    error = refused(PTX.replace("7.0", "8.4"), CudaTarget(80, (8, 3)))
    assert error.message == "k.ptx is PTX 8.4, but the driver of the target reads PTX 8.3"


def test_a_compiler_that_makes_newer_ptx_is_told(write, store, anyone):
    with pytest.raises(OpspliceError, match=r"k\.cu is PTX .*, but the driver of the target reads PTX 6\.0") as caught:
        under(anyone, cuda.resolve, ask(write(CU, "k.cu")), CudaTarget(80, (6, 0)), store)
    assert "makes no older one" in caught.value.hint


def test_an_absent_entry_is_told_each_time(refused):
    for _ in range(2):
        error = refused(PTX, SM80, "k.ptx", "scales")
        assert error.message == "k.ptx has no entry 'scales'"
        assert "did you mean 'scale'?" in error.hint


def test_the_only_entry_needs_no_name(write, store, refused):
    assert cuda.resolve(ArtifactRequest(write(PTX), ()), SM80, store).entry == "scale"
    two = PTX + ".visible .entry shift(.param .u64 a) { ret; }\n"
    with pytest.raises(OpspliceError, match="has 2 entries, and none is named as the kernel") as caught:
        cuda.resolve(ArtifactRequest(write(two), ()), SM80, store)
    assert "'scale', 'shift'" in caught.value.hint
    artifact = cuda.resolve(ask(write(two), "shift", "scale"), SM80, store)
    assert artifact.entry == "shift"
    # A program embeds the text for each dispatch.
    assert re.findall(r"\.entry (\w+)", artifact.path.read_text()) == ["shift"]


def test_calls_that_nothing_defines_are_refused(refused):
    text = PTX.replace("{ ret; }", "{ .param .b32 p; call outside, (p); ret; }")
    text = text.replace(".visible", ".extern .func outside(.param .b32 a);\n.visible")
    assert "k.ptx calls 'outside'" in refused(text).message


def test_files_that_are_cut_off_are_refused_and_not_kept(refused, write, store):
    for size in (0, 5, 20, 40, 70, 100, 120, len(PTX) - 3):
        assert "k.ptx" in refused(PTX[:size]).message
    assert cuda.resolve(ask(write(PTX)), SM80, store).built


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (os.urandom(2000) + b"\0!", "k.ptx is a binary file, not PTX text"),
        (b"\x7fELF" + bytes(60), "k.ptx is an ELF file, such as an object or a cubin"),
        (b"\xff\xfe" * 100, "k.ptx is not PTX text"),
    ],
)
def test_binary_garbage_is_refused(refused, data, said):
    assert said in refused(data).message


def test_unknown_kinds_of_files_list_the_known_ones(refused, store, tmp_path):
    error = refused("", name="k.cubin")
    assert error.message == "k.cubin is not a kind of file that a CUDA kernel can be"
    assert ".cu .ll .ptx" in error.hint
    with pytest.raises(OpspliceError, match="no such file") as caught:
        cuda.resolve(ask(tmp_path / "k.cub"), SM80, store)
    assert "did you mean k.cubin?" in caught.value.hint


def test_what_would_have_no_effect_is_refused(refused, write, store):
    assert "flags do nothing for k.ptx" in refused(PTX, SM80, "k.ptx", flags=("-O1",)).message
    assert "cannot be taken as bitcode" in refused(PTX, SM80, "k.ptx", form="bitcode").message
    with pytest.raises(OpspliceError, match=r"k\.c cannot be taken as ptx for a CPU"):
        cpu.resolve(ask(write("", "k.c"), form="ptx"), CpuTarget("x86_64"), store)


def test_whatever_can_change_the_result_builds_anew(write, store, anyone, counted):
    path = write(CU, "k.cu")
    under(anyone, cuda.resolve, ask(path), SM80, store)
    under(anyone, cuda.resolve, ask(path, flags=("-DA",)), SM80, store)
    under(anyone, cuda.resolve, ask(path), CudaTarget(86), store)
    under(anyone, cuda.resolve, ask(path), CudaTarget(80, (9, 9)), store)
    write(CU.replace("127", "126"), "k.cu")
    under(anyone, cuda.resolve, ask(path), SM80, store)
    assert len(counted) == 5


def test_the_assembler_has_the_last_word(refused, assembler):
    error = refused(PTX.replace("{ ret; }", "{ add.f33 a, b; ret; }"))
    assert error.message == "ptxas refuses k.ptx for sm_80"
    assert "k.ptx, line 4" in error.details


def test_what_the_driver_defines_may_be_called(write, store, assembler):
    declared = """
.extern .func (.param .b32 result) vprintf(.param .b64 a, .param .b64 b);
.extern .func (.param .b64 result) malloc(.param .b64 a);
.extern .func free(.param .b64 a);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
"""
    called = """{
  .param .b64 p; .param .b32 word; .param .b64 result;
  call (word), vprintf, (p, p);
  call (result), malloc, (p);
  call free, (p);
  call __assertfail, (p, p, word, p, p);
  ret;
}"""
    text = PTX.replace(".visible", f"{declared}.visible").replace("{ ret; }", called)
    assert not cuda.resolve(ask(write(text)), SM80, store).notes


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (PTX.replace("7.0", "19.0"), SM80, "k.ptx was not assembled: it is PTX 19.0, and ptxas"),
        (PTX.replace("sm_80", "sm_30"), CudaTarget(30), "does not know sm_30"),
    ],
)
def test_what_the_assembler_does_not_know_is_noted(write, store, assembler, text, target, said):
    artifact = cuda.resolve(ask(write(text)), target, store)
    assert said in artifact.notes[0]


def test_without_an_assembler_there_is_a_note(write, store, no_assembler):
    artifact = cuda.resolve(ask(write(PTX)), SM80, store)
    assert artifact.notes == ("k.ptx was not assembled: there is no ptxas here",)


def test_an_assembler_that_came_later_is_used(write, store, monkeypatch, assembler):
    monkeypatch.setattr(ptxas, "find", lambda: None)
    assert cuda.resolve(ask(write(PTX)), SM80, store).notes
    monkeypatch.setattr(ptxas, "find", lambda: assembler)
    assert not cuda.resolve(ask(write(PTX)), SM80, store).notes


def test_an_assembler_that_does_not_end_is_noted(write, store, tmp_path, monkeypatch):
    slow = tmp_path / "ptxas"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(ptxas, "find", lambda: str(slow))
    monkeypatch.setattr(ptxas, "_LONGEST_SECONDS", 0.2)
    artifact = cuda.resolve(ask(write(PTX)), SM80, store)
    assert "did not end" in artifact.notes[0]


def test_a_compiler_is_chosen_by_the_gpu_that_it_knows(monkeypatch):
    old = cuda_compilers.CudaCompiler("nvcc", "nvcc", ("nvcc",), "11.0", frozenset({70, 80}))
    new = cuda_compilers.CudaCompiler("clang", "clang", ("clang",), "22.1", frozenset({80, 120}))
    monkeypatch.setattr(cuda_compilers, "find", {"nvcc": old, "clang": new}.get)
    assert under({}, cuda_compilers.choose, CudaTarget(80)) is old
    assert under({}, cuda_compilers.choose, CudaTarget(120)) is new
    with pytest.raises(OpspliceError, match="for sm_90") as caught:
        under({}, cuda_compilers.choose, CudaTarget(90))
    assert "nvcc 11.0 for sm_70 to sm_80, clang 22.1 for sm_80 to sm_120" in caught.value.message
    assert "opsplice[cuda]" in caught.value.hint


def test_with_no_compiler_the_way_to_get_one_is_told(monkeypatch):
    monkeypatch.setattr(cuda_compilers, "find", lambda name: None)
    with pytest.raises(OpspliceError, match=r"for sm_80 \(found: none\)"):
        under({}, cuda_compilers.choose, SM80)
    with pytest.raises(OpspliceError, match="asks for nvrtc, which is not here") as caught:
        under({"OPSPLICE_CUDA_CC": "nvrtc"}, cuda_compilers.choose, SM80)
    assert "opsplice[cuda]" in caught.value.hint


def test_the_newest_of_several_wheels_is_taken(tmp_path, monkeypatch):
    for place in ("cu13/lib/libnvvm.so.13", "cuda_nvcc/lib/libnvvm.so.12", "cu9/lib/libnvvm.so.9"):
        (tmp_path / "nvidia" / place).parent.mkdir(parents=True)
        (tmp_path / "nvidia" / place).write_text("")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(cuda_compilers.importlib.util, "find_spec", lambda name: spec)
    assert cuda_compilers.wheel_file("lib/libnvvm.so.*").name == "libnvvm.so.13"
    assert cuda_compilers.wheel_file("bin/ptxas") is None


def test_a_compiler_may_be_given_by_its_path(write, store):
    if toolchains.find("clang") is None or cuda_compilers.find("clang") is None:
        pytest.skip("clang is not here (apt-get install clang)")
    path = toolchains.find("clang").command[0]
    found = under({"OPSPLICE_CUDA_CC": path}, cuda_compilers.choose, SM80)
    assert (found.family, found.command) == ("clang", (path,))


@pytest.mark.parametrize(
    ("value", "said"), [("/no/such/nvcc", "names '/no/such/nvcc', which is not here"), ("true", "'true' is no")]
)
def test_a_path_that_is_no_compiler_is_told(value, said):
    with pytest.raises(OpspliceError, match=said):
        under({"OPSPLICE_CUDA_CC": value}, cuda_compilers.choose, SM80)


def test_an_nvrtc_that_fails_is_told(write, monkeypatch):
    broken = write("raise SystemExit('no such symbol: nvrtcVersion')", "worker.py")
    monkeypatch.setattr(cuda_compilers, "_WORKER", broken)
    monkeypatch.setattr(cuda_compilers, "_about_nvrtc", cuda_compilers._about_nvrtc.__wrapped__)
    monkeypatch.setattr(cuda_compilers, "has_bindings", lambda: True)
    with pytest.raises(OpspliceError, match="NVRTC failed") as caught:
        under({"OPSPLICE_CUDA_CC": "nvrtc"}, cuda_compilers.choose, SM80)
    assert "no such symbol" in caught.value.details


def test_without_the_bindings_there_is_no_nvrtc(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert not cuda_compilers.has_bindings()
    assert cuda_compilers.find("nvrtc") is None


@pytest.mark.parametrize(("name", "sm"), [("sm_80", 80), ("sm_90a", 90), ("sm_120", 120)])
def test_targets_by_irees_names(name, sm):
    assert CudaTarget.of(name) == CudaTarget(sm)
    with pytest.raises(OpspliceError, match="does not say a compute capability"):
        CudaTarget.of("rtx4090")


def test_this_machines_gpu(monkeypatch):
    answers = {"version": "13.0", "gpus": ["NVIDIA H200 (sm_90)", "NVIDIA T4 (sm_75)"]}
    monkeypatch.setattr(cuda_compilers, "has_bindings", lambda: True)
    monkeypatch.setattr(cuda_compilers, "_ask", lambda job, **words: answers)
    chip = cuda_compilers.chip_here.__wrapped__
    assert chip() == "sm_90"
    answers["gpus"] = []
    assert chip() is None
    monkeypatch.setattr(cuda_compilers, "has_bindings", lambda: False)
    answers["gpus"] = ["NVIDIA T4 (sm_75)"]
    assert chip() is None


def test_the_name_that_a_driver_tells():
    """It ends at the first zero of 256 bytes, whatever stands behind."""
    pytest.importorskip("cuda.pathfinder", reason="NVIDIA's bindings are not installed (pip install 'opsplice[cuda]')")
    from opsplice.targets.build import cuda_worker

    class Driver:
        class CUdevice_attribute:  # noqa: N801
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 9, 0

        @staticmethod
        def cuDeviceGet(number):  # noqa: N802
            return 0, number

        @staticmethod
        def cuDeviceGetName(size, device):  # noqa: N802
            return 0, b"NVIDIA H200".ljust(size - 3, bytes(1)) + b"   "

        @staticmethod
        def cuDeviceGetAttribute(attribute, device):  # noqa: N802
            return 0, attribute

    assert cuda_worker._gpu(Driver, 0) == "NVIDIA H200 (sm_90)"

"""One program for several architectures. The host's code is run; that of the others is looked for in the flatbuffer."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation, run
from opsplice.pipeline.devices import CpuArch, flags_for, parse_archs, target_step
from opsplice.rewrites.ir.executable_targets import ProgramTarget, targets_of
from opsplice.targets.artifacts import arch as arch_names
from opsplice.targets.build import cuda_compilers, toolchains

ARCHS = arch_names.ARCHS
HOST = arch_names.host_arch()

needs_cross_compiler = pytest.mark.skipif(
    toolchains.find("zig") is None and toolchains.find("clang") is None,
    reason="no compiler for several architectures (pip install ziglang)",
)
needs_host = pytest.mark.skipif(HOST is None, reason="no kernels for this machine's architecture")

MODEL = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""

SPEC = """
kernel k(a: f32[n], b: f32[n]) -> f32[n] {{ {clauses} }}
pattern p(a: tensor<n x f32>, b: tensor<n x f32>) {{ negf(absf(mulf(a, b))) }}
replace p with k(a, b){keep}
"""

# The text stays in the object, since it is volatile; it says which object was linked, and `added` which one ran.
KERNEL = """
#include <stddef.h>
static const volatile char mark[] = "<kernel of {name}>";
void k(const float *a, const float *b, float *out, size_t n) {{
  for (size_t i = 0; i < n; ++i) {{
    float product = a[i] * b[i];
    out[i] = (product < 0 ? product : -product) + (mark[0] == '<' ? {added} : 0);
  }}
}}
"""

A = np.array([1, -2, 3], np.float32)
B = np.array([4, 5, 6], np.float32)
PLAIN = -abs(A * B)


def elf_images(program: bytes) -> dict[str, bytes]:
    """The ELF files in a flatbuffer by architecture, each from its magic to the next one's.

    Offsets are those of Elf64_Ehdr in the System V gABI.
    """
    starts = [m.start() for m in re.finditer(rb"\x7fELF\x02\x01\x01", program)]
    images: dict[str, bytes] = {}
    for start, end in zip(starts, [*starts[1:], len(program)], strict=True):
        (machine,) = struct.unpack_from("<H", program, start + 18)
        arch = arch_names.of_elf_machine(machine)
        assert arch is not None
        images[arch] = images.get(arch, b"") + program[start:end]
    return images


def marks(image: bytes) -> list[str]:
    return [name.decode() for name in re.findall(rb"<kernel of ([^>]*)>", image)]


@pytest.fixture
def spec(tmp_path: Path):
    """Writes a kernel for each name, which adds 1, 2, ..., and a spec with the given clauses."""

    def write(*names: str, clauses: str, keep: bool = False) -> Path:
        for number, name in enumerate(names, 1):
            (tmp_path / f"{name}.c").write_text(KERNEL.format(name=name, added=number))
        path = tmp_path / "spec.splice"
        path.write_text(SPEC.format(clauses=clauses, keep=" otherwise keep" if keep else ""))
        return path

    return write


def targets_for(*archs: str, flags: tuple[str, ...] = ()) -> dict[str, ProgramTarget]:
    """The targets of a program, by architecture."""
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        run(compilation, [target_step(archs, flags)], to="preprocessing")
        return {t.arch: t for t in targets_of(compilation.module)}


# ---- names ------------------------------------------------------------------------------------------------------


def test_names_with_features_and_aliases() -> None:
    assert parse_archs(["amd64+avx2+fma", "arm64"]) == (CpuArch("x86_64", ("avx2", "fma")), CpuArch("aarch64"))


def test_the_same_architecture_once_more_is_no_harm() -> None:
    assert parse_archs(["x86_64", "amd64"]) == (CpuArch("x86_64"),)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["x86_64", "x86_64+avx2"], "cannot hold code for both x86_64 and x86_64+avx2"),
        (["sparc"], "there is no target 'sparc'"),
        (["x86_64+"], "is not an architecture"),
        (["x86_64+avx2+nonesuch"], "x86_64 has no CPU feature 'nonesuch'"),
    ],
)
def test_wrong_names(targets: list[str], message: str) -> None:
    with pytest.raises(OpspliceError, match=re.escape(message)):
        target_step(targets, [])


@pytest.mark.parametrize(("here", "built"), [("sm_90", "sm_89"), ("sm_86", "sm_86"), (None, "sm_75")])
def test_cuda_is_for_this_machines_gpu(monkeypatch: pytest.MonkeyPatch, here: str | None, built: str) -> None:
    """Without one it is for the oldest that CUDA still knows: what IREE takes is older."""
    monkeypatch.setattr(cuda_compilers, "chip_here", lambda: here)
    for text, chip, own in (("cuda", here or "sm_75", built), ("cuda:sm_80", "sm_80", "sm_80")):
        (target,) = targets_for(text).values()
        assert (target.arch, f'"{own}"' in target.text) == (chip, True)
    (target,) = targets_for("cuda", flags=["--iree-cuda-target=sm_70"]).values()
    assert target.arch == "sm_70"


# ---- targets ----------------------------------------------------------------------------------------------------


def test_each_architecture_is_a_target_as_iree_makes_it() -> None:
    found = targets_for(*ARCHS)
    assert [t.format for t in found.values()] == [arch_names.iree_key(a) for a in ARCHS]
    assert all("native_vector_size" in t.text for t in found.values())
    assert 'target_abi = "lp64d"' in found["riscv64"].text
    assert {"m", "a", "f", "d", "c"} <= arch_names.parse_features(found["riscv64"].features)


def test_features_of_an_entry_add_to_the_baseline() -> None:
    found = targets_for("riscv64+v", "x86_64+avx2+fma")
    assert {"d", "v"} <= arch_names.parse_features(found["riscv64"].features)
    assert arch_names.parse_features(found["x86_64"].features) == {"avx2", "fma"}


def test_flags_about_the_cpu_are_for_the_architecture_they_name() -> None:
    flags = ("--iree-llvmcpu-target-triple=aarch64-unknown-unknown-eabi-elf", "--iree-llvmcpu-target-cpu-features=+sve")
    found = targets_for("x86_64", "aarch64", flags=flags)
    assert "sve" in arch_names.parse_features(found["aarch64"].features)
    assert found["x86_64"].features == ""


@needs_host
def test_flags_about_the_cpu_are_for_the_host_unless_an_entry_has_features() -> None:
    flags = ("--iree-llvmcpu-target-cpu=host",)
    alone = targets_for(*ARCHS, flags=flags)
    assert 'cpu = ""' not in alone[str(HOST)].text
    assert all('cpu = ""' in target.text for arch, target in alone.items() if arch != HOST)
    feature = {"x86_64": "avx2", "aarch64": "dotprod", "riscv64": "v"}[str(HOST)]
    assert 'cpu = ""' in targets_for(f"{HOST}+{feature}", flags=flags)[str(HOST)].text


@pytest.mark.parametrize(
    ("targets", "flag", "message"),
    [
        ("x86_64", "--iree-hal-target-device=vulkan", "the targets are x86_64, and the flags name the device vulkan"),
        ("x86_64", "--iree-hal-target-backends=vmvx", "the flags name the backend vmvx"),
        ("vulkan", "--iree-hal-target-device=cuda", "the flags name the device cuda"),
        ("x86_64", "--iree-llvmcpu-target-triple=aarch64-linux-gnu", "the flags name the architecture aarch64"),
        ("cuda:sm_80", "--iree-cuda-target=sm_89", "the targets are cuda:sm_80, and the flags name the chip sm_89"),
        ("vulkan:ada", "--iree-vulkan-target=llvmpipe", "the flags name the chip llvmpipe"),
    ],
)
def test_flags_that_contradict_the_targets(targets: str, flag: str, message: str) -> None:
    with pytest.raises(OpspliceError, match=re.escape(message)):
        target_step([targets], [flag])


def test_flags_that_say_the_same_as_the_targets() -> None:
    assert target_step(["cuda:sm_80"], ["--iree-cuda-target=SM_80", "--iree-hal-target-device=cuda"])
    other = next(name for name in ARCHS if name != HOST)
    assert target_step([other], ["--iree-llvmcpu-target-cpu=host"])


def test_several_devices_that_flags_name(spec) -> None:
    """IREE would crash where it links the executables of a kernel for one of them with others."""
    flags = ("--iree-hal-target-device=local,vulkan", "--iree-vulkan-target=llvmpipe")
    assert flags_for([], flags) == flags_for(["cpu", "vulkan"], []) == ("--iree-hal-link-executables=false",)
    assert flags_for([], ("--iree-hal-target-device=a=local", "--iree-hal-target-device=b=vulkan"))
    assert flags_for([], ("--iree-hal-target-backends=llvm-cpu", "--iree-hal-target-backends=vulkan-spirv"))
    assert not flags_for([], ("--iree-hal-target-device=local",))
    assert not flags_for([], ("--iree-hal-target-device=a=local,b=local",))
    assert not flags_for([], (*flags, "--iree-hal-link-executables=true"))
    program = opsplice.compile(MODEL, [spec("k", clauses='cpu "k.c"', keep=True)], flags)
    assert len(program.report.replacements) == 1
    np.testing.assert_array_equal(program.run("main", A, B), PLAIN + 1)


def test_a_module_that_names_its_own_devices() -> None:
    target = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'
    device = f'#hal.device.target<"local", [{target}]> : !hal.device'
    model = f"module attributes {{hal.device.targets = [{device}]}} {{}}"
    with pytest.raises(OpspliceError, match="names its devices itself"):
        opsplice.compile(model, targets=["x86_64"])


# ---- programs ----------------------------------------------------------------------------------------------------


@needs_host
def test_a_program_without_specs_holds_code_for_each() -> None:
    program = opsplice.compile(MODEL, targets=ARCHS)
    assert set(elf_images(program.vmfb)) == set(ARCHS)
    np.testing.assert_array_equal(program.run("main", A, B), PLAIN)


@needs_host
@needs_cross_compiler
def test_each_architecture_gets_its_own_object(spec) -> None:
    clauses = "\n".join(f'cpu {arch} "{arch}.c"' for arch in reversed(ARCHS))
    program = opsplice.compile(MODEL, [spec(*ARCHS, clauses=clauses)], targets=ARCHS)
    assert {arch: marks(image) for arch, image in elf_images(program.vmfb).items()} == {a: [a] for a in ARCHS}
    np.testing.assert_array_equal(program.run("main", A, B), PLAIN + 1 + ARCHS.index(HOST))


@needs_host
@needs_cross_compiler
@pytest.mark.parametrize("form", ["", " as bitcode"])
def test_one_source_serves_all(spec, form: str) -> None:
    program = opsplice.compile(MODEL, [spec("all", clauses=f'cpu "all.c"{form}')], targets=ARCHS)
    assert {arch: marks(image) for arch, image in elf_images(program.vmfb).items()} == {a: ["all"] for a in ARCHS}
    np.testing.assert_array_equal(program.run("main", A, B), PLAIN + 1)


@needs_cross_compiler
def test_prebuilt_objects_for_each(spec, tmp_path: Path) -> None:
    built = opsplice.compile(MODEL, [spec("all", clauses='cpu "all.c"')], targets=ARCHS)
    clauses = []
    for use in built.report.replacements[0].artifacts:
        arch = arch_names.from_iree_key(use.target.split()[1])
        (tmp_path / f"{arch}.o").write_bytes(Path(use.path).read_bytes())
        clauses.append(f'cpu {arch} "{arch}.o"')
    program = opsplice.compile(MODEL, [spec(clauses="\n".join(clauses))], targets=ARCHS)
    assert {arch: marks(image) for arch, image in elf_images(program.vmfb).items()} == {a: ["all"] for a in ARCHS}


@needs_cross_compiler
def test_features_choose_the_clause(spec) -> None:
    path = spec("fast", "slow", clauses='cpu x86_64 when avx2 and fma "fast.c"\ncpu "slow.c"')
    program = opsplice.compile(MODEL, [path], targets=["x86_64+avx2+fma", "aarch64"])
    found = {arch: marks(image) for arch, image in elf_images(program.vmfb).items()}
    assert found == {"x86_64": ["fast"], "aarch64": ["slow"]}


@needs_cross_compiler
def test_a_target_without_an_artifact(spec) -> None:
    path = spec("x86_64", clauses='cpu x86_64 "x86_64.c"')
    with pytest.raises(OpspliceError, match="has no artifact for llvm-cpu embedded-elf-arm_64") as caught:
        opsplice.compile(MODEL, [path], targets=["x86_64", "aarch64"])
    assert "otherwise keep" in str(caught.value.hint)


@needs_host
@needs_cross_compiler
def test_kept_targets_link_no_kernel(spec) -> None:
    path = spec("kernel", clauses=f'cpu {HOST} "kernel.c"', keep=True)
    program = opsplice.compile(MODEL, [path], targets=ARCHS)
    found = {arch: marks(image) for arch, image in elf_images(program.vmfb).items()}
    assert found == {arch: ["kernel"] if arch == HOST else [] for arch in ARCHS}
    np.testing.assert_array_equal(program.run("main", A, B), PLAIN + 1)


@needs_cross_compiler
def test_match_and_transform_know_the_targets(spec) -> None:
    path = spec("all", clauses='cpu "all.c"')
    wanted = [f"llvm-cpu {arch_names.iree_key(arch)}" for arch in ARCHS]
    report = opsplice.match(MODEL, [path], targets=ARCHS)
    assert [use.target for use in report.replacements[0].artifacts] == wanted
    module, report = opsplice.transform(MODEL, [path], targets=ARCHS)
    assert [use.target for use in report.replacements[0].artifacts] == wanted
    assert [t.arch for t in targets_of(module)] == list(ARCHS)

"""Artifacts under IREE's own compiler, linker and runtime: what passes our checks links, and what links computes."""

import re
import subprocess
import sys

import numpy as np
import pytest

from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import toolchains
from opsplice.targets.formats import elf
from tests.environment import under

COMPILER = "import sys; from iree.compiler.tools.scripts.iree_compile.__main__ import main; sys.exit(main())"

TARGET_FLAGS = {
    "x86_64": ["--iree-llvmcpu-target-triple=x86_64-unknown-unknown-eabi-elf", "--iree-llvmcpu-target-cpu=generic"],
    "aarch64": ["--iree-llvmcpu-target-triple=aarch64-unknown-unknown-eabi-elf", "--iree-llvmcpu-target-cpu=generic"],
    "riscv64": [
        "--iree-llvmcpu-target-triple=riscv64-unknown-unknown-eabi-elf",
        "--iree-llvmcpu-target-cpu=generic-rv64",
        "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+c",
        "--iree-llvmcpu-target-abi=lp64d",
    ],
}

# Calls `void kernel(float *out)` on eight floats.
PROGRAM = """
#target = #hal.executable.target<"llvm-cpu", "{key}">
stream.executable private @exe attributes {{
  hal.executable.objects = #hal.executable.objects<{{#target = [#hal.executable.object<{{path = "{path}"}}>]}}>
}} {{
  stream.executable.export public @entry workgroups() -> (index, index, index) {{
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }}
  builtin.module {{
    func.func private @kernel(!llvm.ptr) attributes {{hal.import.static, llvm.bareptr = true}}
    func.func @entry(%binding: !stream.binding) {{
      %c0 = arith.constant 0 : index
      %out = stream.binding.subspan %binding[%c0] : !stream.binding -> memref<8xf32>
      %address = memref.extract_aligned_pointer_as_index %out : memref<8xf32> -> index
      %integer = arith.index_cast %address : index to i64
      %pointer = llvm.inttoptr %integer : i64 to !llvm.ptr
      func.call @kernel(%pointer) : (!llvm.ptr) -> ()
      return
    }}
  }}
}}
func.func @main() -> tensor<8xf32> {{
  %out = flow.dispatch @exe::@entry() : () -> tensor<8xf32>
  return %out : tensor<8xf32>
}}
"""

KERNEL = """
#include <math.h>
static const float table[8] = {1, -2, 3, -4, 5, -6, 7, -8};
void kernel(float *out) { for (int i = 0; i < 8; ++i) out[i] = sqrtf(fabsf(table[i])) + i; }
"""
EXPECTED = np.sqrt(np.arange(1, 9, dtype=np.float32)) + np.arange(8, dtype=np.float32)


def compile_program(artifact, arch, output, *flags):
    text = PROGRAM.format(key=archs.iree_key(arch), path=artifact)
    common = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    command = [sys.executable, "-c", COMPILER, "-", *common, *TARGET_FLAGS[arch], *flags, "-o", str(output)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def build(tmp_path, store, environ, text, arch, form, name="kernel.c"):
    source = tmp_path / name
    source.write_text(text)
    return under(environ, cpu.resolve, ArtifactRequest(source, ("kernel",), form), CpuTarget(arch), store)


@pytest.mark.parametrize("arch", archs.ARCHS)
@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_artifacts_link_on_every_architecture_and_compute_on_this_one(tmp_path, store, cross, arch, form):
    artifact = build(tmp_path, store, cross, KERNEL, arch, form)
    vmfb = tmp_path / "program.vmfb"
    done = compile_program(artifact.path, arch, vmfb)
    assert done.returncode == 0, done.stderr
    assert "not a recognized feature" not in done.stderr
    if arch == archs.host_arch():
        np.testing.assert_allclose(run(vmfb), EXPECTED, rtol=1e-6)


def test_each_compilers_objects_compute(tmp_path, store, compiler):
    host = archs.host_arch()
    if host is None:
        pytest.skip("no kernels for this machine's architecture")
    artifact = build(tmp_path, store, {"OPSPLICE_CC": compiler.name}, KERNEL, host, "object")
    vmfb = tmp_path / "program.vmfb"
    done = compile_program(artifact.path, host, vmfb)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(run(vmfb), EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_ir_text_computes(tmp_path, store, form):
    host = archs.host_arch()
    if host is None:
        pytest.skip("no kernels for this machine's architecture")
    stores = "".join(
        f"  %p{i} = getelementptr float, ptr %out, i64 {i}\n  store float {i}.0, ptr %p{i}\n" for i in range(8)
    )
    text = f"define void @kernel(ptr %out) {{\n{stores}  ret void\n}}\n"
    artifact = build(tmp_path, store, {}, text, host, form, name="kernel.ll")
    vmfb = tmp_path / "program.vmfb"
    done = compile_program(artifact.path, host, vmfb)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(run(vmfb), np.arange(8, dtype=np.float32))


def test_bitcode_is_inlined_even_for_the_most_general_cpu(tmp_path, store, cross):
    artifact = build(tmp_path, store, cross, KERNEL, "x86_64", "bitcode")
    folder = tmp_path / "intermediates"
    done = compile_program(
        artifact.path, "x86_64", tmp_path / "p.vmfb", f"--iree-hal-dump-executable-intermediates-to={folder}"
    )
    assert done.returncode == 0, done.stderr
    (assembly,) = folder.glob("*.s")
    assert not re.search(r"\b(call|callq|jmp)\b.*\bkernel\b", assembly.read_text())


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_what_bitcode_may_call_is_really_linked(tmp_path, arch):
    toolchain = toolchains.find("zig") or toolchains.find("clang")
    if toolchain is None:
        pytest.skip("no clang here (pip install ziglang)")
    names = sorted(elf.LINKED_INTO_BITCODE)
    source = tmp_path / "calls.c"
    # Only the addresses are taken, so the types do not matter.
    declarations = "".join(f'extern char {name}_[] __asm__("{name}");\n' for name in names)
    addresses = ", ".join(f"{name}_" for name in names)
    source.write_text(
        f"{declarations}void kernel(float *out) {{\n  char *all[] = {{{addresses}}};\n"
        "  for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) *(char *volatile *)out = all[i];\n}\n"
    )
    linked = compile_with(toolchain, source, arch, "bitcode", tmp_path)
    assert linked.returncode == 0, linked.stderr


def test_what_objects_and_bitcode_may_not_call_is_really_missing(tmp_path):
    toolchain = toolchains.find("zig") or toolchains.find("clang")
    if toolchain is None:
        pytest.skip("no clang here (pip install ziglang)")
    source = tmp_path / "calls.c"
    for form, name in (("object", "memcpy"), ("object", "expf"), ("bitcode", "tanhf"), ("bitcode", "sqrtf")):
        source.write_text(
            f'extern char f[] __asm__("{name}");\nvoid kernel(float *out) {{ *(char *volatile *)out = f; }}\n'
        )
        done = compile_with(toolchain, source, "x86_64", form, tmp_path)
        assert done.returncode != 0
        assert f"undefined symbol: {name}" in done.stderr


def compile_with(toolchain, source, arch, form, folder):
    output = folder / f"calls{'.o' if form == 'object' else '.bc'}"
    toolchain.compile(source, output, CpuTarget(arch), form, "c")
    return compile_program(output, arch, folder / "calls.vmfb")


def run(vmfb):
    script = (
        "import sys, numpy, iree.runtime as rt\n"
        "config = rt.Config('local-sync')\n"
        "module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, sys.argv[1]), config)\n"
        "numpy.save(sys.argv[2], module.main().to_host())\n"
    )
    result = vmfb.with_suffix(".npy")
    subprocess.run([sys.executable, "-c", script, str(vmfb), str(result)], check=True, capture_output=True)
    return np.load(result)

"""Executables of IREE for CPUs, taken as whole dispatches: the files are what the compiler made of another program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.build import toolchains
from tests import command_line
from tests.rewrites.conftest import write_spec

DEVICES = ("local-sync", "local-task")
CODE = """
#include "opsplice_dispatch.h"
int scale(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  const float *x = dispatch->bindings[0];
  float *out = dispatch->bindings[1], factor;
  __builtin_memcpy(&factor, &dispatch->constants[0], 4);
  for (uint32_t i = workgroup->x * 64; i < dispatch->constants[1] && i < workgroup->x * 64 + 64; ++i)
    out[i] = x[i] * factor + 10;
  return 0;
}
"""
PLAIN = (
    CODE.replace("int scale(", "static int scale(")
    + """
void opsplice_scale(const float *x, float factor, float *out, size_t n, size_t workgroup_x) {
  for (size_t i = workgroup_x * 64; i < n && i < workgroup_x * 64 + 64; ++i) out[i] = x[i] * factor + 20;
}
"""
)
SPEC = """
kernel scale(x: f32[n], factor: f32) -> f32[n] {
  grid (ceildiv(n, 64))
  %s
}
pattern p(x: tensor<n x f32>, factor: f32) { mulf(absf(x), factor) }
replace p with scale(x, factor)%s
"""
MODEL = """
func.func @main(%x: tensor<?xf32>, %factor: f32) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %s = linalg.fill ins(%factor : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %a = math.absf %x : tensor<?xf32>
  %r = arith.mulf %a, %s : tensor<?xf32>
  %t = arith.addf %r, %x : tensor<?xf32>
  return %t : tensor<?xf32>
}
func.func @twice(%x: tensor<100xf32>) -> tensor<100xf32> {
  %two = arith.constant dense<2.0> : tensor<100xf32>
  %a = math.absf %x : tensor<100xf32>
  %r = arith.mulf %a, %two : tensor<100xf32>
  %b = math.absf %r : tensor<100xf32>
  %t = arith.mulf %b, %two : tensor<100xf32>
  return %t : tensor<100xf32>
}
"""
ONE = MODEL.partition("func.func @twice")[0]
ELF = 'symbol "opsplice_scale"  cpu "scale.so" as dispatch'
X = np.arange(-50, 50, dtype=np.float32)


@pytest.fixture(scope="module")
def elf(tmp_path_factory):
    """The executable of a program with the kernel in C, in which the compiler has called it opsplice_scale."""

    def built(arch: str) -> bytes:
        folder = tmp_path_factory.mktemp(arch)
        write_spec(folder, SPEC % ('cpu "scale.c" as dispatch', ""), {"scale.c": CODE, "model.mlir": ONE})
        flags = ["--iree-hal-dump-executable-binaries-to=dump", "--iree-hal-link-executables=false"]
        command = [*("compile", "model.mlir", "--spec=spec.splice", f"--target={arch}", "-o", "model.vmfb"), *flags]
        (folder / "dump").mkdir()
        command_line.opsplice(*command, cwd=folder, check=True)
        (found,) = folder.glob("dump/*opsplice_scale*.so")
        return found.read_bytes()

    return built


def compiled(folder: Path, clauses: str, files: dict[str, str | bytes], targets: str = "cpu", otherwise: str = ""):
    return opsplice.compile(MODEL, [write_spec(folder, SPEC % (clauses, otherwise), files)], targets=targets.split(","))


def check(program: opsplice.Program, more: float = 10) -> None:
    for device in DEVICES:
        np.testing.assert_allclose(program.run("main", X, 3.0, device=device), X * 4 + more, rtol=1e-6)
        np.testing.assert_allclose(program.run("twice", X, device=device), (X * 2 + more) * 2 + more, rtol=1e-6)


@pytest.mark.cell("static dispatch", "CPU", "runs")
def test_a_whole_executable(tmp_path, elf):
    code = elf("cpu")
    program = compiled(tmp_path, ELF, {"scale.so": code})
    assert {r.action for r in program.report.replacements} == {"static dispatch"}
    assert program.vmfb.count(code) == 1
    check(program)


def test_where_executables_are_not_linked(tmp_path, elf):
    write_spec(tmp_path, SPEC % (ELF, ""), {"scale.so": elf("cpu"), "model.mlir": MODEL})
    arguments = ["--function=twice", "--input=100xf32=1", "--iree-hal-link-executables=false"]
    command = [sys.executable, "-m", "opsplice", "run", "model.mlir", "--spec=spec.splice", *arguments]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("result[0]: 100xf32=34 34 34")


@pytest.mark.skipif(archs.host_arch() != "x86_64", reason="it runs what is for this architecture")
def test_an_executable_for_one_architecture_and_a_function_for_another(tmp_path, elf):
    for of_elf, of_c in (("x86_64", "aarch64"), ("aarch64", "x86_64")):
        clauses = f'symbol "opsplice_scale" cpu {of_elf} "scale.so" as dispatch cpu {of_c} "plain.c"'
        program = compiled(tmp_path, clauses, {"scale.so": elf(of_elf), "plain.c": PLAIN}, "x86_64,aarch64")
        check(program, 10 if of_elf == "x86_64" else 20)


def test_beside_a_shader(tmp_path, elf, vulkan):
    shader = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer O { float o[]; };
layout(push_constant) uniform Words { float factor; uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) o[i] = x[i] * factor + 30; }
"""
    files = {"scale.so": elf("cpu"), "scale.comp": shader}
    program = compiled(tmp_path, f'{ELF} workgroup (64) vulkan "scale.comp"', files, "cpu,vulkan:llvmpipe")
    check(program)
    np.testing.assert_allclose(program.run("main", X, 3.0, device="vulkan"), X * 4 + 30, rtol=1e-6)


def test_targets_without_one_keep_the_compilers_code(tmp_path, elf):
    other = next(a for a in archs.ARCHS if a != archs.host_arch())
    clauses = ELF.replace("cpu", f"cpu {other}")
    program = compiled(tmp_path, clauses, {"scale.so": elf(other)}, f"cpu,{other}", " otherwise keep")
    np.testing.assert_allclose(program.run("main", X, 3.0), abs(X) * 3 + X, rtol=1e-6)


# ---- files that cannot be taken --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> bytes:
    """A library of the system."""
    if toolchains.find("gcc") is None:
        pytest.skip(f"gcc is not installed ({toolchains.HOW_TO_GET['gcc']})")
    folder = tmp_path_factory.mktemp("library")
    (folder / "k.c").write_text("#include <stdlib.h>\nint opsplice_scale(void) { return rand(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "k.c", "-o", "k.so"], cwd=folder, check=True)
    return (folder / "k.so").read_bytes()


@pytest.mark.parametrize(
    ("content", "clause", "message"),
    [
        (
            "library",
            ELF,
            r"scale\.so is not an executable of IREE's: it does not export iree_hal_executable_library_query",
        ),
        ("elf", ELF.replace("opsplice_scale", "shrink"), r"scale\.so has no dispatch 'shrink'"),
        ("other", ELF, "scale.so is for "),
        ("half", ELF, r"scale\.so"),
        ("text", ELF, r"scale\.so"),
        ("elf", ELF + ' flags "-O3"', r"flags do nothing for scale\.so"),
        ("elf", ELF.replace(" as dispatch", ""), r"scale\.so is not a kind of file that a CPU kernel can be"),
        (None, ELF, r"no such file: .*scale\.so"),
    ],
)
def test_files_that_cannot_be_taken(tmp_path, elf, library, content, clause, message):
    host = archs.host_arch()
    data = {
        "library": lambda: library,
        "elf": lambda: elf("cpu"),
        "other": lambda: elf(next(a for a in archs.ARCHS if a != host)),
        "half": lambda: elf("cpu")[:1500],
        "text": lambda: b"#!/bin/sh\n",
        None: lambda: None,
    }[content]()
    with pytest.raises(OpspliceError, match=message):
        compiled(tmp_path, clause, {} if data is None else {"scale.so": data})

"""Kernels that a provider has: the numbers are the compiler's own, and the code is not in the program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import iree.runtime
import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import compile_module
from opsplice.runtime.loaded_program import load_program
from opsplice.runtime.providers import Provider, read_folder, registry_source
from opsplice.targets.artifacts import arch
from opsplice.targets.build import toolchains
from tests import command_line


def write_spec(folder: Path, spec: str, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).write_text(content)
    path = folder / "spec.splice"
    path.write_text(spec)
    return path


C = """
#include <stddef.h>
#include <stdint.h>
void negate(const float *a, float *out, size_t m, size_t workgroup_x) {
  for (size_t i = workgroup_x * 4; i < m && i < workgroup_x * 4 + 4; ++i) out[i] = -a[i];
}
void product(const float *a, const float *b, float *out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      out[i * n + j] = sum;
    }
}
void add_to(float *a, const float *b, size_t m) { for (size_t i = 0; i < m; ++i) a[i] += b[i]; }
"""
NEGATE = """
kernel negate(a: f32[...m]) -> f32[...m] { grid (ceildiv(m, 4)) cpu "k.c" as provided }
pattern negated(a: tensor<...m x f32>) { negf(a) }
replace negated with negate(a)
"""
SPEC = f"""{NEGATE}
kernel product(a: f32[m, k], b: f32[k, n]) -> f32[m, n] {{ cpu "k.c" as provided }}
pattern matmul(a: tensor<m x k x f32>, b: tensor<k x n x f32>) {{ contract[mk, kn -> mn](a, b) }}
replace matmul with product(a, b)
"""
MODEL = """
func.func @twice(%a: tensor<?xf32>, %b: tensor<10xf32>) -> (tensor<?xf32>, tensor<10xf32>) {
  %0 = arith.negf %a : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  %3 = arith.negf %b : tensor<10xf32>
  return %2, %3 : tensor<?xf32>, tensor<10xf32>
}
func.func @static(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x2xf32>) -> tensor<4x2xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x2xf32>) outs(%init : tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = arith.negf %0 : tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
func.func @loop(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<?xf32> {
    %1 = arith.negf %x : tensor<?xf32>
    %2 = arith.mulf %1, %a : tensor<?xf32>
    scf.yield %2 : tensor<?xf32>
  }
  return %0 : tensor<?xf32>
}
"""


def whole(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


@pytest.fixture(scope="module")
def made(pairs):
    return pairs(MODEL, SPEC, {"k.c": C})


@pytest.mark.cell("dynamic dispatch", "CPU", "runs")
def test_the_numbers_are_the_compilers_own(made):
    assert made.replaced == 6
    for size in (0, 1, 4, 1000):
        made.run("twice", whole(size), whole(10))
        made.run("loop", whole(size), 3)
    made.run("static", whole(4, 8), whole(8, 2))


def test_the_report_says_so_and_one_executable_serves_all_calls(made):
    assert {r.action for r in made.spliced.report.replacements} == {"dynamic dispatch"}
    formats = f"embedded-elf-{'arm_64' if arch.host_arch() == 'aarch64' else arch.host_arch()}"
    assert sorted(made.spliced.provided) == [("negate", formats), ("product", formats)]


def test_the_code_is_not_in_the_program(spliced):
    mark = 'static const char mark[] = "THIS IS THE KERNEL";'
    body = C.replace("void negate", f"{mark}\nvoid negate").replace("out[i] = -a[i]", "out[i] = -a[i] * mark[m % 18]")
    program = spliced(MODEL, NEGATE, {"k.c": body})
    (code,) = program.provided.values()
    assert b"THIS IS THE KERNEL" in code
    assert b"THIS IS THE KERNEL" not in program.vmfb


def test_another_kernel_in_its_place_without_compiling_the_program_again(spliced):
    program = spliced(MODEL, NEGATE, {"k.c": C})
    other = spliced(
        "func.func @f(%a: tensor<3x?xf32>) -> tensor<3x?xf32> { %0 = arith.negf %a : tensor<3x?xf32> "
        "return %0 : tensor<3x?xf32> }",
        NEGATE,
        {"k.c": C.replace("= -a[i]", "= 7 - a[i]")},
    )
    loaded = load_program(program.vmfb, provider=Provider([other.provided]))
    np.testing.assert_array_equal(loaded.call("twice", whole(5), whole(10))[1], 7 - whole(10))


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    made.spliced.save(folder / "program.vmfb")
    assert len(made.spliced.save_kernels(folder / "kernels")) == 2
    return folder


# ---- without opsplice ----------------------------------------------------------------------------------------------


def iree_tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).resolve().parent)) or shutil.which(name)
    beside = Path(iree.runtime.__file__).parent.parent / "_runtime_libs" / name
    if found is None and not beside.exists():
        pytest.skip(f"there is no {name}")
    return found or str(beside)


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_a_module_of_kernels_needs_no_python(folder, device):
    registry = folder / "registry.vmfb"
    packed = command_line.opsplice("kernel", "provider", folder / "kernels", "-o", registry)
    assert packed.returncode == 0, packed.stderr
    line = [iree_tool("iree-run-module"), f"--device={device}", f"--module={registry}"]
    line += [f"--module={folder / 'program.vmfb'}", "--function=twice", "--input=3xf32=1,2,3", "--input=10xf32=4"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert "3xf32=-1 -2 -3" in ran.stdout, ran.stderr
    assert "10xf32=-4 -4" in ran.stdout
    # It is a provider for `opsplice run` as well.
    loaded = load_program(folder / "program.vmfb", device, provider=Provider([registry]))
    np.testing.assert_array_equal(loaded.call("twice", whole(3), whole(10))[0], -whole(3))


def test_a_module_that_lacks_a_kernel_says_so(folder):
    code = {key: path.read_bytes() for key, path in read_folder(folder / "kernels").items() if key[0] == "product"}
    registry = folder / "one.vmfb"
    registry.write_bytes(compile_module(ModuleSource(content=registry_source(code))).vmfb)
    with pytest.raises(OpspliceError, match="does not load") as failure:
        load_program(folder / "program.vmfb", provider=Provider([registry]))
    assert "it has product for embedded-elf-" in failure.value.details


# ---- what is missing -----------------------------------------------------------------------------------------------


def test_a_program_without_a_provider(folder):
    with pytest.raises(OpspliceError, match="does not load") as failure:
        load_program(folder / "program.vmfb")
    assert "--provider" in str(failure.value.hint)


def test_a_missing_kernel_is_named_with_the_places_and_the_nearest_names(made, tmp_path):
    (_, form), *_ = made.spliced.provided
    (tmp_path / f"products.{form}.bin").write_bytes(b"")
    with pytest.raises(OpspliceError, match=f"no provider has the kernel 'product' for {form}") as failure:
        load_program(made.spliced.vmfb, provider=Provider([tmp_path]))
    assert f"product.{form}.bin in: {tmp_path}" in failure.value.details
    assert failure.value.hint == "did you mean products?"


DAMAGED = {
    "empty": (lambda _code: b"", "is empty"),
    "cut": (lambda code: code[:700], "is a damaged ELF object"),
    "text": (lambda _code: b"#!/bin/sh\n", "is not an ELF object"),
    "other": (lambda code: code[:18] + b"\x08\x00" + code[20:], "is for ELF machine 8, but the target is"),
    "folder": (None, "is a folder, not a file"),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_file_that_is_no_kernel_is_named(folder, made, tmp_path, how):
    change, message = DAMAGED[how]
    for path in (folder / "kernels").iterdir():
        if change is None:
            (tmp_path / path.name).mkdir()
        else:
            (tmp_path / path.name).write_bytes(change(path.read_bytes()))
    message = rf"{tmp_path}/\w+\.embedded-elf-\w+\.bin.* {message}"
    with pytest.raises(OpspliceError, match=message):
        load_program(made.spliced.vmfb, provider=Provider([tmp_path]))
    packed = command_line.opsplice("kernel", "provider", tmp_path, "-o", tmp_path / "registry.vmfb")
    assert packed.returncode == 1
    assert re.match(f"error: {message}", packed.stderr)
    assert not (tmp_path / "registry.vmfb").exists()


def test_a_load_that_fails_leaves_no_device_open(made, garbage):
    def fail():
        with pytest.raises(OpspliceError, match="no provider has the kernel"):
            load_program(made.spliced.vmfb, provider=Provider([{}]))

    assert garbage(fail) == 0


def test_a_kernel_for_another_target_only(made, tmp_path):
    (tmp_path / "product.vulkan-spirv-fb.bin").write_bytes(b"")
    with pytest.raises(OpspliceError, match="no provider has") as failure:
        load_program(made.spliced.vmfb, provider=Provider([tmp_path]))
    assert "it is there for vulkan-spirv-fb" in str(failure.value.hint)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OpspliceError, match="there is no folder"):
        Provider([tmp_path / "none"])


# ---- several targets -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(toolchains.find("zig") is None, reason="no compiler for several architectures")
def test_a_file_for_each_target(tmp_path):
    spec = write_spec(tmp_path, SPEC, {"k.c": C})
    program = opsplice.compile(MODEL, [spec], targets=["x86_64", "aarch64", "riscv64"])
    assert len(program.provided) == 6
    np.testing.assert_array_equal(program.run("twice", whole(9), whole(10))[0], -whole(9))


@pytest.mark.skipif(toolchains.find("zig") is None, reason="no compiler for several architectures")
@pytest.mark.parametrize("own", [True, False])
def test_a_target_that_keeps_the_compilers_code_asks_for_nothing(tmp_path, own):
    """The kernel is wrong on purpose, so that the numbers tell whose code ran."""
    host = arch.host_arch()
    other = next(a for a in arch.ARCHS if a != host)
    clause = f'cpu {host if own else other} "k.c" as provided'
    text = NEGATE.replace('cpu "k.c" as provided', clause).replace("negate(a)\n", "negate(a) otherwise keep\n")
    assert text.count("otherwise keep") == 1
    spec = write_spec(tmp_path, text, {"k.c": C.replace("= -a[i]", "= 1 - a[i]")})
    program = opsplice.compile(MODEL, [spec], targets=[host, other])
    assert len(program.provided) == 1
    np.testing.assert_array_equal(program.run("twice", whole(9), whole(10))[1], (1 if own else 0) - whole(10))


# ---- mistakes ------------------------------------------------------------------------------------------------------


def test_one_way_for_all_targets(tmp_path):
    clauses = 'cpu x86_64 "k.c" as provided cpu "k.c"'
    spec = write_spec(tmp_path, NEGATE.replace('cpu "k.c" as provided', clauses), {"k.c": C})
    with pytest.raises(OpspliceError, match="is a dynamic dispatch for some targets"):
        opsplice.match(MODEL, [spec], targets=["x86_64", "aarch64"])


def test_two_kernels_of_one_name(spliced):
    second = NEGATE.replace("kernel negate(", "kernel other(").replace("negated", "positive").replace("negf", "absf")
    second = second.replace('cpu "k.c"', 'symbol "negate" cpu "l.c"').replace("with negate", "with other")
    with pytest.raises(OpspliceError, match="two kernels that differ are provided as negate"):
        spliced(MODEL, NEGATE + second, {"k.c": C, "l.c": C + "// another"})


def test_an_unknown_form(spliced):
    with pytest.raises(OpspliceError, match="cannot be taken as provide"):
        spliced(MODEL, NEGATE.replace("provided", "provide"), {"k.c": C})


def test_what_ends_before_the_code_is_there_cannot_have_it(tmp_path):
    spec = write_spec(tmp_path, NEGATE, {"k.c": C})
    with pytest.raises(OpspliceError, match="comes from a provider"):
        opsplice.transform(MODEL, [spec])
    with pytest.raises(OpspliceError, match="no counterpart"):
        opsplice.export(spec)


# ---- the command line ----------------------------------------------------------------------------------------------


def test_compile_and_run(tmp_path):
    spec = write_spec(tmp_path, SPEC, {"k.c": C})
    model, output = tmp_path / "model.mlir", tmp_path / "model.vmfb"
    model.write_text(MODEL)
    compiled = command_line.opsplice("compile", model, f"--spec={spec}", "-o", output)
    assert compiled.returncode == 0, compiled.stderr
    assert "negate from k.c (dynamic dispatch)" in compiled.stderr
    arguments = ["--function=twice", "--input=2xf32=1,2", "--input=10xf32=1"]
    ran = command_line.opsplice("run", output, *arguments, f"--provider={tmp_path / 'model.kernels'}")
    assert "2xf32=-1 -2" in ran.stdout, ran.stderr
    assert "--provider" in command_line.opsplice("run", output, *arguments).stderr
    missing = command_line.opsplice("run", output, *arguments, f"--provider={tmp_path}")
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: no provider has the kernel")
    assert "leaked" not in missing.stderr
    # Compiled and run at once, the program gets its kernels without a word.
    assert "2xf32=-1 -2" in command_line.opsplice("run", model, f"--spec={spec}", *arguments).stdout

"""Commands that record what is to be done: among the program's own, in order, on every device."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from tests.plain import Plain
from tests.rewrites.approaches.test_command import _listed
from tests.rewrites.approaches.test_compiled_command import built
from tests.rewrites.conftest import write_spec

SPEC = """
kernel swap(a: f32[m, n], b: f32[m, n]) -> (first: f32[m, n], second: f32[m, n]) {
  cpu "host.vmfb" as recorded
  vulkan "host.vmfb" as recorded
}
pattern swapped(a: tensor<m x n x f32>, b: tensor<m x n x f32>) { addf(subf(a, a), b), addf(subf(b, b), a) }
replace swapped with swap(a, b)

kernel fill(a: f32[...m], by: f32, flag: i1) -> f32[...m] {
  cpu "host.vmfb" as recorded
  vulkan "host.vmfb" as recorded
}
pattern filled(a: tensor<...m x f32>, by: f32) { addf(subf(a, a), by) }
replace filled with fill(a, by, 1)

kernel second(a: f32[n], b: f32[n]) -> a { cpu "host.vmfb" as recorded vulkan "host.vmfb" as recorded }
pattern other(a: tensor<n x f32>, b: tensor<n x f32>) { addf(subf(a, a), b) }
replace other with second(a, b)
"""


def _buffer(name: str) -> str:
    return f"%{name}_slot: index, %{name}: !hal.buffer, %{name}_at: index, %{name}_bytes: index"


def _copy(source: str, target: str) -> str:
    return f"""hal.command_buffer.copy_buffer<%commands : !hal.command_buffer>
      source(%{source} : !hal.buffer)[%{source}_at] target(%{target} : !hal.buffer)[%{target}_at]
      length(%{source}_bytes) flags("None")"""


HOST = f"""
module @host {{
  util.func public @swap(%commands: !hal.command_buffer, {_buffer("a")}, {_buffer("b")}, %m: index, %n: index,
      {_buffer("first")}, {_buffer("second")}) {{
    {_copy("b", "first")}
    {_copy("a", "second")}
    util.return
  }}
  util.func public @fill(%commands: !hal.command_buffer, {_buffer("a")}, %by: f32, %flag: i32, %m: index,
      {_buffer("made")}) {{
    %bits = arith.bitcast %by : f32 to i32
    hal.command_buffer.fill_buffer<%commands : !hal.command_buffer>
      target(%made : !hal.buffer)[%made_at, %made_bytes] pattern(%bits : i32) flags("None")
    util.return
  }}
  util.func public @second(%commands: !hal.command_buffer, {_buffer("a")}, {_buffer("b")}, %n: index) {{
    {_copy("b", "a")}
    util.return
  }}
}}
"""
MODEL = """
func.func @swaps(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %x = arith.mulf %a, %b : tensor<2x3xf32>
  %0 = arith.subf %x, %x : tensor<2x3xf32>
  %1 = arith.addf %0, %b : tensor<2x3xf32>
  %2 = arith.subf %b, %b : tensor<2x3xf32>
  %3 = arith.addf %2, %x : tensor<2x3xf32>
  %4 = arith.mulf %1, %3 : tensor<2x3xf32>
  return %3, %4 : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func @any(%a: tensor<?x?xf32>, %by: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %a, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%by : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = arith.subf %a, %a : tensor<?x?xf32>
  %1 = arith.addf %0, %f : tensor<?x?xf32>
  %2 = arith.addf %1, %a : tensor<?x?xf32>
  return %2 : tensor<?x?xf32>
}
func.func @loop(%a: tensor<5xf32>, %n: index) -> tensor<5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %f = arith.constant dense<2.5> : tensor<5xf32>
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<5xf32> {
    %1 = arith.subf %x, %x : tensor<5xf32>
    %2 = arith.addf %1, %f : tensor<5xf32>
    %3 = arith.mulf %2, %x : tensor<5xf32>
    scf.yield %3 : tensor<5xf32>
  }
  return %0 : tensor<5xf32>
}
func.func @in_place(%a: tensor<7xf32>, %b: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %0 = arith.subf %a, %a : tensor<7xf32>
  %1 = arith.addf %0, %b : tensor<7xf32>
  %2 = arith.mulf %1, %a : tensor<7xf32>
  return %1, %2 : tensor<7xf32>, tensor<7xf32>
}
func.func @constant() -> tensor<1x3xf32> {
  %a = arith.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %by = arith.constant 4.0 : f32
  %e = tensor.empty() : tensor<1x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%a : tensor<1x3xf32>) outs(%e : tensor<1x3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %p = arith.subf %x, %x : f32
    %q = arith.addf %p, %by : f32
    linalg.yield %q : f32
  } -> tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}
func.func @constants() -> tensor<3xf32> {
  %a = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = util.unfoldable_constant dense<[4.0, 5.0, 6.0]> : tensor<3xf32>
  %0 = arith.subf %b, %b : tensor<3xf32>
  %1 = arith.addf %0, %a : tensor<3xf32>
  return %1 : tensor<3xf32>
}
"""
BLOCK = np.arange(6, dtype=np.float32).reshape(2, 3)
INPUTS = {
    "swaps": [BLOCK, BLOCK + 1],
    "any": [np.arange(20, dtype=np.float32).reshape(4, 5), 1.5],
    "loop": [np.arange(5, dtype=np.float32), 3],
    "in_place": [np.arange(7, dtype=np.float32), np.arange(5, 12, dtype=np.float32)],
    "constant": [],
    "constants": [],
}


def compiled(folder: Path, spec: str = SPEC, host: str = HOST, target: str = "cpu") -> opsplice.Program:
    return opsplice.compile(MODEL, [write_spec(folder, spec, {"host.vmfb": built(target, host)})], targets=[target])


@pytest.fixture(scope="module")
def plain():
    return Plain(MODEL)


@pytest.fixture(scope="module", params=["cpu", "vulkan:llvmpipe"])
def program(request, tmp_path_factory):
    """A program, and the devices that it is for."""
    made = compiled(tmp_path_factory.mktemp("recorded"), target=request.param)
    assert [r.action for r in made.report.replacements] == ["command"] * 6
    return made, ("local-sync", "local-task") if request.param == "cpu" else ("vulkan",)


@pytest.mark.parametrize("function", INPUTS)
def test_numbers_are_those_of_the_plain_program(plain, program, function, request):
    made, devices = program
    if "vulkan" in devices:
        request.getfixturevalue("vulkan")
    expected = plain.run(function, *INPUTS[function])
    for device in devices * 2:
        results = made.run(function, *INPUTS[function], device=device)
        for result, own in zip(_listed(results), _listed(expected), strict=True):
            np.testing.assert_array_equal(result, own)


def test_with_nothing_of_opsplice(tmp_path):
    compiled(tmp_path).save(tmp_path / "program.vmfb")
    arguments = ["--module=host.vmfb", "--module=program.vmfb", "--function=any"]
    runner = Path(sys.executable).parent / "iree-run-module"
    inputs = ["--input=1x3xf32=1 2 3", "--input=0.5"]
    done = subprocess.run([runner, *arguments, *inputs], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "1x3xf32=[1.5 2.5 3.5]" in done.stdout


DISPATCH = """
#layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
#cpu = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
  cpu = "generic", cpu_features = "", target_triple = "x86_64-unknown-unknown-eabi-elf",
  data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
  native_vector_size = 16 : i64}>
module @host attributes {stream.affinity.default = #hal.device.affinity<@device>} {
  util.global private @device = #hal.device.target<"local", [#cpu]> : !hal.device
  hal.executable private @code {
    hal.executable.variant public @cpu target(#cpu) {
      hal.executable.export public @negate ordinal(0) layout(#layout) count(%d: !hal.device) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      builtin.module {
        func.func @negate() {
          %zero = arith.constant 0 : index
          %count = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %n = arith.index_cast %count : i32 to index
          %at = hal.interface.workgroup.id[0] : index
          %x = hal.interface.binding.subspan layout(#layout) binding(0) offset(%zero) : memref<?xf32>{%n}
          %y = hal.interface.binding.subspan layout(#layout) binding(1) offset(%zero) : memref<?xf32>{%n}
          %0 = memref.load %x[%at] : memref<?xf32>
          %1 = arith.negf %0 : f32
          memref.store %1, %y[%at] : memref<?xf32>
          return
        }
      }
    }
  }
  util.func public @negate(%commands: !hal.command_buffer, BUFFER_A, %n: index, BUFFER_MADE) {
    %device = util.global.load immutable @device : !hal.device
    %code = hal.executable.lookup device(%device : !hal.device) executable(@code) : !hal.executable
    %function = hal.executable.lookup.function target(%code : !hal.executable) function(@code::@cpu::@negate) : i64
    %one = arith.constant 1 : index
    %count = arith.index_cast %n : index to i32
    hal.command_buffer.dispatch<%commands : !hal.command_buffer> target(%code : !hal.executable)[%function]
      workgroups([%n, %one, %one]) constants([%count])
      bindings([(%a : !hal.buffer)[%a_at, %a_bytes], (%made : !hal.buffer)[%made_at, %made_bytes]]) flags("None")
    util.return
  }
}
""".replace("BUFFER_A", _buffer("a")).replace("BUFFER_MADE", _buffer("made"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its code is for x86_64")
def test_code_of_its_own_is_dispatched(tmp_path):
    spec = """
kernel negate(a: f32[n]) -> f32[n] { cpu "host.vmfb" as recorded }
pattern negated(a: tensor<n x f32>) { negf(a) }
replace negated with negate(a)
"""
    model = """func.func @main(%a: tensor<9xf32>, %b: tensor<4xf32>) -> (tensor<9xf32>, tensor<4xf32>) {
      %0 = math.absf %a : tensor<9xf32>
      %1 = arith.negf %0 : tensor<9xf32>
      %2 = arith.mulf %1, %a : tensor<9xf32>
      %3 = arith.negf %b : tensor<4xf32>
      return %2, %3 : tensor<9xf32>, tensor<4xf32>
    }"""
    path = write_spec(tmp_path, spec, {"host.vmfb": opsplice.compile(DISPATCH).vmfb})
    program = opsplice.compile(model, [path])
    assert len(program.report.replacements) == 2
    values = np.arange(-4, 5, dtype=np.float32)
    for device in ("local-sync", "local-task"):
        first, second = program.run("main", values, values[:4], device=device)
        np.testing.assert_array_equal(first, -abs(values) * values)
        np.testing.assert_array_equal(second, -values[:4])


@pytest.mark.parametrize(
    ("host", "message"),
    [
        (HOST.replace("@fill(", "@filled("), "has no function 'fill'"),
        (
            HOST.replace("%by: f32, %flag: i32", "%flag: i32, %by: f32"),
            r"takes 0rIrIIifIIrII_v, .* passes 0rIrIIfiIIrII_v",
        ),
        (HOST.replace("module @host", "module @guest"), "is module @guest"),
    ],
)
def test_modules_that_do_not_fit(tmp_path, host, message):
    with pytest.raises(OpspliceError, match=message) as error:
        compiled(tmp_path, host=host)
    assert "needed by the kernel at" in error.value.details


def test_python_records_nothing(tmp_path):
    path = write_spec(tmp_path, SPEC.replace("host.vmfb", "host.py"), {"host.py": "def fill(a, by, flag, made): pass"})
    with pytest.raises(OpspliceError, match="records no commands") as error:
        opsplice.compile(MODEL, [path])
    assert "as command" in error.value.hint


def test_one_call_is_of_one_form(tmp_path):
    mixed = SPEC.replace('vulkan "host.vmfb" as recorded', 'vulkan "host.vmfb" as command')
    path = write_spec(tmp_path, mixed, {"host.vmfb": built("cpu", HOST)})
    with pytest.raises(OpspliceError, match="is `as recorded` for some targets of the program and `as command` for"):
        opsplice.compile(MODEL, [path])


def test_a_frontends_module_ends_before_command_buffers_are_there(tmp_path):
    path = write_spec(tmp_path, SPEC, {"host.vmfb": built("cpu", HOST)})
    with pytest.raises(OpspliceError, match="is for phase stream, which this compile does not come to"):
        opsplice.transform(MODEL, [path])

"""Commands that are functions of modules which IREE has compiled: the same numbers, with nothing through the host."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.runtime.host_commands import Commands
from opsplice.runtime.loaded_program import load_program
from tests.plain import Plain
from tests.rewrites.approaches.test_command import INPUTS, MODEL, SPEC, _listed, part
from tests.rewrites.conftest import write_spec

AFFINE = """
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %m = tensor.dim %a, %zero : tensor<?x?xf32>
    %n = tensor.dim %a, %one : tensor<?x?xf32>
    %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%a : tensor<?x?xf32>) outs(%empty : tensor<?x?xf32>) {
    ^bb0(%x: f32, %o: f32):
      %p = arith.mulf %x, %by : f32
      %q = arith.addf %p, %shift : f32
      %s = arith.select %flag, %q, %x : f32
      linalg.yield %s : f32
    } -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>
"""
HOST = f"""
module @host {{
  func.func @negate(%a: tensor<?xf32>) -> tensor<?xf32> {{
    %r = arith.negf %a : tensor<?xf32>
    return %r : tensor<?xf32>
  }}
  func.func @add_to(%a: tensor<?xi64>, %b: tensor<?xi64>) -> tensor<?xi64> {{
    %r = arith.addi %a, %b : tensor<?xi64>
    return %r : tensor<?xi64>
  }}
  func.func @affine(%a: tensor<?x?xf32>, %by: f32, %rows: i32, %shift: f32, %flag: i1) -> tensor<?x?xf32> {{{AFFINE}}}
  func.func @"affine-factor"(%a: tensor<?x?xf32>, %t: tensor<f32>, %rows: i32, %shift: f32, %flag: i1)
      -> tensor<?x?xf32> {{
    %by = tensor.extract %t[] : tensor<f32>{AFFINE}}}
  func.func @halves(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {{
    %z = arith.constant 0 : index
    %n = tensor.dim %a, %z : tensor<?xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%n) : tensor<?xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %low = arith.minimumf %a, %f : tensor<?xf32>
    %high = arith.maximumf %a, %f : tensor<?xf32>
    return %low, %high : tensor<?xf32>, tensor<?xf32>
  }}
}}
"""
ASYNC = "--iree-execution-model=async-external"
COMPILED = SPEC.replace('cpu "host.py" as command', 'cpu "host.vmfb" as command vulkan "host.vmfb" as command')


@functools.cache
def built(target: str, text: str = HOST, *flags: str) -> bytes:
    return opsplice.compile(text, flags=flags, targets=[target]).vmfb


@pytest.fixture(scope="module")
def plain():
    return Plain(MODEL)


@pytest.fixture(scope="module", params=["cpu", "vulkan:llvmpipe"])
def program(request, tmp_path_factory):
    """A program, and the device that it is for."""
    code = built(request.param, HOST, ASYNC)
    spec = write_spec(tmp_path_factory.mktemp("compiled"), COMPILED, {"host.vmfb": code})
    made = opsplice.compile(MODEL, [spec], targets=[request.param])
    assert {r.action for r in made.report.replacements} == {"command"}
    return made, "local-task" if request.param == "cpu" else "vulkan"


@pytest.fixture(scope="module")
def on_cpus(tmp_path_factory):
    spec = write_spec(tmp_path_factory.mktemp("cpus"), COMPILED, {"host.vmfb": built("cpu", HOST, ASYNC)})
    return opsplice.compile(part("two"), [spec], targets=["cpu"])


@pytest.mark.parametrize("function", INPUTS)
def test_numbers_are_those_of_the_plain_program(plain, program, function, request):
    made, device = program
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    expected = plain.run(function, *INPUTS[function])
    for _ in range(2):
        results = made.run(function, *INPUTS[function], device=device)
        for result, own in zip(_listed(results), _listed(expected), strict=True):
            np.testing.assert_allclose(result, own, rtol=1e-6)


def test_with_nothing_of_opsplice(on_cpus, tmp_path):
    on_cpus.save(tmp_path / "program.vmfb")
    (tmp_path / "host.vmfb").write_bytes(built("cpu", HOST, ASYNC))
    arguments = ["--module=host.vmfb", "--module=program.vmfb", "--function=two", "--input=6xf32=-1 2 -3 4 0 5"]
    runner = Path(sys.executable).parent / "iree-run-module"
    done = subprocess.run([runner, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "6xf32=1 2 3 4 0 5" in done.stdout


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (HOST.replace("module @host", "module @guest"), (ASYNC,), "is module @guest, and the program calls host"),
        (HOST.replace("@halves", "@halved"), (ASYNC,), "has no function 'halves'"),
        (HOST, (), "does not load"),
        (HOST.replace("@halves(%a", "@halves(%i: i32, %a"), (ASYNC,), "does not load"),
        (None, (), "is not a compiled program, or is damaged"),
    ],
)
def test_modules_that_do_not_fit(on_cpus, tmp_path, text, flags, message):
    other = tmp_path / "other.vmfb"
    other.write_bytes(b"junk" if text is None else built("cpu", text, *flags))
    with pytest.raises(OpspliceError, match=message) as error:
        load_program(on_cpus.vmfb, "local-task", commands=Commands({"host": other}))
    if message == "does not load":
        assert ASYNC in error.value.hint


F64 = "--iree-input-demote-f64-to-f32=false"


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (HOST.replace("module @host", "module @guest"), (ASYNC,), "is module @guest, and the program calls host"),
        (HOST.replace("@negate", "@negated"), (ASYNC,), "has no function 'negate'"),
        (HOST, (), "is not compiled as a command is"),
        (HOST.replace("%rows: i32, ", "", 1), (ASYNC,), r"'affine' in .* takes .*, and kernel affine passes "),
        (HOST.replace("f32", "f64"), (ASYNC, F64), r"takes \(tensor<\?xf64>\), and .* passes \(tensor<\?xf32>\)"),
        (HOST.replace("?xi64", "?xi32"), (ASYNC,), r"'add_to' in .* takes \(tensor<\?xi32>, "),
        (None, (), "is not a compiled program, or is damaged"),
    ],
)
def test_modules_that_do_not_fit_are_refused_when_a_program_is_compiled(tmp_path, text, flags, message):
    code = b"junk" if text is None else built("cpu", text, *flags)
    spec = write_spec(tmp_path, COMPILED, {"host.vmfb": code})
    with pytest.raises(OpspliceError, match=message) as error:
        opsplice.compile(MODEL, [spec], targets=["cpu"])
    assert "needed by the kernel at" in error.value.details


def test_without_the_module(on_cpus):
    with pytest.raises(OpspliceError, match=r"calls '.*' of host, and there is no file for it") as error:
        load_program(on_cpus.vmfb, "local-task")
    assert "--command host=host.vmfb" in error.value.hint


def test_scalars_that_the_virtual_machine_does_not_have(tmp_path):
    spec = """
kernel scaled(a: f16[n], by: f16) -> f16[n] { cpu "host.vmfb" as command }
pattern p(a: tensor<n x f16>) { mulf(a, 2.0) }
replace p with scaled(a, 2)
"""
    model = """func.func @main(%a: tensor<4xf16>) -> tensor<4xf16> {
      %two = arith.constant dense<2.0> : tensor<4xf16>
      %r = arith.mulf %a, %two : tensor<4xf16>
      return %r : tensor<4xf16>
    }"""
    path = write_spec(tmp_path, spec, {"host.vmfb": b"not looked at"})
    with pytest.raises(OpspliceError, match="takes no scalar of f16: by"):
        opsplice.compile(model, [path])

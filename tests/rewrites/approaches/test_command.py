"""Kernels that are functions of the host: called in order, with the right arrays, for all kinds of arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.runtime.host_commands import Commands, wanted
from opsplice.runtime.loaded_program import load_program
from tests import command_line
from tests.rewrites.conftest import write_spec

PYTHON = """
import numpy as np

def negate(a, out):
    out[...] = -a

def add_to(a, b):
    a += b

def affine(a, factor, rows, shift, flag, out):
    assert a.ndim == 2 and rows == len(a) and flag is True
    out[...] = a * factor + shift

def halves(a, low, high):
    low[...], high[...] = np.minimum(a, 0), np.maximum(a, 0)
"""
SPEC = """
kernel negate(a: f32[...m]) -> f32[...m] { cpu "host.py" as command }
pattern negated(a: tensor<...m x f32>) { negf(a) }
replace negated with negate(a)

kernel add_to(a: i64[n], b: i64[n]) -> a { cpu "host.py" as command }
pattern sum(a: tensor<n x i64>, b: tensor<n x i64>) { addi(a, b) }
replace sum with add_to(a, b)

kernel affine(a: f32[...m, n], factor: f32, rows: i32, shift: f32, flag: i1) -> f32[...m, n] {
  cpu "host.py" as command
}
pattern scaled(a: tensor<...m x n x f32>, factor: f32) { mulf(a, factor) }
replace scaled with affine(a, factor, m, 0, 1)

kernel halves(a: f32[n]) -> (low: f32[n], high: f32[n]) { cpu "host.py" as command }
pattern split(a: tensor<n x f32>) { minimumf(a, 0.0), maximumf(a, 0.0) }
replace split with halves(a)
"""
MODEL = """
func.func @twice(%a: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  %0 = arith.negf %a : tensor<?x3xf32>
  %1 = math.absf %0 : tensor<?x3xf32>
  %2 = arith.negf %1 : tensor<?x3xf32>
  return %0, %2 : tensor<?x3xf32>, tensor<?x3xf32>
}
func.func @loop(%a: tensor<5xf32>, %n: index) -> tensor<5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<5xf32> {
    %1 = arith.negf %x : tensor<5xf32>
    %2 = arith.mulf %1, %a : tensor<5xf32>
    scf.yield %2 : tensor<5xf32>
  }
  return %0 : tensor<5xf32>
}
func.func @in_place(%a: tensor<?xi64>, %b: tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>) {
  %0 = arith.addi %a, %b : tensor<?xi64>
  %1 = arith.muli %0, %a : tensor<?xi64>
  return %0, %1 : tensor<?xi64>, tensor<?xi64>
}
func.func @scalar(%a: tensor<2x3x4xf32>, %s: f32) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x3x4xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %0 = arith.mulf %a, %f : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @number(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %f = arith.constant dense<2.5> : tensor<2x3x4xf32>
  %0 = arith.mulf %a, %f : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @held(%a: tensor<2x3x4xf32>, %t: tensor<f32>) -> tensor<2x3x4xf32> {
  %s = tensor.extract %t[] : tensor<f32>
  %e = tensor.empty() : tensor<2x3x4xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %0 = arith.mulf %a, %f : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @one(%a: tensor<2x3x4xf32>, %t: tensor<1xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x3x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (0)>,
      affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %t : tensor<2x3x4xf32>, tensor<1xf32>) outs(%e : tensor<2x3x4xf32>) {
  ^bb0(%x: f32, %s: f32, %o: f32):
    %1 = arith.mulf %x, %s : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @two(%a: tensor<6xf32>) -> tensor<6xf32> {
  %z = arith.constant dense<0.0> : tensor<6xf32>
  %0 = arith.minimumf %a, %z : tensor<6xf32>
  %1 = arith.maximumf %a, %z : tensor<6xf32>
  %2 = arith.subf %1, %0 : tensor<6xf32>
  return %2 : tensor<6xf32>
}
"""
# All kernels, and nothing that is left to compile.
CALLS_ALONE = """
func.func @main(%a: tensor<4x3xf32>, %b: tensor<5xi64>, %c: tensor<5xi64>, %d: tensor<6xf32>)
    -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<5xi64>, tensor<6xf32>, tensor<6xf32>) {
  %0 = arith.negf %a : tensor<4x3xf32>
  %factor = arith.constant dense<2.5> : tensor<4x3xf32>
  %1 = arith.mulf %a, %factor : tensor<4x3xf32>
  %2 = arith.addi %b, %c : tensor<5xi64>
  %zero = arith.constant dense<0.0> : tensor<6xf32>
  %3 = arith.minimumf %d, %zero : tensor<6xf32>
  %4 = arith.maximumf %d, %zero : tensor<6xf32>
  return %0, %1, %2, %3, %4 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<5xi64>, tensor<6xf32>, tensor<6xf32>
}
"""
BLOCK = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INPUTS = {
    "twice": [np.arange(12, dtype=np.float32).reshape(4, 3)],
    "loop": [np.arange(5, dtype=np.float32), 3],
    "in_place": [np.arange(7), np.arange(7) + 5],
    "scalar": [BLOCK, 1.5],
    "number": [BLOCK],
    "held": [BLOCK, np.array(1.5, np.float32)],
    "one": [BLOCK, np.array([1.5], np.float32)],
    "two": [np.arange(-3, 3, dtype=np.float32)],
}


def part(*names: str) -> str:
    """These functions of the model alone."""
    functions = re.split(r"^(?=func\.func)", MODEL, flags=re.M)
    return "".join(f for f in functions if f.partition("(")[0].removeprefix("func.func @") in names)


@pytest.fixture(scope="module")
def made(pairs):
    return pairs(MODEL, SPEC, {"host.py": PYTHON})


def test_the_report_says_so(made):
    assert {r.action for r in made.spliced.report.replacements} == {"command"}
    assert made.replaced == 9
    assert all(kept.lost for kept in made.spliced.report.kept)


@pytest.mark.cell("command", "CPU", "runs")
@pytest.mark.parametrize("function", INPUTS)
def test_numbers_are_those_of_the_plain_program(made, function):
    made.run(function, *INPUTS[function])


EVERYWHERE = SPEC.replace('cpu "host.py" as command', "\n".join(f'{b} "host.py" as command' for b in ("cpu", "vulkan")))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A program for Vulkan and CPUs, with commands on both."""
    spec = write_spec(tmp_path_factory.mktemp("mixed"), EVERYWHERE, {"host.py": PYTHON})
    return opsplice.compile(MODEL, [spec], targets=["vulkan:llvmpipe", "cpu"])


@pytest.mark.cell("command", "SPIR-V", "runs")
@pytest.mark.parametrize("function", INPUTS)
def test_numbers_on_each_device(made, mixed, vulkan, function):
    expected = made.plain.run(function, *INPUTS[function])
    for device in ("vulkan", "local-task"):
        results = mixed.run(function, *INPUTS[function], device=device)
        for result, own in zip(_listed(results), _listed(expected), strict=True):
            np.testing.assert_allclose(result, own, rtol=1e-6, err_msg=device)


def _listed(results):
    return results if isinstance(results, (list, tuple)) else [results]


def test_the_order_is_kept_on_vulkan(mixed, vulkan):
    x = np.arange(5, dtype=np.float32) / 4
    wanted = x
    for _ in range(11):
        wanted = -wanted * x
    for _ in range(5):
        np.testing.assert_allclose(mixed.run("loop", x, 11, device="vulkan"), wanted, rtol=1e-6)


def test_a_device_without_the_command_keeps_the_compilers_code(tmp_path, vulkan):
    """The command is called where there is a clause for it, and nowhere else."""
    text = SPEC[: SPEC.index("kernel add_to")].replace("with negate(a)", "with negate(a) otherwise keep")
    spec = write_spec(tmp_path, text, {"host.py": "def negate(a, out):\n  out[...] = 1 - a\n"})
    program = opsplice.compile(part("twice"), [spec], targets=["vulkan:llvmpipe", "cpu"])
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    np.testing.assert_array_equal(program.run("twice", x, device="local-task")[0], 1 - x)
    np.testing.assert_array_equal(program.run("twice", x, device="vulkan")[0], -x)


@pytest.mark.parametrize(
    ("backend", "target"),
    [
        pytest.param("cuda", "cuda:sm_80", marks=pytest.mark.cell("command", "CUDA", "builds")),
        pytest.param("rocm", "rocm:gfx942", marks=pytest.mark.cell("command", "ROCm", "builds")),
        pytest.param("metal", "metal", marks=pytest.mark.cell("command", "Metal", "builds")),
    ],
)
def test_the_call_is_in_programs_for_other_devices(tmp_path, backend, target):
    text = SPEC[: SPEC.index("kernel add_to")].replace('cpu "host.py"', f'{backend} "host.py"')
    spec = write_spec(tmp_path, text, {"host.py": PYTHON})
    program = opsplice.compile(part("twice", "loop"), [spec], targets=[target])
    assert [r.action for r in program.report.replacements] == ["command"] * 3
    instance = iree.runtime.VmInstance()
    module = iree.runtime.VmModule.copy_buffer(instance, program.vmfb)
    assert wanted(module).keys() == {"host.negate"}
    assert b"host.negate" in program.vmfb


def test_a_file_with_a_dot_in_its_name(pairs):
    spec = NARROW.replace("TYPE", "f16").replace("host.py", "host.v2.py")
    code = "def scaled(a, factor, out):\n  out[:] = factor\n"
    made = pairs(NARROW_MODEL.replace("TYPE", "f16"), spec, {"host.v2.py": code})
    assert made.spliced.run("scalar", np.zeros(3, np.float32), np.float16(2)).tolist() == [2, 2, 2]


NARROW = """
kernel scaled(a: f32[n], factor: TYPE) -> f32[n] { cpu "host.py" as command }
pattern product(a: tensor<n x f32>, factor: TYPE) { mulf(a, extf(factor) : f32) }
replace product with scaled(a, factor)
"""
NARROW_MODEL = """
func.func @scalar(%a: tensor<?xf32>, %s: TYPE) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xf32>
  %e = tensor.empty(%d) : tensor<?xTYPE>
  %f = linalg.fill ins(%s : TYPE) outs(%e : tensor<?xTYPE>) -> tensor<?xTYPE>
  %w = arith.extf %f : tensor<?xTYPE> to tensor<?xf32>
  %0 = arith.mulf %a, %w : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_scalars_of_narrow_types(pairs, element):
    """IREE's virtual machine does not have them."""
    dtype = np.dtype({"f16": np.float16, "bf16": ml_dtypes.bfloat16}[element])
    code = "def scaled(a, factor, out):\n  assert type(factor) is float\n  out[:] = factor\n"
    made = pairs(NARROW_MODEL.replace("TYPE", element), NARROW.replace("TYPE", element), {"host.py": code})
    assert made.replaced == 1
    smallest, largest = (
        float(each) for each in (ml_dtypes.finfo(dtype).smallest_subnormal, ml_dtypes.finfo(dtype).max)
    )
    numbers = (0.0, -0.0, 1.0, -1.5, 0.333, smallest, -3 * smallest, 1000 * smallest, largest, -np.inf, np.inf, np.nan)
    for number in np.array(numbers, dtype):
        given = made.spliced.run("scalar", np.zeros(3, np.float32), number)
        np.testing.assert_array_equal(given, np.float32(number))
        assert np.isnan(number) or (np.signbit(given) == np.signbit(number)).all()


def test_no_rows(made):
    made.run("twice", np.zeros((0, 3), np.float32))


def test_what_it_raises_is_shown(pairs):
    made = pairs(
        part("twice", "in_place"),
        SPEC,
        {
            "host.py": "def negate(a, out):\n  raise ValueError('not today')\n"
            + PYTHON.replace("def negate", "def unused")
        },
    )
    with pytest.raises(OpspliceError, match=r"'host\.negate' failed: ValueError: not today") as failure:
        made.spliced.run("twice", *INPUTS["twice"])
    assert "host.py" in failure.value.details
    made.run("in_place", *INPUTS["in_place"])


RETURNED = {
    "an array": "return -a",
    "a generator": "yield -a",
    "a number": "return 0",
}


@pytest.mark.parametrize("what", RETURNED)
def test_what_it_returns_is_no_result(pairs, what):
    made = pairs(part("twice"), SPEC, {"host.py": PYTHON.replace("out[...] = -a", RETURNED[what])})
    with pytest.raises(OpspliceError, match=r"'host\.negate' failed: it returned a value of type") as failure:
        made.spliced.run("twice", *INPUTS["twice"])
    assert "out[...] =" in failure.value.hint


@pytest.mark.filterwarnings("error")
def test_a_coroutine_is_no_result(pairs):
    made = pairs(part("twice"), SPEC, {"host.py": PYTHON.replace("def negate", "async def negate")})
    with pytest.raises(OpspliceError, match="it returned a value of type coroutine"):
        made.spliced.run("twice", *INPUTS["twice"])


def test_it_may_return_what_it_filled(pairs):
    made = pairs(part("twice"), SPEC, {"host.py": PYTHON.replace("out[...] = -a", "return np.negative(a, out=out)")})
    made.run("twice", *INPUTS["twice"])


def test_of_several_results_it_returns_none(pairs):
    made = pairs(part("two"), SPEC, {"host.py": PYTHON.replace("np.maximum(a, 0)", "np.maximum(a, 0)\n    return low")})
    with pytest.raises(OpspliceError, match="it returned a value of type ndarray"):
        made.spliced.run("two", *INPUTS["two"])


@pytest.mark.parametrize(
    ("function", "text", "result"),
    [
        ("twice", PYTHON.replace("out[...] = -a", "out = -out"), " "),
        ("twice", PYTHON.replace("out[...] = -a", "return out"), " "),
        ("two", PYTHON.replace("low[...], high[...] =", "high = -high; low[...], _ ="), " 2 "),
    ],
)
def test_a_result_that_is_not_filled(pairs, function, text, result):
    made = pairs(part(function), SPEC, {"host.py": text})
    with pytest.raises(OpspliceError, match=f"it did not fill its result{result}".rstrip()) as failure:
        made.spliced.run(function, *INPUTS[function])
    assert "out[...] =" in failure.value.hint


@pytest.mark.parametrize(
    ("element", "expected"),
    [("i8", [1, -1, -1]), ("i64", [1, -1, -1]), ("i1", [True, False, False]), ("f32", [1, np.nan, np.nan])],
)
def test_what_a_command_leaves_is_nothing_that_was_in_memory(spliced, element, expected):
    spec = f"""
    kernel first(a: f32[n]) -> {element}[n] {{ cpu "host.py" as command }}
    pattern p(a: tensor<n x f32>) {{ BODY }}
    replace p with first(a)
    """
    body = {"f32": "exp(a)", "i1": "cmpf(a, 0.0) {predicate = ogt}"}.get(element, f"fptosi(a) : {element}")
    op = {"f32": "math.exp %a : tensor<3xf32>", "i1": "arith.cmpf ogt, %a, %z : tensor<3xf32>"}
    made = op.get(element, f"arith.fptosi %a : tensor<3xf32> to tensor<3x{element}>")
    model = f"""
    func.func @main(%a: tensor<3xf32>) -> tensor<3x{element}> {{
      %z = arith.constant dense<0.0> : tensor<3xf32>
      %0 = {made}
      return %0 : tensor<3x{element}>
    }}
    """
    program = spliced(model, spec.replace("BODY", body), {"host.py": "def first(a, out):\n  out[0] = 1"})
    np.testing.assert_array_equal(program.run("main", np.zeros(3, np.float32)), expected)


def test_an_end_of_the_process_is_an_error_and_an_interrupt_is_one(pairs):
    made = pairs(part("twice"), SPEC, {"host.py": PYTHON.replace("out[...] = -a", "out[...] = exit(3)")})
    with pytest.raises(OpspliceError, match=r"'host\.negate' failed: SystemExit: 3"):
        made.spliced.run("twice", *INPUTS["twice"])
    made = pairs(part("twice"), SPEC, {"host.py": PYTHON.replace("out[...] = -a", "raise KeyboardInterrupt")})
    with pytest.raises(KeyboardInterrupt):
        made.spliced.run("twice", *INPUTS["twice"])


def test_files_that_look_their_module_up(pairs, tmp_path):
    text = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass Pair:\n  left: int\n"
    pairs(part("twice"), SPEC, {"host.py": text + PYTHON.replace("out[...] = -a", "out[...] = Pair(-a).left")}).run(
        "twice", *INPUTS["twice"]
    )
    known = set(sys.modules)
    (tmp_path / "exits.py").write_text("raise SystemExit(5)")
    with pytest.raises(OpspliceError, match="does not load: SystemExit: 5"):
        Commands({"host": tmp_path / "exits.py"})
    assert set(sys.modules) == known


def test_what_stands_beside_a_file_is_imported(pairs):
    lazily = PYTHON.replace("out[...] = -a", "import helper; helper.negate(a, out)")
    pairs(part("twice"), SPEC, {"host.py": lazily, "helper.py": PYTHON}).run("twice", *INPUTS["twice"])


def test_a_program_without_its_files(made, tmp_path):
    with pytest.raises(OpspliceError, match="there is no file for it") as failure:
        load_program(made.spliced.vmfb)
    assert failure.value.hint == "name it: --command host=host.py"
    with pytest.raises(OpspliceError, match="no such file"):
        Commands({"host": tmp_path / "none.py"})
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(OpspliceError, match="has no function"):
        load_program(made.spliced.vmfb, commands=Commands({"host": tmp_path / "empty.py"}))
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(OpspliceError, match="does not load: ZeroDivisionError"):
        Commands({"host": tmp_path / "broken.py"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PYTHON.replace("def negate", "def negated"), r"host\.py has no function 'negate'"),
        ("if 1:\n  def negate(a, out): out[...] = -a\nimport x as add_to", "has no function 'affine'"),
        ("def negate(a, out:\n  pass", r"host\.py:1 is not valid Python"),
        (PYTHON.replace("negate(a, out)", "negate(a)"), r"takes \(a\), and kernel negate passes 2: a, one result"),
        (PYTHON.replace("add_to(a, b)", "add_to(a, b, c)"), r"takes \(a, b, c\), and kernel add_to passes 2: a, b"),
        (PYTHON.replace("negate(a, out)", "negate(a, *, out)"), r"takes \(a, \*, out\), and kernel negate passes 2"),
        (PYTHON.replace("low, high)", "low)"), r"takes \(a, low\), and kernel halves passes 3: a, 2 results"),
        (PYTHON.replace("out[...] = -a", "out = -a"), r"'negate' in .*host\.py never fills its result 'out'"),
        (PYTHON.replace("low[...], high[...]", "_, high[...]"), r"never fills its result 'low'"),
    ],
)
def test_a_file_without_the_function(spliced, text, message):
    with pytest.raises(OpspliceError, match=message) as error:
        spliced(MODEL, SPEC, {"host.py": text})
    assert "needed by the kernel at" in error.value.details


@pytest.mark.parametrize(
    "text",
    [
        "from other import *",
        PYTHON.replace("negate(a, out)", "negate(a, *rest)").replace("out[...] = -a", "rest[0][...] = -a"),
        PYTHON.replace("negate(a, out)", "negate(a, out, sign=-1, *, more=None)"),
        PYTHON.replace("def negate(a, out)", "def filled(f): return f\n@filled\ndef negate(a)"),
        PYTHON.replace("out[...] = -a", "raise NotImplementedError"),
        PYTHON.replace("out[...] = -a", "out -= a"),
        PYTHON.replace("def negate", "def negate(a): ...\ndef negate"),
        "def __getattr__(name): return print",
        "for name in ('negate', 'add_to'): globals()[name] = print",
        "try: from x import negate, add_to, affine\nexcept ImportError: negate = add_to = affine = 0\nhalves = affine",
    ],
)
def test_a_file_that_may_have_the_function(spliced, text):
    program = spliced(CALLS_ALONE, SPEC, {"host.py": text})
    assert {each.kernel for each in program.report.replacements} == {"negate", "add_to", "affine", "halves"}


def test_a_file_that_is_no_command(spliced):
    with pytest.raises(OpspliceError, match=r"host\.c is not a command: that is a Python file"):
        spliced(MODEL, SPEC.replace("host.py", "host.c"), {"host.c": ""})


def test_one_module_for_all_targets(spliced):
    two = SPEC.replace('cpu "host.py" as command', 'cpu x86_64 "host.py" as command cpu "other.py" as command', 1)
    with pytest.raises(
        OpspliceError, match="is a command of host for some targets of the program and a command of other"
    ):
        spliced(MODEL, two, {"host.py": PYTHON, "other.py": PYTHON})


def test_two_files_of_one_name_in_two_specs(tmp_path):
    specs = []
    for name, op in (("one", "negf"), ("two", "absf")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "host.py").write_text(PYTHON)
        spec = f"""
kernel negate(a: f32[n]) -> f32[n] {{ cpu "host.py" as command }}
pattern p(a: tensor<n x f32>) {{ {op}(a) }}
replace p with negate(a)
"""
        specs.append(tmp_path / name / "spec.splice")
        specs[-1].write_text(spec)
    with pytest.raises(OpspliceError, match="two files of commands are called host") as raised:
        opsplice.compile(MODEL, specs)
    assert "one/host.py" in raised.value.details
    assert "two/host.py" in raised.value.details


def test_one_function_for_values_of_several_types(spliced):
    spec = """
kernel negate<T in {f32, i32}>(a: T[n]) -> T[n] { cpu "host.py" as command }
pattern one(a: tensor<n x f32>) { negf(a) }
pattern two(a: tensor<n x i32>) { subi(0, a) }
replace one with negate(a)
replace two with negate(a)
"""
    model = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xi32>) -> (tensor<?xf32>, tensor<?xi32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %b, %c0 : tensor<?xi32>
  %zero = arith.constant 0 : i32
  %empty = tensor.empty(%n) : tensor<?xi32>
  %zeros = linalg.fill ins(%zero : i32) outs(%empty : tensor<?xi32>) -> tensor<?xi32>
  %0 = arith.negf %a : tensor<?xf32>
  %1 = arith.subi %zeros, %b : tensor<?xi32>
  %2 = math.absf %0 : tensor<?xf32>
  %3 = arith.negf %2 : tensor<?xf32>
  return %0, %1, %3 : tensor<?xf32>, tensor<?xi32>, tensor<?xf32>
}
"""
    program = spliced(model, spec, {"host.py": PYTHON})
    assert len(program.report.replacements) == 3
    results = program.run("main", np.array([1.5, -2], np.float32), np.array([3, -4], np.int32))
    assert [r.tolist() for r in results] == [[-1.5, 2], [-3, 4], [-1.5, -2]]


def test_exports_refuse_it(tmp_path):
    (tmp_path / "host.py").write_text(PYTHON)
    (tmp_path / "spec.splice").write_text("\n".join(SPEC.splitlines()[:4]))
    with pytest.raises(OpspliceError, match="no counterpart"):
        opsplice.export(tmp_path / "spec.splice")


def test_the_command_line(made, tmp_path):
    made.spliced.save(tmp_path / "program.vmfb")
    (tmp_path / "other.py").write_text(PYTHON.replace("= -a", "= 1 - a"))
    line = ("run", "program.vmfb", "--function=twice", "--input=1x3xf32=1,2,3")

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return command_line.opsplice(*line, *more, cwd=tmp_path)

    assert "1x3xf32=[0 -1 -2]" in run("--command", "host=other.py").stdout
    assert run().stderr.startswith("error: the program calls")


def test_order_is_kept(made):
    """A function sees what the device made before it, and the device what the function made."""
    (path,) = made.spliced.commands.values()
    assert isinstance(path, Path)
    for _ in range(20):
        made.run("loop", np.arange(5, dtype=np.float32), 11)

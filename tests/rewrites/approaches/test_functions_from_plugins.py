"""Functions on elements that come when the program is loaded: plugins for GPUs, linked by the provider.

What plugins compute differs, so the numbers tell whose code ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.build import ptxas, shaders
from opsplice.targets.link import function_link
from tests import command_line
from tests.rewrites.approaches.test_scalar_kernels import SOFTSIGN_LL
from tests.rewrites.conftest import write_spec

NO_PTXAS = "assembled: there is no ptxas here"

SPEC = """
kernel softsign(x: f32) -> f32 { %s }
pattern p(x: tensor<...m x f32>) { divf(x, addf(absf(x), 1.0)) }
replace p with softsign(x)%s
"""
MODEL = """
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %a = math.absf %v : f32
    %b = arith.addf %a, %one : f32
    %d = arith.divf %v, %b : f32
    linalg.yield %d : f32
  } -> tensor<?x8xf32>
  %r = arith.mulf %s, %y : tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
"""
# With a loop, a helper and an early return: none of that can go into the program when it is compiled.
WGSL = """
fn helper(x: f32) -> f32 { var s = 0.0; for (var i = 0; i < 4; i++) { s += x; } return s / 4.0; }
fn softsign(x: f32) -> f32 { if (x > 2.0) { return 7.0; } return helper(x) / (1.0 + abs(x)) + %s; }
"""


@pytest.fixture(scope="module", autouse=True)
def naga() -> None:
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")


@pytest.fixture
def wgsl(tmp_path: Path) -> Path:
    path = tmp_path / "softsign.wgsl"
    path.write_text(WGSL % "10.0")
    return path


def compiled(folder: Path, clause: str, targets: str, otherwise: str = "", model: str = MODEL) -> opsplice.Program:
    return opsplice.compile(model, [write_spec(folder, SPEC % (clause, otherwise), {})], targets=targets.split(","))


def inputs(rows: int = 37) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    return tuple(random.standard_normal((rows, 8)).astype(np.float32) * 2 for _ in range(2))


def expected(x: np.ndarray, y: np.ndarray, more: float = 10) -> np.ndarray:
    return np.where(x > 2, 7, x / (1 + abs(x)) + more) * y


@pytest.mark.cell("dynamic function", "WGSL", "runs")
def test_wgsl_on_vulkan(tmp_path, vulkan, wgsl):
    program = compiled(tmp_path, "wgsl as plugin", "vulkan:llvmpipe")
    assert {r.action for r in program.report.replacements} == {"dynamic function"}
    for rows in (1, 37, 300):
        x, y = inputs(rows)
        np.testing.assert_allclose(program.run("main", x, y, device="vulkan", plugins=wgsl), expected(x, y), rtol=2e-6)


@pytest.mark.cell("dynamic function", "SPIR-V", "runs")
def test_spirv_on_vulkan(tmp_path, vulkan, wgsl):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    plugin = tmp_path / "softsign.spv"
    plugin.write_bytes(function_link.read(wgsl, Store()).code)
    x, y = inputs()
    np.testing.assert_allclose(program.run("main", x, y, device="vulkan", plugins=[plugin]), expected(x, y), rtol=2e-6)


def test_the_last_plugin_that_has_a_function_is_taken(tmp_path, vulkan, wgsl):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    last, other = tmp_path / "last.wgsl", tmp_path / "other.wgsl"
    last.write_text(WGSL % "20.0")
    other.write_text("fn tanhshrink(x: f32) -> f32 { return x - tanh(x); }")
    x, y = inputs()
    for plugins, more in (([wgsl, last, other], 20), ([last, wgsl], 10)):
        got = program.run("main", x, y, device="vulkan", plugins=plugins)
        np.testing.assert_allclose(got, expected(x, y, more), rtol=2e-6)


def test_a_function_in_the_loop_of_a_matmul_beside_another(tmp_path, vulkan, wgsl):
    """Vectors of elements, and functions of two files whose helpers have the same name."""
    model = """
    func.func @main(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {
      %z = arith.constant dense<0.0> : tensor<32x32xf32>
      %m = linalg.matmul ins(%a, %b : tensor<32x32xf32>, tensor<32x32xf32>) outs(%z : tensor<32x32xf32>)
          -> tensor<32x32xf32>
      %o = arith.constant dense<1.0> : tensor<32x32xf32>
      %abs = math.absf %m : tensor<32x32xf32>
      %sum = arith.addf %abs, %o : tensor<32x32xf32>
      %s = arith.divf %m, %sum : tensor<32x32xf32>
      %e = math.exp %s : tensor<32x32xf32>
      %r = arith.mulf %b, %e : tensor<32x32xf32>
      return %r : tensor<32x32xf32>
    }"""
    spec = (
        (SPEC % ("vulkan as plugin", ""))
        + """
    kernel expmul(x: f32, y: f32) -> f32 { vulkan as plugin }
    pattern q(x: tensor<...m x f32>, y: tensor<...m x f32>) { mulf(exp(x), y) }
    replace q with expmul(x, y)
    """
    )
    other = tmp_path / "expmul.wgsl"
    other.write_text("fn helper(x: f32) -> f32 { return x + 3.0; } fn expmul(x: f32, y: f32) -> f32 "
                     "{ return helper(exp(x) * y); }")  # fmt: skip
    program = opsplice.compile(model, [write_spec(tmp_path, spec, {})], targets=["vulkan:llvmpipe"])
    a, b = (np.random.default_rng(s).standard_normal((32, 32)).astype(np.float32) / 8 for s in (1, 2))
    m = a @ b
    want = np.exp(m / (1 + abs(m)) + 10) * b + 3
    got = program.run("main", a, b, device="vulkan", plugins=[wgsl, other])
    np.testing.assert_allclose(got, want, rtol=1e-4)


BINARY = """
func.func @main(%x: tensor<37xTYPE>, %y: tensor<37xTYPE>) -> tensor<37xTYPE> {
  %a = OP %x, %y : tensor<37xTYPE>
  %b = OP %a, %a : tensor<37xTYPE>
  return %b : tensor<37xTYPE>
}"""


QUOTIENT = "fn f(x: i32, y: i32) -> i32 { return x / (y * y + 1) - x % (y * y + 1); }"
LARGEST = "fn f(x: i32, y: i32) -> i32 { return max(x, -y) + i32(f32(x) * 0.5); }"
SWITCH = "fn f(x: f32, k: i32) -> f32 { switch (k) { case 37: { return x; } default: { return 0; } } }"
HALF = "enable f16; fn f(x: f16, y: f16) -> f16 { return x - y * 0.5h; }"


@pytest.mark.parametrize(
    ("element", "op", "arguments", "wgsl", "expected"),
    [
        ("i32", "muli", "x, y", QUOTIENT, lambda x, y: np.trunc(x / (y * y + 1)) - np.fmod(x, y * y + 1)),
        ("i32", "addi", "x, y", LARGEST, lambda x, y: np.maximum(x, -y) + np.trunc(x * 0.5)),
        ("f32", "addf", "x, 37", SWITCH, lambda x, y: x),
        ("f16", "mulf", "y, x", HALF, lambda x, y: y - x * np.float16(0.5)),
    ],
)
def test_element_types(tmp_path, vulkan, element, op, arguments, wgsl, expected):
    """A kernel of two parameters in the place of one op, twice; integers of WGSL have a sign, and MLIR's have none."""
    second = "i32" if "37" in arguments else element
    spec = f"""
    kernel f(x: {element}, y: {second}) -> {element} {{ vulkan as plugin }}
    pattern p(x: tensor<n x {element}>, y: tensor<n x {element}>) {{ {op}(x, y) }}
    replace p with f({arguments})
    """
    plugin = tmp_path / "f.wgsl"
    plugin.write_text(wgsl)
    model = BINARY.replace("TYPE", element).replace("OP", f"arith.{op}")
    program = opsplice.compile(model, [write_spec(tmp_path, spec, {})], targets=["vulkan:llvmpipe"])
    dtype = {"i32": np.int32, "f32": np.float32, "f16": np.float16}[element]
    x, y = (np.random.default_rng(s).integers(1, 9, 37).astype(dtype) * sign for s, sign in ((1, -1), (2, 1)))
    once = expected(x, y).astype(dtype)
    want = expected(once, once).astype(dtype)
    np.testing.assert_array_equal(program.run("main", x, y, device="vulkan", plugins=plugin), want)


def test_one_program_for_a_cpu_and_vulkan(tmp_path, vulkan, wgsl):
    program = compiled(tmp_path, "vulkan as plugin", "cpu,vulkan:llvmpipe", " otherwise keep")
    x, y = inputs()
    np.testing.assert_allclose(program.run("main", x, y, device="vulkan", plugins=wgsl), expected(x, y), rtol=2e-6)
    np.testing.assert_allclose(program.run("main", x, y), x / (1 + abs(x)) * y, rtol=2e-6)


# ---- from the command line, and without opsplice --------------------------------------------------------------------


def command(folder: Path, *arguments: str) -> str:
    return command_line.opsplice(*arguments, cwd=folder, check=True).stdout


def test_a_program_in_a_file_and_a_plugin_that_is_built(tmp_path, vulkan, wgsl):
    spec = write_spec(tmp_path, SPEC % ('vulkan "softsign.wgsl" as plugin', ""), {"model.mlir": MODEL})
    command(tmp_path, "compile", "model.mlir", f"--spec={spec}", "--target=vulkan:llvmpipe", "-o", "program.vmfb")
    built = command(tmp_path, "kernel", "plugin", str(spec), "-o", "functions.spv")
    assert "softsign(f32) -> f32" in built
    assert json.loads(command(tmp_path, "kernel", "list", "functions.spv", "--json"))["functions"] == {
        "softsign": "(f32) -> f32",
        "helper": "(f32) -> f32",
    }
    given = ["--input=2x8xf32=1", "--input=2x8xf32=2", "--device=vulkan"]
    ran = command(tmp_path, "run", "program.vmfb", "--provider=program.kernels", "--plugin=functions.spv", *given)
    assert ran.startswith("result[0]: 2x8xf32=[21 21 21")
    command(tmp_path, "kernel", "provider", "program.kernels", "--plugin=functions.spv", "-o", "registry.vmfb")
    runner = Path(sys.executable).parent / "iree-run-module"
    arguments = ["--module=registry.vmfb", "--module=program.vmfb", "--function=main", *given]
    done = subprocess.run([runner, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "2x8xf32=[21 21 21" in done.stdout


# ---- CUDA ------------------------------------------------------------------------------------------------------------


@pytest.mark.cell("dynamic function", "CUDA", "builds")
def test_cuda(tmp_path):
    """Linked only: there is no such device here. The function's 10 is in the code, which calls nothing foreign."""
    program = compiled(tmp_path, "cuda as plugin", "cuda:sm_80")
    ((name, form), code), *others = program.provided.items()
    assert others == []
    assert function_link.imports(code, form, name) == {"softsign": "(b32) -> b32"}
    assert b".entry" not in program.vmfb
    plugin = tmp_path / "softsign.ll"
    plugin.write_text(SOFTSIGN_LL["softsign.ll"])
    linked = function_link.link(code, form, name, [function_link.read(plugin, Store())], Store())
    assert function_link.imports(linked, form, name) == {}
    text = linked[linked.rindex(b".version") :].partition(b"\0")[0].decode()
    assert "0f41200000" in text
    assert ".extern .func" not in text
    assert function_link.unchecked(linked, form, name) == (() if ptxas.find() else (f"{name} was not {NO_PTXAS}",))


@pytest.mark.skipif(ptxas.find() is None, reason=f"there is no ptxas ({ptxas.HOW_TO_GET})")
def test_code_for_cuda_that_the_assembler_refuses_or_does_not_know(tmp_path):
    program = compiled(tmp_path, "cuda as plugin", "cuda:sm_80")
    (((name, form), code),) = program.provided.items()
    plugin = tmp_path / "softsign.ptx"
    for version, body in (("19.0", "ret;"), ("7.6", "nonsense;")):
        head = f".version {version}\n.target sm_80\n.address_size 64\n"
        plugin.write_text(f"{head}.visible .func (.param .b32 r) softsign(.param .b32 x) {{ {body} }}\n")
        linked = function_link.link(code, form, name, [function_link.read(plugin, Store())], Store())
        if version == "19.0":
            assert "was not assembled: it is PTX 19.0" in function_link.unchecked(linked, form, name)[0]
        else:
            with pytest.raises(OpspliceError, match="ptxas refuses"):
                function_link.unchecked(linked, form, name)


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        pytest.param("rocm", "an object that nothing", marks=pytest.mark.cell("dynamic function", "ROCm", "refused")),
        pytest.param("metal", "nothing here can link", marks=pytest.mark.cell("dynamic function", "Metal", "refused")),
        ("cpu", "imports only kernels with loops of their own"),
    ],
)
def test_where_nothing_can_be_linked_later(tmp_path, backend, reason):
    with pytest.raises(OpspliceError) as error:
        compiled(tmp_path, f"{backend} as plugin", "vulkan")
    assert f"cannot be taken as plugin for {backend}" in error.value.details
    assert reason in error.value.details


def test_a_plugin_for_another_device(tmp_path, vulkan):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    (tmp_path / "softsign.ll").write_text(SOFTSIGN_LL["softsign.ll"])
    with pytest.raises(
        OpspliceError, match="imports functions for vulkan-spirv-fb, and no plugin is for that"
    ) as error:
        program.run("main", *inputs(), device="vulkan", plugins=[tmp_path / "softsign.ll"])
    assert error.value.details == "softsign.ll is for cuda-nvptx-fb"


def test_without_a_plugin(tmp_path, vulkan):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    with pytest.raises(OpspliceError, match=r"imports the function 'softsign' : \(f32\) -> f32, which no plugin has"):
        program.run("main", *inputs(), device="vulkan")


def test_a_name_that_is_nearly_right(tmp_path, vulkan):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    (tmp_path / "k.wgsl").write_text("fn soft_sign(x: f32) -> f32 { return x; }")
    with pytest.raises(OpspliceError, match=r"'softsign' .* which no plugin has") as error:
        program.run("main", *inputs(), device="vulkan", plugins=[tmp_path / "k.wgsl"])
    assert error.value.hint == "did you mean 'soft_sign'?"
    assert error.value.details == "k.wgsl has soft_sign"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn softplus(x: f32) -> f32 { return x; }", "which no plugin has"),
        ("fn softsign(x: f32, y: f32) -> f32 { return x; }", r"is \(f32, f32\) -> f32, and .* imports \(f32\) -> f32"),
        ("var<private> k: f32; fn softsign(x: f32) -> f32 { return x + k; }", "has a variable outside of functions"),
        ("fn softsign(x: f32) -> f32 {", "naga cannot compile softsign.wgsl"),
    ],
)
def test_plugins_that_do_not_fit(tmp_path, vulkan, text, message):
    program = compiled(tmp_path, "vulkan as plugin", "vulkan:llvmpipe")
    plugin = tmp_path / "softsign.wgsl"
    plugin.write_text(text)
    with pytest.raises(OpspliceError, match=message):
        program.run("main", *inputs(), device="vulkan", plugins=[plugin])


def test_a_plugin_of_a_spec_with_kernels_of_other_kinds(tmp_path, wgsl):
    from opsplice.compiling import plugin_kernels

    path = write_spec(tmp_path, SPEC % ('vulkan "softsign.wgsl" as plugin', ""), {})
    with pytest.raises(OpspliceError) as error:
        plugin_kernels.build(path, ".so")
    assert "softsign is a function on elements" in error.value.message
    path.write_text(path.read_text().replace("f32", "f64"))
    with pytest.raises(OpspliceError, match=r"is \(f32\) -> f32, and the kernel is \(f64\) -> f64"):
        plugin_kernels.build(path, ".spv")

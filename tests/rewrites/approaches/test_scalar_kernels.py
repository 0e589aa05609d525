"""Functions on elements: kernels of scalars, called inside the compiler's own code on every backend.

The functions here add something to what the compiler would compute, so the numbers tell whose code ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.compiling.splice import Splicer
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.spec_lang.loading.loader import load
from opsplice.targets.build import shaders
from opsplice.targets.link import function_link
from tests.rewrites.conftest import DEVICES, write_spec

KEEP_F64 = "--iree-input-demote-f64-to-f32=false"
VULKAN = ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=llvmpipe", KEEP_F64)
CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")
ROCM = ("--iree-hal-target-device=hip", "--iree-rocm-target=gfx942")
METAL = ("--iree-hal-target-device=metal",)

SOFTSIGN = """
kernel softsign(x: f32) -> f32 { %s }
pattern p(x: tensor<...m x f32>) { divf(x, addf(absf(x), 1.0)) }
replace p with softsign(x)
"""
SOFTSIGN_C = {"softsign.c": "float softsign(float x) { return 10 + x / (1 + __builtin_fabsf(x)); }"}
SOFTSIGN_LL = {
    "softsign.ll": """
define float @softsign(float %x) {
  %a = call float @llvm.fabs.f32(float %x)
  %b = fadd float %a, 1.0
  %c = fdiv float %x, %b
  %r = fadd float %c, 10.0
  ret float %r
}
declare float @llvm.fabs.f32(float)
"""
}
SOFTSIGN_MLIR = {
    "softsign.mlir": """
spirv.func @softsign(%x: f32) -> f32 "None" {
  %one = spirv.Constant 1.0 : f32
  %ten = spirv.Constant 10.0 : f32
  %a = spirv.GL.FAbs %x : f32
  %b = spirv.FAdd %a, %one : f32
  %c = spirv.FDiv %x, %b : f32
  %r = spirv.FAdd %c, %ten : f32
  spirv.ReturnValue %r : f32
}
"""
}


def softsign_model(shape: str = "4x8", around: bool = True, name: str = "main") -> str:
    """x / (|x| + 1) in one generic, with an op before it and one after it."""
    dims = shape.split("x") if shape else []
    kind = f"tensor<{'x'.join([*dims, 'f32'])}>"
    names = ", ".join(f"d{i}" for i in range(len(dims)))
    loops = ", ".join(['"parallel"'] * len(dims))
    sizes = [f"%n{i}" for i, d in enumerate(dims) if d == "?"]
    lines = [f"%c{i} = arith.constant {i} : index" for i in range(len(dims))]
    lines += [f"%n{i} = tensor.dim %x, %c{i} : {kind}" for i, d in enumerate(dims) if d == "?"]
    before = "arith.addf %x, %x" if around else "arith.negf %x"
    each = f"affine_map<({names}) -> ({names})>"
    return f"""
func.func @{name}(%x: {kind}) -> {kind} {{
  {chr(10).join(lines)}
  %before = {before} : {kind}
  %empty = tensor.empty({", ".join(sizes)}) : {kind}
  %r = linalg.generic {{indexing_maps = [{each}, {each}], iterator_types = [{loops}]}}
      ins(%before : {kind}) outs(%empty : {kind}) {{
  ^bb0(%e: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %a = math.absf %e : f32
    %b = arith.addf %a, %one : f32
    %c = arith.divf %e, %b : f32
    linalg.yield %c : f32
  }} -> {kind}
  %after = arith.mulf %r, %r : {kind}
  return %after : {kind}
}}
"""


def softsign_of(x: np.ndarray) -> np.ndarray:
    x = x + x
    return (10 + x / (1 + abs(x))) ** 2


def numbers(*shape: int, element: str = "f32") -> np.ndarray:
    random = np.random.default_rng(0)
    if element.startswith("i"):
        values = random.integers(0, 2, shape) if element == "i1" else random.integers(-9, 9, shape)
    else:
        values = random.standard_normal(shape)
    return values.astype(ELEMENT_TYPES[element])


@cache
def no_vulkan() -> str:
    """Why there is no Vulkan device here, "" if there is one."""
    import iree.runtime

    try:
        devices = iree.runtime.get_driver("vulkan").query_available_devices()
    except (RuntimeError, ValueError, KeyError):
        devices = []
    if not any("llvmpipe" in str(device["name"]) for device in devices):
        return "no Vulkan device on the CPU (install mesa-vulkan-drivers)"
    return ""


@pytest.fixture
def vulkan() -> str:
    if reason := no_vulkan():
        pytest.skip(reason)
    return "vulkan"


@pytest.fixture
def codes(tmp_path: Path) -> Callable[..., str]:
    """Compiles up to phase `hal` with a spec; returns the module's text and its binaries' code."""

    def build(mlir: str, spec: str, files: Mapping[str, str | bytes], flags: tuple[str, ...]) -> str:
        loaded = load(write_spec(tmp_path, spec, files))
        seen: list[str] = []

        def look(module: Any) -> None:
            from iree.compiler import ir

            def visit(op: ir.Operation) -> ir.WalkResult:
                if op.name == "hal.executable.binary":
                    data = bytes(memoryview(ir.DenseElementsAttr(op.attributes["data"])))
                    seen.append(data.decode("latin-1"))
                return ir.WalkResult.ADVANCE

            module.operation.walk(visit)

        with Compilation(flags) as compilation:
            compilation.load(ModuleSource(content=mlir))
            splice = Step("preprocessing", "spec", lambda module: Splicer(Store()).apply(module, loaded)[1])
            run(compilation, [splice, Step("hal", "look", look)])
        return "\n".join(seen)

    return build


# ---- on the CPU ------------------------------------------------------------------------------------------------------


SHAPES = {"static": "4x8", "rows": "?x8", "any": "?x?", "odd": "3x5x7", "one": "1", "none": "", "long": "1000"}
SOFTSIGNS = "".join(softsign_model(shape, name=name) for name, shape in SHAPES.items())


def check_softsigns(program: opsplice.Program, device: str) -> None:
    assert len(program.report.replacements) == len(SHAPES)
    for name, shape in SHAPES.items():
        x = numbers(*(int(d.replace("?", "33")) for d in shape.split("x") if d))
        got = program.run(name, x, device=device)
        np.testing.assert_allclose(got, softsign_of(x), rtol=1e-6, err_msg=f"{name} on {device}")


@pytest.mark.parametrize("clause", ['cpu "softsign.c"', 'cpu "softsign.c" as bitcode', 'cpu "softsign.ll"'])
def test_every_element_goes_through_the_function(spliced, clause: str) -> None:
    program = spliced(SOFTSIGNS, SOFTSIGN % clause, SOFTSIGN_C | SOFTSIGN_LL)
    for device in DEVICES:
        check_softsigns(program, device)


def test_the_function_is_fused_with_its_neighbours(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, SOFTSIGN % 'cpu "softsign.c"', SOFTSIGN_C))
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=softsign_model("?x8")))
        compilation.run_to("preprocessing")
        Splicer(Store()).apply(compilation.module, spec)
        compilation.run_to("executable-sources")
        text = str(compilation.module)
    assert text.count("hal.executable.export") == 1
    assert text.count("linalg.generic") == 1
    for op in ("arith.addf", "llvm.inline_asm", "arith.mulf"):
        assert op in text


def test_bitcode_becomes_vectors(tmp_path: Path) -> None:
    path = write_spec(tmp_path, SOFTSIGN % 'cpu "softsign.c" as bitcode', SOFTSIGN_C)
    # The compiler's own code has no division of x by |x| + 1, and so every one is the function's.
    opsplice.compile(softsign_model("1000x64"), [path], [f"--iree-hal-dump-executable-intermediates-to={tmp_path}"])
    (text,) = (each.read_text() for each in tmp_path.glob("*.optimized.ll"))
    body = text[text.index("i32 @main_dispatch_0") :].partition("\n}")[0]
    assert re.search(r"fdiv .*<\d+ x float>", body)
    assert not re.search(r"call .*@softsign", body)


@pytest.mark.parametrize("form", ["object", "bitcode"])
@pytest.mark.parametrize("shape", [(64, 64), (37, 5)])
def test_functions_of_several_arguments_in_tiles(spliced, form: str, shape: tuple[int, int]) -> None:
    m, n = shape
    a, b, t = f"tensor<{m}x{n}xf32>", f"tensor<{n}x{m}xf32>", f"tensor<{m}x{m}xf32>"
    spec = f"""
kernel f(x: f32, y: f32, z: f32) -> f32 {{ cpu "f.c" as {form} }}
pattern p(x: tensor<...m x f32>, y: tensor<...m x f32>, z: tensor<...m x f32>) {{ subf(mulf(x, y), absf(z)) }}
replace p with f(x, y, z)
"""
    model = f"""
#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
func.func @main(%a: {a}, %b: {b}) -> ({t}, {b}) {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {t}
  %fill = linalg.fill ins(%zero : f32) outs(%empty : {t}) -> {t}
  %product = linalg.matmul ins(%a, %b : {a}, {b}) outs(%fill : {t}) -> {t}
  %0 = arith.mulf %product, %product : {t}
  %1 = math.absf %product : {t}
  %2 = arith.subf %0, %1 : {t}
  %other = tensor.empty() : {b}
  %swapped = linalg.transpose ins(%a : {a}) outs(%other : {b}) permutation = [1, 0]
  %3 = arith.mulf %swapped, %b : {b}
  %4 = math.absf %b : {b}
  %5 = arith.subf %3, %4 : {b}
  return %2, %5 : {t}, {b}
}}"""
    files = {"f.c": "float f(float x, float y, float z) { return 10 + x * y - __builtin_fabsf(z); }"}
    program = spliced(model, spec, files)
    assert len(program.report.replacements) == 2
    x, y = numbers(m, n), numbers(n, m)
    product, other = program.run("main", x, y)
    np.testing.assert_allclose(product, 10 + (x @ y) ** 2 - abs(x @ y), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other, 10 + x.T * y - abs(y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_calls_with_one_first_argument(spliced, form: str) -> None:
    spec = f"""
kernel f(x: f32, y: f32) -> f32 {{ cpu "f.c" as {form} }}
pattern p(x: tensor<n x f32>, y: tensor<n x f32>) {{ subf(x, absf(y)) }}
replace p with f(x, y)
"""
    model = """
#m = affine_map<(i) -> (i)>
func.func @main(%x: tensor<100xf32>, %y: tensor<100xf32>, %z: tensor<100xf32>) -> tensor<100xf32> {
  %0 = math.absf %y : tensor<100xf32>
  %1 = arith.subf %x, %0 : tensor<100xf32>
  %2 = math.absf %z : tensor<100xf32>
  %3 = arith.subf %x, %2 : tensor<100xf32>
  %4 = math.absf %3 : tensor<100xf32>
  %5 = arith.subf %1, %4 : tensor<100xf32>
  return %5 : tensor<100xf32>
}"""
    program = spliced(model, spec, {"f.c": "float f(float x, float y) { return 2 * x - y; }"})
    x, y, z = (numbers(3, 100) * [[1], [2], [3]]).astype(np.float32)
    np.testing.assert_allclose(program.run("main", x, y, z), 2 * (2 * x - y) - (2 * x - z), rtol=1e-5, atol=1e-5)


C_TYPES = {
    "f16": "_Float16", "bf16": "__bf16", "f32": "float", "f64": "double",
    "i1": "_Bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long",
}  # fmt: skip


# The arithmetic of small floats needs helpers that are not linked.
NEGATED = "unsigned short u; __builtin_memcpy(&u, &b, 2); u ^= 0x8000; __builtin_memcpy(&b, &u, 2); return b;"


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_elements_of_every_type(spliced, zig: None, form: str) -> None:
    """a - b where the pattern is a * b + b, in signed and small types, too; -b for small floats."""
    model, spec, code = "", "", ""
    for element, c in C_TYPES.items():
        kind = f"tensor<?x{element}>"
        mul, add = ("arith.mulf", "arith.addf") if "f" in element else ("arith.muli", "arith.addi")
        if element == "i1":
            mul, add = "arith.andi", "arith.ori"
        model += f"""
func.func @{element}(%a: {kind}, %b: {kind}) -> {kind} {{
  %0 = {mul} %a, %b : {kind}
  %1 = {add} %0, %b : {kind}
  return %1 : {kind}
}}"""
        spec += f"""
kernel f_{element}(a: {element}, b: {element}) -> {element} {{ cpu "f.c" as {form} }}
pattern p_{element}(a: tensor<n x {element}>, b: tensor<n x {element}>) {{ {add[6:]}({mul[6:]}(a, b), b) }}
replace p_{element} with f_{element}(a, b)
"""
        body = "return a && !b;" if element == "i1" else NEGATED if "f16" in element else "return a - b;"
        code += f"{c} f_{element}({c} a, {c} b) {{ {body} }}\n"
    program = spliced(model, spec, {"f.c": code}, [KEEP_F64])
    for element in C_TYPES:
        a, b = numbers(37, element=element), numbers(37, element=element)[::-1].copy()
        wanted = (a & ~b) if element == "i1" else -b if "f16" in element else a - b
        np.testing.assert_array_equal(program.run(element, a, b), wanted, err_msg=element)


TWO_ARGUMENTS = """
kernel f(x: f32, s: f32, k: i32) -> f32 {{ cpu "f.c" }}
pattern p(x: tensor<n x f32>, s: f32) {{ mulf(absf(x), s) }}
replace p with f(x, {given})
"""
F_C = {"f.c": "float f(float x, float s, int k) { return x * s + k; }"}
SCALE = """
func.func @{name}(%x: tensor<?xf32>, {parameter}) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  {scalar}
  %all = tensor.splat %s[%n] : tensor<?xf32>
  %a = math.absf %x : tensor<?xf32>
  %r = arith.mulf %a, %all : tensor<?xf32>
  return %r : tensor<?xf32>
}}"""


ONE_AND_A_HALF = {
    "scalar": ("%s: f32", "", 1.5),
    "rank_0": ("%t: tensor<f32>", "%s = tensor.extract %t[] : tensor<f32>", np.array(1.5, np.float32)),
    "constant": ("%unused: i32", "%s = arith.constant 1.5 : f32", 0),
}


@pytest.mark.parametrize(("given", "s", "k"), [("s, 7", 1.5, 7), ("2.5, n", 2.5, 37), ("s, n", 1.5, 37)])
def test_scalars_numbers_and_dims_are_arguments(spliced, given: str, s: float, k: int) -> None:
    cases = ONE_AND_A_HALF.items()
    model = "".join(SCALE.format(name=name, parameter=p, scalar=scalar) for name, (p, scalar, _) in cases)
    program = spliced(model, TWO_ARGUMENTS.format(given=given), F_C)
    x = numbers(37)
    for name, (_, _, value) in cases:
        np.testing.assert_allclose(program.run(name, x, value), x * np.float32(s) + k, rtol=1e-6, err_msg=name)


def test_constants_are_not_computed_while_compiling(spliced) -> None:
    """The compiler would run its own code on them, and there is no function in that."""
    model = """
#map = affine_map<(a) -> (a)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, -2.0, 3.0, -4.0]> : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %c = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%w : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %o: f32):
    %1 = math.sqrt %e : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  %r = arith.addf %c, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}"""
    spec = """
kernel f(x: f32) -> f32 { cpu "f.c" }
pattern p(x: tensor<...m x f32>) { sqrt(x) }
replace p with f(x)
"""
    program = spliced(model, spec, {"f.c": "float f(float x) { return x + 1; }"})
    assert len(program.report.replacements) == 1
    w, x = np.array([1, -2, 3, -4], np.float32), numbers(4)
    np.testing.assert_allclose(program.run("main", x), w + 1 + x, rtol=1e-6)


def test_a_function_of_numbers_alone(spliced) -> None:
    model = SCALE.format(name="main", parameter="%unused: i32", scalar="%s = arith.constant 1.5 : f32")
    spec = """
kernel f(s: f32) -> f32 { cpu "f.c" }
pattern p(x: tensor<n x f32>, s: f32) { mulf(absf(x), s) }
replace p with f(s)
"""
    program = spliced(model, spec, {"f.c": "float f(float s) { return s + 1; }"})
    np.testing.assert_array_equal(program.run("main", numbers(5), 0), np.full(5, 2.5, np.float32))


def test_a_symbol_for_each_type(spliced) -> None:
    spec = """
kernel f<T in {f32, f64}>(x: T) -> T { symbol "f_{T}" cpu "f.c" }
pattern p<T>(x: tensor<...m x T>) { mulf(x, x) }
replace p with f(x)
"""
    model = """
func.func @main(%x: tensor<?xf32>, %y: tensor<3x?xf64>) -> (tensor<?xf32>, tensor<3x?xf64>) {
  %0 = arith.mulf %x, %x : tensor<?xf32>
  %1 = arith.mulf %y, %y : tensor<3x?xf64>
  return %0, %1 : tensor<?xf32>, tensor<3x?xf64>
}"""
    files = {"f.c": "float f_f32(float x) { return x + 1; }\ndouble f_f64(double x) { return x + 2; }"}
    program = spliced(model, spec, files, [KEEP_F64])
    x, y = numbers(5), numbers(3, 4, element="f64")
    for got, want in zip(program.run("main", x, y), [x + 1, y + 2], strict=True):
        np.testing.assert_array_equal(got, want)


def test_functions_and_kernels_in_one_program(spliced) -> None:
    spec = """
kernel f(x: f32) -> f32 { cpu "f.c" as bitcode }
kernel g(x: f32, y: f32) -> f32 { cpu "f.c" as bitcode }
kernel h(x: f32[...m]) -> f32[...m] { cpu "h.c" }
pattern square(x: tensor<...m x f32>) { mulf(x, x) }
pattern product(x: tensor<...m x f32>, y: tensor<...m x f32>) { mulf(x, y) }
pattern root(x: tensor<...m x f32>) { sqrt(x) }
replace square with f(x)
replace product with g(x, y)
replace root with h(x)
"""
    model = """
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %x, %x : tensor<?xf32>
  %1 = math.sqrt %0 : tensor<?xf32>
  %2 = arith.mulf %1, %y : tensor<?xf32>
  %3 = arith.mulf %2, %2 : tensor<?xf32>
  return %3 : tensor<?xf32>
}"""
    files = {
        "f.c": "float f(float x) { return x + 1; }\nfloat g(float x, float y) { return x - y; }",
        "h.c": "#include <stddef.h>\n"
        "void h(const float *x, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = 2 * x[i]; }",
    }
    program = spliced(model, spec, files)
    assert len(program.report.replacements) == 4
    x, y = numbers(50), numbers(50)[::-1].copy()
    for device in DEVICES:
        np.testing.assert_allclose(program.run("main", x, y, device=device), 2 * (x + 1) - y + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (
            """
func.func @main(%x: tensor<1x4xf32>) -> tensor<4x1xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %1 = arith.mulf %0, %0 : tensor<4xf32>
  %2 = tensor.expand_shape %1 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  return %2 : tensor<4x1xf32>
}""",
            (1, 4),
        ),
        (
            """
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%v = %x) -> tensor<6xf32> {
    %1 = arith.mulf %v, %v : tensor<6xf32>
    scf.yield %1 : tensor<6xf32>
  }
  return %r : tensor<6xf32>
}""",
            (6,),
        ),
    ],
    ids=["unit dims", "in a loop"],
)
def test_whatever_the_shape(spliced, model: str, shape: tuple[int, ...]) -> None:
    spec = """
kernel f(x: f32) -> f32 { cpu "f.c" }
pattern p(x: tensor<...m x f32>) { mulf(x, x) }
replace p with f(x)
"""
    program = spliced(model, spec, {"f.c": "float f(float x) { return x + 1; }"})
    assert len(program.report.replacements) == 1
    x = numbers(*shape)
    result = program.run("main", x)
    times = 4 if "scf.for" in model else 1
    wanted = x.reshape(result.shape) + times
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("phase", ["start", "input", "abi", "global-optimization"])
def test_at_other_phases(spliced, phase: str) -> None:
    spec = SOFTSIGN.replace("replace p with", f"replace p at {phase} with") % 'cpu "softsign.c"'
    program = spliced(softsign_model("?x8"), spec, SOFTSIGN_C)
    assert len(program.report.replacements) == 1
    x = numbers(5, 8)
    np.testing.assert_allclose(program.run("main", x), softsign_of(x), rtol=1e-6)


def test_f64_that_the_compiler_makes_f32_is_an_error(spliced) -> None:
    spec = """
kernel f(x: f64) -> f64 { cpu "f.c" }
pattern p(x: tensor<...m x f64>) { mulf(x, x) }
replace p at start with f(x)
"""
    model = """
func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {
  %0 = arith.mulf %x, %x : tensor<?xf64>
  return %0 : tensor<?xf64>
}"""
    with pytest.raises(OpspliceError, match="kernel f is for f64, which the compiler has made f32"):
        spliced(model, spec, {"f.c": "double f(double x) { return x; }"})


# ---- targets ---------------------------------------------------------------------------------------------------------


def test_a_target_without_a_clause_is_an_error(spliced) -> None:
    with pytest.raises(OpspliceError, match="kernel 'softsign' has no artifact for vulkan-spirv") as caught:
        spliced(softsign_model(), SOFTSIGN % 'cpu "softsign.c"', SOFTSIGN_C, VULKAN)
    assert 'vulkan "..."' in str(caught.value.hint)


def test_otherwise_keep_leaves_it_to_the_compiler(spliced) -> None:
    spec = SOFTSIGN.replace("softsign(x)\n", "softsign(x) otherwise keep\n") % 'cuda "softsign.ll"'
    program = spliced(softsign_model(), spec, SOFTSIGN_LL)
    assert (len(program.report.replacements), len(program.report.kept)) == (0, 1)
    x = numbers(4, 8)
    np.testing.assert_allclose(program.run("main", x), (softsign_of(x) ** 0.5 - 10) ** 2, rtol=1e-3)


def test_otherwise_keep_for_one_of_several_targets(tmp_path: Path) -> None:
    from opsplice.targets.artifacts import arch

    host = arch.host_arch()
    other = next(a for a in arch.ARCHS if a != host)
    spec = SOFTSIGN.replace("softsign(x)\n", "softsign(x) otherwise keep\n") % f'cpu {host} "softsign.c"'
    path = write_spec(tmp_path, spec, SOFTSIGN_C)
    program = opsplice.compile(softsign_model("?x8"), [path], targets=[str(host), other])
    x = numbers(5, 8)
    np.testing.assert_allclose(program.run("main", x), softsign_of(x), rtol=1e-6)


def test_one_program_for_several_architectures(tmp_path: Path, zig: None) -> None:
    from opsplice.targets.artifacts import arch

    path = write_spec(tmp_path, SOFTSIGN % 'cpu "softsign.c" as bitcode', SOFTSIGN_C)
    program = opsplice.compile(softsign_model("?x8"), [path], targets=arch.ARCHS)
    x = numbers(5, 8)
    np.testing.assert_allclose(program.run("main", x), softsign_of(x), rtol=1e-6)


@pytest.mark.cell("static function", "SPIR-V", "runs")
def test_on_vulkan(spliced, vulkan: str) -> None:
    check_softsigns(spliced(SOFTSIGNS, SOFTSIGN % 'vulkan "softsign.mlir"', SOFTSIGN_MLIR, VULKAN), vulkan)


@pytest.fixture
def naga() -> None:
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")


SOFTSIGN_WGSL = {
    "softsign.wgsl": """
fn shifted(x: f32) -> f32 { return x + 10.0; }
fn softsign(x: f32) -> f32 { return shifted(x / (abs(x) + 1.0)); }
@compute @workgroup_size(1) fn main() { loop { break; } }
"""
}


@pytest.mark.cell("static function", "WGSL", "runs")
def test_in_wgsl(spliced, vulkan: str, naga: None) -> None:
    check_softsigns(spliced(SOFTSIGNS, SOFTSIGN % 'wgsl "softsign.wgsl"', SOFTSIGN_WGSL, VULKAN), vulkan)


# Bodies of functions in WGSL, with what numpy makes of the same numbers.
WGSL = {
    "choices": (
        "var r = a; if (a > b) { r = b; if (b < 0.0) { r = r - 1.0; } } else { r = r * 2.0; } return r;",
        lambda a, b: np.where(a > b, np.where(b < 0, b - 1, b), a * 2),
    ),
    "select and logic": (
        "return select(a, b, a < b && !(b > 1.0)) + f32(a != b);",
        lambda a, b: np.where((a < b) & ~(b > 1), b, a) + (a != b),
    ),
    "vectors": (
        "let v = vec3<f32>(a, b, 2.0) * vec3<f32>(1.0, 0.5, 3.0); return dot(v, vec3<f32>(1.0)) + v.y;",
        lambda a, b: a + b * 0.5 + 6 + b * 0.5,
    ),
    "whole numbers": (
        "let i = i32(a * 8.0); let u = u32(abs(i)); return f32(((i << 2u) ^ 5) % 7) + f32((u >> 1u) & 3u);",
        lambda a, b: _whole(a),
    ),
    "bits": (
        "return bitcast<f32>(bitcast<u32>(a) & 0x7fffffffu) + bitcast<f32>(bitcast<u32>(b) | 0x80000000u);",
        lambda a, b: np.abs(a) - np.abs(b),
    ),
    "loops and returns": (
        "if (a > 0.0) { return b; } var r = a; while (r < -0.25) { r = r / 2.0; } return r;",
        lambda a, b: np.where(a > 0, b, [_halved(each) for each in a]),
    ),
    "mathematics": (
        "return tanh(a) + exp(-b) * sqrt(abs(a)) + clamp(b, -0.5, 0.5) + mix(a, b, 0.25) + fma(a, b, 1.0);",
        lambda a, b: (
            np.tanh(a) + np.exp(-b) * np.sqrt(abs(a)) + np.clip(b, -0.5, 0.5) + a * 0.75 + b * 0.25 + a * b + 1
        ),
    ),
    "more of it": (
        "return floor(a) - sign(b) + max(a, b) * min(a, b) + pow(abs(b), 1.5) + inverseSqrt(1.0 + a * a);",
        lambda a, b: np.floor(a) - np.sign(b) + a * b + abs(b) ** 1.5 + 1 / np.sqrt(1 + a * a),
    ),
}


def _whole(a: np.ndarray) -> np.ndarray:
    i = np.trunc(a * 8).astype(np.int32)
    return np.fmod((i << 2) ^ 5, 7) + ((abs(i) >> 1) & 3)


def _halved(number: np.float32) -> np.float32:
    return number if number >= -0.25 else _halved(number / 2)


def test_what_functions_in_wgsl_can_do(spliced, vulkan: str, naga: None) -> None:
    model, spec, code = "", "", ""
    for number, (body, _) in enumerate(WGSL.values()):
        # The number in each pattern tells which function is meant.
        model += f"""
func.func @f{number}(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %s = arith.constant {number + 2}.0 : f32
  %all = tensor.splat %s[%n] : tensor<?xf32>
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = arith.divf %0, %all : tensor<?xf32>
  return %1 : tensor<?xf32>
}}"""
        spec += f"""
kernel f{number}(a: f32, b: f32) -> f32 {{ wgsl "f.wgsl" }}
pattern p{number}(a: tensor<n x f32>, b: tensor<n x f32>) {{ divf(mulf(a, b), {number + 2}.0) }}
replace p{number} with f{number}(a, b)
"""
        code += f"fn f{number}(a: f32, b: f32) -> f32 {{ {body} }}\n"
    program = spliced(model, spec, {"f.wgsl": code}, VULKAN)
    assert len(program.report.replacements) == len(WGSL)
    a, b = numbers(101), numbers(101)[::-1].copy()
    for number, (case, (_, own)) in enumerate(WGSL.items()):
        got = program.run(f"f{number}", a, b, device=vulkan)
        np.testing.assert_allclose(got, own(a, b), rtol=2e-5, atol=2e-5, err_msg=case)


def test_functions_in_spirv_and_wgsl_beside_one_of_a_plugin_in_one_loop(tmp_path, vulkan: str, naga: None) -> None:
    model = """
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %a : tensor<?xf32>
  %1 = math.exp %0 : tensor<?xf32>
  %2 = math.sqrt %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}"""
    clauses = {"absf": 'vulkan "f.wgsl"', "exp": 'symbol "g" vulkan "g.spv"', "sqrt": "vulkan as plugin"}
    spec = "".join(
        f"kernel {op}_(x: f32) -> f32 {{ {clause} }} pattern {op}_of(x: tensor<n x f32>) {{ {op}(x) }}"
        f" replace {op}_of with {op}_(x) "
        for op, clause in clauses.items()
    )
    for file, name, number in (("f", "absf_", 2), ("g", "g", 3), ("plugin", "sqrt_", 5)):
        (tmp_path / f"{file}.wgsl").write_text(f"fn {name}(x: f32) -> f32 {{ return x * {number}.0 + 1.0; }}")
    (tmp_path / "g.spv").write_bytes(function_link.read(tmp_path / "g.wgsl", Store()).code)
    (tmp_path / "k.splice").write_text(spec)
    program = opsplice.compile(model, [tmp_path / "k.splice"], targets=["vulkan:llvmpipe"])
    assert len(program.report.replacements) == 3
    x = numbers(37)
    found = program.run("main", x, device=vulkan, plugins=[tmp_path / "plugin.wgsl"])
    np.testing.assert_allclose(found, ((x * 2 + 1) * 3 + 1) * 5 + 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("fn other(x: f32) -> f32 { return x; }", "k.wgsl does not define a function 'softsign'"),
        ("fn softsign(x: f32) -> f32 { return y; }", "naga cannot compile k.wgsl"),
        ("fn softsign(x: i32) -> i32 { return x; }", r"is \(i32\) -> i32, and the kernel is \(f32\) -> f32"),
        ("fn softsign(x: mat2x2<f32>) -> f32 { return x[0].x; }", r"and the kernel is \(f32\) -> f32"),
        (
            "var<private> g: f32; fn softsign(x: f32) -> f32 { g = x; return g; }",
            "a function of k.wgsl has a variable outside of functions",
        ),
    ],
)
def test_functions_in_wgsl_that_cannot_be_taken(spliced, naga: None, content: str, message: str) -> None:
    with pytest.raises(OpspliceError, match=message):
        spliced(softsign_model(), SOFTSIGN % 'wgsl "k.wgsl"', {"k.wgsl": content}, VULKAN)


def test_types_on_vulkan(spliced, vulkan: str) -> None:
    model, spec, files = "", "", {}
    elements = ("f16", "f32", "f64", "i32", "i64")
    for element in elements:
        kind = f"tensor<?x{element}>"
        mul, sub = ("mulf", "FSub") if "f" in element else ("muli", "ISub")
        model += f"""
func.func @{element}(%a: {kind}, %b: {kind}) -> {kind} {{
  %0 = arith.{mul} %a, %b : {kind}
  return %0 : {kind}
}}"""
        spec += f"""
kernel f_{element}(a: {element}, k: i32, b: {element}) -> {element} {{ vulkan "{element}.mlir" }}
pattern p_{element}(a: tensor<n x {element}>, b: tensor<n x {element}>) {{ {mul}(a, b) }}
replace p_{element} with f_{element}(a, 5, b)
"""
        files[f"{element}.mlir"] = f"""
spirv.module Logical GLSL450 {{
  spirv.func @difference_{element}(%a: {element}, %b: {element}) -> {element} "None" {{
    %r = spirv.{sub} %a, %b : {element}
    spirv.ReturnValue %r : {element}
  }}
  spirv.func @f_{element}(%a: {element}, %k: i32, %b: {element}) -> {element} "None" {{
    %r = spirv.FunctionCall @difference_{element}(%a, %b) : ({element}, {element}) -> {element}
    spirv.ReturnValue %r : {element}
  }}
}}"""
    program = spliced(model, spec, files, VULKAN)
    for element in elements:
        a, b = numbers(37, element=element), numbers(37, element=element)[::-1].copy()
        np.testing.assert_array_equal(program.run(element, a, b, device=vulkan), a - b, err_msg=element)


def test_a_captured_scalar_on_vulkan(spliced, vulkan: str) -> None:
    model = SCALE.format(name="main", parameter="%s: f32", scalar="")
    spec = """
kernel f(x: f32, s: f32) -> f32 { vulkan "f.mlir" }
pattern p(x: tensor<n x f32>, s: f32) { mulf(absf(x), s) }
replace p with f(x, s)
"""
    code = """spirv.func @f(%x: f32, %s: f32) -> f32 "None" {
  %r = spirv.FMul %x, %s : f32
  spirv.ReturnValue %r : f32
}"""
    program = spliced(model, spec, {"f.mlir": code}, VULKAN)
    x = numbers(37)
    np.testing.assert_allclose(program.run("main", x, 1.5, device=vulkan), x * 1.5, rtol=1e-6)


@pytest.mark.cell("static function", "CUDA", "builds")
@pytest.mark.parametrize("shape", ["4x8", "?x8"])
def test_in_code_for_cuda(codes, shape: str) -> None:
    """Compiled only: there is no such device here. The function's 10 is in the code, which calls nothing foreign."""
    text = codes(softsign_model(shape), SOFTSIGN % 'cuda "softsign.ll"', SOFTSIGN_LL, CUDA)
    assert "0f41200000" in text
    assert ".extern .func" not in text


@pytest.mark.cell("static function", "ROCm", "builds")
def test_in_code_for_rocm(codes) -> None:
    text = codes(softsign_model(), SOFTSIGN % 'rocm "softsign.ll"', SOFTSIGN_LL, ROCM)
    assert "\x7fELF" in text
    plain = codes(softsign_model(), SOFTSIGN % 'rocm "softsign.ll"', {"softsign.ll": DIFFERENT}, ROCM)
    assert text != plain


DIFFERENT = "define float @softsign(float %x) {\n  ret float %x\n}\n"


@pytest.mark.cell("static function", "Metal", "builds")
def test_in_code_for_metal(codes) -> None:
    text = codes(softsign_model(), SOFTSIGN % 'metal "softsign.mlir"', SOFTSIGN_MLIR, METAL)
    assert "float softsign(float " in text
    assert "10.0" in text


# ---- files that do not fit -------------------------------------------------------------------------------------------


WRONG_TYPE = "define double @softsign(double %x) {\n  ret double %x\n}\n"
WITHOUT = "define float @other(float %x) {\n  ret float %x\n}\n"
FOREIGN = (
    "declare float @mystery(float)\n"
    "define float @softsign(float %x) {\n  %r = call float @mystery(float %x)\n  ret float %r\n}\n"
)
NO_LIBDEVICE = FOREIGN.replace("mystery", "__nv_mystery")
WRONG_ON_CPU = r"'softsign' in k.ll is `double \(double\)`, and kernel softsign calls it as `float \(float\)`"
SPIRV_WRONG_TYPE = 'spirv.func @softsign(%x: f64) -> f64 "None" { spirv.ReturnValue %x : f64 }'
SPIRV_WITHOUT = 'spirv.func @other(%x: f32) -> f32 "None" { spirv.ReturnValue %x : f32 }'


TOO_MANY = "float softsign(float x, float y) { return y; }"


@pytest.mark.parametrize(
    ("flags", "clause", "content", "message"),
    [
        (CUDA, 'cuda "k.ll"', WRONG_TYPE, r"function softsign is `double \(double\)`, and kernel .* `float \(float\)`"),
        (CUDA, 'cuda "k.ll"', WITHOUT, "k.ll does not define a function 'softsign'"),
        (CUDA, 'cuda "k.ll"', FOREIGN, "k.ll calls mystery, which nothing links for CUDA"),
        (CUDA, 'cuda "k.ll"', "define nonsense", "k.ll is not valid LLVM IR"),
        (CUDA, 'cuda "k.c"', "", "k.c is not a kind of file that a function for CUDA can be"),
        (CUDA, 'cuda "k.ll"', NO_LIBDEVICE, "the code for CUDA calls __nv_mystery, which nothing has linked"),
        (ROCM, 'rocm "k.bc"', "text", "k.bc is not LLVM bitcode"),
        (CUDA, 'cuda "absent.ll"', "", "no such file"),
        (VULKAN, 'vulkan "k.mlir"', SPIRV_WRONG_TYPE, r"@softsign is \(f64\) -> f64, and the kernel is \(f32\) -> f32"),
        (VULKAN, 'vulkan "k.mlir"', SPIRV_WITHOUT, "no spirv.func @softsign is in the kernel's file"),
        (VULKAN, 'vulkan "k.mlir"', "spirv.func @softsign(", "the kernel's file is not valid MLIR"),
        (VULKAN, 'vulkan "k.mlir"', "func.func private @f()", "the kernel's file holds a func.func"),
        (VULKAN, 'vulkan "k.comp"', "", "k.comp is not a kind of file that a function for Vulkan can be"),
        ((), 'cpu "k.c"', "float other(float x) { return x; }", "softsign"),
        ((), 'cpu "k.ll"', WRONG_TYPE, WRONG_ON_CPU),
        ((), 'cpu "k.ll" as bitcode', WRONG_TYPE, WRONG_ON_CPU),
        ((), 'cpu "k.c" as bitcode', TOO_MANY, r"is `float \(float, float\)`, and"),
        ((), 'cpu "k.c"', TOO_MANY, r"is `float \(float, float\)`, and"),
    ],
)
def test_a_file_that_does_not_fit(spliced, flags: tuple[str, ...], clause: str, content: str, message: str) -> None:
    name = clause.split('"')[1]
    files = {} if "absent" in name else {name: content}
    with pytest.raises(OpspliceError, match=message):
        spliced(softsign_model(), SOFTSIGN % clause, files, flags)


# ---- several specs ---------------------------------------------------------------------------------------------------


def two_specs(folder: Path, second: str, files: Mapping[str, str]) -> list[Path]:
    first = """
kernel f(x: f32) -> f32 { cpu "f.c" vulkan "f.mlir" }
pattern p(x: tensor<...m x f32>) { absf(x) }
replace p with f(x)
"""
    paths = []
    for name, text in (("first", first), ("second", second)):
        (folder / name).mkdir()
        paths.append(write_spec(folder / name, text, files))
    (folder / "first" / "f.c").write_text("float f(float x) { return x + 1; }")
    return paths


BOTH = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %x : tensor<?xf32>
  %1 = math.sqrt %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}"""
ADD_AND_DOUBLE = """
spirv.func @f(%x: f32) -> f32 "None" {
  %one = spirv.Constant 1.0 : f32
  %r = spirv.FAdd %x, %one : f32
  spirv.ReturnValue %r : f32
}
spirv.func @g(%x: f32) -> f32 "None" {
  %r = spirv.FAdd %x, %x : f32
  spirv.ReturnValue %r : f32
}"""


def test_two_specs(tmp_path: Path, vulkan: str) -> None:
    second = """
kernel g(x: f32) -> f32 { cpu "g.c" vulkan "f.mlir" }
pattern p(x: tensor<...m x f32>) { sqrt(x) }
replace p with g(x)
"""
    files = {"g.c": "float g(float x) { return x + x; }", "f.mlir": ADD_AND_DOUBLE}
    specs = two_specs(tmp_path, second, files)
    x = numbers(20)
    np.testing.assert_array_equal(opsplice.compile(BOTH, specs).run("main", x), 2 * (x + 1))
    np.testing.assert_array_equal(opsplice.compile(BOTH, specs, VULKAN).run("main", x, device=vulkan), 2 * (x + 1))


@pytest.mark.parametrize(
    "second",
    [
        """
kernel g(x: f32) -> f32 { symbol "f" cpu "g.c" }
pattern p(x: tensor<...m x f32>) { sqrt(x) }
replace p with g(x)
""",
        """
kernel g(x: f32[...m]) -> f32[...m] { symbol "f" cpu "k.c" }
pattern p(x: tensor<...m x f32>) { sqrt(x) }
replace p with g(x)
""",
    ],
    ids=["function", "kernel"],
)
def test_two_specs_with_one_name(tmp_path: Path, second: str) -> None:
    files = {
        "g.c": "float f(float x) { return x + x; }",
        "k.c": "#include <stddef.h>\nvoid f(const float *x, float *out, size_t m) {}",
        "f.mlir": ADD_AND_DOUBLE,
    }
    with pytest.raises(OpspliceError, match="f is the name of two functions in one program"):
        opsplice.compile(BOTH, two_specs(tmp_path, second, files))


def test_it_is_not_exported(tmp_path: Path) -> None:
    path = write_spec(tmp_path, SOFTSIGN % 'cpu "softsign.c"', SOFTSIGN_C)
    with pytest.raises(OpspliceError) as caught:
        opsplice.export(path)
    assert "functions on elements" in str(caught.value) + str(caught.value.details)

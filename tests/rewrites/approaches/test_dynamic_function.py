"""Programs that import their kernels from plugins: results equal those of the compiler's own code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opsplice
from opsplice.common import files
from opsplice.common.errors import OpspliceError
from opsplice.compiling import plugin_kernels
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.build import toolchains
from tests.plain import Plain
from tests.rewrites.conftest import assert_same

DEVICES = ("local-sync", "local-task")
WITH_F64 = "--iree-input-demote-f64-to-f32=false"


@dataclass(frozen=True)
class Plugged:
    """A program that imports, the same program without its spec, and plugins: a system library and embedded ELF."""

    program: opsplice.Program
    plain: Plain
    plugins: tuple[Path, ...]

    def run(self, function: str, *inputs: Any) -> None:
        wanted = _listed(self.plain.run(function, *inputs))
        before = [np.array(i) for i in inputs]
        for plugin in self.plugins:
            for device in DEVICES:
                results = _listed(self.program.run(function, *inputs, device=device, plugins=[plugin]))
                for got, want in zip(results, wanted, strict=True):
                    assert_same(np.asarray(got), np.asarray(want), f"{plugin} on {device}")
        for was, now in zip(before, inputs, strict=True):
            np.testing.assert_array_equal(was, now)


def write_spec(folder: Path, spec: str, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).write_text(content)
    path = folder / "spec.splice"
    path.write_text(spec)
    return path


def _listed(results: Any) -> list[Any]:
    return results if isinstance(results, list) else [results]


@pytest.fixture
def plugged(tmp_path: Path) -> Callable[..., Plugged]:
    def build(mlir: str, spec: str, code: str, flags: tuple[str, ...] = (), **options: bool) -> Plugged:
        path = write_spec(tmp_path, spec, {"k.c": code})
        plugins = []
        for suffix in plugin_kernels.SUFFIXES:
            plugins.append(tmp_path / f"k{suffix}")
            plugins[-1].write_bytes(plugin_kernels.build(path, suffix).data)
        flags = ("--iree-llvmcpu-target-cpu=host", *flags)
        made = Plugged(opsplice.compile(mlir, [path], flags, **options), Plain(mlir, flags), tuple(plugins))
        assert made.program.report.replacements
        assert {r.action for r in made.program.report.replacements} == {"dynamic function"}
        return made

    return build


ADD_SPEC = """
kernel add<T in {TYPES}>(a: T[...m], b: T[...m], c: T) -> T[...m] {
  grid (ceildiv(m, 4))
  symbol "add_{T}"
  cpu "k.c" as plugin
}
pattern added<T in {TYPES}>(a: tensor<...m x T>, b: tensor<...m x T>, c: T) { OP(OP(a, b), c) }
replace added with add(a, b, c)
"""
ADD_C = """
#include <stddef.h>
#include <stdint.h>
#define ADD(type, name) \\
  void add_##name(const type *a, const type *b, type c, type *out, size_t m, size_t workgroup_x) { \\
    for (size_t i = workgroup_x * 4; i < m && i < workgroup_x * 4 + 4; ++i) out[i] = a[i] + b[i] + c; \\
  }
"""
C_TYPES = {"f32": "float", "f64": "double", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t"}
NUMPY = {"f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}


def add_spec(*elements: str) -> str:
    types, op = "{" + ", ".join(elements) + "}", "addf" if elements[0].startswith("f") else "addi"
    return ADD_SPEC.replace("{TYPES}", types).replace("OP", op)


@pytest.mark.cell("dynamic function", "CPU", "runs")
@pytest.mark.parametrize("elements", [("f32", "f64"), ("i8", "i16", "i32", "i64")])
def test_element_types_with_a_scalar_and_dynamic_shapes(plugged, elements):
    op = "addf" if elements[0].startswith("f") else "addi"
    functions = [
        f"""
func.func @main_{t}(%a: tensor<?x3x{t}>, %b: tensor<?x3x{t}>, %c: {t}) -> tensor<?x3x{t}> {{
  %0 = arith.{op} %a, %b : tensor<?x3x{t}>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?x3x{t}>
  %e = tensor.empty(%d) : tensor<?x3x{t}>
  %s = linalg.fill ins(%c : {t}) outs(%e : tensor<?x3x{t}>) -> tensor<?x3x{t}>
  %1 = arith.{op} %0, %s : tensor<?x3x{t}>
  return %1 : tensor<?x3x{t}>
}}"""
        for t in elements
    ]
    code = ADD_C + "".join(f"ADD({C_TYPES[t]}, {t})\n" for t in elements)
    made = plugged("".join(functions), add_spec(*elements), code, (WITH_F64,))
    assert len(made.program.report.replacements) == len(elements)
    for t in elements:
        for rows in (1, 5, 100):
            a = (np.arange(rows * 3) % 50).reshape(rows, 3).astype(NUMPY[t])
            made.run(f"main_{t}", a, a[::-1].copy(), -3 if t.startswith("i") else 0.25)


TWO_SPEC = """
kernel negate(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
kernel magnitude(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
pattern bare(a: tensor<m x f32>) { absf(a) }
replace negated with negate(a)
replace bare with magnitude(a)
"""
TWO_C = """
#include <stddef.h>
void negate(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = -a[i]; }
void magnitude(const float *a, float *out, size_t m) {
  for (size_t i = 0; i < m; ++i) out[i] = a[i] < 0 ? -a[i] : a[i];
}
"""


def test_executables_that_are_not_linked_with_each_other(plugged):
    """IREE numbers imports when it links executables; without that the code would call what nobody has set."""
    made = plugged(
        """
func.func @main(%a: tensor<10xf32>, %b: tensor<?xf32>) -> (tensor<10xf32>, tensor<?xf32>) {
  %0 = math.exp %a : tensor<10xf32>
  %1 = arith.negf %0 : tensor<10xf32>
  %2 = math.absf %b : tensor<?xf32>
  %3 = arith.negf %2 : tensor<?xf32>
  return %1, %3 : tensor<10xf32>, tensor<?xf32>
}""",
        TWO_SPEC,
        TWO_C,
        ("--iree-hal-link-executables=false",),
        isolate=True,
    )
    assert len(made.program.report.replacements) == 3
    x = np.arange(-5, 5, dtype=np.float32)
    made.run("main", x, x * 2)


def test_static_and_dynamic_dims_share_the_function(plugged):
    made = plugged(
        """
func.func @main(%a: tensor<?xf32>, %b: tensor<10xf32>) -> (tensor<?xf32>, tensor<10xf32>) {
  %0 = arith.negf %a : tensor<?xf32>
  %1 = arith.negf %b : tensor<10xf32>
  return %0, %1 : tensor<?xf32>, tensor<10xf32>
}""",
        """
kernel negate(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with negate(a)
""",
        "#include <stddef.h>\n"
        "void negate(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = -a[i]; }",
    )
    made.run("main", np.arange(7, dtype=np.float32), np.arange(10, dtype=np.float32))


def test_in_place_and_several_results(plugged):
    made = plugged(
        """
func.func @main(%a: tensor<?xi32>, %b: tensor<?xi32>) -> (tensor<?xi32>, tensor<?xi32>) {
  %0 = arith.addi %a, %b : tensor<?xi32>
  %1 = arith.subi %a, %b : tensor<?xi32>
  return %0, %1 : tensor<?xi32>, tensor<?xi32>
}""",
        """
kernel both(a: i32[m], b: i32[m]) -> (a, difference: i32[m]) { cpu "k.c" as plugin }
pattern sum_and_difference(a: tensor<m x i32>, b: tensor<m x i32>) { addi(a, b), subi(a, b) }
replace sum_and_difference with both(a, b)
""",
        """
#include <stddef.h>
#include <stdint.h>
void both(int32_t *a, const int32_t *b, int32_t *difference, size_t m) {
  for (size_t i = 0; i < m; ++i) {
    int32_t x = a[i];
    a[i] = x + b[i];
    difference[i] = x - b[i];
  }
}
""",
    )
    made.run("main", np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32)[::-1].copy())


@pytest.mark.usefixtures("zig")
def test_half_precision_buffers_and_scalars(plugged):
    """A kernel that only moves bits, since conversions need a library: its buffer is all ones."""
    made = plugged(
        """
func.func @main(%a: tensor<6xf16>, %b: tensor<6xbf16>) -> (tensor<6xf16>, tensor<6xbf16>) {
  %x = arith.constant dense<1.5> : tensor<6xf16>
  %y = arith.constant dense<2.5> : tensor<6xbf16>
  %0 = arith.mulf %a, %x : tensor<6xf16>
  %1 = arith.mulf %b, %y : tensor<6xbf16>
  return %0, %1 : tensor<6xf16>, tensor<6xbf16>
}""",
        """
kernel times<T in {f16, bf16}>(a: T[m], s: T) -> T[m] { symbol "times_{T}" cpu "k.c" as plugin }
pattern scaled<T in {f16, bf16}>(a: tensor<m x T>, s: T) { mulf(a, s) }
replace scaled with times(a, s)
""",
        """
#include <stddef.h>
void times_f16(const _Float16 *a, _Float16 s, _Float16 *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = s; }
void times_bf16(const short *a, _Float16 s, _Float16 *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = s; }
""",
    )
    assert len(made.program.report.replacements) == 2
    made.run("main", np.ones(6, np.float16), np.ones(6, np.float32).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_a_system_plugin_that_rounds_to_bf16(tmp_path, zig, element):
    mlir = f"""
func.func @main(%a: tensor<?x{element}>) -> tensor<?xbf16> {{
  %0 = arith.truncf %a : tensor<?x{element}> to tensor<?xbf16>
  return %0 : tensor<?xbf16>
}}"""
    spec = f"""
kernel rounded(a: {element}[m]) -> bf16[m] {{ cpu "k.c" as plugin }}
pattern p(a: tensor<m x {element}>) {{ truncf(a) : bf16 }}
replace p with rounded(a)
"""
    c = f"""
#include <stddef.h>
void rounded(const {"float" if element == "f32" else "double"} *a, __bf16 *out, size_t m) {{
  for (size_t i = 0; i < m; ++i) out[i] = a[i];
}}
"""
    path = write_spec(tmp_path, spec, {"k.c": c})
    plugin = files.write_file(tmp_path / "k.so", plugin_kernels.build(path, ".so").data)
    program = opsplice.compile(mlir, [path], ["--iree-input-demote-f64-to-f32=false"])
    assert len(program.report.replacements) == 1
    dtype = np.float32 if element == "f32" else np.float64
    numbers = [0, -0.0, 1, 1.00390625, 1.01171875, -3.3, 3.4e38, np.inf, -np.inf, 65280]
    # IREE's threads make nothing of subnormal floats, and of a double that would be one.
    numbers += [1e-40, 2.0**-133, 1e-45] if element == "f32" else []
    x = np.array([*numbers, *np.random.default_rng(0).normal(size=1000)], dtype)
    result = program.run("main", x, plugins=[plugin])
    np.testing.assert_array_equal(result.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.isnan(program.run("main", np.array([np.nan], dtype), plugins=[plugin]).astype(np.float32)).all()
    if element == "f64":
        barely = np.array([1.00390625 + 2.0**-40, -1.00390625 - 2.0**-40, 1e300, 5e-324], dtype)
        found = program.run("main", barely, plugins=[plugin]).astype(np.float64)
        assert found.tolist() == [1.0078125, -1.0078125, np.inf, 0]


def test_later_plugins_shadow_earlier_ones(tmp_path):
    mlir = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    spec = """
kernel shadowed(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with shadowed(a)
"""
    plugins = []
    for number in (1, 2):
        code = f"""
#include <stddef.h>
void shadowed(const float *a, float *out, size_t m) {{ for (size_t i = 0; i < m; ++i) out[i] = {number}; }}
"""
        path = write_spec(tmp_path, spec, {"k.c": code})
        for suffix in plugin_kernels.SUFFIXES:
            plugins.append(tmp_path / f"{number}{suffix}")
            plugins[-1].write_bytes(plugin_kernels.build(path, suffix).data)
    program = opsplice.compile(mlir, [path])
    x = np.zeros(4, np.float32)
    one, one_s, two, two_s = plugins
    for chosen, wanted in [
        ([one], 1), ([one, two], 2), ([two, one], 1), ([one, two_s], 2), ([two, one_s], 1), ([two], 2), ([one_s], 1),
    ]:  # fmt: skip
        assert program.run("main", x, plugins=chosen).tolist() == [wanted] * 4, chosen
    assert program.run("main", x).tolist() == [2] * 4  # built of what k.c is now


@pytest.mark.parametrize("suffix", plugin_kernels.SUFFIXES)
def test_imports_are_found_in_several_plugins(tmp_path, suffix):
    mlir = """
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.negf %a : tensor<4xf32>
  %1 = math.absf %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}"""
    spec = """
kernel first(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
kernel second(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
pattern absolute(a: tensor<m x f32>) { absf(a) }
replace negated with first(a)
replace absolute with second(a)
"""
    code = """
#include <stddef.h>
void first(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = 1; }
void second(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = 2; }
"""
    path = write_spec(tmp_path, spec, {"k.c": code})
    plugins = []
    for name in ("first", "second"):
        plugins.append(tmp_path / f"{name}{suffix}")
        plugins[-1].write_bytes(plugin_kernels.build(path, suffix, [name]).data)
    program = opsplice.compile(mlir, [path])
    x = np.zeros(4, np.float32)
    for chosen in (plugins, plugins[::-1]):
        assert [r.tolist() for r in program.run("main", x, plugins=chosen)] == [[1] * 4, [2] * 4]
    with pytest.raises(OpspliceError, match="imports 'second', which no plugin has"):
        program.run("main", x, plugins=plugins[:1])


def test_a_rebuilt_plugin_is_loaded_anew(tmp_path):
    mlir = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    spec = """
kernel rebuilt(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with rebuilt(a)
"""
    plugin = tmp_path / "k.so"
    for number in (1, 2):
        code = f"#include <stddef.h>\nvoid rebuilt(const float *a, float *out, size_t m) {{ *out = {number}; }}"
        path = write_spec(tmp_path, spec, {"k.c": code})
        files.write_file(plugin, plugin_kernels.build(path, ".so").data)
        program = opsplice.compile(mlir, [path])
        assert program.run("main", np.zeros(4, np.float32), plugins=str(plugin))[0] == number


# ---- what cannot be -----------------------------------------------------------------------------------------------

NEGATE = """
func.func @main(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.negf %a : tensor<?xf32>
  %1 = math.absf %a : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}"""
CODE = (
    "#include <stddef.h>\nvoid f(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = 7; }"
)


def test_one_function_cannot_be_linked_and_imported(spliced):
    spec = """
kernel linked(a: f32[m]) -> f32[m] { symbol "f" cpu "k.c" }
kernel imported(a: f32[m]) -> f32[m] { symbol "f" cpu as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
pattern absolute(a: tensor<m x f32>) { absf(a) }
replace negated with linked(a)
replace absolute with imported(a)
"""
    with pytest.raises(OpspliceError, match="f is linked into the program, and imported from a plugin too"):
        spliced(NEGATE, spec, {"k.c": CODE})


TWO = """
func.func @main(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.negf %a : tensor<?xf32>
  %1 = math.absf %a : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
"""


def specs_of(folder: Path, *clauses: str, signature: str = "a: f32[m]", arguments: str = "a") -> list[Path]:
    """A spec for each clause, of kernels with one symbol; the last one has the signature."""
    paths = []
    for number, clause in enumerate(clauses):
        is_last = number == len(clauses) - 1
        paths.append(folder / f"{number}.splice")
        paths[-1].write_text(f"""
kernel k({signature if is_last else "a: f32[m]"}) -> f32[m] {{ symbol "f" cpu {clause} }}
pattern p(a: tensor<m x f32>) {{ {"negf" if number else "absf"}(a) }}
replace p with k({arguments if is_last else "a"})
""")
    return paths


@pytest.mark.parametrize(
    ("clauses", "signature", "message"),
    [
        (('"a.c" as plugin', '"b.c" as plugin'), "a: f32[m]", "f is imported from plugins of two files"),
        (('"a.c" as plugin', '"a.c"'), "a: f32[m]", "f is linked into the program, and imported from a plugin too"),
        (('"a.c"', "as plugin"), "a: f32[m]", "f is linked into the program, and imported from a plugin too"),
        (("as plugin", "as plugin"), "a: f32[m], s: f64", "f is called with different types by two kernels"),
        (('"a.S"', '"a.S"'), "a: f32[m], s: i8", "f is called with different types by two kernels"),
    ],
)
def test_one_function_for_kernels_that_differ(tmp_path, clauses, signature, message):
    (tmp_path / "a.c").write_text(CODE)
    (tmp_path / "a.S").write_text(".globl f\nf:\n  ret\n")  # says no types
    arguments = "a, 2" if "," in signature else "a"
    specs = specs_of(tmp_path, *clauses, signature=signature, arguments=arguments)
    with pytest.raises(OpspliceError, match=message) as raised:
        opsplice.compile(TWO, specs)
    assert "executable opsplice_k" in raised.value.details
    assert "1.splice" in raised.value.details


def test_one_function_for_kernels_that_are_the_same(tmp_path):
    (tmp_path / "a.c").write_text(CODE)
    (alone,) = specs_of(tmp_path, '"a.c" as plugin')
    plugin = files.write_file(tmp_path / "p.so", plugin_kernels.build(alone, ".so").data)
    specs = specs_of(tmp_path, '"a.c" as plugin', f'"../{tmp_path.name}/a.c" as plugin')
    program = opsplice.compile(TWO, specs)
    assert len(program.report.replacements) == 2
    for result in program.run("main", np.zeros(3, np.float32), plugins=[plugin]):
        assert result.tolist() == [7, 7, 7]


def test_two_kernels_of_one_spec_with_one_function(spliced):
    spec = """
kernel one(a: f32[m]) -> f32[m] { symbol "f" cpu as plugin }
kernel two(a: f32[m], s: f32) -> f32[m] { symbol "f" cpu as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
pattern absolute(a: tensor<m x f32>) { absf(a) }
replace negated with one(a)
replace absolute with two(a, 2)
"""
    with pytest.raises(OpspliceError, match="f is called with different types by two kernels") as raised:
        spliced(TWO, spec, {})
    assert "f(address, f32, address, i64): kernel two" in raised.value.details


def test_functions_on_elements_of_two_files(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.splice").write_text(f"""
kernel k(a: f32) -> f32 {{ vulkan "{number}.wgsl" as plugin }}
pattern p(a: tensor<m x f32>) {{ {"negf" if number else "absf"}(a) }}
replace p with k(a)
""")
    specs = [tmp_path / f"{number}.splice" for number in range(2)]
    with pytest.raises(OpspliceError, match="k is the name of two functions in one program"):
        opsplice.compile(TWO, specs, targets=["vulkan"])


@pytest.mark.parametrize("suffix", plugin_kernels.SUFFIXES)
def test_a_plugin_that_was_built_for_other_arguments(tmp_path, suffix):
    other = CODE.replace("float *out", "double s, short t, float *out")
    plugins = []
    for name, code, signature in (("one", CODE, "a: f32[m]"), ("two", other, "a: f32[m], s: f64, t: i16")):
        (tmp_path / f"{name}.c").write_text(code)
        (spec,) = specs_of(tmp_path, f'"{name}.c" as plugin', signature=signature)
        spec.write_text(spec.read_text().replace("with k(a)", "with k(a, 2, 3)") if name == "two" else spec.read_text())
        plugins.append(files.write_file(tmp_path / f"{name}{suffix}", plugin_kernels.build(spec, suffix).data))
    program = opsplice.compile(TWO, [spec])
    one, two = plugins
    for given in ([one], [two, one]):
        with pytest.raises(OpspliceError, match=r"one\.sos? has 'f' for other arguments than the program") as raised:
            program.run("main", np.zeros(3, np.float32), plugins=given)
    assert "in the plugin: f(address, address, i64)" in raised.value.details
    assert "in the program: f(address, f64, i32, address, i64)" in raised.value.details
    assert program.run("main", np.zeros(3, np.float32), plugins=[one, two])[1].tolist() == [7, 7, 7]


def test_a_kernel_is_linked_or_imported_for_all_targets(tmp_path):
    spec = """
kernel f(a: f32[m]) -> f32[m] { cpu x86_64 "k.c" cpu as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with f(a)
"""
    path = write_spec(tmp_path, spec, {"k.c": CODE})
    with pytest.raises(OpspliceError, match="is linked for some CPUs of the program and imported from a plugin for"):
        opsplice.compile(NEGATE, [path], targets=["x86_64", "aarch64"])
    made = opsplice.compile(NEGATE, [path], targets=["aarch64"])
    assert made.report.replacements[0].action == "dynamic function"


@pytest.mark.parametrize("imported_on", ["x86_64", "aarch64"])
@pytest.mark.skipif(archs.host_arch() != "x86_64", reason="it runs what is for this architecture")
def test_targets_without_a_clause_keep_the_compilers_code(tmp_path, imported_on):
    """They do not import the function either, and those that do run without a plugin, too."""
    spec = f"""
kernel f(a: f32[m]) -> f32[m] {{ symbol "kept" cpu {imported_on} "k.c" as plugin }}
pattern negated(a: tensor<m x f32>) {{ negf(a) }}
replace negated with f(a) otherwise keep
"""
    path = write_spec(tmp_path, spec, {"k.c": CODE.replace("void f(", "void kept(")})
    program = opsplice.compile(NEGATE, [path], targets=["x86_64", "aarch64"])
    x = np.ones(3, np.float32)
    assert program.run("main", x)[0].tolist() == [-1, -1, -1]
    if imported_on == "aarch64":
        return
    plugin = tmp_path / "kept.sos"
    plugin.write_bytes(plugin_kernels.build(path, ".sos").data)
    assert program.run("main", x, plugins=[plugin])[0].tolist() == [7, 7, 7]


OPTIONAL = """
kernel f(a: f32[m]) -> f32[m] { symbol "SYMBOL" cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with f(a) otherwise keep
"""


def optional(folder: Path, symbol: str, spec: str = OPTIONAL, code: str = CODE) -> tuple[Path, Path]:
    """A spec whose kernel may come from a plugin, and the plugin. A process keeps plugins, so each test has its own."""
    folder.mkdir(exist_ok=True)
    path = write_spec(folder, spec.replace("SYMBOL", symbol), {"k.c": code.replace("void f(", f"void {symbol}(")})
    return path, files.write_file(folder / f"{symbol}.so", plugin_kernels.build(path, ".so").data)


@pytest.mark.parametrize("flags", [(), ("--iree-hal-link-executables=false",)])
def test_the_compilers_code_runs_where_no_plugin_has_the_function(tmp_path, flags):
    """With no plugin and with one that lacks the function, but not with one that has it."""
    path, plugin = optional(tmp_path, "maybe")
    _, other = optional(tmp_path / "other", "another")
    # In a process of its own: the flag is the process's, and plugins are kept for as long as it lives.
    script = f"""
import numpy as np, opsplice
program = opsplice.compile({NEGATE!r}, [{str(path)!r}], {flags!r})
(used,) = {{a.source for r in program.report.replacements for a in r.artifacts}}
assert used == "a plugin, if one has it", used
x = np.arange(1, 6, dtype=np.float32)
for plugins, want in (([], -x), ([{str(other)!r}], -x), ([{str(plugin)!r}], x * 0 + 7)):
    for device in ("local-sync", "local-task") * 2:
        for _ in range(3):
            np.testing.assert_array_equal(program.run("main", x, device=device, plugins=plugins)[0], want)
print("all ran")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "all ran\n", done.stderr


SEVERAL = """
kernel add(a: f32[...m], b: f32[...m], c: f32) -> b {
  grid (ceildiv(m, 4))
  symbol "SYMBOL_add"
  cpu "k.c" as plugin
}
pattern added(a: tensor<...m x f32>, b: tensor<...m x f32>, c: f32) { addf(addf(a, b), c) }
replace added with add(a, b, c) otherwise keep
kernel halves(a: f32[n]) -> (low: f32[n], high: f32[n]) { symbol "SYMBOL_halves" cpu "halves.c" as plugin }
pattern split(a: tensor<n x f32>) { minimumf(a, 0.0), maximumf(a, 0.0) }
replace split with halves(a) otherwise keep
"""
SEVERAL_MODEL = """
func.func @add(%a: tensor<?x5xf32>, %b: tensor<?x5xf32>, %c: f32) -> (tensor<?x5xf32>, tensor<?x5xf32>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %a, %zero : tensor<?x5xf32>
  %e = tensor.empty(%n) : tensor<?x5xf32>
  %s = linalg.fill ins(%c : f32) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>
  %0 = arith.addf %a, %b : tensor<?x5xf32>
  %1 = arith.addf %0, %s : tensor<?x5xf32>
  return %1, %b : tensor<?x5xf32>, tensor<?x5xf32>
}
func.func @loop(%a: tensor<6xf32>, %times: i64) -> tensor<6xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.index_cast %times : i64 to index
  %z = arith.constant dense<0.0> : tensor<6xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> tensor<6xf32> {
    %0 = arith.minimumf %x, %z : tensor<6xf32>
    %1 = arith.maximumf %x, %z : tensor<6xf32>
    %2 = arith.subf %1, %0 : tensor<6xf32>
    scf.yield %2 : tensor<6xf32>
  }
  return %r : tensor<6xf32>
}
"""


def test_several_optional_functions_of_which_plugins_have_some(tmp_path):
    add = """#include <stddef.h>
void several_add(const float *a, float *b, float c, size_t m, size_t workgroup) {
  for (size_t i = workgroup * 4; i < m && i < workgroup * 4 + 4; ++i) b[i] += a[i] + c + 100;
}"""
    halves = """#include <stddef.h>
void several_halves(const float *a, float *low, float *high, size_t n) {
  for (size_t i = 0; i < n; ++i) { low[i] = a[i] < 0 ? a[i] : 0; high[i] = a[i] > 0 ? a[i] + 100 : 100; }
}"""
    path = write_spec(tmp_path, SEVERAL.replace("SYMBOL", "several"), {"k.c": add, "halves.c": halves})
    plugins = []
    for name in ("add", "halves"):
        plugins.append(tmp_path / f"{name}.so")
        plugins[-1].write_bytes(plugin_kernels.build(path, ".so", [name]).data)
    program = opsplice.compile(SEVERAL_MODEL, [path])
    a, b = np.ones((3, 5), np.float32), np.full((3, 5), 2, np.float32)
    x = np.arange(-2, 4, dtype=np.float32)
    for given, added, made in (([], 6, abs(x)), (plugins[:1], 106, abs(x)), (plugins, 106, abs(x) + 200)):
        total, before = program.run("add", a, b, 3.0, plugins=given)
        assert (total == added).all()
        assert (before == 2).all()
        np.testing.assert_array_equal(program.run("loop", x, 2, plugins=given), made)


def test_a_function_that_one_rule_needs_and_another_does_not(tmp_path):
    spec = f"""{OPTIONAL}
kernel g(a: f32[m]) -> f32[m] {{ symbol "SYMBOL" cpu "k.c" as plugin }}
pattern absolute(a: tensor<m x f32>) {{ absf(a) }}
replace absolute with g(a)
"""
    path, plugin = optional(tmp_path, "needed", spec)
    program = opsplice.compile(NEGATE, [path])
    x = np.ones(3, np.float32)
    with pytest.raises(OpspliceError, match="imports 'needed' from a plugin, and none is given"):
        opsplice.load(program.vmfb).run("main", x)
    assert [r.tolist() for r in program.run("main", x, plugins=[plugin])] == [[7, 7, 7], [7, 7, 7]]


SHADER = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) buffer O { float o[]; };
layout(push_constant) uniform Words { uint m; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < m) o[i] = 9; }
"""


def test_an_optional_function_of_a_cpu_beside_a_shader_of_vulkan(tmp_path, vulkan):
    (tmp_path / "k.comp").write_text(SHADER)
    clauses = 'vulkan "k.comp"  grid (ceildiv(m, 64))  workgroup (64)  cpu "k.c" as plugin'
    code = CODE.replace("size_t m)", "size_t m, size_t workgroup)")
    path, plugin = optional(tmp_path, "mixed", OPTIONAL.replace('cpu "k.c" as plugin', clauses), code)
    program = opsplice.compile(NEGATE, [path], targets=["cpu", "vulkan:llvmpipe"])
    x = np.ones(3, np.float32)
    assert program.run("main", x)[0].tolist() == [-1, -1, -1]
    assert program.run("main", x, device="vulkan")[0].tolist() == [9, 9, 9]
    assert program.run("main", x, plugins=[plugin])[0].tolist() == [7, 7, 7]


def test_two_imported_kernels_in_one_program(plugged):
    plugged(NEGATE, TWO_SPEC, TWO_C).run("main", np.arange(-4, 5, dtype=np.float32))


def test_linked_and_imported_kernels_in_one_program(tmp_path):
    spec = TWO_SPEC.replace('"k.c" as plugin', '"linked.c"', 1)
    linked, imported = TWO_C.split("void magnitude")
    path = write_spec(tmp_path, spec, {"linked.c": linked, "k.c": "#include <stddef.h>\nvoid magnitude" + imported})
    plugin = files.write_file(tmp_path / "k.so", plugin_kernels.build(path, ".so").data)
    program = opsplice.compile(NEGATE, [path])
    assert {r.action for r in program.report.replacements} == {"static function", "dynamic function"}
    x = np.arange(-4, 5, dtype=np.float32)
    wanted = Plain(NEGATE).run("main", x)
    np.testing.assert_array_equal(program.run("main", x, plugins=[plugin]), wanted)


# ---- the build ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", toolchains.NAMES)
@pytest.mark.parametrize("suffix", plugin_kernels.SUFFIXES)
def test_each_compiler_builds_plugins(tmp_path, monkeypatch, compiler, suffix):
    if toolchains.find(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("OPSPLICE_CC", compiler)
    spec = """
kernel f(a: f32[m]) -> f32[m] { cpu "k.c" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with f(a)
"""
    path = write_spec(tmp_path, spec, {"k.c": CODE})
    plugin = tmp_path / f"{compiler}{suffix}"
    plugin.write_bytes(plugin_kernels.build(path, suffix).data)
    program = opsplice.compile(NEGATE, [path])
    assert program.run("main", np.zeros(3, np.float32), plugins=[plugin])[0].tolist() == [7, 7, 7]


def test_system_plugins_may_use_the_c_library_and_cpp(tmp_path):
    code = """
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>
extern "C" void f(const float *a, float *out, size_t m) {
  std::vector<float> ones(m, 1.0f);
  float count = std::accumulate(ones.begin(), ones.end(), 0.0f);
  for (size_t i = 0; i < m; ++i) out[i] = std::tgamma(a[i]) + count;
}
"""
    spec = """
kernel f(a: f32[m]) -> f32[m] { cpu "k.cpp" as plugin }
pattern negated(a: tensor<m x f32>) { negf(a) }
replace negated with f(a)
"""
    path = write_spec(tmp_path, spec, {"k.cpp": code})
    plugin = tmp_path / "k.so"
    plugin.write_bytes(plugin_kernels.build(path, ".so").data)
    program = opsplice.compile(NEGATE, [path])
    x = np.array([1, 2, 3, 4, 5], np.float32)
    assert program.run("main", x, plugins=[plugin])[0].tolist() == [6, 6, 7, 11, 29]
    with pytest.raises(OpspliceError):
        plugin_kernels.build(path, ".sos")


CALLS_H = "void h(void); void f(const float *a, float *out, unsigned long m) { h(); }"


@pytest.mark.parametrize(
    ("clause", "code", "suffix", "message"),
    [
        ('cpu "k.c" as plugin', "void f(void) {}", ".so", "is `void ..`, and the plugin calls"),
        ('cpu "k.c" as plugin', "void f(void) {}", ".sos", "is `void ..`, and the plugin calls"),
        ('cpu "k.c" as plugin', "void g(void) {}", ".so", "k.c does not define the function 'f'"),
        ('cpu "k.c" as plugin', "void g(void) {}", ".sos", "k.c does not define the function 'f'"),
        ('cpu "k.c" as plugin', "static void f(void) {}", ".so", "k.c does not define the function 'f'"),
        ('cpu "k.c" as plugin', "int;(", ".so", "cannot compile k.c"),
        ('cpu "k.c" as plugin', CALLS_H, ".so", "does not link"),
        ('cpu "k.c" as plugin', CALLS_H, ".sos", "k.c needs 'h'"),
        ('cpu "other.c" as plugin', CODE, ".so", "no such file"),
        ("cpu as plugin", CODE, ".so", "names no file to build"),
        ('cpu "k.c"', CODE, ".so", "imported from a plugin"),
        ('cpu aarch64 "k.c" as plugin', CODE, ".so", "no clause `as plugin` for x86_64"),
        ('cpu when avx2 "k.c" as plugin', CODE, ".so", "no clause `as plugin` for x86_64"),
        (
            'cpu "k.ll" as plugin',
            "define void @f(ptr %a) {\n ret void\n}",
            ".sos",
            "is `void .ptr.`, and the plugin calls",
        ),
        ('cpu "k.c" as plugin', CODE, ".dll", "cannot end in '.dll'"),
    ],
)
@pytest.mark.skipif(archs.host_arch() != "x86_64", reason="the messages name this architecture")
def test_what_cannot_be_built(tmp_path, clause, code, suffix, message):
    spec = f"kernel f(a: f32[m]) -> f32[m] {{ {clause} }}"
    path = write_spec(tmp_path, spec, {"k.ll" if "k.ll" in clause else "k.c": code})
    with pytest.raises(OpspliceError, match=message.replace("(", r"\(")):
        plugin_kernels.build(path, suffix)


def test_one_name_for_functions_of_two_kinds_is_an_error(tmp_path):
    spec = 'kernel f<T in {f32, i64}>(a: T[m], s: T) -> T[m] { cpu "k.c" as plugin }'
    path = write_spec(tmp_path, spec, {"k.c": "void f(void) {}"})
    with pytest.raises(OpspliceError, match="'f' would be called in two ways"):
        plugin_kernels.build(path, ".so")


def test_features_choose_the_clause(tmp_path):
    spec = 'kernel f(a: f32[m]) -> f32[m] { cpu when avx2 "fast.c" as plugin cpu "k.c" as plugin }'
    fast = "#ifndef __AVX2__\n#error no avx2\n#endif\n" + CODE
    path = write_spec(tmp_path, spec, {"k.c": CODE, "fast.c": fast})
    for suffix in plugin_kernels.SUFFIXES:
        plugin_kernels.build(path, suffix, architectures=["x86_64"])
        plugin_kernels.build(path, suffix, architectures=["x86_64"], features="avx2")
    (tmp_path / "k.c").unlink()
    with pytest.raises(OpspliceError, match="no such file"):
        plugin_kernels.build(path, ".sos", architectures=["x86_64"])


def test_scalars_of_every_type_arrive(tmp_path):
    spec = """
kernel scalars(a: f64[m], p: i1, q: i8, r: i16, s: i32, t: i64, u: f32, v: f64, n: index) -> f64[m] {
  cpu "k.c" as plugin
}
pattern negated(a: tensor<m x f64>) { negf(a) }
replace negated with scalars(a, 1, -3, -300, -70000, -5000000000, 2.5, 0.125, m)
"""
    code = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
void scalars(const double *a, bool p, int8_t q, int16_t r, int32_t s, int64_t t, float u, double v, size_t n,
             double *out, size_t m) {
  const double all[] = {p, q, r, s, t, u, v, n};
  for (size_t i = 0; i < m; ++i) out[i] = a[i] + all[i];
}
"""
    mlir = """
func.func @main(%a: tensor<?xf64>) -> tensor<?xf64> {
  %0 = arith.negf %a : tensor<?xf64>
  return %0 : tensor<?xf64>
}"""
    path = write_spec(tmp_path, spec, {"k.c": code})
    program = opsplice.compile(mlir, [path], [WITH_F64])
    for suffix in plugin_kernels.SUFFIXES:
        plugin = tmp_path / f"k{suffix}"
        plugin.write_bytes(plugin_kernels.build(path, suffix).data)
        got = program.run("main", np.zeros(8), plugins=[plugin])
        assert got.tolist() == [1, -3, -300, -70000, -5000000000, 2.5, 0.125, 8]

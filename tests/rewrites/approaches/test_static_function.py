"""Calls of C kernels in programs of all shapes: results equal those of the compiler's own code."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.build import toolchains
from tests.rewrites.conftest import write_spec

NEGATE_SPEC = """
kernel negate(a: f32[...m]) -> f32[...m] { grid (ceildiv(m, 4)) cpu "k.c" }
pattern negated(a: tensor<...m x f32>) { negf(a) }
replace negated with negate(a)
"""
NEGATE_C = """
#include <stddef.h>
void negate(const float *a, float *out, size_t m, size_t workgroup_x) {
  for (size_t i = workgroup_x * 4; i < m && i < workgroup_x * 4 + 4; ++i) out[i] = -a[i];
}
"""


def vector(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_function_that_is_called_as_what_calls_it_would_be(pairs):
    spec = """
kernel k(a: f32[n]) -> f32[n] { symbol "opsplice_k" cpu "k.c" }
pattern p(a: tensor<n x f32>) { negf(a) }
replace p with k(a)
"""
    code = "void opsplice_k(const float *a, float *out, unsigned long n) { while (n--) out[n] = -a[n]; }"
    model = """func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {
      %0 = arith.negf %a : tensor<5xf32>
      return %0 : tensor<5xf32>
    }"""
    pairs(model, spec, {"k.c": code}).run("main", np.arange(5, dtype=np.float32))


@pytest.mark.cell("static function", "CPU", "runs")
def test_control_flow_and_functions(pairs):
    made = pairs(
        """
func.func @branch(%a: tensor<9xf32>, %c: i1) -> tensor<9xf32> {
  %0 = scf.if %c -> tensor<9xf32> {
    %1 = arith.negf %a : tensor<9xf32>
    scf.yield %1 : tensor<9xf32>
  } else {
    scf.yield %a : tensor<9xf32>
  }
  return %0 : tensor<9xf32>
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
func.func @while(%a: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n, %0 = scf.while (%i = %c0, %x = %a) : (index, tensor<9xf32>) -> (index, tensor<9xf32>) {
    %go = arith.cmpi slt, %i, %c3 : index
    scf.condition(%go) %i, %x : index, tensor<9xf32>
  } do {
  ^bb0(%i: index, %x: tensor<9xf32>):
    %1 = arith.negf %x : tensor<9xf32>
    %2 = arith.mulf %1, %a : tensor<9xf32>
    %next = arith.addi %i, %c1 : index
    scf.yield %next, %2 : index, tensor<9xf32>
  }
  return %0 : tensor<9xf32>
}
func.func private @callee(%a: tensor<9xf32>) -> tensor<9xf32> attributes {noinline} {
  %0 = arith.negf %a : tensor<9xf32>
  return %0 : tensor<9xf32>
}
func.func @caller(%a: tensor<9xf32>) -> tensor<9xf32> {
  %0 = call @callee(%a) : (tensor<9xf32>) -> tensor<9xf32>
  %1 = arith.mulf %0, %a : tensor<9xf32>
  return %1 : tensor<9xf32>
}
""",
        NEGATE_SPEC,
        {"k.c": NEGATE_C},
    )
    assert made.replaced == 4
    made.run("branch", vector(9), True)
    made.run("branch", vector(9), False)
    made.run("loop", vector(5), 3)
    made.run("loop", vector(5), 0)
    made.run("while", vector(9))
    made.run("caller", vector(9))


def test_slices_start_in_the_middle_of_a_buffer(pairs):
    made = pairs(
        """
func.func @rows(%a: tensor<6x8xf32>) -> tensor<2x8xf32> {
  %0 = tensor.extract_slice %a[3, 0] [2, 8] [1, 1] : tensor<6x8xf32> to tensor<2x8xf32>
  %1 = arith.negf %0 : tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
func.func @column(%a: tensor<6x8xf32>) -> tensor<6x1xf32> {
  %0 = tensor.extract_slice %a[0, 5] [6, 1] [1, 1] : tensor<6x8xf32> to tensor<6x1xf32>
  %1 = arith.negf %0 : tensor<6x1xf32>
  return %1 : tensor<6x1xf32>
}
func.func @dynamic(%a: tensor<?x8xf32>, %at: index, %size: index) -> tensor<?x8xf32> {
  %0 = tensor.extract_slice %a[%at, 0] [%size, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %1 = arith.negf %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
func.func @inserted(%a: tensor<6x8xf32>, %b: tensor<2x8xf32>) -> tensor<6x8xf32> {
  %0 = arith.negf %b : tensor<2x8xf32>
  %1 = tensor.insert_slice %0 into %a[1, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<6x8xf32>
  return %1 : tensor<6x8xf32>
}
""",
        NEGATE_SPEC,
        {"k.c": NEGATE_C},
    )
    assert made.replaced == 4
    made.run("rows", vector(6, 8))
    made.run("column", vector(6, 8))
    made.run("dynamic", vector(6, 8), 2, 3)
    made.run("inserted", vector(6, 8), vector(2, 8))


MIXED_SPEC = """
kernel fused(a: f32[...m], b: f32[...m]) -> f32[...m] { cpu "k.c" }
pattern neg_abs_mul(a: tensor<...m x f32>, b: tensor<...m x f32>) { negf(absf(mulf(a, b))) }
replace neg_abs_mul with fused(a, b)
"""
MIXED_C = """
#include <stddef.h>
void fused(const float *a, const float *b, float *out, size_t m) {
  for (size_t i = 0; i < m; ++i) { float v = a[i] * b[i]; out[i] = v < 0 ? v : -v; }
}
"""


def test_values_with_other_uses(pairs):
    """A root that many use, inner values that others use too, one value given twice, a match on another's result."""
    made = pairs(
        """
func.func @root(%a: tensor<5xf32>, %b: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0 = arith.mulf %a, %b : tensor<5xf32>
  %1 = math.absf %0 : tensor<5xf32>
  %2 = arith.negf %1 : tensor<5xf32>
  %3 = arith.subf %2, %a : tensor<5xf32>
  %4 = arith.mulf %2, %2 : tensor<5xf32>
  return %2, %3, %4 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}
func.func @inner(%a: tensor<5xf32>, %b: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %0 = arith.mulf %a, %b : tensor<5xf32>
  %1 = math.absf %0 : tensor<5xf32>
  %2 = arith.negf %1 : tensor<5xf32>
  %3 = arith.subf %1, %0 : tensor<5xf32>
  return %2, %3 : tensor<5xf32>, tensor<5xf32>
}
func.func @twice(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %a : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
func.func @chain(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  %3 = arith.mulf %b, %2 : tensor<?xf32>
  %4 = math.absf %3 : tensor<?xf32>
  %5 = arith.negf %4 : tensor<?xf32>
  %6 = arith.mulf %5, %a : tensor<?xf32>
  %7 = math.absf %6 : tensor<?xf32>
  %8 = arith.negf %7 : tensor<?xf32>
  return %8 : tensor<?xf32>
}
""",
        MIXED_SPEC,
        {"k.c": MIXED_C},
    )
    assert made.replaced == 6
    a, b = vector(5), vector(5)[::-1] - 3
    for function in ("root", "inner", "chain"):
        made.run(function, a, b)
    made.run("twice", b)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_inputs_that_are_all_constants(pairs, form):
    made = pairs(
        """
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = arith.constant dense<[1.0, -2.0, 3.0, -4.0]> : tensor<4xf32>
  %b = arith.constant dense<[0.5, 0.25, 2.0, 8.0]> : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %3 = arith.mulf %p, %q : f32
    %4 = math.absf %3 : f32
    %5 = arith.negf %4 : f32
    linalg.yield %5 : f32
  } -> tensor<4xf32>
  %1 = arith.mulf %0, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
""",
        MIXED_SPEC.replace('"k.c"', f'"k.c" as {form}'),
        {"k.c": MIXED_C},
    )
    assert made.replaced == 1
    made.run("f", vector(4))


TWO_SPEC = """
kernel sum_and_difference(a: f32[...m], b: f32[...m]) -> (sum: f32[...m], difference: f32[...m]) {
  grid (ceildiv(m, 4)) cpu "k.c"
}
pattern both(a: tensor<...m x f32>, b: tensor<...m x f32>) { addf(a, b), subf(a, b) }
replace both with sum_and_difference(a, b)
"""
TWO_C = """
#include <stddef.h>
void sum_and_difference(const float *a, const float *b, float *sum, float *difference, size_t m, size_t workgroup_x) {
  for (size_t i = workgroup_x * 4; i < m && i < workgroup_x * 4 + 4; ++i)
    sum[i] = a[i] + b[i], difference[i] = a[i] - b[i];
}
"""


def test_several_results(pairs):
    made = pairs(
        """
func.func @two_ops(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  %0 = arith.addf %a, %b : tensor<?x3xf32>
  %1 = arith.subf %a, %b : tensor<?x3xf32>
  return %1, %0 : tensor<?x3xf32>, tensor<?x3xf32>
}
func.func @other_order(%a: tensor<7xf32>, %b: tensor<7xf32>) -> tensor<7xf32> {
  %0 = arith.subf %a, %b : tensor<7xf32>
  %1 = arith.addf %a, %b : tensor<7xf32>
  %2 = arith.mulf %0, %1 : tensor<7xf32>
  return %2 : tensor<7xf32>
}
func.func @one_op(%a: tensor<7xf32>, %b: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %empty = tensor.empty() : tensor<7xf32>
  %0:2 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%a, %b : tensor<7xf32>, tensor<7xf32>) outs(%empty, %empty : tensor<7xf32>, tensor<7xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32, %out2: f32):
    %1 = arith.addf %p, %q : f32
    %2 = arith.subf %p, %q : f32
    linalg.yield %1, %2 : f32, f32
  } -> (tensor<7xf32>, tensor<7xf32>)
  return %0#0, %0#1 : tensor<7xf32>, tensor<7xf32>
}
""",
        TWO_SPEC,
        {"k.c": TWO_C},
    )
    assert made.replaced == 3
    made.run("two_ops", vector(4, 3), vector(4, 3) ** 2)
    made.run("other_order", vector(7), vector(7) ** 2)
    made.run("one_op", vector(7), vector(7) ** 2)


def test_an_inner_value_between_two_results_stays_where_it_is(pairs):
    """The call stands at the last result; what outlives the match before it must not read the call's first one."""
    made = pairs(
        """
func.func @f(%a: tensor<5xf32>, %b: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0 = arith.mulf %a, %b : tensor<5xf32>
  %1 = math.absf %0 : tensor<5xf32>
  %2 = math.sqrt %1 : tensor<5xf32>
  %3 = arith.negf %1 : tensor<5xf32>
  return %0, %2, %3 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}
""",
        """
kernel k(a: f32[m], b: f32[m]) -> (product: f32[m], negative: f32[m]) { cpu "k.c" }
pattern p(a: tensor<m x f32>, b: tensor<m x f32>) {
  product = mulf(a, b)
  product, negf(absf(product))
}
replace p with k(a, b)
""",
        {
            "k.c": """
#include <stddef.h>
void k(const float *a, const float *b, float *product, float *negative, size_t m) {
  for (size_t i = 0; i < m; ++i) {
    product[i] = a[i] * b[i];
    negative[i] = product[i] < 0 ? product[i] : -product[i];
  }
}
"""
        },
    )
    assert made.replaced == 1
    made.run("f", vector(5), vector(5) - 3)


def test_grids_of_three_dims_and_all_arithmetic(spliced):
    spec = """
kernel where_am_i(a: f32[m, n]) -> f32[m, n] {
  grid (ceildiv(m, 2), max(floordiv(n, 4), min(m % 3, 2)) + 1 - 1, 2 * 1)
  cpu "k.c"
}
pattern p(a: tensor<m x n x f32>) { negf(a) }
replace p with where_am_i(a)
"""
    c = """
#include <stddef.h>
void where_am_i(const float *a, float *out, size_t m, size_t n, size_t x, size_t y, size_t z) {
  __atomic_fetch_add((int *)out + x * 8 + y * 2 + z, 1, __ATOMIC_RELAXED);
}
"""
    program = spliced(
        """
func.func @static(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = arith.negf %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
func.func @dynamic(%a: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.negf %a : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
""",
        spec,
        {"k.c": c.replace("__atomic_fetch_add((int *)out + x * 8 + y * 2 + z, 1, __ATOMIC_RELAXED)",
                          "((int *)out)[x * 8 + y * 2 + z] = 1 + x * 100 + y * 10 + z")},
    )  # fmt: skip
    wanted = [1 + x * 100 + y * 10 + z for x in range(4) for y in range(4) for z in range(2)]
    for function in ("static", "dynamic"):
        result = program.run(function, np.zeros((8, 16), np.float32)).view(np.int32).ravel()
        assert result[:32].tolist() == wanted


def test_a_grid_that_divides_by_a_dim_of_size_zero(spliced):
    spec = """
kernel k(a: f32[m, n]) -> f32[m, n] { grid (ceildiv(m, n)) cpu "k.c" }
pattern p(a: tensor<m x n x f32>) { negf(a) }
replace p with k(a)
"""
    c = "#include <stddef.h>\nvoid k(const float *a, float *out, size_t m, size_t n, size_t x) {}"
    program = spliced(
        "func.func @f(%a: tensor<?x?xf32>) -> tensor<?x?xf32> {\n  %0 = arith.negf %a : tensor<?x?xf32>\n"
        "  return %0 : tensor<?x?xf32>\n}",
        spec,
        {"k.c": c},
    )
    assert program.run("f", np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_packs_of_no_one_and_many_dims(pairs):
    spec = """
kernel scale_rows(a: f32[...m, n], s: f32[n]) -> f32[...m, n] { cpu "k.c" }
pattern p(a: tensor<...m x n x f32>, s: tensor<n x f32>) { mulf(a, broadcast[n -> ...m n](s)) }
replace p with scale_rows(a, s)
"""
    c = """
#include <stddef.h>
void scale_rows(const float *a, const float *s, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) out[i * n + j] = a[i * n + j] * s[j];
}
"""

    def function(name: str, shape: str, n: str, loops: str) -> str:
        last = loops.rpartition(", ")[2]
        kind, row = f"tensor<{shape}xf32>", f"tensor<{n}xf32>"
        parallel = ", ".join(['"parallel"'] * len(loops.split(", ")))
        return f"""
func.func @{name}(%a: {kind}, %s: {row}, %init: {kind}) -> {kind} {{
  %0 = linalg.generic {{
      indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({last})>,
                       affine_map<({loops}) -> ({loops})>], iterator_types = [{parallel}]}}
      ins(%a, %s : {kind}, {row}) outs(%init : {kind}) {{
  ^bb0(%x: f32, %y: f32, %out: f32):
    %1 = arith.mulf %x, %y : f32
    linalg.yield %1 : f32
  }} -> {kind}
  return %0 : {kind}
}}"""

    made = pairs(
        function("none", "7", "7", "i")
        + function("one", "3x7", "7", "i, j")
        + function("two", "2x3x7", "7", "i, j, k")
        + function("dynamic", "?x3x?", "?", "i, j, k"),
        spec,
        {"k.c": c},
    )
    assert made.replaced == 4
    for name, shape in {"none": (7,), "one": (3, 7), "two": (2, 3, 7), "dynamic": (4, 3, 5)}.items():
        made.run(name, vector(*shape), vector(shape[-1]), np.zeros(shape, np.float32))


# ---- artifacts --------------------------------------------------------------------------------------------

NEGATE_LL = """
define void @negate(ptr noalias %a, ptr noalias %out, i64 %m, i64 %workgroup_x) {
entry:
  %first = mul i64 %workgroup_x, 4
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %stored ]
  %i = add i64 %first, %k
  %inside = icmp ult i64 %i, %m
  br i1 %inside, label %store, label %stored
store:
  %from = getelementptr float, ptr %a, i64 %i
  %to = getelementptr float, ptr %out, i64 %i
  %value = load float, ptr %from
  %negative = fneg float %value
  store float %negative, ptr %to
  br label %stored
stored:
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, 4
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
SHAPES = """
func.func @static(%a: tensor<9xf32>) -> tensor<9xf32> {
  %0 = arith.negf %a : tensor<9xf32>
  return %0 : tensor<9xf32>
}
func.func @matrix(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = arith.negf %a : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
func.func @dynamic(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.negf %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


@pytest.mark.parametrize("form", ["object", "bitcode"])
@pytest.mark.parametrize(("name", "source"), [("k.c", NEGATE_C), ("k.ll", NEGATE_LL)])
def test_three_executables_share_one_artifact(pairs, name, source, form):
    made = pairs(SHAPES, NEGATE_SPEC.replace('"k.c"', f'"{name}" as {form}'), {name: source})
    assert made.replaced == 3
    artifacts = {a.path for r in made.spliced.report.replacements for a in r.artifacts}
    assert len(artifacts) == 1
    assert artifacts.pop().endswith(".o" if form == "object" else ".bc")
    made.run("static", vector(9))
    made.run("matrix", vector(3, 5))
    made.run("dynamic", vector(11))


@pytest.mark.parametrize(("form", "suffix"), [("object", ".o"), ("bitcode", ".bc")])
def test_prebuilt_files(pairs, form, suffix):
    built = pairs(SHAPES, NEGATE_SPEC.replace('"k.c"', f'"k.c" as {form}'), {"k.c": NEGATE_C})
    (artifact,) = {a.path for r in built.spliced.report.replacements for a in r.artifacts}
    with open(artifact, "rb") as file:
        made = pairs(SHAPES, NEGATE_SPEC.replace("k.c", f"k{suffix}"), {f"k{suffix}": file.read()})
    assert made.replaced == 3
    made.run("static", vector(9))


OTHER_TYPES = "define void @negate(ptr %a, ptr %out) {\n  ret void\n}\n"
NARROW = "void negate(const float *a, float *out, int n) { out[0] = n; }"


@pytest.mark.parametrize(
    ("clause", "code", "written"),
    [
        ('"k.ll"', OTHER_TYPES, r"void \(ptr, ptr\)"),
        ('"k.ll" as bitcode', OTHER_TYPES, r"void \(ptr, ptr\)"),
        ('"k.c" as bitcode', NARROW, r"void \(ptr, ptr, i32\)"),
        ('"k.c"', NARROW, r"void \(ptr, ptr, i32\)"),
        ('"k.cc"', f'extern "C" {NARROW}', r"void \(ptr, ptr, i32\)"),
        ('"k.c" as provided', "void negate(const float *a, float *out) { *out = *a; }", r"void \(ptr, ptr\)"),
        ('"k.ll" as provided', OTHER_TYPES, r"void \(ptr, ptr\)"),
        ('"k.c" as bitcode', "float negate(const float *a) { return *a; }", r"float \(ptr\)"),
    ],
)
def test_functions_of_other_types_are_refused(spliced, clause, code, written):
    name = clause.split('"')[1]
    with pytest.raises(
        OpspliceError, match=f"'negate' in {name} is `{written}`, and kernel negate calls it as `void .ptr, ptr, i64"
    ):
        spliced(SHAPES, NEGATE_SPEC.replace('"k.c"', clause), {name: code})


def test_a_refused_function_is_told_how_to_be_declared(spliced):
    """Scalars by value, what is overwritten without `const`, results by their names."""
    spec = """kernel k<T in {f16, f32}>(x: T[m, n], y: T[m, n], s: i8) -> (y, total: T[m]) {
      grid (m, n)
      symbol "k_{T}"
      cpu "k.c"
    }
    pattern p<T in {f16, f32}>(x: tensor<m x n x T>, y: tensor<m x n x T>) {
      z = addf(x, y)
      z, reduce addf[m n -> m](z)
    }
    replace p with k(x, y, 3)
    """
    payload = """func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
      %zero = arith.constant dense<0.0> : tensor<4xf32>
      %0 = arith.addf %x, %y : tensor<4x8xf32>
      %1 = linalg.reduce {arith.addf} ins(%0 : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
      return %0, %1 : tensor<4x8xf32>, tensor<4xf32>
    }"""
    with pytest.raises(OpspliceError, match="calls it as") as caught:
        spliced(payload, spec, {"k.c": "void k_f32(void) {}"})
    sizes = "size_t m, size_t n, size_t workgroup_x, size_t workgroup_y"
    declared = f"void k_f32(const float *x, float *y, int8_t s, float *total, {sizes})"
    assert caught.value.hint == f"declare it as {declared}; docs/kernels.md says why"


def test_a_dispatch_of_other_types_is_refused(spliced):
    code = "int negate(const void *environment, const void *dispatch) { return 0; }"
    with pytest.raises(
        OpspliceError, match=r"is `i32 \(ptr, ptr\)`, and kernel negate calls it as `i32 .ptr, ptr, ptr"
    ):
        spliced(SHAPES, NEGATE_SPEC.replace('"k.c"', '"k.c" as dispatch'), {"k.c": code})


def test_the_clause_whose_features_the_target_has(spliced):
    spec = """
kernel k(a: f32[n]) -> f32[n] {
  cpu x86_64 when avx512f and avx512fp16 "k.c" flags "-DWHICH=3"
  cpu x86_64 when avx2 and fma "k.c" flags "-DWHICH=2"
  cpu "k.c" flags "-DWHICH=1"
}
pattern p(a: tensor<n x f32>) { negf(a) }
replace p with k(a)
"""
    c = "#include <stddef.h>\nvoid k(const float *a, float *out, size_t n) { out[0] = WHICH; }"
    mlir = """
func.func @f(%a: tensor<1xf32>) -> tensor<1xf32> {
  %0 = arith.negf %a : tensor<1xf32>
  return %0 : tensor<1xf32>
}"""

    def chosen(*flags: str) -> str:
        program = spliced(mlir, spec, {"k.c": c}, ["--iree-llvmcpu-target-triple=x86_64-linux-gnu", *flags])
        return program.report.replacements[0].artifacts[0].path

    generic = chosen("--iree-llvmcpu-target-cpu=generic")
    haswell = chosen("--iree-llvmcpu-target-cpu=haswell")
    features = chosen("--iree-llvmcpu-target-cpu=generic", "--iree-llvmcpu-target-cpu-features=+avx2,+fma")
    assert len({generic, haswell}) == 2
    assert generic != features
    less = [f"--iree-llvmcpu-target-cpu-features={off}" for off in ("-fma", "-avx2")]
    assert haswell not in [chosen("--iree-llvmcpu-target-cpu=haswell", flag) for flag in less]


def test_two_kernels_of_one_file_with_flags_of_their_own(spliced):
    """Each object holds both functions; linked into one program, one of each would silently be dropped."""
    spec = """
kernel first(a: f32[n]) -> f32[n] { cpu "k.c" flags "-DWHICH=1" }
kernel second(a: f32[n]) -> f32[n] { cpu "k.c" flags "-DWHICH=2" }
pattern p(a: tensor<n x f32>) { negf(a) }
pattern q(a: tensor<n x f32>) { absf(a) }
replace p with first(a)
replace q with second(a)
"""
    c = """
#include <stddef.h>
void first(const float *a, float *out, size_t n) { out[0] = WHICH; }
void second(const float *a, float *out, size_t n) { out[0] = WHICH; }
"""
    mlir = """
func.func @f(%a: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %0 = arith.negf %a : tensor<1xf32>
  %1 = math.absf %a : tensor<1xf32>
  return %0, %1 : tensor<1xf32>, tensor<1xf32>
}"""
    with pytest.raises(OpspliceError, match="first is defined by two files") as raised:
        spliced(mlir, spec, {"k.c": c})
    assert "k.c is linked for kernel second at" in raised.value.details
    assert "static" in raised.value.hint


def test_inline_functions_of_cpp_may_be_in_several_objects(spliced):
    spec = """
kernel first(a: f32[n]) -> f32[n] { cpu "one.cpp" }
kernel second(a: f32[n]) -> f32[n] { cpu "two.cpp" }
pattern p(a: tensor<n x f32>) { negf(a) }
pattern q(a: tensor<n x f32>) { absf(a) }
replace p with first(a)
replace q with second(a)
"""
    cpp = """
#include <stddef.h>
template <typename T> __attribute__((noinline)) T plus(T x, T y) { return x + y; }
extern "C" void NAME(const float *a, float *out, size_t n) { out[0] = plus(a[0], WHICH); }
"""
    mlir = """
func.func @f(%a: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %0 = arith.negf %a : tensor<1xf32>
  %1 = math.absf %a : tensor<1xf32>
  return %0, %1 : tensor<1xf32>, tensor<1xf32>
}"""
    files = {
        "one.cpp": cpp.replace("NAME", "first").replace("WHICH", "1.0f"),
        "two.cpp": cpp.replace("NAME", "second").replace("WHICH", "2.0f"),
    }
    program = spliced(mlir, spec, files)
    assert [float(r[0]) for r in program.run("f", np.ones(1, np.float32))] == [2, 3]


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_kernels_of_one_name_in_two_specs(tmp_path, form):
    mlir = """
func.func @f(%a: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %0 = arith.negf %a : tensor<1xf32>
  %1 = math.absf %a : tensor<1xf32>
  return %0, %1 : tensor<1xf32>, tensor<1xf32>
}"""
    specs = []
    for name, op in (("one", "negf"), ("two", "absf")):
        (tmp_path / f"{name}.c").write_text(f"""
#include <stddef.h>
void k(const float *a, float *out, size_t n) {{ out[0] = sizeof("{name}" "{op}" "{"x" * len(specs)}"); }}
""")
        path = tmp_path / f"{name}.splice"
        path.write_text(f"""
kernel k(a: f32[n]) -> f32[n] {{ cpu "{name}.c" as {form} }}
pattern p(a: tensor<n x f32>) {{ {op}(a) }}
replace p with k(a)
""")
        specs.append(path)
    with pytest.raises(OpspliceError, match="k is defined by two files") as raised:
        opsplice.compile(mlir, specs)
    assert "executable opsplice_k" in raised.value.details
    assert "two.splice" in raised.value.details


def test_a_vmfb_for_another_architecture_with_constants(spliced):
    """IREE would compute the call when it compiles, on this machine, for which the program has no kernel."""
    if not any(toolchains.find(name) for name in ("zig", "clang")):
        pytest.skip("no compiler for several architectures (pip install ziglang)")
    mlir = """
func.func @f() -> tensor<4xf32> {
  %a = arith.constant dense<[1.0, -2.0, 3.0, -4.0]> : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%p: f32, %out: f32):
    %1 = arith.negf %p : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    flags = ["--iree-llvmcpu-target-triple=aarch64-linux-gnu"]
    program = spliced(mlir, NEGATE_SPEC, {"k.c": NEGATE_C}, flags)
    assert len(program.report.replacements) == 1
    assert program.vmfb


@pytest.mark.parametrize("form", ["", " as bitcode", " as dispatch"])
def test_a_cache_whose_path_has_spaces(tmp_path, monkeypatch, form):
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "Kim's cache (1)"))
    spec, code = NEGATE_SPEC.replace('"k.c"', f'"k.c"{form}'), NEGATE_C
    if "dispatch" in form:
        code = """
#include "opsplice_dispatch.h"
int negate(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  const float *a = dispatch->bindings[0];
  float *out = dispatch->bindings[1];
  for (unsigned i = workgroup->x * 4; i < 9 && i < workgroup->x * 4 + 4; ++i) out[i] = -a[i];
  return 0;
}
"""
    model = """func.func @main(%a: tensor<9xf32>) -> tensor<9xf32> {
      %0 = arith.negf %a : tensor<9xf32>
      return %0 : tensor<9xf32>
    }"""
    program = opsplice.compile(model, [write_spec(tmp_path, spec, {"k.c": code})])
    assert len(program.report.replacements) == 1
    assert np.array_equal(program.run("main", vector(9)), -vector(9))

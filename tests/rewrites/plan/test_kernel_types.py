"""Every element type, rank and kind of scalar through a C kernel: equal to the compiler's own code, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opsplice.targets.artifacts.arch import host_arch, host_features

F64 = ("--iree-input-demote-f64-to-f32=false",)
DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
C_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "_Float16",
    "bf16": "__bf16",
    "i1": "_Bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
}

# A kernel of two buffers where their order matters. Those of 16-bit floats work on bits, which any compiler can.
BINARY_C = """
#include <stddef.h>
#include <stdint.h>
#define KERNEL(name, type, expression)                                                                              \\
  void name(const type *restrict a, const type *restrict b, type *restrict out, size_t n, size_t workgroup_x) {       \\
    size_t end = workgroup_x * 64 + 64 < n ? workgroup_x * 64 + 64 : n;                                               \\
    for (size_t i = workgroup_x * 64; i < end; ++i) out[i] = expression;                                              \\
  }
KERNEL(sub_f32, float, a[i] - b[i])
KERNEL(sub_f64, double, a[i] - b[i])
KERNEL(sub_i8, int8_t, (int8_t)(a[i] - b[i]))
KERNEL(sub_i16, int16_t, (int16_t)(a[i] - b[i]))
KERNEL(sub_i32, int32_t, a[i] - b[i])
KERNEL(sub_i64, int64_t, a[i] - b[i])
KERNEL(copysign_f16, uint16_t, (a[i] & 0x7fff) | (b[i] & 0x8000))
KERNEL(copysign_bf16, uint16_t, (a[i] & 0x7fff) | (b[i] & 0x8000))
KERNEL(less_i1, _Bool, !a[i] && b[i])
"""
BINARY_SPEC = """
kernel sub<T in {f32, f64, i8, i16, i32, i64}>(a: T[...m], b: T[...m]) -> T[...m] {
  grid (ceildiv(m, 64)) symbol "sub_{T}" cpu "k.c"
}
kernel copysign<T in {f16, bf16}>(a: T[...m], b: T[...m]) -> T[...m] {
  grid (ceildiv(m, 64)) symbol "copysign_{T}" cpu "k.c"
}
kernel less_i1(a: i1[...m], b: i1[...m]) -> i1[...m] { grid (ceildiv(m, 64)) cpu "k.c" }
pattern float_sub<T in {f32, f64}>(a: tensor<...m x T>, b: tensor<...m x T>) { subf(a, b) }
pattern int_sub<T in {i8, i16, i32, i64}>(a: tensor<...m x T>, b: tensor<...m x T>) { subi(a, b) }
pattern with_sign<T in {f16, bf16}>(a: tensor<...m x T>, b: tensor<...m x T>) { math.copysign(a, b) }
pattern less(a: tensor<...m x i1>, b: tensor<...m x i1>) { cmpi(a, b) {predicate = ult} }
replace float_sub with sub(a, b)
replace int_sub with sub(a, b)
replace with_sign with copysign(a, b)
replace less with less_i1(a, b)
"""
SHAPES = (
    "", "7x", "?x", "3x5x", "?x5x", "?x?x", "2x3x4x", "2x?x4x", "2x3x4x5x", "?x3x?x5x", "1x1x", "0x", "4x0x",
)  # fmt: skip


def binary_op(element: str) -> str:
    if element == "i1":
        return "arith.cmpi ult,"
    if element in ("f16", "bf16"):
        return "math.copysign"
    return "arith.subf" if element.startswith("f") else "arith.subi"


def sample(element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if element.startswith("i"):
        limits = (0, 2) if element == "i1" else (-100, 100)
        return random.integers(*limits, shape).astype(DTYPES[element])
    return np.asarray(random.standard_normal(shape)).astype(DTYPES[element])


@pytest.mark.parametrize("element", DTYPES)
def test_buffers_of_every_rank_static_and_dynamic(pairs, element):
    functions = []
    for number, shape in enumerate(SHAPES):
        kind = f"tensor<{shape}{element}>"
        functions.append(f"""
func.func @f{number}(%a: {kind}, %b: {kind}) -> {kind} {{
  %0 = {binary_op(element)} %a, %b : {kind}
  return %0 : {kind}
}}""")
    made = pairs("\n".join(functions), BINARY_SPEC, {"k.c": BINARY_C}, F64 if element == "f64" else ())
    assert made.replaced == len(SHAPES)
    for number, shape in enumerate(SHAPES):
        for dynamic in [(6, 130), (0, 3)] if "?" in shape else [()]:
            sizes = iter(dynamic)
            dims = tuple(next(sizes) if d == "?" else int(d) for d in shape.split("x")[:-1])
            made.run(f"f{number}", sample(element, dims, 1), sample(element, dims, 2))


# ---- scalars -------------------------------------------------------------------------------------------------------

# A value for each type, with as many bits of it in use as the type has.
SCALARS = {
    "f32": 2.5, "f64": 1 / 3, "f16": -2.5, "bf16": -2.5, "i1": 1, "i8": -3, "i16": -300, "i32": -3, "i64": -(1 << 40),
}  # fmt: skip


def scalar_program(element: str) -> str:
    """A constant, an argument, an element of a tensor of rank 0, and such a tensor, each combined with a tensor."""
    op = {"f": "arith.addf", "b": "arith.addf", "i": "arith.addi"}[element[0]]
    op = "arith.xori" if element == "i1" else op
    literal = "true" if element == "i1" else f"{SCALARS[element]} : {element}"
    tensor = f"tensor<4x{element}>"
    maps = "affine_map<(i) -> (i)>"

    def generic(inputs: str, types: str, extra_map: str, arguments: str, scalar: str) -> str:
        return f"""
  %empty = tensor.empty() : {tensor}
  %0 = linalg.generic {{indexing_maps = [{maps}, {extra_map}{maps}], iterator_types = ["parallel"]}}
      ins({inputs} : {types}) outs(%empty : {tensor}) {{
  ^bb0({arguments}, %out: {element}):
    %1 = {op} %x, {scalar} : {element}
    linalg.yield %1 : {element}
  }} -> {tensor}
  return %0 : {tensor}
}}"""

    plain = generic("%a", tensor, "", f"%x: {element}", "%s")
    held = generic(
        "%a, %t", f"{tensor}, tensor<{element}>", "affine_map<(i) -> ()>, ", f"%x: {element}, %y: {element}", "%y"
    )
    return f"""
func.func @constant_{element}(%a: {tensor}) -> {tensor} {{
  %s = arith.constant {literal}{plain}
func.func @argument_{element}(%a: {tensor}, %s: {element}) -> {tensor} {{{plain}
func.func @extracted_{element}(%a: {tensor}, %t: tensor<{element}>) -> {tensor} {{
  %s = tensor.extract %t[] : tensor<{element}>{plain}
func.func @rank_0_{element}(%a: {tensor}, %t: tensor<{element}>) -> {tensor} {{{held}
"""


def scalar_kernel(element: str) -> str:
    kind = C_TYPES[element]
    expression = "a[i] ^ s" if element == "i1" else f"({kind})(a[i] + s)"
    return (
        f"void k_{element}(const {kind} *a, {kind} s, {kind} *out, size_t n) {{\n"
        f"  for (size_t i = 0; i < n; ++i) out[i] = {expression};\n}}\n"
    )


def scalar_rule(element: str, form: str) -> str:
    op = {"f": "addf", "b": "addf", "i": "addi"}[element[0]]
    op = "xori" if element == "i1" else op
    return f"""
kernel k_{element}(a: {element}[n], s: {element}) -> {element}[n] {{ cpu "k.c" as {form} }}
pattern p_{element}(a: tensor<n x {element}>, s: {element}) {{ {op}(a, s) }}
replace p_{element} with k_{element}(a, s)
"""


HALVES = ("f16", "bf16")


@pytest.mark.parametrize("form", ["object", "bitcode", "provided"])
@pytest.mark.parametrize("elements", [HALVES, tuple(e for e in DTYPES if e not in HALVES)], ids=["halves", "others"])
def test_scalars_by_value(pairs, elements, form, request):
    if elements is HALVES:
        request.getfixturevalue("zig")
        if form != "object" and host_arch() == "x86_64" and "avx512bf16" not in host_features():
            pytest.skip("IREE links nothing that rounds to bf16, and this CPU has no instruction for it")
    kernels = "#include <stddef.h>\n#include <stdint.h>\n" + "".join(map(scalar_kernel, elements))
    program, spec = "".join(map(scalar_program, elements)), "".join(scalar_rule(each, form) for each in elements)
    made = pairs(program, spec, {"k.c": kernels}, F64)
    assert made.replaced == 4 * len(elements)
    for element in elements:
        array = np.array([1, 0, 1, 0] if element == "i1" else [100, 1, 0, -7], DTYPES[element])
        scalar = np.array(SCALARS[element], DTYPES[element])
        made.run(f"constant_{element}", array)
        made.run(f"argument_{element}", array, scalar)
        made.run(f"extracted_{element}", array, scalar)
        made.run(f"rank_0_{element}", array, scalar)


WIDENED = {"extui": ("i8", "i32"), "extsi": ("i16", "i64"), "extf": ("f16", "f32")}
WIDENED_KERNELS = {
    "by_value": 'kernel by_value_{wide}(a: {wide}[n], s: {wide}) -> {wide}[n] {{ cpu "k.c" as object }}',
    "in_memory": 'kernel in_memory_{wide}(a: {wide}[n], s: {wide}[]) -> {wide}[n] {{ cpu "k.c" as bitcode }}',
}


@pytest.mark.parametrize("form", WIDENED_KERNELS)
def test_scalars_that_the_program_widens(pairs, form):
    """In the body of an op that reads the narrow one, and before it: a kernel is passed what the pattern has."""
    mlir, spec, code = "", "", "#include <stddef.h>\n#include <stdint.h>\n"
    for widening, (narrow, wide) in WIDENED.items():
        add, tensor = f"arith.add{wide[0]}", f"tensor<4x{wide}>"
        loop = f"""
  %empty = tensor.empty() : {tensor}
  %0 = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%a, %t : {tensor}, tensor<{narrow}>) outs(%empty : {tensor}) {{
  ^bb0(%x: {wide}, %y: {narrow}, %out: {wide}):
    %1 = arith.{widening} %y : {narrow} to {wide}
    %2 = {add} %x, %1 : {wide}
    linalg.yield %2 : {wide}
  }} -> {tensor}
  return %0 : {tensor}
}}"""
        mlir += f"""
func.func @inside_{wide}(%a: {tensor}, %t: tensor<{narrow}>) -> {tensor} {{{loop}
func.func @before_{wide}(%a: {tensor}, %t: tensor<{narrow}>) -> {tensor} {{
  %y = tensor.extract %t[] : tensor<{narrow}>
  %s = arith.{widening} %y : {narrow} to {wide}
  %b = tensor.splat %s : {tensor}
  %0 = {add} %a, %b : {tensor}
  return %0 : {tensor}
}}"""
        spec += f"""
{WIDENED_KERNELS[form].format(wide=wide)}
pattern widened_{wide}(a: tensor<n x {wide}>, s: {wide}) {{ add{wide[0]}(a, s) }}
replace widened_{wide} with {form}_{wide}(a, s)
"""
        kind, number = C_TYPES[wide], ("s" if form == "by_value" else "*s")
        code += (
            f"void {form}_{wide}(const {kind} *a, {kind} {number}, {kind} *out, size_t n) {{\n"
            f"  for (size_t i = 0; i < n; ++i) out[i] = a[i] + {number};\n}}\n"
        )
    made = pairs(mlir, spec, {"k.c": code})
    assert made.replaced == 2 * len(WIDENED)
    for narrow, wide in WIDENED.values():
        array, scalar = np.array([100, 1, 0, -7], DTYPES[wide]), np.array(SCALARS[narrow], DTYPES[narrow])
        made.run(f"inside_{wide}", array, scalar)
        made.run(f"before_{wide}", array, scalar)


def test_a_scalar_that_the_program_widens_twice(pairs):
    """With its sign and then without: neither is left out."""
    mlir = """
func.func @f(%a: tensor<4xi32>, %t: tensor<i8>) -> tensor<4xi32> {
  %y = tensor.extract %t[] : tensor<i8>
  %s = arith.extsi %y : i8 to i16
  %empty = tensor.empty() : tensor<4xi32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a, %s : tensor<4xi32>, i16) outs(%empty : tensor<4xi32>) {
  ^bb0(%x: i32, %z: i16, %out: i32):
    %1 = arith.extui %z : i16 to i32
    %2 = arith.addi %x, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<4xi32>
  return %0 : tensor<4xi32>
}"""
    spec = """
kernel k(a: i32[n], s: i32) -> i32[n] { cpu "k.c" }
pattern p(a: tensor<n x i32>, s: i32) { addi(a, s) }
replace p with k(a, s)
"""
    code = """
#include <stddef.h>
void k(const int *a, int s, int *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = a[i] + s; }
"""
    made = pairs(mlir, spec, {"k.c": code})
    assert made.replaced == 1
    made.run("f", np.arange(4, dtype=np.int32), np.array(-3, np.int8))


@pytest.mark.parametrize("form", ["object", "provided"])
def test_numbers_of_a_rule(spliced, form):
    spec = f"""
kernel k(a: f32[n], minus: f32, byte: i8, flag: i1, wide: i64, count: index) -> f32[n] {{ cpu "k.c" as {form} }}
pattern p(a: tensor<n x f32>) {{ negf(a) }}
replace p with k(a, -0.5, -3, 1, -5000000000, 7)
"""
    c = """
#include <stddef.h>
#include <stdint.h>
void k(const float *a, float minus, int8_t byte, _Bool flag, int64_t wide, size_t count, float *out, size_t n) {
  out[0] = minus, out[1] = byte, out[2] = flag, out[3] = (float)(wide / 1000000000), out[4] = count, out[5] = n;
}
"""
    program = spliced(
        "func.func @f(%a: tensor<6xf32>) -> tensor<6xf32> {\n  %0 = arith.negf %a : tensor<6xf32>\n"
        "  return %0 : tensor<6xf32>\n}",
        spec,
        {"k.c": c},
    )
    assert program.run("f", np.zeros(6, np.float32)).tolist() == [-0.5, -3, 1, -5, 7, 6]


def test_zeros_of_both_signs_are_two_numbers(spliced):
    """Equal as numbers, and yet no two calls may share an executable that has one of them built in."""
    body = """
  %s = arith.constant dense<{}> : tensor<2xf32>
  %0 = arith.mulf %a, %s : tensor<2xf32>
  return %0 : tensor<2xf32>
}}"""
    mlir = "".join(
        f"func.func @{name}(%a: tensor<2xf32>) -> tensor<2xf32> {{" + body.format(zero)
        for name, zero in (("plus", "0.0"), ("minus", "-0.0"))
    )
    spec = """
kernel k(a: f32[n], s: f32) -> f32[n] { cpu "k.c" }
pattern p(a: tensor<n x f32>, s: f32) { mulf(a, s) }
replace p with k(a, s)
"""
    c = """
#include <stddef.h>
void k(const float *a, float s, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = s; }
"""
    program = spliced(mlir, spec, {"k.c": c})
    results = {name: program.run(name, np.ones(2, np.float32)) for name in ("plus", "minus")}
    assert len(program.report.replacements) == 2
    assert not np.signbit(results["plus"]).any()
    assert np.signbit(results["minus"]).all()


@pytest.mark.parametrize("form", ["object", "provided"])
def test_dims_as_scalars(spliced, form):
    spec = f"""
kernel k(a: f32[m, n], rows: i32, columns: index, byte: i8) -> f32[m, n] {{ cpu "k.c" as {form} }}
pattern p(a: tensor<m x n x f32>) {{ negf(a) }}
replace p with k(a, m, n, n)
"""
    c = """
#include <stddef.h>
#include <stdint.h>
void k(const float *a, int32_t rows, size_t columns, int8_t byte, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = rows * 100 + columns * 10 + byte;
}
"""
    mlir = """
func.func @static(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = arith.negf %a : tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @dynamic(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = arith.negf %a : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}"""
    program = spliced(mlir, spec, {"k.c": c})
    assert program.run("static", np.zeros((3, 4), np.float32)).tolist() == [[344] * 4] * 3
    assert program.run("dynamic", np.zeros((2, 4), np.float32)).tolist() == [[244] * 4] * 2


def test_a_type_variable_that_only_a_scalar_has(spliced):
    spec = """
kernel fill<T in {f32, i32}>(a: f32[n], s: T) -> f32[n] { symbol "fill_{T}" cpu "k.c" }
pattern p(a: tensor<n x f32>, s: f32) { mulf(a, s) }
replace p with fill(a, s)
"""
    c = """
#include <stddef.h>
void fill_f32(const float *a, float s, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = s; }
"""
    mlir = """
func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
  %s = arith.constant dense<2.5> : tensor<3xf32>
  %0 = arith.mulf %a, %s : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
    assert spliced(mlir, spec, {"k.c": c}).run("f", np.zeros(3, np.float32)).tolist() == [2.5] * 3

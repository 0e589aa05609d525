"""Sorts and largest elements, with elements that are equal and NaN."""

import ml_dtypes
import numpy as np
import pytest

import opsplice

ROWS = np.array(
    [
        [1, 0, 1, 0, 0, 1, 2, 1],
        [0.0, -0.0, np.inf, -np.inf, np.nan, 3, -0.0, 0.0],
        [-np.nan, 2, np.nan, -np.inf, -np.inf, 2, -1, -np.nan],
    ],
    np.float32,
)

SORT = """
func.func @{name}(%x: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xi32>) {{
  %empty = tensor.empty() : tensor<3x8xi32>
  %at = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}}
      outs(%empty : tensor<3x8xi32>) {{
  ^bb0(%out: i32):
    %n = linalg.index 1 : index
    %i = arith.index_cast %n : index to i32
    linalg.yield %i : i32
  }} -> tensor<3x8xi32>
  %r:2 = iree_linalg_ext.sort dimension(1) outs(%x, %at : tensor<3x8xf32>, tensor<3x8xi32>) {{
  ^bb0(%a: f32, %b: f32, %i: i32, %j: i32):
    {body}
    iree_linalg_ext.yield %go : i1
  }} -> tensor<3x8xf32>, tensor<3x8xi32>
  return %r#0, %r#1 : tensor<3x8xf32>, tensor<3x8xi32>
}}
"""
BODIES = {
    "rising": "%go = arith.cmpf olt, %a, %b : f32",
    "falling": "%go = arith.cmpf olt, %b, %a : f32",
    "rising_or_equal": "%go = arith.cmpf ole, %a, %b : f32",
    "falling_or_equal": "%go = arith.cmpf uge, %a, %b : f32",
    "by_size": """
    %p = math.absf %a : f32
    %q = math.absf %b : f32
    %go = arith.cmpf olt, %p, %q : f32""",
    "by_size_or_equal": """
    %p = math.absf %a : f32
    %q = math.absf %b : f32
    %go = arith.cmpf ole, %p, %q : f32""",
}
TOP = """
func.func @{name}(%x: tensor<3x8xf32>) -> (tensor<3x{k}xf32>, tensor<3x{k}xi32>) {{
  %begin = arith.constant {begin} : f32
  %none = arith.constant 2147483647 : i32
  %values = tensor.empty() : tensor<3x{k}xf32>
  %places = tensor.empty() : tensor<3x{k}xi32>
  %v = linalg.fill ins(%begin : f32) outs(%values : tensor<3x{k}xf32>) -> tensor<3x{k}xf32>
  %p = linalg.fill ins(%none : i32) outs(%places : tensor<3x{k}xi32>) -> tensor<3x{k}xi32>
  %r:2 = iree_linalg_ext.topk dimension(1) ins(%x : tensor<3x8xf32>)
      outs(%v, %p : tensor<3x{k}xf32>, tensor<3x{k}xi32>) {{
  ^bb0(%a: f32, %b: f32):
    %go = arith.cmpf {asked}, %a, %b : f32
    iree_linalg_ext.yield %go : i1
  }} -> tensor<3x{k}xf32>, tensor<3x{k}xi32>
  return %r#0, %r#1 : tensor<3x{k}xf32>, tensor<3x{k}xi32>
}}
"""
NARROW = (("f16", "0xFC00"), ("bf16", "0xFF80"))
TOP_INTEGERS = """
func.func @integers(%x: tensor<3x8xi32>) -> (tensor<3x8xi32>, tensor<3x8xi32>) {
  %begin = arith.constant dense<-2147483648> : tensor<3x8xi32>
  %none = arith.constant dense<2147483647> : tensor<3x8xi32>
  %r:2 = iree_linalg_ext.topk dimension(1) ins(%x : tensor<3x8xi32>)
      outs(%begin, %none : tensor<3x8xi32>, tensor<3x8xi32>) {
  ^bb0(%a: i32, %b: i32):
    %go = arith.cmpi sge, %a, %b : i32
    iree_linalg_ext.yield %go : i1
  } -> tensor<3x8xi32>, tensor<3x8xi32>
  return %r#0, %r#1 : tensor<3x8xi32>, tensor<3x8xi32>
}
"""


@pytest.fixture(scope="module")
def program():
    tops = [
        TOP.format(name=f"{asked}{k}", k=k, asked=asked, begin=begin)
        for asked, begin in (("ogt", "0xFF800000"), ("olt", "0x7F800000"))
        for k in (3, 8)
    ]
    sorts = [SORT.format(name=name, body=body) for name, body in BODIES.items()]
    wide = [(kind, TOP.format(name=f"ogt_{kind}", k=8, asked="ogt", begin=begin)) for kind, begin in NARROW]
    narrow = [text.replace("f32", kind) for kind, text in wide]
    return opsplice.compile("".join([*sorts, *tops, *narrow, TOP_INTEGERS]))


@pytest.mark.parametrize("name", ["rising", "falling", "rising_or_equal", "falling_or_equal"])
def test_equal_elements_stay_in_order_and_nan_is_the_largest(program, name):
    values, places = program.run(name, ROWS)
    is_nan = np.isnan(ROWS)
    known = np.where(is_nan, 0, ROWS)
    keys = (known, is_nan) if name.startswith("rising") else (-known, ~is_nan)
    wanted = np.lexsort(keys, axis=1)
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(ROWS, wanted, 1))


@pytest.mark.parametrize("name", ["by_size", "by_size_or_equal"])
def test_equal_elements_stay_in_order_whatever_is_compared(program, name):
    rows = np.array([[1, -1, 0, -1, 1, 3, 2, -2], [0, 0, 0, 0, 0, 0, 0, 0], [5, 4, -4, 3, 3, -3, 3, 2]], np.float32)
    _, places = program.run(name, rows)
    np.testing.assert_array_equal(places, np.argsort(np.abs(rows), axis=1, kind="stable"))


@pytest.mark.parametrize("k", [3, 8])
@pytest.mark.parametrize("asked", ["ogt", "olt"])
def test_first_elements_in_the_order_of_all_floats(program, asked, k):
    values, places = program.run(f"{asked}{k}", ROWS)
    bits = ROWS.view(np.int32).astype(np.int64)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    wanted = np.argsort(-ordered if asked == "ogt" else ordered, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values.view(np.int32), np.take_along_axis(ROWS, wanted, 1).view(np.int32))


def test_first_integers_of_equal_ones(program):
    least = -(2**31)
    rows = np.array([[1, 0, 1, 2, 0, 2, 2, 1], [least] * 8, [3, least, 5, 3, least, 5, -1, 3]], np.int32)
    values, places = program.run("integers", rows)
    wanted = np.argsort(-rows.astype(np.int64), axis=1, kind="stable")
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(rows, wanted, 1))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_first_elements_of_half_the_width(program, kind):
    number = np.dtype(np.float16 if kind == "f16" else ml_dtypes.bfloat16)
    values, places = program.run(f"ogt_{kind}", ROWS.astype(number))
    wanted = np.array([[6, 0, 2, 5, 7, 1, 3, 4], [4, 2, 5, 0, 7, 1, 6, 3], [0, 2, 7, 1, 5, 6, 3, 4]])
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values.astype(np.float32), np.take_along_axis(ROWS, wanted, 1))


def test_sorts_of_one_program_have_their_own_indices():
    rising = SORT.format(name="both", body=BODIES["rising"])
    start, end = rising.index("  %r:2"), rising.index("  return")
    falling = rising[start:end].replace("%r:2", "%s:2").replace("olt, %a, %b", "olt, %b, %a")
    text = rising[:end].replace("(tensor<3x8xf32>, tensor<3x8xi32>)", "(tensor<3x8xi32>, tensor<3x8xi32>)") + falling
    program = opsplice.compile(text + "  return %r#1, %s#1 : tensor<3x8xi32>, tensor<3x8xi32>\n}")
    known = np.nan_to_num(ROWS, nan=9)
    up, down = program.run("both", known)
    np.testing.assert_array_equal(up, np.argsort(known, axis=1, kind="stable"))
    np.testing.assert_array_equal(down, np.argsort(-known, axis=1, kind="stable"))


def test_the_places_alone_of_open_rows():
    text = SORT.format(name="places", body=BODIES["rising"])
    text = text.replace("tensor.empty()", "tensor.empty(%rows, %columns)").replace("3x8x", "?x?x")
    sizes = "\n".join(
        f"  %{name} = tensor.dim %x, %c{dim} : tensor<?x?xf32>" for dim, name in enumerate(("rows", "columns"))
    )
    text = text.replace(
        "  %empty", f"  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n{sizes}\n  %empty"
    )
    text = text.replace("(tensor<?x?xf32>, tensor<?x?xi32>) {\n  %c0", "tensor<?x?xi32> {\n  %c0")
    text = text.replace("return %r#0, %r#1 : tensor<?x?xf32>, ", "return %r#1 : ")
    known = np.nan_to_num(ROWS, nan=9)
    places = opsplice.compile(text).run("places", known)
    np.testing.assert_array_equal(places, np.argsort(known, axis=1, kind="stable"))


def test_the_places_alone_of_long_rows():
    text = SORT.format(name="places", body=BODIES["rising"]).replace("3x8x", "2x9000x")
    text = text.replace("(tensor<2x9000xf32>, tensor<2x9000xi32>) {", "tensor<2x9000xi32> {", 1)
    text = text.replace("return %r#0, %r#1 : tensor<2x9000xf32>, ", "return %r#1 : ")
    rows = np.random.default_rng(0).integers(0, 500, (2, 9000)).astype(np.float32)
    places = opsplice.compile(text).run("places", rows)
    np.testing.assert_array_equal(places, np.argsort(rows, axis=1, kind="stable"))

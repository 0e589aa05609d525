"""The places of largest and smallest elements, with elements that are equal and NaN."""

import numpy as np
import pytest

import opsplice

ROWS = np.array(
    [
        [1, np.nan, 3, np.nan, np.inf],
        [np.nan, 1, -np.inf, 0, np.inf],
        [2, 1, 2, 1, 2],
        [-np.inf, np.inf, -np.nan, 2, 3],
        [-np.inf, -np.inf, -np.inf, -np.inf, -np.inf],
        [np.inf, np.inf, np.inf, np.inf, np.nan],
    ],
    np.float32,
)

COMPARED = """
  %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<6x5xf32>)
      outs(%v, %p : tensor<6xf32>, tensor<6xi32>) {{
  ^bb0(%a: f32, %b: f32):
    %more = arith.cmpf {asked}, %a, %b : f32
    iree_linalg_ext.yield %more : i1
  }} -> tensor<6xf32>, tensor<6xi32>
"""
REDUCED = """
  %r:2 = linalg.generic {{
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<6x5xf32>) outs(%v, %p : tensor<6xf32>, tensor<6xi32>) {{
  ^bb0(%a: f32, %b: f32, %at: i32):
    %n = linalg.index 1 : index
    %i = arith.index_cast %n : index to i32
    %more = arith.cmpf {asked}, {pair} : f32
    %place = arith.select %more, %i, %at : i32
    {best}
    linalg.yield %best, %place : f32, i32
  }} -> (tensor<6xf32>, tensor<6xi32>)
"""
PROGRAM = """
func.func @{name}(%x: tensor<6x5xf32>) -> (tensor<6xf32>, tensor<6xi32>) {{
  %least = arith.constant {least} : f32
  %zero = arith.constant 0 : i32
  %values = tensor.empty() : tensor<6xf32>
  %v = linalg.fill ins(%least : f32) outs(%values : tensor<6xf32>) -> tensor<6xf32>
  %places = tensor.empty() : tensor<6xi32>
  %p = linalg.fill ins(%zero : i32) outs(%places : tensor<6xi32>) -> tensor<6xi32>
  {found}
  return %r#0, %r#1 : tensor<6xf32>, tensor<6xi32>
}}
"""
LEAST = {"ogt": "0xFF800000", "olt": "0x7F800000"}
EXTREME = {
    "ogt": "%best = arith.maximumf %a, %b : f32",
    "olt": "%best = arith.minimumf %b, %a : f32",
}


@pytest.fixture(scope="module")
def program():
    bodies = {}
    for asked, extreme in EXTREME.items():
        turned = {"ogt": "olt", "olt": "ogt"}[asked]
        bodies[f"compared_{asked}"] = asked, COMPARED.format(asked=asked)
        bodies[f"reduced_{asked}"] = asked, REDUCED.format(asked=asked, pair="%a, %b", best=extreme)
        bodies[f"turned_{asked}"] = asked, REDUCED.format(asked=turned, pair="%b, %a", best=extreme)
    chosen = "%best = arith.select %more, %a, %b : f32"
    bodies["chosen"] = "ogt", REDUCED.format(asked="ogt", pair="%a, %b", best=chosen)
    texts = [PROGRAM.format(name=name, least=LEAST[asked], found=body) for name, (asked, body) in bodies.items()]
    return opsplice.compile("".join(texts))


@pytest.mark.parametrize("asked", LEAST)
@pytest.mark.parametrize("form", ["compared", "reduced", "turned"])
def test_the_first_nan_is_the_largest_and_the_smallest(program, form, asked):
    _, places = program.run(f"{form}_{asked}", ROWS)
    np.testing.assert_array_equal(places, (np.argmax if asked == "ogt" else np.argmin)(ROWS, 1))


def test_what_takes_the_element_by_comparisons_passes_nan_over(program):
    values, places = program.run("chosen", ROWS)
    known = np.where(np.isnan(ROWS), -np.inf, ROWS)
    np.testing.assert_array_equal(values, known.max(1))
    np.testing.assert_array_equal(places, [4, 4, 0, 1, 0, 0])

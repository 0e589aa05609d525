"""`reduce argmax` and `argmin`: bodies of all kinds hold if, and only if, they find what numpy does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from opsplice.interpreter import evaluate

FLOATS = ("ogt", "oge", "olt", "ole", "ugt", "uge", "ult", "ule", "one", "oeq")
INTEGERS = ("sgt", "sge", "slt", "sle", "ugt", "ult", "ne")
TAKES = ("new", "kept")
# As JAX has it: NaN goes first, and of equal elements the one whose index is smaller, whatever the order of the loop.
JAX = """
    %more = arith.cmpf {predicate}, %best, %new : f32
    %none = arith.cmpf une, %best, %best : f32
    %stays = arith.ori %more, %none : i1
    %equal = arith.cmpf oeq, %best, %new : f32
    %before = arith.cmpi {order}, %at, %here : i32
    %first = arith.andi %equal, %before : i1
    %keeps = arith.ori %stays, %first : i1
    %value = arith.select %stays, %best, %new : f32
    %index = arith.select %keeps, %at, %here : i32
"""
SPEC = """
pattern {name}<T in {{f32, i32}}>(x: tensor<m x n x T>) {{ reduce {name}[m n -> m](x) : i32 }}
"""
LOWEST = {"f32": "0xFF800000", "i32": "-2147483648"}
HIGHEST = {"f32": "0x7F800000", "i32": "2147483647"}


def function(name: str, body: str, kind: str, start: str, place: str = "0", index: str = "linalg.index 1") -> str:
    return f"""
func.func @{name}(%x: tensor<16x5x{kind}>) -> tensor<16xi32> {{
  %e = tensor.empty() : tensor<16x{kind}>
  %i = tensor.empty() : tensor<16xi32>
  %s = arith.constant {start} : {kind}
  %z = arith.constant {place} : i32
  %0 = linalg.fill ins(%s : {kind}) outs(%e : tensor<16x{kind}>) -> tensor<16x{kind}>
  %1 = linalg.fill ins(%z : i32) outs(%i : tensor<16xi32>) -> tensor<16xi32>
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
      affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<16x5x{kind}>) outs(%0, %1 : tensor<16x{kind}>, tensor<16xi32>) {{
  ^bb0(%new: {kind}, %best: {kind}, %at: i32):
    %place = {index} : index
    %here = arith.index_cast %place : index to i32
    {body}
    linalg.yield %value, %index : {kind}, i32
  }} -> (tensor<16x{kind}>, tensor<16xi32>)
  return %r#1 : tensor<16xi32>
}}"""


def choice(kind: str, predicate: str, swapped: bool, takes: str, *, extreme: str = "") -> str:
    compare = "cmpf" if kind == "f32" else "cmpi"
    sides = ("%best, %new", "%new, %best")[not swapped]
    value, index = ("%new, %best", "%here, %at") if takes == "new" else ("%best, %new", "%at, %here")
    chosen = f"arith.{extreme} %new, %best" if extreme else f"arith.select %wins, {value}"
    return f"""%wins = arith.{compare} {predicate}, {sides} : {kind}
    %value = {chosen} : {kind}
    %index = arith.select %wins, {index} : i32"""


def bodies() -> dict[str, str]:
    """Some of all choices, by name."""
    every = []
    for kind, predicates in (("f32", FLOATS), ("i32", INTEGERS)):
        extremes = ("", "maximumf", "maxnumf", "minimumf") if kind == "f32" else ("", "maxsi", "minsi")
        for predicate, swapped, takes, extreme in itertools.product(predicates, (False, True), TAKES, extremes):
            body = choice(kind, predicate, swapped, takes, extreme=extreme)
            every += [(body, kind, start[kind]) for start in (LOWEST, HIGHEST)]
    chosen = random.Random(7).sample(every, 200)
    for predicate, order in itertools.product(("ogt", "oge", "olt"), ("slt", "sgt")):
        start = HIGHEST if predicate == "olt" else LOWEST
        chosen.append((JAX.format(predicate=predicate, order=order), "f32", start["f32"]))
    return {f"f{number}": function(f"f{number}", *each) for number, each in enumerate(chosen)}


def test_a_body_holds_if_it_finds_what_numpy_finds(find):
    made = bodies()
    text = "\n".join(made.values())
    outcomes = {name: find(text, SPEC.format(name=name)) for name in ("argmax", "argmin")}
    found = {name: {match.function for match in outcome.found.matches} for name, outcome in outcomes.items()}
    assert all(len(names) > 10 for names in found.values())
    rows = np.random.default_rng(5).integers(-3, 3, (16, 5))
    places = {"argmax": rows.argmax(-1), "argmin": rows.argmin(-1)}
    for function in made:
        (found_at,) = evaluate(outcomes["argmax"].module, function, [rows])
        right = {name for name, place in places.items() if (found_at == place).all()}
        assert right == {name for name, functions in found.items() if function in functions}, made[function]


@pytest.mark.parametrize(
    "changed",
    [
        {"start": "0.0"},  # smaller elements than that are not found
        {"place": "1"},  # where all are minus infinity
        {"index": "linalg.index 0"},
        {"body": choice("f32", "ogt", False, "new").replace("%here, %at", "%at, %here")},
        {"body": choice("f32", "ogt", False, "new").replace("%new, %best :", "%new, %new :")},
    ],
)
def test_what_finds_something_else_does_not_hold(find, changed):
    right = {"body": choice("f32", "ogt", False, "new"), "kind": "f32", "start": LOWEST["f32"]}
    both = function("right", **right) + function("wrong", **right | changed)
    assert [match.function for match in find(both, SPEC.format(name="argmax")).found.matches] == ["right"]


BOTH = """
pattern both<I in {i32, i64}>(x: tensor<m x n x f32>) { reduce maximumf[m n -> m](x), reduce argmax[m n -> m](x) : I }
"""


def test_an_element_and_its_index_are_two_results(find):
    text = function("f", choice("f32", "ogt", False, "new"), "f32", LOWEST["f32"])
    outcome = find(text, BOTH)
    both = outcome.only
    assert [value.result_number for value in both.roots] == [0, 1]
    assert both.types == {"I": "i32"}
    assert find(text, BOTH.replace("{i32, i64}", "{i64}")).count == 0


def test_the_dim_is_any(find):
    """Along the first dim of a transposed tensor, of what is computed before."""
    text = """
    func.func @f(%x: tensor<4x32xf32>) -> tensor<32xi32> {
      %low = arith.constant 0xFF800000 : f32
      %z = arith.constant 0 : i32
      %e = tensor.empty() : tensor<32xf32>
      %i = tensor.empty() : tensor<32xi32>
      %0 = linalg.fill ins(%low : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
      %1 = linalg.fill ins(%z : i32) outs(%i : tensor<32xi32>) -> tensor<32xi32>
      %y = math.absf %x : tensor<4x32xf32>
      %r:2 = iree_linalg_ext.arg_compare dimension(0) ins(%y : tensor<4x32xf32>)
          outs(%0, %1 : tensor<32xf32>, tensor<32xi32>) {
      ^bb0(%new: f32, %best: f32):
        %more = arith.cmpf PREDICATE, %new, %best : f32
        iree_linalg_ext.yield %more : i1
      } -> tensor<32xf32>, tensor<32xi32>
      return %r#1 : tensor<32xi32>
    }"""
    spec = "pattern p(x: tensor<n x m x f32>) { reduce argmax[n m -> m](absf(x)) : i32 }"
    assert find(text.replace("PREDICATE", "ogt"), spec).dims == {"n": 4, "m": 32}
    assert find(text.replace("PREDICATE", "oge"), spec).count == 0  # the last one of several
    assert find(text.replace("PREDICATE", "olt"), spec).count == 0  # it starts from minus infinity


def test_a_place_that_the_program_widens(find):
    """As PyTorch and ONNX have it."""
    text = function("f", choice("f32", "ogt", False, "new"), "f32", LOWEST["f32"])
    text = text.replace("-> tensor<16xi32> {", "-> tensor<16xi64> {").replace(
        "return %r#1 : tensor<16xi32>",
        "%w = arith.extsi %r#1 : tensor<16xi32> to tensor<16xi64>\n  return %w : tensor<16xi64>",
    )
    pattern = "pattern p(x: tensor<m x n x f32>) { extsi(reduce argmax[m n -> m](x) : i32) : i64 }"
    assert find(text, pattern).count == 1

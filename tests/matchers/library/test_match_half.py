"""The library in half precision, as PyTorch and JAX spell it: with sums, and more, in f32.

A function of `half/` is named after the pattern that it is. A kernel for halves is to have it, so it must be found with
inputs and results of that type, though what lies in between is of another.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from opsplice.frontends.source import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.ir.tensor_values import element_type
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.loader import load_text
from tests.matchers.library.test_match_library import HELPERS, graphs_of, whole

FILES = sorted((Path(__file__).parents[1] / "half").glob("*.mlir"))
# What lies within a layer, or is the same one said in other words.
WITHIN = {
    "attention": {"softmax"},
    "attention_kt": {"softmax"},
    "gelu": {"erfc_by_polynomials"},
    "linear_nk_bias_relu": {"relu"},
    "silu": {"sigmoid"},
    "swiglu": {"linear", "silu", "sigmoid"},
}


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_each_layer_is_found_with_inputs_and_results_of_its_type(path):
    library = load_text('import "opsplice:nn" import "opsplice:strided"')
    parts = {"any_linear", "any_norm", "any_groupnorm", "any_convolution", "attended"} | HELPERS
    patterns = [pattern for name, pattern in library.patterns.items() if name not in parts]
    graphs = [g for p in patterns for g in graphs_of(library, p.name)]
    any_layout = {"strided": frozenset(["q", "k", "v", "mask"]), "reordered": True}
    graphs = [dataclasses.replace(g, **any_layout) if g.pattern.name == "any_attention" else g for g in graphs]
    half = path.stem.rpartition("_")[2]
    functions = re.findall(r"^func\.func (?:public )?@(\w+)", path.read_text(encoding="utf-8"), re.M)
    found: dict[str, list[str]] = {name: [] for name in functions}
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        for match in whole(engine.find(compilation.module, graphs, near_misses=0).matches):
            function = match.function.removesuffix("$async")
            element = match.types["T"]
            assert element_type(match.roots[0]) == element
            assert all(match.inputs[name].element == element for name in match.shapes)
            if element == half:
                found[function].append(match.pattern.name)
    assert len(found) > 10
    for function, names in found.items():
        wanted = (
            "any_attention"
            if "attention" in function
            else max((name for name in library.patterns if f"{function}_".startswith(f"{name}_")), key=len)
        )
        assert names.count(wanted) == 1, f"{function}: {names}"
        allowed = set().union(*(within for name, within in WITHIN.items() if function.startswith(name)))
        assert set(names) - {wanted} <= allowed, f"{function}: {names}"


PRODUCT = """
func.func @f(%x: tensor<4x8x{given}>, %w: tensor<8x16x{given}>) -> tensor<4x16x{made}> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8x{given}>, tensor<8x16x{given}>)
    outs(%z : tensor<4x16xf32>) -> tensor<4x16xf32>
  {end}
}}
"""
PRODUCT_SPEC = """
pattern p<T in {f32, bf16}>(x: tensor<m x k x T>, w: tensor<k x n x T>) through cast {
  contract[m k, k n -> m n](x, w)
}
"""
CUT = "%r = arith.truncf %y : tensor<4x16xf32> to tensor<4x16xbf16>\n  return %r : tensor<4x16xbf16>"


@pytest.mark.parametrize(
    ("given", "made", "end", "count"),
    [
        ("bf16", "f32", "return %y : tensor<4x16xf32>", 0),  # no kernel from T to T can have it
        ("bf16", "bf16", CUT, 1),
        ("f32", "f32", "return %y : tensor<4x16xf32>", 1),
        ("f32", "bf16", CUT, 1),  # the product, and not what is cut off it
    ],
)
def test_a_type_variable_is_one_type_for_inputs_and_results(find, given: str, made: str, end: str, count: int):
    outcome = find(PRODUCT.format(given=given, made=made, end=end), PRODUCT_SPEC)
    assert outcome.count == count
    assert [m.types for m in outcome.found.matches] == [{"T": given}] * count


FREE_SPEC = """
pattern p<A in {bf16, f16}, B in {bf16, f32}, C in CHOICES>(x: tensor<m x k x A>, w: tensor<k x n x B>) through cast {
  contract[m k, k n -> m n](x, w) : C
}
"""


@pytest.mark.parametrize(
    ("given", "made", "end", "choices", "roots"),
    [
        ("bf16", "f32", "return %y : tensor<4x16xf32>", "{f32}", ["f32"]),
        ("bf16", "bf16", CUT, "{bf16}", ["bf16"]),
        ("bf16", "bf16", CUT, "{bf16, f32}", ["f32", "bf16"]),  # the product, and what is cut off it
        ("bf16", "f32", "return %y : tensor<4x16xf32>", "{f16}", []),
        ("f32", "f32", "return %y : tensor<4x16xf32>", "{f32}", []),  # x is of a shorter type
    ],
)
def test_each_operand_and_the_result_have_types_of_their_own(find, given, made, end, choices, roots):
    outcome = find(PRODUCT.format(given=given, made=made, end=end), FREE_SPEC.replace("CHOICES", choices))
    assert [match.types for match in outcome.found.matches] == [{"A": given, "B": given, "C": root} for root in roots]
    assert [element_type(match.roots[0]) for match in outcome.found.matches] == roots


def test_operands_of_two_types_are_added(find):
    """In the wider type, by an op that casts one of them in its body; the result is cut short by another."""
    payload = """func.func @f(%x: tensor<8xf16>, %y: tensor<8xf32>) -> tensor<8xbf16> {
      %e = tensor.empty() : tensor<8xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf16>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
      ^bb0(%a: f16, %b: f32, %o: f32):
        %w = arith.extf %a : f16 to f32
        %0 = arith.addf %w, %b : f32
        linalg.yield %0 : f32
      } -> tensor<8xf32>
      %r = arith.truncf %s : tensor<8xf32> to tensor<8xbf16>
      return %r : tensor<8xbf16>
    }"""
    spec = "pattern p<A, B, C in {bf16, f16}>(x: tensor<n x A>, y: tensor<n x B>) through cast { addf(x, y) : C }"
    assert find(payload, spec).only.types == {"A": "f16", "B": "f32", "C": "bf16"}
    assert find(payload, spec.replace("bf16, f16", "f16")).count == 0
    assert find(payload, spec.replace(" : C", " : bf16")).count == 1
    assert find(payload, spec.replace(" : C", " : f16")).count == 0


# A mean in f16 for what it is taken from, and again in f32.
MEANS = """
func.func @f(%x: tensor<4x8xf16>, %y: tensor<4x8xf16>) -> tensor<4x8xf16> {{
  %e = tensor.empty() : tensor<4x8xf16>
  %zero = arith.constant dense<0.0> : tensor<4xf16>
  %wide_zero = arith.constant dense<0.0> : tensor<4xf32>
  %eight = arith.constant dense<8.0> : tensor<4xf16>
  %wide_eight = arith.constant dense<{divisor}> : tensor<4xf32>
  %s = linalg.reduce {{arith.addf}} ins(%x : tensor<4x8xf16>) outs(%zero : tensor<4xf16>) dimensions = [1]
  %m = arith.divf %s, %eight : tensor<4xf16>
  %w = arith.extf %{again} : tensor<4x8xf16> to tensor<4x8xf32>
  %q = math.absf %w : tensor<4x8xf32>
  %ws = linalg.reduce {{arith.{combiner}}} ins(%{summed} : tensor<4x8xf32>) outs(%wide_zero : tensor<4xf32>)
    dimensions = [1]
  %wm = arith.divf %ws, %wide_eight : tensor<4xf32>
  %wide = math.exp %wm : tensor<4xf32>
  %p = arith.truncf %wide : tensor<4xf32> to tensor<4xf16>
  %mb = linalg.broadcast ins(%m : tensor<4xf16>) outs(%e : tensor<4x8xf16>) dimensions = [1]
  %pb = linalg.broadcast ins(%p : tensor<4xf16>) outs(%e : tensor<4x8xf16>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x8xf16>
  %r = arith.mulf %c, %pb : tensor<4x8xf16>
  return %r : tensor<4x8xf16>
}}
"""
MEANS_SPEC = """
pattern p<T in {{f16, f32}}>(x: tensor<m x n x T>) {through} {{
  mean = reduce addf[m n -> m](x)
  mulf(
    subf(x, broadcast[m -> m n](divf(mean, 8.0))),
    broadcast[m -> m n](exp(divf(mean, {divisor}))),
  )
}}
"""


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1),
        ({"divisor": "4.0"}, 1),  # that is the pattern's own
        ({"again": "y"}, 0),
        ({"combiner": "maximumf"}, 0),
        ({"summed": "q"}, 0),
        ({"through": ""}, 0),
    ],
)
def test_a_sum_in_both_precisions_is_one(find, change: dict[str, str], count: int):
    words = {"again": "x", "combiner": "addf", "summed": "w", "divisor": "8.0", "through": "through cast"} | change
    outcome = find(MEANS.format(**words), MEANS_SPEC.format(**words))
    assert outcome.count == count
    if count:
        assert outcome.inputs == {"x": "%arg0"}
        names = sorted(op.name for op in outcome.only.ops)
        assert names.count("linalg.reduce") == 2  # both go with the match


@pytest.mark.parametrize(("loop", "count"), [("ki, kj", 1), ("kj, ki", 0), ("ki, ki", 0)])
def test_a_sum_that_is_computed_again_is_over_the_same_elements(find, loop: str, count: int):
    """A sum of products of a square matrix and itself, over both of its dims; the second one of other elements."""
    first, second = loop.replace("ki", "i").replace("kj", "j").split(", ")
    payload = f"""
    #ij = affine_map<(i, j) -> (i, j)>
    #other = affine_map<(i, j) -> ({first}, {second})>
    #all = affine_map<(i, j) -> ()>
    func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<f32> {{
      %zero = arith.constant dense<0.0> : tensor<f32>
      %s = linalg.generic {{indexing_maps = [#ij, #ij, #all], iterator_types = ["reduction", "reduction"]}}
        ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<f32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32): %0 = arith.mulf %a, %b : f32 %1 = arith.addf %o, %0 : f32
        linalg.yield %1 : f32 }} -> tensor<f32>
      %t = linalg.generic {{indexing_maps = [#ij, #other, #all], iterator_types = ["reduction", "reduction"]}}
        ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<f32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32): %0 = arith.mulf %a, %b : f32 %1 = arith.addf %o, %0 : f32
        linalg.yield %1 : f32 }} -> tensor<f32>
      %e = math.exp %t : tensor<f32>
      %r = arith.subf %s, %e : tensor<f32>
      return %r : tensor<f32>
    }}"""
    spec = """pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {
      s = contract[m n, m n -> ](x, y)
      subf(s, exp(s))
    }"""
    assert find(payload, spec).count == count


@pytest.mark.parametrize(("short", "count"), [("bf16", 1), ("f16", 1), ("f8E4M3FN", 0), ("f8E5M2", 0)])
def test_a_cast_to_eight_bits_is_not_looked_through(find, short: str, count: int):
    payload = f"""func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %e = math.exp %x : tensor<8xf32>
      %s = arith.truncf %e : tensor<8xf32> to tensor<8x{short}>
      %w = arith.extf %s : tensor<8x{short}> to tensor<8xf32>
      %r = math.sqrt %w : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) through cast { sqrt(exp(x)) }").count == count

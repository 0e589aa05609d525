"""The library in half precision, as PyTorch and JAX spell it: with sums, and more, in f32.

A function of `half/` is named after the pattern that it is. A kernel for halves is to have it, so it must be found with
inputs and results of that type, though what lies in between is of another.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opsplice.frontends.source import ModuleSource
from opsplice.matchers import engine
from opsplice.matchers.graph import compile_pattern
from opsplice.matchers.views import element_type
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loader import load_text

FILES = sorted((Path(__file__).parent / "half").glob("*.mlir"))
# What lies within a layer, or is the same one said in other words.
WITHIN = {
    "attention_kt": {"attention", "softmax"},
    "gelu": {"erfc_by_polynomials"},
    "layernorm": {"standardize"},
    "linear_bias_kn": {"linear_kn"},
    "linear_bias_nk": {"linear_kn", "linear_nk", "linear_bias_kn"},
    "linear_bias_relu_nk": {
        "linear_kn",
        "linear_nk",
        "linear_bias_kn",
        "linear_bias_nk",
        "linear_bias_relu_kn",
        "relu",
    },
    "silu": {"sigmoid"},
    "swiglu_kn": {"linear_kn", "silu", "sigmoid"},
}


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_each_layer_is_found_with_inputs_and_results_of_its_type(path):
    library = load_text('import "opsplice:nn"')
    graphs = [g for p in library.patterns.values() for g in compile_pattern(p, library.patterns, library.types)]
    half = path.stem.rpartition("_")[2]
    functions = re.findall(r"^func\.func (?:public )?@(\w+)", path.read_text(encoding="utf-8"), re.M)
    found: dict[str, list[str]] = {name: [] for name in functions}
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        for match in engine.find(compilation.module, graphs, near_misses=0).matches:
            function = match.function.removesuffix("$async")
            element = match.types["T"]
            assert element_type(match.roots[0]) == element
            assert all(match.inputs[name].element == element for name in match.shapes)
            if element == half:
                found[function].append(match.pattern.name)
    assert len(found) > 10
    for function, names in found.items():
        assert names.count(function) == 1, f"{function}: {names}"
        assert set(names) - {function} <= WITHIN.get(function, set()), f"{function}: {names}"


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

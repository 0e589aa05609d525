"""C's mathematics in f64, which IREE calls and does not have."""

import math

import numpy as np
import pytest

import opsplice

SMALL, LARGE = np.linspace(0.01, 0.99, 19), np.linspace(-1e6, 1e9, 19)
OPS = {
    "math.acos %a": np.arccos(SMALL),
    "math.asin %a": np.arcsin(SMALL),
    "math.atan %b": np.arctan(LARGE),
    "math.atan2 %b, %a": np.arctan2(LARGE, SMALL),
    "math.cbrt %b": np.cbrt(LARGE),
    "math.ceil %b": np.ceil(LARGE),
    "math.cos %b": np.cos(LARGE),
    "math.erf %a": np.vectorize(math.erf)(SMALL),
    "math.erfc %a": np.vectorize(math.erfc)(SMALL),
    "math.log10 %a": np.log10(SMALL),
    "math.log2 %a": np.log2(SMALL),
    "math.sin %b": np.sin(LARGE),
    "math.tan %a": np.tan(SMALL),
    "math.tanh %a": np.tanh(SMALL),
    "math.trunc %b": np.trunc(LARGE),
    "arith.remf %b, %a": np.fmod(LARGE, SMALL),
}
FLAGS = ["--iree-input-demote-f64-to-f32=false"]


def function(name, inputs, ops):
    results = ", ".join(["tensor<19xf64>"] * len(ops))
    return f"""
    func.func @{name}({inputs}) -> ({results}) {{
      %empty = tensor.empty() : tensor<19xf64>
      %constant = arith.constant dense<0.7> : tensor<19xf64>
      %made:{len(ops)} = linalg.generic {{
          indexing_maps = [{", ".join(["affine_map<(a) -> (a)>"] * (2 + len(ops)))}], iterator_types = ["parallel"]}}
          ins({"%x, %y" if inputs else "%constant, %constant"} : tensor<19xf64>, tensor<19xf64>)
          outs({", ".join(["%empty"] * len(ops))} : {results}) {{
      ^bb0(%a: f64, %b: f64, {", ".join(f"%o{n}: f64" for n in range(len(ops)))}):
        {"; ".join(f"%v{n} = {op} : f64" for n, op in enumerate(ops)).replace("; ", chr(10))}
        linalg.yield {", ".join(f"%v{n}" for n in range(len(ops)))} : {", ".join(["f64"] * len(ops))}
      }} -> ({results})
      return {", ".join(f"%made#{n}" for n in range(len(ops)))} : {results}
    }}"""


TWO = "%x: tensor<19xf64>, %y: tensor<19xf64>"


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(function("all", TWO, OPS) + function("constant", "", ["math.sin %a"]), flags=FLAGS)


def test_numbers_are_those_of_c(program):
    for (op, wanted), found in zip(OPS.items(), program.run("all", SMALL, LARGE), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=5e-16, err_msg=op)


def test_what_depends_on_constants_is_computed_when_the_program_runs(program):
    np.testing.assert_allclose(program.run("constant"), np.full(19, np.sin(0.7)), rtol=5e-16)


def test_other_cpus_get_code_of_their_own():
    opsplice.compile(function("sine", TWO, ["math.sin %a"]), flags=FLAGS, targets=["aarch64"])

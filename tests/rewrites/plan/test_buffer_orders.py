"""Dense buffers whose dims lie in an order of their own, `as [k, m]`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opsplice
from tests.rewrites.plan.test_strided_buffers import ORDERS, SPEC, filled, ordered

TURNED = (
    SPEC.replace("x: f32[...b, m, k] strided", "x: f32[...b, m, k] as [...b, k, m] copied")
    .replace("w: f32[...b, n, k] strided", "w: f32[...b, n, k] as [k, ...b, n] copied")
    .replace("-> f32[...b, m, n] strided", "-> f32[...b, m, n] as [m, ...b, n] copied")
    .replace("  grid (b)\n", "")
)
CODE = """
#include <stddef.h>
void dots(const float *x, const float *w, float *out, size_t b, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < b * m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[(i / m * k + l) * m + i % m] * w[(l * b + i / m) * n + j];
      out[(i % m * b + i / m) * n + j] = sum;
    }
}
"""
SIZES = dict(zip("abcmnk", (2, 3, 4, 3, 5, 4), strict=True))
# What the kernel takes as it lies, with one batch dim and with two.
AS_IT_LIES = ["bkm,kbn->mbn", "abkm,kabn->mabn"]


def test_every_order_is_copied_into_that_of_the_kernel_but_its_own(pairs):
    orders = [*ORDERS.split(), *AS_IT_LIES, AS_IT_LIES[0], "bmk,bkn->bmn"]
    programs = [ordered(at, each, SIZES, dynamic=at >= len(orders) - 2) for at, each in enumerate(orders)]
    made = pairs("\n".join(programs), TURNED, {"dots.c": CODE})
    report = {replacement.function.lstrip("@"): replacement.views for replacement in made.spliced.report.replacements}
    assert report.keys() == {f"f{at}" for at in range(len(orders))}
    for number, each in enumerate(orders):
        inputs = [filled(*(SIZES[letter] for letter in name)) for name in re.split(",|->", each)[:2]]
        (found,) = made.run(f"f{number}", *inputs)
        np.testing.assert_array_equal(found, np.einsum(each, *inputs))
        is_copied = any("copies" in view or "order" in view for view in report[f"f{number}"])
        assert is_copied == (each not in AS_IT_LIES), f"{each}: {report[f'f{number}']}"


def test_what_lies_in_the_order_of_the_kernel_is_passed_as_it_is(tmp_path):
    (tmp_path / "k.splice").write_text(TURNED.replace(" copied", ""))
    (tmp_path / "dots.c").write_text(CODE)
    orders = [AS_IT_LIES[0], "bmk,kbn->mbn", "bkm,kbn->bmn", AS_IT_LIES[1]]
    programs = "\n".join(ordered(at, each, SIZES, dynamic=at == 3) for at, each in enumerate(orders))
    module, report = opsplice.transform(programs, [tmp_path / "k.splice"])
    assert [replacement.function for replacement in report.replacements] == ["f0", "f3"]
    text = str(module).partition("@f1")[0]
    assert "flow.dispatch" in text
    assert re.findall(r"linalg\.generic|linalg\.transpose|tensor\.extract", text) == []
    assert [kept.reason for kept in report.kept] == [
        "x is tensor<3x3x4xf32> of argument 0 of @f1, transposed, strides ...b 12, k 1, m 4, and kernel dots takes it "
        "dense as [...b, k, m]: `copied` makes a copy",
        "its dims are in another order than kernel dots writes them in: make the result `strided`, or `copied` for a "
        "copy",
    ]


ROWS = """
kernel rows(x: f32[m, n] as [n, m]{words}) -> f32[m, n] as [n, m]{words} {{ cpu "rows.py" as command }}
pattern p(x: tensor<m x n x f32>) {{ negf(exp(x)) }}
replace p with rows({x})
"""
PROGRAM = """
func.func @f(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %e = math.exp %x : tensor<3x4xf32>
  %n = arith.negf %e : tensor<3x4xf32>
  return %n : tensor<3x4xf32>
}"""


@pytest.mark.parametrize("x", ["x", "addf(x, x)"])
def test_a_command_gets_arrays_with_the_dims_in_memory(pairs, x):
    """Also of what the rule computes."""
    code = "def rows(x, out):\n    assert x.shape == out.shape == (4, 3)\n    out[...] = -np.exp(x)\n"
    made = pairs(PROGRAM, ROWS.format(words=" copied", x=x), {"rows.py": f"import numpy as np\n{code}"})
    assert made.replaced == 1
    given = filled(3, 4)
    found = np.asarray(made.spliced.run("f", given))
    np.testing.assert_allclose(found, -np.exp(given if x == "x" else given + given), rtol=1e-6)


TURNED_PRODUCT = """
kernel product(a: f32[m, k], b: f32[k, n]) -> f32[n, m] { cpu "product.py" as command }
pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { contract[m k, k n -> n m](a, b) }
replace p with product(a, b)
"""
PRODUCTS = """
func.func @turned(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %p = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>) outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %r = linalg.transpose ins(%p : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0]
  return %r : tensor<4x2xf32>
}
func.func @plain(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %p = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>) outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}"""


def test_a_product_may_be_said_in_the_order_that_a_program_turns_it_to(pairs):
    code = "import numpy as np\ndef product(a, b, out):\n    out[...] = (a @ b).T\n"
    made = pairs(PRODUCTS, TURNED_PRODUCT, {"product.py": code})
    assert [each.function.lstrip("@") for each in made.spliced.report.replacements] == ["turned"]
    a, b = filled(2, 3), filled(3, 4)
    np.testing.assert_allclose(np.asarray(made.spliced.run("turned", a, b)), (a @ b).T, rtol=1e-6)

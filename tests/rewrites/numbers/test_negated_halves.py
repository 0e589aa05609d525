"""Negated parts of tensors beside other parts of them, which IREE takes for halves of columns."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends.source import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.numbers import negated_halves

FUNCTION = """
func.func @{name}(%x: {whole}, %rows: index, %h: index) -> {whole} {{
  %c1 = arith.constant 1 : index
  %width = tensor.dim %x, %c1 : {whole}
  %rest = arith.subi %width, %h : index
  %a = tensor.extract_slice %x{negated} : {whole} to {part}
  %b = tensor.extract_slice %x{other} : {whole} to {part}
  %e = tensor.empty({sizes}) : {part}
  %n = linalg.generic {{indexing_maps = [affine_map<(m, n) -> ({read})>, affine_map<(m, n) -> (m, n)>],
                       iterator_types = ["parallel", "parallel"]}}
      ins(%a : {part}) outs(%e : {part}) {{
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  }} -> {part}
  {joined}
  return %r : {whole}
}}
"""
CONCAT = "%r = tensor.concat dim(1) %n, %b : ({part}, {part}) -> {whole}"
INSERTED = """%p = tensor.insert_slice %n into %x[0, 0] [4, 4] [1, 1] : {part} into {whole}
  %r = tensor.insert_slice %b into %p[0, 4] [4, 4] [1, 1] : {part} into {whole}"""
FIRST, SECOND = "[0, 0] [4, 4] [1, 1]", "[0, 4] [4, 4] [1, 1]"


def function(
    name: str, negated: str, other: str, joined: str = CONCAT, *, width: int | None = 8, read: str = "m, n"
) -> str:
    """A program that negates a part of its input and puts it beside another one. width: None where sizes are open."""
    whole, part, sizes = f"tensor<4x{width}xf32>", "tensor<4x4xf32>", ""
    if width is None:
        whole, part, sizes = "tensor<?x?xf32>", "tensor<?x?xf32>", "%rows, %rest"
    joined = joined.format(whole=whole, part=part)
    return FUNCTION.format(
        name=name, negated=negated, other=other, joined=joined, whole=whole, part=part, sizes=sizes, read=read
    )


OF_PART = """
func.func @of_part(%x: tensor<?x8xf32>, %at: index, %rows: index) -> tensor<?x8xf32> {
  %p = tensor.extract_slice %x[%at, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %a = tensor.extract_slice %p[0, 4] [%rows, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
  %b = tensor.extract_slice %p[0, 0] [%rows, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
  %e = tensor.empty(%rows) : tensor<?x4xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.negf %i : f32
    linalg.yield %m : f32
  } -> tensor<?x4xf32>
  %r = tensor.concat dim(1) %n, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
"""
HALVES = function("halves", SECOND, FIRST)
UNEVEN = ("[0, %h] [%rows, %rest] [1, 1]", "[0, 0] [%rows, %h] [1, 1]")
LAST_ROWS = ("[%rows, %h] [%rows, %rest] [1, 1]", "[%rows, 0] [%rows, %h] [1, 1]")
OTHERS = {
    "swapped": (function("swapped", FIRST, SECOND), lambda x: np.hstack((-x[:, :4], x[:, 4:]))),
    "shifted": (function("shifted", "[0, 2] [4, 4] [1, 1]", FIRST), lambda x: np.hstack((-x[:, 2:6], x[:, :4]))),
    "stepped": (
        function("stepped", "[0, 1] [4, 4] [1, 2]", "[0, 0] [4, 4] [1, 2]"),
        lambda x: np.hstack((-x[:, 1::2], x[:, ::2])),
    ),
    "turned": (function("turned", SECOND, FIRST, read="n, m"), lambda x: np.hstack((-x[:, 4:].T, x[:, :4]))),
    "inserted": (
        function("inserted", SECOND, FIRST, INSERTED, width=10),
        lambda x: np.hstack((-x[:, 4:8], x[:, :4], x[:, 8:])),
    ),
    "uneven": (function("uneven", *UNEVEN, width=None), lambda x: np.hstack((-x[:, 3:], x[:, :3]))),
    "of_part": (OF_PART, lambda x: np.hstack((-x[2:3, 4:], x[2:3, :4]))),
    "last_rows": (function("last_rows", *LAST_ROWS, width=None), lambda x: np.hstack((-x[2:, 4:], x[2:, :4]))),
}
# The width of the input, and what the program is given besides.
SIZES = {"inserted": (10, 4, 4), "uneven": (7, 4, 3), "last_rows": (8, 2, 4), "of_part": (8, 2, 1)}


@pytest.fixture(scope="module")
def program() -> opsplice.Program:
    return opsplice.compile(HALVES + "".join(text for text, _ in OTHERS.values()))


@pytest.mark.parametrize("name", OTHERS)
def test_they_are_what_was_cut(program: opsplice.Program, name: str) -> None:
    width, rows, half = SIZES.get(name, (8, 4, 4))
    x = np.random.default_rng(0).standard_normal((4, width), np.float32)
    np.testing.assert_array_equal(program.run(name, x, rows, half), OTHERS[name][1](x))


def test_halves_stay() -> None:
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=HALVES))
        negated_halves.hide(compilation.module)
        assert ops_in(compilation.module.operation, "arith.negf")

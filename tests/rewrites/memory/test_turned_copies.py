"""What an elementwise op makes is transposed or repeated from memory, where its last dim does not stay the last."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.memory import crossed_reads, turned_copies

# The order of the dims, and whether it is read from memory.
ORDERS = [((0, 3, 1, 2), True), ((1, 3, 0, 2), True), ((2, 0, 1, 3), False), ((0, 2, 1, 3), False)]


def turned(order: tuple[int, ...], *, scaled: bool = True) -> str:
    """x times a number for each element of its last dim, with its dims in an order."""
    sizes = ("?", "6", "5", "4")
    kind, made = ("x".join(each) for each in (sizes, [sizes[axis] for axis in order]))
    return f"""#each = affine_map<(a, b, c, d) -> (a, b, c, d)>
#last = affine_map<(a, b, c, d) -> (d)>
func.func @main(%x: tensor<{kind}xf32>, %s: tensor<4xf32>) -> tensor<{made}xf32> {{
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<{kind}xf32>
  %room = tensor.empty(%n) : tensor<{kind}xf32>
  %y = linalg.generic {{indexing_maps = [#each, #last, #each], iterator_types = [{", ".join(['"parallel"'] * 4)}]}}
    ins(%x, %s : tensor<{kind}xf32>, tensor<4xf32>) outs(%room : tensor<{kind}xf32>) {{
    ^bb0(%one: f32, %other: f32, %out: f32):
      %product = arith.mulf %one, %other : f32
      linalg.yield %product : f32
  }} -> tensor<{kind}xf32>
  %all = tensor.empty(%n) : tensor<{made}xf32>
  %r = linalg.transpose ins(%{"y" if scaled else "x"} : tensor<{kind}xf32>) outs(%all : tensor<{made}xf32>)
    permutation = {list(order)}
  return %r : tensor<{made}xf32>
}}"""


@pytest.mark.parametrize(("order", "is_held"), ORDERS)
def test_what_is_computed_is_transposed_from_memory(order: tuple[int, ...], is_held: bool) -> None:
    """In one dispatch it took fifteen times as long."""
    for scaled in (True, False):
        with Compilation() as compilation:
            compilation.load(ModuleSource(content=turned(order, scaled=scaled)))
            compilation.run_to(crossed_reads.PHASE)
            turned_copies.part(compilation.module)
            assert str(compilation.module).count("util.optimization_barrier") == int(is_held and scaled)


@pytest.mark.parametrize("order", [order for order, _ in ORDERS])
def test_the_numbers_are_those_of_numpy(order: tuple[int, ...]) -> None:
    program = opsplice.compile(turned(order))
    x, s = (np.random.default_rng(3).standard_normal(shape, np.float32) for shape in ((3, 6, 5, 4), (4,)))
    np.testing.assert_array_equal(program.run("main", x, s), (x * s).transpose(order))


def enlarged(last: bool) -> str:
    """Two numbers for each of x times one for its row: along a new last dim, or along one in front of it."""
    made, repeated = (
        ("tensor<5x4x2xf32>", "(a, b, c) -> (a, b)") if last else ("tensor<5x2x4xf32>", "(a, b, c) -> (a, c)")
    )
    return f"""func.func @main(%x: tensor<5x4xf32>, %s: tensor<5xf32>) -> {made} {{
  %room = tensor.empty() : tensor<5x4xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>,
      affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}}
    ins(%x, %s : tensor<5x4xf32>, tensor<5xf32>) outs(%room : tensor<5x4xf32>) {{
    ^bb0(%one: f32, %other: f32, %out: f32):
      %product = arith.mulf %one, %other : f32
      linalg.yield %product : f32
  }} -> tensor<5x4xf32>
  %all = tensor.empty() : {made}
  %r = linalg.generic {{indexing_maps = [affine_map<{repeated}>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]}}
    ins(%y : tensor<5x4xf32>) outs(%all : {made}) {{
    ^bb0(%one: f32, %out: f32):
      linalg.yield %one : f32
  }} -> {made}
  return %r : {made}
}}"""


@pytest.mark.parametrize("last", [True, False])
def test_what_is_computed_is_repeated_from_memory(last: bool) -> None:
    """It was computed for each time that it is repeated, one element after the other."""
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=enlarged(last)))
        compilation.run_to(crossed_reads.PHASE)
        turned_copies.part(compilation.module)
        assert str(compilation.module).count("util.optimization_barrier") == int(last)
    x, s = (np.random.default_rng(3).standard_normal(shape, np.float32) for shape in ((5, 4), (5,)))
    found = opsplice.compile(enlarged(last)).run("main", x, s)
    np.testing.assert_array_equal(
        found, np.repeat((x * s[:, None])[:, :, None], 2, axis=2).transpose(0, *((1, 2) if last else (2, 1)))
    )

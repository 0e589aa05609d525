"""Sums over several dims of products whose factors lack a dim: IREE does not compile them in one step."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.memory import split_sums


def function(name: str, read: str, sizes: str, kept: str = "", rows: str = "?x6", mask: bool = False) -> str:
    """The sum of a product of x and w, whose element is at `read`; `kept` is a loop that is not summed over.

    mask: x is one of bits.
    """
    kind, result = f"tensor<{rows}xf32>", "tensor<5xf32>" if kept else "tensor<f32>"
    loops = ", ".join(["i", "j", "k"][: rows.count("x") + 1])
    summed = ", ".join('"parallel"' if loop == kept else '"reduction"' for loop in loops.split(", "))
    zero, parallel = "%c0 = arith.constant 0 : index", ", ".join(['"parallel"'] * len(loops.split(", ")))
    dim, given = "%d" if "?" in rows else "", kind.replace("f32", "i1") if mask else kind
    return f"""func.func @{name}(%x: {given}, %w: tensor<{sizes}>) -> {result} {{
  {zero}
  %zero = arith.constant 0.0 : f32
  {f"%d = tensor.dim %x, %c0 : {kind}" if dim else ""}
  %e = tensor.empty({dim}) : {kind}
  %p = linalg.generic {{
    indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({read})>,
                     affine_map<({loops}) -> ({loops})>], iterator_types = [{parallel}]
  }} ins(%x, %w : {given}, tensor<{sizes}>) outs(%e : {kind}) {{
  ^bb0(%a: {"i1" if mask else "f32"}, %b: f32, %o: f32):
    {"%c = arith.uitofp %a : i1 to f32" if mask else ""}
    %m = arith.mulf {"%c" if mask else "%a"}, %b : f32
    linalg.yield %m : f32
  }} -> {kind}
  %s = tensor.empty() : {result}
  %z = linalg.fill ins(%zero : f32) outs(%s : {result}) -> {result}
  %r = linalg.generic {{
    indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({kept})>], iterator_types = [{summed}]
  }} ins(%p : {kind}) outs(%z : {result}) {{
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  }} -> {result}
  return %r : {result}
}}
"""


SPLIT = (
    function("row", "j", "6xf32")
    + function("inner", "i, k", "4x7xf32", rows="4x6x7")
    + function("kept", "k", "7xf32", kept="i", rows="5x6x7")
    + function("column", "i", "?xf32")
    + function("outer", "i, k", "4x5xf32", kept="k", rows="4x6x5")
    + function("masked", "i, k", "4x5xf32", kept="k", rows="4x6x5", mask=True)
)
WHOLE = function("planes", "j, k", "6x7xf32", kept="i", rows="5x6x7")


def test_numbers() -> None:
    program = opsplice.compile(SPLIT + WHOLE)
    random = np.random.default_rng(0)
    x, cube, five = (random.standard_normal(shape, np.float32) for shape in ((3, 6), (4, 6, 7), (5, 6, 7)))
    row, column, inner, last, plane, outer, block = (
        random.standard_normal(shape, np.float32) for shape in ((6,), (3,), (4, 7), (7,), (6, 7), (4, 5), (4, 6, 5))
    )
    for name, given, factor, expected in (
        ("row", x, row, (x * row).sum()),
        ("column", x, column, (x.T * column).sum()),
        ("inner", cube, inner, (cube * inner[:, None]).sum()),
        ("kept", five, last, (five * last).sum((1, 2))),
        ("outer", block, outer, (block * outer[:, None]).sum((0, 1))),
        ("masked", block > 0, outer, ((block > 0) * outer[:, None]).sum((0, 1))),
        ("planes", five, plane, (five * plane).sum((1, 2))),
    ):
        np.testing.assert_allclose(program.run(name, given, factor), expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_only_such_sums_are_split() -> None:
    counts = []
    for edit in (lambda _module: None, split_sums.split):
        with Compilation(("--iree-hal-target-backends=llvm-cpu",)) as compilation:
            compilation.load(ModuleSource(content=SPLIT + WHOLE))
            run(compilation, [Step(split_sums.PHASE, "split", edit)], to=split_sums.PHASE)
            counts.append(len(ops_in(compilation.module.operation, "linalg.generic")))
    assert counts[1] - counts[0] == 6


def test_an_op_without_results_is_no_sum() -> None:
    """The compiler leaves such ops where nobody reads a result."""
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) {
      ^bb0(%a: f32):
        linalg.yield
      }
      return %x : tensor<4xf32>
    }"""
    with ir.Context():
        split_sums.split(ir.Module.parse(text))


def test_a_number_from_outside_of_a_sum_is_no_operand_of_it() -> None:
    """It has a place among the function's arguments, not among those of the body."""
    text = """func.func @main(%a: tensor<4x5xf32>, %p: tensor<1xf32>, %q: tensor<1xf32>, %s: f32) -> tensor<f32> {
      %e = tensor.empty() : tensor<f32>
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>],
          iterator_types = ["reduction", "reduction"]} ins(%a : tensor<4x5xf32>) outs(%f : tensor<f32>) {
      ^bb0(%x: f32, %o: f32):
        %m = arith.mulf %x, %s : f32
        %t = arith.addf %o, %m : f32
        linalg.yield %t : f32
      } -> tensor<f32>
      return %r : tensor<f32>
    }"""
    a, one = np.arange(20, dtype=np.float32).reshape(4, 5), np.zeros(1, np.float32)
    assert opsplice.compile(text).run("main", a, one, one, np.float32(2)) == 2 * a.sum()

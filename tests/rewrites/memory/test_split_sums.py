"""Sums over several dims of products whose factors lack a dim: IREE does not compile them in one step."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.memory import split_sums


def function(name: str, read: str, sizes: str, kept: str = "", rows: str = "?x6") -> str:
    """The sum of a product of x and w, whose element is at `read`; `kept` is a loop that is not summed over."""
    kind, result = f"tensor<{rows}xf32>", "tensor<5xf32>" if kept else "tensor<f32>"
    loops = ", ".join(["i", "j", "k"][: rows.count("x") + 1])
    summed = ", ".join('"parallel"' if loop == kept else '"reduction"' for loop in loops.split(", "))
    zero, parallel = "%c0 = arith.constant 0 : index", ", ".join(['"parallel"'] * len(loops.split(", ")))
    dim = "%d" if "?" in rows else ""
    return f"""func.func @{name}(%x: {kind}, %w: tensor<{sizes}>) -> {result} {{
  {zero}
  %zero = arith.constant 0.0 : f32
  {f"%d = tensor.dim %x, %c0 : {kind}" if dim else ""}
  %e = tensor.empty({dim}) : {kind}
  %p = linalg.generic {{
    indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({read})>,
                     affine_map<({loops}) -> ({loops})>], iterator_types = [{parallel}]
  }} ins(%x, %w : {kind}, tensor<{sizes}>) outs(%e : {kind}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
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
)
WHOLE = function("column", "i", "?xf32") + function("planes", "j, k", "6x7xf32", kept="i", rows="5x6x7")


def test_numbers() -> None:
    program = opsplice.compile(SPLIT + WHOLE)
    random = np.random.default_rng(0)
    x, cube, five = (random.standard_normal(shape, np.float32) for shape in ((3, 6), (4, 6, 7), (5, 6, 7)))
    row, column, inner, last, plane = (
        random.standard_normal(shape, np.float32) for shape in ((6,), (3,), (4, 7), (7,), (6, 7))
    )
    for name, given, factor, expected in (
        ("row", x, row, (x * row).sum()),
        ("column", x, column, (x.T * column).sum()),
        ("inner", cube, inner, (cube * inner[:, None]).sum()),
        ("kept", five, last, (five * last).sum((1, 2))),
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
    assert counts[1] - counts[0] == 3


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

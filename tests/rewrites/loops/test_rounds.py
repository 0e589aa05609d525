"""Loops that do several rounds at a time: the numbers are those of one round after the other."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.loops import rounds

# Two states change places in each round, of which one is a row that is written into a third. `%t` is the same in each.
MODEL = """
func.func @NAME(%x: tensor<8x5xf32>, %w: tensor<5x5xf32>, %m: tensor<40x5xf32>)
    -> (tensor<1x5xf32>, tensor<1x5xf32>, tensor<40x5xf32>) {
  %first = arith.constant FIRST : index
  %end = arith.constant END : index
  %step = arith.constant STEP : index
  %eight = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %a = tensor.extract_slice %x[0, 0] [1, 5] [1, 1] : tensor<8x5xf32> to tensor<1x5xf32>
  %b = tensor.extract_slice %x[1, 0] [1, 5] [1, 1] : tensor<8x5xf32> to tensor<1x5xf32>
  %r:3 = scf.for %i = %first to %end step %step iter_args(%p = %a, %q = %b, %rows = %m)
      -> (tensor<1x5xf32>, tensor<1x5xf32>, tensor<40x5xf32>) {
    %e = tensor.empty() : tensor<5x5xf32>
    %g = linalg.fill ins(%zero : f32) outs(%e : tensor<5x5xf32>) -> tensor<5x5xf32>
    %t = linalg.matmul ins(%w, %w : tensor<5x5xf32>, tensor<5x5xf32>) outs(%g : tensor<5x5xf32>) -> tensor<5x5xf32>
    %o = tensor.empty() : tensor<1x5xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x5xf32>) -> tensor<1x5xf32>
    %y = linalg.matmul ins(%p, %t : tensor<1x5xf32>, tensor<5x5xf32>) outs(%f : tensor<1x5xf32>) -> tensor<1x5xf32>
    %at = arith.remui %i, %eight : index
    %row = tensor.extract_slice %x[%at, 0] [1, 5] [1, 1] : tensor<8x5xf32> to tensor<1x5xf32>
    %s = arith.addf %y, %row : tensor<1x5xf32>
    %new = tensor.insert_slice %s into %rows[%i, 0] [1, 5] [1, 1] : tensor<1x5xf32> into tensor<40x5xf32>
    scf.yield %q, %s, %new : tensor<1x5xf32>, tensor<1x5xf32>, tensor<40x5xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<1x5xf32>, tensor<1x5xf32>, tensor<40x5xf32>
}
"""
# No round, one, as many as are done at once, and some more than a multiple of these; how many is known, or an argument.
RANGES = {
    "none": range(3, 3),
    "one": range(2, 3),
    "two": range(0, 4, 2),
    "some": range(1, 8),
    "many": range(3, 36),
    "far": range(2, 39, 3),
}
OPEN = range(5)


def model() -> str:
    texts = [MODEL.replace("NAME(", "open(%end: index, ").replace("%end = arith.constant END : index", "")]
    texts[0] = texts[0].replace("FIRST", "0").replace("STEP", "1")
    for name, each in RANGES.items():
        text = MODEL.replace("NAME", name).replace("FIRST", str(each.start))
        texts.append(text.replace("END", str(each.stop)).replace("STEP", str(each.step)))
    return "".join(texts)


def test_numbers() -> None:
    program = opsplice.compile(model())
    random = np.random.default_rng(0)
    x, w, m = (random.standard_normal(shape, np.float32) for shape in ((8, 5), (5, 5), (40, 5)))
    w *= np.float32(0.4)
    for name, each in (RANGES | {"open": OPEN}).items():
        p, q, rows = x[:1].astype(np.float64), x[1:2].astype(np.float64), m.astype(np.float64)
        for i in each:
            s = p @ w.astype(np.float64) @ w + x[i % 8]
            rows[i] = s
            p, q = q, s
        sizes = [OPEN.stop] if name == "open" else []
        for got, wanted in zip(program.run(name, *sizes, x, w, m), (p, q, rows), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def bodies() -> list[list[str]]:
    """The ops of a round of each loop that is left."""
    with Compilation(("--iree-hal-target-backends=llvm-cpu",)) as compilation:
        compilation.load(ModuleSource(content=model()))
        run(compilation, [Step(rounds.PHASE, "join", rounds.join)], to=rounds.PHASE)
        loops = ops_in(compilation.module.operation, "scf.for")
        return [[op.operation.name for op in loop.regions[0].blocks[0].operations] for loop in loops]


def test_several_rounds_are_done_at_a_time(bodies: list[list[str]]) -> None:
    """Of 33 rounds 11. Loops of fewer are gone, and one of which that is not known does one at a time."""
    single, joined = bodies
    assert [name for name in joined if name.startswith("flow.")] == ["flow.dispatch", "flow.tensor.update"] * 11
    assert [name for name in single if name.startswith("flow.")] == ["flow.dispatch", "flow.tensor.update"]


def test_numbers_are_computed_before_what_the_device_does(bodies: list[list[str]]) -> None:
    first = bodies[1].index("flow.dispatch")
    assert not [name for name in bodies[1][first:] if name.startswith("arith.")]

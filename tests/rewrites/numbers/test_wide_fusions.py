"""Elementwise ops on many values of open sizes: as many dispatches as they need, and no more."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.memory import crossed_reads
from opsplice.rewrites.numbers import wide_fusions

KIND = {True: "tensor<?xf32>", False: "tensor<5xf32>"}


def summed(count: int, is_open: bool) -> str:
    """Sums of the columns of so many multiples of a matrix, all added up."""
    row = KIND[is_open]
    square = row.replace("<", "<?x" if is_open else "<5x")
    lines = [f"%t0 = linalg.fill ins(%zero : f32) outs(%room : {row}) -> {row}"]
    for n in range(1, count + 1):
        lines += [
            f"%s{n} = arith.constant {n}.0 : f32",
            f"%f{n} = linalg.fill ins(%s{n} : f32) outs(%all : {square}) -> {square}",
            f"%m{n} = arith.mulf %x, %f{n} : {square}",
            f"%r{n} = linalg.reduce {{ arith.addf }} ins(%m{n} : {square}) outs(%zeros : {row}) dimensions = [0]",
            f"%t{n} = arith.addf %t{n - 1}, %r{n} : {row}",
        ]
    return f"""func.func @main(%x: {square}) -> {row} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %size = tensor.dim %x, %first : {square}
  %room = tensor.empty({"%size" if is_open else ""}) : {row}
  %all = tensor.empty({"%size, %size" if is_open else ""}) : {square}
  %zeros = linalg.fill ins(%zero : f32) outs(%room : {row}) -> {row}
  {chr(10).join(lines)}
  return %t{count} : {row}
}}"""


def test_a_sum_of_more_values_than_a_dispatch_may_read():
    program = opsplice.compile(summed(36, is_open=True))
    for size in (3, 7):
        x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
        np.testing.assert_allclose(program.run("main", x), 36 * 37 / 2 * x.sum(0), rtol=1e-5)


@pytest.mark.parametrize(("count", "is_open", "held"), [(8, True, 0), (36, False, 0), (36, True, 1), (60, True, 2)])
def test_what_fits_stays_together(count: int, is_open: bool, held: int):
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=summed(count, is_open)))
        compilation.run_to(crossed_reads.PHASE)
        wide_fusions.part(compilation.module)
        assert str(compilation.module).count("util.optimization_barrier") == held

"""Loops that end with other values than they begin with: right numbers, and no change to others."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.memory import loop_types

# Three doublings, and what the last one was with `%x` added; each loop hands on other values than it begins with.
MODEL = """
func.func @NAME(%x: TYPE, %y: TYPE) -> (TYPE, TYPE) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %r:GIVEN = scf.while (%i = %zero, %a = %y) : (i32, TYPE) -> (KINDS) {
    %n = arith.addi %i, %one : i32
    %twice = arith.addf %a, %a : TYPE
    %sum = arith.addf %twice, %x : TYPE
    %go = arith.cmpi slt, %n, %three : i32
    scf.condition(%go) VALUES : KINDS
  } do {
  ^bb0(ARGUMENTS):
    scf.yield YIELDED : i32, TYPE
  }
  return %r#SUM, %r#TWICE : TYPE, TYPE
}
"""
LOOPS = {
    "more": ("%n, %sum, %twice", "i32, TYPE, TYPE", "%c0, %c2", (1, 2)),
    "in_order": ("%n, %twice, %sum", "i32, TYPE, TYPE", "%c0, %c1", (2, 1)),
    "turned": ("%sum, %twice, %n", "TYPE, TYPE, i32", "%c2, %c1", (0, 1)),
    # The number is begun with alone: the loop ends after one more round.
    "fewer": ("%sum, %twice", "TYPE, TYPE", "%three, %c1", (0, 1)),
}


def loop(name: str, kind: str) -> str:
    values, kinds, yielded, (at_sum, at_twice) = LOOPS[name]
    count = len(values.split(","))
    arguments = ", ".join(f"%c{n}: {each}" for n, each in enumerate(kinds.split(", ")))
    text = MODEL.replace("GIVEN", str(count)).replace("VALUES", values).replace("ARGUMENTS", arguments)
    text = text.replace("KINDS", kinds).replace("YIELDED", yielded)
    text = text.replace("#SUM", f"#{at_sum}").replace("#TWICE", f"#{at_twice}")
    return text.replace("NAME", f"{name}_{'open' if '?' in kind else 'fixed'}").replace("TYPE", kind)


KINDS = {"fixed": "tensor<6x5xf32>", "open": "tensor<?x5xf32>"}


def test_numbers() -> None:
    # In a process of its own: IREE ends the process at some of these without the change.
    program = opsplice.compile("".join(loop(name, kind) for name in LOOPS for kind in KINDS.values()), isolate=True)
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((6, 5), np.float32) for _ in range(2))
    for name in LOOPS:
        for kind in KINDS:
            total, twice = program.run(f"{name}_{kind}", x, y)
            rounds = 2 if name == "fewer" else 3
            np.testing.assert_allclose(twice, y * 2**rounds, rtol=1e-6, err_msg=f"{name}_{kind}")
            np.testing.assert_allclose(total, y * 2**rounds + x, rtol=1e-5, atol=1e-5, err_msg=f"{name}_{kind}")


def test_a_value_of_jax_that_no_round_reads() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    import opsplice.jax

    def descend(start, target):
        """The place after some steps, and what the loss was at the last one."""

        def step(state):
            count, place, _ = state
            return count + 1, place - 0.1 * (place - target), ((place - target) ** 2).sum()

        return jax.lax.while_loop(lambda state: (state[0] < 9) & (state[1].sum() < 1e6), step, (0, start, 0.0))[1:]

    random = np.random.default_rng(1)
    start, target = (random.standard_normal(7, np.float32) for _ in range(2))
    for found, wanted in zip(opsplice.jax.jit(descend, specs=[])(start, target), descend(start, target), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_loops_of_one_list_stay() -> None:
    same = loop("more", KINDS["fixed"]).replace("%i = %zero, %a = %y", "%i = %zero, %b = %x, %a = %y")
    same = same.replace("(i32, tensor<6x5xf32>) ->", "(i32, tensor<6x5xf32>, tensor<6x5xf32>) ->")
    same = same.replace("scf.yield %c0, %c2 : i32,", "scf.yield %c0, %c1, %c2 : i32, tensor<6x5xf32>,")
    same = same.replace("arith.addf %twice, %x", "arith.addf %twice, %b")
    with Compilation(("--iree-hal-target-backends=llvm-cpu",)) as compilation:
        compilation.load(ModuleSource(content=same))
        run(compilation, [Step(loop_types.PHASE, "align", loop_types.align)], to=loop_types.PHASE)
        assert len(ops_in(compilation.module.operation, "scf.while")) == 1
        assert not ops_in(compilation.module.operation, "util.optimization_barrier")


def test_a_condition_that_is_carried() -> None:
    """IREE knows it to be true in the body, and took away again what holds its place."""
    program = opsplice.compile(
        """
        func.func @doubled(%x: tensor<f64>) -> tensor<f64> {
          %zero = arith.constant 0 : i64
          %one = arith.constant 1 : i64
          %two = arith.constant 2.0 : f64
          %most = arith.constant 100.0 : f64
          %number = tensor.extract %x[] : tensor<f64>
          %begins = arith.cmpf olt, %number, %most : f64
          %r:2 = scf.while (%go = %begins, %i = %zero, %a = %x) : (i1, i64, tensor<f64>) -> (i64, tensor<f64>) {
            scf.condition(%go) %i, %a : i64, tensor<f64>
          } do {
          ^bb0(%j: i64, %b: tensor<f64>):
            %n = arith.addi %j, %one : i64
            %element = tensor.extract %b[] : tensor<f64>
            %made = arith.mulf %element, %two : f64
            %twice = tensor.from_elements %made : tensor<f64>
            %goes = arith.cmpf olt, %made, %most : f64
            scf.yield %goes, %n, %twice : i1, i64, tensor<f64>
          }
          return %r#1 : tensor<f64>
        }
        """,
        flags=["--iree-input-demote-f64-to-f32=false"],
        isolate=True,
    )
    np.testing.assert_array_equal(program.run("doubled", np.float64(1.5)), 192.0)

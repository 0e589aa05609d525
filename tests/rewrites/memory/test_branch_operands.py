"""What branches hand over: numbers of 32 and 64 bits, which IREE mixes up, and one reference for several values."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import compile_module
from opsplice.runtime.loaded_program import load_program

PROGRAMS = """
func.func @either(%n: i32, %a: i64, %b: i64) -> (i64, i32) {
  %zero = arith.constant 0 : i32
  %negative = arith.cmpi slt, %n, %zero : i32
  cf.cond_br %negative, ^bb1, ^bb2
^bb1:
  %m = arith.muli %n, %n : i32
  cf.br ^bb3(%a, %m : i64, i32)
^bb2:
  %k = arith.addi %n, %n : i32
  cf.br ^bb3(%b, %k : i64, i32)
^bb3(%x: i64, %y: i32):
  %z = arith.muli %x, %x : i64
  return %z, %y : i64, i32
}
func.func @floats(%s: f32, %n: i32, %a: f64, %b: f64) -> (f64, f32, i32) {
  %zero = arith.constant 0 : i32
  %negative = arith.cmpi slt, %n, %zero : i32
  cf.cond_br %negative, ^bb1(%a, %s, %n : f64, f32, i32), ^bb1(%b, %s, %zero : f64, f32, i32)
^bb1(%x: f64, %y: f32, %m: i32):
  %z = arith.mulf %x, %x : f64
  %more = arith.addf %y, %y : f32
  %again = arith.cmpi ne, %m, %zero : i32
  %next = arith.addi %m, %m : i32
  cf.cond_br %again, ^bb2, ^bb3
^bb2:
  cf.br ^bb1(%z, %more, %zero : f64, f32, i32)
^bb3:
  return %z, %more, %next : f64, f32, i32
}
"""
# Three values that a turn makes in one buffer.
LOOP = """
func.func @main(%a: tensor<7xf32>, %b: tensor<7xf32>, %h: tensor<7xf16>, %i: tensor<7xi32>)
    -> (tensor<7xf32>, tensor<7xf16>, tensor<7xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:4 = stablehlo.while(%n = %zero, %x = %a, %y = %h, %z = %i)
      : tensor<i32>, tensor<7xf32>, tensor<7xf16>, tensor<7xi32>
  cond {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %limit = stablehlo.constant dense<50.0> : tensor<f32>
    %largest = stablehlo.reduce(%b init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
    %is_large = stablehlo.compare GT, %largest, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %is_first = stablehlo.compare LT, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %go = stablehlo.or %is_first, %is_large : tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %m = stablehlo.add %n, %one : tensor<i32>
    %p = stablehlo.add %b, %b : tensor<7xf32>
    %q = stablehlo.add %y, %y : tensor<7xf16>
    %s = stablehlo.add %z, %z : tensor<7xi32>
    stablehlo.return %m, %p, %q, %s : tensor<i32>, tensor<7xf32>, tensor<7xf16>, tensor<7xi32>
  }
  return %r#1, %r#2, %r#3 : tensor<7xf32>, tensor<7xf16>, tensor<7xi32>
}
"""
FLAGS = ["--iree-input-demote-f64-to-f32=false"]


@pytest.fixture(scope="module")
def program() -> opsplice.Program:
    return opsplice.compile(ModuleSource(content=PROGRAMS), flags=FLAGS)


@pytest.mark.parametrize("n", [5, -5])
def test_integers(program, n):
    assert program.run("either", n, 1000, 2000) == ([1000**2, n * n] if n < 0 else [2000**2, n + n])


@pytest.mark.parametrize("n", [5, -5])
def test_floats(program, n):
    got = program.run("floats", np.float32(0.5), n, np.float64(3), np.float64(7))
    assert got == ([81.0, 2.0, 0] if n < 0 else [49.0, 1.0, 0])


def test_without_the_mend_iree_gets_them_wrong():
    """If this fails, IREE's registers are right, and `branch_operands` can go."""
    stock = load_program(compile_module(ModuleSource(content=PROGRAMS), [], FLAGS).vmfb)
    assert stock.call("either", -5, 1000, 2000) == [625, 25]


def test_a_reference_that_is_handed_over_for_several_values():
    a, b = np.arange(14, dtype=np.float32).reshape(2, 7)
    h, i = np.arange(7, dtype=np.float16), np.arange(7, dtype=np.int32)
    for made, wanted in zip(opsplice.compile(LOOP).run("main", a, b, h, i), (2 * b, 2 * h, 2 * i), strict=True):
        np.testing.assert_array_equal(made, wanted)

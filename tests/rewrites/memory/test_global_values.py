"""Globals hold what was stored in them last, each in memory of its own."""

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice import interpreter
from opsplice.rewrites.ir import emit

GLOBALS = """
util.global private mutable @now = dense<1> : tensor<4xi32>
util.global private mutable @before = dense<2> : tensor<4xi32>
func.func @swap() {
  %now = util.global.load @now : tensor<4xi32>
  %before = util.global.load @before : tensor<4xi32>
  util.global.store %before, @now : tensor<4xi32>
  util.global.store %now, @before : tensor<4xi32>
  return
}
func.func @read() -> (tensor<4xi32>, tensor<4xi32>) {
  %now = util.global.load @now : tensor<4xi32>
  %before = util.global.load @before : tensor<4xi32>
  return %now, %before : tensor<4xi32>, tensor<4xi32>
}
"""
STEP = """
util.global private mutable @now = dense<1> : tensor<4xi32>
util.global private mutable @before = dense<2> : tensor<4xi32>
func.func @step(%x: tensor<4xi32>) -> tensor<4xi32> {
  %now = util.global.load @now : tensor<4xi32>
  %before = util.global.load @before : tensor<4xi32>
  util.global.store %now, @before : tensor<4xi32>
  util.global.store %x, @now : tensor<4xi32>
  return %before : tensor<4xi32>
}
"""


def test_globals_that_swap_their_values_stay_two():
    program = opsplice.compile(GLOBALS)
    found = [[int(each[0]) for each in program.run("read")]]
    for _ in range(3):
        program.run("swap")
        found.append([int(each[0]) for each in program.run("read")])
    assert found == [[1, 2], [2, 1], [1, 2], [2, 1]]


def test_a_global_that_holds_what_another_one_held_is_late():
    program = opsplice.compile(STEP)
    assert [int(program.run("step", np.full(4, n, np.int32))[0]) for n in (5, 6, 7, 8)] == [2, 1, 5, 6]


CONSTANTS = """
util.global private mutable @given = dense<[1, 2, 3, 4]> : tensor<4xi32>
util.global private mutable @computed = dense<[1, 2, 3, 4]> : tensor<4xi32>
util.global private @factor = dense<[10, 20, 30, 40]> : tensor<4xi32>
func.func @run() -> (tensor<4xi32>, tensor<4xi32>) {
  %given = util.global.load @given : tensor<4xi32>
  %computed = util.global.load @computed : tensor<4xi32>
  %factor = util.global.load @factor : tensor<4xi32>
  %new = arith.constant dense<[7, 8, 9, 10]> : tensor<4xi32>
  %twice = arith.addi %factor, %factor : tensor<4xi32>
  util.global.store %new, @given : tensor<4xi32>
  util.global.store %twice, @computed : tensor<4xi32>
  return %given, %computed : tensor<4xi32>, tensor<4xi32>
}
"""


def test_a_global_that_is_given_constants_holds_its_first_value_until_then():
    program = opsplice.compile(CONSTANTS)
    found = [[each.tolist() for each in program.run("run")] for _ in range(2)]
    assert found == [[[1, 2, 3, 4]] * 2, [[7, 8, 9, 10], [20, 40, 60, 80]]]


# A step that writes a row into each of two globals, and what each of them then is.
ROWS = """
func.func @step(%x: tensor<1x4xi32>, %y: tensor<1x4xi32>) -> tensor<3x3xi32> {
  %at = arith.constant dense<1> : tensor<1x1xi64>
  %k = util.global.load @k : tensor<3x4xi32>
  %v = util.global.load @v : tensor<3x4xi32>
  %p = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%x, %at : tensor<1x4xi32>, tensor<1x1xi64>) outs(%k : tensor<3x4xi32>) {
  ^bb0(%new: i32, %old: i32):
    iree_linalg_ext.yield %new : i32
  } -> tensor<3x4xi32>
  %q = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%y, %at : tensor<1x4xi32>, tensor<1x1xi64>) outs(%v : tensor<3x4xi32>) {
  ^bb0(%new: i32, %old: i32):
    iree_linalg_ext.yield %new : i32
  } -> tensor<3x4xi32>
  util.global.store %p, @k : tensor<3x4xi32>
  util.global.store %q, @v : tensor<3x4xi32>
  %zeros = arith.constant dense<0> : tensor<3x3xi32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
      affine_map<(m, n, k) -> (m, n)>]
      ins(%p, %q : tensor<3x4xi32>, tensor<3x4xi32>) outs(%zeros : tensor<3x3xi32>) -> tensor<3x3xi32>
  return %r : tensor<3x3xi32>
}
"""
EQUAL = """
util.global private mutable @k = dense<2> : tensor<3x4xi32>
util.global private mutable @v = dense<2> : tensor<3x4xi32>
"""
STARTS = {
    "one constant": EQUAL,
    "one of many numbers": EQUAL.replace("dense<2>", f"dense<{np.arange(12).reshape(3, 4).tolist()}>"),
    "initializers": """
util.global private mutable @k : tensor<3x4xi32>
util.global private mutable @v : tensor<3x4xi32>
util.initializer {
  %twos = arith.constant dense<2> : tensor<3x4xi32>
  util.global.store %twos, @k : tensor<3x4xi32>
  util.return
}
util.initializer {
  %twos = arith.constant dense<2> : tensor<3x4xi32>
  util.global.store %twos, @v : tensor<3x4xi32>
  util.return
}
""",
}
# What a function stores in both before the step.
GIVEN = {
    "one value": "%y = arith.addi %x, %x : TYPE\nutil.global.store %y, @k : TYPE\nutil.global.store %y, @v : TYPE\n",
    "two that are equal": "%y = arith.addi %x, %x : TYPE\n%z = arith.addi %x, %x : TYPE\n"
    "util.global.store %y, @k : TYPE\nutil.global.store %z, @v : TYPE\n",
    "what the other one holds": "%y = util.global.load @k : TYPE\nutil.global.store %y, @v : TYPE\n",
}


def step_twice(source: str, *before: np.ndarray) -> list[bool]:
    """Whether a program computes what the interpreter does."""
    program = opsplice.compile(source)
    context = ir.Context()
    emit.load_dialects(context)
    exact = interpreter.Program(ir.Module.parse(source, context))
    for each in before:
        exact.call("give", [each])
        program.run("give", each)
    x, y = np.full((1, 4), 3, np.int32), np.full((1, 4), 5, np.int32)
    calls = [(x, y), (y + 1, x - 7)]
    return [bool((program.run("step", *given) == exact.call("step", given)[0]).all()) for given in calls]


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS.keys())
def test_globals_that_begin_with_one_value_are_written_apart(starts):
    assert step_twice(starts + ROWS) == [True, True]


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN.keys())
def test_globals_that_are_given_one_value_are_written_apart(given):
    give = f"func.func @give(%x: TYPE) {{\n{given}return\n}}\n".replace("TYPE", "tensor<3x4xi32>")
    assert step_twice(EQUAL + give + ROWS, np.arange(12, dtype=np.int32).reshape(3, 4)) == [True, True]


IN_LOOPS = """
util.global private mutable @total = dense<1> : tensor<4xi32>
util.global private mutable @last = dense<0> : tensor<4xi32>
func.func @run(%x: tensor<4xi32>, %turns: i32) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.index_cast %turns : i32 to index
  %before = util.global.load @total : tensor<4xi32>
  %p = scf.for %k = %zero to %n step %one iter_args(%v = %x) -> (tensor<4xi32>) {
    util.global.store %v, @last : tensor<4xi32>
    %stored = util.global.load @last : tensor<4xi32>
    %is_first = arith.cmpi eq, %k, %zero : index
    scf.if %is_first {
      util.global.store %x, @total : tensor<4xi32>
    }
    %total = util.global.load @total : tensor<4xi32>
    %sum = arith.addi %total, %stored : tensor<4xi32>
    util.global.store %sum, @total : tensor<4xi32>
    scf.yield %sum : tensor<4xi32>
  }
  %after = util.global.load @total : tensor<4xi32>
  %last = util.global.load @last : tensor<4xi32>
  %all = arith.addi %before, %p : tensor<4xi32>
  return %all, %after, %last : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}
"""


def test_globals_in_loops_and_branches_hold_what_was_stored_last():
    program = opsplice.compile(IN_LOOPS)
    total, last = 1, 0
    for x, turns in [(2, 0), (3, 3), (4, 1), (5, 2)]:
        before, v = total, x
        for k in range(turns):
            last = v
            v = total = (total if k else x) + last
        found = program.run("run", np.full(4, x, np.int32), turns)
        assert [each.tolist() for each in found] == [[each] * 4 for each in (before + v, total, last)]

"""What loops and branches hand on is not overwritten while something else still reads it."""

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.memory import carried_values, kept_values

ROW = "tensor<4xi32>"


def rows(dynamic: bool) -> str:
    return "tensor<?x4xi32>" if dynamic else "tensor<5x4xi32>"


def written(name: str, value: str, at: int) -> str:
    """`name` is `value` with the row of number `at` replaced."""
    return f"{name} = tensor.insert_slice %row into {value}[{at}, 0] [1, 4] [1, 1] : {ROW} into TYPE\n"


def replaced(value: np.ndarray, *at: int) -> np.ndarray:
    value = value.copy()
    value[list(at)] = -1
    return value


FOR = "scf.for %k = %zero to %n step %one"

# By name: a body that makes %p and %q of %x, of a row and of a number of turns; and what they are.
PROGRAMS = {
    "one value for two": (
        f"%p, %q = {FOR} iter_args(%a = %x, %b = %x) -> (TYPE, TYPE) {{\n"
        f"{written('%c', '%a', 0)}{written('%d', '%b', 1)}scf.yield %c, %d : TYPE, TYPE\n}}\n",
        lambda x, n: (replaced(x, 0), replaced(x, 1)) if n else (x, x),
    ),
    "one result for two": (
        "%y = arith.addi %x, %x : TYPE\n"
        f"%p, %q = {FOR} iter_args(%a = %x, %b = %y) -> (TYPE, TYPE) {{\n"
        f"{written('%c', '%a', 0)}scf.yield %c, %c : TYPE, TYPE\n}}\n",
        lambda x, n: (replaced(x, 0), replaced(x, 0)) if n else (x, 2 * x),
    ),
    "read in the loop": (
        "%q = arith.addi %x, %x : TYPE\n"
        f"%p = {FOR} iter_args(%a = %q) -> (TYPE) {{\n"
        f"{written('%c', '%a', 0)}%d = arith.addi %c, %q : TYPE\nscf.yield %d : TYPE\n}}\n",
        lambda x, n: (np.concatenate([2 * x[:1] - (1 if n else 0), 2 * (n + 1) * x[1:]]), 2 * x),
    ),
    "one branch": (
        "%q = arith.addi %x, %x : TYPE\n"
        f"%p = scf.if %more -> (TYPE) {{\n"
        f"{written('%c', '%q', 0)}scf.yield %c : TYPE\n}} else {{\nscf.yield %q : TYPE\n}}\n",
        lambda x, n: (replaced(2 * x, 0) if n else 2 * x, 2 * x),
    ),
    "while": (
        f"%m, %p, %q = scf.while (%k = %zero, %a = %x, %b = %x) : (index, TYPE, TYPE) -> (index, TYPE, TYPE) {{\n"
        f"%on = arith.cmpi slt, %k, %n : index\nscf.condition(%on) %k, %a, %b : index, TYPE, TYPE\n}} do {{\n"
        f"^bb0(%k: index, %a: TYPE, %b: TYPE):\n{written('%c', '%a', 0)}%next = arith.addi %k, %one : index\n"
        f"scf.yield %next, %c, %b : index, TYPE, TYPE\n}}\n",
        lambda x, n: (replaced(x, 0) if n else x, x),
    ),
}


def function(name: str, body: str, dynamic: bool) -> str:
    return f"""
func.func @"{name}"(%given: TYPE, %row: {ROW}, %turns: i32) -> (TYPE, TYPE) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.index_cast %turns : i32 to index
  %more = arith.cmpi sgt, %n, %zero : index
  %x = arith.addi %given, %given : TYPE
  {body}
  {written("%r", "%p", 2)}
  {written("%s", "%q", 3)}
  return %r, %s : TYPE, TYPE
}}""".replace("TYPE", rows(dynamic))


@pytest.mark.parametrize("dynamic", [False, True])
def test_two_values_that_were_one_are_overwritten_apart(dynamic):
    programs = {name: each for name, each in PROGRAMS.items() if not dynamic or name != "one result for two"}
    program = opsplice.compile("".join(function(name, body, dynamic) for name, (body, _) in programs.items()))
    given, row = np.arange(20, dtype=np.int32).reshape(5, 4), np.full(4, -1, np.int32)
    for name, (_, values) in programs.items():
        for turns in range(3):
            first, second = values(2 * given, turns)
            results = program.run(name, given, row, turns, device="local-sync")
            expected = replaced(first, 2), replaced(second, 3)
            np.testing.assert_array_equal(results, expected, err_msg=f"{name}, {turns} turns")


def test_a_value_that_nothing_else_has_is_not_copied():
    body = f"%p = {FOR} iter_args(%a = %x) -> (TYPE) {{\n{written('%c', '%a', 0)}scf.yield %c : TYPE\n}}\n"
    source = function("alone", body + "%q = arith.addi %p, %p : TYPE\n", dynamic=False)
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=source))
        compilation.run_to(kept_values.PHASE)
        before = str(compilation.module)
        carried_values.part(compilation.module)
        assert "flow.tensor.update" in before
        assert str(compilation.module) == before


OPEN = "tensor<?x?xf32>"
# Loops that begin with one of two values, and go on with what lies alone in its memory.
LOOPS = {
    "for": f"""%p = {FOR} iter_args(%v = %b) -> ({OPEN}) {{
      STEP
      scf.yield %h : {OPEN}
    }}""",
    "while": f"""%t, %p = scf.while (%k = %zero, %v = %b) : (index, {OPEN}) -> (index, {OPEN}) {{
      %on = arith.cmpi slt, %k, %n : index
      scf.condition(%on) %k, %v : index, {OPEN}
    }} do {{
    ^bb0(%k: index, %v: {OPEN}):
      STEP
      %next = arith.addi %k, %one : index
      scf.yield %next, %h : index, {OPEN}
    }}""",
}


def product(name: str, left: str, right: str) -> str:
    return f"%{name} = linalg.matmul ins(%{left}, %{right} : {OPEN}, {OPEN}) outs(%zeros : {OPEN}) -> {OPEN}\n"


def on_matrices(name: str) -> str:
    return f"""
func.func @"{name}"(%x: {OPEN}, %turns: i32) -> {OPEN} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %nothing = arith.constant 0.0 : f32
  %n = arith.index_cast %turns : i32 to index
  %size = tensor.dim %x, %zero : {OPEN}
  %empty = tensor.empty(%size, %size) : {OPEN}
  %zeros = linalg.fill ins(%nothing : f32) outs(%empty : {OPEN}) -> {OPEN}
  {product("a", "x", "x")}{product("b", "a", "x")}
  {LOOPS[name].replace("STEP", product("h", "v", "a"))}
  {product("r", "p", "x")}
  return %r : {OPEN}
}}"""


def test_a_loop_begins_with_the_value_of_open_sizes_that_it_is_given():
    program = opsplice.compile("".join(map(on_matrices, LOOPS)))
    x = np.random.default_rng(0).standard_normal((7, 7)).astype(np.float32) / 3
    for name in LOOPS:
        for turns in range(3):
            expected = np.linalg.matrix_power(x, 4 + 2 * turns)
            np.testing.assert_allclose(program.run(name, x, turns), expected, atol=1e-6, err_msg=f"{name}, {turns}")


# Two values that may lie in one piece of memory; nothing reads the first behind the loop.
LOOP_OVER_ROWS = """
func.func @rows(%x: tensor<?x4xf32>, %start: tensor<4xf32>, %turns: i32) -> tensor<?x6xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %nothing = arith.constant 0.0 : f32
  %n = arith.index_cast %turns : i32 to index
  %h, %p = scf.for %k = %zero to %n step %one iter_args(%h = %start, %v = %x) -> (tensor<4xf32>, tensor<?x4xf32>) {
    %row = tensor.extract_slice %v[%k, 0] [1, 4] [1, 1] : tensor<?x4xf32> to tensor<4xf32>
    %next = arith.addf %h, %row : tensor<4xf32>
    %new = tensor.insert_slice %next into %v[%k, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<?x4xf32>
    scf.yield %next, %new : tensor<4xf32>, tensor<?x4xf32>
  }
  %r = tensor.pad %p low[0, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %nothing : f32
  } : tensor<?x4xf32> to tensor<?x6xf32>
  return %r : tensor<?x6xf32>
}
"""
# A loop that begins with a constant, which nothing reads behind it.
TOTALS = """
func.func @totals(%x: tensor<4xf32>, %turns: i32) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %nothing = arith.constant 0.0 : f32
  %n = arith.index_cast %turns : i32 to index
  %empty = tensor.empty() : tensor<f32>
  %filled = linalg.fill ins(%nothing : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %t, %p = scf.for %k = %zero to %n step %one iter_args(%t = %filled, %v = %x) -> (tensor<f32>, tensor<4xf32>) {
    %sum = linalg.reduce { arith.addf } ins(%v : tensor<4xf32>) outs(%t : tensor<f32>) dimensions = [0]
    %wide = linalg.broadcast ins(%sum : tensor<f32>) outs(%v : tensor<4xf32>) dimensions = [0]
    %new = arith.addf %v, %wide : tensor<4xf32>
    scf.yield %sum, %new : tensor<f32>, tensor<4xf32>
  }
  %r = arith.addf %p, %p : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


@pytest.mark.parametrize("device", ["local-task", "local-sync"])
def test_memory_is_there_as_long_as_it_is_read(device):
    program = opsplice.compile(LOOP_OVER_ROWS + TOTALS)
    x, start = np.arange(20, dtype=np.float32).reshape(5, 4), np.ones(4, np.float32)
    for turns in (0, 3, 0, 1):
        rows = np.vstack([np.cumsum(np.vstack([start, x[:turns]]), 0)[1:], x[turns:]])
        found = program.run("rows", x, start, turns, device=device)
        np.testing.assert_array_equal(found, np.pad(rows, ((0, 0), (1, 1))), err_msg=f"{turns}")
        total, each = np.float32(0), start
        for _ in range(turns):
            total += each.sum()
            each = each + total
        np.testing.assert_array_equal(program.run("totals", start, turns, device=device), 2 * each, err_msg=f"{turns}")

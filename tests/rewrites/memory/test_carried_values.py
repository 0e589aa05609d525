"""What loops and branches hand on is not overwritten while something else still reads it."""

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice import interpreter
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.ir import emit
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

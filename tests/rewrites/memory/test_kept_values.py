"""What IREE computes in place changes neither a caller's arrays nor what other ops read."""

import itertools
import random

import numpy as np
import pytest

import opsplice
from opsplice.frontends.source import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.memory import kept_values

MODEL = """
func.func @scatter(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<32x8xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<4x8xf32>, tensor<4x1xi64>) outs(%x : tensor<32x8xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<32x8xf32>
  return %r : tensor<32x8xf32>
}
func.func @insert(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<32x8xf32> {
  %r = tensor.insert_slice %u into %x[4, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<32x8xf32>
  return %r : tensor<32x8xf32>
}
func.func @product(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %rows = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<32x8xf32> to tensor<4x4xf32>
  %other = tensor.extract_slice %u[0, 0] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %r = linalg.matmul ins(%other, %other : tensor<4x4xf32>, tensor<4x4xf32>) outs(%rows : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func @sum(%x: tensor<?x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x8xf32>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<?x8xf32> into tensor<?xf32>
  %line = tensor.extract_slice %u[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %k = arith.constant 8 : index
  %m = arith.muli %n, %k : index
  %two = tensor.expand_shape %flat [[0, 1]] output_shape [%n, %k] : tensor<?xf32> into tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%line : tensor<8xf32>) outs(%two : tensor<?x?xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL)


def aligned(array):
    """At a multiple of 64 bytes, where IREE takes memory as it is."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    placed = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


@pytest.mark.parametrize("function", ["scatter", "insert", "product", "sum"])
def test_what_a_program_computes_in_place_leaves_its_input(program, function):
    given = [np.ones((32, 8), np.float32), np.array([[1], [5], [2], [31]]), np.full((4, 8), 2, np.float32)]
    arrays = list(map(aligned, given))
    call = program.direct(function)
    first, second = (np.array(call(arrays)[0]) for _ in range(2))
    for array, before in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, program.run(function, *given))


# Of 600, those that IREE alone computes wrong, and some others.
SEEDS = [41, 122, 135, 180, 189, 202, 226, 236, 251, 293, 346, 362, 464, 509, 537, 556, 582, *range(8)]
ROWS, LENGTH = 4, 8
ROW, WHOLE = f"tensor<{LENGTH}xf32>", f"tensor<{ROWS}x{LENGTH}xf32>"

SCATTER = f"""
  %at_{{name}} = arith.constant dense<{{at}}> : tensor<1x1xi32>
  %row_{{name}} = tensor.expand_shape {{row}} [[0, 1]] output_shape [1, {LENGTH}] : {ROW} into tensor<1x{LENGTH}xf32>
  %{{name}} = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%row_{{name}}, %at_{{name}} : tensor<1x{LENGTH}xf32>, tensor<1x1xi32>) outs({{tensor}} : {WHOLE}) {{{{
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  }}}} -> {WHOLE}"""


def overwriting(seed: int) -> tuple[str, list[np.ndarray]]:
    """A function that overwrites rows of tensors, and reads them before and after; and its results for ones."""
    draw, lines = random.Random(seed), []
    tensors, rows = {"%x": np.ones((ROWS, LENGTH), np.float32)}, {"%row": np.ones(LENGTH, np.float32)}
    for name in (f"%v{n}" for n in range(draw.randint(4, 12))):
        tensor, row = draw.choice(list(tensors)[-2:]), draw.choice(list(rows)[-2:])
        match draw.choice(["sum", "update", "scatter", "add to row", "add"]):
            case "sum":
                rows[name] = tensors[tensor].sum(0)
                lines.append(f"{name} = linalg.reduce {{arith.addf}} ins({tensor} : {WHOLE}) outs(%zeros : {ROW})")
                lines.append("  dimensions = [0]")
            case "update" | "scatter" as kind:
                at = draw.randrange(ROWS)
                tensors[name] = np.concatenate([tensors[tensor][:at], rows[row][None], tensors[tensor][at + 1 :]])
                if kind == "scatter":
                    lines.append(SCATTER.format(name=name[1:], row=row, tensor=tensor, at=at))
                    continue
                lines.append(f"{name} = tensor.insert_slice {row} into {tensor}[{at}, 0] [1, {LENGTH}] [1, 1]")
                lines.append(f"  : {ROW} into {WHOLE}")
            case "add to row":
                rows[name] = rows[row] + 1
                lines.append(f"{name} = arith.addf {row}, %one : {ROW}")
            case _:
                tensors[name] = tensors[tensor] + 1
                lines.append(f"{name}_sum = arith.addf {tensor}, %ones : {WHOLE}")
                lines.append(f"{name} = util.optimization_barrier {name}_sum : {WHOLE}")  # one memory for all readers
    last = [list(rows)[len(rows) // 2], list(rows)[-1], list(tensors)[-1]]
    constants = [f"%zeros = arith.constant dense<0.0> : {ROW}", f"%one = arith.constant dense<1.0> : {ROW}"]
    constants.append(f"%x = util.optimization_barrier %given : {WHOLE}")
    constants.append(f"%ones = arith.constant dense<1.0> : {WHOLE}")
    body = "\n  ".join([*constants, *lines, f"return {', '.join(last)} : {ROW}, {ROW}, {WHOLE}"])
    text = f"func.func @f{seed}(%given: {WHOLE}, %row: {ROW}) -> ({ROW}, {ROW}, {WHOLE}) {{\n  {body}\n}}\n"
    return text, [(rows | tensors)[name] for name in last]


def test_each_op_reads_what_stood_there_before_it_was_overwritten():
    texts, expected = zip(*map(overwriting, SEEDS), strict=True)
    program = opsplice.compile("".join(texts))
    for seed, text, values in zip(SEEDS, texts, expected, strict=True):
        results = program.run(f"f{seed}", np.ones((ROWS, LENGTH), np.float32), np.ones(LENGTH, np.float32))
        for result, value in zip(results, values, strict=True):
            np.testing.assert_array_equal(result, value, err_msg=text)


RETURNED = f"""
func.func @reshaped(%given: {WHOLE}, %row: {ROW}) -> ({WHOLE}, {WHOLE}, {ROW}) {{
  %x = arith.negf %given : {WHOLE}
  %r = tensor.insert_slice %row into %x[0, 0] [1, {LENGTH}] [1, 1] : {ROW} into {WHOLE}
  %other = arith.addf %row, %row : {ROW}
  return %r, %x, %other : {WHOLE}, {WHOLE}, {ROW}
}}
func.func @behind_a_barrier(%given: {WHOLE}, %row: {ROW}) -> ({WHOLE}, {WHOLE}, {ROW}) {{
  %x = util.optimization_barrier %given : {WHOLE}
  %r = tensor.insert_slice %row into %x[0, 0] [1, {LENGTH}] [1, 1] : {ROW} into {WHOLE}
  return %r, %given, %row : {WHOLE}, {WHOLE}, {ROW}
}}
"""


def test_what_is_returned_is_as_it_was_before_a_row_was_overwritten():
    """IREE makes a copy of what is reshaped, overwrites the original, and may do that first."""
    given, row = np.arange(32, dtype=np.float32).reshape(ROWS, LENGTH), np.full(LENGTH, 9, np.float32)
    program = opsplice.compile(RETURNED)
    for name, x, other in (("reshaped", -given, 2 * row), ("behind_a_barrier", given, row)):
        expected = np.concatenate([row[None], x[1:]]), x, other
        for result, value in zip(program.run(name, given, row), expected, strict=True):
            np.testing.assert_array_equal(result, value, err_msg=name)


def moving(name: str, source: int, target: int, added: int, dynamic: bool) -> str:
    """A function that doubles 5 rows, and writes 4 of them, with a number added, over the rows one before or behind."""
    rows, some = ("?", "?") if dynamic else ("5", "4")
    whole, part = f"tensor<{rows}x8xf32>", f"tensor<{some}x8xf32>"
    count, empty = ("%m", "%m") if dynamic else ("4", "")
    return f"""
func.func @{name}(%given: {whole}) -> {whole} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %given, %c0 : {whole}
  %m = arith.subi %n, %c1 : index
  %x = arith.addf %given, %given : {whole}
  %s = tensor.extract_slice %x[{source}, 0] [{count}, 8] [1, 1] : {whole} to {part}
  %e = tensor.empty({empty}) : {part}
  %u = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}} ins(%s : {part}) outs(%e : {part}) {{
  ^bb0(%old: f32, %out: f32):
    %k = arith.constant {added}.0 : f32
    %sum = arith.addf %old, %k : f32
    linalg.yield %sum : f32
  }} -> {part}
  %r = tensor.insert_slice {"%u" if added else "%s"} into %x[{target}, 0] [{count}, 8] [1, 1] : {part} into {whole}
  return %r : {whole}
}}"""


def test_rows_that_move_within_a_value_are_those_that_it_had():
    cases = list(itertools.product(((0, 1), (1, 0)), (0, 1), (False, True)))
    program = opsplice.compile("".join(moving(f"f{n}", *way, *case) for n, (way, *case) in enumerate(cases)))
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    for n, ((source, target), added, _) in enumerate(cases):
        expected = 2 * x
        expected[target : target + 4] = 2 * x[source : source + 4] + added
        np.testing.assert_array_equal(program.run(f"f{n}", x, device="local-sync"), expected, err_msg=str(cases[n]))


def test_what_is_made_of_very_many_parts_is_followed_to_its_first():
    """Deeper than Python calls itself."""
    parts = 2000
    lines = [
        f"%p{n + 1} = flow.tensor.update %row, %p{n}[%at] : tensor<8xf32> -> %p{n} as tensor<16xf32>"
        for n in range(parts)
    ]
    whole = f"%r = flow.tensor.update %p{parts}, %x[%at] : tensor<16xf32> -> %x as tensor<32xf32>"
    text = "\n".join(["%at = arith.constant 0 : index", *lines, whole, "util.return %r : tensor<32xf32>"])
    types = "%row: tensor<8xf32>, %p0: tensor<16xf32>, %x: tensor<32xf32>"
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=f"util.func @f({types}) -> tensor<32xf32> {{\n{text}\n}}"))
        kept_values.keep(compilation.module)
        assert "util.optimization_barrier" not in str(compilation.module)


TABLES = """
#same = affine_map<(i) -> (i)>
func.func @main(%x: tensor<2xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %tables:2 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]}
      outs(OUTS : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%old: f32, %other: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %float = arith.sitofp %j : i32 to f32
    %at = arith.addf %float, ADDED : f32
    %a = math.sin %at : f32
    %b = math.cos %at : f32
    linalg.yield %a, %b : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  %sine = tensor.insert_slice %x into %tables#0[1] [2] [1] : tensor<2xf32> into tensor<8xf32>
  %cosine = tensor.insert_slice %x into %tables#1[1] [2] [1] : tensor<2xf32> into tensor<8xf32>
  return %tables#0, %tables#1, %sine, %cosine : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
"""


@pytest.mark.parametrize("is_constant", [False, True])
def test_what_is_computed_of_nothing_is_not_computed_again_as_a_copy(is_constant):
    """IREE does it again in the place of a copy, and takes the first result for any."""
    outs, added = ("%start, %start", "%old") if is_constant else ("%empty, %empty", "%zero")
    flags = ["--iree-opt-const-eval=false"] if is_constant else []
    program = opsplice.compile(TABLES.replace("OUTS", outs).replace("ADDED", added), flags=flags)
    sine, cosine = np.sin(np.arange(8, dtype=np.float32)), np.cos(np.arange(8, dtype=np.float32))
    wanted = [sine, cosine, *(np.concatenate([each[:1], [7, 7], each[3:]]) for each in (sine, cosine))]
    for found, right in zip(program.run("main", np.full(2, 7, np.float32)), wanted, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-6)

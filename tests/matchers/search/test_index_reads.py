"""`take`: reads at computed indices hold if, and only if, they make the elements that numpy takes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from iree.compiler import ir

from opsplice.interpreter import evaluate

SIZE = 6
# What each pattern takes of a square table, so that only what is read tells patterns apart; and in how many programs.
EACH = np.arange(SIZE)
PATTERNS = {
    "i: tensor<m x i64>) { take[v n, m -> m n](w, i)": (lambda w, i: w[i], 6),
    "i: tensor<m x i64>) { take[n v, m -> m n](w, i)": (lambda w, i: w[:, i].T, 6),
    "i: tensor<n x i64>) { take[m v, n -> m n](w, i)": (lambda w, i: w[:, i], 6),
    "i: tensor<m x n x i64>) { take[v n, m n -> m n](w, i)": (lambda w, i: w[i, EACH], 3),
    "i: tensor<m x n x i64>) { take[m v, m n -> m n](w, i)": (lambda w, i: w[EACH[:, None], i], 3),
    "i: tensor<m x i64>, j: tensor<n x i64>) { take[v u, m, n -> m n](w, i, j)": (lambda w, i, j: w[i[:, None], j], 4),
    "i: tensor<m x n x i64>, j: tensor<m x i64>) { take[v u, m n, m -> m n](w, i, j)": (
        lambda w, i, j: w[i, j[:, None]],
        2,
    ),
}


def generic(name: str, at: tuple[str, str], transposed: bool, swapped: bool) -> str:
    """Elements of a table, or of its transpose, at loops m and n or at the indices i of m, j of n and k of both."""
    outs = "(n, m)" if swapped else "(m, n)"
    turned = "%w" if not transposed else "%t"
    return f"""
func.func @{name}(%w: tensor<6x6xf32>, %i: tensor<6xi64>, %j: tensor<6xi64>, %k: tensor<6x6xi64>) -> tensor<6x6xf32> {{
  %e = tensor.empty() : tensor<6x6xf32>
  %t = linalg.transpose ins(%w : tensor<6x6xf32>) outs(%e : tensor<6x6xf32>) permutation = [1, 0]
  %0 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (n)>,
      affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> {outs}>], iterator_types = ["parallel", "parallel"]}}
      ins(%i, %j, %k : tensor<6xi64>, tensor<6xi64>, tensor<6x6xi64>) outs(%e : tensor<6x6xf32>) {{
  ^bb0(%a: i64, %b: i64, %c: i64, %out: f32):
    %i.at = arith.index_cast %a : i64 to index
    %j.at = arith.index_cast %b : i64 to index
    %k.at = arith.index_cast %c : i64 to index
    %m.at = linalg.index 0 : index
    %n.at = linalg.index 1 : index
    %x = tensor.extract {turned}[%{at[0]}.at, %{at[1]}.at] : tensor<6x6xf32>
    linalg.yield %x : f32
  }} -> tensor<6x6xf32>
  return %0 : tensor<6x6xf32>
}}"""


def programs() -> dict[str, str]:
    pairs = [pair for pair in itertools.product("ijkmn", repeat=2) if pair[0] != pair[1]]
    cases = itertools.product(pairs, (False, True), (False, True))
    return {f"f{number}": generic(f"f{number}", *case) for number, case in enumerate(cases)}


def given() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    indices = {f"%{name}": random.permutation(SIZE) for name in "ij"}
    table = random.standard_normal((SIZE, SIZE)).astype(np.float32)
    return {"%w": table, **indices, "%k": random.integers(0, SIZE, (SIZE, SIZE))}


def values(match, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What a match's inputs are: arguments by their numbers, or the transposed table."""
    bound = [match.inputs[parameter.name].value for parameter in match.pattern.parameters]
    of_table = inputs["%w"].T
    return [list(inputs.values())[v.arg_number] if isinstance(v, ir.BlockArgument) else of_table for v in bound]


def table(pattern: str) -> str:
    """The dims of the table that a pattern takes from."""
    return " x ".join(pattern.partition("take[")[2].partition(",")[0].split())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_holds_is_what_numpy_takes(find, pattern):
    exact, count = PATTERNS[pattern]
    made, inputs = programs(), given()
    outcome = find("\n".join(made.values()), f"pattern p(w: tensor<{table(pattern)} x f32>, {pattern} }}")
    for match in outcome.found.matches:
        (result,) = evaluate(outcome.module, match.function, list(inputs.values()))
        np.testing.assert_array_equal(result, exact(*values(match, inputs)), made[match.function])
    assert outcome.count == count


def test_what_is_read_may_be_computed(find):
    """The table, and where it is read; a sum of the rows is none of the table, whatever the size."""
    text = generic("f", "in", transposed=False, swapped=False).replace("extract %w", "extract %y")
    text = text.replace("%t = ", "%y = math.absf %w : tensor<6x6xf32>\n  %t = ")
    spec = "pattern p(w: tensor<v x n x f32>, i: tensor<m x i64>) { take[v n, m -> m n](OF(w), i) }"
    assert find(text, spec.replace("OF", "absf")).inputs == {"w": "%arg0", "i": "%arg1"}
    assert find(text, spec.replace("OF", "negf")).count == 0
    summed = "pattern p(w: tensor<v x n x f32>) { reduce addf[v n -> n](w) }"
    assert find(text, summed).count == 0


def bounded(low: int, high: int, kind: str = "index") -> str:
    """A read of rows that keeps its index within numbers, in a type."""
    at, bounds = ("%i.at", "%i.in") if kind == "index" else ("%a", "%a.in")
    kept = f"""%low = arith.constant {low} : {kind}
    %high = arith.constant {high} : {kind}
    %above = arith.maxsi {at}, %low : {kind}
    {bounds} = arith.minsi %high, %above : {kind}
    """
    text = generic("f", "in", transposed=False, swapped=False)
    if kind != "index":
        text = text.replace("arith.index_cast %a ", "arith.index_cast %a.in ")
        return text.replace("%i.at = ", kept + "%i.at = ")
    return text.replace("%x = ", kept + "%x = ").replace("[%i.at,", "[%i.in,")


def test_an_index_that_is_kept_inside_is_read_as_it_is(find):
    """As IREE writes gathers with batch dims. Other bounds, and those that a program computes itself, are its own."""
    spec = "pattern p(w: tensor<v x n x f32>, i: tensor<m x i64>) { take[v n, m -> m n](w, i) }"
    assert find(bounded(0, SIZE - 1), spec).inputs == {"w": "%arg0", "i": "%arg1"}
    for other in (bounded(0, SIZE - 2), bounded(1, SIZE - 1), bounded(0, SIZE - 1, "i64")):
        assert find(other, spec).count == 0

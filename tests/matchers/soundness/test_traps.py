"""A hundred traps, the same each time; `make soak` sets thousands."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from opsplice.matchers.find import lookalikes
from opsplice.matchers.terms import constants
from tests.matchers.soundness.mutants import Change, changes, mutate
from tests.matchers.soundness.test_match_random import case
from tests.matchers.soundness.traps import Hunt, Prey, judge, parsed, preys

MEAN = """
func.func @mean(%x: tensor<?x9xf32>, %y: tensor<?x8xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %y, %c0 : tensor<?x8xf32>
  %n = tensor.dim %y, %c1 : tensor<?x8xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.reduce ins(%y : tensor<?x8xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
    (%in: f32, %out: f32) {
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
    }
  %wide = arith.index_cast %n : index to i64
  %count = arith.sitofp %wide : i64 to f32
  %mean = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  } ins(%sum, %count : tensor<?xf32>, f32) outs(%e : tensor<?xf32>) {
  ^bb0(%s: f32, %c: f32, %out: f32):
    %d = arith.divf %s, %c : f32
    linalg.yield %d : f32
  } -> tensor<?xf32>
  return %mean : tensor<?xf32>
}
"""
CHOICE = """
func.func @choice(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %k: tensor<4x4xi32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>,
                     affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %y, %k : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xi32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: i32, %out: f32):
    %two = arith.constant 2 : i32
    %is = arith.cmpi sgt, %c, %two : i32
    %half = arith.constant 0.5 : f32
    %h = arith.mulf %b, %half : f32
    %s = arith.select %is, %a, %h : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""
LINEAR = """
func.func @linear(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
  %c = linalg.matmul ins(%x, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%start : tensor<4x4xf32>) -> tensor<4x4xf32>
  %rows = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e : tensor<4x4xf32>) dimensions = [0]
  %s = arith.addf %c, %rows : tensor<4x4xf32>
  %low = arith.constant dense<0.0> : tensor<4x4xf32>
  %r = arith.maximumf %low, %s : tensor<4x4xf32>
  %most = arith.constant 0xFF800000 : f32
  %row = tensor.empty() : tensor<4xf32>
  %first = linalg.fill ins(%most : f32) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.reduce ins(%r : tensor<4x4xf32>) outs(%first : tensor<4xf32>) dimensions = [1]
    (%in: f32, %out: f32) {
      %y = arith.maximumf %in, %out : f32
      linalg.yield %y : f32
    }
  %wide = linalg.broadcast ins(%m : tensor<4xf32>) outs(%e : tensor<4x4xf32>) dimensions = [1]
  %d = arith.subf %r, %wide : tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}
"""
WRITTEN = {
    "mean": (MEAN, "pattern p(x: tensor<m x n x f32>) { divf(reduce addf[m n -> m](x), n) }"),
    "choice": (
        CHOICE,
        "pattern p(x: tensor<m x n x f32>, y: tensor<n x m x f32>, k: tensor<m x n x i32>) "
        "{ select(cmpi(k, 2) {predicate = sgt}, x, mulf(transpose[n m -> m n](y), 0.5)) }",
    ),
    "linear": (
        LINEAR,
        "pattern p(x: tensor<m x k x f32>, w: tensor<n x k x f32>, b: tensor<n x f32>) {\n"
        "r = maximumf(addf(contract[m k, n k -> m n](x, w), broadcast[n -> m n](b)), 0.0)\n"
        "subf(r, broadcast[m -> m n](reduce maximumf[m n -> m](r))) }",
    ),
}
RANDOM = [c for c in map(case, range(60)) if not c.wrong][:12]


def prey_of(name: str) -> Prey:
    (prey,) = preys(name, *WRITTEN[name], only="p")
    return prey


@pytest.mark.parametrize("name", list(WRITTEN))
def test_traps_in_programs_written_by_hand(name: str) -> None:
    """Every mutant."""
    hunt = Hunt()
    hunt.go(prey_of(name))
    assert not hunt.findings, str(hunt.findings[0])
    assert hunt.tally["no match"] > 20, hunt.tally


def test_a_hundred_traps_in_random_programs() -> None:
    hunt, rng = Hunt(), random.Random(1)
    for each in RANDOM:
        for prey in preys(each.name, each.text, each.pattern):
            hunt.go(prey, lambda found: rng.sample(found, 15))
    assert not hunt.findings, str(hunt.findings[0])
    assert hunt.tally["no match"] + hunt.tally["equal"] > 100, hunt.tally


def test_every_kind_of_change_is_made() -> None:
    """Each kind makes programs that still verify, so that it is the matchers that are asked."""
    made: Counter[str] = Counter()
    for text, _ in WRITTEN.values():
        for change in changes(parsed(text)):
            made[change.kind] += mutate(parsed(text), change)
    kinds = {"order", "operand", "cast", "op", "constant", "predicate", "attribute", "iterator", "map"}
    assert {kind for kind, count in made.items() if count} == kinds


def test_a_matcher_with_a_hole_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is one: where any constant counts as the one that is asked for, it says so."""
    prey = prey_of("choice")
    monkeypatch.setattr(constants, "same", lambda wanted, found, element: True)
    found = [judge(prey, each) for each in changes(parsed(CHOICE)) if each.kind == "constant"]
    told = [each for each in found if each is not None]
    assert len(told) >= 4
    assert isinstance(told[0].change, Change)
    assert "constant of arith.constant" in str(told[0])


def test_a_memory_with_a_hole_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant does not match by itself, but where the original was found before."""
    prey = prey_of("choice")
    monkeypatch.setattr(lookalikes, "_name_traits", lambda *_: lookalikes.WANTED | lookalikes.BARE)
    found = [judge(prey, each) for each in changes(parsed(CHOICE)) if each.kind in ("predicate", "map")]
    assert any(each is not None and each.told == "it matches beside the original" for each in found)

"""The engine finds what trying every pattern at every op finds, in the same order, and changes nothing."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from iree.compiler import ir

from opsplice.frontends.source import ModuleSource
from opsplice.matchers.dims.extents import atoms_in
from opsplice.matchers.explain.failure_words import words
from opsplice.matchers.find import engine
from opsplice.matchers.find.lookalikes import Recall
from opsplice.matchers.find.prefilter import Sieve
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.search.search import Search
from opsplice.matchers.terms.views import Views
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.libraries import OWN
from opsplice.spec_lang.loading.loader import load, load_text
from tests.effort import examples
from tests.matchers.search import brute_force
from tests.matchers.soundness.test_match_random import case

FOLDER = Path(__file__).parents[1] / "frontends"
SAMPLE = Path(__file__).parents[3] / "samples" / "transformer"
KEPT = sorted(f for folder in ("library", "half") for f in (Path(__file__).parents[1] / folder).glob("*.mlir"))
PROGRAMS = [*sorted(FOLDER.glob("*/*.mlir")), SAMPLE / "jax.mlir", SAMPLE / "torch.mlir"]

# Of so many patterns of the library one is tried with each file.
PARTS = examples(12, 1)


def graphs_of(spec):
    return list(compile_patterns(spec))


@pytest.fixture(scope="module")
def layers():
    return graphs_of(load(FOLDER / "layers.splice")) + graphs_of(load(SAMPLE / "transformer.splice"))


@pytest.fixture(scope="module")
def library():
    strided = {"any_attention": frozenset("qkv"), "conv1d": frozenset("x"), "depthwise_conv2d": frozenset("x")}
    strided["linear"] = frozenset("w")
    any_layout = [
        dataclasses.replace(graph, strided=strided[graph.pattern.name], reordered=True)
        for graph in graphs_of(load(OWN.spec("strided")))
        if graph.pattern.name in strided
    ]
    return any_layout + graphs_of(load(OWN.spec("nn")))


def check(module, graphs, least=0):
    before = str(module)
    found = engine.find(module, graphs)
    plain = engine.find(module, graphs, near_misses=0)
    assert str(module) == before, "finding changes nothing"
    expected = [brute_force.facts(m) for m in brute_force.find(module, graphs)]
    assert [brute_force.facts(m) for m in found.matches] == expected
    assert [brute_force.facts(m) for m in plain.matches] == expected, "near misses change no match"
    assert plain.near_misses == ()
    assert len(expected) >= least
    return found


@pytest.mark.parametrize("path", PROGRAMS, ids=[f"{p.parent.name}-{p.stem}" for p in PROGRAMS])
def test_programs_of_frontends(path, layers):
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        check(compilation.module, layers, least=1)


@pytest.mark.parametrize("number", range(len(KEPT)), ids=[p.stem for p in KEPT])
def test_the_library_on_the_kernels_kept_for_it(number, library):
    # The patterns that the functions are named after, and a part of the others: another one for each file.
    text = KEPT[number].read_text()
    names = {g.pattern.name for g in library if f"@{g.pattern.name}" in text} | {"any_attention"}
    graphs = [g for at, g in enumerate(library) if (at - number) % PARTS == 0 or g.pattern.name in names]
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=KEPT[number]))
        compilation.run_to("preprocessing")
        check(compilation.module, graphs, least=1)


@pytest.mark.parametrize("batch", range(examples(2, 40)))
def test_random_programs_and_the_patterns_of_all_of_them(session, batch):
    from iree.compiler import ir

    cases = [case(7000 + 100 * batch + i) for i in range(40)]
    texts = [c.text for c in cases]
    # Some of them again under other names, and some with the constants of others, so that places look alike.
    texts += [c.text.replace(f"@{c.name}(", f"@again_{c.name}(") for c in cases[:20]]
    texts += [c.text.replace(f"@{c.name}(", f"@other_{c.name}(").replace("0.5", "2.0") for c in cases[20:]]
    module = ir.Module.parse("\n".join(texts), context=session.context)
    spec = load_text("\n".join(c.pattern.replace("pattern p(", f"pattern p{i}(") for i, c in enumerate(cases)))
    check(module, graphs_of(spec), least=35)


ASKING = """
pattern weighted(x: tensor<m x k x f32>, w: tensor<k x n x f32>) where weight(w) {
  contract[mk, kn -> mn](x, w)
}
pattern alone(x: tensor<m x n x f32>) { absf(only(negf(x))) }
pattern in_use(x: tensor<m x n x f32>) { sqrt(shared(exp(x))) }
"""


def test_places_that_differ_in_weights_or_users_alone_do_not_look_the_same(session):
    """Functions of the same ops, with a parameter or an argument as the weight, and with other users or without."""
    kind = "tensor<4x4xf32>"
    texts = [f'util.global private @w = #flow.parameter.named<"w"> : {kind}']
    for number in range(12):
        weight = f"%w = util.global.load immutable @w : {kind}" if number % 2 else f"%w = math.absf %y : {kind}"
        more = [f"%n : {kind}" if number % 3 == 0 else "", f"%e : {kind}" if number % 4 < 2 else ""]
        users = "\n".join(f"util.optimization_barrier {each}" for each in more if each)
        texts.append(f"""
        util.func public @f{number}(%x: {kind}, %y: {kind}) -> ({kind}, {kind}, {kind}) {{
          %zero = arith.constant 0.0 : f32
          %empty = tensor.empty() : {kind}
          %init = linalg.fill ins(%zero : f32) outs(%empty : {kind}) -> {kind}
          {weight}
          %p = linalg.matmul ins(%x, %w : {kind}, {kind}) outs(%init : {kind}) -> {kind}
          %n = arith.negf %x : {kind}
          %a = math.absf %n : {kind}
          %e = math.exp %y : {kind}
          %s = math.sqrt %e : {kind}
          {users}
          util.return %p, %a, %s : {kind}, {kind}, {kind}
        }}""")
    module = ir.Module.parse("\n".join(texts), context=session.context)
    graphs = graphs_of(load_text(ASKING))
    assert engine.Patterns(graphs).traits.local == set(graphs)
    found = check(module, graphs)
    counted = {
        name: [m.function for m in found.matches if m.pattern.name == name] for name in ("weighted", "alone", "in_use")
    }
    assert counted["weighted"] == [f"f{n}" for n in range(12) if n % 2]
    assert counted["alone"] == [f"f{n}" for n in range(12) if n % 3]
    assert counted["in_use"] == [f"f{n}" for n in range(12) if n % 4 < 2]
    assert worded(found.near_misses) == worded(brute_force.near_misses(module, graphs, 5))


def test_places_that_differ_in_a_number_far_up(session):
    """What comes to a number is one however many ops make it, and places do not look alike where another is none."""
    numbers = [True, False, True, False, False, True]
    texts = []
    for i, is_number in enumerate(numbers):
        made = "\n".join(f"%s{at + 1} = math.sqrt %s{at} : tensor<8xf32>" for at in range(3))
        first = "arith.constant dense<1.0> : tensor<8xf32>" if is_number else "math.exp %x : tensor<8xf32>"
        texts.append(f"""func.func @f{i}(%x: tensor<8xf32>) -> tensor<8xf32> {{
          %s0 = {first}
          {made}
          %r = arith.addf %x, %s3 : tensor<8xf32>
          return %r : tensor<8xf32>
        }}""")
    module = ir.Module.parse("\n".join(texts), context=session.context)
    found = check(module, graphs_of(load_text("pattern p(x: tensor<n x f32>) { addf(x, 1.0) }")))
    assert [match.function for match in found.matches] == [f"f{i}" for i, each in enumerate(numbers) if each]


def test_places_that_differ_in_what_is_put_together_far_up(session):
    """A sum over joined tensors is two sums, and places do not look alike where nothing is joined above them."""
    is_joined = [False, True, False, True, True, False]
    texts = []
    for i, each in enumerate(is_joined):
        made = "\n".join(f"%s{at + 1} = math.sqrt %s{at} : tensor<3x8xf32>" for at in range(3))
        joined = "tensor.concat dim(1) %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>"
        texts.append(f"""func.func @f{i}(%x: tensor<3x4xf32>, %y: tensor<3x8xf32>) -> tensor<3xf32> {{
          %z = arith.constant dense<0.0> : tensor<3xf32>
          %s0 = {joined if each else "math.exp %y : tensor<3x8xf32>"}
          {made}
          %r = linalg.reduce {{ arith.addf }} ins(%s3 : tensor<3x8xf32>) outs(%z : tensor<3xf32>) dimensions = [1]
          return %r : tensor<3xf32>
        }}""")
    module = ir.Module.parse("\n".join(texts), context=session.context)
    pattern = """pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {
      addf(reduce addf[m n -> m](sqrt(sqrt(sqrt(x)))), reduce addf[m n -> m](sqrt(sqrt(sqrt(y)))))
    }"""
    found = check(module, graphs_of(load_text(pattern)))
    assert [match.function for match in found.matches] == [f"f{i}" for i, each in enumerate(is_joined) if each]


def test_a_product_is_looked_at_once_however_many_sums_are_above_it(session, monkeypatch):
    """Only joined tensors make two sums of one, and where nothing is joined is known without a look at each op."""
    looked = []
    fitting = Sieve.fitting
    monkeypatch.setattr(Sieve, "fitting", lambda self, *place: looked.append(place) or fitting(self, *place))
    pattern = "pattern p(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<m x n x f32>) {"
    graphs = graphs_of(load_text(pattern + "addf(contract[m k, k n -> m n](x, w), b) }"))
    counts = []
    for blocks in (3, 6):
        texts = (
            f"""%p{i} = linalg.matmul ins(%x{i}, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%o : tensor<8x8xf32>)
              -> tensor<8x8xf32>
            %x{i + 1} = arith.addf %p{i}, %x{i} : tensor<8x8xf32>"""
            for i in range(blocks)
        )
        text = f"""func.func @f(%x0: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {{
          %o = arith.constant dense<0.0> : tensor<8x8xf32>
          {chr(10).join(texts)}
          return %x{blocks} : tensor<8x8xf32>
        }}"""
        looked.clear()
        assert len(engine.find(ir.Module.parse(text, context=session.context), graphs).matches) == blocks
        counts.append(len(looked))
    assert counts[0] == counts[1] > 0


def test_what_goes_with_a_match_beside_it_is_remembered(session, monkeypatch):
    """A comparison of whole tensors goes with the maximum that it is part of, unless something else uses it."""
    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    graphs = graphs_of(
        load_text("pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { maximumf(only(mulf(x, y)), 0.0) }")
    )
    counts = []
    for copies in (1, 10):
        further = "%e = math.exp %m : tensor<8xf32> util.optimization_barrier %e : tensor<8xf32>"
        users = ["", "util.optimization_barrier %c : tensor<8xi1>", "", further] * copies
        texts = (
            f"""func.func @f{i}(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {{
              %z = arith.constant dense<0.0> : tensor<8xf32>
              %m = arith.mulf %x, %y : tensor<8xf32>
              %c = arith.cmpf ogt, %m, %z : tensor<8xf32>
              %r = arith.select %c, %m, %z : tensor<8xi1>, tensor<8xf32>
              {user}
              return %r : tensor<8xf32>
            }}"""
            for i, user in enumerate(users)
        )
        module = ir.Module.parse("\n".join(texts), context=session.context)
        searches.clear()
        found = engine.find(module, graphs, near_misses=0)
        counts.append(len(searches))
        assert [match.function for match in found.matches] == [f"f{i}" for i, user in enumerate(users) if not user]
        check(module, graphs)
    assert counts[0] == counts[1] > 0


def test_what_uses_a_value_behind_a_place_makes_no_other_place(session, monkeypatch):
    """It stays. What only asks for a size is no use, and what comes before may go with a match."""
    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    graphs = graphs_of(
        load_text("pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { maximumf(shared(mulf(x, y)), 0.0) }")
    )
    kind = "tensor<8xf32>"
    before, size = f"%c = arith.cmpf ogt, %m, %z : {kind}", f"%d = tensor.dim %m, %i : {kind}"
    behind = [f"%e0 = {op} %m : {kind}" for op in ("math.exp", "arith.negf", "math.sqrt")]
    behind += [f"util.optimization_barrier %m : {kind}", f"{behind[0]} %e1 = math.exp %e0 : {kind}"]
    users = [("", ""), ("", size), (before, ""), (before, size), *[("", each) for each in behind]]
    texts = (
        f"""func.func @f{i}(%x: {kind}, %y: {kind}) -> {kind} {{
          %z = arith.constant dense<0.0> : {kind}
          %i = arith.constant 0 : index
          %m = arith.mulf %x, %y : {kind}
          {first}
          %r = arith.maximumf %m, %z : {kind}
          {then}
          return %r : {kind}
        }}"""
        for i, (first, then) in enumerate(users)
    )
    module = ir.Module.parse("\n".join(texts), context=session.context)
    found = check(module, graphs)
    assert [match.function for match in found.matches] == [f"f{i}" for i in range(2, len(users))]
    searches.clear()
    engine.find(module, graphs, near_misses=0)
    assert len(searches) == 3  # nothing else uses it; something before; something behind


def test_how_often_values_are_used_that_a_pattern_does_not_reach_makes_no_other_place(session, monkeypatch):
    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    graphs = graphs_of(load_text("pattern p(x: tensor<n x f32>) { exp(only(negf(x))) }"))
    users = ["", "util.optimization_barrier %x : tensor<8xf32>", "util.optimization_barrier %n : tensor<8xf32>"]
    texts = (
        f"""func.func @f{i}(%x: tensor<8xf32>) -> tensor<8xf32> {{
          %y = math.sqrt %x : tensor<8xf32>
          %n = arith.negf %y : tensor<8xf32>
          %e = math.exp %n : tensor<8xf32>
          {user}
          return %e : tensor<8xf32>
        }}"""
        for i, user in enumerate(users)
    )
    module = ir.Module.parse("\n".join(texts), context=session.context)
    found = check(module, graphs)
    assert [match.function for match in found.matches] == ["f0", "f1"]
    searches.clear()
    engine.find(module, graphs, near_misses=0)
    assert len(searches) == 2


def test_patterns_are_only_searched_for_where_the_result_may_have_their_sizes(session, monkeypatch):
    searches = []
    run = Search.run
    monkeypatch.setattr(
        Search, "run", lambda self, value, **k: searches.append(self.graph.pattern.name) or run(self, value, **k)
    )
    spec = "".join(
        f"pattern p{n}(x: tensor<m x {n} x f32>) where x is not negf(_) {{ absf(x) }}\n"
        f"pattern q{n}(x: tensor<m x n x f32>) where n == {n} {{ absf(x) }}\n"
        for n in (2, 3, 4, 5, 6)
    )
    texts = (
        f"func.func @f{i}(%x: tensor<3x{n}xf32>) -> tensor<3x{n}xf32> {{ {made} %r = math.absf %x{last} : "
        f"tensor<3x{n}xf32> return %r : tensor<3x{n}xf32> }}"
        for i, (n, made, last) in enumerate(
            (("4", "", ""), ("5", "%x1 = arith.negf %x : tensor<3x5xf32>", "1"), ("?", "", ""))
        )
    )
    module = ir.Module.parse("\n".join(texts), context=session.context)
    graphs = graphs_of(load_text(spec))
    found = check(module, graphs)
    assert [match.pattern.name for match in found.matches] == ["p4", "q4", "q5"]
    searches.clear()
    engine.find(module, graphs, near_misses=0)
    fitting = [*(f"{kind}{n}" for n in (2, 3, 4, 6) for kind in "pq"), "p3", "q3", "p5", "q5"]
    assert sorted(searches[:12]) == sorted(fitting)
    assert len(searches) == len(fitting) + len(graphs)  # of an open size, all


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_the_library_of_kernels_on_models(name):
    root = Path(__file__).parents[3]
    graphs = graphs_of(load(root / "kernels" / "opsplice_kernels" / "opsplice_kernels.splice"))
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=root / "samples" / "measured" / f"{name}.mlir"))
        compilation.run_to("preprocessing")
        check(compilation.module, graphs, least=20)


def worded(misses):
    return [(miss, words(miss)) for miss in misses]


def test_near_misses_are_those_of_trying_every_pattern(layers):
    for path in PROGRAMS:
        with Compilation() as compilation:
            compilation.load(ModuleSource(path=path))
            compilation.run_to("preprocessing")
            found = engine.find(compilation.module, layers)
            assert worded(found.near_misses) == worded(brute_force.near_misses(compilation.module, layers, 5)), path
            fewer = engine.find(compilation.module, layers, near_misses=2).near_misses
            assert worded(fewer) == worded(brute_force.near_misses(compilation.module, layers, 2)), path


def test_all_patterns_of_the_library_are_remembered(library):
    assert engine.Patterns(library).traits.local == set(library)


def test_what_looks_the_same_is_searched_once(session, monkeypatch):
    from iree.compiler import ir

    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    spec = load_text(FAMILY.format(i=1, size=64))
    counts = []
    for copies in (1, 30):
        text = "".join(NORMALISED.format(i=i, size=64) for i in range(copies))
        module = ir.Module.parse(text, context=session.context)
        searches.clear()
        assert len(engine.find(module, graphs_of(spec)).matches) == 2 * copies
        counts.append(len(searches))
    assert counts[0] == counts[1] > 0


RESIDUAL = """
  %n{i} = arith.mulf %x{i}, {weight} : tensor<4xf32>
  %a{i} = arith.addf %n{i}, %x{i} : tensor<4xf32>
  %t{i} = arith.cmpf ogt, %a{i}, %zero : tensor<4xf32>
  %x{next} = arith.select %t{i}, %a{i}, {other} : tensor<4xi1>, tensor<4xf32>
  {user}
"""
RECTIFIED = """
pattern block(x: tensor<n x f32>, w: tensor<n x f32>) { maximumf(addf(mulf(x, w), x), 0.0) }
pattern alone(x: tensor<n x f32>, w: tensor<n x f32>) { maximumf(addf(only(mulf(x, w)), x), 0.0) }
pattern chosen(x: tensor<n x f32>, y: tensor<n x f32>) { select(cmpf(x, 0.0) {predicate = ogt}, x, y) }
"""


def residual(odd, blocks, **differs):
    """Blocks that each take what the last one gives; those of a number in `odd` differ from the others."""
    plain = {"weight": "%w", "other": "%zero", "user": ""}
    texts = []
    for i in range(blocks):
        parts = {name: text.format(i=i) for name, text in (plain | (differs if i in odd else {})).items()}
        texts.append(RESIDUAL.format(i=i, next=i + 1, **parts))
    return f"""
    func.func @f(%x0: tensor<4xf32>, %w: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<4xf32> {{
      %zero = arith.constant dense<0.0> : tensor<4xf32>
      %one = arith.constant dense<1.0> : tensor<4xf32>
      {"".join(texts)}
      return %x{blocks} : tensor<4xf32>
    }}"""


def test_a_block_that_is_repeated_is_searched_no_more_however_many_come_before_it(session, monkeypatch):
    """What an op's one form is does not depend on ops further up than where its operands are seen to be no numbers."""
    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    counts = []
    for blocks in (10, 20):
        module = ir.Module.parse(residual((), blocks), context=session.context)
        searches.clear()
        found = engine.find(module, graphs_of(load_text(RECTIFIED)))
        assert [match.pattern.name for match in found.matches] == ["block", "alone"] * blocks
        counts.append(len(searches))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    "differs",
    [
        {"weight": "%v"},
        {"weight": "%zero"},
        {"weight": "%x0"},
        {"other": "%one"},
        {"user": "util.optimization_barrier %n{i} : tensor<4xf32>"},
    ],
    ids=str,
)
def test_a_block_that_differs_a_little_from_those_around_it_is_found_as_what_it_is(session, differs):
    odd = (9, 15, 16)
    module = ir.Module.parse(residual(odd, 20, **differs), context=session.context)
    found = check(module, graphs_of(load_text(RECTIFIED)))
    blocks = [match for match in found.matches if match.pattern.name == "block"]
    alone = [match for match in found.matches if match.pattern.name == "alone"]
    assert (len(blocks), len(alone)) == (
        17 if "other" in differs else 20,
        20 - 3 * ("other" in differs or "user" in differs),
    )


SLICED = """
func.func @f{i}(%x: tensor<6x4xf32>, %y: tensor<?x?xf32>, %at: index, %to: index, %n: index) -> tensor<4xf32> {{
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %w = tensor.extract_slice %y[{place}, 0] [3, 4] [1, 1] : tensor<?x?xf32> to tensor<3x4xf32>
  %v = tensor.extract_slice %x[{start}, 0] [3, 4] [1, 1] : tensor<6x4xf32> to tensor<3x4xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j, i)>,
      affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}}
      ins(%v, %w : tensor<3x4xf32>, tensor<3x4xf32>) outs(%z : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  }} -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""


def test_what_strided_inputs_are_is_remembered(session, monkeypatch):
    from iree.compiler import ir

    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    spec = load_text("pattern dots(a: tensor<m x k x f32>, b: tensor<m x k x f32>) { contract[m k, m k -> m](a, b) }")
    graphs = [dataclasses.replace(graph, strided=frozenset("ab")) for graph in graphs_of(spec)]
    counts = []
    for copies in (1, 10):
        slices = [(3, "%at"), (3, "%to"), (2, "%at"), (3, "%at")] * copies
        text = "".join(SLICED.format(i=i, start=start, place=place) for i, (start, place) in enumerate(slices))
        module = ir.Module.parse(text, context=session.context)
        searches.clear()
        found = engine.find(module, graphs).matches
        counts.append(len(searches))
        assert len(found) == len(slices)
        check(module, graphs)
    assert counts[0] == counts[1] > 0
    for match, (start, place), function in zip(found, slices, module.body.operations, strict=True):
        x, y, at, to, _ = function.regions[0].blocks[0].arguments
        (_, _), (a, layout) = match.inputs["a"].places
        assert (a, layout.offset.number) == (x, 4 * start)
        (_, _), (b, layout) = match.inputs["b"].places
        values = {getattr(atom, "value", atom) for atom in atoms_in(layout.offset)}
        assert b == y
        assert values == {y, at if place == "%at" else to}


NORMS = """
pattern either(x: tensor<m x n x f32>) {
  s = broadcast[m -> m n](reduce addf[m n -> m](x))
  mulf(subf(x, s), rsqrt(s)) | addf(mulf(x, rsqrt(s)), negf(s))
}
pattern window(x: tensor<b x i x c x f32>, w: tensor<r x c x f x f32>) {
  contract[b (o + r) c, r c f -> b o f](x, w)
}
pattern started(x: tensor<m x n x f32>) { accumulated(reduce addf[m n -> m](exp(x))) }
"""


def test_an_outermost_op_alone_costs_no_search_of_alternatives_windows_and_accumulated_reductions(session, monkeypatch):
    from iree.compiler import ir

    searches = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, value, **k: searches.append(value) or run(self, value, **k))
    body = "%0 = arith.addf %x, %x : tensor<8x8xf32> %1 = arith.mulf %0, %x : tensor<8x8xf32>"
    text = f"func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{ {body} return %1 : tensor<8x8xf32> }}"
    module = ir.Module.parse(text + NORMALISED.format(i=1, size=64), context=session.context)
    assert not engine.find(module, graphs_of(load_text(NORMS))).matches
    assert searches == []


def test_ops_that_no_pattern_starts_at_are_no_places(session):
    from iree.compiler import ir

    module = ir.Module.parse("".join(NORMALISED.format(i=i, size=64) for i in range(3)), context=session.context)

    def names(text):
        patterns = engine.Patterns(graphs_of(load_text(text)))
        places = Recall(patterns.traits, patterns.index.names).places(module)
        return [value.owner.name for _, value, _ in places]

    assert names("pattern p(x: tensor<n x f32>) { tanh(x) }") == []
    assert names(FAMILY.format(i=1, size=64)) == ["arith.divf"] * 3


FAMILY = """
pattern sized{i}(x: tensor<m x {size} x f32>) {{
  divf(x, broadcast[m -> m n](reduce addf[m n -> m](x)))
}}
pattern conditional{i}(x: tensor<m x n x f32>) where n == {size} {{
  divf(x, broadcast[m -> m n](reduce addf[m n -> m](x)))
}}
"""
NORMALISED = """
func.func @f{i}(%x: tensor<4x{size}xf32>) -> tensor<4x{size}xf32> {{
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %s = linalg.reduce ins(%x : tensor<4x{size}xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
    (%a: f32, %b: f32) {{ %c = arith.addf %a, %b : f32  linalg.yield %c : f32 }}
  %e = tensor.empty() : tensor<4x{size}xf32>
  %w = linalg.broadcast ins(%s : tensor<4xf32>) outs(%e : tensor<4x{size}xf32>) dimensions = [1]
  %r = arith.divf %x, %w : tensor<4x{size}xf32>
  return %r : tensor<4x{size}xf32>
}}
"""


def test_patterns_that_differ_in_sizes_only(session):
    from iree.compiler import ir

    spec = load_text("".join(FAMILY.format(i=size, size=size) for size in range(16, 40)))
    sizes = [17, 20, 17, 5, 39]
    module = ir.Module.parse(
        "".join(NORMALISED.format(i=i, size=s) for i, s in enumerate(sizes)), context=session.context
    )
    graphs = graphs_of(spec)
    found = check(module, graphs, least=8)
    assert worded(found.near_misses) == worded(brute_force.near_misses(module, graphs, engine.MAX_NEAR_MISSES))
    names = [m.pattern.name for m in found.matches]
    assert names == [f"{kind}{s}" for s in (17, 20, 17, 39) for kind in ("sized", "conditional")]
    reasons = {words(m)[0] for m in found.near_misses if m.pattern == "conditional30"}
    assert reasons == {"n == 30"}


ALIKE = """
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {{
  %a = math.tanh %x : tensor<8xf32>
  %b = math.tanh %y : tensor<8xf32>
  %0 = arith.mulf %a, %a : tensor<8xf32>
  %1 = arith.mulf %a, %b : tensor<8xf32>
  %2 = arith.mulf %b, %a : tensor<8xf32>
  %3 = arith.mulf %b, %b : tensor<8xf32>
  return {results} : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}}
"""


def test_places_that_differ_in_which_values_are_the_same(find):
    outcome = find(ALIKE.format(results="%0, %1, %2, %3"), "pattern p(x: tensor<n x f32>) { mulf(tanh(x), tanh(x)) }")
    assert outcome.roots == ["%2", "%5"]
    outcome = find(ALIKE.format(results="%0, %1, %2, %3"), "pattern p(x: tensor<n x f32>) { mulf(x, x) }")
    assert outcome.roots == ["%2", "%5"]


GENERIC = """
  %e{i} = tensor.empty() : tensor<8xf32>
  %g{i} = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<8xf32>) outs(%e{i} : tensor<8xf32>) {{
  ^bb0(%in: f32, %out: f32):
    %c = {condition} : f32
    %v = arith.select %c, %in, %k : f32
    linalg.yield %v : f32
  }} -> tensor<8xf32>"""


def test_places_that_differ_in_an_attribute_or_a_constant(session):
    from iree.compiler import ir

    predicates = ["ogt", "olt", "ogt", "oeq", "olt", "ogt"]
    body = "".join(GENERIC.format(i=i, condition=f"arith.cmpf {p}, %in, %k") for i, p in enumerate(predicates))
    text = "".join(
        f"func.func @f{j}(%x: tensor<8xf32>) {{\n  %k = arith.constant {k} : f32{body}\n  return }}\n"
        for j, k in enumerate((0.0, 1.0, 0.0))
    )
    spec = load_text("""
      pattern relu(x: tensor<n x f32>) { maximumf(x, 0.0) }
      pattern low(x: tensor<n x f32>) { minimumf(x, 1.0) }
      pattern chosen(x: tensor<n x f32>) { select(cmpf(x, 1.0) {predicate = oeq}, x, 1.0) }
    """)
    module = ir.Module.parse(text, context=session.context)
    found = check(module, graphs_of(spec))
    assert [(m.pattern.name, m.function) for m in found.matches] == [
        *[("relu", "f0")] * 3,
        *[("low", "f1"), ("chosen", "f1"), ("low", "f1")],
        *[("relu", "f2")] * 3,
    ]


DYNAMIC = """
func.func @f{i}(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {{
  %s = arith.addf {left}, {right} : tensor<?x?xf32>
  %t = math.tanh %s : tensor<?x?xf32>
  return %t : tensor<?x?xf32>
}}
"""


def test_sizes_known_at_run_time_are_those_of_the_place_itself(session):
    from iree.compiler import ir

    sides = [("%x", "%y"), ("%y", "%x"), ("%x", "%x"), ("%x", "%y")]
    text = "".join(DYNAMIC.format(i=i, left=a, right=b) for i, (a, b) in enumerate(sides))
    module = ir.Module.parse(text, context=session.context)
    spec = load_text("pattern p(a: tensor<m x n x f32>, b: tensor<m x n x f32>) { tanh(addf(a, b)) }")
    found = check(module, graphs_of(spec), least=4)
    for match, function in zip(found.matches, module.body.operations, strict=True):
        arguments = list(function.regions[0].blocks[0].arguments)
        assert match.dims["n"].value in arguments
        assert match.dims["n"].value == match.inputs["a"].value


def test_several_results_of_a_body_come_in_order(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
      %g:3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
          affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
          ins(%x : tensor<8xf32>) outs(%e, %e, %e : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
      ^bb0(%in: f32, %o0: f32, %o1: f32, %o2: f32):
        %a = math.tanh %in : f32
        %b = math.absf %in : f32
        %c = math.tanh %b : f32
        linalg.yield %c, %b, %a : f32, f32, f32
      } -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
      return %g#0, %g#1, %g#2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<n x f32>) { tanh(x) }")
    assert [m.roots[0].result_number for m in outcome.found.matches] == [2]


BLOCKS = """
func.func @f(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
  cf.cond_br %c, ^second, ^first
^first:
  %a = math.tanh %x : tensor<8xf32>
  cf.br ^last(%a : tensor<8xf32>)
^second:
  %b = math.absf %x : tensor<8xf32>
  %d = math.tanh %b : tensor<8xf32>
  cf.br ^last(%d : tensor<8xf32>)
^last(%y: tensor<8xf32>):
  %r = scf.if %c -> tensor<8xf32> {
    %i = math.tanh %y : tensor<8xf32>
    scf.yield %i : tensor<8xf32>
  } else {
    %j = math.absf %y : tensor<8xf32>
    scf.yield %j : tensor<8xf32>
  }
  %s = math.tanh %r : tensor<8xf32>
  return %s : tensor<8xf32>
}
module @inner {
  func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = math.tanh %x : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}
"""


def test_blocks_regions_and_modules_inside_come_in_program_order(session):
    from iree.compiler import ir

    module = ir.Module.parse(BLOCKS, context=session.context)
    found = check(module, graphs_of(load_text("pattern p(x: tensor<n x f32>) { tanh(x) }")), least=5)
    assert [m.function for m in found.matches] == ["f"] * 4 + ["g"]


SHUFFLED = """
import sys
sys.path.insert(0, sys.argv[1])
from iree.compiler import ir
from iree.compiler.api import Session
from opsplice.matchers.explain.failure_words import words
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.spec_lang.loading.loader import load_text
session = Session()
module = ir.Module.parse(open(sys.argv[2]).read(), context=session.context)
spec = load_text(open(sys.argv[3]).read())
graphs = compile_patterns(spec)
found = engine.find(module, graphs)
for m in found.matches:
    print(m.pattern.name, m.function, m.location, dict(m.dims), [o.name for o in m.ops], sorted(m.inputs))
for m in found.near_misses:
    print(m, m.location, m.at, words(m))
"""


def test_the_hash_seed_changes_nothing(tmp_path):
    cases = [case(seed) for seed in random.Random(3).sample(range(10**6), 30)]
    payload, spec = tmp_path / "payload.mlir", tmp_path / "spec.splice"
    payload.write_text("\n".join(c.text for c in cases))
    spec.write_text("\n".join(c.pattern.replace("pattern p(", f"pattern p{i}(") for i, c in enumerate(cases)))
    command = [sys.executable, "-c", SHUFFLED, str(Path(__file__).parents[3]), str(payload), str(spec)]
    said = [
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": str(seed)}
        ).stdout
        for seed in (0, 1, 2)
    ]
    assert said[0] == said[1] == said[2]
    assert said[0].count("\n") > 30


def test_a_search_that_is_over_is_gone_without_a_collection_of_cycles(session):
    text = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32> }"
    module = ir.Module.parse(text, context=session.context)
    graph = graphs_of(load_text("pattern p(x: tensor<n x f32>) { exp(x) }"))[0]
    search = Search(Views(), graph, "f")
    gone = weakref.ref(search)
    assert search.run(module.body.operations[0].regions[0].blocks[0].arguments[0]) is None
    del search
    assert gone() is None

"""What a search reads of a program: each op once for all results, and no more than the pattern can reach."""

from __future__ import annotations

import dataclasses
import math

import pytest
from iree.compiler import ir

from opsplice.matchers.find import prefilter
from opsplice.matchers.find.axes import Axes
from opsplice.matchers.find.engine import Patterns
from opsplice.matchers.find.prefilter import Sieve
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.search import uses
from opsplice.matchers.search.failures import QUIET, Why
from opsplice.matchers.search.reading import Reader
from opsplice.matchers.search.search import Search
from opsplice.matchers.search.state import State
from opsplice.matchers.terms.ops import constant_ops
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text


def chain(session, kind, count=20, op="math.exp"):
    """The results of an op, one of the other."""
    ops = "\n".join(f"%x{i + 1} = {op} %x{i} : {kind}" for i in range(count))
    text = f"func.func @f(%x0: {kind}) -> {kind} {{\n {ops}\n return %x{count} : {kind} }}"
    module = ir.Module.parse(text, context=session.context)
    *made, _ = module.body.operations[0].regions[0].blocks[0].operations
    return module, [op.results[0] for op in made]


def graph_of(text):
    spec = load_text(text)
    (graph,) = compile_patterns(spec)
    return graph


def test_an_op_is_read_once_for_all_results_that_are_made_of_it(session):
    _module, values = chain(session, "tensor<4x8xf32>")
    views = Views()
    for value in values:
        views.resolve(views.resolve(views.root(value)).args[0])
    assert len(views) == len(values) + 1  # and the argument


def test_dims_that_the_program_computes_alike_have_the_same_loops_at_all_results(session):
    text = """func.func @f(%x: tensor<4x?xf32>, %y: tensor<4x?xf32>) -> tensor<4x?xf32> {
      %a = math.exp %x : tensor<4x?xf32>
      %b = math.exp %a : tensor<4x?xf32>
      %c = math.exp %y : tensor<4x?xf32>
      return %c : tensor<4x?xf32> }"""
    module = ir.Module.parse(text, context=session.context)
    first, second, other, _ = module.body.operations[0].regions[0].blocks[0].operations
    views = Views()
    known, of_x = views.root(first.results[0]).indices
    assert views.root(second.results[0]).indices == (known, of_x)
    assert views.root(other.results[0]).indices[0] == known
    assert views.root(other.results[0]).indices[1] != of_x
    assert views.reads == {}


def test_a_dim_that_is_one_of_the_program_is_looked_for_no_deeper_than_a_pattern_goes(session):
    ops = "".join(f"%x{i + 1} = math.exp %x{i} : tensor<4x6xf32>\n" for i in range(20))
    text = f"""func.func @f(%x0: tensor<4x6xf32>) -> tensor<4xf32> {{
      {ops} %z = arith.constant dense<0.0> : tensor<4xf32>
      %s = linalg.reduce {{arith.addf}} ins(%x20 : tensor<4x6xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
      return %s : tensor<4xf32> }}"""
    module = ir.Module.parse(text, context=session.context)
    *_, reduced, _ = module.body.operations[0].regions[0].blocks[0].operations
    for body, most in (("x", 6), ("exp(exp(x))", 10)):
        views = Views()
        graph = graph_of(f"pattern p(x: tensor<m x a x b x f32>) where a > 1 {{ reduce addf[m a b -> m]({body}) }}")
        assert Search(views, graph, "f").run(reduced.results[0]) is None
        assert len(views.reads) <= most


def test_what_a_row_is_made_of_is_not_read_to_find_its_norm(session):
    """Where a program lacks dims of a pattern, and a reduction over fewer dims is looked at."""
    ops = "".join(f"%x{i + 1} = math.exp %x{i} : tensor<4x6xf32>\n" for i in range(20))
    text = f"""func.func @f(%x0: tensor<4x6xf32>) -> tensor<4x6xf32> {{
      {ops} %z = arith.constant dense<0.0> : tensor<4xf32>
      %e = tensor.empty() : tensor<4x6xf32>
      %s = linalg.reduce {{arith.addf}} ins(%x20 : tensor<4x6xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
      %b = linalg.broadcast ins(%s : tensor<4xf32>) outs(%e : tensor<4x6xf32>) dimensions = [1]
      %r = arith.subf %x20, %b : tensor<4x6xf32>
      return %r : tensor<4x6xf32> }}"""
    module = ir.Module.parse(text, context=session.context)
    *_, last, _ = module.body.operations[0].regions[0].blocks[0].operations
    graph = graph_of("""pattern p(x: tensor<b x g x c x h x f32>) through ones {
      subf(x, broadcast[b g -> b g c h](reduce addf[b g c h -> b g](x)))
    }""")
    views = Views()
    match = Search(views, graph, "f").run(last.results[0])
    assert match is not None
    assert len(match.ops) == 3
    assert len(views.reads) <= 6


def test_nothing_is_read_to_tell_that_a_value_is_no_number(session):
    _module, values = chain(session, "tensor<8xf32>", op="arith.negf")
    views = Views()
    assert views.constant(views.whole(values[-1])) is None
    assert (len(views), views.reads) == (0, {})


def test_an_op_that_is_the_one_asked_for_is_not_asked_whether_it_leaves_its_operand(session):
    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c = arith.constant dense<1.0> : tensor<8xf32>
      %y = arith.addf %x, %c : tensor<8xf32>
      return %y : tensor<8xf32> }"""
    module = ir.Module.parse(text, context=session.context)
    _, added, _ = module.body.operations[0].regions[0].blocks[0].operations
    graph = graph_of("pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { addf(x, y) }")
    views = Views()
    assert Reader(State(views, graph, QUIET)).may_hold(graph.results[0].node, views.whole(added.results[0]))
    assert list(views.reads) == [added.results[0]]


def test_a_pattern_of_another_rank_reads_the_last_op_alone(session):
    _module, values = chain(session, "tensor<4x8xf32>")
    graph = graph_of("pattern p(x: tensor<a x f32>) { exp(x) }")
    views = Views()
    search = Search(views, dataclasses.replace(graph, strided=frozenset("x"), reordered=True), "f")
    assert search.run(values[-1]) is None
    assert len(views) == 1


def test_outlines_are_made_once_for_all_ops_that_a_pattern_may_end_with(monkeypatch):
    made = []
    monkeypatch.setattr(prefilter, "ranks_of", lambda graph: made.append(graph) or (0, math.inf))
    graphs = [
        graph_of("pattern p(x: tensor<n x f32>) { exp(x) | log(x) }"),
        graph_of("pattern q(x: tensor<n x f32>) { exp(x) }"),
    ]
    patterns = Patterns(graphs)
    assert {*patterns.index.names} >= {"math.exp", "math.log"}
    assert made == graphs


def test_of_many_alternatives_only_those_of_the_op_that_is_there_are_looked_at(session, monkeypatch):
    _module, values = chain(session, "tensor<8xf32>")
    ops = ("log", "sqrt", "sin", "cos", "tanh", "exp", "floor", "ceil", "erf", "absf")
    graph = graph_of(f"pattern p(x: tensor<n x f32>) {{ exp({' | '.join(f'{op}(x)' for op in ops)}) }}")
    asked, readings = [], Views.readings
    monkeypatch.setattr(Views, "readings", lambda self, term, op: asked.append(op) or readings(self, term, op))
    assert Sieve((graph,)).fitting(Views(), values[-1]) == [graph]
    assert set(asked) == {"math.exp"}


def test_a_large_operand_is_not_read_where_a_small_one_rules_the_pattern_out(session):
    text = """func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %a = math.exp %x : tensor<8xf32>
      %b = math.exp %a : tensor<8xf32>
      %c = math.exp %b : tensor<8xf32>
      %e = math.exp %y : tensor<8xf32>
      %d = arith.subf %c, %e : tensor<8xf32>
      return %d : tensor<8xf32> }"""
    module = ir.Module.parse(text, context=session.context)
    first, *_, last, _ = module.body.operations[0].regions[0].blocks[0].operations
    graph = graph_of("pattern p(x: tensor<n x f32>) { subf(exp(exp(exp(x))), exp(log(x))) }")
    views = Views()
    assert Sieve((graph,)).fitting(views, last.results[0]) == []
    assert first.results[0] not in views.reads


def test_patterns_of_another_rank_are_not_searched_for(session):
    _module, values = chain(session, "tensor<4x8xf32>")
    texts = ("tensor<n x f32>", "tensor<a x b x c x f32>", "tensor<...m x f32>")
    fixed, wider, any_rank = (graph_of(f"pattern p(x: {kind}) {{ exp(x) }}") for kind in texts)
    # The program may have two of the wider one's dims as one.
    assert Sieve((fixed, wider, any_rank)).fitting(Views(), values[-1]) == [wider, any_rank]


def test_no_dims_of_convolutions_are_one(session):
    module = ir.Module.parse(
        """func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x8xf32>) -> tensor<4x8xf32> {
          %c0 = arith.constant 0.0 : f32
          %e = tensor.empty() : tensor<4x8xf32>
          %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
          %r = linalg.matmul ins(%x, %y : tensor<4x3xf32>, tensor<3x8xf32>)
            outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
          return %r : tensor<4x8xf32> }""",
        context=session.context,
    )
    made = list(module.body.operations[0].regions[0].blocks[0].operations)[3].results[0]
    types = "x: tensor<n x c x h x f32>, f: tensor<o x c x k x f32>"
    row = graph_of(f"pattern p({types}) {{ contract[n c (s*y + i), o c i -> n o y](x, f) }}")
    product = graph_of(
        "pattern p(x: tensor<b x m x k x f32>, y: tensor<b x k x n x f32>) { contract[b m k, b k n -> b m n](x, y) }"
    )
    sieve = Sieve((row, product))
    assert sieve.fitting(Views(), made) == [product]
    assert sieve.begun(Views(), made, sieve.grouped({"p"})) == [row, product]


def test_sums_over_more_dims_and_inputs_inside_of_bodies_are_not_searched_for(session):
    module = ir.Module.parse(
        """func.func @f(%x: tensor<4x3x2x5xf32>) -> tensor<4xf32> {
          %z = arith.constant dense<0.0> : tensor<4xf32>
          %s = linalg.reduce ins(%x : tensor<4x3x2x5xf32>) outs(%z : tensor<4xf32>) dimensions = [1, 2, 3]
            (%a: f32, %b: f32) { %c = arith.addf %a, %b : f32  linalg.yield %c : f32 }
          %e = tensor.empty() : tensor<4xf32>
          %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) {
          ^bb0(%a: f32, %o: f32):
            %t = math.tanh %a : f32
            %n = arith.negf %t : f32
            %p = math.exp %n : f32
            linalg.yield %p : f32
          } -> tensor<4xf32>
          return %r : tensor<4xf32> }""",
        context=session.context,
    )
    made = list(module.body.operations[0].regions[0].blocks[0].operations)[3].results[0]
    texts = (
        "x: tensor<m x n x f32>) { exp(negf(tanh(reduce addf[m n -> m](x)))) }",
        "x: tensor<m x n x k x f32>) { exp(negf(tanh(reduce addf[m n k -> m](x)))) }",
        "x: tensor<m x n x k x h x f32>) { exp(negf(tanh(reduce addf[m n k h -> m](x)))) }",
        "x: tensor<m x f32>) { exp(negf(x)) }",
        "x: tensor<m x f32>) { exp(negf(tanh(x))) }",
    )
    merged, two_dims, three_dims, inside, value = graphs = [graph_of(f"pattern p({text}") for text in texts]
    assert Sieve(graphs).fitting(Views(), made) == [merged, three_dims, value]
    failed = Sieve((two_dims, inside))
    assert failed.begun(Views(), made, failed.grouped({"p"})) == [two_dims, inside]
    assert failed.begun(Views(), made, failed.grouped({"q"})) == []


PRODUCT = """func.func @f(%x: tensor<4x3x5xf32>, %y: tensor<4x5x8xf32>) -> tensor<4x3x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  %r = linalg.batch_matmul ins(%x, %y : tensor<4x3x5xf32>, tensor<4x5x8xf32>)
    outs(%z : tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  return %r : tensor<4x3x8xf32> }"""


@pytest.mark.parametrize(
    ("text", "strided", "attempts"),
    [
        # x is of another rank, whatever the layout of w is, which is not looked at.
        ("m x k x f32>, w: tensor<b x k x n x f32>) { contract[m k, b k n -> b m n](x, w) }", "w", 1),
        # No address tells what is read in windows.
        ("n x c x h x f32>, w: tensor<c x o x k x f32>) { contract[n c (y+i), c o i -> n o y](x,w) }", "xw", 1),
        ("b x k x m x f32>, w: tensor<b x k x n x f32>) { contract[b k m, b k n -> b m n](x, w) }", "xw", 2),
    ],
)
def test_inputs_are_looked_for_by_address_only_where_one_was_met_that_may_bind_so(
    session, monkeypatch, text, strided, attempts
):
    module = ir.Module.parse(PRODUCT, context=session.context)
    made = list(module.body.operations[0].regions[0].blocks[0].operations)[3].results[0]
    graph = dataclasses.replace(graph_of(f"pattern p(x: tensor<{text}"), strided=frozenset(strided))
    seen, at_root = [], Search._at_root
    monkeypatch.setattr(Search, "_at_root", lambda self, *a: seen.append(self.state.attempt) or at_root(self, *a))
    match = Search(Views(), graph, "f").run(made)
    assert [attempt.by_address for attempt in seen] == [False, True][:attempts]
    assert (match is not None) == (attempts > 1)


PRODUCTS = """
  func.func @f(%x: tensor<4x3x5xf32>, %y: tensor<4x5x8xf32>, %w: tensor<5x8xf32>, %b: tensor<3xf32>) {
    %c0 = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x3x8xf32>
    %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
    %batched = linalg.batch_matmul ins(%x, %y : tensor<4x3x5xf32>, tensor<4x5x8xf32>)
      outs(%z : tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
    %with_weight = linalg.generic {
      indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>,
                       affine_map<(b, m, n, k) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%x, %w : tensor<4x3x5xf32>, tensor<5x8xf32>) outs(%z : tensor<4x3x8xf32>) {
    ^bb0(%p: f32, %q: f32, %sum: f32):
      %product = arith.mulf %p, %q : f32
      %next = arith.addf %sum, %product : f32
      linalg.yield %next : f32
    } -> tensor<4x3x8xf32>
    %along_rows = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<4x3x8xf32>) dimensions = [0, 2]
    %added = arith.addf %with_weight, %along_rows : tensor<4x3x8xf32>
    return }"""
DENSE = "pattern p(x: tensor<...m x k x f32>, w: tensor<k x n x f32>) { contract[...m k, k n -> ...m n](x, w) }"
WITH_BIAS = """
pattern p(x: tensor<b x m x k x f32>, w: tensor<k x n x f32>, bias: tensor<{dim} x f32>) {{
  addf(contract[b m k, k n -> b m n](x, w), {bias})
}}"""
SUMMED = """pattern p(x: tensor<b x m x n x k x f32>, y: tensor<b x m x n x k x f32>) {
  reduce addf[b m n k -> b m n](mulf(x, y))
}"""
NAMED = '"linalg.{op}"(bias, ...) : tensor<b x m x n x f32>'


@pytest.mark.parametrize(
    ("op", "pattern", "fits"),
    [
        ("linalg.generic", DENSE, True),
        ("linalg.batch_matmul", DENSE, False),  # its second operand is read along the batch, too
        ("linalg.batch_matmul", SUMMED, False),  # neither operand is read along all axes
        ("arith.addf", WITH_BIAS.format(dim="m", bias="broadcast[m -> b m n](bias)"), True),
        ("arith.addf", WITH_BIAS.format(dim="n", bias="broadcast[n -> b m n](bias)"), False),
        ("arith.addf", WITH_BIAS.format(dim="m", bias=NAMED.format(op="broadcast")), True),
        ("arith.addf", WITH_BIAS.format(dim="m", bias=NAMED.format(op="transpose")), False),
    ],
)
def test_inputs_read_along_other_axes_and_other_ops_by_name_need_no_search(session, op, pattern, fits):
    module = ir.Module.parse(PRODUCTS, context=session.context)
    block = module.body.operations[0].regions[0].blocks[0]
    *_, value = (each.results[0] for each in block.operations if each.name == op)
    graph = graph_of(pattern)
    assert Sieve((graph,)).fitting(Views(), value) == ([graph] if fits else [])
    assert fits == (Search(Views(), graph, "f").run(value) is not None)


@pytest.mark.parametrize(("op", "fits"), [("linalg.generic", True), ("linalg.batch_matmul", False)])
def test_whatever_the_order_of_a_result_inputs_that_are_read_along_more_of_it_need_no_search(session, op, fits):
    module = ir.Module.parse(PRODUCTS, context=session.context)
    block = module.body.operations[0].regions[0].blocks[0]
    *_, value = (each.results[0] for each in block.operations if each.name == op)
    graph = dataclasses.replace(graph_of(DENSE.replace("...m", "b x m", 1).replace("...m", "b m")), reordered=True)
    assert Sieve((graph,)).fitting(Views(), value) == ([graph] if fits else [])
    assert fits == (Search(Views(), graph, "f").run(value) is not None)


def test_inputs_that_are_not_the_weights_asked_for_need_no_search(session):
    weights = "%w = arith.constant dense<1.0> : tensor<5x8xf32>"
    text = PRODUCTS.replace(", %w: tensor<5x8xf32>", "").replace("%c0 =", f"{weights} %c0 =", 1)
    for module, fits in ((text, True), (PRODUCTS, False)):
        parsed = ir.Module.parse(module, context=session.context)
        block = parsed.body.operations[0].regions[0].blocks[0]
        *_, value = (each.results[0] for each in block.operations if each.name == "linalg.generic")
        graph = graph_of(DENSE.replace(" {", " where weight(w) {"))
        assert Sieve((graph,)).fitting(Views(), value) == ([graph] if fits else [])
        assert fits == (Search(Views(), graph, "f").run(value) is not None)


def test_ops_are_asked_for_effects_only_where_all_else_is_a_weight(session, monkeypatch):
    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c = arith.constant dense<1.0> : tensor<8xf32>
      %a = math.exp %c : tensor<8xf32>
      %b = math.exp %a : tensor<8xf32>
      %m = arith.mulf %x, %b : tensor<8xf32>
      return %m : tensor<8xf32> }"""
    module = ir.Module.parse(text, context=session.context)
    _, first, second, product, _ = module.body.operations[0].regions[0].blocks[0].operations
    asked = []
    monkeypatch.setattr(uses, "has_effects", lambda op: asked.append(op.name) or op == first.operation)
    assert not uses.is_weight(Views(), product.results[0])
    assert asked == []
    assert not uses.is_weight(Views(), second.results[0])
    assert "math.exp" in asked


def test_what_a_value_that_is_no_number_is_made_of_is_asked_once(session, monkeypatch):
    _module, values = chain(session, "tensor<8xf32>")
    asked, deciding = [], constant_ops._deciding
    monkeypatch.setattr(constant_ops, "_deciding", lambda value: asked.append(value) or deciding(value))
    known = {}
    assert [constant_ops.may_be_number(value, known) for value in reversed(values)] == [False] * len(values)
    assert len(asked) == len(set(asked))


def test_where_no_mask_goes_by_distance_bands_need_no_search(session):
    lines = """%e = tensor.empty() : tensor<4x8xf32>
      %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
      ^bb0(%a: f32, %o: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %k = arith.muli %i, %j : index
        %far = arith.cmpi sgt, {left}, %i : index
        %fill = arith.constant 0.0 : f32
        %r = arith.select %far, %fill, %a : f32
        linalg.yield %r : f32
      } -> tensor<4x8xf32>"""
    graph = graph_of(
        "pattern p(x: tensor<m x n x f32>, low: i32, high: i32) {"
        "  select(band(low, high, 0, 1) : tensor<m x n x i1>, 0.0, x) }"
    )
    for left, fits in (("%j", True), ("%k", False)):
        text = f"func.func @f(%x: tensor<4x8xf32>) {{ {lines.replace('{left}', left)} return }}"
        module = ir.Module.parse(text, context=session.context)
        *_, made, _ = module.body.operations[0].regions[0].blocks[0].operations
        assert Sieve((graph,)).fitting(Views(), made.results[0]) == ([graph] if fits else [])
        assert fits == (Search(Views(), graph, "f").run(made.results[0]) is not None)


def test_a_search_asks_once_whether_a_part_may_hold_where_it_has_one_result(session, monkeypatch):
    _module, values = chain(session, "tensor<8xf32>")
    graph = graph_of("pattern p(x: tensor<n x f32>) { exp(exp(x)) }")
    views, asked, readings = Views(), [], Views.readings
    monkeypatch.setattr(Views, "readings", lambda self, term, op: asked.append(op) or readings(self, term, op))
    reader, term = Reader(State(views, graph, QUIET)), views.whole(values[-1])
    assert all(reader.may_hold(graph.results[0].node, term) for _ in range(3))
    assert len(asked) == 1
    several = Reader(State(views, dataclasses.replace(graph, results=graph.results * 2), QUIET))
    assert all(several.may_hold(graph.results[0].node, term) for _ in range(3))
    assert len(asked) == 4  # what is bound to the other one is not looked through


def test_patterns_with_equal_parts_share_what_these_were_found_to_fit(session, monkeypatch):
    _module, values = chain(session, "tensor<4x8xf32>")
    graphs = [graph_of(f"pattern {name}(x: tensor<m x n x f32>) {{ exp(exp(x)) }}") for name in "pq"]
    reads, told = [], Axes.told
    monkeypatch.setattr(Axes, "told", lambda self, indices: reads.append(self) or told(self, indices))
    assert Sieve(graphs).fitting(Views(), values[-1]) == graphs
    assert len(reads) == 1


def test_no_order_of_dims_is_tried_in_which_one_has_another_size_than_is_written(session, monkeypatch):
    """Not with a dim of size one in its place, either."""
    _module, (made,) = chain(session, "tensor<1x4x5x3xf32>", 1)
    tried = []
    at_root = Search._at_root
    monkeypatch.setattr(Search, "_at_root", lambda self, *args: tried.append(args) or at_root(self, *args))
    for size, count in ((2, 1), (3, 2)):
        tried.clear()
        graph = graph_of(f"pattern p(x: tensor<...b x m x {size} x n x f32>) {{ exp(x) }}")
        free = dataclasses.replace(graph, strided=frozenset({"x"}), reordered=True)
        assert (Search(Views(), free, "f").run(made) is None) == (size == 2)
        assert len(tried) == count, size


def test_no_other_order_is_tried_where_part_of_a_reduced_dim_is_read_alone(session):
    """As scores are that positions along two axes of an image are added to: the values along one are no operand."""
    text = """func.func @f(%x: tensor<6x12xf32>, %y: tensor<{rows}x4xf32>) -> tensor<6xf32> {{
      %z = arith.constant dense<0.0> : tensor<6xf32>
      %e = tensor.empty() : tensor<6x3x4xf32>
      %apart = tensor.expand_shape %x [[0], [1, 2]] output_shape [6, 3, 4]
        : tensor<6x12xf32> into tensor<6x3x4xf32>
      %m = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> ({at}, k)>,
          affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}}
        ins(%apart, %y : tensor<6x3x4xf32>, tensor<{rows}x4xf32>) outs(%e : tensor<6x3x4xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        linalg.yield %p : f32 }} -> tensor<6x3x4xf32>
      %whole = tensor.collapse_shape %m [[0], [1, 2]] : tensor<6x3x4xf32> into tensor<6x12xf32>
      %s = linalg.reduce ins(%whole : tensor<6x12xf32>) outs(%z : tensor<6xf32>) dimensions = [1]
        (%a: f32, %b: f32) {{ %t = arith.addf %a, %b : f32  linalg.yield %t : f32 }}
      return %s : tensor<6xf32> }}"""
    graph = graph_of("pattern p(x, y: tensor<m x n x f32>) { reduce addf[m n -> m](mulf(x, y)) }")
    for at, rows, stays in (("i", 6, True), ("j", 3, False)):
        module = ir.Module.parse(text.format(at=at, rows=rows), context=session.context)
        *_, made, _ = module.body.operations[0].regions[0].blocks[0].operations
        search = Search(Views(), graph, "f")
        assert search.run(made.results[0]) is None
        assert search.furthest.node.name == "y"
        assert search.state.stays == stays


def test_an_input_is_read_along_dims_of_its_labels_alone(session):
    text = """func.func @f(%x: tensor<6x8xf32>, %y: tensor<8xf32>) -> tensor<6x8xf32> {
      %e = tensor.empty() : tensor<6x8xf32>
      %wide = linalg.broadcast ins(%y : tensor<8xf32>) outs(%e : tensor<6x8xf32>) dimensions = [0]
      %r = arith.addf %x, %wide : tensor<6x8xf32>
      return %r : tensor<6x8xf32> }"""
    graph = graph_of("pattern p(x: tensor<m x n x f32>, y: tensor<n x f32>) { addf(x, broadcast[n -> m n](y)) }")
    module = ir.Module.parse(text, context=session.context)
    made = module.body.operations[0].regions[0].blocks[0].operations[2].results[0]
    (m, n), views = graph.results[0].labels, Views()
    rows, columns = views.root(made).indices
    x, wide = views.resolve(views.root(made)).args
    both, one = graph.results[0].node.args
    for own, other in ((rows, columns), (columns, rows)):
        reader = Reader(State(views, graph, QUIET))
        reader.state.labels.update({m: (own,), n: (other,)})
        assert not reader.is_read_otherwise(both, x)
        assert reader.is_read_otherwise(one, x)
        assert reader.is_read_otherwise(one, wide) == (other == rows)
        reader.graph = dataclasses.replace(graph, through=frozenset({"ones"}))
        assert not reader.is_read_otherwise(both, wide)  # which is a tensor with both
        assert reader.is_read_otherwise(both, views.expand(wide).term)


def test_a_product_without_windows_is_no_convolution_of_halves_either(session):
    """It is told by the filter, which such a pattern has as it is or widened: all its orders of dims were tried."""
    text = """func.func @f(%x: tensor<4x8x6xf32>, %y: tensor<4x6x8xf32>) -> tensor<4x8x8xf32> {
      %z = arith.constant dense<0.0> : tensor<4x8x8xf32>
      %r = linalg.batch_matmul ins(%x, %y : tensor<4x8x6xf32>, tensor<4x6x8xf32>)
        outs(%z : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
      return %r : tensor<4x8x8xf32> }"""
    graph = graph_of("""pattern p<T in {f32, f16}>(
      x: tensor<n x c x d x h x w x T>, f: tensor<o x c x kd x kh x kw x T>,
    ) through ones {
      contract[n c (t + k) (y + i) (z + j), o c k i j -> n o t y z](x, f) : f32
    }""")
    module = ir.Module.parse(text, context=session.context)
    made = module.body.operations[0].regions[0].blocks[0].operations[1].results[0]
    search = Search(Views(), dataclasses.replace(graph, strided=frozenset("xf"), reordered=True), "f")
    assert search.run(made) is None
    assert search.furthest.why is Why.WINDOW

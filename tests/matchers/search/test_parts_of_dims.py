"""`take` at a number and `stack`: slices and joined tensors hold if, and only if, they make what numpy makes."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from iree.compiler import ir

from opsplice.interpreter import evaluate
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.search.roots import Roots
from opsplice.spec_lang.loading.loader import load_text

# Slices of 8 numbers: offset and step, of four each.
SLICES = ((0, 1), (4, 1), (0, 2), (1, 2), (2, 1), (3, 1))
TURNED = """
pattern turned(x: tensor<...m x p x h x f32>) {
  first = take[...m p h, -> ...m h](x, 0)
  second = take[...m p h, -> ...m h](x, 1)
  addf(x, stack[...m h, ...m h -> ...m p h](negf(second), first))
}
"""
JOINED = {
    "concat": """%1 = tensor.concat dim(1) %n, %b : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>""",
    "inserted": """%0 = tensor.insert_slice %n into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>
      %1 = tensor.insert_slice %b into %0[0, 4] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>""",
    "last first": """%0 = tensor.insert_slice %b into %e[0, 4] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>
      %1 = tensor.insert_slice %n into %0[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>""",
    "one over the other": """
      %0 = tensor.insert_slice %n into %x[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>
      %1 = tensor.insert_slice %b into %0[0, 2] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>""",
    "into what is there": """%1 = tensor.insert_slice %n into %x[0, 0] [3, 4] [1, 1]
        : tensor<3x4xf32> into tensor<3x8xf32>""",
    "side by side": """
      %c = tensor.expand_shape %n [[0], [1, 2]] output_shape [3, 4, 1] : tensor<3x4xf32> into tensor<3x4x1xf32>
      %d = tensor.expand_shape %b [[0], [1, 2]] output_shape [3, 4, 1] : tensor<3x4xf32> into tensor<3x4x1xf32>
      %0 = tensor.concat dim(2) %c, %d : (tensor<3x4x1xf32>, tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
      %1 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<3x4x2xf32> into tensor<3x8xf32>""",
}


def function(name: str, negated: tuple[int, int], other: tuple[int, int], joined: str) -> str:
    """x and, added to it, one slice negated and another one, put together."""
    (first, step), (second, stride) = negated, other
    return f"""
    func.func @{name}(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {{
      %e = tensor.empty() : tensor<3x8xf32>
      %a = tensor.extract_slice %x[0, {first}] [3, 4] [1, {step}] : tensor<3x8xf32> to tensor<3x4xf32>
      %b = tensor.extract_slice %x[0, {second}] [3, 4] [1, {stride}] : tensor<3x8xf32> to tensor<3x4xf32>
      %n = arith.negf %a : tensor<3x4xf32>
      {JOINED[joined]}
      %r = arith.addf %x, %1 : tensor<3x8xf32>
      return %r : tensor<3x8xf32>
    }}"""


def programs() -> dict[str, str]:
    cases = itertools.product(SLICES, SLICES, JOINED)
    return {f"f{number}": function(f"f{number}", *case) for number, case in enumerate(cases)}


def test_parts_hold_if_numpy_puts_together_the_same(session):
    """The two halves of a row, or pairs of its numbers, one behind the other: nothing else is the pattern."""
    made, spec = programs(), load_text(TURNED)
    module = ir.Module.parse("\n".join(made.values()), context=session.context)
    graphs = compile_pattern(spec, "turned")
    strided = [dataclasses.replace(graph, strided=frozenset({"x"}), reordered=True) for graph in graphs]
    functions = {match.function for match in engine.find(module, strided).matches}
    x = np.arange(1.0, 25.0).reshape(3, 8)
    halves = np.concatenate((-x[:, 4:], x[:, :4]), 1) + x
    pairs = np.stack((-x[:, 1::2], x[:, ::2]), -1).reshape(3, 8) + x
    for name, text in made.items():
        (result,) = evaluate(module, name, [x])
        is_turned = any((result == each).all() for each in (halves, pairs))
        assert is_turned == (name in functions), text
    assert len(functions) == 4


@pytest.mark.parametrize(("offset", "number"), [(0, 0), (4, 1), (8, 2), (2, None), (6, None)])
def test_a_part_has_a_number(find, offset, number):
    text = f"""
    func.func @f(%y: tensor<3x4xf32>) -> tensor<4xf32> {{
      %x = tensor.collapse_shape %y [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
      %a = tensor.extract_slice %x[{offset}] [4] [1] : tensor<12xf32> to tensor<4xf32>
      %r = math.absf %a : tensor<4xf32>
      return %r : tensor<4xf32>
    }}"""
    for wanted in range(3):
        spec = f"pattern p(x: tensor<p x h x f32>) {{ absf(take[p h, -> h](x, {wanted})) }}"
        assert find(text, spec).count == (wanted == number)


ROWS_OF_W = """
func.func @f(%x: tensor<3x5xf32>, %w: tensor<8x5xf32>) -> tensor<3x4xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
    affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : tensor<3x5xf32>, tensor<8x5xf32>) outs(%z : tensor<3x8xf32>)
    -> tensor<3x8xf32>
  %a = tensor.extract_slice %y[0, {first}] [3, 4] [1, {step}] : tensor<3x8xf32> to tensor<3x4xf32>
  %b = tensor.extract_slice %y[0, {second}] [3, 4] [1, {step}] : tensor<3x8xf32> to tensor<3x4xf32>
  %t = math.tanh %a : tensor<3x4xf32>
  %r = arith.mulf %t, %b : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}}"""
GATED = """
pattern p(x: tensor<m x k x f32>, gate: tensor<n x k x f32>, up: tensor<n x k x f32>) {
  mulf(tanh(contract[m k, n k -> m n](x, gate)), contract[m k, n k -> m n](x, up))
}"""


@pytest.mark.parametrize(("first", "second", "step"), [(0, 4, 1), (4, 0, 1), (0, 1, 2), (1, 0, 2), (2, 4, 1)])
def test_a_part_of_what_is_computed_is_computed_from_parts(session, first, second, step):
    """Whichever parts of a product a pattern multiplies, it is told of the rows of the weight that make them."""
    module = ir.Module.parse(ROWS_OF_W.format(first=first, second=second, step=step), context=session.context)
    graphs = compile_pattern(load_text(GATED), "p", frozenset({"gate", "up"}), True)
    (match,) = (each for each in engine.find(module, graphs).matches if each.dims["n"] == 4)
    for name, start in (("gate", first), ("up", second)):
        value, layout = match.inputs[name].places[-1]
        assert value.get_name() == "%arg1"
        strides = [int(stride.number) for runs in layout.dims for _, stride in runs]
        assert (layout.offset.number, strides) == (start * 5, [step * 5, 1])
    assert engine.find(module, compile_pattern(load_text(GATED), "p")).matches == ()


@pytest.mark.parametrize(("offset", "step", "matches"), [(0, 1, 1), (7, -1, 0), (3, 0, 0)])
def test_as_many_elements_as_the_dim_has_are_all_of_it_in_their_order_only(find, offset, step, matches):
    text = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %a = tensor.extract_slice %x[{offset}] [8] [{step}] : tensor<8xf32> to tensor<8xf32>
      %n = math.absf %a : tensor<8xf32>
      %r = arith.addf %x, %n : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(text, "pattern p(x: tensor<n x f32>) { addf(x, absf(x)) }").count == matches


def test_a_slice_without_elements_is_no_part(find):
    text = """
    func.func @f(%x: tensor<4x3xf32>) -> tensor<0x3xf32> {
      %a = tensor.extract_slice %x[2, 0] [0, 3] [1, 1] : tensor<4x3xf32> to tensor<0x3xf32>
      %r = math.absf %a : tensor<0x3xf32>
      return %r : tensor<0x3xf32>
    }"""
    assert find(text, "pattern p(x: tensor<p x h x n x f32>) { absf(take[p h n, -> h n](x, 1)) }").count == 0


SUMS = """
func.func @f(%x: tensor<3x5xf32>, %y: tensor<3x2xf32>) -> tensor<3xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %j = tensor.concat dim(1) {parts} : ({kinds}) -> tensor<3x7xf32>
  %a = math.absf %j : tensor<3x7xf32>
  %c = tensor.extract_slice %a[0, {start}] [3, {size}] [1, 1] : tensor<3x7xf32> to tensor<3x{size}xf32>
  %s = linalg.reduce ins(%c : tensor<3x{size}xf32>) outs(%z : tensor<3xf32>) dimensions = [1]
    (%in: f32, %out: f32) {{
      %t = arith.addf %in, %out : f32
      linalg.yield %t : f32
    }}
  %r = math.absf %s : tensor<3xf32>
  return %r : tensor<3xf32>
}}"""
BOTH = """
pattern p(x: tensor<m x n x f32>, y: tensor<m x k x f32>) {
  absf(addf(reduce addf[m n -> m](absf(x)), reduce addf[m k -> m](absf(y))))
}"""
ONE = "pattern p(x: tensor<m x n x f32>) { absf(reduce addf[m n -> m](absf(x))) }"


@pytest.mark.parametrize(
    ("start", "size", "spec", "bound"),
    [
        (0, 7, BOTH, {0: 5, 1: 2}),
        (0, 5, ONE, {0: 5}),
        (5, 2, ONE, {1: 2}),
        (0, 5, BOTH, None),
        (0, 6, BOTH, None),
        (0, 4, ONE, None),  # a part of one: no value holds it
        (2, 5, ONE, None),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_sum_over_what_is_put_together_is_that_of_the_parts(find, start, size, spec, bound, swapped):
    """And a slice that lies in one of them is a slice of that one."""
    parts, kinds = ("%x, %y", "tensor<3x5xf32>, tensor<3x2xf32>")
    if swapped:
        parts, kinds, start = "%y, %x", "tensor<3x2xf32>, tensor<3x5xf32>", 7 - start - size
    outcome = find(SUMS.format(parts=parts, kinds=kinds, start=start, size=size), spec)
    own = [m for m in outcome.found.matches if all(b.value.get_name().startswith("%arg") for b in m.inputs.values())]
    found = [{int(b.value.get_name()[4:]): b.value.type.get_dim_size(1) for b in m.inputs.values()} for m in own]
    assert found == ([] if bound is None else [bound])


def test_only_dims_of_as_many_places_as_parts_are_tried_for_what_is_put_together(session, monkeypatch):
    """A pair has two places: no other dim of a result is searched as if it was the pair's."""
    tried: list[tuple[int | None, ...]] = []
    bind = Roots.bind

    def bound(self, number, value):
        found = bind(self, number, value)
        if self.state.attempt.by_address:
            (pair,) = (self.state.labels[label] for label in self.graph.results[0].labels if label.name == "p")
            tried.append(tuple(index.size for index in pair))
        return found

    monkeypatch.setattr(Roots, "bind", bound)
    module = ir.Module.parse(function("f", (4, 1), (0, 1), "concat"), context=session.context)
    graphs = compile_pattern(load_text(TURNED), "turned", frozenset({"x"}), True)
    assert len(engine.find(module, graphs).matches) == 1
    assert tried
    assert set(tried) == {(2,)}


OPEN = """
func.func @f(%x: tensor<3x?xf32>, %y: tensor<3x{more}xf32>) -> tensor<3xf32> {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %k = {size}
  %some = arith.constant 3 : index
  %both = arith.addi %n, %k : index
  %e = tensor.empty() : tensor<3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %j = tensor.concat dim(1) %x, %y : (tensor<3x?xf32>, tensor<3x{more}xf32>) -> tensor<3x?xf32>
  %a = math.absf %j : tensor<3x?xf32>
  {cut}
  %s = linalg.reduce ins(%c : tensor<3x?xf32>) outs(%z : tensor<3xf32>) dimensions = [1]
    (%in: f32, %out: f32) {{
      %t = arith.addf %in, %out : f32
      linalg.yield %t : f32
    }}
  %r = math.absf %s : tensor<3xf32>
  return %r : tensor<3xf32>
}}"""
SIZES = {"2": "arith.constant 2 : index", "?": "tensor.dim %y, %c1 : tensor<3x?xf32>"}
# As PyTorch writes what is left of the end: each number is kept inside of the dim.
BUT_LAST = """%m = arith.subi %both, %k : index
  %less = arith.cmpi slt, %m, %c0 : index
  %kept = arith.select %less, %c0, %m : index
  %end = arith.minsi %kept, %both : index
  %begin = arith.minsi %both, %c0 : index
  %size = arith.subi %end, %begin : index
  %c = tensor.extract_slice %a[0, %begin] [3, %size] [1, 1] : tensor<3x?xf32> to tensor<3x?xf32>"""
SLICED = "%c = tensor.extract_slice %a[0, {}] [3, {}] [1, 1] : tensor<3x?xf32> to tensor<3x?xf32>"


@pytest.mark.parametrize("more", ["2", "?"])
@pytest.mark.parametrize(
    ("cut", "spec", "bound"),
    [
        ("%c = tensor.cast %a : tensor<3x?xf32> to tensor<3x?xf32>", BOTH, {0, 1}),
        (BUT_LAST, ONE, {0}),
        (SLICED.format("%n", "%k"), ONE, {1}),
        (SLICED.format("0", "%both"), BOTH, {0, 1}),
        (BUT_LAST, BOTH, None),
        (SLICED.format("%k", "%n"), ONE, None),  # some of each
        (SLICED.format("%n", "%some"), ONE, None),
    ],
)
def test_what_is_put_together_may_be_of_sizes_that_are_known_at_run_time_only(find, more, cut, spec, bound):
    outcome = find(OPEN.format(more=more, size=SIZES[more], cut=cut), spec)
    values = [{b.value.get_name() for b in match.inputs.values()} for match in outcome.found.matches]
    wanted = [] if bound is None else [{f"%arg{number}" for number in bound}]
    assert [each for each in values if each <= {"%arg0", "%arg1"}] == wanted


COMPLEX = """
#m = affine_map<(i, j) -> (i, j)>
util.func public @main(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>, %z: tensor<?x4xcomplex<f32>>) -> tensor<?x4x2xf32> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%n) : tensor<?x4xcomplex<f32>>
  %s = arith.negf %b : tensor<?x4xf32>
  %c = linalg.generic {{indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel"]}}
    ins(%a, %s : tensor<?x4xf32>, tensor<?x4xf32>) outs(%e : tensor<?x4xcomplex<f32>>) {{
  ^bb0(%in: f32, %other: f32, %out: complex<f32>):
    %0 = complex.{op} %in, %other : complex<f32>
    linalg.yield %0 : complex<f32>
  }} -> tensor<?x4xcomplex<f32>>
  %r = iree_tensor_ext.bitcast {bits} : tensor<?x4xcomplex<f32>>{{%n}} -> tensor<?x4x2xf32>{{%n}}
  util.return %r : tensor<?x4x2xf32>
}}
"""


@pytest.mark.parametrize(
    ("bits", "order", "holds"), [("%c", "a, b", True), ("%c", "b, a", False), ("%z", "a, b", False)]
)
def test_complex_numbers_of_two_floats_are_pairs(find, bits, order, holds):
    """The real part is the first of a pair, the imaginary one the second. What is replaced has the op of both."""
    stacked = {"a, b": "stack[m h, m h -> m h p](a, negf(b))", "b, a": "stack[m h, m h -> m h p](negf(b), a)"}[order]
    spec = f"pattern p(a, b: tensor<m x h x f32>) {{ {stacked} }}"
    outcome = find(COMPLEX.format(op="create", bits=bits), spec)
    assert outcome.count == holds
    if holds:
        assert {"linalg.generic", "iree_tensor_ext.bitcast", "arith.negf"} <= {op.name for op in outcome.only.ops}

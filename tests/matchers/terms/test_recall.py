"""What `Recall` says of places: the same where everything that patterns can read is the same, and only there."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.matchers.find import engine, lookalikes
from opsplice.matchers.find.lookalikes import Recall, Traits
from opsplice.matchers.ir.op_names import function_around

NOTHING = Traits(frozenset(), frozenset(), frozenset())


def module_of(session, text):
    session.context.allow_unregistered_dialects = True
    return ir.Module.parse(text, context=session.context)


def returned(module):
    """The values that functions return."""
    functions = [op.operation for op in module.body.operations]
    return [f.regions[0].blocks[0].operations[-1].operands[0] for f in functions]


def look_alike(session, *texts, traits=NOTHING, reads=1):
    """Whether what functions return looks the same, after looks at as many values as there are in the first."""
    module = module_of(session, "\n".join(f"func.func @f{i}{text}" for i, text in enumerate(texts)))
    memory = Recall(traits, None)
    first, *others = returned(module)
    values = [first]
    for value in values:
        if len(values) >= reads or isinstance(value.owner, ir.Block):
            break
        values.extend(used for used in value.owner.operands if used not in values)
    found = object()
    assert memory.learn(first, values[:reads], lambda numbers: found) is found
    at = {value: known for _, value, known in memory.places(module)}
    assert at[first] is found
    return all(at[other] is found for other in others)


SCALED = """(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {{
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}}
    ins(%x, {other} : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = {op} {left}, {right} : f32
    %1 = arith.mulf %0, %a : f32
    linalg.yield {result} : f32
  }} -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""
PLAIN = {"other": "%y", "op": "arith.addf", "left": "%a", "right": "%b", "result": "%1"}


def test_equal_bodies_look_alike(session):
    assert look_alike(session, SCALED.format(**PLAIN), SCALED.format(**PLAIN))


@pytest.mark.parametrize(
    ("part", "value"),
    [("op", "arith.subf"), ("left", "%b"), ("right", "%c"), ("result", "%0"), ("result", "%b"), ("other", "%x")],
)
def test_bodies_that_differ_look_different(session, part, value):
    assert not look_alike(session, SCALED.format(**PLAIN), SCALED.format(**{**PLAIN, part: value}))


def test_an_attribute_of_an_op_in_a_body_counts_where_it_says_what_is_computed(session):
    text = SCALED.replace("arith.mulf %0, %a : f32", "arith.select %p, %0, %a : f32").replace(
        "%1 =", "%p = arith.cmpf {sign}, %0, %a : f32\n    %1 ="
    )
    assert look_alike(session, text.format(**PLAIN, sign="olt"), text.format(**PLAIN, sign="olt"))
    assert not look_alike(session, text.format(**PLAIN, sign="olt"), text.format(**PLAIN, sign="ogt"))


def test_what_a_body_takes_from_outside_is_used_by_the_op(session):
    text = SCALED.replace("(%x: tensor<4xf32>,", "(%k: f32, %j: f32, %x: tensor<4xf32>,")
    kept = text.format(**PLAIN | {"right": "%k"})
    assert look_alike(session, kept, text.format(**PLAIN | {"right": "%j"}))  # one value from outside, whichever
    assert not look_alike(session, kept, text.format(**PLAIN))
    both = text.format(**PLAIN | {"left": "%k", "right": "%j"})
    assert not look_alike(session, both, text.format(**PLAIN | {"left": "%k", "right": "%k"}))


SUM = """({arguments}) -> {type} {{
  %r = {op} {operands} : {type}
  return %r : {type}
}}"""


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"arguments": "%y: f32, %x: f32"}, True),
        ({"operands": "%x, %x"}, False),
        ({"op": "arith.mulf"}, False),
        ({"op": "arith.addf", "arguments": "%x: f64, %y: f64", "type": "f64"}, False),
    ],
)
def test_ops_on_elements(session, changed, same):
    given = {"arguments": "%x: f32, %y: f32", "op": "arith.addf", "operands": "%x, %y", "type": "f32"}
    assert look_alike(session, SUM.format(**given), SUM.format(**given | changed)) is same


def test_attributes_that_no_pattern_reads_do_not_count(session):
    given = {"arguments": "%x: f32, %y: f32", "op": "arith.maximumf", "operands": "%x, %y", "type": "f32"}
    marked = SUM.format(**given | {"operands": "%x, %y fastmath<fast>"})
    assert look_alike(session, SUM.format(**given), marked)
    reading = Traits(frozenset(), frozenset(), frozenset({"arith.maximumf"}))
    assert not look_alike(session, SUM.format(**given), marked, traits=reading)
    assert look_alike(session, marked, marked, traits=reading)


def test_imports_of_arguments_look_alike_whatever_they_are_called(session):
    text = """(%v: !hal.buffer_view) -> tensor<4xf32> {{
      %0 = hal.tensor.import %v "{name}" : !hal.buffer_view -> tensor<4xf32>
      %1 = math.absf %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }}"""
    assert look_alike(session, text.format(name="input0"), text.format(name="input1"), reads=2)


def test_patterns_that_ask_how_a_value_is_made_are_remembered():
    from tests.matchers.search.test_match_engine import graphs_of, load_text

    asked = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) where y is not addf(_, _) { mulf(x, rsqrt(y)) }"
    shared = "pattern q(x: tensor<n x f32>) where only(e) { e = exp(x) absf(e) }"
    rooted = 'pattern r(x: tensor<n x f32>) where lacks("my.mark") { exp(x) }'
    graphs = graphs_of(load_text(f"{asked}\n{shared}\n{rooted}"))
    # r looks at an attribute of an op on elements, which none of the others reads.
    assert [graph.pattern.name for graph in graphs if graph in Traits.of(graphs).local] == ["p", "q"]


def test_a_rounding_mode_counts(session):
    given = {"arguments": "%x: f32, %y: f32", "op": "arith.addf", "operands": "%x, %y", "type": "f32"}
    assert not look_alike(session, SUM.format(**given), SUM.format(**given | {"operands": "%x, %y downward"}))


def test_which_result_of_an_op_it_is_counts(session):
    text = """(%x: tensor<4xf32>) -> f32 {{
      %0:2 = "some.op"(%x) : (tensor<4xf32>) -> (f32, f32)
      return %0#{number} : f32
    }}"""
    assert look_alike(session, text.format(number=0), text.format(number=0))
    assert not look_alike(session, text.format(number=0), text.format(number=1))


def test_values_shared_further_up_count(session):
    text = """(%x: f32, %y: f32) -> f32 {{
      %0 = arith.mulf %x, %y : f32
      %1 = arith.mulf %x, {other} : f32
      %2 = arith.addf %0, %1 : f32
      return %2 : f32
    }}"""
    assert look_alike(session, text.format(other="%y"), text.format(other="%y"), reads=5)
    assert not look_alike(session, text.format(other="%y"), text.format(other="%x"), reads=5)


@pytest.mark.parametrize(
    ("region", "other", "alike"),
    [
        ("({ END })", "({ END })", True),
        ("({ END })", '({ "some.more"() : () -> () END })', False),
        ("({ END })", '({ ^bb0(%y: f32): "some.more"(%y) : (f32) -> () END })', False),
        ("({ END }, { END })", "({ END }, { END })", None),
        ("({ ^a: END ^b: END })", "({ ^a: END ^b: END })", None),
    ],
)
def test_an_op_that_a_pattern_matches_by_name_is_the_same_with_the_same_body_of_one_block(
    session, region, other, alike
):
    """alike: None where it cannot be told how it looks."""
    text = '(%x: f32) -> f32 { %0 = "some.op"(%x) REGION : (f32) -> f32 return %0 : f32 }'
    region, other = (each.replace("END", '"some.end"() : () -> ()') for each in (region, other))
    texts = (f"func.func @f{n}{text.replace('REGION', each)}" for n, each in enumerate((region, other)))
    module = module_of(session, "\n".join(texts))
    memory = Recall(Traits(frozenset(), frozenset({"some.op"}), frozenset()), frozenset({"some.op"}))
    first, second = returned(module)
    assert memory.learn(first, [first], lambda numbers: "found") == (None if alike is None else "found")
    found = [known for _, value, known in memory.places(module) if value == second]
    assert found == ["found" if alike else None]


def test_places_come_in_program_order_from_every_function_and_none_from_bodies(session):
    module = module_of(
        session,
        """
        func.func @a(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
          %0 = math.exp %x : tensor<4xf32>
          %1 = scf.if %p -> tensor<4xf32> {
            %2 = math.exp %0 : tensor<4xf32>
            scf.yield %2 : tensor<4xf32>
          } else {
            scf.yield %x : tensor<4xf32>
          }
          %e = tensor.empty() : tensor<4xf32>
          %3 = linalg.map ins(%1 : tensor<4xf32>) outs(%e : tensor<4xf32>)
            (%i: f32, %o: f32) { %t = math.tanh %i : f32  %u = math.exp %t : f32  linalg.yield %u : f32 }
          return %3 : tensor<4xf32>
        }
        module @inner { func.func @b(%x: f32) -> f32 { %0 = math.exp %x : f32 return %0 : f32 } }
        """,
    )

    def places(*names):
        found = Recall(NOTHING, frozenset(names) if names else None).places(module)
        ops = [value.owner for _, value, _ in found]
        return [(op.name, function_around(op)) for op in ops]

    exp = "math.exp"
    assert places(exp) == [(exp, "a"), (exp, "a"), ("linalg.map", "a"), (exp, "b")]
    assert places("math.tanh") == []  # the body does not end with it
    every = [name for name, _ in places()]
    assert every == [exp, "scf.if", exp, "tensor.empty", "linalg.map", exp]


@pytest.mark.parametrize(("used", "places"), [(0, [0]), (1, [0, 1])])
def test_results_of_an_op_with_several_that_something_uses_are_places(session, used, places):
    """And the first one: what a softmax of PyTorch finds beside its maximum is no argmax that anybody asks for."""
    module = module_of(
        session,
        """func.func @f(%x: tensor<4xf32>) -> f32 {
          %s = tensor.empty() : tensor<f32>
          %0:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>],
              iterator_types = ["reduction"]} ins(%x : tensor<4xf32>) outs(%s, %s : tensor<f32>, tensor<f32>) {
          ^bb0(%a: f32, %b: f32, %c: f32):
            %1 = arith.addf %a, %b : f32
            %2 = arith.maximumf %a, %c : f32
            linalg.yield %1, %2 : f32, f32
          } -> (tensor<f32>, tensor<f32>)
          %r = tensor.extract %0#USED[] : tensor<f32>
          return %r : f32
        }""".replace("USED", str(used)),
    )
    found = Recall(NOTHING, frozenset({"arith.maximumf"})).places(module)
    assert [value.result_number for _, value, _ in found] == places


def test_hushed_places_are_left_out(session):
    text = SUM.format(arguments="%x: f32, %y: f32", op="arith.addf", operands="%x, %y", type="f32")
    module = module_of(session, "\n".join(f"func.func @f{i}{text}" for i in range(5)))
    memory = Recall(NOTHING, None)
    seen = []
    for number, value, found in memory.places(module):
        seen.append((number, found))
        if number == 0:
            memory.learn(value, [value], lambda numbers: "found")
        if number == 2:
            memory.hush("found")
    assert seen == [(0, None), (1, "found"), (2, "found")]


def test_an_op_with_more_operands_than_there_is_room_for_looks_new(session):
    count = 10_000
    arguments = ", ".join(f"%x{i}: f32" for i in range(count))
    operands, types = ", ".join(f"%x{i}" for i in range(count)), ", ".join(["f32"] * count)
    for name in ("tensor.from_elements", '"some.op"'):
        said = operands if name.startswith("tensor") else f"({operands})"
        kind = f"tensor<{count}xf32>"
        made = kind if name.startswith("tensor") else f"({types}) -> {kind}"
        module = module_of(
            session,
            f"func.func @f({arguments}) -> {kind} {{ %0 = {name}{' ' + said if said == operands else said} : {made}\n"
            f"return %0 : {kind} }}",
        )
        (value,) = returned(module)
        known = Recall(NOTHING, None).learn(value, [value], lambda numbers: "found")
        assert (known is None) == name.startswith("tensor")  # what opaque ops use is not read


def test_more_names_of_ops_than_there_is_room_for(session):
    lines = "\n".join(f'%{i} = "some.op{i}"(%x) : (f32) -> f32' for i in range(20_000))
    text = f"func.func @f(%x: f32) -> f32 {{ {lines} %last = math.exp %x : f32 return %last : f32 }}"
    module = module_of(session, text)
    assert len(list(Recall(NOTHING, None).places(module))) == 20_001
    assert [number for number, *_ in Recall(NOTHING, frozenset({"math.exp"})).places(module)] == [0]


def test_when_memory_is_full_it_is_given_back_and_all_matches_are_found(session, monkeypatch):
    from tests.matchers.search.test_match_engine import FAMILY, NORMALISED, graphs_of, load_text

    text = "".join(NORMALISED.format(i=i, size=64 + i % 7) for i in range(40))
    module = module_of(session, text)
    graphs = graphs_of(load_text(FAMILY.format(i=1, size=64)))
    places = [(m.function, m.pattern.name) for m in engine.find(module, graphs).matches]
    monkeypatch.setattr(lookalikes, "MOST_STATES", 12)
    made = []
    forget = Recall._forget
    monkeypatch.setattr(Recall, "_forget", lambda self: made.append(self) or forget(self))
    again = engine.find(module, graphs)
    assert [(m.function, m.pattern.name) for m in again.matches] == places
    assert len(places) == 2 * 6
    assert len(made) > 2


TWO = """
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %e: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
  {first}
  {second}
  return %r, %s : tensor<8xf32>, tensor<8xf32>
}}"""
BY_NAME = """%{0}0 = "test.op"(%{1}) {{k = {2}}} : (tensor<8xf32>) -> tensor<8xf32>
  %{0} = math.exp %{0}0 : tensor<8xf32>"""
ELEMENTWISE = """%{0}0 = arith.negf %{1} {{k = {2}}} : tensor<8xf32>
  %{0} = math.exp %{0}0 : tensor<8xf32>"""
GENERIC = """%{0} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]}} ins(%{1} : tensor<8xf32>) outs(%e : tensor<8xf32>) attrs = {{my.k = {2}}} {{
  ^bb0(%p: f32, %q: f32): %1 = math.exp %p : f32 linalg.yield %1 : f32 }} -> tensor<8xf32>"""


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (BY_NAME, 'exp("test.op"(x) {k = 1} : tensor<n x f32>)'),
        (ELEMENTWISE, "exp(negf(x) {k = 1})"),
        (GENERIC, '"linalg.generic"(x, ...) {my.k = 1, ...} : tensor<n x f32>'),
    ],
)
def test_places_that_differ_in_an_attribute_that_a_pattern_asks_for_do_not_look_the_same(find, session, one, wanted):
    session.context.allow_unregistered_dialects = True
    spec = f"pattern p(x: tensor<n x f32>) {{ {wanted} }}"
    for numbers in ((1, 1), (1, 2), (2, 1)):
        first, second = (one.format(*each) for each in zip("rs", "xy", numbers, strict=True))
        assert find(TWO.format(first=first, second=second), spec).count == numbers.count(1)

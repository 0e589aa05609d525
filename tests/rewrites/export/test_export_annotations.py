"""Rules that set attributes, in an exported spec: on the same ops as our engine, and read back by the import."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from opsplice.rewrites.transform_dialect.importing.importer import import_spec
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

from .conftest import Sider, exported

KIND = "tensor<4x8xf32>"
_SET = re.compile(r"math\.\w+|arith\.negf|my\.\w+(?: = [^,}]+)?")


def program(ops: str) -> str:
    """A function of one op after the other, each on the one before."""
    values = ["%x", *(f"%v{i}" for i in range(len(ops.split())))]
    lines = [f"{values[i + 1]} = {op} {values[i]} : {KIND}" for i, op in enumerate(ops.split())]
    return (
        f"util.func public @f(%x: {KIND}) -> {KIND} {{\n{chr(10).join(lines)}\nutil.return {values[-1]} : {KIND}\n}}\n"
    )


def sets(module: ir.Module) -> list[str]:
    """The ops, each followed by what is set on it."""
    return _SET.findall(str(module))


SEVERAL = """
pattern p(x: tensor<...m x f32>) { exp(x) }
pattern q(x: tensor<m x n x f32>) where n <= 8 { absf(exp(x)) }
pattern r(x: tensor<m x n x f32>) where n > 8 { absf(exp(x)) }
pattern s(x: tensor<m x n x f32>) { exp(exp(x)) }
annotate p with {my.tag, my.n = 3, my.s = "a", my.l = [1, 2], my.c = mlir "#linalg.iterator_type<parallel>"}
annotate q with {my.tag, my.f = 1.5, my.b = true}
annotate r with {my.wrong}
annotate s with {my.n = 4}
annotate s with {my.twice = 1}
"""


def test_attributes_of_each_kind_are_set_where_opsplice_sets_them(sides: Sider) -> None:
    # The second rule sets my.tag, as the first does, but never on the same op.
    spec = SEVERAL.replace("{my.tag, my.f", "{my.f")
    found = sides(program("math.exp math.exp math.absf math.exp math.exp math.exp"), spec)
    assert sets(found.ours) == sets(found.theirs)
    wanted = ["my.b = true", "my.c = #linalg.iterator_type<parallel>", "my.f = 1.500000e+00 : f64", "my.n = 3 : i64"]
    assert {*wanted, "my.l = array<i64: 1", 'my.s = "a"', "my.tag", "my.twice = 1 : i64"} <= set(sets(found.theirs))
    assert not {"my.wrong", "my.n = 4 : i64"} & set(sets(found.theirs))


def test_the_first_rule_that_sets_an_attribute_wins(sides: Sider) -> None:
    spec = """
    pattern p(x: tensor<m x n x f32>) { exp(exp(x)) }
    pattern q(x: tensor<m x n x f32>) { exp(x) }
    annotate p with {my.n = 1}
    annotate q with {my.n = 2}
    """
    found = sides(program("math.exp math.exp"), spec)
    assert sets(found.ours) == sets(found.theirs) == ["math.exp", "my.n = 2 : i64", "math.exp", "my.n = 1 : i64"]


def test_a_rule_that_may_lose_some_of_its_attributes_has_no_counterpart() -> None:
    ((rule, gaps),) = exported(SEVERAL).gaps
    assert rule.pattern == "q"
    assert "sets my.tag first, none of this rule's attributes is set" in str(gaps[0])


def test_attributes_are_set_after_calls_are_made(sides: Sider) -> None:
    """Templates compare attributes."""
    spec = """
    kernel k(x: f32[m, n]) -> f32[m, n] { cpu "k.c" }
    pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }
    pattern q(x: tensor<m x n x f32>) { absf(x) }
    annotate q with {my.tag}
    replace p with k(x)
    """
    found = sides(program("math.absf math.absf arith.negf"), spec)
    assert found.counts == (1, 1)
    assert sets(found.ours) == sets(found.theirs) == ["math.absf", "my.tag"]


@settings(max_examples=examples(25, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=st.lists(st.sampled_from(["math.exp", "math.absf", "arith.negf"]), min_size=1, max_size=7).map(" ".join),
    patterns=st.lists(
        st.tuples(st.lists(st.sampled_from(["exp", "absf", "negf"]), min_size=1, max_size=3), st.sampled_from("abc")),
        min_size=1,
        max_size=4,
    ),
)
def test_random_annotations(sides: Sider, ops: str, patterns: list[tuple[list[str], str]]) -> None:
    spec = []
    for number, (names, attribute) in enumerate(patterns):
        body = "(".join(names) + "(x" + ")" * len(names)
        spec.append(f"pattern p{number}(x: tensor<m x n x f32>) {{ {body} }}")
        spec.append(f"annotate p{number} with {{my.{attribute} = {number}}}")
    found = sides(program(ops), "\n".join(spec))
    assert sets(found.ours) == sets(found.theirs)


def test_ops_by_their_names(sides: Sider, context: ir.Context) -> None:
    spec = """
    pattern named() { "math.exp"(...) {...} }
    pattern p(x: tensor<m x n x f32>) { exp(absf(x)) }
    annotate named with {my.n = 1}
    annotate p with {my.n = 2}
    annotate p with {my.tag}
    """
    text = program("math.absf math.exp math.exp")
    found = sides(text, spec)
    marked = ["math.absf", "math.exp", "my.n = 1 : i64", "my.tag", "math.exp", "my.n = 1 : i64"]
    assert sets(found.ours) == sets(found.theirs) == marked
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(exported(spec).text))
    assert not back.left_out
    assert sets(sides(text, back.text).theirs) == marked


@pytest.mark.parametrize(
    ("pattern", "marked"),
    [
        ('"math.absf"(...) {...} | "math.exp"(...) {...}', [1, 2, 3]),
        ('"math.exp"(...) {!lowering_config, ...}', [2]),
        ('"math.exp"(...) {!lowering_config, ...} | "arith.negf"(...) {!lowering_config, ...}', [2, 4]),
    ],
)
def test_ops_of_several_names_and_untuned_ones(
    pattern: str, marked: list[int], sides: Sider, context: ir.Context
) -> None:
    text = program("math.absf math.exp math.exp arith.negf").replace(
        "math.exp %v1 :", "math.exp %v1 {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[2]]>} :"
    )
    spec = f"pattern named() {{ {pattern} }}\nannotate named with {{my.tag}}"
    found = sides(text, spec)
    ops = ["math.absf", "math.exp", "math.exp", "arith.negf"]
    expected = [word for number, op in enumerate(ops, 1) for word in [op, *["my.tag"] * (number in marked)]]
    assert sets(found.ours) == sets(found.theirs) == expected
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(exported(spec).text))
    assert not back.left_out
    assert sets(sides(text, back.text).ours) == sets(found.theirs)


def test_import_reads_what_export_writes(context: ir.Context, sides: Sider) -> None:
    spec = """
    pattern p(x: tensor<m x n x f32>) { exp(x) }
    pattern q(x: tensor<m x n x f32>) { exp(exp(x)) }
    annotate p with {my.n = 1, my.tag}
    annotate q with {my.n = 2, my.tag}
    """
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(exported(spec).text))
    assert not back.left_out
    again = load_text(back.text)
    assert [rule.pattern for rule in again.rules] == ["match_0_p_0"] * 2 + ["match_1_q_0"] * 2
    text = program("math.exp math.exp math.exp")
    assert sets(sides(text, back.text).ours) == sets(sides(text, spec).ours)


def test_attributes_that_one_rule_sets_are_read_back_as_one_rule(context: ir.Context, sides: Sider) -> None:
    spec = """
    pattern p(x: tensor<m x n x f32>) where not n == 4 { exp(x) }
    pattern q(x: tensor<m x n x f32>) { absf(x) }
    annotate p with {my.n = 1, my.tag, my.s = "a"}
    annotate q with {my.other}
    """
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(exported(spec).text))
    assert not back.left_out
    again = [(rule.pattern, [a.name for a in rule.attributes]) for rule in load_text(back.text).rules]
    # p holds below and above 4.
    every = ["my.n", "my.tag", "my.s"]
    assert sorted(again) == [("match_0_p_0_0", every), ("match_0_p_0_1", every), ("match_1_q_0", ["my.other"])]
    text = program("math.exp math.absf math.exp")
    assert sets(sides(text, back.text).ours) == sets(sides(text, spec).ours)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("in %function0", "in %part", "in a part of the program only"),
        ("transform.yield %root :", "transform.yield %other :", "yields other than the op that it is given"),
    ],
)
def test_what_import_cannot_read_of_it(old: str, new: str, why: str, context: ir.Context) -> None:
    text = exported("pattern p(x: tensor<m x n x f32>) { exp(absf(x)) }\nannotate p with {my.tag}\n").text
    at = "%other = transform.get_producer_of_operand %root[0] : (!transform.any_op) -> !transform.any_op\n"
    text = text.replace("    transform.yield %root", f"{at}    transform.yield %root").replace(old, new)
    kind = "(!transform.any_op) -> !transform.any_op"
    part = f'%part = transform.structured.match ops{{["math.exp"]}} in %function0 : {kind}\n'
    text = text.replace("%place0_0 = ", f"{part}%place0_0 = ", 1)
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(text))
    assert any(why in line for line in back.left_out)
    assert not back.rules


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ('(x: tensor<m x m x f32>) { "linalg.copy"(x, ...) {...} }', "the dim m twice"),
        ('(x: tensor<m x f32>) { "linalg.add"(x, x, ...) {...} }', "`x` twice"),
        (
            "(x: tensor<m x k x i8>, w: tensor<k x n x i8>) "
            "{ accumulated(contract[mk, kn -> mn](x, w) : tensor<m x n x i32>) }",
            "IREE takes integers with their signs and without",
        ),
        (
            "(x: tensor<n x h x c x f32>, w: tensor<k x c x f x f32>) "
            "{ accumulated(contract[n (s*o + i) c, i c f -> n o f](x, w)) }",
            "give s a size, as in `s == 1`",
        ),
        ('(x: tensor<m x f32>) where lacks("my.tag") { exp(x) }', "this condition"),
    ],
)
def test_what_no_matcher_asks_for(pattern: str, why: str) -> None:
    found = exported(f"pattern p{pattern}\nannotate p with {{my.tag}}")
    assert why in "".join(str(gap) for _, gaps in found.gaps for gap in gaps)
    assert not found.rules


def test_many_dims_without_a_pack() -> None:
    dims = " x ".join("abcdef")
    assert exported(f"pattern p(x: tensor<{dims} x f32>) {{ exp(x) }}\nannotate p with {{my.tag}}").rules


BODY = """^bb0(%in: f32, %best: f32, %at: i64):
    %column = linalg.index 1 : index
    %here = arith.index_cast %column : index to i64
    %more = arith.cmpf ogt, %in, %best : f32
    %0 = arith.select %more, %in, %best : f32
    %1 = arith.select %more, %here, %at : i64
    linalg.yield %0, %1 : f32, i64
"""


def test_bodies(sides: Sider, context: ir.Context) -> None:
    extrema = [
        f"""%{name}:2 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
            affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}}
            ins(%x : {KIND}) outs(%y, %z : tensor<4xf32>, tensor<4xi64>) attrs = {{{name}}} {{
        {BODY.replace("ogt", predicate)}
        }} -> (tensor<4xf32>, tensor<4xi64>)"""
        for name, predicate in (("least", "olt"), ("most", "ogt"))
    ]
    text = f"""
    util.func public @f(%x: {KIND}, %y: tensor<4xf32>, %z: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {{
        {extrema[0]}
        {extrema[1]}
        util.return %least#1, %most#1 : tensor<4xi64>, tensor<4xi64>
    }}"""
    spec = f"""
    pattern argmax() {{ best, at = "linalg.generic"(...) mlir {{
    {BODY}}}
    best, at }}
    annotate argmax with {{my.tag}}
    """
    found = sides(text, spec)
    for side in (found.ours, found.theirs):
        assert re.findall(r"least|most, my.tag|my.tag", str(side)) == ["least", "most, my.tag"]
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(exported(spec).text))
    assert not back.left_out
    assert sides(text, back.text).texts[0] == found.texts[0]

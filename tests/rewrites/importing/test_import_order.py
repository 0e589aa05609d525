"""Pairs of matchers that may hold at the same op: rules do what IREE's interpreter does, or the import says so."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

from .interpreted import by_iree, by_us, imported

_KIND = "tensor<?x?xf32>"
_OPS = {
    "mul": "arith.mulf %x, %x",
    "rem": "arith.remf %x, %x",
    "neg": "arith.negf %x",
    "abs": "math.absf %x",
    "exp": "math.exp %x",
}
# Of which patterns read none in two ways, as they do the square of a magnitude, which templates do not.
_PLAIN = ("neg", "abs", "rem")


def _ops(names: str, kind: str) -> list[str]:
    """The ops, one on the other, the first on `%v`."""
    values = ["%v", *(f"%v{i}" for i in range(len(names.split())))]
    return [f"{values[i + 1]} = {_OPS[name].replace('%x', values[i])} : {kind}" for i, name in enumerate(names.split())]


def _template(ops: str) -> str:
    return f"""%ins, %out = transform.iree.match.cast_compatible_dag_from_root %op {{
    ^bb0(%v: {_KIND}):
      {chr(10).join(_ops(ops, _KIND))}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)"""


def _call(name: str) -> str:
    return f"""
  util.func private @f_{name}(%x: {_KIND}) -> {_KIND} {{
    %0 = math.sqrt %x : {_KIND}
    util.return %0 : {_KIND}
  }}
  transform.named_sequence @do_{name}(%op: !transform.any_op {{transform.readonly}},
      %ins: !transform.any_value {{transform.readonly}}, %out: !transform.any_value {{transform.readonly}}) {{
    %module = transform.util.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
    %f = transform.util.import_symbol @f_{name} into %module if undefined : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %f(%ins) -> %out after %op {{
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    }} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }}
"""


def _tag(name: str, tags: str) -> str:
    lines = [
        f'transform.annotate %op "{tag}" = %{name} : !transform.any_op, !transform.any_param' for tag in tags.split()
    ]
    return f"""
  transform.named_sequence @do_{name}(%op: !transform.any_op {{transform.readonly}}) {{
    %{name} = transform.param.constant "{name}" -> !transform.any_param
    {chr(10).join(lines)}
    transform.yield
  }}
"""


def _matcher(name: str, body: str, values: str) -> str:
    handles = ["%op", *values.split()]
    kinds = ", ".join(["!transform.any_op", *["!transform.any_value"] * (len(handles) - 1)])
    return f"""
  transform.named_sequence @{name}(%op: !transform.any_op {{transform.readonly}}) -> ({kinds}) {{
    {body}
    transform.yield {", ".join(handles)} : {kinds}
  }}
"""


def spec_of(*stages: Sequence[tuple[str, str, str]]) -> str:
    """A spec with a `foreach_match` for each stage. A pair: its name, the ops or op name that it matches, and the
    attributes that it sets, "" for a call of a function `f_<name>`.
    """
    parts, entry = [], []
    for number, pairs in enumerate(stages):
        for name, ops, tags in pairs:
            named = f'transform.match.operation_name %op ["{ops}"] : !transform.any_op'
            parts.append(_matcher(name, named if "." in ops else _template(ops), "" if tags else "%ins %out"))
            parts.append(_tag(name, tags) if tags else _call(name))
        listed = ", ".join(f"@{name} -> @do_{name}" for name, _, _ in pairs)
        kind = "(!transform.any_op) -> !transform.any_op"
        entry += [f"%m{number + 1} = transform.foreach_match in %m{number} {listed} : {kind}"]
    return f"""
module attributes {{transform.with_named_sequence}} {{
{"".join(parts)}
  transform.named_sequence @__transform_main(%m0: !transform.any_op) {{
    {chr(10).join(entry)}
    transform.yield
  }}
}}
"""


def program_of(ops: str) -> str:
    kind = "tensor<4x8xf32>"
    lines = _ops(ops, kind)
    last = lines[-1].split()[0]
    return f"util.func public @main(%v: {kind}) -> {kind} {{\n{chr(10).join(lines)}\nutil.return {last} : {kind}\n}}"


def result_of(module: ir.Module) -> list[str]:
    """What the program returns, from the last op to the first, with what ops are tagged with."""
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
    block = functions["main"].operation.regions[0].blocks[0]
    found = []
    value = block.operations[len(block.operations) - 1].operation.operands[0]
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        tags = [f"{n}={op.attributes[n].value}" for n in op.attributes if n in ("tag", "other")]
        if op.name != "tensor.cast":
            called = f" {op.attributes['callee']}" if "callee" in op.attributes else ""
            found.append(" ".join([op.name + called, *tags]))
        value = op.operands[0]
    return found


SAME = {
    "an op inside of a larger match comes first in the program": ([[("a", "mul abs neg", ""), ("b", "abs", "")]], 2),
    "three of which each lies in the one before": (
        [[("a", "exp mul abs neg", ""), ("b", "mul abs", ""), ("c", "mul", "")]],
        3,
    ),
    "two roots at one op": ([[("a", "abs neg", ""), ("b", "neg", ""), ("c", "mul abs neg", "")]], 3),
    "a match that holds inside of itself": ([[("a", "abs abs", "")]], 1),
    "one after the other": ([[("a", "mul abs neg", "")], [("b", "abs", "")]], 2),
    "the same attribute set by the first that holds": ([[("a", "abs neg", "tag"), ("b", "arith.negf", "tag")]], 2),
    "fewer attributes than the first that holds sets": (
        [[("a", "arith.negf", "tag other"), ("b", "arith.negf", "tag")]],
        2,
    ),
    "the same attribute set anew": ([[("a", "arith.negf", "tag")], [("b", "arith.negf", "tag")]], 2),
    "more attributes set anew": ([[("a", "arith.negf", "tag")], [("b", "arith.negf", "tag other")]], 2),
    "fewer attributes set anew": ([[("a", "arith.negf", "tag other")], [("b", "arith.negf", "tag")]], 2),
    "different attributes one after the other": ([[("a", "arith.negf", "tag")], [("b", "arith.negf", "other")]], 2),
    "annotations of other ops than calls": ([[("a", "abs neg", ""), ("b", "arith.mulf", "tag")]], 2),
}
PROGRAMS = ("mul abs neg", "exp mul abs neg", "abs abs abs abs neg", "neg", "mul neg abs mul abs neg mul")


@pytest.mark.parametrize("case", SAME)
def test_rules_do_what_the_interpreter_does(case: str, context: ir.Context) -> None:
    stages, rules = SAME[case]
    spec = spec_of(*stages)
    back = imported(spec, context)
    assert not back.left_out
    assert back.rules == rules
    for program in map(program_of, PROGRAMS):
        assert result_of(by_us(program, back.text, context)) == result_of(by_iree(program, spec, context))


def _pairs(rng: random.Random) -> list[list[tuple[str, str, str]]]:
    names = iter("abcdef")
    stages = []
    for _ in range(rng.choice((1, 1, 2))):
        pairs = []
        for _ in range(rng.choice((1, 2, 3))):
            tags = rng.choice(("", "", "", "tag", "other", "tag other"))
            named = rng.choice(("arith.negf", "math.absf")) if tags and rng.random() < 0.5 else ""
            chain = " ".join(rng.choice(_PLAIN) for _ in range(rng.choice((1, 2, 3))))
            pairs.append((next(names), named or chain, tags))
        stages.append(pairs)
    return stages


@settings(deadline=None, max_examples=examples(25, 5000), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_what_is_imported_of_random_pairs_does_the_same(seed: int, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(*_pairs(rng))
    back = imported(spec, context)
    assume(not back.left_out)
    for _ in range(4):
        program = program_of(" ".join(rng.choice(_PLAIN) for _ in range(rng.randint(1, 7))))
        assert result_of(by_us(program, back.text, context)) == result_of(by_iree(program, spec, context))


REFUSED = {
    "either may lie in the other": (
        [[("a", "abs neg abs", ""), ("b", "neg abs neg", "")]],
        "either may take an op that the other needs",
    ),
    "an annotation before a call": ([[("a", "arith.negf", "tag"), ("b", "neg", "")]], "annotations exclude no rule"),
    "different attributes of which one is set": (
        [[("a", "arith.negf", "tag"), ("b", "abs neg", "other")]],
        "annotations exclude no rule",
    ),
    "more attributes than the first that holds sets": (
        [[("a", "arith.negf", "tag"), ("b", "arith.negf", "tag other")]],
        "annotations exclude no rule",
    ),
    "an attribute that hides an op from a later template": (
        [[("a", "arith.negf", "tag")], [("b", "neg", "")]],
        "keeps matchers from finding it",
    ),
    "an attribute that hides an op from a larger template": (
        [[("b", "abs neg", ""), ("a", "math.absf", "tag")]],
        "keeps matchers from finding it",
    ),
    "an attribute set on what a call has cut": (
        [[("a", "mul abs", "tag"), ("b", "mul", "")]],
        "what a call has replaced is no longer found",
    ),
    "an annotation that hides ops from itself": ([[("a", "abs abs", "tag")]], "its matches may overlap"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_rules_cannot_do_is_named(case: str, context: ir.Context) -> None:
    stages, why = REFUSED[case]
    spec = spec_of(*stages)
    back = imported(spec, context)
    assert len(back.left_out) == 1
    assert why in back.left_out[0]
    assert back.rules == sum(map(len, stages)) - 1


_ENTRY = "  transform.named_sequence @__transform_main(%m0: !transform.any_op) {\n"
_FUNCTIONS = 'transform.structured.match ops{["util.func"]}'
_TYPE = "(!transform.any_op) -> !transform.any_op"


def restricted(entry: str) -> str:
    """A spec with one pair, whose `foreach_match` is in a part of the program, `%part`."""
    spec = spec_of([("a", "abs neg", "")]).replace("foreach_match in %m0", "foreach_match in %part")
    return spec.replace(_ENTRY, f"{_ENTRY}{entry}\n")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            f'%part = {_FUNCTIONS} attributes{{sym_name = "first"}} in %m0 : {_TYPE}',
            "transform.foreach_match: in a part of the program only",
        ),
        (
            f'%part = transform.structured.match ops{{["scf.for"]}} in %m0 : {_TYPE}',
            "transform.foreach_match: in a part of the program only",
        ),
        (
            f'%one = {_FUNCTIONS} attributes{{sym_name = "first"}} in %m0 : {_TYPE}\n'
            f'%part = transform.apply_registered_pass "canonicalize" to %one : {_TYPE}',
            "transform.apply_registered_pass: a pass on a part of the program only",
        ),
        (
            f'%one = {_FUNCTIONS} attributes{{sym_name = "first"}} in %m0 : {_TYPE}\n'
            f'%ops = transform.structured.match ops{{["arith.negf"]}} in %one : {_TYPE}\n'
            f'transform.annotate %ops "tag" : !transform.any_op\n%part = {_FUNCTIONS} in %m0 : {_TYPE}',
            "transform.annotate: attributes of other than all ops of some names",
        ),
        (
            f'%part = transform.apply_registered_pass "no-such-pass" to %m0 : {_TYPE}',
            "transform.apply_registered_pass: a pass that cannot be run: 'no-such-pass' does not refer to a registered",
        ),
    ],
)
def test_rules_are_for_the_whole_program(entry: str, why: str, context: ir.Context) -> None:
    back = imported(restricted(entry), context)
    assert any(why in line for line in back.left_out)


def test_a_root_that_is_restricted_is_named(context: ir.Context) -> None:
    spec = spec_of([("a", "abs neg", "")]).replace("foreach_match in", "foreach_match restrict_root in")
    assert "in a part of the program only" in imported(spec, context).left_out[0]


def test_all_functions_are_the_whole_program(context: ir.Context) -> None:
    """A pass on functions runs on functions."""
    passes = f'%part = transform.apply_registered_pass "canonicalize" to %all : {_TYPE}'
    back = imported(restricted(f"%all = {_FUNCTIONS} in %m0 : {_TYPE}\n{passes}"), context)
    assert not back.left_out
    assert back.rules == 1
    assert 'run "util.func(canonicalize)" at preprocessing' in back.text


def test_cleaning_before_matching_is_a_pass(context: ir.Context) -> None:
    cleaning = """transform.apply_cse to %m0 : !transform.any_op
    %part = transform.structured.match ops{["util.func"]} in %m0 : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %part { transform.apply_patterns.canonicalization } : !transform.any_op"""
    spec = restricted(cleaning).replace(
        "transform.yield\n  }\n}", "transform.apply_cse to %m1 : !transform.any_op\ntransform.yield\n  }\n}"
    )
    back = imported(spec, context)
    assert not back.left_out
    assert [run.passes for run in load_text(back.text).runs] == ["cse", "util.func(canonicalize)"]


def test_templates_with_shared_parts_are_compared_once(context: ir.Context) -> None:
    back = imported(spec_of([("a", "mul " * 40 + "neg", ""), ("b", "mul " * 30, "")]), context)
    assert not back.left_out
    assert back.rules == 2

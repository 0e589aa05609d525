"""Sequences that include others: read as if their ops stood there, as the interpreter runs them; else named."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from .interpreted import by_iree, by_us, imported, tags

PROGRAM = """
util.func @main(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = math.absf %x {place = "short"} : tensor<4xf32>
  %1 = math.absf %y {place = "long"} : tensor<8xf32>
  %2 = math.exp %y {place = "other"} : tensor<8xf32>
  util.return %0, %1, %2 : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>
}
"""
_OP = "!transform.any_op"
_READ = f"{_OP} {{transform.readonly}}"


def include(name: str, result: str = "%g", mode: str = "propagate", given: str = "%op") -> str:
    return f"{result} = transform.include @{name} failures({mode}) ({given}) : ({_OP}) -> {_OP}"


def sequence(name: str, body: str) -> str:
    """A sequence that yields `%g`."""
    return f"transform.named_sequence @{name}(%op: {_READ}) -> {_OP} {{\n{body}\ntransform.yield %g : {_OP}\n}}\n"


NAMED = f"""
transform.named_sequence @named(%any: {_READ}) -> {_OP} {{
  transform.match.operation_name %any ["math.absf"] : {_OP}
  transform.yield %any : {_OP}
}}
"""
TEMPLATE = f"""
transform.named_sequence @template(%any: {_READ}) -> {_OP} {{
  %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %any {{
  ^bb0(%x: tensor<?xf32>):
    %0 = math.absf %x {{place = "long"}} : tensor<?xf32>
  }} : ({_OP}) -> (!transform.any_value, !transform.any_value)
  transform.yield %any : {_OP}
}}
"""
LENGTH = f"""%in = transform.get_operand %g[0] : ({_OP}) -> !transform.any_value
    transform.iree.match.cast_compatible_type %in = tensor<8xf32> : !transform.any_value"""
_ACTION = 'transform.annotate %op "tag" = %tag : !transform.any_op, !transform.any_param'
_PAIR = f"transform.foreach_match in %m @it -> @do : ({_OP}) -> {_OP}"


def spec_of(others: str, body: str, action: str = _ACTION, entry: str = f"%0 = {_PAIR}") -> str:
    """A spec of one pair. others: further sequences. body: of the matcher, which is given `%op`."""
    return f"""
    module attributes {{transform.with_named_sequence}} {{
      {others}
      transform.named_sequence @it(%op: {_READ}) -> ({_OP}, !transform.any_param) {{
        {body}
        %tag = transform.param.constant "it" -> !transform.any_param
        transform.yield %op, %tag : {_OP}, !transform.any_param
      }}
      transform.named_sequence @do(%op: {_READ}, %tag: !transform.any_param {{transform.readonly}}) {{
        {action}
        transform.yield
      }}
      transform.named_sequence @__transform_main(%m: {_OP} {{transform.consumed}}) {{
        {entry}
        transform.yield
      }}
    }}
    """


_SET = f"""
transform.named_sequence @set(%a: {_READ}, %b: !transform.any_param {{transform.readonly}}) {{
  transform.annotate %a "tag" = %b : {_OP}, !transform.any_param
  transform.yield
}}
"""
_GO = f"""
transform.named_sequence @go(%module: {_OP} {{transform.consumed}}) -> {_OP} {{
  %funcs = transform.structured.match ops{{["util.func"]}} in %module : ({_OP}) -> {_OP}
  transform.foreach %funcs : {_OP} {{
  ^bb0(%m: {_OP}):
    %r = {_PAIR}
  }}
  transform.yield %module : {_OP}
}}
"""
SAME = {
    "a matcher of an op by its name": (spec_of(NAMED, include("named") + LENGTH), ["long"]),
    "a matcher with a template": (spec_of(TEMPLATE, include("template")), ["long"]),
    "one in another": (spec_of(NAMED + sequence("outer", include("named")), include("outer")), ["short", "long"]),
    "the same twice": (spec_of(NAMED, f"{include('named', '%h')}\n{include('named', given='%h')}{LENGTH}"), ["long"]),
    "an action": (
        spec_of(
            NAMED + _SET,
            include("named"),
            f"transform.include @set failures(propagate) (%op, %tag) : ({_OP}, !transform.any_param) -> ()",
        ),
        ["short", "long"],
    ),
    "the entry": (spec_of(NAMED + _GO, include("named"), entry=include("go", given="%m")), ["short", "long"]),
}


@pytest.mark.parametrize("case", SAME)
def test_what_is_included_is_read(case: str, context: ir.Context) -> None:
    spec, tagged = SAME[case]
    back = imported(spec, context)
    assert not back.left_out
    expected = dict.fromkeys(tagged, "it")
    assert tags(by_iree(PROGRAM, spec, context)) == expected
    assert tags(by_us(PROGRAM, back.text, context)) == expected


_DOUBLES = "".join(
    sequence(f"s{i + 1}", f"{include(f's{i}', '%h')}\n{include(f's{i}', given='%h')}") for i in range(20)
)
UNREADABLE = {
    "failures that are let pass": (NAMED, include("named", mode="suppress"), ("with failures(suppress)",)),
    "failures that are let pass within": (
        NAMED + sequence("outer", include("named", mode="suppress")),
        include("outer"),
        ("of @outer, which includes another with failures(suppress)",),
    ),
    "no body": (
        f"transform.named_sequence private @none(%op: {_READ}) -> {_OP}",
        include("none"),
        ("there is no sequence @none with a body",),
    ),
    "a million ops": (
        NAMED.replace("@named", "@s0") + _DOUBLES,
        include("s20"),
        ("which includes another", "where more than 10000 ops come of all that is included"),
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_put_in_is_named_at_its_own_line(case: str, context: ir.Context) -> None:
    others, body, why = UNREADABLE[case]
    spec = spec_of(others, f"// here\n{body}")
    line = spec[: spec.index("// here")].count("\n") + 2
    back = imported(spec, context)
    assert not back.rules
    assert len(back.left_out) == 1
    assert f"-:{line}:" in back.left_out[0]
    assert ": transform.include: " in back.left_out[0]
    assert all(part in back.left_out[0] for part in why)


def test_an_entry_that_includes_what_it_cannot_is_named(context: ir.Context) -> None:
    entry = include("go", mode="suppress", given="%m")
    back = imported(spec_of(NAMED + _GO, include("named"), entry=entry), context)
    assert len(back.left_out) == 1
    assert "transform.include: with failures(suppress)" in back.left_out[0]

"""Patterns with ops for parameters."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax.spec_errors import SpecError

SPEC = """
pattern silu<T>(x: tensor<...m x T>) {
  divf(x, addf(exp(negf(x)), 1.0))
}

pattern gated<T, op act>(x: tensor<...m x T>, y: tensor<...m x T>) {
  mulf(act(x), y)
}

pattern twice<T, op f>(x: tensor<...m x T>, y: tensor<...m x T>) {
  absf(gated<f>(x, y))
}

kernel k(x: f32[...m], y: f32[...m]) -> f32[...m] {
  cpu "k.c"
}

"""


def test_there_is_a_pattern_for_each_way_of_use():
    spec = load_text(SPEC + "replace twice<silu> with k(x, y)\nreplace gated<math.tanh> with k(x, y)\n")
    assert set(spec.patterns) == {"silu", "twice<silu>", "gated<silu>", "gated<math.tanh>"}
    assert [rule.pattern for rule in spec.rules] == ["twice<silu>", "gated<math.tanh>"]
    assert not spec.warnings


def test_one_that_is_not_used_is_no_pattern():
    assert set(load_text(SPEC).patterns) == {"silu"}


def test_the_layout_is_kept():
    text = SPEC.lstrip() + "replace twice<silu> with k(x, y)\nannotate gated<math.tanh> with {a.b}\n"
    assert formatter.format(text.replace("<T, op act>", "< T ,op act >").replace("<silu>", "< silu >")) == text


@pytest.mark.parametrize(("rule", "count"), [("gated<silu>", 1), ("gated<tanh>", 0), ("twice<silu>", 1)])
def test_what_they_match(find, rule, count):
    payload = """
    func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %one = arith.constant dense<1.0> : tensor<4xf32>
      %n = arith.negf %x : tensor<4xf32>
      %e = math.exp %n : tensor<4xf32>
      %d = arith.addf %e, %one : tensor<4xf32>
      %s = arith.divf %x, %d : tensor<4xf32>
      %g = arith.mulf %s, %y : tensor<4xf32>
      %r = math.absf %g : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    used = f"pattern p(x: tensor<n x f32>, y: tensor<n x f32>) {{ {rule}(x, y) }}"
    assert find(payload, SPEC + used).count == count


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("replace gated<silu, silu> with k(x, y)", "gated takes 1 op, found 2"),
        ("replace gates<silu> with k(x, y)", "unknown pattern gates"),
        ("replace gated with k(x, y)", "unknown pattern gated"),
        ("replace silu<tanh> with k(x, x)", "silu takes no ops, found 1"),
        ("replace gated<nothing> with k(x, y)", "unknown op or pattern nothing"),
        ("replace gated<addf> with k(x, y)", "addf takes 2 values, found 1"),
        (
            "pattern own<op f>(x: tensor<n x f32>) { f(own<f>(x)) } replace own<negf> with k(x, x)",
            "cannot be recursive",
        ),
        ('kernel w<op f>(x: f32[n]) -> f32[n] { cpu "w.c" }', "only patterns have op variables"),
        ('pattern q(x: tensor<n x f32>) { "a.b"<tanh>(x) }', "only patterns take ops in angle brackets"),
    ],
)
def test_mistakes(rule, message):
    with pytest.raises(SpecError) as error:
        load_text(SPEC + rule)
    assert message in error.value.details
    assert error.value.details.count("error:") == 1


def test_instances_have_types_of_their_own(session):
    """One makes a tensor of fewer dims than the others, one a tensor of another type."""
    payload = """
    func.func @f(%x: tensor<4x8xf32>) {
      %z = arith.constant dense<0.0> : tensor<4xf32>
      %a = math.tanh %x : tensor<4x8xf32>
      %tanh = arith.negf %a : tensor<4x8xf32>
      %b = arith.truncf %x : tensor<4x8xf32> to tensor<4x8xf16>
      %halves = arith.negf %b : tensor<4x8xf16>
      %c = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
      %rows = arith.negf %c : tensor<4xf32>
      return
    }"""
    makers = {"rows": "reduce", "halves": "truncf", "tanh": "tanh"}
    spec = """
    pattern rows(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }
    pattern halves(x: tensor<m x n x f32>) { truncf(x) : f16 }
    pattern p<op f>(x: tensor<m x n x f32>) { y = f(x)  negf(y) }
    """
    spec += "\n".join(f"annotate p<{name}> with {{a.b}}" for name in makers)
    loaded, module = load_text(spec), ir.Module.parse(payload, context=session.context)
    for name, maker in makers.items():
        graphs = compile_pattern(loaded, f"p<{name}>")
        (match,) = engine.find(module, graphs).matches
        assert maker in match.roots[0].owner.operation.operands[0].owner.operation.name

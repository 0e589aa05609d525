"""Equal spellings: each pattern finds both programs, and the two programs give the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice

# Two spellings, each as a pattern and as a program on tensors of 8 numbers, and how far apart they may be, relative.
# Inputs are between 0.5 and 2.
SPELLINGS = {
    "divf by a constant": (
        ("divf(x, 3.0)", "%c = arith.constant dense<3.0> : !t  %r = arith.divf %x, %c : !t"),
        ("mulf(x, const(1 / 3))", "%c = arith.constant dense<0.333333343> : !t  %r = arith.mulf %x, %c : !t"),
        1e-6,
    ),
    "divf by a root": (
        ("divf(x, sqrt(y))", "%s = math.sqrt %y : !t  %r = arith.divf %x, %s : !t"),
        ("mulf(x, rsqrt(y))", "%s = math.rsqrt %y : !t  %r = arith.mulf %s, %x : !t"),
        1e-6,
    ),
    "times a reciprocal": (
        ("divf(x, exp(y))", "%s = math.exp %y : !t  %r = arith.divf %x, %s : !t"),
        (
            "mulf(x, divf(1.0, exp(y)))",
            """%one = arith.constant dense<1.0> : !t  %s = math.exp %y : !t
            %i = arith.divf %one, %s : !t  %r = arith.mulf %x, %i : !t""",
        ),
        1e-6,
    ),
    "subf of a value": (
        ("subf(x, exp(y))", "%s = math.exp %y : !t  %r = arith.subf %x, %s : !t"),
        ("addf(x, negf(exp(y)))", "%s = math.exp %y : !t  %n = arith.negf %s : !t  %r = arith.addf %n, %x : !t"),
        0.0,
    ),
    "subf of a constant": (
        ("subf(x, 1.5)", "%c = arith.constant dense<1.5> : !t  %r = arith.subf %x, %c : !t"),
        ("addf(x, -1.5)", "%c = arith.constant dense<-1.5> : !t  %r = arith.addf %x, %c : !t"),
        0.0,
    ),
    "a choice by the opposite": (
        (
            "select(cmpf(x, y) {predicate = ogt}, exp(x), y)",
            "%c = arith.cmpf ogt, %x, %y : !t  %e = math.exp %x : !t  %r = arith.select %c, %e, %y : tensor<8xi1>, !t",
        ),
        (
            "select(cmpf(x, y) {predicate = ule}, y, exp(x))",
            "%c = arith.cmpf ule, %x, %y : !t  %e = math.exp %x : !t  %r = arith.select %c, %y, %e : tensor<8xi1>, !t",
        ),
        0.0,
    ),
    "the opposite of a comparison": (
        (
            "select(cmpf(x, y) {predicate = ule}, exp(x), y)",
            "%c = arith.cmpf ule, %x, %y : !t  %e = math.exp %x : !t  %r = arith.select %c, %e, %y : tensor<8xi1>, !t",
        ),
        (
            "select(xori(cmpf(x, y) {predicate = ogt}, 1), exp(x), y)",
            """%t = arith.constant dense<true> : tensor<8xi1>  %g = arith.cmpf ogt, %x, %y : !t
            %c = arith.xori %g, %t : tensor<8xi1>  %e = math.exp %x : !t
            %r = arith.select %c, %e, %y : tensor<8xi1>, !t""",
        ),
        0.0,
    ),
    "negf as a product": (
        ("exp(negf(x))", "%n = arith.negf %x : !t  %r = math.exp %n : !t"),
        (
            "exp(mulf(x, -1.0))",
            """%c = arith.constant dense<-1.0> : !t  %n = arith.mulf %x, %c : !t
            %r = math.exp %n : !t""",
        ),
        0.0,
    ),
    "negf as a difference": (
        ("exp(negf(x))", "%n = arith.negf %x : !t  %r = math.exp %n : !t"),
        ("exp(subf(0.0, x))", "%c = arith.constant dense<0.0> : !t  %n = arith.subf %c, %x : !t %r = math.exp %n : !t"),
        0.0,
    ),
    "fma": (
        (
            "addf(mulf(x, y), 2.0)",
            """%c = arith.constant dense<2.0> : !t %m = arith.mulf %x, %y : !t
            %r = arith.addf %m, %c : !t""",
        ),
        ("fma(x, y, 2.0)", "%c = arith.constant dense<2.0> : !t  %r = math.fma %x, %y, %c : !t"),
        1e-6,
    ),
    "maxnumf": (
        ("maximumf(x, y)", "%r = arith.maximumf %x, %y : !t"),
        ("maxnumf(x, y)", "%r = arith.maxnumf %y, %x : !t"),
        0.0,
    ),
    "minnumf": (
        ("minimumf(x, y)", "%r = arith.minimumf %x, %y : !t"),
        ("minnumf(x, y)", "%r = arith.minnumf %y, %x : !t"),
        0.0,
    ),
    "a maximum that keeps NaN, as PyTorch's": (
        ("maximumf(x, y)", "%r = arith.maximumf %x, %y : !t"),
        (
            "select(ori(cmpf(x, y) {predicate = ogt}, cmpf(x, x) {predicate = une}), x, y)",
            """%g = arith.cmpf ogt, %x, %y : !t  %n = arith.cmpf une, %x, %x : !t  %c = arith.ori %g, %n : tensor<8xi1>
            %r = arith.select %c, %x, %y : tensor<8xi1>, !t""",
        ),
        0.0,
    ),
    "a power of one half": (
        ("sqrt(x)", "%r = math.sqrt %x : !t"),
        ("powf(x, 0.5)", "%c = arith.constant dense<0.5> : !t  %r = math.powf %x, %c : !t"),
        1e-5,
    ),
    "a power of minus one half": (
        ("mulf(y, rsqrt(x))", "%s = math.rsqrt %x : !t  %r = arith.mulf %y, %s : !t"),
        (
            "mulf(y, powf(x, -0.5))",
            """%c = arith.constant dense<-0.5> : !t %s = math.powf %x, %c : !t
            %r = arith.mulf %y, %s : !t""",
        ),
        1e-5,
    ),
    "a cube": (
        ("mulf(mulf(x, x), x)", "%s = arith.mulf %x, %x : !t  %r = arith.mulf %s, %x : !t"),
        ("powf(x, 3.0)", "%c = arith.constant dense<3.0> : !t  %r = math.powf %x, %c : !t"),
        1e-5,
    ),
    "products grouped otherwise": (
        ("mulf(mulf(exp(x), absf(y)), 0.5)", """%c = arith.constant dense<0.5> : !t  %e = math.exp %x : !t
            %a = math.absf %y : !t  %m = arith.mulf %e, %a : !t  %r = arith.mulf %m, %c : !t"""),
        ("mulf(absf(y), mulf(0.5, exp(x)))", """%c = arith.constant dense<0.5> : !t  %e = math.exp %x : !t
            %a = math.absf %y : !t  %m = arith.mulf %c, %e : !t  %r = arith.mulf %m, %a : !t"""),
        1e-6,
    ),
}  # fmt: skip

# Programs that one pattern finds though their ops are not in it: the pattern, its own program, and the other.
ONE_WAY = {
    "the square of a magnitude": (
        "mulf(x, x)",
        "%r = arith.mulf %x, %x : !t",
        "%a = math.absf %x : !t  %r = arith.mulf %a, %a : !t",
    ),
    "a condition that is known": (
        "exp(x)",
        "%r = math.exp %x : !t",
        """%one = arith.constant 1.0 : f32  %two = arith.constant 2.0 : f32  %low = arith.constant dense<0.0> : !t
        %c = arith.cmpf ogt, %two, %one : f32  %e = math.exp %x : !t  %r = arith.select %c, %e, %low : !t""",
    ),
    "squares are not below zero": (
        "sqrt(mulf(x, x))",
        "%s = arith.mulf %x, %x : !t  %r = math.sqrt %s : !t",
        """%zero = arith.constant dense<0.0> : !t  %s = arith.mulf %x, %x : !t
        %m = arith.maximumf %s, %zero : !t  %r = math.sqrt %m : !t""",
    ),
    "a clamp": (
        "minimumf(maximumf(x, 0.75), 1.5)",
        """%l = arith.constant dense<0.75> : !t  %h = arith.constant dense<1.5> : !t
        %m = arith.maximumf %x, %l : !t  %r = arith.minimumf %m, %h : !t""",
        """%l = arith.constant dense<0.75> : !t  %h = arith.constant dense<1.5> : !t
        %r = math.clampf %x to [%l, %h] : !t""",
    ),
    "arithmetic on constants": (
        "mulf(x, 6.0)",
        "%c = arith.constant dense<6.0> : !t  %r = arith.mulf %x, %c : !t",
        """%a = arith.constant dense<2.0> : !t  %b = arith.constant dense<3.0> : !t
        %c = arith.mulf %a, %b : !t  %r = arith.mulf %x, %c : !t""",
    ),
    "sums grouped otherwise, one of them a difference": (
        "addf(addf(exp(x), absf(y)), 0.5)",
        """%c = arith.constant dense<0.5> : !t  %e = math.exp %x : !t
        %a = math.absf %y : !t  %m = arith.addf %e, %a : !t  %r = arith.addf %m, %c : !t""",
        """%c = arith.constant dense<-0.5> : !t  %e = math.exp %x : !t
        %a = math.absf %y : !t  %m = arith.subf %e, %c : !t  %r = arith.addf %m, %a : !t""",
    ),
}

# What is like a spelling of the pattern, and is none.
NOT_EQUAL = {
    "another reciprocal": ("divf(x, 3.0)", "%c = arith.constant dense<0.34> : !t  %r = arith.mulf %x, %c : !t"),
    "a quotient the wrong way": ("divf(exp(x), sqrt(absf(y)))", """%e = math.exp %x : !t  %a = math.absf %y : !t
        %s = math.rsqrt %e : !t  %r = arith.mulf %s, %a : !t"""),
    "a difference the wrong way": ("subf(x, exp(x))", "%s = math.exp %x : !t  %r = arith.subf %s, %x : !t"),
    "the sign left out": ("addf(x, exp(y))", "%s = math.exp %y : !t  %r = arith.subf %x, %s : !t"),
    "another power": ("mulf(mulf(x, x), x)", "%c = arith.constant dense<4.0> : !t  %r = math.powf %x, %c : !t"),
    "a factor more": ("mulf(mulf(exp(x), absf(y)), 0.5)", """%c = arith.constant dense<0.5> : !t  %e = math.exp %x : !t
        %a = arith.mulf %e, %c : !t  %r = arith.mulf %a, %c : !t"""),
    "not a sum of squares": ("exp(x)", """%z = arith.constant dense<0.0> : !t  %e = arith.mulf %x, %y : !t
        %m = arith.maximumf %e, %z : !t  %r = math.sqrt %m : !t"""),
    "a guard against NaN": ("absf(divf(x, y))", """%zero = arith.constant dense<0.0> : !t  %q = arith.divf %x, %y : !t
        %n = arith.cmpf une, %q, %q : !t  %s = arith.select %n, %zero, %q : tensor<8xi1>, !t
        %r = math.absf %s : !t"""),
}  # fmt: skip

# Ops that leave a value as it is, one behind a sum, and one behind what is added.
IDLE = {
    "a sum with zero": "arith.addf %v, %zero",
    "a sum with minus zero": "arith.addf %minus, %v",
    "a difference": "arith.subf %v, %zero",
    "a product": "arith.mulf %one, %v",
    "a quotient": "arith.divf %v, %one",
    "a sum with a zero that is computed": "arith.addf %v, %none",
}
NUMBERS = """%zero = arith.constant dense<0.0> : !t  %minus = arith.constant dense<-0.0> : !t
    %one = arith.constant dense<1.0> : !t  %none = arith.mulf %zero, %one : !t"""
ONE_WAY |= {
    f"{name} with nothing to do": (
        "exp(addf(x, exp(y)))",
        "%e = math.exp %y : !t  %a = arith.addf %x, %e : !t  %r = math.exp %a : !t",
        f"""{NUMBERS}  %e = math.exp %y : !t  %n = {op.replace("%v", "%e")} : !t  %a = arith.addf %x, %n : !t
        %m = {op.replace("%v", "%a")} : !t  %r = math.exp %m : !t""",
    )
    for name, op in IDLE.items()
}


def pattern(body: str) -> str:
    used = [name for name in "xy" if f"({name}" in body or f" {name}" in body]
    return f"pattern p({', '.join(f'{name}: tensor<n x f32>' for name in used)}) {{ {body} }}"


def function(name: str, body: str) -> str:
    text = f"func.func @{name}(%x: !t, %y: !t) -> !t {{ {body}\n return %r : !t }}\n"
    return text.replace("!t", "tensor<8xf32>")


def finds_result(outcome) -> bool:
    """Whether there is one match, or one among others that is what the function returns."""
    returned = next(iter(outcome.module.body.operations)).regions[0].blocks[0].operations[-1].operands[0]
    return outcome.count == 1 or [m.roots[0] for m in outcome.found.matches].count(returned) == 1


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=list(SPELLINGS))
def test_both_patterns_find_both_programs(find, spelling):
    (first, first_body), (second, second_body), _ = spelling
    for text in (first, second):
        for body in (first_body, second_body):
            outcome = find(function("f", body), pattern(text))
            assert finds_result(outcome), f"{text} in {body}: {outcome.reasons}"


@pytest.mark.parametrize("spelling", ONE_WAY.values(), ids=list(ONE_WAY))
def test_one_pattern_finds_both_programs(find, spelling):
    text, *bodies = spelling
    for body in bodies:
        outcome = find(function("f", body), pattern(text))
        assert finds_result(outcome), f"{text} in {body}: {outcome.reasons}"


@pytest.mark.parametrize("op", IDLE.values(), ids=list(IDLE))
@pytest.mark.parametrize(
    ("text", "body", "roots"),
    [
        ("exp(x)", "%v = math.exp %x : !t  %r = {op} : !t", ["math.exp"]),  # it stays behind the match
        ("absf(addf(addf(x, y), exp(y)))", """%e = math.exp %y : !t  %v = arith.addf %e, %x : !t  %n = {op} : !t
          %s = arith.addf %y, %n : !t  %r = math.absf %s : !t""", ["math.absf"]),
        ("addf(addf(x, y), exp(y))", """%e = math.exp %y : !t  %v = arith.addf %e, %x : !t  %n = {op} : !t
          %s = arith.addf %y, %n : !t  %r = math.absf %s : !t""", ["arith.addf"]),
        ("exp(sqrt(x))", "%s = math.sqrt %x : !t  %v = math.absf %s : !t  %w = {op} : !t  %r = math.exp %w : !t", []),
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_is_looked_through_inside_a_match(find, op, text, body, roots):
    outcome = find(function("f", f"{NUMBERS} {body.format(op=op)}"), pattern(text))
    made = [op.name for match in outcome.found.matches for op in [match.roots[0].owner]]
    assert made == roots, outcome.reasons


@pytest.mark.parametrize(
    ("text", "count"),
    [("addf(x, 0.0)", 1), ("addf(x, -0.0)", 0), ("mulf(x, 1.0)", 0), ("absf(addf(x, 0.0))", 1), ("absf(x)", 1)],
)
def test_a_pattern_that_has_it_holds_where_it_is_written(find, text, count):
    body = "%c = arith.constant dense<0.0> : !t  %e = math.exp %x : !t  %z = arith.addf %e, %c : !t"
    assert find(function("f", f"{body}  %r = math.absf %z : !t"), pattern(text)).count == count
    without = function("f", "%e = math.exp %x : !t  %r = math.absf %e : !t")
    assert find(without, pattern(text)).count == (text == "absf(x)")


@pytest.mark.parametrize(("text", "body"), NOT_EQUAL.values(), ids=list(NOT_EQUAL))
def test_what_is_not_equal(find, text, body):
    assert find(function("f", body), pattern(text)).count == 0


def test_the_programs_give_the_same_numbers(tmp_path: Path):
    bodies = {n: (first[1], second[1], far) for n, (first, second, far) in SPELLINGS.items()}
    # IREE makes no code for clampf itself.
    bodies |= {n: (own, other, 1e-6) for n, (_, own, other) in ONE_WAY.items() if "clampf" not in other}
    names = {n: f"f{i}" for i, n in enumerate(bodies)}
    text = "".join(
        function(names[n] + side, body) for n, pair in bodies.items() for side, body in zip("ab", pair[:2], strict=True)
    )
    (tmp_path / "model.mlir").write_text(text)
    program = opsplice.compile(tmp_path / "model.mlir")
    x, y = (np.random.default_rng(seed).uniform(0.5, 2.0, 8).astype(np.float32) for seed in (1, 2))
    for name, (_, _, far) in bodies.items():
        left, right = (np.asarray(program.run(names[name] + side, x, y)) for side in "ab")
        np.testing.assert_allclose(left, right, rtol=far, err_msg=name)


@pytest.mark.parametrize(("second", "count"), [("0.0", 1), ("-0.0", 0), ("1.0", 0)])
def test_a_maximum_is_told_by_its_numbers_wherever_they_come_from(find, second, count):
    payload = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %a = arith.constant dense<0.0> : tensor<8xf32>
      %c = arith.constant {second} : f32
      %e = tensor.empty() : tensor<8xf32>
      %b = linalg.fill ins(%c : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
      %p = arith.cmpf ogt, %x, %a : tensor<8xf32>
      %r = arith.select %p, %x, %b : tensor<8xi1>, tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { maximumf(x, const(-1.0..1.0)) }").count == count


SUMS = [
    ("subf x z", "addf a y"),
    ("addf x y", "subf a z"),
    ("subf y z", "addf x a"),
    ("subf z y", "subf x a"),
    ("subf z x", "subf y a"),
]
QUOTIENTS = [("divf y z", "mulf x a"), ("mulf x y", "divf a z"), ("divf x z", "mulf a y")]
DIFFERENCES = ["subf(addf(x, y), z)", "addf(x, subf(y, z))", "subf(y, subf(z, x))", "addf(addf(x, y), negf(z))"]


def three(first: str, second: str) -> str:
    """A program of two ops on x, y and z; a is the first one's result."""
    lines = []
    for name, written in (("a", first), ("r", second)):
        op, left, right = written.split()
        lines.append(f"%{name} = arith.{op} %{left}, %{right} : tensor<8xf32>")
    return f"""
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {{
      {lines[0]}
      {lines[1]}
      return %r : tensor<8xf32>
    }}"""


@pytest.mark.parametrize(
    ("pattern", "programs"),
    [*((each, SUMS) for each in DIFFERENCES), ("mulf(mulf(x, y), divf(1.0, z))", QUOTIENTS)],
)
def test_differences_and_quotients_in_any_grouping(find, pattern, programs):
    inputs = "x: tensor<n x f32>, y: tensor<n x f32>, z: tensor<n x f32>"
    for first, second in programs:
        found = find(three(first, second), f"pattern p({inputs}) {{ {pattern} }}").inputs
        assert found["z"] == "%arg2", (pattern, first, second)
        assert {found["x"], found["y"]} == {"%arg0", "%arg1"}


@pytest.mark.parametrize("pattern", ["subf(x, addf(y, z))", "subf(subf(x, y), z)", "subf(negf(y), subf(z, x))"])
def test_a_sum_that_is_taken_off_in_any_grouping(find, pattern):
    inputs = "x: tensor<n x f32>, y: tensor<n x f32>, z: tensor<n x f32>"
    programs = [("addf y z", "subf x a"), ("subf x y", "subf a z"), ("subf x z", "subf a y")]
    for first, second in programs:
        assert find(three(first, second), f"pattern p({inputs}) {{ {pattern} }}").inputs["x"] == "%arg0"
    for first, second in SUMS:
        assert find(three(first, second), f"pattern p({inputs}) {{ {pattern} }}").count == 0


@pytest.mark.parametrize(
    ("text", "count"), [("subf(addf(x, y), 1.5)", 1), ("addf(subf(x, 1.5), y)", 1), ("addf(subf(x, -1.5), y)", 0)]
)
def test_numbers_that_are_taken_off_in_any_grouping(find, text, count):
    for first, second in (("subf %x, %c", "addf %a, %y"), ("addf %x, %y", "subf %a, %c")):
        body = f"%c = arith.constant dense<1.5> : !t  %a = arith.{first} : !t  %r = arith.{second} : !t"
        assert find(function("f", body), pattern(text)).count == count, first


@pytest.mark.parametrize(
    ("element", "compare", "written", "other", "turned"),
    [
        ("f32", "cmpf", "olt", "ogt", True),
        ("f32", "cmpf", "uge", "ule", True),
        ("f32", "cmpf", "oeq", "oeq", True),
        ("f32", "cmpf", "olt", "ugt", False),
        ("f32", "cmpf", "olt", "oge", False),
        ("i32", "cmpi", "slt", "sgt", True),
        ("i32", "cmpi", "ule", "uge", True),
        ("i32", "cmpi", "ne", "ne", True),
        ("i32", "cmpi", "slt", "ugt", False),
    ],
)
def test_comparisons_with_their_sides_swapped(find, element, compare, written, other, turned):
    absolute = "math.absf" if element == "f32" else "math.absi"

    def payload(predicate: str, sides: str) -> str:
        return f"""
        func.func @f(%x: tensor<8x{element}>, %y: tensor<8x{element}>) -> tensor<8x{element}> {{
          %a = {absolute} %x : tensor<8x{element}>
          %c = arith.{compare} {predicate}, {sides} : tensor<8x{element}>
          %r = arith.select %c, %a, %y : tensor<8xi1>, tensor<8x{element}>
          return %r : tensor<8x{element}>
        }}"""

    name = absolute.split(".")[1]
    spec = f"""pattern p(x: tensor<n x {element}>, y: tensor<n x {element}>) {{
      select({compare}({name}(x), y) {{predicate = {written}}}, {name}(x), y)
    }}"""
    spec = spec.replace(f"select({compare}({name}(x), y)", f"select({compare}(x, y)")
    for predicate, sides, expected in [(written, "%x, %y", 1), (other, "%y, %x", int(turned)), (other, "%x, %y", 0)]:
        symmetric = predicate == written and sides == "%x, %y"
        assert find(payload(predicate, sides), spec).count == (1 if symmetric else expected)


@pytest.mark.parametrize(
    ("op", "predicate", "bound", "count"),
    [
        ("maximumf", "ogt", "0xFF800000", 1),
        ("maximumf", "ogt", "-3.0e38", 0),
        ("minimumf", "olt", "0x7F800000", 1),
        ("minimumf", "olt", "0xFF800000", 0),
    ],
)
@pytest.mark.parametrize("spelled_out", [False, True])
def test_a_maximum_with_minus_infinity_is_nothing(find, op, predicate, bound, count, spelled_out):
    choice = f"%g = arith.cmpf {predicate}, %s, %c : !t  %m = arith.select %g, %s, %c : tensor<8xi1>, !t"
    made = choice if spelled_out else f"%m = arith.{op} %c, %s : !t"
    body = f"%c = arith.constant dense<{bound}> : !t  %s = math.sqrt %x : !t  {made}  %r = math.exp %m : !t"
    assert find(function("f", body), pattern("exp(sqrt(x))")).count == count


@pytest.mark.parametrize(("divisor", "factor", "count"), [("3.0", "1 / 3", 1), ("3.0e38", "1 / 3.0e38", 0)])
def test_a_quotient_is_no_product_with_a_denormal_number(find, divisor, factor, count):
    body = f"%c = arith.constant dense<{divisor}> : !t  %r = arith.divf %x, %c : !t"
    assert find(function("f", body), pattern(f"mulf(x, const({factor}))")).count == count
    scaled = "pattern p(x: tensor<n x f32>, s: f32) { mulf(x, s) }"
    assert find(function("f", body), scaled).count == count


@pytest.mark.parametrize(
    ("compared", "chosen", "combiner"),
    [
        ("cmpf ogt, %in, %acc", "%in, %acc", "maximumf"),
        ("cmpf ult, %in, %acc", "%acc, %in", "maximumf"),
        ("cmpf olt, %in, %acc", "%in, %acc", "minimumf"),
        ("cmpf oge, %acc, %in", "%in, %acc", "minimumf"),
        ("cmpf oeq, %acc, %in", "%in, %acc", ""),
        ("cmpf ogt, %in, %in", "%in, %acc", ""),
        ("cmpf ogt, %in, %acc", "%in, %in", ""),
    ],
)
def test_a_reduction_that_compares_and_chooses(find, compared, chosen, combiner):
    low = "0xFF800000" if combiner == "maximumf" else "0x7F800000"
    payload = f"""
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {{
      %low = arith.constant dense<{low}> : tensor<4xf32>
      %r = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%low : tensor<4xf32>) dimensions = [1]
          (%in: f32, %acc: f32) {{
        %c = arith.{compared} : f32
        %s = arith.select %c, {chosen} : f32
        linalg.yield %s : f32
      }}
      return %r : tensor<4xf32>
    }}"""
    pattern = "pattern p(x: tensor<m x n x f32>) {{ reduce {}[m n -> m](x) }}"
    found = {name: find(payload, pattern.format(name)).count for name in ("maximumf", "minimumf")}
    assert found == {name: int(name == combiner) for name in found}


def test_the_ops_that_a_spelling_is_read_through_are_part_of_the_match(find):
    """Where both factors of a product are scaled, and seen through views, each of these ops is the match's."""
    payload = """
    func.func @f(%x: tensor<2x2x6xf32>, %w: tensor<6x8xf32>) -> tensor<4x8xf32> {
      %c = arith.constant dense<0.5> : tensor<2x2x6xf32>
      %d = arith.constant dense<0.25> : tensor<6x8xf32>
      %zero = arith.constant dense<0.0> : tensor<4x8xf32>
      %a = arith.mulf %x, %c : tensor<2x2x6xf32>
      %b = arith.mulf %w, %d : tensor<6x8xf32>
      %rows = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x2x6xf32> into tensor<4x6xf32>
      %y = linalg.matmul ins(%rows, %b : tensor<4x6xf32>, tensor<6x8xf32>) outs(%zero : tensor<4x8xf32>)
        -> tensor<4x8xf32>
      %r = math.absf %y : tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    spec = """pattern p(x: tensor<m x k x f32>, w: tensor<k x n x f32>, s: f32) {
      absf(mulf(contract[m k, k n -> m n](x, w), s))
    }"""
    match = find(payload, spec).only
    assert match.inputs["s"].constant == 0.125
    assert sum(op.name == "arith.mulf" for op in match.ops) == 2
    assert {"tensor.collapse_shape", "linalg.matmul"} <= {op.name for op in match.ops}

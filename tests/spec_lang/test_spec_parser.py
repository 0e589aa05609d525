"""The parser: every construct comes out as the tree says, and broken text as one clear error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import parser, syntax_errors, tree
from opsplice.spec_lang.syntax.condition_nodes import MAX_DEPTH
from opsplice.spec_lang.syntax.parser import parse
from opsplice.spec_lang.syntax.spec_errors import SpecError
from tests.effort import examples
from tests.waiting import in_threads


def pattern(body: str, parameters: str = "x: tensor<m x n x f32>, y: tensor<...b x k x f32>") -> tree.Pattern:
    return parse(f"pattern p({parameters}) {{ {body} }}").patterns[0]


def value(body: str, parameters: str = "x: tensor<m x n x f32>, y: tensor<...b x k x f32>") -> tree.Expr:
    return pattern(body, parameters).results[0]


def failure(text: str) -> tuple[str, str | None, str]:
    """(message, help, underlined text) of the one error."""
    with pytest.raises(SpecError) as raised:
        parse(text)
    (found,) = raised.value.diagnostics
    return found.message, found.help, text[found.span.start : found.span.end]


# ---- what is written -------------------------------------------------------------------------------------------------


def test_kernel():
    (kernel,) = parse("""
      kernel k<T in {f32, f64}, U>(x: T[...m, n], y: U[4], s: f32) -> (mean: f32[m], T[n], x) where n % 8 == 0 {
        cpu x86_64 when avx2 and sse4.2 "a.c" flags "-O3 -DX=\\"y\\"" as bitcode
        grid (ceildiv(m, 16), n)
        symbol "k_{T}"
        cpu "b.c"
      }""").kernels
    assert (kernel.name, [v.name for v in kernel.type_variables]) == ("k", ["T", "U"])
    assert [str(c) for c in kernel.type_variables[0].choices] == ["f32", "f64"]
    assert [(p.name, str(p.type)) for p in kernel.parameters] == [
        ("x", "tensor<...m x n x T>"),
        ("y", "tensor<4 x U>"),
        ("s", "f32"),
    ]
    assert [(r.name, str(r.type), r.alias) for r in kernel.results] == [
        ("mean", "tensor<m x f32>", None),
        ("out1", "tensor<n x T>", None),
        ("x", "None", "x"),
    ]
    assert len(kernel.grid) == 2
    assert kernel.symbol == "k_{T}"
    first, second = kernel.artifacts
    assert (first.backend, first.arch, first.features) == ("cpu", "x86_64", ("avx2", "sse4.2"))
    assert (first.path, first.form, first.flags) == ("a.c", "bitcode", '-O3 -DX="y"')
    assert (second.backend, second.arch, second.features, second.path) == ("cpu", None, (), "b.c")
    assert isinstance(kernel.where, tree.Comparison)


def test_numbers_that_a_device_has_to_have():
    (kernel,) = parse(
        'kernel k(x: f32[n]) -> f32[n] { vulkan when Float64 and subgroup >= 32 and memory < 9 "k.comp" }'
    ).kernels
    (clause,) = kernel.artifacts
    assert clause.features == ("Float64",)
    assert [(limit.name, limit.op, limit.value) for limit in clause.limits] == [
        ("subgroup", ">=", 32),
        ("memory", "<", 9),
    ]
    assert str(clause.limits[0]) == "subgroup >= 32"


def test_results_without_names():
    one, two, again = parse("""
      kernel a(x: f32[n]) -> f32[n] {}
      kernel b(x: f32[n]) -> (f32[n], f32[]) {}
      kernel c(x: f32[n]) -> x {}""").kernels
    assert [r.name for r in one.results] == ["out"]
    assert [r.name for r in two.results] == ["out0", "out1"]
    assert [(r.name, r.alias) for r in again.results] == [("x", "x")]


def test_rule():
    first, second = parse("""
      replace p with k(x, 0.5, n, -1)
      replace q where m >= 2 with k() otherwise keep""").rules
    assert (first.pattern, first.kernel, first.keep, first.where) == ("p", "k", False, None)
    assert [a.name if isinstance(a, tree.Name) else a.value for a in first.args] == ["x", 0.5, "n", -1]
    assert (second.keep, second.args) == (True, ())
    assert isinstance(second.where, tree.Comparison)


def test_parameters_that_share_a_type():
    spec = parse("pattern p(x, y: tensor<n x f32>, a, b: f32 = 0.5, c: f32) { mulf(x, y) }")
    (pattern,) = spec.patterns
    assert [(p.name, str(p.type)) for p in pattern.parameters] == [
        ("x", "tensor<n x f32>"),
        ("y", "tensor<n x f32>"),
        *[(name, "f32") for name in "abc"],
    ]
    assert [p.default and p.default.value for p in pattern.parameters] == [None, None, 0.5, 0.5, None]
    assert [p.span.text for p in pattern.parameters] == ["x", "y: tensor<n x f32>", "a", "b: f32 = 0.5", "c: f32"]


def test_import():
    (import_,) = parse('import "a \\\\ b.splice"').imports
    assert import_.path == "a \\ b.splice"


def test_statements_end_where_the_next_begins():
    made = pattern("a = negf(x) b = absf(a)\n\n c, d = foo(\n b ) : f32 e = 1.5 a, e, d")
    assert [let.names for let in made.body] == [("a",), ("b",), ("c", "d"), ("e",)]
    assert [type(r) for r in made.results] == [tree.Name] * 3


def test_call():
    made = value('"torch.aten.gelu"(x, y,) {approximate = "none", n = -2, torch.t.a = true, p = ugt} : tensor<4x?xf32>')
    assert isinstance(made, tree.Call)
    assert (made.callee, made.quoted, len(made.args), str(made.type)) == (
        "torch.aten.gelu",
        True,
        2,
        "tensor<4 x ? x f32>",
    )
    assert [(a.name, a.value, a.bare) for a in made.attributes] == [
        ("approximate", "none", False),
        ("n", -2, False),
        ("torch.t.a", True, False),
        ("p", "ugt", True),
    ]


def test_a_dim_as_a_value_is_a_constant():
    made = value("divf(x, n)")
    assert isinstance(made, tree.Call)
    constant = made.args[1]
    assert constant == tree.Constant(constant.span, tree.DimRef(constant.span, "n"))
    shadowing = pattern("n = exp(x) negf(n)").results[0]
    assert isinstance(shadowing, tree.Call)
    assert isinstance(shadowing.args[0], tree.Name)


@pytest.mark.parametrize(
    ("written", "value_", "high"),
    [
        ("0.5", 0.5, None),
        ("-1", -1, None),
        ("1e-5", 1e-5, None),
        ("inf", float("inf"), None),
        ("-inf", float("-inf"), None),
        ("const(0.79..0.80)", 0.79, 0.80),
        ("const(-2..4)", -2, 4),
    ],
)
def test_constants(written, value_, high):
    made = value(f"mulf(x, {written})")
    assert isinstance(made, tree.Call)
    constant = made.args[1]
    assert isinstance(constant, tree.Constant)
    assert isinstance(constant.value, tree.Literal)
    assert constant.value.value == value_
    assert type(constant.value.value) is type(value_)
    assert (constant.high.value if isinstance(constant.high, tree.Literal) else None) == high


@pytest.mark.parametrize(
    ("written", "operands", "result"),
    [
        ("[mk, kn -> mn]", (("m", "k"), ("k", "n")), ("m", "n")),
        ("[m k, k n -> m n]", (("m", "k"), ("k", "n")), ("m", "n")),
        ("[...b mk, kn -> ...b mn]", (("...b", "m", "k"), ("k", "n")), ("...b", "m", "n")),
        ("[rows k, kn -> rows n]", (("rows", "k"), ("k", "n")), ("rows", "n")),
        ("[m1 k, kn -> m1 n]", (("m1", "k"), ("k", "n")), ("m1", "n")),
        ("[mk, kn -> ]", (("m", "k"), ("k", "n")), ()),
    ],
)
def test_subscripts(written, operands, result):
    made = value(f"contract{written}(x, y)", "x: tensor<rows x k x f32>, y: tensor<k x n x f32>")
    assert isinstance(made, tree.Contract)
    assert (made.subscripts.operands, made.subscripts.result) == (operands, result)


def test_static_sizes_may_be_written_as_mlir_does():
    written = "tensor<4x8xf32> tensor<?x?xf32> tensor<4xf32> tensor<f32> tensor<4 x 8x n x f32> tensor<x x f32>"
    kinds = [
        str(pattern("negf(a)", f"a: {t}>").parameters[0].type).replace(" ", "")
        for t in written.removesuffix(">").split("> ")
    ]
    assert kinds == [
        "tensor<4x8xf32>",
        "tensor<?x?xf32>",
        "tensor<4xf32>",
        "tensor<f32>",
        "tensor<4x8xnxf32>",
        "tensor<xxf32>",
    ]


def test_precedence():
    where = parse("replace p where not a == 1 and b + c * d == 2 or e - f - g < (3 + 1) * 2 with k()").rules[0].where
    assert isinstance(where, tree.Logical)
    assert where.op == "or"
    both, less = where.operands
    assert isinstance(both, tree.Logical)
    assert both.op == "and"
    assert isinstance(both.operands[0], tree.Logical)
    assert both.operands[0].op == "not"
    assert isinstance(less, tree.Comparison)
    assert isinstance(less.left, tree.Arithmetic)
    assert isinstance(less.left.left, tree.Arithmetic)  # (e - f) - g
    assert isinstance(less.right, tree.Arithmetic)
    assert less.right.op == "*"


def test_a_number_is_one_of_several():
    """`in` says several `==`: the same tree, and for one number a plain comparison."""
    asked = parse("replace p where n % 4 in {1, -2} with k()").rules[0].where
    written = parse("replace p where n % 4 == 1 or n % 4 == -2 with k()").rules[0].where
    assert dim_conditions.key(asked) == dim_conditions.key(written)
    one = parse("replace p where n in {8} with k()").rules[0].where
    assert isinstance(one, tree.Comparison)
    kinds = parse("replace p where T in {f16, f32} with k()").rules[0].where
    assert isinstance(kinds, tree.Membership)


def test_spans_underline_what_they_name():
    text = "pattern p(x: tensor<n x f32>) {\n  y = mulf(x, 2.5) : f32\n  negf(y)\n}"
    made = parse(text).patterns[0]
    call = made.body[0].expr
    assert isinstance(call, tree.Call)
    spans = [made.name_span, made.parameters[0].span, made.body[0].span, call.callee_span, call.args[1].span]
    assert [text[s.start : s.end] for s in spans] == [
        "p",
        "x: tensor<n x f32>",
        "y = mulf(x, 2.5) : f32",
        "mulf",
        "2.5",
    ]
    assert (call.span.line, call.span.column) == (2, 7)


# ---- what is broken --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "help_", "underlined"),
    [
        ("patern p() {}", "'patern' does not fit here", "pattern?", "patern"),
        ("pattern p(x: f32[n]) { negf(x) }", "written tensor<n x f32>", None, "f32[n]"),
        ("kernel k(x: tensor<4xf32>) -> x {}", "written f32[4]", None, "tensor<4xf32>"),
        ("kernel k(x: f32[n]) {}", "expected '->', found '{'", "-> f32[n]", "{"),
        ("kernel k(x: f32[n]) -> a: f32 {}", "a result is a buffer", "f32[]", "f32"),
        ("kernel k(x: f32[n]) -> x { grids (n) }", "found '('", "did you mean grid?", "("),
        ('kernel k(x: f32[n]) -> x { cpu x86-64 "k.c" }', "found '-'", "did you mean x86_64?", "-"),
        ("kernel k(x: f32[n]) -> x { cpu k.c }", "expected 'when', 'as' or a string", "quotes", ".c"),
        ('kernel k(x: f32[n]) -> x { cpu "k.c }', "this string is not closed", 'end it with "', '"k.c }'),
        ('kernel k(x: f32[n]) -> x { cpu "k\\q" }', "unknown escape \\q", "write", '"k\\q"'),
        ('kernel k(x: f32[n]) -> x { cpu "k.c" flags "-DQ=\'a" }', "no closing quotation", "-DNAME=", '"-DQ=\'a"'),
        ('kernel k(x: f32[n]) -> x { cpu "" }', "a file stands here, and this is empty", "plugin", '""'),
        ('kernel k(x: f32[n]) -> x { cpu "" as generated }', "a file stands here, and this is empty", "plugin", '""'),
        ('kernel k(x: f32[n]) -> x { cpu "" as plugin }', "a file stands here, and this is empty", "plugin", '""'),
        ("kernel k(x: f32[n]) -> x { grid (n) grid (n) }", "a kernel has one grid", None, "grid"),
        ("pattern p(x: f32) { x * x }", "'*' does not fit here", "mulf(x, y)", "*"),
        ("pattern p(x: f32) { y = x - 1 negf(y) }", "this value is not used", "subf(x, y)", "- 1"),
        ("pattern p(x: f32) { negf(x); }", "';' does not fit here", "leave the semicolon out", ";"),
        ("pattern p(x: f32) { let y = negf(x) y }", "unknown word let", "name = value", "let"),
        ("pattern p(x: f32) { y = negf(x) }", "ends without a result", "last line", "}"),
        ("pattern p(x: f32) { f(x) = negf(x) x }", "only a name can stand left of =", None, "f(x)"),
        ("pattern p(x: f32) { y = x, x y }", "one value is bound at a time", None, "x, x"),
        ("pattern p(x: f32) { reduce addf(x) }", "expected '['", "[m n -> m]", "("),
        ("pattern p(x: f32) { brodcast[-> m](x) }", "'[' does not fit here", "did you mean broadcast?", "["),
        ("pattern p(x: f32) { exp[m -> m](x) }", "'[' does not fit here", "labels are for broadcast, contract", "["),
        ("pattern p(x: f32) { addf(x, .5) }", "found '.5'", "digit on each side", ".5"),
        ("pattern p(x: f32) { negf(%x) }", "found '%'", "without %", "%"),
        ("pattern p(const: f32) { negf(const) }", "const is a word of the language", "another name", "const"),
        ("pattern nan(x: f32) { negf(x) }", "nan is a word of the language", "another name", "nan"),
        ("pattern p(x: f32) where n = 4 { negf(x) }", "'=' does not fit here", "compare with ==", "="),
        ('pattern p(x: f32) where x is "a.b"(_) {...} { negf(x) }', "found '...'", "in brackets: x is (", "..."),
        (
            'pattern p(x: f32) where x is not "a.b"(_) {k = 1} { negf(x) }',
            "'{' does not fit",
            "in brackets: x is (",
            "{",
        ),
        ('pattern p(x: f32) where x is "a.b"(_) {a.k = 1} { negf(x) }', "found '='", "in brackets: x is (", "="),
        ("pattern p(x: f32) where x is f(_) | g(_) { negf(x) }", "found '|'", "in brackets: x is (", "|"),
        ('pattern p(x: f32) where (x is "a.b"(_) {...}) { negf(x) }', "found '{'", "in brackets: x is (", "{"),
        ("pattern p(x: f32) where 1 < n < 4 { negf(x) }", "found '<'", "do not chain", "<"),
        ("pattern p(x: f32) where may(n) { negf(x) }", "may takes a condition on sizes", "such as may(n > 4)", "n"),
        ("pattern p(x: f32) where may(n > 1) > 1 { negf(x) }", "a number or a dim is wanted", None, "may(n > 1)"),
        ("pattern p(x: f32) where n in {f32, 4} { negf(x) }", "a number one of numbers", None, "f32"),
        ("pattern p(x: f32) where n + 1 in {f32} { negf(x) }", "a type variable is one of types", None, "f32"),
        ("pattern p(x: f32) where weight(x) in {1} { negf(x) }", "a number or a dim", None, "weight(x)"),
        ("pattern p(x: f32) where celdiv(n, 2) == 4 { negf(x) }", "unknown function celdiv", "ceildiv?", "celdiv"),
        ("pattern p(x: f32) where min(n) == 4 { negf(x) }", "min takes 2 values, found 1", None, "min(n)"),
        ("pattern p(x: f32) { mulf(x, 1e999) }", "no float type", "write inf", "1e999"),
        ("pattern p(x: f32) { mulf(x, -1e999) }", "no float type", "write inf", "-1e999"),
        ("pattern p(x: f32) { mulf(x, 0.1e-999) }", "this small", "write 0.0", "0.1e-999"),
        ("pattern p(x: f32) { mulf(x, - 0) }", "an integer has one zero", "write 0, or -0.0", "- 0"),
        ("pattern p(x: f32) { mulf(x, 123456789012345678901) }", "this large", None, "123456789012345678901"),
        ("pattern p(x: f32) { mulf(x, 18446744073709551616) }", "this large", None, "18446744073709551616"),
        ("# hello", "'#' does not fit here", "comments start with //", "#"),
        ("/* hello */", "'/' does not fit here", "comments start with //", "/"),
        ("pattern p(x: f32) { µ(x) }", "expected a value, found 'µ'", "U+00B5, micro sign", "µ"),
        ("pattern línear(x: f32) { negf(x) }", "found 'í'", "U+00ED, latin small letter i with acute", "í"),
        ("kernel k(x: f32[n]) -> x { cpu “k.c” }", "found '“'", "U+201C, left double quotation mark", "“"),
        ("pattern p(x: f32) { negf\u00a0(x) }", "'U+00A0, no-break space' does not", "none of the plain", "\u00a0"),
        ("kernel k(x: f32[n]) -> x { cpu 'k.c' }", "a string, found", "texts stand in double quotes", "'"),
        ("pattern p(x: f32) { absf((x + x)) }", "found '+'", "values take ops, not operators: addf(x, y)", "+"),
        ("pattern p(x: f32) { y = x * x absf(y) }", "'*' does not fit", "not operators: mulf(x, y)", "*"),
        (
            'pattern p(x: f32) { v, i = "a.b"(x) : tensor<m x f32>, tensor<m x i32> v }',
            "found 'x'",
            "an op with several results has no type behind it",
            "x",
        ),
        ("def p(x: f32) { negf(x) }", "'def' does not fit here", "a declaration begins with import, kernel", "def"),
        ("kernel k(x: f32[n] finite strided finite) -> x {}", "`finite` stands here twice", None, "finite"),
        ("kernel k(x: f32[n] copied strided) -> x {}", "strided or copied, not both", None, "strided"),
        ("replace p with k(x, ..., y)", "these are the last arguments", "behind all others", "..."),
        ("pattern p(x, y) { negf(x) }", "expected ',' or ':'", None, ")"),
        ("replace p k(x)", "expected 'at', 'priority', 'where', 'with', 'when' or '<', found 'k'", None, "k"),
    ],
)
def test_syntax_errors(text, message, help_, underlined):
    found, advice, place = failure(text)
    assert message in found
    assert help_ is None or help_ in (advice or "")
    assert place == underlined


@pytest.mark.parametrize(
    ("text", "bracket"),
    [
        ("pattern p(x: f32) {\n  negf(absf(x)\n}", "(absf"),
        ("pattern p(x: f32) {\n  negf(x)\n", "{"),
        ("pattern p(x: f32 {\n  negf(x)\n}", "(x"),
        ("replace p with k(x", "(x"),
        ('kernel k(x: f32[n) -> x { cpu "k.c" }', "[n"),
    ],
)
def test_the_open_bracket_is_pointed_at(text, bracket):
    with pytest.raises(SpecError) as raised:
        parse(text)
    ((span, message),) = raised.value.diagnostics[0].notes
    assert text[span.start :].startswith(bracket)
    assert "not closed" in message


def test_each_declaration_has_its_first_error_told():
    """One whose bracket is not closed is told once, in the next one, which is read all the same."""
    text = """kernel k(x: f32[n]) -> x {
  cpu x86-64 "k.c"
}
pattern a(x: f32) { negf(x }
pattern b(x: f32) { y = negf(x) }
pattern good(x: f32) { negf(x) }
kernel open(x: f32[n]) -> x {
  cpu "k.c"
pattern c(x: f32) { negf(x) }
patern d(x: f32) { negf(x) }
replace a wiht k(x)
"""
    with pytest.raises(SpecError) as raised:
        parse(text)
    found = [(each.span.line, each.help) for each in raised.value.diagnostics]
    assert [line for line, _ in found] == [2, 4, 5, 9, 10, 11]
    assert [help_ for _, help_ in found][::4] == ["did you mean x86_64?", "did you mean pattern?"]


def test_every_terminal_has_words():
    names = {t.name for t in parser._shared_parser()[0].terminals} - {"COMMENT", "WHITESPACE"}
    assert names <= set(syntax_errors.WORDS)


# ---- hostile and large -----------------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    return f"pattern p(x: tensor<n x f32>) {{ {'negf(' * depth}x{')' * depth} }}"


def test_deep_nesting_is_one_error():
    parse(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 10_000):
        message, advice, _ = failure(nested(depth))
        assert "nests more than" in message
        assert "bind inner parts" in str(advice)


@pytest.mark.parametrize(
    "condition",
    ["(" * 10_000 + "n == 1" + ")" * 10_000, "(" * 10_000 + "n" + ")" * 10_000 + " == 1"],
)
def test_redundant_brackets_nest_nothing(condition):
    (rule,) = parse(f"replace p where {condition} with k()").rules
    assert isinstance(rule.where, tree.Comparison)


@pytest.mark.parametrize(
    "condition",
    [
        " + ".join(["n"] * 10_000) + " == 1",
        "not " * 10_000 + "n == 1",
        "min(n, " * 10_000 + "n" + ")" * 10_000 + " < 1",
    ],
)
def test_deep_conditions_are_one_error(condition):
    assert "nests more than" in failure(f"replace p where {condition} with k()")[0]


def test_a_long_chain_of_and_is_flat():
    (rule,) = parse(f"replace p where {' and '.join(['n == 1'] * 10_000)} with k()").rules
    assert isinstance(rule.where, tree.Logical)
    assert len(rule.where.operands) == 10_000


def test_open_brackets_without_end():
    for bracket in "([{<":
        failure("pattern p(x: f32) where " + bracket * 10_000)


@settings(max_examples=examples(50, 10000), deadline=None)
@given(
    st.lists(
        st.sampled_from([*'abnx019 .,:=-><(){}[]"/\\\n\t?*é\x00', "pattern ", "kernel ", "reduce ", "where ", "->"])
    ).map("".join)
)
def test_no_text_makes_the_parser_fail_otherwise(text):
    with contextlib.suppress(SpecError):
        assert parse(text).source.text == text


SAMPLE = """
kernel mul_abs_negate(lhs: f32[n], rhs: f32[n]) -> f32[n] {
  grid (ceildiv(n, 64))
  cpu "functions.c"
}
pattern neg_abs_mul(lhs: tensor<n x f32>, rhs: tensor<n x f32>) {
  negf(absf(mulf(lhs, rhs)))
}
replace neg_abs_mul with mul_abs_negate(lhs, rhs)
"""


def test_a_thousand_rules_take_little_more_than_ten_times_a_hundred():
    def seconds(count: int) -> float:
        start = time.process_time()
        assert len(parse(SAMPLE * count).rules) == count
        return time.process_time() - start

    few, many = (min(seconds(count) for _ in range(3)) for count in (100, 1000))
    assert many < 30 * few + 0.1


def test_threads_share_the_parser():
    made: list[int] = []
    in_threads(*[lambda: made.append(len(parse(SAMPLE * 20).rules))] * 4)
    assert made == [20] * 4


# ---- the parser's own start ------------------------------------------------------------------------------------------


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


PARSE = "from opsplice.spec_lang.syntax.parser import parse; print(len(parse('replace p with k()').rules))"


def test_importing_the_package_does_not_import_lark():
    assert (
        run_python("import sys, opsplice.spec_lang, opsplice.spec_lang.syntax.tree; print('lark' in sys.modules)")
        == "False"
    )


def kept_tables(folder: Path) -> Path:
    """The file that holds the parser's tables in a cache."""
    (key,) = (folder / "grammar" / "keys").iterdir()
    return folder / "grammar" / "blobs" / json.loads(key.read_text())["digest"]


def test_tables_are_cached_and_a_damaged_cache_is_made_anew(tmp_path: Path):
    assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"
    good = kept_tables(tmp_path).read_bytes()
    for damage in (b"", good[: len(good) // 2], b"\x80\x05garbage"):
        kept_tables(tmp_path).write_bytes(damage)
        assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"
        assert json.loads(kept_tables(tmp_path).read_bytes()).keys() == {"data", "memo"}


class Planted:
    """What runs code where a pickle is loaded."""

    def __reduce__(self):
        return (print, ("planted",))


def test_nothing_in_the_cache_is_run(tmp_path: Path):
    assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"
    (key,) = (tmp_path / "grammar" / "keys").iterdir()
    planted = pickle.dumps(Planted())
    kept_tables(tmp_path).write_bytes(planted)
    assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"
    digest = hashlib.sha256(planted).hexdigest()
    key.write_text(json.dumps(json.loads(key.read_text()) | {"digest": digest}))  # so that it fits
    kept_tables(tmp_path).write_bytes(planted)
    assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"


def test_a_cache_that_others_may_write_to_is_done_without(tmp_path: Path):
    tmp_path.chmod(0o777)
    assert run_python(PARSE, OPSPLICE_CACHE=str(tmp_path)) == "1"
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path):
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("")
    assert run_python(PARSE, OPSPLICE_CACHE=str(not_a_folder)) == "1"

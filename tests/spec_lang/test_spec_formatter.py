"""The formatter: the tree is kept, comments are kept, and formatting twice is formatting once."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opsplice.spec_lang.checking.checker import check
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.formatting.formatter import WIDTH
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import parse
from opsplice.spec_lang.syntax.spec_errors import SpecError, render
from tests.effort import examples


def without_spans(node):
    """A tree as plain tuples, with all but where things stand."""
    if isinstance(node, tree.Spec):
        return tuple(map(without_spans, node.items))
    if isinstance(node, tuple):
        return tuple(map(without_spans, node))
    if dataclasses.is_dataclass(node):
        kept = (getattr(node, f.name) for f in dataclasses.fields(node))
        return (type(node).__name__, *(without_spans(v) for v in kept if not isinstance(v, tree.Span)))
    return node


def comments_of(text: str) -> list[str]:
    found = re.findall(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*)', text)
    return sorted(c.rstrip() for c in found if c)


def check_round_trip(text: str) -> str:
    formatted = formatter.format(text)
    assert without_spans(parse(formatted)) == without_spans(parse(text))
    assert comments_of(formatted) == comments_of(text)
    assert formatter.format(formatted) == formatted
    return formatted


def test_canonical_layout():
    text = """
import  "a.splice"
kernel k <T in{f32,f64}>(x:T[...m,n],s:f32,y : f32 [m]  strided  optional)->(mean:f32[m,n]as[n ,m]  copied,x)
where n%8==0 and not(m<2 or n>4){
symbol "k_{T}" grid(ceildiv(m,16))
cpu x86_64 when avx2 and fma "k.c" flags "-O3" as bitcode}
pattern p(x:tensor<4x?xf32>,y:tensor<...m x n x f32>,z:f32=-0.5){a=mulf(x,- 1.5) b=reduce addf[ ...m n->...m ](y,)
cmpf(a,const( 1/n .. 2 )){predicate=ogt},b}
pattern q(x:tensor<n x f32>,i : i32=0, s:f32=0){exp(x|absf(x) with i=1 with s = - 2.5) | ((sin(x)|cos(x)) with i= 2)
with s=3}
pattern r(x:tensor<n x f32>,i : i32=0){absf(x) with i=1
| (minimumf(maximumf(broadcast[n->n](x),-1.5),another_name_that_is_long_enough) with i = 2)}
replace p where n*(2+1)>=4 with k(y,0.5,)otherwise keep
builds  vectors{cpu x86_64 when avx2 file  flags "-mavx2" cpu file}
replace p with k(pack [...m n->...m (n/8)  8]( x ),- 1)
replace p with k(pack[n k -> (n / 16) (k / 4) 16 4](mulf(a_rather_long_name_0, broadcast[n -> n k](another_name))))
"""
    assert (
        check_round_trip(text)
        == """\
import "a.splice"

kernel k<T in {f32, f64}>(
  x: T[...m, n],
  s: f32,
  y: f32[m] strided optional,
) -> (mean: f32[m, n] as [n, m] copied, x) where n % 8 == 0 and not (m < 2 or n > 4) {
  symbol "k_{T}"
  grid (ceildiv(m, 16))
  cpu x86_64 when avx2 and fma "k.c" as bitcode flags "-O3"
}

pattern p(x: tensor<4 x ? x f32>, y: tensor<...m x n x f32>, z: f32 = -0.5) {
  a = mulf(x, -1.5)
  b = reduce addf[...m n -> ...m](y)
  cmpf(a, const(1 / n..2)) {predicate = ogt}, b
}

pattern q(x: tensor<n x f32>, i: i32 = 0, s: f32 = 0) {
  exp(x | absf(x) with i = 1 with s = -2.5) | (sin(x) | cos(x)) with i = 2 with s = 3
}

pattern r(x: tensor<n x f32>, i: i32 = 0) {
  absf(x) with i = 1
  | minimumf(maximumf(broadcast[n -> n](x), -1.5), another_name_that_is_long_enough) with i = 2
}

replace p where n * (2 + 1) >= 4 with k(y, 0.5) otherwise keep

builds vectors {
  cpu x86_64 when avx2 file flags "-mavx2"
  cpu file
}

replace p with k(pack[...m n -> ...m (n / 8) 8](x), -1)
replace p with k(
  pack[n k -> (n / 16) (k / 4) 16 4](mulf(a_rather_long_name_0, broadcast[n -> n k](another_name))),
)
"""
    )


def test_what_shares_a_type_or_is_left_to_its_name_stays_so():
    text = """
kernel k(x,y:f32[n] strided, factor_of_the_left,factor_of_the_right,shift_of_both:f32,one_more_of_these:f32)->f32[n]{}
pattern p(x,y:tensor<n x f32>,a,b:f32=0.5){mulf(x,y)}
replace p with k(x,y,...)
replace p with k(pack[n -> (n / 16) 16](x), pack[n -> (n / 16) 16](y), pack[n -> (n / 16) 16](z),...,)
"""
    assert (
        check_round_trip(text)
        == """\
kernel k(
  x, y: f32[n] strided,
  factor_of_the_left, factor_of_the_right, shift_of_both: f32,
  one_more_of_these: f32,
) -> f32[n] {}

pattern p(x, y: tensor<n x f32>, a, b: f32 = 0.5) {
  mulf(x, y)
}

replace p with k(x, y, ...)
replace p with k(
  pack[n -> (n / 16) 16](x),
  pack[n -> (n / 16) 16](y),
  pack[n -> (n / 16) 16](z),
  ...,
)
"""
    )


def test_comments_and_blank_lines_stay():
    text = """\
// head

import "a.splice"  // why
import "b.splice"

// about k
kernel k(
  x: f32[n],  // the input
  // of equal size
  y: f32[n],
) -> f32[n] {  // here
  grid (n)  // one each

  // code
  cpu "k.c"
  // end
}  // done

pattern p(x: tensor<n x f32>, y: tensor<n x f32>) {
  a = addf(
    x,  // left
    y,
  )

  b = negf(a)  // back
  b,  // first
  a
}

replace p with k(x, y)
// the rest
replace q with k(x, y)
// bye
"""
    assert formatter.format(text) == text
    assert check_round_trip(text) == text


def test_a_comment_in_an_odd_place_moves_to_the_line_before():
    text = "pattern p(x: tensor<n x f32>) {\n  y = negf(x)\n  truncf(y) // odd\n  : f16\n}\n"
    assert check_round_trip(text).splitlines()[2:4] == ["  // odd", "  truncf(y) : f16"]


def test_long_calls_are_wrapped():
    names = ", ".join(f"a_rather_long_name_{i}: tensor<n x f32>" for i in range(4))
    call = "addf(mulf(a_rather_long_name_0, a_rather_long_name_1), mulf(a_rather_long_name_2, a_rather_long_name_3))"
    formatted = check_round_trip(f"pattern p({names}) {{ negf({call}) }}")
    assert formatted.endswith(
        """) {
  negf(
    addf(
      mulf(a_rather_long_name_0, a_rather_long_name_1),
      mulf(a_rather_long_name_2, a_rather_long_name_3),
    ),
  )
}
"""
    )
    assert max(map(len, formatted.splitlines())) <= WIDTH


def test_nothing_stays_nothing_and_comments_alone_stay():
    assert formatter.format("") == ""
    assert formatter.format("\n\n  \n") == ""
    assert formatter.format("// a\n\n\n\n// b") == "// a\n\n// b\n"


def test_spelling_of_labels_and_numbers_is_kept():
    text = (
        "pattern p(a: tensor<rows x k x f32>, b: tensor<k x n x f32>) {\n"
        "  addf(contract[rows k, kn -> rows n](a, b), 1e-05)\n}\n"
    )
    assert check_round_trip(text) == text


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("x is (exp(_))", "x is exp(_)"),
        ("x is not ( exp(_) | negf(_) )", "x is not (exp(_) | negf(_))"),
        ('x is ("a.b"(_) {k = 1})', 'x is ("a.b"(_) {k = 1})'),
        ('x is ("a.b"(...) {...}) and n > 4', 'x is ("a.b"(...) {...}) and n > 4'),
    ],
)
def test_brackets_stay_where_a_brace_would_open_the_pattern(written, kept):
    assert f"where {kept} {{" in check_round_trip(f"pattern p(x: tensor<n x f32>) where {written} {{ cos(x) }}")


def test_a_syntax_error_is_raised():
    with pytest.raises(SpecError, match="1 error"):
        formatter.format("pattern p(")


# ---- any spec at all -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "x", "n", "m", "mk", "rows", "_t", "reducer", "a_name_that_takes_up_some_room"])
NUMBERS = st.sampled_from(["0", "1", "64", "0.5", "1e-5", "12.25E+3", "inf"])
STRINGS = st.sampled_from(['"a.c"', '"// no comment"', '"say \\"x\\" \\\\ {T}"', '"arith.addf"'])
ELEMENTS = st.sampled_from(["f32", "i8", "T", "bf16"])
# Tokens stand apart by one blank; the noise goes where the blanks are.
COMMENTS = st.sampled_from(["// c1", "//", "//  two  words ", '// "quoted', "// )}", "// é 漢"])
NOISE = st.one_of(
    st.sampled_from([" ", "\n", "\t", "\n\n\n", " \r\n"]),
    COMMENTS.map(lambda c: f" {c}\n"),
    COMMENTS.map(lambda c: f"\n  {c}\n"),
    COMMENTS.map(lambda c: f"\n\n{c}\n\n"),
)


def listed(items, least=0, most=3, comma=","):
    return st.lists(items, min_size=least, max_size=most).map(f" {comma} ".join)


# An integer has one zero, without a sign.
SIGNED = st.tuples(st.sampled_from(["", "- "]), NUMBERS).map("".join).filter(lambda text: text != "- 0")
DIMS = st.one_of(NAMES, st.sampled_from(["4", "?"]), NAMES.map("...{}".format))
TENSORS = st.tuples(st.lists(DIMS, max_size=3), ELEMENTS).map(lambda t: f"tensor < {' x '.join([*t[0], t[1]])} >")
BUFFERS = st.tuples(ELEMENTS, listed(DIMS)).map(lambda t: f"{t[0]} [ {t[1]} ]")
ARITHMETIC = st.recursive(
    st.one_of(NAMES, SIGNED),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(" ".join),
        inner.map("( {} )".format),
        st.tuples(st.sampled_from(["ceildiv", "min"]), inner, inner).map("{0[0]} ( {0[1]} , {0[2]} )".format),
    ),
    max_leaves=6,
)
COMPARISONS = st.one_of(
    st.tuples(ARITHMETIC, st.sampled_from(["==", "!=", "<", ">="]), ARITHMETIC).map(" ".join),
    st.tuples(ARITHMETIC, listed(SIGNED, 1, 3)).map("{0[0]} in {{ {0[1]} }}".format),
)
ASKED = st.sampled_from(
    (
        *(
            "weight ( x )",
            "only ( x )",
            "shared ( x )",
            'inside ( "scf.for" )',
            "T in { f32 , i8 }",
            "bits ( T ) <= 16",
        ),
        *(
            "rank ( m ) == 2",
            "not dynamic ( n*2 )",
            "x is negf ( _ )",
            'x is not "a.b" ( x , ... )',
            "x is gated < tanh > ( x , _ )",
        ),
    )
)
CONDITIONS = st.recursive(
    st.one_of(COMPARISONS, ASKED),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map("( {} )".format),
        inner.map("not ( {} )".format),
        inner.map("may ( {} )".format),
    ),
    max_leaves=4,
)
LABELS = st.lists(st.one_of(NAMES, NAMES.map("...{}".format)), max_size=3).map(" ".join)
SUBSCRIPTS = st.tuples(listed(LABELS, 1, 2), LABELS).map("[ {0[0]} -> {0[1]} ]".format)
ATTRIBUTE_VALUES = st.one_of(
    STRINGS, SIGNED, NAMES, st.sampled_from(["true", "[ 1 , - 2 ]", "[ ]", 'mlir "{a = \\"}\\"}"'])
)
ATTRIBUTES = st.one_of(
    st.tuples(NAMES, ATTRIBUTE_VALUES).map(" = ".join),
    st.sampled_from(["a", "! a", "a = [ 1 , ? b ]", "a.b in { 1 , 2 }", 'a in { "x" , [ 1 ] }', "a in { true }"]),
)
TAILS = st.one_of(st.just(""), ELEMENTS.map(" : {}".format), TENSORS.map(" : {}".format))


def calls(inner):
    callee = st.one_of(
        NAMES, st.sampled_from(["math.exp", "mulf ?", "acme.gated < tanh >", "p < math.exp , q > ?"]), STRINGS
    )
    attributes = st.one_of(st.just(""), listed(ATTRIBUTES).map(" {{ {} }}".format))
    return st.one_of(
        st.tuples(callee, listed(inner), attributes, TAILS).map("{0[0]} ( {0[1]} ){0[2]}{0[3]}".format),
        st.tuples(STRINGS, listed(inner.map("{} , ".format), 0, 1)).map("{0[0]} ( {0[1]} ... )".format),
        st.tuples(STRINGS, listed(ATTRIBUTES.map("{} , ".format), 0, 1)).map("{0[0]} ( ) {{ {0[1]} ... }}".format),
        st.tuples(st.sampled_from(["only", "shared"]), inner).map("{0[0]} ( {0[1]} )".format),
        st.tuples(SUBSCRIPTS, listed(inner), TAILS).map("accumulated ( contract {0[0]} ( {0[1]} ){0[2]} )".format),
        listed(inner, 2, 3, "|").map("( {} )".format),
        st.tuples(SUBSCRIPTS, listed(inner), TAILS).map("contract {0[0]} ( {0[1]} ){0[2]}".format),
        st.tuples(NAMES, SUBSCRIPTS, inner).map("reduce {0[0]} {0[1]} ( {0[2]} )".format),
        st.tuples(st.sampled_from(["broadcast", "transpose"]), SUBSCRIPTS, inner).map(
            "{0[0]} {0[1]} ( {0[2]} )".format
        ),
    )


CONSTANTS = st.one_of(
    SIGNED,
    ARITHMETIC.map("const ( {} )".format),
    st.tuples(ARITHMETIC, ARITHMETIC).map("const ( {0[0]} .. {0[1]} )".format),
)
VALUES = st.recursive(st.one_of(NAMES, CONSTANTS, st.just("_")), calls, max_leaves=8)
OPTIONAL_WHERE = st.one_of(st.just(""), CONDITIONS.map(" where {}".format))
VARIABLES = st.sampled_from(["", "< T >", "< T in { f32 , f64 } , U >"])
LETS = st.tuples(listed(NAMES, 1, 2), VALUES).map(" = ".join)


@st.composite
def patterns(draw):
    parameters = draw(listed(st.tuples(listed(NAMES, 1, 2), st.one_of(TENSORS, ELEMENTS)).map(" : ".join)))
    body = " ".join(draw(st.lists(LETS, max_size=3)))
    # A result in brackets of its own would be taken for the operands of a name that the line before ends with.
    results = draw(listed(calls(VALUES), 1, 3).filter(lambda text: not text.startswith("(")))
    where = draw(st.sampled_from(["", " through cast", " through cast , reshape"])) + draw(OPTIONAL_WHERE)
    variables = draw(st.one_of(VARIABLES, st.sampled_from(["< op f >", "< T , op f , U , op g >"])))
    return f"pattern {draw(NAMES)} {variables} ( {parameters} ){where} {{ {body} {results} }}"


@st.composite
def kernels(draw):
    parameters = draw(listed(st.tuples(listed(NAMES, 1, 2), st.one_of(BUFFERS, ELEMENTS)).map(" : ".join)))
    result = st.one_of(BUFFERS, NAMES, st.tuples(NAMES, BUFFERS).map(" : ".join))
    results = draw(st.one_of(result, listed(result, 1, 3).map("( {} )".format)))
    clauses = draw(st.lists(ARTIFACTS, max_size=2))
    clauses += draw(st.sampled_from([[], ['symbol "k_{T}"']]))
    clauses += draw(st.one_of(st.just([]), listed(ARITHMETIC, 1, 3).map(lambda g: [f"grid ( {g} )"])))
    body = " ".join(draw(st.permutations(clauses)))
    return f"kernel {draw(NAMES)} {draw(VARIABLES)} ( {parameters} ) -> {results}{draw(OPTIONAL_WHERE)} {{ {body} }}"


ARTIFACTS = st.tuples(
    st.sampled_from(["cpu", "cpu x86_64", "cpu x86_64 when avx2 and sse4.2", "vulkan when subgroup >= 32 and Float64"]),
    STRINGS,
    st.sampled_from(["", " as bitcode", ' flags "-O3"', ' flags "-O3" as object']),
).map("{0[0]} {0[1]}{0[2]}".format)
USED = st.one_of(NAMES, st.sampled_from(["acme.p", "p < tanh >", "acme.p < tanh , q >"]))
SETTLED = st.sampled_from(["", " at start", " at global-optimization", " priority 3", " at input priority - 1"])
WHEN = st.sampled_from(["", " when m > 1 and not (n % 2 == 1 or m + n < 8)"])
SUBJECTS = st.tuples(USED, SETTLED, OPTIONAL_WHERE).map("".join)
ARGUMENTS = st.tuples(listed(st.one_of(NAMES, SIGNED)), st.sampled_from(["", "..."])).map(
    lambda parts: " , ".join(filter(None, parts))
)
RULES = st.one_of(
    st.tuples(SUBJECTS, USED, ARGUMENTS, st.sampled_from(["", " otherwise keep"]), WHEN).map(
        "replace {0[0]}{0[4]} with {0[1]} ( {0[2]} ){0[3]}".format
    ),
    SUBJECTS.map("keep {}".format),
    SUBJECTS.map("annotate {} with {{ a.b = 1 , c }}".format),
    st.just('run "canonicalize, cse" at input'),
)
IMPORTS = STRINGS.map("import {}".format)
SPECS = st.lists(st.one_of(patterns(), kernels(), RULES, IMPORTS), max_size=4).map(" ".join)


@st.composite
def noisy_specs(draw):
    """The text of a spec with blanks, line ends and comments between its tokens, as wild as can be."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', draw(SPECS))
    gaps = draw(st.lists(st.one_of(st.just(" "), NOISE), min_size=len(tokens) + 1, max_size=len(tokens) + 1))
    return "".join(gap + token for gap, token in zip(gaps, [*tokens, ""], strict=True))


COMMENT_IN_LONG_HEADER = f"kernel k() -> (a, b // c\n) where {' and '.join(['a == 1'] * 12)} {{}}"


@settings(max_examples=examples(75, 15000), deadline=None)
@example(COMMENT_IN_LONG_HEADER)
@example("keep a // c1\nat start")
@given(noisy_specs())
def test_round_trip_of_any_spec(text):
    check_round_trip(text)


@settings(max_examples=examples(25, 5000), deadline=None)
@given(SPECS)
def test_the_layout_depends_on_the_tree_alone_where_there_are_no_comments(text):
    """Line ends between tokens make no difference, except for those blank lines that are kept between statements."""
    one_a_line = "\n".join(re.findall(r'"(?:[^"\\]|\\.)*"|\S+', text))
    assert formatter.format(one_a_line) == formatter.format(text)


@settings(max_examples=examples(75, 15000), deadline=None)
@given(noisy_specs())
def test_the_checker_judges_any_spec(text):
    spec = parse(text)
    for found in check([spec]).diagnostics:
        assert found.severity == "error" or found.code is not None
        assert render(found)


def test_what_stands_behind_files():
    text = 'kernel k(x: f32[n]) -> f32[n] {\n  cpu "k.c" links "a.a b.a"\n'
    text += '  cuda "k.cu" flags "-O1" shared 4096 threads 256 takes "stride(x, n), 0, n"\n}\n'
    assert formatter.format(text) == text

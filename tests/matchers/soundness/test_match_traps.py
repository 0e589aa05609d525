"""Programs that differ from what a pattern says in one thing that matters: they must not match."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.matchers.overlap.graph_facts import is_understood
from opsplice.matchers.overlap.subsumption import covers
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text

ROW = """
func.func @f(%x: tensor<8x{e}>, %y: tensor<8x{e}>, %t: tensor<?x8x{e}>) -> tensor<8x{e}> {{
  {body}
  return %r : tensor<8x{e}>
}}
"""


def product(find, body: str, wanted: str, element: str = "f32") -> int:
    """Whether `%s : element`, which the body makes, times x is what a pattern says."""
    body = f"""{body}
  %splat = tensor.splat %s : tensor<8x{element}>
  %r = arith.mulf %x, %splat : tensor<8x{element}>"""
    return find(ROW.format(e=element, body=body), f"pattern p(x: tensor<n x {element}>) {{ mulf(x, {wanted}) }}").count


# ---- constants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "right", "wrong"),
    [
        # A tenth in f16 is not a tenth.
        ("%a = arith.constant 0.1 : f32\n%b = arith.truncf %a : f32 to f16\n%s = arith.extf %b : f16 to f32",
         "0.0999755859375", "0.1"),
        ("%a = arith.constant 300 : index\n%b = arith.index_cast %a : index to i8\n%s = arith.sitofp %b : i8 to f32",
         "44.0", "300.0"),
        ("%a = arith.constant -56 : i8\n%s = arith.uitofp %a : i8 to f32", "200.0", "-56.0"),
        ("%a = arith.constant true\n%s = arith.sitofp %a : i1 to f32", "-1.0", "1.0"),
        ("%a = arith.constant 2049 : i32\n%b = arith.sitofp %a : i32 to f16\n%s = arith.extf %b : f16 to f32",
         "2048.0", "2049.0"),
        ("%a = arith.constant 1.0 : f32\n%b = arith.constant 1.0e-8 : f32\n%c = arith.addf %a, %b : f32\n"
         "%s = arith.subf %c, %a : f32", "0.0", "1.0e-08"),
        ("%a = arith.constant 3.0e38 : f32\n%b = arith.constant 1.0e-3 : f32\n%c = arith.addf %a, %a : f32\n"
         "%s = arith.mulf %c, %b : f32", "inf", "6.0e35"),
        ("%a = arith.constant 1.0 : f32\n%b = arith.constant 0x7FC00000 : f32\n%s = arith.maximumf %a, %b : f32",
         "2.0", "1.0"),
        ("%a = arith.constant -0.0 : f32\n%b = arith.constant 0.0 : f32\n%s = arith.maximumf %a, %b : f32",
         "0.0", "-0.0"),
    ],
)  # fmt: skip
def test_arithmetic_on_constants_rounds_at_each_step(find, body, right, wrong):
    assert product(find, body, wrong) == 0
    assert product(find, body, right) == ("0x7FC" not in body)


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("%c = arith.constant 16777217 : i32\n%d = arith.sitofp %c : i32 to f32\n"
         "%e = arith.constant 16777216.0 : f32\n%k = arith.cmpf ogt, %d, %e : f32", "sin"),
        ("%c = arith.constant 0x7FC00000 : f32\n%k = arith.cmpf ult, %c, %c : f32", "exp"),
        ("%c = arith.constant -1 : i8\n%d = arith.constant 1 : i8\n%k = arith.cmpi ugt, %c, %d : i8", "exp"),
        ("%c = arith.constant true\n%d = arith.constant false\n%k = arith.cmpi slt, %c, %d : i1", "exp"),
    ],
)  # fmt: skip
def test_a_select_whose_condition_is_known_takes_the_right_side(find, condition, taken):
    body = f"""{condition}
  %yes = math.exp %x : tensor<8xf32>
  %no = math.sin %x : tensor<8xf32>
  %s = arith.select %k, %yes, %no : tensor<8xf32>
  %r = math.absf %s : tensor<8xf32>"""
    for made in ("exp", "sin"):
        found = find(ROW.format(e="f32", body=body), f"pattern p(x: tensor<n x f32>) {{ absf({made}(x)) }}")
        assert found.count == (made == taken)


@pytest.mark.parametrize(
    ("program", "pattern"),
    [
        ("arith.divf %x, %c", "mulf(x, inf)"),  # 1 / c is infinite
        ("arith.mulf %x, %c", "divf(x, inf)"),
    ],
)
def test_a_reciprocal_that_the_type_does_not_hold_is_none(find, program, pattern):
    body = f"%c = arith.constant dense<1.0e-40> : tensor<8xf32>\n%r = {program} : tensor<8xf32>"
    assert find(ROW.format(e="f32", body=body), f"pattern p(x: tensor<n x f32>) {{ {pattern} }}").count == 0


@pytest.mark.parametrize(
    ("element", "start", "count"),
    [
        ("f32", "-65504.0", 0),
        ("f32", "-3.3895313892515355e+38", 0),
        ("f64", "-3.4028234663852886e+38", 0),
        ("bf16", "-65536.0", 0),
        ("f16", "-65504.0", 1),
        ("f32", "-3.4028234663852886e+38", 1),
        ("bf16", "-3.3895313892515355e+38", 1),
        ("f64", "-1.7976931348623157e+308", 1),
    ],
)
def test_only_the_lowest_number_of_the_type_itself_starts_a_maximum(find, element, start, count):
    payload = f"""
    func.func @f(%x: tensor<4x8x{element}>) -> tensor<4x{element}> {{
      %z = arith.constant dense<{start}> : tensor<4x{element}>
      %r = linalg.reduce {{ arith.maximumf }} ins(%x : tensor<4x8x{element}>) outs(%z : tensor<4x{element}>)
        dimensions = [1]
      return %r : tensor<4x{element}>
    }}"""
    assert find(payload, f"pattern p(x: tensor<m x n x {element}>) {{ reduce maximumf[m n -> m](x) }}").count == count


# ---- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("%i = arith.index_cast %n : index to i64\n%s = arith.sitofp %i : i64 to f32", 1),
        ("%i = arith.index_cast %n : index to i32\n%s = arith.uitofp %i : i32 to f32", 1),
        ("%i = arith.index_cast %n : index to i64\n%d = arith.sitofp %i : i64 to f64\n"
         "%s = arith.truncf %d : f64 to f32", 1),
        ("%i = arith.index_cast %n : index to i8\n%s = arith.sitofp %i : i8 to f32", 0),
        ("%i = arith.index_cast %n : index to i16\n%s = arith.uitofp %i : i16 to f32", 0),
        ("%i = arith.index_cast %n : index to i8\n%j = arith.index_cast %i : i8 to index\n"
         "%k = arith.index_cast %j : index to i64\n%s = arith.sitofp %k : i64 to f32", 0),
        ("%i = arith.index_cast %n : index to i64\n%h = arith.sitofp %i : i64 to f16\n"
         "%s = arith.extf %h : f16 to f32", 0),
        ("%i = arith.index_cast %n : index to i64\n%d = arith.sitofp %i : i64 to f32\n"
         "%h = arith.truncf %d : f32 to bf16\n%s = arith.extf %h : bf16 to f32", 0),
    ],
)  # fmt: skip
def test_a_size_that_goes_through_a_narrow_type_is_another_number(find, body, count):
    payload = f"""
    func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      {body}
      %splat = tensor.splat %s[%n] : tensor<?xf32>
      %r = arith.divf %x, %splat : tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { divf(x, n) }").count == count


def test_packed_tensors_of_other_sizes_are_not_of_one_size(session):
    """What an op writes to is not always its last operand: here it is a tile's size, which both ops share."""
    tiles = "inner_dims_pos = [0, 1] inner_tiles = [%t, %t]"
    text = f"""
    func.func @f(%x: tensor<?x?xf32>, %e: tensor<?x?x?x?xf32>, %g: tensor<?x?x?x?xf32>, %t: index) {{
      %a = linalg.pack %x {tiles} into %e : tensor<?x?xf32> -> tensor<?x?x?x?xf32>
      %b = linalg.pack %x {tiles} into %g : tensor<?x?xf32> -> tensor<?x?x?x?xf32>
      return
    }}"""
    module, views = ir.Module.parse(text, context=session.context), Views()
    one, other, _ = module.body.operations[0].regions[0].blocks[0].operations
    sizes = [[views.extent(DimSize(op.operation.results[0], axis)) for axis in range(4)] for op in (one, other)]
    assert all(left != right for left, right in zip(*sizes, strict=True))


# ---- guards ---------------------------------------------------------------------------------------------------------

GUARDED = """
#id = affine_map<(i, j) -> (i, j)>
#ti = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#diagonal = affine_map<(i, j) -> (j, j)>
func.func @f(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %e = tensor.empty() : tensor<8x8xf32>
  %s = linalg.softmax dimension(1) ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %inf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %yes = arith.constant dense<true> : tensor<8xi1>
  %k = linalg.generic {{indexing_maps = [{read}, #row], iterator_types = ["parallel", "reduction"]}}
    ins({asked} : tensor<8x8xf32>) outs(%yes : tensor<8xi1>) {{
    ^bb0(%a: f32, %o: i1):
      %c = arith.cmpf oeq, %a, %inf : f32
      %d = arith.andi %c, %o : i1
      linalg.yield %d : i1 }} -> tensor<8xi1>
  %r = linalg.generic {{indexing_maps = [{flag}, #id, #id], iterator_types = ["parallel", "parallel"]}}
    ins(%k, %s : tensor<8xi1>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {{
    ^bb0(%a: i1, %b: f32, %o: f32):
      %d = arith.select %a, %zero, %b : f32
      %n = math.absf %d : f32
      linalg.yield %n : f32 }} -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}}
"""


@pytest.mark.parametrize(
    ("read", "flag", "asked", "count"),
    [
        ("#id", "#row", "%x", 1),
        ("#ti", "#column", "%x", 0),
        ("#id", "#column", "%x", 0),
        ("#ti", "#row", "%x", 0),
        ("#diagonal", "#row", "%x", 0),
        ("#id", "#row", "%y", 0),
    ],
)
def test_a_guard_of_softmax_asks_about_the_row_that_it_guards(find, read, flag, asked, count):
    """The guard that is none of softmax leaves the match at softmax itself, without what is behind it."""
    spec = """
    pattern softmax(x: tensor<m x n x f32>) {
      e = exp(subf(x, broadcast[m -> m n](reduce maximumf[m n -> m](x))))
      divf(e, broadcast[m -> m n](reduce addf[m n -> m](e)))
    }
    pattern p(x: tensor<m x n x f32>) {
      none = broadcast[m -> m n](reduce andi[m n -> m](cmpf(x, -inf) {predicate = oeq}))
      absf(select(none, 0.0, softmax(x)))
    }"""
    assert find(GUARDED.format(read=read, flag=flag, asked=asked), spec).count == count


@pytest.mark.parametrize("mode", ["", "to_nearest_even", "downward", "toward_zero", "to_nearest_away"])
def test_an_op_that_rounds_otherwise_is_another_op(find, mode):
    """Also where an op that looks like it stands elsewhere in the program, and in a body."""
    body = f"""%a = arith.divf %x, %y : tensor<8xf32>
  %b = math.exp %a : tensor<8xf32>
  %c = arith.divf %b, %y {mode} : tensor<8xf32>
  %r = math.exp %c : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %g = linalg.map ins(%r, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>)
    (%1: f32, %2: f32, %o: f32) {{
      %3 = arith.divf %1, %2 {mode} : f32
      %4 = math.exp %3 : f32
      linalg.yield %4 : f32 }}"""
    spec = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { exp(divf(x, y)) }"
    assert find(ROW.format(e="f32", body=body), spec).count == (3 if mode in ("", "to_nearest_even") else 1)


# ---- what is equal in a pattern --------------------------------------------------------------------------------------


def test_arithmetic_with_other_brackets_is_another_number(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
      %a = arith.constant dense<{first}> : tensor<4x8xf32>
      %b = arith.constant dense<{second}> : tensor<4x8xf32>
      %p = arith.mulf %x, %a : tensor<4x8xf32>
      %r = arith.addf %p, %b : tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }}"""
    spec = "pattern p(x: tensor<m x n x f32>) { addf(mulf(x, const((m + n) * 2)), const(m + n * 2)) }"
    assert find(payload.format(first="24.0", second="20.0"), spec).count == 1
    for other in (("24.0", "24.0"), ("20.0", "20.0"), ("20.0", "24.0")):
        assert find(payload.format(first=other[0], second=other[1]), spec).count == 0


def test_both_zeros_of_a_pattern_are_two_numbers(find):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %a = arith.constant dense<{first}> : tensor<8xf32>
      %b = arith.constant dense<{second}> : tensor<8xf32>
      %p = math.copysign %x, %a : tensor<8xf32>
      %r = math.copysign %p, %b : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    spec = "pattern p(x: tensor<n x f32>) { copysign(copysign(x, 0.0), -0.0) }"
    assert find(payload.format(first="0.0", second="-0.0"), spec).count == 1
    assert find(payload.format(first="0.0", second="0.0"), spec).count == 0
    assert find(payload.format(first="-0.0", second="-0.0"), spec).count == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('"math.absf"(x) {axis}', '"math.absf"(x) {!axis}'),
        ('"math.absf"(x) {axis = 1}', '"math.absf"(x) {axis = true}'),
        ('"math.absf"(x) {axis = 1}', '"math.absf"(x) {axis in {1, 2}}'),
        ('"math.absf"(x) {axis = ?a}', '"math.absf"(x) {axis}'),
        ('"math.absf"(x)', '"math.absf"(x, ...)'),
        ('"math.absf"(x)', '"math.absf"(x) {...}'),
        ("mulf(x, const((n + 2) * 2))", "mulf(x, const(n + 2 * 2))"),
        ("mulf(x, 0.0)", "mulf(x, -0.0)"),
    ],
)
def test_what_differs_does_not_cover_each_other(session, first, second):
    spec = load_text(
        "\n".join(f"pattern p{n}(x: tensor<n x f32>) {{ {body} }}" for n, body in enumerate((first, second)))
    )
    one, other = (compile_pattern(spec, name)[0] for name in spec.patterns)
    assert covers(one, one) is not None or not is_understood(one)
    assert covers(one, other) is None or not is_understood(one) or not is_understood(other)
    assert covers(other, one) is None or not is_understood(one) or not is_understood(other)


# ---- conditions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("mulf(_, 2.0)", ["2.0"]),
        ("mulf(_, const(1.5..2.5))", ["2.0"]),
        ("mulf(_, const(n / 4))", ["2.0"]),
        ("(mulf(_, 2.0) | mulf(_, 4.0))", ["2.0", "4.0"]),
        ("doubled(_)", ["2.0"]),
        ("wide(_)", []),
        ("even(_)", ["2.0"]),
        ("third(_)", []),
    ],
)
def test_what_makes_a_value_has_the_numbers_and_sizes_that_are_asked_for(find, form, numbers):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %c = arith.constant dense<{number}> : tensor<8xf32>
      %y = arith.mulf %x, %c : tensor<8xf32>
      %r = math.exp %y : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    patterns = """
    pattern doubled(x: tensor<n x f32>) { mulf(x, 2.0) }
    pattern wide(x: tensor<16 x f32>) { mulf(x, _) }
    pattern even(x: tensor<n x f32>) where n % 2 == 0 { mulf(x, 2.0) }
    pattern third(x: tensor<n x f32>) where n % 3 == 0 { mulf(x, 2.0) }
    pattern p(x: tensor<n x f32>) where x is """
    for number in ("2.0", "3.0", "4.0"):
        for negated in (False, True):
            spec = f"{patterns}{'not ' * negated}{form} {{ exp(x) }}"
            assert find(payload.format(number=number), spec).count == ((number in numbers) != negated)


@pytest.mark.parametrize(
    ("condition", "count"),
    [("is negf(_)", 0), ("is not negf(_)", 0), ("is not addf(_, _)", 1), ("is absf(_)", 0), ("is not absf(_)", 1)],
)
def test_what_makes_a_value_of_a_body_is_known_by_its_op_at_most(find, condition, count):
    payload = """
    func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
      %r = linalg.map ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) (%1: f32, %o: f32) {
        %2 = arith.negf %1 : f32
        %3 = math.exp %2 : f32
        linalg.yield %3 : f32 }
      return %r : tensor<8xf32>
    }"""
    spec = f"pattern p(x: tensor<n x f32>) where t {condition} {{ t = negf(x)  exp(t) }}"
    assert find(payload, spec).count == count


@pytest.mark.parametrize(("second", "used"), [("%one", "%one"), ("%two", "%one"), ("%two", "%two")])
def test_a_part_that_is_computed_twice_has_the_uses_of_both(find, second, used):
    payload = f"""
    #one = affine_map<(i, j, k) -> (i, k)>
    #two = affine_map<(i, j, k) -> (j, k)>
    #sum = affine_map<(i, j, k) -> (i, j)>
    func.func @f(%x: tensor<8x4xf32>, %z: tensor<8x8xf32>) -> tensor<8x4xf32> {{
      %zero = arith.constant 0.0 : f32
      %start = linalg.fill ins(%zero : f32) outs(%z : tensor<8x8xf32>) -> tensor<8x8xf32>
      %one = math.exp %x : tensor<8x4xf32>
      %two = math.exp %x : tensor<8x4xf32>
      %r = linalg.matmul
        indexing_maps = [#one, #two, #sum]
        ins(%one, {second} : tensor<8x4xf32>, tensor<8x4xf32>) outs(%start : tensor<8x8xf32>) -> tensor<8x8xf32>
      %u = math.absf {used} : tensor<8x4xf32>
      return %u : tensor<8x4xf32>
    }}"""
    for asked in ("only", "shared"):
        spec = f"pattern p(x: tensor<m x k x f32>) where {asked}(e) {{ e = exp(x)  contract[m k, n k -> m n](e, e) }}"
        assert find(payload, spec).count == (asked == "shared")


# ---- ops by name ----------------------------------------------------------------------------------------------------


def test_an_op_that_holds_one_with_effects_has_effects(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %c: i1, %m: memref<1xf32>, %v: f32) -> tensor<8xf32> {{
      %c0 = arith.constant 0 : index
      %b = scf.if %c -> tensor<8xf32> {{
        {store}
        scf.yield %x : tensor<8xf32>
      }} else {{
        scf.yield %x : tensor<8xf32>
      }}
      %r = math.exp %b : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    spec = 'pattern p(c: i1) { exp("scf.if"(c) {...} : tensor<? x f32>) }'
    assert find(payload.format(store=""), spec).count == 1
    assert find(payload.format(store="memref.store %v, %m[%c0] : memref<1xf32>"), spec).count == 0


def test_an_attention_that_changes_its_scores_does_not_look_like_one_that_does_not(find):
    head = """
    #q = affine_map<(b, m, n, d, l) -> (b, m, d)>
    #k = affine_map<(b, m, n, d, l) -> (b, l, d)>
    #v = affine_map<(b, m, n, d, l) -> (b, l, n)>
    #s = affine_map<(b, m, n, d, l) -> ()>
    #o = affine_map<(b, m, n, d, l) -> (b, m, n)>
    func.func @f(%q: tensor<2x8x4xf32>, %k: tensor<2x16x4xf32>, %v: tensor<2x16x4xf32>, %s: f32) {
      %e = tensor.empty() : tensor<2x8x4xf32>"""
    one = """
      %{name} = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
        ins(%q, %k, %v, %s : tensor<2x8x4xf32>, tensor<2x16x4xf32>, tensor<2x16x4xf32>, f32)
        outs(%e : tensor<2x8x4xf32>) {{
      ^bb0(%x: f32):
        {change}
        iree_linalg_ext.yield {given} : f32
      }} -> tensor<2x8x4xf32>"""
    spec = """
    pattern p(q: tensor<b x m x d x f32>, k: tensor<b x l x d x f32>, v: tensor<b x l x n x f32>, s: f32) {
      t = mulf(contract[b m d, b l d -> b m l](q, k), s)
      e = exp(subf(t, broadcast[b m -> b m l](reduce maximumf[b m l -> b m](t))))
      w = divf(e, broadcast[b m -> b m l](reduce addf[b m l -> b m](e)))
      contract[b m l, b l n -> b m n](w, v)
    }"""
    plain, changed = {"given": "%x", "change": ""}, {"given": "%y", "change": "%y = math.absf %x : f32"}
    for first in (plain, changed, {"given": "%s", "change": ""}):
        text = head + one.format(name="0", **first) + one.format(name="1", **plain) + "\n return }"
        assert find(text, spec).count == 1 + (first is plain)

"""What must not match: programs that look like the pattern and compute something else."""

from __future__ import annotations

import pytest
from iree.compiler import ir

SQUARE = """
#id = affine_map<(i, j) -> (i, j)>
#ti = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>
#diagonal = affine_map<(i, j) -> (i, i)>
#first = affine_map<(i, j) -> (0, j)>
func.func @f(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %v: tensor<8xf32>, %e: tensor<8x8xf32>, %ev: tensor<8xf32>)
    -> tensor<8x8xf32> {{
  %zero = arith.constant 0.0 : f32
  %zv = linalg.fill ins(%zero : f32) outs(%ev : tensor<8xf32>) -> tensor<8xf32>
  {body}
  return %x : tensor<8x8xf32>
}}
"""


def two(first: str, second: str, op: str = "arith.mulf") -> str:
    """x under one map, combined with x under another."""
    maps = f"{first}, {second}, #id"
    return f"""%r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {{
    ^bb0(%1: f32, %2: f32, %o: f32): %3 = {op} %1, %2 : f32 linalg.yield %3 : f32 }} -> tensor<8x8xf32>"""


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("#id", "#id", 1),
        ("#ti", "#ti", 0),  # the square of the transpose: right if x were transposed, which no input is
        ("#id", "#ti", 0),
        ("#ti", "#id", 0),
        ("#diagonal", "#diagonal", 0),
        ("#id", "#diagonal", 0),
        ("#first", "#first", 0),
        ("#id", "#first", 0),
    ],
)
def test_both_uses_of_an_input_are_at_the_same_element(find, first, second, count):
    spec = "pattern p(x: tensor<m x n x f32>) { mulf(x, x) }"
    assert find(SQUARE.format(body=two(first, second)), spec).count == count


@pytest.mark.parametrize("access", ["#first", "affine_map<(i, j) -> (j, 0)>", "#diagonal"])
def test_a_row_or_a_diagonal_is_no_vector_to_repeat(find, access):
    body = f"""%r = linalg.generic {{indexing_maps = [#id, {access}, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%y, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {{
    ^bb0(%1: f32, %2: f32, %o: f32): %3 = arith.addf %1, %2 : f32 linalg.yield %3 : f32 }} -> tensor<8x8xf32>"""
    spec = "pattern p(y: tensor<m x n x f32>, b: tensor<n x f32>) { addf(y, broadcast[n -> m n](b)) }"
    assert find(SQUARE.format(body=body), spec).count == 0


@pytest.mark.parametrize(
    ("first", "second", "permutation", "count"),
    [
        ("%t", "%t", "[1, 0]", 1),
        ("%t", "%x", "[1, 0]", 0),  # the element across the diagonal
        ("%x", "%t", "[1, 0]", 0),
        ("%t", "%x", "[0, 1]", 1),
        ("%x", "%t", "[0, 1]", 1),
    ],
)
def test_a_view_and_its_source_are_one_input_at_the_same_element_only(find, first, second, permutation, count):
    body = f"""%t = linalg.transpose ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = {permutation}
      %r = arith.mulf {first}, {second} : tensor<8x8xf32>"""
    spec = "pattern p(x: tensor<m x n x f32>) { mulf(x, x) }"
    assert find(SQUARE.format(body=body), spec).count == count


def test_a_broadcast_is_not_the_vector_that_it_repeats(find):
    """The sum of the vector is not that of a row of the broadcast's transpose."""
    body = """%b = linalg.broadcast ins(%v : tensor<8xf32>) outs(%e : tensor<8x8xf32>) dimensions = [1]
      %s = linalg.reduce {arith.addf} ins(%v : tensor<8xf32>) outs(%z : tensor<f32>) dimensions = [0]
      %sb = linalg.broadcast ins(%s : tensor<f32>) outs(%e : tensor<8x8xf32>) dimensions = [0, 1]
      %r = arith.subf %b, %sb : tensor<8x8xf32>"""
    payload = SQUARE.format(body=f"%z = arith.constant dense<0.0> : tensor<f32>\n{body}")
    spec = """pattern p(x: tensor<m x n x f32>) {
      subf(x, broadcast[m -> m n](reduce addf[m n -> m](x)))
    }"""
    assert find(payload, spec).count == 0


def test_a_repeated_input_is_one_value(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %a = math.exp %y : tensor<8xf32>
      %r = arith.mulf %x, %a : tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<n x f32>) { mulf(x, exp(x)) }")
    assert outcome.reasons == ["wanted the same value for x as before, found another value"]


@pytest.mark.parametrize(
    ("payload_op", "pattern_op", "count"),
    [
        ("arith.maximumf", "maximumf", 1),
        ("arith.maxnumf", "maximumf", 1),
        ("arith.maximumf", "maxnumf", 1),
        ("arith.minnumf", "maxnumf", 0),
        ("arith.minimumf", "maximumf", 0),
        ("arith.subf", "addf", 0),
    ],
)
def test_kinds_of_maximum(find, payload_op, pattern_op, count):
    spec = f"pattern p(x: tensor<n x f32>, y: tensor<n x f32>) {{ absf({pattern_op}(x, y)) }}"
    payload = f"""
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {{
      %a = {payload_op} %x, %y : tensor<8xf32>
      %r = math.absf %a : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, spec).count == count


@pytest.mark.parametrize(
    ("payload_op", "pattern_op", "count"),
    [("maxsi", "maxsi", 1), ("maxui", "maxsi", 0), ("divsi", "divui", 0), ("divui", "divui", 1), ("shrsi", "shrui", 0)],
)
def test_signs_of_integers(find, payload_op, pattern_op, count):
    spec = f"pattern p(x: tensor<n x i32>, y: tensor<n x i32>) {{ {pattern_op}(x, y) }}"
    payload = f"""
    func.func @f(%x: tensor<8xi32>, %y: tensor<8xi32>) -> tensor<8xi32> {{
      %r = arith.{payload_op} %x, %y : tensor<8xi32>
      return %r : tensor<8xi32>
    }}"""
    assert find(payload, spec).count == count


def test_an_unsigned_widening_is_no_contraction_of_signed_numbers(find):
    payload = """
    func.func @f(%a: tensor<4x16xi8>, %b: tensor<16x8xi8>) -> tensor<4x8xi32> {
      %z = arith.constant dense<0> : tensor<4x8xi32>
      %r = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%a, %b : tensor<4x16xi8>, tensor<16x8xi8>)
        outs(%z : tensor<4x8xi32>) -> tensor<4x8xi32>
      return %r : tensor<4x8xi32>
    }"""
    spec = """pattern p(a: tensor<m x k x i8>, b: tensor<k x n x i8>) {
      contract[m k, k n -> m n](a, b) : tensor<m x n x i32>
    }"""
    outcome = find(payload, spec)
    assert outcome.count == 0
    assert outcome.reasons == ["wanted extsi, found extui"]


def test_operands_that_do_not_commute(find):
    spec = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { subf(exp(x), y) }"
    payload = """
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %a = math.exp %x : tensor<8xf32>
      %r = arith.subf %y, %a : tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    assert find(payload, spec).count == 0


@pytest.mark.parametrize("constant", ["1.0", "-3.0", "0x7F800000", "0.0"])
def test_infinity_is_no_other_number(find, constant):
    payload = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %c = arith.constant dense<{constant}> : tensor<8xf32>
      %r = arith.maximumf %x, %c : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { maximumf(x, const(-inf)) }").count == 0


# ---- reductions ------------------------------------------------------------------------------------------------------

ROW_SUM = "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }"


def reduced(out_map: str, iterators: str, body: str, start: str = "%zv", in_map: str = "#id") -> str:
    return f"""%r = linalg.generic {{indexing_maps = [{in_map}, {out_map}], iterator_types = [{iterators}]}}
      ins(%x : tensor<8x8xf32>) outs({start} : tensor<8xf32>) {{
    ^bb0(%i: f32, %o: f32): {body} }} -> tensor<8xf32>"""


ADD = "%1 = arith.addf %i, %o : f32 linalg.yield %1 : f32"
ROWS = '"parallel", "reduction"'


def test_a_sum_of_rows(find):
    assert find(SQUARE.format(body=reduced("#row", ROWS, ADD)), ROW_SUM).count == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(reduced("#col", '"reduction", "parallel"', ADD), id="the other axis"),
        pytest.param(reduced("#row", ROWS, ADD, in_map="#ti"), id="the other axis by the input's map"),
        pytest.param(reduced("#row", ROWS, ADD, start="%v"), id="another start"),
        pytest.param(
            reduced("#row", ROWS, "%1 = arith.mulf %o, %o : f32 %2 = arith.addf %i, %1 : f32 linalg.yield %2 : f32"),
            id="the accumulator used twice",
        ),
        pytest.param(
            reduced("#row", ROWS, "%1 = arith.addf %o, %o : f32 linalg.yield %1 : f32"),
            id="only the accumulator",
        ),
        pytest.param(
            reduced("#row", ROWS, "%1 = arith.subf %i, %o : f32 linalg.yield %1 : f32"),
            id="a difference",
        ),
        pytest.param(
            reduced(
                "#row",
                ROWS,
                """%j = linalg.index 1 : index %n = arith.index_cast %j : index to i32
                %w = arith.sitofp %n : i32 to f32 %1 = arith.mulf %i, %w : f32 %2 = arith.addf %o, %1 : f32
                linalg.yield %2 : f32""",
            ),
            id="weighted by the index",
        ),
    ],
)
def test_other_sums(find, body):
    assert find(SQUARE.format(body=body), ROW_SUM).count == 0


FACTORS = """
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<f32> {{
  %start = arith.constant dense<{start}> : tensor<f32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
    iterator_types = ["reduction"]}} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%start : tensor<f32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %two = arith.constant -2.0 : f32
    %c = {body} : f32
    %d = arith.mulf %b, %two : f32
    %e = arith.mulf %c, %d : f32
    %s = {combiner} %o, {summed} : f32
    linalg.yield %s : f32 }} -> tensor<f32>
  %t = math.absf %r : tensor<f32>
  return %t : tensor<f32>
}}
"""


@pytest.mark.parametrize(
    ("body", "summed", "wanted", "count"),
    [
        ("arith.mulf %a, %two", "%c", "mulf(reduce addf[n -> ](x), -2.0)", 1),
        ("arith.divf %a, %two", "%c", "mulf(reduce addf[n -> ](x), -0.5)", 1),
        ("arith.divf %a, %b", "%c", "mulf(reduce addf[n -> ](x), -2.0)", 0),
        ("arith.addf %a, %two", "%c", "mulf(reduce addf[n -> ](x), -2.0)", 0),
        ("arith.mulf %a, %two", "%e", "mulf(reduce addf[n -> ](mulf(x, y)), 4.0)", 1),
        ("arith.mulf %a, %two", "%e", "mulf(reduce addf[n -> ](x), 4.0)", 0),  # one factor is left out
        ("arith.mulf %a, %two", "%e", "mulf(reduce addf[n -> ](y), 4.0)", 0),
        ("arith.mulf %a, %two", "%c", "mulf(reduce maximumf[n -> ](x), -2.0)", 0),  # of the negative the least is most
        ("arith.mulf %a, %two", "%c", "reduce maximumf[n -> ](mulf(x, -2.0))", 1),
    ],
)
def test_what_may_stand_outside_of_a_reduction(find, body, summed, wanted, count):
    combiner, start = ("arith.maximumf", "0xFF800000") if "maximumf" in wanted else ("arith.addf", "0.0")
    payload = FACTORS.format(start=start, body=body, combiner=combiner, summed=summed)
    spec = f"pattern p(x: tensor<n x f32>{', y: tensor<n x f32>' if 'y' in wanted else ''}) {{ absf({wanted}) }}"
    assert find(payload, spec).count == count


@pytest.mark.parametrize("made", ["math.exp %x", "math.powf %x, %y", "math.absf %x"])
def test_what_is_never_negative_for_other_reasons_is_no_sum_of_squares(find, made):
    """It would be right, but is not in the table: the maximum is there."""
    payload = f"""
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {{
      %zero = arith.constant dense<0.0> : tensor<8xf32>
      %e = {made} : tensor<8xf32>
      %r = arith.maximumf %e, %zero : tensor<8xf32>
      %s = math.sqrt %r : tensor<8xf32>
      return %s : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { sqrt(maximumf(x, 0.0)) }").count == 1


@pytest.mark.parametrize(("number", "matches"), [("3.0", 1), ("-3.0", 0)])
@pytest.mark.parametrize("op", ["arith.divf", "arith.mulf"])
def test_squares_over_a_negative_number_are_negative(find, op, number, matches):
    payload = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %zero = arith.constant dense<0.0> : tensor<8xf32>
      %c = arith.constant dense<{number}> : tensor<8xf32>
      %e = arith.mulf %x, %x : tensor<8xf32>
      %d = {op} %e, %c : tensor<8xf32>
      %r = arith.maximumf %d, %zero : tensor<8xf32>
      %s = math.sqrt %r : tensor<8xf32>
      return %s : tensor<8xf32>
    }}"""
    wanted = f"sqrt({op.removeprefix('arith.')}(mulf(x, x), {number}))"
    assert find(payload, f"pattern p(x: tensor<n x f32>) {{ {wanted} }}").count == matches


def test_a_diagonal_is_not_all_that_two_dims_have(find):
    body = """%t = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> ()>],
        iterator_types = ["reduction"]} ins(%x : tensor<8x8xf32>) outs(%z : tensor<f32>) {
      ^bb0(%a: f32, %o: f32): %1 = arith.addf %a, %o : f32 linalg.yield %1 : f32 } -> tensor<f32>"""
    payload = SQUARE.format(body=f"%z = arith.constant dense<0.0> : tensor<f32>\n{body}")
    assert find(payload, "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> ](x) }").count == 0
    assert find(payload, "pattern p(x: tensor<...m x f32>) { reduce addf[...m -> ](x) }").count == 0


@pytest.mark.parametrize(
    ("op", "start", "count"),
    [
        ("maximumf", "0xFF7FFFFF", 1),  # as some frontends do
        ("minimumf", "0xFF7FFFFF", 0),
        ("addf", "0xFF7FFFFF", 0),
        ("minimumf", "0x7F800000", 1),
        ("minimumf", "0xFF800000", 0),
        ("maximumf", "0x7F800000", 0),
        ("mulf", "1.0", 1),
        ("mulf", "0.0", 0),
    ],
)
def test_what_a_reduction_may_start_from(find, op, start, count):
    payload = f"""
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {{
      %z = arith.constant dense<{start}> : tensor<4xf32>
      %r = linalg.reduce {{ arith.{op} }} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
      return %r : tensor<4xf32>
    }}"""
    assert find(payload, f"pattern p(x: tensor<m x n x f32>) {{ reduce {op}[m n -> m](x) }}").count == count


def test_a_reduction_by_an_op_that_does_not_combine_is_none(find):
    body = reduced("#row", ROWS, "%1 = arith.subf %o, %i : f32 linalg.yield %1 : f32", start="%v")
    assert find(SQUARE.format(body=body), "pattern p(x: tensor<n x f32>) { subf(x, _) }").count == 0


def test_a_part_of_a_dim_is_not_all_of_it(find):
    """The loop runs over eight of nine elements: the other index is always zero."""
    payload = """
    func.func @f(%x: tensor<{0}xf32>, %y: tensor<{1}xf32>, %w: tensor<1xf32>) -> tensor<f32> {{
      %z = arith.constant dense<0.0> : tensor<f32>
      %r = linalg.generic {{indexing_maps = [affine_map<(i, k) -> (i + k)>, affine_map<(i, k) -> (i)>,
          affine_map<(i, k) -> (k)>, affine_map<(i, k) -> ()>], iterator_types = ["reduction", "reduction"]}}
        ins(%x, %y, %w : tensor<{0}xf32>, tensor<{1}xf32>, tensor<1xf32>) outs(%z : tensor<f32>) {{
      ^bb0(%a: f32, %b: f32, %c: f32, %o: f32): %1 = arith.addf %a, %o : f32 linalg.yield %1 : f32 }} -> tensor<f32>
      return %r : tensor<f32>
    }}"""
    spec = "pattern p(x: tensor<n x f32>) { reduce addf[n -> ](x) }"
    assert find(payload.format(8, 8), spec).count == 1
    assert find(payload.format(9, 8), spec).count == 0
    assert find(payload.format("?", "?"), spec).count == 0


WEIGHTED = """
func.func @f(%x: tensor<8x8xf32>, %e: tensor<8x8xf32>) -> tensor<8xf32> {{
  %z = arith.constant dense<0.0> : tensor<8xf32>
  {sums}
  %a = math.exp %first : tensor<8xf32>
  %r = arith.subf %a, %second : tensor<8xf32>
  return %r : tensor<8xf32>
}}
"""


def weighted(name: str, dim: int, kind: str = "i32") -> str:
    """The sums of rows, each element times its index along a dim, which goes through a type."""
    return f"""%{name} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}} ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {{
    ^bb0(%a: f32, %o: f32): %0 = linalg.index {dim} : index
      %1 = arith.index_cast %0 : index to {kind} %2 = arith.sitofp %1 : {kind} to f32
      %3 = arith.mulf %a, %2 : f32 %4 = arith.addf %3, %o : f32 linalg.yield %4 : f32 }} -> tensor<8xf32>"""


@pytest.mark.parametrize(
    ("second", "count"),
    [(weighted("second", 1), 1), (weighted("second", 0), 0), (weighted("second", 1, "i2"), 0)],
)
def test_a_sum_that_is_computed_again_is_the_same_in_all_that_is_not_looked_at(find, second, count):
    spec = """pattern p(x: tensor<m x n x f32>) {
      s = reduce addf[m n -> m](mulf(x, _))
      subf(exp(s), s)
    }"""
    assert find(WEIGHTED.format(sums=weighted("first", 1) + "\n" + second), spec).count == count


@pytest.mark.parametrize(
    ("made", "shape", "count"),
    [
        ("%t = math.exp %u : tensor<2x4xf32>", "2x4", 1),
        (
            "%e2 = tensor.empty() : tensor<4x2xf32> "
            "%v = linalg.transpose ins(%u : tensor<2x4xf32>) outs(%e2 : tensor<4x2xf32>) permutation = [1, 0] "
            "%t = math.exp %v : tensor<4x2xf32>",
            "4x2",
            0,
        ),
    ],
)
def test_dims_that_are_put_together_in_another_order_are_not_the_dim_that_they_were(find, made, shape, count):
    payload = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %u = tensor.expand_shape %x [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
      {made}
      %c = tensor.collapse_shape %t [[0, 1]] : tensor<{shape}xf32> into tensor<8xf32>
      %r = arith.mulf %x, %c : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { mulf(x, exp(x)) }").count == count


RUNNING = """
func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>) {{
  %z = arith.constant dense<0.0> : tensor<f32>
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
    iterator_types = ["reduction"]}} ins(%x : tensor<8xf32>) outs(%e, %z : tensor<8xf32>, tensor<f32>) {{
  ^bb0(%i: f32, %o: f32, %t: f32):
    %s = arith.addf %i, %t : f32
    linalg.yield {first}, {second} : f32, f32 }} -> (tensor<8xf32>, tensor<f32>)
  return %r#0, %r#1 : tensor<8xf32>, tensor<f32>
}}
"""


def test_a_running_sum_is_neither_its_start_nor_its_end(find):
    """The first result is all partial sums, so it must not be read as x plus the start of the second."""
    payload = RUNNING.format(first="%s", second="%s")
    assert find(payload, "pattern p(x: tensor<n x f32>) { addf(x, 0.0) }").count == 0
    assert find(payload, "pattern p(x: tensor<n x f32>, t: f32) { addf(x, t) }").count == 0
    assert find(payload, "pattern p(x: tensor<n x f32>) { reduce addf[n -> ](x) }").count == 1


def test_a_contribution_that_reads_another_accumulator(find):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
      %z = arith.constant dense<0.0> : tensor<f32>
      %r:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>],
        iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%z, %z : tensor<f32>, tensor<f32>) {
      ^bb0(%i: f32, %o: f32, %t: f32):
        %s = arith.addf %i, %o : f32
        %p = arith.mulf %i, %o : f32
        %q = arith.addf %p, %t : f32
        linalg.yield %s, %q : f32, f32 } -> (tensor<f32>, tensor<f32>)
      return %r#0, %r#1 : tensor<f32>, tensor<f32>
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { reduce addf[n -> ](mulf(x, 0.0)) }").count == 0


def test_every_reduced_dim_counts(find):
    """The sum runs over a dim that the input lacks, so it is a multiple of what the pattern says."""
    payload = """
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<3xf32>) -> tensor<4xf32> {
      %z = arith.constant dense<0.0> : tensor<4xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (k)>,
        affine_map<(i, j, k) -> (i)>], iterator_types = ["parallel", "reduction", "reduction"]}
        ins(%x, %w : tensor<4x8xf32>, tensor<3xf32>) outs(%z : tensor<4xf32>) {
      ^bb0(%i: f32, %j: f32, %o: f32): %1 = arith.addf %i, %o : f32 linalg.yield %1 : f32 } -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    assert find(payload, ROW_SUM).count == 0
    assert find(payload, "pattern p(x: tensor<m x ...n x f32>) { reduce addf[m ...n -> m](x) }").count == 0


@pytest.mark.parametrize(("size", "count"), [(8, 1), (3, 0)])
def test_a_dim_that_is_only_summed_over_has_its_size(find, size, count):
    payload = f"""
    func.func @f(%x: tensor<4xf32>, %y: tensor<4x8xf32>, %w: tensor<{size}xf32>) -> tensor<4x8xf32> {{
      %z = arith.constant dense<0.0> : tensor<4xf32>
      %e = tensor.empty() : tensor<4x8xf32>
      %s = linalg.generic {{indexing_maps = [affine_map<(i, k) -> (i)>, affine_map<(i, k) -> (k)>,
        affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}}
        ins(%x, %w : tensor<4xf32>, tensor<{size}xf32>) outs(%z : tensor<4xf32>) {{
      ^bb0(%i: f32, %j: f32, %o: f32): %1 = arith.addf %i, %o : f32 linalg.yield %1 : f32 }} -> tensor<4xf32>
      %b = linalg.broadcast ins(%s : tensor<4xf32>) outs(%e : tensor<4x8xf32>) dimensions = [1]
      %r = arith.mulf %b, %y : tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }}"""
    spec = """pattern p(x: tensor<m x f32>, y: tensor<m x n x f32>) {
      mulf(broadcast[m -> m n](reduce addf[m n -> m](broadcast[m -> m n](x))), y)
    }"""
    assert find(payload, spec).count == count


# ---- accesses --------------------------------------------------------------------------------------------------------


def test_a_strided_access_is_no_input(find):
    payload = """
    func.func @f(%x: tensor<16xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i * 2)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%x : tensor<16xf32>) outs(%e : tensor<8xf32>) {
      ^bb0(%i: f32, %o: f32): %1 = math.absf %i : f32 linalg.yield %1 : f32 } -> tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { absf(x) }").count == 0


def test_a_reshape_that_mixes_dims_is_no_view_of_the_same_shape(find):
    payload = """
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
      %a = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
      %b = tensor.expand_shape %a [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
      %e = tensor.empty() : tensor<4x6xf32>
      %t = linalg.transpose ins(%b : tensor<6x4xf32>) outs(%e : tensor<4x6xf32>) permutation = [1, 0]
      %r = arith.addf %t, %x : tensor<4x6xf32>
      return %r : tensor<4x6xf32>
    }"""
    assert find(payload, "pattern p(x: tensor<m x n x f32>) { addf(x, x) }").count == 0


@pytest.mark.parametrize("second", ["%a0", "%a1"])
def test_splits_of_dynamic_dims_are_not_assumed_equal(find, second):
    payload = f"""
    func.func @f(%x: tensor<?xf32>, %n: index, %m: index, %k: index) -> tensor<?x?xf32> {{
      %a0 = tensor.expand_shape %x [[0, 1]] output_shape [%n, %m] : tensor<?xf32> into tensor<?x?xf32>
      %a1 = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n] : tensor<?xf32> into tensor<?x?xf32>
      %r = arith.addf %a0, {second} : tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }}"""
    count = find(payload, "pattern p(x: tensor<m x n x f32>) { addf(x, x) }").count
    assert count == (second == "%a0")


def test_dynamic_dims_that_may_differ(find):
    payload = """
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>, %e: tensor<?x?xf32>) -> tensor<?x?xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
      ^bb0(%1: f32, %2: f32, %o: f32): %3 = arith.mulf %1, %2 : f32 linalg.yield %3 : f32 } -> tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }"""
    two_sizes = "pattern p(a: tensor<m x f32>, b: tensor<n x f32>) { contract[i, j -> i j](a, b) }"
    assert find(payload, two_sizes).count == 1
    one_size = find(payload, "pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { contract[i, j -> i j](a, b) }")
    assert one_size.count == 0
    assert one_size.reasons == ["wanted n = a dynamic size, found another size that is dynamic"]


def test_dynamic_dims_that_a_loop_makes_equal(find):
    payload = """
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<f32> {
      %z = arith.constant dense<0.0> : tensor<f32>
      %a = arith.addf %x, %y : tensor<?xf32>
      %r = linalg.dot ins(%a, %y : tensor<?xf32>, tensor<?xf32>) outs(%z : tensor<f32>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    spec = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { contract[n, n ->](addf(x, y), y) }"
    assert find(payload, spec).count == 1


def test_static_dims_that_differ(find):
    payload = """
    func.func @f(%x: tensor<4xf32>, %y: tensor<8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%x, %y : tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
      ^bb0(%1: f32, %2: f32, %o: f32): %3 = arith.mulf %1, %2 : f32 linalg.yield %3 : f32 } -> tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    outcome = find(payload, "pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { contract[i, j -> i j](a, b) }")
    assert outcome.reasons == ["wanted n = 4, found 8"]


# ---- dependences, effects and regions --------------------------------------------------------------------------------


def test_an_input_made_from_a_result_cannot_be_given_to_a_replacement(find):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = math.absf %x : tensor<8xf32>
      %m = math.exp %a : tensor<8xf32>
      %b = arith.negf %m : tensor<8xf32>
      return %b : tensor<8xf32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { absf(x), negf(y) }")
    assert outcome.count == 0
    apart = find(payload.replace("%m = math.exp %a", "%m = math.exp %x"), "pattern p(x: tensor<n x f32>, "
                 "y: tensor<n x f32>) { absf(x), negf(y) }")  # fmt: skip
    assert apart.count == 1


def test_an_input_made_from_a_result_inside_a_region_cannot_be_given_to_a_replacement(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %c: i1, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
      %a = arith.negf %x : tensor<8xf32>
      %y = scf.if %c -> tensor<8xf32> {{
        scf.yield {given} : tensor<8xf32>
      }} else {{
        scf.yield %w : tensor<8xf32>
      }}
      %b = arith.addf %x, %y : tensor<8xf32>
      return %a, %b : tensor<8xf32>, tensor<8xf32>
    }}"""
    spec = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { negf(x), addf(x, y) }"
    assert find(payload.format(given="%x"), spec).count == 1
    assert find(payload.format(given="%a"), spec).count == 0


def test_an_op_with_effects_may_be_the_root_and_nothing_else(find):
    payload = """
    util.global private mutable @g = dense<0.0> : tensor<8xf32>
    util.func public @f() -> tensor<8xf32> {
      %x = util.global.load @g : tensor<8xf32>
      %a = math.absf %x : tensor<8xf32>
      util.return %a : tensor<8xf32>
    }"""
    inside = find(payload, 'pattern p() { absf("util.global.load"() : tensor<8 x f32>) }')
    assert inside.reasons == [
        "wanted util.global.load without side effects, as it is inside the pattern, found one that has some"
    ]
    assert find(payload, 'pattern p() { "util.global.load"() : tensor<8 x f32> }').count == 1


def test_an_op_with_two_results_is_not_one_with_one(find):
    payload = """
    func.func @f(%x: tensor<8xi32>, %y: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>) {
      %r:2 = arith.mulsi_extended %x, %y : tensor<8xi32>
      return %r#0, %r#1 : tensor<8xi32>, tensor<8xi32>
    }"""
    one = 'pattern p(x: tensor<n x i32>, y: tensor<n x i32>) { "arith.mulsi_extended"(x, y) }'
    assert find(payload, one).count == 0
    high = 'pattern p(x: tensor<n x i32>, y: tensor<n x i32>) { l, h = "arith.mulsi_extended"(x, y)  h }'
    outcome = find(payload, high)
    assert [ir.OpResult(r).result_number for r in outcome.only.roots] == [1]


def test_a_region_that_the_pattern_does_not_show(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %s: f32) -> tensor<10xf32> {
      %a = math.absf %x : tensor<8xf32>
      %r = tensor.pad %a low[1] high[1] {
      ^bb0(%i: index):
        tensor.yield %s : f32
      } : tensor<8xf32> to tensor<10xf32>
      return %r : tensor<10xf32>
    }"""
    outcome = find(payload, 'pattern p(x: tensor<n x f32>) { "tensor.pad"(absf(x)) }')
    assert outcome.count == 0


def row_products(kind: str = "f32", wide: str = "f32", rows: int = 1) -> str:
    """The products of all rows of x with each other: the sum of squares where there is one row."""
    add, times = ("arith.addf", "arith.mulf") if wide.startswith("f") else ("arith.addi", "arith.muli")
    zero = "0.0" if wide.startswith("f") else "0"
    widen = "extf" if wide.startswith("f") else "extsi"
    widened = f"%a = arith.{widen} %1 : {kind} to {wide} %b = arith.{widen} %2 : {kind} to {wide}"
    return f"""func.func @f(%x: tensor<{rows}x8x{kind}>) -> tensor<{rows}x{rows}x{wide}> {{
      %zero = arith.constant {zero} : {wide}
      %e = tensor.empty() : tensor<{rows}x{rows}x{wide}>
      %i = linalg.fill ins(%zero : {wide}) outs(%e : tensor<{rows}x{rows}x{wide}>) -> tensor<{rows}x{rows}x{wide}>
      %r = linalg.generic {{
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                         affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      }} ins(%x, %x : tensor<{rows}x8x{kind}>, tensor<{rows}x8x{kind}>) outs(%i : tensor<{rows}x{rows}x{wide}>) {{
      ^bb0(%1: {kind}, %2: {kind}, %o: {wide}):
        {widened if kind != wide else ""}
        %p = {times} {"%1, %2" if kind == wide else "%a, %b"} : {wide}
        %s = {add} %o, %p : {wide}
        linalg.yield %s : {wide} }} -> tensor<{rows}x{rows}x{wide}>
      return %r : tensor<{rows}x{rows}x{wide}>
    }}"""


ROW_PRODUCTS = (
    "pattern p(x: tensor<m x k x {}>, w: tensor<n x k x {}>) {{ contract[m k, n k -> m n](x, w) : tensor<m x n x {}> }}"
)


@pytest.mark.parametrize(("kind", "wide"), [("f32", "f32"), ("f16", "f32"), ("i8", "i32")])
def test_a_sum_of_squares_is_no_product_of_matrices(find, kind, wide):
    outcome = find(row_products(kind, wide), ROW_PRODUCTS.format(kind, kind, wide))
    assert (outcome.count, outcome.reasons) == (0, ["wanted a contraction of two values, found one value twice"])


@pytest.mark.parametrize(("kind", "wide"), [("f32", "f32"), ("f16", "f32"), ("i8", "i32")])
def test_the_products_of_rows_with_each_other_are_one(find, kind, wide):
    outcome = find(row_products(kind, wide, rows=4), ROW_PRODUCTS.format(kind, kind, wide))
    assert set(outcome.inputs.values()) == {"%arg0"}


@pytest.mark.parametrize(
    "body",
    [
        "contract[m k, n k -> m n](x, x)",
        "reduce addf[m n k -> m n](mulf(broadcast[m k -> m n k](x), broadcast[n k -> m n k](w)))",
    ],
)
def test_a_sum_of_squares_is_what_asks_for_one_value_or_for_one_element(find, body):
    w = ", w: tensor<n x k x f32>" * ("w" in body)
    spec = f"pattern p(x: tensor<m x k x f32>{w}) {{ {body} }}"
    assert find(row_products(), spec).count == 1


def test_a_row_s_squares_are_no_convolution(find):
    spec = """pattern p(x: tensor<n x w x c x f32>, f: tensor<k x c x o x f32>) {
      contract[n (s*z + d*j) c, j c o -> n z o](x, f) }"""
    program = """func.func @f(%x: tensor<1x8x1xf32>) -> tensor<1x1x1xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x1x1xf32>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %r = linalg.conv_1d_nwc_wcf ins(%x, %FILTER : tensor<1x8x1xf32>, tensor<8x1x1xf32>)
        outs(%i : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      return %r : tensor<1x1x1xf32> }"""
    reshape = (
        """%w = tensor.expand_shape %v [[0, 1, 2]] output_shape [8, 1, 1] : tensor<8xf32> into tensor<8x1x1xf32>"""
    )
    same = "%v = tensor.collapse_shape %x [[0, 1, 2]] : tensor<1x8x1xf32> into tensor<8xf32>\n" + reshape
    other = program.replace("%x: tensor<1x8x1xf32>", "%x: tensor<1x8x1xf32>, %v: tensor<8xf32>")
    for text, before, count in ((program, same, 0), (other, reshape, 1)):
        found = find(text.replace("%zero =", f"{before}\n%zero =", 1).replace("%FILTER", "%w"), spec)
        assert found.count == count


@pytest.mark.parametrize(("mode", "count"), [("", 1), ("downward", 0)])
def test_a_sum_that_rounds_otherwise_is_another_one(find, mode, count):
    payload = f"""func.func @f(%x: tensor<8x4xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {{
      %zero = arith.constant 0.0 : f32
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
      %r = linalg.reduce ins(%x : tensor<8x4xf32>) outs(%z : tensor<8xf32>) dimensions = [1]
        (%a: f32, %b: f32) {{ %s = arith.addf %a, %b {mode} : f32  linalg.yield %s : f32 }}
      return %r : tensor<8xf32> }}"""
    assert find(payload, "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }").count == count


@pytest.mark.parametrize(("mode", "count"), [("", 1), ("to_nearest_even ", 1), ("upward ", 0)])
def test_a_scaled_cast_that_rounds_otherwise_is_another_one(find, mode, count):
    payload = f"""
    func.func @f(%x: tensor<4xf32>, %s: tensor<4xf8E8M0FNU>) -> tensor<4xf4E2M1FN> {{
      %r = arith.scaling_truncf %x, %s {mode}: tensor<4xf32>, tensor<4xf8E8M0FNU> to tensor<4xf4E2M1FN>
      return %r : tensor<4xf4E2M1FN>
    }}"""
    spec = "pattern p(x: tensor<n x f32>, s: tensor<n x f8E8M0FNU>) { scaling_truncf(x, s) : f4E2M1FN }"
    assert find(payload, spec).count == count


@pytest.mark.parametrize(("wanted", "count"), [("only", 1), ("shared", 0)])
def test_the_uses_of_an_input_are_those_of_its_own_value(find, wanted, count):
    """What it is a view of may be used elsewhere."""
    payload = """
    func.func @f(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<4x6xf32>) {
      %e = tensor.empty() : tensor<6x4xf32>
      %a = math.exp %x : tensor<4x6xf32>
      %t = linalg.transpose ins(%a : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
      %r = arith.negf %t : tensor<6x4xf32>
      return %r, %a : tensor<6x4xf32>, tensor<4x6xf32>
    }"""
    assert find(payload, f"pattern p(x: tensor<m x n x f32>) where {wanted}(x) {{ negf(x) }}").count == count


@pytest.mark.parametrize(
    ("maker", "count"),
    [
        (
            'torch.operator "onnx.Constant"() {torch.onnx.value = dense<1.0> : tensor<4xf32>} '
            ": () -> !torch.vtensor<[4],f32>",
            1,
        ),
        ('torch.operator "onnx.Abs"(%x) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>', 0),
        ("torch_c.from_builtin_tensor %c : tensor<4xf32> -> !torch.vtensor<[4],f32>", 1),
    ],
)
def test_of_onnx_ops_only_constants_are_weights(find, maker, count):
    payload = f"""
    func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {{
      %c = arith.constant dense<2.0> : tensor<4xf32>
      %w = {maker}
      %r = torch.operator "onnx.Add"(%x, %w)
        : (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
      return %r : !torch.vtensor<[4],f32>
    }}"""
    spec = """pattern p(x: tensor<n x f32>, w: tensor<n x f32>) where weight(w) {
      "torch.operator"(x, w) {name = "onnx.Add"}
    }"""
    assert find(payload, spec).count == count

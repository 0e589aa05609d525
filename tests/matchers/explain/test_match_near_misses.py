"""Why a pattern did not match: the nearest places, what was wanted there and what was found."""

from __future__ import annotations

from opsplice.matchers.explain import failure_words
from opsplice.matchers.explain.failure_words import words
from opsplice.matchers.search.failures import Why

BIAS = """pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>, bias: tensor<n x f32>) {
  maximumf(addf(contract[m k, k n -> m n](a, b), broadcast[n -> m n](bias)), 0.0)
}"""


def layer(last: str) -> str:
    return f"""
    func.func @f(%a: tensor<4x16xf32>, %b: tensor<16x8xf32>, %v: tensor<8xf32>) -> tensor<4x8xf32> {{
      %z = arith.constant dense<0.0> : tensor<4x8xf32> loc("model.py":1:1)
      %m = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>)
        -> tensor<4x8xf32> loc("model.py":2:1)
      %e = tensor.empty() : tensor<4x8xf32>
      %w = linalg.broadcast ins(%v : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0] loc("model.py":3:1)
      %s = arith.addf %m, %w : tensor<4x8xf32> loc("model.py":4:1)
      {last}
      return %r : tensor<4x8xf32>
    }}"""


def test_a_near_miss_names_both_places_and_the_part_of_the_pattern(find):
    payload = layer("""%c = arith.constant dense<6.0> : tensor<4x8xf32> loc("model.py":6:1)
      %r = arith.maximumf %s, %c : tensor<4x8xf32> loc("model.py":5:1)""")
    outcome = find(payload, BIAS)
    assert outcome.count == 0
    (miss,) = outcome.found.near_misses
    assert (miss.pattern, miss.function, miss.location) == ("p", "f", "model.py:5:1")
    assert (*words(miss), miss.at) == ("the constant 0.0", "6.0", "model.py:6:1")
    assert miss.progress == 0.8
    assert miss.span is not None
    assert BIAS[miss.span.start : miss.span.end] == "0.0"


def test_the_op_that_was_looked_at_has_its_own_location(find):
    payload = layer("""%t = math.tanh %m : tensor<4x8xf32> loc("model.py":7:1)
      %u = arith.addf %t, %w : tensor<4x8xf32> loc("model.py":8:1)
      %r = arith.maximumf %u, %z : tensor<4x8xf32> loc("model.py":9:1)""")
    outcome = find(payload, BIAS)
    (miss,) = outcome.found.near_misses
    assert (miss.location, miss.at) == ("model.py:9:1", "model.py:7:1")
    assert words(miss) == ("a reduction by addf", "tanh")
    assert 0 < miss.progress < 1


def test_an_op_that_is_only_like_the_outermost_is_no_near_miss(find):
    payload = layer("""%t = math.tanh %a : tensor<4x16xf32>
      %q = arith.maximumf %t, %a : tensor<4x16xf32>
      %r = arith.subf %s, %z : tensor<4x8xf32>""")
    assert find(payload, BIAS).found.near_misses == ()


def test_the_nearest_come_first_and_five_are_kept(find):
    lines = ["%h = math.exp %x : tensor<8xf32>"]
    for i in range(8):
        lines.append(f"%p{i} = math.absf %x : tensor<8xf32>")
        lines.append(f"%n{i} = arith.negf %p{i} : tensor<8xf32>")
    lines += ["%s = math.absf %h : tensor<8xf32>", "%q = arith.negf %s : tensor<8xf32>"]
    body = "\n".join(lines)
    payload = f"func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{\n{body}\nreturn %q : tensor<8xf32>\n}}"
    spec = "pattern p(x: tensor<n x f32>) { negf(absf(exp(tanh(x)))) }"
    outcome = find(payload, spec)
    misses = outcome.found.near_misses
    assert len(misses) == 5
    assert words(misses[0]) == ("tanh", "an argument of func.func")
    assert misses[0].progress == 0.75
    assert [m.progress for m in misses[1:]] == [0.5] * 4


def test_a_wrong_type_or_size_of_a_single_op_is_worth_telling(find):
    payload = """
    func.func @f(%x: tensor<8xf64>) -> tensor<8xf64> {
      %r = math.absf %x : tensor<8xf64>
      return %r : tensor<8xf64>
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { absf(x) }").reasons == ["wanted element type f32, found f64"]
    assert find(payload, "pattern p(x: tensor<9 x f64>) { absf(x) }").reasons == ["wanted a dim of size 9, found 8"]


def test_a_condition_is_printed_with_its_brackets(find):
    payload = layer('%r = math.tanh %m : tensor<4x8xf32> loc("model.py":7:1)')
    for where in ("k == 64 or (n > 80 and not m == 4)", "not (m == 4 or n == 8)", "(n + 1) * (m + 2) == 5"):
        head = f"pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) where {where}"
        assert (
            find(payload, f"{head} {{ contract[mk, kn -> mn](a, b) }}").reasons[0].startswith(f"wanted {where}, found ")
        )


def test_a_further_result_that_nothing_leads_to(find):
    payload = """
    util.func public @f(%v: !hal.buffer_view, %w: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
      %x = hal.tensor.import %v : !hal.buffer_view -> tensor<8xf32>
      %y = hal.tensor.import %w : !hal.buffer_view -> tensor<8xf32>
      %a = math.exp %x : tensor<8xf32>
      %b = math.tanh %y : tensor<8xf32>
      %r = hal.tensor.export %a : tensor<8xf32> -> !hal.buffer_view
      %s = hal.tensor.export %b : tensor<8xf32> -> !hal.buffer_view
      util.return %r, %s : !hal.buffer_view, !hal.buffer_view
    }"""
    (reason,) = find(payload, "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { exp(x), tanh(y) }").reasons
    wanted = "result 2 of the pattern, which ends with tanh, near result 1"
    assert reason == f"wanted {wanted}, found no such tensor made from the same inputs"


def test_a_further_result_of_the_same_op_that_is_made_otherwise(find):
    """As the places of PyTorch's `max`, which are counted in i64: the argument beside them is no candidate."""
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
      %low = arith.constant dense<0xFF800000> : tensor<4xf32>
      %first = arith.constant dense<0> : tensor<4xi64>
      %0:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
          affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<4x8xf32>) outs(%low, %first : tensor<4xf32>, tensor<4xi64>) {
      ^bb0(%in: f32, %best: f32, %at: i64):
        %index = linalg.index 1 : index
        %here = arith.index_cast %index : index to i64
        %most = arith.maximumf %in, %best : f32
        %more = arith.cmpf ogt, %in, %best : f32
        %place = arith.select %more, %here, %at : i64
        linalg.yield %most, %place : f32, i64
      } -> (tensor<4xf32>, tensor<4xi64>)
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
    }"""
    both = "pattern p(x: tensor<m x n x f32>) {{ reduce maximumf[m n -> m](x), {} }}"
    assert find(payload, both.format("reduce argmax[m n -> m](x) : i64")).count == 1
    (reason,) = find(payload, both.format("extsi(reduce argmax[m n -> m](x) : i32) : i64")).reasons
    wanted = "result 2 of the pattern, which ends with extsi, near result 1"
    assert (
        reason == f"wanted {wanted}, found no such tensor made from the same inputs, but one by a reduction by argmax"
    )


def test_each_reason_has_words():
    assert set(failure_words._WORDS) == set(Why)

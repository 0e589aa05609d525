"""What a place means, and how much of the program a capture takes."""

from __future__ import annotations

import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.matchers.explain.pointing import Lines, NamedOp, parse_place

MLP = """\
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = math.absf %x : tensor<4x8xf32>
  %1 = linalg.matmul ins(%0, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = math.exp %1 : tensor<4x8xf32>
  %3 = linalg.matmul ins(%2, %v : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = math.tanh %3 : tensor<4x8xf32>
  %5 = arith.negf %4 : tensor<4x8xf32>
  %6 = arith.addf %4, %x : tensor<4x8xf32>
  return %5, %6 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def test_the_location_is_the_innermost_in_the_users_own_files():
    op = "%0 = math.absf %x : tensor<4x8xf32>"
    inner, own, caller = '"/x/site-packages/flax/linear.py":3:1', '"/home/me/model.py":7:2', '"/home/me/train.py":9:1'
    chain = f'loc("jit(f)/abs"("dot"(callsite({inner} at callsite({own} at {caller})))))'
    assert opsplice.capture(MLP.replace(op, f"{op} {chain}"), "model.py:7").location == "/home/me/model.py:7:2"


def body(*at: str, to: str | tuple[str, ...] = (), inputs: str | tuple[str, ...] = ()) -> str:
    """The last line of the pattern, with the lets put in."""
    spec = opsplice.capture(MLP, at, to=to, inputs=inputs).spec
    lines = spec[spec.index("{", spec.index("pattern")) + 1 : spec.index("\n}\n\nreplace")].strip().split("\n")
    *lets, last = map(str.strip, lines)
    for let in reversed(lets):
        name, _, value = let.partition(" = ")
        last = last.replace(f"({name}", f"({value}")
    return last


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("linalg.generic", NamedOp("linalg.generic", 0)),
        ("model.mlir:12", Lines("model.mlir", 12, 12, False)),
        ("a/b.mlir:12:7", Lines("a/b.mlir", 12, 12, False, 7)),
        ("model.mlir:10-25", Lines("model.mlir", 10, 25, True)),
        (":3", Lines("", 3, 3, False)),
        ("3-3", Lines("", 3, 3, True)),
        ("linalg.generic#2", NamedOp("linalg.generic", 2)),
        ("iree_linalg_ext.sort#1", NamedOp("iree_linalg_ext.sort", 1)),
        ("/layer/MatMul", NamedOp("/layer/MatMul", 0)),
        ("MatMul of y", NamedOp("MatMul of y", 0)),
    ],
)
def test_places(text: str, place: Lines | NamedOp) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "a b", "linalg.generic#0", "a.mlir:0", "a.mlir:5-4", "#3", "%5", "7" * 5000])
def test_no_places(text: str) -> None:
    with pytest.raises(OpspliceError) as failure:
        parse_place(text)
    assert failure.value.hint


def test_a_place_takes_what_only_it_needs_down_to_a_contraction() -> None:
    assert body("9") == "tanh(contract[m k, k n -> m n](x, w))"


def test_what_is_used_elsewhere_is_an_input() -> None:
    assert body("10") == "negf(x)"
    assert body("math.exp#1").startswith("exp(contract["), "%1 is used by nothing else"


def test_a_range_takes_its_own_ops() -> None:
    assert body("10-10") == "negf(x)"
    assert body("9-10") == "negf(tanh(x))"
    assert body("7-8").startswith("contract[")
    assert "exp(x)" in body("7-8")


def test_from_one_place_to_another() -> None:
    assert body("9", to="math.exp#1").startswith("tanh(contract[")
    assert "exp(x)" in body("9", to="math.exp#1")
    assert "absf" not in body("9", to="math.exp#1")


def test_down_to_inputs() -> None:
    whole = body("9", inputs="hal.tensor.import#2")
    assert "absf(" in whole
    assert "exp(contract[" in whole
    assert "absf(" in body("9", inputs="%1"), "which is the second argument after input conversion"
    assert body("10", inputs="linalg.matmul#2") == "negf(tanh(x))"
    assert body("10", inputs="math.exp#1").startswith("negf(tanh(contract[")


def test_an_op_of_a_range_that_leads_nowhere_is_another_result() -> None:
    with pytest.raises(OpspliceError, match="2 results are made at line 10-11") as failure:
        body("10-11")
    assert "arith.negf#1" in failure.value.details
    assert "arith.addf#1" in failure.value.details
    assert "--at" in (failure.value.hint or "")


def test_several_results_of_a_shared_part() -> None:
    spec = opsplice.capture(MLP, ["arith.negf#1", "arith.addf#1"], to="math.tanh#1").spec
    assert "  tanh_x = tanh(x)\n  negf(tanh_x), addf(tanh_x, y)\n" in spec


def test_a_line_without_ops_names_the_nearest() -> None:
    with pytest.raises(OpspliceError, match="no op at line 100") as failure:
        body("100")
    assert "10, 11" in (failure.value.hint or "")


def test_a_file_that_is_not_the_programs() -> None:
    with pytest.raises(OpspliceError, match=r"no op at other\.mlir:5") as failure:
        body("other.mlir:5")
    assert "come from" in (failure.value.hint or "")


def test_an_op_that_is_not_there() -> None:
    with pytest.raises(OpspliceError, match=r"there is no linalg\.matmul#3") as failure:
        body("linalg.matmul#3")
    assert failure.value.hint == "the program has 2 ops called linalg.matmul when patterns are looked for"
    with pytest.raises(OpspliceError, match=r"no op called linalg\.matmull") as failure:
        body("linalg.matmull#1")
    assert failure.value.hint == "did you mean linalg.matmul#1?"


def test_no_way_between_two_places() -> None:
    with pytest.raises(OpspliceError, match="does not depend on"):
        body("math.exp#1", to="math.tanh#1")


def test_a_value_that_is_not_there() -> None:
    with pytest.raises(OpspliceError, match="there is no value %nothing"):
        body("9", inputs="%nothing")


def test_an_input_that_is_made_from_a_result() -> None:
    with pytest.raises(OpspliceError, match="would be an input, and is made from a result"):
        body("linalg.matmul#1", "math.tanh#1")


def test_a_result_that_another_is_made_from() -> None:
    spec = opsplice.capture(MLP, ["math.exp#1", "math.tanh#1"]).spec
    assert "  e = exp(contract[m k, k n -> m n](x, w))\n  e, tanh(contract[m n, n l -> m l](e, w1))\n" in spec


def test_results_without_an_input_in_common() -> None:
    text = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = math.absf %x : tensor<4xf32>
  %1 = math.exp %y : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}"""
    with pytest.raises(OpspliceError, match=r"math\.exp#1 .* has no input in common"):
        opsplice.capture(text, ["math.absf#1", "math.exp#1"])


def test_places_in_different_functions() -> None:
    text = "\n".join(
        f"""func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = math.absf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}}"""
        for name in "fg"
    )
    with pytest.raises(OpspliceError, match="different functions"):
        opsplice.capture(text, ["math.absf#1", "math.absf#2"])


def test_nothing_is_computed_by_arguments() -> None:
    with pytest.raises(OpspliceError, match="nothing at line 1 computes a tensor"):
        body("1")


def test_code_that_no_name_tells() -> None:
    text = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %in, %k : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}"""
    spec = opsplice.capture(text, "linalg.generic#1").spec
    assert "linalg.index 0 : index" in spec  # its body is asked for

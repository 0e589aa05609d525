"""The interpreter on its own: cases worked out by hand, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.api import Session

from opsplice.interpreter import EvaluationError, Program, evaluate
from opsplice.interpreter.elements import rounded
from opsplice.interpreter.handlers import Machine
from opsplice.runtime import weights

_SESSION = Session()
INF, NAN = np.inf, np.nan


def run(body: str, *inputs: Any, kinds: str = "", results: str, floats: Any = None) -> list[Any]:
    """The results of a function with the parameters %0, %1, ... of these types."""
    parameters = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds.split(", ") if kinds else ()))
    text = f"func.func @f({parameters}) -> ({results}) {{\n{body}\n}}"
    made = evaluate(ir.Module.parse(text, context=_SESSION.context), "f", inputs, floats)
    return [each.tolist() for each in made]


def op(text: str, *inputs: Any, kinds: str, results: str) -> Any:
    return run(f"%r = {text}\nreturn %r : {results}", *inputs, kinds=kinds, results=results)[0]


@pytest.mark.parametrize(
    ("text", "inputs", "kinds", "results", "wanted"),
    [
        ("arith.addi %0, %1 : i8", (100, 100), "i8, i8", "i8", -56),
        ("arith.muli %0, %1 : i8", (16, 17), "i8, i8", "i8", 16),
        ("arith.addi %0, %1 : i1", (1, 1), "i1, i1", "i1", False),
        ("arith.divsi %0, %1 : i8", (-7, 2), "i8, i8", "i8", -3),
        ("arith.floordivsi %0, %1 : i8", (-7, 2), "i8, i8", "i8", -4),
        ("arith.ceildivsi %0, %1 : i8", (7, 2), "i8, i8", "i8", 4),
        ("arith.divui %0, %1 : i8", (-7, 2), "i8, i8", "i8", 124),
        ("arith.remsi %0, %1 : i8", (-7, 2), "i8, i8", "i8", -1),
        ("arith.remui %0, %1 : i8", (-7, 2), "i8, i8", "i8", 1),
        ("arith.divsi %0, %1 : i8", (7, 0), "i8, i8", "i8", 0),
        ("arith.shli %0, %1 : i8", (3, 7), "i8, i8", "i8", -128),
        ("arith.shrsi %0, %1 : i8", (-128, 3), "i8, i8", "i8", -16),
        ("arith.shrui %0, %1 : i8", (-128, 3), "i8, i8", "i8", 16),
        ("arith.maxui %0, %1 : i8", (-1, 5), "i8, i8", "i8", -1),
        ("arith.minsi %0, %1 : i8", (-1, 5), "i8, i8", "i8", -1),
        ("arith.cmpi slt, %0, %1 : i1", (1, 0), "i1, i1", "i1", True),
        ("arith.cmpi ult, %0, %1 : i8", (-1, 0), "i8, i8", "i1", False),
        ("arith.uitofp %0 : i8 to f32", (-56,), "i8", "f32", 200.0),
        ("arith.sitofp %0 : i1 to f32", (1,), "i1", "f32", -1.0),
        ("arith.uitofp %0 : i1 to f32", (1,), "i1", "f32", 1.0),
        ("arith.sitofp %0 : i32 to f32", (16777217,), "i32", "f32", 16777216.0),
        ("arith.sitofp %0 : i32 to f16", (100000,), "i32", "f16", INF),
        ("arith.fptosi %0 : f32 to i8", (-3.9,), "f32", "i8", -3),
        ("arith.fptosi %0 : f32 to i8", (300.0,), "f32", "i8", 44),
        ("arith.fptosi %0 : f32 to i32", (3e9,), "f32", "i32", 0),
        ("arith.fptoui %0 : f32 to i8", (200.0,), "f32", "i8", -56),
        ("arith.index_cast %0 : index to i8", (300,), "index", "i8", 44),
        ("arith.extsi %0 : i1 to i8", (1,), "i1", "i8", -1),
        ("arith.extui %0 : i1 to i8", (1,), "i1", "i8", 1),
        ("arith.trunci %0 : i8 to i1", (2,), "i8", "i1", False),
        ("arith.truncf %0 : f32 to f16", (65520.0,), "f32", "f16", INF),
        ("arith.bitcast %0 : f32 to i32", (1.0,), "f32", "i32", 0x3F800000),
        ("arith.remf %0, %1 : f32", (-5.5, 2.0), "f32, f32", "f32", -1.5),
        ("arith.addf %0, %1 : f32", (16777216.0, 1.0), "f32, f32", "f32", 16777216.0),
        ("arith.mulf %0, %1 : f16", (300.0, 300.0), "f16, f16", "f16", INF),
        ("arith.maxnumf %0, %1 : f32", (NAN, 1.0), "f32, f32", "f32", 1.0),
        ("arith.minnumf %0, %1 : f32", (-1.0, NAN), "f32, f32", "f32", -1.0),
        ("arith.cmpf ult, %0, %1 : f32", (NAN, 1.0), "f32, f32", "i1", True),
        ("arith.cmpf olt, %0, %1 : f32", (NAN, 1.0), "f32, f32", "i1", False),
        ("arith.cmpf one, %0, %1 : f32", (NAN, NAN), "f32, f32", "i1", False),
        ("arith.cmpf une, %0, %1 : f32", (NAN, NAN), "f32, f32", "i1", True),
        ("arith.cmpf uno, %0, %1 : f32", (NAN, 1.0), "f32, f32", "i1", True),
        ("arith.cmpf ord, %0, %1 : f32", (NAN, 1.0), "f32, f32", "i1", False),
        ("math.round %0 : f32", (-2.5,), "f32", "f32", -3.0),
        ("math.roundeven %0 : f32", (2.5,), "f32", "f32", 2.0),
        ("math.round %0 : f64", (0.49999999999999994,), "f64", "f64", 0.0),
        ("math.powf %0, %1 : f32", (-INF, 0.5), "f32, f32", "f32", INF),
        ("arith.maximumnumf %0, %1 : f32", (NAN, 1.0), "f32, f32", "f32", 1.0),
        ("math.fpowi %0, %1 : f32, i32", (-2.0, -1), "f32, i32", "f32", -0.5),
        ("math.ipowi %0, %1 : i8", (-3, 5), "i8, i8", "i8", 13),
        ("math.ipowi %0, %1 : i8", (-1, -3), "i8, i8", "i8", -1),
        ("math.ctlz %0 : i8", (1,), "i8", "i8", 7),
        ("math.cttz %0 : i8", (8,), "i8", "i8", 3),
        ("math.ctpop %0 : i8", (-1,), "i8", "i8", 8),
        ("math.copysign %0, %1 : f32", (2.0, -0.0), "f32, f32", "f32", -2.0),
        ("math.isnan %0 : f32", (NAN,), "f32", "i1", True),
    ],
)
def test_ops_on_numbers(text: str, inputs: Any, kinds: str, results: str, wanted: Any) -> None:
    made = op(text, *inputs, kinds=kinds, results=results)
    assert (made, type(made)) == (wanted, type(wanted))


@pytest.mark.parametrize("name", ["maximumf", "minimumf"])
def test_maxima_know_nan_and_the_sign_of_zero(name: str) -> None:
    made = op(
        f"arith.{name} %0, %1 : tensor<4xf32>",
        [NAN, 1.0, -0.0, 0.0],
        [1.0, NAN, 0.0, -0.0],
        kinds="tensor<4xf32>, tensor<4xf32>",
        results="tensor<4xf32>",
    )
    assert np.isnan(made[:2]).all()
    assert np.signbit(made[2:]).tolist() == [name == "minimumf"] * 2


def test_floats_are_rounded_once() -> None:
    just_above_a_tie = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, -(1 + 2**-8 + 2**-40), INF, NAN])
    made = rounded(just_above_a_tie, np.dtype(ml_dtypes.bfloat16)).astype(np.float64)
    np.testing.assert_array_equal(made, [1 + 2**-7, 1.0, -(1 + 2**-7), INF, NAN])


def test_floats_can_all_be_computed_in_f64() -> None:
    body = """%a = arith.truncf %0 : f32 to bf16
    %b = arith.constant 0.1 : bf16
    %c = arith.addf %a, %b : bf16
    return %c : bf16"""
    assert run(body, 1.001, kinds="f32", results="bf16") == [1.1015625]
    assert run(body, 1.001, kinds="f32", results="bf16", floats=np.float64) == [1.001 + 0.10009765625]


def test_a_constant_of_any_type_is_read() -> None:
    body = """%a = arith.constant dense<[1.5, 0xFF80, -2.0e+3]> : tensor<3xbf16>
    %b = arith.constant dense<[true, false]> : tensor<2xi1>
    %c = arith.constant dense<7> : tensor<2x1xi8>
    %d = arith.constant dense_resource<kept> : tensor<2xf32>
    %e = arith.constant dense<"0x803F0040"> : tensor<2xbf16>
    %f = arith.constant dense<-0.0> : tensor<bf16>
    %g = arith.constant dense_resource<"1.kept > : "> : tensor<2xf32>
    return %a, %b, %c, %d, %e, %f, %g
      : tensor<3xbf16>, tensor<2xi1>, tensor<2x1xi8>, tensor<2xf32>, tensor<2xbf16>, tensor<bf16>, tensor<2xf32>"""
    kinds = "tensor<3xbf16>, tensor<2xi1>, tensor<2x1xi8>, tensor<2xf32>, tensor<2xbf16>, tensor<bf16>, tensor<2xf32>"
    text = f"func.func @f() -> ({kinds}) {{{body}}}\n"
    kept = "0x040000000000803F00000040"
    text += f'{{-# dialect_resources: {{ builtin: {{ kept: "{kept}", "1.kept > : ": "{kept}" }} }} #-}}'
    made = evaluate(ir.Module.parse(text, context=_SESSION.context), "f", [])
    values = [each.astype(np.float64).tolist() for each in made]
    assert values == [[1.5, -INF, -2000.0], [1.0, 0.0], [[7.0], [7.0]], [1.0, 2.0], [1.0, 2.0], 0.0, [1.0, 2.0]]
    assert np.signbit(made[5])


def test_what_a_reduction_starts_from_counts_and_its_turns_come_in_order() -> None:
    body = """%r = linalg.generic {
      indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%0 : tensor<2x3xf32>) outs(%1 : tensor<2xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %half = arith.divf %sum, %x : f32
      %k = linalg.index 1 : index
      %wide = arith.index_cast %k : index to i32
      %turn = arith.sitofp %wide : i32 to f32
      %next = arith.addf %half, %turn : f32
      linalg.yield %next : f32
    } -> tensor<2xf32>
    return %r : tensor<2xf32>"""
    made = run(body, [[2, 4, 1], [1, 1, 2]], [8, 0], kinds="tensor<2x3xf32>, tensor<2xf32>", results="tensor<2xf32>")
    assert made == [[((8 / 2) / 4 + 1) / 1 + 2, (0 / 1 / 1 + 1) / 2 + 2]]


def test_a_product_is_summed_once_for_each_turn_of_a_loop_that_reads_nothing() -> None:
    """Here the rows of the result, which no operand has."""
    body = """
    %3 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (k)>,
        affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%0, %1 : tensor<2x3xf32>, tensor<3xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %4 = arith.mulf %a, %b : f32
      %5 = arith.addf %o, %4 : f32
      linalg.yield %5 : f32
    } -> tensor<4x2xf32>
    return %3 : tensor<4x2xf32>"""
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    kinds = "tensor<2x3xf32>, tensor<3xf32>, tensor<4x2xf32>"
    inputs = x, y, np.ones((4, 2), np.float32)
    (found,) = run(body, *inputs, kinds=kinds, results="tensor<4x2xf32>", floats=np.float64)
    np.testing.assert_array_equal(found, np.tile(1 + x @ y, (4, 1)))


@pytest.mark.parametrize(("kept", "axes"), [("", (0, 1, 2)), ("b", (0, 2)), ("c, a", (1,)), ("c, a, b", ())])
@pytest.mark.parametrize("shape", [(5, 3, 7), (5, 0, 7)])
def test_reductions_in_any_order_take_few_steps(
    kept: str, axes: tuple[int, ...], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    run_body = Machine.run_body
    monkeypatch.setattr(Machine, "run_body", lambda *given: ran.append("") or run_body(*given))
    order = [axis for axis, name in enumerate("abc") if name in kept]
    order.sort(key=lambda axis: kept.index("abc"[axis]))
    sizes = [shape[axis] for axis in order]
    of, made = (f"tensor<{''.join(f'{size}x' for size in each)}i32>" for each in (shape, sizes))
    kinds = ", ".join(f'"{"parallel" if name in kept else "reduction"}"' for name in "abc")
    body = f"""
    %2 = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> ({kept})>],
        iterator_types = [{kinds}]}} ins(%0 : {of}) outs(%1 : {made}) {{
    ^bb0(%a: i32, %b: i32):
      %3 = arith.maxsi %b, %a : i32
      linalg.yield %3 : i32
    }} -> {made}
    return %2 : {made}"""
    generator = np.random.default_rng(0)
    x, start = generator.integers(-99, 99, shape), generator.integers(-99, 99, sizes)
    (found,) = run(body, x, start, kinds=f"{of}, {made}", results=made)
    largest = np.max(x, axis=axes, initial=-99).transpose(np.argsort(np.argsort(order)))
    assert found == np.maximum(largest, start).tolist()
    assert len(ran) <= 10


def test_windows_with_strides_and_dilations() -> None:
    body = """%r = linalg.conv_1d_nwc_wcf {strides = dense<2> : vector<1xi64>, dilations = dense<3> : vector<1xi64>}
      ins(%0, %1 : tensor<1x8x1xf32>, tensor<2x1x1xf32>) outs(%2 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
    return %r : tensor<1x3x1xf32>"""
    x, w = np.arange(8.0).reshape(1, 8, 1), [[[10.0]], [[1.0]]]
    kinds = "tensor<1x8x1xf32>, tensor<2x1x1xf32>, tensor<1x3x1xf32>"
    made = run(body, x, w, np.zeros((1, 3, 1)), kinds=kinds, results="tensor<1x3x1xf32>")
    assert np.ravel(made).tolist() == [0 * 10 + 3, 2 * 10 + 5, 4 * 10 + 7]


@pytest.mark.parametrize(
    ("text", "inputs", "kinds", "results", "wanted"),
    [
        ("tensor.pad %0 low[1] high[%1] {\n^bb0(%i: index):\n  %c = arith.constant 9 : i8\n tensor.yield %c : i8\n}"
         " : tensor<2xi8> to tensor<?xi8>", ([1, 2], 2), "tensor<2xi8>, index", "tensor<?xi8>", [9, 1, 2, 9, 9]),
        ("tensor.extract_slice %0[%1, 1] [1, 2] [1, 2] : tensor<2x4xi8> to tensor<2xi8>",
         ([[1, 2, 3, 4], [5, 6, 7, 8]], 1), "tensor<2x4xi8>, index", "tensor<2xi8>", [6, 8]),
        ("tensor.extract_slice %0[0, 0] [1, 1] [1, 1] : tensor<2x4xi8> to tensor<1xi8>",
         ([[1, 2, 3, 4], [5, 6, 7, 8]],), "tensor<2x4xi8>", "tensor<1xi8>", [1]),
        ("tensor.insert_slice %0 into %1[1, 0] [1, 2] [1, 3] : tensor<2xi8> into tensor<2x4xi8>",
         ([1, 2], np.zeros((2, 4))), "tensor<2xi8>, tensor<2x4xi8>", "tensor<2x4xi8>", [[0, 0, 0, 0], [1, 0, 0, 2]]),
        ("tensor.concat dim(1) %0, %0 : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>",
         ([[1, 2]],), "tensor<1x2xi8>", "tensor<1x4xi8>", [[1, 2, 1, 2]]),
        ("tensor.collapse_shape %0 [[0], [1, 2]] : tensor<1x2x2xi8> into tensor<1x4xi8>",
         ([[[1, 2], [3, 4]]],), "tensor<1x2x2xi8>", "tensor<1x4xi8>", [[1, 2, 3, 4]]),
        ("tensor.expand_shape %0 [[0, 1]] output_shape [%1, 2] : tensor<?xi8> into tensor<?x2xi8>",
         ([1, 2, 3, 4], 2), "tensor<?xi8>, index", "tensor<?x2xi8>", [[1, 2], [3, 4]]),
        ("tensor.from_elements %0, %1 : tensor<2x1xi8>", (1, 2), "i8, i8", "tensor<2x1xi8>", [[1], [2]]),
        ("tensor.splat %0[%1] : tensor<?xi8>", (3, 2), "i8, index", "tensor<?xi8>", [3, 3]),
        ("tensor.insert %0 into %1[%2] : tensor<2xi8>", (3, [1, 2], 1), "i8, tensor<2xi8>, index", "tensor<2xi8>",
         [1, 3]),
        ("tensor.extract %0[%1] : tensor<2xi8>", ([1, 2], 1), "tensor<2xi8>, index", "i8", 2),
        ("tensor.dim %0, %1 : tensor<?x2xi8>", (np.zeros((3, 2)), 0), "tensor<?x2xi8>, index", "index", 3),
        ("tensor.generate %0 {\n^bb0(%i: index, %j: index):\n  %s = arith.subi %i, %j : index\n"
         "  tensor.yield %s : index\n} : tensor<?x2xindex>", (2,), "index", "tensor<?x2xindex>", [[0, -1], [1, 0]]),
        ("linalg.softmax dimension(0) ins(%0 : tensor<2xf32>) outs(%0 : tensor<2xf32>) -> tensor<2xf32>",
         ([500.0, 500.0],), "tensor<2xf32>", "tensor<2xf32>", [0.5, 0.5]),
        ("arith.select %0, %1, %2 : i1, tensor<2xi8>", (True, [1, 2], [3, 4]), "i1, tensor<2xi8>, tensor<2xi8>",
         "tensor<2xi8>", [1, 2]),
        ("scf.if %0 -> i8 {\n scf.yield %1 : i8\n} else {\n scf.yield %2 : i8\n}", (0, 1, 2), "i1, i8, i8", "i8", 2),
        ("scf.for %i = %0 to %1 step %0 iter_args(%s = %0) -> index {\n %t = arith.muli %s, %i : index\n"
         " scf.yield %t : index\n}", (1, 5), "index, index", "index", 24),
        ("scf.while (%s = %0) : (index) -> index {\n %on = arith.cmpi slt, %s, %1 : index\n"
         " %t = arith.addi %s, %s : index\n scf.condition(%on) %t : index\n} do {\n^bb0(%u: index):\n"
         " %v = arith.addi %u, %0 : index\n scf.yield %v : index\n}", (1, 5), "index, index", "index", 14),
    ],
)  # fmt: skip
def test_ops_on_tensors(text: str, inputs: Any, kinds: str, results: str, wanted: Any) -> None:
    assert op(text, *inputs, kinds=kinds, results=results) == wanted


def test_functions_call_functions_and_keep_their_values_apart() -> None:
    text = """util.global private @kept = dense<3> : tensor<1xi8>
    util.func private @twice(%x: tensor<1xi8>) -> tensor<1xi8> {
      %y = arith.addi %x, %x : tensor<1xi8>
      util.return %y : tensor<1xi8>
    }
    util.func public @f(%x: tensor<1xi8>) -> tensor<1xi8> {
      %a = util.call @twice(%x) : (tensor<1xi8>) -> tensor<1xi8>
      %b = util.call @twice(%a) : (tensor<1xi8>) -> tensor<1xi8>
      %c = util.global.load @kept : tensor<1xi8>
      %d = arith.addi %a, %b : tensor<1xi8>
      %e = arith.addi %c, %d : tensor<1xi8>
      util.return %e : tensor<1xi8>
    }"""
    assert evaluate(ir.Module.parse(text, context=_SESSION.context), "f", [[5]])[0].tolist() == [33]


def test_weights_that_a_module_does_not_hold(tmp_path: Path) -> None:
    text = """util.global private @w = #flow.parameter.named<"model"::"layer.w"> : tensor<2xf32>
    util.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %w = util.global.load @w : tensor<2xf32>
      %r = arith.addf %x, %w : tensor<2xf32>
      util.return %r : tensor<2xf32>
    }"""
    module, weight = ir.Module.parse(text, context=_SESSION.context), np.array([0.5, 8.0], np.float32)
    arrays = weights.Arrays({"layer.w": weight})
    weights.write_archive(tmp_path / "w.irpa", [arrays])
    for parameters in ((arrays,), weights.read_archives(tmp_path / "w.irpa")):
        given = weights.contents(parameters)
        assert evaluate(module, "f", [[1, 2]], np.float64, given)[0].tolist() == [1.5, 10]
    with pytest.raises(EvaluationError, match=r"cannot read the parameter layer\.w"):
        evaluate(module, "f", [[1, 2]])


@pytest.mark.parametrize(
    ("body", "inputs", "problem"),
    [
        ("%r = vector.broadcast %1 : index to vector<2xindex>\nreturn %0 : tensor<2xf32>", ([1, 2], 0),
         "does not know 'vector.broadcast'"),
        ("%r = linalg.pack %0 inner_dims_pos = [0] inner_tiles = [2] into %1 : tensor<2xf32> -> tensor<1x2xf32>\n"
         "return %0 : tensor<2xf32>", ([1, 2], 0), "does not know 'linalg.pack'"),
        ("%r = tensor.extract %0[%1] : tensor<2xf32>\nreturn %0 : tensor<2xf32>", ([1, 2], -1), "axis 0 of size 2"),
        ("%r = tensor.extract_slice %0[%1] [2] [1] : tensor<2xf32> to tensor<2xf32>\nreturn %r : tensor<2xf32>",
         ([1, 2], 1), "goes outside axis 0 of size 2"),
        ("%a = tensor.cast %0 : tensor<2xf32> to tensor<?xf32>\n%b = tensor.empty(%1) : tensor<?xf32>\n"
         "%c = arith.addf %a, %b : tensor<?xf32>\nreturn %0 : tensor<2xf32>", ([1, 2], 1), r"shapes \(2,\), \(1,\)"),
        ("%a = arith.addf %0, %0 downward : tensor<2xf32>\nreturn %a : tensor<2xf32>", ([1, 2], 0), "a rounding mode"),
        ("scf.for %i = %1 to %1 step %1 {\n}\nreturn %0 : tensor<2xf32>", ([1, 2], 0), "has the step 0"),
        ("return %0 : tensor<2xf32>", ([1, 2, 3], 0), r"shape \(3,\) is not tensor<2xf32>"),
        ("return %0 : tensor<2xf32>", ([1, 2],), "takes 2 inputs, 1 were given"),
        ("%c = arith.constant false\ncf.assert %c, \"no\"\nreturn %0 : tensor<2xf32>", ([1, 2], 0), 'asserts "no"'),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_an_error_that_says_so(body: str, inputs: Any, problem: str) -> None:
    body = body.replace("into %1 :", "into %e :")
    head = "%e = tensor.empty() : tensor<1x2xf32>\n"
    with pytest.raises(EvaluationError, match=problem):
        run(head + body, *inputs, kinds="tensor<2xf32>, index", results="tensor<2xf32>")


def test_what_is_asserted_of_elements_is_not_checked_as_in_dispatches() -> None:
    body = """
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                           iterator_types = ["parallel"]} ins(%0 : tensor<2xf32>) outs(%0 : tensor<2xf32>) {
      ^bb0(%x: f32, %_: f32):
        %zero = arith.constant 0.0 : f32
        %positive = arith.cmpf ogt, %x, %zero : f32
        cf.assert %positive, "positive"
        %root = math.sqrt %x : f32
        linalg.yield %root : f32
      } -> tensor<2xf32>
      return %r : tensor<2xf32>
    """
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(body, [4, -1], kinds="tensor<2xf32>", results="tensor<2xf32>"), [[2, np.nan]])


def test_what_is_read_from_an_empty_tensor_is_nan() -> None:
    body = "%e = tensor.empty() : tensor<2xf32>\nreturn %e : tensor<2xf32>"
    assert np.isnan(run(body, results="tensor<2xf32>")).all()


def test_sizes_are_affine_in_others() -> None:
    body = "%r = affine.apply affine_map<(d)[s, t] -> (d * 2 + s floordiv t)>(%0)[%1, %2]\nreturn %r : index"
    assert run(body, 5, 7, 3, kinds="index, index, index", results="index") == [12]


def test_attention_of_equal_scores_is_the_mean_of_the_values():
    """A body that reads no score makes one number for all of them."""
    body = """
      %c = arith.constant 0.5 : f32
      %e = tensor.empty() : tensor<2x1xf32>
      %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(i, e, d, j) -> (i, d)>,
          affine_map<(i, e, d, j) -> (j, d)>, affine_map<(i, e, d, j) -> (j, e)>, affine_map<(i, e, d, j) -> ()>,
          affine_map<(i, e, d, j) -> (i, e)>]>
        ins(%0, %1, %2, %c : tensor<2x2xf32>, tensor<3x2xf32>, tensor<3x1xf32>, f32) outs(%e : tensor<2x1xf32>) {
      ^bb0(%score: f32):
        iree_linalg_ext.yield %c : f32
      } -> tensor<2x1xf32>
      return %r : tensor<2x1xf32>"""
    query, key = np.eye(2, dtype=np.float32), np.ones((3, 2), np.float32)
    value = np.float32([[1], [2], [6]])
    kinds = "tensor<2x2xf32>, tensor<3x2xf32>, tensor<3x1xf32>"
    assert run(body, query, key, value, kinds=kinds, results="tensor<2x1xf32>") == [[[3.0], [3.0]]]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [("-128, quant_max = 127", [9.0, 0.5]), ("0, quant_max = 255, input_unsigned, zp_unsigned", [-247.0, 0.5])],
)
def test_zero_points_of_channels_have_a_sign_if_the_op_says_so(limits, wanted):
    body = f"""
      %s = arith.constant dense<[1.0, 0.5]> : tensor<2xf32>
      %z = arith.constant dense<[-2, 6]> : tensor<2xi8>
      %e = tensor.empty() : tensor<2xf32>
      %r = iree_linalg_ext.dequantize_affine <indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
          affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], quant_min = {limits}>
        ins(%0, %s, %z : tensor<2xi8>, tensor<2xf32>, tensor<2xi8>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
      return %r : tensor<2xf32>"""
    assert run(body, np.int8([7, 7]), kinds="tensor<2xi8>", results="tensor<2xf32>") == [wanted]


STATE = """
util.global private mutable @sum : tensor<2xf32>
util.global private mutable @calls = 0 : i32
util.global private mutable @nothing : tensor<2xf32>
util.initializer {
  %c = arith.constant dense<0.1> : tensor<2xf32>
  util.global.store %c, @sum : tensor<2xf32>
  util.return
}
func.func @add(%x: tensor<2xf32>) -> (tensor<2xf32>, i32) {
  %calls = util.global.load @calls : i32
  %one = arith.constant 1 : i32
  %next = arith.addi %calls, %one : i32
  util.global.store %next, @calls : i32
  %sum = util.global.load @sum : tensor<2xf32>
  %new = arith.addf %sum, %x : tensor<2xf32>
  util.global.store %new, @sum : tensor<2xf32>
  %now = util.global.load @sum : tensor<2xf32>
  return %now, %next : tensor<2xf32>, i32
}
func.func @twice(%x: tensor<2xf32>) -> (tensor<2xf32>, i32) {
  %r:2 = call @add(%x) : (tensor<2xf32>) -> (tensor<2xf32>, i32)
  %s:2 = call @add(%x) : (tensor<2xf32>) -> (tensor<2xf32>, i32)
  return %s#0, %s#1 : tensor<2xf32>, i32
}
func.func @fails(%x: i32) {
  util.global.store %x, @calls : i32
  "other.op"() : () -> ()
  return
}
func.func @set() {
  %zero = arith.constant 0 : i32
  util.global.store %zero, @calls : i32
  %zeros = arith.constant dense<0.0> : tensor<2xf32>
  util.global.store %zeros, @sum : tensor<2xf32>
  return
}
func.func @reads_nothing() -> tensor<2xf32> {
  %r = util.global.load @nothing : tensor<2xf32>
  return %r : tensor<2xf32>
}
"""


def test_globals_hold_what_calls_store_in_them() -> None:
    _SESSION.context.allow_unregistered_dialects = True
    program = Program(ir.Module.parse(STATE, context=_SESSION.context), np.float64)
    first = float(np.float32(0.1))
    assert [each.tolist() for each in program.call("add", [[1, 2]])] == [[first + 1, first + 2], 1]
    assert [each.tolist() for each in program.call("twice", [[1, 2]])] == [[first + 3, first + 6], 3]
    with pytest.raises(EvaluationError, match="of a global that nothing was stored in"):
        program.call("reads_nothing", [])


def test_what_a_call_left_that_could_not_be_evaluated_is_not_known() -> None:
    _SESSION.context.allow_unregistered_dialects = True
    program = Program(ir.Module.parse(STATE, context=_SESSION.context))
    with pytest.raises(EvaluationError, match="does not know 'other"):
        program.call("fails", [5])
    with pytest.raises(EvaluationError, match="what @calls holds is not known: @fails may have changed it"):
        program.call("add", [[1, 2]])
    program.call("set", [])
    assert [each.tolist() for each in program.call("add", [[1, 2]])] == [[1, 2], 1]

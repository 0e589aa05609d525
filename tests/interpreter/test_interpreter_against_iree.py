"""The interpreter against programs that IREE compiled; and where IREE is wrong, the interpreter is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.api import Session

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.interpreter import EvaluationError, evaluate
from opsplice.interpreter.scalars import FLOATS, INTEGERS
from opsplice.pipeline.compiler import Compilation
from opsplice.runtime.value_text import ELEMENT_TYPES

ROOT = Path(__file__).parent.parent.parent
INF, NAN = np.inf, np.nan
_NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 2.5, -3.5, 1e-3, 17.0, INF, -INF, NAN]
_INTEGERS = [0, 1, -1, 2, 3, -5, 7, 100, 127, -127]
# What IREE's code for CPUs has no function for, or what takes other operands than the rest.
_NOT_COMPARED = {"math.clampf", "math.erfc", "math.fma", "math.log10", "math.fpowi", "math.ipowi"}
# What IREE's code gets wrong at zero, at infinities or below zero.
_IN_THE_MIDDLE = {"math.asinh", "math.atan2", "math.cbrt", "math.powf"}
_UNDEFINED_AT_ZERO = re.compile(r"arith\.(ceil|floor)?(div|rem)[su]i")
_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")


def _arity(op: str) -> int:
    name = op.partition(".")[2]
    if name in ("atan2", "copysign", "powf", "ipowi", "fpowi"):
        return 2
    return 2 if op.startswith("arith.") and name != "negf" else 1


def _many(name: str, element: str, ops: list[str], arity: int) -> str:
    """A function that computes each op, on `arity` operands, element by element."""
    kind = f"tensor<?x{element}>"
    count = len(ops) + arity
    maps = ", ".join(["affine_map<(i) -> (i)>"] * count)
    operands = ", ".join(f"%x{i}" for i in range(arity))
    body = "\n".join(f"%r{i} = {op} {operands} : {element}" for i, op in enumerate(ops))
    results = ", ".join([kind] * len(ops))
    outs = ", ".join(["%e"] * len(ops))
    yields = ", ".join(f"%r{i}" for i in range(len(ops)))
    arguments = [f"%x{i}: {element}" for i in range(arity)] + [f"%o{i}: {element}" for i in range(len(ops))]
    return f"""
func.func @{name}({", ".join(f"%a{i}: {kind}" for i in range(arity))}) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a0, %c0 : {kind}
  %e = tensor.empty(%n) : {kind}
  %all:{len(ops)} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
    ins({", ".join(f"%a{i}" for i in range(arity))} : {", ".join([kind] * arity)}) outs({outs} : {results}) {{
  ^bb0({", ".join(arguments)}):
    {body}
    linalg.yield {yields} : {", ".join([element] * len(ops))}
  }} -> ({results})
  return {", ".join(f"%all#{i}" for i in range(len(ops)))} : {results}
}}
"""


def _pairs(numbers: list[Any], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    return left.ravel(), right.ravel()


def test_every_op_of_the_tables_computes_what_iree_computes() -> None:
    floats = {n: [op for op in FLOATS if _arity(op) == n and op not in _NOT_COMPARED] for n in (1, 2)}
    integers = {n: [op for op in INTEGERS if _arity(op) == n and op not in _NOT_COMPARED] for n in (1, 2)}
    left, right = _pairs(_NUMBERS, np.float32)
    some, others = _pairs(_INTEGERS, np.int8)
    asked = [
        ("f1", "f32", floats[1], (np.array(_NUMBERS, np.float32),)),
        ("f2", "f32", floats[2], (left, right)),
        ("i1", "i8", integers[1], (np.array(_INTEGERS, np.int8),)),
        ("i2", "i8", integers[2], (some, others)),
    ]
    text = "".join(_many(name, element, ops, len(inputs)) for name, element, ops, inputs in asked)
    program = opsplice.compile(text, flags=["--iree-llvmcpu-target-cpu=host"])
    module = ir.Module.parse(text, context=Session().context)
    for name, _, ops, inputs in asked:
        theirs = program.run(name, *inputs)
        for op, ours, their in zip(ops, evaluate(module, name, inputs), theirs, strict=True):
            defined = np.ones(ours.shape, np.bool_)
            if _UNDEFINED_AT_ZERO.fullmatch(op):
                defined = inputs[1] != 0
            if op in _SHIFTS:
                defined = (inputs[1] >= 0) & (inputs[1] < 8)
            if op in _IN_THE_MIDDLE:
                defined = np.logical_and.reduce([np.isfinite(x) & (x > 0) for x in inputs])
            got, wanted = ours[defined], np.asarray(their)[defined]
            np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6, err_msg=op)


@pytest.mark.parametrize(
    ("path", "floats"),
    [
        ("tests/matchers/library/attention.mlir", None),
        ("tests/matchers/library/conv.mlir", None),
        ("samples/transformer/torch.mlir", np.float64),
    ],
)
def test_programs_compute_what_iree_computes(path: str, floats: Any) -> None:
    text = (ROOT / path).read_text()
    program = opsplice.compile(text)
    numbers = np.random.default_rng(0)
    compared = 0
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=text))
        compilation.run_to("preprocessing")
        for name, kinds in _declared(compilation.module):
            inputs = [_array(numbers, kind) for kind in kinds]
            theirs = program.run(name, *inputs)
            made = evaluate(compilation.module, name, inputs, floats)
            for got, wanted in zip(made, theirs if isinstance(theirs, list) else [theirs], strict=True):
                scale = np.max(np.abs(wanted))
                np.testing.assert_allclose(got / scale, np.asarray(wanted) / scale, atol=3e-5, rtol=0)
                compared += 1
    assert compared


def _declared(module: ir.Module) -> list[tuple[str, list[str]]]:
    """The functions that a user can call, with the types of their inputs."""
    found = []
    for op in module.body.operations:
        if "iree.reflection" in op.attributes and "iree.abi.model" not in op.attributes:
            told = str(op.attributes["iree.reflection"])
            name = ir.StringAttr(op.attributes["sym_name"]).value
            found.append((name, re.findall(r"%input\d+: tensor<([^>]*)>", told)))
    return found


def _array(numbers: np.random.Generator, kind: str) -> np.ndarray:
    *dims, element = kind.split("x")
    shape = [4 if dim == "?" else int(dim) for dim in dims]
    return (numbers.uniform(-1, 1, shape) * (3 if element[0] == "i" else 1)).astype(ELEMENT_TYPES[element])


SCANNED = """
func.func @{name}(%x: tensor<2x3x2xi32>, %start: tensor<2x2xi32>) -> (tensor<2x3x2xi32>, tensor<2x2xi32>) {{
  %empty = tensor.empty() : tensor<2x3x2xi32>
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive({name})
      ins(%x : tensor<2x3x2xi32>) outs(%empty, %start : tensor<2x3x2xi32>, tensor<2x2xi32>) {{
  ^bb0(%before: i32, %here: i32):
    %less = arith.subi %before, %here : i32
    iree_linalg_ext.yield %less : i32
  }} -> tensor<2x3x2xi32>, tensor<2x2xi32>
  return %r#0, %r#1 : tensor<2x3x2xi32>, tensor<2x2xi32>
}}
"""


def test_scans_are_those_of_iree() -> None:
    text = SCANNED.format(name="true") + SCANNED.format(name="false")
    program, module = opsplice.compile(text), ir.Module.parse(text, context=Session().context)
    x, start = np.arange(1, 13, dtype=np.int32).reshape(2, 3, 2) ** 2, np.full((2, 2), 1000, np.int32)
    for name in ("true", "false"):
        for ours, theirs in zip(evaluate(module, name, [x, start]), program.run(name, x, start), strict=True):
            np.testing.assert_array_equal(ours, theirs)


INTEGERS_AND_SCALES = """
func.func @quantized(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %z: tensor<6xi64>) -> tensor<4x6xi8> {{
  %e = tensor.empty() : tensor<4x6xi8>
  %r = iree_linalg_ext.quantize_affine <indexing_maps = [{all}, {last}, {last}, {all}], quant_min = 0,
    quant_max = 255, storage_unsigned> ins(%x, %s, %z : tensor<4x6xf32>, tensor<6xf32>, tensor<6xi64>)
    outs(%e : tensor<4x6xi8>) -> tensor<4x6xi8>
  return %r : tensor<4x6xi8>
}}
func.func @numbers(%x: tensor<4x6xi8>, %s: f32, %z: tensor<6xi64>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {{
  %e = tensor.empty() : tensor<4x6xf32>
  %r = iree_linalg_ext.dequantize_affine <indexing_maps = [{all}, {none}, {last}, {all}], quant_min = 0,
    quant_max = 255, input_unsigned> ins(%x, %s, %z : tensor<4x6xi8>, f32, tensor<6xi64>)
    outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = iree_linalg_ext.dequantize_affine <indexing_maps = [{all}, {none}, {all}], quant_min = -128, quant_max = 127>
    ins(%x, %s : tensor<4x6xi8>, f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %r, %t : tensor<4x6xf32>, tensor<4x6xf32>
}}
""".format(all="affine_map<(i, j) -> (i, j)>", last="affine_map<(i, j) -> (j)>", none="affine_map<(i, j) -> ()>")


def test_quantising_is_that_of_iree() -> None:
    program = opsplice.compile(INTEGERS_AND_SCALES)
    module = ir.Module.parse(INTEGERS_AND_SCALES, context=Session().context)
    x = np.array([*range(-12, 8), 1e9, -1e9, 0.25, 500], np.float32).reshape(4, 6) / 2
    scale, zero = np.array([1, 0.5, 2, 0.3, 0.1, 0.01], np.float32), np.array([0, 128, 255, 3, 7, 9])
    (bytes_,) = evaluate(module, "quantized", [x, scale, zero])
    np.testing.assert_array_equal(bytes_, program.run("quantized", x, scale, zero))
    given = (bytes_, np.float32(0.3), zero)
    for ours, theirs in zip(evaluate(module, "numbers", list(given)), program.run("numbers", *given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


SORTED = """
func.func @sorted(%x: tensor<3x7xf32>, %at: tensor<3x7xi64>) -> (tensor<3x7xf32>, tensor<3x7xi64>) {
  %r:2 = iree_linalg_ext.sort dimension(1) outs(%x, %at : tensor<3x7xf32>, tensor<3x7xi64>) {
  ^bb0(%a: f32, %b: f32, %i: i64, %j: i64):
    %0 = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %0 : i1
  } -> tensor<3x7xf32>, tensor<3x7xi64>
  return %r#0, %r#1 : tensor<3x7xf32>, tensor<3x7xi64>
}
func.func @top(%x: tensor<3x7xf32>, %_: tensor<3x7xi64>) -> (tensor<3x4xf32>, tensor<3x4xi32>) {
  %low = arith.constant dense<-1.0> : tensor<3x4xf32>
  %none = arith.constant dense<99> : tensor<3x4xi32>
  %r:2 = iree_linalg_ext.topk dimension(1) ins(%x : tensor<3x7xf32>)
      outs(%low, %none : tensor<3x4xf32>, tensor<3x4xi32>) {
  ^bb0(%new: f32, %kept: f32):
    %0 = arith.cmpf ogt, %new, %kept : f32
    iree_linalg_ext.yield %0 : i1
  } -> tensor<3x4xf32>, tensor<3x4xi32>
  return %r#0, %r#1 : tensor<3x4xf32>, tensor<3x4xi32>
}
"""


def test_sorts_are_those_of_iree() -> None:
    program, module = opsplice.compile(SORTED), ir.Module.parse(SORTED, context=Session().context)
    x = np.array([[3, 1, 3, -2, 0, 1, 3], [0, 0, 0, 0, 0, 0, 0], [-5, -4, -3, -2, 7, 8, 7]], np.float32)
    at = np.tile(np.arange(7), (3, 1))
    for name in ("sorted", "top"):
        for ours, theirs in zip(evaluate(module, name, [x, at]), program.run(name, x, at), strict=True):
            np.testing.assert_array_equal(ours, theirs)


TRANSPOSED = """
func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %square = tensor.empty() : tensor<4x4xf32>
  %row = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<4x4xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %b = arith.addf %a, %sum : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (j, i)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%sums, %sums : tensor<4xf32>, tensor<4xf32>) outs(%square : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""


def test_both_are_right_where_iree_alone_is_wrong() -> None:
    """IREE 3.13 would compute the differences of all pairs of sums on the diagonal only (`memory/crossed_reads.py`)."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    sums = x.sum(axis=1)
    right = sums[None, :] - sums[:, None]
    module = ir.Module.parse(TRANSPOSED, context=Session().context)
    for floats in (None, np.float64):
        np.testing.assert_array_equal(evaluate(module, "f", [x], floats)[0], right)
    np.testing.assert_array_equal(opsplice.compile(TRANSPOSED).run("f", x), right)


SCATTERED = """
func.func @rows(%u: tensor<4x2xf32>, %at: tensor<4x1xi64>, %x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %at : tensor<4x2xf32>, tensor<4x1xi64>) outs(%x : tensor<3x2xf32>) {
  ^bb0(%new: f32, %old: f32):
    %d = arith.subf %new, %old : f32
    iree_linalg_ext.yield %d : f32
  } -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}
func.func @elements(%u: tensor<3xf32>, %at: tensor<3x2xi32>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [1, 0] unique_indices(true)
      ins(%u, %at : tensor<3xf32>, tensor<3x2xi32>) outs(%x : tensor<2x3xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
"""


def test_scatters_are_those_of_iree() -> None:
    program, module = opsplice.compile(SCATTERED), ir.Module.parse(SCATTERED, context=Session().context)
    random = np.random.default_rng(0)
    x, u = random.normal(size=(3, 2)).astype(np.float32), random.normal(size=(4, 2)).astype(np.float32)
    for name, inputs in (
        ("rows", [u, np.array([[2], [0], [2], [2]]), x]),
        ("elements", [u[:3, 0], np.array([[2, 1], [0, 0], [1, 1]], np.int32), x.reshape(2, 3)]),
    ):
        (ours,) = evaluate(module, name, inputs)
        np.testing.assert_array_equal(ours, program.run(name, *inputs), err_msg=name)


def test_a_scatter_outside_is_refused() -> None:
    module = ir.Module.parse(SCATTERED, context=Session().context)
    with pytest.raises(EvaluationError, match=r"writes at \[3\] of a tensor of shape \(3, 2\)"):
        evaluate(module, "rows", [np.zeros((4, 2)), np.full((4, 1), 3), np.zeros((3, 2))])

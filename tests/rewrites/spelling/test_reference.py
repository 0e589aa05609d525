"""The plain C of captures, compiled and run: the numbers are those of the program that it was captured from."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError

FRONTENDS = Path(__file__).parents[2] / "matchers" / "frontends"
FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false")

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "math.absf": np.abs,
    "math.atan": np.arctan,
    "math.ceil": np.ceil,
    "math.cosh": np.cosh,
    "math.erf": np.vectorize(math.erf),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.round": lambda x: np.floor(x + 0.5),
    "math.roundeven": np.rint,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sin": np.sin,
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
    "arith.negf": np.negative,
}
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "arith.addf": np.add,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.mulf": np.multiply,
    "arith.remf": np.fmod,
    "arith.subf": np.subtract,
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
}


def unsigned(compute: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is computed of the bits of two tensors, read as numbers without a sign."""
    kind = np.dtype(f"u{x.dtype}")
    return compute(x.view(kind), y.view(kind)).astype(kind).view(x.dtype)


INTEGERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "arith.addi": np.add,
    "arith.andi": np.bitwise_and,
    "arith.ceildivsi": lambda x, y: -(-x // y),
    "arith.ceildivui": lambda x, y: unsigned(lambda a, b: a // b + (a % b != 0), x, y),
    "arith.divsi": lambda x, y: np.trunc(x / y),
    "arith.floordivsi": np.floor_divide,
    "arith.maxsi": np.maximum,
    "arith.maxui": lambda x, y: unsigned(np.maximum, x, y),
    "arith.minui": lambda x, y: unsigned(np.minimum, x, y),
    "math.absi": lambda x, _: np.abs(x),
    "arith.minsi": np.minimum,
    "arith.muli": np.multiply,
    "arith.ori": np.bitwise_or,
    "arith.remsi": np.fmod,
    "arith.subi": np.subtract,
    "arith.xori": np.bitwise_xor,
}


def every_op(ops: list[str], unary: frozenset[str], element: str) -> str:
    """A function that gives back each op of the same two tensors."""
    kind = f"tensor<37x{element}>"
    lines = [f"  %r{i} = {op} {'%x' if op in unary else '%x, %y'} : {kind}" for i, op in enumerate(ops)]
    names, kinds = ", ".join(f"%r{i}" for i in range(len(ops))), ", ".join([kind] * len(ops))
    head = f"func.func @main(%x: {kind}, %y: {kind}) -> ({kinds}) {{"
    return "\n".join([head, *lines, f"  return {names} : {kinds}", "}"])


def spliced(model: str | Path, capture: opsplice.Capture, folder: Path) -> opsplice.Program:
    capture.save(folder / f"{capture.name}.splice")
    program = opsplice.compile(model, [folder / f"{capture.name}.splice"], FLAGS)
    assert program.report.replacements
    return program


@pytest.mark.parametrize(("element", "dtype", "near"), [("f32", np.float32, 2e-6), ("f64", np.float64, 1e-13)])
def test_floats(element: str, dtype: type, near: float, tmp_path: Path) -> None:
    ops = [*UNARY, *BINARY]
    model = every_op(ops, frozenset(UNARY), element)
    capture = opsplice.capture(model, [f"{op}#1" for op in ops], FLAGS, name="every_op")
    assert capture.reference
    x, y = np.linspace(0.05, 9, 37).astype(dtype), np.cos(np.arange(37)).astype(dtype)
    results = spliced(model, capture, tmp_path).run(None, x, y)
    wide = x.astype(np.float64), y.astype(np.float64)
    for op, result in zip(ops, results, strict=True):
        assert result.dtype == dtype
        wanted = UNARY[op](wide[0]) if op in UNARY else BINARY[op](*wide)
        np.testing.assert_allclose(result, wanted, rtol=near, atol=near, err_msg=op)


def test_small_and_large_floats(tmp_path: Path) -> None:
    """Where functions could lose what they are asked for."""
    ops = ["math.tanh", "math.expm1", "math.log1p", "math.erf"]
    model = every_op(ops, frozenset(ops), "f32")
    capture = opsplice.capture(model, [f"{op}#1" for op in ops], name="small")
    x = np.zeros(37, np.float32)
    x[:12] = [1e-30, -1e-30, 1e-10, -1e-10, 1e-4, -0.0, 50.0, 80.0, 0.5, -0.5, 1e3, 7.0]
    results = spliced(model, capture, tmp_path).run(None, x, x)
    with np.errstate(over="ignore"):
        for op, result in zip(ops, results, strict=True):
            wanted = UNARY[op](x.astype(np.float64)).astype(np.float32)
            np.testing.assert_allclose(result, wanted, rtol=1e-6, err_msg=op)


def test_not_a_number(tmp_path: Path) -> None:
    ops = ["arith.maximumf", "arith.minimumf"]
    model = every_op(ops, frozenset(), "f32")
    x, y = np.zeros(37, np.float32), np.ones(37, np.float32)
    x[0], y[1] = np.nan, np.nan
    capture = opsplice.capture(model, [f"{op}#1" for op in ops], name="nans")
    results = spliced(model, capture, tmp_path).run(None, x, y)
    for op, result in zip(ops, results, strict=True):
        np.testing.assert_array_equal(result, BINARY[op](x, y), err_msg=op)


@pytest.mark.parametrize(("element", "dtype"), [("i8", np.int8), ("i32", np.int32), ("i64", np.int64)])
def test_integers(element: str, dtype: type, tmp_path: Path) -> None:
    ops = list(INTEGERS)
    model = every_op(ops, frozenset(["math.absi"]), element)
    capture = opsplice.capture(model, [f"{op}#1" for op in ops], name="integers")
    x = np.arange(-18, 19).astype(dtype) * 5
    y = np.where(np.arange(37) % 9 == 4, 3, np.arange(37) % 9 - 4).astype(dtype)
    results = spliced(model, capture, tmp_path).run(None, x, y)
    for op, result in zip(ops, results, strict=True):
        np.testing.assert_array_equal(result, INTEGERS[op](x, y).astype(dtype), err_msg=op)


def test_integers_wrap(tmp_path: Path) -> None:
    ops = ["arith.addi", "arith.muli", "arith.subi"]
    model = every_op(ops, frozenset(), "i8")
    capture = opsplice.capture(model, [f"{op}#1" for op in ops], name="wraps")
    x, y = np.full(37, 127, np.int8), np.full(37, -2, np.int8)
    results = spliced(model, capture, tmp_path).run(None, x, y)
    for op, result in zip(ops, results, strict=True):
        np.testing.assert_array_equal(result, INTEGERS[op](x, y), err_msg=op)


COMPARISONS = {
    "ogt": np.greater,
    "uge": lambda x, y: ~(x < y),
    "une": np.not_equal,
    "one": lambda x, y: (x < y) | (x > y),
    "ult": lambda x, y: ~(x >= y),
}


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_comparisons_and_casts(predicate: str, tmp_path: Path) -> None:
    model = f"""func.func @main(%x: tensor<9xf32>, %y: tensor<9xf32>) -> tensor<9xi32> {{
  %k = arith.constant dense<7> : tensor<9xi32>
  %p = arith.cmpf {predicate}, %x, %y : tensor<9xf32>
  %a = arith.fptosi %x : tensor<9xf32> to tensor<9xi32>
  %b = arith.extui %p : tensor<9xi1> to tensor<9xi32>
  %s = arith.select %p, %a, %k : tensor<9xi1>, tensor<9xi32>
  %r = arith.addi %s, %b : tensor<9xi32>
  return %r : tensor<9xi32>
}}"""
    capture = opsplice.capture(model, "arith.addi#1", name="tests")
    x, y = np.arange(-4, 5).astype(np.float32) * 1.7, np.zeros(9, np.float32)
    y[2] = np.nan
    with np.errstate(invalid="ignore"):
        chosen = COMPARISONS[predicate](x, y)
    wanted = np.where(chosen, x.astype(np.int32), 7) + chosen
    np.testing.assert_array_equal(spliced(model, capture, tmp_path).run(None, x, y), wanted)


LAYERS = {
    "jax/layernorm": [(64, 128), (128,), (128,)],
    "onnx/softmax": [(64, 128)],
    "torch/linear_gelu": [(64, 128), (256, 128), (256,)],
    "torch/rmsnorm": [(64, 128), (128,)],
    "torch_mlir/linear_silu": [(64, 128), (256, 128), (256,)],
}


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, packs: bool, tmp_path: Path) -> None:
    from opsplice.compiling.capturing import list_ops
    from opsplice.frontends import load
    from opsplice.reports.captured import CaptureJob

    path = FRONTENDS / f"{layer}.mlir"
    ops = list_ops(lambda _event: None, CaptureJob(load(path), (), flags=FLAGS))
    capture = opsplice.capture(path, ops[-1].handle, FLAGS, name="layer", packs=packs)
    assert ("..." in capture.spec) == packs
    numbers = np.random.default_rng(7)
    inputs = [numbers.standard_normal(shape).astype(np.float32) for shape in LAYERS[layer]]
    wanted = opsplice.compile(path, [], FLAGS).run(None, *inputs)
    np.testing.assert_allclose(spliced(path, capture, tmp_path).run(None, *inputs), wanted, rtol=1e-4, atol=1e-4)


def test_dynamic_sizes(tmp_path: Path) -> None:
    model = """func.func @main(%x: tensor<?x?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x?xf32>
  %e = tensor.empty(%d) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
  %r = arith.addf %s, %b : tensor<?xf32>
  return %r : tensor<?xf32>
}"""
    capture = opsplice.capture(model, "arith.addf#1", name="sums")
    x, b = np.arange(35, dtype=np.float32).reshape(5, 7), np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(spliced(model, capture, tmp_path).run(None, x, b), x.sum(1) + b)


def test_what_plain_c_has_no_words_for_does_not_compile(tmp_path: Path) -> None:
    model = every_op(["math.ctpop"], frozenset(["math.ctpop"]), "i32")
    capture = opsplice.capture(model, "math.ctpop#1", name="bits")
    assert not capture.reference
    assert "TODO" in capture.code
    assert "void bits_kernel(const int32_t *restrict x, int32_t *restrict out, size_t n)" in capture.code
    capture.save(tmp_path / "bits.splice")
    with pytest.raises(OpspliceError) as failure:
        opsplice.compile(model, [tmp_path / "bits.splice"])
    assert "bits_kernel is not written yet" in str(failure.value)


INDICES = {
    "divsi": lambda x, y: np.trunc(x / y),
    "remsi": np.fmod,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "shrsi": lambda x, y: x >> (y & 1),
}


def test_indices_have_a_sign_and_bytes_may_have_none(tmp_path: Path) -> None:
    whole, index = "tensor<37xi32>", "tensor<37xindex>"
    names = ", ".join(f"%r{op}" for op in INDICES)
    lines = [
        line
        for op in INDICES
        for line in (
            f"  %{op} = arith.{op} %i, %{'k' if op == 'shrsi' else 'j'} : {index}",
            f"  %r{op} = arith.index_cast %{op} : {index} to {whole}",
        )
    ]
    model = f"""
func.func @main(%x: {whole}, %y: {whole}) -> ({f"{whole}, " * len(INDICES)}tensor<37xi8>) {{
  %i = arith.index_cast %x : {whole} to {index}
  %j = arith.index_cast %y : {whole} to {index}
  %one = arith.constant dense<1> : {index}
  %k = arith.andi %j, %one : {index}
{"".join(f"{line}{chr(10)}" for line in lines)}
  %last = arith.constant dense<255> : {whole}
  %few = arith.andi %x, %last : {whole}
  %z = arith.sitofp %few : {whole} to tensor<37xf32>
  %byte = arith.fptoui %z : tensor<37xf32> to tensor<37xi8>
  return {names}, %byte : {f"{whole}, " * len(INDICES)}tensor<37xi8>
}}"""
    handles = [*(f"arith.index_cast#{i + 3}" for i in range(len(INDICES))), "arith.fptoui#1"]
    capture = opsplice.capture(model, handles, FLAGS, name="indices")
    assert "(int8_t)(uint8_t)" in capture.code
    x, y = np.arange(-18, 19) * 5, np.where(np.arange(37) % 9 == 4, 3, np.arange(37) % 9 - 4)
    program = spliced(model, capture, tmp_path)
    *results, byte = program.run(None, x.astype(np.int32), y.astype(np.int32))
    for op, result in zip(INDICES, results, strict=True):
        np.testing.assert_array_equal(result, INDICES[op](x, y).astype(np.int32), err_msg=op)
    np.testing.assert_array_equal(byte.view(np.uint8), x & 255)

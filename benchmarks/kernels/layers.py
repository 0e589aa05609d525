"""Layers for which the library has kernels, as programs of one function, for the bundle for GPUs."""

from __future__ import annotations

import numpy as np

BLOCK = 32


def layernorm(m: int, n: int) -> str:
    """Of rows, with a gain and a bias."""
    kind, row, column = f"tensor<{m}x{n}xf32>", f"tensor<{n}xf32>", f"tensor<{m}xf32>"
    return f"""
      func.func @main(%x: {kind}, %gain: {row}, %bias: {row}) -> {kind} {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %n = stablehlo.constant dense<{float(n)}> : {column}
        %eps = stablehlo.constant dense<1.0e-05> : {column}
        %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
            : ({kind}, tensor<f32>) -> {column}
        %mean = stablehlo.divide %sum, %n : {column}
        %means = stablehlo.broadcast_in_dim %mean, dims = [0] : ({column}) -> {kind}
        %off = stablehlo.subtract %x, %means : {kind}
        %square = stablehlo.multiply %off, %off : {kind}
        %squares = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1]
            : ({kind}, tensor<f32>) -> {column}
        %variance = stablehlo.divide %squares, %n : {column}
        %safe = stablehlo.add %variance, %eps : {column}
        %inverse = stablehlo.rsqrt %safe : {column}
        %inverses = stablehlo.broadcast_in_dim %inverse, dims = [0] : ({column}) -> {kind}
        %normal = stablehlo.multiply %off, %inverses : {kind}
        %gains = stablehlo.broadcast_in_dim %gain, dims = [1] : ({row}) -> {kind}
        %scaled = stablehlo.multiply %normal, %gains : {kind}
        %biases = stablehlo.broadcast_in_dim %bias, dims = [1] : ({row}) -> {kind}
        %result = stablehlo.add %scaled, %biases : {kind}
        return %result : {kind}
      }}"""


def attention(heads: int, m: int, n: int, d: int) -> str:
    """Of m queries over n keys, which are columns, without a scale."""
    q, k, v = f"tensor<{heads}x{m}x{d}xf32>", f"tensor<{heads}x{d}x{n}xf32>", f"tensor<{heads}x{n}x{d}xf32>"
    scores = f"tensor<{heads}x{m}x{n}xf32>"
    return f"""
      func.func @main(%q: {q}, %k: {k}, %v: {v}) -> {q} {{
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : {scores}
        %f = linalg.fill ins(%zero : f32) outs(%e : {scores}) -> {scores}
        %s = linalg.batch_matmul ins(%q, %k : {q}, {k}) outs(%f : {scores}) -> {scores}
        %shares = linalg.softmax dimension(2) ins(%s : {scores}) outs(%e : {scores}) -> {scores}
        %e2 = tensor.empty() : {q}
        %f2 = linalg.fill ins(%zero : f32) outs(%e2 : {q}) -> {q}
        %result = linalg.batch_matmul ins(%shares, %v : {scores}, {v}) outs(%f2 : {q}) -> {q}
        return %result : {q}
      }}"""


def nibble_weights(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 to 15, i8 of n x k / BLOCK x BLOCK, and a scale for each block, f32."""
    random = np.random.default_rng(0)
    scale = random.integers(1, 9, (n, k // BLOCK)).astype(np.float32) / 64
    return random.integers(0, 16, (n, k // BLOCK, BLOCK), np.int8), scale


def nibbles(m: int, n: int, k: int) -> str:
    """A product with weights of four bits, eight being zero, with a scale for each block."""
    words, scale = nibble_weights(n, k)
    blocks = f"{k // BLOCK}x{BLOCK}"
    x, w, weight = f"tensor<{m}x{blocks}xf32>", f"tensor<{n}x{blocks}xi8>", f"tensor<{n}x{blocks}xf32>"
    scales, out = f"tensor<{n}x{k // BLOCK}xf32>", f"tensor<{m}x{n}xf32>"
    return f"""
      util.global private @words = dense<"0x{words.tobytes().hex()}"> : {w}
      util.global private @scales = dense<"0x{scale.tobytes().hex()}"> : {scales}
      func.func @main(%x: {x}) -> {out} {{
        %words = util.global.load @words : {w}
        %scales = util.global.load @scales : {scales}
        %fifteens = arith.constant dense<15> : {w}
        %w = arith.andi %words, %fifteens : {w}
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : {weight}
        %weight = linalg.generic {{indexing_maps = [affine_map<(n, b, j) -> (n, b, j)>, affine_map<(n, b, j) -> (n, b)>,
            affine_map<(n, b, j) -> (n, b, j)>], iterator_types = ["parallel", "parallel", "parallel"]}}
            ins(%w, %scales : {w}, {scales}) outs(%e : {weight}) {{
        ^bb0(%a: i8, %s: f32, %o: f32):
          %eight = arith.constant 8 : i8
          %number = arith.subi %a, %eight : i8
          %float = arith.sitofp %number : i8 to f32
          %scaled = arith.mulf %float, %s : f32
          linalg.yield %scaled : f32
        }} -> {weight}
        %e2 = tensor.empty() : {out}
        %f = linalg.fill ins(%zero : f32) outs(%e2 : {out}) -> {out}
        %result = linalg.generic {{indexing_maps = [affine_map<(m, n, b, j) -> (m, b, j)>,
            affine_map<(m, n, b, j) -> (n, b, j)>, affine_map<(m, n, b, j) -> (m, n)>],
            iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
            ins(%x, %weight : {x}, {weight}) outs(%f : {out}) {{
        ^bb0(%a: f32, %b: f32, %o: f32):
          %product = arith.mulf %a, %b : f32
          %sum = arith.addf %o, %product : f32
          linalg.yield %sum : f32
        }} -> {out}
        return %result : {out}
      }}"""

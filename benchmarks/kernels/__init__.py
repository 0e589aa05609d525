"""Kernels of real size with the models that they are for: used by benchmarks.dispatch and by the bundle for GPUs."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def matmul(m: int, k: int, n: int) -> str:
    left, right, out = f"tensor<{m}x{k}xf32>", f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    return f"""
      func.func @main(%a: {left}, %b: {right}) -> {out} {{
        %zero = arith.constant 0.0 : f32
        %empty = tensor.empty() : {out}
        %init = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
        %result = linalg.matmul ins(%a, %b : {left}, {right}) outs(%init : {out}) -> {out}
        return %result : {out}
      }}"""


def softmax(m: int, n: int) -> str:
    kind = f"tensor<{m}x{n}xf32>"
    return f"""
      func.func @main(%x: {kind}) -> {kind} {{
        %empty = tensor.empty() : {kind}
        %result = linalg.softmax dimension(1) ins(%x : {kind}) outs(%empty : {kind}) -> {kind}
        return %result : {kind}
      }}"""


def softsign(n: int) -> str:
    """x / (1 + |x|) of what an op makes, for another one."""
    kind = f"tensor<{n}xf32>"
    return f"""
      func.func @main(%x: {kind}) -> {kind} {{
        %one = arith.constant dense<1.0> : {kind}
        %before = arith.addf %x, %x : {kind}
        %absolute = math.absf %before : {kind}
        %sum = arith.addf %absolute, %one : {kind}
        %softsign = arith.divf %before, %sum : {kind}
        %after = arith.mulf %softsign, %softsign : {kind}
        return %after : {kind}
      }}"""

"""What a replaced dispatch costs when running, against the compiler's own code for the same thing.

    python -m benchmarks.calling

A program of 256 dependent elementwise dispatches, small enough that the call is what takes the time: the compiler's own
code, and the same computation by a C kernel as an object and as bitcode.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import opsplice
from benchmarks.timing import header, paired

DISPATCHES = 256
SIZE = 64
CPU = "--iree-llvmcpu-target-cpu=host"
KERNEL = """\
#include <stddef.h>
void scale_shift(const float *restrict a, const float *restrict b, float *restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = a[i] * b[i] + b[i];
}
"""
SPEC = """\
kernel scale_shift(a: f32[n], b: f32[n]) -> f32[n] {{ cpu "kernel.c" as {form} flags "-march=native" }}
pattern multiply_add(a: tensor<n x f32>, b: tensor<n x f32>) {{ addf(mulf(a, b), b) }}
replace multiply_add with scale_shift(a, b)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.c").write_text(KERNEL)
        model = chain(DISPATCHES, SIZE)
        plain = opsplice.compile(model, flags=[CPU])
        print(header(f"one dispatch of {SIZE} f32, of {DISPATCHES} in a row", "replaced", "IREE's own"))
        for form in ("object", "bitcode"):
            spec = folder / f"{form}.splice"
            spec.write_text(SPEC.format(form=form))
            replaced = opsplice.compile(model, [spec], [CPU])
            assert len(replaced.report.replacements) == DISPATCHES
            for device in ("local-sync", "local-task"):
                print(row(f"{form}, {device}", replaced, plain, device), flush=True)


def row(name: str, replaced: opsplice.Program, plain: opsplice.Program, device: str) -> str:
    a = np.linspace(-1, 1, SIZE, dtype=np.float32)
    b = np.linspace(0, 0.5, SIZE, dtype=np.float32)
    np.testing.assert_allclose(
        replaced.run("main", a, b, device=device), plain.run("main", a, b, device=device), rtol=1e-5, atol=1e-6
    )
    result = paired(
        lambda: replaced.run("main", a, b, device=device), lambda: plain.run("main", a, b, device=device), 300, 20
    )
    return result.row(name, DISPATCHES * 1e-9, "ns")


def chain(dispatches: int, size: int) -> str:
    """`x = x * b + b` again and again, kept in dispatches of their own by barriers that cost nothing when running."""
    kind = f"tensor<{size}xf32>"
    lines = [f"func.func @main(%x0: {kind}, %b: {kind}) -> {kind} {{"]
    for i in range(dispatches):
        lines += [
            f"  %m{i} = arith.mulf %x{i}, %b : {kind}",
            f"  %s{i} = arith.addf %m{i}, %b : {kind}",
            f"  %x{i + 1} = util.optimization_barrier %s{i} : {kind}",
        ]
    return "\n".join([*lines, f"  return %x{dispatches} : {kind}", "}"])


if __name__ == "__main__":
    main()

"""What each way of putting a kernel into a program costs, and kernels of real size, against IREE's own code.

    python -m benchmarks.dispatch

First a chain of small dispatches, of which the call is what takes the time; on Vulkan too, where there is such a
device. Then functions on elements inside of IREE's own loops. Then a product of matrices and softmax, written in C
without intrinsics, which are compared with numpy's before they are timed. On local-sync, which runs all in the caller's
thread, times are the processor's, so that other work on the machine does not count; on other devices they are the
clock's.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import opsplice
from benchmarks import kernels
from benchmarks.calling import CPU, KERNEL, chain
from benchmarks.timing import header, paired
from opsplice.compiling import plugin_kernels

DEVICES = ("local-sync", "local-task")
DISPATCH = """\
#include <opsplice_dispatch.h>
int scale_shift(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  const float *restrict a = dispatch->bindings[0], *restrict b = dispatch->bindings[1];
  float *restrict out = dispatch->bindings[2];
  size_t n = dispatch->constants[0];
  for (size_t i = 0; i < n; ++i) out[i] = a[i] * b[i] + b[i];
  return 0;
}
"""
SHADER = """\
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) result[i] = a[i] * b[i] + b[i];
}
"""
SPEC = """\
kernel scale_shift(a: f32[n], b: f32[n]) -> f32[n] {{ {grid}{clause} }}
pattern multiply_add(a: tensor<n x f32>, b: tensor<n x f32>) {{ addf(mulf(a, b), b) }}
replace multiply_add with scale_shift(a, b){otherwise}
"""
SOFTSIGN = "float softsign(float x) { return x / (1.0f + __builtin_fabsf(x)); }"
SOFTSIGN_SPEC = """\
kernel softsign(x: f32) -> f32 {{ cpu "softsign.c" as {form} }}
pattern p(x: tensor<n x f32>) {{ divf(x, addf(absf(x), 1.0)) }}
replace p with softsign(x)
"""
NATIVE = 'flags "-march=native"'
# By title: the grid, where a kernel must have one, and the clause.
APPROACHES = {
    "static function, object": ("", f'cpu "kernel.c" as object {NATIVE}'),
    "static function, bitcode": ("", f'cpu "kernel.c" as bitcode {NATIVE}'),
    "static dispatch": ("grid (1) ", f'cpu "dispatch.c" as dispatch {NATIVE}'),
    "dynamic function, plugin": ("", f'cpu "kernel.c" as plugin {NATIVE}'),
    "dynamic function, optional plugin": ("", f'cpu "kernel.c" as plugin {NATIVE}'),
    "dynamic dispatch, provided": ("", f'cpu "kernel.c" as provided {NATIVE}'),
}
SHADER_APPROACH = ("grid (ceildiv(n, 64)) ", 'vulkan "kernel.comp"')

NATIVE_512 = "-march=native -mprefer-vector-width=512"


def main(dispatches: int = 256, size: int = 64, matrix: int = 512, rows: int = 4096, rounds: int = 200) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("kernel.c", KERNEL), ("dispatch.c", DISPATCH), ("kernel.comp", SHADER)):
            (folder / file).write_text(text)
        print(header(f"one dispatch of {size} f32, of {dispatches} in a row", "replaced", "IREE's own"))
        for line in small(folder, dispatches, size, rounds):
            print(line, flush=True)
        print(header("functions on elements, between two ops that IREE fuses with them", "replaced", "IREE's own"))
        for line in elements(folder, matrix * rows // 2, max(rounds // 16, 1)):
            print(line, flush=True)
        print(header("kernels of real size", "replaced", "IREE's own"))
        for line in large(folder, matrix, rows, max(rounds // 16, 1)):
            print(line, flush=True)


def small(folder: Path, dispatches: int, size: int, rounds: int) -> Iterator[str]:
    """A row for each approach on each device."""
    model = chain(dispatches, size)
    inputs = (np.linspace(-1, 1, size, dtype=np.float32), np.linspace(0, 0.5, size, dtype=np.float32))
    plain = opsplice.compile(model, flags=[CPU])
    for number, (title, approach) in enumerate(APPROACHES.items()):
        spec = _spec(folder, f"approach{number}", approach, " otherwise keep" if "optional" in title else "")
        program = opsplice.compile(model, [spec], [CPU])
        assert len(program.report.replacements) == dispatches
        plugins = [_plugin(spec)] if "plugin" in title else []
        for device in DEVICES:
            yield _row(f"{title}, {device}", program, plain, inputs, device, rounds, (dispatches, "ns"), plugins)
    if _has_vulkan():
        targets = ["vulkan:llvmpipe"]
        spec = _spec(folder, "shader", SHADER_APPROACH)
        program, plain = opsplice.compile(model, [spec], targets=targets), opsplice.compile(model, targets=targets)
        assert len(program.report.replacements) == dispatches
        rounds = max(rounds // 20, 1)
        yield _row("static dispatch, shader, vulkan", program, plain, inputs, "vulkan", rounds, (dispatches, "us"))


def elements(folder: Path, count: int, rounds: int) -> Iterator[str]:
    """A row for each form of a function's code and each device."""
    (folder / "softsign.c").write_text(SOFTSIGN)
    inputs = (np.linspace(-4, 4, count, dtype=np.float32),)
    plain = opsplice.compile(kernels.softsign(count), flags=[CPU])
    for form in ("object", "bitcode"):
        spec = folder / f"softsign-{form}.splice"
        spec.write_text(SOFTSIGN_SPEC.format(form=form))
        program = opsplice.compile(kernels.softsign(count), [spec], [CPU])
        assert len(program.report.replacements) == 1
        for device in DEVICES:
            yield _row(f"x / (1 + |x|) {count}, {form}, {device}", program, plain, inputs, device, rounds, (1, "ms"))


def large(folder: Path, matrix: int, rows: int, rounds: int) -> Iterator[str]:
    """A row for each kernel, set of instructions and device."""
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, matrix, matrix), np.float32)
    x = random.standard_normal((rows, rows), np.float32)
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    for name, model, inputs, wanted, tile in (
        ("matmul", kernels.matmul(matrix, matrix, matrix), (a, b), a @ b, " -DROWS=4 -DCOLUMNS=64"),
        ("softmax", kernels.softmax(rows, rows), (x,), exponentials / exponentials.sum(axis=1, keepdims=True), ""),
    ):
        plain = opsplice.compile(model, flags=[CPU])
        for title, flags in (("AVX2", None), ("native", NATIVE_512 + tile)):
            shutil.copy(kernels.HERE / f"{name}.c", folder)
            text = (kernels.HERE / f"{name}.splice").read_text()
            spec = folder / f"{name}-{title}.splice"
            spec.write_text(text if flags is None else text.replace("-mavx2 -mfma", flags))
            program = opsplice.compile(model, [spec], [CPU])
            assert len(program.report.replacements) == 1
            for device in DEVICES:
                for side in (program, plain):
                    got = side.run("main", *inputs, device=device)
                    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
                shape = "x".join(map(str, inputs[0].shape))
                yield _row(f"{name} {shape}, {title}, {device}", program, plain, inputs, device, rounds, (1, "ms"))


def _spec(folder: Path, name: str, approach: tuple[str, str], otherwise: str = "") -> Path:
    grid, clause = approach
    path = folder / f"{name}.splice"
    path.write_text(SPEC.format(grid=grid, clause=clause, otherwise=otherwise))
    return path


def _plugin(spec: Path) -> Path:
    path = spec.with_suffix(".so")
    path.write_bytes(plugin_kernels.build(spec, path.suffix).data)
    return path


def _row(
    name: str,
    ours: opsplice.Program,
    theirs: opsplice.Program,
    inputs: Sequence[np.ndarray],
    device: str,
    rounds: int,
    unit: tuple[int, str],
    plugins: Sequence[Path] = (),
) -> str:
    count, suffix = unit
    got, wanted = ours.run("main", *inputs, device=device, plugins=plugins), theirs.run("main", *inputs, device=device)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())
    result = paired(
        lambda: ours.run("main", *inputs, device=device, plugins=plugins),
        lambda: theirs.run("main", *inputs, device=device),
        rounds,
        max(rounds // 10, 1),
        time.thread_time if device == "local-sync" else time.perf_counter,
    )
    return result.row(name, count * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[suffix], suffix)


def _has_vulkan() -> bool:
    import iree.runtime

    try:
        iree.runtime.get_device("vulkan")
    except (ValueError, RuntimeError):
        return False
    return True


if __name__ == "__main__":
    main()

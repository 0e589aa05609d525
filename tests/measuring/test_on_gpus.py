"""Verifying and timing on a GPU, with kernels that are wrong in the ways that kernels are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import opsplice
from opsplice.measuring.cutting.records import Verification
from opsplice.measuring.verifying import trial_runs
from tests.rewrites.conftest import write_spec

GLSL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint m, n; };
void main() {
  uint i = gl_GlobalInvocationID.x, group = gl_WorkGroupID.x, count = m * n;
  BODY
}
"""
CUDA = """
extern "C" __global__ void NAME(const float *x, float *result, unsigned m, unsigned n) {
  unsigned group = blockIdx.x, i = group * 64 + threadIdx.x, count = m * n;
  BODY
}
"""
# By the kind of GPU: the target, a kernel's text, its file's suffix, how many elements the result has.
GPUS = {"vulkan": ("vulkan:llvmpipe", GLSL, "comp", "result.length()"), "cuda": ("cuda", CUDA, "cu", "count")}
# By the kernel's name: its code, what verifying says.
KERNELS = {
    "right": ("if (i < count) result[i] = FACTOR * x[i];", ""),
    "lengths": ("if (i < LENGTH) result[i] = FACTOR * x[i];", ""),
    "last": ("if (i + 1 < count) result[i] = FACTOR * x[i];", "1 of 221 elements are not written"),
    "race": (
        "if (i < count) result[i] = FACTOR * x[i]; if (i % 64 == 63 && i + 1 < count) result[(group + 1) * 64] = 0;",
        "it races, or reads|: 0 at .*, wanted",  # it may already tell in the first call
    ),
    "past_end": (
        "if (i < count) result[i] = FACTOR * x[i] + (x[i + count] == 0 ? 0 : 1);",
        "it races, or reads there|220 more",
    ),
    "write_past": ("if (i <= count) result[i] = i < count ? FACTOR * x[i] : 1;", "it writes outside of its buffers"),
    "lost_nan": ("if (i < count) result[i] = x[i] < 1e30 ? FACTOR * x[i] : 1e30;", "nan in input 0"),
}
TYPE = "tensor<13x17xf32>"


def spec(backend: str, suffix: str) -> str:
    parts = []
    for number, name in enumerate(KERNELS, 2):
        launch = f'grid (ceildiv(m * n, 64)) workgroup (64) {backend} "{name}.{suffix}"'
        parts.append(f"kernel {name}(x: f32[m, n]) -> f32[m, n] {{ {launch} }}")
        parts.append(f"pattern p_{name}(x: tensor<m x n x f32>) {{ mulf(x, const({number}.0)) }}")
        parts.append(f"replace p_{name} with {name}(x)")
    return "\n".join(parts)


def model() -> str:
    functions = []
    for number, name in enumerate(KERNELS, 2):
        ops = f"%c = arith.constant dense<{number}.0> : {TYPE}\n%r = arith.mulf %x, %c : {TYPE}"
        functions.append(f"func.func @{name}(%x: {TYPE}) -> {TYPE} {{\n{ops}\nreturn %r : {TYPE}\n}}")
    return "\n".join(functions)


@pytest.fixture(scope="module", params=GPUS)
def backend(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def target(backend: str) -> str:
    return GPUS[backend][0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Path:
    _, text, suffix, length = GPUS[backend]
    codes = {}
    for number, (name, (code, _)) in enumerate(KERNELS.items(), 2):
        body = code.replace("FACTOR", f"{number}.0").replace("LENGTH", length)
        codes[f"{name}.{suffix}"] = text.replace("BODY", body).replace("NAME", name)
    return write_spec(tmp_path_factory.mktemp("kernels"), spec(backend, suffix), codes)


@pytest.fixture(scope="module")
def found(folder: Path, target: str) -> Verification:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_runs, "_RACE_SECONDS", 0.05)
        return opsplice.verify(model(), [folder], targets=[target], trials=("random", "nan"))


@pytest.mark.parametrize("name", KERNELS)
def test_each_wrong_kernel_is_named(found: Verification, name: str) -> None:
    (verdict,) = [each for each in found.verdicts if each.replacement.kernel == name]
    wanted = KERNELS[name][1]
    assert verdict.outcome == ("failed" if wanted else "ok"), verdict
    assert re.search(wanted, verdict.reason)


def test_whole_functions_run_on_the_device(found: Verification) -> None:
    whole = {each.function: each for each in found.whole}
    assert whole["right"].reason == ""
    assert whole["right"].difference == 0
    assert whole["last"].reason


def test_kernels_are_timed_on_the_device(folder: Path, target: str) -> None:
    text = model()[: model().index("func.func @lengths")]
    timed = opsplice.bench(text, [folder], targets=[target], seconds=0.05)
    assert [(each.name, set(each.seconds)) for each in timed.timed] == [
        ("-:3:6", {"IREE", "kernels"}),
        ("@right", {"IREE", "kernels"}),
    ]
    assert timed.machine.cores == 0
    assert str(timed).startswith(timed.machine.cpu)
    assert "of the core" not in str(timed)


def test_kernels_of_the_target_are_surveyed(folder: Path, target: str) -> None:
    text = model()[: model().index("func.func @lengths")]
    (item,) = opsplice.survey(text, [folder], targets=[target]).items
    assert item.kernels == ("right",)
    assert item.seconds is not None
    unknown = opsplice.survey(text, (), targets=["metal"])
    assert "this machine has no device 'metal'" in unknown.note


def test_tuning_is_for_cpus(folder: Path, backend: str, target: str) -> None:
    with pytest.raises(opsplice.OpspliceError, match=f"tuning measures on this machine's CPU, not on '{backend}'"):
        opsplice.tune(model(), [folder], targets=[target])

"""Verifying and timing on a Vulkan device, with shaders that are wrong in the ways that shaders are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import opsplice
from opsplice.measuring.cutting.records import Verification
from opsplice.measuring.verifying import trial_runs
from tests.rewrites.conftest import write_spec

HEAD = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint m, n; };
void main() {
  uint i = gl_GlobalInvocationID.x, group = gl_WorkGroupID.x, count = m * n;
  BODY
}
"""
# By the kernel's name: the shader's code, what verifying says.
SHADERS = {
    "right": ("if (i < count) result[i] = FACTOR * x[i];", ""),
    "lengths": ("if (i < result.length()) result[i] = FACTOR * x[i];", ""),
    "last": ("if (i + 1 < count) result[i] = FACTOR * x[i];", "1 of 221 elements are not written"),
    "race": (
        "if (i < count) result[i] = FACTOR * x[i]; if (i % 64 == 63 && i + 1 < count) result[(group + 1) * 64] = 0;",
        "it races, or reads|: 0 at .*, wanted",  # it may already tell in the first call
    ),
    "past_end": ("if (i < count) result[i] = FACTOR * x[i] + (x[i + count] == 0 ? 0 : 1);", "it races, or reads there"),
    "write_past": ("if (i <= count) result[i] = i < count ? FACTOR * x[i] : 1;", "it writes outside of its buffers"),
    "lost_nan": ("if (i < count) result[i] = x[i] < 1e30 ? FACTOR * x[i] : 1e30;", "nan in input 0"),
}
TYPE = "tensor<13x17xf32>"


def spec() -> str:
    parts = []
    for number, name in enumerate(SHADERS, 2):
        parts.append(f'kernel {name}(x: f32[m, n]) -> f32[m, n] {{ grid (ceildiv(m * n, 64)) vulkan "{name}.comp" }}')
        parts.append(f"pattern p_{name}(x: tensor<m x n x f32>) {{ mulf(x, const({number}.0)) }}")
        parts.append(f"replace p_{name} with {name}(x)")
    return "\n".join(parts)


def model() -> str:
    functions = []
    for number, name in enumerate(SHADERS, 2):
        ops = f"%c = arith.constant dense<{number}.0> : {TYPE}\n%r = arith.mulf %x, %c : {TYPE}"
        functions.append(f"func.func @{name}(%x: {TYPE}) -> {TYPE} {{\n{ops}\nreturn %r : {TYPE}\n}}")
    return "\n".join(functions)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, vulkan: None) -> Path:
    codes = {
        f"{name}.comp": HEAD.replace("BODY", code.replace("FACTOR", f"{number}.0"))
        for number, (name, (code, _)) in enumerate(SHADERS.items(), 2)
    }
    return write_spec(tmp_path_factory.mktemp("shaders"), spec(), codes)


@pytest.fixture(scope="module")
def found(folder: Path) -> Verification:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_runs, "_RACE_SECONDS", 0.05)
        return opsplice.verify(model(), [folder], targets=["vulkan:llvmpipe"], trials=("random", "nan"))


@pytest.mark.parametrize("name", SHADERS)
def test_each_wrong_shader_is_named(found: Verification, name: str) -> None:
    (verdict,) = [each for each in found.verdicts if each.replacement.kernel == name]
    wanted = SHADERS[name][1]
    assert verdict.outcome == ("failed" if wanted else "ok"), verdict
    assert re.search(wanted, verdict.reason)


def test_whole_functions_run_on_the_device(found: Verification) -> None:
    whole = {each.function: each for each in found.whole}
    assert whole["right"].reason == ""
    assert whole["right"].difference == 0
    assert whole["last"].reason


def test_shaders_are_timed_on_the_device(folder: Path) -> None:
    text = model()[: model().index("func.func @lengths")]
    timed = opsplice.bench(text, [folder], targets=["vulkan:llvmpipe"], seconds=0.05)
    assert [(each.name, set(each.seconds)) for each in timed.timed] == [
        ("-:3:6", {"IREE", "kernels"}),
        ("@right", {"IREE", "kernels"}),
    ]
    assert timed.machine.cores == 0
    assert str(timed).startswith(timed.machine.cpu)
    assert "of the core" not in str(timed)


def test_kernels_of_the_target_are_surveyed(folder: Path) -> None:
    text = model()[: model().index("func.func @lengths")]
    (item,) = opsplice.survey(text, [folder], targets=["vulkan:llvmpipe"]).items
    assert item.kernels == ("right",)
    assert item.seconds is not None
    unknown = opsplice.survey(text, (), targets=["metal"])
    assert "this machine has no device 'metal'" in unknown.note


def test_tuning_is_for_cpus(folder: Path) -> None:
    with pytest.raises(opsplice.OpspliceError, match="tuning measures on this machine's CPU, not on 'vulkan'"):
        opsplice.tune(model(), [folder], targets=["vulkan:llvmpipe"])

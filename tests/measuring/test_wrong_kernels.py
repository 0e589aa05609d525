"""Kernels that are wrong in the ways that kernels are: verifying names each, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

import opsplice
from opsplice import cli
from opsplice.measuring.model import Verification

# By the kernel's name: what computes the same, whether it has a workgroup for each row, what verifying says.
KERNELS = {
    "right": ("negf(x)", True, ""),
    "last_row": ("absf(x)", False, "elements are not written"),
    "race": ("mulf(x, x)", True, "workgroups in another order"),
    "past_end": ("subf(x, const(1.0))", False, "SIGSEGV"),
    "write_past": ("addf(x, const(1.0))", False, "SIGSEGV"),
    "lost_nan": ("maximumf(x, const(0.0))", False, "nan in input 0: 0"),
    "no_stride": ("mulf(x, const(3.0))", False, "wanted"),
    "imprecise": ("divf(x, const(2.0))", False, "wanted"),
    "scribble": ("mulf(x, const(5.0))", False, "SIGSEGV"),
}
OPS = {
    "right": "%r = arith.negf %x : TYPE",
    "last_row": "%r = math.absf %x : TYPE",
    "race": "%r = arith.mulf %x, %x : TYPE",
    "past_end": "%c = arith.constant dense<1.0> : TYPE\n%r = arith.subf %x, %c : TYPE",
    "write_past": "%c = arith.constant dense<1.0> : TYPE\n%r = arith.addf %x, %c : TYPE",
    "lost_nan": "%c = arith.constant dense<0.0> : TYPE\n%r = arith.maximumf %x, %c : TYPE",
    "no_stride": "%e = tensor.empty() : TYPE\n"
    "%t = linalg.transpose ins(%x : TYPE) outs(%e : TYPE) permutation = [1, 0]\n"
    "%c = arith.constant dense<3.0> : TYPE\n%r = arith.mulf %t, %c : TYPE",
    "imprecise": "%c = arith.constant dense<2.0> : TYPE\n%r = arith.divf %x, %c : TYPE",
    "scribble": "%c = arith.constant dense<5.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
}
TYPE = "tensor<32x32xf32>"


def spec() -> str:
    parts = []
    for name, (pattern, by_row, _) in KERNELS.items():
        strided = " strided" if name == "no_stride" else ""
        grid = "grid (m)\n  " if by_row else ""
        parts.append(f'kernel {name}(x: f32[m, n]{strided}) -> f32[m, n] {{\n  {grid}cpu "wrong.c"\n}}')
        parts.append(f"pattern p_{name}(x: tensor<m x n x f32>) {{ {pattern} }}")
        parts.append(f"replace p_{name} with {name}(x)")
    return "\n".join(parts)


def model() -> str:
    return "\n".join(
        f"func.func @{name}(%x: {TYPE}) -> {TYPE} {{\n{ops}\nreturn %r : {TYPE}\n}}".replace("TYPE", TYPE)
        for name, ops in OPS.items()
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Verification:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (folder / "wrong.splice").write_text(spec())
    return opsplice.verify(model(), [folder / "wrong.splice"], trials=("random", "nan", "program"))


@pytest.mark.parametrize("name", KERNELS)
def test_each_wrong_kernel_is_named(found: Verification, name: str) -> None:
    (verdict,) = [each for each in found.verdicts if each.replacement.kernel == name]
    wanted = KERNELS[name][2]
    assert verdict.outcome == ("failed" if wanted else "ok"), verdict
    assert wanted in verdict.reason


def test_a_rule_that_fails_is_left_alone_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    rules = spec().split("kernel ")
    chosen = "kernel ".join(["", *(rule for rule in rules if rule.startswith(("right", "imprecise")))])
    (tmp_path / "wrong.splice").write_text(chosen)
    (tmp_path / "model.mlir").write_text(model())
    monkeypatch.chdir(tmp_path)
    command = ["compile", "model.mlir", "--spec=wrong.splice", "-o", "model.vmfb", "--no-isolate"]
    assert cli.main([*command, "--verify-or-fail"]) == 1
    assert "the numbers of some rules do not hold" in capsys.readouterr().err
    assert not (tmp_path / "model.vmfb").exists()
    assert cli.main([*command, "--verify"]) == 0
    told = capsys.readouterr().err
    assert "left alone, for its numbers do not hold: `replace p_imprecise with imprecise`" in told
    assert "1 replacement\n" in told
    assert (tmp_path / "model.vmfb").exists()

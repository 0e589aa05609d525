"""`opsplice library`: a new library passes its own check, what is wrong in one is found, and the list of them."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.cli import main
from opsplice.common.errors import OpspliceError
from opsplice.pattern_libraries import library_list
from opsplice.pattern_libraries.finding import Finding
from opsplice.reports import render
from opsplice.targets.artifacts import arch as archs
from tests.packages import install

SOFT_SIGN = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %size = math.absf %x : tensor<4xf32>
  %sum = arith.addf %size, %one : tensor<4xf32>
  %y = arith.divf %x, %sum : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def outcomes(findings: tuple[Finding, ...]) -> dict[tuple[str, str], str]:
    return {(finding.step, finding.subject): finding.outcome for finding in findings}


def detail(findings: tuple[Finding, ...], step: str, subject: str) -> str:
    return "\n".join(f.detail for f in findings if (f.step, f.subject) == (step, subject))


def test_a_new_library_passes_its_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["library", "new", "acme_kernels"]) == 0
    assert "wrote acme_kernels/src/acme_kernels/specs/acme_kernels.splice\n" in capsys.readouterr().out
    monkeypatch.setattr(render, "_QUIET_SECONDS", -1.0)
    assert main(["library", "check", "acme_kernels", "--json"]) == 0
    said = capsys.readouterr()
    steps = {"building soft_sign_rows for x86_64", "running the program without its kernels"}
    assert {f"... {step}" for step in steps} <= {*said.err.split("\n")}
    findings = tuple(
        Finding(f["step"], f["subject"], f["outcome"], f["detail"]) for f in json.loads(said.out)["findings"]
    )
    assert outcomes(findings) == {
        ("format", "acme_kernels.splice"): "ok",
        ("lint", "acme_kernels.splice"): "ok",
        ("build", "soft_sign_rows"): "ok",
        ("pattern", "soft_sign"): "ok",
        ("numbers", "soft_sign"): "ok",
    }
    assert detail(findings, "build", "soft_sign_rows") == "for x86_64, aarch64, riscv64"
    assert detail(findings, "pattern", "soft_sign") == "replaced by soft_sign_rows"
    for name in ("Acme", "acme-kernels", "", "opsplice", "9a", "a/b"):
        with pytest.raises(OpspliceError, match="a library cannot be called"):
            opsplice.new_library(name)
    with pytest.raises(OpspliceError, match="acme_kernels exists already"):
        opsplice.new_library("acme_kernels")
    assert [library.name for library in library_list.at("acme_kernels")] == ["acme_kernels"]


def test_a_wheel_of_a_library_with_kernels_that_were_built_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    opsplice.new_library("acme_built", project)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    arch = archs.host_arch()
    make = ["make", "wheel", f"TARGETS={arch}", "PIP_FLAGS=--no-build-isolation"]
    done = subprocess.run(make, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    zipfile.ZipFile(next(project.glob("dist/acme_built-0.1.0-py3-none-any.whl"))).extractall(site)
    monkeypatch.syspath_prepend(site)
    assert not list(site.rglob("*.c"))
    program = opsplice.compile(SOFT_SIGN, ["acme_built"], no_code=True)
    assert program.report.replacements[0].artifacts[0].source.startswith(f"{site}/acme_built/specs/{arch}/soft_sign-")
    np.testing.assert_array_equal(program.run("main", np.float32([1, -3, 0, 7])), np.float32([0.5, -0.75, 0, 0.875]))
    tests = runpy.run_path(str(project / "tests/test_acme_built.py"))
    for test in ("test_soft_sign", "test_the_library"):  # they find the library by its name
        tests[test]()


MIXED = """import "opsplice:nn"

pattern doubled(x: tensor<...a x n x f32>) where n % 64 == 0 { addf(x, x) }
pattern thirds(x: tensor<n x f32>) { mulf(x, const(0.3..0.4)) }
pattern smooth(x: tensor<n x f32>, w: tensor<k x f32>) { contract[(y + i), i -> y](x, w) }
pattern slid(x: tensor<n x f32>, w: tensor<k x f32>) { contract[(y + i), i -> y](w, x) }
pattern counted<T>(x: tensor<n x T>) { addi(x, x) }
pattern long(x: tensor<n x f64>) { cos(x) }
pattern formed(x: tensor<n x f32>) where x is negf(_) { exp(x) }
pattern near(x: tensor<n x f32>) { negf(x) }
pattern gpu(x: tensor<n x f32>) { tanh(x) }

kernel twice(x: f32[...a, n]) -> f32[...a, n] { cpu "k.c" }
kernel third(x: f32[n]) -> f32[n] { cpu "k.c" }
kernel rectified(x: f32[...a]) -> f32[...a] { cpu "k.c" }
kernel other(x: f32[n]) -> f32[n] where n > 100000 { cuda "k.ptx" }

replace doubled with twice(x)
replace thirds with third(x)
replace gpu with other(x)
replace relu with rectified(x)
"""
CODE = """#include <stddef.h>
void twice(const float *x, float *out, size_t a, size_t n) { for (size_t i = 0; i < a * n; ++i) out[i] = 2 * x[i]; }
void rectified(const float *x, float *out, size_t a) { for (size_t i = 0; i < a; ++i) out[i] = x[i] < 0 ? 0 : x[i]; }
void third(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = x[i] / 3; }
"""
SMOOTH = """
func.func @f(%x: tensor<9xf32>, %w: tensor<3xf32>, %y: tensor<7xf32>) -> tensor<7xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%y : tensor<7xf32>) -> tensor<7xf32>
  %1 = linalg.conv_1d ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%0 : tensor<7xf32>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}
"""
NEAR = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


def checked(folder: Path, files: dict[str, str]) -> tuple[Finding, ...]:
    """What a library with examples is found to be, written to a folder."""
    (folder / "examples").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return opsplice.check_library(folder)


def test_what_is_wrong_with_a_library_is_found(tmp_path: Path) -> None:
    examples = {"examples/near.mlir": NEAR, "examples/smooth.mlir": SMOOTH}
    findings = checked(tmp_path, {"mixed.splice": MIXED, "k.c": CODE} | examples)
    part = f"{tmp_path.name}:mixed"
    assert outcomes(findings) == {
        ("format", "mixed.splice"): "failed",
        ("lint", "mixed.splice"): "failed",
        ("build", part): "failed",
        ("pattern", "doubled"): "ok",
        ("pattern", "thirds"): "ok",
        ("pattern", "smooth"): "ok",
        ("pattern", "slid"): "skipped",
        ("pattern", "counted"): "ok",
        ("pattern", "long"): "ok",
        ("pattern", "formed"): "skipped",
        ("pattern", "near"): "failed",
        ("pattern", "gpu"): "ok",
        ("numbers", "doubled"): "ok",
        ("pattern", "relu"): "ok",
        ("numbers", "thirds"): "failed",
        ("numbers", "relu"): "ok",
    }
    for step, subject, said in (
        ("format", "mixed.splice", "run: opsplice format "),
        ("lint", "mixed.splice", "there is no file "),
        ("build", part, "no such file: "),
        (
            "pattern",
            "slid",
            "a window: a template has no sizes for what slides over another; give an example of your own",
        ),
        ("pattern", "formed", "`x is negf(_)`: it asks for ops behind an input, and a template has none"),
        ("pattern", "near", f"it does not match {tmp_path}/examples/near.mlir"),
        ("pattern", "gpu", "its kernel has no code for CPUs"),
        ("pattern", "relu", "replaced by rectified"),
        ("numbers", "thirds", "differ from those without the kernels by more than the limit: off by "),
    ):
        assert said in detail(findings, step, subject)


ANY_LAYOUT = """kernel below(x: f32[m, n] strided) -> f32[m, n] strided {
  cpu "k.c"
}

kernel zeros(x: f32[n]) -> f32[n] {
  cpu "k.c"
}

pattern below_peak(x: tensor<m x n x f32>) {
  subf(x, broadcast[m -> m n](reduce maximumf[m n -> m](x)))
}

pattern times_zero(x: tensor<n x f32>) {
  mulf(x, 0.0)
}

replace below_peak with below(x)

replace times_zero with zeros(x)
"""
ALONG_COLUMNS = """func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %low = arith.constant dense<0xFF800000> : tensor<5xf32>
  %peak = linalg.reduce { arith.maximumf } ins(%x : tensor<3x5xf32>) outs(%low : tensor<5xf32>) dimensions = [0]
  %e = tensor.empty() : tensor<3x5xf32>
  %wide = linalg.broadcast ins(%peak : tensor<5xf32>) outs(%e : tensor<3x5xf32>) dimensions = [0]
  %0 = arith.subf %x, %wide : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}"""
BELOW = """#include <stddef.h>
void below(const float *x, float *out, size_t m, size_t n, size_t x_m, size_t x_n, size_t out_m, size_t out_n) {
  for (size_t i = 0; i < m; ++i) {
    float peak = -__builtin_inff();
    for (size_t j = 0; j < n; ++j) {
      float here = x[i * x_m + j * x_n];
      if (here > peak || here != here) peak = here;
    }
    for (size_t j = 0; j < n; ++j) out[i * out_m + j * out_n] = x[i * x_m + j * x_n] - peak;
  }
}
void zeros(const float *x, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] < 0 ? -0.0f : 0;
}
"""


def test_examples_are_matched_as_the_rules_of_the_library_match(tmp_path: Path) -> None:
    """A strided kernel takes other layouts. One that is wrong for infinities alone is told the word for that."""
    examples = {"examples/below_peak.mlir": ALONG_COLUMNS}
    findings = checked(tmp_path, {"strided.splice": ANY_LAYOUT, "k.c": BELOW} | examples)
    assert detail(findings, "pattern", "below_peak") == "replaced by below"
    assert outcomes(findings)["numbers", "below_peak"] == "ok"
    assert outcomes(findings)["numbers", "times_zero"] == "failed"
    assert "says so: `x: f32[m, n] finite`" in detail(findings, "numbers", "times_zero")


def test_kernels_are_built_for_their_own_targets_and_generated_ones_later(tmp_path: Path) -> None:
    kernels = """kernel here(x: f32[n]) -> f32[n] {
  cpu "k.c"
}

kernel written(x: f32[n]) -> f32[n] {
  vulkan "k.py" as generated
}
"""
    (tmp_path / "two.splice").write_text(kernels)
    (tmp_path / "k.c").write_text("void here(const float *x, float *out, unsigned long n) {}\n")
    (tmp_path / "k.py").write_text("")
    findings = opsplice.check_library(tmp_path)
    assert [(each.subject, each.outcome, each.detail) for each in findings if each.step == "build"] == [
        ("here", "ok", "for x86_64, aarch64, riscv64"),
        ("written", "skipped", "its code is written for each match, when that is compiled"),
    ]


def test_a_library_that_does_not_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.splice").write_text("pattern one(x: tensor<f32>) {\n  nosuch(x)\n}\n")
    (tmp_path / "two.splice").write_text('import "one.splice"\n')
    assert main(["library", "check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "  failed  lint     one.splice: 1 error in " in shown
    assert "            help: " in shown
    assert shown.endswith("\n1 problem found\n")
    for given, said in (
        (tmp_path / "nowhere", "there is no folder"),
        ("nosuchlib", "there is no library 'nosuchlib'"),
        (tmp_path.parent, "there is no library in"),
    ):
        with pytest.raises(OpspliceError, match=said):
            opsplice.check_library(given)


def test_projects_that_name_no_library(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    for text, said in (
        ("[project]\nname = 'x'\n", "names no library"),
        ("[project\n", "cannot be read"),
        ("project = 3\n", "cannot be read"),
        ("[project.entry-points.'opsplice.libraries']\nx = 'x:specs'\n", "that folder does not exist"),
        ("[project.entry-points.'opsplice.libraries']\nx = '..:/'\n", "that folder does not exist"),
    ):
        file.write_text(text)
        with pytest.raises(OpspliceError, match=said):
            opsplice.check_library(tmp_path)


def test_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    alone = MIXED.replace('import "opsplice:nn"', "").replace("replace relu with rectified(x)", "")
    install(tmp_path, "acme", {"acme.splice": alone, "more.splice": 'import "acme:acme"\n'})
    install(tmp_path, "bad", {"bad.splice": "pattern"})
    install(tmp_path, "lost", {}, entry="lost:nowhere")
    assert main(["library", "list"]) == 0
    shown = capsys.readouterr().out
    assert "opsplice (comes with opsplice) " in shown
    assert f"acme (MIT, acme 1.4) {tmp_path}/acme/specs\n  acme:acme: 9 patterns, 4 kernels, 3 rules\n" in shown
    assert "  acme:more: 0 patterns, 0 kernels, 0 rules\n" in shown
    assert f"bad (MIT, bad 1.4) {tmp_path}/bad/specs\n  1 error in " in shown
    assert "lost 1.4 has no folder lost/nowhere" in shown
    assert main(["library", "list", "acme"]) == 0
    shown = capsys.readouterr().out
    assert "    pattern doubled\n" in shown
    assert "opsplice:nn" not in shown
    assert main(["library", "list", "acne"]) == 1
    assert "did you mean acme?" in capsys.readouterr().err
    listed = {library.name: library for library in opsplice.libraries()}
    assert listed["acme"].version == "1.4"
    assert [part.kernels for part in listed["acme"].parts] == [("twice", "third", "rectified", "other"), ()]

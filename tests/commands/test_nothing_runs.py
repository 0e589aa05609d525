"""Commands that only look at a spec or a model: whatever these hold, nothing of it runs, and nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsplice import api, cli
from opsplice.common.errors import OpspliceError

# Kernels of all kinds whose code or building would be seen: each leaves a file behind.
SPEC = """
kernel built(x: f32[n]) -> f32[n] { cpu "built.c" }
kernel made(x: f32[n]) -> f32[n] { cpu "made.py" as generated }
kernel called(x: f32[n]) -> f32[n] { cpu "called.py" as command }
kernel plugged(x: f32[n]) -> f32[n] { cpu "built.c" as plugin flags "-lnone" }
kernel prebuilt(x: f32[n]) -> f32[n] { cpu "absent.o" }

pattern abs(x: tensor<n x f32>) { absf(x) }
pattern neg(x: tensor<n x f32>) { negf(x) }
pattern expo(x: tensor<n x f32>) { exp(x) }
pattern loga(x: tensor<n x f32>) { log(x) }

replace abs with built(x)
replace neg with made(x)
replace expo with called(x)
replace loga with plugged(x)
"""
MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = math.absf %x : tensor<4xf32>
  %b = arith.negf %a : tensor<4xf32>
  %c = math.exp %b : tensor<4xf32>
  %d = math.log %c : tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
COMMAND = "iree-hal-preprocess-executables-with-tool"
EXECUTABLE = """
  hal.executable public @e {
    hal.executable.variant public @v target(<"llvm-cpu", "embedded-elf-x86_64">) { builtin.module {} }
  }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the spec and the model, in which nothing new may appear, while no compiler can be found."""
    trap = f'open({str(tmp_path / "ran")!r}, "w").close()\n'
    (tmp_path / "spec.splice").write_text(SPEC)
    (tmp_path / "model.mlir").write_text(MODEL)
    (tmp_path / "built.c").write_text("#error built\n")
    for name in ("made.py", "called.py"):
        (tmp_path / name).write_text(trap)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("clang", "gcc", "cc", "nvcc", "tool"):
        (tools / name).write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "cache" / "keys").exists()


def test_looking_at_a_spec_runs_nothing_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in folder.iterdir()} | {"cache"}
    for command in (
        ["match", "model.mlir", "--spec=spec.splice", "--json"],
        ["explain", "model.mlir", "--spec=spec.splice", "--json"],
        ["lint", "spec.splice"],
        ["format", "--check", "spec.splice"],
        ["capture", "model.mlir"],
    ):
        cli.main([*command, *(["--no-isolate"] if command[0] in ("match", "explain", "capture") else [])])
        out = capsys.readouterr().out
        if command[0] == "match":
            assert {r["kernel"] for r in json.loads(out)["matches"]} == {"built", "made", "called", "plugged"}
    assert {path.name for path in folder.iterdir()} <= before


def refused(model: str, spec: str = "", kind: str = ".splice") -> OpspliceError:
    path = Path(f"hostile{kind}")
    path.write_text(spec or SPEC)
    with pytest.raises(OpspliceError) as error:
        api.match(model, [path])
    return error.value


def tool(folder: Path) -> str:
    return str(folder / "bin" / "tool")


@pytest.mark.parametrize(
    ("passes", "what"),
    [
        ('hal.executable({COMMAND}{{command=\\"{tool}\\"}})', COMMAND),
        ("iree-util-dump-module{{path=ran}}", "'path'"),
        ("iree-hal-dump-executable-sources{{prefix=x path=ran}}", "'path'"),
        ("iree-io-export-parameters{{path=ran}}", "'path'"),
        ("canonicalize,iree-flow-dump-dispatch-graph-pass{{output-file=ran}}", "'output-file'"),
        ("iree-preprocessing-apply-pdl-patterns{{patterns-file=/etc/passwd}}", "'patterns-file'"),
        ("transform-preload-library{{transform-library-paths=/etc}}", "'transform-library-paths'"),
        ("iree-consteval-jit-globals", "iree-consteval-jit-globals"),
        ("snapshot-op-locations", "snapshot-op-locations"),
        ("iree-transformation-pipeline", "iree-transformation-pipeline"),
    ],
)
def test_passes_of_a_spec_reach_nothing(folder: Path, passes: str, what: str) -> None:
    text = passes.format(COMMAND=COMMAND, tool=tool(folder))
    error = refused(MODEL + EXECUTABLE, f'run "{text}" at preprocessing\n{SPEC}')
    assert what in error.message
    assert "reads or writes files, or starts programs" in error.message
    assert "hostile.splice:1" in error.message


TRANSFORM = """
module attributes {{ transform.with_named_sequence }} {{
  transform.named_sequence @__transform_main(%m: !transform.any_op) {{
    {body}
    transform.yield
  }}
}}
"""
FIND = '%e = transform.structured.match ops{["hal.executable"]} in %m : (!transform.any_op) -> !transform.any_op\n'


@pytest.mark.parametrize(
    "body",
    [
        FIND
        + 'transform.apply_registered_pass "COMMAND" with options = { "command" = "TOOL" } to %e'
        + " : (!transform.any_op) -> !transform.any_op",
        FIND
        + '%p = transform.param.constant "TOOL" -> !transform.any_param\n'
        + 'transform.apply_registered_pass "COMMAND" with options = { "command" = %p } to %e'
        + " : (!transform.any_op, !transform.any_param) -> !transform.any_op",
        '%p = transform.param.constant #util.preprocessing_pipeline<"iree-util-dump-module{path=ran}">'
        + " -> !transform.any_param\n"
        + 'transform.annotate %m "preprocessing_pipeline" = %p : !transform.any_op, !transform.any_param',
    ],
)
def test_passes_of_a_transform_spec_reach_nothing(folder: Path, body: str) -> None:
    body = body.replace("COMMAND", COMMAND).replace("TOOL", tool(folder))
    error = refused(MODEL + EXECUTABLE, TRANSFORM.format(body=body), ".mlir")
    assert "hostile.mlir" in error.message
    assert "reads or writes files, or starts programs" in error.message


def test_a_transform_spec_builds_no_sources_for_a_match(folder: Path, samples: Path) -> None:
    sample = samples / "mul_abs_negate"
    (folder / "functions.c").write_text("#error built\n")
    (folder / "hostile.mlir").write_text((sample / "replace.mlir").read_text())
    report = api.match(str(sample / "model.mlir"), [folder / "hostile.mlir"])
    assert len(report.replacements) == 2


@pytest.mark.parametrize(
    "passes",
    [
        f"builtin.module(hal.executable({COMMAND}{{command=TOOL}}))",
        "builtin.module(iree-util-dump-module{path=ran})",
        "builtin.module(cse,iree-io-export-parameters{path=ran})",
    ],
)
@pytest.mark.parametrize("name", ["preprocessing_pipeline", '"preprocessing\\5Fpipeline"'])
def test_pipelines_of_a_model_reach_nothing(folder: Path, passes: str, name: str) -> None:
    text = passes.replace("TOOL", tool(folder))
    inner = f"builtin.module {{ {EXECUTABLE} }}"
    attribute = f'attributes {{{name} = #util.preprocessing_pipeline<"{text}">}}'
    plain = f"util.func public @main(%x: i32) -> i32 {attribute} {{ {inner} util.return %x : i32 }}"
    nested = f"util.func public @outer(%y: i32) -> i32 {{ builtin.module {{ {plain} }} util.return %y : i32 }}"
    for model in (plain, nested):
        error = refused(model)
        assert "<module> asks for" in error.message
        assert "reads or writes files, or starts programs" in error.message


def test_harmless_pipelines_of_a_model_run(folder: Path) -> None:
    attribute = 'attributes {preprocessing_pipeline = #util.preprocessing_pipeline<"cse">}'
    model = MODEL.replace("-> tensor<4xf32> {", f"-> tensor<4xf32> {attribute} {{")
    assert len(api.match(model, ["spec.splice"]).replacements) == 4

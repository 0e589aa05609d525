"""The Python interface, and that it stands on its own: processes, contexts, crashes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.commands.arguments.command_table import GROUPS
from opsplice.runtime.loaded_program import load_program

from .archives import gguf, irpa, safetensors

MODEL = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""


@pytest.fixture
def spec(samples: Path) -> Path:
    return samples / "mul_abs_negate" / "replace.splice"


def arguments() -> list[np.ndarray]:
    return [np.arange(5, dtype=np.float32), np.full(5, -2, np.float32)]


EXPECTED = -np.abs(np.arange(5, dtype=np.float32) * -2) + 1


def test_every_public_name_is_there_and_listed() -> None:
    assert {"compile", "match", "explain", "capture", "export", "import_spec", "lint", "format", "doctor"} <= set(
        dir(opsplice)
    )
    assert set(opsplice.__all__) <= set(dir(opsplice))
    assert all(getattr(opsplice, name) is not None for name in opsplice.__all__)
    # A module of the name would take its place when it is imported.
    assert not [name for name in opsplice.__all__ if find_spec(f"opsplice.{name}")]


def test_python_has_each_action_of_the_command_for_kernels() -> None:
    packages, plugins, signatures = opsplice.packages, opsplice.plugins, opsplice.signatures
    twins = {
        "plugin": plugins.build,
        "fat": plugins.join,
        "provider": plugins.provide,
        "build": packages.build,
        "push": packages.push,
        "pull": packages.pull,
        "list": packages.listed,
        "show": packages.show,
        "mirror": packages.mirror,
        "gc": packages.gc,
        "keygen": signatures.keygen,
        "sign": signatures.sign,
        "verify": signatures.verify,
        "trust": signatures.trust,
        "lock": signatures.lock,
        "audit": opsplice.provenance.revoked,
    }
    assert set(twins) == {action for actions in GROUPS["kernel"].values() for action in actions}


def test_specs_are_imported_linted_and_formatted(tmp_path: Path, samples: Path) -> None:
    exported = tmp_path / "exported.mlir"
    exported.write_text(opsplice.export(samples / "mul_abs_negate" / "replace.splice").text)
    back = opsplice.import_spec(exported)
    assert "negf(absf(mulf(" in back.text
    assert (back.rules, back.left_out) == (1, ())
    assert opsplice.lint(exported) == opsplice.lint([exported, exported])
    spec = tmp_path / "p.splice"
    spec.write_text("pattern   p(x: tensor<n x f32>) { y = absf(x) negf(x) }\n")
    assert [(each.severity, each.code) for each in opsplice.lint(spec)] == [("warning", "unused-value")]
    assert opsplice.format(spec.read_text()) == "pattern p(x: tensor<n x f32>) {\n  y = absf(x)\n  negf(x)\n}\n"
    spec.write_text("pattern p(")
    (wrong,) = opsplice.lint([spec])
    assert wrong.severity == "error"
    with pytest.raises(opsplice.SpecError):
        opsplice.format("pattern p(")


def test_the_doctor_says_what_the_command_says() -> None:
    checks = {check.name: check for check in opsplice.doctor()}
    assert checks["iree-base-compiler"].ok
    assert all(check.ok or check.how_to_get for check in checks.values())


def test_a_model_as_text(spec: Path) -> None:
    program = opsplice.compile(MODEL, [spec])
    assert len(program.report.replacements) == 1
    first, function = str(program).splitlines()
    assert re.fullmatch(r"program of \d+ kB, 1 replacement", first)
    assert function == f"  {program.functions['main']}"
    assert function.startswith("  main(tensor<")
    np.testing.assert_array_equal(program.run("main", *arguments()), EXPECTED)


def test_a_model_as_a_module_and_as_bytecode(spec: Path, tmp_path: Path) -> None:
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parse(MODEL)
        with (tmp_path / "model.mlirbc").open("wb") as file:
            module.operation.write_bytecode(file)
        for model in (module, tmp_path / "model.mlirbc", (tmp_path / "model.mlirbc").read_bytes()):
            program = opsplice.compile(model, [spec])
            np.testing.assert_array_equal(program.run(None, *arguments()), EXPECTED)
        assert "arith.negf" in str(module), "the caller's own module is left as it was"


def test_isolated_compiles_give_the_same(spec: Path) -> None:
    events: list[str] = []
    program = opsplice.compile(MODEL, [spec], isolate=True, on_progress=lambda event: events.append(str(event)))
    np.testing.assert_array_equal(program.run("main", *arguments()), EXPECTED)
    assert program.report == opsplice.compile(MODEL, [spec]).report
    assert "phase preprocessing" in events


def test_an_isolated_compile_survives_a_crash() -> None:
    with pytest.raises(opsplice.OpspliceError, match="the compiler"):
        opsplice.compile(MODEL, flags=["--iree-llvmcpu-target-cpu=no-such-cpu"], isolate=True)
    assert opsplice.compile(MODEL, isolate=True).vmfb


def test_saving(spec: Path, tmp_path: Path) -> None:
    path = opsplice.compile(MODEL, [spec]).save(tmp_path / "model.vmfb")
    np.testing.assert_array_equal(load_program(path).call("main", *arguments())[0], EXPECTED)
    with pytest.raises(opsplice.OpspliceError, match="cannot write"):
        opsplice.compile(MODEL).save(tmp_path / "absent" / "model.vmfb")


WEIGHTED = """
util.global private @a = #flow.parameter.named<"model"::"a"> : tensor<3xf32>
util.global private @b = #flow.parameter.named<"more"::"b"> : tensor<3xf32>
util.global private @c = #flow.parameter.named<"c"> : tensor<3xf32>
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = util.global.load @a : tensor<3xf32>
  %b = util.global.load @b : tensor<3xf32>
  %c = util.global.load @c : tensor<3xf32>
  %0 = arith.mulf %a, %x : tensor<3xf32>
  %1 = arith.subf %0, %b : tensor<3xf32>
  %2 = arith.addf %1, %c : tensor<3xf32>
  return %2 : tensor<3xf32>
}
"""


def test_weights_from_archives_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "a.irpa").write_bytes(irpa("a", np.array([2, 3, 4], np.float32)))
    (tmp_path / "b.safetensors").write_bytes(safetensors("b", np.full(3, 7, np.float32)))
    (tmp_path / "c.gguf").write_bytes(gguf("c", np.array([100, 200, 300], np.float32)))
    archives = [f"model={tmp_path / 'a.irpa'}", f"more={tmp_path / 'b.safetensors'}", tmp_path / "c.gguf"]
    program, x = opsplice.compile(WEIGHTED), np.array([1, 10, 100], np.float32)
    assert program.run(None, x, parameters=archives).tolist() == [95, 223, 693]
    # A file that has changed is read anew.
    (tmp_path / "c.gguf").write_bytes(gguf("c", np.zeros(3, np.float32)))
    assert program.run(None, x, parameters=archives).tolist() == [-5, 23, 393]
    with pytest.raises(opsplice.OpspliceError, match="handles scopes like 'more'"):
        program.run(None, x, parameters=archives[:1])


def test_a_saved_program_is_loaded(spec: Path, tmp_path: Path) -> None:
    path = opsplice.compile(MODEL, [spec]).save(tmp_path / "model.vmfb")
    for loaded in (opsplice.load(path), opsplice.load(path.read_bytes()), opsplice.load(str(path))):
        assert loaded.report is None
        np.testing.assert_array_equal(loaded.run("main", *arguments()), EXPECTED)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(opsplice.OpspliceError, match=r"model\.vmfb is not a compiled program, or is damaged"):
        opsplice.load(path)
    with pytest.raises(opsplice.OpspliceError, match="no such file"):
        opsplice.load(tmp_path / "absent.vmfb")


def test_require_match(spec: Path) -> None:
    unrelated = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
    assert opsplice.compile(unrelated, [spec]).report.unmatched[0].pattern == "neg_abs_mul"
    with pytest.raises(opsplice.OpspliceError, match="1 rule matched nothing"):
        opsplice.compile(unrelated, [spec], require_match=True)


@pytest.mark.parametrize("kind", ["splice", "mlir"])
def test_a_transformed_module_compiles_with_stock_iree(samples: Path, tmp_path: Path, kind: str) -> None:
    sample = samples / "mul_abs_negate"
    module, report = opsplice.transform(sample / "model.mlir", [sample / f"replace.{kind}"])
    assert len(report.replacements) == 2
    (tmp_path / "transformed.mlir").write_text(str(module))
    command = [
        sys.executable,
        "-c",
        "import sys; from iree.compiler.tools.scripts.iree_compile.__main__ import main; main()",
    ]
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    subprocess.run(
        [*command, tmp_path / "transformed.mlir", *flags, "-o", tmp_path / "out.vmfb"], check=True, capture_output=True
    )
    values = [np.full(5, 7), np.full(5, 4), np.full(10, -4), np.full(10, 3)]
    results = load_program(tmp_path / "out.vmfb").call("mixed_invocation", *(v.astype(np.float32) for v in values))
    np.testing.assert_array_equal(results[0], np.full(5, -27, np.float32))
    np.testing.assert_array_equal(results[1], np.full(10, -11, np.float32))


def test_many_compiles_in_one_process(spec: Path) -> None:
    programs = [opsplice.compile(MODEL, [spec]).vmfb for _ in range(5)]
    assert all(p == programs[0] for p in programs), "the same input gives the same program"

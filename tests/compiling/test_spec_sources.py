"""What `--spec=` and `specs=` take: files, and libraries by name, by every function and command that takes specs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.cli import main
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_files import load_specs
from opsplice.compiling.spec_sources import resolve
from tests.packages import install

MODEL = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.negf %x : tensor<8xf32>
  %1 = math.absf %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""
SPEC = """kernel negated_abs(x: f32[n]) -> f32[n] { cpu "k.c" }
pattern negated(x: tensor<n x f32>) { absf(negf(x)) }
replace negated with negated_abs(x)
"""
# It computes something else, to be seen.
CODE = """#include <stddef.h>
void negated_abs(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = x[i] + 100; }
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    install(tmp_path / "site", "acme", {"acme.splice": 'import "layers.splice"', "layers.splice": SPEC, "k.c": CODE})
    (tmp_path / "model.mlir").write_text(MODEL)
    return tmp_path


def test_a_program_with_a_library_by_name(site: Path) -> None:
    program = opsplice.compile(MODEL, specs="acme")
    np.testing.assert_array_equal(program.run("main", np.zeros(8, np.float32)), np.full(8, 100, np.float32))
    assert program.report.replacements[0].artifacts[0].source == str(site / "site/acme/specs/k.c")
    (site / "main.splice").write_text('import "acme:layers"\n')
    for specs in (["acme:layers"], "main.splice", Path("main.splice"), resolve("acme")):
        assert len(opsplice.match(MODEL, specs).replacements) == 1
    assert opsplice.explain(MODEL, ["acme"]).patterns[0].pattern == "negated"
    assert "transform.named_sequence" in opsplice.export("acme").text
    assert opsplice.transform(MODEL, ["acme"])[1].replacements[0].kernel == "negated_abs"


def test_commands_with_a_library_by_name(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["match", "model.mlir", "--spec=acme"], ["lint", "acme"], ["export", "acme", "-o", "out.mlir"]):
        assert main(command) == 0
    assert main(["compile", "model.mlir", "--spec=acme:layers", "-o", "out.vmfb"]) == 0
    assert "1 replacement\n" in capfd.readouterr().err
    assert main(["run", "out.vmfb", "--input=8xf32=1"]) == 0
    assert "101 101" in capfd.readouterr().out


def test_libraries_with_kernels_of_one_name_in_one_program(site: Path) -> None:
    """The names are each library's own; those of their C functions are the program's."""
    model = MODEL.replace("-> tensor<8xf32> {", "-> (tensor<8xf32>, tensor<8xf32>) {", 1).replace(
        "  return %1 : tensor<8xf32>",
        "  %2 = math.cos %x : tensor<8xf32>\n  return %1, %2 : tensor<8xf32>, tensor<8xf32>",
    )
    spec = SPEC.replace("absf(negf(x))", "cos(x)")
    zeta = install(site / "site", "zeta", {"zeta.splice": spec, "k.c": CODE.replace("100", "200")})
    (site / "main.splice").write_text('import "acme"\nimport "zeta"\n')
    with pytest.raises(OpspliceError) as raised:
        opsplice.compile(model, "main.splice")
    assert raised.value.message == "negated_abs is defined by two files that are linked into one program"
    assert "zeta/specs/k.c is linked for kernel zeta.negated_abs at" in raised.value.details
    (zeta / "zeta.splice").write_text(spec.replace('"k.c"', '"k.c" symbol "zeta_cos"'))
    (zeta / "k.c").write_text(CODE.replace("100", "200").replace("negated_abs", "zeta_cos"))
    program = opsplice.compile(model, "main.splice")
    assert [r.kernel for r in program.report.replacements] == ["acme.negated_abs", "zeta.negated_abs"]
    assert [each[0] for each in program.run("main", np.zeros(8, np.float32))] == [100, 200]


def test_rules_of_libraries_that_match_nothing_are_counted(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are for many programs, and who uses a library cannot mend it."""
    never = "pattern never(x: tensor<n x f32>) where n > 3 and n < 2 { sin(x) }\n"
    other = "pattern other(x: tensor<n x f32>) { tan(x) }\nreplace other with negated_abs(x)\n"
    install(site / "site", "wide", {"wide.splice": SPEC + never + other, "k.c": CODE})
    (site / "main.splice").write_text(
        'import "wide"\npattern own(x: tensor<n x f32>) { sqrt(x) }\nannotate own with {a}\n'
    )
    assert main(["match", "model.mlir", "--spec=wide", "--require-match"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("\n1 rule of libraries matched nothing, shown with --verbose\n")
    assert "never" not in shown
    assert main(["match", "model.mlir", "--spec=main.splice", "--require-match"]) == 1
    captured = capsys.readouterr()
    assert "main.splice:3:1: `annotate own` matched nothing, and nothing comes near it\n" in captured.out
    assert "  and 1 more rule matched nothing, shown with --verbose\n" in captured.out
    assert "1 rule matched nothing" in captured.err
    assert main(["match", "model.mlir", "--spec=main.splice", "--verbose"]) == 0
    assert "wide.splice:6:1: `replace other with negated_abs` matched nothing" in capsys.readouterr().out
    (site / "none.mlir").write_text(MODEL.replace("absf", "ceil"))
    assert main(["match", "none.mlir", "--spec=wide", "--require-match"]) == 1
    shown = capsys.readouterr().out
    assert "2 rules of libraries matched nothing, shown with --verbose\nhelp: `opsplice survey`" in shown


def test_what_is_neither_a_file_nor_a_library(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "model.mlir", "--spec=acne", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)
    assert error["error"] == "acne is not a file, and there is no library 'acne'"
    assert error["hint"] == "did you mean acme?"
    (site / "layers.splice").write_text(SPEC)
    with pytest.raises(OpspliceError) as raised:
        resolve("layers")
    assert raised.value.hint == "did you mean layers.splice?"
    with pytest.raises(OpspliceError, match=r"library acme \(acme 1\.4\) has no part 'layer'"):
        resolve("acme:layer")


def test_files_go_before_libraries(site: Path) -> None:
    assert resolve("acme.splice")[0].path == Path("acme.splice")  # by its ending, though there is none
    (site / "acme").write_text(SPEC)
    assert resolve(["acme", Path("acme")])[0].library is None
    with pytest.raises(OpspliceError, match="acme is not a spec"):
        load_specs(["acme"])
    os.unlink("acme")
    os.mkdir("acme")  # a folder is none
    assert [source.library and source.library.name for source in resolve(["acme", Path("acme")])] == ["acme", None]

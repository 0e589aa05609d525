"""The symbols of raw MLIR of several specs in one program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.api import Session

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.rewrites.ir import raw_symbols
from opsplice.spec_lang.loading.loader import load_text

TENSOR = "tensor<?xf32>"
MODEL = f"""
func.func @main(%a: {TENSOR}, %b: {TENSOR}) -> ({TENSOR}, {TENSOR}) {{
  %0 = math.absf %a : {TENSOR}
  %1 = math.exp %b : {TENSOR}
  return %0, %1 : {TENSOR}, {TENSOR}
}}
"""
FLAGS = ["--iree-llvmcpu-target-cpu=host"]
VALUES = np.array([1, -2], np.float32), np.array([3, 4], np.float32)


def function(op: str, name: str = "f", visibility: str = "private") -> str:
    return (
        f"util.func {visibility} @{name}(%x: {TENSOR}) -> {TENSOR} {{\n"
        f"%r = arith.{op} %x, %x : {TENSOR}\nutil.return %r : {TENSOR}\n}}\n"
    )


def rule(pattern: str, name: str = "f") -> str:
    call = f"%r = util.call @{name}(%x) : ({TENSOR}) -> {TENSOR}"
    return f"replace {pattern} with mlir {{\n{call}\nyield %r : {TENSOR}\n}}\n"


def spec(op: str, code: str, name: str = "f") -> str:
    """A spec that has a function called for an op."""
    return f"mlir {{\n{code}}}\npattern p_{op}(x: tensor<n x f32>) {{ {op}(x) }}\n{rule(f'p_{op}', name)}"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two specs, each with a function @f: absf becomes x * x, and exp x + x."""
    first, second = tmp_path / "first.splice", tmp_path / "second.splice"
    first.write_text(spec("absf", function("mulf")))
    second.write_text(spec("exp", function("addf")))
    return first, second


def check(specs: list[Path]) -> None:
    first, second = opsplice.compile(MODEL, specs, FLAGS).run("main", *VALUES)
    np.testing.assert_array_equal(first, VALUES[0] * VALUES[0])
    np.testing.assert_array_equal(second, VALUES[1] + VALUES[1])


def test_two_specs_with_functions_of_one_name(two: tuple[Path, Path]) -> None:
    check([two[0], two[1]])
    check([two[1], two[0]])


def test_two_imports_with_functions_of_one_name(two: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.splice"
    both.write_text('import "first.splice"\nimport "second.splice"\n')
    check([both])


def test_a_rule_sees_the_function_of_its_own_file_first(two: tuple[Path, Path], tmp_path: Path) -> None:
    own = tmp_path / "own.splice"
    own.write_text('import "second.splice"\n' + spec("absf", function("mulf")))
    check([own])


def test_a_rule_that_sees_two_functions_of_one_name(two: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.splice"
    text = 'import "first.splice"\nimport "second.splice"\npattern q(x: tensor<n x f32>) { absf(x) }\n'
    both.write_text(text + rule("q priority 1"))
    with pytest.raises(OpspliceError, match=r"the MLIR at .*both.splice:4:27 sees two symbols @f") as raised:
        opsplice.compile(MODEL, [both], FLAGS)
    assert "first.splice:1:1" in raised.value.details
    assert "second.splice:1:1" in raised.value.details


def test_functions_that_are_public_keep_their_names(tmp_path: Path) -> None:
    for name, op, code in (("a", "absf", "mulf"), ("b", "exp", "addf")):
        (tmp_path / f"{name}.splice").write_text(spec(op, function(code, visibility="public")))
    with pytest.raises(OpspliceError, match="another spec has put a symbol @f into the program") as raised:
        opsplice.compile(MODEL, [tmp_path / "a.splice", tmp_path / "b.splice"], FLAGS)
    assert "make it private" in str(raised.value.hint)


def test_a_function_with_the_name_of_the_one_that_calls_it(tmp_path: Path) -> None:
    (tmp_path / "main.splice").write_text(spec("exp", function("addf", "main"), "main"))
    with pytest.raises(OpspliceError, match="the program has a symbol @main already"):
        opsplice.compile(MODEL, [tmp_path / "main.splice"], FLAGS)


def test_a_renamed_function_is_not_put_into_itself(two: tuple[Path, Path], tmp_path: Path) -> None:
    """The second @f is @f_1 in the program; it holds an op that its own rule looks for."""
    code = function("addf").replace("arith.addf %x, %x", "math.exp %x")
    (tmp_path / "same.splice").write_text(spec("exp", code))
    program = opsplice.compile(MODEL, [two[0], tmp_path / "same.splice"], FLAGS)
    np.testing.assert_allclose(program.run("main", *VALUES)[1], np.exp(VALUES[1]), rtol=1e-6)
    assert len(program.report.replacements) == 2


EXECUTABLE = """
stream.executable private @e {
  stream.executable.export public @run workgroups() -> (index, index, index) {
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }
  builtin.module {
    func.func @run(%in: !stream.binding, %out: !stream.binding) {
      %c = arith.constant NUMBER : index
      return
    }
  }
}
util.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = flow.dispatch @e::@run(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
"""


def test_executables_of_one_name_and_what_they_export() -> None:
    codes = [load_text(f"mlir {{{EXECUTABLE.replace('NUMBER', n)}}}").codes for n in ("7", "8")]
    with Session().context, ir.Location.unknown():
        module = ir.Module.create()
        for code in (codes[0], codes[1], codes[1], codes[0]):
            raw_symbols.put_into(module, code, brought=())
    text = str(module)
    assert module.operation.verify()
    assert text.count("stream.executable private") == text.count("util.func private") == 2
    assert "flow.dispatch @e::@run(" in text
    assert "flow.dispatch @e_1::@run_1(" in text


def test_functions_of_transform_specs_too(two: tuple[Path, Path], tmp_path: Path) -> None:
    """What a spec of another kind has brought is not a symbol of the program's own."""
    codes = load_text(spec("exp", function("addf"))).codes
    with Session().context, ir.Location.unknown():
        module = ir.Module.parse(function("mulf"))
        with pytest.raises(OpspliceError, match="the program has a symbol @f already"):
            raw_symbols.put_into(module, codes)
        found = raw_symbols.put_into(module, codes, brought={"f"})
    assert found.names[found.blocks[0]] == {"f": "f_1"}
    assert "@f_1(" in str(module)

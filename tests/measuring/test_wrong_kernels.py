"""Kernels that are wrong in the ways that kernels are: verifying names each, and no other."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import opsplice
from opsplice import cli
from opsplice.frontends import ModuleSource
from opsplice.measuring import verifying
from opsplice.measuring.cutting.records import Verification
from opsplice.measuring.verifying import verification
from opsplice.reports.render_verify import verification_text, whole_text
from opsplice.runtime.weights import Arrays
from tests.rewrites.conftest import write_spec

# By the kernel's name: what computes the same, whether it has a workgroup for each row, what verifying says.
KERNELS = {
    "right": ("negf(x)", True, ""),
    "last_row": ("absf(x)", False, "elements are not written"),
    "race": ("mulf(x, x)", True, "workgroups in another order"),
    "race_in_dispatch": ("mulf(x, const(17.0))", True, "workgroups in another order"),
    "race_provided": ("mulf(x, const(19.0))", True, "workgroups in another order"),
    "past_end": ("subf(x, const(1.0))", False, "SIGSEGV"),
    "write_past": ("addf(x, const(1.0))", False, "SIGSEGV"),
    "lost_nan": ("maximumf(x, const(0.0))", False, "nan in input 0: 0"),
    "finite": ("maximumf(x, const(21.0))", False, ""),
    "finite_made": ("maximumf(exp(x), const(23.0))", False, ""),
    "no_stride": ("mulf(x, const(3.0))", False, "wanted"),
    "imprecise": ("divf(x, const(2.0))", False, "wanted"),
    "scribble": ("mulf(x, const(5.0))", False, "SIGSEGV"),
    "scratch": ("mulf(x, const(7.0))", True, "static data, which all workers and calls share"),
    "table": ("mulf(x, const(9.0))", True, ""),
    "adds_to_result": ("mulf(x, const(11.0))", False, "1024 of 1024 elements are made of memory that nobody wrote"),
    "keeps_most": ("mulf(x, const(13.0))", False, "in other memory"),
    "unless_zero": ("mulf(x, const(15.0))", False, "in other memory"),
}
OPS = {
    "right": "%r = arith.negf %x : TYPE",
    "last_row": "%r = math.absf %x : TYPE",
    "race": "%r = arith.mulf %x, %x : TYPE",
    "past_end": "%c = arith.constant dense<1.0> : TYPE\n%r = arith.subf %x, %c : TYPE",
    "write_past": "%c = arith.constant dense<1.0> : TYPE\n%r = arith.addf %x, %c : TYPE",
    "lost_nan": "%c = arith.constant dense<0.0> : TYPE\n%r = arith.maximumf %x, %c : TYPE",
    "finite": "%c = arith.constant dense<21.0> : TYPE\n%r = arith.maximumf %x, %c : TYPE",
    "finite_made": "%c = arith.constant dense<23.0> : TYPE\n%s = math.exp %x : TYPE\n%r = arith.maximumf %s, %c : TYPE",
    "no_stride": "%e = tensor.empty() : TYPE\n"
    "%t = linalg.transpose ins(%x : TYPE) outs(%e : TYPE) permutation = [1, 0]\n"
    "%c = arith.constant dense<3.0> : TYPE\n%r = arith.mulf %t, %c : TYPE",
    "imprecise": "%c = arith.constant dense<2.0> : TYPE\n%r = arith.divf %x, %c : TYPE",
    "scribble": "%c = arith.constant dense<5.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "scratch": "%c = arith.constant dense<7.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "table": "%c = arith.constant dense<9.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "adds_to_result": "%c = arith.constant dense<11.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "keeps_most": "%c = arith.constant dense<13.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "race_in_dispatch": "%c = arith.constant dense<17.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "race_provided": "%c = arith.constant dense<19.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "unless_zero": "%c = arith.constant dense<15.0> : TYPE\n%r = arith.mulf %x, %c : TYPE",
    "nan": "%e = math.exp %x : TYPE\n%c = arith.constant dense<-1.0> : TYPE\n%s = arith.subf %c, %e : TYPE\n"
    "%r = math.log %s : TYPE",
}
TYPE = "tensor<32x32xf32>"
APPROACHES = {"race_in_dispatch": " as dispatch", "race_provided": " as provided"}
# What else is said of a buffer, and what is passed in the place of `x`.
WORDS = {"no_stride": " strided", "finite": " finite", "finite_made": " finite"}
PASSED = {"finite_made": "exp(x)"}


def spec() -> str:
    parts = []
    for name, (pattern, by_row, _) in KERNELS.items():
        grid = "grid (m)\n  " if by_row else ""
        clause = f'cpu "wrong.c"{APPROACHES.get(name, "")}'
        parts.append(f"kernel {name}(x: f32[m, n]{WORDS.get(name, '')}) -> f32[m, n] {{\n  {grid}{clause}\n}}")
        parts.append(f"pattern p_{name}(x: tensor<m x n x f32>) {{ {pattern} }}")
        parts.append(f"replace p_{name} with {name}({PASSED.get(name, 'x')})")
    return "\n".join(parts)


def model(names: Iterable[str] = OPS) -> str:
    return "\n".join(
        f"func.func @{name}(%x: {TYPE}) -> {TYPE} {{\n{ops}\nreturn %r : {TYPE}\n}}".replace("TYPE", TYPE)
        for name, ops in OPS.items()
        if name in names
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


def test_results_that_say_nothing_are_told(found: Verification) -> None:
    (whole,) = [each for each in found.whole if each.function == "nan"]
    assert (whole.lost, whole.difference, whole.reason) == (1.0, 0.0, "")
    told = verification_text(found)
    assert "the whole of @nan: nothing can be said: all its numbers are NaN or infinite" in told
    assert told.count("nothing can be said") == 1
    # Where kernels have numbers, something can be.
    failed = dataclasses.replace(whole, difference=np.inf, off=np.inf, reference_off=0.0)
    assert whole_text(failed).endswith("the two differ by inf; 100% of its numbers are NaN or infinite")


def test_whole_numbers_say_something() -> None:
    assert verification._lost([np.full(3, np.nan, np.float32), np.zeros(1, np.int32)]) == 0.75
    assert verification._lost([]) == 0.0


def test_a_rule_that_fails_is_left_alone_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    rules = spec().split("kernel ")
    chosen = "kernel ".join(["", *(rule for rule in rules if rule.startswith(("right", "imprecise")))])
    (tmp_path / "wrong.splice").write_text(chosen)
    (tmp_path / "model.mlir").write_text(model(("right", "imprecise")))
    monkeypatch.chdir(tmp_path)
    command = ["compile", "model.mlir", "--spec=wrong.splice", "-o", "model.vmfb", "--no-isolate"]
    assert cli.main([*command, "--verify-or-fail"]) == 1
    assert "some rules give wrong numbers" in capsys.readouterr().err
    assert not (tmp_path / "model.vmfb").exists()
    assert cli.main([*command, "--verify"]) == 0
    told = capsys.readouterr().err
    assert "left alone because it fails `opsplice verify`: `replace p_imprecise with imprecise`" in told
    assert "1 replacement\n" in told
    assert (tmp_path / "model.vmfb").exists()


def test_a_command_that_raises_fails_its_match_and_no_other(tmp_path: Path) -> None:
    kernels = {
        "raising": ("negf(x)", 'raise ValueError("not today")'),
        "right": ("absf(x)", "np.abs(x, out=out)"),
        "last_row": ("exp(x)", "out[:-1] = np.exp(x[:-1])"),
        "ending": ("sqrt(x)", "out[...] = x; import os; os._exit(3)"),
    }
    ops = ("arith.negf", "math.absf", "math.exp", "math.sqrt")
    spec = "".join(
        f'kernel {name}(x: f32[m, n]) -> f32[m, n] {{ cpu "host.py" as command }}\n'
        f"pattern p_{name}(x: tensor<m x n x f32>) {{ {pattern} }}\nreplace p_{name} with {name}(x)\n"
        for name, (pattern, _) in kernels.items()
    )
    code = "".join(f"def {name}(x, out):\n    {body}\n" for name, (_, body) in kernels.items())
    path = write_spec(tmp_path, spec, {"host.py": f"import numpy as np\n{code}"})
    module = "\n".join(
        f"func.func @{name}(%x: {TYPE}) -> {TYPE} {{\n%r = {op} %x : {TYPE}\nreturn %r : {TYPE}\n}}"
        for name, op in zip(kernels, ops, strict=True)
    )
    found = opsplice.verify(module, [path], trials=("random",))
    raising, _, last_row, ending = found.verdicts
    assert [verdict.outcome for verdict in found.verdicts] == ["failed", "ok", "failed", "failed"]
    assert last_row.reason == "random: 32 of 1024 elements are not written"
    assert ending.reason == "random: it ends the process (status 3)"
    assert "random: " in raising.reason
    assert "not today" in raising.reason
    assert "not today" in found.whole[0].reason


def test_a_kernel_that_does_not_end_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "void endless(const float *x, float *y, unsigned long m, unsigned long n) { for (volatile int i = 1; i;); }"
    spec = """kernel endless(x: f32[m, n]) -> f32[m, n] { cpu "endless.c" }
    pattern p(x: tensor<m x n x f32>) { negf(x) }
    replace p with endless(x)"""
    path = write_spec(tmp_path, spec, {"endless.c": code})
    impatient = functools.partial(verification.Options, seconds=1)
    monkeypatch.setattr(verifying, "verification", SimpleNamespace(**(vars(verification) | {"Options": impatient})))
    found = opsplice.verify(model(["right"]), [path], trials=("random",))
    assert [(verdict.outcome, verdict.reason) for verdict in found.verdicts] == [
        ("failed", "random: it does not end within 1 s")
    ]
    (whole,) = found.whole
    assert re.fullmatch(r"the program does not end within \d s in @right", whole.reason)


def test_a_match_whose_dims_only_what_is_reshaped_to_its_input_tells_is_run_alone(tmp_path: Path) -> None:
    """Groups of channels: their sums are of 2x2x6 numbers, and the gain says that 6 are 2 channels of 3."""
    spec = """kernel centred(x: f32[b, g, c, w], gain: f32[g, c]) -> f32[b, g, c, w] { cpu "centred.c" }
    pattern p(x: tensor<b x g x c x w x f32>, gain: tensor<g x c x f32>) {
      less = subf(x, broadcast[b g -> b g c w](reduce addf[b g c w -> b g](x)))
      mulf(less, broadcast[g c -> b g c w](gain))
    }
    replace p with centred(x, gain)"""
    code = """#include <stddef.h>
    void centred(const float *x, const float *gain, float *out, size_t b, size_t g, size_t c, size_t w) {
      for (size_t i = 0; i < b * g; i++) {
        float sum = 0;
        for (size_t j = 0; j < c * w; j++) sum += x[i * c * w + j];
        for (size_t j = 0; j < c * w; j++) out[i * c * w + j] = (x[i * c * w + j] - sum) * gain[i % g * c + j / w];
      }
    }"""
    module = """func.func @f(%x: tensor<2x4x3xf32>, %gain: tensor<4xf32>) -> tensor<2x4x3xf32> {
      %row = tensor.collapse_shape %x [[0], [1, 2]] : tensor<2x4x3xf32> into tensor<2x12xf32>
      %groups = tensor.expand_shape %row [[0], [1, 2]] output_shape [2, 2, 6] : tensor<2x12xf32> into tensor<2x2x6xf32>
      %zero = arith.constant dense<0.0> : tensor<2x2xf32>
      %sum = linalg.reduce ins(%groups : tensor<2x2x6xf32>) outs(%zero : tensor<2x2xf32>) dimensions = [2]
        (%in: f32, %acc: f32) { %s = arith.addf %in, %acc : f32 linalg.yield %s : f32 }
      %e = tensor.empty() : tensor<2x2x6xf32>
      %wide = linalg.broadcast ins(%sum : tensor<2x2xf32>) outs(%e : tensor<2x2x6xf32>) dimensions = [2]
      %less = arith.subf %groups, %wide : tensor<2x2x6xf32>
      %back = tensor.collapse_shape %less [[0], [1, 2]] : tensor<2x2x6xf32> into tensor<2x12xf32>
      %first = tensor.expand_shape %back [[0], [1, 2]] output_shape [2, 4, 3] : tensor<2x12xf32> into tensor<2x4x3xf32>
      %f = tensor.empty() : tensor<2x4x3xf32>
      %gains = linalg.broadcast ins(%gain : tensor<4xf32>) outs(%f : tensor<2x4x3xf32>) dimensions = [0, 2]
      %r = arith.mulf %first, %gains : tensor<2x4x3xf32>
      return %r : tensor<2x4x3xf32>
    }"""
    path = write_spec(tmp_path, spec, {"centred.c": code})
    (verdict,) = opsplice.verify(module, [path], trials=("random",)).verdicts
    assert (verdict.outcome, verdict.reason) == ("ok", "")


def test_a_match_whose_result_iree_copies_is_run_alone(tmp_path: Path) -> None:
    path = write_spec(tmp_path, SUM_SPEC, {"sum.c": SUM})
    found = opsplice.verify(SUM_MODEL, [path], trials=("random",))
    (verdict,) = found.verdicts
    assert verdict.outcome == "ok", verdict
    assert found.whole[0].difference < 1e-6


SUM = """
#include <stddef.h>
void add(const float *start, const float *x, const float *w, float *out, size_t m, size_t n, size_t k) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) {
      out[i * n + j] = start[i * n + j];
      for (size_t l = 0; l < k; l++)
        out[i * n + j] += x[i * k + l] * w[l * n + j];
    }
}
"""
SUM_SPEC = """
kernel add(start: f32[m, n], x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "sum.c" }
pattern p(start: tensor<m x n x f32>, x: tensor<m x k x f32>, w: tensor<k x n x f32>) {
  addf(start, contract[m k, k n -> m n](x, w))
}
replace p with add(start, x, w)
"""
SUM_MODEL = """
func.func @main(%s: tensor<8x4xf32>, %x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %q = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%s : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %q : tensor<8x4xf32>
}
"""


def test_a_kernel_may_be_off_by_the_range_that_its_pattern_takes(tmp_path: Path) -> None:
    code = (Path(__file__).parent / "wrong.c").read_text()
    spec = (
        'kernel imprecise(x: f32[m, n]) -> f32[m, n] { cpu "wrong.c" }\n'
        "pattern half(x: tensor<m x n x f32>) { divf(x, const(1.999..2.001)) | divf(x, const(2.9..3.1)) }\n"
        "pattern p(x: tensor<m x n x f32>) { half(x) }\nreplace p with imprecise(x)\n"
    )
    path = write_spec(tmp_path, spec, {"wrong.c": code})
    found = opsplice.verify(model(["imprecise"]), [path], trials=("random",))
    (verdict,) = found.verdicts
    assert verdict.outcome == "ok", verdict
    assert verdict.worst is not None
    assert 2e-4 < (verdict.worst.off or 0) < verdict.worst.limit < 2e-3


def test_denormals_may_count_as_zeros(tmp_path: Path) -> None:
    code = "#include <stddef.h>\nvoid large(const float *x, float *out, size_t m, size_t n) {\n"
    code += "  for (size_t i = 0; i < m * n; i++) out[i] = x[i] * 12000.0f;\n}\n"
    spec = (
        'kernel large(x: f32[m, n]) -> f32[m, n] { cpu "large.c" }\n'
        "pattern p(x: tensor<m x n x f32>) { mulf(x, const(12000.0)) }\nreplace p with large(x)\n"
    )
    path = write_spec(tmp_path, spec, {"large.c": code})
    text = "%c = arith.constant dense<12000.0> : TYPE\n%r = arith.mulf %x, %c : TYPE\nreturn %r : TYPE"
    program = f"func.func @main(%x: TYPE) -> TYPE {{\n{text}\n}}".replace("TYPE", "tensor<8x16xf32>")
    (verdict,) = opsplice.verify(program, [path], trials=("denormals",)).verdicts
    assert verdict.outcome == "ok", verdict


def test_weights_that_a_rule_asks_for_are_constants_alone_too(tmp_path: Path) -> None:
    code = (
        "#include <stddef.h>\nvoid scale(const float *x, const float *w, float *out, size_t m, size_t n) {\n"
        "  for (size_t i = 0; i < m * n; i++) out[i] = x[i] * w[i / n * n + i % n] * 1.001f;\n}\n"
    )
    spec = (
        'kernel scale(x: f32[m, n], w: f32[m, n]) -> f32[m, n] { cpu "scale.c" }\n'
        "pattern p(x: tensor<m x n x f32>, w: tensor<m x n x f32>) { mulf(x, w) }\n"
        "replace p where weight(w) with scale(x, w)\n"
    )
    path = write_spec(tmp_path, spec, {"scale.c": code})
    text = "%w = arith.constant dense<0.5> : TYPE\n%r = arith.mulf %x, %w : TYPE\nreturn %r : TYPE"
    program = f"func.func @main(%x: TYPE) -> TYPE {{\n{text}\n}}".replace("TYPE", "tensor<8x16xf32>")
    (verdict,) = opsplice.verify(program, [path], trials=("random",)).verdicts
    assert verdict.outcome == "failed", verdict
    assert "random: " in verdict.reason


def test_what_must_not_be_weights_are_inputs_alone(tmp_path: Path) -> None:
    code = (
        "#include <stddef.h>\nvoid scale(const float *x, const float *w, float *out, size_t m, size_t n) {\n"
        "  for (size_t i = 0; i < m * n; i++) out[i] = x[i] * w[i];\n}\n"
    )
    spec = (
        'kernel scale(x: f32[m, n], w: f32[m, n]) -> f32[m, n] { cpu "scale.c" }\n'
        "pattern p(x: tensor<m x n x f32>, w: tensor<m x n x f32>) { mulf(x, w) }\n"
        "replace p where not (weight(w) and weight(x)) with scale(x, w)\n"
    )
    path = write_spec(tmp_path, spec, {"scale.c": code})
    program = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %r = arith.mulf %x, %w : tensor<8x16xf32>
      return %r : tensor<8x16xf32>
    }"""
    (verdict,) = opsplice.verify(program, [path], trials=("random",)).verdicts
    assert verdict.outcome == "ok", verdict


def test_weights_alone_are_of_the_form_that_a_pattern_asks_for(tmp_path: Path) -> None:
    code = (
        "#include <stddef.h>\nvoid scale(const float *x, const signed char *w, float *out, size_t m) {\n"
        "  for (size_t i = 0; i < m; i++) out[i] = w[i] > 9 ? 0 : x[i] * w[i];\n}\n"
    )
    spec = (
        'kernel scale(x: f32[m], w: i8[m]) -> f32[m] { cpu "scale.c" }\n'
        "pattern p(x: tensor<m x f32>, w: tensor<m x i8>) where w is andi(_, 15) { mulf(x, sitofp(w) : f32) }\n"
        "replace p where weight(w) with scale(x, w)\n"
    )
    path = write_spec(tmp_path, spec, {"scale.c": code})
    program = """
    func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
      %bytes = arith.constant dense<"0x NUMBERS"> : tensor<32xi8>
      %e = tensor.empty() : tensor<32xi8>
      %nibbles = linalg.map ins(%bytes : tensor<32xi8>) outs(%e : tensor<32xi8>) (%byte: i8, %was: i8) {
        %mask = arith.constant 15 : i8
        %nibble = arith.andi %byte, %mask : i8
        linalg.yield %nibble : i8
      }
      %w = arith.sitofp %nibbles : tensor<32xi8> to tensor<32xf32>
      %r = arith.mulf %x, %w : tensor<32xf32>
      return %r : tensor<32xf32>
    }""".replace(" NUMBERS", "1203" * 16)
    (verdict,) = opsplice.verify(program, [path], trials=("random",)).verdicts
    assert verdict.outcome == "failed", verdict  # by numbers that the program's own weights do not have
    assert "random: " in verdict.reason


def test_places_with_one_location_and_size_are_compared_with_themselves_and_weights_are_known(tmp_path: Path) -> None:
    code = (
        "#include <stddef.h>\nvoid scale(const float *x, const float *w, float *out, size_t m) {\n"
        "  for (size_t i = 0; i < m; i++) out[i] = x[i] * w[i];\n}\n"
    )
    spec = (
        'kernel scale(x: f32[m], w: f32[m]) -> f32[m] { cpu "scale.c" }\n'
        "pattern p(x: tensor<m x f32>, w: tensor<m x f32>) { mulf(x, w) }\nreplace p with scale(x, w)\n"
    )
    path = write_spec(tmp_path, spec, {"scale.c": code})
    program = """
    util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<8xf32>
    util.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %w = util.global.load @w : tensor<8xf32>
      %once = arith.mulf %x, %w : tensor<8xf32> loc(#layer)
      %between = arith.addf %once, %x : tensor<8xf32>
      %twice = arith.mulf %between, %w : tensor<8xf32> loc(#layer)
      util.return %twice : tensor<8xf32>
    }
    #layer = loc("layer.py":7:1)"""
    source = ModuleSource(content=program, parameters=(Arrays({"w": np.arange(8, dtype=np.float32)}),))
    (whole,) = opsplice.verify(source, [path], trials=("program",)).whole
    assert [drift for *_, drift in whole.drift] == [0], "the last of two that compute the same"
    assert whole.note == ""
    assert whole.off is not None
    assert whole.off < 1e-6


def write_twice(folder: Path, element: str) -> Path:
    """A spec for the double of each element, whose kernel computes what `element` says in C."""
    loop = f"for (size_t i = 0; i < n; i++) out[i] = {element};"
    code = f"#include <stddef.h>\nvoid twice(const float *x, float *out, size_t n) {{ {loop} }}\n"
    spec = (
        'kernel twice(x: f32[n]) -> f32[n] { cpu "twice.c" }\n'
        "pattern p(x: tensor<n x f32>) { addf(x, x) }\nreplace p with twice(x)\n"
    )
    return write_spec(folder, spec, {"twice.c": code})


def test_each_function_is_told_its_own_drift(tmp_path: Path) -> None:
    path = write_twice(tmp_path, "x[i] * (n == 8 ? 3 : 2)")
    function = """func.func @NAME(%x: tensor<SIZExf32>) -> tensor<SIZExf32> {
      %y = arith.addf %x, %x : tensor<SIZExf32>
      return %y : tensor<SIZExf32>
    }
    """
    model = "".join(function.replace("NAME", name).replace("SIZE", size) for name, size in (("a", "4"), ("b", "8")))
    first, second = opsplice.verify(model, [path], trials=("program",)).whole
    assert [drift for *_, drift in first.drift] == [0]
    ((place, pattern, drift),) = second.drift
    assert (place.rpartition(":")[0].endswith(":6"), pattern, drift > 0.1) == (True, "p", True)


def test_functions_that_keep_numbers_are_compared_with_f64_in_the_order_of_their_calls(tmp_path: Path) -> None:
    path = write_twice(tmp_path, "x[i] + x[i]")
    function = """func.func @NAME(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = util.global.load @kept : tensor<8xf32>
      %z = arith.mulf %y, %x : tensor<8xf32>
      %s = arith.addf %z, %z : tensor<8xf32>
      util.global.store %s, @kept : tensor<8xf32>
      return %s : tensor<8xf32>
    }
    """
    model = "util.global private mutable @kept = dense<3.0> : tensor<8xf32>\n" + "".join(
        function.replace("NAME", name) for name in ("first", "second")
    )
    for whole in opsplice.verify(model, [path], trials=("program",)).whole:
        assert (whole.note, whole.reason) == ("", "")
        assert whole.off is not None
        assert whole.off < 1e-6

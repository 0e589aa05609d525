"""`opsplice explain` and `opsplice.explain` as users meet them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import opsplice
from tests import command_line

MODEL = """\
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x100xf32>, %b: tensor<100xf32>) -> tensor<4x100xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x100xf32>
  %six = arith.constant dense<6.0> : tensor<4x100xf32>
  %product = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x100xf32>)
      outs(%zero : tensor<4x100xf32>) -> tensor<4x100xf32>
  %empty = tensor.empty() : tensor<4x100xf32>
  %wide = linalg.broadcast ins(%b : tensor<100xf32>) outs(%empty : tensor<4x100xf32>) dimensions = [0]
  %sum = arith.addf %product, %wide : tensor<4x100xf32>
  %capped = arith.maximumf %sum, %six : tensor<4x100xf32>
  return %capped : tensor<4x100xf32>
}
"""
SPEC = """\
kernel k(x: f32[m, k], w: f32[k, n], b: f32[n]) -> f32[m, n] { cpu "k.c" }

pattern linear(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  addf(contract[m k, k n -> m n](x, w), broadcast[n -> m n](b))
}

pattern linear_64(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) where n % 64 == 0 {
  linear(x, w, b)
}

pattern linear_relu(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  maximumf(linear(x, w, b), 0.0)
}

pattern linear_cap(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  maximumf(linear(x, w, b), 6.0)
}

pattern logistic(x: tensor<...m x f32>) {
  divf(1.0, addf(exp(negf(x)), 1.0))
}

replace linear_relu with k(x, w, b)
replace linear_64 with k(x, w, b)
replace linear_cap with k(x, w, b)
replace linear with k(x, w, b)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.mlir").write_text(MODEL)
    (tmp_path / "rules.splice").write_text(SPEC)
    return tmp_path


def explain(
    *arguments: str, cwd: Path, columns: int = 100, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    env = {"COLUMNS": str(columns), **(env or {})}
    return command_line.opsplice("explain", "model.mlir", "--spec=rules.splice", *arguments, cwd=cwd, env=env)


def test_everything_that_rules_use(folder: Path) -> None:
    done = explain(cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (
        done.stdout
        == """\
linear_relu  rules.splice:11:9  no match, 1 near miss

  model.mlir:9:13 in @main: 6 of 7 parts hold
    + maximumf                       arith.maximumf        9:13
    +   addf                         arith.addf            8:10
    +     contract[m k, k n -> m n]  linalg.matmul         4:14
    +       x                        the program's input0
    +       w                        the program's input1
    +     b                          the program's input2
    x   0.0                          arith.constant        3:10

    wanted the constant 0.0, found the constant 6.0
    3 | %six = arith.constant dense<6.0> : tensor<4x100xf32>
      |        ^
    maximumf commutes: both orders were tried
    help: write 6.0 if the kernel computes that, const(a..b) for a range, or an input for any number
    linear_cap matches here

linear_64  rules.splice:7:9  no match, 1 near miss

  model.mlir:8:10 in @main: 5 of 6 parts hold
    + addf                         arith.addf            8:10
    +   contract[m k, k n -> m n]  linalg.matmul         4:14
    +     x                        the program's input0
    +     w                        the program's input1
    +   b                          the program's input2
    x where n % 64 == 0

    wanted n % 64 == 0, found n = 100, not a multiple of 64
    8 | %sum = arith.addf %product, %wide : tensor<4x100xf32>
      |        ^
    help: this is the pattern's own condition: relax it if the kernel can take more
    linear, linear of opsplice:nn, any_linear of opsplice:strided match here

linear_cap  rules.splice:15:9  1 match
  = model.mlir:9:13  (m = 4, k = 16, n = 100) in @main  => k

linear  rules.splice:3:9  1 match
  - model.mlir:8:10  (m = 4, k = 16, n = 100) in @main
      lost: it lies inside a match of rule `replace linear_cap with k`
"""
    )


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_lines_fit_the_terminal(folder: Path, columns: int) -> None:
    shown = explain(cwd=folder, columns=columns).stdout
    long = [line for line in shown.splitlines() if len(line) > columns]
    assert not long
    assert "linear_relu" in shown


def test_one_pattern(folder: Path) -> None:
    done = explain("--pattern=linear_64", cwd=folder)
    assert done.stdout.startswith("linear_64  rules.splice:7:9  no match, 1 near miss\n")
    assert "linear_relu" not in done.stdout


BODY = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.tanh %in : f32
    %2 = math.exp %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("written", ["tanh(x)", '"math.tanh"(x)'])
def test_an_op_that_stands_only_inside_of_another_is_named(tmp_path: Path, written: str) -> None:
    (tmp_path / "body.mlir").write_text(BODY)
    spec = f"pattern p(x: tensor<n x f32>) {{ {written} }}\nannotate p with {{my.tag}}\n"
    (tmp_path / "body.splice").write_text(spec)
    (pattern,) = opsplice.explain(tmp_path / "body.mlir", [tmp_path / "body.splice"]).patterns
    assert "tanh stands in the body of a linalg.generic, at " in pattern.note
    assert pattern.note.endswith("body.mlir:6:10, and is not its result")


def test_a_pattern_that_no_rule_uses(folder: Path) -> None:
    done = explain("--pattern=logistic", cwd=folder)
    assert done.returncode == 0
    assert "the program has no op that the pattern can end with: divf" in done.stdout
    text = SPEC.replace("replace linear with k(x, w, b)\n", "")
    (folder / "rules.splice").write_text(text)
    assert "no rule uses this pattern" in explain("--pattern=linear", cwd=folder).stdout


def test_a_spec_without_rules_is_explained_whole(folder: Path) -> None:
    (folder / "rules.splice").write_text(SPEC[: SPEC.index("replace")])
    shown = explain(cwd=folder).stdout
    assert [n for n in ("linear ", "linear_64 ", "linear_relu ", "linear_cap ") if n in shown] == [
        "linear ",
        "linear_64 ",
        "linear_relu ",
        "linear_cap ",
    ]


def test_pointing_at_a_line(folder: Path) -> None:
    done = explain("--at=model.mlir:4", "--pattern=linear_relu", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("model.mlir:4:14  linalg.matmul\n  4 | %product = linalg.matmul ins(")
    assert "model.mlir:9:13 in @main: 6 of 7 parts hold" in done.stdout


def test_pointing_at_an_op_inside_a_match(folder: Path) -> None:
    done = explain("--at=linalg.matmul#1", "--pattern=linear_cap", cwd=folder)
    assert "linear_cap  rules.splice:15:9  1 match\n" in done.stdout
    assert "wanted" not in done.stdout


def test_pointing_at_what_no_pattern_ends_with(folder: Path) -> None:
    done = explain("--at=linalg.broadcast", "--pattern=linear_64", cwd=folder)
    assert "linear_64" in done.stdout
    text = MODEL.replace("return %capped", "%last = math.tanh %capped : tensor<4x100xf32>\n  return %last")
    (folder / "model.mlir").write_text(text)
    done = explain("--at=math.tanh#1", "--pattern=linear_64", cwd=folder)
    assert "wanted addf, which the pattern ends with, found tanh" in done.stdout


def test_several_specs(folder: Path) -> None:
    (folder / "more.splice").write_text("pattern sum(x: tensor<...m x f32>, y: tensor<...m x f32>) { addf(x, y) }\n")
    done = explain("--spec=more.splice", "--pattern=sum", cwd=folder)
    assert done.stdout.startswith("sum  more.splice:1:9  1 match\n  - model.mlir:8:10  (m = 4x100) in @main\n")
    assert "no rule uses this pattern" in done.stdout


def test_as_json(folder: Path) -> None:
    done = explain("--json", cwd=folder)
    assert done.returncode == 0
    found = {p["pattern"]: p for p in json.loads(done.stdout)["patterns"]}
    assert list(found) == ["linear_relu", "linear_64", "linear_cap", "linear"]
    (miss,) = found["linear_relu"]["misses"]
    assert {k: miss[k] for k in ("kind", "wanted", "found", "function", "location", "tried_both_orders_of")} == {
        "kind": "constant",
        "wanted": "the constant 0.0",
        "found": "the constant 6.0",
        "function": "main",
        "location": "model.mlir:9:13",
        "tried_both_orders_of": "maximumf",
    }
    assert miss["at"]["line"] == "  %six = arith.constant dense<6.0> : tensor<4x100xf32>"
    assert miss["spec_location"] == "rules.splice:12:29"
    assert [p["state"] for p in miss["parts"]] == ["held"] * 6 + ["failed"]
    assert found["linear_64"]["misses"][0]["found"] == "n = 100, not a multiple of 64"
    (lost,) = found["linear"]["matches"]
    assert lost["outcome"] == "lost"
    assert "linear_cap" in lost["reason"]
    assert found["linear_cap"]["matches"][0]["kernel"] == "k"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--pattern=linear_rely"], ["there is no pattern 'linear_rely'", "did you mean linear_relu?"]),
        (["--pattern=zzz"], ["there is no pattern 'zzz'", "the patterns are: linear_relu, linear_64"]),
        (["--at=model.mlir:99"], ["there is no op at model.mlir:99", "the nearest lines"]),
        (["--at=model.mlir"], ["model.mlir is a file", "model.mlir:12"]),
        (["--at=here"], ["cannot tell what 'here' points at"]),
        (["--at=linalg.matmul#2"], ["there is no linalg.matmul#2", "the program has 1 op called linalg.matmul when"]),
        (["--at=linalg.mathmul"], ["the program has no op called linalg.mathmul", "did you mean linalg.matmul#1?"]),
        (["--spec=other.mlir"], ["is not a transform spec"]),
        (["--spec=absent.splice"], ["no such file: absent.splice"]),
    ],
    ids=["near", "far", "line", "file", "nonsense", "number", "name", "transform", "absent"],
)
def test_mistakes(folder: Path, arguments: list[str], wanted: list[str]) -> None:
    (folder / "other.mlir").write_text("module attributes {transform.with_named_sequence} {}\n")
    done = explain(*arguments, cwd=folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for text in wanted:
        assert text in done.stderr
    as_json = explain(*arguments, "--json", cwd=folder)
    assert as_json.returncode == 1
    assert wanted[0].strip() in json.loads(as_json.stdout)["error"]


def test_a_transform_spec_is_explained_as_patterns() -> None:
    sample = Path(__file__).parents[2] / "samples" / "mul_abs_negate"
    done = command_line.opsplice("explain", "model.mlir", "--spec=replace.mlir", cwd=sample, check=True)
    assert "replace.mlir, read as .splice" in done.stdout
    assert "model.mlir:8:13" in done.stdout
    assert "2 matches" in done.stdout


UNREAD = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @m(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["arith.negf"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @n(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.iree.match.has_no_lowering_config %op : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "seen" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    transform.foreach_match in %module @m -> @mark, @n -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_what_of_a_transform_spec_cannot_be_read_is_said(folder: Path) -> None:
    (folder / "unread.mlir").write_text(UNREAD)
    done = explain("--spec=unread.mlir", cwd=folder)
    assert done.returncode == 0
    assert "left out: unread.mlir:7:5: transform.iree.match.has_no_lowering_config" in done.stdout
    as_json = explain("--spec=unread.mlir", "--json", cwd=folder)
    (line,) = json.loads(as_json.stdout)["unread"]
    assert line.startswith("unread.mlir:7:5")


def test_wrong_usage(folder: Path) -> None:
    assert explain("--frob", cwd=folder).returncode == 2


def test_from_python(folder: Path) -> None:
    explanation = opsplice.explain(folder / "model.mlir", [folder / "rules.splice"], pattern="linear_64")
    (told,) = explanation.patterns
    (miss,) = told.misses
    assert miss.reason.kind == "condition"
    assert miss.reason.found == "n = 100, not a multiple of 64"
    assert opsplice.explain(MODEL, [folder / "rules.splice"], at="linalg.matmul#1").pointed[0].op == "linalg.matmul"
    with pytest.raises(opsplice.OpspliceError, match="no pattern 'nope'"):
        opsplice.explain(MODEL, [folder / "rules.splice"], pattern="nope")


def test_a_match_says_how_its_kernel_reads_the_program(folder: Path) -> None:
    """Where it is asked: with --verbose, or pointed at."""
    spec = SPEC.replace("w: f32[k, n], b", "w: f32[n, k] strided, b").replace("w: tensor<k x n", "w: tensor<n x k")
    (folder / "rules.splice").write_text(spec.replace("m k, k n -> m n", "m k, n k -> m n"))
    (folder / "k.c").write_text("void k(void) {}\n")
    view = "      w reads tensor<16x100xf32> of the program's input1, transposed, strides n 1, k 100"
    for asked in ("--verbose", "--at=model.mlir:9"):
        assert view in explain(asked, "--pattern=linear_cap", cwd=folder).stdout.splitlines()
    assert "reads" not in explain("--pattern=linear_cap", cwd=folder).stdout


def test_explaining_changes_no_result(folder: Path) -> None:
    """The matches are those of `opsplice match`, and asking does not change the next answer."""
    (folder / "k.c").write_text("void k(void) {}\n")  # a file that is there is all that a look needs
    before = opsplice.match(folder / "model.mlir", [folder / "rules.splice"])
    told = opsplice.explain(folder / "model.mlir", [folder / "rules.splice"])
    assert opsplice.match(folder / "model.mlir", [folder / "rules.splice"]) == before
    matches = [m for p in told.patterns for m in p.matches]
    assert [(m.pattern, m.location, m.dims, m.reason) for m in matches] == [
        (m.pattern, m.location, m.dims, m.reason) for m in (*before.replacements, *before.kept)
    ]
    assert [m.lost for m in matches] == [False, True]


def test_color_is_for_terminals_only(folder: Path) -> None:
    from opsplice.reports.render_explain import explanation_text

    told = opsplice.explain(folder / "model.mlir", [folder / "rules.splice"])
    plain, colored = (explanation_text(told, width=100, color=color) for color in (False, True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d*m", "", colored) == plain
    assert "\x1b[31mx\x1b[0m" in colored


def test_text_that_would_steer_the_terminal_is_not_passed_on(folder: Path) -> None:
    from opsplice.reports.render_explain import explanation_text

    lines = MODEL.replace("%six = arith", "%six = \x1b[2J arith").splitlines()
    told = opsplice.explain(MODEL, [folder / "rules.splice"], pattern="linear_relu")
    hostile = opsplice.Explanation(told.patterns, told.pointed, {"-:3:10": lines[2]})
    assert "\x1b" not in explanation_text(hostile, width=80, color=False)

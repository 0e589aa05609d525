"""`opsplice lint`: each code's example in the docs, what is denied and allowed, and what other commands show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from opsplice.cli import main
from opsplice.compiling import linting
from opsplice.compiling.spec_files import load_specs
from opsplice.compiling.spec_sources import resolve
from opsplice.spec_lang.linting import lint
from opsplice.spec_lang.linting.lint import CODES
from opsplice.spec_lang.loading.loader import load, load_text

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## ([a-z-]+)( \*)?\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```splice\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = {code: (bool(star), body) for code, star, body in SECTION.findall((ROOT / "docs/lint.md").read_text())}
EXAMPLES = {code: text for code, (_, body) in SECTIONS.items() for text in BLOCK.findall(body)}

CLASH = """\
kernel slow(x: f32[n]) -> f32[n] { cpu "relu.c" }
kernel fast(x: f32[n]) -> f32[n] { cpu "relu.c" }
pattern relu(x: tensor<n x f32>) { maximumf(x, 0.0) }
replace relu with slow(x)
replace relu where n % 8 == 0 with fast(x)
"""


@pytest.fixture
def clash(tmp_path: Path) -> Path:
    (tmp_path / "relu.c").touch()
    (tmp_path / "relu.splice").write_text(CLASH)
    return tmp_path / "relu.splice"


def written(folder: Path, text: str) -> Path:
    """An example as a file, with the files that it names beside it, but for the one that is not to be there."""
    for name in re.findall(r'"(\w+\.c(?:omp)?)"', text):
        (folder / name).touch()
    (folder / "layers.splice").write_text("pattern layer(x: tensor<n x f32>) { exp(x) }")
    path = folder / "example.splice"
    path.write_text(text)
    return path


def test_every_code_has_its_section_and_example():
    assert sorted(SECTIONS) == sorted(CODES)
    assert EXAMPLES.keys() == CODES.keys()


@pytest.mark.parametrize("code", CODES)
def test_the_example_of_a_code_has_just_that_warning(code: str, tmp_path: Path):
    spec = load(written(tmp_path, EXAMPLES[code]))
    assert [found.code for found in linting.findings(spec)] == [code]


@pytest.mark.parametrize("code", CODES)
def test_the_star_marks_what_every_compile_shows(code: str, tmp_path: Path):
    shown = linting.brief(load_specs([written(tmp_path, EXAMPLES[code])]))
    assert [found.code for found in shown] == [code] * SECTIONS[code][0]


def test_a_compile_does_not_look_at_specs_that_are_all_of_libraries(monkeypatch):
    monkeypatch.setattr(linting, "_mistakes", lambda _: pytest.fail("nobody would be shown any"))
    assert linting.brief(load_specs(resolve(["opsplice:nn"]))) == ()


def test_each_pattern_is_walked_once_for_what_it_names(monkeypatch):
    walked, named = [], lint.named
    monkeypatch.setattr(lint, "named", lambda item: walked.append(item) or named(item))
    chain = "".join(f"pattern p{n + 1}(x: tensor<n x f32>) {{ exp(p{n}(x)) }}\n" for n in range(9))
    spec = load_text(f"pattern p0(x: tensor<n x f32>) {{ tanh(x) }}\n{chain}")
    for _ in range(2):
        assert [each.name for each in lint.reached_patterns(spec.patterns["p2"], spec)] == ["p1", "p0"]
    assert sorted(each.name for each in walked) == sorted(spec.patterns)


def test_the_output_at_the_top_of_the_docs(clash: Path, monkeypatch, capsys):
    monkeypatch.chdir(clash.parent)
    assert main(["lint", "relu.splice"]) == 0
    shown = re.search(r"^\$ opsplice lint relu.splice\n(.*?)^```", (ROOT / "docs/lint.md").read_text(), re.S | re.M)
    assert shown is not None
    assert capsys.readouterr().out == shown[1]


def test_the_samples_are_free_of_warnings(capsys):
    specs = [str(path) for path in sorted((ROOT / "samples").glob("*/*.splice"))]
    assert len(specs) > 1
    assert main(["lint", *specs, "--deny", "all"]) == 0
    assert capsys.readouterr().out == f"nothing found in {len(specs)} files\n"


@pytest.mark.parametrize(
    ("flags", "exit_code", "severities"),
    [
        ([], 0, ["warning"]),
        (["--deny", "all"], 1, ["error"]),
        (["--deny", "never-matches,unreachable-rule"], 1, ["error"]),
        (["--deny", "never-matches"], 0, ["warning"]),
        (["--deny", "all", "--allow", "unreachable-rule"], 0, []),
        (["--allow", "all", "--deny", "unreachable-rule"], 1, ["error"]),
        (["--allow", "all"], 0, []),
    ],
)
def test_denying_and_allowing(clash: Path, capsys, flags, exit_code, severities):
    assert main(["lint", str(clash), "--json", *flags]) == exit_code
    found = json.loads(capsys.readouterr().out)
    assert [f["severity"] for f in found["findings"]] == severities
    assert (found["errors"], found["warnings"]) == (severities.count("error"), severities.count("warning"))


def test_a_finding_as_json(clash: Path, capsys):
    main(["lint", str(clash), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["file"], found["line"], found["column"]) == ("unreachable-rule", str(clash), 5, 9)
    assert found["text"] == "relu"
    assert found["notes"] == [{"at": f"{clash}:4:9", "message": "which is here"}]


def test_a_code_that_is_none_is_wrong_usage(clash: Path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["lint", str(clash), "--deny", "unreachable-rules"])
    assert left.value.code == 2
    assert "did you mean unreachable-rule?" in capsys.readouterr().err


def test_errors_are_shown_with_the_findings_of_other_files(clash: Path, tmp_path: Path, capsys):
    broken = tmp_path / "broken.splice"
    broken.write_text("pattern p(x: tensor<n x f32>) { expp(x) }")
    assert main(["lint", str(broken), str(clash)]) == 1
    out = capsys.readouterr().out
    assert "error: unknown op or pattern expp" in out
    assert out.endswith("1 error and 1 warning in 2 files\n")
    assert main(["lint", str(tmp_path / "nosuch.splice")]) == 1
    assert main(["lint", str(tmp_path / "spec.mlir")]) == 1


def test_a_transform_spec_is_linted_as_patterns(capsys):
    sample = Path(__file__).parents[2] / "samples" / "mul_abs_negate"
    assert main(["lint", str(sample / "replace.mlir")]) == 0
    assert capsys.readouterr().out == "nothing found in 1 file\n"


def test_match_shows_the_warnings_of_its_specs(clash: Path, tmp_path: Path, capsys):
    model = tmp_path / "model.mlir"
    model.write_text("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }")
    assert main(["match", str(model), "--spec", str(clash), "--no-isolate"]) == 0
    assert "warning[unreachable-rule]: this rule is never reached" in capsys.readouterr().out
    assert main(["match", str(model), "--spec", str(clash), "--no-isolate", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["spec_warnings"]
    assert (found["code"], found["at"]) == ("unreachable-rule", f"{clash}:5:9")


def test_match_says_that_a_spec_has_no_rule(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }")
    Path("idle.splice").write_text("pattern p(x: tensor<n x f32>) { exp(x) }")
    assert main(["match", "model.mlir", "--spec=idle.splice", "--no-isolate"]) == 0
    assert "warning: idle.splice has no rule, so it replaces nothing" in capsys.readouterr().out


STRIDES = """\
import "opsplice:nn"
kernel conv(x: f32[n, c, h, w], filter: f32[f, c, kh, kw], bias: f32[f]) -> f32[n, f, 8, 8] {{ cpu "relu.c" }}
kernel any(x: f32[n, c, h, w], filter: f32[f, c, kh, kw], bias: f32[f], sh: index, sw: index) -> f32[n, f, 8, 8] {{
  cpu "relu.c"
}}
pattern layer(x: tensor<n x c x h x w x f32>, filter: tensor<f x c x kh x kw x f32>, bias: tensor<f x f32>) {{
  relu(conv2d(x, filter, bias))
}}
replace {}
"""


@pytest.mark.parametrize(
    ("rule", "untold"),
    [
        ("conv2d with conv(x, filter, bias)", "sh, dh, sw and dw, and"),
        ("conv2d with any(x, filter, bias, sh, sw)", "dh and dw, and"),
        ("conv2d where dh == 1 and dw == 1 with any(x, filter, bias, sh, sw)", None),
        ("conv2d where sh * dh * sw * dw == 1 with conv(x, filter, bias)", None),
        ("layer with conv(x, filter, bias)", "of conv2d, which layer uses for any"),
    ],
)
def test_a_kernel_is_told_how_its_window_steps(rule: str, untold: str | None, tmp_path: Path):
    spec = load(written(tmp_path, STRIDES.format(rule)))
    messages = [found.message for found in linting.brief([spec]) if found.code == "untold-stride"]
    assert len(messages) == (untold is not None)
    assert untold is None or untold in messages[0]


@pytest.mark.parametrize(
    ("clause", "count"),
    [("when Float64", 0), ("when float16", 1), ("when SomethingNew", 0), ("when Int64 and Intt8", 1)],
)
def test_only_what_is_nearly_a_feature_is_called_unknown(tmp_path: Path, clause: str, count: int):
    text = EXAMPLES["unknown-feature"].replace("when Flaot64", clause)
    found = linting.findings(load(written(tmp_path, text)))
    assert [each.code for each in found] == ["unknown-feature"] * count
    assert all((each.help or "").startswith("did you mean") for each in found)


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("cpu when avx512f and fma", None),
        ("cpu when avx512vbmi2", None),
        ("cpu when avx51f", "did you mean avx512f?"),
        ("cpu x86_64 when sse42", "did you mean sse4.2?"),
        ("cpu when zvfh", None),
        ("cpu x86_64 when dotprodd", None),
        ("cpu aarch64 when dotprodd", "did you mean dotprod?"),
    ],
)
def test_a_misspelt_feature_of_cpus(tmp_path: Path, clause: str, said: str | None):
    text = EXAMPLES["unknown-feature"].replace("vulkan when Flaot64", clause).replace(".comp", ".c")
    (tmp_path / "doubles.c").touch()
    found = linting.findings(load(written(tmp_path, text)))
    assert [(each.code, each.help) for each in found] == ([] if said is None else [("unknown-feature", said)])


@pytest.mark.parametrize(
    ("parameters", "condition", "warned"),
    [
        ("<T in {f32}>(x: tensor<n x T>)", "bits(T) == 16", True),
        ("<T in {f32, f16}>(x: tensor<n x T>)", "bits(T) == 16", False),
        ("<T in {f32, f16}>(x: tensor<n x T>)", "T in {bf16} or bits(T) > 32", True),
        ("<T in {f32, f16}>(x: tensor<n x T>)", "bits(T) * 2 > 64", True),
        ("<T in {f32, f16}>(x: tensor<n x T>)", "not T in {f32, f16}", True),
        ("<T>(x: tensor<n x T>)", "bits(T) == 16", False),
        ("(x: tensor<n x f32>)", "only(x) and shared(x)", True),
        ("(x: tensor<n x f32>)", "only(x) or shared(x)", False),
        ("(x: tensor<n x f32>)", "weight(x) and not weight(x)", True),
        ("(x: tensor<n x f32>)", "x is exp(_) and n > 4 and x is not exp( _ )", True),
        ("(x: tensor<n x f32>)", "x is exp(_) and x is not tanh(_)", False),
    ],
)
def test_conditions_that_contradict_each_other(parameters: str, condition: str, warned: bool, tmp_path: Path):
    path = tmp_path / "spec.splice"
    path.write_text(f"pattern p{parameters} where {condition} {{ cos(x) }}\nannotate p with {{a.b}}\n")
    assert ("never-matches" in [found.code for found in linting.findings(load(path))]) == warned


@pytest.mark.parametrize("body", ["cos(x | addf(y, y))", "copysign?(cos(x), y)", "q(x, y)"])
def test_conditions_on_what_a_match_may_lack_contradict_nothing(body: str, tmp_path: Path):
    path = tmp_path / "spec.splice"
    used = "pattern q(x: tensor<n x f32>, y: tensor<n x f32>) { tanh(x | y) }\n" if body.startswith("q") else ""
    parameters = "(x: tensor<n x f32>, y: tensor<n x f32>) where only(y) and shared(y)"
    path.write_text(f"{used}pattern p{parameters} {{ {body} }}\nannotate p with {{a.b}}\n")
    assert "never-matches" not in [found.code for found in linting.findings(load(path))]


@pytest.mark.parametrize(
    ("kind", "constant", "why"),
    [
        ("f32", "1e39", "no f32 is 1e39"),
        ("f32", "const(1e39)", "no f32 is 1e39"),
        ("f32", "const(-1e39)", "no f32 is -1e39"),
        ("f32", "const(1e300 * 1e300)", "no f32 is 1e300 * 1e300"),
        ("f64", "const(1e300 * 1e300)", "no f64 is 1e300 * 1e300"),
        ("f32", "const(1e39..1e40)", "no f32 is from 1e39 to 1e40"),
        ("f16", "70000.0", "no f16 is 70000.0"),
        ("T", "70000.0", None),
        ("U", "70000.0", "no U is 70000.0"),
        ("f64", "1e39", None),
        ("f16", "65510.0", None),
        ("f32", "inf", None),
        ("f32", "const(1e39..inf)", None),
        ("f32", "const(-1e39..1e39)", None),
        ("f32", "const(1e39 / n)", None),
        ("i8", "256", "no i8 is 256"),
        ("i8", "255", None),
        ("index", "-2", None),
    ],
)
def test_constants_that_their_type_does_not_hold(kind: str, constant: str, why: str | None, tmp_path: Path):
    path = tmp_path / "spec.splice"
    op = "addi" if kind in ("i8", "index") else "addf"
    head = f"pattern p<T in {{f16, f32}}, U in {{f16}}>(x: tensor<n x {kind}>)"
    found: list[list[str]] = []
    for part in (f"{op}(x, {constant})", f"{op}(x, x) | {op}(x, {constant})"):
        path.write_text(f"{head} {{ {part} }}\nannotate p with {{a.b}}\n")
        found.append([each.message for each in linting.findings(load(path)) if each.code == "never-matches"])
        assert [each.message for each in linting.brief([load(path)])] == found[-1]
    assert found == [[] if why is None else [f"pattern p can never match: {why}"], []]


@pytest.mark.parametrize(
    ("result", "phase", "warned"),
    [
        ("absf(negf(x))", "flow", True),
        ("y = exp(x) y | tanh(x)", "dispatch-creation", True),
        ("inner(x)", "flow", True),
        ("absf(x)", "global-optimization", False),
        ('"flow.dispatch"(x) : tensor<n x f32>', "flow", False),
        ('absf(x) | "flow.dispatch"(x) : tensor<n x f32>', "flow", False),
    ],
)
def test_computations_are_not_looked_for_where_they_lie_in_dispatches(
    result: str, phase: str, warned: bool, tmp_path: Path
):
    path = tmp_path / "spec.splice"
    path.write_text(
        "pattern inner(x: tensor<n x f32>) { cos(x) }\n"
        f"pattern p(x: tensor<n x f32>) {{ {result} }}\nreplace p at {phase} with inner(x)\n"
    )
    assert ("never-applies" in [found.code for found in linting.findings(load(path))]) == warned

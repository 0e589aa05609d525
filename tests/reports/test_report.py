"""What `match` and `compile` say of rules and matches: what is replaced, kept or lost, and how long the text may be."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import opsplice
from opsplice import cli
from opsplice.reports.render import columns, report_text
from opsplice.reports.report import ArtifactUse, Miss, Replacement, Report, SpecWarning, UnmatchedRule

MODEL = """func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = math.exp %x : tensor<8xf32>
  %1 = arith.negf %0 : tensor<8xf32>
  %2 = math.sqrt %x : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}
"""
SPEC = """kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
kernel other(x: f32[n]) -> f32[n] { cpu aarch64 "k.c" }
pattern larger(x: tensor<n x f32>) { negf(exp(x)) }
pattern smaller(x: tensor<n x f32>) { exp(x) }
pattern root(x: tensor<n x f32>) { sqrt(x) }
pattern none(x: tensor<n x f32>) { negf(exp(tanh(x))) }
replace larger with k(x)
replace smaller with k(x)
replace root with other(x) otherwise keep
replace none with k(x)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.mlir").write_text(MODEL)
    (tmp_path / "s.splice").write_text(SPEC)
    (tmp_path / "k.c").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_replaced_kept_and_lost_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["match", "m.mlir", "--spec=s.splice", "--json", "--no-isolate"]) == 0
    found = json.loads(capsys.readouterr().out)
    outcomes = {m["pattern"]: (m["outcome"], "reason" in m) for m in found["matches"]}
    assert outcomes == {"larger": ("replaced", False), "smaller": ("lost", True), "root": ("kept", True)}

    report = opsplice.match("m.mlir", ["s.splice"])
    assert report_text(report, verbose=False, color=False, near=True).splitlines() == [
        "1 replacement",
        "  m.mlir:3:8  larger(n = 8) in @main  => k from k.c",
        "1 match kept as the compiler's own code",
        "  m.mlir:4:8  root(n = 8) in @main: kernel other has no artifact for llvm-cpu embedded-elf-x86_64",
        "1 match lost to other rules, shown with --verbose",
        "warning: s.splice:10:1: `replace none with k` matched nothing",
        "  nearest: m.mlir:3:8 in @main: wanted tanh, found the program's input0 (the pattern: s.splice:6:45)",
        "help: `opsplice explain` shows how far a pattern goes and what to change",
    ]
    verbose = report_text(report, verbose=True, color=False).splitlines()
    assert verbose[verbose.index("1 match lost to other rules") + 1] == (
        "  m.mlir:2:8  smaller(n = 8) in @main: it lies inside a match of rule `replace larger with k`"
    )


def test_what_is_only_annotated_or_printed_is_no_replacement(folder: Path) -> None:
    (folder / "marks.splice").write_text("pattern p(x: tensor<n x f32>) { exp(x) }\nannotate p with {my.tag}\n")
    (folder / "print.mlir").write_text(PRINT)
    report = opsplice.match("m.mlir", ["s.splice", "marks.splice", "print.mlir"])
    text = report_text(report, verbose=False, color=False, near=False)
    assert text.splitlines()[0] == "1 replacement, 1 annotation, 1 other action"
    assert "  m.mlir:4:8  print.mlir: @root -> @show in @main  => @show" in text
    assert [each["outcome"] for each in report.to_json()["matches"]][:3] == ["replaced", "annotated", "taken"]


PRINT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @root(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["math.sqrt"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @show(%op: !transform.any_op {transform.readonly}) {
    transform.print %op : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @root -> @show : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def _replacement(**given: object) -> Replacement:
    return Replacement("replace p with k", "s:1:1", "p", "main", "m:1:1", {}, "k", "static function", **given)  # type: ignore[arg-type]


def test_what_a_condition_leaves_is_lost_where_another_rule_takes_its_place(folder: Path) -> None:
    larger, smaller = "replace larger with k(x)\n", "replace smaller with k(x)\n"
    conditional = " where n % 3 == 0 with"
    for rules in (smaller.replace(" with", conditional) + larger, larger.replace(" with", conditional) + smaller):
        (folder / "s.splice").write_text(SPEC[: SPEC.index("replace larger")] + rules)
        report = opsplice.match("m.mlir", ["s.splice"])
        assert len(report.replacements) == 1
        assert [each.outcome for each in report.kept] == ["lost"]
        assert re.search(r"condition.*; (it lies inside|rule .* replaces a part)", report.kept[0].reason)


def test_many_lost_matches_are_one_line() -> None:
    lost = [_replacement(reason="it lies inside a match of rule `r`", lost=True)] * 81
    report = Report(replacements=(_replacement(),) * 21, kept=tuple(lost))
    lines = report_text(report, verbose=False, color=False, near=True).splitlines()
    assert lines[:2] == ["21 replacements", "  m:1:1 x21  p() in @main  => k"]
    assert lines[-1] == "81 matches lost to other rules, shown with --verbose"
    assert len(report_text(report, verbose=True, color=False).splitlines()) == 1 + 1 + 1 + 1


def test_many_rules_without_a_match_are_cut_and_those_that_come_near_go_first() -> None:
    miss = Miss("main", "m:1:1", "exp", "tanh", "s:2:2")
    rules = [UnmatchedRule(f"replace p{i} with k", f"s:{i}:1", f"p{i}", (miss,) * (i > 90)) for i in range(100)]
    report = Report(unmatched=tuple(rules))
    lines = report_text(report, verbose=False, color=False).splitlines()
    assert len(lines) == 1 + 2 * 8 + 2
    assert lines[1:3] == [
        "warning: s:91:1: `replace p91 with k` matched nothing",
        "  nearest: m:1:1 in @main: wanted exp, found tanh (the pattern: s:2:2)",
    ]
    assert "  and 92 more rules matched nothing, shown with --verbose" in lines
    verbose = report_text(report, verbose=True, color=False)
    assert verbose.count("matched nothing, and nothing comes near it") == 91
    unlooked = Report(unmatched=tuple(dataclasses.replace(rule, looked=False) for rule in rules[:9]))
    assert "comes near" not in report_text(unlooked, verbose=True, color=False)


def test_rules_of_libraries_that_come_near_nothing_are_counted() -> None:
    rules = [UnmatchedRule(f"replace p{i} with k", f"s:{i}:1", f"p{i}", library="acme") for i in range(40)]
    text = report_text(Report(unmatched=tuple(rules)), verbose=False, color=False)
    assert text.splitlines()[1:] == [
        "40 rules of libraries matched nothing, shown with --verbose",
        "help: `opsplice survey` lists what the program computes, and which patterns hold in it",
    ]
    near = dataclasses.replace(rules[0], nearest=(Miss("main", "m:1:1", "exp", "tanh", "s:2:2"),))
    text = report_text(Report(unmatched=(near, *rules[1:])), verbose=False, color=False)
    assert "nearest: m:1:1" in text
    assert "and 39 more rules matched nothing" in text

    nearer = dataclasses.replace(
        near, nearest=(dataclasses.replace(near.nearest[0], progress=0.5),), rule_location="s:1"
    )
    text = report_text(Report(unmatched=(near, nearer)), verbose=False, color=False)
    assert [line.partition(" `")[0] for line in text.splitlines()[1:4:2]] == ["warning: s:1:", "warning: s:0:1:"]


def test_rows_that_are_too_wide_for_the_terminal_are_broken_before_the_kernel() -> None:
    report = Report(replacements=(_replacement(),))
    assert report_text(report, verbose=False, color=False, width=20).splitlines()[1:] == [
        "  m:1:1  p() in @main",
        "    => k",
    ]
    assert report_text(report, verbose=False, color=False, width=26).splitlines()[1:] == ["  m:1:1  p() in @main  => k"]
    assert columns(io.StringIO()) is None


def test_files_of_packages_and_many_sizes_are_told_in_short() -> None:
    sizes = {"sh": 1, "n": 1, "c": 16, "h": 128, "w": 128, "o": 10, "kh": 11, "kw": 11, "oh": 118, "ow": 118}
    at = "/usr/lib/python3/site-packages/torch/nn/conv.py:9"
    done = dataclasses.replace(_replacement(), location=at, pattern="filtered", dims=sizes)
    text = report_text(Report((done,), ()), verbose=False, color=False)
    assert "  .../nn/conv.py:9  filtered(c = 16, h = 128, w = 128, o = 10, kh = 11, kw = 11, ...) in @main" in text


def test_dir_lists_the_api() -> None:
    assert {"compile", "capture", "explain", "match", "Program", "__version__"} <= set(dir(opsplice))
    for frontend in ("torch", "jax", "onnx"):
        pytest.importorskip(frontend, reason=f"{frontend} is not installed (make frontends)")
    assert all(hasattr(opsplice, name) for name in dir(opsplice))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ([], ["opsplice capture model.mlir", "Exit codes: 0 done, 1 an error, 2 wrong usage, 130 interrupted."]),
        (["match"], ["A near miss is a place in the model where a part of a pattern holds", "lost to another rule"]),
        (["explain"], ["A near miss is a place", "docs/explain.md says how to read it."]),
        (["compile"], ["--target TARGET,...", "cpu (this machine's), x86_64", "as cuda:sm_80"]),
        (["kernel", "plugin"], [".sos for CPUs of any system"]),
    ],
)
def test_help_is_in_plain_words_and_fits_a_terminal(
    command: list[str], told: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(part in " ".join(text.split()) for part in told)
    assert max(map(len, text.splitlines())) <= 80


def test_without_a_command_there_is_help_and_the_exit_code_of_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "A first look:" in said.err


@pytest.mark.usefixtures("folder")
def test_a_command_in_a_process_that_has_the_compiler_loaded_does_not_fork(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import iree.compiler  # noqa: F401

    def fork() -> int:
        raise AssertionError("its threads would be gone in the child, and their locks held")

    monkeypatch.setattr("os.fork", fork)
    assert cli.main(["match", "m.mlir", "--spec=s.splice"]) == 0
    assert capsys.readouterr().out.startswith("1 replacement\n")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--targt=cuda", "error: opsplice match takes no --targt=cuda\nhelp: did you mean --target=cuda?\n"),
        ("other.mlir", "error: opsplice match takes no other.mlir\n"),
    ],
)
def test_an_argument_that_a_command_does_not_take(argument: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["match", "m.mlir", "--spec=s.splice", argument])
    assert stopped.value.code == 2
    assert capsys.readouterr() == ("", said)


def test_few_patterns_are_named_where_there_is_none_of_a_name(folder: Path) -> None:
    """Those of rules first, not the hundreds of a library."""
    (folder / "s.splice").write_text(f'import "opsplice:nn"\n{SPEC}')
    with pytest.raises(opsplice.OpspliceError) as failure:
        opsplice.explain("m.mlir", ["s.splice"], pattern="qqqq")
    assert failure.value.hint is not None
    assert failure.value.hint.startswith("the patterns are: larger, smaller, root, none, softmax, ")
    assert failure.value.hint.endswith(" more")
    assert len(failure.value.hint) < 250


@pytest.mark.usefixtures("folder")
def test_what_python_prints_is_what_a_terminal_shows_but_for_options() -> None:
    report = opsplice.match("m.mlir", ["s.splice"])
    shown = report_text(report, verbose=False, color=False)
    assert str(report).splitlines() == [line.removesuffix(", shown with --verbose") for line in shown.splitlines()]
    assert str(report) != shown
    explanation = opsplice.explain("m.mlir", ["s.splice"])
    assert str(explanation).startswith("larger  s.splice:3:9  1 match\n")
    assert "--verbose" not in str(explanation) + explanation._repr_html_()


class _Page(HTMLParser):
    """The texts of a page's cells, what is not closed, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "title"}
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


@pytest.mark.usefixtures("folder")
def test_a_notebook_shows_matches_as_a_table() -> None:
    report = opsplice.match("m.mlir", ["s.splice"])
    text = report._repr_html_()
    assert _Page(text).rows == [
        ["where", "pattern", "dims", "kernel", "outcome"],
        ["m.mlir:3:8", "larger", "n = 8", "k from k.c", "replaced"],
        [
            "m.mlir:4:8",
            "root",
            "n = 8",
            "other",
            "keptkernel other has no artifact for llvm-cpu embedded-elf-x86_64",
        ],
        ["where", "pattern", "dims", "kernel", "outcome"],
        [
            "m.mlir:2:8",
            "smaller",
            "n = 8",
            "k",
            "lostit lies inside a match of rule `replace larger with k`",
        ],
    ]
    assert "<summary>1 lost to other rules</summary>" in text
    assert "warning: s.splice:10:1: `replace none with k` matched nothing</pre>" in text
    program = opsplice.Program(b"x" * 1234, report, ("warning: <b>",))._repr_html_()
    head = "<p><b>opsplice.Program</b> of 1,234 bytes</p>\n<details><summary>1 replacement</summary>"
    assert program.startswith(head)
    assert program.endswith("warning: &lt;b&gt;</pre>")
    assert "None" not in opsplice.Program(b"", None)._repr_html_()


def test_names_of_others_are_no_html() -> None:
    bad = "<script>\"'&"
    use = ArtifactUse("t", f"/{bad}.c", "", "object", "", notes=(f"{bad} note",))
    match = Replacement(bad, bad, bad, bad, bad, {bad: [1, None]}, bad, "static function", artifacts=(use,))
    kept = dataclasses.replace(match, action="keep", reason=bad)
    rule = UnmatchedRule(bad, bad, bad, (Miss(bad, bad, bad, bad, bad),))
    warning = SpecWarning("c", bad, bad, bad)
    report = Report((match,), (kept, dataclasses.replace(kept, lost=True)), (rule,), (bad,), (warning,))
    for text in (report._repr_html_(), opsplice.Program(b"", report, (bad,))._repr_html_()):
        assert "script" not in _Page(text).tags
        assert text.count("&lt;script&gt;") > 10

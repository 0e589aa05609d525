"""The command line as a user meets it: a process, its output and its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from opsplice import cli
from opsplice.commands.arguments.command_table import COMMANDS, GROUPS
from opsplice.reports import render
from tests.command_line import opsplice

INPUTS = ["--input=5xf32=7", "--input=5xf32=4", "--input=10xf32=-4", "--input=10xf32=3"]
RESULTS = ["result[0]: 5xf32=-27 -27 -27 -27 -27", "result[1]: 10xf32=" + " ".join(["-11"] * 10)]


@pytest.fixture
def sample(tmp_path: Path, samples: Path) -> Path:
    """A folder with the first sample, to write into."""
    return Path(shutil.copytree(samples / "mul_abs_negate", tmp_path / "sample"))


def assert_clean_error(done: subprocess.CompletedProcess[str], *wanted: str, code: int = 1) -> None:
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") >= 1
    for text in wanted:
        assert text in done.stderr


# ---- compile and run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["replace.splice", "replace.mlir"])
def test_compile_then_run(sample: Path, spec: str) -> None:
    compiled = opsplice("compile", "model.mlir", f"--spec={spec}", "-o", "model.vmfb", cwd=sample)
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stdout == ""
    assert "2 replacements" in compiled.stderr
    assert "model.mlir:8:13" in compiled.stderr
    assert "model.mlir:11:21" in compiled.stderr
    ran = opsplice("run", "model.vmfb", "--function=mixed_invocation", *INPUTS, cwd=sample)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == RESULTS


def test_what_is_said_of_a_compile_does_nothing_for_a_vmfb(sample):
    (sample / "model.vmfb").write_bytes(b"not looked at")
    for option in ("--spec=replace.splice", "--target=x86_64", "--require-match", "--iree-opt-level=O1"):
        ran = opsplice("run", "model.vmfb", option, cwd=sample)
        name = option if option.startswith("--iree") else option.partition("=")[0]
        assert f"error: model.vmfb is compiled already, so {name} would have no effect" in ran.stderr, ran.stderr
        assert ran.returncode == 1


def test_run_compiles_a_model(sample: Path) -> None:
    done = opsplice("run", "model.mlir", "--spec=replace.splice", *INPUTS, cwd=sample)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == RESULTS


def test_without_a_spec_the_program_is_the_compilers_own(sample: Path) -> None:
    done = opsplice("run", "model.mlir", *INPUTS, cwd=sample)
    assert done.stdout.splitlines() == [r.replace("-27", "-28").replace("-11", "-12") for r in RESULTS]


def test_run_reads_and_saves_npy(sample: Path) -> None:
    np.save(sample / "x.npy", np.full(5, 7, np.float32))
    arguments = ["run", "model.mlir", "--spec=replace.splice", "--input=@x.npy", *INPUTS[1:], "--output=@out/"]
    (sample / "out").mkdir()
    done = opsplice(*arguments, cwd=sample)
    assert done.returncode == 0, done.stderr
    saved = sorted((sample / "out").glob("*.npy"))
    assert len(saved) == 2
    np.testing.assert_array_equal(np.load(saved[0]), np.full(5, -27, np.float32))


def test_run_as_json(sample: Path) -> None:
    done = opsplice("run", "model.mlir", "--spec=replace.splice", "--json", *INPUTS, cwd=sample)
    found = json.loads(done.stdout)
    assert found["results"] == [r.partition(": ")[2] for r in RESULTS]
    assert len(found["matches"]) == 2


def test_a_kernel_that_crashes_is_an_error(sample: Path) -> None:
    source = (sample / "functions.c").read_text()
    (sample / "functions.c").write_text(source.replace("out[i] = ", "*(volatile float *)(i + 1) = "))
    done = opsplice("run", "model.mlir", "--spec=replace.splice", *INPUTS, cwd=sample)
    assert_clean_error(done, "the program crashed (SIGSEGV)", "--no-isolate")


DEADLY = {
    "deep": f"module attributes {{a = {'[' * 60_000}",
    "no list": """func.func @f(%a: tensor<4xf32>, %e: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = linalg.broadcast ins(%a : tensor<4xf32>) outs(%e : tensor<2x4xf32>) dimensions = 0""",
}


@pytest.mark.parametrize("model", DEADLY)
def test_a_model_that_mlirs_parser_dies_of_is_an_error(sample: Path, model: str) -> None:
    (sample / "model.mlir").write_text(DEADLY[model])
    done = opsplice("match", "model.mlir", "--spec=replace.splice", cwd=sample)
    assert_clean_error(done, "the compiler crashed", "(SIGSEGV)")


PRINTING = """
import os
print("at import")
def k(given, out=None):
    print("when called")
    os.system("echo by a child")
    if out is not None:
        out[...] = -given
    else:
        head = "#include <stddef.h>\\nvoid " + given.name
        return head + "(const float *a, float *out, size_t n) { while (n--) out[n] = -a[n]; }", ".c"
"""


@pytest.mark.parametrize("form", ["generated", "command"])
def test_what_a_users_code_prints_goes_to_stderr(tmp_path: Path, form: str) -> None:
    (tmp_path / "k.py").write_text(PRINTING)
    (tmp_path / "m.mlir").write_text(
        "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = arith.negf %a : tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}"
    )
    (tmp_path / "s.splice").write_text(
        f'kernel k(a: f32[n]) -> f32[n] {{ cpu "k.py" as {form} }}\n'
        "pattern p(a: tensor<n x f32>) { negf(a) }\nreplace p with k(a)\n"
    )
    for isolated in ([], ["--no-isolate"]):
        done = opsplice("run", "m.mlir", "--spec=s.splice", "--input=2xf32=1,2", "--json", *isolated, cwd=tmp_path)
        assert json.loads(done.stdout)["results"] == ["2xf32=-1 -2"]
        for text in ("at import", "when called", "by a child"):
            assert text in done.stderr
        command = [sys.executable, "-m", "opsplice", "compile", "m.mlir", "--spec=s.splice", "-o", "-", *isolated]
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout.startswith(b"PK")


def test_several_specs_apply_in_order(sample: Path) -> None:
    arguments = ["--spec=replace.splice", "--spec=replace.mlir"]
    done = opsplice("compile", "model.mlir", *arguments, "-o", "m.vmfb", "--json", cwd=sample)
    found = json.loads(done.stdout)
    assert [m["action"] for m in found["matches"]] == ["static function", "static function"]
    assert {u["pattern"] for u in found["unmatched_rules"]} == {"match_on_tensors", "match_in_generic"}


def test_the_second_compile_builds_nothing(sample: Path, tmp_path: Path) -> None:
    env = {"OPSPLICE_CACHE": str(tmp_path / "cache")}
    arguments = ["compile", "model.mlir", "--spec=replace.splice", "-o", "m.vmfb", "--json"]
    built = []
    for _ in range(2):
        found = json.loads(opsplice(*arguments, cwd=sample, env=env).stdout)
        built.append([a["built"] for m in found["matches"] for a in m["artifacts"]])
    assert built == [[True, True], [False, False]]


# ---- match, fmt, doctor --------------------------------------------------------------------------------------------


def test_match_as_json_changes_and_builds_nothing(sample: Path, tmp_path: Path) -> None:
    env = {"OPSPLICE_CACHE": str(tmp_path / "cache")}
    before = sorted(sample.iterdir())
    done = opsplice("match", "model.mlir", "--spec=replace.splice", "--json", cwd=sample, env=env)
    found = json.loads(done.stdout)
    first = {k: found["matches"][0][k] for k in ("rule", "pattern", "function", "location", "dims", "kernel", "action")}
    assert first == {
        "rule": "replace neg_abs_mul with mul_abs_negate",
        "pattern": "neg_abs_mul",
        "function": "mixed_invocation",
        "location": "model.mlir:8:13",
        "dims": {"n": None},
        "kernel": "mul_abs_negate",
        "action": "static function",
    }
    assert found["matches"][1]["dims"] == {"n": 10}
    assert found["unmatched_rules"] == []
    assert sorted(sample.iterdir()) == before
    assert not list((tmp_path / "cache").rglob("*.o"))


def test_format(sample: Path) -> None:
    spec = sample / "replace.splice"
    formatted = spec.read_text()
    assert opsplice("format", "replace.splice", "--check", cwd=sample).returncode == 0
    spec.write_text(formatted.replace("  negf", "negf   "))
    checked = opsplice("format", "replace.splice", "--check", cwd=sample)
    assert checked.returncode == 1
    assert "would reformat replace.splice" in checked.stdout
    assert opsplice("format", "replace.splice", cwd=sample).returncode == 0
    assert spec.read_text() == formatted


def test_help_lists_every_command_once_under_what_it_is_for() -> None:
    for above, groups in GROUPS.items():
        words = above.split()
        text = opsplice(*words, "--help").stdout
        listed = re.findall(r"^    ([a-z]+) ", text, re.MULTILINE)
        assert listed == [name for names in groups.values() for name in names]
        assert all(f"\n  {title}\n" in text for title in groups)
        known = re.findall(rf"^{f'{above} ' * bool(above)}([a-z]+)(?: \[flags\])?: ", COMMANDS, re.MULTILINE)
        assert sorted(known) == sorted(listed)


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_colors_are_asked_for_and_declined(variables: dict[str, str], colored: bool) -> None:
    assert ("\033[31merror:" in opsplice("match", "absent.mlir", "--spec=x", env=variables).stderr) == colored


def test_a_terminal_has_colors_unless_they_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = os.openpty()
    with os.fdopen(master), os.fdopen(slave, "w") as terminal:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for variable, value, wanted in (("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False)):
            monkeypatch.setenv(variable, value)
            assert render.colored(terminal) == wanted


def test_doctor(sample: Path) -> None:
    done = opsplice("doctor", "--json", cwd=sample)
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["iree-base-compiler"]["ok"]
    assert all(c["ok"] or c["how_to_get"] for c in checks.values())
    shown = opsplice("doctor", cwd=sample)
    assert all(name in shown.stdout for name in checks)


def test_help_is_quick_because_it_imports_nothing_heavy(sample: Path) -> None:
    program = "import sys; from opsplice.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print([m for m in ('iree', 'numpy', 'lark', 'llvmlite') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# ---- mistakes ------------------------------------------------------------------------------------------------------


def edited(sample: Path, old: str, new: str) -> str:
    text = (sample / "replace.splice").read_text()
    assert old in text
    (sample / "edited.splice").write_text(text.replace(old, new))
    return "--spec=edited.splice"


def compile_with(sample: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = opsplice("compile", "model.mlir", *arguments, "-o", "out.vmfb", cwd=sample, env=env)
    leftovers = [p.name for p in sample.iterdir() if "out.vmfb" in p.name]
    assert leftovers == (["out.vmfb"] if done.returncode == 0 else [])
    return done


def test_no_such_model(sample: Path) -> None:
    done = opsplice("compile", "modle.mlir", "-o", "x.vmfb", cwd=sample)
    assert_clean_error(done, "no such file: modle.mlir", "did you mean model.mlir?")


def test_not_mlir(sample: Path) -> None:
    (sample / "model.mlir").write_text("this is not MLIR\n")
    assert_clean_error(compile_with(sample), "model.mlir:1:1", "this is not MLIR")


def test_mlir_that_does_not_verify(sample: Path) -> None:
    text = "func.func @f(%a: tensor<4xf32>) -> tensor<5xf32> {\n  return %a : tensor<4xf32>\n}\n"
    (sample / "model.mlir").write_text(text)
    assert_clean_error(compile_with(sample), "model.mlir:2:3", "return %a : tensor<4xf32>")


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("grid (", "grid ((", "edited.splice:5:3"),
        ("negf(absf", "negff(absf", "did you mean negf?"),
        ("rhs: f32[n]", "rhs: i32[n]", "i32 is wanted, found f32"),
        ("rhs: tensor<n x f32>", "rhs: tensor<m x n x f32>", "broadcast[n -> m n]"),
    ],
    ids=["syntax", "name", "type", "rank"],
)
def test_a_spec_with_an_error(sample: Path, old: str, new: str, wanted: str) -> None:
    assert_clean_error(compile_with(sample, edited(sample, old, new)), wanted, "^")


def test_a_pattern_that_matches_nothing_warns(sample: Path) -> None:
    spec = edited(sample, "mulf(lhs, rhs)", "divf(lhs, rhs)")
    done = compile_with(sample, spec)
    assert done.returncode == 0
    assert "0 replacements" in done.stderr
    assert "matched nothing" in done.stderr
    assert "wanted divf, found mulf" in done.stderr
    (sample / "out.vmfb").unlink()
    assert_clean_error(compile_with(sample, spec, "--require-match"), "1 rule matched nothing", "edited.splice:12:1")


def test_a_transform_spec_whose_function_has_other_types(sample: Path) -> None:
    source = sample / "functions.c"
    source.write_text(source.read_text().replace("size_t workgroup_x", "int workgroup_x"))
    types = "void (ptr, ptr, ptr, i64, i32)"
    wanted = f"'mul_abs_negate' in functions.c is `{types}`, and the spec calls it as `{types.replace('i32', 'i64')}`"
    assert_clean_error(compile_with(sample, "--spec=replace.mlir"), wanted)


def test_a_transform_spec_that_matches_nothing_warns(sample: Path) -> None:
    (sample / "model.mlir").write_text(
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
    )
    done = compile_with(sample, "--spec=replace.mlir")
    assert "0 replacements" in done.stderr
    assert "`@match_on_tensors -> @cast_and_call` matched nothing" in done.stderr
    (sample / "out.vmfb").unlink()
    assert_clean_error(compile_with(sample, "--spec=replace.mlir", "--require-match"), "matched nothing")


def test_c_that_does_not_compile(sample: Path) -> None:
    (sample / "functions.c").write_text("void mul_abs_negate(const float *lhs { return; }\n")
    assert_clean_error(compile_with(sample, "--spec=replace.splice"), "cannot compile functions.c", "functions.c:1:")


def test_a_missing_symbol(sample: Path) -> None:
    source = sample / "functions.c"
    source.write_text(source.read_text().replace("void mul_abs_negate", "void mul_abs_negte"))
    done = compile_with(sample, "--spec=replace.splice")
    assert_clean_error(done, "does not define the function 'mul_abs_negate'", "did you mean 'mul_abs_negte'?")


def test_a_truncated_object(sample: Path) -> None:
    (sample / "k.o").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9))
    assert_clean_error(compile_with(sample, edited(sample, "functions.c", "k.o")), "k.o")


def test_a_kernel_that_needs_libm(sample: Path) -> None:
    (sample / "functions.c").write_text(
        "#include <stddef.h>\nfloat y0f(float);\n"
        "void mul_abs_negate(const float *a, const float *b, float *out, size_t n, size_t w) { out[w] = y0f(a[w]); }\n"
    )
    assert_clean_error(compile_with(sample, "--spec=replace.splice"), "needs 'y0f'")


def test_no_artifact_for_the_target(sample: Path) -> None:
    spec = edited(sample, 'cpu "functions.c"', 'cpu aarch64 "functions.c"')
    assert_clean_error(compile_with(sample, spec), "no artifact for llvm-cpu embedded-elf-x86_64", "otherwise keep")
    spec = edited(sample, "(lhs, rhs)\n", "(lhs, rhs) otherwise keep\n")
    text = (sample / "edited.splice").read_text().replace('cpu "functions.c"', 'cpu aarch64 "functions.c"')
    (sample / "edited.splice").write_text(text)
    done = compile_with(sample, spec)
    assert done.returncode == 0
    assert "2 matches kept as the compiler's own code" in done.stderr


def test_a_cache_that_cannot_be_written(sample: Path) -> None:
    (sample / "file").write_text("")
    done = compile_with(sample, "--spec=replace.splice", env={"OPSPLICE_CACHE": str(sample / "file" / "cache")})
    assert_clean_error(done, "cannot write to the cache", "OPSPLICE_CACHE")


PTX = """
.version 19.0
.target sm_60
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out, .param .u32 n) .reqntid 64, 1, 1 { ret; }
"""
NEGATED = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.negf %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
NEGATE = """kernel k(x: f32[n]) -> f32[n] {
  grid (n)
  CLAUSE
}
pattern p(x: tensor<n x f32>) { negf(x) }
replace p with k(x)
"""


def test_what_could_not_be_checked_is_said(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(NEGATED)
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "s.splice").write_text(NEGATE.replace("CLAUSE", 'cuda "k.ptx"'))
    done = opsplice("compile", "m.mlir", "--spec=s.splice", "--target=cuda:sm_80", "-o", "m.vmfb", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: k.ptx was not assembled: ") == 1


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ('"my.op"(%x) : (tensor<?xf32>) -> tensor<?xf32>', "knows no op my.op"),
        ("tensor.splat %s[%n] : tensor<?xf32>", "(phase"),
    ],
)
def test_a_failure_of_the_compiler_tells_which_rules_matched_nothing(tmp_path: Path, op: str, wanted: str) -> None:
    dim = (
        "  %c0 = arith.constant 0 : index\n  %s = arith.constant 1.0 : f32\n  %n = tensor.dim %x, %c0 : tensor<?xf32>\n"
    )
    (tmp_path / "m.mlir").write_text(
        NEGATED.replace("  %0 = ", f"{dim}  %0 = ").replace("arith.negf %x : tensor<?xf32>", op)
    )
    (tmp_path / "s.splice").write_text(NEGATE.replace("CLAUSE", 'cpu "k.c"'))
    done = opsplice("compile", "m.mlir", "--spec=s.splice", "-o", "m.vmfb", cwd=tmp_path)
    assert_clean_error(done, wanted, "s.splice:6:1: `replace p with k` matched nothing")


@pytest.mark.parametrize("output", ["model.mlir", "replace.splice", "kernel.c", "../sample/model.mlir"])
def test_what_is_read_is_not_written_over(sample: Path, output: str) -> None:
    (sample / "kernel.c").write_text("")
    (sample / "more.splice").write_text(
        'import "replace.splice"\nkernel more(a: f32[n]) -> f32[n] { cpu "kernel.c" }\n'
    )
    before = (sample / output).read_bytes()
    done = opsplice("compile", "model.mlir", "--spec=more.splice", "-o", output, cwd=sample)
    assert_clean_error(done, f"{output} is an input, and would be overwritten")
    assert (sample / output).read_bytes() == before


def test_a_plugin_is_not_written_over_its_source(tmp_path: Path) -> None:
    (tmp_path / "k.so").write_text("#include <stddef.h>\nvoid k(const float *a, float *out, size_t n) {}\n")
    (tmp_path / "s.splice").write_text('kernel k(a: f32[n]) -> f32[n] { cpu "k.so" as plugin }\n')
    done = opsplice("kernel", "plugin", "s.splice", "-o", "k.so", cwd=tmp_path)
    assert_clean_error(done, "k.so is an input")


def test_an_output_that_cannot_be_written(sample: Path) -> None:
    done = opsplice("compile", "model.mlir", "-o", "nowhere/out.vmfb", cwd=sample)
    assert_clean_error(done, "there is no folder nowhere")


def test_an_unknown_flag(sample: Path) -> None:
    assert_clean_error(compile_with(sample, "--iree-no-such-flag"), "IREE has no flag --iree-no-such-flag")


def test_a_compiler_that_dies_is_an_error(sample: Path) -> None:
    # LLVM ends the process when it is asked for a CPU that it does not know.
    done = compile_with(sample, "--iree-llvmcpu-target-cpu=no-such-cpu")
    assert_clean_error(done, "the compiler", "--no-isolate")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--function=mixed"], "no function 'mixed'"),
        (INPUTS[:3], "takes 4 inputs, not 3"),
        ([*INPUTS[:2], "--input=10xf64=1", INPUTS[3]], "input 2"),
        ([*INPUTS[:2], "--input=9xf32=1", INPUTS[3]], "input 2"),
        (["--input=5xq32=1"], "unknown element type 'q32'"),
        (["--input=@absent.npy"], "absent.npy"),
        ([*INPUTS, "--device=mars"], "there is no device 'mars'"),
    ],
    ids=["function", "count", "dtype", "shape", "type", "file", "device"],
)
def test_a_run_with_a_mistake(sample: Path, arguments: list[str], wanted: str) -> None:
    assert_clean_error(opsplice("run", "model.mlir", *arguments, cwd=sample), wanted)


def test_an_error_as_json(sample: Path) -> None:
    done = opsplice("compile", "absent.mlir", "-o", "x.vmfb", "--json", cwd=sample)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "no such file: absent.mlir"


@pytest.mark.parametrize("arguments", [[], ["frob"], ["compile", "model.mlir"], ["format", "a.splice", "--iree-x=1"]])
def test_wrong_usage(sample: Path, arguments: list[str]) -> None:
    done = opsplice(*arguments, cwd=sample)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted", "hint"),
    [
        (["match", "model.mlir", "--sepc=x"], "error: opsplice match takes no --sepc=x", "did you mean --spec=x?"),
        (["kernel", "keygen", "--jsn"], "error: opsplice kernel keygen takes no --jsn", "did you mean --json?"),
        (["match", "m.mlir", "--spec=x", "--qqq"], "error: opsplice match takes no --qqq", ""),
        (["match", "m.mlir"], "error: opsplice match: the following arguments are required: --spec", "match --help"),
        (["benhc", "m.mlir"], "error: opsplice has no command 'benhc'", "did you mean bench?"),
        (["kernel", "qqq"], "error: opsplice kernel has no action 'qqq'", "`opsplice kernel --help`"),
        (["bench", "m.mlir", "--seconds=-1"], "error: opsplice bench: argument --seconds: '-1' is not a number", ""),
        (["verify", "m.mlir", "--spec=x", "--tolerance=nan"], "error: opsplice verify: argument --tolerance: ", ""),
    ],
)
def test_wrong_usage_is_told_in_a_line_and_what_is_not_known_before_what_is_missing(arguments, wanted, hint, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    said = capsys.readouterr().err
    assert said.startswith(wanted)
    assert hint in said.splitlines()[-1]


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # of processes that end meanwhile
            state = stat.read_text().rpartition(")")[2].split()
            found += [int(stat.parent.name)] if int(state[1]) == pid else []
    return found


def test_ctrl_c_leaves_nothing(sample: Path) -> None:
    # A hundred functions keep the compiler busy for seconds.
    text = (sample / "model.mlir").read_text()
    (sample / "model.mlir").write_text("".join(text.replace("@mixed_invocation", f"@f{i}") for i in range(100)))
    command = [sys.executable, "-m", "opsplice", "compile", "model.mlir", "--spec=replace.splice", "-o", "out.vmfb"]
    process = subprocess.Popen(command, cwd=sample, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not children(process.pid):  # the one that compiles
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in stderr
    assert not [p for p in sample.iterdir() if "out.vmfb" in p.name]

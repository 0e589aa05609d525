"""What only a process shows: streams that take nothing or are closed, names that are not UTF-8, little memory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from opsplice import api, cli
from opsplice.common.errors import OpspliceError, failure_outside

OPSPLICE = f"{shlex.quote(sys.executable)} -m opsplice"
SPEC = """
kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
pattern p(x: tensor<n x f32>) { absf(x) }
replace p with k(x)
"""
MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = math.absf %x : tensor<4xf32>
  return %a : tensor<4xf32>
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s.splice").write_text(SPEC)
    (tmp_path / "m.mlir").write_text(MODEL)
    (tmp_path / "k.c").write_text("#error\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, errors="replace")
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr
    return done


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["lint s.splice --json", "fmt - <s.splice", "--help"])
def test_a_full_stdout_is_an_error(folder: Path, command: str) -> None:
    done = shell(f"{OPSPLICE} {command} >/dev/full")
    assert done.stderr == "error: cannot write to stdout: no space left on device\n"
    assert done.returncode == 1


def test_a_closed_stdout_is_an_error(folder: Path) -> None:
    done = shell(f"{OPSPLICE} lint s.splice >&-")
    assert done.stderr == "error: cannot write to stdout: it is closed\n"
    assert done.returncode == 1


def test_errors_go_to_stdout_where_there_is_no_stderr(folder: Path) -> None:
    done = shell(f"{OPSPLICE} lint absent.splice 2>&-")
    assert done.stdout.startswith("error: no such file: absent.splice")
    assert done.returncode == 1
    done = shell(f"{OPSPLICE} lnt 2>&-")
    assert "opsplice has no command 'lnt'" in done.stdout
    assert done.returncode == 2


def test_a_command_with_no_streams_does_its_work(folder: Path) -> None:
    (folder / "s.splice").write_text("pattern  p(x: f32) { negf(x) }")
    assert shell(f"{OPSPLICE} fmt --json s.splice <&- >s.json 2>&-").returncode == 0
    assert (folder / "s.json").read_text().split() == ["{", '"changed":', "[", '"s.splice"', "]", "}"]
    assert (folder / "s.splice").read_text() == "pattern p(x: f32) {\n  negf(x)\n}\n"


def test_a_reader_that_goes_is_no_error(folder: Path) -> None:
    done = shell(f"({OPSPLICE} --help; echo $? >status) | true; cat status")
    assert done.stdout == "0\n"
    assert done.stderr == ""


# ---- names -----------------------------------------------------------------------------------------------------------

ODD = "\udcff"  # the byte FF, as Python reads it in a name


@pytest.mark.parametrize(
    "command",
    [
        ["match", f"m{ODD}.mlir", "--spec=s.splice", "--no-isolate"],
        ["match", "m.mlir", f"--spec=t{ODD}.mlir", "--no-isolate"],
        ["run", f"m{ODD}.vmfb"],
        ["run", "m.vmfb", f"--plugin=k{ODD}.so"],
        ["export", f"s{ODD}.splice", "-o", "e.mlir"],
        ["export", "s.splice", "-o", f"e{ODD}.mlir"],
        ["capture", "m.mlir", "--at=m.mlir:3", "-o", f"c{ODD}.splice"],
        ["import", f"t{ODD}.mlir", "-o", "i.splice"],
    ],
)
def test_names_that_are_not_utf8_are_refused_where_irees_tools_would_read_them(
    folder: Path, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in (f"m{ODD}.mlir", f"t{ODD}.mlir", f"m{ODD}.vmfb", f"k{ODD}.so", f"s{ODD}.splice"):
        Path(name).write_bytes((folder / "m.mlir").read_bytes())
    assert cli.main([*command, "--json"]) == 1
    said = capfd.readouterr().out
    assert "is not UTF-8" in said
    assert "rename the file" in said


def test_names_that_are_not_utf8_are_fine_elsewhere_and_can_be_printed(folder: Path) -> None:
    Path(f"s{ODD}.splice").write_text("pattern  p(x: f32) { negf(x) }")
    assert shell(f"{OPSPLICE} fmt s*.splice").stdout.splitlines()[-1] == "reformatted s\\udcff.splice"


NAMES = {
    "symbol": MODEL.replace("@main", '@"ma\\FFin"'),
    "attribute": MODEL.replace("%x: tensor<4xf32>", '%x: tensor<4xf32> {iree.abi.name = "\\FE"}'),
    "location": MODEL.replace("absf %x : tensor<4xf32>", 'absf %x : tensor<4xf32> loc("a\\FF")'),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_in_models_that_are_not_utf8_are_no_bug(folder: Path, kind: str) -> None:
    try:
        report = api.match(NAMES[kind], ["s.splice"])
    except OpspliceError as error:
        assert "is not UTF-8" in error.message  # noqa: PT017
    else:
        assert len(report.replacements) == 1


def test_names_in_a_transform_spec_that_are_not_utf8_are_no_bug(folder: Path) -> None:
    (folder / "t.mlir").write_text(
        "module attributes { transform.with_named_sequence } {\n"
        '  transform.named_sequence @"x\\FF"(%m: !transform.any_op) { transform.yield }\n'
        "  transform.named_sequence @__transform_main(%m: !transform.any_op) { transform.yield }\n}\n"
    )
    with pytest.raises(OpspliceError, match="is not UTF-8"):
        api.match(MODEL, ["t.mlir"])


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("megabytes", [150, 450])
def test_little_memory_is_an_error_and_no_traceback(folder: Path, megabytes: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'ulimit -v {megabytes << 10}; exec "$0" -m opsplice compile m.mlir -o m.vmfb', sys.executable],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    assert (done.returncode == 0) == Path("m.vmfb").exists()
    assert done.returncode == 0 or "error: " in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory"),
        (OSError(12, "Cannot allocate memory"), "the system refuses: cannot allocate memory"),
        (OSError(28, "No space left on device", "/a/b"), "the system refuses: no space left on device (/a/b)"),
        (ImportError("x.so: failed to map segment from shared object"), "there is not enough memory to load IREE"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "is not UTF-8"),
    ],
)
def test_what_a_system_says_is_no_bug(error: Exception, said: str) -> None:
    outside = failure_outside(error)
    assert outside is not None
    assert said in outside.message


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), ImportError("no module named x"), RuntimeError("x")])
def test_bugs_stay_bugs(error: Exception) -> None:
    assert failure_outside(error) is None

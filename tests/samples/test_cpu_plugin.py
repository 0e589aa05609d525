"""The sample whose kernel comes from a plugin: the commands of its README, and IREE's own tool."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.targets.build import toolchains
from tests import command_line
from tests.plain import Plain

RESULT = "result[0]: 2x8xf32=[21 22 23 24 25 26 27 28][21 22 23 24 25 26 27 28]"


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line.replace("$PWD", str(folder)), comments=True)
    if words[0] == "opsplice":
        return command_line.opsplice(*words[1:], cwd=folder)
    assert words[0] == "iree-run-module"
    command = [_iree_run_module(), *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def _iree_run_module() -> Path:
    spec = importlib.util.find_spec("iree._runtime_libs")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()
    if not (folder / "iree-run-module").is_file():
        pytest.skip("the wheel of IREE's runtime has no iree-run-module")
    return folder / "iree-run-module"


@pytest.fixture
def sample(tmp_path: Path, samples: Path) -> Path:
    """A folder with the sample, to write into."""
    return Path(shutil.copytree(samples / "cpu_plugin", tmp_path / "sample"))


@pytest.fixture
def commands(sample: Path) -> list[str]:
    """What the README has one type."""
    blocks = re.findall(r"```\n(.*?)```", (sample / "README.md").read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith(("opsplice ", "iree-run-module "))]


def test_the_commands_of_the_readme(sample: Path, commands: list[str]) -> None:
    if all(toolchains.find(name) is None for name in ("zig", "clang")):
        pytest.skip(f"no compiler here builds for other architectures ({toolchains.HOW_TO_GET['zig']})")
    results = []
    for command in commands:
        done = run(command, sample)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        results += [line for line in done.stdout.splitlines() if "=[21 22" in line]
    assert [line.removeprefix("result[0]: ") for line in results] == [RESULT.removeprefix("result[0]: ")] * 3


@pytest.mark.parametrize("suffix", [".so", ".sos"])
def test_the_numbers_are_those_of_the_compilers_own_code(
    sample: Path, samples: Path, compiled: Callable[..., opsplice.Program], suffix: str
) -> None:
    plugin = sample / f"kernels{suffix}"
    assert run(f"opsplice kernel plugin replace.splice -o {plugin.name}", sample).returncode == 0
    model = samples / "cpu_plugin/model.mlir"
    spliced, plain = compiled(model, model.with_name("replace.splice")), Plain(model)
    assert [r.action for r in spliced.report.replacements] == ["dynamic function"]
    random = np.random.default_rng(0)
    for rows in (1, 16, 17, 100):
        x, offset = random.standard_normal((rows, 8), np.float32), random.standard_normal(8, np.float32)
        wanted = plain.run("main", x, 1.25, offset)
        for device in ("local-sync", "local-task"):
            got = spliced.run("main", x, 1.25, offset, device=device, plugins=[plugin])
            # Either may or may not use fused multiply-add.
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6, err_msg=f"{rows} rows on {device}")


def test_the_kernel_is_changed_without_compiling_the_program(sample: Path) -> None:
    compile_line = "opsplice compile model.mlir --spec=replace.splice -o model.vmfb --json"
    (match,) = json.loads(run(compile_line, sample).stdout)["matches"]
    assert match["action"] == "dynamic function"
    assert match["artifacts"][0]["source"] == "a plugin"
    source = (sample / "scale.c").read_text()
    (sample / "scale.c").write_text(source.replace("+ offset[i]", "- offset[i]"))
    run("opsplice kernel plugin replace.splice -o changed.sos", sample)
    inputs = "--input=1x8xf32=2 --input=f32=10 --input=8xf32=1"
    done = run(f"opsplice run model.vmfb --plugin=changed.sos {inputs}", sample)
    assert done.stdout.strip() == "result[0]: 1x8xf32=[19 19 19 19 19 19 19 19]"


def test_without_the_kernels_file(sample: Path) -> None:
    (sample / "scale.c").unlink()
    assert run("opsplice compile model.mlir --spec=replace.splice -o model.vmfb", sample).returncode == 0
    assert "nothing found" in run("opsplice lint replace.splice", sample).stdout
    done = run("opsplice kernel plugin replace.splice -o kernels.so", sample)
    assert done.returncode == 1
    assert "no such file" in done.stderr


def test_a_program_without_its_plugin_says_so(sample: Path) -> None:
    run("opsplice compile model.mlir --spec=replace.splice -o model.vmfb", sample)
    done = run("opsplice run model.vmfb --input=1x8xf32=2 --input=f32=10 --input=8xf32=1", sample)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: model.vmfb imports 'scale' from a plugin, and none is given"

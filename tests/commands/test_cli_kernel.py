"""`opsplice kernel` and `opsplice run --plugin` as a user meets them: processes, their output and exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.build import toolchains
from opsplice.targets.plugins import plugin_source
from opsplice.targets.plugins.plugin_source import SIZE, Argument, Function
from tests import command_line

MODEL = """
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.negf %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
SPEC = """
kernel negate(a: f32[m]) -> f32[m] {
  cpu "k.c" as plugin
}

kernel twice(a: f32[m]) -> f32[m] {
  cpu "k.c" as plugin
}

pattern negated(a: tensor<m x f32>) {
  negf(a)
}

replace negated with negate(a)
"""
CODE = """
#include <stddef.h>
void negate(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = -a[i]; }
void twice(const float *a, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = 2 * a[i]; }
"""
INPUT = "--input=3xf32=1,2,3"
RESULT = "result[0]: 3xf32=-1 -2 -3\n"
NEGATE = Function("negate", (Argument("f32", pointer=True, const=True), Argument("f32", pointer=True), SIZE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.mlir").write_text(MODEL)
    (tmp_path / "spec.splice").write_text(SPEC)
    (tmp_path / "k.c").write_text(CODE)
    return tmp_path


@pytest.fixture
def run(folder: Path):
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command_line.opsplice(*arguments, cwd=folder)

    return call


@pytest.fixture
def done(run):
    """Runs what must succeed; returns what it prints."""

    def call(*arguments: str) -> str:
        result = run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return call


@pytest.fixture
def failed(run):
    """Runs what must fail; returns its error."""

    def call(*arguments: str) -> str:
        result = run(*arguments)
        assert result.returncode == 1, result.stdout
        assert "Traceback" not in result.stderr
        return result.stderr

    return call


def foreign(folder: Path, code: str, name: str = "foreign.so") -> Path:
    """A plugin of someone else: it says nowhere what it has."""
    toolchain = next(t for t in toolchains.find_all() if t.name != "zig")
    (folder / "foreign.c").write_text(code)
    command = [*toolchain.command, "-shared", "-fPIC", "-fvisibility=hidden", "foreign.c", "k.c", "-o", name]
    subprocess.run(command, cwd=folder, check=True)
    return folder / name


def silent(functions: list[Function]) -> str:
    return plugin_source.write("foreign", functions, standalone=False).replace("EXPORTED int import_", "int import_")


def test_build_list_and_run(done) -> None:
    printed = done("kernel", "plugin", "spec.splice", "-o", "k.so")
    assert printed.splitlines()[0] == "void negate(const float *, float *, size_t)"
    assert "wrote k.so: 2 functions, built by" in printed
    listed = done("kernel", "list", "k.so").splitlines()
    assert listed[0].startswith(f"{archs.host_arch()}, ")
    assert listed[1:] == ["  negate", "  twice"]
    assert done("run", "model.mlir", "--spec=spec.splice", "--plugin=k.so", INPUT) == RESULT


def test_json(done) -> None:
    made = json.loads(done("kernel", "plugin", "spec.splice", "-o", "k.sos", "--kernel=negate", "--json"))
    assert made["archs"] == [archs.host_arch()]
    assert made["functions"] == ["void negate(const float *, float *, size_t)"]
    listed = json.loads(done("kernel", "list", "k.sos", "--json"))
    (part,) = listed["parts"]
    assert (listed["fat"], part["arch"], part["functions"]) == (False, archs.host_arch(), ["negate"])
    assert "iree_hal_executable_plugin_query" in part["exports"]
    joined = json.loads(done("kernel", "fat", "k.sos", "-o", "fat.sos", "--json"))
    assert joined == {"output": "fat.sos", "archs": [archs.host_arch()]}


@pytest.mark.skipif(all(toolchains.find(n) is None for n in ("zig", "clang")), reason="no compiler for other machines")
def test_joining_architectures(done, failed) -> None:
    for arch in archs.ARCHS:
        done("kernel", "plugin", "spec.splice", "-o", f"{arch}.sos", f"--target={arch}")
    done("kernel", "fat", *(f"{arch}.sos" for arch in archs.ARCHS), "-o", "all.sos")
    parts = json.loads(done("kernel", "list", "all.sos", "--json"))["parts"]
    assert [part["arch"] for part in parts] == list(archs.ARCHS)
    assert done("run", "model.mlir", "--spec=spec.splice", "--plugin=all.sos", INPUT) == RESULT
    other = next(arch for arch in archs.ARCHS if arch != archs.host_arch())
    error = failed("run", "model.mlir", "--spec=spec.splice", f"--plugin={other}.sos", INPUT)
    assert f"{other}.sos is for {other}, and this machine is {archs.host_arch()}" in error
    assert "same machine" in failed("kernel", "fat", "all.sos", f"{other}.sos", "-o", "twice.sos")
    done("kernel", "plugin", "spec.splice", "-o", "k.so")
    assert "k.so is a library of a system" in failed("kernel", "fat", "k.so", "-o", "fat.sos")
    assert "does not end in .sos" in failed("kernel", "fat", "all.sos", "-o", "fat.so")


def test_what_is_missing_is_named(done, failed) -> None:
    done("compile", "model.mlir", "--spec=spec.splice", "-o", "model.vmfb")
    error = failed("run", "model.vmfb", INPUT)
    assert "model.vmfb imports 'negate' from a plugin, and none is given" in error
    done("kernel", "plugin", "spec.splice", "-o", "k.so", "--kernel=twice")
    error = failed("run", "model.vmfb", "--plugin=k.so", INPUT)
    assert "model.vmfb imports 'negate', which no plugin has" in error
    assert "k.so has twice" in error


def test_the_nearest_name(folder, done, failed) -> None:
    done("compile", "model.mlir", "--spec=spec.splice", "-o", "model.vmfb")
    (folder / "spec.splice").write_text(SPEC.replace("negate", "negated_"))
    (folder / "k.c").write_text(CODE.replace("negate", "negated_"))
    done("kernel", "plugin", "spec.splice", "-o", "k.so")
    assert "did you mean negated_?" in failed("run", "model.vmfb", "--plugin=k.so", INPUT)


def test_plugins_are_checked_before_anything_is_compiled(failed) -> None:
    assert "no such file: k.so" in failed("run", "absent.mlir", "--plugin=k.so", INPUT)


def test_devices_without_plugins(done, failed) -> None:
    done("kernel", "plugin", "spec.splice", "-o", "k.so")
    error = failed("run", "absent.mlir", "--plugin=k.so", "--device=vulkan", INPUT)
    assert "device 'vulkan' loads no library as a plugin" in error


def test_kernels_that_are_not_there(failed) -> None:
    assert "did you mean negate?" in failed("kernel", "plugin", "spec.splice", "-o", "k.so", "--kernel=negat")
    assert "cannot end in '.o'" in failed("kernel", "plugin", "spec.splice", "-o", "k.o")
    assert "no such file" in failed("kernel", "list", "k.so")
    assert "unknown CPU architecture 'z80'" in failed("kernel", "plugin", "spec.splice", "-o", "k.sos", "--target=z80")


def test_wrong_usage(run) -> None:
    for arguments in (["kernel"], ["kernel", "plugin"], ["kernel", "fat"], ["kernel", "other"]):
        assert run(*arguments).returncode == 2


# ---- plugins of others --------------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(
    all(toolchains.find(name) is None for name in ("clang", "gcc")), reason="no compiler here links system libraries"
)


@needs_compiler
def test_a_plugin_of_someone_else_works_as_it_is(folder, done, failed) -> None:
    foreign(folder, silent([NEGATE]))
    assert done("run", "model.mlir", "--spec=spec.splice", "--plugin=foreign.so", INPUT) == RESULT
    assert "what programs can import of it is not said" in done("kernel", "list", "foreign.so")
    foreign(folder, silent([Function("other", NEGATE.arguments)]).replace('__asm__("other")', '__asm__("negate")'))
    error = failed("run", "model.mlir", "--spec=spec.splice", "--plugin=foreign.so", INPUT)
    assert "imports 'negate', which no plugin has" in error
    assert "foreign.so has what it does not say" in error


@needs_compiler
def test_plugins_that_cannot_be_loaded(folder, failed) -> None:
    arguments = ["run", "model.mlir", "--spec=spec.splice", "--plugin=foreign.so", INPUT]
    foreign(folder, "int f(void) { return 0; }")
    assert "foreign.so is not a plugin: it does not export iree_hal_executable_plugin_query" in failed(*arguments)
    query = '__attribute__((visibility("default"))) void *iree_hal_executable_plugin_query(unsigned v, void *r)'
    foreign(folder, f"int nowhere(void); {query} {{ return nowhere() ? r : r; }}")
    error = failed(*arguments)
    assert "the system cannot load foreign.so" in error
    assert "nowhere" in error
    foreign(folder, f"{query} {{ return 0; }}")
    assert "plugin does not support this version of the runtime" in failed(*arguments)


@needs_compiler
def test_another_plugin_in_the_same_process(folder, done) -> None:
    """What a plugin lacks must not come from one that was given before."""
    done("kernel", "plugin", "spec.splice", "-o", "k.so")
    program = opsplice.compile(folder / "model.mlir", [folder / "spec.splice"])
    x = np.ones(3, np.float32)
    assert program.run("main", x, plugins=[folder / "k.so"]).tolist() == [-1, -1, -1]
    other = foreign(folder, silent([Function("other", NEGATE.arguments)]).replace('"other")', '"negate")'))
    with pytest.raises(OpspliceError, match=r"this process has loaded other plugins already: .*k\.so"):
        program.run("main", x, plugins=[other])
    with pytest.raises(OpspliceError, match="imports 'negate' from a plugin, and none is given"):
        opsplice.load(program.vmfb).run("main", x)
    assert program.run("main", x, plugins=[folder / "k.so"]).tolist() == [-1, -1, -1]

"""Shared by the tests of rewrites: programs compiled with a spec and without, and IR between find and compile."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.compiling.splice import graphs_of
from opsplice.frontends import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.search.matches import Found
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.apply import apply
from opsplice.rewrites.ir.executable_targets import ProgramTarget, targets_of
from opsplice.rewrites.plan.planner import Plan, Planner
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.build import toolchains
from tests.plain import Plain

DEVICES = ("local-sync", "local-task")


@dataclass(frozen=True)
class Pair:
    """A program with a spec, and what it computes without."""

    spliced: opsplice.Program
    plain: Plain

    @property
    def replaced(self) -> int:
        return len(self.spliced.report.replacements)

    def run(self, function: str, *inputs: Any) -> list[np.ndarray]:
        """The spliced program's results: on each device, twice, equal to the plain one's, with inputs untouched."""
        before = [np.array(i) for i in inputs]
        wanted = _listed(self.plain.run(function, *inputs))
        for device in DEVICES:
            for _ in range(2):
                results = _listed(self.spliced.run(function, *inputs, device=device))
                for got, want in zip(results, wanted, strict=True):
                    assert_same(np.asarray(got), np.asarray(want), f"{function} on {device}")
        for was, now in zip(before, inputs, strict=True):
            np.testing.assert_array_equal(was, now)
        return results


def assert_same(got: np.ndarray, want: np.ndarray, message: str) -> None:
    """Equal bit by bit but for NaN's, or but for the last bits of what IREE's own functions of f32 and f64 compute."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), message
    if got.dtype in (np.float32, np.float64):
        np.testing.assert_allclose(got, want, rtol=8 * np.finfo(got.dtype).eps, atol=0, err_msg=message)
    else:
        np.testing.assert_array_equal(got, want, err_msg=message)


@pytest.fixture(scope="session")
def context() -> Any:
    from iree.compiler.api import Session

    session = Session()
    session.context.enable_multithreading(False)
    return session.context


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Pair]:
    """Compiles a program with a spec. files: what the spec names, by name, text or bytes."""

    def build(mlir: str, spec: str, files: Mapping[str, str | bytes], flags: Sequence[str] = ()) -> Pair:
        path = write_spec(tmp_path_factory.mktemp("pair"), spec, files)
        flags = ["--iree-llvmcpu-target-cpu=host", *flags]
        return Pair(opsplice.compile(mlir, [path], flags), Plain(mlir, flags))

    return build


@pytest.fixture
def spliced(tmp_path: Path) -> Callable[..., opsplice.Program]:
    """Compiles a program with a spec."""

    def build(mlir: str, spec: str, files: Mapping[str, str | bytes], flags: Sequence[str] = ()) -> opsplice.Program:
        return opsplice.compile(mlir, [write_spec(tmp_path, spec, files)], flags)

    return build


def write_spec(folder: Path, spec: str, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    path = folder / "spec.splice"
    path.write_text(spec)
    return path


@pytest.fixture
def zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C compiler that knows 16-bit floats."""
    if toolchains.find("zig") is None:
        pytest.skip(f"zig is not installed ({toolchains.HOW_TO_GET['zig']})")
    monkeypatch.setenv("OPSPLICE_CC", "zig")


# ---- between find and compile -------------------------------------------------------------------------------------


class Bench:
    """A module at phase `preprocessing` with a spec, before anything is changed. No artifact is built."""

    def __init__(self, compilation: Compilation, spec: LoadedSpec) -> None:
        self.compilation = compilation
        self.spec = spec
        self.resolved: list[str] = []
        self.targets: tuple[ProgramTarget, ...] = targets_of(compilation.module)

    @property
    def ir(self) -> str:
        return str(self.compilation.module)

    def find(self) -> Found:
        return engine.find(self.compilation.module, graphs_of(self.spec))

    def plan(self, targets: Sequence[ProgramTarget] | None = None) -> Plan:
        targets = self.targets if targets is None else targets
        return Planner(
            self.find().matches, self.spec.rules, self.spec.given, self.spec.kernels, targets, self._resolve
        ).plan()

    def apply(self) -> Plan:
        chosen = self.plan()
        apply(self.compilation.module, chosen.actions)
        self.compilation.module.operation.verify()
        return chosen

    def _resolve(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        self.resolved.append(symbol)
        return Artifact(Path(clause.path), "object", "digest", target.arch, None, False)


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    with contextlib.ExitStack() as stack:

        def make(mlir: str, spec: str, flags: Sequence[str] = ()) -> Bench:
            compilation = stack.enter_context(Compilation(flags))
            compilation.load(ModuleSource(content=mlir))
            compilation.run_to("preprocessing")
            return Bench(compilation, load_text(spec))

        yield make


@pytest.fixture
def filecheck() -> Callable[[str, str], None]:
    """Checks text against the CHECK lines of another, as LLVM's FileCheck does."""
    pytest.importorskip("filecheck", reason="filecheck is not installed (pip install filecheck)")
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import Options
    from filecheck.parser import Parser, pattern_for_opts

    def check(text: str, checks: str) -> None:
        options = Options("checks")
        parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
        assert Matcher(options, FInput("ir", text), parser).run() == 0, "the IR is not what the CHECK lines say"

    return check


def _listed(results: Any) -> list[Any]:
    return results if isinstance(results, list) else [results]


def tvm_library(folder: Path, code: str) -> Path:
    """A library of TVM FFI, made of C++. Skips where there is no compiler or no package."""
    # Its presence is asked without importing it: its library stays in the process.
    if importlib.util.find_spec("tvm_ffi") is None:
        pytest.skip("tvm_ffi is not here: pip install apache-tvm-ffi")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    (folder / "library.cc").write_text(code)
    asked = [sys.executable, "-m", "tvm_ffi.config", "--cxxflags", "--ldflags", "--libs"]
    flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    command = [compiler, "-shared", "-fPIC", "library.cc", *shlex.split(flags.replace("\n", " ")), "-o", "library.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "library.so"

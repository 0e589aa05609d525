"""A backend is one class and one row of a table: nothing else in the package knows of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.compiling.resolution import Artifacts
from opsplice.compiling.splice import graphs_of
from opsplice.frontends import ModuleSource
from opsplice.matchers.find import engine
from opsplice.packaging.package_folder import parse_target
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.approaches.static_dispatch import prepared
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.rewrites.plan.planner import Planner
from opsplice.spec_lang.loading.loader import load
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest
from opsplice.targets.backends import backend_table as table
from opsplice.targets.backends.backend import Backend
from opsplice.targets.formats.entries import Entry

MODEL = """
func.func @main(%x: tensor<4xf32>, %s: i32) -> tensor<4xf32> {
  %0 = math.absf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SPEC = """
kernel k(x: f32[n]) -> f32[n] { workgroup (32) metal "k.toy" }
pattern p(x: tensor<n x f32>) { absf(x) }
replace p with k(x)
"""
TARGET = ProgramTarget('#hal.executable.target<"toy-ir", "toy-fb">', "toy-ir", "toy-fb", "t1")


class Toy(Backend):
    """Its files say what the words are, one letter each; a clause for `metal` is for it."""

    name, iree, device, format = "toy", "toy-ir", "toy-device", "toy-fb"
    clauses = ("metal",)
    chips, usual_chip = r"t\d", "t1"

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        return Artifact(request.path, "object", "", None, f"toys for {arch}", True, entry=request.symbols[0])

    def entry(self, code: Artifact, name: str) -> Entry:
        floats = (number for number, letter in enumerate(code.path.read_text()) if letter == "f")
        return Entry(code.entry, name, floats=frozenset(floats))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "BACKENDS", (Toy(), *table.BACKENDS))


def planned(folder: Path, code: str) -> KernelCall:
    (folder / "k.toy").write_text(code)
    (folder / "k.splice").write_text(SPEC)
    spec = load(folder / "k.splice")
    with Compilation([]) as compilation:
        compilation.load(ModuleSource(content=MODEL))
        compilation.run_to("preprocessing")
        matches = engine.find(compilation.module, graphs_of(spec)).matches
        resolve = Artifacts(Store(folder / "store")).of_kernel
        (call,) = Planner(matches, spec.rules, spec.given, spec.kernels, [TARGET], resolve).plan().calls
    return call


def test_its_files_are_built_and_compared_with_calls(toy, tmp_path):
    call = planned(tmp_path, "i")
    (external,) = prepared(call).externals
    assert (external.entry, external.workgroup) == ("k", (32, 1, 1))
    assert call.choices[0].code.toolchain == "toys for t1"


def test_what_all_backends_have_to_keep_to_holds_for_it(toy, tmp_path):
    with pytest.raises(OpspliceError, match=r"entry 'k' of k.toy takes a float where n is passed"):
        planned(tmp_path, "f")


def test_its_names_are_known(toy):
    assert [table.name_of(name) for name in ("toy", "toy-ir", "toy-device", "metal", "other")] == [
        *["toy"] * 4,
        "other",
    ]
    assert parse_target("toy:t2").program == ProgramTarget("", "toy-ir", "toy-fb", "t2")
    with pytest.raises(OpspliceError, match="does not say") as failure:
        parse_target("toy")
    assert failure.value.hint == "write such as toy:t1"

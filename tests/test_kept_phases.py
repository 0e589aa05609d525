"""Phases of earlier runs are taken where nothing that they depend on has changed, and nowhere else."""

from __future__ import annotations

import pytest
from iree.compiler import ir
from iree.compiler.api import Invocation

from opsplice.frontends.source import ModuleSource
from opsplice.pipeline.compiler import Step, compile_module
from opsplice.pipeline.phases import PHASES
from tests import kept_phases

SOURCE = ModuleSource(
    content="""
    func.func @f(%a: tensor<16xf32>) -> tensor<16xf32> {
      %0 = arith.mulf %a, %a : tensor<16xf32>
      return %0 : tensor<16xf32>
    }
    """
)
EVERY = len(PHASES) - 1
REST = EVERY - len(kept_phases.KEPT)


@pytest.fixture
def warned():
    """The warnings of each compile."""
    return []


@pytest.fixture
def ran(tmp_path, monkeypatch, warned):
    """How many phases of a compile IREE runs. attribute: what an edit notes on the module, before any that is kept."""
    monkeypatch.setattr(kept_phases, "FOLDER", tmp_path / "kept")
    execute = Invocation.execute
    runs = []

    def noted(self):
        runs.append(self)
        return execute(self)

    def phases(attribute="unit", flags=(), cpu="generic"):
        def note(module):
            module.operation.attributes["test.note"] = ir.Attribute.parse(attribute, module.context)

        runs.clear()
        flags = [*flags, *([f"--iree-llvmcpu-target-cpu={cpu}"] if cpu else [])]
        compiled = compile_module(SOURCE, [Step("preprocessing", "note", note)], flags)
        warned.append(compiled.warnings)
        assert programs.setdefault(str(flags), compiled.vmfb) == compiled.vmfb
        return len(runs)

    programs = {}
    monkeypatch.setattr(Invocation, "execute", noted)
    return phases


def test_the_program_is_that_of_all_phases(ran):
    assert [ran(), ran()] == [EVERY, REST]


def test_an_edit_makes_the_phases_run_again(ran):
    assert [ran("1"), ran("2"), ran("1")] == [EVERY, EVERY, REST]


def test_files_that_a_module_names_count_by_their_bytes(ran, tmp_path):
    file, found = tmp_path / "k.o", []
    named = f'#hal.executable.object<{{path = "{file}"}}>'
    for content in (b"", b"", b"changed"):
        file.write_bytes(content)
        found.append(ran(named))
    file.unlink()
    found += [ran(named), ran(named)]
    assert found == [EVERY, REST, EVERY, EVERY, EVERY]


def test_the_name_of_the_stores_folder_does_not_count(ran, tmp_path, monkeypatch):
    found = []
    for name in ("0123456789abcdef", "fedcba9876543210"):
        file = tmp_path / name / "store" / "k.o"
        file.parent.mkdir(parents=True)
        file.touch()
        monkeypatch.setenv("OPSPLICE_CACHE", str(file.parent))
        found.append(ran(f'#hal.executable.object<{{path = "{file}"}}>'))
        file.unlink()  # what is kept names the file of the run that takes it, as all phases want it to be there
    assert found == [EVERY, REST]


def test_the_number_of_a_run_in_the_names_of_its_files_does_not_count(ran, tmp_path, monkeypatch):
    found = []
    for number in (1, 2):
        file = tmp_path / f"run-{number}" / "k.o"
        file.parent.mkdir()
        file.touch()
        monkeypatch.setenv(kept_phases.TEMPORARY, str(file.parent))
        found.append(ran(f'#hal.executable.object<{{path = "{file}"}}>'))
        file.unlink()  # as above
    assert found == [EVERY, REST]


def test_what_writes_files_runs(ran, tmp_path):
    for name in ("once", "again"):
        assert ran(flags=[f"--iree-hal-dump-executable-sources-to={tmp_path / name}"]) == EVERY
        assert list((tmp_path / name).iterdir())


def test_what_is_damaged_is_not_used(ran, tmp_path):
    ran()
    for path in (tmp_path / "kept").glob("*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert [ran(), ran()] == [EVERY, REST]


def test_warnings_are_given_again(ran, warned):
    assert [ran(cpu=None), ran(cpu=None)] == [EVERY, REST]
    first, again = warned
    assert first == again
    assert "no CPU was named" in first[0].message


def test_a_module_with_data_beside_its_text_is_kept_with_them(ran, monkeypatch):
    """Such data stand in a context under a name, and get another where a module is read there."""
    content = """
    util.global private mutable @g = dense_resource<data> : tensor<2xf32>
    func.func @f() -> tensor<2xf32> {
      %g = util.global.load @g : tensor<2xf32>
      util.global.store %g, @g : tensor<2xf32>
      return %g : tensor<2xf32>
    }
    {-# dialect_resources: { builtin: { data: "0x040000000000803F00000040" } } #-}
    """
    monkeypatch.setattr("tests.test_kept_phases.SOURCE", ModuleSource(content=content))
    assert [ran(), ran(), ran()] == [EVERY, REST, REST]

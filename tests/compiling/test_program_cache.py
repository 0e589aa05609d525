"""Programs that are kept: what each change does, and what is made of entries that are damaged."""

from __future__ import annotations

import dataclasses
import os
from importlib import metadata
from pathlib import Path

import pytest

import opsplice
from opsplice import cli, frontends
from opsplice.common.errors import OpspliceError
from opsplice.compiling import program_cache
from opsplice.compiling.job import Job, Outcome
from opsplice.compiling.spec_sources import SpecSource, resolve
from opsplice.reports.report import ArtifactUse, Miss, PackageUse, Replacement, Report, SpecWarning, UnmatchedRule
from opsplice.spec_lang.loading.libraries import Library
from opsplice.targets.artifacts import arch

MODEL = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.negf %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
"""
SPEC = """
import "patterns.splice"
kernel negate(x: f32[n]) -> f32[n] { cpu "code/negate.c" flags "-Iheaders" }
kernel other(x: f32[n]) -> f32[n] { cpu "make/make.py" as generated }
kernel third(x: f32[n]) -> f32[n] { cpu "third.o" }
replace negation with negate(x)
"""
FILES = {
    "replace.splice": SPEC,
    "patterns.splice": "pattern negation(x: tensor<n x f32>) { negf(x) }\n",
    "code/negate.c": '#include "negate.h"\nvoid negate(const float *x, float *y, size_t n) { FOR(n) y[i] = 0; }\n',
    "code/headers/negate.h": '#include <stddef.h>\n#include "loops.h"\n',
    "code/headers/loops.h": "#define FOR(n) for (size_t i = 0; i < n; ++i)\n",
    "make/make.py": "import beside\n",
    "make/beside.py": "\n",
    "third.o": "\x7fELF",
    "transform.mlir": 'module { "stored.o" }\n',
    "stored.o": "\x7fELF",
    "flag.mlir": "module {}\n",
    "passes.mlir": "module {}\n",
}
REPORT = Report(
    replacements=(
        Replacement(
            "replace a with b",
            "a.splice:1:1",
            "a",
            "main",
            "m.mlir:2:3",
            {"n": 8, "m": None, "p": [1, None]},
            "b",
            "static function",
            round=1,
            artifacts=(
                ArtifactUse("x86_64", "b.c", "/b.o", "object", "12", "clang", True, ("a note",), PackageUse("p", "1")),
                ArtifactUse("x86_64", "b.c", "/b.o", "object", "12"),
            ),
            views=("x reads tensor<2xf32>",),
        ),
    ),
    kept=(
        Replacement("replace a with c", "a:2:1", "a", "main", "m:3:1", {}, "c", "keep", "no artifact"),
        Replacement("replace a with c", "a:2:1", "a", "main", "m:4:1", {}, "c", "keep", "taken", lost=True),
    ),
    unmatched=(UnmatchedRule("d => e", "a:9:1", "d", (Miss("main", "m:1:1", "addf", "mulf", "a:3:3"),), "lib"),),
    warnings=("a warning",),
    spec_warnings=(SpecWarning("W1", "what", "a:1:1", "what\n  ^"),),
)
OUTCOME = Outcome(b"vmfb", REPORT, ("warning: slow",), {("k", "spirv"): b"code", ("l", ""): b""}, {"m": Path("m.py")})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def job(*flags, model=MODEL, specs=("replace.splice", "transform.mlir"), **options):
    return Job(
        frontends.load(model),
        resolve(specs),
        ("--iree-x=flag.mlir", '--iree-y=p{file="passes.mlir"}', *flags),
        **options,
    )


def compiles(asked, outcome=OUTCOME, meanwhile=lambda: None):
    """Whether a job is compiled, and what comes of it."""
    done = []

    def work():
        done.append(asked)
        meanwhile()
        return outcome

    found = program_cache.cached(asked, work)
    return bool(done), found


def is_kept(asked):
    compiled, found = compiles(asked)
    assert found == OUTCOME
    return not compiled


def test_the_same_is_compiled_once():
    assert not is_kept(job())
    assert is_kept(job())
    assert is_kept(job())


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_changed(folder, name):
    assert not is_kept(job())
    before = (folder / name).read_text()
    (folder / name).write_text(before + " ")
    assert not is_kept(job())
    assert is_kept(job())
    (folder / name).write_text(before)
    assert is_kept(job())  # what was made of the text before is there


def test_a_file_that_comes_before_another(folder):
    assert not is_kept(job())
    (folder / "code" / "negate.h").write_text("")
    assert not is_kept(job())
    assert is_kept(job())
    (folder / "make" / "new.py").write_text("")
    assert not is_kept(job())


def test_a_file_that_goes(folder):
    assert not is_kept(job())
    (folder / "third.o").unlink()
    assert not is_kept(job())
    assert is_kept(job())


@pytest.mark.parametrize(
    "other",
    [
        lambda: job("--iree-y"),
        lambda: job(model=MODEL + "// other\n"),
        lambda: job(specs=["replace.splice"]),
        lambda: job(specs=["transform.mlir", "replace.splice"]),
        lambda: job(targets=("x86_64",)),
        lambda: job(no_code=True),
    ],
)
def test_another_question(other):
    assert not is_kept(job())
    assert not is_kept(other())
    assert is_kept(other())


def test_other_versions_and_machines(monkeypatch):
    assert not is_kept(job())
    version = metadata.version
    for target, name, value in (
        (arch, "host_identity", lambda: "another CPU"),
        (program_cache, "_own_code", lambda: "another opsplice"),
        (program_cache.metadata, "version", lambda name: version(name) + ".1"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            assert not is_kept(job())
    with monkeypatch.context() as patch:
        patch.setenv("OPSPLICE_CC", "gcc")
        assert not is_kept(job())
    assert is_kept(job())


def test_the_own_code_is_all_of_this_package(monkeypatch, tmp_path):
    digest = program_cache._own_code.__wrapped__
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("")

    class Found:
        submodule_search_locations = (str(tmp_path / "package"),)

    monkeypatch.setattr(program_cache.importlib.util, "find_spec", lambda _name: Found)
    before = digest()
    (tmp_path / "package" / "a.py").write_text("1")
    assert digest() != before


def test_packages_are_known_by_their_digest(folder):
    def of(digest, key="", prebuilt_only=True):
        library = Library("acme", folder, "oci://acme", "1.0", prebuilt_only=prebuilt_only, digest=digest, key=key)
        source = SpecSource("oci://acme", folder / "patterns.splice", library, {"acme": library})
        return job(specs=[source])

    assert not is_kept(of("sha256:1"))
    assert is_kept(of("sha256:1"))
    assert not is_kept(of("sha256:2"))
    assert not is_kept(of("sha256:1", "another key"))
    assert not is_kept(of("sha256:1", prebuilt_only=False))


def test_an_import_by_name_follows_the_library(folder, monkeypatch):
    (folder / "replace.splice").write_text('import "acme"\n')
    for version in ("1", "2"):
        (folder / version).mkdir()
        (folder / version / "acme.splice").write_text(FILES["patterns.splice"])
    installed = Library("acme", folder / "1", "acme")
    for module in ("libraries", "loader"):
        monkeypatch.setattr(f"opsplice.spec_lang.loading.{module}.find", lambda name, given: installed)
    assert not is_kept(job())
    assert is_kept(job())
    installed = Library("acme", folder / "2", "acme")
    assert not is_kept(job())


def test_what_changes_while_it_is_compiled_is_not_kept(folder):
    _, found = compiles(job(), meanwhile=lambda: (folder / "code" / "negate.c").write_text("//"))
    assert found.warnings[1:] == (
        "warning: the program is not kept in the cache: what it is made from changed meanwhile",
    )
    assert not is_kept(job())


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(folder):
    (folder / "model.mlir").write_text(MODEL)
    asked = job(model=folder / "model.mlir")
    _, found = compiles(asked, meanwhile=lambda: (folder / "model.mlir").write_text(MODEL + "//"))
    assert "changed meanwhile" in found.warnings[-1]
    (folder / "model.mlir").write_text(MODEL)
    assert not is_kept(asked)


@pytest.mark.parametrize("part", ["keys", "blobs"])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-3], lambda data: data + b"x"])
def test_damaged_entries_are_compiled_again(part, damage):
    assert not is_kept(job())
    for path in (program_cache.store().root / part).iterdir():
        path.write_bytes(damage(path.read_bytes()))
    assert not is_kept(job())
    assert is_kept(job())


def test_entries_of_others_are_not_taken(folder):
    """What is whole, and of another kind or for another key."""
    assert not is_kept(job())
    store = program_cache.store()
    paths = sorted((store.root / "keys").iterdir())
    texts = [path.read_bytes() for path in paths]
    for path, text in zip(paths, reversed(texts), strict=True):
        path.write_bytes(text)
    assert not is_kept(job())
    for path in paths:
        for suffix in (".questions", ".program"):
            store.put(path.name, suffix, b'[["file"]]')
    assert not is_kept(job())


def test_what_cannot_be_kept_is_said(folder):
    def warning(asked):
        compiled, found = compiles(asked)
        assert compiled
        return found.warnings[-1].removeprefix("warning: the program is not kept in the cache: ")

    assert warning(job(model=MODEL + "// #hal.executable.object")) == "the model names files of objects"
    assert warning(job(f"--iree-path={folder}")) == f"the files in the folder of --iree-path={folder} are unknown"
    for number in range(1001):
        (folder / "make" / str(number)).touch()
    assert warning(job()).endswith("make, where code is generated, has more than 1000 files")
    (folder / "cache").mkdir()
    (folder / "cache" / "programs").touch()
    assert "cannot write" in warning(job(specs=["patterns.splice"]))


def test_flags_that_print_are_heard_each_time():
    for asked in (job("--mlir-print-ir-after-all"), job("--iree-hal-dump-executable-files-to=x"), job(verbose=True)):
        assert not is_kept(asked)
        assert not is_kept(asked)


def test_a_cache_of_others_is_refused(folder):
    assert not is_kept(job())
    os.chmod(folder / "cache", 0o777)
    with pytest.raises(OpspliceError, match="others may write to the cache"):
        is_kept(job())


def test_the_oldest_programs_go(monkeypatch, folder):
    asked = [job(model=f"module @m{number} {{}}", specs=[]) for number in range(2)]
    programs = [dataclasses.replace(OUTCOME, vmfb=bytes([number]) * 9000) for number in range(2)]
    compiles(asked[0], programs[0])
    for path in (folder / "cache/programs/keys").iterdir():
        os.utime(path, (1, 1))
    monkeypatch.setattr(program_cache, "LARGEST", 15000)
    compiles(asked[1], programs[1])
    found = [compiles(*each)[0] for each in zip(reversed(asked), reversed(programs), strict=True)]
    assert found == [False, True]


def test_gc_knows_programs(folder, capsys):
    assert not is_kept(job())
    for path in (program_cache.store().root / "keys").iterdir():
        os.utime(path, (1, 1))
    for path in (program_cache.store().root / "blobs").iterdir():
        os.utime(path, (1, 1))
    assert cli.main(["kernel", "gc", "--older", "30d"]) == 0
    assert "gone: 2 built artifacts" in capsys.readouterr().out
    assert not is_kept(job())


def test_compile_and_run_keep_programs(samples, capfd):
    """Real ones: with kernels, in this process and by the command line."""
    model, spec = samples / "mul_abs_negate" / "model.mlir", samples / "mul_abs_negate" / "replace.splice"
    first = opsplice.compile(model, [spec], cache=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opsplice.compiling.compilation.run_job", None)
        again = opsplice.compile(model, [spec], cache=True)
        assert dataclasses.asdict(again) == dataclasses.asdict(first)
        assert again.report.replacements
        assert cli.main(["compile", str(model), f"--spec={spec}", "--cache", "--no-isolate", "-o", "out.vmfb"]) == 0
    assert Path("out.vmfb").read_bytes() == first.vmfb

"""Libraries: found by their entry points with no code of theirs run, imported by name, and what goes wrong."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.libraries import OWN, Library
from opsplice.spec_lang.loading.loader import load, load_text
from opsplice.spec_lang.syntax.spec_errors import SpecError
from tests.packages import install

SHARED = "pattern twice(x: tensor<n x f32>) { addf(x, x) }\n"
ACME = f"""import "shared.splice"
import "acme:attention"
{SHARED.replace("twice", "doubled")}"""
ATTENTION = "pattern attention(x: tensor<n x f32>) { exp(x) }\n"
FILES = {"acme.splice": ACME, "attention.splice": ATTENTION, "shared.splice": SHARED}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def errors_of(text: str, path: Path | None = None) -> str:
    with pytest.raises(SpecError) as raised:
        load_text(text, path)
    return str(raised.value)


def test_a_library_is_found_and_none_of_its_code_runs(site: Path) -> None:
    folder = install(site, "acme", FILES)
    loaded = load_text('import "acme"\nimport "acme:attention"\n')
    assert set(loaded.patterns) == {"attention", "doubled", "twice"}
    assert {path.name for path in loaded.libraries} == set(FILES)
    (library,) = set(loaded.libraries.values())
    assert (library.name, library.folder, library.origin) == ("acme", folder, "acme 1.4")
    assert (library.version, library.license, library.parts()) == ("1.4", "MIT", ["acme", "attention", "shared"])
    assert "acme" not in sys.modules


def test_a_library_that_is_installed_to_be_edited(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a line of a .pth file, that is a folder more in sys.path, or by a finder of the installer's."""
    source = tmp_path / "source"
    folder = install(site, "acme", FILES, source=source)
    with pytest.raises(OpspliceError, match=r"acme 1\.4 has no folder acme/specs, which it says is library acme"):
        libraries.find("acme", {})
    with monkeypatch.context() as context:
        context.syspath_prepend(source)
        assert libraries.find("acme", {}).folder == folder

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, _path=None, _target=None):
            return importlib.machinery.PathFinder.find_spec(name, [str(source)]) if name == "acme" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert libraries.find("acme", {}).folder == folder
    assert "acme" not in sys.modules


def test_packages_inside_of_packages(site: Path) -> None:
    folder = install(site, "acme", {}, entry="acme.kernels:data.specs")
    inner = folder.parent / "kernels/data/specs"
    inner.mkdir(parents=True)
    (folder.parent / "kernels/__init__.py").write_text("raise SystemExit('this ran')\n")
    (inner / "anything.splice").write_text(SHARED)
    assert list(load_text('import "acme"').patterns) == ["twice"]  # its only file


def test_what_comes_with_opsplice_is_a_library_like_others() -> None:
    loaded = load_text('import "opsplice"\n')
    parts = [load_text(f'import "opsplice:{part}"\n').patterns for part in ("nn", "strided")]
    assert list(loaded.patterns) == list(dict.fromkeys(name for part in parts for name in part))
    assert set(loaded.libraries.values()) == {OWN}
    text = errors_of('import "opsplice:nm"')
    assert "library opsplice (comes with opsplice) has no part 'nm'" in text
    assert "did you mean opsplice:nn?" in text


def test_a_file_goes_before_a_library(site: Path, tmp_path: Path) -> None:
    install(site, "acme", FILES)
    (tmp_path / "acme").mkdir()  # a folder is not a file
    assert "doubled" in load_text('import "acme"', tmp_path / "main.splice").patterns
    (tmp_path / "acme").rmdir()
    (tmp_path / "acme").write_text(ATTENTION)
    assert list(load_text('import "acme"', tmp_path / "main.splice").patterns) == ["attention"]


def test_libraries_import_each_other_and_themselves(site: Path) -> None:
    install(site, "acme", FILES)
    install(site, "zeta", {"zeta.splice": 'import "acme:attention"\n' + SHARED.replace("twice", "zeta_twice")})
    assert set(load_text('import "zeta"').patterns) == {"attention", "zeta_twice"}
    install(site, "one", {"one.splice": 'import "two"'})
    install(site, "two", {"two.splice": 'import "one:one"'})
    assert "these files import each other: one.splice -> two.splice -> one.splice" in errors_of('import "one"')


def test_what_is_not_installed(site: Path, tmp_path: Path) -> None:
    install(site, "acme_kernels", FILES)
    text = errors_of('import "acme_kernel:attention"')
    assert "<text>:1:8: error: there is no library 'acme_kernel'" in text
    assert "did you mean acme_kernels?" in text
    assert "install the Python package that brings it (pip install ...), or lock" in errors_of('import "other"')
    (tmp_path / "layers.splice").write_text(SHARED)
    assert 'did you mean "layers.splice"?' in errors_of('import "layers"', tmp_path / "main.splice")


def test_libraries_that_cannot_be_used(site: Path) -> None:
    install(site, "acme", FILES)
    install(site, "other", {}, project="acme-too")
    (site / "acme_too-1.4.dist-info/entry_points.txt").write_text("[opsplice.libraries]\nacme = other:specs\n")
    assert "two packages bring a library 'acme': acme" in errors_of('import "acme"')
    for name, entry, said in (
        ("odd", "odd:specs/deeper", 'has an entry point that names no library: odd = "odd:specs/deeper"'),
        ("lost", "lost:nowhere", "has no folder lost/nowhere"),
        ("gone", "no_such_package:specs", "has no folder no_such_package/specs"),
        ("empty", "empty:specs", "has no .splice files in"),
    ):
        install(site, name, {}, entry=entry)
        assert said in errors_of(f'import "{name}"')
    install(site, "many", {"a.splice": "", "b.splice": ""})
    assert "library many (many 1.4) has no main spec, many.splice" in errors_of('import "many"')
    assert "there is many:a, many:b" in errors_of('import "many"')
    found = libraries.all_installed()
    assert found[0] is OWN
    usable = [each for each in found[1:] if isinstance(each, Library)]
    assert [each.name for each in usable if each.folder.is_relative_to(site)] == ["empty", "many"]
    assert len([each for each in found if isinstance(each, OpspliceError)]) == 4


def test_a_library_names_nothing_outside_of_its_folder(site: Path) -> None:
    folder = install(site, "acme", {"acme.splice": ""})
    (folder.parent / "outside.splice").write_text(SHARED)
    for text in (
        'import "../outside.splice"',
        f'import "{folder.parent}/outside.splice"',
        'kernel k(x: f32[n]) -> x { cpu "../k.c" }',
        'kernel k(x: f32[n]) -> x { cpu "/etc/passwd" }',
    ):
        (folder / "acme.splice").write_text(text)
        assert "library acme names a file outside of its folder" in errors_of('import "acme"')


def test_links_are_the_installers_but_not_those_of_registries(site: Path, tmp_path: Path) -> None:
    """An installation to be edited may be a tree of links."""
    (tmp_path / "k.c").write_text("")
    (tmp_path / "linked.splice").write_text(SHARED)
    folder = install(site, "acme", {"acme.splice": 'import "linked.splice"\nkernel k(x: f32[n]) -> x { cpu "k.c" }\n'})
    for name in ("k.c", "linked.splice"):
        (folder / name).symlink_to(tmp_path / name)
    assert list(load_text('import "acme"').patterns) == ["twice"]
    pulled = Library("acme", folder, "oci://registry.example/acme:1", prebuilt_only=True)
    with pytest.raises(SpecError) as raised:
        load(folder / "acme.splice", pulled)
    assert len(raised.value.diagnostics) == 2
    (folder / "k.c").unlink()
    (folder / "k.c").symlink_to("k.c")
    assert not pulled.holds(folder / "k.c")


def test_libraries_from_elsewhere(site: Path, tmp_path: Path) -> None:
    """Such as locked ones: they are found by their names, and are not mixed up with installed ones."""
    folder = tmp_path / "pulled"
    folder.mkdir()
    (folder / "acme.splice").write_text('import "acme:more"\n')
    (folder / "more.splice").write_text(SHARED)
    main = tmp_path / "main.splice"
    main.write_text('import "acme"\n')
    pulled = Library("acme", folder, "oci://registry.example/acme:1.5", prebuilt_only=True)
    assert list(load(main, others={"acme": pulled}).patterns) == ["twice"]
    install(site, "acme", FILES)
    with pytest.raises(SpecError) as raised:
        load(main, others={"acme": pulled})
    assert "two libraries 'acme': oci://registry.example/acme:1.5, and acme 1.4 is installed" in str(raised.value)
    assert "uninstall acme, or take the other out of the lock" in str(raised.value)
    # Its own files mean itself by its name: versions stand side by side.
    assert list(load(folder / "acme.splice", pulled).patterns) == ["twice"]
    assert len(load(libraries.find("acme", {}).spec(), libraries.find("acme", {})).patterns) == 3

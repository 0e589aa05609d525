"""What was read from specs comes from the cache as it was, and from nothing that does not fit."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from opsplice.spec_lang.loading import loader, stored_trees
from opsplice.spec_lang.loading.libraries import OWN
from opsplice.spec_lang.syntax.spec_errors import SpecError

SPEC = """
kernel k(a: f32[n], by: f32) -> f32[n] where n > 3 { grid (ceildiv(n, 64)) cpu "k.c" }
pattern p(a: tensor<n x f32>) { mulf(negf(a), const(-0.0)) | absf(a) }
replace p with k(a, -0.0) otherwise keep
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    forget()
    yield
    forget()


def forget() -> None:
    """What this process remembers of specs."""
    loader._parsed.cache_clear()
    loader._outline.cache_clear()
    loader._judged.cache_clear()


def shown(loaded: loader.LoadedSpec) -> str:
    """All that was read, with where it stands. Sets have no order."""
    given = {name: sorted(names) for name, names in loaded.given.items()}
    return repr((loaded.files, dataclasses.replace(loaded.checked, given=given)))


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "specs" / "blobs").iterdir())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are parsed from now on."""
    parsed: list[Path] = []
    parse = loader.parse

    def noting(text: str, path: Path) -> object:
        parsed.append(path)
        return parse(text, path)

    monkeypatch.setattr(loader, "parse", noting)
    return parsed


@pytest.mark.parametrize("part", ["nn", "strided"])
def test_the_next_process_reads_nothing_and_gets_the_same(monkeypatch, part):
    parsed = counted(monkeypatch)
    first = loader.load(OWN.spec(part))
    assert parsed
    parsed.clear()
    forget()
    second = loader.load(OWN.spec(part))
    assert not parsed
    assert first.checked is not second.checked
    assert shown(first) == shown(second)
    # What is one object stays one: rules name patterns of the files, and types are told of the patterns' own parts.
    own = {id(pattern) for file in second.files for pattern in file.patterns}
    assert own & {id(pattern) for pattern in second.patterns.values()}
    sources = {id(file.source) for file in second.files}
    assert {id(pattern.span.source) for pattern in second.patterns.values()} <= sources


def test_imports_are_found_in_what_another_process_has_read(tmp_path):
    (tmp_path / "b.splice").write_text(SPEC)
    path = tmp_path / "a.splice"
    path.write_text('import "b.splice"\n')
    for _ in range(2):
        forget()
        loaded = loader.load(path)
        (import_,) = loaded.files[-1].imports
        assert loaded.target(import_) == tmp_path.resolve() / "b.splice"


def test_a_changed_file_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "a.splice"
    path.write_text(SPEC)
    loader.load(path)
    path.write_text(SPEC.replace("> 3", "> 4"))
    forget()
    assert loader.load(path).kernels["k"].span.source.text == path.read_text()
    parsed = counted(monkeypatch)
    forget()
    assert loader.load(path).kernels["k"].span.source.text == path.read_text()
    assert not parsed


def test_the_sign_of_zero_stays(tmp_path):
    path = tmp_path / "a.splice"
    path.write_text(SPEC)
    first = shown(loader.load(path))
    forget()
    assert "-0.0" in first
    assert shown(loader.load(path)) == first


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda _data: b"", lambda data: data.replace(b"mulf", b"addf")]
)
def test_a_damaged_entry_is_made_again(tmp_path, monkeypatch, damage):
    path = tmp_path / "a.splice"
    path.write_text(SPEC)
    first = shown(loader.load(path))
    for entry in entries(tmp_path):
        entry.write_bytes(damage(entry.read_bytes()))
    parsed = counted(monkeypatch)
    forget()
    assert shown(loader.load(path)) == first
    assert parsed == [path]
    parsed.clear()
    forget()
    loader.load(path)
    assert not parsed, "it was written anew"


def test_a_cache_that_others_may_write_to_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.splice"
    path.write_text(SPEC)
    loader.load(path)
    os.chmod(tmp_path / "cache" / "specs", 0o777)
    parsed = counted(monkeypatch)
    forget()
    loader.load(path)
    assert parsed == [path]


def test_errors_are_not_kept(tmp_path):
    path = tmp_path / "a.splice"
    path.write_text(SPEC.replace("absf(a)", "absf(b)"))
    for _ in range(2):
        forget()
        with pytest.raises(SpecError, match="b"):
            loader.load(path)


def test_the_oldest_entries_go(tmp_path, monkeypatch):
    keys = tmp_path / "cache" / "specs" / "keys"
    assert stored_trees.stored(["0"], lambda: (0,)) == (0,)
    (size,) = (each.stat().st_size for each in keys.iterdir())
    monkeypatch.setattr(stored_trees, "_LARGEST", 4 * size)
    for number in range(5):
        assert stored_trees.stored([str(number)], lambda number=number: (number,)) == (number,)
        os.utime(max(keys.iterdir(), key=os.path.getmtime), (number, number))
    assert len(entries(tmp_path)) == len(list(keys.iterdir())) == 3
    assert stored_trees.stored(["4"], lambda: ("made again",)) == (4,)
    assert stored_trees.stored(["0"], lambda: ("made again",)) == ("made again",)

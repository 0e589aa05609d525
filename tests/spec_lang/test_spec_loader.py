"""The loader: imports are read once and in order, and what cannot be read is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.loading import loader
from opsplice.spec_lang.loading.loader import load, load_text
from opsplice.spec_lang.syntax.spec_errors import SpecError


def kernel(name: str) -> str:
    return f'kernel {name}(x: f32[n]) -> x {{ cpu "{name}.c" }}\n'


def pattern(name: str) -> str:
    return f"pattern {name}(x: tensor<n x f32>) {{ exp(x) }}\n"


def write(folder: Path, **files: str) -> Path:
    """Write files and return the one called main."""
    for name, text in files.items():
        (folder / f"{name}.splice").write_text(text, encoding="utf-8")
    return folder / "main.splice"


def test_imports_come_first_and_diamonds_load_once(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", base=kernel("k") + pattern("base") + "replace base with k(x)\n")
    main = write(
        tmp_path,
        main='import "left.splice" import "right.splice"\n' + pattern("main") + "replace main with k(x)\n",
        left='import "sub/base.splice"\n' + pattern("left") + "replace left with k(x)\n",
        right='import "./sub/../sub/base.splice"\n' + pattern("right") + "replace right with k(x)\n",
    )
    loaded = load(main)
    assert [p.name for p in loaded.paths] == ["base.splice", "left.splice", "right.splice", "main.splice"]
    assert [r.pattern for r in loaded.rules] == ["base", "left", "right", "main"]
    assert list(loaded.patterns) == ["base", "left", "right", "main"]
    assert list(loaded.kernels) == ["k"]
    assert loaded.warnings == ()
    assert {str(t) for t in loaded.types.values()} == {"tensor<n x f32>"}


def test_names_declared_in_two_files_point_at_both(tmp_path: Path):
    main = write(tmp_path, main='import "other.splice"\n' + kernel("k"), other=kernel("k"))
    with pytest.raises(SpecError) as raised:
        load(main)
    (found,) = raised.value.diagnostics
    assert found.span.source.path == main
    assert found.notes[0][0].source.path == tmp_path / "other.splice"


def test_circles_of_imports(tmp_path: Path):
    main = write(tmp_path, main='import "a.splice"', a='\nimport "b.splice"', b='\n\nimport "a.splice"')
    with pytest.raises(
        SpecError, match=r"these files import each other: a\.splice -> b\.splice -> a\.splice"
    ) as raised:
        load(main)
    assert raised.value.diagnostics[0].span.line == 3
    alone = write(tmp_path, main='import "main.splice"')
    with pytest.raises(SpecError, match=r"main\.splice -> main\.splice"):
        load(alone)


def test_errors_of_several_files_come_together(tmp_path: Path):
    main = write(
        tmp_path, main='import "a.splice" import "nosuch.splice" import "b.splice" replace p with k()', a="x", b="y"
    )
    with pytest.raises(SpecError) as raised:
        load(main)
    assert [d.span.source.name for d in raised.value.diagnostics] == [
        str(tmp_path / "a.splice"),
        str(main),
        str(tmp_path / "b.splice"),
    ]
    assert "no such file" in str(raised.value)


def test_text_at_hand(tmp_path: Path):
    write(tmp_path, lib=kernel("k"))
    text = 'import "lib.splice"\n' + pattern("p") + "replace p with k(x)"
    assert len(load_text(text, tmp_path / "unwritten.splice").rules) == 1
    assert load_text(kernel("k")).paths == ()
    with pytest.raises(SpecError, match=r"no such file: lib\.splice"):
        load_text(text)


def test_warnings_do_not_stop(tmp_path: Path):
    loaded = load(write(tmp_path, main="pattern p(x: tensor<n x f32>, y: f32) { exp(x) }"))
    assert [w.message for w in loaded.warnings] == ["no result of p needs y"]


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path):
    path = tmp_path / "a.splice"
    path.write_bytes(b"\xef\xbb\xbf" + (kernel("k") + "// end\n").replace("\n", "\r\n").encode())
    assert list(load(path).kernels) == ["k"]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("mian.splice", "no such file", "did you mean main.splice"),
        ("folder", "is a folder", "name a .splice file"),
        ("latin.splice", "is not UTF-8 text (line 2)", "save it as UTF-8"),
        ("large.splice", "is larger than", None),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name, message, hint):
    monkeypatch.setattr(loader, "MAX_BYTES", 1000)
    write(tmp_path, main="", large="//" + "x" * 1000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.splice").write_bytes("// fine\n// \u00e9".encode("latin-1"))
    with pytest.raises(OpspliceError) as raised:
        load(tmp_path / name)
    assert message in raised.value.message
    assert hint is None or hint in str(raised.value.hint)
    imported = write(tmp_path, main=f'import "{name}"')
    with pytest.raises(SpecError) as inside:
        load(imported)
    assert message in inside.value.diagnostics[0].message


def test_the_library_is_imported_by_name(tmp_path: Path):
    loaded = load(write(tmp_path, main='import "opsplice:nn"\n' + pattern("mine")))
    assert [p.name for p in loaded.paths] == ["nn.splice", "main.splice"]
    assert {"softmax", "layernorm", "mine"} <= set(loaded.patterns)


def test_a_library_that_is_not_there(tmp_path: Path):
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, main='import "opsplice:mn"'))
    (found,) = caught.value.diagnostics
    assert "no part 'mn'" in found.message
    assert "nn" in (found.help or "")


def test_a_spec_is_read_again_and_judged_once(tmp_path):
    main, imported = tmp_path / "main.splice", tmp_path / "imported.splice"
    main.write_text('import "imported.splice"\npattern twice(x: tensor<n x f32>) { addf(x, once(x)) }\n')
    imported.write_text("pattern once(x: tensor<n x f32>) { negf(x) }\n")
    first, again = load(main), load(main)
    assert again.patterns["twice"] is first.patterns["twice"]
    imported.write_text("pattern once(x: tensor<n x f32>) { absf(x) }\n")
    assert load(main).patterns["once"] != first.patterns["once"]
    imported.write_text("pattern other(x: tensor<n x f32>) { absf(x) }\n")
    for _ in range(2):
        with pytest.raises(SpecError, match="once"):
            load(main)

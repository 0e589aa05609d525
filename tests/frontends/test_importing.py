import subprocess
import sys

import pytest

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.frontends.importing import ARCHIVE, FORMATS, ONNX, Format, import_model

TOY = Format("Toy", "tests.frontends.toy", "numpy")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path):
    def write(text, name="m.toy"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def entries():
    return sorted((cache.folder() / "imported").iterdir())


def error_of(model, **limits):
    with pytest.raises(OpspliceError) as caught:
        import_model(model, TOY, **limits)
    assert entries() == [], "a failed import leaves nothing"
    return caught.value


def test_an_import_is_kept_until_something_changes(model, tmp_path, monkeypatch):
    (tmp_path / "beside").write_text("1")
    path = model("weights beside")
    first = import_model(path, TOY, {"n": 3})
    assert first.facts == {"dims": {"n": 3}, "read": ["1"]}
    assert first.module.read_text() == "module {}"
    assert first.archive == first.module.with_name(ARCHIVE)
    assert first.parameters[0].scope == "model"
    stamp = first.module.stat().st_mtime_ns
    assert import_model(path, TOY, {"n": 3}) == first
    assert first.module.stat().st_mtime_ns == stamp, "it was not made again"
    other = import_model(path, TOY)
    assert other.facts["dims"] == {}
    assert other.module != first.module
    (tmp_path / "beside").write_text("22")
    assert import_model(path, TOY, {"n": 3}).facts["read"] == ["22"]
    assert len(entries()) == 2


def test_asking_whether_an_import_is_kept_imports_no_framework():
    for framework in ("torch", "onnx"):
        pytest.importorskip(framework, reason=f"{framework} is not installed (make frontends)")
    program = """
import sys
from pathlib import Path
from opsplice.frontends import importing
before = importing._key(Path(__file__), importing.EXPORTED, {})
assert before != importing._key(Path(__file__), importing.ONNX, {})
print(sorted({"torch", "onnx", "opsplice.torch", "opsplice.onnx"} & sys.modules.keys()))
"""
    program = program.replace("__file__", repr(__file__))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_damaged_entry_is_made_again(model):
    path = model("plain")
    made = import_model(path, TOY)
    assert made.archive is None
    made.module.write_text("modu")
    assert import_model(path, TOY).module.read_text() == "module {}"
    (made.module.parent / "facts.json").write_text("[]")
    assert import_model(path, TOY).facts == {"dims": {}, "read": []}


def test_bytes_are_imported_as_well():
    assert import_model(b"weights", TOY).facts["read"] == []
    assert [file.name for file in sorted(entries()[0].iterdir())] == ["facts.json", "module.mlirbc", ARCHIVE]


def test_what_goes_wrong_in_the_child_is_said_in_words(model):
    path = model("refuse")
    assert error_of(path).message == f"{path} is refused"
    assert error_of(b"refuse").message == "the Toy model is refused"
    assert error_of(model("crash")).message.startswith(f"importing {path} crashed: ")
    assert error_of(model("hang"), seconds=1).message == (
        f"importing {path} takes longer than 1 seconds, so it was given up"
    )
    assert error_of(model("grow")).message == "there is not enough memory"


def test_a_missing_package_says_what_to_install(model):
    with pytest.raises(OpspliceError) as caught:
        import_model(model("plain"), Format("Toy", "tests.frontends.toy", "no_such_package"))
    assert "package 'no_such_package' is not installed" in caught.value.message
    assert caught.value.hint == "install it: pip install 'opsplice[no_such_package]'"


def test_the_formats_have_extras_of_their_packages():
    assert FORMATS[".onnx"] == ONNX
    assert ONNX.package == "onnx"

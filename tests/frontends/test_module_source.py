import pickle

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource, load

BYTECODE = b"ML\xefR\x0dMLIR\x00rest"


def test_a_path_is_kept_unread(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_text("module {}\r\n// two\n")
    for given in (path, str(path)):
        source = load(given)
        assert source == ModuleSource(path=path)
        assert source.name == str(path)
        assert source.line(1) == "module {}"
        assert source.line(2) == "// two"
        assert source.line(9) is None


def test_text_is_told_from_a_path():
    assert load("module {}").content == "module {}"
    assert load("// only a comment\nmodule @m attributes {} {}").name == "<module>"


def test_bytes_are_text_or_bytecode():
    assert load(b"module {}").read() == b"module {}"
    assert not load(b"module {}").is_bytecode
    source = load(bytearray(BYTECODE))
    assert source.is_bytecode
    assert source.line(1) is None


def test_bytecode_is_known_by_its_content_not_its_name(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_bytes(BYTECODE)
    assert load(path).is_bytecode


def test_a_source_pickles(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_text("module {}")
    for source in (load(path), load("module {}"), load(BYTECODE)):
        assert pickle.loads(pickle.dumps(source)) == source


def test_a_source_is_taken_as_it_is():
    source = ModuleSource(content="module {}")
    assert load(source) is source


def test_module_of_iree_becomes_bytecode():
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parse("func.func private @f()")
    source = load(module)
    assert source.is_bytecode
    assert b"func" in source.read()


def test_module_of_another_package_becomes_generic_text():
    class ForeignModule:
        """What JAX's and torch-mlir's bindings have in common."""

        @property
        def operation(self):
            return self

        def get_asm(self, *, print_generic_op_form, enable_debug_info):
            assert print_generic_op_form
            assert enable_debug_info
            return '"builtin.module"() ({\n}) : () -> ()'

    assert load(ForeignModule()).read().startswith(b'"builtin.module"')


def error_of(source):
    with pytest.raises(OpspliceError) as error:
        load(source)
    return error.value


def test_missing_file_suggests_a_near_one(tmp_path):
    (tmp_path / "model.mlir").write_text("module {}")
    error = error_of(tmp_path / "modle.mlir")
    assert error.message == f"no such file: {tmp_path / 'modle.mlir'}"
    assert error.hint == "did you mean model.mlir?"
    (tmp_path / "opsplice").mkdir()
    assert "no file in" in error_of(tmp_path / "nospec.splice").hint, "a folder is no file"
    assert "no folder" in error_of(tmp_path / "nowhere" / "model.mlir").hint


def test_a_folder_is_no_module(tmp_path):
    error = error_of(tmp_path)
    assert error.message == f"{tmp_path} is a folder, not a file"
    assert error.hint == "a model is a file: MLIR, .onnx or .pt2"


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_empty_is_said(tmp_path, content):
    path = tmp_path / "m.mlir"
    path.write_bytes(content)
    assert error_of(path).message == f"{path} is empty"
    assert error_of(content).message == "the module is empty"


@pytest.mark.parametrize(
    ("name", "hint"), [("m.pt", "torch.export.save"), ("m.tflite", "to ONNX"), ("m.vmfb", "compiled program")]
)
def test_other_formats_say_what_to_do(tmp_path, name, hint):
    path = tmp_path / name
    path.write_bytes(b"\x08\x0a\x00something else")
    error = error_of(path)
    assert error.message == f"{path} is not MLIR"
    assert hint in error.hint


def test_binary_content_is_not_mlir(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_bytes(b"\x7fELF\0\0")
    assert "neither text nor MLIR bytecode" in error_of(path).message


def test_what_cannot_be_a_module_is_a_type_error():
    with pytest.raises(TypeError, match="not int"):
        load(3)

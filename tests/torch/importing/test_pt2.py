"""Files of torch.export.save: compiled and run by the commands, and nothing of what they hold is run."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends.importing import Request
from opsplice.torch.importing.pt2 import import_model
from tests.command_line import opsplice as command


class Model(torch.nn.Module):
    """A weight out of order in memory, a buffer that changes, a constant, sizes that depend on others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)
        self.turned = torch.nn.Parameter(torch.randn(4, 4).t())
        self.register_buffer("calls", torch.zeros(()))
        self.constant = torch.arange(4.0)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        self.calls.add_(1)
        with torch.no_grad():
            scaled = y * 2
        return {"flat": (self.linear(x) @ self.turned + self.constant).reshape(-1), "pair": (scaled, self.calls + 0)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.export.Dim("rows", min=2, max=8)
    dynamic = {"x": {0: rows}, "y": {0: 2 * rows - 1}}
    program = torch.export.export(Model().eval(), (torch.ones(3, 4), torch.ones(5)), dynamic_shapes=dynamic)
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(program, path)
    return path


def test_a_file_is_compiled_and_run(file: Path, tmp_path: Path) -> None:
    done = command("compile", file, "-o", tmp_path / "m.vmfb", check=True)
    assert (tmp_path / "m.irpa").exists(), done.stderr
    program = opsplice.load(tmp_path / "m.vmfb")
    x, y = torch.randn(5, 4), torch.randn(9)
    expected = Model()(x, y)
    flat, scaled, calls = program.run("main", x.numpy(), y.numpy())
    np.testing.assert_allclose(flat, expected["flat"].detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(scaled, expected["pair"][0].numpy(), atol=1e-6)
    assert calls == 1
    assert [value.name for value in program.functions["main"].outputs] == ["flat", "pair.0", "pair.1"]
    with pytest.raises(opsplice.OpspliceError, match="has size 10 in dim 0, the function takes"):
        program.run("main", x.numpy(), np.ones(10, np.float32))
    with pytest.raises(opsplice.OpspliceError, match=r"the dims of .* have no names, so none can be fixed") as error:
        opsplice.compile(file, dims={"rows": 4})
    assert "torch.export keeps no names of dims" in str(error.value.hint)


# ---- what others could write into a file -----------------------------------------------------------------------------

TOUCH = "__import__('pathlib').Path('{}').touch()"


class Touches:
    """What touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def rewritten(file: Path, into: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(into, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, change(entry.filename, old.read(entry)))
    return into


def edited(change: Callable[[Any], None], name: str = "model.json") -> Callable[[str, bytes], bytes]:
    def edit(entry: str, data: bytes) -> bytes:
        if not entry.endswith(name):
            return data
        content = json.loads(data)
        change(content)
        return json.dumps(content).encode()

    return edit


def pickled(path: Path) -> bytes:
    stream = io.BytesIO()
    torch.save(Touches(path), stream)
    return stream.getvalue()


def attacks(touched: Path) -> dict[str, tuple[Callable[[str, bytes], bytes], str]]:
    """Ways to run code, each with what is said; "" for what is left out, so that the model is read."""
    code = TOUCH.format(touched)

    def size(content: Any) -> None:
        dim = content["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]
        dim["as_expr"]["expr_str"] = code

    def symbol(content: Any) -> None:
        dim = content["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]
        dim["as_expr"]["expr_str"] = f'Symbol("s", integer={code})'

    def operator(content: Any) -> None:
        node = content["graph_module"]["graph"]["nodes"][0]
        node["inputs"][0]["arg"] = {"as_operator": "torch.os.system"}

    def guard(content: Any) -> None:
        content["guards_code"] = [code]

    def argument(content: Any) -> None:
        named = f'"name": {json.dumps(f"x={code}")}'
        content.update(json.loads(json.dumps(content).replace('"name": "x"', named)))

    def tree(content: Any) -> None:
        module, spec = "antigravity:a", {"type": "collections.defaultdict", "children_spec": []}
        spec["context"] = json.dumps(
            {"default_factory_module": module, "default_factory_name": "x", "dict_context": []}
        )
        signature = content["graph_module"]["module_call_graph"][0]["signature"]
        protocol, given = json.loads(signature["in_spec"])
        spec["children_spec"] = given["children_spec"]
        signature["in_spec"] = json.dumps([protocol, spec])

    def weight(content: Any) -> None:
        content["config"]["linear.bias"]["use_pickle"] = True

    def opaque(content: Any) -> None:
        content["config"]["constant"]["path_name"] = "opaque_obj_0"

    return {
        "size": (edited(size), "the size"),
        "symbol": (edited(symbol), "the size"),
        "operator": (edited(operator), "the name 'torch.os.system'"),
        "guard": (edited(guard), ""),
        "argument": (edited(argument), "holds the name"),
        "tree": (edited(tree), ""),
        "weight": (edited(weight, "weights_config.json"), "the pickled object 'linear.bias'"),
        "opaque": (edited(opaque, "constants_config.json"), "the pickled object 'constant'"),
        "sample": (lambda entry, data: pickled(touched) if "sample_inputs" in entry else data, ""),
    }


@pytest.mark.parametrize("attack", list(attacks(Path())))
def test_nothing_of_a_file_is_run(file: Path, tmp_path: Path, attack: str) -> None:
    touched = tmp_path / "touched"
    change, message = attacks(touched)[attack]
    path = rewritten(file, tmp_path / "model.pt2", change)
    (tmp_path / "out").mkdir()
    request = Request(path, "model.pt2", tmp_path / "out", {})
    if message:
        with pytest.raises(opsplice.OpspliceError, match="can run code of its author") as raised:
            import_model(request)
        assert message in str(raised.value)
    else:
        import_model(request)
    assert not touched.exists()


def test_the_attacks_are_real(file: Path, tmp_path: Path) -> None:
    """PyTorch's own reader runs them."""
    touched = tmp_path / "touched"
    for attack in ("size", "sample"):
        path = rewritten(file, tmp_path / "model.pt2", attacks(touched)[attack][0])
        with contextlib.suppress(Exception):
            torch.export.load(path)
        assert touched.exists(), attack
        touched.unlink()


def test_an_op_of_another_package_is_named(file: Path, tmp_path: Path) -> None:
    def renamed(content: Any) -> None:
        content["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.acme_layers.linear.default"

    path = rewritten(file, tmp_path / "foreign.pt2", edited(renamed))
    with pytest.raises(opsplice.OpspliceError, match=r"has the op acme_layers\.linear, which another") as caught:
        import_model(Request(path, "foreign.pt2", tmp_path, {}))
    assert "opsplice.torch.export" in (caught.value.hint or "")


class OfPackages(torch.nn.Module):
    """Ops of PyTorch's package for quantised models, and of transformers, as a mixture of experts has them."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.Parameter(torch.arange(24.0).reshape(3, 2, 4) % 5)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        words = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.5, 1, -128, 127, torch.int8)
        rows = torch.ops.quantized_decomposed.dequantize_per_tensor(words, 0.5, 1, -128, 127, torch.int8)
        return torch.ops.transformers.grouped_mm_fallback(rows, self.experts, ends)


def test_ops_of_packages_that_are_known_are_taken(tmp_path: Path) -> None:
    """The reader imports neither package; the child process that reads has only what it declares itself."""
    pytest.importorskip("transformers.integrations.moe", reason="transformers is not installed (make frontends)")
    from torch.ao.quantization.fx import _decomposed  # noqa: F401, declares the ops

    given = torch.tensor([[0.2, 3.0], [-1.4, 0.6], [9.9, -0.1], [1.0, 2.0]]), torch.tensor([1, 1, 4], dtype=torch.int32)
    torch.export.save(torch.export.export(OfPackages(), given), tmp_path / "m.pt2")
    x, ends = (each.numpy() for each in given)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "ends.npy", ends)
    inputs = (f"--input=@{tmp_path / name}.npy" for name in ("x", "ends"))
    command("run", tmp_path / "m.pt2", *inputs, f"--output=@{tmp_path / 'y.npy'}", check=True)
    rows, experts = np.rint(x / 0.5) * 0.5, (np.arange(24.0).reshape(3, 2, 4) % 5).astype(np.float32)
    expected = np.concatenate([rows[:1] @ experts[0], rows[1:] @ experts[2]])
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-6)


def test_what_torch_export_save_did_not_write_is_told(tmp_path: Path) -> None:
    for name, content in (("text.pt2", b"hello"), ("pickle.pt2", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(content)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "saved.pt2")
    for name in ("text.pt2", "pickle.pt2", "saved.pt2"):
        with pytest.raises(OpspliceError, match=rf"{name} was not written by torch\.export\.save") as error:
            opsplice.compile(tmp_path / name)
        assert "torch.export.export(model, args)" in str(error.value.hint)


def test_what_pytorch_cannot_take_apart_is_told(tmp_path: Path) -> None:
    """PyTorch's graphs have a `code` themselves."""

    class Coded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("code", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.code

    path = tmp_path / "coded.pt2"
    torch.export.save(torch.export.export(Coded(), (torch.ones(3),)), path)
    with pytest.raises(OpspliceError, match="PyTorch cannot take the program apart") as caught:
        import_model(Request(path, path.name, tmp_path, {}))
    assert "attribute 'code' already exists" in caught.value.details

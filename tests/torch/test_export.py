"""Models of PyTorch ahead of time: numbers and state as in eager mode, weights beside the program, errors in words."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import opsplice

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

from opsplice.torch.importing.exported import LARGEST_LITERAL

DTYPES = (
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bool,
)


def values(dtype: torch.dtype, count: int) -> torch.Tensor:
    return (torch.arange(count) % 5).to(dtype)


class Buffers(torch.nn.Module):
    """Buffers of every dtype: large and small ones, of rank 0, zero and not, that change and that do not."""

    def __init__(self) -> None:
        super().__init__()
        for number, dtype in enumerate(DTYPES):
            self.register_buffer(f"changing{number}", values(dtype, 4))
            self.register_buffer(f"zero{number}", torch.zeros(2, 3).to(dtype))
            self.register_buffer(f"scalar{number}", torch.tensor(1).to(dtype))
            self.register_buffer(f"large{number}", values(dtype, LARGEST_LITERAL + 1))
            self.register_buffer(f"small{number}", values(dtype, 3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        for number, dtype in enumerate(DTYPES):
            for name in ("changing", "zero", "scalar"):
                buffer = self.get_buffer(f"{name}{number}")
                buffer.copy_(~buffer if dtype == torch.bool else buffer * 2 + 1)
        return [x + 1, *(each[..., :4] if each.ndim else each + 0 for each in self.buffers())]


class Model(torch.nn.Module):
    """Weights that are tied, out of order in memory, and of one element; all kinds of results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(8, 8)
        self.tied = torch.nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.turned = torch.nn.Parameter(torch.randn(8, 8).t())
        self.scale = torch.nn.Parameter(torch.tensor([0.5]))
        self.register_buffer("cache", torch.full((4, 300), 2.0))
        self.register_buffer("copy", torch.zeros(300))

    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor], times: int = 2) -> dict[str, object]:
        y = self.tied(torch.relu(self.first(x))) @ self.turned * self.scale * times
        return {"y": y, "pair": (more["a"] + x[:, 0], None), "rows": x.shape[0]}

    def write(self, row: torch.Tensor) -> torch.Tensor:
        before = self.cache.sum()
        self.cache[1] = row
        self.copy.copy_(row + 1)
        return before

    def read(self) -> torch.Tensor:
        return torch.stack([self.cache.sum(), self.copy.sum()])


def main_example(rows: int = 3) -> tuple[object, ...]:
    return torch.randn(rows, 8), {"a": torch.randn(rows)}


@pytest.fixture(scope="module")
def model() -> Model:
    return Model().eval()


@pytest.fixture(scope="module")
def program(model: Model) -> opsplice.Program:
    rows = torch.export.Dim("rows", min=2, max=6)
    dynamic = {"x": {0: rows}, "more": {"a": {0: rows}}}
    functions = {
        "main": (model, main_example(), {}, dynamic),
        "write": (model.write, (torch.randn(300),)),
        "read": (model.read,),
    }
    return opsplice.torch.export(functions)


def test_numbers_are_those_of_the_model(model: Model, program: opsplice.Program) -> None:
    for rows in (2, 3, 6):
        x, more = main_example(rows)
        expected = model(x, more)
        y, first, count = program.run("main", x.numpy(), more["a"].numpy())
        np.testing.assert_allclose(y, expected["y"].detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(first, expected["pair"][0].numpy(), atol=1e-6)
        assert count == rows


def test_a_model_elsewhere_is_sent_here(model: Model) -> None:
    with pytest.raises(TypeError, match=r"not Model: opsplice\.torch\.export takes models of PyTorch"):
        opsplice.compile(model)


def test_inputs_and_results_have_the_names_that_the_model_has_for_them(program: opsplice.Program) -> None:
    function = program.functions["main"]
    assert [value.name for value in function.inputs] == ["x", "more_a"]
    assert [value.name for value in function.outputs] == ["y", "pair.0", "rows"]
    with pytest.raises(opsplice.OpspliceError, match=r"input 1 \(more_a\) of 'main' is 3xi64"):
        program.run("main", np.ones((3, 8), np.float32), np.ones(3, np.int64))


@pytest.mark.parametrize(
    ("rows", "others", "message"),
    [
        (7, 7, r"input 0 \(x\) of 'main' has size 7 in dim 0, the function takes 2 to 6"),
        (1, 1, "has size 1 in dim 0, the function takes 2 to 6"),
        (
            3,
            4,
            r"input 1 .* has size 4 in dim 0, the function takes 3, because of the size 3 of input 0 \(x\) in dim 0",
        ),
    ],
)
def test_sizes_that_the_model_does_not_take_are_refused(
    program: opsplice.Program, rows: int, others: int, message: str
) -> None:
    with pytest.raises(opsplice.OpspliceError, match=message):
        program.run("main", np.ones((rows, 8), np.float32), np.ones(others, np.float32))


def test_weights_are_shared_named_and_not_copied(model: Model, program: opsplice.Program) -> None:
    (weights,) = program.parameters
    assert set(weights.arrays) == {"first.weight", "first.bias", "tied.bias", "turned", "scale"}
    assert weights.arrays["first.weight"].ctypes.data == model.first.weight.data_ptr()
    np.testing.assert_array_equal(weights.arrays["turned"], model.turned.detach().numpy())
    assert len(program.vmfb) < 100_000


def test_functions_share_the_buffers_that_one_of_them_changes(model: Model, program: opsplice.Program) -> None:
    before = model.cache.clone()
    assert program.run("read").tolist() == [2400, 0]
    assert program.run("write", np.ones(300, np.float32)) == 2400
    assert program.run("read").tolist() == [2100, 600]
    assert torch.equal(model.cache, before)  # the model's own memory is not the program's


def test_a_saved_program_runs_without_torch(model: Model, program: opsplice.Program, tmp_path: Path) -> None:
    x, more = main_example()
    program.save(tmp_path / "m.vmfb")
    np.savez(tmp_path / "inputs.npz", x=x.numpy(), a=more["a"].numpy())
    code = """
import sys
sys.modules["torch"] = None
import numpy as np, opsplice
inputs = np.load("inputs.npz")
program = opsplice.load("m.vmfb")
np.save("y.npy", program.run("main", inputs["x"], inputs["a"])[0])
program.run("write", np.ones(300, np.float32))
assert program.run("read").tolist() == [2100, 600]
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x, more)["y"].detach().numpy(), atol=1e-5)


def test_buffers_of_every_dtype() -> None:
    model = Buffers().eval()
    program = opsplice.torch.export(model, (torch.ones(2),))
    for _ in range(2):
        results = program.run("main", np.ones(2, np.float32))
        for result, expected in zip(results, model(torch.ones(2)), strict=True):
            np.testing.assert_array_equal(np.float64(result), expected.double().numpy())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_small_constants_of_halves_beside_other_numbers(dtype: torch.dtype) -> None:
    """They go into a dispatch, such as the frequencies of rotary embeddings; IREE computes with them in f32."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", (torch.arange(8) + 1.5).to(dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.scale).float()

    model, x = Scaled().eval(), torch.arange(8).to(dtype)
    found = opsplice.torch.export(model, (x,)).run("main", x.float().numpy().astype(str(dtype).removeprefix("torch.")))
    np.testing.assert_array_equal(found, model(x).numpy())


def test_weights_of_four_bits_are_unpacked_in_the_program() -> None:
    """Numbers in ops on integers become no constants, which torch.export would not find."""

    class Grouped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("packed", torch.arange(256, dtype=torch.uint8).reshape(8, 32))
            self.register_buffer("scale", torch.rand(8, 4, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            whole = torch.stack([self.packed & 0xF, self.packed >> 4], -1).reshape(8, 4, 16)
            return x @ ((whole.to(torch.float32) - 8) * self.scale).reshape(8, 64).T

    model, x = Grouped().eval(), torch.randn(4, 64)
    program = opsplice.torch.export(model, (x,))
    np.testing.assert_allclose(program.run("main", x.numpy()), model(x).numpy(), rtol=1e-4, atol=1e-4)


class Grown(torch.nn.Module):
    """As models of segmentation put maps of several sizes together."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        grow = torch.nn.functional.interpolate
        return [grow(x, size=(8, 7), mode="bilinear", align_corners=c) for c in (False, True)] + [
            *(grow(x, scale_factor=2, mode=mode) for mode in ("bilinear", "nearest")),
            grow(x, size=(8, 7)),
        ]


def test_images_grow() -> None:
    x = torch.randn(1, 2, 4, 3)
    found = opsplice.torch.export(Grown().eval(), (x,)).run("main", x.numpy())
    for ours, theirs in zip(found, Grown()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(np.array(ours)), theirs)


def test_an_input_that_the_model_changes_is_a_result() -> None:
    class Changes(torch.nn.Module):
        def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            cache[1] = x
            return cache.sum()

    program = opsplice.torch.export(Changes().eval(), (torch.ones(3), torch.zeros(2, 3)))
    total, cache = program.run("main", np.ones(3, np.float32), np.zeros((2, 3), np.float32))
    assert total == 3
    assert cache.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert [value.name for value in program.functions["main"].outputs] == ["output0", "cache"]


def test_pytorch_warns_users_of_nothing_that_it_does_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        warnings.filterwarnings("error", "TF32")
        opsplice.torch.export(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),))


def test_open_dims_without_names() -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum(0) + y

    example = (torch.ones(3, 2), torch.ones(2))
    program = opsplice.torch.export(Sums().eval(), example, dynamic=({0: "rows"}, None))
    np.testing.assert_array_equal(program.run("main", np.ones((5, 2), np.float32), np.ones(2, np.float32)), [6, 6])


def test_words_for_what_cannot_be_exported() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    example = (torch.ones(3),)
    with pytest.raises(opsplice.OpspliceError, match="PyTorch cannot export 'main'"):
        opsplice.torch.export(Branches().eval(), example)
    with pytest.raises(opsplice.OpspliceError, match="dynamic names the input 'y', which the model is not called with"):
        opsplice.torch.export(Branches().eval(), example, dynamic={"y": {0: "n"}})
    with pytest.raises(opsplice.OpspliceError, match="dynamic has 2 entries, and the model is called with 1 inputs"):
        opsplice.torch.export(Branches().eval(), example, dynamic=({0: "n"}, None))
    with pytest.raises(opsplice.OpspliceError, match="is neither a module nor a method of one"):
        opsplice.torch.export(len, example)
    with pytest.warns(UserWarning, match="exported in training mode"):
        opsplice.torch.export(torch.nn.Dropout(), example)


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_factors_are_not_checked(name: str) -> None:
    class Factors(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return getattr(torch.linalg, name)(x)

    x = torch.randn(3, 3) / 4 + torch.eye(3)
    x = x @ x.mT
    program = opsplice.torch.export(Factors().eval(), (x,), specs=[])
    torch.testing.assert_close(torch.tensor(program.run("main", x.numpy())), Factors()(x), rtol=1e-5, atol=1e-5)
    assert not np.isfinite(program.run("main", np.zeros((3, 3), np.float32))).all()


def test_an_op_that_does_more_than_give_results_is_named_with_its_line() -> None:
    class Printing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.aten._print("x")
            return x + 1

    with pytest.raises(opsplice.OpspliceError, match=r"aten\._print.* has effects besides its results"):
        opsplice.torch.export(Printing().eval(), (torch.eye(2),), specs=[])


def test_a_model_of_no_rows() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.GELU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3))
    x = torch.ones(0, 5, 6)
    program = opsplice.torch.export(
        layers.eval(), (x,), dynamic={"input": {1: torch.export.Dim("length", min=2, max=9)}}
    )
    assert program.run("main", x[:, :4].numpy()).shape == (0, 4, 3)


class Caches(torch.nn.Module):
    """Two buffers that begin as the same numbers, and of which a row changes in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(16, 32))
        self.register_buffer("values", torch.zeros(16, 32))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(0, self.at, x)
        self.values.index_copy_(0, self.at, 2 * x + 1)
        self.at += 1
        return torch.softmax(x @ self.keys.T, -1) @ self.values


def test_buffers_that_begin_as_the_same_numbers_stay_apart(tmp_path: Path) -> None:
    model = Caches().eval()
    program = opsplice.torch.export(model, (torch.zeros(1, 32),))
    for number in range(3):
        x = torch.linspace(-1, number, 32).reshape(1, 32)
        np.testing.assert_allclose(program.run("main", x.numpy()), model(x).numpy(), atol=1e-5)
    torch.export.save(torch.export.export(Caches().eval(), (torch.zeros(1, 32),)), tmp_path / "model.pt2")
    (whole,) = opsplice.verify(tmp_path / "model.pt2", []).whole
    assert (whole.note, whole.reason) == ("", "")
    assert whole.off is not None
    assert whole.off < 1e-6

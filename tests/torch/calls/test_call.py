"""Calls with tensors: what they hold is what the program sees, whatever was done to them since the last call."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

from functools import partial

import torch
from torch.nn import Parameter

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.torch.calls.call import compiled_call
from tests.waiting import in_threads

MODEL = """
func.func @main(%x: tensor<?xf32>, %w: tensor<4xf32>, %n: i64) -> (tensor<?xf32>, tensor<4xf32>, tensor<4xf32>, i64) {
  %y = arith.addf %x, %x : tensor<?xf32>
  %v = arith.addf %w, %w : tensor<4xf32>
  return %y, %v, %w, %n : tensor<?xf32>, tensor<4xf32>, tensor<4xf32>, i64
}
"""
OTHERS = """
func.func @main(%x: tensor<4xf32>, %h: tensor<3xbf16>, %b: tensor<2xi1>, %f: tensor<2xf8E4M3FN>,
                %z: tensor<2xcomplex<f32>>) -> (tensor<4xf32>, tensor<3xbf16>, tensor<2xi1>, tensor<2xf8E4M3FN>,
                tensor<2xcomplex<f32>>) {
  return %x, %h, %b, %f, %z : tensor<4xf32>, tensor<3xbf16>, tensor<2xi1>, tensor<2xf8E4M3FN>, tensor<2xcomplex<f32>>
}
"""


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL)


@pytest.fixture(scope="module")
def others():
    return opsplice.compile(OTHERS)


@pytest.fixture(params=["local-sync", "local-task"])
def call(program, request):
    return compiled_call(program, request.param)


def test_a_weight_is_what_it_holds_at_the_call(call):
    x, w = torch.arange(3.0), Parameter(torch.arange(4.0))

    def seen():
        return call([x, w, 1])[1].tolist()

    assert seen() == [0, 2, 4, 6]
    with torch.no_grad():
        w.add_(1)
    assert seen() == [2, 4, 6, 8]
    w.data = torch.full((4,), 5.0)
    assert seen() == [10] * 4
    w.data = torch.arange(8.0)[::2]
    assert seen() == [0, 4, 8, 12]
    w.untyped_storage().resize_(1 << 20)
    with torch.no_grad():
        w.fill_(3)
    assert seen() == [6] * 4
    for number in range(20):
        # Freed memory is given to the next tensor of the size.
        assert call([x, torch.full((4,), float(number)), 1])[1].tolist() == [2.0 * number] * 4


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(6.0)[1:],
        torch.arange(8.0)[::2],
        torch.ones(1).expand(4),
        torch.empty(0),
        torch._neg_view(torch.arange(4.0)),
        torch.tensor([2 + 3j]).conj().imag,
        torch.arange(5.0, requires_grad=True),
    ],
)
def test_every_layout(call, x):
    y, _, _, number = call([x, torch.zeros(4), 2**40])
    torch.testing.assert_close(y, (x + x).detach(), rtol=0, atol=0)
    assert number == 2**40


def test_results_are_memory_of_their_own(call):
    w = torch.arange(4.0)
    first = call([torch.ones(3), w, 0])
    first[2].fill_(7)
    assert w.tolist() == [0, 1, 2, 3]
    second = call([torch.zeros(3), w, 0])
    assert first[0].tolist() == [2, 2, 2]
    del w, call
    gc.collect()
    assert second[2].tolist() == [0, 1, 2, 3]


def test_elements_of_all_types(others):
    given = [
        torch.arange(4.0),
        torch.tensor([1.5, -2.0, 3.0]).bfloat16(),
        torch.tensor([True, False]),
        torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn),
        torch.tensor([1 + 2j, 3j], dtype=torch.complex64).conj(),
    ]
    for device in ("local-sync", "local-task"):
        for result, value in zip(compiled_call(others, device)(given), given, strict=True):
            assert result.dtype == value.dtype
            assert torch.equal(result.to(torch.complex64), value.to(torch.complex64))


def test_integers_without_a_sign_stay_so():
    added = torch.compile(lambda x, y: (x + 1, y + 1, x > 9), backend="opsplice", options={"device": "local-sync"})
    bytes_, integers = torch.tensor([200, 3], dtype=torch.uint8), torch.tensor([200, 3], dtype=torch.int16)
    for result, wanted in zip(added(bytes_, integers), (bytes_ + 1, integers + 1, bytes_ > 9), strict=True):
        assert (result.dtype, result.tolist()) == (wanted.dtype, wanted.tolist())


def test_devices_with_memory_of_their_own(vulkan):
    shaders = opsplice.compile(MODEL, targets=["vulkan"])
    y, v, w, number = compiled_call(shaders, "vulkan")([torch.arange(5.0), Parameter(torch.ones(4)), 3])
    assert (y.tolist(), v.tolist(), w.tolist(), number) == ([0, 2, 4, 6, 8], [2] * 4, [1] * 4, 3)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3, device="meta"), "input 0 is on meta, but programs take tensors on the CPU"),
        (torch.ones(3).to_sparse(), "input 0 is a torch.sparse_coo tensor of torch.float32, which cannot be taken"),
    ],
)
def test_tensors_that_are_not_in_memory_are_refused(call, tensor, message):
    with pytest.raises(OpspliceError) as raised:
        call([tensor, torch.ones(4), 0])
    assert raised.value.message == message


def test_other_threads_help_when_calls_take_long(program, monkeypatch):
    used, loaded = [], []
    direct = opsplice.Program.direct

    def noted(self, function, device, plugins):
        used.append(device)
        made = direct(self, function, device=device, plugins=plugins)
        loaded.append(weakref.ref(made.program))
        return made

    monkeypatch.setattr(opsplice.Program, "direct", noted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    given = [torch.arange(3.0), torch.arange(4.0), 0]
    call = compiled_call(program, None)
    for long, wanted in ((3600, 1), (3600, 1), (0, 1), (0, 1), (3600, 1), (0, 1), (0, 1), (0, 2), (0, 2)):
        monkeypatch.setattr("opsplice.torch.calls.call.LONG", long)
        assert call(given)[0].tolist() == [0, 2, 4]
        assert len(used) == wanted
    assert used == ["local-sync", "local-task"]
    gc.collect()
    assert [each() is None for each in loaded] == [True, False]  # weights are in memory once
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    call = compiled_call(program, None)
    assert [call(given)[3] for _ in range(5)] == [0] * 5
    assert used[2:] == ["local-sync"]


def test_a_model_in_threads():
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
    fast = torch.compile(model, backend="opsplice", options={"device": "local-task"})
    inputs = [torch.rand(4, 32) for _ in range(3)]
    with torch.no_grad():
        fast(inputs[0])
        wrong = []

        def work(x):
            with torch.no_grad():
                wanted = model(x)
                wrong.extend(1 for _ in range(30) if not np.allclose(fast(x), wanted, atol=1e-5))

        in_threads(*(partial(work, x) for x in inputs))
    assert not wrong


def test_indices_outside_of_a_tensor_neither_read_nor_write_others_memory():
    def f(x, at, row):
        picked = x[at], torch.gather(x, 0, at[:, None]), torch.nn.functional.embedding(at, x), x.index_select(0, row)
        written = torch.index_put(x, (at,), x[:3] + 1), torch.scatter_add(x, 0, at[:, None], x), x.index_add(0, row, x)
        return picked, written

    x, at, row = torch.arange(12.0).reshape(3, 4), torch.tensor([1, 2**40, 0]), torch.tensor([2, 1, -9])
    before = x.clone()
    (rows, picked, embedded, selected), (put, added, summed) = torch.compile(f, backend="opsplice")(x, at, row)
    assert torch.equal(x, before)
    assert torch.equal(rows, x[[1, 2, 0]])
    assert torch.equal(embedded, rows)
    assert torch.equal(picked, rows[:, :1])
    assert torch.equal(selected, x[[2, 1, 0]])
    assert torch.equal(put, torch.stack([x[2] + 1, x[0] + 1, x[2]]))
    assert torch.equal(added[:, 0], torch.tensor([8.0, 4.0, 8.0]))
    assert torch.equal(summed, torch.stack([x[0], x[1] * 2, x[2] + x[0]]))


def test_a_result_may_outlive_all_modules_when_python_ends():
    script = """
import os, torch, opsplice
os.kept = torch.compile(torch.atan2, backend="opsplice")(torch.ones(3), torch.ones(3))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)

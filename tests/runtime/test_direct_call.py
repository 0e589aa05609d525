"""Calls by DLPack: what is shared, what is copied, and that nobody's memory changes under their hands."""

from __future__ import annotations

import gc
import subprocess
import sys
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.runtime import to_host, value_text
from tests.waiting import in_threads

ELEMENTS = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i1")

MODEL = """
func.func @same(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }
func.func @folded(%x: tensor<4xi32>) -> tensor<2x2xi32> {
  %zero = arith.constant dense<0> : tensor<4xi32>
  %sum = arith.addi %x, %zero : tensor<4xi32>
  %square = tensor.expand_shape %sum [[0, 1]] output_shape [2, 2] : tensor<4xi32> into tensor<2x2xi32>
  return %square : tensor<2x2xi32>
}
func.func @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y, %y : tensor<8xf32>, tensor<8xf32>
}
func.func @constant() -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func @mixed(%x: tensor<f32>, %a: f32, %n: i64, %flag: i1) -> (f32, tensor<f32>, i64, i1) {
  %b = arith.addf %a, %a : f32
  %y = arith.addf %x, %x : tensor<f32>
  return %b, %y, %n, %flag : f32, tensor<f32>, i64, i1
}
""" + "\n".join(
    f"func.func @keep_{kind}(%x: tensor<2x3x{kind}>, %mask: tensor<2x3xi1>) -> tensor<2x3x{kind}> {{\n"
    f"  %y = arith.select %mask, %x, %x : tensor<2x3xi1>, tensor<2x3x{kind}>\n"
    f"  %z = util.optimization_barrier %y : tensor<2x3x{kind}>\n"
    f"  return %z : tensor<2x3x{kind}>\n}}"
    for kind in ELEMENTS
)


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL, flags=["--iree-input-demote-f64-to-f32=false"])


@pytest.fixture(params=["local-sync", "local-task"])
def call(program, request):
    def call(name, *arguments):
        return program.direct(name, device=request.param)(arguments)

    return call


@pytest.fixture
def copies(monkeypatch):
    """The arrays that calls copy."""
    copied = []
    copy = to_host.on_device

    def counted(device, array):
        copied.append(array)
        return copy(device, array)

    monkeypatch.setattr(to_host, "on_device", counted)
    return copied


def aligned(array, offset=0):
    """The array at an address that is a multiple of 64, and a few bytes behind it."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    found = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_of_all_types_go_both_ways(call, kind):
    dtype = value_text.ELEMENT_TYPES[kind]
    x = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    (result,) = call(f"keep_{kind}", x, np.ones((2, 3), bool))
    assert (result.shape, result.dtype) == ((2, 3), dtype)
    np.testing.assert_array_equal(np.asarray(result), x)


def test_numbers_and_tensors_without_dims(call):
    number, tensor, integer, flag = call("mixed", np.float32(1.5), 0.25, 2**40, True)
    assert (number, integer, flag) == (0.5, 2**40, True)
    assert (tensor.shape, float(np.asarray(tensor))) == ((), 3.0)


def test_dense_arrays_at_the_right_address_are_not_copied(call, copies):
    x = aligned(np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(call("double", x)[0]), x * 2)
    assert not copies
    for other in (aligned(x, 4), np.arange(16, dtype=np.float32)[::2], [1.0, 2.0]):
        copies.clear()
        np.testing.assert_array_equal(np.asarray(call("double", other)[0]), np.asarray(other, np.float32) * 2)
        assert len(copies) == 1
    assert np.asarray(call("double", np.empty(0, np.float32))[0]).shape == (0,)


def test_results_share_no_memory_with_arguments_or_each_other(call):
    x = aligned(np.arange(8, dtype=np.float32))
    same = np.asarray(call("same", x)[0])
    same[:] = 7
    np.testing.assert_array_equal(x, np.arange(8))
    numbers = aligned(np.arange(4, dtype=np.int32))
    np.asarray(call("folded", numbers)[0])[:] = 7
    np.testing.assert_array_equal(numbers, np.arange(4))
    one, other = map(np.asarray, call("twice", x))
    one[:] = 7
    np.testing.assert_array_equal(other, x * 2)
    np.asarray(call("constant")[0])[:] = 7
    np.testing.assert_array_equal(np.asarray(call("constant")[0]), [1, 2, 3, 4])


def test_results_outlive_all_else(program):
    call = program.direct("double", device="local-sync")
    kept = [np.asarray(call([aligned(np.full(1000, number, np.float32))])[0]) for number in range(50)]
    del call
    gc.collect()
    for number, array in enumerate(kept):
        np.testing.assert_array_equal(array, 2 * number)


def test_results_are_read_by_dlpack(call):
    (result,) = call("double", np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(np.from_dlpack(result), [0, 2, 4, 6])


def test_what_a_function_does_not_take_is_refused(call):
    def message(name, *arguments):
        with pytest.raises(OpspliceError) as raised:
            call(name, *arguments)
        return raised.value.message

    assert message("twice", np.zeros(9, np.float32)) == "input 0 of 'twice' is 9xf32, the function wants tensor<8xf32>"
    assert message("twice", aligned(np.zeros(8))) == "input 0 of 'twice' is 8xf64, the function wants tensor<8xf32>"
    assert "takes 1 input, not 2" in message("same", np.zeros(1, np.float32), np.zeros(1, np.float32))
    bits = np.zeros((2, 3), np.uint8)
    assert "is 2x3xui8, the function wants tensor<2x3xi1>" in message("keep_i8", bits, bits)


def test_threads_call_one_program_at_once(program):
    wrong = []
    call = program.direct("double")

    def work(number):
        for size in range(1, 60):
            x = np.full(size * 50, number + size, np.float32)
            if not np.array_equal(np.asarray(call([x])[0]), x * 2):
                wrong.append((number, size))

    in_threads(*(partial(work, number) for number in range(4)))
    assert not wrong


FORKED = """
import os, sys
import numpy as np
import opsplice
program = opsplice.load(sys.argv[1])
x = np.arange(5, dtype=np.float32)
call = program.direct("double")
call([x])
child = os.fork()
assert np.array_equal(np.asarray(call([x])[0]), x * 2)
assert np.array_equal(program.run("double", x), x * 2)
sys.exit(0 if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_threads_of_its_own(program, tmp_path):
    path = program.save(tmp_path / "program.vmfb")
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(path)]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


THREADS = """
import os
import iree.runtime  # numpy, which it loads, has threads, too
from opsplice.runtime import runtime_devices as devices
before = len(os.listdir("/proc/self/task"))
devices.limit_threads(1)
devices.open_device("local-task")
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_threads_are_limited():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2  # one works, one waits for it


def test_a_type_that_dlpack_does_not_know_is_read_as_its_bits(call):
    x = np.arange(6).astype(ml_dtypes.float8_e5m2).reshape(2, 3)
    (result,) = call("keep_f8E5M2", x, np.ones((2, 3), bool))
    np.testing.assert_array_equal(np.from_dlpack(result), x.view(np.uint8))

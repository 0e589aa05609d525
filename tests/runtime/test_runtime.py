from functools import partial

import ml_dtypes
import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import load
from opsplice.pipeline.compiler import compile_module
from opsplice.runtime.loaded_program import load_program
from opsplice.runtime.providers import Provider
from opsplice.runtime.value_text import parse_input, save_values
from opsplice.runtime.weights import read_archives
from tests.archives import safetensors

PROGRAM = """
func.func @scalars(%a: f32, %b: i32, %c: i64, %d: f64, %e: i1, %f: index, %g: i8)
    -> (f32, i32, i64, f64, i1, index, i8) {
  return %a, %b, %c, %d, %e, %f, %g : f32, i32, i64, f64, i1, index, i8
}
func.func @halves(%a: f16, %b: bf16) -> (f16, bf16) { return %a, %b : f16, bf16 }
func.func @tensors(%a: tensor<f32>, %b: tensor<4x?xi1>, %c: tensor<2xi8>, %d: tensor<2xui8>)
    -> (tensor<f32>, tensor<4x?xi1>, tensor<2xi8>, tensor<2xui8>) {
  return %a, %b, %c, %d : tensor<f32>, tensor<4x?xi1>, tensor<2xi8>, tensor<2xui8>
}
func.func @floats(%a: tensor<2xf16>, %b: tensor<2xbf16>, %c: tensor<2xf64>)
    -> (tensor<2xf16>, tensor<2xbf16>, tensor<2xf64>) {
  return %a, %b, %c : tensor<2xf16>, tensor<2xbf16>, tensor<2xf64>
}
func.func @double(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.addf %a, %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @nothing() { return }
func.func @view(%a: !hal.buffer_view) -> !hal.buffer_view { return %a : !hal.buffer_view }
func.func @named(%a: tensor<2xf32> {iree.abi.name = "x, y"}, %b: tensor<2xf32> {iree.abi.output = 0 : index})
    -> tensor<2xf32> {
  %0 = arith.addf %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""

FLAGS = ["--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false"]


@pytest.fixture(scope="module")
def vmfb():
    return compile_module(load(PROGRAM), flags=FLAGS).vmfb


@pytest.fixture(scope="module")
def program(vmfb):
    return load_program(vmfb, "local-sync")


def error_of(call, *args):
    with pytest.raises(OpspliceError) as error:
        call(*args)
    return error.value


def test_functions_are_listed_with_their_types(program):
    assert list(program.functions) == [
        "scalars", "halves", "tensors", "floats", "double", "nothing", "view", "named",
    ]  # fmt: skip
    assert str(program.function("double")) == "double(tensor<?xf32>) -> (tensor<?xf32>)"
    (size,) = program.function("double").inputs
    assert (size.name, size.element, size.shape) == ("input0", "f32", (None,))
    assert [one.name for one in program.function("named").inputs] == ["x, y", "input1"]
    assert [one.text for one in program.function("named").inputs] == ["tensor<2xf32>", "tensor<2xf32>"]


def test_runs_from_a_file_on_the_default_device(vmfb, tmp_path):
    path = tmp_path / "p.vmfb"
    path.write_bytes(vmfb)
    (result,) = load_program(path).call("double", np.array([1, 2], np.float32))
    np.testing.assert_array_equal(result, np.array([2, 4], np.float32))
    assert result.dtype == np.float32


def test_scalars_go_both_ways(program):
    results = program.call("scalars", 1, 2**31 - 1, -(2**40), 4.5, True, 7, -3)
    assert results == [1.0, 2**31 - 1, -(2**40), 4.5, True, 7, -3]
    assert [type(one) for one in results] == [float, int, int, float, bool, int, int]
    assert program.call("scalars", np.float32(1.5), *parse_input("i32=2"), 3, 4, 0, 7, 127)[0] == 1.5


def test_half_scalars_are_not_lost(program):
    assert program.call("halves", 1.5, -2.5) == [1.5, -2.5]
    assert program.call("halves", np.float16(0.25), ml_dtypes.bfloat16(3)) == [0.25, 3.0]


def test_tensors_keep_their_dtypes(program):
    truth = np.array([[True, False]] * 4)
    results = program.call("tensors", 3, truth, [1, -2], np.array([200, 1], np.uint8))
    assert [one.dtype for one in results] == [np.float32, np.bool_, np.int8, np.uint8]
    assert results[0] == 3
    np.testing.assert_array_equal(results[1], truth)
    np.testing.assert_array_equal(results[2], [1, -2])
    np.testing.assert_array_equal(results[3], [200, 1])


def test_numbers_take_the_declared_float_type(program):
    results = program.call("floats", [1, 2], [3, 4.5], [5, 0.1])
    assert [one.dtype for one in results] == [np.float16, ml_dtypes.bfloat16, np.float64]
    assert results[2][1] == 0.1


def test_saved_bfloat16_can_be_given_again(program, tmp_path):
    (file,) = save_values([np.array([1.5, 2], ml_dtypes.bfloat16)], tmp_path / "x.npy")
    results = program.call("floats", [1, 2], *parse_input(f"@{file}"), [1, 2])
    np.testing.assert_array_equal(results[1].astype(np.float32), [1.5, 2])


def test_odd_layouts_are_made_dense(program):
    strided = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1]
    np.testing.assert_array_equal(program.call("double", strided)[0], 2 * strided)
    swapped = np.array([1, 2], ">f4")
    np.testing.assert_array_equal(program.call("double", swapped)[0], [2, 4])
    assert program.call("double", np.zeros(0, np.float32))[0].shape == (0,)


@pytest.mark.parametrize("device", ["local-sync", "vulkan"])
def test_results_without_elements(device, request):
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    source = load("func.func @main(%x: tensor<0x3xi1>, %y: tensor<?xbf16>) -> (tensor<0x3xi1>, tensor<?xbf16>) {\n"
                  "  return %x, %y : tensor<0x3xi1>, tensor<?xbf16>\n}")  # fmt: skip
    flags = ["--iree-hal-target-device=vulkan"] if device == "vulkan" else FLAGS
    vmfb = compile_module(source, flags=flags).vmfb
    inputs = [np.zeros((0, 3), np.bool_), np.zeros(0, ml_dtypes.bfloat16)]
    results = load_program(vmfb, device).call("main", *inputs)
    assert [(r.shape, r.dtype) for r in results] == [((0, 3), np.bool_), ((0,), ml_dtypes.bfloat16)]


def test_results_are_the_callers_own(program):
    (first,) = program.call("double", np.ones(3, np.float32))
    first[:] = 7
    (second,) = program.call("double", np.ones(3, np.float32))
    np.testing.assert_array_equal(second, [2, 2, 2])


def test_no_results_and_untyped_values(program):
    assert program.call("nothing") == []
    np.testing.assert_array_equal(program.call("view", np.ones(2, np.float32))[0], [1, 1])


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("double", [], "'double' takes 1 input, not 0"),
        ("double", [np.ones(2)], "input 0 of 'double' is 2xf64, the function wants tensor<?xf32>"),
        ("double", [np.ones((2, 1), np.float32)], "input 0 of 'double' is 2x1xf32, the function wants tensor<?xf32>"),
        ("double", [np.ones(2, np.int32)], "input 0 of 'double' is 2xi32, the function wants tensor<?xf32>"),
        ("double", [1.5], "input 0 of 'double' is f32, the function wants tensor<?xf32>"),
        ("double", ["text"], "input 0 of 'double' is 'text', the function wants tensor<?xf32>"),
        ("double", [None], "input 0 of 'double' is None, the function wants tensor<?xf32>"),
        ("scalars", [1, 2.5, 3, 4, 0, 6, 7], "input 1 of 'scalars' is 2.5, the function wants i32"),
        ("scalars", [1, 2, 3, 4, 2, 6, 7], "input 4 of 'scalars' is 2, the function wants i1"),
        ("scalars", [1, 2, 3, 4, 0, 6, 300], "input 6 of 'scalars' is 300, the function wants i8"),
        ("scalars", [np.ones(2), 2, 3, 4, 0, 6, 7], "input 0 of 'scalars' is 2xf64, the function wants f32"),
    ],
)
def test_wrong_inputs_are_refused_before_running(program, name, inputs, message):
    assert error_of(program.call, name, *inputs).message == message


def test_static_dims_are_checked(program):
    error = error_of(program.call, "tensors", 1, np.ones((5, 2), bool), [1, 2], [1, 2])
    assert error.message == "input 1 of 'tensors' is 5x2xi1, the function wants tensor<4x?xi1>"


def test_missing_function_lists_those_there_are(program):
    error = error_of(program.call, "duoble")
    assert error.message == "the program has no function 'duoble'"
    assert error.hint.startswith("did you mean 'double'? it has: scalars, ")
    assert "several functions" in error_of(program.function).message


def test_inputs_in_the_place_of_the_function(program):
    error = error_of(program.call, np.ones(2, np.float32))
    assert error.message == "a function's name comes before the inputs, found ndarray"
    assert error.hint == "name it, as in run('scalars', ...), or give None for the only one"


def test_async_twins_are_hidden():
    text = """func.func @main(%a: !torch.vtensor<[?],f32>) -> !torch.vtensor<[?],f32> {
      %0 = torch.aten.relu %a : !torch.vtensor<[?],f32> -> !torch.vtensor<[?],f32>
      return %0 : !torch.vtensor<[?],f32>
    }"""
    program = load_program(compile_module(load(text), flags=[*FLAGS, "--iree-input-type=torch"]).vmfb)
    assert list(program.functions) == ["main"]
    np.testing.assert_array_equal(program.call(None, np.array([-1, 2], np.float32))[0], [0, 2])
    assert error_of(program.call, "main$async").hint.startswith("did you mean 'main'?")


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_functions_that_take_fences(device):
    compiled = compile_module(load(PROGRAM), flags=[*FLAGS, "--iree-execution-model=async-external"])
    fenced = load_program(compiled.vmfb, device)
    assert [str(value) for value in fenced.function("double").inputs] == ["tensor<?xf32>"]
    for size in (1, 5, 100_000):
        (result,) = fenced.call("double", np.arange(size, dtype=np.float32))
        np.testing.assert_array_equal(result, np.arange(size, dtype=np.float32) * 2)
    assert fenced.call("nothing") == []
    assert fenced.call("scalars", 1.5, 2, 3, 4.5, True, 6, -7) == [1.5, 2, 3, 4.5, True, 6, -7]
    assert "takes 1 input, not 2" in error_of(fenced.call, "double", np.ones(1), np.ones(1)).message


@pytest.mark.parametrize("provider", [None, Provider([{}])])
def test_a_program_and_its_device_end_with_the_last_reference(vmfb, provider, garbage):
    """Not when garbage is collected next: an open device of a GPU may cost as much as one that runs."""

    def use():
        program = load_program(vmfb, "local-sync", provider=provider)
        np.testing.assert_array_equal(program.call("double", np.ones(2, np.float32))[0], [2, 2])

    assert garbage(use) == 0


def test_parameters_have_a_scope(tmp_path):
    model = """
util.global private @w = #flow.parameter.named<"mine"::"w"> : tensor<3xf32>
func.func @main() -> tensor<3xf32> {
  %w = util.global.load @w : tensor<3xf32>
  return %w : tensor<3xf32>
}
"""
    archive = tmp_path / "w.safetensors"
    archive.write_bytes(safetensors("w", np.ones(3, np.float32)))
    vmfb = compile_module(load(model), flags=FLAGS).vmfb
    hint = "--parameters=SCOPE=FILE"
    assert hint in error_of(load_program, vmfb).hint
    assert hint in error_of(partial(load_program, weights=read_archives(archive)), vmfb).hint
    assert error_of(read_archives, "model=none.irpa").message == "no such file: none.irpa"
    archive.write_bytes(archive.read_bytes()[:-20])
    damaged = error_of(partial(load_program, weights=read_archives(f"mine={archive}")), vmfb)
    assert damaged.message == f"cannot read the parameters in {archive}"


def test_failure_in_the_program_is_said_in_irees_words(program):
    # The function declares no type, so a number in place of a tensor gets as far as IREE.
    assert error_of(program.call, "view", 1).message == "'view' failed: failed precondition"


def test_broken_files(vmfb, tmp_path):
    cut, text = tmp_path / "cut.vmfb", tmp_path / "text.vmfb"
    cut.write_bytes(vmfb[: len(vmfb) // 2])
    text.write_text("module {}" * 100)
    for path in (cut, text):
        error = error_of(load_program, path)
        assert error.message == f"{path} is not a compiled program, or is damaged"
        assert "compile a model first" in (error.hint or "")
    assert error_of(load_program, b"").message == "the program is not a compiled program, or is damaged"
    assert "no such file" in error_of(load_program, tmp_path / "none.vmfb").message
    assert "is a folder" in error_of(load_program, tmp_path).message


def test_unknown_device_lists_the_drivers(vmfb):
    error = error_of(load_program, vmfb, "local-tas")
    assert error.message == "there is no device 'local-tas'"
    assert error.hint.startswith("did you mean local-task? the drivers are ")


def test_device_that_does_not_open(vmfb):
    error = error_of(load_program, vmfb, "local-task://nowhere")
    assert error.message == "cannot open the device 'local-task://nowhere'"
    assert error.details


def test_more_buffers_than_a_dispatch_takes():
    """IREE compiles such a program and says so when it loads it, as an index that is out of range."""
    names = [f"%a{number}" for number in range(40)]
    lines = [f"func.func @main({', '.join(f'{name}: tensor<64xf32>' for name in names)}) -> tensor<64xf32> {{"]
    for number, (left, right) in enumerate(zip(["%a0", *(f"%s{n}" for n in range(39))], names[1:], strict=False)):
        lines.append(f"  %s{number} = arith.subf {left}, {right} : tensor<64xf32>")
    lines.append("  return %s38 : tensor<64xf32>\n}")
    vmfb = compile_module(load("\n".join(lines)), flags=FLAGS).vmfb
    error = error_of(load_program, vmfb, "local-sync")
    assert error.message == "the program does not load on device 'local-sync'"
    assert "binding count 41 > 32" in error.details


def test_what_can_be_called_is_known_without_the_weights():
    program = opsplice.compile("""util.global private @w = #flow.parameter.named<"w"> : tensor<4xf32>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = util.global.load @w : tensor<4xf32>
      %r = arith.addf %x, %w : tensor<4xf32>
      return %r : tensor<4xf32>
    }""")
    assert [str(value) for value in program.functions["main"].inputs] == ["tensor<4xf32>"]

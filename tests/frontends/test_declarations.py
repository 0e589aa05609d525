import pytest
from iree.compiler import ir

from opsplice.frontends import load
from opsplice.frontends.declarations import declare_functions
from opsplice.pipeline.compiler import Compilation, compile_module
from opsplice.runtime.loaded_program import load_program

TORCH = """
func.func @main(%a: !torch.vtensor<[4,?],f32>, %b: !torch.vtensor<[],si64>) -> !torch.vtensor<[4,?],f32> {
  %0 = torch.aten.relu %a : !torch.vtensor<[4,?],f32> -> !torch.vtensor<[4,?],f32>
  return %0 : !torch.vtensor<[4,?],f32>
}
"""
DECLARED = "sync func @main(%input0: tensor<4x?xf32>, %input1: tensor<i64>) -> (%output0: tensor<4x?xf32>)"


def declarations(text):
    """The declarations of the module's functions, by name, after declare_functions."""
    with Compilation() as compilation:
        module = ir.Module.parse(text, context=compilation.context)
        declare_functions(module)
        found = {}
        for operation in module.body.operations:
            attributes = operation.operation.attributes
            name = ir.StringAttr(attributes["sym_name"]).value
            found[name] = None
            if "iree.reflection" in attributes:
                found[name] = ir.StringAttr(attributes["iree.reflection"]["iree.abi.declaration"]).value
        assert module.operation.verify()
        return found


def test_torch_function_is_declared():
    assert declarations(TORCH) == {"main": DECLARED}


@pytest.mark.parametrize(
    "signature",
    [
        "func.func @main(%a: tensor<4xf32>) { return }",
        "func.func @main(%a: !torch.vtensor<[4],f32>, %b: !torch.none) { return }",
        "func.func @main(%a: !torch.vtensor<*,f32>) { return }",
        "func.func private @main(!torch.vtensor<[4],f32>)",
    ],
)
def test_other_functions_are_left_alone(signature):
    assert declarations(signature) == {"main": None}


def test_numbers_are_declared():
    text = "func.func @main(%a: !torch.int, %b: !torch.float, %c: !torch.bool) { return }"
    assert declarations(text) == {"main": "sync func @main(%input0: i64, %input1: f64, %input2: i1) -> ()"}


def test_a_declaration_that_is_there_stays():
    text = """func.func @main(%a: !torch.vtensor<[4],f32>)
        attributes {iree.reflection = {iree.abi.declaration = "mine"}} { return }"""
    assert declarations(text) == {"main": "mine"}


def test_the_declaration_reaches_the_program(generic):
    compiled = compile_module(load(TORCH), flags=[generic, "--iree-input-type=torch"])
    function = load_program(compiled.vmfb).function()
    assert str(function) == "main(tensor<4x?xf32>, tensor<i64>) -> (tensor<4x?xf32>)"

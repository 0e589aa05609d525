import subprocess
import sys

import numpy as np
import pytest
from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.frontends import load
from opsplice.pipeline.compiler import Compilation, CompileError, Progress, Step, compile_module, run
from opsplice.pipeline.phases import PHASES
from opsplice.rewrites.ir import emit
from opsplice.runtime.loaded_program import load_program
from tests.waiting import in_threads

X = np.array([1, -2, 3], np.float32)
Y = np.array([4, 5, -6], np.float32)


def names_of(module):
    """The names of all ops in a module."""
    found = []

    def visit(operation):
        found.append(operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def look(phase, seen):
    return Step(phase, f"look at {phase}", lambda module: seen.append((phase, names_of(module))))


def replace_negf_by_absf(module):
    """Erases each arith.negf and hands its operand on."""
    negations = []

    def visit(operation):
        if operation.name == "arith.negf":
            negations.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in negations:
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()


def add_invalid_op(module):
    function = next(one for one in module.body.operations if one.operation.name == "util.func")
    block = function.operation.regions[0].blocks[0]
    with module.context, ir.Location.file("rules.splice", 3, 4, context=module.context):
        where = ir.InsertionPoint.at_block_begin(block)
        ir.Operation.create("arith.negf", results=[ir.F32Type.get()], operands=[block.arguments[0]], ip=where)


def test_compiles_and_runs(model, generic):
    compiled = compile_module(load(model), flags=[generic])
    assert compiled.warnings == ()
    np.testing.assert_array_equal(load_program(compiled.vmfb).call("main", X, Y)[0], -abs(X * Y))


def test_stopping_at_every_phase_changes_nothing(model, generic):
    seen = []
    stopped = compile_module(load(model), [look(phase, seen) for phase in PHASES], [generic])
    with Compilation([generic]) as compilation:
        compilation.load(load(model))
        compilation.run_to("end")
        assert compilation.emit_vmfb() == stopped.vmfb
    assert [phase for phase, _ in seen] == list(PHASES)
    by_phase = dict(seen)
    assert "func.func" in by_phase["start"]
    assert "arith.negf" in by_phase["preprocessing"]
    assert "linalg.generic" in by_phase["global-optimization"]
    assert "hal.executable" in by_phase["executable-sources"]
    assert "vm.module" in by_phase["vm"]


@pytest.mark.parametrize("phase", ["input", "abi", "preprocessing"])
def test_an_edit_changes_the_program(model, generic, phase):
    edit = Step(phase, "drop the negation", replace_negf_by_absf)
    compiled = compile_module(load(model), [edit], [generic])
    np.testing.assert_array_equal(load_program(compiled.vmfb).call("main", X, Y)[0], abs(X * Y))


def test_edits_are_applied_in_phase_order_then_as_given(model, generic):
    order = []
    steps = [Step(phase, name, lambda _module, name=name: order.append(name)) for phase, name in (
        ("hal", "last"), ("input", "first"), ("preprocessing", "second"), ("preprocessing", "third"),
    )]  # fmt: skip
    compile_module(load(model), steps, [generic])
    assert order == ["first", "second", "third", "last"]


def test_an_edit_may_ask_for_further_ones(model, generic):
    order = []

    def plan(_module):
        order.append("plan")
        return [
            Step("flow", "later", lambda _module: order.append("later")),
            Step("preprocessing", "now", lambda _module: order.append("now")),
        ]

    steps = [Step("preprocessing", "plan", plan), Step("preprocessing", "beside", lambda _m: order.append("beside"))]
    compile_module(load(model), steps, [generic])
    assert order == ["plan", "beside", "now", "later"]


def test_progress_names_phases_and_edits(model, generic):
    events = []
    steps = [Step("abi", "an edit", lambda _module: None)]
    compile_module(load(model), steps, [generic], on_progress=events.append)
    assert events[:3] == [Progress("input"), Progress("abi"), Progress("abi", "an edit")]
    assert events[-1] == Progress("end")
    assert str(events[2]) == "'an edit' at phase abi"


def test_run_stops_where_it_is_told(model, generic):
    with Compilation([generic]) as compilation:
        compilation.load(load(model))
        run(compilation, [], to="preprocessing")
        assert compilation.phase == "preprocessing"
        assert "math.absf" in names_of(compilation.module)


def test_an_edit_past_the_end_is_an_error(model, generic):
    with Compilation([generic]) as compilation:
        compilation.load(load(model))
        with pytest.raises(OpspliceError, match="'too late' is for phase hal, which this compile does not come to"):
            run(compilation, [Step("hal", "too late", lambda _module: None)], to="flow")


def test_an_edit_at_an_unknown_phase_is_an_error_before_anything_runs(model):
    events = []
    with pytest.raises(OpspliceError, match="there is no phase 'preprocesing'"):
        compile_module(load(model), [Step("preprocesing", "x", lambda _module: None)], on_progress=events.append)
    assert events == []


def test_what_others_wrote_is_looked_through_for_passes(model, generic):
    def ask(module):
        text = '#util.preprocessing_pipeline<"iree-util-dump-module{path=ran}">'
        module.operation.attributes["preprocessing_pipeline"] = ir.Attribute.parse(text, module.context)

    with pytest.raises(OpspliceError, match="'ask' at phase input asks for the option 'path'"):
        compile_module(load(model), [Step("input", "ask", ask)], [generic])


def test_an_edit_that_breaks_the_module_is_named(model, generic):
    steps = [Step("abi", "good", lambda _module: None), Step("abi", "bad", add_invalid_op)]
    with pytest.raises(CompileError) as error:
        compile_module(load(model), steps, [generic])
    assert error.value.message == "'bad' at phase abi made an invalid module"
    assert "rules.splice:3:4: error: 'arith.negf' op operand" in error.value.details
    assert "report" in error.value.hint


def test_a_module_broken_in_many_places_does_not_hang():
    """The verifier reports from its own threads; a process of its own, for a hang could not be interrupted."""
    program = """
from opsplice.frontends import load
from opsplice.pipeline.compiler import CompileError, Step, compile_module
from iree.compiler import ir

TEXT = "".join(f"util.func public @f{i}(%a: i32) -> i32 {{ util.return %a : i32 }}" for i in range(64))

def clash(module):
    for op in module.body.operations:
        if op.operation.name == "util.func":
            for _ in range(2):
                with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(op.regions[0].blocks[0]):
                    kind = ir.IntegerType.get_signless(32)
                    ir.Operation.create("arith.constant", results=[kind], attributes={"value": ir.FloatAttr.get_f32(1)})

try:
    compile_module(load(TEXT), [Step("input", "clash", clash)])
except CompileError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "made an invalid module" in done.stdout


def test_a_step_sees_its_own_exceptions(model, generic):
    def fail(_module):
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        compile_module(load(model), [Step("abi", "fails", fail)], [generic])


def test_unknown_value_shows_its_line(write_module):
    path = write_module("""\
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = arith.mulf %a, %b : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    """)
    with pytest.raises(CompileError) as error:
        compile_module(load(path))
    assert error.value.message == f"cannot read {path} as MLIR"
    assert error.value.details.splitlines() == [
        f"{path}:2:23: error: use of undeclared SSA value name",
        "    2 |   %0 = arith.mulf %a, %b : tensor<4xf32>",
        "      |                       ^",
    ]


def test_module_that_does_not_verify_shows_its_line(write_module):
    path = write_module("""\
        func.func @main(%a: tensor<4xf32>) -> tensor<5xf32> {
          return %a : tensor<4xf32>
        }
    """)
    with pytest.raises(CompileError) as error:
        compile_module(load(path))
    assert error.value.message == f"{path} is not valid"
    assert f"{path}:2:3: error: type of return operand 0" in error.value.details
    assert "return %a" in error.value.details
    assert "see current operation" not in error.value.details


def test_text_without_a_file_has_its_line_shown():
    with pytest.raises(CompileError) as error:
        compile_module(load("func.func @main() {\n  nonsense\n}\n"))
    assert "<module>:2:3: error:" in error.value.details
    assert "    2 |   nonsense" in error.value.details


def test_op_that_no_pass_lowers_is_shown_in_the_source(write_module, generic, capfd):
    path = write_module("""\
        func.func @main(%a: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %x = torch.operator "foo.bar"(%a) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
          return %x : !torch.vtensor<[4],f32>
        }
    """)
    with pytest.raises(CompileError) as error:
        compile_module(load(path), flags=[generic, "--iree-input-type=torch"])
    assert error.value.message == f"{path} does not compile (phase input)"
    assert "failed to legalize operation 'torch.operator'" in error.value.details
    assert '    2 |   %x = torch.operator "foo.bar"' in error.value.details
    assert error.value.hint == "IREE 3.13 cannot compile foo.bar as it stands there: write it with other ops"
    assert capfd.readouterr().err == ""


def test_linker_errors_are_in_the_message(model, generic, capfd):
    def break_linking(module):
        """Makes an executable ask for an object that is not there."""
        for operation in module.body.operations:
            if operation.operation.name != "hal.executable":
                continue
            variant = operation.operation.regions[0].blocks[0].operations[0]
            text = '[#hal.executable.object<{path = "/nonexistent/kernel.o"}>]'
            variant.attributes["objects"] = ir.Attribute.parse(text, context=module.context)

    step = Step("executable-sources", "ask for an object", break_linking)
    with pytest.raises(CompileError) as error:
        compile_module(load(model), [step], [generic])
    assert "(phase hal)" in error.value.message or "(phase executable" in error.value.message
    assert "/nonexistent/kernel.o" in error.value.details
    assert capfd.readouterr().err == ""


def test_bad_value_of_a_session_flag_that_surfaces_late(model):
    with pytest.raises(CompileError) as error:
        compile_module(load(model), flags=["--iree-input-type=foo"])
    assert "available: " in error.value.details


def test_what_has_no_op_of_a_framework_is_compiled_without_their_dialects(model, generic):
    with Compilation([generic]) as compilation:
        compilation.load(load(model))
        compilation.run_to("end")
        assert not compilation.context.is_dialect_loaded("torch")
        assert compilation.emit_vmfb() == compile_module(load(model), flags=[generic, "--iree-input-type=auto"]).vmfb


def test_unnamed_cpu_is_one_short_warning(model):
    compiled = compile_module(load(model))
    assert len(compiled.warnings) == 1
    assert "--iree-llvmcpu-target-cpu=host" in compiled.warnings[0].message


def test_targets_of_the_module_are_kept(generic):
    text = """
    module attributes {hal.device.targets = [
      #hal.device.target<"local", [#hal.executable.target<"vmvx", "vmvx-bytecode-fb">]> : !hal.device
    ]} {
      func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
        %0 = arith.addf %a, %a : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    """
    compiled = compile_module(load(text), flags=[generic])
    assert b"vmvx-bytecode-fb" in compiled.vmfb
    assert b"embedded-elf" not in compiled.vmfb


def test_bytecode_with_resources_loads_wherever_it_lies_in_memory(tmp_path, generic):
    weights = np.arange(64, dtype=np.float32)
    text = f"""
    func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> {{
      %c = arith.constant dense_resource<w> : tensor<64xf32>
      %0 = arith.addf %a, %c : tensor<64xf32>
      return %0 : tensor<64xf32>
    }}
    {{-# dialect_resources: {{ builtin: {{ w: "0x40000000{weights.tobytes().hex()}" }} }} #-}}
    """
    with Compilation() as compilation:
        compilation.load(load(text))
        written = emit.bytecode(compilation.module.operation)
    path = tmp_path / "model.mlirbc"
    path.write_bytes(written)
    for source in (path, written, bytes(16) + written):
        content = source[-len(written) :] if isinstance(source, bytes) else source
        compiled = compile_module(load(content), flags=[generic])
        np.testing.assert_array_equal(load_program(compiled.vmfb).call(None, weights)[0], 2 * weights)


def test_truncated_bytecode_is_an_error(model, tmp_path):
    with Compilation() as compilation:
        compilation.load(load(model))
        written = emit.bytecode(compilation.module.operation)
    path = tmp_path / "half.mlirbc"
    path.write_bytes(written[: len(written) // 2])
    with pytest.raises(CompileError) as error:
        compile_module(load(path))
    assert error.value.message == f"cannot read {path} as MLIR"
    assert f"{path}: error: " in error.value.details


def test_module_of_another_context_is_serialised(model, generic):
    with ir.Context():
        module = ir.Module.parse(model.read_text())
    compiled = compile_module(load(module), flags=[generic])
    np.testing.assert_array_equal(load_program(compiled.vmfb).call("main", X, Y)[0], -abs(X * Y))
    assert "arith.negf" in str(module)


def test_adopting_a_module_of_another_context_is_refused(model):
    with ir.Context():
        module = ir.Module.parse(model.read_text())
    with Compilation() as compilation, pytest.raises(ValueError, match="another context"):
        compilation.adopt(module)


def test_a_module_outlives_its_compilation(model):
    with Compilation() as compilation:
        compilation.load(load(model))
        compilation.run_to("preprocessing")
        module = compilation.module
    assert "arith.negf" in str(module)


def test_compiles_in_threads(model, generic):
    results = []
    source = load(model)
    in_threads(*[lambda: results.append(compile_module(source, flags=[generic]).vmfb)] * 3)
    assert len(results) == 3
    assert len(set(results)) == 1


def test_running_back_is_refused(model):
    with Compilation() as compilation:
        compilation.load(load(model))
        compilation.run_to("abi")
        with pytest.raises(ValueError, match="past 'input'"):
            compilation.run_to("input")

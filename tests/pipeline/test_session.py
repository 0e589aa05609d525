"""Contexts are freed after their sessions, as soon as nothing refers to them; modules are not looked for in vain."""

import gc
import subprocess
import sys

from iree.compiler import ir

from opsplice.pipeline import session
from opsplice.pipeline.session import Session

COMPILES = """
from opsplice.frontends.source import ModuleSource
from opsplice.pipeline.compiler import compile_module

def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4 / 1024

source = ModuleSource(content="func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
for number in range(24):
    compile_module(source)
    if number == 3:
        before = megabytes()
print(megabytes() - before)
"""


def test_compiles_in_one_process_leave_nothing_behind():
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20  # of 76 where contexts stay


def test_a_context_lives_as_long_as_what_is_made_in_it():
    gc.collect()
    Session().close()
    held = len(session._retired)
    with Session() as one:
        kind = ir.Type.parse("tensor<4x?xf32>", one.context)
    Session().close()
    assert len(session._retired) == held + 1
    assert str(kind) == "tensor<4x?xf32>"
    assert ir.RankedTensorType(kind).element_type == ir.F32Type.get(kind.context)
    del kind
    Session().close()
    assert len(session._retired) == held


def test_a_session_whose_context_was_never_asked_for():
    Session().close()
    with Session() as one:
        one.close()


class _Asked:
    """Notes what modules Python looks for, and finds none."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        self.names.append(name)


def test_no_module_is_looked_for_at_each_op(monkeypatch):
    asked = _Asked()
    monkeypatch.setattr("sys.meta_path", [asked, *sys.meta_path])
    program = """func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %a : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with Session() as session:
        module = ir.Module.parse(program, context=session.context)
        ops = [op.operation.name for op in module.body.operations[0].regions[0].blocks[0]]
    assert ops == ["stablehlo.add", "func.return"]
    assert "iree.compiler.dialects.stablehlo" not in asked.names

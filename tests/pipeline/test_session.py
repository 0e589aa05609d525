"""Contexts are freed after their sessions, as soon as nothing refers to them."""

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

"""What is compiled to verify and to time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opsplice import api
from opsplice.measuring.cutting import preparation
from opsplice.measuring.cutting.records import READER
from opsplice.pipeline.compiler import CompileError

SPEC = Path(__file__).parents[2] / "samples/mul_abs_negate/replace.splice"
# The second place computes the same as the first, on its result.
MODEL = """
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %m = arith.mulf %a, %b : tensor<8xf32>
  %n = math.absf %m : tensor<8xf32>
  %r = arith.negf %n : tensor<8xf32>
  %s = arith.mulf %r, %b : tensor<8xf32>
  %t = math.absf %s : tensor<8xf32>
  %u = arith.negf %t : tensor<8xf32>
  return %u : tensor<8xf32>
}
"""


def test_a_value_is_noted_once_and_matches_alone_are_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    real, compiled = preparation.run_job, []

    def counted(*given: Any, **more: Any) -> Any:
        compiled.append(given[1])
        return real(*given, **more)

    monkeypatch.setattr(preparation, "run_job", counted)
    model = tmp_path / "model.mlir"
    model.write_text(MODEL)
    more = tmp_path / "more.splice"
    more.write_text(
        f"""import "{SPEC}"
        pattern tangent(x: tensor<n x f32>) {{ tanh(x) }}
        replace tangent at start with mul_abs_negate(x, x)"""
    )
    job = api._job(model, [more], (), (), None, None, here=True)
    found = preparation.Preparation(job, lambda _: None, probing=True).all()
    assert found.notes == (), "no rule at another phase matched"
    first, second = found.places
    assert first.cut is not None
    assert second.cut is not None
    assert first.cut.digest == second.cut.digest
    assert len(first.probes) == 2
    assert second.probes == ()
    assert first.cut.weights == frozenset()
    assert first.root is None, "the last place of a computation is the one that tells how far it drifts"
    assert sorted([*first.probes, second.root]) == [0, 1, 2]
    for program in (found.plain, found.kernels):
        loaded = program.load("local-sync")
        a, b = (np.arange(8, dtype=np.float32) - shift for shift in (3, 5))
        (result,) = loaded.call("main", a, b)
        noted = loaded.call(READER)
        assert len(noted) == 3
        np.testing.assert_array_equal(noted[second.root], result)
        if program is found.plain:
            assert [noted[n].tolist() for n in first.probes] == [a.tolist(), b.tolist()]
        else:
            assert [noted[n] for n in first.probes] == [None, None]
    assert len(compiled) == 5  # the whole and the matches alone, with kernels and without, and these backwards
    compiled.clear()
    again = preparation.Preparation(job, lambda _: None, probing=False).all()
    assert len(compiled) == 3  # a small one first, and the whole twice
    assert again.alone is not None
    assert found.alone is not None
    assert again.alone[1].vmfb == found.alone[1].vmfb


def test_what_runs_programs_loads_no_compiler_so_that_it_may_fork() -> None:
    program = (
        "import sys; from opsplice.measuring.timing import benching, peers; from opsplice.isolation import isolate\n"
    )
    program += "print(isolate._THREADED & sys.modules.keys(), isolate.method())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set() fork\n"


def test_a_program_that_compiles_with_its_kernels_alone_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = preparation.run_job

    def refusing(progress: Any, job: Any, **more: Any) -> Any:
        if not job.specs and job.source.content != preparation._SMALL:
            raise CompileError("model.mlir does not compile", details="why")
        return real(progress, job, **more)

    monkeypatch.setattr(preparation, "run_job", refusing)
    job = api._job(MODEL, [SPEC], (), (), None, None, here=True)
    with pytest.raises(
        CompileError, match=r"^without kernels, model.mlir does not compile\nwhy\nhelp: kernels are compared"
    ):
        preparation.Preparation(job, lambda _: None, probing=False).all()
    job = api._job(MODEL, [], (), (), None, None, here=True)
    with pytest.raises(CompileError, match=r"^model.mlir does not compile"):
        preparation.Preparation(job, lambda _: None, probing=False).all()

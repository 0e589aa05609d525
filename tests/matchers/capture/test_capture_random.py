"""Random programs: what is captured matches, and its C computes what the program did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.compiling.capturing import capture_module
from opsplice.frontends import ModuleSource
from opsplice.matchers.explain.pointing import Ops
from opsplice.reports.captured import CaptureJob
from tests.matchers.soundness.test_match_random import Case, case, computed, some

CHOICES: list[dict[str, Any]] = [{}, {"packs": True}, {"concrete": True}, {"inputs": ("%arg0",)}]
# Why there may be nothing to capture: a tensor transposed twice, the sum of one that is repeated.
REASONS = ("nothing is computed", "it sums over a dim of none of its inputs")


@pytest.mark.parametrize("seed", range(0, 120, 12))
def test_every_op_has_a_pattern_that_matches_it(session: Any, seed: int) -> None:
    """A capture that does not match where it came from is an error that says that it is a bug."""
    from iree.compiler import ir

    captured = 0
    for number in range(seed, seed + 12):
        text = case(number).text
        module = ir.Module.parse(text, context=session.context)
        before = str(module)
        for op in computing(module):
            for choice in CHOICES:
                try:
                    made = capture_module(
                        module, CaptureJob(ModuleSource(content=text), (op,), phase="input", **choice)
                    )
                except OpspliceError as failure:
                    if any(reason in failure.message for reason in REASONS):
                        continue
                    raise
                assert made.location in made.matches
                captured += 1
        assert str(module) == before
    assert captured > 100


@pytest.mark.parametrize("batch", range(2))
def test_the_c_computes_what_the_program_did(session: Any, batch: int, tmp_path: Path) -> None:
    cases = [case(5000 + 100 * batch + i) for i in range(10)]
    specs = [saved(each, CHOICES[i % len(CHOICES)], session, tmp_path) for i, each in enumerate(cases)]
    model = "\n".join(each.text for each in cases)
    spliced = opsplice.compile(model, specs)
    rules = {replacement.rule for replacement in spliced.report.replacements}
    assert len(rules) >= 4, "the test compares something"
    numbers = np.random.default_rng(batch)
    for each in cases:
        given = [some(numbers, shape) for shape in each.inputs.values()]
        wanted, made = computed(session, each.text, each.name, given), spliced.run(each.name, *given)
        for left, right in zip(wanted, made if isinstance(made, list) else [made], strict=True):
            np.testing.assert_allclose(right, left, rtol=1e-3, atol=1e-4, err_msg=each.text)


def saved(each: Case, choice: dict[str, Any], session: Any, folder: Path) -> Path:
    """The spec of a case's last op, in a file."""
    from iree.compiler import ir

    module = ir.Module.parse(each.text, context=session.context)
    job = CaptureJob(ModuleSource(content=each.text), computing(module)[-1:], name=each.name, file=f"{each.name}.c")
    capture = capture_module(module, CaptureJob(**{**vars(job), **choice, "phase": "input"}))
    assert capture.reference
    return capture.save(folder / f"{each.name}.splice")[0]


def computing(module: Any) -> tuple[str, ...]:
    """The handles of the ops that compute something: structured ones, and those on whole tensors."""
    ops = Ops(module)
    return tuple(
        ops.handle(op)
        for op in ops.all
        if op.name.startswith(("linalg.", "arith.", "math.")) and op.name not in ("linalg.fill", "arith.constant")
    )

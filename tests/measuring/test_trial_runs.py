"""When a trial asks for f64, which takes the longest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opsplice.matchers.dims.input_sizes import NOTE, Sizes
from opsplice.measuring.cutting.records import Cut, Part, SymbolicSize
from opsplice.measuring.verifying import trial_runs
from opsplice.measuring.verifying.trials import Inputs, generated, inputs_of
from opsplice.runtime.declared_functions import declared_function

X = np.linspace(0, 1, 8, dtype=np.float32)


@pytest.mark.parametrize(
    ("is_first", "off", "asked", "reason"),
    [
        (True, 0.0, 1, ""),
        (False, 0.0, 0, ""),  # as IREE has it
        (False, 0.01, 5, "wanted"),  # and whether it is as far from the exact result when inputs move
    ],
)
def test_exact_results_are_asked_for_where_they_decide(is_first: bool, off: float, asked: int, reason: str) -> None:
    calls = []

    def call(program: str, *_: Any, **__: Any) -> trial_runs._Results:
        made = X + np.float32(off if program == "kernels" else 0)
        return trial_runs._Results((made,), (np.zeros(X.shape, bool),))

    def results(_: str, values: Any) -> list[np.ndarray]:
        calls.append(values)
        return [np.asarray(values[0], np.float64)]

    programs: Any = SimpleNamespace(call=call, on_host=False)
    oracle: Any = SimpleNamespace(results=results)
    part = Part("f32", X.shape)
    cut = Cut("match", (part,), (part,), 1, "")
    *_, done = trial_runs._tried(programs, oracle, cut, Inputs("random", (X,), {}, is_first), 0, None)
    assert isinstance(done, trial_runs.Done)
    assert len(calls) == asked
    assert reason in done.trial.reason
    assert bool(reason) == bool(done.trial.reason)


def test_weights_are_tried_with_nan_and_not_with_infinities() -> None:
    part = Part("f32", X.shape)
    cut = Cut("match", (part, part), (part,), 1, "0" * 8, weights=frozenset({1}))
    kinds = [inputs.kind for inputs in inputs_of(cut, None, ("nan", "infinity", "-infinity"))]
    assert kinds == ["nan in input 0", "nan in input 1", "infinity in input 0", "-infinity in input 0"]


def test_floats_without_dims_stay_arrays_in_every_trial() -> None:
    part = Part("f32", X.shape)
    cut = Cut("match", (part, Part("f32", ())), (part,), 1, "0" * 8)
    tried = [*inputs_of(cut, None)]
    assert "large" in [inputs.kind for inputs in tried]
    for inputs in (*tried, *(each.moved(0) for each in tried), *(each.without_denormals() for each in tried)):
        assert [np.shape(value) for value in inputs.values if isinstance(value, np.ndarray)] == [X.shape, ()]


def test_open_dims_are_one_and_larger_than_blocks_in_turn_where_that_is_not_much() -> None:
    m, n, k = (SymbolicSize(1, ((name, 1),)) for name in "mnk")
    weight = Part("f32", (1000, 1000))
    flat = Cut("match", (Part("f32", (m, n)), weight), (Part("f32", (n, m)),), 1, "0" * 8)
    found = [tuple(inputs.sizes.values()) for inputs in inputs_of(flat, None, ("random", "sizes"))]
    assert found == [(17, 10), (1, 2), (2, 1), (3, 3), (64, 34), (200, 130)]
    deep = Cut("match", (Part("f32", (m, n, k)),), (Part("f32", (m,)),), 1, "0" * 8)
    found = [tuple(inputs.sizes.values()) for inputs in inputs_of(deep, None, ("random", "sizes"))]
    assert found == [(17, 10, 17), (1, 2, 1), (2, 1, 2), (3, 3, 3), (64, 34, 64)]


def test_generated_inputs_have_sizes_that_the_function_takes() -> None:
    sizes = Sizes([[("n", 1, 0), None], [("n", 2, 1)], [("m", 1, 0)], []], {"n": (2, 8), "m": (20, None)})
    declaration = "sync func @main(%a: tensor<?x?xf32>, %b: tensor<?xi64>, %c: tensor<?xf32>, %d: tensor<?xf32>) -> ()"
    function = declared_function("main", {"iree.abi.declaration": declaration, NOTE: sizes.note()})
    assert [value.shape for value in generated(function)] == [(8, 17), (17,), (20,), (17,)]

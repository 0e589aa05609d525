"""Random programs of JAX with the library's kernels, against JAX itself in f64."""

from __future__ import annotations

import numpy as np
import pytest

from opsplice.common.errors import OpspliceError
from tests.effort import examples

pytest.importorskip("jax")
splice = pytest.importorskip("opsplice.jax")
programs = pytest.importorskip("tests.jax.random_programs")


@pytest.mark.parametrize("batch", range(examples(1, 60)))
def test_programs_give_the_numbers_of_f64(batch):
    made = programs.program(f"j:1{batch}", 4)
    fast = splice.jit(made.function, specs=["opsplice_kernels"])
    try:
        results = fast(*made.arguments)
    except OpspliceError as error:
        with pytest.raises(OpspliceError):
            splice.jit(made.function)(*made.arguments)
        pytest.skip(f"IREE alone does not compile it: {error}")
    for found, wanted in zip(results, made.wanted(), strict=True):
        most = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
        np.testing.assert_allclose(np.asarray(found, wanted.dtype), wanted, rtol=5e-5, atol=5e-5 * (most + 1e-2))
    # Some of the programs that only a soak tries hold nothing that a kernel takes.
    assert batch or any(each.report.replacements for each in fast.report().programs)

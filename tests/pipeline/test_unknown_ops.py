"""Ops of dialects that IREE does not know: rules take them, and what they leave is an error, not a crash."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError

MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "acme.twice"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SPEC = """
pattern twice(x: tensor<n x f32>) {
  "acme.twice"(x) : tensor<n x f32>
}

pattern sum(x: tensor<n x f32>) {
  addf(x, x)
}

replace twice with sum(x)
"""


@pytest.mark.parametrize("phase", ["", " at global-optimization"])
def test_a_rule_takes_one(tmp_path, phase):
    spec = tmp_path / "spec.splice"
    spec.write_text(SPEC.replace("twice with", f"twice{phase} with"))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(opsplice.compile(MODEL, [spec]).run("main", x), 2 * x)


def test_one_that_is_left_is_named():
    with pytest.raises(OpspliceError, match=r"IREE knows no op acme\.twice, and no rule took the one at .*:3:8"):
        opsplice.compile(MODEL, isolate=True)

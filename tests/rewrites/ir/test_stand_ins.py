"""Operators that rules may take whole, and what stands for them where none does."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice

MODULE = """
func.func @main(%x: !torch.vtensor<[4],f32>) -> (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) {
  %y = torch.operator "some.wave"(%x) {times = 2 : si64, opsplice.stand_in} : (!torch.vtensor<[4],f32>)
      -> !torch.vtensor<[4],f32> {
    %s = torch.aten.sin %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
    torch.operator_terminator %s : !torch.vtensor<[4],f32>
  }
  %r:2 = torch.operator "some.both"(%y) {opsplice.stand_in} : (!torch.vtensor<[4],f32>)
      -> (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) {
    %n = torch.aten.neg %y : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
    torch.operator_terminator %n, %y : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
  }
  return %r#0, %r#1 : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
}
"""
SPEC = """
pattern wave(x: tensor<n x f32>) { "torch.operator"(x) {name = "some.wave", times = TIMES, ...} }
pattern simple(x: tensor<n x f32>) { exp(x) }
replace wave at start with simple(x)
"""
X = np.array([-1, 0, 0.5, 2], np.float32)


def test_what_stands_for_an_operator_takes_its_place():
    found = opsplice.compile(MODULE).run("main", X)
    np.testing.assert_allclose(found, [-np.sin(X), np.sin(X)], rtol=1e-5)


@pytest.mark.parametrize(("times", "wanted"), [(2, np.exp), (3, np.sin)])
def test_a_rule_takes_one_whole(tmp_path, times, wanted):
    spec = tmp_path / "spec.splice"
    spec.write_text(SPEC.replace("TIMES", str(times)))
    found = opsplice.compile(MODULE, [spec]).run("main", X)
    np.testing.assert_allclose(found, [-wanted(X), wanted(X)], rtol=1e-5)


def test_commands_that_do_not_compile_put_them_in(tmp_path):
    spec = tmp_path / "spec.splice"
    spec.write_text("pattern simple(x: tensor<n x f32>) { sin(x) }\nreplace simple with simple(x)")
    source = tmp_path / "model.mlir"
    source.write_text(MODULE)
    assert len(opsplice.match(source, [spec]).replacements) == 1
    assert "simple" in str(opsplice.explain(source, [spec]))

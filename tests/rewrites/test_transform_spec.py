"""Transform specs that IREE's interpreter does not carry out."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.compiler import ir
from iree.compiler.api import Session

from opsplice.errors import OpspliceError
from opsplice.rewrites import transform_spec

SPEC = """
module attributes {transform.with_named_sequence} {
  MATCH
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "tag" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    PASS
    %0 = transform.foreach_match in %module @match -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
_HEAD = "transform.named_sequence{} @match(%op: !transform.any_op {{transform.readonly}}) -> !transform.any_op"
_KIND = "(!transform.any_op) -> !transform.any_op"


@pytest.mark.parametrize(
    ("match", "passes", "why"),
    [
        (
            _HEAD.format("") + "{\n%r = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value\n"
            "transform.yield %op : !transform.any_op\n}",
            "",
            "spec.mlir:4:6: expected operations in the match part to implement MatchOpInterface",
        ),
        (_HEAD.format(" private"), "", "unresolved external symbol @match"),
        (
            _HEAD.format("") + "{\ntransform.yield %op : !transform.any_op\n}",
            f'%1 = transform.apply_registered_pass "no-such-pass" to %module : {_KIND}',
            "unknown pass or pass pipeline: no-such-pass",
        ),
    ],
)
def test_where_the_interpreter_stops_is_an_error_with_its_place(
    match: str, passes: str, why: str, tmp_path: Path
) -> None:
    session = Session()
    (tmp_path / "spec.mlir").write_text(SPEC.replace("MATCH", match).replace("PASS", passes))
    program = """
    util.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = math.absf %x : tensor<4xf32>
      util.return %0 : tensor<4xf32>
    }
    """
    module = ir.Module.parse(program, context=session.context)
    with pytest.raises(OpspliceError) as raised:
        transform_spec.apply(module, tmp_path / "spec.mlir", lambda name, target: None)
    assert "spec.mlir failed" in raised.value.message
    assert raised.value.details.startswith(str(tmp_path / "spec.mlir"))
    assert why in raised.value.details


def test_an_entry_without_a_body_is_no_spec(tmp_path: Path) -> None:
    session = Session()
    (tmp_path / "spec.mlir").write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "transform.named_sequence private @__transform_main(%module: !transform.any_op {transform.readonly})\n}"
    )
    with pytest.raises(OpspliceError, match="it has no sequence @__transform_main with a body"):
        transform_spec.parse(session.context, tmp_path / "spec.mlir")

"""Transform specs read back: what was exported matches the same places, what cannot be read is named."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

import opsplice
from opsplice.cli import main
from opsplice.matchers import engine
from opsplice.rewrites.apply import apply
from opsplice.rewrites.importing.importer import import_spec
from opsplice.rewrites.plan import plan
from opsplice.spec_lang.loader import load_text
from opsplice.splice import graphs_of

from ..export.conftest import TARGET, _graphs, exported, resolve
from ..export.test_export_random import program_of, spec_of, templates

_KERNEL = re.compile(r"opsplice_\w+")


@pytest.fixture(scope="module")
def context() -> Any:
    from iree.compiler.api import Session

    session = Session()
    session.context.enable_multithreading(False)
    return session.context


@pytest.fixture
def imported(context: ir.Context) -> Callable[[str], Any]:
    def run(text: str) -> Any:
        with context:
            return import_spec(ir.Module.parse(text))

    return run


def rewritten(program: str, spec: str, context: ir.Context) -> dict[str, str]:
    """What each function of a program returns after our engine, with kernels' names left out."""
    module = ir.Module.parse(program, context=context)
    loaded = load_text(spec)
    found = engine.find(module, graphs_of(loaded))
    apply(module, plan(found.matches, loaded.rules, loaded.kernels, [TARGET], resolve).actions)
    return {name: _KERNEL.sub("K", text) for name, text in _graphs(module).items()}


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_what_was_exported_is_read_back(seed: int, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    found = exported(spec)
    assume(found.rules)
    with context:
        back = import_spec(ir.Module.parse(found.text))
    # Where a pattern undoes its own transpose, a function may hand on what it has transposed.
    assert all("an operand of the dispatch that is no argument" in line for line in back.unread)
    sizes = rng.choice(({}, {"m": 4, "n": 6, "k": 8}))
    chosen = rng.sample(templates(spec, sizes, context), 3)
    program = "".join(program_of(template, i, rng) for i, (_, template) in enumerate(chosen))
    assert rewritten(program, back.text, context) == rewritten(program, spec, context)


LAYERS = """
kernel linear(x: f32[...m, k], w: f32[k, n], b: f32[n]) -> f32[...m, n] {
  grid (ceildiv(n, 32), max(m, 2))
  cpu x86_64 "k.c"
}
kernel softmax<T in {f32, f64}>(x: T[...m, n]) -> T[...m, n] where n % 8 == 0 { symbol "softmax_{T}" cpu x86_64 "k.c" }
kernel relu(x: f32[8], n: i32) -> f32[8] { cpu x86_64 "k.c" }
kernel product(a: i8[m, k], b: i8[k, n]) -> i32[m, n] { cpu x86_64 "k.c" }
pattern linear_of(x: tensor<...m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  addf(contract[...m k, k n -> ...m n](x, w), broadcast[n -> ...m n](b))
}
pattern rows<T in {f32, f64}>(x: tensor<...m x n x T>) where n <= 4096 or n == 8192 {
  peak = reduce maximumf[...m n -> ...m](x)
  e = exp(subf(x, broadcast[...m -> ...m n](peak)))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}
pattern quantised(a: tensor<m x k x i8>, b: tensor<k x n x i8>) {
  contract[mk, kn -> mn](a, b) : tensor<m x n x i32>
}
replace linear_of with linear(x, w, b)
replace rows with softmax(x)
replace quantised with product(a, b)
"""


def test_packs_types_and_conditions_are_read_back(imported: Callable[[str], Any]) -> None:
    back = imported(exported(LAYERS).text)
    assert not back.unread
    loaded = load_text(back.text)
    assert not [w for w in loaded.warnings if w.severity == "error"]
    # linear of four ranks; rows of four ranks, two types and two ranges; one product. Spellings come to one pattern.
    assert back.rules == 4 + 4 * 2 * 2 + 1
    assert "grid (ceildiv(d3, 32), max(rows, 2))" in back.text
    kernels = {k.symbol for k in loaded.kernels.values()}
    assert kernels == {"linear", "softmax_f32", "softmax_f64", "product"}


def test_the_specs_of_the_sample_are_the_same(samples: Path, tmp_path: Path) -> None:
    sample = samples / "mul_abs_negate"
    target = tmp_path / "replace.splice"
    (tmp_path / "functions.c").write_text((sample / "functions.c").read_text())
    assert main(["import", str(sample / "replace.mlir"), "-o", str(target)]) == 0
    ours = opsplice.match(sample / "model.mlir", [sample / "replace.splice"])
    back = opsplice.match(sample / "model.mlir", [target])
    assert [r.location for r in ours.replacements] == [r.location for r in back.replacements]
    assert len(back.replacements) == 2


UNREAD = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @match(%root: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op
    transform.yield %root : !transform.any_op
  }
  transform.named_sequence @mark(%root: !transform.any_op {transform.readonly}) {
    transform.apply_cse to %root : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @match -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(UNREAD)
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice")]) == 1
    said = capsys.readouterr().err
    assert "1 thing in" in said
    assert "spec.mlir:8:5: transform.apply_cse: an action of a kind" in said
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice"), "--partial"]) == 0
    assert "1 pattern and 0 rules" in capsys.readouterr().err
    assert (tmp_path / "x.splice").read_text() == 'pattern match() {\n  "linalg.matmul"(...) {...}\n}\n'


def test_a_spec_of_which_nothing_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(UNREAD.replace('transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op', ""))
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice"), "--partial"]) == 1
    said = capsys.readouterr().err
    assert "nothing of" in said
    assert "spec.mlir:3:3: transform.named_sequence: a matcher with neither" in said


def test_partial_imports_the_rest(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (samples / "mul_abs_negate" / "replace.mlir").read_text()
    text = text.replace(
        "%magnitude = math.absf %product : tensor<?xf32>",
        '%magnitude = math.absf %product {"match.operation_name_only"} : tensor<?xf32>',
    )
    (tmp_path / "spec.mlir").write_text(text)
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "x.splice"), "--partial", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rules"] == 1
    assert len(found["left_out"]) == 1
    assert "util.func: its argument 0 has a dim that no input has" in found["left_out"][0]


CONTRACTION = """
  transform.named_sequence @match_contraction(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op
    %batch, %m, %n, %k = transform.iree.match.contraction %root,
        lhs_type = f32, rhs_type = f32, output_type = f32,
        indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>,
                         affine_map<(d0, d1, d2) -> (d0, d1)>] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [32] : !transform.param<i64>
    transform.iree.match.dims_equal %k, [-1] : !transform.param<i64>
    %lhs = transform.get_operand %root[0] : (!transform.any_op) -> !transform.any_value
    %rhs = transform.get_operand %root[1] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %lhs[1], 16 : !transform.any_value
    %ins = transform.get_operand %root[0, 1] : (!transform.any_op) -> !transform.any_value
    %out = transform.get_result %root[0] : (!transform.any_op) -> !transform.any_value
    transform.yield %ins, %out : !transform.any_value, !transform.any_value
  }
"""


def test_contraction_matchers_with_their_dims(imported: Callable[[str], Any]) -> None:
    spec = """
    kernel product(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { grid (m) cpu x86_64 "k.c" }
    pattern product_of(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }
    replace product_of with product(x, w)
    """
    text = exported(spec).text
    entry = text.index("  transform.named_sequence @__transform_main")
    text = text[:entry] + CONTRACTION + text[entry:]
    text = re.sub(r"@match_0\w+ ->", "@match_contraction ->", text, count=1)
    text = re.sub(r",\s*@match_0\w+ -> @\w+", "", text)
    back = imported(text)
    assert not back.unread
    pattern = next(iter(load_text(back.text).patterns.values()))
    written = pattern.span.source.text[pattern.span.start : pattern.span.end]
    assert "contract[d0 d1, d1 d2 -> d0 d2](x0, x1)" in " ".join(written.split())
    assert "where d2 == 32 and d1 % 16 == 0" in " ".join(written.split())


def test_a_contraction_of_any_shape_cannot_be_read(imported: Callable[[str], Any]) -> None:
    start = CONTRACTION.index(",\n        indexing_maps")
    maps = CONTRACTION[start : CONTRACTION.index("] : !transform.any_op", start) + 1]
    body = CONTRACTION.replace(maps, "").replace("%n, [32]", "%n, [-1]")
    text = UNREAD.replace("  transform.named_sequence @mark", f"{body}\n  transform.named_sequence @mark", 1)
    text = text.replace("@match -> @mark", "@match_contraction -> @pair").replace(
        "  transform.named_sequence @mark",
        "  transform.named_sequence @pair(%a: !transform.any_value {transform.readonly}, "
        "%b: !transform.any_value {transform.readonly}) {\n    transform.yield\n  }\n"
        "  transform.named_sequence @mark",
        1,
    )
    assert "without indexing maps" in imported(text).unread[0]


def test_a_spec_on_which_the_compiler_crashes(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """IREE 3.13 warns of a matcher that is used twice, and crashes on printing that."""
    text = (samples / "mul_abs_negate" / "replace.mlir").read_text()
    pair = "@match_on_tensors -> @cast_and_call,"
    (tmp_path / "spec.mlir").write_text(text.replace(pair, f"{pair}\n{pair}"))
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "x.splice")]) == 1
    assert "IREE's compiler crashed" in capsys.readouterr().err

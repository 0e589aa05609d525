"""What `explain` says first, what it leaves out, and which other patterns it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import opsplice
from opsplice.reports.render_explain import explanation_text

MODEL = """func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32> loc("m.mlir":5:1)
  %six = arith.constant dense<6.0> : tensor<4x8xf32> loc("m.mlir":5:1)
  %0 = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>)
      outs(%zero : tensor<4x8xf32>) -> tensor<4x8xf32> loc("m.mlir":5:1)
  %1 = math.exp %0 : tensor<4x8xf32> loc("m.mlir":5:1)
  %2 = arith.maximumf %1, %six : tensor<4x8xf32> loc("m.mlir":5:1)
  return %2 : tensor<4x8xf32>
}
"""
MATMUL = "(x: tensor<m x k x f32>, w: tensor<k x n x f32>)"
BIASED = "(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>)"
PRODUCT = "contract[m k, k n -> m n](x, w)"
SPEC = f"""
pattern small(x: tensor<...m x f32>) {{ maximumf(tanh(x), 6.0) }}
pattern large{BIASED} {{ maximumf(exp(addf?({PRODUCT}, broadcast[n -> m n](b))), 0.0) }}
pattern nowhere(x: tensor<...m x f32>) {{ sqrt(tanh(x)) }}
pattern here{MATMUL} {{ maximumf(exp({PRODUCT}), 6.0) }}
"""


def explain(spec: str, folder: Path, **question: str) -> opsplice.Explanation:
    (folder / "s.splice").write_text(spec)
    return opsplice.explain(MODEL, [folder / "s.splice"], **question)


def shown(explanation: opsplice.Explanation, *, verbose: bool = False) -> str:
    return explanation_text(explanation, width=100, color=False, verbose=verbose)


def test_an_optional_op_that_the_program_does_without_is_named_and_not_counted(tmp_path: Path) -> None:
    explanation = explain(SPEC, tmp_path, pattern="large")
    ((miss,),) = (pattern.misses for pattern in explanation.patterns)
    assert [part.text for part in miss.parts if part.state == "absent"] == ["addf?", "b"]
    assert (miss.held, miss.asked, len(miss.parts)) == (5, 6, 8)
    text = shown(explanation)
    assert "5 of 6 parts hold" in text
    assert "    -       b                          absent, optional\n" in text


def test_an_optional_op_that_is_there_is_not_absent(tmp_path: Path) -> None:
    spec = f"pattern p{MATMUL} {{ maximumf(exp?({PRODUCT}), 0.0) }}"
    (pattern,) = explain(spec, tmp_path).patterns
    assert [str(part.state) for part in pattern.misses[0].parts] == ["held"] * 5 + ["failed"]


@pytest.mark.parametrize("at", ["m.mlir:5", None])
def test_patterns_that_match_where_another_does_not_are_named(tmp_path: Path, at: str | None) -> None:
    explanation = explain(SPEC, tmp_path, pattern="large", **({"at": at} if at else {}))
    assert explanation.patterns[0].misses[0].others == ("here",)
    assert explanation.to_json()["patterns"][0]["misses"][0]["others"] == ["here"]
    assert "    here matches here\n" in shown(explanation) + "\n"

    spec = f"pattern transposed(x: tensor<m x k x f32>, w: tensor<n x k x f32>) {{ {PRODUCT.replace('k n', 'n k')} }}"
    explanation = explain(spec, tmp_path, at="linalg.matmul")
    # For kernels that say how their weight lies.
    assert explanation.patterns[0].misses[0].others[0] == "linear of opsplice:nn"
    assert "\n    linear of opsplice:nn, any_linear of opsplice:strided match here" in shown(explanation)


def test_at_a_line_the_pattern_of_which_most_holds_comes_first_and_constants_are_no_news(tmp_path: Path) -> None:
    without = SPEC.partition("pattern here")[0]
    explanation = explain(without, tmp_path, at="m.mlir:5")
    assert [p.pattern for p in explanation.patterns] == ["large", "small", "nowhere"]
    assert [miss.held for miss in explanation.patterns[0].misses][:2] == [5, 0]
    text = shown(explanation)
    assert text.startswith("m.mlir:5:1  arith.constant (2), linalg.matmul, math.exp, arith.maximumf\n")
    assert re.search(r"^large  \S*/s\.splice:3:9  no match, 1 near miss$", text, re.MULTILINE)
    assert [line for line in text.splitlines() if "parts hold" in line] == [
        "  m.mlir:5:1 in @main: 5 of 6 parts hold",
        "  m.mlir:5:1 in @main: 1 of 4 parts hold, 1 more is alike",
    ]
    assert text.endswith("and 1 more pattern: nowhere (--verbose shows all, --pattern=NAME one)")

    # What matches comes before all, and of what does not at least half must hold.
    explanation = explain(SPEC, tmp_path, at="m.mlir:5")
    assert [p.pattern for p in explanation.patterns] == ["here", "large", "small", "nowhere"]
    assert shown(explanation).count("wanted") == 1


def test_where_nothing_holds_it_is_said_why_all_the_same(tmp_path: Path) -> None:
    text = shown(explain(SPEC, tmp_path, pattern="nowhere", at="math.exp"))
    assert "wanted sqrt, which the pattern ends with, found exp" in text


def test_what_many_patterns_come_to_is_cut(tmp_path: Path) -> None:
    spec = "\n".join(f"pattern p{i}(x: tensor<...m x f32>) {{ maximumf(exp(x), {i}.5) }}" for i in range(60))
    everything = explain(spec, tmp_path)
    text = shown(everything)
    assert text.count("wanted the constant") == 15
    rest = "and 30 more patterns: p30, p31, p32, p33, p34, p35, p36, p37, ... (--verbose shows all, --pattern=NAME one)"
    assert " ".join(text.split()).endswith(rest)
    assert shown(everything, verbose=True).count("wanted the constant") == 60
    at = explain(spec, tmp_path, at="arith.maximumf")
    assert shown(at).count("wanted the constant") == 4
    assert "and 56 more patterns: " in shown(at)
    assert len(at.to_json()["patterns"]) == 60


def test_alternatives_that_were_not_looked_into_take_one_row_each(tmp_path: Path) -> None:
    """Also where they hold a value that has a name and is drawn above."""
    spec = f"""pattern either(x: tensor<m x k x f32>, w: tensor<k x n x f32>, c: f32) {{
      y = {PRODUCT}
      maximumf(exp(y), 3.0) | mulf(tanh(y), c)
    }}"""
    text = shown(explain(spec, tmp_path))
    assert re.search(r"^    \. +mulf\(tanh\(y\), c\)$", text, re.MULTILINE), text


def test_a_pattern_of_the_library_without_a_rule_is_explained_for_any_layout(tmp_path: Path) -> None:
    model = tmp_path / "m.mlir"
    model.write_text("""func.func @main(%x: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %0 = tensor.extract_slice %x[0, 0] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>
      %1 = tensor.extract_slice %x[0, 4] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>
      %2 = arith.negf %1 : tensor<8x4xf32>
      %3 = tensor.concat dim(1) %2, %0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
      %4 = arith.mulf %x, %c : tensor<8x8xf32>
      %5 = arith.mulf %3, %c : tensor<8x8xf32>
      %6 = arith.addf %4, %5 : tensor<8x8xf32>
      return %6 : tensor<8x8xf32>
    }""")
    (pattern,) = opsplice.explain(model, specs=["opsplice:nn"], pattern="rope").patterns
    assert [match.reason for match in pattern.matches] == ["no rule uses this pattern"]


IMAGES = """func.func @main(%x: tensor<1x4x10x10xf32>, %f: tensor<6x4x3x3xf32>) -> tensor<1x6x4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<1x6x4x8xf32>
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>}
    ins(%x, %f : tensor<1x4x10x10xf32>, tensor<6x4x3x3xf32>) outs(%zero : tensor<1x6x4x8xf32>) -> tensor<1x6x4x8xf32>
  %1 = math.exp %0 : tensor<1x6x4x8xf32>
  return %1 : tensor<1x6x4x8xf32>
}
"""


def test_windows_are_drawn_and_strides_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "s.splice").write_text("""
      pattern conv(x: tensor<n x c x h x w x f32>, f: tensor<o x c x kh x kw x f32>) {
        exp(contract[n c (y + i) (z + j), o c i j -> n o y z](x, f))
      }""")
    text = shown(opsplice.explain(IMAGES, [tmp_path / "s.splice"]))
    assert "contract[n c (y + i) (z + j), o c" in text
    assert "wanted a stride or dilation of 1, found 2\n" in text
    assert "write a name before the label, as `s` in `s*y`, for any number" in " ".join(text.split())


def test_a_value_that_is_also_returned_is_marked_and_said_to_be_a_result(tmp_path: Path) -> None:
    model = MODEL.replace(") -> tensor<4x8xf32> {", ") -> (tensor<4x8xf32>, tensor<4x8xf32>) {").replace(
        "return %2 : tensor<4x8xf32>", "return %2, %0 : tensor<4x8xf32>, tensor<4x8xf32>"
    )
    (tmp_path / "s.splice").write_text(f"pattern p{MATMUL} {{ maximumf(exp(only({PRODUCT})), 6.0) }}")
    text = shown(opsplice.explain(model, [tmp_path / "s.splice"]))
    assert "found one that is also used by the program's results" in " ".join(text.split())
    assert re.search(r"^    x     only +linalg.matmul", text, re.MULTILINE), text


def test_what_is_no_weight_is_named(tmp_path: Path) -> None:
    text = shown(explain(f"pattern p{MATMUL} where weight(w) {{ maximumf(exp({PRODUCT}), 6.0) }}", tmp_path))
    assert "wanted weight(w), found the program's input1, which is computed or given at run time\n" in text

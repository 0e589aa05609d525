"""What a survey says of a program: the largest patterns, ops that are in none, kernels, times."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

import opsplice
from opsplice.measuring.timing.repeated_sequences import Part, Repeated, folded
from opsplice.reports.render_survey import survey_page, survey_text
from opsplice.spec_lang.loading import libraries
from tests.packages import install

MODEL = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %z: tensor<8x8xf32>)
    -> (tensor<8x4xf32>, tensor<8x8xf32>) {
  %room = tensor.empty() : tensor<8x8xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%z : tensor<8x8xf32>) outs(%room : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<8x8xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%fill : tensor<8x4xf32>) -> tensor<8x4xf32>
  %q = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%p : tensor<8x4xf32>) -> tensor<8x4xf32>
  %e = math.atan %y : tensor<8x8xf32>
  %n = arith.negf %e : tensor<8x8xf32>
  return %q, %n : tensor<8x4xf32>, tensor<8x8xf32>
}
"""
SPEC = """
kernel right(x: f32[m, n]) -> f32[m, n] {
  grid (m)
  cpu "wrong.c"
}
pattern p(x: tensor<m x n x f32>) { negf(x) }
replace p with right(x)
"""


def test_what_a_program_computes(tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (tmp_path / "replace.splice").write_text(SPEC)
    found = opsplice.survey(MODEL, [tmp_path / "replace.splice"])
    states = {item.name: item.state for item in found.items}
    assert states["math.atan"] == "no pattern"
    assert states["p"] == "kernel right"
    product = next(item for item in found.items if item.is_pattern and item.name != "p")
    assert "m = 8" in product.dims
    assert product.operations == 2 * 8 * 16 * 4
    assert "linalg.generic" not in states  # a copy
    assert all(item.seconds for item in found.items), found
    assert abs(sum(map(found.share, found.items)) - 1) < 1e-9
    assert "no pattern" in str(found)
    assert "p(m = 8, n = 8)" in found._repr_html_()


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([], ()),
        ([1, 2, 3], (1, 2, 3)),
        ([1, 1, 1], (Repeated(3, (1,)),)),
        ([9, 1, 2, 1, 2, 8], (9, Repeated(2, (1, 2)), 8)),
        ([1, 1, 2, 3, 1, 1, 2, 3], (Repeated(2, (Repeated(2, (1,)), 2, 3)),)),
    ],
)
def test_what_repeats_is_folded(numbers: list[int], wanted: tuple[Part, ...]) -> None:
    assert folded(numbers) == wanted


def test_layers_are_told_once_and_fit_the_terminal(tmp_path: Path) -> None:
    one = "%a{n} = math.tanh %y{p} : {t}\n%b{n} = math.tanh %a{n} : {t}\n%y{n} = math.atan %b{n} : {t}\n"
    body = "".join(one.format(n=n, p=n - 1 if n else "", t="tensor<8x8xf32>") for n in range(4))
    text = f"func.func @main(%y: tensor<8x8xf32>) -> tensor<8x8xf32> {{\n{body}return %y3 : tensor<8x8xf32>\n}}"
    found = opsplice.survey(text, timed=False)
    assert [part.count for part in found.layers["main"] if isinstance(part, Repeated)] == [4]
    assert found.to_json()["layers"]["main"][0]["share"] == pytest.approx(1)
    wide, narrow = survey_text(found), survey_text(found, width=60)
    assert "4 layers of 3 computations, each:" in wide
    assert "|  2 x math.tanh tensor<8x8xf32>" in wide
    assert wide.splitlines()[1].split() == ["share", "operations", "bytes"]
    assert max(map(len, narrow.splitlines()[1:-1])) <= 60
    one_row = survey_text(opsplice.survey(text.replace("8x8", "1000x10000"), timed=False), width=60)
    assert max(map(len, one_row.splitlines()[1:-1])) <= 60
    assert 'class="layers" open><summary>100.0%: 4 layers' in survey_page("model", found)


def test_without_specs_the_libraries_that_are_installed_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_installed", _those_in(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    found = opsplice.survey(MODEL, timed=False)
    assert found.note == "no library of kernels is installed; --spec names kernels"
    assert not any(item.kernels for item in found.items)
    code = (Path(__file__).parent / "wrong.c").read_text()
    install(tmp_path, "acme", {"acme.splice": SPEC, "wrong.c": code})
    install(tmp_path, "broken", {"broken.splice": "replace p with"})
    install(tmp_path, "several", {"one.splice": SPEC, "two.splice": SPEC})
    install(tmp_path, "only_patterns", {"only_patterns.splice": "pattern q(x: tensor<n x f32>) { exp(x) }"})
    found = opsplice.survey(MODEL, timed=False)
    first, *problems = found.note.split("; ", 2)
    assert first == "kernels are those of acme, installed here"
    assert "several is left out: library several (several 1.4) has no main spec" in found.note
    assert "broken is left out: " in found.note
    assert "only_patterns" not in found.note
    assert problems
    assert {item.name: item.kernels for item in found.items}["p"] == ("right",)


def _those_in(folder: Path) -> Callable[[object], dict[str, tuple[metadata.EntryPoint, ...]]]:
    """In the place of what looks for libraries: those in a folder alone."""

    def found(_paths: object) -> dict[str, tuple[metadata.EntryPoint, ...]]:
        entries = (
            entry
            for distribution in metadata.distributions(path=[str(folder)])
            for entry in distribution.entry_points
            if entry.group == libraries.GROUP
        )
        return {entry.name: (entry,) for entry in entries}

    return found


def test_without_times_shares_are_of_operations() -> None:
    found = opsplice.survey(MODEL, timed=False)
    assert all(item.seconds is None for item in found.items)
    assert "of the operations" in str(found)
    assert max(found.items, key=found.share).is_pattern


def test_an_op_of_two_matches_is_in_both(tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    rules = "".join(
        f"pattern {op}_of(x: tensor<m x n x f32>) {{ {op}(negf(x)) }}\nreplace {op}_of with right(x)\n"
        for op in ("absf", "exp")
    )
    (tmp_path / "shared.splice").write_text(SPEC[: SPEC.index("pattern")] + rules)
    text = (
        "func.func @main(%x: TYPE) -> (TYPE, TYPE) {\n%n = arith.negf %x : TYPE\n%a = math.absf %n : TYPE\n"
        "%e = math.exp %n : TYPE\nreturn %a, %e : TYPE, TYPE\n}"
    )
    found = opsplice.survey(text.replace("TYPE", "tensor<8x8xf32>"), [tmp_path / "shared.splice"], timed=False)
    assert sorted((item.name, item.kernels) for item in found.items) == [
        ("absf_of", ("right",)),
        ("exp_of", ("right",)),
    ]


def test_layouts_of_one_size_are_told_apart(tmp_path: Path) -> None:
    """A sum of rows, and one of columns that lie further apart, each once."""
    (tmp_path / "replace.splice").write_text(
        'kernel rows(x: f32[m, n] strided) -> f32[m] { cpu "wrong.c" }\n'
        "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }\nreplace p with rows(x)\n"
    )
    model = """
    func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
      %z = arith.constant dense<0.0> : tensor<8xf32>
      %0 = linalg.reduce {arith.addf} ins(%x : tensor<8x16xf32>) outs(%z : tensor<8xf32>) dimensions = [1]
      %1 = linalg.reduce {arith.addf} ins(%y : tensor<16x8xf32>) outs(%z : tensor<8xf32>) dimensions = [0]
      %n = arith.negf %x : tensor<8x16xf32>
      %2 = linalg.reduce {arith.addf} ins(%n : tensor<8x16xf32>) outs(%z : tensor<8xf32>) dimensions = [1]
      return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
    }"""
    found = opsplice.survey(model, [tmp_path / "replace.splice"], timed=False)
    assert sorted((len(item.places), item.dims) for item in found.items if item.name == "p") == [
        (1, "m = 8, n = 16; of tensor<16x8xf32> and tensor<8xf32>"),
        (2, "m = 8, n = 16; of tensor<8x16xf32> and tensor<8xf32>"),
    ]


def test_layers_with_weights_of_their_own_are_one_computation() -> None:
    model = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %b = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %c = arith.constant dense<[4.0, 3.0, 2.0, 1.0]> : tensor<4xf32>
      %0 = arith.mulf %x, %b : tensor<4xf32>
      %1 = math.floor %0 : tensor<4xf32>
      %2 = arith.mulf %1, %c : tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    found = opsplice.survey(model, [], timed=False)
    assert {item.name: len(item.places) for item in found.items} == {"arith.mulf": 2, "math.floor": 1}


def test_a_computation_that_is_no_function_of_its_own_is_told(tmp_path: Path) -> None:
    """The program says its size, as it does of an open batch and its heads; what merges these has no loops."""
    (tmp_path / "model.mlir").write_text(
        """func.func @f(%x: tensor<?x3xf32>, %y: tensor<64x64xf32>, %b: index) -> (tensor<?x3xf32>, tensor<64x64xf32>) {
          %s = tensor.expand_shape %x [[0, 1], [2]] output_shape [%b, 4, 3] : tensor<?x3xf32> into tensor<?x4x3xf32>
          %t = math.tanh %s : tensor<?x4x3xf32>
          %c = tensor.collapse_shape %t [[0, 1], [2]] : tensor<?x4x3xf32> into tensor<?x3xf32>
          %r = math.exp %c : tensor<?x3xf32>
          %u = math.cos %y : tensor<64x64xf32>
          return %r, %u : tensor<?x3xf32>, tensor<64x64xf32> }"""
    )
    (tmp_path / "s.splice").write_text(
        """kernel k(x: f32[...m]) -> f32[...m] { cpu "k.c" as bitcode }
        pattern p(x: tensor<...m x f32>) { exp(tanh(x)) }
        replace p with k(x)"""
    )
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
        void k(const float *x, float *out, size_t m) { for (size_t i = 0; i < m; ++i) out[i] = x[i]; }"""
    )
    found = opsplice.survey(tmp_path / "model.mlir", [tmp_path / "s.splice"])
    assert [(each.name, each.operations) for each in found.items] == [("math.cos", 64 * 64), ("p", 2 * 17 * 4 * 3)]
    assert [line.split()[1:4] for line in str(found).splitlines() if "p(m" in line] == [["not", "timed", "p(m"]]
    assert "open sizes (?) are taken as 17" in str(found)

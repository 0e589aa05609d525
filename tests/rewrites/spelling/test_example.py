"""Patterns as programs to try them on: each matches its own."""

from __future__ import annotations

import pytest

from opsplice.frontends import ModuleSource
from opsplice.matchers.explain.places import as_known
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.reference import example_program
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.spec_lang.loading.loader import load_text

SPEC = """
pattern sized(x: tensor<m x 4 x n x f32>) where n == 64 and m > 100 { sqrt(x) }
pattern ranged(x: tensor<n x f32>) { maximumf(mulf(x, const(0.3..0.4)), const(-inf..-9999.0)) }
pattern counted(x: tensor<n x f32>) { divf(x, const(n)) }
pattern integers<T>(x: tensor<n x T>) { muli(x, x) }
pattern chosen<T in {f64, f16}>(x: tensor<n x T>) { tanh(x) }
pattern packed(x: tensor<...m x n x f32>, w: tensor<n x k x f32>, s: f32) {
  mulf(contract[...m n, nk -> ...m k](x, w), s)
}
pattern either(x: tensor<n x f32>) { sin(x) | cos(x) }
pattern act<op f>(x: tensor<n x f32>) { negf(f(x)) }
pattern used(x: tensor<n x f32>) { act<either>(absf(x)) }
pattern open(x: tensor<? x f32>) { exp(x) }
"""


def test_patterns_match_their_examples() -> None:
    spec = load_text(SPEC)
    numbers = example_program.of_numbers(spec.patterns)
    names = [name for name in spec.patterns if spec.patterns[name].op_variables == ()]
    texts = {name: example_program.programs(numbers[name], numbers, f"of_{i}") for i, name in enumerate(names)}
    found: set[tuple[str, str]] = set()
    graphs = [g for name in names for g in compile_pattern(spec, name)]

    def look(module: object) -> None:
        matches = engine.find(module, graphs, near_misses=0).matches
        found.update((as_known(m.function).rpartition("_")[0], m.pattern.name) for m in matches)

    with Compilation(["--iree-input-demote-f64-to-f32=false"]) as compilation:
        compilation.load(ModuleSource(content="\n".join(text for each in texts.values() for text in each)))
        run(compilation, [Step("preprocessing", "look", look)], to="preprocessing")
    assert {(f"of_{i}", name) for i, name in enumerate(names)} <= found
    assert "tensor<128x4x64xf32>" in "".join(texts["sized"])
    assert "-9.999000e+03" in "".join(texts["ranged"])
    assert all("xi32>" in text for text in texts["integers"])
    assert all("xf64>" in text for text in texts["chosen"])
    assert len(texts["open"]) == 1


def test_what_cannot_be_written_out() -> None:
    spec = load_text("pattern p(x: tensor<n x f32>, w: tensor<k x f32>) { contract[(y + i), i -> y](x, w) }")
    with pytest.raises(GapError) as raised:
        example_program.programs(spec.patterns["p"], spec.patterns, "p")
    assert "a window" in str(raised.value.gaps[0])

"""Attention of the library: each layout with each mask and bias, scaled and not, is found by its own pattern."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from opsplice.frontends.source import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.graph import compile_pattern
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.loader import load_text

SIZES = {"b": 2, "h": 3, "s": 5, "t": 7, "d": 4, "e": 6}
SCORES = "bhst"
# By layout: the dims of keys, of values and of results.
LAYOUTS = {"": ("bhtd", "bhte", "bhse"), "_kt": ("bhdt", "bhte", "bhse"), "_vt": ("bhdt", "bhet", "bhes")}
# What is done to the scores, by the names of that: step by step, the op and the dims of its operand.
MASKS = {"": "st", "_by_batch": "bst", "_by_key": "bt"}
STEPS: dict[str, list[tuple[str, str]]] = {
    "": [],
    "biased": [("bias", "bhst")],
    "biased_by_head": [("bias", "hst")],
    **{f"masked{by}": [("mask", dims)] for by, dims in MASKS.items()},
    **{f"{op}{by}": [(op, dims)] for op in ("where", "unless") for by, dims in (*MASKS.items(), ("_each", "bhst"))},
    **{
        f"biased_by_head_{op}{by}": [("bias", "hst"), ("mask" if op == "masked" else op, dims)]
        for op, (by, dims) in itertools.product(("masked", "where", "unless"), MASKS.items())
    },
}
BY_HEAD = {"scaled_by_head": [], "scaled_biased_by_head": [("bias", "hst")]}
NAMES = [
    *(
        f"attention{layout}{f'_{kind}' * bool(kind)}{s}"
        for layout in LAYOUTS
        for kind in STEPS
        for s in ("", "_unscaled")
    ),
    *(f"attention{layout}_{kind}" for layout in LAYOUTS for kind in BY_HEAD),
]


def kind_of(dims: str, element: str = "f32") -> str:
    return f"tensor<{'x'.join(str(SIZES[d]) for d in dims)}x{element}>"


def product(left: str, right: str, result: str, inputs: tuple[str, str]) -> str:
    (summed,) = set(left) & set(right) - set(result)
    return (
        f"stablehlo.dot_general {inputs[0]}, {inputs[1]}, batching_dims = [0, 1] x [0, 1], "
        f"contracting_dims = [{left.index(summed)}] x [{right.index(summed)}] : "
        f"({kind_of(left)}, {kind_of(right)}) -> {kind_of(result)}"
    )


def wide(name: str, dims: str, element: str = "f32") -> str:
    places = ", ".join(str(SCORES.index(d)) for d in dims)
    kinds = f"({kind_of(dims, element)}) -> {kind_of(SCORES, element)}"
    return f"stablehlo.broadcast_in_dim {name}, dims = [{places}] : {kinds}"


def program(name: str, layout: str, steps: list[tuple[str, str]], scale: str) -> str:
    """One attention as a function. scale: "", "one" for all scores, or "head"."""
    keys, values, result = LAYOUTS[layout]
    kind, rows = kind_of(SCORES), kind_of("bhs")
    arguments = {"%q": kind_of("bhsd"), "%k": kind_of(keys), "%v": kind_of(values)}
    lines = [
        f"%low = stablehlo.constant dense<-1.0e9> : {kind}",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
        "%lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>",
        f"%0 = {product('bhsd', keys, SCORES, ('%q', '%k'))}",
    ]
    at = "%0"
    if scale:
        factor = wide("%scale", "h") if scale == "head" else f"stablehlo.constant dense<0.5> : {kind}"
        if scale == "head":
            arguments["%scale"] = kind_of("h")
        lines += [f"%factor = {factor}", f"%scaled = stablehlo.multiply {at}, %factor : {kind}"]
        at = "%scaled"
    for op, dims in steps:
        element = "i1" if op in ("where", "unless") else "f32"
        arguments[f"%{op}"] = kind_of(dims, element)
        lines.append(f"%wide_{op} = {wide(f'%{op}', dims, element)}")
        if element == "i1":
            sides = f"{at}, %low" if op == "where" else f"%low, {at}"
            lines.append(f"%after_{op} = stablehlo.select %wide_{op}, {sides} : {kind_of(SCORES, 'i1')}, {kind}")
        else:
            lines.append(f"%after_{op} = stablehlo.add {at}, %wide_{op} : {kind}")
        at = f"%after_{op}"
    reduced = f"across dimensions = [3] : ({kind}, tensor<f32>) -> {rows}"
    lines += [
        f"%peak = stablehlo.reduce({at} init: %lowest) applies stablehlo.maximum {reduced}",
        f"%peaks = {wide('%peak', 'bhs')}",
        f"%off = stablehlo.subtract {at}, %peaks : {kind}",
        f"%e = stablehlo.exponential %off : {kind}",
        f"%total = stablehlo.reduce(%e init: %zero) applies stablehlo.add {reduced}",
        f"%totals = {wide('%total', 'bhs')}",
        f"%p = stablehlo.divide %e, %totals : {kind}",
    ]
    if layout == "_vt":
        lines.append(f"%r = {product(values, SCORES, result, ('%v', '%p'))}")
    else:
        lines.append(f"%r = {product(SCORES, values, result, ('%p', '%v'))}")
    given = ", ".join(f"{n}: {k}" for n, k in arguments.items())
    body = "\n".join(f"  {line}" for line in lines)
    return f"func.func public @{name}({given}) -> {kind_of(result)} {{\n{body}\n  return %r : {kind_of(result)}\n}}\n"


def programs(layout: str) -> dict[str, str]:
    made = {}
    for kind, steps in STEPS.items():
        name = f"attention{layout}{f'_{kind}' * bool(kind)}"
        made[name] = program(name, layout, steps, "one")
        made[f"{name}_unscaled"] = program(f"{name}_unscaled", layout, steps, "")
    for kind, steps in BY_HEAD.items():
        made[f"attention{layout}_{kind}"] = program(f"attention{layout}_{kind}", layout, steps, "head")
    return made


def holds_too(name: str, layout: str) -> set[str]:
    """What else holds: with masks in the shape of the scores one for each, and IREE itself transposes keys."""
    others = _said_with_fewer_words(name, layout)
    return others if layout else others | {n.replace("attention", "attention_kt", 1) for n in (name, *others)}


def _said_with_fewer_words(name: str, layout: str) -> set[str]:
    kind = name.removeprefix(f"attention{layout}").removeprefix("_").removesuffix("_unscaled")
    unscaled = "_unscaled" * name.endswith("_unscaled")
    if kind == "biased_by_head" or kind.startswith("masked"):
        return {f"attention{layout}_biased{unscaled}"}
    if kind.startswith(("where", "unless")):
        return {f"attention{layout}_{kind.partition('_')[0]}_each{unscaled}"}
    return set()


@pytest.fixture(scope="module")
def library():
    return load_text('import "opsplice:nn"')


def found_in(text: str, folder: Path, library) -> dict[str, Counter[str]]:
    """How often each pattern of attention holds, by function."""
    graphs = [
        graph
        for name, pattern in library.patterns.items()
        if name.startswith("attention") and not name.startswith(("attention_scores", "attention_output"))
        for graph in compile_pattern(pattern, library.patterns, library.types)
    ]
    path = folder / "model.mlir"
    path.write_text(text, encoding="utf-8")
    found: dict[str, Counter[str]] = {}
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        for match in engine.find(compilation.module, graphs, near_misses=0).matches:
            found.setdefault(match.function, Counter())[match.pattern.name] += 1
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_kind_is_found_once_and_no_other(layout: str, library, tmp_path: Path):
    made = programs(layout)
    found = found_in("\n".join(made.values()), tmp_path, library)
    assert set(found) == set(made)
    for name, counts in found.items():
        assert counts[name] == 1, f"{name}: {dict(counts)}"
        assert set(counts) - {name} <= holds_too(name, layout), f"{name}: {dict(counts)}"


def test_every_pattern_of_masks_and_biases_has_a_program(library):
    others = (
        "attention_scores",
        "attention_output",
        "attention_grouped",
        "attention_softcapped",
        "attention_kt_softcapped",
    )
    named = {name for name in library.patterns if name.startswith("attention") and not name.startswith(others)}
    assert {name for name in named if "by_window" not in name} == set(NAMES)


def test_a_scale_for_each_query_is_none_for_each_head(library, tmp_path: Path):
    text = program("main", "", [], "head").replace(wide("%scale", "h"), wide("%scale", "s"))
    found = found_in(text.replace(f"%scale: {kind_of('h')}", f"%scale: {kind_of('s')}"), tmp_path, library)
    assert not found


def test_low_scores_that_are_not_low_enough_are_no_mask(library, tmp_path: Path):
    for kind in ("where_by_batch", "biased_by_head_unless_by_key"):
        text = program("main", "_vt", STEPS[kind], "")
        assert found_in(text, tmp_path, library)
        assert not found_in(text.replace("-1.0e9", "-10.0"), tmp_path, library)

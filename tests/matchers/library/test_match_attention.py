"""Attention of the library: each layout with each mask and bias, scaled and not, is found by the one pattern."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import pytest

from opsplice.frontends.source import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree

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
FILES = sorted(Path(__file__).parent.glob("attention*.mlir"))


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


@pytest.fixture(scope="module")
def graphs():
    """The graphs of the pattern, for a kernel that takes all of it in any layout."""
    library = load_text('import "opsplice:strided"')
    pattern = library.patterns["any_attention"]
    tensors = frozenset(p.name for p in pattern.parameters if isinstance(p.type, tree.TensorType))
    made = compile_pattern(library, pattern.name)
    return [dataclasses.replace(graph, strided=tensors, reordered=True) for graph in made]


def found_in(text: str, graphs) -> dict[str, list[set[str]]]:
    """The inputs of each match, by function."""
    found: dict[str, list[set[str]]] = {}
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=text))
        compilation.run_to("preprocessing")
        for match in engine.find(compilation.module, graphs, near_misses=0).matches:
            found.setdefault(match.function, []).append(set(match.inputs))
    return found


def parts_of(steps: list[tuple[str, str]], scale: str) -> set[str]:
    """The inputs of a program's match. What is added is a mask, or a bias where there is a mask already."""
    added = ["mask", "bias"][: sum(op in ("bias", "mask") for op, _ in steps)]
    chosen = [{"where": "keep", "unless": "drop"}[op] for op, _ in steps if op in ("where", "unless")]
    chosen += ["fill"] * bool(chosen)
    return {"q", "k", "v", *added, *chosen, *{"": [], "one": ["scale"], "head": ["factors"]}[scale]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_kind_is_found_once_with_all_its_parts(layout: str, graphs):
    wanted = {
        **{f"attention{layout}{f'_{kind}' * bool(kind)}": parts_of(steps, "one") for kind, steps in STEPS.items()},
        **{
            f"attention{layout}{f'_{kind}' * bool(kind)}_unscaled": parts_of(steps, "") for kind, steps in STEPS.items()
        },
        **{f"attention{layout}_{kind}": parts_of(steps, "head") for kind, steps in BY_HEAD.items()},
    }
    found = found_in("\n".join(programs(layout).values()), graphs)
    assert found == {name: [parts] for name, parts in wanted.items()}


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_each_kernel_that_frontends_make_is_found_once(path: Path, graphs):
    text = path.read_text(encoding="utf-8")
    found = found_in(text, graphs)
    functions = re.findall(r"func\.func (?:public )?@(\w+)\(", text)
    assert functions
    assert {name: len(matches) for name, matches in found.items()} == dict.fromkeys(functions, 1)


def test_a_scale_for_each_query_is_a_factor_too(graphs):
    text = program("main", "", [], "head").replace(wide("%scale", "h"), wide("%scale", "s"))
    found = found_in(text.replace(f"%scale: {kind_of('h')}", f"%scale: {kind_of('s')}"), graphs)
    assert found == {"main": [{"q", "k", "v", "factors"}]}


def test_scores_of_keys_that_are_left_out_are_one_number(graphs):
    text = program("main", "_vt", STEPS["where_by_batch"], "")
    of_each = text.replace("%low = stablehlo.constant dense<-1.0e9>", "%low = stablehlo.multiply %0, %0")
    lines = of_each.split("\n")
    lines.insert(5, lines.pop(1))
    assert found_in(text, graphs)
    assert not found_in("\n".join(lines), graphs)


def test_scales_of_queries_keys_and_tensors_are_those_of_scores(graphs):
    """Neither are the scaled queries and keys inputs, nor is a tensor of one number a factor for each score."""
    text = (Path(__file__).parent / "by_strides" / "attention_scales.mlir").read_text(encoding="utf-8")
    parts = {"q", "k", "v", "mask", "scale"}
    assert found_in(text, graphs) == {"scaled_apart": [parts], "scaled_by_a_tensor": [parts]}

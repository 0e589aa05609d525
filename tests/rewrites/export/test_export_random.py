"""Random patterns and programs: IREE's interpreter with the exported spec does what our engine does.

Patterns are random expressions. Programs are those expressions in one of the spellings, with dynamic or static sizes,
whole or with one op changed, between other ops. On programs with dynamic sizes the canonical modules are equal as text.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from opsplice.interpreter import evaluate
from opsplice.rewrites.spelling.spelled_template import Instance, Template
from opsplice.rewrites.spelling.spellings import Spelling, spellings
from opsplice.rewrites.spelling.templates import spell
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

from .conftest import Sider, exported

_UNARY = ("negf", "absf", "exp", "tanh")
_BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf", "divf")
_LABELS = ("m", "n", "k")
_CHANGES = {"addf": "subf", "subf": "mulf", "mulf": "addf", "divf": "mulf", "negf": "absf", "absf": "negf"}


@dataclass
class Expression:
    """A random expression over inputs that are named by their dims."""

    rng: random.Random
    inputs: dict[str, tuple[str, ...]]

    def make(self, dims: tuple[str, ...], depth: int) -> str:
        if depth == 0:
            return self.leaf(dims)
        kinds = ["unary", "binary", "binary"]
        if len(dims) == 2:
            kinds += ["transpose", "broadcast", "contract"]
        if len(dims) == 1:
            kinds += ["reduce", "contract"]
        written = " ".join(dims)
        match self.rng.choice(kinds):
            case "unary":
                return f"{self.rng.choice(_UNARY)}({self.make(dims, depth - 1)})"
            case "binary":
                left, right = self.make(dims, depth - 1), self.make(dims, self.rng.randrange(depth))
                return f"{self.rng.choice(_BINARY)}({left}, {right})"
            case "transpose":
                return f"transpose[{dims[1]} {dims[0]} -> {written}]({self.make(dims[::-1], depth - 1)})"
            case "broadcast":
                kept = self.rng.choice(dims)
                return f"broadcast[{kept} -> {written}]({self.make((kept,), depth - 1)})"
            case "reduce":
                inner = self.shuffled((*dims, self.other(dims)))
                combiner = self.rng.choice(("addf", "maximumf", "minimumf"))
                return f"reduce {combiner}[{' '.join(inner)} -> {written}]({self.make(inner, depth - 1)})"
            case _:
                summed = self.other(dims)
                left, right = self.shuffled((dims[0], summed)), self.shuffled((summed, *dims[1:]))
                operands = f"{' '.join(left)}, {' '.join(right)}"
                values = f"{self.make(left, depth - 1)}, {self.make(right, depth - 1)}"
                return f"contract[{operands} -> {written}]({values})"

    def leaf(self, dims: tuple[str, ...]) -> str:
        name = f"{self.rng.choice('xy')}_{''.join(dims)}"
        self.inputs[name] = dims
        return name

    def other(self, dims: tuple[str, ...]) -> str:
        return self.rng.choice([label for label in _LABELS if label not in dims])

    def shuffled(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.rng.sample(dims, len(dims)))


def spec_of(rng: random.Random) -> str:
    """A random pattern of one op at least, a kernel for it and the rule."""
    dims = tuple(rng.sample(_LABELS, rng.choice((1, 2, 2))))
    made = Expression(rng, {})
    body = f"{rng.choice(_BINARY)}({made.make(dims, rng.choice((1, 2)))}, {made.leaf(dims)})"
    # Every dim of the result must be a dim of an input, so that its size is known.
    kernel = ", ".join(f"{n}: f32[{', '.join(d)}]" for n, d in made.inputs.items())
    pattern = ", ".join(f"{n}: tensor<{' x '.join(d)} x f32>" for n, d in made.inputs.items())
    return (
        f'kernel k({kernel}) -> f32[{", ".join(dims)}] {{ cpu "k.c" }}\n'
        f"pattern p({pattern}) {{ {body} }}\n"
        f"replace p with k({', '.join(made.inputs)})\n"
    )


def program_of(template: Template, number: int, rng: random.Random) -> str:
    """A function that holds a template, with an op of its own before and after it."""
    arguments = ", ".join(f"{name}: {kind}" for name, kind in template.arguments)
    body = "\n".join(template.all_lines())
    after = rng.choice(("math.exp", "math.tanh"))
    return (
        f"util.func public @f{number}({arguments}) -> ({template.kind}, {template.kind}) {{\n{body}\n"
        f"%after = {after} {template.root} : {template.kind}\n"
        f"util.return {template.root}, %after : {template.kind}, {template.kind}\n}}\n"
    )


def changed(program: str, rng: random.Random) -> str:
    """The program with another op in one place."""
    places = [m for m in re.finditer(r'"(arith|math)\.(\w+)"', program) if m[2] in _CHANGES]
    assume(places)
    place = rng.choice(places)
    op = _CHANGES[place[2]]
    dialect = "math" if op == "absf" else "arith"
    return f'{program[: place.start()]}"{dialect}.{op}"{program[place.end() :]}'


def templates(spec: str, sizes: dict[str, int], context: ir.Context) -> list[tuple[Spelling, Template]]:
    loaded = load_text(spec)
    with context:
        return [
            (s, spell(loaded.patterns["p"], loaded.patterns, Instance({}, {}, sizes), s))
            for s in spellings()
            if s.constants == "fill"
        ]


SETTINGS = settings(deadline=None, max_examples=examples(25, 5000), suppress_health_check=list(HealthCheck))


@SETTINGS
@given(seed=st.integers(0, 2**32))
@example(seed=937)
def test_on_programs_in_a_spelling_of_the_spec_both_do_the_same(seed: int, sides: Sider, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    export = exported(spec)
    assume(export.rules)
    sizes = rng.choice(({}, {}, {"m": 4, "n": 6, "k": 8}))
    # A template that does not match itself where sizes are dynamic is not exported.
    covered = {matcher.covers for rule in export.rules for matcher in rule.matchers}
    held = [(spelling, template) for spelling, template in templates(spec, sizes, context) if spelling.name in covered]
    chosen = rng.sample(held, min(3, len(held)))
    program = "".join(program_of(template, i, rng) for i, (_, template) in enumerate(chosen))
    both = sides(program, spec, export)
    ours, theirs = both.graphs
    assert ours == theirs
    assert all("kernel opsplice_k(" in graph for graph in ours.values()), "each function holds the pattern"
    if not sizes:
        first, second = both.texts
        assert first == second


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_what_the_interpreter_replaces_our_engine_replaces(seed: int, sides: Sider, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    export = exported(spec)
    assume(export.rules)
    chosen = rng.sample(templates(spec, {}, context), 3)
    program = "".join(changed(program_of(template, i, rng), rng) for i, (_, template) in enumerate(chosen))
    ours, theirs = sides(program, spec, export).graphs
    for name, graph in theirs.items():
        if "kernel" in graph:
            assert ours[name] == graph


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_every_spelling_of_a_pattern_computes_the_same(seed: int, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    sizes = {"m": 2, "n": 3, "k": 4}
    numbers = np.random.default_rng(seed)
    results = []
    given: dict[str, np.ndarray] = {}
    for _, template in templates(spec, sizes, context):
        module = ir.Module.parse(program_of(template, 0, rng), context=context)
        for name, kind in template.arguments:
            shape = [int(size) for size in re.findall(r"(\d+)x", kind)]
            given.setdefault(name, numbers.uniform(-2, 2, shape).astype(np.float32))
        results.append(evaluate(module, "f0", [given[name] for name, _ in template.arguments], np.float64)[0])
    assert len(results) > 1
    for each in results[1:]:
        np.testing.assert_allclose(each, results[0], rtol=1e-9, atol=1e-12)


def test_an_exported_spec_is_the_same_each_time() -> None:
    spec = spec_of(random.Random(7))
    assert exported(spec).text == exported(spec).text


@pytest.mark.parametrize("seed", range(3))
def test_random_specs_have_matchers_for_several_spellings(seed: int) -> None:
    found = exported(spec_of(random.Random(seed)))
    assert not found.gaps
    assert len({m.covers for m in found.rules[0].matchers}) > 1

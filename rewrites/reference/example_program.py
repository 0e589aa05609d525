"""A pattern as a program of its own, to try it on: `negf(absf(x))` becomes a function with these two ops."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from iree.compiler import ir

from opsplice.rewrites.ir import emit
from opsplice.rewrites.spelling.not_exportable import GapError, written_text
from opsplice.rewrites.spelling.spelled_template import Instance
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.spelling.templates import spell
from opsplice.spec_lang.checking.op_parameters import rewritten
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree

# As frontends write programs. Of alternatives the first is written.
_SPELLINGS = (
    Spelling("ops on tensors", "tensor", "ops", accumulator=True),
    Spelling("generics", "generic", "maps", accumulator=True),
)
# How large the dims are, from the first to the last one: conditions and kernels want some of these.
_SIZES = (range(8, 1000, 8), range(64, 8000, 64), itertools.repeat(16), itertools.repeat(128), itertools.repeat(1))
_PACK_RANK = 1
# What type variables are that may be anything: the first for which there are such ops.
_ELEMENTS = ("f32", "i32", "i1")
_MOST_ELEMENTS = 1 << 22


def of_numbers(patterns: Mapping[str, tree.Pattern]) -> dict[str, tree.Pattern]:
    """Patterns with a number in the place of each range, since ops have one."""
    return {name: rewritten(pattern, _one_number) for name, pattern in patterns.items()}


def programs(pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], name: str) -> list[str]:
    """Functions that compute what a pattern does, in several sizes, each called `name` and a number.

    Dims without a name are dynamic, and so is a pack, of one dim. Raises GapError for a pattern that cannot be written
    as ops, as ranges cannot (`of_numbers`).
    """
    for part in tree.parts(pattern.where):
        if isinstance(part, tree.Is) and not part.negated:
            what = f"`{written_text(part)}`"
            raise GapError.at(part.span, what, "it asks for ops behind an input, and a template has none")
    context = ir.Context()
    emit.load_dialects(context)
    found: dict[str, None] = {}
    failures: list[GapError] = []
    with context, ir.Location.unknown():
        for element in _ELEMENTS:
            for instance in _instances(pattern, element):
                try:
                    found.setdefault(_function(pattern, patterns, instance))
                except GapError as error:
                    failures.append(error)
            if found:
                break
    if not found:
        raise failures[0]
    return [text.replace("@example", f"@{name}_{number}") for number, text in enumerate(found)]


def _function(pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], instance: Instance) -> str:
    """A function with a pattern written out in it. Raises GapError if there is none."""
    try:
        template = spell(pattern, patterns, instance, _SPELLINGS[0])
    except GapError:
        template = spell(pattern, patterns, instance, _SPELLINGS[1])
    text = template.function("func.func @example")
    try:
        ir.Module.parse(text)
    except ir.MLIRError as error:
        why = "; ".join(d.message for d in error.error_diagnostics)
        raise GapError.at(pattern.span, f"pattern '{pattern.name}'", f"MLIR refuses it as ops: {why}") from None
    return text


def _instances(pattern: tree.Pattern, element: str) -> Iterator[Instance]:
    """Several choices of the sizes. element: what type variables are where they may be."""
    types = {v.name: _choice([c.name for c in v.choices], element) for v in pattern.type_variables}
    kinds = [p.type for p in pattern.parameters]
    packs = {dim.pack: _PACK_RANK for kind in kinds for dim in kind.dims if dim.pack is not None}
    symbols = dict.fromkeys(dim.symbol for kind in kinds for dim in kind.dims if dim.symbol is not None)
    for sizes in _SIZES:
        known = {**dict(zip(symbols, sizes, strict=False)), **dim_conditions.fixed(pattern.where)}
        if all(math.prod(known.get(str(dim), 1) for dim in kind.dims) <= _MOST_ELEMENTS for kind in kinds):
            yield Instance(packs, types, known)


def _choice(choices: Sequence[str], element: str) -> str:
    return element if not choices or element in choices else choices[0]


def _one_number(node: object) -> object:
    """A number of a range in its place: one that is halfway, or the end that is a finite number."""
    if not isinstance(node, tree.Constant) or node.high is None:
        return node
    low, high = node.value, node.high
    if isinstance(low, tree.Literal) and isinstance(high, tree.Literal) and math.isfinite(low.value):
        middle = (low.value + high.value) / 2 if math.isfinite(high.value) else low.value
        return tree.Constant(node.span, dataclasses.replace(low, value=middle))
    return tree.Constant(node.span, high)

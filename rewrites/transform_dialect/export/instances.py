"""What a pattern is written out for: each rank of its packs, each type that its variables may be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import Instance
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.transform_dialect.export.op_matchers import is_any_contraction
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

MAX_RANK = 4
MAX_INSTANCES = 64


def instances(pattern: tree.Pattern, rule: tree.Rule) -> Iterator[Instance]:
    """Each rank of each pack with each choice of each type variable."""
    kinds = [p.type for p in pattern.parameters]
    packs = sorted({d.pack for kind in kinds for d in kind.dims if d.pack is not None})
    if is_any_contraction(pattern):  # of any rank, too
        packs, kinds = [], []
    sizes = {**dim_conditions.fixed(pattern.where), **dim_conditions.fixed(rule.where)}
    choices = [[c.name for c in v.choices] or list(vocabulary.KERNEL_ELEMENTS) for v in pattern.type_variables]
    names = [v.name for v in pattern.type_variables]
    made = 0
    for types in itertools.product(*choices):
        for ranks in itertools.product(range(MAX_RANK + 1), repeat=len(packs)):
            instance = Instance(dict(zip(packs, ranks, strict=True)), dict(zip(names, types, strict=True)), sizes)
            if packs and max((_rank(kind, instance) for kind in kinds), default=0) > MAX_RANK:
                continue
            made += 1
            if made > MAX_INSTANCES:
                why = f"it would need more than {MAX_INSTANCES} matchers for each spelling; give it fewer choices"
                raise GapError.at(pattern.span, f"pattern '{pattern.name}'", why)
            yield instance


def _rank(kind: tree.Type, instance: Instance) -> int:
    return sum(1 if d.pack is None else instance.packs[d.pack] for d in kind.dims)


def covers(instance: Instance, spelling: Spelling, choices: Sequence[int]) -> str:
    taken = [f"alternative {'.'.join(str(choice + 1) for choice in choices)}"] if choices else []
    types = [f"{name} = {element}" for name, element in instance.types.items()]
    ranks = [f"...{name} of rank {rank}" for name, rank in instance.packs.items()]
    return "; ".join([spelling.name, *taken, *types, *ranks])

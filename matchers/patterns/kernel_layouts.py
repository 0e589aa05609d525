"""Which inputs a rule's kernels take in any layout."""

from __future__ import annotations

from collections.abc import Mapping

from opsplice.spec_lang.syntax import tree


def layouts(rule: tree.Rule, kernels: Mapping[str, tree.Kernel]) -> tuple[frozenset[str], bool]:
    """The inputs that a rule's kernels take in any layout, maybe as copies, and whether so is the only result.

    What is computed from inputs for a kernel is dense, however they lie.
    """
    if (kernel := kernels.get(rule.kernel)) is None:
        return frozenset(), False
    parts = list(tree.parts(rule.args))
    calls = [(kernel, rule.args), *((kernels[p.kernel], p.args) for p in parts if isinstance(p, tree.Launch))]
    pairs = [pair for called, args in calls for pair in zip(called.parameters, args, strict=True)]
    named = [(arg.name, _in_any_layout(p.type)) for p, arg in pairs if isinstance(arg, tree.Name)]
    computed = tree.parts(tuple(part for part in parts if isinstance(part, tree.Computed)))
    free = {name for name, is_free in named if is_free} | {p.name for p in computed if isinstance(p, tree.Name)}
    free -= {name for name, is_free in named if not is_free}
    return frozenset(free), [_in_any_layout(result.type) for result in kernel.made] == [True]


def _in_any_layout(kind: tree.Type | None) -> bool:
    return kind is not None and kind.any_layout

"""Which inputs a rule's kernel takes in any layout."""

from __future__ import annotations

from opsplice.spec_lang.syntax import tree


def layouts(rule: tree.Rule, kernel: tree.Kernel | None) -> tuple[frozenset[str], bool]:
    """The inputs that a rule's kernel takes in any layout, maybe as copies, and whether so is the only result.

    What is computed from inputs for the kernel is dense, however they lie.
    """
    if kernel is None:
        return frozenset(), False
    pairs = list(zip(kernel.parameters, rule.args, strict=True))
    named = [(arg.name, _in_any_layout(p.type)) for p, arg in pairs if isinstance(arg, tree.Name)]
    computed = tree.parts(tuple(arg for arg in rule.args if isinstance(arg, tree.Computed)))
    free = {name for name, is_free in named if is_free} | {p.name for p in computed if isinstance(p, tree.Name)}
    free -= {name for name, is_free in named if not is_free}
    return frozenset(free), [_in_any_layout(result.type) for result in kernel.made] == [True]


def _in_any_layout(kind: tree.Type | None) -> bool:
    return kind is not None and (kind.strided or kind.copied)

"""A pattern spelled out as ops, and what it was spelled out for: an instance, and a choice of its alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opsplice.rewrites.spelling.dim_bounds import Extent
from opsplice.rewrites.spelling.template_values import Size
from opsplice.spec_lang.syntax import tree

# In the lines of a template, where a matcher is to compare an op by its name alone.
NAME_ONLY = "{NAME_ONLY}"


@dataclass(frozen=True)
class Instance:
    """What a template is made for: the rank of each pack, the type of each type variable, and dims of known size."""

    packs: Mapping[str, int]
    types: Mapping[str, str]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Template:
    """A pattern spelled out.

    arguments: the name and the type of each argument, the pattern's parameters first; then sizes that ops need.
    lines:     the ops, one a line, the root last; NAME_ONLY stands where a matcher compares names alone.
    root, kind: the root's value and its type; sizes: its dims.
    scopes:    each condition of the pattern and those that it uses, with what its dims are.
    inside:    constants inside of bodies. IREE moves them out, and compares those outside only where they fill a tensor
               of the template too; so no program has a template with such constants.
    settings:  what its alternatives say that scalars are. choices: which alternatives were taken.
    """

    arguments: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    root: str
    kind: str
    scopes: tuple[tuple[tree.Condition, Mapping[str, Extent]], ...]
    dims: Mapping[str, Extent]
    inside: tuple[str, ...] = ()
    sizes: tuple[Size, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)
    choices: tuple[int, ...] = ()

    def all_lines(self, mark: str = "") -> list[str]:
        """The lines with a mark where a matcher compares names alone."""
        return [line.replace(NAME_ONLY, mark) for line in self.lines]

    def function(self, head: str) -> str:
        """It as a function. head: the op and its name, as in `util.func private @f`."""
        arguments = ", ".join(f"{name}: {kind}" for name, kind in self.arguments)
        end = f"{head.partition('.')[0]}.return {self.root} : {self.kind}"
        body = "\n  ".join([*self.all_lines(), end])
        return f"{head}({arguments}) -> {self.kind} {{\n  {body}\n}}\n"


@dataclass(eq=False)
class Choices:
    """Which ways are taken at the places where a pattern has several (alternatives, ops that need not be there), in the
    order in which these are met; the first one at places beyond these.

    counts: how many ways each place has that was met.
    """

    taken: tuple[int, ...]
    counts: list[int] = field(default_factory=list)

    def next(self, count: int) -> int:
        """Which way is taken at a place that has as many."""
        self.counts.append(count)
        met = len(self.counts)
        return self.taken[met - 1] if met <= len(self.taken) else 0

    def following(self) -> tuple[int, ...] | None:
        """The choices after these; None after the last."""
        taken = [*self.taken, *[0] * len(self.counts)][: len(self.counts)]
        while taken and taken[-1] + 1 == self.counts[len(taken) - 1]:
            taken.pop()
        return (*taken[:-1], taken[-1] + 1) if taken else None

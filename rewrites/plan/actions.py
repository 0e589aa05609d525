"""What is to be done with a match: a kernel called in its place, MLIR inserted there, or attributes set.

Everything that takes; made by the planner, independent of the approach, holding payload values without touching them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.search.matches import Binding, Match, Size
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.ir.executable_targets import ProgramTarget, object_key
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.targets.artifacts.artifact import Artifact


@dataclass(frozen=True)
class SumSize(DimSize):
    """A size of what a kernel makes that is arithmetic on its dims, at run time.

    dims: those of the kernel. wanted: the size that the program has there, which is compared with it.
    """

    kernel: str
    sum: tree.Arithmetic
    dims: tuple[tuple[str, Size | tuple[Size, ...]], ...]
    wanted: DimSize | None = None


class GivenSize(DimSize):
    """A size that is a value of the program already, of type index."""


@dataclass(frozen=True)
class Zeros:
    """What a result is that starts at zero, until the kernel writes to it."""

    output: Output


@dataclass(frozen=True)
class Buffer:
    """A tensor argument: a buffer of `element`s, whose dims are `shape`.

    value: None for one that is left out; `Written` for what a rule computes, `KernelCall` for what another kernel
    makes, `Zeros` for a result that starts as these, until it is put in. layout: where these lie in the memory of
    `value`, for each dim of `shape`; None for a dense row-major buffer. copy: where they lie there if the kernel gets a
    dense copy of them. views: the ops between `value` and what the match is bound to.
    """

    name: str
    value: Any
    element: str
    shape: tuple[tree.Dim, ...]
    layout: Layout | None = None
    views: tuple[Any, ...] = ()
    copy: Layout | None = None


@dataclass(frozen=True)
class Scalar:
    """A scalar argument of type `element`: a payload value (a scalar or a tensor of one), a number, or a dim."""

    name: str
    element: str
    value: Any = None
    number: int | float | None = None
    dim: str | None = None


@dataclass(frozen=True)
class Output:
    """A result: a fresh buffer, or (`alias`) the argument that is overwritten. `root` is the value that it replaces.

    root: None for what another kernel is given, and for the kernel's own memory, `is_scratch`.

    layout: where its dims lie in the memory of `root`; None for a dense row-major buffer. copy: where those of `root`
    lie in what the kernel writes if `root` is a copy of that. views: the ops between the match's root and `root`, which
    only arrange its elements.
    """

    root: Any
    sizes: tuple[Size, ...]
    element: str
    shape: tuple[tree.Dim, ...]
    alias: str | None = None
    layout: Layout | None = None
    views: tuple[Any, ...] = ()
    copy: Layout | None = None
    is_scratch: bool = False


@dataclass(frozen=True)
class Choice:
    """The artifact for a target of the program, and the clause of the kernel that it comes from.

    artifact: None where a plugin has the code at run time, and before it is generated.
    """

    target: ProgramTarget
    clause: tree.ArtifactClause
    artifact: Artifact | None

    @property
    def code(self) -> Artifact:
        """The artifact, of a choice that is not a plugin's."""
        assert self.artifact is not None, "the code is known"
        return self.artifact

    @property
    def is_function(self) -> bool:
        """Whether it is a plain C function for a CPU."""
        return self.target.is_cpu and not self.clause.is_command and self.clause.form != "dispatch"


def passed(match: Match, rule: tree.Rule, kernel: tree.Kernel) -> dict[str, tree.Argument]:
    """What a rule passes for each parameter of a kernel: of alternatives the first of which the match has all inputs.

    An input that the rule casts to the type that it has is that input, as it lies, where the kernel takes any layout.
    """
    lacking = {p.name for p in match.pattern.parameters if p.default is None} - match.inputs.keys()

    def chosen(part: object) -> object:
        if not isinstance(part, tree.Alternatives):
            return part
        read = [{each.name for each in tree.parts(option) if isinstance(each, tree.Name)} for option in part.options]
        return next((o for o, names in zip(part.options, read, strict=True) if not names & lacking), part.options[-1])

    def settled(parameter: tree.Parameter, arg: tree.Argument) -> tree.Argument:
        if isinstance(arg, tree.Computed):
            arg = tree.argument(tree.rebuilt(arg.expr, chosen))
        cast = arg.expr if isinstance(arg, tree.Computed) and parameter.type.any_layout else None
        if not isinstance(cast, tree.Call) or cast.type is None or not isinstance(inner := cast.args[0], tree.Name):
            return arg
        op, bound = vocabulary.find(cast.callee), match.inputs.get(inner.name)
        is_cast = op is not None and op.width is not None
        return inner if is_cast and bound is not None and bound.element == cast.type.element.name else arg

    return {p.name: settled(p, arg) for p, arg in zip(kernel.parameters, rule.args, strict=True)}


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A kernel in the place of a match. Which approach makes the call follows from it (`approaches/approach_table.py`).

    symbol:  the function's name in the artifacts.
    dims:    the kernel's dims in order of their first appearance; the size of a pack is a tuple.
    choices: the artifact for each target of the program that has one.
    kept:    the targets that have none; the program does not come here on these.
    types:   type variables of the kernel, and the elements that they stand for.
    when:    what holds at run time where the program comes here; None if it always does.
    """

    match: Match
    rule: tree.Rule
    kernel: tree.Kernel
    symbol: str
    arguments: tuple[Buffer | Scalar, ...]
    outputs: tuple[Output, ...]
    dims: Mapping[str, Size | tuple[Size, ...]]
    choices: tuple[Choice, ...] = ()
    kept: tuple[ProgramTarget, ...] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    when: tree.Condition | None = None

    @property
    def is_generated(self) -> bool:
        """Whether some of its code is written for it."""
        return any(choice.clause.is_generated for choice in self.choices)

    @functools.cached_property
    def rule_args(self) -> dict[str, tree.Argument]:
        """What the rule passes for each parameter."""
        return passed(self.match, self.rule, self.kernel)

    @property
    def launches(self) -> tuple[KernelCall, ...]:
        """The calls of other kernels whose results this one is given, and this one, in their order."""
        inner = (argument.value.launches for argument in self.arguments if isinstance(argument.value, KernelCall))
        return (*itertools.chain(*inner), self)

    def mapped(self, change: Callable[[KernelCall], KernelCall]) -> KernelCall:
        """The call with those of other kernels whose results it is given as `change` gives them."""
        arguments = (
            dataclasses.replace(a, value=change(a.value)) if isinstance(a.value, KernelCall) else a
            for a in self.arguments
        )
        return dataclasses.replace(self, arguments=tuple(arguments))

    @property
    def made(self) -> tuple[Output, ...]:
        """The results that take the place of the match's, or are what another kernel is given."""
        return tuple(output for output in self.outputs if not output.is_scratch)

    def tied(self, names: Sequence[str]) -> list[int]:
        """For each result which of these arguments it is written over, -1 for a fresh one."""
        return [-1 if output.alias is None else names.index(output.alias) for output in self.outputs]

    @property
    def targets(self) -> tuple[ProgramTarget, ...]:
        """All targets of the program."""
        return (*(choice.target for choice in self.choices), *self.kept)

    def key(self, target: ProgramTarget) -> str:
        """What a target's files are listed under, as MLIR writes it."""
        return object_key(target, self.targets)

    @property
    def objects(self) -> dict[str, Path]:
        """The file with the function's code, for each target by its key: to link, or to keep apart."""
        linked = [c for c in self.choices if c.artifact is not None and (c.is_function or self.kernel.is_scalar)]
        return {self.key(choice.target): choice.code.path for choice in linked}

    @property
    def imported(self) -> tuple[str, ...]:
        """The formats of the targets whose code imports a function of C by its name, from a plugin at run time."""
        importing = [c for c in self.choices if c.clause.is_plugin and not self.kernel.is_scalar]
        return tuple(sorted({choice.target.format for choice in importing}))

    @property
    def origins(self) -> dict[str, Path]:
        """For each target that imports the function, as MLIR writes it, the file that the kernel names for that."""
        named = [c for c in self.choices if c.clause.is_plugin and c.clause.path]
        return {choice.target.text: choice.clause.file.resolve() for choice in named}

    @property
    def is_optional(self) -> bool:
        """Whether the compiler's own code runs where no plugin has the function."""
        return self.rule.keep and bool(self.imported)

    @property
    def is_split(self) -> bool:
        """Whether only the run time knows if the call is made: by the target, by what plugins have, or by sizes."""
        return bool(self.kept) or self.is_optional or self.when is not None

    @property
    def overwritten(self) -> tuple[str, ...]:
        """The arguments that the kernel overwrites, of which the program keeps a copy."""
        parameters = {parameter.name for parameter in self.kernel.parameters}
        return tuple(output.alias for output in self.outputs if output.alias in parameters and output.alias is not None)

    @property
    def strided(self) -> tuple[Buffer | Output, ...]:
        """The buffers that lie in memory as they like, in the order of the signature."""
        inputs = [a for a in self.arguments if isinstance(a, Buffer) and a.layout is not None]
        return (*inputs, *(output for output in self.outputs if output.layout is not None))

    @property
    def copied(self) -> tuple[Buffer | Output, ...]:
        """The buffers that are copied from or into another layout."""
        return tuple(each for each in (*self.arguments, *self.outputs) if not isinstance(each, Scalar) and each.copy)


@dataclass(frozen=True)
class Argument:
    """What a name of written-out ops is: a value of the program (of these sizes) as one of type `kind`, or a number."""

    name: str
    kind: str
    binding: Binding
    sizes: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Written:
    """Ops as text, over arguments; `root`, of type `kind`, is what they make. span: where the spec asks for them.

    sizes: those of `root`, axis by axis. is_paired: whether each byte of it is two numbers of i4.
    """

    span: tree.Span
    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    root: str
    kind: str
    sizes: tuple[Size, ...] = ()
    is_paired: bool = False

    @property
    def element(self) -> str:
        """The element type of what the ops make."""
        return "i4" if self.is_paired else self.kind.removesuffix(">").rpartition("<")[2].rpartition("x")[2]


@dataclass(frozen=True, eq=False)
class Insertion:
    """MLIR in the place of a match: a rule's own, in the names of the pattern, or a pattern written out."""

    match: Match
    rule: tree.Rule
    code: tree.Code | Written


@dataclass(frozen=True, eq=False)
class Annotation:
    """Attributes to set on the op that makes the first result of a match: those of its rule that no other has set."""

    match: Match
    rule: tree.Rule
    attributes: tuple[tree.Attribute, ...]


Action = KernelCall | Insertion

"""Declarations: kernels, patterns and rules, and the file that holds them."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from opsplice.spec_lang.syntax.tree.dim_expressions import Condition, DimExpr, Literal
from opsplice.spec_lang.syntax.tree.pattern_expressions import Attribute, Code, Constant, Expr, Let, Name, Wildcard
from opsplice.spec_lang.syntax.tree.spans import Source, Span
from opsplice.spec_lang.syntax.tree.traversal import parts
from opsplice.spec_lang.syntax.tree.types import OpVariable, Parameter, ScalarType, Type, TypeVariable


@dataclass(frozen=True)
class KernelResult:
    """A result: a fresh buffer of `type`, or (`alias`) a parameter that the kernel overwrites.

    That of a function on elements is a scalar.
    """

    span: Span
    name: str
    type: Type | None = None
    alias: str | None = None


@dataclass(frozen=True)
class Limit:
    """`subgroup >= 32`: what a GPU has to have for a clause. op is in == != < <= > >=."""

    span: Span
    name: str
    op: str
    value: int

    def __str__(self) -> str:
        return f"{self.name} {self.op} {self.value}"


@dataclass(frozen=True)
class ArtifactClause:
    """`cpu x86_64 when avx2 and fma "k.c" as bitcode flags "-ffast-math"`, `cuda sm_90 "k.ptx"`, `spirv "k.comp"`.

    arch None means every architecture that the file can be built or used for. Paths are relative to the spec's folder;
    path is "" where a plugin has the code and no file is named. links: the archives that its code is linked with.
    shared: the bytes that a launch gives each workgroup to share. threads: how many a workgroup has where that is not
    what the kernel says, else 0. takes: what the parameters of the code get, in order:
    names of what a dispatch is passed, and numbers; nothing where that is in the dispatch's own order.
    """

    span: Span
    backend: str
    path: str
    path_span: Span
    arch: str | None = None
    features: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    form: str | None = None
    flags: str | None = None
    links: tuple[str, ...] = ()
    shared: int = 0
    threads: int = 0
    takes: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The flags, as words of a command line."""
        return tuple(shlex.split(self.flags or ""))

    @property
    def file(self) -> Path:
        """The file that is named: relative paths start at the spec's folder."""
        source = self.span.source.path
        return Path(self.path) if source is None else source.parent / self.path

    @property
    def linked(self) -> tuple[Path, ...]:
        """The archives that the code is linked with."""
        source = self.span.source.path
        return tuple(Path(name) if source is None else source.parent / name for name in self.links)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are named."""
        return (*([self.file] if self.path else []), *self.linked)

    def workgroup(self, kernel: Kernel) -> tuple[int, ...]:
        """How many threads a workgroup of its code has in each dim; empty where the file says it."""
        return (self.threads,) if self.threads else kernel.workgroup

    @property
    def is_plugin(self) -> bool:
        """Whether the program only imports the function, by its name, and a plugin has it at run time."""
        return self.form == "plugin"

    @property
    def is_provided(self) -> bool:
        """Whether the code stays out of the program, which asks a provider for it at run time."""
        return self.form == "provided"

    @property
    def is_command(self) -> bool:
        """Whether the program calls the file on the host: Python, or a module that IREE has compiled."""
        return self.form in ("command", "recorded")

    @property
    def is_recorded(self) -> bool:
        """Whether that call only records commands, among those of the program."""
        return self.form == "recorded"

    @property
    def is_generated(self) -> bool:
        """Whether the file is Python that writes the code for each match."""
        return self.form == "generated"


@dataclass(frozen=True)
class Builds:
    """`builds vectors { cpu x86_64 when avx2 file flags "-mavx2"  cpu file }`: clauses for any file.

    A kernel in the same file says `vectors "norm.c"` for them. They have no path.
    """

    span: Span
    name: str
    name_span: Span
    clauses: tuple[ArtifactClause, ...]

    def of(self, clause: ArtifactClause) -> tuple[ArtifactClause, ...]:
        """What a kernel's clause stands for."""
        return tuple(
            dataclasses.replace(
                each,
                span=clause.span,
                path=clause.path,
                path_span=clause.path_span,
                form=clause.form or each.form,
                flags=" ".join(filter(None, (each.flags, clause.flags))) or None,
                links=(*each.links, *clause.links),
                shared=clause.shared or each.shared,
                threads=clause.threads or each.threads,
                takes=clause.takes or each.takes,
            )
            for each in self.clauses
        )


@dataclass(frozen=True)
class Kernel:
    """External code with a signature. `symbol` may hold `{T}` for a type variable; None means the kernel's own name.

    grid: workgroup counts, 1 to 3 of them, or empty for a single workgroup that is not told its id.
    workgroup: on a GPU, how many threads a workgroup has in each of 1 to 3 dims; empty where the file says it.
    """

    span: Span
    name: str
    name_span: Span
    type_variables: tuple[TypeVariable, ...]
    parameters: tuple[Parameter, ...]
    results: tuple[KernelResult, ...]
    grid: tuple[DimExpr, ...] = ()
    symbol: str | None = None
    artifacts: tuple[ArtifactClause, ...] = ()
    where: Condition | None = None
    symbol_span: Span | None = None
    workgroup: tuple[int, ...] = ()
    workgroup_span: Span | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether it is a function on elements: scalars in, one scalar out."""
        return any(isinstance(result.type, ScalarType) for result in self.results)

    @property
    def made(self) -> tuple[KernelResult, ...]:
        """The results that take the place of a pattern's: all that are not `scratch`."""
        return tuple(result for result in self.results if result.type is None or not result.type.scratch)


@dataclass(frozen=True)
class Pattern:
    """What to look for: the results, as expressions over typed inputs.

    through: what is looked through wherever it stands: `cast` (changes of the element type's width), `reshape`.
    op_variables: what has to be said before it is a pattern; see `parameters`.
    """

    span: Span
    name: str
    name_span: Span
    type_variables: tuple[TypeVariable, ...]
    parameters: tuple[Parameter, ...]
    where: Condition | None
    body: tuple[Let, ...]
    results: tuple[Expr, ...]
    through: tuple[str, ...] = ()
    op_variables: tuple[OpVariable, ...] = ()


@dataclass(frozen=True)
class Computed:
    """An argument of a rule that is computed from inputs of the pattern: `pack[n k -> (n / 32) k 32](w)`."""

    span: Span
    expr: Expr


@dataclass(frozen=True)
class Launch:
    """An argument of a rule that a kernel makes: `combine(partial(a, b))`. The checker tells it from a pattern."""

    span: Span
    kernel: str
    kernel_span: Span
    args: tuple[Argument, ...]


Argument = Name | Literal | Computed | Launch


def argument(expr: Expr) -> Argument:
    """An expression as an argument of a rule."""
    if isinstance(expr, Constant) and expr.high is None and isinstance(expr.value, Literal):
        return expr.value
    if isinstance(expr, Wildcard):
        return Name(expr.span, "_")
    return expr if isinstance(expr, Name) else Computed(expr.span, expr)


@dataclass(frozen=True)
class Rule:
    """`replace pattern at phase priority 1 where ... when ... with kernel(args) otherwise keep`, `annotate ...`, or
    `keep pattern where ...`: the compiler's code, whatever later rules say of the pattern.

    kernel: what takes the pattern's place: a kernel, or another pattern, which is then written out as ops; "" when it
    is `code`, or when the rule only sets `attributes` on the op that makes the first result, or keeps what is there.
    args: names of the pattern's parameters, dims of the pattern (for scalar parameters), numbers, or what is computed
    from parameters. rest: where `...` stands for the others, each by the name of its parameter; the checker writes them
    out.
    keep: leave the compiler's own code for targets without an artifact.
    phase: where in the pipeline the rule applies; None for the default. priority: those with a higher one come first.
    when: a condition on dims that is judged at run time where it cannot be judged before.
    """

    span: Span
    pattern: str
    pattern_span: Span
    kernel: str
    kernel_span: Span
    args: tuple[Argument, ...] = ()
    keep: bool = False
    where: Condition | None = None
    phase: str | None = None
    phase_span: Span | None = None
    priority: int = 0
    code: Code | None = None
    attributes: tuple[Attribute, ...] = ()
    when: Condition | None = None
    rest: Span | None = None

    @property
    def branches(self) -> bool:
        """Whether what the match is may stay in the program beside what takes its place."""
        return self.keep or self.when is not None

    @property
    def title(self) -> str:
        """The rule in a few words, for messages."""
        if self.attributes:
            return f"annotate {self.pattern}"
        if not self.replaces:
            return f"keep {self.pattern}"
        return f"replace {self.pattern} with {self.kernel or 'mlir'}"

    @property
    def replaces(self) -> bool:
        """Whether it puts anything in the place of its pattern."""
        return bool(self.kernel) or self.code is not None

    @property
    def called(self) -> tuple[str, ...]:
        """What takes the pattern's place, and the kernels that make its arguments."""
        return self.kernel, *(part.kernel for part in parts(self.args) if isinstance(part, Launch))


@dataclass(frozen=True)
class Run:
    """`run "canonicalize, cse" at input`: passes that the module goes through at a phase, before its rules apply.

    passes: the text of a pass pipeline, without the op around it.
    """

    span: Span
    passes: str
    passes_span: Span
    phase: str
    phase_span: Span

    @property
    def title(self) -> str:
        """The run in a few words, for messages."""
        return f'run "{self.passes}" at {self.phase}'


@dataclass(frozen=True)
class Import:
    """`import "common.splice"`: its declarations become visible; its rules come first."""

    span: Span
    path: str
    path_span: Span


Item = Import | Kernel | Builds | Pattern | Rule | Run | Code


@dataclass(frozen=True)
class Spec:
    """One file. `items` are the declarations in file order."""

    source: Source
    items: tuple[Item, ...] = field(default=())

    @property
    def imports(self) -> tuple[Import, ...]:
        return tuple(i for i in self.items if isinstance(i, Import))

    @cached_property
    def builds(self) -> Mapping[str, Builds]:
        return {i.name: i for i in self.items if isinstance(i, Builds)}

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, with the clauses that `builds` stand for."""
        return tuple(map(self._built, (i for i in self.items if isinstance(i, Kernel))))

    def _built(self, kernel: Kernel) -> Kernel:
        if not any(clause.backend in self.builds for clause in kernel.artifacts):
            return kernel
        clauses = [self.builds[c.backend].of(c) if self._names_builds(c) else (c,) for c in kernel.artifacts]
        return dataclasses.replace(kernel, artifacts=tuple(itertools.chain(*clauses)))

    def _names_builds(self, clause: ArtifactClause) -> bool:
        return clause.backend in self.builds and not (clause.arch or clause.features or clause.limits)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(i for i in self.items if isinstance(i, Pattern))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(i for i in self.items if isinstance(i, Rule))

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(i for i in self.items if isinstance(i, Run))

    @property
    def codes(self) -> tuple[Code, ...]:
        """Raw MLIR at the top level: symbols that the rules' own MLIR refers to."""
        return tuple(i for i in self.items if isinstance(i, Code))

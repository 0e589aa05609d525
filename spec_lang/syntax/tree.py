"""The tree of a spec: what a `.splice` file says, as frozen data.

The parser builds it, the checker judges it, the formatter prints it, the matchers compile its patterns. It knows
nothing of MLIR payloads. Every node carries the span of source text that it came from.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

# A comment, or a string, in which there is none.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')


@dataclass(frozen=True, eq=False)
class Source:
    """A text and where it came from; `path` is None for text that was never in a file."""

    text: str = field(repr=False)
    path: Path | None = None

    @property
    def name(self) -> str:
        return str(self.path) if self.path is not None else "<text>"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def line_column(self, offset: int) -> tuple[int, int]:
        """The line and column of a character offset, both counted from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True)
class Span:
    """The characters [start, end) of a source. instance: the pattern with ops put in that has a copy of them."""

    source: Source
    start: int
    end: int
    instance: str = ""

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def text(self) -> str:
        """What the source says there, without comments."""
        return _COMMENT.sub(r"\1", self.source.text[self.start : self.end])

    @property
    def written(self) -> str:
        """What the source says there, in one line and without comments."""
        return " ".join(self.text.split())

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


def parts(node: object) -> Iterator[Any]:
    """The dataclasses that a node, or several, are made of: each once, outer ones first, without spans."""
    seen: set[int] = set()
    pending: list[Any] = [node]
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind is tuple:
            pending.extend(reversed(part))
        elif kind is not Span and hasattr(kind, "__dataclass_fields__") and id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend([getattr(part, name) for name in reversed(kind.__dataclass_fields__)])


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node, or several, with each dataclass in it as `change` gives it, spans too, the inner ones first."""
    if isinstance(node, tuple):
        return tuple(rebuilt(part, change) for part in node)
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, Span):
        return change(node)
    return change(type(node)(**{f.name: rebuilt(getattr(node, f.name), change) for f in dataclasses.fields(node)}))


# ---- types ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dim:
    """One dim of a shape: a symbol `n`, a size `64`, a pack `...m` (any number of dims) or `?` (any size).

    Of a kernel's result it may be arithmetic, `ceildiv(k, 64)`. Exactly one field after `span` is set, or none for `?`.
    """

    span: Span
    symbol: str | None = None
    size: int | None = None
    pack: str | None = None
    sum: Arithmetic | None = None

    @property
    def name(self) -> str | None:
        """The name that the dim binds, if any."""
        return self.symbol or self.pack

    def __str__(self) -> str:
        if self.pack is not None:
            return f"...{self.pack}"
        if self.size is not None:
            return str(self.size)
        if self.sum is not None:
            return self.sum.span.written
        return self.symbol or "?"


@dataclass(frozen=True)
class ScalarType:
    """An element type, `f32`, or a type variable, `T`."""

    span: Span
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorType:
    """`tensor<m x n x f32>` in a pattern; `f32[m, n]` in a kernel, where it is a buffer.

    A buffer is dense and row-major, or `strided`: then the kernel is told the stride of each dim. One that is `copied`
    is dense, and the program makes a copy where a match has it in another layout. One that is `optional` is a null
    pointer where a match has none.
    """

    span: Span
    dims: tuple[Dim, ...]
    element: ScalarType
    strided: bool = False
    optional: bool = False
    copied: bool = False

    def __str__(self) -> str:
        return "tensor<" + " x ".join([*map(str, self.dims), self.element.name]) + ">"


Type = ScalarType | TensorType


@dataclass(frozen=True)
class TypeVariable:
    """`T` or `T in {f32, f16}` in angle brackets; no choices means any element type."""

    span: Span
    name: str
    choices: tuple[ScalarType, ...] = ()


@dataclass(frozen=True)
class OpVariable:
    """`op act` in the angle brackets of a pattern: an op, or a pattern, that is said where the pattern is used."""

    span: Span
    name: str


@dataclass(frozen=True)
class Parameter:
    """default: what a scalar of a pattern is at a match that has none."""

    span: Span
    name: str
    type: Type
    default: Literal | None = None


# ---- arithmetic on dims, and conditions ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Literal:
    """A number. An int stays an int; `0.5`, `1e-5`, `inf` and `-inf` are floats."""

    span: Span
    value: int | float


@dataclass(frozen=True)
class DimRef:
    span: Span
    name: str


@dataclass(frozen=True)
class Arithmetic:
    """`left op right` with op in + - * / %, or op in ceildiv floordiv min max, written as a function.

    `/` is exact division and only allowed inside `const(...)`; grids and conditions take ceildiv or floordiv.
    """

    span: Span
    op: str
    left: DimExpr
    right: DimExpr


@dataclass(frozen=True)
class Property:
    """A number that is no dim: the width of a type variable's element type, the dims of a pack, or a stride.

    As in `bits(T)`, `rank(m)` of a pack `...m`, and `stride(q, d)` of a strided buffer `along` a dim.
    """

    span: Span
    kind: str
    name: str
    along: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.name}{self.along and f', {self.along}'})"


DimExpr = Literal | DimRef | Arithmetic | Property


@dataclass(frozen=True)
class Comparison:
    """`left op right` with op in == != < <= > >=."""

    span: Span
    op: str
    left: DimExpr
    right: DimExpr


@dataclass(frozen=True)
class Logical:
    """`a and b`, `a or b`, `not a`; op in and or not."""

    span: Span
    op: str
    operands: tuple[Condition, ...]


# What is asked of the op that makes a match's first result, as `inside("scf.for")`: what the string is, and an example.
OF_THE_ROOT = {
    "inside": ("the full name of an op", "scf.for"),
    "lacks": ("an attribute's name", "lowering_config"),
    "contracts": ("the sizes of dims by their kind", "m 32, n ?"),
}


@dataclass(frozen=True)
class Predicate:
    """What is asked of a value, `weight(w)`, `only(e)`, `shared(e)`, or of the op at the root: see `OF_THE_ROOT`.

    value: the name of a parameter or of a part of the pattern, or what is asked of the root.
    """

    span: Span
    name: str
    value: str


@dataclass(frozen=True)
class Membership:
    """`T in {f32, f16}`: a type variable is one of these."""

    span: Span
    variable: str
    choices: tuple[ScalarType, ...]


@dataclass(frozen=True)
class Is:
    """`x is softmax(_)` or `x is not softmax(_)`: what makes an input, beyond the pattern itself.

    form: a call, or (in brackets) alternatives of calls.
    """

    span: Span
    value: str
    form: Expr
    negated: bool


Condition = Comparison | Logical | Predicate | Membership | Is


# ---- expressions of patterns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A parameter or a name bound earlier in the body."""

    span: Span
    name: str


@dataclass(frozen=True)
class Constant:
    """A constant scalar or splat: a bare number `0.5`, `const(n)`, `const(1 / n)`, or a range `const(0.79..0.80)`.

    `high` is None unless it is a range, whose ends are both included.
    """

    span: Span
    value: DimExpr
    high: DimExpr | None = None


@dataclass(frozen=True)
class Wildcard:
    """`_`: any value, which is not looked at and given no name."""

    span: Span


@dataclass(frozen=True)
class Alternatives:
    """`a | b`: one of these, the first that holds."""

    span: Span
    options: tuple[Expr, ...]


@dataclass(frozen=True)
class Uses:
    """What is asked of a value besides how it is made. kind in only shared accumulated.

    `only(e)`: nothing else uses it. `shared(e)`: something else does. `accumulated(e)`: the op of a contraction or
    reduction may start from anything, where it would have to start from the combiner's neutral value.
    """

    span: Span
    kind: str
    arg: Expr


@dataclass(frozen=True)
class MlirText:
    """`mlir "..."`: an attribute as MLIR writes it."""

    text: str

    def __str__(self) -> str:
        return self.text


AttributeValue = str | int | float | bool | tuple[int | float, ...] | MlirText


@dataclass(frozen=True)
class Attribute:
    """What is asked of an attribute of an op; just one of the fields after `name` is set, or none for `{name}`.

    value: `name = value`: a string, a number, a bool, a list of numbers, `mlir "..."`, or (`bare`) a word such as an
    enum case.
    choices: `name in {1, 2}`. variable: `name = ?v` binds an integer to v. absent: `!name`.
    """

    span: Span
    name: str
    value: AttributeValue | None = None
    bare: bool = False
    choices: tuple[AttributeValue, ...] = ()
    variable: str | None = None
    absent: bool = False


@dataclass(frozen=True)
class Call:
    """`callee(args) {attributes} : type`.

    callee: an elementwise op by its arith or math name (`mulf`, `math.exp`), another pattern's name (`gated<silu>` with
    ops put in), or, when `quoted`,
    any op's full name (`"torch.aten.gelu"`), in which `*` stands for any letters.
    optional: `mulf?(x, s)`, there or only its first operand. rest: `"op"(x, ...)`, any further operands.
    regions: `"op"(x) {...}`, the op may have regions, whatever they hold. body: `"op"(x) mlir { ... }`, what its one
    region holds.
    """

    span: Span
    callee: str
    callee_span: Span
    args: tuple[Expr, ...]
    quoted: bool = False
    attributes: tuple[Attribute, ...] = ()
    type: Type | None = None
    optional: bool = False
    rest: bool = False
    regions: bool = False
    body: Code | None = None


@dataclass(frozen=True)
class Window:
    """`(2*y + d*i)`: a dim that is read at a sum of labels, each times a number or the name of one.

    terms: the factor, 1 where none is written, and the label of each part.
    """

    span: Span
    terms: tuple[tuple[int | str, str], ...]

    def __str__(self) -> str:
        return f"({' + '.join(label if factor == 1 else f'{factor}*{label}' for factor, label in self.terms)})"


@dataclass(frozen=True)
class Subscripts:
    """`mk, kn -> mn`: one tuple of labels per operand, and the result's. A pack keeps its dots: "...m"."""

    span: Span
    operands: tuple[tuple[str | Window, ...], ...]
    result: tuple[str, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(label for labels in self.operands for label in labels if isinstance(label, Window))


@dataclass(frozen=True)
class Contract:
    """`contract[mk, kn -> mn](a, b)`: the sum over the labels that the result lacks of the product of the operands."""

    span: Span
    subscripts: Subscripts
    args: tuple[Expr, ...]
    type: Type | None = None


@dataclass(frozen=True)
class Reduce:
    """`reduce addf[mn -> m](x)`: combine over the labels that the result lacks."""

    span: Span
    combiner: str
    combiner_span: Span
    subscripts: Subscripts
    arg: Expr


@dataclass(frozen=True)
class Rearrange:
    """`broadcast[n -> mn](x)` (new labels repeat), `transpose[mn -> nm](x)`, `pack[n k -> (n / 32) k 32](w)`.

    kind in broadcast transpose pack. pieces: the labels that `pack` splits, each with the size of a piece; the pieces
    are the last dims, in this order, the last of each filled up with zeros.
    """

    span: Span
    kind: str
    subscripts: Subscripts
    arg: Expr
    pieces: tuple[tuple[str, int], ...] = ()


Expr = Name | Constant | Wildcard | Alternatives | Uses | Call | Contract | Reduce | Rearrange


@dataclass(frozen=True)
class Let:
    """`name = expr`, or `a, b = p(x)` for a pattern with several results."""

    span: Span
    names: tuple[str, ...]
    expr: Expr


# ---- declarations ----------------------------------------------------------------------------------------------------


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
    shared: the bytes that a launch gives each workgroup to share.
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
class Code:
    """`mlir { ... }`: MLIR as it is written between the braces, which are part of the span."""

    span: Span
    text: str


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
    """`replace pattern at phase priority 1 where ... with kernel(args) otherwise keep`; `annotate pattern with {...}`.

    kernel: what takes the pattern's place: a kernel, or another pattern, which is then written out as ops; "" when it
    is `code`, or when the rule only sets `attributes` on the op that makes the first result.
    args: names of the pattern's parameters, dims of the pattern (for scalar parameters), numbers, or what is computed
    from parameters.
    keep: leave the compiler's own code for targets without an artifact.
    phase: where in the pipeline the rule applies; None for the default. priority: those with a higher one come first.
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

    @property
    def title(self) -> str:
        """The rule in a few words, for messages."""
        if self.attributes:
            return f"annotate {self.pattern}"
        return f"replace {self.pattern} with {self.kernel or 'mlir'}"

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

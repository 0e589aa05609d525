"""What is to be done with a match: a kernel called in its place, MLIR inserted there, or attributes set.

Everything that takes; made by the planner, independent of the approach, holding payload values without touching them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from opsplice.matchers.search.matches import Binding, Match, Size
from opsplice.matchers.terms.address import Layout
from opsplice.spec_lang.syntax import tree

Approach = Literal["static function", "dynamic function", "static dispatch", "dynamic dispatch", "command"]


@dataclass(frozen=True)
class Buffer:
    """A tensor argument: a buffer of `element`s, whose dims are `shape`.

    value: None for one that is left out. layout: where these lie in the memory of `value`, for each dim of `shape`;
    None for a dense row-major buffer. views: the ops between `value` and what the match is bound to.
    """

    name: str
    value: Any
    element: str
    shape: tuple[tree.Dim, ...]
    layout: Layout | None = None
    views: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scalar:
    """A scalar argument of type `element`: a payload value (a scalar or a tensor of rank 0), a number, or a dim."""

    name: str
    element: str
    value: Any = None
    number: int | float | None = None
    dim: str | None = None


@dataclass(frozen=True)
class Output:
    """A result: a fresh buffer, or (`alias`) the argument that is overwritten. `root` is the value that it replaces.

    layout: where its dims lie in the memory of `root`; None for a dense row-major buffer. views: the ops between the
    match's root and `root`, which only arrange its elements.
    """

    root: Any
    sizes: tuple[Size, ...]
    element: str
    shape: tuple[tree.Dim, ...]
    alias: str | None = None
    layout: Layout | None = None
    views: tuple[Any, ...] = ()


@dataclass(frozen=True)
class External:
    """A whole dispatch that a file holds, for one target of the program.

    target: as MLIR writes it. entry: the function's name in the file. workgroup: how many threads a workgroup has.
    on_cpu: whether it is a CPU's, in IREE's own ABI for executables. on_metal: whether it is a shader for Metal.
    """

    target: str
    path: Path
    entry: str
    workgroup: tuple[int, int, int]
    on_cpu: bool = False
    on_metal: bool = False
    is_library: bool = False


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A kernel in the place of a match.

    symbol:  the function's name in the artifacts.
    dims:    the kernel's dims in order of their first appearance; the size of a pack is a tuple.
    objects: for each CPU of the program's targets, as MLIR writes it, the file to link.
    harmless: those of these whose file LLVM may inline and run on any numbers.
    externals: whole dispatches for other targets; then the call is made for all targets as one such dispatch.
    empty:   the targets that get neither, as MLIR writes them; the program does not come here on these.
    imported: the formats of the targets whose code imports the function by its name, from a plugin at run time; then
             nothing is linked. importing: these targets, as MLIR writes them, where other targets have dispatches.
    origins: for each target that imports the function, as MLIR writes it, the file that the kernel names for that.
    optional: whether the compiler's own code runs where no plugin has the function.
    approach: how the kernel's code gets into the program, or does not.
    sources: for the files of `objects` in the store, the user's files that they were made of.
    """

    match: Match
    rule: tree.Rule
    kernel: tree.Kernel
    symbol: str
    arguments: tuple[Buffer | Scalar, ...]
    outputs: tuple[Output, ...]
    dims: Mapping[str, Size | tuple[Size, ...]]
    objects: Mapping[str, Path]
    harmless: tuple[str, ...] = ()
    externals: tuple[External, ...] = ()
    empty: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    importing: tuple[str, ...] = ()
    origins: Mapping[str, Path] = field(default_factory=dict)
    optional: bool = False
    approach: Approach = "static function"
    sources: Mapping[Path, Path] = field(default_factory=dict)

    @property
    def strided(self) -> tuple[Buffer | Output, ...]:
        """The buffers that lie in memory as they like, in the order of the signature."""
        inputs = [a for a in self.arguments if isinstance(a, Buffer) and a.layout is not None]
        return (*inputs, *(output for output in self.outputs if output.layout is not None))


@dataclass(frozen=True)
class Argument:
    """What a name of written-out ops is: a value of the program (of these sizes) as one of type `kind`, or a number."""

    name: str
    kind: str
    binding: Binding
    sizes: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Written:
    """Ops as text, over arguments; `root`, of type `kind`, is what they make. span: where the spec asks for them."""

    span: tree.Span
    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    root: str
    kind: str


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

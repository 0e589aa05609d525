"""A compile as data: what goes in, what comes out. Light, for it crosses to and from child processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opsplice.compiling.spec_sources import SpecSource
from opsplice.frontends import ModuleSource
from opsplice.reports.report import Report
from opsplice.runtime.weights import Parameters


@dataclass(frozen=True)
class Job:
    """What to compile. See `opsplice.compile` for the fields. without: where rules stand that are not applied."""

    source: ModuleSource
    specs: tuple[SpecSource, ...] = ()
    flags: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    verbose: bool = False
    no_code: bool = False
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Question:
    """What is to be explained. pattern: None for those that rules use; at: a place of the model, None for all of it."""

    pattern: str | None = None
    at: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A compiled program, the report, and the compiler's warnings, each as text.

    provided: what the program asks a provider for, by name and format.
    commands: the files of what it calls on the host, by module.
    parameters: the weights that the model came with.
    """

    vmfb: bytes
    report: Report
    warnings: tuple[str, ...]
    provided: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    commands: Mapping[str, Path] = field(default_factory=dict)
    parameters: Parameters = ()


def plugin_builder(specs: Sequence[SpecSource]) -> Callable[[Collection[str]], Sequence[Path]]:
    """What builds a plugin with functions that a program imports, of the specs that it was compiled with."""

    def build(imports: Collection[str]) -> Sequence[Path]:
        from opsplice.compiling import plugin_kernels  # what only few programs need takes long to load

        return plugin_kernels.for_program(specs, imports)

    return build

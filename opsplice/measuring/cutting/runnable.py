"""A compiled program with all that it needs to be loaded, as data that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsplice.compiling.job import Outcome, plugin_builder
from opsplice.compiling.spec_sources import SpecSource
from opsplice.runtime.loaded_program import LoadedProgram
from opsplice.runtime.weights import Parameters


@dataclass(frozen=True)
class Runnable:
    """provided: kernels that are not in it; commands, plugins: files of what it calls and imports; specs: those that
    it was compiled with."""

    vmfb: bytes = field(repr=False)
    provided: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    commands: Mapping[str, Path] = field(default_factory=dict)
    parameters: Parameters = ()
    plugins: tuple[Any, ...] = ()
    specs: tuple[SpecSource, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome, parameters: Parameters = (), specs: Sequence[SpecSource] = ()) -> Runnable:
        """What a compile made. parameters: the weights that the model came with."""
        return cls(outcome.vmfb, outcome.provided, outcome.commands, parameters, specs=tuple(specs))

    def load(self, device: str) -> LoadedProgram:
        """The program on a device. Raises OpspliceError as `load_program` does."""
        from opsplice.runtime.host_commands import Commands
        from opsplice.runtime.loaded_program import load_program
        from opsplice.runtime.providers import Provider

        provider = Provider([self.provided], ()) if self.provided else None
        commands = Commands(dict(self.commands)) if self.commands else None
        build = plugin_builder(self.specs)
        return load_program(self.vmfb, device, self.plugins, provider, commands, self.parameters, build)

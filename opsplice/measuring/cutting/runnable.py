"""A compiled program with all that it needs to be loaded, as data that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsplice.compiling.job import Job, Outcome, plugin_builder
from opsplice.compiling.spec_sources import SpecSource
from opsplice.pipeline.flags import named_targets
from opsplice.runtime.device_choice import device_of
from opsplice.runtime.loaded_program import LoadedProgram
from opsplice.runtime.weights import Parameters


@dataclass(frozen=True)
class Runnable:
    """provided: kernels that are not in it; commands, plugins: files of what it calls and imports; specs: those that
    it was compiled with; device: where it runs, None for this machine's CPU."""

    vmfb: bytes = field(repr=False)
    provided: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    commands: Mapping[str, Path] = field(default_factory=dict)
    parameters: Parameters = ()
    plugins: tuple[Any, ...] = ()
    specs: tuple[SpecSource, ...] = ()
    device: str | None = None

    @classmethod
    def of(cls, job: Job, outcome: Outcome) -> Runnable:
        """What a job's compile made, with the weights that the model came with, on a device that it is for.

        Raises OpspliceError if there is no such device.
        """
        device = device_of(named_targets(job.targets, job.flags))
        weights, specs = job.source.parameters, tuple(job.specs)
        return cls(outcome.vmfb, outcome.provided, outcome.commands, weights, specs=specs, device=device)

    def load(self, device: str) -> LoadedProgram:
        """The program on a device of this machine's CPU, or the one that it is for. Raises OpspliceError as
        `load_program` does.
        """
        from opsplice.runtime.host_commands import Commands
        from opsplice.runtime.loaded_program import load_program
        from opsplice.runtime.providers import Provider

        provider = Provider([self.provided], ()) if self.provided else None
        commands = Commands(dict(self.commands)) if self.commands else None
        build = plugin_builder(self.specs)
        return load_program(self.vmfb, self.device or device, self.plugins, provider, commands, self.parameters, build)

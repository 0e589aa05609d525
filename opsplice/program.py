"""Programs that were compiled or loaded: run them, call them often, save them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice.common.errors import counted
from opsplice.compiling.job import plugin_builder
from opsplice.compiling.spec_sources import SpecPath, SpecSource
from opsplice.reports.report import Report
from opsplice.runtime.weights import Parameters

if TYPE_CHECKING:
    from opsplice.runtime.declared_functions import Function
    from opsplice.runtime.direct_call import DirectCall
    from opsplice.runtime.loaded_program import LoadedProgram


@dataclass(frozen=True)
class Program:
    """A compiled program and what the specs did to it.

    vmfb: IREE's flatbuffer; it needs nothing of this machine but the CPU that it was compiled for.
    warnings: the compiler's.
    report: None for a program that was loaded.
    provided: the kernels that are not in it, by name and format. `run` gives them to it; any other host has to.
    commands: the files of what it calls on the host, by module.
    providers: folders of kernels that are not in it, or one `.vmfb` of them.
    parameters: its weights, as far as it does not hold them: in archives or in memory.
    specs: those that it was compiled with, whose kernels a plugin is built of where none is given.
    """

    vmfb: bytes = field(repr=False)
    report: Report | None
    warnings: tuple[str, ...] = ()
    provided: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    commands: Mapping[str, Path] = field(default_factory=dict, repr=False)
    providers: tuple[Path, ...] = ()
    parameters: Parameters = ()
    specs: tuple[SpecSource, ...] = field(default=(), repr=False)

    def run(
        self,
        function: str | None,
        *inputs: Any,
        device: str | None = None,
        plugins: Sequence[SpecPath] = (),
        parameters: Sequence[SpecPath] = (),
    ) -> Any:
        """Call a function (None: the only one) with numpy arrays and numbers.

        device: where to run, `local-task`, `local-sync`, `vulkan`, `cuda://0`; None for local-task, or the first device
        at hand that the program was compiled for.
        plugins: the files with what the program imports; later ones shadow earlier ones. Where none is given, one is
        built of the files that the kernels name.
        parameters: archives with weights that it does not come with, or that take the place of those that it does:
        `.irpa`, `.gguf` or `.safetensors`, as `"SCOPE=FILE"`, or the file alone for no scope and the scope `model`.
        Returns its result, or a list where there are several. Raises OpspliceError for a function that is not there,
        for inputs of the wrong number, shape or dtype, and for plugins and archives that lack what the program imports.
        """
        results = self._loaded(device, plugins, parameters).call(function, *inputs)
        return results[0] if len(results) == 1 else results

    def direct(
        self,
        function: str | None = None,
        *,
        device: str | None = None,
        plugins: Sequence[SpecPath] = (),
        parameters: Sequence[SpecPath] = (),
    ) -> DirectCall:
        """A function to be called often, with arrays of any framework: they are not copied where that can be.

        Takes what `run` takes. See `opsplice.runtime.direct_call`.
        """
        from opsplice.runtime.direct_call import DirectCall

        return DirectCall(partial(self._loaded, device, plugins, parameters), function)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from opsplice.reports.render_html import program_html

        return program_html(len(self.vmfb), self.report, self.warnings)

    def __str__(self) -> str:
        """Its size, how much was replaced, and what can be called."""
        done = "" if self.report is None else f", {counted(len(self.report.replacements), 'replacement')}"
        called = [f"  {function}" for function in self.functions.values()]
        return "\n".join([f"program of {len(self.vmfb) / 1e3:.0f} kB{done}", *called])

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """What can be called, with the inputs and results that are declared. No device is opened."""
        from opsplice.runtime.loaded_program import functions_of

        return functions_of(self.vmfb)

    def unload(self, device: str) -> None:
        """Let go of the memory that the program has on a device, packed weights among it; a later call loads it again.

        What `direct` gave before keeps its own.
        """
        for key in [key for key in self._programs if key[1] == device]:
            del self._programs[key]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the flatbuffer to a file, and the weights of the scope `model` beside it: all of it or nothing.

        The weights of `model.vmfb` are in `model.irpa`, where `load` finds them. Archives of other scopes stay where
        they are.
        """
        from opsplice.runtime.weights import save

        return save(Path(path), self.vmfb, self.parameters)[0]

    def save_kernels(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the kernels that are not in the program to a folder, for `opsplice run --provider`."""
        from opsplice.runtime.providers import write_folder

        return write_folder(Path(folder), self.provided)

    @cached_property
    def _programs(self) -> dict[Any, LoadedProgram]:
        return {}

    def _loaded(self, device: str | None, plugins: Sequence[SpecPath], parameters: Sequence[SpecPath]) -> LoadedProgram:
        from opsplice.runtime import runtime_devices
        from opsplice.runtime.host_commands import Commands
        from opsplice.runtime.loaded_program import load_program
        from opsplice.runtime.providers import Provider, split_plugins
        from opsplice.runtime.weights import joined, read_archives

        libraries, functions = split_plugins(plugins)
        files = runtime_devices.read_plugins(libraries, device or runtime_devices.DEFAULT)
        loaded = tuple(plugin.identity for plugin in files)
        weights = joined(read_archives(parameters), self.parameters)
        key = (runtime_devices.generation, device, loaded, tuple(file.identity for file in functions), weights)
        if key not in self._programs or self._programs[key].lost:
            sources: list[Any] = [*self.providers, *([self.provided] if self.provided else [])]
            provider = Provider(sources, functions) if sources else None
            commands = Commands(self.commands) if self.commands else None
            build = plugin_builder(self.specs)
            self._programs[key] = load_program(self.vmfb, device, libraries, provider, commands, weights, build)
        return self._programs[key]

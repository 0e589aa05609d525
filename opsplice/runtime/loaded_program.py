"""Runs compiled programs with IREE's runtime: numpy arrays in, numpy arrays out.

Inputs are checked against what the function declares before anything runs, because IREE turns some mismatches into
wrong numbers (an int passed for an f32 scalar arrives as 0). This module knows nothing of how a program was compiled.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file, check_name
from opsplice.runtime import device_choice, providers, runtime_devices
from opsplice.runtime import weights as parameters
from opsplice.runtime.call_values import checked_arguments, host_results
from opsplice.runtime.declared_functions import Function, declared_function
from opsplice.runtime.host_commands import Commands
from opsplice.runtime.providers import Provider
from opsplice.runtime.value_text import Value
from opsplice.runtime.weights import Parameters
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.plugins import plugin_file
from opsplice.targets.plugins.plugin_file import PluginFile

# See rewrites/approaches/dynamic_function.py, which cannot be imported without the compiler.
_IMPORTS_NOTE, _OPTIONAL_NOTE = "opsplice.imports.", "opsplice.optional-imports."
_TYPES_NOTE = "opsplice.types."
_NOTES = (_IMPORTS_NOTE, _OPTIONAL_NOTE, _TYPES_NOTE)
_ASYNC = "$async"


class LoadedProgram:
    """A program on a device, ready to be called any number of times. Made by `load_program`."""

    def __init__(
        self, module: Any, context: Any, device: runtime_devices.Device, commands: Commands | None = None
    ) -> None:
        self._module = module
        self._context = context
        self._device = device
        self._commands = commands
        self._functions = _exported(module)
        self._invokers: dict[str, Any] = {}
        # Whether its device was lost, so that no call comes through any more.
        self.lost = False

    @property
    def functions(self) -> Mapping[str, Function]:
        """The exported functions by name, without the `$async` twins that some frontends add."""
        return self._functions

    def function(self, name: str | None = None) -> Function:
        """The function of a name, or the only one. Raises OpspliceError when there is none, listing those there are."""
        names = ", ".join(self._functions) or "none"
        if name is None:
            if len(self._functions) != 1:
                raise OpspliceError(f"the program has several functions: {names}", hint="name the one to call")
            return next(iter(self._functions.values()))
        if not isinstance(name, str):
            hint = f"name it, as in run('{next(iter(self._functions), 'main')}', ...), or give None for the only one"
            raise OpspliceError(f"a function's name comes before the inputs, found {type(name).__name__}", hint=hint)
        if name in self._functions:
            return self._functions[name]
        bare = name.removeprefix("@").removesuffix(_ASYNC)
        near = [bare] if bare in self._functions else difflib.get_close_matches(name, self._functions, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise OpspliceError(f"the program has no function '{name}'", hint=f"{hint}it has: {names}")

    def call(self, name: str | None, *inputs: Any) -> list[Value]:
        """Calls a function (the only one, for None) and waits for its results.

        inputs: numpy arrays (anything with `__array__`) of the declared dtype and shape; bare numbers and lists take
        the declared dtype. Returns arrays that own their memory, and Python numbers for scalars.

        Raises OpspliceError when the inputs are not what the function declares, and when it fails.
        """
        function = self.function(name)
        arguments = checked_arguments(function, inputs)
        # No name here for what IREE returns: buffers must be freed before the device, which may end with this frame.
        return host_results(function, self._returned(function, arguments), self._device.hal)

    @property
    def device(self) -> Any:
        """The device that it is on, as IREE's runtime has it."""
        return self._device.hal

    @property
    def on_host(self) -> bool:
        """Whether its device is this machine's CPU, which works in the memory of the host."""
        return self._device.on_host

    def invocation(self, name: str) -> Callable[[Any, Any], None]:
        """What calls a function with a list of IREE's for its arguments and one for its results, unchecked."""
        invoked: Callable[[Any, Any], None] = self._invoker(name)._invoke
        return invoked

    def failure(self, function: Function, error: Exception) -> OpspliceError | KeyboardInterrupt:
        """What to raise for an error of IREE's in a call."""
        if self._commands is not None and self._commands.failure is not None:
            failure, self._commands.failure = self._commands.failure, None
            return failure
        reason = runtime_devices.status(error)
        self.lost |= runtime_devices.note_lost(self._device, reason)
        hint = "the device is lost; the next call of the program opens it again" if self.lost else None
        return OpspliceError(f"'{function.name}' failed: {reason}", hint=hint)

    def _returned(self, function: Function, arguments: Sequence[Any]) -> Any:
        try:
            return self._invoker(function.name)(*arguments)
        except (*runtime_devices.FAILURES, TypeError) as error:
            raise self.failure(function, error) from None

    def _invoker(self, name: str) -> Any:
        if name not in self._invokers:
            from iree.runtime import FunctionInvoker

            from opsplice.runtime.fenced import FencedInvoker

            invoker = FencedInvoker if self._functions[name].takes_fences else FunctionInvoker
            self._invokers[name] = invoker(self._context, self._device.hal, self._module.lookup_function(name))
        return self._invokers[name]


def load_program(
    vmfb: bytes | str | os.PathLike[str],
    device: str | None = None,
    plugins: Sequence[str | os.PathLike[str]] = (),
    provider: Provider | None = None,
    commands: Commands | None = None,
    weights: Parameters = (),
    build: Callable[[Collection[str]], Sequence[Path]] | None = None,
) -> LoadedProgram:
    """Loads a compiled program (its bytes, or the path of a .vmfb) onto a device.

    device: as `iree-run-module --device=` takes it: local-sync, local-task, vulkan, cuda://0, ...; None for local-task,
    or the first device at hand that the program was compiled for.
    plugins: the files with functions that the program imports; later ones shadow earlier ones.
    provider: what gives the program kernels that it does not hold. commands: what it may call on the host.
    weights: its parameters. build: what makes a plugin with what the program imports, where none is given.

    Raises OpspliceError when there is no such file or device, the program is damaged, the device cannot run it, a
    plugin is not for this machine, or the plugins lack what the program imports.
    """
    import iree.runtime

    named, device = device, device or runtime_devices.DEFAULT
    found = runtime_devices.read_plugins(plugins, device)
    instance = iree.runtime.VmInstance()
    name = "the program" if isinstance(vmfb, bytes) else str(vmfb)
    module = read_module(vmfb, name, instance)
    local = runtime_devices.takes_plugins(device)
    imports, optional, types = _imports(module) if local else (frozenset[str](), frozenset[str](), {})
    if imports and not found and build is not None:
        found = runtime_devices.read_plugins(build(imports), device)
    runtime_devices.check_imports(name, imports or (), types, found)
    if optional and not found:
        found = _some_plugin(name)
    wanted = None if imports is None else imports | optional
    opened = runtime_devices.open_device(device, found, wanted)
    helpers = [] if provider is None else provider.modules(partial(read_module, instance=instance))
    commands = commands or Commands({})
    if weights:
        helpers.append(parameters.module_of(instance, weights))
    helpers += commands.modules(module, opened.hal, partial(read_module, instance=instance))
    try:
        # IREE's `load_vm_modules` makes a cycle, which keeps the device open until garbage is collected.
        hal = iree.runtime.create_hal_module(instance, opened.hal)
        context = iree.runtime.VmContext(instance, [hal, *helpers, module])
    except runtime_devices.FAILURES as error:
        if provider is not None and provider.failure is not None:
            raise provider.take_failure() from None
        refused = "no executable loader" in str(error)
        if imports and refused:
            raise runtime_devices.missing_imports(name, sorted(imports), found) from None
        reason = runtime_devices.status(error)
        runtime_devices.note_lost(opened, reason)
        if others := device_choice.compiled_for(reason):
            if named is None:
                there = device_choice.first_at_hand(others)
                return load_program(vmfb, there, plugins, provider, commands, weights, build)
            raise OpspliceError(
                f"{name} is for the device '{' or '.join(others)}', not for '{device}'",
                hint=f"run it with --device={others[0]}, or compile it with --target for the other",
            ) from None
        raise OpspliceError(
            f"{name} does not load on device '{device}'", details=reason, hint=_load_hint(reason, refused)
        ) from None
    return LoadedProgram(module, context, opened, commands)


def _load_hint(reason: str, refused: bool) -> str | None:
    if "signature mismatch" in reason:
        return "compile the module of a command with --iree-execution-model=async-external, and compare its parameters"
    if "handles scopes like" in reason:
        return "the scope of an archive stands before it: --parameters=SCOPE=FILE"
    if f"'{parameters.MODULE}'" in reason:
        return "the program takes parameters from an archive: name it with --parameters=SCOPE=FILE"
    if f"'{providers.MODULE}'" in reason:
        return "the program has kernels that a provider is to give it: name their folder with --provider"
    return "if it imports functions from plugins, one of them may be missing: --plugin=FILE" if refused else None


def read_module(vmfb: bytes | str | os.PathLike[str], name: str, instance: Any) -> Any:
    """A compiled module. Raises OpspliceError when it cannot be read or is none."""
    import iree.runtime

    try:
        if isinstance(vmfb, bytes):
            return iree.runtime.VmModule.copy_buffer(instance, vmfb)
        check_file(Path(vmfb), None)
        check_name(Path(vmfb))
        with open(vmfb, "rb") as file:
            head = file.read(12)
            # A flatbuffer of IREE's, or an archive that holds one: of other files IREE would read all first.
            if not head.startswith(b"PK\x03\x04") and not head.endswith(b"IREE"):
                raise _no_program(name)
        return iree.runtime.VmModule.mmap(instance, str(vmfb))
    except (*runtime_devices.FAILURES, OSError) as error:
        raise _no_program(name, runtime_devices.status(error)) from None


def _no_program(name: str, details: str = "") -> OpspliceError:
    hint = "a program is what `opsplice compile` writes, a .vmfb; compile a model first"
    return OpspliceError(f"{name} is not a compiled program, or is damaged", details=details, hint=hint)


def functions_of(vmfb: bytes) -> Mapping[str, Function]:
    """The exported functions of a program, as `LoadedProgram.functions` says them."""
    import iree.runtime

    return _exported(read_module(vmfb, "the program", iree.runtime.VmInstance()))


def _some_plugin(name: str) -> tuple[PluginFile, ...]:
    """A plugin with nothing in it: IREE loads no program that could import functions without any plugin."""
    from opsplice.common.store import Store
    from opsplice.targets.plugins import plugin_build  # what only few programs need takes long to load

    try:
        return (plugin_file.read(plugin_build.nothing(Store())),)
    except OpspliceError as error:
        raise OpspliceError(
            f"{name} runs without the functions that it imports, but IREE loads it only with some plugin",
            hint="give any one with --plugin; one with nothing in it could not be built",
            details="\n".join(filter(None, [error.message, error.hint, error.details])),
        ) from None


def _imports(vm_module: Any) -> tuple[frozenset[str] | None, frozenset[str], dict[str, str]]:
    """What a program imports on this machine, as opsplice notes it when compiling; None where nothing is noted.

    And what it imports and can do without, and what it calls these with, as far as that is noted.
    """
    notes: dict[str, str] = {}
    for name in vm_module.function_names:
        reflection = vm_module.lookup_function(name).reflection
        notes |= {key: text for key, text in reflection.items() if key.startswith(_NOTES)}
    host = archs.host_arch()
    if not notes or host is None:
        return None, frozenset(), {}

    def noted(note: str) -> frozenset[str]:
        return frozenset(filter(None, notes.get(f"{note}{archs.iree_key(host)}", "").split(",")))

    types = (each.partition(" ") for each in noted(_TYPES_NOTE))
    return noted(_IMPORTS_NOTE), noted(_OPTIONAL_NOTE), {symbol: word for word, _, symbol in types}


def _exported(vm_module: Any) -> dict[str, Function]:
    names = vm_module.function_names
    return {
        name: declared_function(name, vm_module.lookup_function(name).reflection)
        for name in names
        if not name.startswith("__") and not _is_async_twin(name, names)
    }


def _is_async_twin(name: str, names: Sequence[str]) -> bool:
    return name.endswith(_ASYNC) and name.removesuffix(_ASYNC) in names

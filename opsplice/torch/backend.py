"""The backend of torch.compile: options, aot_autograd, and a compiled program for each graph that it makes."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import gc
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

import opsplice
from opsplice.common.errors import OpspliceError, did_you_mean
from opsplice.compiling.spec_sources import PackageOptions
from opsplice.pipeline.compiler import CompileError
from opsplice.pipeline.flags import for_this_cpu
from opsplice.reports.frontend_reports import GraphReport, log
from opsplice.runtime.weights import Parameters
from opsplice.torch.calls.background import Later, raising, unboxed
from opsplice.torch.calls.call import Call, compiled_call
from opsplice.torch.calls.frozen import FrozenCall, frozen_inputs
from opsplice.torch.decompositions.table import plainly, table
from opsplice.torch.importing.aliases import returned_tensors
from opsplice.torch.importing.fx_graph import ImportedGraph, import_graph
from opsplice.torch.importing.refusals import GraphError, UnsupportedError, check, uncompilable
from opsplice.torch.progress import watching

# IREE computes f64 as f32 unless it is told not to, and then refuses the tensors that it is called with.
FLAGS = ("--iree-input-demote-f64-to-f32=false",)


@dataclass(frozen=True)
class Options:
    """What `torch.compile(..., options={...})` takes; specs to no_code are as for `opsplice.compile`.

    device: where programs run, `local-task` (as many threads as PyTorch has) or `local-sync` (the calling thread); None
    for the calling thread until calls of a graph take long, and then for the others.
    cache: keep programs on disk (docs/cache.md).
    background: run graphs with PyTorch until a child process has compiled them (`wait` waits for that).
    plugins: the files with what programs import.
    isolate: compile in a child process, so that a crash of IREE's compiler is an error.
    freeze: keep the weights with the programs of inference, where kernels may have them in another order that is made
    once. They are read again when PyTorch has counted a change of one, which it does not for `weight.data.copy_(...)`.
    fallback: let PyTorch run the graphs that cannot be compiled, with a warning for each; else that is an error.
    progress: say on stderr what a long compile does; None to say so in a terminal only.
    """

    specs: tuple[Any, ...] = ()
    flags: tuple[str, ...] = ()
    packages: PackageOptions | None = None
    no_code: bool = False
    device: str | None = None
    plugins: tuple[Any, ...] = ()
    cache: bool = True
    background: bool = False
    isolate: bool = False
    freeze: bool = False
    fallback: bool = False
    progress: bool | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any] | None, mode: str | None) -> Options:
        """Raises OpspliceError for an option that does not exist, and for a mode, which only inductor has."""
        if mode not in (None, "default"):
            raise OpspliceError(
                f"the backend opsplice has no mode '{mode}'",
                hint="remove mode=, and write options={'specs': [...], 'flags': [...]}",
            )
        names = [field.name for field in dataclasses.fields(cls)]
        for name in given or {}:
            if name not in names:
                near = did_you_mean(name, names)
                hint = f"{near} " if near else ""
                raise OpspliceError(
                    f"the backend opsplice has no option '{name}'", hint=f"{hint}the options are {', '.join(names)}"
                )
        read: dict[str, Any] = {n: _listed(value) if n in _LISTS else value for n, value in (given or {}).items()}
        return cls(**read)


_LISTS = ("specs", "flags", "plugins")


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def backend(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(model, backend="opsplice", options={"specs": [...]})` calls for each graph.

    options: the fields of `Options`. Raises OpspliceError for others, and for what cannot be compiled.
    """
    try:
        compiler = functools.partial(_compile, Options.read(options, mode))
    except OpspliceError as error:
        raise GraphError.of(error) from None
    compiled = aot_autograd(
        fw_compiler=functools.partial(compiler, "forward"),
        bw_compiler=functools.partial(compiler, "backward"),
        inference_compiler=functools.partial(compiler, "inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=table(),
        keep_inference_input_mutations=False,
    )
    # Else PyTorch makes recurrent layers ops of oneDNN, which nothing takes apart.
    try:
        with plainly():
            return compiled(module, inputs)
    except OpspliceError as error:
        raise GraphError.of(error) from None


def _compile(options: Options, part: str, module: fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    compile_id = str(torch._guards.CompileContext.current_compile_id() or "")
    ops = Counter(str(node.target) for node in module.graph.nodes if node.op == "call_function")
    told = GraphReport(log.next_number(), part, compile_id, ops)

    def running() -> Callable[..., Any]:
        try:
            return _compiled(options, told, module)
        except OpspliceError as error:
            if not (options.fallback and isinstance(error, UnsupportedError)):
                raise GraphError.of(error) from None
            warnings.warn(f"{told.name} runs with PyTorch: {error.message}", stacklevel=2)
            log.add(dataclasses.replace(told, eager=error.message))
            return unboxed(module.forward)

    if options.background:
        return Later(module.forward, running)
    try:
        return running()
    except GraphError as error:
        if part != "backward":
            raise
        # Of open sizes PyTorch compiles it before gradients are wanted, and logs a failure with all of its own calls.
        return raising(error)


def _compiled(options: Options, told: GraphReport, module: fx.GraphModule) -> Callable[..., Any]:
    """Raises OpspliceError for what cannot be compiled, with the line of the user's code."""
    started = time.perf_counter()
    check(module.graph)
    frozen = frozen_inputs(module) if options.freeze and told.part == "inference" else ()
    graph = import_graph(module, frozen, returned_tensors(told.part, module))
    if graph.is_empty:
        log.add(told)
        return _Running(graph, lambda _arguments: [])
    try:
        with watching(told.name, sum(told.ops.values()), options.progress) as watch:
            program = opsplice.compile(
                graph.bytecode,
                specs=options.specs,
                flags=for_this_cpu((*FLAGS, *options.flags)),
                packages=options.packages,
                no_code=options.no_code,
                cache=options.cache,
                isolate=options.isolate or options.background,
                on_progress=watch,
            )
    except CompileError as error:
        raise uncompilable(error, module) from None
    assert program.report is not None
    log.add(dataclasses.replace(told, report=program.report, seconds=time.perf_counter() - started))

    def load(weights: Parameters) -> Call:
        loaded = dataclasses.replace(program, parameters=weights)
        return compiled_call(loaded, options.device, options.plugins, graph.dtypes)

    return _Running(graph, FrozenCall(frozen, load) if frozen else load(()))


class _Running:
    """A compiled graph, called with a list of tensors and numbers, which it empties.

    What it calls goes when Python ends, before IREE's runtime does. PyTorch copies the `__dict__` of what it wraps, so
    nothing stands there but the mark for such calls.
    """

    __slots__ = ("__dict__", "__weakref__", "call", "calls", "draws", "outputs", "views")

    def __init__(self, graph: ImportedGraph, call: Call) -> None:
        self.outputs = graph.outputs
        self.draws = graph.draws
        self.views = graph.views
        self.call = call
        self.calls = 0
        self._boxed_call = True
        _running.add(self)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self.calls < 2:
            self.calls += 1
            if self.calls == 2:  # all graphs that the first call of the model needs are there
                log.warn_unmatched()
        given = tuple(arguments)
        arguments.clear()
        if self.draws is not None:
            given += self.draws(*given)
        results = self.call(given)
        views = self.views(*given, *results) if self.views is not None else ()
        sources = {"result": results, "input": given, "view": views}
        return [out.value if out.kind == "constant" else sources[out.kind][out.value] for out in self.outputs]


_running: weakref.WeakSet[_Running] = weakref.WeakSet()


@atexit.register
def _release() -> None:
    # PyTorch never lets go of compiled graphs, and IREE's bindings complain of what outlives them.
    for graph in list(_running):
        graph.call = _ended
    gc.collect()


def _ended(_arguments: Sequence[Any]) -> list[Any]:
    raise OpspliceError("Python is ending: compiled graphs cannot be called any more")

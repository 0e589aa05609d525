"""`jit`: a Python function that runs as a program, one for each set of shapes that it is called with."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax

# What `jax.jit` itself looks compiled functions up by; nothing public says it. The tests would show if it went.
from jax._src.config import trace_context
from jax._src.core import trace_state_clean

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.common.files import is_installed
from opsplice.compiling.spec_sources import PackageOptions, SpecPath
from opsplice.jax.call import Call
from opsplice.jax.lowering import Lowered, lower
from opsplice.pipeline.flags import for_this_cpu
from opsplice.reports.explanation import Explanation
from opsplice.reports.frontend_reports import FunctionReport, ProgramReport
from opsplice.reports.report import Report
from opsplice.spec_lang.syntax.spec_errors import SpecError

# The code is for this machine, and f64 stays f64: unless told so IREE makes f32 of it.
_FLAGS = ("--iree-input-demote-f64-to-f32=false",)

# The specs of the function that is being traced.
_around: ContextVar[tuple[Any, ...] | None] = ContextVar("_around", default=None)


class NotSplicedWarning(UserWarning):
    """JAX runs a function that specs were given for, and IREE does not."""


@dataclass(frozen=True)
class _Options:
    """What `jit` was given. of_jax: what is for `jax.jit`; of_compile: what is for `opsplice.compile`."""

    specs: tuple[Any, ...]
    flags: tuple[str, ...]
    of_compile: Mapping[str, Any]
    of_jax: Mapping[str, Any]
    device: str | None
    plugins: tuple[SpecPath, ...]
    fallback: bool


@dataclass(frozen=True)
class _Compiled:
    """A program, ready to be called; without one JAX runs the function, for the reason."""

    lowered: Lowered
    report: Report
    call: Call | None
    reason: str = ""

    def told(self) -> ProgramReport:
        return ProgramReport(self.lowered.signature, self.report, self.reason)


class Function:
    """A Python function that runs as a compiled program. Made by `jit`, and called as the function is."""

    def __init__(self, function: Callable[..., Any], options: _Options) -> None:
        functools.update_wrapper(self, function, updated=())
        self._options = options
        self._name = getattr(function, "__name__", type(function).__name__).strip("<>")
        self._plain = jax.jit(function, **options.of_jax)
        self._split = static_split(function, options.of_jax)
        self._compiled: dict[Any, _Compiled] = {}
        self._lock = threading.RLock()
        self._warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        dynamic, fixed = self._split(args, kwargs)
        leaves, tree = jax.tree.flatten(dynamic)
        if not trace_state_clean() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            self._warn_of_tracing()
            return self._plain(*args, **kwargs)
        if jax.config.jax_disable_jit:
            return self._plain(*args, **kwargs)
        compiled = self._find((tree, fixed), leaves, args, kwargs)
        if compiled is None or compiled.call is None:
            return self._plain(*args, **kwargs)
        lowered = compiled.lowered
        results = compiled.call(leaves)
        for leaf, donated in zip(leaves, lowered.donated, strict=True):
            if donated and isinstance(leaf, jax.Array):
                leaf.delete()
        return jax.tree.unflatten(lowered.tree, results)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function as StableHLO for these arguments, or for their shapes (`jax.ShapeDtypeStruct`)."""
        return self._lowered(self._trace(args, kwargs))

    def program(self, *args: Any, **kwargs: Any) -> opsplice.Program:
        """The program for these arguments, or for their shapes: to be saved, and to be run without JAX.

        It takes and returns the arrays one by one, see `Lowered`. Raises OpspliceError where IREE cannot compile it.
        """
        return self.lower(*args, **kwargs).compile()

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why the patterns match for these arguments, and why they do not; `Lowered.explain` says it of one line."""
        return self.lower(*args, **kwargs).explain()

    def report(self) -> FunctionReport:
        """What the specs did to the programs so far."""
        with self._lock:
            return FunctionReport(tuple(each.told() for each in self._compiled.values()))

    def _find(self, key: Any, leaves: Sequence[Any], args: Any, kwargs: Any) -> _Compiled | None:
        """What was compiled for such arguments, now or before; None where the function depends on a tracer."""
        try:
            key = (*key, tuple(map(_aval, leaves)), trace_context())
            if (found := self._compiled.get(key)) is not None:
                return found
        except TypeError:
            self._trace(args, kwargs)  # JAX has the better words for what it does not take
            raise
        with self._lock:
            if key not in self._compiled:
                traced = self._trace(args, kwargs)
                if any(isinstance(value, jax.core.Tracer) for value in traced.jaxpr.consts):
                    self._warn_of_tracing()
                    return None
                self._compiled[key] = self._compile(self._lowered(traced))
            return self._compiled[key]

    def _trace(self, args: Any, kwargs: Any) -> Any:
        token = _around.set(self._options.specs)
        try:
            return self._plain.trace(*args, **kwargs)
        finally:
            _around.reset(token)

    def _lowered(self, traced: Any) -> Lowered:
        options = self._options
        return lower(traced, self._name, specs=options.specs, flags=options.flags, options=options.of_compile)

    def _compile(self, lowered: Lowered) -> _Compiled:
        try:
            program = lowered.compile()
            direct = program.direct("main", device=self._options.device, plugins=self._options.plugins)
        except OpspliceError as error:
            if not self._options.fallback or isinstance(error, SpecError):
                raise
            text = f"JAX runs {lowered.signature}, and no spec applies: {error.message}"
            warnings.warn(text, NotSplicedWarning, stacklevel=_outside())
            return _Compiled(lowered, Report(), None, error.message)
        call = Call(direct, lowered.inputs, lowered.outputs)
        return _Compiled(lowered, program.report or Report(), call)

    def _warn_of_tracing(self) -> None:
        """Say once that a transformation of JAX's around the function takes it apart."""
        around = _around.get()
        if self._warned or (around is not None and all(spec in around for spec in self._options.specs)):
            return
        self._warned = True
        text = (
            f"'{self._name}' is called inside a transformation of JAX or another jit, which compiles it without its "
            "specs: put opsplice.jax.jit outermost, as in opsplice.jax.jit(jax.grad(f), specs=[...])"
        )
        warnings.warn(text, NotSplicedWarning, stacklevel=_outside())


def jit(
    function: Callable[..., Any] | None = None,
    *,
    specs: SpecPath | Iterable[SpecPath] = (),
    flags: Sequence[str] = (),
    packages: PackageOptions | None = None,
    no_code: bool = False,
    device: str | None = None,
    plugins: Sequence[SpecPath] = (),
    cache: bool = True,
    isolate: bool = False,
    fallback: bool = False,
    **of_jax: Any,
) -> Any:
    """A function as `jax.jit` makes one, compiled by IREE with specs: `opsplice.jax.jit(f, specs=[...])`.

    Without a function it is a decorator. A program is compiled for each set of shapes and types that it is called with.

    specs, flags, packages, no_code, cache, isolate: as for `opsplice.compile`; the code is for this machine's CPU
    unless flags say otherwise. device, plugins: as for `Program.run`.
    fallback: have JAX run what IREE cannot compile, with a warning, instead of raising OpspliceError.
    of_jax: `static_argnums`, `static_argnames`, `donate_argnums` and `donate_argnames`, as for `jax.jit`. A call
    deletes donated arrays; its results are in memory of their own.
    """
    unknown = [name for name in of_jax if name not in _OF_JAX]
    if unknown:
        raise TypeError(
            f"opsplice.jax.jit takes no '{unknown[0]}'; of jax.jit's arguments it takes {', '.join(_OF_JAX)}"
        )
    options = _Options(
        specs=_listed(specs),
        flags=for_this_cpu((*_FLAGS, *_listed(flags))),
        of_compile={"packages": packages, "no_code": no_code, "cache": cache, "isolate": isolate},
        of_jax=of_jax,
        device=device,
        plugins=_listed(plugins),
        fallback=fallback,
    )
    if function is None:
        return lambda decorated: Function(decorated, options)
    return Function(function, options)


_OF_JAX = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


def static_split(function: Callable[..., Any], of_jax: Mapping[str, Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """What parts arguments into those that are arrays and those that decide what is compiled, as `jax.jit` does."""
    numbers, names = (_listed(of_jax.get(each)) for each in ("static_argnums", "static_argnames"))
    if not numbers and not names:
        return lambda args, kwargs: ((args, kwargs), ())
    with contextlib.suppress(ValueError, TypeError):  # what has no signature
        parameters = inspect.signature(function).parameters.values()
        positional = [
            each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        if not names:
            names = tuple(positional[number] for number in numbers)
        elif not numbers:
            numbers = tuple(number for number, name in enumerate(positional) if name in names)

    def split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        places = {number % len(args) for number in numbers if -len(args) <= number < len(args)}
        fixed = [(place, args[place]) for place in sorted(places)]
        fixed += [(name, kwargs[name]) for name in names if name in kwargs]
        left = [arg for place, arg in enumerate(args) if place not in places]
        named = {name: value for name, value in kwargs.items() if name not in names}
        return (left, named), tuple((place, type(value), value) for place, value in fixed)

    return split


def _aval(leaf: Any) -> Any:
    return leaf.aval if isinstance(leaf, jax.Array) else jax.typeof(leaf)


def _listed(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, (str, os.PathLike, int)) else tuple(given)


def _outside() -> int:
    """How far up the stack the user's own call stands."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_installed(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    return depth

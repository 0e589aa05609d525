"""A JAX function for arguments of certain shapes, as StableHLO whose inputs and results are plain arrays.

JAX traces the function as `jax.jit` would. What it traced is traced once more with keys of random numbers as the
integers that they hold, integers of 4 bits in bytes, and large constants as inputs: in the program these become
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.jax.library_calls import PARAMETERS
from opsplice.jax.weight_inputs import with_parameters
from opsplice.pipeline.compiler import CompileError
from opsplice.pipeline.diagnostics import unlowered
from opsplice.reports.explanation import Explanation
from opsplice.reports.report import Report
from opsplice.runtime.weights import Arrays

# In bytes. Integers up to here are written into the program, where IREE computes with them.
LARGEST_LITERAL = 64
# Parts of a byte, of which IREE has no arrays outside of programs.
_IN_BYTES = {np.dtype(each): np.int8 for each in ("int2", "int4")} | {
    np.dtype(each): np.uint8 for each in ("uint2", "uint4")
}


@dataclass(frozen=True)
class Lowered:
    """A function for arguments of certain shapes, as StableHLO, and the specs that it is compiled with.

    signature: `f(4 arrays, float32[8,64])`, what it takes, in few words.
    inputs, outputs: what the program takes and returns, as JAX describes arrays. tree: of the outputs.
    donated: the inputs that a call takes away from its caller.
    options: further arguments of `opsplice.compile`.
    """

    name: str
    signature: str
    source: ModuleSource = field(repr=False)
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    tree: Any
    donated: tuple[bool, ...]
    specs: tuple[Any, ...] = ()
    flags: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def match(self) -> Report:
        """What the specs would replace; nothing is built."""
        return opsplice.match(self.source, self.specs, self.flags, **self._shown)

    def explain(self, *, pattern: str | None = None, at: str | None = None) -> Explanation:
        """Why patterns match and why they do not, as `opsplice.explain`; a place is a line of Python: `model.py:12`."""
        return opsplice.explain(self.source, self.specs, self.flags, pattern=pattern, at=at, **self._shown)

    def compile(self) -> opsplice.Program:
        """The program. Its only function takes and returns the arrays in the order of `inputs` and `outputs`.

        Raises CompileError where IREE has no code for something that JAX has, and what `opsplice.compile` raises.
        """
        try:
            return opsplice.compile(self.source, self.specs, self.flags, **self.options)
        except CompileError as error:
            lacks = _lacking(error.details)
            if not lacks or lacks.startswith("stablehlo.dynamic_"):  # symbolic shapes, which have a hint of their own
                raise
            raise CompileError(
                f"IREE cannot compile {self.signature}: it has no {lacks}",
                details=error.details,
                hint="leave that part to JAX: outside of the function, or all of it with fallback=True",
            ) from None

    @property
    def _shown(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name == "packages"}


def _lacking(details: str) -> str:
    """What IREE has no code for, by its words; "" where it says something else."""
    op = unlowered(details)
    return "calls of Python (jax.debug.print, jax.pure_callback)" if "callback" in op else op


def is_key(aval: Any) -> bool:
    """Whether an array is one of keys of random numbers, as `jax.random.key` makes them."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def is_odd(aval: Any) -> bool:
    """Whether a program takes and returns other arrays in the place of one: keys, and integers of 4 bits and 2."""
    return is_key(aval) or aval.dtype in _IN_BYTES


def plain(value: Any, aval: Any) -> Any:
    """The array that stands for one outside of a program."""
    if is_key(aval):
        return jax.random.key_data(value)
    return value.astype(_IN_BYTES[aval.dtype]) if is_odd(aval) else value


def lower(traced: Any, name: str, **options: Any) -> Lowered:
    """What `jax.jit(f).trace(...)` gives, as StableHLO."""
    closed = traced.jaxpr
    inputs, outputs = tuple(closed.in_avals), tuple(closed.out_avals)
    constants = {f"constant{number}": value for number, value in enumerate(closed.consts) if _is_weight(value)}
    weights = [jax.typeof(value) for value in constants.values()]
    small = [None if _is_weight(value) else value for value in closed.consts]

    def flat(large: Sequence[Any], *arguments: Any) -> list[Any]:
        waiting = map(_meant, large, weights)
        values = [next(waiting) if value is None else value for value in small]
        results = jax.core.eval_jaxpr(closed.jaxpr, values, *map(_meant, arguments, inputs))
        return list(map(plain, results, outputs))

    flat.__name__ = name
    again = jax.jit(flat, keep_unused=True).trace([*map(_carried, weights)], *map(_carried, inputs))
    module = again.lower(lowering_platforms=("cpu",), _private_parameters=PARAMETERS).compiler_ir("stablehlo")
    donated = tuple(info.donated for info in jax.tree.leaves(traced.args_info))
    pairs = zip(constants.items(), weights, strict=True)
    held = {each: np.asarray(plain(value, of), order="C") for (each, value), of in pairs}
    source = ModuleSource(content=with_parameters(module, list(held)), parameters=(Arrays(held),) if held else ())
    return Lowered(
        name, _signature(name, *traced.in_avals), source, inputs, outputs, traced.out_tree, donated, **options
    )


def _signature(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    given = [*(("", each) for each in args), *((f"{key}=", each) for key, each in kwargs.items())]
    return f"{name}({', '.join(key + _summary(jax.tree.leaves(each)) for key, each in given)})"


def _summary(leaves: Sequence[Any]) -> str:
    return str(leaves[0]) if len(leaves) == 1 else f"{len(leaves)} arrays"


def _is_weight(value: Any) -> bool:
    """Whether a constant is not part of the program. Vectors of floats never are: zeros may have been trained."""
    if is_key(value) or not value.size:
        return False
    return value.nbytes > LARGEST_LITERAL or (value.ndim > 0 and jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))


def _carried(aval: Any) -> Any:
    """An array as the program takes it."""
    if is_odd(aval):
        return jax.eval_shape(lambda value: plain(value, aval), jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _meant(value: Any, aval: Any) -> Any:
    """What a plain array stands for."""
    if is_key(aval):
        return jax.random.wrap_key_data(value, dtype=aval.dtype)
    return value.astype(aval.dtype) if is_odd(aval) else value

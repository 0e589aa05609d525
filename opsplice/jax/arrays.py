"""Arrays of JAX as a program takes and returns them: by DLPack, without copies where that pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import primitives

from opsplice.direct_call import Result
from opsplice.jax.lowering import is_key

# In bytes. JAX copies smaller results in less time than it takes over memory by DLPack.
_LARGEST_COPY = 1 << 16


def arguments(leaves: Iterable[Any], avals: Sequence[Any]) -> list[Any]:
    """What a call is given, as arrays of the types that the program was compiled for."""
    return [_argument(leaf, aval) for leaf, aval in zip(leaves, avals, strict=True)]


def _argument(leaf: Any, aval: Any) -> Any:
    if not isinstance(leaf, jax.Array):
        return np.asarray(leaf, aval.dtype)
    return jax.random.key_data(leaf) if is_key(aval) else leaf


def results(avals: Sequence[Any]) -> Callable[[Sequence[Result | np.ndarray]], list[jax.Array]]:
    """What makes arrays of JAX of what a program returns, all at once: each call of JAX costs as much as IREE's."""

    @jax.jit
    def finished(values: Sequence[jax.Array]) -> list[jax.Array]:
        return [_finished(value, aval) for value, aval in zip(values, avals, strict=True)]

    return lambda values: finished([_taken(value) for value in values])


def _taken(value: Result | np.ndarray) -> Any:
    if isinstance(value, np.ndarray) or math.prod(value.shape) * value.dtype.itemsize <= _LARGEST_COPY:
        return np.asarray(value)
    return jax.dlpack.from_dlpack(value)


def _finished(value: jax.Array, aval: Any) -> jax.Array:
    """A result with what IREE forgets: that integers have no sign, that they are a key, and that a type is weak."""
    if is_key(aval):
        return jax.random.wrap_key_data(jax.lax.bitcast_convert_type(value, np.uint32), dtype=aval.dtype)
    if value.dtype != aval.dtype:
        value = jax.lax.bitcast_convert_type(value, aval.dtype)
    if aval.weak_type:
        return primitives.convert_element_type_p.bind(value, new_dtype=aval.dtype, weak_type=True, sharding=None)
    return value

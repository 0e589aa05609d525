"""Calls of a program with arrays of JAX: by DLPack, without copies where that pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from iree.runtime import VmVariantList
from jax.extend.core import primitives

from opsplice.jax.lowering import is_key, is_odd, plain
from opsplice.runtime import runtime_devices
from opsplice.runtime.call_values import checked_input
from opsplice.runtime.direct_call import DirectCall, Result

# In bytes. JAX copies smaller results in less time than it takes over memory by DLPack.
_LARGEST_COPY = 1 << 16
_NOT_SHARED = (*runtime_devices.FAILURES, BufferError, TypeError)


class Call:
    """What `DirectCall` does, in the fewest steps: functions are called with hundreds of weights.

    JAX has seen to it that the arrays have the shapes and types that the program was compiled for.
    """

    def __init__(self, direct: DirectCall, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """inputs, outputs: what the program takes and returns, as JAX describes arrays."""
        self._direct = direct
        self._inputs = inputs
        self._odd = [is_odd(aval) for aval in inputs]
        self._finish = _finisher(outputs)

    def __call__(self, leaves: Sequence[Any]) -> list[jax.Array]:
        """Raises OpspliceError when the program fails, and RuntimeError for an array that was deleted."""
        direct = self._direct
        if direct.generation != runtime_devices.generation:
            direct.prepare()
        if not direct.program.on_host:
            return self._finish(direct([self._converted(*each) for each in enumerate(leaves)]))
        arguments = VmVariantList(len(leaves))
        push, view_of = arguments.push_ref, direct.device.from_dlpack_capsule
        places = set()
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, jax.Array) and not self._odd[index]:
                try:
                    if place := leaf.unsafe_buffer_pointer():  # not for what has no elements
                        push(view_of(leaf.__dlpack__()))
                        places.add(place)
                        continue
                except _NOT_SHARED:
                    pass
            direct.push(arguments, checked_input(direct.function, index, self._converted(index, leaf)))
        results = direct.invoke(arguments)
        return self._finish([direct.result(results, index, places) for index in range(results.size)])

    def _converted(self, index: int, leaf: Any) -> np.ndarray:
        """An argument as numpy has it."""
        if self._odd[index]:
            return np.asarray(plain(leaf, self._inputs[index]))
        return np.asarray(leaf, self._inputs[index].dtype)


def _finisher(avals: Sequence[Any]) -> Callable[[Iterable[Result | np.ndarray]], list[jax.Array]]:
    """What makes arrays of JAX of all that a program returns at once: each call of JAX costs as much as one of IREE."""

    @jax.jit
    def finished(values: Sequence[jax.Array]) -> list[jax.Array]:
        return [_finished(value, aval) for value, aval in zip(values, avals, strict=True)]

    return lambda values: finished([_taken(value) for value in values])


def _taken(value: Result | np.ndarray) -> Any:
    if isinstance(value, np.ndarray) or math.prod(value.shape) * value.dtype.itemsize <= _LARGEST_COPY:
        return np.asarray(value)
    return jax.dlpack.from_dlpack(value)


def _finished(value: jax.Array, aval: Any) -> jax.Array:
    """A result with what IREE forgets: that integers have no sign or 4 bits, that they are a key, a type is weak."""
    if is_key(aval):
        return jax.random.wrap_key_data(jax.lax.bitcast_convert_type(value, np.uint32), dtype=aval.dtype)
    if is_odd(aval):
        return value.astype(aval.dtype)
    if value.dtype != aval.dtype:
        value = jax.lax.bitcast_convert_type(value, aval.dtype)
    if aval.weak_type:
        return primitives.convert_element_type_p.bind(value, new_dtype=aval.dtype, weak_type=True, sharding=None)
    return value

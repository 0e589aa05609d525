"""Arrays of JAX as a program takes and returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import primitives

from opsplice.errors import OpspliceError
from opsplice.jax.lowering import is_key


def arguments(leaves: Iterable[Any], avals: Sequence[Any], name: str) -> list[Any]:
    """What a call is given, as arrays. Raises OpspliceError for arrays that are not in this machine's memory."""
    try:
        return [_argument(leaf, aval) for leaf, aval in zip(leaves, avals, strict=True)]
    except (BufferError, RuntimeError, ValueError) as error:
        raise OpspliceError(
            f"'{name}' was called with an array that it cannot read",
            details=str(error).partition("\n")[0],
            hint="move arrays of other devices, or of several, first: jax.device_put(x, jax.devices('cpu')[0])",
        ) from None


def _argument(leaf: Any, aval: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return np.asarray(jax.random.key_data(leaf) if is_key(aval) else leaf)
    return np.asarray(leaf, aval.dtype)


def results(values: Iterable[Any], avals: Sequence[Any]) -> list[jax.Array]:
    """What a program returns, as arrays of JAX."""
    return [_result(value, aval) for value, aval in zip(values, avals, strict=True)]


def _result(value: Any, aval: Any) -> jax.Array:
    if is_key(aval):
        return jax.random.wrap_key_data(value.view(np.uint32), dtype=aval.dtype)
    array = jax.numpy.asarray(value.view(aval.dtype))  # IREE's integers may have lost that they have no sign
    if aval.weak_type:
        convert = primitives.convert_element_type_p
        return convert.bind(array, new_dtype=aval.dtype, weak_type=True, sharding=None)
    return array

"""Functions of jax.numpy, jax.nn, jax.lax and jax.scipy through `opsplice.jax.jit`, compared with JAX on the CPU.

Each case is an expression over the arrays below. Many are one program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax.scipy import special

import opsplice
from opsplice.common.errors import OpspliceError
from scripts.conformance import Case, Specs, WrongError, check_close

TITLE = "JAX: functions of jax.numpy, jax.nn, jax.lax and jax.random"
ABOUT = (
    "Expressions over small arrays through `opsplice.jax.jit`, compared with `jax.jit` on the CPU. Differences up to\n"
    "1e-4 of a value plus 2e-5 are allowed in f32, 2e-2 in bf16."
)
PACKAGES = ("jax", "jaxlib")

_TOLERANCES = {"float32": (1e-4, 2e-5), "complex64": (1e-4, 2e-5), "bfloat16": (2e-2, 2e-2), "float16": (2e-2, 2e-2)}

_EXPRESSIONS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()


def arrays() -> dict[str, Any]:
    """What the expressions are about.

    x, y: floats; p: positive ones; u: within -1 and 1; i, j: integers; n: unsigned ones; b, c: bool; v, w: vectors;
    s: a square; t: three dims; h, g: bf16; z: complex numbers; k: a key.
    """
    random = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    x, y, s, t = floats(3, 4), floats(3, 4), floats(4, 4), floats(2, 3, 4)
    i, j = (random.integers(-5, 9, (3, 4), dtype=np.int32) for _ in range(2))
    named = {"x": x, "y": y, "s": s, "t": t, "i": i, "j": np.abs(j), "v": floats(4), "w": np.abs(floats(4))}
    named |= {"p": np.abs(x) + 0.5, "u": np.tanh(x), "n": np.abs(i).astype(np.uint32), "b": x > 0, "c": y > 0}
    named |= {"images": floats(2, 2, 6, 6), "kernel": floats(2, 2, 3, 3), "z": (x + 1j * y).astype(np.complex64)}
    return {**named, "h": x.astype(jnp.bfloat16), "g": y.astype(jnp.bfloat16), "k": jax.random.key(0)}


@functools.cache
def cases() -> tuple[Case, ...]:
    return tuple(Case(text, functools.partial(_run, text)) for text in _EXPRESSIONS)


def prepare(cases: Sequence[Case], specs: Specs) -> None:
    """Compile as one program the cases that IREE converts, and halves of them where it does not compile."""
    _prepare([case.name for case in cases if _is_converted(case.name)], specs)


def _prepare(names: Sequence[str], specs: Specs) -> None:
    try:
        _results.update({(name, tuple(specs)): found for name, found in _together(names, specs).items()})
    except OpspliceError:
        if len(names) > 1:
            _prepare(names[: len(names) // 2], specs)
            _prepare(names[len(names) // 2 :], specs)


def _is_converted(name: str) -> bool:
    """Whether a case gets as far as rules do, which costs little to see."""
    try:
        opsplice.jax.jit(_function(name)).lower(arrays()).match()
    except OpspliceError:
        return False
    return True


# What was prepared: the result of each case, and how many places were replaced in it.
_results: dict[tuple[str, tuple[str, ...]], tuple[Any, int]] = {}


def _run(text: str, specs: Specs) -> int:
    found, replaced = _results.get((text, tuple(specs))) or _together((text,), specs)[text]
    _compare(found, jax.jit(_function(text))(arrays()))
    return replaced


def _together(names: Sequence[str], specs: Specs) -> dict[str, tuple[Any, int]]:
    functions = {name: _function(name) for name in names}
    fast = opsplice.jax.jit(lambda given: {n: f(given) for n, f in functions.items()}, specs=specs, cache=False)
    results = fast(arrays())
    (program,) = fast.report().programs
    places = [each.location for each in program.report.replacements]
    return {name: (results[name], sum(place.startswith(_file(name)) for place in places)) for name in names}


def _function(text: str) -> Callable[[dict[str, Any]], Any]:
    """An expression as a function of the arrays, whose places in reports name the expression."""
    code = compile(text, _file(text), "eval")
    return lambda given: eval(code, {**_MODULES, **given})


_MODULES = {"jax": jax, "jnp": jnp, "nn": nn, "lax": lax, "special": special, "np": np}


def _file(text: str) -> str:
    return f"case_{_EXPRESSIONS.index(text)}.py"


def _compare(found: Any, wanted: Any) -> None:
    if jax.tree.structure(found) != jax.tree.structure(wanted):
        raise WrongError("the results are of another structure")
    for result, expected in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if jax.dtypes.issubdtype(result.dtype, jax.dtypes.prng_key):
            result, expected = jax.random.key_data(result), jax.random.key_data(expected)
        if result.dtype != expected.dtype:
            raise WrongError(f"{result.dtype} instead of {expected.dtype}")
        wide = [
            each.astype(jnp.float32) if each.dtype.name in ("bfloat16", "float16") else each
            for each in (result, expected)
        ]
        check_close(*wide, *_TOLERANCES.get(expected.dtype.name, (0.0, 0.0)))

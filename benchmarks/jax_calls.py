"""What a call through `opsplice.jax.jit` costs beside one through `jax.jit`, and what a warm start costs.

    python -m benchmarks.jax_calls

The function does next to nothing, so that the call is what takes the time.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.timing import header, paired

CALLS, WEIGHTS, WIDTH = 20, 100, 64
SPEC = Path(__file__).parent.parent / "samples" / "transformer" / "transformer.splice"


def many(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    for _ in range(CALLS):
        result = function(*given)
    result.block_until_ready()


def main() -> None:
    import jax
    import jax.numpy as jnp

    import opsplice

    x = jnp.ones((2, WIDTH))
    weights = [jnp.full(WIDTH, number / WEIGHTS) for number in range(WEIGHTS)]

    def add(x: Any, weights: Any) -> Any:
        for start in range(0, len(weights), 10):  # a dispatch of IREE's takes at most 32 buffers
            x = jax.lax.optimization_barrier(x + sum(weights[start : start + 10]))
        return x

    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "one array": (lambda x: x + 1, (x,)),
        f"{WEIGHTS} weights as arguments": (add, (x, weights)),
        f"{WEIGHTS} weights closed over": (lambda x: add(x, weights), (x,)),
    }
    print(header("a call, local-sync, processor time", "opsplice", "jax.jit"))
    for name, (function, given) in cases.items():
        ours, theirs = opsplice.jax.jit(function, device="local-sync"), jax.jit(function)
        both = [functools.partial(many, each, given) for each in (ours, theirs)]
        print(paired(*both, rounds=100, warm=5, clock=time.process_time).row(name, CALLS * 1e-6, "us"), flush=True)

    def layers(x: Any, weights: Any) -> Any:
        for up, down in weights:
            x = jax.nn.softmax(jax.nn.gelu(x @ up + 1) @ down + x)
        return x

    pairs = [(jnp.full((WIDTH, 256), 0.01 * n), jnp.full((256, WIDTH), 0.02 * n)) for n in range(12)]

    def first_call(jit: Callable[..., Any]) -> None:
        jax.clear_caches()
        jax.block_until_ready(jit(lambda x, weights: layers(x, weights))(x, pairs))

    warm = lambda: first_call(lambda f: opsplice.jax.jit(f, specs=[SPEC]))  # noqa: E731
    cold = lambda: first_call(lambda f: opsplice.jax.jit(f, specs=[SPEC], cache=False))  # noqa: E731
    with tempfile.TemporaryDirectory() as cache:
        os.environ["OPSPLICE_CACHE"] = cache
        print(header("the first call of 12 layers, tracing included", "warm", "cold"))
        print(paired(warm, cold, rounds=7).row("opsplice.jax.jit", 1e-3, "ms"), flush=True)
        print(header("the same", "warm", "jax.jit"))
        print(paired(warm, lambda: first_call(jax.jit), rounds=7).row("opsplice.jax.jit", 1e-3, "ms"))


if __name__ == "__main__":
    main()

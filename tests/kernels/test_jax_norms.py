"""Norms as flax and haiku write them, with `opsplice_kernels` against numbers in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opsplice

jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
nn = pytest.importorskip("flax.linen", reason="flax is not installed (make frontends)")
hk = pytest.importorskip("haiku", reason="haiku is not installed (make frontends)")

SHAPE = (2, 6, 5, 24)
# Rows and volumes: channels come last, and there are fewer dims or more than images have.
OTHERS = [(2, 30, 24), (2, 3, 2, 5, 24)]
# flax has the variance as E[x^2] - E[x]^2 by default.
FLAX = {
    "layer": nn.LayerNorm(),
    "layer by distances": nn.LayerNorm(use_fast_variance=False),
    "group": nn.GroupNorm(4),
    "group by distances": nn.GroupNorm(3, use_fast_variance=False),
    "group alone": nn.GroupNorm(4, use_bias=False, use_scale=False),
    "group without a bias": nn.GroupNorm(None, group_size=4, use_bias=False),
}
KERNELS = ["groupnorm_images"] * 9 + ["layernorm_rows"] * 2


def test_norms_of_flax_and_haiku():
    random = np.random.default_rng(0)
    x = random.standard_normal(SHAPE).astype(np.float32) + 1
    grouped = hk.without_apply_rng(hk.transform(lambda v: hk.GroupNorm(4)(v)))
    layers: list[tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = [
        *((lambda v, each=each: each.init(jax.random.key(0), v), each.apply) for each in FLAX.values()),
        (lambda v: grouped.init(jax.random.key(0), v), grouped.apply),
    ]
    weights = [
        jax.tree.map(lambda kind: random.uniform(0.5, 1.5, kind.shape).astype(np.float32), jax.eval_shape(init, x))
        for init, _ in layers
    ]

    def all_norms(v: Any) -> list[Any]:
        own = [jax.tree.map(lambda w: jax.numpy.asarray(w, v.dtype), each) for each in weights]
        made = [apply(each, v) for (_, apply), each in zip(layers, own, strict=True)]
        others = [(v.reshape(shape), number) for shape in OTHERS for number in (2, 3)]
        return made + [layers[number][1](own[number], other) for other, number in others]

    program = opsplice.compile(jax.export.export(jax.jit(all_norms))(x), ["opsplice_kernels:rows"])
    found = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(found) == KERNELS, str(program.report)
    with jax.enable_x64(True):
        exact = all_norms(jax.numpy.asarray(x, "float64"))
    for made, wanted in zip(program.run("main", x), exact, strict=True):
        np.testing.assert_allclose(np.asarray(made), np.asarray(wanted), rtol=1e-5, atol=1e-5)

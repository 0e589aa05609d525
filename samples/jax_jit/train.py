"""Trains a small classifier, each step a program with the transformer sample's kernels, and saves the result.

pip install 'opsplice[jax]' flax optax
python train.py
"""

from __future__ import annotations

from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import opsplice

SPEC = Path(__file__).parent.parent / "transformer" / "transformer.splice"
CLASSES = 4


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))
        return nn.softmax(nn.Dense(CLASSES)(hidden))


model = Classifier()
optimizer = optax.adam(1e-2)


def loss(weights, x, label):
    return -jnp.mean(jnp.log(model.apply(weights, x)[jnp.arange(len(x)), label] + 1e-6))


def step(weights, state, x, label):
    value, gradients = jax.value_and_grad(loss)(weights, x, label)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(weights, updates), state, value


def main(folder: Path = Path()) -> None:
    x = jax.random.normal(jax.random.key(0), (128, 32))
    label = jnp.argmax(x[:, :CLASSES], axis=1)
    weights = model.init(jax.random.key(1), x)

    by_jax, by_opsplice = jax.jit(step), opsplice.jax.jit(step, specs=[SPEC])
    theirs = ours = (weights, optimizer.init(weights), None)
    for number in range(30):
        theirs, ours = by_jax(*theirs[:2], x, label), by_opsplice(*ours[:2], x, label)
        if number % 10 == 9:
            print(f"step {number + 1}: loss {ours[2]:.3f}, by jax.jit {theirs[2]:.3f}")
    print(by_opsplice.report())

    trained = ours[0]

    @opsplice.jax.jit(specs=[SPEC])
    def predict(x):
        return model.apply(trained, x)

    predict(x)
    print(predict.report())
    predict.program(x).save(folder / "classifier.vmfb")  # and classifier.irpa, the weights
    found = opsplice.load(folder / "classifier.vmfb").run("main", x)  # this needs no JAX
    print(f"right: {jnp.mean(jnp.argmax(found, axis=1) == label):.0%}")


if __name__ == "__main__":
    main()

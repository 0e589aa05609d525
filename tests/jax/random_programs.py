"""Random programs of `jax.lax`: each is a function of arrays, which in f64 is its own oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 20, 32, 33, 48, 64)
Part = Callable[..., Any]


class Program:
    """Several cases; each takes some of the arguments and makes some results."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(self.rng.randrange(1 << 32))
        self.arguments: list[np.ndarray] = []
        self.parts: list[tuple[str, Callable[[Sequence[Any]], Any]]] = []

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def size(self, most: int = 64) -> int:
        return self.rng.choice([each for each in SIZES if each <= most])

    def given(self, array: np.ndarray) -> Part:
        self.arguments.append(array)
        at = len(self.arguments) - 1
        return lambda arguments: arguments[at]

    def constant(self, array: np.ndarray) -> Part:
        return lambda arguments: jnp.asarray(array, arguments[0].dtype if array.dtype == np.float32 else array.dtype)

    def floats(self, shape: Sequence[int], scale: float = 1.0) -> np.ndarray:
        return (self.numbers.normal(size=shape) * scale).astype(np.float32)

    def value(self, shape: Sequence[int], depth: int = 2) -> Part:
        """Floats of a shape, behind views."""
        shape, rng = tuple(shape), self.rng
        if depth <= 0 or not shape or self.chance(0.5):
            array = self.floats(shape)
            return self.constant(array) if self.chance(0.1) and depth else self.given(array)
        axis = rng.randrange(len(shape))
        kind = rng.choice(
            ["transpose", "reshape", "slice", "pad", "concat", "relu", "broadcast", "rev", "take", "dynamic"]
        )
        if kind == "transpose":
            order = rng.sample(range(len(shape)), len(shape))
            x = self.value([shape[order.index(at)] for at in range(len(shape))], depth - 1)
            return lambda a: lax.transpose(x(a), order)
        if kind == "reshape":
            x = self.value(self._other_form(shape), depth - 1)
            return lambda a: x(a).reshape(shape)
        if kind in ("slice", "dynamic"):
            low, high, step = rng.randint(0, 2), rng.randint(0, 2), rng.choice([1, 1, 2]) if kind == "slice" else 1
            length = low + high + (shape[axis] - 1) * step + 1
            x = self.value([*shape[:axis], length, *shape[axis + 1 :]], depth - 1)
            if kind == "slice":
                return lambda a: lax.slice_in_dim(x(a), low, low + (shape[axis] - 1) * step + 1, step, axis)
            at = self.given(np.array(low, np.int32)) if self.arguments else lambda a: low
            return lambda a: lax.dynamic_slice_in_dim(x(a), at(a), shape[axis], axis)
        if kind == "pad" and shape[axis] > 2:
            x = self.value([*shape[:axis], shape[axis] - 1, *shape[axis + 1 :]], depth - 1)
            ends = [
                (0, 0, 0) if at != axis else rng.choice([(1, 0, 0), (0, 1, 0), (2, -1, 0)]) for at in range(len(shape))
            ]
            return lambda a: lax.pad(x(a), jnp.zeros((), x(a).dtype), ends)
        if kind == "concat" and shape[axis] > 1:
            first = rng.randint(1, shape[axis] - 1)
            parts = [
                self.value([*shape[:axis], n, *shape[axis + 1 :]], depth - 2) for n in (first, shape[axis] - first)
            ]
            return lambda a: lax.concatenate([part(a) for part in parts], axis)
        if kind == "relu":
            x = self.value(shape, depth - 1)
            return lambda a: jax.nn.relu(x(a))
        if kind == "broadcast":
            kept = sorted(rng.sample(range(len(shape)), rng.randint(0, len(shape))))
            x = self.value([shape[at] if rng.random() < 0.8 else 1 for at in kept], depth - 1)
            return lambda a: lax.broadcast_in_dim(x(a), shape, kept)
        if kind == "rev":
            x = self.value(shape, depth - 1)
            return lambda a: lax.rev(x(a), [axis])
        if kind == "take":
            count = rng.choice([shape[axis], 2 * shape[axis], 3])
            rows = self.numbers.integers(0, count, shape[axis]).astype(np.int32)
            x = self.value([*shape[:axis], count, *shape[axis + 1 :]], depth - 1)
            return lambda a: jnp.take(x(a), rows, axis)
        return self.given(self.floats(shape))

    def _other_form(self, shape: tuple[int, ...]) -> list[int]:
        axis = self.rng.randrange(len(shape))
        if len(shape) > axis + 1 and self.chance(0.5):
            return [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]
        first = self.rng.choice([each for each in range(1, shape[axis] + 1) if shape[axis] % each == 0])
        return [*shape[:axis], first, shape[axis] // first, *shape[axis + 1 :]]

    def result(self, kind: str, made: Part) -> None:
        self.parts.append((kind, self._followed(made) if self.chance(0.4) else made))

    def _followed(self, made: Part) -> Part:
        after, bias = self.rng.choice([*FOLLOWING, None]), self.floats([64])

        def followed(a: Sequence[Any]) -> Any:
            y = made(a)
            if not isinstance(y, jax.Array) or y.dtype not in (jnp.float32, jnp.float64):
                return y
            if after is None:
                return y + jnp.asarray(bias[: y.shape[-1]], y.dtype) if y.ndim and y.shape[-1] <= bias.size else y
            return after(y)

        return followed

    def function(self, *arguments: Any) -> list[Any]:
        return [each for _, part in self.parts for each in jax.tree.leaves(part(arguments))]

    def wanted(self) -> list[np.ndarray]:
        """The results in f64."""
        with jax.enable_x64(True):
            wide = [each.astype(np.float64) if each.dtype == np.float32 else each for each in self.arguments]
            return [np.asarray(each) for each in self.function(*map(jnp.asarray, wide))]


FOLLOWING = (jax.nn.relu, jax.nn.silu, jax.nn.gelu, lambda y: jax.nn.gelu(y, approximate=False), jnp.tanh,
             jax.nn.sigmoid,
             jax.nn.relu6, jax.nn.hard_swish, jnp.transpose)  # fmt: skip


def dot_general(p: Program) -> None:
    batch = [p.rng.choice([1, 2, 3]) for _ in range(p.rng.randint(0, 2))]
    inner = [p.size(33) for _ in range(p.rng.choice([1, 1, 1, 2, 0]))]
    sides, places = [], []
    for _ in range(2):
        free = [p.size(33 if not inner or len(inner) < 2 else 16) for _ in range(p.rng.choice([1, 1, 0, 2]))]
        labels = (
            [("b", i, n) for i, n in enumerate(batch)]
            + [("k", i, n) for i, n in enumerate(inner)]
            + [("f", 0, n) for n in free]
        )
        p.rng.shuffle(labels)
        while math.prod(n for *_, n in labels) > 60000:
            labels = [each for each in labels if each[0] != "f"]
        sides.append(p.value([n for *_, n in labels]))
        places.append(
            [
                [next(at for at, (k, j, _) in enumerate(labels) if (k, j) == (kind, i)) for i in range(len(dims))]
                for kind, dims in (("k", inner), ("b", batch))
            ]
        )
    numbers = ((places[0][0], places[1][0]), (places[0][1], places[1][1]))
    scale = 1 / math.sqrt(max(math.prod(inner), 1))
    p.result("dot_general", lambda a: lax.dot_general(sides[0](a) * scale, sides[1](a), numbers))


def conv(p: Program) -> None:
    dims, rng = p.rng.choice([1, 2, 2, 2, 3]), p.rng
    kernel = [rng.randint(1, {1: 6, 2: 4, 3: 3}[dims]) for _ in range(dims)]
    strides, apart = [rng.choice([1, 1, 2, 3]) for _ in range(dims)], [rng.choice([1, 1, 1, 2]) for _ in range(dims)]
    spread = [rng.choice([1, 1, 1, 2, 3]) for _ in range(dims)] if rng.random() < 0.4 else [1] * dims
    if dims == 3:
        spread = [1] * dims
    reach = [d * (k - 1) + 1 for d, k in zip(apart, kernel, strict=True)]
    sizes = [rng.randint(r, max({1: 30, 2: 14, 3: 7}[dims], r)) for r in reach]
    group = rng.choice([1, 1, 1, 2, 4, 0]) if dims < 3 else 1
    each, out = p.size(20), p.size(33)
    if not group:
        group, each, out = p.size(33), 1, rng.choice([1, 2])
    pads = [
        (rng.randint(-1 if n > r + 2 else 0, r), rng.randint(-1 if n > r + 2 else 0, r))
        for r, n in zip(reach, sizes, strict=True)
    ]
    letters = "DHW"[-dims:]
    forms = (
        ["".join(rng.sample(first + letters, dims + 2)) for first in ("NC", "OI", "NC")]
        if rng.random() < 0.5
        else list(
            rng.choice(
                [
                    ("NC" + letters, "OI" + letters, "NC" + letters),
                    ("N" + letters + "C", letters + "IO", "N" + letters + "C"),
                ]
            )
        )
    )
    amounts = dict(zip(letters, sizes, strict=True)) | {"N": rng.choice([1, 2]), "C": group * each}
    taps = dict(zip(letters, kernel, strict=True)) | {"I": each, "O": group * out}
    # The numbers of windows follow the letters of the left side.
    order = [letter for letter in forms[0] if letter in letters]

    def turned(values: Sequence[Any]) -> list[Any]:
        return [dict(zip(letters, values, strict=True))[letter] for letter in order]

    x, w = (
        p.value([amounts[each] for each in forms[0]]),
        p.value([taps[each] for each in forms[1]], p.rng.choice([0, 0, 1])),
    )
    scale = 1 / math.sqrt(each * math.prod(kernel))
    p.result(
        "conv",
        lambda a: lax.conv_general_dilated(
            x(a), w(a) * scale, turned(strides), turned(pads), turned(spread), turned(apart), tuple(forms), group
        ),
    )


def window(p: Program) -> None:
    rng = p.rng
    shape = [p.size(12) for _ in range(rng.randint(1, 4))]
    taps = [rng.randint(1, min(3, n)) for n in shape]
    steps, apart = [rng.choice([1, 1, 2]) for _ in shape], [rng.choice([1, 1, 2]) if n > 5 else 1 for n in shape]
    pads = [(rng.randint(0, t - 1), rng.randint(0, t - 1)) for t in taps]
    start, op = rng.choice([(0.0, lax.add), (-np.inf, lax.max), (np.inf, lax.min)])
    x = p.value(shape)
    p.result(
        "window", lambda a: lax.reduce_window(x(a), jnp.asarray(start, x(a).dtype), op, taps, steps, pads, None, apart)
    )


def pooled(p: Program) -> None:
    rng = p.rng
    shape = [rng.choice([1, 2]), p.size(14), p.size(14), p.size(33)]
    taps, steps = [rng.randint(1, min(3, n)) for n in shape[1:3]], [rng.choice([1, 2, 3]) for _ in "hw"]
    way, x = rng.choice(["SAME", "VALID"]), p.value(shape)
    mean = rng.random() < 0.5

    def made(a: Sequence[Any]) -> Any:
        y = x(a)
        form = (1, *taps, 1), (1, *steps, 1), way
        if not mean:
            return lax.reduce_window(y, jnp.asarray(-np.inf, y.dtype), lax.max, *form)
        zero = jnp.zeros((), y.dtype)
        total = lax.reduce_window(y, zero, lax.add, *form)
        return total / lax.reduce_window(jnp.ones_like(y), zero, lax.add, *form)

    p.result("pool", made)


CHOICES = (
    "cumsum", "cummax", "cumprod", "cumlogsumexp", "sort", "argsort", "pairs", "top_k", "argmax", "argmin", "gather",
    "take_along", "scatter add", "scatter set", "scatter max", "update", "where", "clamp", "interior", "one_hot",
    "segment",
)  # fmt: skip


def chosen(p: Program) -> None:
    rng = p.rng
    shape = [p.size(17) for _ in range(rng.randint(1, 3))]
    axis, x = rng.randrange(len(shape)), p.value(shape)
    kind = rng.choice(CHOICES)
    backwards = rng.random() < 0.5
    if kind.startswith("cum"):
        p.result(
            kind,
            lambda a: getattr(lax, kind)(x(a) if kind != "cumprod" else x(a) * 0.5 + 1, axis=axis, reverse=backwards),
        )
    elif kind == "sort":
        p.result(kind, lambda a: jnp.sort(x(a), axis=axis, descending=backwards))
    elif kind == "argsort":
        p.result(kind, lambda a: jnp.argsort(x(a), axis=axis).astype(jnp.int32))
    elif kind == "pairs":
        y = p.value(shape)
        p.result(kind, lambda a: lax.sort((x(a), y(a)), dimension=axis, num_keys=1))
    elif kind == "top_k":
        k = rng.randint(1, shape[-1])
        p.result(kind, lambda a: lax.top_k(x(a), k))
    elif kind.startswith("arg"):
        p.result(kind, lambda a: getattr(jnp, kind)(x(a), axis=axis).astype(jnp.int32))
    elif kind == "gather":
        rows = p.given(p.numbers.integers(0, shape[0], [p.size(7), 2]).astype(np.int32))
        p.result(kind, lambda a: x(a)[rows(a)])
    elif kind == "take_along":
        other = [n if at != axis else p.size(12) for at, n in enumerate(shape)]
        places = p.given(p.numbers.integers(0, shape[axis], other).astype(np.int32))
        p.result(kind, lambda a: jnp.take_along_axis(x(a), places(a), axis))
    elif kind.startswith("scatter"):
        rows = p.numbers.permutation(shape[0])[: p.size(5)].astype(np.int32)
        if kind == "scatter add":
            rows = p.numbers.integers(0, shape[0], p.size(9)).astype(np.int32)
        places, y = p.given(rows), p.value([len(rows), *shape[1:]])
        p.result(kind, lambda a: getattr(x(a).at[places(a)], kind.split()[1])(y(a)))
    elif kind == "update":
        part = [rng.randint(1, n) for n in shape]
        y, at = p.value(part), p.given(np.array([rng.randint(0, n) for n in shape], np.int32))
        p.result(kind, lambda a: lax.dynamic_update_slice(x(a), y(a), [at(a)[i] for i in range(len(shape))]))
    elif kind == "where":
        y = p.value(shape)
        p.result(kind, lambda a: jnp.where(x(a) > y(a), x(a), y(a) * 2))
    elif kind == "clamp":
        p.result(kind, lambda a: jnp.clip(x(a), -0.5, 0.7))
    elif kind == "interior":
        ends = [(rng.randint(-1 if n > 2 else 0, 2), rng.randint(0, 2), rng.randint(0, 2)) for n in shape]
        p.result(kind, lambda a: lax.pad(x(a), jnp.asarray(0.5, x(a).dtype), ends))
    elif kind == "one_hot":
        ids, y = p.given(p.numbers.integers(0, 16, p.size(12)).astype(np.int32)), p.value([16, p.size(33)])
        p.result(kind, lambda a: jax.nn.one_hot(ids(a), 16, dtype=y(a).dtype) @ y(a))
    else:
        ids = p.given(p.numbers.integers(0, 4, shape[0]).astype(np.int32))
        p.result(kind, lambda a: jax.ops.segment_sum(x(a), ids(a), num_segments=4))


def layers(p: Program) -> None:
    rng = p.rng
    shape = [p.size(33) for _ in range(rng.randint(1, 4))]
    while math.prod(shape) > 40000:
        shape = shape[1:]
    axes = tuple(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    x, axis = p.value(shape), rng.randrange(len(shape))
    kind = rng.choice(
        ["softmax", "log_softmax", "logsumexp", "norm", "flax norm", "rms", "reduce", "var", "standardize"]
    )
    keeps = rng.random() < 0.5
    if kind in ("softmax", "log_softmax"):
        p.result(kind, lambda a: getattr(jax.nn, kind)(x(a), axis=axis))
    elif kind == "logsumexp":
        p.result(kind, lambda a: jax.nn.logsumexp(x(a), axis=axes, keepdims=keeps))
    elif kind == "reduce":
        name = rng.choice(["sum", "mean", "max", "min", "prod", "any"])
        p.result(
            f"reduce {name}",
            lambda a: getattr(jnp, name)(x(a) > 0.1 if name == "any" else x(a), axis=axes, keepdims=keeps),
        )
    elif kind == "var":
        p.result(kind, lambda a: jnp.var(x(a), axis=axes, keepdims=keeps))
    elif kind == "standardize":
        p.result(kind, lambda a: jax.nn.standardize(x(a), axis=axes, epsilon=1e-3))
    else:
        gain, bias = p.value([shape[axis]], 1), p.value([shape[axis]], 1)
        form = [n if at == axis else 1 for at, n in enumerate(shape)]

        def made(a: Sequence[Any]) -> Any:
            y = x(a)
            square = (y * y).mean(axis, keepdims=True)
            if kind == "rms":
                return y * lax.rsqrt(square + 1e-5) * gain(a).reshape(form)
            mean = y.mean(axis, keepdims=True)
            spread = jnp.var(y, axis, keepdims=True) if kind == "norm" else jnp.maximum(0, square - mean * mean)
            return (y - mean) * lax.rsqrt(spread + 1e-3) * gain(a).reshape(form) + bias(a).reshape(form)

        p.result(kind, made)


def attention(p: Program) -> None:
    rng = p.rng
    batch, groups, times, size = (
        rng.choice([1, 2]),
        rng.choice([1, 2]),
        rng.choice([1, 1, 2, 4]),
        rng.choice([4, 8, 16, 32, 40]),
    )
    queries, keys = rng.choice([1, 3, 8, 17, 33]), rng.choice([1, 5, 16, 40, 70])
    causal = rng.random() < 0.4
    keys = queries if causal else keys
    q, k, v = p.value([batch, queries, groups * times, size]), *(p.value([batch, keys, groups, size]) for _ in range(2))
    form: dict[str, Any] = {"is_causal": causal}
    bias = mask = None
    if rng.random() < 0.4:
        bias = p.value([rng.choice([1, batch]), rng.choice([1, groups * times]), queries, keys])
    if rng.random() < 0.3:
        seen = p.numbers.random((batch, 1, queries, keys)) > 0.3
        seen[..., 0] = True
        mask = p.given(seen)
    if rng.random() < 0.3:
        form["scale"] = 0.3
    if rng.random() < 0.2 and not causal:
        form["local_window_size"] = rng.choice([2, (3, 1)])
    p.result(
        "attention",
        lambda a: jax.nn.dot_product_attention(q(a), k(a), v(a), bias=bias and bias(a), mask=mask and mask(a), **form),
    )


def scanned(p: Program) -> None:
    steps, wide = p.rng.choice([2, 5]), p.size(17)
    x, w, h = p.value([steps, 2, wide]), p.value([wide, wide], 1), p.value([2, wide], 1)

    def made(a: Sequence[Any]) -> Any:
        def step(state: Any, given: Any) -> Any:
            state = jnp.tanh(given + state @ w(a) * 0.2)
            return state, state * 2

        return lax.scan(step, h(a), x(a), reverse=wide % 2 == 0)

    p.parts.append(("scan", made))


def gradient(p: Program) -> None:
    """Of what has windows, whose transposes are programs of other forms."""
    rng = p.rng
    wide = p.size(17)
    x, w = p.value([2, 8, 8, wide], 1), None
    kind = rng.choice(["conv", "max", "softmax", "norm"])
    steps = rng.choice([1, 2])
    if kind == "conv":
        w = p.value([3, 3, wide, p.size(17)], 0)

    def loss(y: Any, v: Any) -> Any:
        if kind == "conv":
            z = lax.conv_general_dilated(y, v, (steps, steps), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        elif kind == "max":
            z = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, steps, steps, 1), "VALID")
        elif kind == "softmax":
            z = jax.nn.softmax(y)
        else:
            z = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-2)
        return (z * jnp.cos(jnp.arange(z.size, dtype=z.dtype).reshape(z.shape))).sum()

    if w is None:
        p.result(f"gradient of {kind}", lambda a: jax.grad(loss)(x(a), None))
    else:
        p.result(f"gradient of {kind}", lambda a: jax.grad(loss, (0, 1))(x(a), w(a)))


def of_bytes(p: Program) -> None:
    rows, inner, columns = p.size(), p.size(), p.size()
    kinds = p.rng.choice([np.int8, np.uint8]), np.int8
    x = p.given(p.numbers.integers(np.iinfo(kinds[0]).min, np.iinfo(kinds[0]).max + 1, (rows, inner)).astype(kinds[0]))
    w = p.numbers.integers(-128, 128, (inner, columns)).astype(np.int8)
    scale = p.floats([columns], 0.01)
    turned = p.rng.random() < 0.5

    def made(a: Sequence[Any]) -> Any:
        left = x(a).astype(jnp.int32) if kinds[0] == np.uint8 else x(a)
        right = jnp.asarray(w.T.copy() if turned else w, left.dtype)
        y = lax.dot_general(left, right, (([1], [1 if turned else 0]), ([], [])), preferred_element_type=jnp.int32)
        wide = a[0].dtype if a[0].dtype in (jnp.float32, jnp.float64) else jnp.float32
        return y.astype(wide) * jnp.asarray(scale, wide)

    p.result("bytes", made)


CASES: tuple[Callable[[Program], None], ...] = (
    dot_general, dot_general, conv, conv, conv, window, pooled, chosen, chosen, chosen, layers, layers, attention,
    scanned, gradient, of_bytes,
)  # fmt: skip


def program(seed: str, count: int = 6, cases: Sequence[Callable[[Program], None]] = CASES) -> Program:
    made = Program(seed)
    made.given(made.floats([2]))
    for _ in range(count):
        made.rng.choice(cases)(made)
    return made

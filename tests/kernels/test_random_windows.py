"""Convolutions and pooling of random sizes and orders in memory: what lies between is neither read nor written."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.kernels import emulated
from tests.kernels.conftest import depthwise_groups

CHANNELS = (1, 1, 1, 1, 2, 3, 5, 8, 15, 16, 17, 32, 33, 40, 64, 66)
PLACES = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 20, 33)


class Case:
    """Windows of a volume, an image or a row: the sizes of the image, and of windows their size and how they move."""

    def __init__(self, seed: int, is_spread: bool = False, has_depth: bool = True) -> None:
        self.rng = rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        kept = rng.choice([(0, 1, 1), (0, 1, 1), (0, 0, 1), (0, 1, 0)] + [(1, 1, 1)] * has_depth)
        while True:
            self.place = self._each(kept, PLACES)
            self.size = self._each(kept, (1, 2, 3, 3, 4, 5, 7))
            self.apart = self._each(kept, (1, 2, 3)) if is_spread else (1, 1, 1)
            self.step = self._each(kept, (1, 1, 2, 3)) if self.apart == (1, 1, 1) else (1, 1, 1)
            self.dilation = self._each(kept, (1, 1, 1, 2, 3)) if self.apart == (1, 1, 1) else (1, 1, 1)
            reach = [(size - 1) * dilation for size, dilation in zip(self.size, self.dilation, strict=True)]
            self.before = tuple(rng.randint(0, each) * many for each, many in zip(reach, kept, strict=True))
            self.behind = tuple(rng.randint(0, each) * many for each, many in zip(reach, kept, strict=True))
            room = [
                (size - 1) * apart + low + high - each
                for size, apart, low, high, each in zip(
                    self.place, self.apart, self.before, self.behind, reach, strict=True
                )
            ]
            self.results = tuple(each // step + 1 for each, step in zip(room, self.step, strict=True))
            if min(room) >= 0 and math.prod(self.place) < 2000 and math.prod(self.results) < 2000:
                return

    def _each(self, kept: Sequence[int], given: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.rng.choice(given) if each else 1 for each in kept)

    def lying(self, guarded: Any, shape: Sequence[int], channels: int) -> tuple[np.ndarray, np.ndarray]:
        """A tensor whose dims lie in a random order, and its memory. channels: how many dims, which stay together."""
        dims = [(0,), tuple(range(1, 1 + channels)), *((at,) for at in range(1 + channels, len(shape)))]
        first, last = [0, 1, 2, 3, 4], [0, 2, 3, 4, 1]
        order = [d for at in self.rng.choice([first, last, last, self.rng.sample(first, 5)]) for d in dims[at]]
        wide = [shape[d] + self.rng.choice([0, 0, 2]) for d in order]
        memory = guarded(np.full(wide, np.nan, np.float32))
        here = memory[tuple(slice(shape[d]) for d in order)]
        return np.transpose(here, np.argsort(order)), memory

    def windows(self, x: np.ndarray, zero: float) -> np.ndarray:
        """[n, c, od, oh, ow, kd, kh, kw] in f64."""
        spread = [(size - 1) * apart + 1 for size, apart in zip(self.place, self.apart, strict=True)]
        zeros = np.full((*x.shape[:2], *spread), zero)
        zeros[(..., *(slice(None, None, apart) for apart in self.apart))] = x
        around = [(0, 0), (0, 0), *zip(self.before, self.behind, strict=True)]
        padded = np.pad(zeros, around, constant_values=zero)
        reach = [(size - 1) * dilation + 1 for size, dilation in zip(self.size, self.dilation, strict=True)]
        steps = (slice(None, None, step) for step in (*self.step, *self.dilation))
        return np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3, 4))[(slice(None), slice(None), *steps)]


def strides(value: np.ndarray) -> list[int]:
    """Those of dims of one element are 0 in programs."""
    return [0 if size == 1 else step // 4 for size, step in zip(value.shape, value.strides, strict=True)]


def check(out: np.ndarray, memory: np.ndarray, wanted: np.ndarray, said: str) -> None:
    largest = np.abs(wanted).max(where=np.isfinite(wanted), initial=1)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=4e-6 * largest, err_msg=said)
    out[...] = np.nan
    assert np.isnan(memory).all(), f"{said}: what lies between was written"


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    return range(1, 2 if request.node.callspec.params["kernel"] in emulated.TARGETS else 60)


def test_convolutions(kernel, guarded, seeds):
    for seed in seeds:
        case = Case(seed, is_spread=seed % 4 == 0)
        n, g, c, o = case.rng.choice([1, 2]), case.rng.choice([1, 1, 1, 2, 3]), *case.rng.sample(CHANNELS, 2)
        x, _ = case.lying(guarded, (n, g * c, *case.place), 1)
        x[...] = case.numbers.standard_normal(x.shape)
        if not (strides(x)[4] == 1 or 1 in case.place[1:] or g > 1 or c * math.prod(case.size) >= 64):
            continue
        panels = -(-o // 32)
        f = np.zeros((g, panels * 32, c, *case.size), np.float32)
        f[:, :o] = case.numbers.standard_normal((g, o, c, *case.size)) / math.sqrt(c * math.prod(case.size))
        packed = guarded(f.reshape(g, panels, 32, c, *case.size).transpose(0, 1, 4, 3, 5, 6, 2).copy())
        bias = guarded(case.numbers.standard_normal((g, o)).astype(np.float32))
        out, memory = case.lying(guarded, (n, g, o, *case.results), 2)
        windows = case.windows(x, 0.0)
        windows = windows.reshape(n, g, c, *windows.shape[2:])
        wanted = np.einsum("ngcdhwijk,gocijk->ngodhw", windows, f[:, :o].astype(float), optimize=True)
        wanted += bias[:, :, None, None, None]
        rest, _ = case.lying(guarded, out.shape, 2)
        rest[...] = case.numbers.standard_normal(rest.shape)
        wanted = np.maximum(wanted + rest, 0)
        _, oh, ow = case.results
        grid = panels, max(-(-oh // 16), -(-ow // 448) - (oh - 1) * ow), n * g * case.results[0]
        for at in np.ndindex(*grid):
            kernel("convolution/convolution.c", "opsplice_convolution_any")(
                *(x, packed, bias, rest, 1, *case.step, *case.dilation, *case.apart, *case.before, out, n, g * c),
                *(*case.place, g, panels, case.size[0], c, *case.size[1:], o, *case.results),
                *(*strides(x), *strides(rest), *strides(out), *at),
            )
        check(out, memory, wanted, f"seed {seed}")


def test_windows_of_each_channel(kernel, guarded, seeds):
    """The largest elements and sums, which are 2 and 0, and depthwise convolutions."""
    for seed in seeds:
        case = Case(seed, has_depth=seed % 3 != 0)
        n, c = case.rng.choice([1, 2]), case.rng.choice(CHANNELS)
        x, _ = case.lying(guarded, (n, c, *case.place), 1)
        x[...] = case.numbers.standard_normal(x.shape)
        image = strides(x)
        image[1] = x.strides[1] // 4  # an open number of channels may be 1
        if 1 not in (image[4], image[1], case.place[2]):
            continue
        f = guarded(case.numbers.standard_normal((c, *case.size[1:])).astype(np.float32))
        out, memory = case.lying(guarded, (n, c, *case.results), 1)
        if seed % 3 == 0:
            wanted = np.einsum("ncdhwijk,cjk->ncdhw", case.windows(x, 0.0), f.astype(float))
            weights, results = [each // 4 for each in f.strides], strides(out)
            for at in np.ndindex(depthwise_groups(c, *case.results[1:]), n):
                kernel("convolution/depthwise.c", "opsplice_depthwise")(
                    *(x, f, None, 0, *case.step[1:], *case.dilation[1:], *case.before[1:], out, n, c, *case.place, c),
                    *(1, 1, *case.size, *case.results, *image, weights[0], 0, 0, 0, *weights[1:], *results[:2]),
                    *(0, *results[2:], *at),
                )
        else:
            which, divisor = (2, 1.0) if seed % 3 == 1 else (0, float(math.prod(case.size)))
            windows = case.windows(x, -np.inf if which else 0.0)
            wanted = windows.max((-3, -2, -1)) if which else windows.sum((-3, -2, -1)) / divisor
            for at in np.ndindex(-(-c // 4), n):
                kernel("convolution/pooling.c", "opsplice_pooling")(
                    *(x, None, ctypes.c_int32(which), divisor, *case.size, *case.step, *case.dilation, *case.before),
                    *(out, n, c, *case.place, *case.results, *image, *strides(out), *at),
                )
        check(out, memory, wanted, f"seed {seed}")

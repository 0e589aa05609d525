"""What a core of this machine can do at the most: measured, and kept by the CPU's name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opsplice.common import data_tables
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store, key_of
from opsplice.isolation.isolate import call_isolated, method
from opsplice.measuring.verifying.verdict_cache import platform_key
from opsplice.targets.artifacts.arch import host_features

# Part of every key. Raise it when the same machine is to be measured, or kept, in another way.
_WRITER = "machine 2"
# What part of the peak is told: what only moves numbers computes next to nothing.
_LEAST = 0.005
_TURNS, _SUMS = 100_000, 12
_READ_BYTES = 256 << 20
_TRIES = 7
_SPEC = """
kernel multiply_add(x: f32[n]) -> f32[n] {{
  grid (1)
  cpu "{file}" flags "{flags}"
}}
pattern p(x: tensor<n x f32>) {{ negf(x) }}
replace p with multiply_add(x)
"""
# By what the CPU has, the best first: numbers in a vector, and the compiler's flags.
_VECTORS = (("avx512f", 16, "-mavx512f -mfma"), ("avx2", 8, "-mavx2 -mfma"), ("", 4, ""))


@dataclass(frozen=True)
class Machine:
    """A CPU, or another device where `cores` is 0. peak: operations on f32 a second of one core; bandwidth: bytes a
    second that it reads; 0 if not known.
    """

    cpu: str
    cores: int
    peak: float = 0.0
    bandwidth: float = 0.0

    @property
    def told(self) -> str:
        """What was measured on, in words."""
        return f"one core of {self.cpu}" if self.cores else self.cpu

    def used(self, operations: int, moved: int, seconds: float) -> str:
        """How much of what a core can do was done, in words; "" if that is not known."""
        if not (self.peak and self.bandwidth and seconds and (operations or moved)):
            return ""
        rate = moved / seconds
        where = " in cache" if rate > self.bandwidth else f", {rate / self.bandwidth:.0%}"
        part = operations / seconds / self.peak
        of_peak = f"{part:.0%} of peak; " if part >= _LEAST else ""
        return f"{of_peak}{rate / 1e9:.0f} GB/s{where}"


def this_machine(on_progress: Callable[[Any], None], seen: float = 0.0) -> Machine:
    """This machine, measured unless that was done before.

    seen: operations a second that it was seen to make. Where these are more than its peak, that was measured while
    others kept the core busy: it is measured again, and the larger figure is kept.
    """
    store, key = Store(), key_of(_WRITER, platform_key())
    entry = store.find(key, ".json")
    known = Machine(platform_key(), os.cpu_count() or 1)
    if entry is not None:
        known = data_tables.unpacked(entry.path.read_bytes())
    if known.peak > seen:
        return known
    on_progress("measuring what a core can do")
    try:
        peak, bandwidth = call_isolated(_measured, (), method=method())
    except OpspliceError:
        return known
    found = replace(known, peak=max(peak, known.peak), bandwidth=max(bandwidth, known.bandwidth))
    store.put(key, ".json", data_tables.packed(found))
    return found


def _measured(_report: Any) -> tuple[float, float]:
    from opsplice import api

    features = host_features()
    lanes, flags = next((n, flags) for name, n, flags in _VECTORS if not name or name in features)
    file = Path(__file__).with_name("roof.c")
    path = Path(os.environ["TMPDIR"]) / "roof.splice"
    path.write_text(_SPEC.format(file=file, flags=f"{flags} -DLANES={lanes} -ffp-contract=fast".strip()))
    kind = f"tensor<{2 * lanes}xf32>"
    model = f"func.func @peak(%x: {kind}) -> {kind} {{ %r = arith.negf %x : {kind}\n return %r : {kind} }}"
    program = api.compile(model, [path], ["--iree-llvmcpu-target-cpu=host"])
    call, numbers = program.direct("peak", device="local-sync"), np.full(2 * lanes, 0.5, np.float32)
    operations = _TURNS * _SUMS * lanes * 2
    best = min(_seconds(lambda: call([numbers])) for _ in range(_TRIES))
    memory = np.ones(_READ_BYTES // 8, np.float64)
    read = min(_seconds(memory.max) for _ in range(_TRIES))
    return operations / best, _READ_BYTES / read


def _seconds(function: Callable[[], object]) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start

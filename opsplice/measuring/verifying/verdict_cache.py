"""Verdicts that were found before, by all that they depend on: the match, the kernel's bytes, the CPU, the trials."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from opsplice import __version__
from opsplice.common import data_tables
from opsplice.common.store import Store, key_of
from opsplice.measuring.cutting.records import Place, Verdict
from opsplice.runtime.device_choice import name_of

# Part of every key. Raise it when the same trials come to be judged in another way.
_WRITER = "verdict 6"


def find(place: Place, options: Any, recorded: dict[int, np.ndarray], device: str | None) -> Verdict | None:
    """What was found of a match, None where something differs from what was known then."""
    key = _key(place, options, recorded, device)
    entry = None if key is None else Store().find(key, ".json")
    if entry is None:
        return None
    return Verdict(place.replacement, "ok", data_tables.unpacked(entry.path.read_bytes()))


def keep(place: Place, options: Any, recorded: dict[int, np.ndarray], device: str | None, verdict: Verdict) -> None:
    """Keep what was found; failures are looked at again each time."""
    key = _key(place, options, recorded, device)
    if key is None or verdict.outcome != "ok":
        return
    Store().put(key, ".json", data_tables.packed(verdict.trials))


def _key(place: Place, options: Any, recorded: dict[int, np.ndarray], device: str | None) -> str | None:
    """None where it is not known which bytes run."""
    digests = [artifact.digest for artifact in place.replacement.artifacts]
    if place.cut is None or not digests or not all(digests):
        return None
    values = hashlib.sha256()
    for number in place.probes:
        values.update(np.ascontiguousarray(recorded.get(number, np.zeros(0))).tobytes())
    left_out = f"{sorted(place.cut.weights)} {sorted(place.cut.finite)}"
    asked = f"{options.kinds} {options.limit} {place.cut.width} {place.cut.tried} {left_out}"
    machine = platform_key() if device is None else name_of(device)
    return key_of(_WRITER, __version__, place.cut.digest, *digests, asked, values.hexdigest(), machine)


def platform_key() -> str:
    """The kind of CPU that this is."""
    import platform

    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

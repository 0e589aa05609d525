"""The phases of IREE 3.13's pipeline, in order, as data.

A phase is a point at which the module can be looked at and changed. This module knows only names and their order.
"""

from __future__ import annotations

from opsplice.common.errors import OpspliceError, did_you_mean

# The order and the names are those of IREEVMPipelinePhase in IREE 3.13 (`iree-compile --help`, --compile-to).
# `start` is the module as it was read; `end` is the VM module just before it becomes a flatbuffer.
PHASES: tuple[str, ...] = (
    "start",
    "input",
    "abi",
    "preprocessing",
    "global-optimization",
    "dispatch-creation",
    "flow",
    "stream",
    "executable-sources",
    "executable-configurations",
    "executable-targets",
    "hal",
    "vm",
    "end",
)

START = PHASES[0]
END = PHASES[-1]
# Where rules apply that name no phase: behind input conversion and the ABI's wrappers, before dispatches are formed.
PHASE = "preprocessing"

_ORDER = {name: index for index, name in enumerate(PHASES)}


def phase_index(name: str) -> int:
    """The place of a phase in the pipeline, from 0. Raises OpspliceError when there is no such phase."""
    index = _ORDER.get(name)
    if index is None:
        hint = did_you_mean(name, PHASES) or f"the phases are {', '.join(PHASES)}"
        raise OpspliceError(f"there is no phase '{name}'", hint=hint)
    return index

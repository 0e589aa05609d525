"""The approaches, and which of them makes a call: the first that fits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opsplice.common.errors import unforeseen
from opsplice.rewrites.approaches.approach import Approach, Later
from opsplice.rewrites.approaches.command import Command
from opsplice.rewrites.approaches.dynamic_dispatch import ProvidedDispatch
from opsplice.rewrites.approaches.recorded_command import RecordedCommand
from opsplice.rewrites.approaches.scalar_function import ElementFunction
from opsplice.rewrites.approaches.static_dispatch import StaticDispatch
from opsplice.rewrites.approaches.static_function import LinkedFunction
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.rewrites.plan.clause_choice import check_alike

APPROACHES: tuple[Approach, ...] = (
    ElementFunction(),
    LinkedFunction(),
    RecordedCommand(),
    Command(),
    ProvidedDispatch(),
    StaticDispatch(),
)


def approach_of(call: KernelCall) -> Approach:
    """The approach that makes a call. Raises OpspliceError where its targets would need several: a call is one."""
    found = next((approach for approach in APPROACHES if approach.fits(call)), None)
    if found is not None:
        return found
    alone = [dataclasses.replace(call, choices=(choice,), kept=()) for choice in call.choices]
    check_alike(call.kernel, ((f"a {approach_of(each).name(each)}", each.choices[0].clause) for each in alone))
    raise unforeseen(f"no approach makes calls of kernel {call.kernel.name}")


def later(calls: Sequence[KernelCall]) -> tuple[Later, ...]:
    """What is still to be done for these calls at later phases, by all approaches."""
    found: dict[Later, None] = {}
    for approach in APPROACHES:
        own = [call for call in calls if approach_of(call) is approach]
        found.update(dict.fromkeys(approach.later(own) if own else ()))
    return tuple(found)

"""The approaches, and which of them makes a call: the first that fits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opsplice.errors import OpspliceError
from opsplice.rewrites.approaches.approach import Approach, Later
from opsplice.rewrites.approaches.command import Command
from opsplice.rewrites.approaches.dynamic_dispatch import ProvidedDispatch
from opsplice.rewrites.approaches.recorded_command import RecordedCommand
from opsplice.rewrites.approaches.scalar_function import ElementFunction
from opsplice.rewrites.approaches.static_dispatch import StaticDispatch
from opsplice.rewrites.approaches.static_function import LinkedFunction
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.spec_lang.syntax import tree

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
    ways: dict[str, tree.ArtifactClause] = {}
    for choice in call.choices:
        alone = dataclasses.replace(call, choices=(choice,), kept=())
        ways.setdefault(approach_of(alone).name(alone), choice.clause)
    raise OpspliceError(
        f"kernel '{call.kernel.name}' is a {' for some targets of the program and a '.join(ways)} for others",
        hint="write the same form after `as` in all of its clauses",
        details="\n".join(f"{way}: the clause at {clause.span}" for way, clause in ways.items()),
    )


def later(calls: Sequence[KernelCall]) -> tuple[Later, ...]:
    """What is still to be done for these calls at later phases, by all approaches."""
    found: dict[Later, None] = {}
    for approach in APPROACHES:
        own = [call for call in calls if approach_of(call) is approach]
        found.update(dict.fromkeys(approach.later(own) if own else ()))
    return tuple(found)

"""Element types that IREE converts behind a rule: all f64 of a program become f32 unless a flag says otherwise.

That happens between phases `start` and `input`. It changes the calls that rules wrote at `start`, but not what is
called, which would read and write elements of another size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.approaches.approach_table import approach_of
from opsplice.rewrites.plan.actions import KernelCall

# For each element type that is converted, the flag that asks for it: `--iree-input-demote-f64-to-f32`.
Conversions = Mapping[str, str]


def check(calls: Iterable[KernelCall], conversions: Conversions) -> None:
    """Raise OpspliceError for a call that passes or returns a type of which the compiler is to make another.

    Functions on elements are left to `scalar_link.py`, which sees what became of them.
    """
    for call in (each for each in calls if not each.kernel.is_scalar):
        own = {each.element for each in (*call.arguments, *call.outputs)}
        passed = own | approach_of(call).elements(call)
        for element, flag in conversions.items():
            if element in passed:
                raise OpspliceError(
                    f"kernel {call.kernel.name} is called with {element}, of which the compiler then makes "
                    f"{flag.rpartition('-')[2]}",
                    details=f"the rule at {call.rule.span} applies before that",
                    hint=f"{element} stays what it is with {flag}=false",
                )

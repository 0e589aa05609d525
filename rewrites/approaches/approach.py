"""What an approach is: one way for a kernel's code to get into a program. `approach_table.py` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from iree.compiler import ir

from opsplice.rewrites.ir.placing import Placer
from opsplice.rewrites.plan import c_types, workgroups
from opsplice.rewrites.plan.actions import KernelCall


@dataclass(frozen=True)
class Later:
    """A change of the module at a later phase of the compiler. what: in words, for errors."""

    phase: str
    what: str
    edit: Callable[[ir.Module], None]


class Writer(Protocol):
    """Writes calls into the module of one placer."""

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a call at the current point. The results are of the builtin types of the match's roots."""
        ...


class Approach(Protocol):
    """One way for a kernel's code to get into a program."""

    # What reports call it.
    title: str
    # Makes what writes calls into a module at the phase of their rules.
    writer: Callable[[Placer], Writer]
    # Whether its code is linked with that of other calls, so that names must differ.
    shares_names: bool = True

    def name(self, call: KernelCall) -> str:
        """What reports say of a call."""
        return self.title

    def fits(self, call: KernelCall) -> bool:
        """Whether the code that was chosen for a call can get into the program in this way."""
        ...

    def check(self, call: KernelCall) -> None:
        """Raise OpspliceError for a call that cannot be made, as far as that is known without a look into files."""
        for choice in call.choices:
            if choice.artifact is not None and choice.target.is_cpu:
                c_types.check(call, choice.clause, choice.artifact)
            if choice.target.is_cpu:
                workgroups.check(call, choice.target)

    def prepared(self, call: KernelCall) -> KernelCall:
        """The call with what only this approach needs. Raises OpspliceError for a file that does not fit the call."""
        return call

    def elements(self, call: KernelCall) -> set[str]:
        """The element types in which dims and the numbers of workgroups are passed, and scalars besides their own."""
        in_c = any(choice.is_function for choice in call.choices)
        return {"i64"} if in_c and (call.dims or call.kernel.grid) else set()

    def later(self, calls: Sequence[KernelCall]) -> Sequence[Later]:
        """What is still to be done for these calls at later phases."""
        return ()

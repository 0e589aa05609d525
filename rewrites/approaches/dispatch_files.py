"""Files that hold whole dispatches, checked against the calls that are to be made of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store, key_of
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan import interface, workgroups
from opsplice.rewrites.plan.actions import Choice, KernelCall
from opsplice.targets.artifacts.artifact import Artifact, Form
from opsplice.targets.backends.backend_table import name_of, named
from opsplice.targets.formats import entries, ptx
from opsplice.targets.formats.entries import Entry, Launch, Threads
from opsplice.targets.formats.ptx_parameters import Given, rearranged

_NUMBER = re.compile(r"-?[0-9]+")

# A device of each kind that has much of all.
_LARGER = {"vulkan": "vulkan:ada", "cuda": "cuda:sm_90", "rocm": "rocm:gfx942"}


@dataclass(frozen=True)
class External:
    """A whole dispatch that a file holds, for one target of the program.

    target: as MLIR writes it. entry: the function's name in the file. workgroup: how many threads a workgroup has.
    form: what the file holds. on_cpu: whether it is a CPU's, in IREE's own ABI for executables. shared: bytes that a
    launch gives each workgroup.
    """

    target: str
    path: Path
    entry: str
    workgroup: tuple[int, int, int]
    form: Form
    on_cpu: bool = False
    shared: int = 0

    @property
    def is_late(self) -> bool:
        """Whether an empty function stands for it until IREE has made executables."""
        return self.form in ("library", "metal")


def of(call: KernelCall, choice: Choice) -> External:
    """The dispatch of an artifact. Raises OpspliceError where its ABI is not that of the call."""
    target, code, name = choice.target, choice.code, choice.clause.path
    if target.is_cpu:
        return External(target.text, code.path, call.symbol, (1, 1, 1), code.form, on_cpu=True)
    backend = named(target.backend)
    if backend is None:
        raise OpspliceError(f"a kernel for {target.backend} cannot be a whole dispatch")
    threads, shared = choice.clause.workgroup(call.kernel), choice.clause.shared or code.shared
    x, y, z = (*threads, *(1,) * (3 - len(threads)))
    written, words = tuple(w for *_, w in interface.bindings(call)), tuple(interface.words(call))
    launch = Launch(call.kernel.name, written, words, (x, y, z) if threads else None, shared)
    try:
        entry = backend.entry(code, name)
        if choice.clause.takes:
            code, entry = _in_order(call, choice, entry)
        found = entries.check(launch, entry, backend.limits)
        _check_device(call, found, entry, shared, target)
    except OpspliceError as error:
        raise error.noting(f"needed by the kernel at {call.kernel.span}") from None
    workgroups.check(call, target)
    return External(target.text, code.path, code.entry, found, code.form, shared=shared)


def _in_order(call: KernelCall, choice: Choice, entry: Entry) -> tuple[Artifact, Entry]:
    """PTX that takes buffers, then words, and its entry, made of an artifact whose clause says what it takes."""
    names = [name for name, *_ in interface.bindings(call)]
    given = {name: Given(name, buffer=number) for number, name in enumerate(names)}
    for number, (name, element) in enumerate(words := interface.words(call)):
        held = given[name].words if name in given else ()
        given[name] = Given(name, element, words=(*held, number))
    takes = choice.clause.takes
    for name in (name for name in takes if name not in given and not _NUMBER.fullmatch(name)):
        raise OpspliceError(
            f"nothing that kernel {call.kernel.name} is passed is called {name}",
            hint=f"there are {', '.join(given)}, and whole numbers",
        )
    listed = [given.get(name) or Given(name, number=int(name)) for name in takes]
    text = rearranged(choice.code.path.read_text(), entry, len(names), len(words), listed)

    def write(output: Path) -> None:
        output.write_text(text)

    path = Store().get_or_build(key_of("parameters", text), ".ptx", write).path
    made = ptx.find_entry(ptx.reflect(text, entry.file), entry.file, entry.name)
    return replace(choice.code, path=path), replace(made, is_given=entry.is_given)


def _check_device(call: KernelCall, workgroup: Threads, entry: Entry, shared: int, target: ProgramTarget) -> None:
    """Raises OpspliceError where a dispatch needs more than IREE says that the device has."""
    count, most = math.prod(workgroup), target.limit("threads")
    if most and count > most[0]:
        raise OpspliceError(
            f"kernel {call.kernel.name} has workgroups of {count} threads, and {target.backend} {target.arch} takes "
            f"{most[0]}",
            hint=f"make them smaller, name {_device(target)}, or put this clause before another: "
            f"when threads >= {count}",
        )
    memory = target.limit("memory")
    if memory and entry.shared + shared > memory[0]:
        device = f"{target.backend} {target.arch}"
        raise OpspliceError(
            f"{entry.told} shares {entry.shared + shared} bytes in a workgroup, and {device} has {memory[0]}",
            hint=f"make it smaller, name {_device(target)}, or add a clause: when memory >= ...",
        )


def _device(target: ProgramTarget) -> str:
    """How to say what has more than is known of a target."""
    larger = _LARGER.get(name_of(target.backend), "")
    example = f", such as --target={larger}" if larger.partition(":")[2] not in ("", target.arch) else ""
    return f"a device that has more{example}"

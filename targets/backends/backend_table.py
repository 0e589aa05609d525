"""The backends, found by any of their names."""

from __future__ import annotations

from opsplice.targets.backends.backend import Backend
from opsplice.targets.backends.cpu import Cpu
from opsplice.targets.backends.cuda import Cuda
from opsplice.targets.backends.metal import Metal
from opsplice.targets.backends.rocm import Rocm
from opsplice.targets.backends.spirv import Vulkan

BACKENDS: tuple[Backend, ...] = (Cpu(), Vulkan(), Cuda(), Rocm(), Metal())


def named(name: str) -> Backend | None:
    """The backend that a target, a clause or IREE calls so."""
    for each in BACKENDS:
        if name in (each.name, each.iree, each.device, *each.clauses, *each.aliases):
            return each
    return None


def name_of(name: str) -> str:
    """The name that targets and packages have for what is called so, the same where nothing is known of it."""
    found = named(name)
    return name if found is None else found.name


def gpus() -> dict[str, Backend]:
    """The backends that are no CPU's, by name."""
    return {each.name: each for each in BACKENDS if each.name != "cpu"}

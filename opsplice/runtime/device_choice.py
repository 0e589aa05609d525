"""Which device a program runs on where none is named, and what a program for a device is compiled for."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from opsplice.common.errors import OpspliceError
from opsplice.runtime import runtime_devices

# How IREE tells, where a program does not load on a device, which ones it was compiled for.
_COMPILED_FOR = re.compile(r'#hal\.device\.target<"([^"]+)"')

# What IREE calls this machine's CPU when compiling.
_CPU = "local"


def compiled_for(reason: str) -> list[str]:
    """The devices that a program is for, of IREE's reason why it does not load on another; [] for other reasons."""
    found = _COMPILED_FOR.findall(reason) if "not found or unavailable" in reason else []
    return [runtime_devices.DEFAULT if name == _CPU else name for name in dict.fromkeys(found)]


def first_at_hand(devices: Sequence[str]) -> str:
    """The first of some devices that can be opened. Raises OpspliceError if none can, with the reason for each."""
    reasons = []
    for device in devices:
        try:
            runtime_devices.open_device(device)
        except OpspliceError as error:
            reasons.append(": ".join(filter(None, [device, error.details or error.message])))
        else:
            return device
    raise OpspliceError(
        f"this machine has no device '{' or '.join(devices)}'",
        details="\n".join(reasons),
        hint="`opsplice compile` needs no device; `opsplice doctor` says what this machine can run",
    )


@functools.cache
def device_of(targets: tuple[str, ...]) -> str | None:
    """The first device at hand that runs a program for some targets; None for this machine's CPU.

    targets: as for `devices_for`. Raises OpspliceError if none is at hand.
    """
    devices = devices_for(targets)
    return first_at_hand(devices) if devices else None


def name_of(device: str) -> str:
    """What the driver calls a device, such as `llvmpipe (LLVM 15.0.6, 256 bits)`; else the device."""
    import iree.runtime

    driver, _, path = device.partition("://")
    try:
        there = iree.runtime.get_driver(driver).query_available_devices()
    except runtime_devices.FAILURES:
        return device
    return next((str(each["name"]) for each in there if path in ("", each["path"])), device)


def devices_for(targets: Sequence[str]) -> list[str]:
    """The devices that run a program for some targets, such as `vulkan:llvmpipe`; [] where a CPU is among them.

    IREE's names of devices and backends are targets, too.
    """
    from opsplice.targets.backends.backend_table import gpus, named

    found = [named(text.strip().partition(":")[0]) for text in targets]
    known = [each.device for each in found if each is not None and each.name in gpus()]
    return list(dict.fromkeys(known)) if len(known) == len(targets) else []


def targets_for(device: str) -> tuple[str, ...]:
    """What a program for a device is compiled for, as `--target` names it; () for this machine's CPU.

    Mesa's Vulkan on the CPU has to be named: code for another device gives wrong numbers there without an error.
    """
    from opsplice.targets.backends.backend_table import named

    driver = runtime_devices.driver_of(device)
    backend = named(driver)
    if runtime_devices.takes_plugins(device) or backend is None:
        return ()
    is_mesas_cpu = driver == "vulkan" and "llvmpipe" in name_of(device)
    return (f"{backend.name}:llvmpipe" if is_mesas_cpu else backend.name,)

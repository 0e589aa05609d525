"""One program for several CPU architectures and devices: what the module is compiled for.

IREE's flags name one architecture and one device. A module can name several in `hal.device.targets`, each with an
attribute that IREE makes from flags; it is taken from IREE, one small compile for each, because its contents change
between releases. The program runs on the first of its devices that is there. This module knows nothing of specs or
kernels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.isolation.noise import captured
from opsplice.pipeline import chips
from opsplice.pipeline.compiler import Compilation, Step
from opsplice.pipeline.flags import named_backends, named_devices, named_targets, names_linking
from opsplice.rewrites.ir.executable_targets import ProgramTarget, device_texts, targets_of
from opsplice.targets.artifacts import arch as arch_names
from opsplice.targets.backends.backend_table import gpus

_ATTRIBUTE = "hal.device.targets"

# IREE's flags about the CPU: they are for one architecture, the host's unless a triple among them says otherwise.
_CPU_FLAG = "--iree-llvmcpu-target-"
_TRIPLE = f"{_CPU_FLAG}triple"
_CPU = f"{_CPU_FLAG}cpu"
_FEATURES = f"{_CPU_FLAG}cpu-features"
_ABI = f"{_CPU_FLAG}abi"
# What anyone may say whose targets are of another architecture: it is for this machine's, if that is among them.
_HOST_CPU = f"{_CPU}=host"

# RV64GC with doubles in registers, what distributions build for; IREE's default is the bare RV64I.
_BASELINE: dict[arch_names.Arch, tuple[str, ...]] = {"riscv64": ("m", "a", "f", "d", "c")}
_ABIS: dict[arch_names.Arch, str] = {"riscv64": "lp64d"}

# IREE's names of a CPU as a device, and of what makes code for it.
_ON_CPUS = frozenset({"local", "llvm-cpu"})

_GPUS = gpus()

# IREE 3.13 makes code for some GPUs only; newer ones run the code for an older one, as the driver compiles PTX.
# Of some it does not tell the names. Kernels for them are taken all the same: the target says which GPU is meant.
_CONFIG = re.compile(r'(#hal\.executable\.target<"[^"]*", "[^"]*", \{)')
_NAMED = re.compile(r'#iree_gpu\.target<arch = "[^"]')

# How LLVM says on stderr that it leaves out a feature that it does not know.
_UNKNOWN_FEATURE = "is not a recognized feature"


@dataclass(frozen=True)
class CpuArch:
    """An architecture to compile for, and LLVM's names of the features that the user adds to its baseline."""

    name: arch_names.Arch
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((self.name, *self.features))


def parse_archs(texts: Sequence[str]) -> tuple[CpuArch, ...]:
    """Architectures from their names, each maybe with features: `x86_64+avx2+fma`.

    Raises OpspliceError for a name that is unknown and for one that comes twice.
    """
    found: dict[arch_names.Arch, CpuArch] = {}
    for text in texts:
        name, *features = text.strip().split("+")
        if "" in features:
            raise OpspliceError(f"'{text}' is not an architecture", hint="write features as in x86_64+avx2+fma")
        one = CpuArch(arch_names.normalize(name), tuple(features))
        known = found.setdefault(one.name, one)
        if known != one:
            raise OpspliceError(
                f"one program cannot hold code for both {known} and {one}",
                hint="name each architecture once; for code by CPU features compile a program for each",
            )
    return tuple(found.values())


def target_step(targets: Sequence[str], flags: Sequence[str]) -> Step:
    """The edit that makes a module a program for several architectures and devices, in the order given.

    targets: as for `parse_archs`, `cpu` for the host's, and `vulkan`, `cuda`, `rocm` and `metal`, each maybe with a
    chip (`vulkan:llvmpipe`, `cuda:sm_80`). flags: the compile's; those about the CPU count for the architecture that
    they name (the host's by default) unless its entry has features of its own.
    Raises OpspliceError as `parse_archs` does, when the flags name another device than CPUs, for a feature that the
    architecture does not have, and for a chip that IREE does not know.
    """
    unknown = next((text for text in targets if not _is_known(text)), None)
    if unknown is not None:
        hint = f"there are cpu, {', '.join(arch_names.ARCHS)}, {', '.join(_GPUS)}"
        if unknown.strip() in ("webgpu", "wgsl"):
            hint = "IREE 3.13 makes no programs for WebGPU; a kernel in WGSL runs on vulkan"
        raise OpspliceError(f"there is no target '{unknown}'", hint=hint)
    cpus = parse_archs([_host(text) for text in targets if not _is_gpu(text)])
    _check_flags(cpus, [text for text in targets if _is_gpu(text)], flags)
    names = ", ".join([*map(str, cpus), *(text for text in targets if _is_gpu(text))])
    devices: dict[str, None] = {}
    for text in targets:
        if _is_gpu(text):
            devices[_gpu(text, flags)] = None
        else:
            devices[f'#hal.device.target<"local", [{", ".join(_target(one, flags).text for one in cpus)}]>'] = None

    def apply(module: ir.Module) -> None:
        if _ATTRIBUTE in module.operation.attributes:
            raise OpspliceError(
                f"the module names its devices itself, so it cannot be compiled for {names}",
                hint=f"remove the module's attribute {_ATTRIBUTE}, or name no targets",
            )
        text = ", ".join(devices)
        text = f"[#hal.device.select<[{text}]> : !hal.device]" if len(devices) > 1 else f"[{text} : !hal.device]"
        module.operation.attributes[_ATTRIBUTE] = ir.Attribute.parse(text, context=module.context)

    return Step("start", f"targets {names}", apply)


def _check_flags(cpus: Sequence[CpuArch], gpus: Sequence[str], flags: Sequence[str]) -> None:
    """Raise OpspliceError for a flag about devices that contradicts the targets, and would have to be dropped."""
    said = ", ".join([*map(str, cpus), *gpus])
    wanted = {_GPUS[text.strip().partition(":")[0]] for text in gpus}
    devices = {*(gpu.device for gpu in wanted), *(("local",) if cpus else ())}
    backends = {*(gpu.iree for gpu in wanted), *(("llvm-cpu",) if cpus else ())}
    others = {"device": set(named_devices(flags)) - devices, "backend": set(named_backends(flags)) - backends}
    contradicting = [f"{what} {name}" for what, found in others.items() for name in sorted(found)]
    about_cpus = [flag for flag in flags if flag.startswith(_CPU_FLAG) and flag != _HOST_CPU]
    if cpus and about_cpus and _arch_of(about_cpus) not in {cpu.name for cpu in cpus}:
        contradicting.append(f"architecture {_arch_of(about_cpus)} ({about_cpus[-1]})")
    for text in gpus:
        name, _, chip = text.strip().partition(":")
        flag = _GPUS[name].chip_flag
        given = [each for each in flags if flag is not None and _name(each) == flag]
        if chip and given and given[-1].partition("=")[2].lower() != chips.normalized(name, chip):
            contradicting.append(f"chip {given[-1].partition('=')[2]} ({given[-1]})")
    if contradicting:
        raise OpspliceError(
            f"the targets are {said}, and the flags name the {contradicting[0]}", hint="leave out one of the two"
        )


def flags_for(targets: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """What a compile for these targets, or those that the flags name, needs besides the user's flags.

    IREE 3.13 crashes on linking executables of which only some variants have code of its own (`static_dispatch`), and
    for several GPUs it links the code for one of them and drops the others.
    """
    if not targets and names_linking(flags):
        return ()
    several = named_targets(targets, flags)
    is_for_gpus = any(map(_is_gpu, targets)) if targets else not _ON_CPUS.issuperset(several)
    return ("--iree-hal-link-executables=false",) if len(several) > 1 and is_for_gpus else ()


def _is_gpu(text: str) -> bool:
    return text.strip().partition(":")[0] in _GPUS


def _is_known(text: str) -> bool:
    name = text.strip().partition("+")[0]
    try:
        return _is_gpu(text) or name == "cpu" or bool(arch_names.normalize(name))
    except OpspliceError:
        return False


def _host(text: str) -> str:
    name, plus, features = text.strip().partition("+")
    return f"{arch_names.host_arch()}{plus}{features}" if name == "cpu" else text


def _gpu(text: str, flags: Sequence[str]) -> str:
    """The attribute that IREE makes of a device."""
    name, colon, chip = text.strip().partition(":")
    device, chip_flag = _GPUS[name].device, _GPUS[name].chip_flag
    kept = [flag for flag in flags if not flag.startswith(("--iree-hal-target", "--iree-hal-local-target"))]
    if colon and chip_flag is None:
        raise OpspliceError(f"'{text}' names a chip, but {name} has no chips to choose from")
    built = ""
    if not colon and not any(_name(flag) == chip_flag for flag in kept):
        chip = _GPUS[name].chip_here()
    if colon or chip:
        chip = chips.normalized(name, chip)
        built = chips.built_for(chip) if name == "cuda" else chip
        kept = [*(flag for flag in kept if _name(flag) != chip_flag), f"{chip_flag}={built}"]
    elif name == "rocm" and not any(_name(flag) == chip_flag for flag in kept):
        raise OpspliceError("rocm does not say for which chip", hint="name it, such as rocm:gfx942")
    with captured() as noise, Compilation([*kept, f"--iree-hal-target-device={device}"]) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        compilation.run_to("preprocessing")
        found = device_texts(compilation.module)
    if len(found) != 1:
        raise OpspliceError(f"IREE knows no device '{text}'", details=noise.text.strip())
    text = found[0].removesuffix(" : !hal.device")
    is_told = built == chip and bool(_NAMED.search(text))
    return _CONFIG.sub(rf'\1opsplice.chip = "{chip}", ', text, count=1) if chip and not is_told else text


def _target(wanted: CpuArch, flags: Sequence[str]) -> ProgramTarget:
    """What IREE makes of an architecture."""
    with captured() as noise, Compilation(_flags_for(wanted, flags)) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        compilation.run_to("preprocessing")
        found = targets_of(compilation.module)
    for line in noise.text.splitlines():
        if _UNKNOWN_FEATURE in line:
            name = line.split("'")[1].lstrip("+-")
            raise OpspliceError(f"{wanted.name} has no CPU feature '{name}'", hint="features have LLVM's names: avx2")
    if len(found) != 1 or found[0].backend != "llvm-cpu":
        raise OpspliceError(
            f"architectures are of CPUs, and the flags name {', '.join(map(str, found)) or 'no device'}",
            hint="remove the flags that name devices or backends, or name no architectures",
        )
    return found[0]


def _flags_for(wanted: CpuArch, flags: Sequence[str]) -> list[str]:
    cpu = [flag for flag in flags if flag.startswith(_CPU_FLAG)]
    rest = [flag for flag in flags if not flag.startswith(_CPU_FLAG)]
    if _arch_of(cpu) != wanted.name:
        cpu = []
    if wanted.features:
        cpu = [flag for flag in cpu if _name(flag) not in (_CPU, _FEATURES)]
    given = set(map(_name, cpu))
    if _TRIPLE not in given:
        cpu.append(f"{_TRIPLE}={wanted.name}-unknown-unknown-eabi-elf")
    features = (*_BASELINE.get(wanted.name, ()), *wanted.features)
    if features and not given.intersection((_CPU, _FEATURES)):
        cpu.append(f"{_FEATURES}={','.join(f'+{feature}' for feature in features)}")
    if _ABI not in given and wanted.name in _ABIS:
        cpu.append(f"{_ABI}={_ABIS[wanted.name]}")
    return [*rest, *cpu]


def _arch_of(cpu_flags: Sequence[str]) -> arch_names.Arch | None:
    triples = [flag.partition("=")[2] for flag in cpu_flags if _name(flag) == _TRIPLE]
    return arch_names.of_triple(triples[-1]) if triples else arch_names.host_arch()


def _name(flag: str) -> str:
    return flag.partition("=")[0]

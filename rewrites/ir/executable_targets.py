"""The executable targets of a program, read from the module itself: what IREE will make code for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.ir.op_names import symbol_of
from opsplice.targets.artifacts import arch as archs

_START = "#hal.executable.target<"
_NAMES = re.compile(r'#hal\.executable\.target<"([^"]*)", "([^"]*)"')
_FEATURES = re.compile(r'cpu_features = "([^"]*)"')
_TRIPLE = re.compile(r'target_triple = "([^"]*)"')
_GPU = re.compile(r'#iree_gpu\.target<arch = "([^"]*)", features = "([^"]*)"')
# What is meant where IREE makes code for an older GPU (`opsplice/pipeline/devices.py`).
_CHIP = re.compile(r'opsplice\.chip = "([^"]*)"')
# Vulkan profiles say what devices have at least. IREE 3.13 makes up the size of their subgroups.
_PROFILE = "vp_"
_STORED = re.compile(r"\bstorage = ([b\d|]+)")
_LIMITS = {
    "subgroup": re.compile(r"subgroup_size_choices = \[(\d+(?:, \d+)*)\]"),
    "threads": re.compile(r"max_thread_count_per_workgroup = (\d+)"),
    "memory": re.compile(r"max_workgroup_memory_bytes = (\d+)"),
}


@dataclass(frozen=True)
class ProgramTarget:
    """One `#hal.executable.target`.

    text:     the attribute, as MLIR writes it.
    backend:  `llvm-cpu`, `vulkan-spirv`, `cuda`, ...; format: `embedded-elf-x86_64`, `vulkan-spirv-fb`, ...
    arch:     of CPUs the first part of the target triple (`x86_64`, `aarch64`, ...), of GPUs IREE's name of the chip
              (`sm_80`, `gfx942`, `llvmpipe`); "" where there is none.
    features: LLVM's notation of the CPU's features, or what IREE says of the GPU's; "" where there are none.
    """

    text: str
    backend: str
    format: str
    arch: str = ""
    features: str = ""

    def __str__(self) -> str:
        return f"{self.backend} {self.format}"

    @property
    def is_cpu(self) -> bool:
        return self.backend == "llvm-cpu"

    @property
    def feature_names(self) -> frozenset[str]:
        """The features that are on, by the names in clauses: `avx2` of LLVM's `+avx2`, `Float64` of `cap:Float64`."""
        if self.is_cpu:
            return archs.parse_features(self.features)
        words = (word.strip().removeprefix("+").removeprefix("cap:") for word in self.features.split(","))
        return frozenset(filter(None, words))

    @property
    def is_profile(self) -> bool:
        """Whether it is any of many devices, which have its limits at least: IREE's choice where no chip is named."""
        return self.arch.startswith(_PROFILE)

    @property
    def stored_widths(self) -> frozenset[int]:
        """The bits of the elements that a GPU's buffers can have; empty where it is not known."""
        found = _STORED.search(self.text)
        return frozenset(int(width.removeprefix("b")) for width in found[1].split("|")) if found else frozenset()

    def limit(self, name: str) -> tuple[int, ...]:
        """What IREE says of a GPU: `subgroup` for each size that a subgroup can have how many threads that is,
        `threads` how many a workgroup can have, `memory` how many bytes it can share; empty where it is not known.
        """
        found = None if self.is_profile and name == "subgroup" else _LIMITS[name].search(self.text)
        return tuple(map(int, found[1].split(","))) if found else ()


def sm_of(arch: str | None) -> int | None:
    """The number of a CUDA architecture, `sm_80`: code for it runs on newer ones too. None for others.

    Code for `sm_90a` runs on just these.
    """
    number = (arch or "").removeprefix("sm_")
    return int(number) if number.isdigit() else None


def object_key(target: ProgramTarget, targets: Sequence[ProgramTarget]) -> str:
    """The attribute to list a target's objects under: its format alone, unless another target shares it.

    The short key still fits when the program is compiled later for the same format with other CPU features.
    """
    if any(t.format == target.format for t in targets if t != target):
        return target.text
    return f'{_START}"{target.backend}", "{target.format}">'


def targets_of(module: ir.Module) -> tuple[ProgramTarget, ...]:
    """The executable targets of a module's devices, in order; empty before devices are assigned (phase `abi`)."""
    found: dict[str, ProgramTarget] = {}
    for text in device_texts(module):
        for target in _targets_in(text):
            found.setdefault(target, parse_target(target))
    return tuple(found.values())


def device_globals(module: ir.Module) -> tuple[str, ...]:
    """The names of the globals that hold the program's devices; none before devices are assigned (phase `abi`)."""
    types = {symbol_of(op): ir.TypeAttr(op.attributes["type"]).value for op in _globals(module)}
    return tuple(name for name, kind in types.items() if str(kind) == "!hal.device")


def _globals(module: ir.Module) -> Iterator[ir.Operation]:
    return (op.operation for op in module.body.operations if op.operation.name == "util.global")


def device_texts(module: ir.Module) -> list[str]:
    """The attributes that say what a module's devices are, as MLIR writes them."""
    attributes = module.operation.attributes
    found = [str(attributes["hal.device.targets"])] if "hal.device.targets" in attributes else []
    texts = [str(op.attributes["initial_value"]) for op in _globals(module) if "initial_value" in op.attributes]
    return [*found, *(text for text in texts if "#hal.device" in text)]


def _targets_in(text: str) -> Iterator[str]:
    """Each executable target in the text of an attribute, to its own closing bracket."""
    start = text.find(_START)
    while start >= 0:
        end = _closing(text, start + len(_START))
        yield text[start:end]
        start = text.find(_START, end)


def _closing(text: str, at: int) -> int:
    depth, quoted = 1, False
    while at < len(text) and depth:
        character = text[at]
        if character == '"':
            quoted = not quoted
        elif not quoted and character == "<":
            depth += 1
        elif not quoted and character == ">" and text[at - 1] != "-":
            depth -= 1
        at += 1
    return at


def parse_target(text: str) -> ProgramTarget:
    """A target from the text of its attribute, or from the beginning of it."""
    names = _NAMES.match(text)
    backend, form = names.groups() if names else ("", "")
    features, triple, gpu = _FEATURES.search(text), _TRIPLE.search(text), _GPU.search(text)
    if gpu is not None:
        chip = _CHIP.search(text)
        return ProgramTarget(text, backend, form, arch=chip[1] if chip else gpu[1], features=gpu[2])
    return ProgramTarget(
        text=text,
        backend=backend,
        format=form,
        arch=triple[1].partition("-")[0] if triple else "",
        features=features[1] if features else "",
    )

"""Kernels of `kernels/` as C functions, built for each level of CPU that this machine has."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import platform
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opsplice.targets.build import toolchains
from tests.kernels import emulated

SOURCES = emulated.SOURCES
BARE = ["-std=c17", "-O3", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fno-math-errno"]
_AVX512 = ["-mavx512f", "-mfma", "-ffp-contract=fast"]
LEVELS = {
    "baseline": ([], ()),
    "avx2": (["-mavx2", "-mfma", "-mf16c", "-ffp-contract=fast"], ("avx2", "fma", "f16c")),
    "avx2-vnni": (["-mavx2", "-mfma", "-mavxvnni", "-ffp-contract=fast"], ("avx2", "fma", "avx_vnni")),
    "avx512": (_AVX512, ("avx512f", "fma")),
    "avx512-bw": ([*_AVX512, "-mavx512bw"], ("avx512f", "avx512bw", "fma")),
    "avx512-vnni": ([*_AVX512, "-mavx512vnni"], ("avx512f", "avx512_vnni", "fma")),
    "avx512-bf16": ([*_AVX512, "-mavx512bf16"], ("avx512f", "avx512_bf16", "fma")),
    "amx": (
        [*_AVX512, "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"],
        ("avx512f", "avx512_vnni", "avx512_bf16", "fma", "amx_tile", "amx_int8", "amx_bf16"),
    ),
}
# These, and those that write bytes.
UNKNOWN_TO_QEMU = ("quantised/activation.c", "quantised/quantise.c", "recurrent/lstm.c")
FLOATS = ("baseline", "avx2", "avx512", "aarch64", "riscv64")

# Of a worker of IREE: kernels are called in a thread that has no more.
STACK = 128 << 10

Function = Callable[..., None]

of_halves = pytest.mark.parametrize("kernel", [*FLOATS, "avx512-bf16", "amx"], indirect=True)
of_bytes = pytest.mark.parametrize(
    "kernel", [each for each in (*LEVELS, *emulated.TARGETS) if each not in ("avx512", "avx512-bf16")], indirect=True
)


@pytest.fixture(scope="package", params=FLOATS)
def kernel(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[str, str], Function]]:
    """A function of a source file, of one level; its arrays are pointers, None is null, ints are sizes.

    Tests of sources that have code for other levels say so: `of_halves`, `of_bytes`.
    """
    if request.param in emulated.TARGETS:
        with contextlib.ExitStack() as stack:
            yield _elsewhere(request.param, stack)
        return
    built: dict[str, ctypes.CDLL] = {}
    worker = futures.ThreadPoolExecutor(1)

    def load(source: str, name: str) -> Function:
        if source not in built:
            built[source] = ctypes.CDLL(str(build(source, request.param)))
        function = getattr(built[source], name)

        return lambda *args: worker.submit(function, *map(_converted, args)).result()

    before = threading.stack_size(STACK)
    worker.submit(int).result()  # the thread begins with it
    threading.stack_size(before)
    with worker:
        yield load


@pytest.fixture
def forms(request: pytest.FixtureRequest) -> Callable[..., Sequence[Any]]:
    """What to call a kernel with: all that is given; in an emulator, which takes long, one of it by the test's name."""

    def taken(*given: Any) -> Sequence[Any]:
        if request.node.callspec.params["kernel"] not in emulated.TARGETS:
            return given
        return [given[zlib.crc32(request.node.name.encode()) % len(given)]]

    return taken


def build(source: str, level: str) -> Path:
    """A shared library of a source file, built once; skips what this machine cannot build or run."""
    compiler = toolchains.find("clang") or toolchains.find("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    flags, needed = LEVELS[level]
    if missing := set(needed) - _features():
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")
    words = [*BARE, *flags, "-Wall", "-Wextra", "-Werror", "-shared", "-nostdlib"]

    def compile_(output: Path) -> None:
        subprocess.run([*compiler.command, *words, str(SOURCES / source), "-o", str(output)], check=True)

    return emulated.built(SOURCES / source, compile_, compiler.identity, *words)


def _elsewhere(name: str, stack: contextlib.ExitStack) -> Callable[[str, str], Function]:
    arch = emulated.TARGETS[name].arch
    emulated.emulator(arch)
    running: dict[str, emulated.Emulated] = {}

    def load(source: str, function: str) -> Function:
        if arch == "riscv64" and (source in UNKNOWN_TO_QEMU or function.endswith("_i8")):
            pytest.skip("QEMU 7.2 ends at one of its instructions: decode_save_opc")
        if source not in running:
            running[source] = emulated.Emulated(SOURCES / source, emulated.TARGETS[name])
            stack.callback(running[source].close)
        return getattr(running[source], function)

    return load


def _features() -> set[str]:
    info = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not info.exists():
        return set()
    return {word for line in info.read_text().splitlines() if line.startswith("flags") for word in line.split()}


def _converted(value: object) -> object:
    if value is None or isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data if value is not None else None)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_size_t(value) if isinstance(value, int) else value


@pytest.fixture
def guarded() -> Callable[[np.ndarray], np.ndarray]:
    """Copies an array to where the memory ends: a kernel that touches what is behind it crashes."""
    mapped = []

    def copy(value: np.ndarray) -> np.ndarray:
        length = -(-value.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, length + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(start + length), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        mapped.append(memory)
        place = np.frombuffer(memory, value.dtype, value.size, length - value.nbytes).reshape(value.shape)
        place[...] = value
        return place

    return copy


def depthwise_groups(c: int, *places: int) -> int:
    """How many workgroups do the channels of a depthwise convolution, of results of this size."""
    return -(-c // max(4, 16 * (256 // max(math.prod(places), 1))))

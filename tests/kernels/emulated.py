"""Kernels of other architectures, run under QEMU's emulation of their CPUs."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opsplice.common import store
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import linker, toolchains

SOURCES = Path(__file__).parents[2] / "kernels" / "opsplice_kernels"
DRIVER = Path(__file__).with_name("emulated.c")
TARGETS = {
    "aarch64": CpuTarget("aarch64", frozenset({"neon"})),
    "aarch64-dotprod": CpuTarget("aarch64", frozenset({"neon", "dotprod"})),
    "riscv64": CpuTarget("riscv64", frozenset({"m", "a", "f", "d", "c", "v"})),
}
# As QEMU calls them; its `max` for RISC-V is younger than Debian's.
CPUS = {"aarch64": "max", "riscv64": "rv64,v=true,vlen=256"}
_NUMBER, _FLOAT, _ARRAY = 0, 1, 2
# Bytes: of a page of what is emulated at most, and of the memory that arrays are in, of which little is ever used.
_PAGE, _SHARED = 1 << 16, 1 << 28

# Where programs are kept, set by `tests.kept`.
FOLDER: Path | None = None


class Emulated:
    """The functions of one source file, in a process of an emulator, which goes with this object."""

    def __init__(self, source: Path, target: CpuTarget) -> None:
        arch = target.arch
        self._names = re.findall(r"^(?:void |[A-Z_]+\()(opsplice_\w+)[(,]", source.read_text(), re.MULTILINE)
        entries = "".join(f"void {name}(void);\n" for name in self._names)
        listed = ", ".join(f"{{{name}}}" for name in self._names)
        table = f"{entries}const struct {{ void (*f)(void); }} functions[] = {{{listed}}};\n"
        by = (table, DRIVER.read_text(), *sorted(target.features), compiler(arch).identity)
        kept = built(source, lambda output: _link(source, table, target, output), *by)
        self._folder = tempfile.TemporaryDirectory()
        program = Path(shutil.copy(kept, self._folder.name))
        program.chmod(0o700)  # nothing in the store may be run
        self._file = os.memfd_create("arrays of kernels")
        os.ftruncate(self._file, _SHARED)
        self._shared = np.frombuffer(mmap.mmap(self._file, _SHARED), np.uint8)
        self._process = subprocess.Popen(
            [emulator(arch), "-cpu", CPUS[arch], str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._file],
        )
        self._process.stdin.write(struct.pack("<QQ", self._file, _SHARED))

    def __getattr__(self, name: str) -> Callable[..., None]:
        number = self._names.index(name)
        return lambda *given: self._call(number, given)

    def close(self) -> None:
        """End the emulator."""
        self._process.kill()
        self._process.communicate()
        os.close(self._file)
        self._folder.cleanup()

    def _call(self, number: int, given: tuple[object, ...]) -> None:
        words, ours, end = [struct.pack("<QQ", number, len(given))], [], 0
        for each in given:
            if not isinstance(each, np.ndarray):
                words.append(_packed(each))
                continue
            own = _memory(each)
            end += -(-own.nbytes // _PAGE) * _PAGE
            start = end - own.nbytes
            assert end + _PAGE <= _SHARED
            self._shared[start:end] = own
            ours.append((own, self._shared[start:end]))
            words.append(struct.pack("<QQQ", _ARRAY, start, end))
            end += _PAGE
        self._process.stdin.write(b"".join(words))
        self._process.stdin.flush()
        done = self._process.stdout.read(8)
        assert done, f"the emulator ended with {self._process.wait()}"
        for own, result in ours:
            if not np.array_equal(own, result):
                own[...] = result


def built(source: Path, build: Callable[[Path], None], *by: str) -> Path:
    """A program that tests run, kept between runs: known by a source with what it includes, and what it is built by."""
    assert FOLDER is not None
    inputs = source_inputs.read_inputs(source, [], toolchains.HEADERS)
    key = store.key_of("kernels of tests", source.name, inputs.digest, *by)
    return store.Store(FOLDER).get_or_build(key, ".so", build).path


def _link(source: Path, table: str, target: CpuTarget, output: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.c").write_text(table)
        objects = [folder / f"{number}.o" for number in range(3)]
        for file, compiled in zip((source, DRIVER, folder / "table.c"), objects, strict=True):
            compiler(target.arch).compile(file, compiled, target, "object", "c")
        linker.join(objects, [], ("_start",), folder / "all.o", target)
        command = [linker.embedded(), "-flavor", "gnu", "-static", "--no-relax", folder / "all.o", "-o", output]
        subprocess.run(command, check=True)


def _memory(array: np.ndarray) -> np.ndarray:
    """The bytes from where an array begins to where the memory that it is a view of ends."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return whole.reshape(-1).view(np.uint8)[array.ctypes.data - whole.ctypes.data :]


def _packed(value: object) -> bytes:
    if isinstance(value, float | ctypes.c_float):
        return struct.pack("<Qfi", _FLOAT, getattr(value, "value", value), 0)
    return struct.pack("<Qq", _NUMBER, getattr(value, "value", value) or 0)


def compiler(arch: str) -> toolchains.Toolchain:
    """The compiler for an architecture, of which older ones than clang 15 know no vectors of RISC-V."""
    found = toolchains.find("zig") or toolchains.find("clang")
    if found is None:
        pytest.skip(f"no compiler here builds for {arch}: pip install ziglang")
    return found


def emulator(arch: str) -> str:
    """The program that runs programs of an architecture."""
    for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
        if (found := shutil.which(name)) is not None:
            return found
    pytest.skip(f"nothing here runs programs for {arch}: apt-get install qemu-user-static")

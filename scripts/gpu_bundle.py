"""Builds everything that a machine with a GPU needs to run kernels there: programs, expected numbers, IREE's runtime.

    python -m scripts.gpu_bundle [--target cuda:sm_80] [--output build/gpu-bundle.tar.gz] [--no-wheels]

No GPU or driver is needed here. Kernels that are CUDA C need nvcc, NVRTC or clang; without one of them those programs
are left out, and the ones whose kernels are LLVM IR remain. `--target cpu` builds the same for this machine's CPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

import opsplice
from benchmarks import kernels
from benchmarks.kernels import layers
from opsplice.common.errors import OpspliceError
from scripts import gpu_check

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
LIBRARY = ROOT / "kernels" / "opsplice_kernels"
OUTPUT = ROOT / "build" / "gpu-bundle.tar.gz"
MOST_BYTES = 60_000_000
PACKAGES = ("iree-base-runtime", "numpy", "ml_dtypes")

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Call:
    """Inputs for a program."""

    shapes: Shapes
    timed: bool = False

    @property
    def step(self) -> int:
        """Of the result only every so many rows are kept, to be compared: 64 or so of what is timed."""
        return max(1, self.shapes[0][0] // 64) if self.timed else 1


@dataclass(frozen=True)
class Case:
    """A program with a kernel and without.

    own: what the program computes without, where that is something else. torch: what PyTorch's is called in
    `gpu_check`, empty if it has none.
    """

    name: str
    model: str
    spec: Path
    calls: tuple[Call, ...]
    expected: Callable[..., np.ndarray]
    torch: str
    own: Callable[..., np.ndarray] | None = None
    tolerance: float = 1e-5


# ---- what is computed, in f64 ---------------------------------------------------------------------------------------


def _scale_bias(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.exp(x * gain + bias)


def _gelu(activation: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, w: activation(x @ w) + x


def _quick_gelu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-1.702 * x))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.797884583 * (x + 0.044715 * x**3)))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _layernorm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    off = x - x.mean(axis=1, keepdims=True)
    return off / np.sqrt((off**2).mean(axis=1, keepdims=True) + 1e-5) * gain + bias


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = np.exp(q @ k)
    return scores / scores.sum(axis=2, keepdims=True) @ v


def _nibbles(x: np.ndarray, n: int) -> np.ndarray:
    words, scale = layers.nibble_weights(n, x[0].size)
    return np.einsum("mbj,nbj->mn", x, (words - 8.0) * scale[..., None], optimize=True)


def cases(large: int, target: str) -> list[Case]:
    """All of them. large: the size of what is timed."""
    scaled = (Call(((33, 100), (), (100,))), Call(((large, large), (), (large,)), timed=True))
    scale_model = (SAMPLES / "dispatches/model.mlir").read_text()
    found = [
        Case("scale_bias", scale_model, SAMPLES / "dispatches/replace.splice", scaled, _scale_bias, "scale_bias"),
        Case("scale_bias_ir", scale_model, kernels.HERE / "scale_bias.splice", scaled, _scale_bias, "scale_bias"),
        Case(
            "quick_gelu",
            (SAMPLES / "scalar_functions/model.mlir").read_text(),
            SAMPLES / "scalar_functions/replace.splice",
            (Call(((7, 64), (64, 64))), Call(((16 * large, 64), (64, 64)), timed=True)),
            _gelu(_quick_gelu),
            "quick_gelu",
            own=_gelu(_gelu_tanh),
        ),
    ]
    return [*found, *_of_the_library(large, LIBRARY / ("opsplice_kernels.splice" if target == "cpu" else "gpu.splice"))]


def _of_the_library(large: int, spec: Path) -> list[Case]:
    """Layers with the kernels that come with opsplice."""
    found = []
    for m, k, n in ((70, 300, 33), (3, 300, 33), (large // 2,) * 3, (1, large, large)):
        call = Call(((m, k), (k, n)), timed=k != 300)
        name, model = f"matmul_{m}x{k}x{n}", kernels.matmul(m, k, n)
        found.append(Case(name, model, spec, (call,), np.matmul, "matmul", tolerance=1e-4))
    for m, n in ((33, 1000), (large, large)):
        call = Call(((m, n),), timed=m != 33)
        found.append(Case(f"softmax_{m}x{n}", kernels.softmax(m, n), spec, (call,), _softmax, "softmax"))
    for m, n in ((33, 1000), (large, large)):
        call = Call(((m, n), (n,), (n,)), timed=m != 33)
        model = layers.layernorm(m, n)
        found.append(Case(f"layernorm_{m}x{n}", model, spec, (call,), _layernorm, "layernorm"))
    for heads, m, n in ((3, 40, 70), (16, large // 4, large // 4), (32, 1, large)):
        call = Call(((heads, m, 64), (heads, 64, n), (heads, n, 64)), timed=heads != 3)
        name, model = f"attention_{heads}x{m}x{n}", layers.attention(heads, m, n, 64)
        found.append(Case(name, model, spec, (call,), _attention, "attention"))
    for m, n, k in ((3, 40, 96), (1, large // 2, large // 2)):
        call = Call(((m, k // layers.BLOCK, layers.BLOCK),), timed=m == 1)
        name, compute = f"nibbles_{m}x{n}x{k}", functools.partial(_nibbles, n=n)
        found.append(Case(name, layers.nibbles(m, n, k), spec, (call,), compute, "", tolerance=1e-4))
    return found


# ---- building ------------------------------------------------------------------------------------------------------


def build(folder: Path, target: str, large: int, names: Sequence[str] = ()) -> list[str]:
    """Writes programs, expected numbers and check.py. names: the cases that are wanted; all without a name.

    Returns what was left out, and why.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("programs", "expected"):
        (folder / part).mkdir(parents=True)
    shutil.copy(gpu_check.__file__, folder / "check.py")
    flags = ["--iree-llvmcpu-target-cpu=host"] if target == "cpu" else []
    described, left_out = [], []
    wanted = [case for case in cases(large, target) if not names or case.name in names]
    if unknown := set(names) - {case.name for case in wanted}:
        raise OpspliceError(f"there is no case {', '.join(sorted(unknown))}", hint="programs.json names all of them")
    for case in wanted:
        try:
            program = opsplice.compile(case.model, [case.spec], flags, targets=[target])
        except OpspliceError as error:
            left_out.append(f"{case.name}: {error}")
            continue
        if not program.report.replacements:
            raise OpspliceError(f"{case.spec} matches nothing in {case.name}")
        (folder / f"programs/{case.name}.kernel.vmfb").write_bytes(program.vmfb)
        own = opsplice.compile(case.model, [], flags, targets=[target])
        (folder / f"programs/{case.name}.own.vmfb").write_bytes(own.vmfb)
        versions = sorted({v.decode() for v in re.findall(rb"^\.version (\d+\.\d+)", program.vmfb, re.MULTILINE)})
        calls = [_expected(folder, case, call) for call in case.calls]
        described.append({"name": case.name, "torch": case.torch, "ptx": versions, "calls": calls})
    if not described:
        raise OpspliceError("no program could be built", details="\n".join(left_out))
    device = "local-task" if target == "cpu" else target.partition(":")[0]
    text = json.dumps({"device": device, "target": target, "cases": described}, indent=1)
    (folder / "programs.json").write_text(text)
    return left_out


def _expected(folder: Path, case: Case, call: Call) -> dict[str, object]:
    shape = "x".join(map(str, call.shapes[0]))
    files = {}
    arrays = [array.astype(np.float64) for array in gpu_check.inputs(call.shapes)]
    for side, compute in (("kernel", case.expected), ("own", case.own or case.expected)):
        if side == "kernel" or case.own is not None:
            name = f"{case.name}.{shape}.{side}.npy"
            first, *others = arrays
            np.save(folder / "expected" / name, compute(first[:: call.step], *others).astype(np.float32))
        files[side] = name
    return {
        "shapes": call.shapes,
        "timed": call.timed,
        "step": call.step,
        "expected": files,
        "tolerance": case.tolerance,
    }


def download(folder: Path) -> None:
    """The wheels that check.py needs, of the versions that are installed here, for Python 3.12 on x86_64 Linux."""
    version = ".".join(map(str, gpu_check.WHEELS_ARE_FOR))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={version}", "--platform=manylinux_2_28_x86_64"]
    command += ["--platform=manylinux_2_17_x86_64", f"--dest={folder}"]
    done = subprocess.run([*command, *(f"{name}=={metadata.version(name)}" for name in PACKAGES)], check=False)
    if done.returncode:
        raise OpspliceError("the wheels could not be downloaded", hint="--no-wheels builds the bundle without them")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases; all without a name")
    parser.add_argument("--target", default="cuda:sm_80", help="what to compile for (default: cuda:sm_80); or cpu")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"the archive (default: {OUTPUT})")
    parser.add_argument("--large", type=int, default=4096, help="the size of what is timed (default: 4096)")
    parser.add_argument("--no-wheels", action="store_true", help="without IREE's runtime and numpy")
    options = parser.parse_args(arguments)
    folder = options.output.parent / options.output.name.removesuffix(".tar.gz")
    try:
        left_out = build(folder, options.target, options.large, options.names)
        if not options.no_wheels:
            download(folder / "wheels")
    except OpspliceError as error:
        print(f"error: {error}\n{error.details or ''}\n{error.hint or ''}".rstrip(), file=sys.stderr)
        return 1
    with tarfile.open(options.output, "w:gz") as archive:
        archive.add(folder, folder.name)
    for line in left_out:
        print(f"left out {line}", file=sys.stderr)
    size = options.output.stat().st_size
    if size > MOST_BYTES:
        print(f"error: {options.output} has {size / 1e6:.0f} MB, more than {MOST_BYTES / 1e6:.0f}", file=sys.stderr)
        return 1
    print(f"{options.output} ({size / 1e6:.0f} MB); on the machine with the GPU:")
    print(f"  tar xf {options.output.name} && cd {folder.name} && python3 check.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())

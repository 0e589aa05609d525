"""What a spec costs when compiling.

    python -m benchmarks.compiling [all | specs | library]

specs: opsplice against IREE with an equivalent transform-dialect spec. "in process" compares the same work in one warm
Python; "command" whole processes, Python's start included.

library: exports of real models (`benchmarks.programs.exports`) with `opsplice_kernels` against the same without, in one
warm process. Processor time counts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import opsplice
from benchmarks.programs import exports
from benchmarks.timing import header, paired
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu

SAMPLES = Path(__file__).parent.parent / "samples"
TARGET = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
CPU = "--iree-llvmcpu-target-cpu=host"
ROUNDS, FEW_ROUNDS = 15, 5
LAYERS = 4


def main(part: str = "all") -> None:
    if part != "library":
        specs()
    if part != "specs":
        library()


def specs() -> None:
    sample = SAMPLES / "mul_abs_negate"
    with tempfile.TemporaryDirectory() as folder:
        spec = stock_spec(sample, Path(folder))
        big = Path(folder) / "big.mlir"
        big.write_text(many(sample / "model.mlir", 20))
        print(header("compiling with a spec", "opsplice", "IREE"))
        for name, model in (("2 matches", sample / "model.mlir"), ("40 matches in 20 functions", big)):
            print(in_process(name, model, sample / "replace.splice", spec), flush=True)
            print(command(name, model, sample / "replace.splice", spec, Path(folder)), flush=True)


def library() -> None:
    print(header("compiling with opsplice_kernels, processor time", "with it", "without"))
    for name, made in exports.MODELS.items():
        try:
            model = made(LAYERS)
        except ImportError as missing:
            print(f"{name} skipped: {missing.name} is not installed")
            continue
        with_it, without = (partial(opsplice.compile, model, specs, [CPU]) for specs in (["opsplice_kernels"], []))
        taken = paired(with_it, without, FEW_ROUNDS, warm=1, clock=time.process_time)
        print(taken.row(f"{name}, {len(with_it().report.replacements)} matches", 1e-3, "ms"), flush=True)


def in_process(name: str, model: Path, ours: Path, theirs: Path) -> str:
    flag = f"--iree-preprocessing-transform-spec-filename={theirs}"
    assert len(opsplice.compile(model, [ours], [CPU]).report.replacements) > 1
    result = paired(
        lambda: opsplice.compile(model, [ours], [CPU]), lambda: opsplice.compile(model, [], [CPU, flag]), ROUNDS
    )
    return result.row(f"in process, {name}", 1e-3, "ms")


def command(name: str, model: Path, ours: Path, theirs: Path, folder: Path) -> str:
    compiler = shutil.which("iree-compile", path=str(Path(sys.executable).parent))
    assert compiler is not None
    spliced = [sys.executable, "-m", "opsplice", "compile", model, f"--spec={ours}", CPU, "-o", folder / "ours.vmfb"]
    stock = [compiler, model, *TARGET, CPU, f"--iree-preprocessing-transform-spec-filename={theirs}"]
    stock += ["-o", folder / "theirs.vmfb"]
    result = paired(
        lambda: subprocess.run(spliced, check=True, capture_output=True),
        lambda: subprocess.run(stock, check=True, capture_output=True),
        ROUNDS,
    )
    return result.row(f"command, {name}", 1e-3, "ms")


def stock_spec(sample: Path, folder: Path) -> Path:
    """The sample's transform spec, with the object in the place of its source, as stock IREE wants it."""
    request = ArtifactRequest(sample / "functions.c", ("mul_abs_negate",))
    artifact = cpu.resolve(request, CpuTarget.of("x86_64"), Store())
    spec = folder / "stock.mlir"
    spec.write_text((sample / "replace.mlir").read_text().replace('"functions.c"', f'"{artifact.path}"'))
    return spec


def many(model: Path, copies: int) -> str:
    """The functions of a model, several times under other names."""
    text = model.read_text()
    return "".join(text.replace("@mixed_invocation", f"@mixed_invocation_{i}") for i in range(copies))


if __name__ == "__main__":
    main(*sys.argv[1:])

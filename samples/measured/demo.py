"""No spec written: what four models are made of, what the standard kernels take, whether numbers hold, what it brings.

    python samples/measured/demo.py [bert llama resnet int8] [--seconds 0.2]

The models are small ones of four kinds (export.py), with weights from a seed. What is shown is what the commands
`opsplice survey`, `opsplice verify` and `opsplice bench` show; the page at the end has all of it. Models are surveyed,
verified and compiled side by side, a process for each core. Then they are timed, one after the other, with nothing
beside.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import opsplice
from opsplice.reports.measured_page import Measured, report_page
from opsplice.reports.render import colored, columns
from opsplice.reports.render_bench import bench_text, ratio_text, time_text
from opsplice.reports.render_survey import survey_text
from opsplice.reports.render_verify import verification_text

HERE = Path(__file__).resolve().parent
KERNELS = "opsplice_kernels"
# What each is, and how many of its arguments are inputs; the others are weights. What takes longest comes first.
MODELS = {
    "resnet": ("a small ResNet, 64x64", 1),
    "bert": ("2 layers of BERT, 128 tokens", 1),
    "llama": ("2 layers of llama, a step behind 256 tokens", 3),
    "int8": ("2 layers of bytes, as ONNX quantises", 1),
}
# The trials of the matches alone; `opsplice verify` has more.
TRIED = {"trials": ("random", "nan", "program")}
LITTLE = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; all without a name")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long to time each match and each model")
    given = parser.parse_args()
    start = time.monotonic()
    os.chdir(tempfile.mkdtemp(prefix="opsplice-demo-"))  # places of the models are then short
    found = measured(given.names or [*MODELS], given.seconds)
    page = Path("report.html").resolve()
    page.write_text(report_page("What the standard kernels bring", found))
    print("\n" + table(found))
    print(f"\nin {time.monotonic() - start:.0f} s on {os.cpu_count()} cores. All results, for a browser: {page}")
    return 0 if all(each.verified is not None and each.verified.ok for each in found) else 1


def measured(names: list[str], seconds: float) -> list[Measured]:
    """Of each model: what is in it, whether numbers hold, what kernels bring."""
    files = {name: f"{name}.mlir" for name in names}
    for name, file in files.items():
        Path(file).write_text(with_weights((HERE / file).read_text(), MODELS[name][1]))
    cores = min(os.cpu_count() or 1, len(files))
    surveys, checks = {}, {}
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        begun = {
            name: (
                pool.submit(opsplice.survey, file, [KERNELS]),
                pool.submit(opsplice.verify, file, [KERNELS], **TRIED),
            )
            for name, file in files.items()
        }
        to_time = {name: pool.submit(opsplice.prepare, file, [KERNELS]) for name, file in files.items()}
        for name, (surveyed, verified) in begun.items():
            print(f"\n==== {name}: {MODELS[name][0]}", flush=True)
            surveys[name] = shown(f"survey {files[name]}", survey_text, surveyed.result)
            checks[name] = shown(f"verify {files[name]}", verification_text, verified.result)
        programs = {name: each.result() for name, each in to_time.items()}
    print("\n==== the times")
    found = []
    for name, file in files.items():
        bench = shown(f"bench {file}", bench_text, partial(opsplice.bench, programs[name], seconds=seconds))
        found.append(Measured(f"{name}: {MODELS[name][0]}", bench, checks[name], surveys[name]))
    return found


Found = TypeVar("Found")


def shown(command: str, text: Callable[..., str], call: Callable[[], Found]) -> Found:
    """What a command of opsplice finds, printed as the command prints it."""
    print(f"\n$ opsplice {command} --spec={KERNELS}", flush=True)
    found = call()
    print(text(found, color=colored(sys.stdout), width=columns(sys.stdout)), flush=True)
    return found


def table(found: list[Measured]) -> str:
    """A line for each model: what it takes, and how far its results are off."""
    rows = [("", "IREE", "with kernels", "", "replaced", "off from f64", "IREE's own")]
    for each in found:
        (whole,), (numbers,) = each.bench.whole, each.verified.whole if each.verified is not None else ()
        pair = whole.against("IREE")
        offs = ("" if off is None else f"{off:.0e}" for off in (numbers.off, numbers.reference_off))
        times = (time_text(whole.median(side)) for side in whole.seconds)
        ratio = ratio_text(pair) if pair is not None else ""
        rows.append((each.title.partition(":")[0], *times, ratio, str(len(each.bench.report.replacements)), *offs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def with_weights(text: str, inputs: int) -> str:
    """A model with its arguments as constants, but for the first ones."""
    random = np.random.default_rng(0)
    found = re.search(r"@main\((?P<arguments>.*?)\) -> .*?\{\n", text)
    assert found is not None, "the models have one function"
    arguments = re.findall(r"%(arg\d+): (!torch\.vtensor<\[([\d,]*)\],(\w+)>)", found["arguments"])
    constants = ""
    for name, kind, sizes, element in arguments[inputs:]:
        value = weight(random, tuple(map(int, sizes.split(","))), element)
        shape = "x".join([*sizes.split(","), element])
        constants += f'%{name} = torch.vtensor.literal(dense<"0x{value.tobytes().hex()}"> : tensor<{shape}>) : {kind}\n'
    head = found[0].replace(found["arguments"], ", ".join(f"%{name}: {kind}" for name, kind, *_ in arguments[:inputs]))
    return text.replace(found[0], head + constants)


def weight(random: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Numbers as training leaves them: products keep the size of their inputs, gains and variances are positive."""
    if element == "si8":
        return random.integers(-127, 128, shape, dtype=np.int8)
    if len(shape) == 1:
        return random.uniform(LITTLE, 1 + LITTLE, shape).astype(np.float32)
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())

"""The kernels of `kernels/` on layers and models, beside IREE's own code and onnxruntime.

    python -m benchmarks.models [NAME ...] [--rounds 30] [--threads 1]

One process, one thread, float32 unless a name says otherwise, random weights. Times are medians of the thread's, which
other work on the machine changes little, taken in turn. Errors are the largest distance from onnxruntime's result, as a
part of its largest number.

With more threads times are those of a clock, so the machine should be idle: IREE runs on `local-task` with so many
workers. A pause lets the threads of the other sides, which wait in loops, go to sleep. Calls that are not counted then
wake this side's: a core that sleeps may take 4 ms to wake up.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

import opsplice
from benchmarks.calling import CPU
from benchmarks.programs.onnx_models import MODELS, Model
from opsplice.measuring.timing.paired import turned
from opsplice.runtime.runtime_devices import limit_threads

SPEC = "opsplice_kernels"
# With several threads: for how many seconds a side rests, and then calls without being timed.
_PAUSE = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; all without a name")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="what was replaced")
    given = parser.parse_args()
    limit_threads(given.threads)
    chosen = {name: make for name, make in MODELS.items() if not given.names or name in given.names}
    print(
        "| workload | onnxruntime | IREE | opsplice_kernels | against onnxruntime | against IREE | error | replaced |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, make in chosen.items():
        print(row(name, make(), given.rounds, given.verbose, given.threads), flush=True)


def row(name: str, model: Model, rounds: int, verbose: bool, threads: int = 1) -> str:
    """One line of the table: milliseconds of each side, our time as a part of theirs."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model.proto.SerializeToString())
        theirs = onnxruntime_call(file, model.inputs, threads)
        plain = opsplice.compile(file, flags=[CPU])
        ours = opsplice.compile(file, [SPEC], flags=[CPU])
    if verbose:
        print(ours.report)
    # Each with a copy of its own: what another has just read is in the cache.
    sides = [
        theirs,
        *(direct_call(each, [aligned(value) for value in model.inputs.values()], threads) for each in (plain, ours)),
    ]
    wanted, _, got = (np.asarray(side(), np.float64) for side in sides)
    error = np.abs(wanted - got).max() / np.abs(wanted).max()
    onnx, iree, own = (statistics.median(found) * 1e3 for found in in_turn(sides, rounds, threads))
    replaced = sum(not each.lost for each in ours.report.replacements)
    return (
        f"| {name} | {onnx:.3f} ms | {iree:.3f} ms | {own:.3f} ms | {own / onnx:.2f} | {own / iree:.2f} "
        f"| {error:.0e} | {replaced} |"
    )


def direct_call(program: opsplice.Program, inputs: Sequence[np.ndarray], threads: int) -> Callable[[], np.ndarray]:
    """A program of one function that is called with the same inputs each time, which it does not copy."""
    (function,) = (each for each in program.functions if not each.endswith("$async"))
    direct = program.direct(function, device="local-sync" if threads == 1 else "local-task")
    return lambda: np.asarray(direct(inputs)[0])


def aligned(value: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 64 bytes, as tensors of frameworks do: programs read it where it is."""
    memory = np.empty(value.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def onnxruntime_call(file: Path, inputs: dict[str, np.ndarray], threads: int) -> Callable[[], np.ndarray]:
    """A session that is called with the same inputs each time, which it does not copy."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    (result,) = session.get_outputs()
    binding.bind_output(result.name)

    def run() -> np.ndarray:
        session.run_with_iobinding(binding)
        return np.asarray(binding.get_outputs()[0].numpy())

    return run


def in_turn(sides: Sequence[Callable[[], object]], rounds: int, threads: int) -> list[list[float]]:
    taken: list[list[float]] = [[] for _ in sides]
    clock = time.thread_time if threads == 1 else time.perf_counter
    for number in range(rounds + 3):
        for side, found in turned(zip(sides, taken, strict=True), number):
            if threads > 1:
                time.sleep(_PAUSE)
                awake = time.perf_counter() + _PAUSE
                while time.perf_counter() < awake:
                    side()
            start = clock()
            side()
            if number >= 3:
                found.append(clock() - start)
    return taken


if __name__ == "__main__":
    main()

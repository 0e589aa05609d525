"""The kernels of `kernels/` on models of PyTorch, beside onnxruntime and torch.compile's own code (inductor).

    python -m benchmarks.beside_inductor [NAME ...] [--rounds 30]

One process, one thread, float32, random weights: those of `benchmarks.programs.torch_models`. Times are medians of the
thread's, taken in turn; parts are medians of the rounds' ratios. Errors are the largest distance from PyTorch in f64,
as a part of its largest number. Models that PyTorch exports to ONNX only by way of onnxscript, which is not installed
here, have no number of onnxruntime's.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

import opsplice.torch
from benchmarks.calling import CPU
from benchmarks.models import SPEC, aligned, direct_call, in_turn, onnxruntime_call
from benchmarks.programs.torch_models import MODELS, Made
from opsplice.runtime.runtime_devices import limit_threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models; all without a name")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    limit_threads(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    warnings.simplefilter("ignore")
    torch._C._jit_set_onnx_log_output_stream("stderr")  # of graphs that the exporter does not take
    print("| model | opsplice_kernels | inductor | onnxruntime | against inductor | against onnxruntime | error |")
    print("|---|---|---|---|---|---|---|")
    for name, make in MODELS.items():
        if not given.names or name in given.names:
            torch.manual_seed(1)
            print(row(name, make(), given.rounds), flush=True)


def row(name: str, made: Made, rounds: int) -> str:
    """One line of the table: milliseconds of each side, our time as a part of theirs."""
    model, given = made[0].eval(), made[1]
    inputs = [aligned(each.numpy()) for each in given]
    sides = [_ours(model, given, inputs), _inductor(model, given)]
    with contextlib.suppress(torch.onnx.errors.UnsupportedOperatorError):
        sides.append(_onnxruntime(model, given, inputs))
    wanted = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in given)).numpy()
    got = np.asarray(sides[0](), np.float64)
    error = np.abs(got - wanted).max() / np.abs(wanted).max()
    own, *others = in_turn(sides, rounds, 1)
    times = [f"{statistics.median(each) * 1e3:.3f} ms" for each in (own, *others)]
    parts = [f"{statistics.median(a / b for a, b in zip(own, other, strict=True)):.2f}" for other in others]
    missing = [""] * (2 - len(others))
    return f"| {' | '.join([name, *times, *missing, *parts, *missing])} | {error:.0e} |"


def _onnxruntime(
    model: torch.nn.Module, given: tuple[torch.Tensor, ...], inputs: Sequence[np.ndarray]
) -> Callable[[], np.ndarray]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        names = [f"input{number}" for number in range(len(given))]
        torch.onnx.export(model, given, str(file), dynamo=False, input_names=names, opset_version=18)
        return onnxruntime_call(file, dict(zip(names, inputs, strict=True)), 1)


def _inductor(model: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> Callable[[], torch.Tensor]:
    call = torch.compile(model)
    call(*given)
    return lambda: call(*given)


def _ours(
    model: torch.nn.Module, given: tuple[torch.Tensor, ...], inputs: Sequence[np.ndarray]
) -> Callable[[], np.ndarray]:
    return direct_call(opsplice.torch.export(model, given, specs=[SPEC], flags=[CPU]), inputs, 1)


if __name__ == "__main__":
    main()

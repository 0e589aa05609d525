"""What a call through torch.compile costs beside the same graph run by PyTorch itself (aot_eager).

    python -m benchmarks.torch_calls

Graphs are so small that the call is what takes the time: thread CPU time in microseconds, the least of many calls, the
two sides in turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from torch import nn

CALLS, ROUNDS = 100, 60
FLAGS = ["--iree-llvmcpu-target-cpu=host"]


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


MODELS = {
    "one input, one op": Double(),
    "a linear layer, 2 weights": nn.Linear(64, 64),
    "50 linear layers, 100 weights": nn.Sequential(*(nn.Linear(64, 64) for _ in range(50))),
}


def main() -> None:
    torch.set_num_threads(1)
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; us of thread CPU time for a call, least of {ROUNDS}"
    )
    sides = ("eager", "aot_eager", "local-sync", "local-task")
    print(f"{'':30}" + "".join(f"{side:>12}" for side in sides) + f"{'above aot_eager':>18}")
    with torch.no_grad():
        for name, model in MODELS.items():
            x = torch.rand(1, 64)
            taken = least([call_of(model, side, x) for side in sides], x)
            print(
                f"{name:30}" + "".join(f"{each:12.1f}" for each in taken) + f"{taken[2] - taken[1]:18.1f}", flush=True
            )


def call_of(model: nn.Module, side: str, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    torch._dynamo.reset()
    if side == "eager":
        return model
    if side == "aot_eager":
        call = torch.compile(model, backend=side)
    else:
        call = torch.compile(model, backend="opsplice", options={"device": side, "flags": FLAGS})
    torch.testing.assert_close(call(x), model(x))
    return call


def least(calls: list[Callable[[torch.Tensor], torch.Tensor]], x: torch.Tensor) -> list[float]:
    """Microseconds for each, taken in turn."""
    found = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            start = time.thread_time()
            for _ in range(CALLS):
                call(x)
            found[number] = min(found[number], (time.thread_time() - start) / CALLS * 1e6)
    return found


if __name__ == "__main__":
    main()
